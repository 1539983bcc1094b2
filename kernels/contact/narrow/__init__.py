# SPDX-License-Identifier: Apache-2.0
"""Narrow phase: the features with which two shapes touch, and the distance, point and normal of each contact."""
