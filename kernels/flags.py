# SPDX-License-Identifier: Apache-2.0
"""The sticky flags of a world, bits of `diagnostics.flags`; see docs/step.md."""

import warp as wp

NONFINITE: int = wp.constant(1)  # the world stays at its last finite state
NOT_CONVERGED: int = wp.constant(2)
CONTACT_OVERFLOW: int = wp.constant(4)
UNRESOLVED: int = wp.constant(8)
DEEP_PRESSURE: int = wp.constant(16)  # pressure fields overlap by more than half of their depth
NOT_HELD: int = wp.constant(32)  # a constraint is violated and does not close
ENERGY_GAIN: int = wp.constant(64)  # a tree gains energy without work
