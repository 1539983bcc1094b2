# SPDX-License-Identifier: Apache-2.0
"""Numbers that carry a rate of change: forward-mode derivatives of device code."""
