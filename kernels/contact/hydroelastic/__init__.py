# SPDX-License-Identifier: Apache-2.0
"""Hydroelastic contact: pressure fields of soft geoms, the polygons in which they meet, and the contact points that stand for them."""
