# SPDX-License-Identifier: Apache-2.0
"""What contact of two geoms is: the tables of a scene, material, the list of contacts, and the states of their law."""

import warp as wp

from ..laws.cone import time_or
from ..laws.contact_law import (
    RULE_EXPLICIT,
    ContactState,
    LawOptions,
    PairFriction,
    friction_of,
)
from ..real import func, mat33, real, struct, transform, vec2, vec3, vec5

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
def pair_friction(scene: Scene, friction: wp.array2d(dtype=real), w: int, p: int) -> PairFriction:
    """What μ of a pair follows from."""
    row = w % friction.shape[0]
    pair = PairFriction()
    pair.rule = rule_of(scene, p)
    pair.a = friction[row, scene.pair_geom[p, 0]]
    pair.b = friction[row, scene.pair_geom[p, 1]]
    if pair.rule == RULE_EXPLICIT:  # the table ends with the last of those
        pair.given = scene.pair_friction[p]
    return pair


@func
def friction_coefficient(scene: Scene, friction: wp.array2d(dtype=real), w: int, p: int) -> real:
    """μ of a pair."""
    return friction_of(pair_friction(scene, friction, w, p))


@func
def geom_dissipation_time(dissipation_time: wp.array2d(dtype=real), w: int, g: int, default: real) -> real:
    return time_or(dissipation_time[w % dissipation_time.shape[0], g], default)


@func
def by_geoms(scene: Scene, x: wp.array2d(dtype=real), w: int, p: int) -> vec2:
    """A parameter of the two geoms of a pair."""
    row = w % x.shape[0]
    return vec2(x[row, scene.pair_geom[p, 0]], x[row, scene.pair_geom[p, 1]])


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
def contact_state(
    scene: Scene,
    material: Material,
    contacts: Contacts,
    compliance: wp.array2d(dtype=vec2),
    options: LawOptions,
    w: int,
    c: int,
) -> ContactState:
    """What the law of contact c acts on, but for φ, w, velocities and loads."""
    p = contacts.pair[w, c]
    s = ContactState()
    s.options = options
    s.friction = pair_friction(scene, material.friction, w, p)
    s.stiffness = by_geoms(scene, material.stiffness, w, p)
    s.dissipation_time = by_geoms(scene, material.dissipation_time, w, p)
    s.recovery = contacts.recovery[w, c]
    if p >= scene.point_pairs:
        s.is_field = 1
        s.compliance = compliance[w, c]
    return s


@struct
class Loads:
    """γ_0 and σ_m of contacts under Coulomb's law (theory §3.6), without columns under the convex law, and what they follow
    from."""

    gravity: wp.array(dtype=vec3)
    body_mass: wp.array2d(dtype=real)
    load: wp.array2d(dtype=real)
    least: wp.array2d(dtype=real)


@func
def loaded_state(
    scene: Scene,
    material: Material,
    contacts: Contacts,
    compliance: wp.array2d(dtype=vec2),
    options: LawOptions,
    loads: Loads,
    w: int,
    c: int,
) -> ContactState:
    """What the law of contact c acts on, but for φ, w and velocities."""
    s = contact_state(scene, material, contacts, compliance, options, w, c)
    if options.coulomb == 1:
        s.gravity = loads.gravity[w % loads.gravity.shape[0]]
        s.mass = total_mass(loads.body_mass, w)
    return s
