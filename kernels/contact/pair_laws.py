# SPDX-License-Identifier: Apache-2.0
"""Structs of contact: the scene's pair tables, material, the list of contacts, and the state of a contact's law."""

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

# Largest energy that separation at the recovery speed may take, over the kinetic energy of the world's total mass
# at that speed.
RECOVERY_ENERGY = 1.0


@struct
class Scene:
    """Tables shared by all worlds."""

    geom_type: wp.array(dtype=int)
    geom_link: wp.array(dtype=int)  # -1: fixed to the world
    placed: wp.array(dtype=int)  # geoms that take part in contact
    pair_geom: wp.array2d(dtype=int)
    pair_kind: wp.array(dtype=wp.uint8)  # row of `kind_rule` and `kind_margin` modulo 256
    pair_kind_high: wp.array(dtype=int)  # that row divided by 256; ends after the last pair with a value above 0
    kind_rule: wp.array(dtype=int)
    kind_margin: wp.array2d(dtype=real)  # (1 or worlds, kinds) [m]; each pair is a kind where margins are parameters
    pair_friction: wp.array(dtype=real)  # μ of pairs with RULE_EXPLICIT; ends after the last such pair
    geom_reach: wp.array2d(dtype=real)  # [m] by which a geom's bound grows for the margins of its pairs; 0 for planes
    # [m] margins that are parameters (`parameter_margin`); no rows before they have been accessed
    geom_margin: wp.array2d(dtype=real)
    pair_margin: wp.array2d(dtype=real)
    pair_explicit: wp.array(dtype=int)  # column of `pair_margin`, -1: none; ends after the last explicit pair
    point_pairs: int  # pairs below this row have point contact, the others hydroelastic contact (`hydroelastic/`)
    support: wp.array2d(dtype=int)
    support_sign: wp.array2d(dtype=real)
    support_size: wp.array(dtype=int)
    expect_impacts: int  # 1: also find contacts that close if one of the two geoms is stopped
    mujoco: int  # 1: a plane has MuJoCo's points with boxes and cylinders
    window: real  # [m] gaps below it count as contact; 0 but in impacts
    haste: real  # [m/s] added to the speed of moving geoms, so that such gaps are seen
    recovery: real  # [m/s] recovery speed: overlapping near-rigid geoms separate no faster


@struct
class Material:
    """Per-geom parameters, shared or per world."""

    friction: wp.array2d(dtype=real)
    torsional_friction: wp.array2d(dtype=real)
    rolling_friction: wp.array2d(dtype=real)
    stiffness: wp.array2d(dtype=real)
    dissipation_time: wp.array2d(dtype=real)
    restitution: wp.array2d(dtype=real)


@struct
class Geoms:
    """Geoms in the world: poses, bounds on the speeds of their points, and capsules around them (`cull.py`)."""

    X: wp.array2d(dtype=transform)
    speed: wp.array2d(dtype=real)  # [m/s]; -1: inactive body; NaN: the pose or size is not finite
    capsule: wp.array2d(dtype=vec5)


@struct
class Contacts:
    """The list of contacts of each world."""

    count: wp.array(dtype=int)  # (worlds,)
    # (worlds,) flags of the world that this step's contacts raise, all but NOT_HELD and ENERGY_GAIN (`flags.py`);
    # between `contacts.detect` and `look_after` also SUSPECT (`narrow/resolution.py`)
    flags: wp.array(dtype=int)
    pair: wp.array2d(dtype=int)  # (worlds, max_contacts)
    row: wp.array2d(dtype=int)  # row of the scene's support tables: the pair's row, or a row of this contact
    feature: wp.array2d(dtype=wp.vec3i)
    phi: wp.array2d(dtype=real)
    point: wp.array2d(dtype=vec3)
    frame: wp.array2d(dtype=mat33)
    J: wp.array4d(dtype=real)  # (worlds, max_contacts, 3, max_support)
    recovery: wp.array2d(dtype=real)  # (worlds, max_contacts) [m/s] recovery speed (`calm_recovery`)
    # (c, tau_d) of hydroelastic contacts; no columns if there are none
    compliance: wp.array2d(dtype=vec2)
    # of impacts within a step, see `ContactState`; no columns if the step has none
    touch: wp.array2d(dtype=int)
    bend: wp.array2d(dtype=real)
    shift: wp.array2d(dtype=vec3)


@struct
class Laws:
    """Inputs of the solvers per contact: SAP's R, v_hat and mu, and the effective inverse mass w."""

    R: wp.array2d(dtype=vec3)
    v_hat: wp.array2d(dtype=vec3)
    mu: wp.array2d(dtype=real)
    weight: wp.array2d(dtype=real)


@func
def kind_of(scene: Scene, p: int) -> int:
    """Kind of pair p. All pairs of a kind share one friction rule and one margin, which saves memory."""
    kind = int(scene.pair_kind[p])
    if p < scene.pair_kind_high.shape[0]:
        kind = kind + 256 * scene.pair_kind_high[p]
    return kind


@func
def rule_of(scene: Scene, p: int) -> int:
    return scene.kind_rule[kind_of(scene, p)]


@func
def pair_friction(scene: Scene, friction: wp.array2d(dtype=real), w: int, p: int) -> PairFriction:
    """The numbers from which μ of a pair is computed."""
    row = w % friction.shape[0]
    pair = PairFriction()
    pair.rule = rule_of(scene, p)
    pair.a = friction[row, scene.pair_geom[p, 0]]
    pair.b = friction[row, scene.pair_geom[p, 1]]
    if pair.rule == RULE_EXPLICIT:  # the table ends after the last such pair
        pair.mu = scene.pair_friction[p]
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
    """The values of a parameter for the geoms A and B of a pair."""
    row = w % x.shape[0]
    return vec2(x[row, scene.pair_geom[p, 0]], x[row, scene.pair_geom[p, 1]])


@func
def margin_of(scene: Scene, w: int, p: int) -> real:
    """Margin of pair p [m]: the distance of the geoms at which φ = 0."""
    return scene.kind_margin[w % scene.kind_margin.shape[0], kind_of(scene, p)]


@func
def parameter_margin(scene: Scene, w: int, p: int) -> real:
    """`margin_of` from the parameters, which tapes follow."""
    margin = margin_of(scene, w, p)
    if scene.geom_margin.shape[0] > 0 and p < scene.point_pairs:
        own = int(-1)
        if p < scene.pair_explicit.shape[0]:
            own = scene.pair_explicit[p]
        if own >= 0:
            margin = scene.pair_margin[w % scene.pair_margin.shape[0], own]
        else:
            row = w % scene.geom_margin.shape[0]
            margin = scene.geom_margin[row, scene.pair_geom[p, 0]] + scene.geom_margin[row, scene.pair_geom[p, 1]]
    return margin


@func
def seen_from(scene: Scene, geoms: Geoms, h: real, w: int, p: int) -> real:
    """Largest distance [m] from which the geoms of pair p may touch within h."""
    a = scene.pair_geom[p, 0]
    b = scene.pair_geom[p, 1]
    return h * (geoms.speed[w, a] + geoms.speed[w, b]) + wp.max(margin_of(scene, w, p), real(0.0))


@func
def total_mass(body_mass: wp.array2d(dtype=real), w: int, first: int, step: int) -> real:
    """Total mass M of a world [kg], or of every `step`-th body from the first given."""
    row = w % body_mass.shape[0]
    mass = real(0.0)
    for b in range(first, body_mass.shape[1], step):
        mass += body_mass[row, b]
    return mass


@func
def calm_recovery(speed: real, W_n: real, mass: real) -> real:
    """Recovery speed [m/s] of a contact with the normal inverse mass W_n [1/kg], at most `speed`.

    Separation at v takes the energy v²/(2 W_n). The result is `speed`, halved until this energy is at most
    `RECOVERY_ENERGY` times the kinetic energy of `mass` [kg], the world's total, at `speed`. Halving makes the result
    piecewise constant, so derivatives treat it as a constant.
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
    """State of the law of contact c, without φ, w, velocities and loads, which the caller sets."""
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
    if contacts.touch.shape[1] > 0:
        s.touch = contacts.touch[w, c]
        s.bend = contacts.bend[w, c]
        s.shift = contacts.shift[w, c]
        e = by_geoms(scene, material.restitution, w, p)
        s.restitution = wp.max(e[0], e[1])
    return s


@struct
class Loads:
    """γ_0 (`load`) and σ_m (`least`) of contacts under Coulomb's law (theory §3.6), and their inputs.

    `load` and `least` have no columns under the convex law.
    """

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
    """State of the law of contact c, without φ, w and velocities, which the caller sets."""
    s = contact_state(scene, material, contacts, compliance, options, w, c)
    if options.coulomb == 1:
        s.gravity = loads.gravity[w % loads.gravity.shape[0]]
        s.mass = total_mass(loads.body_mass, w, 0, 1)
    return s
