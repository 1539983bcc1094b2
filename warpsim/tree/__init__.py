# SPDX-License-Identifier: Apache-2.0
"""Host side of the motion of trees."""
