# SPDX-License-Identifier: Apache-2.0
"""Which actuators, tendons and constraints of a compiled MuJoCo model can be simulated, and why others cannot."""

import mujoco
import numpy as np

from warpsim.base.checks import short

TENDON_REFUSED = ("stiffnesspoly", "dampingpoly", "armature", "springyield")
TENDON_FORCES = ("stiffness", "damping", "limited", "frictionloss", *TENDON_REFUSED)
JOINTS = {0: "free", 1: "ball", 2: "slide", 3: "hinge"}
_TENDON = mujoco.mjtObj.mjOBJ_TENDON
_WRAPPED = (int(mujoco.mjtWrap.mjWRAP_SPHERE), int(mujoco.mjtWrap.mjWRAP_CYLINDER))
_TRANSMISSIONS = _TRN_JOINT, _TRN_JOINTINPARENT, _TRN_TENDON, TRN_SITE, TRN_CRANK, _TRN_BODY = tuple(
    int(getattr(mujoco.mjtTrn, f"mjTRN_{name}"))
    for name in ("JOINT", "JOINTINPARENT", "TENDON", "SITE", "SLIDERCRANK", "BODY")
)
TRANSMISSIONS = {TRN_SITE: "actuators on sites", TRN_CRANK: "slider-cranks", _TRN_BODY: "adhesion of contacts"}
_DYN_MUSCLE = int(mujoco.mjtDyn.mjDYN_MUSCLE)
MUSCLE_LAW = int(mujoco.mjtGain.mjGAIN_MUSCLE)  # also the number of a muscle's bias


def actuator_count(m) -> int:
    """Number of actuators; in MuJoCo before 4.0 this is the number of controls, one per actuator."""
    return int(getattr(m, "nactuator", m.nu))


def disabled(m, *names: str) -> bool:
    """Whether one of the disable flags, such as "CONTACT", is set."""
    return any(int(m.opt.disableflags) & int(getattr(mujoco.mjtDisableBit, f"mjDSBL_{name}")) for name in names)


def actuator_refusal(m, a: int) -> tuple[str, str] | None:
    """Why actuator `a` cannot be simulated, and the fix; None if it can."""
    if m.actuator_trntype[a] not in _TRANSMISSIONS:
        name = mujoco.mjtTrn(int(m.actuator_trntype[a])).name[6:].lower()
        return f"has the transmission {name}", "use a joint, a tendon, a site or a crank"
    if m.actuator_dyntype[a] > _DYN_MUSCLE:
        name = mujoco.mjtDyn(int(m.actuator_dyntype[a])).name[6:].lower()
        return f"has internal dynamics ({name})", "use dyntype none, integrator, filter, filterexact or muscle"
    if m.actuator_gaintype[a] > MUSCLE_LAW or m.actuator_biastype[a] > MUSCLE_LAW:
        gain, bias = mujoco.mjtGain(int(m.actuator_gaintype[a])), mujoco.mjtBias(int(m.actuator_biastype[a]))
        return f"has gain {gain.name[7:].lower()} and bias {bias.name[7:].lower()}", "use fixed, affine or muscle ones"
    if m.actuator_actnum[a] > 1:
        return "has several activations", "use one"
    for field, neutral, what in (
        ("actuator_plugin", -1, "is a plugin"),
        ("actuator_delay", 0, "has a delay"),
        ("actuator_history", 0, "has a history buffer"),
        ("actuator_ctrlnum", 1, "has several controls"),
        ("actuator_outnum", 1, "has several force outputs"),
        ("actuator_dampingpoly", 0, "has a nonlinear damping polynomial"),
    ):
        values = getattr(m, field, None)  # not in every version of MuJoCo
        if values is not None and (np.asarray(values[a]) != neutral).any():
            return what, "use a plain motor, position, velocity or general actuator"
    if not on_joint(m, a) and not on_tendon(m, a):
        return apart_refusal(m, a)
    target = int(m.actuator_trnid[a][0])
    gain = m.actuator_gainprm[a][:3] * (1.0, *[float(m.actuator_gaintype[a] == 1)] * 2)
    bias = m.actuator_biasprm[a][:3] * float(m.actuator_biastype[a] == 1)
    if bias[2] > 0:
        return f"has the positive velocity bias {bias[2]:g}, which feeds energy in", "make it negative"
    if on_tendon(m, a):
        if tendon_refusal(m, target):
            return (
                f"pulls {element_name(m, _TENDON, target)}, which {tendon_refusal(m, target)[0]}",
                "use a plain tendon",
            )
        if getattr(m, "actuator_armature", [0] * (a + 1))[a]:
            return "adds armature to a tendon", "set it on the joints"
        return None
    if m.jnt_type[target] < 2:
        kind = JOINTS[int(m.jnt_type[target])]
        if m.actuator_trntype[a] != _TRN_JOINT:
            return f"acts on a {kind} joint in its parent's axes", "use the joint's own axes (joint=)"
        if gain[1:].any() or bias[1:].any() or MUSCLE_LAW in (m.actuator_gaintype[a], m.actuator_biastype[a]):
            return f"feeds back length or velocity of a {kind} joint", "use motors, and feedback in the control"
        if any(np.any(getattr(m, f"actuator_{key}", [0] * (a + 1))[a]) for key in ("damping", "armature")):
            return f"adds damping or armature to a {kind} joint", "set them on the joint"
    return None


def apart_refusal(m, a: int) -> tuple[str, str] | None:
    """Why an actuator on sites, a crank or the contacts of a body cannot be simulated, and the fix; None if it can."""
    if m.actuator_biastype[a] == 1 and m.actuator_biasprm[a][2] > 0:
        return f"has the positive velocity bias {m.actuator_biasprm[a][2]:g}, which feeds energy in", "make it negative"
    if m.actuator_trntype[a] == _TRN_BODY:
        c = control_index(m, a)
        if m.actuator_trnid[a][0] == 0:
            return "sticks the contacts of the world", "give it a body"
        pulls = m.actuator_ctrllimited[c] and m.actuator_ctrlrange[c][0] >= 0 and m.actuator_gainprm[a][0] >= 0
        if not pulls or m.actuator_gaintype[a] != 0 or m.actuator_biastype[a] != 0:
            return "may push contacts apart", "use an adhesion, with a ctrlrange from 0 on"
    return None


def locked_ball(m, j: int) -> bool:
    """Whether joint `j` is a ball joint with the limit 0, which MuJoCo holds at its initial rotation."""
    return bool(m.jnt_type[j] == 1 and m.jnt_limited[j] and m.jnt_range[j].max() <= 0)


def on_joint(m, a: int) -> bool:
    """Whether actuator `a` drives a joint."""
    return int(m.actuator_trntype[a]) in (_TRN_JOINT, _TRN_JOINTINPARENT)


def on_tendon(m, a: int) -> bool:
    """Whether actuator `a` pulls a tendon."""
    return int(m.actuator_trntype[a]) == _TRN_TENDON


def tendon_actuators(m, t: int) -> list[int]:
    """The actuators on a tendon."""
    count = actuator_count(m)
    return np.flatnonzero((m.actuator_trntype[:count] == _TRN_TENDON) & (m.actuator_trnid[:count, 0] == t)).tolist()


def tendon_coefficients(m, t: int) -> dict[int, float] | None:
    """Coefficients of a fixed tendon, by joint; None for a spatial tendon."""
    wraps = range(m.tendon_adr[t], m.tendon_adr[t] + m.tendon_num[t])
    if any(m.wrap_type[i] != mujoco.mjtWrap.mjWRAP_JOINT for i in wraps):
        return None
    total: dict[int, float] = {}
    for i in wraps:
        total[int(m.wrap_objid[i])] = total.get(int(m.wrap_objid[i]), 0.0) + float(m.wrap_prm[i])
    return total


def line_bodies(m, a: int) -> list[int] | None:
    """The bodies that an actuator on a spatial tendon, sites, a crank or a body's contacts acts on; None for others."""
    first, second = (int(i) for i in m.actuator_trnid[a])
    if on_joint(m, a):
        return None
    if m.actuator_trntype[a] == _TRN_BODY:
        return [first]
    if not on_tendon(m, a):
        return [int(m.site_bodyid[s]) for s in (first, second) if s >= 0]
    if tendon_coefficients(m, first) is not None:
        return None
    wraps = range(m.tendon_adr[first], m.tendon_adr[first] + m.tendon_num[first])
    bodies = {int(mujoco.mjtWrap.mjWRAP_SITE): m.site_bodyid, int(mujoco.mjtWrap.mjWRAP_PULLEY): None}
    found = [(bodies.get(int(m.wrap_type[i]), m.geom_bodyid), int(m.wrap_objid[i])) for i in wraps]
    return [int(of[i]) for of, i in found if of is not None]


def tendon_roles(m, t: int) -> list[str]:
    """The roles of a tendon; empty for a tendon that does nothing."""
    roles = [f for f in TENDON_FORCES if np.any(getattr(m, f"tendon_{f}", [0] * m.ntendon)[t])]
    pulled = any(True for _ in tendon_actuators(m, t))
    ends = np.stack([m.eq_obj1id, m.eq_obj2id])[:, m.eq_type == mujoco.mjtEq.mjEQ_TENDON]
    roles += ["an actuator"] * pulled + ["an equality"] * bool((ends == t).any())
    return roles + ["a sensor"] * _is_measured(m, t, roles)


def _is_measured(m, t: int, roles: list[str]) -> bool:
    """Whether a sensor measures a tendon. For a tendon with no other role, its length must also be computable."""
    measured = (np.asarray(m.sensor_objtype) == int(_TENDON)) & (np.asarray(m.sensor_objid) == t)
    coefficients = tendon_coefficients(m, t)
    known = _stray_side(m, t) is None if coefficients is None else any(coefficients.values())
    return bool(measured.any()) and (bool(roles) or known)


def _stray_side(m, t: int) -> tuple[str, str] | None:
    """A side site of a spatial tendon that is on another body than its geom, and that geom; None if there is none."""
    for i in range(m.tendon_adr[t], m.tendon_adr[t] + m.tendon_num[t]):
        if m.wrap_type[i] in _WRAPPED and m.wrap_prm[i] >= 0:
            side, geom = round(float(m.wrap_prm[i])), int(m.wrap_objid[i])
            if m.site_bodyid[side] != m.geom_bodyid[geom]:
                return element_name(m, mujoco.mjtObj.mjOBJ_SITE, side), element_name(m, mujoco.mjtObj.mjOBJ_GEOM, geom)
    return None


def tendon_refusal(m, t: int) -> tuple[str, str] | None:
    """Why tendon `t` cannot be simulated, and the fix; None if it can, or does nothing."""
    roles = tendon_roles(m, t)
    if not roles:
        return None
    coefficients = tendon_coefficients(m, t)
    bad = [role for role in roles if role in TENDON_REFUSED]
    if bad:
        return f"acts with {', '.join(bad)}", "use a linear spring and damper, and put armature on the joints"
    named = _stray_side(m, t) if coefficients is None else None
    if named is not None:
        return f"has the side {named[0]} on another body than {named[1]}", "put it on the body of the geom"
    if coefficients is not None and not any(coefficients.values()):
        return "has no coefficient other than 0", "remove it"
    return None


def equality_refusal(m, e: int) -> tuple[str, str] | None:
    """Why equality `e` cannot be simulated, and the fix; None if it can."""
    kind = mujoco.mjtEq(int(m.eq_type[e])).name[5:].lower()
    ends = [int(i) for i in (m.eq_obj1id[e], m.eq_obj2id[e]) if i >= 0]
    if kind not in ("connect", "weld", "joint", "tendon"):
        return f"is a {kind} constraint", "remove it"
    if kind == "joint" and any(m.jnt_type[j] < 2 for j in ends):
        return "ties a ball or free joint", "use a connect or weld of its body"
    bad = [t for t in ends if kind == "tendon" and tendon_refusal(m, t)]
    if bad:
        return (
            f"ties {element_name(m, _TENDON, bad[0])}, which {tendon_refusal(m, bad[0])[0]}",
            "use plain tendons",
        )
    if kind in ("connect", "weld") and len(set(_end_bodies(m, e))) < 2:
        return "ties a body to itself", "remove it"
    return None


def _end_bodies(m, e: int) -> list[int]:
    site = m.eq_objtype[e] == mujoco.mjtObj.mjOBJ_SITE
    return [int(m.site_bodyid[i]) if site else int(i) for i in (m.eq_obj1id[e], m.eq_obj2id[e])]


def element_name(m, kind, index: int) -> str:
    """An element's kind and name, such as "joint 'knee'", or its index if it has no name."""
    word = kind.name[6:].lower()
    name = mujoco.mj_id2name(m, kind, index)
    return f"{word} {short(name)}" if name else f"{word} {index}"


def control_index(m, a: int) -> int:
    """Index of the first control of actuator `a`."""
    return int(m.actuator_ctrladr[a]) if hasattr(m, "actuator_ctrladr") else a
