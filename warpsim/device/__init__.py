"""Copies of the device code, launches, replay and records."""
