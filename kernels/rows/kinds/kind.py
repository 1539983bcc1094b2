# SPDX-License-Identifier: Apache-2.0
"""What a kind of row declares: its properties and its device functions.

geometry(Frames) → RowGeometry   rows between two frames: φ and axis
measure(Coordinates) → vec4      rows on coordinates: φ, ∂φ/∂x, ∂φ/∂y, ∂²φ/∂y²
law(RowState) → vec4             (R, v̂, lower, upper); R = 0: the row does not act

`dispatch.py` generates their derivatives.
"""

import typing

import warp as wp

# Properties, as bits of `Table.traits`.
BETWEEN = wp.constant(1)  # measures between two frames; otherwise coordinates
ANGULAR = wp.constant(2)  # row between frames: measures only an angle
ONE_SIDED = wp.constant(4)  # a stop: counts only if it may act within the step; its constant is the bound
YIELDS = wp.constant(16)  # its constant is the bound of the force
WEIGHED = wp.constant(32)  # its R may be a multiple of w: a row on coordinates is left out if w = 0
PAIRED = wp.constant(64)  # measures two sums of coordinates, x and y
ON_JOINTS = wp.constant(128)  # joints may have it, see `coordinate_rows.fill_joints`
PERIODIC = wp.constant(256)  # row between frames: φ is defined up to whole multiples of its constant
ON_LINES = wp.constant(512)  # a property of one row, not of a kind: measures the length of a line, see `line_rows.py`
ELSEWHERE = wp.constant(BETWEEN | ON_LINES)  # rows that `coordinate_rows.py` skips


class Kind(typing.NamedTuple):
    """A kind of row.

    `radial`: its axis is `side` times the direction from A's origin to B's, (p_B − p_A)/‖p_B − p_A‖. Its lever L of
    (10.9) and the inertia of (10.10) then count the turning of this direction. False for any other axis. No check finds
    a wrong value.
    """

    traits: int
    law: typing.Any
    geometry: typing.Any = None
    measure: typing.Any = None
    radial: bool = False
