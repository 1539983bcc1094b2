# SPDX-License-Identifier: Apache-2.0
"""Boxed LCPs and rigid contact."""
