# SPDX-License-Identifier: Apache-2.0
"""Streamed stores of trajectories."""
