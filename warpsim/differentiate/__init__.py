"""Gradients, Jacobians, and adapters to torch and JAX."""
