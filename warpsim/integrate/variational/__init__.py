"""The variational integrator."""
