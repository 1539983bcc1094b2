# SPDX-License-Identifier: Apache-2.0
"""Cone programs and compliant contact."""
