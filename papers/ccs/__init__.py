# SPDX-License-Identifier: Apache-2.0
"""Drumwright, *An Unconditionally Stable First-Order Constraint Solver for Multibody Systems*: programs, figures, tables."""
