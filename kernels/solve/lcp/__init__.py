# SPDX-License-Identifier: Apache-2.0
"""Boxed linear complementarity problems."""
