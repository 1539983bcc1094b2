# SPDX-License-Identifier: Apache-2.0
"""Hydroelastic contact: pressure fields of soft geoms, the polygons where they meet, and contact points of these."""
