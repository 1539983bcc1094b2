"""MJCF and URDF files, and ready `mujoco.MjModel`s, to a `Model`. MuJoCo parses and compiles; its numbers are read."""

import pathlib

import mujoco
import numpy as np

from warpsim.errors import ModelError
from warpsim.io.mjcf_report import feature_report
from warpsim.model.builder import ModelBuilder
from warpsim.model.geometry import rotation_matrix, rotation_vector
from warpsim.model.model import FrictionRule, GeomType, JointType, Model

DEFAULT_SOLREF = (0.02, 1.0)
DEFAULT_SOLIMP = (0.9, 0.95, 0.001, 0.5, 2.0)


def load_mujoco(source, *, actuators: str | None = None) -> Model:
    """Load an MJCF or URDF file or a `mujoco.MjModel`. See `warpsim.load`."""
    if isinstance(source, mujoco.MjModel):
        return convert(source, "mujoco.MjModel", actuators)
    path = pathlib.Path(source)
    try:
        compiled = mujoco.MjModel.from_xml_path(str(path))
    except Exception as error:
        raise ModelError(f"{path}: MuJoCo cannot compile it: {error}") from error
    return convert(compiled, str(path), actuators)


def convert(m, source: str, actuators: str | None = None) -> Model:
    """Convert a compiled `mujoco.MjModel`; `source` is what errors call it."""
    report, errors = feature_report(m)
    if errors:
        raise ModelError(f"{source}: " + "; ".join(errors))
    name = m.names[: m.names.index(b"\0")].decode() or "model"
    b = ModelBuilder(name, gravity=_gravity(m), timestep=float(m.opt.timestep))
    b.report = report
    b.friction_rule = FrictionRule.MAXIMUM
    b.filter_parent = not m.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_FILTERPARENT
    try:
        _add_bodies(b, m)
        _add_joints(b, m)
        _add_geoms(b, m)
        _add_filters(b, m)
        _add_actuators(b, m, actuators)
        _add_keyframes(b, m)
        return b.build()
    except ModelError as error:
        raise ModelError(f"{source}: {error}") from error


def _name(m, kind, index: int, fallback: str) -> str:
    return mujoco.mj_id2name(m, kind, index) or f"{fallback}_{index}"


def _gravity(m):
    disabled = m.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_GRAVITY
    return np.zeros(3) if disabled else np.array(m.opt.gravity)


def _add_bodies(b: ModelBuilder, m) -> None:
    for i in range(1, m.nbody):
        rotation = rotation_matrix(m.body_iquat[i])
        b.add_body(
            _name(m, mujoco.mjtObj.mjOBJ_BODY, i, "body"),
            parent=int(m.body_parentid[i]) - 1,
            pose=np.concatenate([m.body_pos[i], m.body_quat[i]]),
            mass=m.body_mass[i],
            com=m.body_ipos[i],
            inertia=rotation @ np.diag(m.body_inertia[i]) @ rotation.T,
        )


def _add_joints(b: ModelBuilder, m) -> None:
    flags = m.opt.disableflags
    springs = not flags & mujoco.mjtDisableBit.mjDSBL_SPRING
    dampers = not flags & mujoco.mjtDisableBit.mjDSBL_DAMPER
    limits = not flags & (mujoco.mjtDisableBit.mjDSBL_LIMIT | mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
    dry = not flags & (mujoco.mjtDisableBit.mjDSBL_FRICTIONLOSS | mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
    for j in range(m.njnt):
        kind = JointType(m.jnt_type[j])
        nq, nv = {0: (7, 6), 1: (4, 3)}.get(int(kind), (1, 1))
        q, v = slice(m.jnt_qposadr[j], m.jnt_qposadr[j] + nq), slice(m.jnt_dofadr[j], m.jnt_dofadr[j] + nv)
        rest = m.qpos_spring[q]
        if kind == JointType.FREE:
            reference = np.concatenate([rest[:3], rotation_vector(rest[3:])])
        else:
            reference = rotation_vector(rest) if kind == JointType.BALL else rest
        b.add_joint(
            int(m.jnt_bodyid[j]) - 1,
            kind,
            name=_name(m, mujoco.mjtObj.mjOBJ_JOINT, j, "joint"),
            axis=m.jnt_axis[j],
            anchor=m.jnt_pos[j],
            range=m.jnt_range[j] if m.jnt_limited[j] and limits else None,
            stiffness=np.full(nv, float(m.jnt_stiffness[j]) if springs else 0.0),
            damping=m.dof_damping[v] if dampers else 0.0,
            armature=m.dof_armature[v],
            friction=m.dof_frictionloss[v] if dry else 0.0,
            reference=reference,
            q0=m.qpos0[q],
        )


def contact_material(m, geom: int) -> tuple[float, float | None]:
    """Stiffness [N/m] and dissipation time [s] of a geom from `solref`/`solimp`; MuJoCo's defaults say nothing.

    With impedance d = solimp[1] (its value at full width) and solref = (t, zeta), MuJoCo drives the gap with
    a_ref = -b v - k r, b = 2/(d t), k = 1/(d t zeta)^2, and applies the force d/(1-d) (a_ref - a)/w, w the inverse
    effective mass. Read as a spring and damper: stiffness d/(1-d) k/w with w = the body's `invweight0`, dissipation
    time b/k = 2 d t zeta^2. A negative solref = (-k, -b) gives k and b directly.
    """
    solref, solimp = np.array(m.geom_solref[geom]), np.array(m.geom_solimp[geom])
    if np.allclose(solref, DEFAULT_SOLREF) and np.allclose(solimp[:5], DEFAULT_SOLIMP):
        return np.inf, None
    weight = float(np.ravel(m.body_invweight0[m.geom_bodyid[geom]])[0])
    impedance = min(max(float(solimp[1]), 1e-4), 0.9999)
    if solref[0] <= 0 and solref[1] <= 0:
        k, damping = -solref[0] / impedance**2, -solref[1] / impedance
        time = damping / k if k > 0 else None
    else:
        t, ratio = solref
        k, time = 1.0 / (impedance * t * ratio) ** 2, 2.0 * impedance * t * ratio**2
    if weight <= 0 or k <= 0:
        return np.inf, time
    return impedance / (1.0 - impedance) * k / weight, time


def _add_geoms(b: ModelBuilder, m) -> None:
    contact = not m.opt.disableflags & (mujoco.mjtDisableBit.mjDSBL_CONTACT | mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
    for g in range(m.ngeom):
        kind = GeomType(m.geom_type[g])
        mesh = None
        if kind == GeomType.MESH and m.geom_dataid[g] >= 0:
            d = m.geom_dataid[g]
            vertices = m.mesh_vert[m.mesh_vertadr[d] : m.mesh_vertadr[d] + m.mesh_vertnum[d]]
            faces = m.mesh_face[m.mesh_faceadr[d] : m.mesh_faceadr[d] + m.mesh_facenum[d]]
            mesh = (vertices, faces)
        stiffness, time = contact_material(m, g)
        rgba = m.mat_rgba[m.geom_matid[g]] if m.geom_matid[g] >= 0 else m.geom_rgba[g]
        if m.geom_matid[g] >= 0 and not np.allclose(m.geom_rgba[g], 0.5, atol=1e-6)  & True:
            rgba = m.geom_rgba[g]
        b.add_geom(
            kind,
            m.geom_size[g],
            body=int(m.geom_bodyid[g]) - 1,
            pose=np.concatenate([m.geom_pos[g], m.geom_quat[g]]),
            name=_name(m, mujoco.mjtObj.mjOBJ_GEOM, g, "geom"),
            density=0.0,
            friction=m.geom_friction[g, 0],
            stiffness=stiffness,
            dissipation_time=time,
            contype=int(m.geom_contype[g]) if contact else 0,
            conaffinity=int(m.geom_conaffinity[g]) if contact else 0,
            condim=int(m.geom_condim[g]),
            priority=int(m.geom_priority[g]),
            rgba=rgba,
            mesh=mesh,
            visible=bool(m.geom_group[g] < 3 and rgba[3] > 0),
        )


def _add_filters(b: ModelBuilder, m) -> None:
    for signature in m.exclude_signature:
        b.exclude(int(signature) // 65536 - 1, int(signature) % 65536 - 1)
    for p in range(m.npair):
        mu = 0.0 if m.pair_dim[p] == 1 else float(m.pair_friction[p, 0])
        b.add_pair(int(m.pair_geom1[p]), int(m.pair_geom2[p]), mu)


def _add_actuators(b: ModelBuilder, m, kind: str | None) -> None:
    off = bool(m.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_ACTUATION)
    unclamped = bool(m.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_CLAMPCTRL)
    infinite = (-np.inf, np.inf)
    for a in range(m.nu):
        gain = np.zeros(3) if off else np.array(m.actuator_gainprm[a, :3])
        bias = np.zeros(3) if off else np.array(m.actuator_biasprm[a, :3])
        if m.actuator_gaintype[a] == mujoco.mjtGain.mjGAIN_FIXED:
            gain[1:] = 0.0
        if m.actuator_biastype[a] == mujoco.mjtBias.mjBIAS_NONE:
            bias[:] = 0.0
        b.add_actuator(
            int(np.ravel(m.actuator_trnid[a])[0]),
            "affine",
            name=_name(m, mujoco.mjtObj.mjOBJ_ACTUATOR, a, "actuator"),
            gear=m.actuator_gear[a],
            gain=gain,
            bias=bias,
            control_range=m.actuator_ctrlrange[a] if m.actuator_ctrllimited[a] and not unclamped else infinite,
            force_range=m.actuator_forcerange[a] if m.actuator_forcelimited[a] else infinite,
        )
    if kind is None:
        return
    if kind not in ("effort", "position"):
        raise ModelError(f"actuators={kind!r} is unknown; use 'effort' or 'position'")
    driven = {a.joint for a in b.actuators}
    for j, joint in enumerate(b.joints):
        if j in driven or joint.type not in (JointType.HINGE, JointType.SLIDE):
            continue
        limits = m.jnt_actfrcrange[j] if m.jnt_actfrclimited[j] else infinite
        if kind == "effort":
            b.add_actuator(j, "effort", name=joint.name, control_range=limits)
        else:
            target = joint.range if joint.limited else infinite
            b.add_actuator(j, "position", name=joint.name, kp=100.0, kv=10.0, control_range=target, force_range=limits)


def _add_keyframes(b: ModelBuilder, m) -> None:
    for k in range(m.nkey):
        name = _name(m, mujoco.mjtObj.mjOBJ_KEY, k, "keyframe")
        b.add_keyframe(name, m.key_qpos[k], m.key_qvel[k], m.key_ctrl[k])
