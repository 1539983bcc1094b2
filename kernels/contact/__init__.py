# SPDX-License-Identifier: Apache-2.0
"""Contacts: which pairs, where they touch, their Jacobians."""
