# SPDX-License-Identifier: Apache-2.0
"""Werling, Exarchos, Omens and Liu, *Fast and Feature-Complete Differentiable Physics for Articulated Rigid Bodies*."""
