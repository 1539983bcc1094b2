# SPDX-License-Identifier: Apache-2.0
"""The law of contact: the impulse γ of one contact as a function of all that it depends on (theory §3.1, §3.6).

    c, τ_d, μ of a pair   →   R, v̂   →   γ of the convex law (`cone.py`) or of Coulomb's (`coulomb.py`)

A step takes μ, R and v̂ from here, the tape runs the adjoint of `impulse_at`, and `linearize` takes its slopes. To add
a quantity to a law, add a field to `ContactState` and fill it in `pair_laws.contact_state`; its derivatives follow.
"""

import warp as wp

from ..real import func, real, struct, vec2, vec3
from . import cone, coulomb

RULE_FIRST = wp.constant(1)
RULE_SECOND = wp.constant(2)
RULE_HARMONIC = wp.constant(3)
RULE_FRICTIONLESS = wp.constant(4)
RULE_EXPLICIT = wp.constant(5)
FREE = wp.constant(0)  # the law of a step
CLOSED = wp.constant(1)  # touches after an impact: v_n ≥ 0 whatever φ is
STRUCK = wp.constant(2)  # takes part in an impact: v_n ≥ 0 or −e v_n
AWAY = wp.constant(3)  # does not act
NEVER = -1e6  # [m/s] v̂ of contacts that do not act
LEAST_FRICTION = 1e-30  # μ in slopes of a contact with μ = 0: too small to matter
LEAST_SLIP = 1e-15  # [m/s] from this slip on a contact with that μ slides; its square is not 0 in float32
# At larger (v/v_s)² friction is the dynamic one: exp(−(v/v_s)²) is negligible, and its derivatives are not finite.
FAST_SLIP = 80.0


@struct
class LawOptions:
    """Options that are the same for all contacts of a step."""

    h: real
    beta: real
    sigma: real
    tau_share: real  # the default of τ_d is this times h/π
    rigid: real  # [N/m] stiffness of contacts without one; 0: they are near-rigid, by β and w
    softness: real  # factor of R in an impact
    fast: real  # [m/s] speed above which contacts rebound
    coulomb: int  # 1: Coulomb's law, 0: the convex one
    counts: int  # 1: near-rigid contact stiffens with its load (Coulomb's law only)


@struct
class PairFriction:
    """The numbers from which μ of a contact is computed."""

    rule: int
    mu: real  # the pair's μ, for RULE_EXPLICIT
    a: real  # μ of geom A
    b: real  # μ of geom B
    slides: int  # 1: μ of the geoms depends on the sliding speed (Stribeck's law); read by `sliding_friction_of` only
    dynamic: vec2  # μ_d of the geoms A and B; NaN: none
    velocity: vec2  # [m/s] v_s of the geoms A and B
    rate: vec3  # [m/s] v_c at the velocity with which the step begins


@struct
class ContactState:
    """Inputs of the law of one contact."""

    options: LawOptions
    friction: PairFriction
    stiffness: vec2  # [N/m] of the geoms A and B
    dissipation_time: vec2  # [s] of the geoms A and B; NaN: the default
    is_field: int  # 1: hydroelastic contact, with its (c, τ_d) in `compliance`
    compliance: vec2  # (c, τ_d), read if `is_field` is 1
    recovery: real  # [m/s] v_r of near-rigid contact
    phi: real
    weight: real  # w
    v_c: vec3
    touch: int  # FREE, or what the contact does in an impact within the step
    restitution: real  # e, read if it is STRUCK or FREE; 0 in steps that resolve no impacts
    rate0: real  # [m/s] v_n before the impact, or as the step begins, likewise
    bend: real  # [m/s] hκ, the change of v_n within the step at constant v
    shift: vec3  # [m/s] added to v̂ of a contact that an impact concerns, see `yield_of`
    gravity: vec3  # read by Coulomb's law only
    mass: real  # [kg] of the world; read by Coulomb's law only


@func
def pair_coefficient(rule: int, a: real, b: real, explicit: real) -> real:
    """Coefficient of a pair from those of its two geoms by the pair's rule; any other rule takes the larger one.

    The result is 0 if both are 0, except for RULE_EXPLICIT.
    """
    found = wp.max(a, b)
    if rule == RULE_FIRST:
        found = a
    elif rule == RULE_SECOND:
        found = b
    elif rule == RULE_HARMONIC:
        found = real(0.0)
        if a + b > real(0.0):
            found = real(2.0) * a * b / (a + b)
    elif rule == RULE_FRICTIONLESS:
        found = real(0.0)
    elif rule == RULE_EXPLICIT:
        found = explicit
    return found


@func
def friction_of(pair: PairFriction) -> real:
    """μ of a contact, for all solvers; that at rest where it depends on the sliding speed."""
    return pair_coefficient(pair.rule, pair.a, pair.b, pair.mu)


@func
def friction_at(static: real, dynamic: real, velocity: real, rate: vec3) -> real:
    """μ of a geom at a contact with the relative velocity `rate` [m/s], in the contact frame (theory §3.1)."""
    mu = static
    if dynamic == dynamic:
        mu = dynamic
        if rate[0] * rate[0] + rate[1] * rate[1] <= real(FAST_SLIP) * velocity * velocity:
            x = vec2(rate[0] / velocity, rate[1] / velocity)
            mu = dynamic + (static - dynamic) * wp.exp(-wp.dot(x, x))
    return mu


@func
def sliding_friction_of(pair: PairFriction) -> real:
    """μ of a contact, where it may depend on the sliding speed: the pair's rule applied to μ of its two geoms.

    A pair with RULE_EXPLICIT keeps its constant μ, and a pair without friction at rest stays without.
    """
    mu = friction_of(pair)
    if pair.slides == 1 and mu > real(0.0) and pair.rule != RULE_EXPLICIT:
        a = friction_at(pair.a, pair.dynamic[0], pair.velocity[0], pair.rate)
        b = friction_at(pair.b, pair.dynamic[1], pair.velocity[1], pair.rate)
        mu = pair_coefficient(pair.rule, a, b, real(0.0))
    return mu


@func
def pair_compliance(stiffness: vec2, dissipation_time: vec2, default_tau: real) -> vec2:
    """(c, τ_d) of a pair: c = cA + cB, τ_d the mean weighted by compliance (plain when c = 0); c = 1/k."""
    c_a = real(1.0) / stiffness[0]
    c_b = real(1.0) / stiffness[1]
    tau_a = cone.time_or(dissipation_time[0], default_tau)
    tau_b = cone.time_or(dissipation_time[1], default_tau)
    tau = real(0.5) * (tau_a + tau_b)
    c = c_a + c_b
    if c > real(0.0):
        tau = (c_a * tau_a + c_b * tau_b) / c
    return vec2(c, tau)


@func
def compliance_of(s: ContactState) -> vec2:
    """(c, τ_d) of a contact; c = 0: no stiffness is given."""
    law = s.compliance
    if s.is_field == 0:
        law = pair_compliance(s.stiffness, s.dissipation_time, s.options.tau_share * s.options.h / real(wp.pi))
    return law


@func
def pair_recovery(speed: real, compliance: real) -> real:
    """Recovery speed: `speed` for near-rigid contact, infinite (no limit) for contact with a given stiffness."""
    recovery = speed
    if compliance > real(0.0):
        recovery = real(wp.inf)
    return recovery


@func
def regularised(s: ContactState):
    """R and v̂ of a contact."""
    o = s.options
    law = compliance_of(s)
    c = law[0]
    if c == real(0.0) and o.rigid > real(0.0):
        c = real(1.0) / o.rigid
    R = cone.contact_regularization(s.weight, s.phi, c, law[1], o.h, o.beta, o.sigma)
    v_hat = cone.contact_stabilization(s.phi, law[1], o.h)
    recovery = pair_recovery(s.recovery, law[0])
    R = cone.recovery_regularization(R, v_hat, recovery)
    v_hat = cone.recovery_stabilization(v_hat, recovery)
    if s.touch != FREE:
        v_hat = s.shift + vec3(real(0.0), real(0.0), target_of(s))
        if s.touch == STRUCK:
            R = o.softness * R
    elif law[0] == real(0.0):  # touches as the step begins: what is open and fast does not act
        back = rebound_of(s.restitution, s.rate0, o.fast)
        if back > real(0.0):
            v_hat = vec3(v_hat[0], v_hat[1], wp.max(v_hat[2], back))
            R = o.softness * R
    return R, v_hat - vec3(real(0.0), real(0.0), s.bend)


@func
def target_of(s: ContactState) -> real:
    """v̂_n of a contact that an impact within the step concerns."""
    target = real(0.0)
    if s.touch == STRUCK:
        target = rebound_of(s.restitution, s.rate0, s.options.fast)
    elif s.touch == AWAY:
        target = real(NEVER)
    return target


@func
def rebound_of(e: real, rate0: real, fast: real) -> real:
    """v_n after an impact with the rate v_n = `rate0`: −e v_n, 0 for what is slower than `fast`."""
    after = -e * rate0
    if not (after > fast):
        after = real(0.0)
    return after


@func
def load_of(s: ContactState) -> vec2:
    """(γ_0, σ_m) of a contact under Coulomb's law."""
    least = real(1.0)
    if s.options.counts == 1:
        least = coulomb.least_share(compliance_of(s)[0], s.weight, s.mass)
        if s.touch == STRUCK:  # R is small already
            least = wp.max(least, s.options.softness)
    return vec2(coulomb.supported_load(s.gravity, s.options.h, s.weight), least)


@func
def yield_of(gamma: vec3, R: vec3, load: real, least: real) -> vec3:
    """v̂ − v_c of a contact that sticks with the impulse γ: what R lets it yield."""
    return vec3(R[0] * gamma[0], R[1] * gamma[1], coulomb.compression(gamma[2], R[2], load, least))


@func
def yield_at(s: ContactState, gamma: vec3) -> vec3:
    """`yield_of` a contact with the impulse γ."""
    R, _v_hat = regularised(s)
    load = vec2(real(0.0), real(1.0))
    if s.options.coulomb == 1:
        load = load_of(s)
    return yield_of(gamma, R, load[0], load[1])


@func
def impulse_at(s: ContactState, mu: real) -> vec3:
    """γ of a contact with the given μ."""
    R, v_hat = regularised(s)
    gamma = vec3()
    if s.options.coulomb == 1:
        load = load_of(s)
        gamma = coulomb.coulomb_impulse(s.v_c - v_hat, R, mu, load[0], load[1])
    else:
        gamma = cone.cone_impulse(cone.cone_y(s.v_c, v_hat, R), R, mu)
    return gamma


@func
def impulse_along(s: ContactState, e: vec3) -> real:
    """e · γ. A contact with μ = 0 that slips has the derivative with respect to μ of a sliding contact."""
    mu = sliding_friction_of(s.friction)
    if mu == real(0.0) and s.v_c[0] * s.v_c[0] + s.v_c[1] * s.v_c[1] > real(LEAST_SLIP * LEAST_SLIP):
        mu = mu + real(LEAST_FRICTION)
    return wp.dot(impulse_at(s, mu), e)


@func
def slopes_along(s: ContactState, e: vec3) -> ContactState:
    """∂(e · γ)/∂x for every number x of the state."""
    by_state, _e = wp.grad(impulse_along)(s, e)
    return by_state
