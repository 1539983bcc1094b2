# SPDX-License-Identifier: Apache-2.0
"""Functions of a row by its kind: a chain of closures generated from the registry of kinds. Their derivatives come from
`wp.grad`.

An unknown kind, and a kind without the requested function, gets NaN. The NaN reaches v̂ and raises the flag NONFINITE.
"""

import warp as wp

from ..laws.bounds import box_impulse
from ..real import func, real, vec4, vec6
from ..tree import spatial as sp
from . import kinds
from .kinds.kind import BETWEEN, ON_JOINTS, Kind
from .table import Coordinates, FrameMotion, Frames, RowGeometry, RowState


def dispatcher(functions: dict, Given, Found, unknown):
    """A device function (kind, Given) → Found that calls the entry of `functions` for the kind.

    `Given` is one struct with all that the functions read. With the tables as arguments of the whole chain, adjoints
    would take twice as long to compile. A loop over the functions with `wp.static` would also do, but Warp does not
    hash its functions into the module.
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
    """Whether bit `kind` of the mask is set; False for a number that is no kind."""
    return kind >= 0 and kind < wp.static(len(kinds.NAMES)) and ((mask >> kind) & 1) != 0


def of(name: str, among=lambda kind: True) -> dict:
    """By kind name, the function called `name` of all kinds that have one."""
    return {key: getattr(kind, name) for key, kind in kinds.KINDS.items() if among(kind) and getattr(kind, name)}


def between(kind: Kind) -> bool:
    """Whether a kind measures between two frames."""
    return kind.traits & int(BETWEEN) != 0


def on_coordinates(kind: Kind) -> bool:
    """Whether a kind measures coordinates."""
    return not between(kind)


def of_joints(kind: Kind) -> bool:
    """Whether joints can have rows of this kind."""
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
    """A device function for γ of a row as a function of its state, from its law."""

    @func
    def impulse(s: RowState) -> real:
        found = law(s)
        v_hat = found[1]
        if s.touch == 1:
            v_hat = real(0.0)
        return box_impulse((v_hat - s.rate) / found[0], found[2], found[3])

    return impulse


def slopes_of(impulse):
    """A device function for ∂γ/∂x with respect to every number x of the row's state."""

    @func
    def slopes(s: RowState) -> RowState:
        return wp.grad(impulse)(s)

    return slopes


def axis_slope_of(geometry_of):
    """A device function for ∂(a · m)/∂(twist of B about its own origin), for a row's axis a and a motion m."""

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
    """`make` applied to the function of every kind; once per function, even if several kinds share it."""
    made = {f: make(f) for f in functions.values()}
    return {name: made[f] for name, f in functions.items()}


impulses = made_of(of("law"), impulse_of)
row_impulse = dispatcher(impulses, RowState, real, not_known)
row_slopes = dispatcher(made_of(impulses, slopes_of), RowState, RowState, no_slopes)
axis_slope = dispatcher(made_of(of("geometry"), axis_slope_of), FrameMotion, vec6, no_vec6)
