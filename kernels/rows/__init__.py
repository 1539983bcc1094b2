# SPDX-License-Identifier: Apache-2.0
"""Scalar rows: stops, dry friction, constraints, tendons, servos."""
