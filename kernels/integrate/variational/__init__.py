"""The linear-time variational integrator."""
