# SPDX-License-Identifier: Apache-2.0
"""Cone programs by an interior-point method."""
