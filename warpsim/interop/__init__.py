"""Other frameworks: PyTorch, JAX and SciPy. Each module loads its framework; `import warpsim` loads none of them."""
