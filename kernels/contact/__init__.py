# SPDX-License-Identifier: Apache-2.0
"""Contacts: pairs of geoms that may touch, contact points, Jacobians."""
