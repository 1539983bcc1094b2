"""Device code: Warp functions and kernels, one module per method, built per scalar type by cached factories."""
