# SPDX-License-Identifier: Apache-2.0
"""Functions of a row by its kind, generated from the registry of kinds: a chain of closures.

A kind without the function asked for, and one that is not in the registry, gets numbers that are none: they reach v̂ and end in the
flag of a world that is not finite.
"""

import warp as wp

from ..real import func, real, vec3, vec4, vec6
from . import kinds
from .kinds.kind import BETWEEN, ON_JOINTS, Kind
from .table import Coordinates, FrameMotion, Frames, RowGeometry, RowState


def dispatcher(functions: dict, Given, Found, unknown):
    """A device function of (kind, Given) → Found: that of `functions` for the kind.

    `Given` holds all that they read: the tables, passed down the chain, would take adjoints twice as long to compile. A loop over the
    functions with `wp.static` would do as well as a chain, but Warp leaves its functions out of a module's hash.
    """

    @func
    def nothing(kind: int, given: Given) -> Found:
        return unknown()

    def first(one, mask: int, others):
        @func
        def choose(kind: int, given: Given) -> Found:
            if is_among(kind, wp.static(mask)):
                return one(given)
            return others(kind, given)

        return choose

    choose = nothing
    for one in dict.fromkeys(functions.values()):
        choose = first(one, sum(1 << kinds.code(name) for name, f in functions.items() if f is one), choose)
    return choose


@func
def is_among(kind: int, mask: int) -> bool:
    """Whether bit `kind` of the mask is set; a number that no kind has is in none."""
    return kind >= 0 and kind < wp.static(len(kinds.NAMES)) and ((mask >> kind) & 1) != 0


def of(name: str, among=lambda kind: True) -> dict:
    """The functions called `name` of the kinds that have one, by kind."""
    return {key: getattr(kind, name) for key, kind in kinds.KINDS.items() if among(kind) and getattr(kind, name)}


def between(kind: Kind) -> bool:
    """Whether a kind measures between two frames."""
    return kind.traits & int(BETWEEN) != 0


def on_coordinates(kind: Kind) -> bool:
    """Whether a kind measures coordinates."""
    return not between(kind)


def of_joints(kind: Kind) -> bool:
    """Whether joints have rows of a kind."""
    return kind.traits & int(ON_JOINTS) != 0


@func
def no_vec3() -> vec3:
    return vec3(real(wp.nan), real(wp.nan), real(wp.nan))


@func
def no_measure() -> vec4:
    return vec4(real(wp.nan), real(wp.nan), real(wp.nan), real(wp.nan))


@func
def no_law() -> vec4:
    return vec4(real(1.0), real(wp.nan), real(-wp.inf), real(wp.inf))


@func
def no_vec6() -> vec6:
    x = real(wp.nan)
    return vec6(x, x, x, x, x, x)


@func
def no_geometry() -> RowGeometry:
    row = RowGeometry()
    row.phi = real(wp.nan)
    row.axis = no_vec6()
    return row


geometry = dispatcher(of("geometry"), Frames, RowGeometry, no_geometry)
axis_change = dispatcher(of("axis_change"), FrameMotion, vec6, no_vec6)
measure = dispatcher(of("measure"), Coordinates, vec4, no_measure)
row_law = dispatcher(of("law"), RowState, vec4, no_law)
frame_law = dispatcher(of("law", between), RowState, vec4, no_law)
coordinate_law = dispatcher(of("law", on_coordinates), RowState, vec4, no_law)
law_slopes = dispatcher(of("law_slopes"), RowState, vec3, no_vec3)
joint_measure = dispatcher(of("measure", of_joints), Coordinates, vec4, no_measure)
joint_law = dispatcher(of("law", of_joints), RowState, vec4, no_law)
