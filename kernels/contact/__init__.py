"""Contacts: which pairs, where they touch, their Jacobians."""
