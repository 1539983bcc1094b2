# SPDX-License-Identifier: Apache-2.0
"""Gradients, Jacobians, and adapters to torch and JAX."""
