"""Cone programs and compliant contact."""
