# SPDX-License-Identifier: Apache-2.0
"""Optimizers over worlds: iLQR, sampling MPC and identification, on rollouts and Jacobians of a `Simulator`.

See docs/optimisers.md, docs/sampling.md and docs/identification.md.
"""
