# SPDX-License-Identifier: Apache-2.0
"""Host side of hydroelastic contact: tables on the device, launches, and contact patches for display."""
