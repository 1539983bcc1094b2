"""Cone programs by an interior point."""
