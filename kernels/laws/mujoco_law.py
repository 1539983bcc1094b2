# SPDX-License-Identifier: Apache-2.0
"""MuJoCo's constraint law: R and v̂ of a row or contact from its `solref` and `solimp` (theory §3.8).

    a_ref = −b J v0 − k d φ,   R = (1 − d)/d w,   v̂ = J v0 + h a_ref = (1 − h b) J v0 − h k d φ

d(φ) is the impedance, w MuJoCo's approximate inverse mass at q0. With these R and v̂ the convex problem of SAP has
MuJoCo's solution: γ = h `efc_force`.
"""

import warp as wp

from ..real import func, real, struct, vec2, vec3, vec5

LEAST_R = 1e-15  # MuJoCo's mjMINVAL
LEAST_IMPEDANCE = 1e-4
LARGEST_IMPEDANCE = 0.9999
LEAST_FRICTION = 1e-5  # of every direction of a contact with friction
AWAY = 1e6  # [m/s] speed at which a contact without overlap would have to close to act
TIME_CONSTANT = 0.02  # the default solref, which replaces one of mixed format


@func
def reference_at(x: wp.array3d(dtype=real), w: int, i: int) -> vec2:
    """`solref` of element i in world w, from an array (1 or worlds, n, 2)."""
    row = w % x.shape[0]
    return vec2(x[row, i, 0], x[row, i, 1])


@func
def impedance_at(x: wp.array3d(dtype=real), w: int, i: int) -> vec5:
    """`solimp` of element i in world w, from an array (1 or worlds, n, 5)."""
    row = w % x.shape[0]
    return vec5(x[row, i, 0], x[row, i, 1], x[row, i, 2], x[row, i, 3], x[row, i, 4])


@func
def at_least(low: real, x: real) -> real:
    """The larger one; NaN of x stays, so that it is flagged."""
    found = x
    if x < low:
        found = low
    return found


@func
def is_mixed(solref: vec2) -> bool:
    """Whether one number is of the standard format and the other of the direct one; a NaN is neither."""
    finite = solref[0] == solref[0] and solref[1] == solref[1]
    return finite and (solref[0] > real(0.0)) != (solref[1] > real(0.0))


@func
def reference(solref: vec2, h: real, refsafe: int) -> vec2:
    """`solref` in use: (time constant, damping ratio), both positive, or (−stiffness, −damping), neither positive."""
    found = solref
    if is_mixed(solref):
        found = vec2(real(TIME_CONSTANT), real(1.0))
    if refsafe == 1 and found[0] > real(0.0) and found[0] < real(2.0) * h:
        found = vec2(real(2.0) * h, found[1])
    return found


@func
def friction_reference(solref: vec2, h: real, refsafe: int) -> vec2:
    """`solreffriction` in use; (0, 0), also for one of mixed format: the normal's `solref` holds."""
    found = solref
    if is_mixed(solref):
        found = vec2(real(0.0), real(0.0))
    if refsafe == 1 and found[0] > real(0.0) and found[0] < real(2.0) * h:
        found = vec2(real(2.0) * h, found[1])
    return found


@func
def within(x: real) -> real:
    """An impedance within its bounds."""
    found = at_least(real(LEAST_IMPEDANCE), x)
    if found > real(LARGEST_IMPEDANCE):
        found = real(LARGEST_IMPEDANCE)
    return found


@func
def power(x: real, p: real) -> real:
    """x^p for x > 0, exact for p = 2."""
    return x * x * wp.pow(x, p - real(2.0))


@func
def impedance(solimp: vec5, phi: real) -> real:
    """d(φ) of (d_min, d_max, width, midpoint, power)."""
    low = within(solimp[0])
    high = within(solimp[1])
    middle = within(solimp[3])
    p = at_least(real(1.0), solimp[4])
    d = real(0.5) * (low + high)
    if solimp[2] > real(LEAST_R) and low != high:
        x = wp.abs(phi) / solimp[2]
        d = high
        if x <= real(0.0):
            d = low
        elif x < real(1.0):
            y = x
            if p != real(1.0):
                if x <= middle:
                    y = middle * power(x / middle, p)
                else:
                    y = real(1.0) - (real(1.0) - middle) * power((real(1.0) - x) / (real(1.0) - middle), p)
            d = low + y * (high - low)
    return d


@func
def stiffness_damping(solref: vec2, solimp: vec5) -> vec2:
    """(k, b) of a `solref` in use; the reference acceleration is −b J v − k d φ."""
    high = within(solimp[1])
    found = vec2(-solref[0] / (high * high), -solref[1] / high)
    if solref[0] > real(0.0):
        time = high * solref[0]
        ratio = solref[1]
        found = vec2(
            real(1.0) / at_least(real(LEAST_R), time * time * ratio * ratio), real(2.0) / at_least(real(LEAST_R), time)
        )
    return found


@func
def regularization(d: real, weight: real) -> real:
    """R of a row with the impedance d and the approximate inverse mass `weight`."""
    return at_least(real(LEAST_R), (real(1.0) - d) / d * weight)


@struct
class SoftRow:
    """What the law of a scalar row reads: a stop, dry friction, or an equality."""

    solref: vec2
    solimp: vec5
    weight: real  # approximate inverse mass
    phi: real  # distance to the bound, less the margin; 0 for dry friction
    error: real  # argument of the impedance: φ, or the norm of all errors of the constraint
    rate0: real  # J v0
    shift: real  # J̇ v0, for rows between bodies
    h: real
    refsafe: int


@func
def soft_row(s: SoftRow) -> vec2:
    """(R, v̂) of a row."""
    kb = stiffness_damping(reference(s.solref, s.h, s.refsafe), s.solimp)
    d = impedance(s.solimp, s.error)
    v_hat = (real(1.0) - s.h * kb[1]) * s.rate0 - s.h * (kb[0] * d * s.phi + s.shift)
    return vec2(regularization(d, s.weight), v_hat)


@struct
class SoftContact:
    """What the law of a contact reads."""

    solref: vec2
    solreffriction: vec2
    solimp: vec5
    mu: real  # friction along the first tangent, 0 for a contact without friction
    weight: real  # approximate inverse mass of both bodies
    impratio: real
    edges: int  # 1: the cone is a pyramid
    phi: real
    rate0: vec3  # J v0
    spin_rate0: vec3  # of the spin rows
    h: real
    refsafe: int


@func
def soft_contact(s: SoftContact):
    """R, v̂ and v̂ of the spin rows of a contact."""
    ref = reference(s.solref, s.h, s.refsafe)
    kb = stiffness_damping(ref, s.solimp)
    b_t = kb[1]
    d = impedance(s.solimp, s.phi)
    R = regularization(d, s.weight)
    R_t = R / at_least(real(LEAST_R), s.impratio)
    if s.mu != real(0.0):
        if s.edges == 1:
            R = regularization(d, s.weight * (real(1.0) + s.mu * s.mu))
            R = real(2.0) * s.mu * s.mu * R / at_least(real(LEAST_R), s.impratio)
            R_t = R
        else:
            own = friction_reference(s.solreffriction, s.h, s.refsafe)
            if own[0] != real(0.0) or own[1] != real(0.0):
                of_friction = stiffness_damping(own, s.solimp)
                b_t = of_friction[1]
    keep = real(1.0) - s.h * b_t
    normal = (real(1.0) - s.h * kb[1]) * s.rate0[2] - s.h * kb[0] * d * s.phi
    if s.phi >= real(0.0):  # within a gap
        normal = -real(AWAY)
    normal = normal + real(0.0) * (s.mu + s.impratio)  # NaN where these are not finite: cones would take them for 0
    return vec3(R_t, R_t, R), vec3(keep * s.rate0[0], keep * s.rate0[1], normal), keep * s.spin_rate0
