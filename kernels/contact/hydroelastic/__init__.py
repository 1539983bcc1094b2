# SPDX-License-Identifier: Apache-2.0
"""Hydroelastic contact: pressure fields of soft geoms, polygons where they meet, and contact points for these."""
