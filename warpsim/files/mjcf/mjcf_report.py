# SPDX-License-Identifier: Apache-2.0
"""What becomes of every feature of a compiled MuJoCo model: used, mapped, ignored or refused, and why.

`feature_report` lists the features of one model. A feature that changes the motion and cannot be simulated is an error.
`tests/files/mjcf_fields.py` puts every attribute of `mujoco.MjModel` in one of the four categories, so that no physics
of a new MuJoCo release is dropped silently.
"""

import mujoco
import numpy as np

from warpsim.base.checks import grouped
from warpsim.files.mjcf.mjcf_force_limits import IDLE, MOVING, SHARED, UNREACHED, ForceLimits, compensates
from warpsim.files.mjcf.mjcf_law import enabled
from warpsim.files.mjcf.mjcf_pressure import named_numerics
from warpsim.files.mjcf.mjcf_refusals import (
    JOINTS,
    MUSCLE_LAW,
    TENDON_FORCES,
    TRANSMISSIONS,
    actuator_count,
    actuator_refusal,
    control_index,
    disabled,
    element_name,
    equality_refusal,
    locked_ball,
    tendon_coefficients,
    tendon_refusal,
    tendon_roles,
)
from warpsim.model.model import DynamicsType, ReportLine

KEPT = "warpsim:data"  # the custom text that to_mjcf writes
USED, MAPPED, IGNORED, REFUSED = "used", "mapped", "ignored", "refused"
DEFAULT_SOLREF = (0.02, 1.0)
DEFAULT_SOLIMP = (0.9, 0.95, 0.001, 0.5, 2.0)
SDF = 8
SHAPES = {0: "plane", 1: "height field", 2: "sphere", 3: "capsule", 4: "ellipsoid", 5: "cylinder", 6: "box", 7: "mesh"}
SHAPES |= {SDF: "signed distance field"}
_BODY, _JOINT, _GEOM = mujoco.mjtObj.mjOBJ_BODY, mujoco.mjtObj.mjOBJ_JOINT, mujoco.mjtObj.mjOBJ_GEOM
_PAIR, _ACTUATOR, _TENDON = mujoco.mjtObj.mjOBJ_PAIR, mujoco.mjtObj.mjOBJ_ACTUATOR, mujoco.mjtObj.mjOBJ_TENDON

_SOLVER = IGNORED, "a setting of MuJoCo's solver"
_LAW = "used by ws.MuJoCo(); other contact models: "
_COLLISION = IGNORED, "a setting of MuJoCo's collision detection"
OPTIONS = {
    "timestep": (USED, "default step of the Simulator"),
    "gravity": (USED, ""),
    "disableactuator": (MAPPED, "actuators of the disabled groups give no force"),
    "integrator": (IGNORED, f"{_LAW}the Simulator's integrator"),
    "cone": (IGNORED, f"{_LAW}the exact circular cone"),
    "impratio": (IGNORED, f"{_LAW}friction and normal regularisation follow from the solver's sigma and beta"),
    **dict.fromkeys("solver iterations tolerance ls_iterations ls_tolerance".split(), _SOLVER),
    **dict.fromkeys("noslip_iterations noslip_tolerance".split(), (IGNORED, "refused by ws.MuJoCo()")),
    "jacobian": _SOLVER,
    **dict.fromkeys("ccd_iterations ccd_tolerance sdf_initpoints sdf_iterations".split(), _COLLISION),
    "sleep_tolerance": (IGNORED, "no sleeping"),
    "magnetic": (IGNORED, "read by magnetometers only"),
    **dict.fromkeys(("density", "viscosity", "wind"), (USED, "of the medium that all bodies move in")),
    **dict.fromkeys(("o_margin", "o_solref", "o_solimp", "o_friction"), (MAPPED, "contact override, when enabled")),
}

_OFF = "nothing of the kind acts"
DISABLE_FLAGS = {
    "CONSTRAINT": (MAPPED, "no contacts, limits and dry friction"),
    "EQUALITY": (MAPPED, _OFF),
    "FRICTIONLOSS": (MAPPED, _OFF),
    "LIMIT": (MAPPED, _OFF),
    "CONTACT": (MAPPED, "every contact mask is 0 and pairs are dropped"),
    "SPRING": (MAPPED, _OFF),
    "DAMPER": (MAPPED, _OFF),
    "GRAVITY": (MAPPED, "gravity is 0"),
    "CLAMPCTRL": (MAPPED, "controls have no range"),
    "FILTERPARENT": (MAPPED, "a body may touch its parent"),
    "ACTUATION": (MAPPED, "actuators give no force"),
    "REFSAFE": (MAPPED, "solref[0] is not raised to two timesteps"),
    "SENSOR": (IGNORED, "sensors are evaluated where they are asked for"),
    **dict.fromkeys(("WARMSTART", "ISLAND"), _SOLVER),
    **dict.fromkeys(("MIDPHASE", "NATIVECCD", "MULTICCD"), _COLLISION),
    "EULERDAMP": (IGNORED, f"{_LAW}the Simulator's integrator decides how damping is integrated"),
    "AUTORESET": (IGNORED, "a world that blows up is held and flagged"),
}
ENABLE_FLAGS = {
    "OVERRIDE": (MAPPED, "its margin, solref, solimp and friction are those of all geoms and pairs"),
    **dict.fromkeys(("ENERGY", "FWDINV"), (IGNORED, "a measurement of MuJoCo")),
    "INVDISCRETE": (IGNORED, "inverse dynamics here are those of continuous time"),
    "SLEEP": (IGNORED, "no sleeping"),
    "DIAGEXACT": (IGNORED, f"{_LAW}inverse masses are always exact"),
    "IPC": (IGNORED, "flexes are refused"),
    "SPECULATIVE": (IGNORED, "refused by ws.MuJoCo(); contacts of other models are always speculative"),
}

# attribute, its neutral value, object, feature, fix; any value but the neutral one is an error
NEUTRAL = (
    ("body_plugin", -1, _BODY, "plugin", "remove it"),
    ("jnt_springyield", 0, _JOINT, "plastic spring (springyield)", "use a linear spring"),
    ("jnt_stiffnesspoly", 0, _JOINT, "nonlinear stiffness polynomial", "use a linear stiffness"),
    ("dof_dampingpoly", 0, _JOINT, "nonlinear damping polynomial", "use a linear damping"),
    ("geom_plugin", -1, _GEOM, "plugin", "remove it"),
    ("geom_adhesion", 0, _GEOM, "adhesion", "remove it"),
    ("pair_adhesion", 0, _PAIR, "adhesion", "remove it"),
)


def fluid(m) -> bool:
    """Whether MuJoCo applies drag, lift and added mass.

    It does if the medium has density or viscosity, and springs and dampers are not both disabled.
    """
    off = mujoco.mjtDisableBit.mjDSBL_SPRING, mujoco.mjtDisableBit.mjDSBL_DAMPER
    return bool(m.opt.density or m.opt.viscosity) and not all(m.opt.disableflags & int(flag) for flag in off)


def feature_report(m) -> tuple[list[ReportLine], list[str]]:
    """Report lines of a compiled `mujoco.MjModel`, and the errors among them.

    There is one line per feature of the model, and one error per kind of element and fix.
    """
    r = _Report(m)
    for part in (_options, _bodies, _joints, _geoms, _pairs, _actuators, _tendons, _equalities, _rest):
        part(r, m)
    return r.lines, grouped(r.refusals)


class _Report:
    def __init__(self, m):
        self.m = m
        self.lines: list[ReportLine] = []
        self.refusals: list[tuple[str, str, str]] = []  # element, what is wrong with it, what to do
        self.force_limits = ForceLimits(m)

    def add(self, feature: str, status: str, detail: str = "") -> None:
        self.lines.append(ReportLine(feature, status, detail))

    def count(self, feature: str, status: str, amount, element: str, why: str = "") -> None:
        """Add a line for a feature that `amount` elements have; none if `amount` is 0."""
        amount = int(amount)
        if amount:
            plural = element if amount == 1 else f"{element[:-1]}ies" if element.endswith("y") else f"{element}s"
            self.add(feature, status, f"{amount} {plural}" + (f": {why}" if why else ""))

    def refuse(self, element: str, what: str, fix: str) -> None:
        self.lines.append(ReportLine(element, REFUSED, what))
        self.refusals.append((element, f"{what}, which is not supported", fix))

    def name(self, kind, index: int) -> str:
        return element_name(self.m, kind, index)


def _options(r: _Report, m) -> None:
    reference = mujoco.MjOption()
    always = ("timestep", "gravity", "integrator")
    for name, (status, why) in OPTIONS.items():
        value = getattr(m.opt, name, None)
        if value is None or (name not in always and np.array_equal(value, getattr(reference, name))):
            continue
        if name.startswith("o_") or name == "wind":
            continue  # overrides act only with their flag, wind acts only in a medium
        text = mujoco.mjtIntegrator(int(value)).name[6:] if name == "integrator" else str(np.asarray(value).tolist())
        r.add(f"option {name} = {text}", status, why)
    if fluid(m) and np.any(m.opt.wind):
        r.add(f"option wind = {m.opt.wind.tolist()}", USED, OPTIONS["wind"][1])
    friction = m.opt.o_friction
    if enabled(m, "OVERRIDE") and (friction[0] != friction[1] or friction[3] != friction[4]):
        what = f"gives every geom the anisotropic friction {friction.tolist()}"
        r.refuse("option enable override", what, "use equal values along both tangents, or pairs")
    for value, enum, prefix, table, word in (
        (m.opt.disableflags, mujoco.mjtDisableBit, "mjDSBL_", DISABLE_FLAGS, "disable"),
        (m.opt.enableflags, mujoco.mjtEnableBit, "mjENBL_", ENABLE_FLAGS, "enable"),
    ):
        for bit in range(32):
            if not int(value) >> bit & 1:
                continue
            known = [k for k, v in enum.__members__.items() if int(v) == 1 << bit and k.startswith(prefix)]
            name = known[0][7:] if known else f"bit {bit}"
            if name not in table:
                r.refuse(f"option {word} {name.lower()}", "is unknown to this version", "clear the flag")
            else:
                r.add(f"option {word} {name.lower()}", *table[name])


def _neutral(r: _Report, m, kind) -> None:
    """Refuse elements of one kind whose fields in `NEUTRAL` are not neutral."""
    for field, neutral, owner, what, fix in NEUTRAL:
        values = getattr(m, field, None)
        if owner != kind or values is None or len(values) == 0:
            continue
        rows = np.flatnonzero((np.asarray(values).reshape(len(values), -1) != neutral).any(axis=1))
        for row in dict.fromkeys(int(m.dof_jntid[i]) if field.startswith("dof_") else int(i) for i in rows):
            r.refuse(r.name(kind, row), f"has {what}", fix)


def _bodies(r: _Report, m) -> None:
    r.count("bodies", USED, m.nbody - 1, "body")
    fixed = int(((m.body_jntnum[1:] == 0) & (m.body_mocapid[1:] < 0)).sum())
    r.count("bodies without joints", USED, fixed, "body", "fixed to their parent")
    for i in np.flatnonzero(m.body_mocapid >= 0):
        r.add(r.name(_BODY, i), USED, "a mocap body: sim.step(mocap=) says where it is, and it stays there")
    off = "" if compensates(m) else "disabled with springs and dampers"
    r.count("gravity compensation (gravcomp)", MAPPED if off else USED, (m.body_gravcomp != 0).sum(), "body", off)
    _neutral(r, m, _BODY)
    user = np.asarray(getattr(m, "tree_sleep_policy", []))
    r.count("sleep policies", IGNORED, (user >= 3).sum(), "tree", "no sleeping")


def _joints(r: _Report, m) -> None:
    for kind, word in JOINTS.items():
        r.count(f"{word} joints", USED, (m.jnt_type == kind).sum(), "joint")
    limits = "" if not disabled(m, "LIMIT", "CONSTRAINT") else "disabled by a flag"
    for j in (j for j in range(m.njnt) if not limits and locked_ball(m, j)):
        fix = "remove the joint, or give its range an angle > 0, or set limited='false'"
        r.refuse(r.name(_JOINT, j), "is a ball joint limited to the range 0 0, which locks it", fix)
    r.count("joint limits", USED if not limits else MAPPED, m.jnt_limited.sum(), "joint", limits)
    for field, word in (("damping", "damping"), ("armature", "armature"), ("frictionloss", "dry friction")):
        r.count(f"joint {word}", USED, len(set(m.dof_jntid[getattr(m, f"dof_{field}") != 0])), "joint")
    r.count("joint springs", USED, (m.jnt_stiffness != 0).sum(), "joint")
    soft = _soft(m.dof_solref, m.dof_solimp) & (m.dof_frictionloss != 0)
    _softness(r, "joint", m.jnt_limited, (m.jnt_solref, m.jnt_solimp, m.jnt_margin), "dry", len(set(m.dof_jntid[soft])))
    _clamps(r, _JOINT, r.force_limits.joints)
    for j in (j for j, outcome in r.force_limits.joints.items() if outcome == MOVING):
        what = "has actuatorfrcrange, and an actuator on a spatial tendon, sites, a crank or contacts moves it"
        r.refuse(r.name(_JOINT, j), what, "remove it and give the actuators a forcerange")
    idle = sum(outcome == IDLE for outcome in r.force_limits.joints.values())
    why = "no actuator drives them; actuators='effort' uses it as control_range, 'position' as force_range"
    r.count("actuatorfrcrange of joints without actuators", IGNORED, idle, "joint", why)
    _neutral(r, m, _JOINT)


def _soft(solref, solimp) -> np.ndarray:
    """Which rows have a solref or solimp other than MuJoCo's default."""
    return ~(np.isclose(solref, DEFAULT_SOLREF).all(1) & np.isclose(solimp, DEFAULT_SOLIMP).all(1))


def _softness(r: _Report, word: str, limited, limits, friction: str, soft_friction: int) -> None:
    """Add lines for the softness and margin of limits of joints or tendons, and for soft dry friction."""
    limited, margin = np.asarray(limited) != 0, np.asarray(limits[2]) != 0
    why = f"{_LAW}limits are near-rigid (beta 0.1)"
    r.count(f"solref/solimp of {word} limits", IGNORED, (_soft(*limits[:2]) & limited).sum(), word, why)
    why = f"{_LAW}dry friction is as stiff as the solver's sigma makes it"
    r.count(f"solref/solimp of {friction} friction", IGNORED, soft_friction, word, why)
    r.count(f"{word} limit margin", IGNORED, (margin & limited).sum(), word, f"{_LAW}limits act at the bound")


def _geoms(r: _Report, m) -> None:
    active = (m.geom_contype != 0) | (m.geom_conaffinity != 0)
    paired = np.isin(np.arange(m.ngeom), np.concatenate([m.pair_geom1, m.pair_geom2]))
    active = (active | paired) & (not disabled(m, "CONTACT", "CONSTRAINT"))
    for kind, word in SHAPES.items():
        rows = m.geom_type == kind
        if kind == SDF:
            r.count(f"{word} geoms", MAPPED, rows.sum(), "geom", "touches as the convex hull of its mesh")
        else:
            r.count(f"{word} geoms", USED, rows.sum(), "geom")
    r.count("geom friction, sliding", USED, (active & (m.geom_condim > 1)).sum(), "geom")
    r.count("condim 1", USED, (m.geom_condim == 1).sum(), "geom", "frictionless")
    spins = active & (m.geom_condim > 3)
    r.count("condim 4 or 6", USED, spins.sum(), "geom", "torsional and rolling friction, with ws.SAP()")
    why = "a pair without sliding friction has no torsional and rolling friction either"
    r.count("condim 4 or 6 without sliding friction", MAPPED, (spins & (m.geom_friction[:, 0] == 0)).sum(), "geom", why)
    mapped = _soft(m.geom_solref, m.geom_solimp)
    r.count("solref/solimp of geoms", MAPPED, (mapped & active).sum(), "geom", "stiffness and dissipation_time")
    r.count("default solref/solimp", MAPPED, (~mapped & active).sum(), "geom", "near-rigid contact")
    why = "margins of a pair's geoms add up: contact acts where they are that far apart"
    r.count("geom margin", USED, (active & (m.geom_margin != 0)).sum(), "geom", why)
    why = "contacts without a force are not listed; with ws.MuJoCo() adhesion actuators pull at them"
    r.count("geom gap", IGNORED, (active & (m.geom_gap != 0)).sum(), "geom", why)
    r.count("geom priority", USED, (m.geom_priority != 0).sum(), "geom", "whose friction and condim count")
    r.count("geom solmix", IGNORED, (m.geom_solmix != 1).sum(), "geom", f"{_LAW}compliances of a pair add")
    moves = np.any(getattr(m, "geom_surfacevel", np.zeros((m.ngeom, 6))) != 0, axis=1)
    r.count("geom surfacevel", USED, moves.sum(), "geom", "friction carries what touches the surface")
    if fluid(m):
        ellipsoids = int(np.count_nonzero(m.geom_fluid[:, 0] > 0))
        r.add(
            "fluid forces", USED, f"{ellipsoids} geoms as ellipsoids, other bodies as the boxes that have their inertia"
        )
    _neutral(r, m, _GEOM)


def _pairs(r: _Report, m) -> None:
    r.count("contact pairs", USED, m.npair, "pair")
    ends = np.sort(np.stack([m.pair_geom1, m.pair_geom2], axis=1), axis=1)
    repeated = m.npair - len(np.unique(ends, axis=0))
    why = (
        f"{_LAW}one contact with the largest of their frictions: of two at one place that with more friction bears a "
        "sliding load"
    )
    r.count("contact pairs that repeat another's geoms", MAPPED, repeated, "pair", why)
    r.count("contact excludes", USED, m.nexclude, "exclude")
    sliding, other, _, rolling, last = m.pair_friction.T
    uneven = (m.pair_dim > 1) & (sliding != other) | (m.pair_dim > 4) & (rolling != last)
    why = "by ws.MuJoCo(); other contact models refuse it"
    r.count("anisotropic friction of pairs", USED, uneven.sum(), "pair", why)
    r.count("pair condim 4 or 6", USED, (m.pair_dim > 3).sum(), "pair", "torsional and rolling friction, with ws.SAP()")
    soft = _soft(m.pair_solref, m.pair_solimp) | (m.pair_solreffriction != 0).any(axis=1)
    r.count("solref/solimp of pairs", IGNORED, soft.sum(), "pair", f"{_LAW}the material of its geoms")
    r.count("margin of pairs", USED, (m.pair_margin != 0).sum(), "pair", "instead of their geoms'")
    r.count("gap of pairs", IGNORED, (m.pair_gap != 0).sum(), "pair", "contacts without a force are not listed")
    _neutral(r, m, _PAIR)


def _actuators(r: _Report, m) -> None:
    reasons = [actuator_refusal(m, a) for a in range(actuator_count(m))]
    for a, reason in enumerate(reasons):
        if reason:
            r.refuse(r.name(_ACTUATOR, a), *reason)
    good = [a for a, reason in enumerate(reasons) if not reason]
    motors = sum(bool(m.actuator_gaintype[a] == 0 and m.actuator_biastype[a] == 0) for a in good)
    muscles = sum(MUSCLE_LAW in (m.actuator_gaintype[a], m.actuator_biastype[a]) for a in good)
    r.count("motors (fixed gain, no bias)", USED, motors, "actuator")
    r.count("muscles", USED, muscles, "actuator", "explicit, from the state at the start of a step")
    rest = len(good) - motors - muscles
    r.count("actuators with feedback", USED, rest, "actuator", "affine in control, length and velocity")
    for kind in DynamicsType:
        if kind:
            stateful = sum(bool(m.actuator_dyntype[a] == kind) for a in good)
            r.count(f"activation ({kind.name.lower()})", USED, stateful, "actuator")
    for kind, what in TRANSMISSIONS.items():
        r.count(what, USED, sum(int(m.actuator_trntype[a]) == kind for a in good), "actuator")
    r.count("actuator gear", USED, sum(not np.isin(m.actuator_gear[a], (0, 1)).all() for a in good), "actuator")
    unclamped = disabled(m, "CLAMPCTRL")
    limited = sum(bool(m.actuator_ctrllimited[control_index(m, a)]) for a in good)
    r.count("control ranges", MAPPED if unclamped else USED, limited, "actuator", "disabled" if unclamped else "")
    r.count("force ranges", USED, sum(bool(m.actuator_forcelimited[a]) for a in good), "actuator")
    for key in ("damping", "armature"):
        values = getattr(m, f"actuator_{key}", np.zeros(actuator_count(m)))
        why = f"added to the joint's {key}, times gear^2"
        r.count(f"actuator {key}", MAPPED, sum(bool(values[a]) for a in good), "actuator", why)


def _tendons(r: _Report, m) -> None:
    for t in range(m.ntendon):
        name, roles, refusal = r.name(_TENDON, t), tendon_roles(m, t), tendon_refusal(m, t)
        if not roles:
            r.add(name, IGNORED, "no stiffness, damping, limit, friction, actuator or equality")
        elif refusal is None:
            kind = "spatial" if tendon_coefficients(m, t) is None else "fixed"
            r.add(name, USED, f"{kind}, with {', '.join(roles)}")
        elif set(roles) & {*TENDON_FORCES}:
            r.refuse(name, *refusal)
        else:
            r.add(name, REFUSED, "what uses it is refused")
    soft = _soft(m.tendon_solref_fri, m.tendon_solimp_fri) & (m.tendon_frictionloss != 0)
    limits = m.tendon_solref_lim, m.tendon_solimp_lim, m.tendon_margin
    _softness(r, "tendon", m.tendon_limited, limits, "tendon", soft.sum())
    _clamps(r, _TENDON, r.force_limits.tendons)


def _clamps(r: _Report, kind, outcomes: dict[int, str]) -> None:
    """Add lines for the actuatorfrcrange of joints or tendons, from the outcomes by index."""
    word, found = kind.name[6:].lower(), list(outcomes.values())
    why = f"force_range of the {word}'s actuator"
    r.count(f"actuatorfrcrange of {word}s", MAPPED, found.count(MAPPED), word, why)
    why = "what the actuators can do together does not reach it"
    r.count(f"actuatorfrcrange of {word}s that several drive", USED, found.count(UNREACHED), word, why)
    why = "of what its actuators do together, by their forces at the start of a step"
    r.count(f"actuatorfrcrange of {word}s, shared", USED, found.count(SHARED), word, why)


def _equalities(r: _Report, m) -> None:
    off = disabled(m, "EQUALITY", "CONSTRAINT")
    mapped = scaled = 0
    for e in range(m.neq):
        kind = mujoco.mjtEq(int(m.eq_type[e])).name[5:].lower()
        name, refusal = r.name(mujoco.mjtObj.mjOBJ_EQUALITY, e), equality_refusal(m, e)
        owner = {"joint": _JOINT, "tendon": _TENDON}.get(kind, mujoco.mjtObj(int(m.eq_objtype[e])))
        ends = [mujoco.mj_id2name(m, owner, int(i)) for i in (m.eq_obj1id[e], m.eq_obj2id[e]) if i >= 0]
        between = f" between {' and '.join(repr(end) for end in ends if end)}" if any(ends) else ""
        if off or not m.eq_active0[e]:
            r.add(name, IGNORED, f"the {kind} constraint is inactive")
            continue
        if refusal is not None:
            r.refuse(name, f"{refusal[0]}{between}", refusal[1])
            continue
        r.add(name, USED, f"a {kind} constraint{between}")
        mapped += int(_soft(m.eq_solref[e : e + 1], m.eq_solimp[e : e + 1])[0])
        scaled += kind == "weld" and m.eq_data[e, 10] not in (0, 1)
    r.count("solref/solimp of constraints", MAPPED, mapped, "constraint", "stiffness and dissipation_time")
    why = f"{_LAW}a weld holds angles as near-rigidly as positions; 0 makes it a connect"
    r.count("torquescale of welds", IGNORED, scaled, "weld", why)


def _rest(r: _Report, m) -> None:
    for index in range(m.nflex):
        r.refuse(r.name(mujoco.mjtObj.mjOBJ_FLEX, index), "is a flexible body", "replace it by rigid ones")
    for index in range(m.nplugin):
        r.refuse(r.name(mujoco.mjtObj.mjOBJ_PLUGIN, index), "is a plugin", "remove it")
    own = sum(KEPT in mujoco.mj_id2name(m, mujoco.mjtObj.mjOBJ_TEXT, i) for i in range(m.ntext))
    r.count(f"custom text {KEPT}", USED, own, "text", "what to_mjcf keeps beside the MJCF")
    r.count("keyframes", USED, m.nkey, "keyframe")
    r.count("time of keyframes", IGNORED, np.count_nonzero(m.key_time), "keyframe", "the clock starts at 0")
    for feature, amount, element, why in (
        ("lights", m.nlight, "light", "visual"),
        ("skins", m.nskin, "skin", "visual"),
        ("custom numeric fields", m.nnumeric - len(named_numerics(m)), "field", "user data"),
        ("custom text fields", m.ntext - own, "field", "user data"),
        ("custom tuples", m.ntuple, "tuple", "user data"),
        ("nuserdata", m.nuserdata, "value", "user data"),
    ):
        r.count(feature, IGNORED, amount, element, why)
    r.count("sites", USED, m.nsite, "site", "frames that tendons, actuators, sensors and constraints refer to")
    r.count("cameras", USED, m.ncam, "camera", "frame, angle of view and resolution; all count as fixed to their body")
    pressures = len(named_numerics(m))
    r.count("custom numeric fields hydroelastic:*", USED, pressures, "geom", "contact by pressure fields")
    r.count("materials", USED, m.nmat, "material", "how geoms look: colour, image, shine")
    r.count("meshes", USED, m.nmesh, "mesh", "mass, inertia and drawing; contact of the convex hull")
