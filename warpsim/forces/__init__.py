# SPDX-License-Identifier: Apache-2.0
"""Host side of actuators and lines (spatial tendons, actuators on sites and cranks)."""
