# SPDX-License-Identifier: Apache-2.0
"""Optimisers over worlds: iLQR, sampling MPC and identification, on rollouts and Jacobians of a `Simulator` (docs/optimisers.md)."""
