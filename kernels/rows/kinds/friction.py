"""Dry friction of a joint or tendon: v_c = ẋ, R = σ w, v̂ = 0, |γ| ≤ h e."""

from ...real import func, real, vec3, vec4
from ..table import Constants, Coordinates, RowState, Table, dry_friction
from .kind import ON_JOINTS, WEIGHED, YIELDS, Kind


@func
def measure(table: Table, constants: Constants, at: Coordinates, w: int, k: int) -> vec4:
    """x itself, which the law does not read."""
    return vec4(at.x, real(1.0), real(0.0), real(0.0))


@func
def law(table: Table, constants: Constants, s: RowState, w: int, k: int) -> vec4:
    """(R, v̂, lower, upper); no row without friction."""
    bound = s.h * dry_friction(table, constants, w, k)
    R = real(0.0)
    if bound > real(0.0):
        R = s.sigma * s.weight
    return vec4(R, real(0.0), -bound, bound)


@func
def law_slopes(table: Table, constants: Constants, s: RowState, w: int, k: int) -> vec3:
    """(∂v̂/∂φ, ∂R/∂w, ∂R/∂φ)."""
    return vec3(real(0.0), s.sigma, real(0.0))


KIND = Kind(YIELDS | WEIGHED | ON_JOINTS, law, law_slopes, measure=measure)
