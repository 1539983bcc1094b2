# SPDX-License-Identifier: Apache-2.0
"""What contact of two geoms is: the tables of a scene, material, the list of contacts, and SAP's law of R and v̂ (theory §3.1, §3.6)."""

import warp as wp

from ..laws import cone, coulomb
from ..linalg.lanes import lane, lanes
from ..real import func, mat33, real, struct, transform, vec2, vec3, vec5

RULE_FIRST = wp.constant(1)
RULE_SECOND = wp.constant(2)
RULE_HARMONIC = wp.constant(3)
RULE_FRICTIONLESS = wp.constant(4)
RULE_EXPLICIT = wp.constant(5)
# Energy that a contact may take to part at its recovery speed, over that of all mass of the world at it.
RECOVERY_ENERGY = 1.0


@struct
class Scene:
    """Tables shared by all worlds."""

    geom_type: wp.array(dtype=int)
    geom_link: wp.array(dtype=int)  # -1: fixed to the world
    placed: wp.array(dtype=int)  # geoms that take part
    pair_geom: wp.array2d(dtype=int)
    pair_kind: wp.array(dtype=wp.uint8)  # row of `kind_rule` and `kind_margin`, less 256 times
    pair_kind_high: wp.array(dtype=int)  # this; as many rows as the last above 0 has
    kind_rule: wp.array(dtype=int)
    kind_margin: wp.array(dtype=real)  # [m]
    pair_friction: wp.array(dtype=real)  # of RULE_EXPLICIT; as many rows as the last of those has
    geom_reach: wp.array(dtype=real)  # [m] the largest margin of a geom's pairs; 0 of planes
    point_pairs: int  # the pairs up to this one touch at points, the others by pressure fields (`hydroelastic/`)
    support: wp.array2d(dtype=int)
    support_sign: wp.array2d(dtype=real)
    support_size: wp.array(dtype=int)
    expect_impacts: int  # 1: contacts also enter that come about where one of the two is stopped
    recovery: real  # [m/s] fastest separation of near-rigid geoms that overlap


@struct
class Material:
    """Per-geom parameters, shared or per world."""

    friction: wp.array2d(dtype=real)
    torsional_friction: wp.array2d(dtype=real)
    rolling_friction: wp.array2d(dtype=real)
    stiffness: wp.array2d(dtype=real)
    dissipation_time: wp.array2d(dtype=real)


@struct
class Geoms:
    """Where geoms are: poses in the world, bounds of the speeds of their points, and capsules around them (`cull.py`)."""

    X: wp.array2d(dtype=transform)
    speed: wp.array2d(dtype=real)  # -1: of an inactive body; not a number: the pose or size is not finite
    capsule: wp.array2d(dtype=vec5)


@struct
class Contacts:
    """Results."""

    count: wp.array(dtype=int)  # (worlds,)
    flags: wp.array(dtype=int)  # (worlds,) CONTACT_OVERFLOW, UNRESOLVED, NONFINITE (a geom's pose or size)
    pair: wp.array2d(dtype=int)  # (worlds, max_contacts)
    row: wp.array2d(dtype=int)  # of the scene's support tables: the pair's, or the contact's own
    feature: wp.array2d(dtype=wp.vec3i)
    phi: wp.array2d(dtype=real)
    point: wp.array2d(dtype=vec3)
    frame: wp.array2d(dtype=mat33)
    J: wp.array4d(dtype=real)  # (worlds, max_contacts, 3, max_support)
    recovery: wp.array2d(dtype=real)  # (worlds, max_contacts) [m/s] fastest separation, where near-rigid geoms overlap
    compliance: wp.array2d(
        dtype=vec2
    )  # (c, tau_d) of contacts between pressure fields; no columns where there are none


@struct
class Laws:
    """What solvers read of every contact (SAP's R, v_hat and mu), and its effective inverse mass w."""

    R: wp.array2d(dtype=vec3)
    v_hat: wp.array2d(dtype=vec3)
    mu: wp.array2d(dtype=real)
    weight: wp.array2d(dtype=real)


# How the parameters of a pair follow from its geoms'; usable in taped kernels.


@func
def pair_coefficient(rule: int, a: real, b: real, explicit: real) -> real:
    """A coefficient of a pair by its rule, from those of its two geoms; 0 where both have none."""
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
def kind_of(scene: Scene, p: int) -> int:
    """Pairs of one kind have one rule and one margin: few numbers for many pairs."""
    kind = int(scene.pair_kind[p])
    if p < scene.pair_kind_high.shape[0]:
        kind = kind + 256 * scene.pair_kind_high[p]
    return kind


@func
def rule_of(scene: Scene, p: int) -> int:
    return scene.kind_rule[kind_of(scene, p)]


@func
def friction_coefficient(scene: Scene, friction: wp.array2d(dtype=real), w: int, p: int) -> real:
    """Coulomb friction of a pair by its rule; 0 where both geoms have none."""
    rule = rule_of(scene, p)
    row = w % friction.shape[0]
    a = friction[row, scene.pair_geom[p, 0]]
    b = friction[row, scene.pair_geom[p, 1]]
    explicit = real(0.0)
    if rule == RULE_EXPLICIT:  # the table ends with the last of those
        explicit = scene.pair_friction[p]
    return pair_coefficient(rule, a, b, explicit)


@func
def geom_dissipation_time(dissipation_time: wp.array2d(dtype=real), w: int, g: int, default: real) -> real:
    tau = dissipation_time[w % dissipation_time.shape[0], g]
    if not (tau == tau):
        tau = default
    return tau


@func
def pair_compliance(
    scene: Scene,
    stiffness: wp.array2d(dtype=real),
    dissipation_time: wp.array2d(dtype=real),
    w: int,
    p: int,
    default_tau: real,
) -> vec2:
    """(c, tau_d) of a pair: c = cA + cB, tau_d the mean weighted by compliance (plain when c = 0); c = 1/k."""
    row = w % stiffness.shape[0]
    a = scene.pair_geom[p, 0]
    b = scene.pair_geom[p, 1]
    c_a = real(1.0) / stiffness[row, a]
    c_b = real(1.0) / stiffness[row, b]
    tau_a = geom_dissipation_time(dissipation_time, w, a, default_tau)
    tau_b = geom_dissipation_time(dissipation_time, w, b, default_tau)
    tau = real(0.5) * (tau_a + tau_b)
    c = c_a + c_b
    if c > real(0.0):
        tau = (c_a * tau_a + c_b * tau_b) / c
    return vec2(c, tau)


@func
def contact_compliance(
    scene: Scene,
    stiffness: wp.array2d(dtype=real),
    dissipation_time: wp.array2d(dtype=real),
    compliance: wp.array2d(dtype=vec2),
    w: int,
    c: int,
    p: int,
    default_tau: real,
) -> vec2:
    """(c, tau_d) of contact c: its pair's, or between pressure fields its own, from `compliance`."""
    law = vec2()
    if p < scene.point_pairs:
        law = pair_compliance(scene, stiffness, dissipation_time, w, p, default_tau)
    else:
        law = compliance[w, c]
    return law


@func
def pair_recovery(speed: real, compliance: real) -> real:
    """`speed`, the recovery speed of near-rigid contact; contact of a given stiffness has no limit."""
    recovery = speed
    if compliance > real(0.0):
        recovery = real(wp.inf)
    return recovery


@func
def margin_of(scene: Scene, p: int) -> real:
    """How far apart the geoms of pair p are where φ = 0 [m]."""
    return scene.kind_margin[kind_of(scene, p)]


@func
def seen_from(scene: Scene, geoms: Geoms, h: real, w: int, p: int) -> real:
    """The distance [m] up to which geoms of pair p may touch within h."""
    a = scene.pair_geom[p, 0]
    b = scene.pair_geom[p, 1]
    return h * (geoms.speed[w, a] + geoms.speed[w, b]) + wp.max(margin_of(scene, p), real(0.0))


@func
def total_mass(body_mass: wp.array2d(dtype=real), w: int) -> real:
    """M of a world [kg]."""
    row = w % body_mass.shape[0]
    mass = real(0.0)
    for b in range(body_mass.shape[1]):
        mass += body_mass[row, b]
    return mass


@func
def calm_recovery(speed: real, W_n: real, mass: real) -> real:
    """The recovery speed of a contact that moves the normal by W_n [1/kg] per impulse, in a world of `mass` [kg], when it is `speed` at most.

    Parting at v takes the energy v²/(2 W_n): no more than `RECOVERY_ENERGY` times that of all the mass at `speed`. Halved until that
    holds, so that it is a constant of derivatives.
    """
    calm = speed
    share = real(RECOVERY_ENERGY) * mass * W_n
    if share < real(1.0) and share > real(0.0):
        calm = speed * wp.pow(real(2.0), wp.floor(real(0.5) * wp.log2(share)))
    return calm


@func
def contact_law(
    scene: Scene, contacts: Contacts, material: Material, compliance: wp.array2d(dtype=vec2), w: int, c: int, p: int,
    weight: real, phi: real, h: real, beta: real, sigma: real,
):  # fmt: skip
    """R, v_hat and compliance of contact c of pair p, with the effective inverse mass `weight`, at the distance `phi`."""
    default_tau = beta * h / real(wp.pi)
    law = contact_compliance(scene, material.stiffness, material.dissipation_time, compliance, w, c, p, default_tau)
    R_free = cone.contact_regularization(weight, phi, law[0], law[1], h, beta, sigma)
    v_free = cone.contact_stabilization(phi, law[1], h)
    recovery = pair_recovery(contacts.recovery[w, c], law[0])
    R = cone.recovery_regularization(R_free, v_free, recovery)
    return R, cone.recovery_stabilization(v_free, recovery), law[0]


@struct
class Loads:
    """What Coulomb's law says of contacts besides (theory §3.6): γ_0 and σ_m, without columns under the convex law, and what they follow from."""

    gravity: wp.array(dtype=vec3)
    body_mass: wp.array2d(dtype=real)
    counts: int  # 0: contacts are as soft whatever they bear
    load: wp.array2d(dtype=real)
    least: wp.array2d(dtype=real)


@func
def load_of(loads: Loads, h: real, weight: real, softness: real, mass: real, w: int) -> vec2:
    """(γ_0, σ_m) of a contact of this compliance in a world of `mass`."""
    least = real(1.0)
    if loads.counts == 1:
        least = coulomb.least_share(softness, weight, mass)
    return vec2(coulomb.supported_load(loads.gravity[w % loads.gravity.shape[0]], h, weight), least)


@func
def bearing_loads(
    scene: Scene, material: Material, contacts: Contacts, loads: Loads, mass: real, h: real, weight: wp.array2d(dtype=real), w: int
):  # fmt: skip
    """γ_0 and σ_m of the contacts of a world of so much mass. By all lanes."""
    for c in range(lane(), contacts.count[w], lanes()):
        p = contacts.pair[w, c]
        law = contact_compliance(scene, material.stiffness, material.dissipation_time, contacts.compliance, w, c, p, h)
        found = load_of(loads, h, weight[w, c], law[0], mass, w)
        loads.load[w, c] = found[0]
        loads.least[w, c] = found[1]
