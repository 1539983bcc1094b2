# SPDX-License-Identifier: Apache-2.0
"""What a kind of row declares: its properties and its device functions, all of the same few signatures.

geometry(Frames) → RowGeometry   of a row between two frames: φ and axis
measure(Coordinates) → vec4      of a row on coordinates: φ, ∂φ/∂x, ∂φ/∂y, ∂²φ/∂y²
law(RowState) → vec4             (R, v̂, lower, upper); R = 0: no row

Their slopes are generated from them (`dispatch.py`).
"""

import typing

import warp as wp

# Properties, as bits of `Table.traits`.
BETWEEN = wp.constant(1)  # measures between two frames, else coordinates
ANGULAR = wp.constant(2)  # of a row between frames: measures an angle alone
ONE_SIDED = wp.constant(4)  # a stop, which counts where it may act within the step; its constant is the bound
YIELDS = wp.constant(16)  # its constant is the bound of the force
WEIGHED = wp.constant(32)  # counts only where it moves something: its R may be proportional to w
PAIRED = wp.constant(64)  # measures two sums of coordinates, x and y
ON_JOINTS = wp.constant(128)  # what joints have, see `coordinate_rows.fill_joints`
PERIODIC = wp.constant(256)  # of a row between frames: φ is known less whole multiples of its constant
ON_LINES = wp.constant(512)  # of a single row: measures the length of a line, see `line_rows.py`
ELSEWHERE = wp.constant(513)  # BETWEEN or ON_LINES: what `coordinate_rows.py` leaves to others


class Kind(typing.NamedTuple):
    """A kind of row. `radial`: its axis turns with its ends."""

    traits: int
    law: typing.Any
    geometry: typing.Any = None
    measure: typing.Any = None
    radial: bool = False
