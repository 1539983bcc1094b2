# SPDX-License-Identifier: Apache-2.0
"""Numbers that carry a rate of change: derivatives of device code from its forward text."""
