"""Boxed linear complementarity problems."""
