# SPDX-License-Identifier: Apache-2.0
"""Equality constraints and tendons of a compiled MuJoCo model to a `ModelBuilder`.

`warpsim.files.mjcf.mjcf_report` has reported what cannot be read; the same predicates decide here.
"""

import mujoco
import numpy as np

from warpsim.files.mjcf.mjcf_frames import site_pose
from warpsim.files.mjcf.mjcf_law import law_of
from warpsim.files.mjcf.mjcf_refusals import (
    disabled,
    equality_refusal,
    tendon_actuators,
    tendon_coefficients,
    tendon_refusal,
    tendon_roles,
)
from warpsim.files.mjcf.mjcf_report import DEFAULT_SOLIMP, DEFAULT_SOLREF
from warpsim.model.builder import ModelBuilder
from warpsim.model.geometry import IDENTITY
from warpsim.model.tendon_paths import Pulley

_CONNECT, _WELD, _JOINT, _TENDON = (
    int(getattr(mujoco.mjtEq, f"mjEQ_{name}")) for name in ("CONNECT", "WELD", "JOINT", "TENDON")
)
_SITE = int(mujoco.mjtObj.mjOBJ_SITE)
_PULLEY, _SITE_WRAP = int(mujoco.mjtWrap.mjWRAP_PULLEY), int(mujoco.mjtWrap.mjWRAP_SITE)


def compliance(m, solref, solimp, weight: float) -> tuple[float, float | None]:
    """Stiffness [N/m, N m/rad] and dissipation time [s] of `solref`/`solimp`; rigid for MuJoCo's defaults.

    MuJoCo drives the violation r towards a_ref = -b r' - k r and applies the force d/(1-d) (a_ref - a)/w. Here w is the
    inverse effective mass `weight` and d the impedance; at its full width d = solimp[1].

    - solref = (t, zeta): b = 2/(d t), k = 1/(d t^2 zeta^2)
    - a negative solref = (-K, -B): b = B/d, k = K/d

    At rest (a = 0) this is a spring of stiffness d/(1-d) k/w with the dissipation time b/k; it is rigid if w = 0.
    """
    solref, solimp = np.array(solref), np.array(solimp)
    if np.allclose(solref, DEFAULT_SOLREF) and np.allclose(solimp[:5], DEFAULT_SOLIMP):
        return np.inf, None
    d = min(max(float(solimp[1]), 1e-4), 0.9999)
    if solref[0] <= 0 and solref[1] <= 0:
        k, b = -solref[0] / d, -solref[1] / d
    else:
        t = float(solref[0]) if disabled(m, "REFSAFE") else max(float(solref[0]), 2 * float(m.opt.timestep))
        k, b = 1 / (d * t**2 * solref[1] ** 2), 2 / (d * t)
    if k <= 0:
        return np.inf, None
    return (d / (1 - d) * k / weight if weight > 0 else np.inf), b / k


def add_tendons(b: ModelBuilder, m, names: list[str], idle=()) -> dict[int, int]:
    """Add the tendons that have a role or are named in `idle`; returns their builder indices by MuJoCo's index."""
    springs, dampers = not disabled(m, "SPRING"), not disabled(m, "DAMPER")
    limits, dry = not disabled(m, "LIMIT", "CONSTRAINT"), not disabled(m, "FRICTIONLOSS", "CONSTRAINT")
    places: dict[int, int] = {}
    for t in range(m.ntendon):
        if tendon_refusal(m, t) or not (tendon_roles(m, t) or names[t] in idle):
            continue
        gears = [(a, float(m.actuator_gear[a, 0])) for a in tendon_actuators(m, t)]
        extra = (
            sum(float(m.actuator_damping[a]) * gear**2 for a, gear in gears) if hasattr(m, "actuator_damping") else 0
        )
        coefficients = tendon_coefficients(m, t)
        places[t] = b.add_tendon(
            coefficients,
            path=tendon_path(m, t) if coefficients is None else None,
            name=names[t],
            range=m.tendon_range[t] if m.tendon_limited[t] and limits else None,
            stiffness=m.tendon_stiffness[t] if springs else 0.0,
            damping=m.tendon_damping[t] + extra if dampers else 0.0,
            friction=m.tendon_frictionloss[t] if dry else 0.0,
            reference=m.tendon_lengthspring[t],
            **law_of(m, "tendon", t),
        )
    return places


def tendon_path(m, t: int) -> list:
    """The path of a spatial tendon, as `ModelBuilder.add_tendon` takes it."""
    path: list = []
    for i in range(m.tendon_adr[t], m.tendon_adr[t] + m.tendon_num[t]):
        kind, index, value = int(m.wrap_type[i]), int(m.wrap_objid[i]), float(m.wrap_prm[i])
        if kind == _PULLEY:
            path.append(Pulley(value))
        else:
            path.append(index if kind == _SITE_WRAP else (index, round(value) if value >= 0 else None))
    return path


def add_equalities(b: ModelBuilder, m, names: list[str], tendons: dict[int, int]) -> None:
    """Add connect, weld, joint and tendon constraints; `tendons` maps MuJoCo's tendon index to the builder's."""
    off = disabled(m, "EQUALITY", "CONSTRAINT")
    for e in range(m.neq):
        if equality_refusal(m, e):
            continue
        kind, first, second = int(m.eq_type[e]), int(m.eq_obj1id[e]), int(m.eq_obj2id[e])
        common = {"name": names[e], "active": bool(m.eq_active0[e]) and not off, **law_of(m, "eq", e)}
        if kind == _WELD:
            common["torquescale"] = m.eq_data[e, 10]
        if kind in (_CONNECT, _WELD):
            ends, poses, welded = _frames(m, e)
            stiffness, times = zip(*(_compliance(m, e, _body_weight(m, ends, k)) for k in (0, 1)), strict=True)
            common |= {"stiffness": stiffness, "dissipation_time": times[0]}
            b.add_constraint("weld" if welded else "connect", *ends, pose_a=poses[0], pose_b=poses[1], **common)
            continue
        if kind == _JOINT:
            dofs = [int(m.jnt_dofadr[j]) for j in (first, second) if j >= 0]
            weight, ends = float(sum(m.dof_invweight0[dof] for dof in dofs)), (first, second)
        else:
            weight = float(sum(m.tendon_invweight0[t] for t in (first, second) if t >= 0))
            ends = (tendons[first], tendons.get(second, -1))
        stiffness, time = _compliance(m, e, weight)
        alone = ends[1] < 0
        b.add_constraint(
            "joint" if kind == _JOINT else "tendon",
            ends[0],
            None if alone else ends[1],
            coefficients=m.eq_data[e, :1] if alone else m.eq_data[e, :5],
            stiffness=stiffness,
            dissipation_time=time,
            **common,
        )


def _frames(m, e: int):
    """Bodies, frames in them, and whether angles are held too (a weld with torquescale 0 is a connect)."""
    first, second, data = int(m.eq_obj1id[e]), int(m.eq_obj2id[e]), np.array(m.eq_data[e])
    weld = m.eq_type[e] == _WELD
    if m.eq_objtype[e] == _SITE:
        ends = [int(m.site_bodyid[s]) - 1 for s in (first, second)]
        poses = [site_pose(m, s) for s in (first, second)]
    elif weld:
        ends = [first - 1, second - 1]
        poses = [np.concatenate([data[3:6], data[6:10]]), np.concatenate([data[:3], IDENTITY[3:]])]
    else:
        ends = [first - 1, second - 1]
        poses = [data[:3], data[3:6]]
    return ends, poses, weld and data[10] != 0


def _body_weight(m, ends, k: int) -> float:
    """MuJoCo's approximate inverse effective mass of two bodies, for translation (k = 0) or rotation (k = 1)."""
    return float(sum(m.body_invweight0[end + 1].flat[k] for end in ends))


def _compliance(m, e: int, weight: float) -> tuple[float, float | None]:
    return compliance(m, m.eq_solref[e], m.eq_solimp[e], weight)
