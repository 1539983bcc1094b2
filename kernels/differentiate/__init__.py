# SPDX-License-Identifier: Apache-2.0
"""Derivatives of a step: the residual for tapes, and closed forms."""
