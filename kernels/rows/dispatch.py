# SPDX-License-Identifier: Apache-2.0
"""Functions of a row by its kind, a chain of closures that the registry of kinds generates, and slopes, by `wp.grad`.

A kind without the function asked for, and one that is not in the registry, gets numbers that are none: they reach v̂ and end in the
flag of a world that is not finite.
"""

import warp as wp

from ..laws.bounds import box_impulse
from ..real import func, real, vec4, vec6
from ..tree import spatial as sp
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


@func
def not_known() -> real:
    return real(wp.nan)


@func
def no_slopes() -> RowState:
    return RowState()


geometry = dispatcher(of("geometry"), Frames, RowGeometry, no_geometry)
measure = dispatcher(of("measure"), Coordinates, vec4, no_measure)
frame_law = dispatcher(of("law", between), RowState, vec4, no_law)
coordinate_law = dispatcher(of("law", on_coordinates), RowState, vec4, no_law)
joint_measure = dispatcher(of("measure", of_joints), Coordinates, vec4, no_measure)
joint_law = dispatcher(of("law", of_joints), RowState, vec4, no_law)


def impulse_of(law):
    """γ of a row by its law, from its state."""

    @func
    def impulse(s: RowState) -> real:
        found = law(s)
        return box_impulse((found[1] - s.rate) / found[0], found[2], found[3])

    return impulse


def slopes_of(impulse):
    """∂γ/∂x of every number x of the state."""

    @func
    def slopes(s: RowState) -> RowState:
        return wp.grad(impulse)(s)

    return slopes


def axis_slope_of(geometry_of):
    """∂(a · m)/∂(twist of B about its own origin) of an axis a and a motion m."""

    @func
    def along(X: Frames, twist: vec6, m: vec6) -> real:
        moved = Frames()
        moved.A = X.A
        moved.B = sp.moved(X.B, wp.transform_get_translation(X.B), twist)
        moved.e = X.e
        moved.side = X.side
        moved.c = X.c
        return wp.dot(geometry_of(moved).axis, m)

    @func
    def slope(given: FrameMotion) -> vec6:
        _X, by_twist, _m = wp.grad(along)(given.X, vec6(), given.motion)
        return by_twist

    return slope


def made_of(functions: dict, make) -> dict:
    """`make` of the functions of every kind; of one function that several kinds have, once."""
    made = {f: make(f) for f in functions.values()}
    return {name: made[f] for name, f in functions.items()}


impulses = made_of(of("law"), impulse_of)
row_impulse = dispatcher(impulses, RowState, real, not_known)
row_slopes = dispatcher(made_of(impulses, slopes_of), RowState, RowState, no_slopes)
axis_slope = dispatcher(made_of(of("geometry"), axis_slope_of), FrameMotion, vec6, no_vec6)
