# SPDX-License-Identifier: Apache-2.0
"""Host side of what pulls along lines."""
