# SPDX-License-Identifier: Apache-2.0
"""Convert MJCF files, `mujoco.MjSpec`s and compiled `mujoco.MjModel`s to a `Model`.

MuJoCo parses and compiles; the numbers come from its compiled model. `warpsim.files.mjcf.mjcf_report` and docs/mjcf.md
say what is used, mapped, ignored and refused.
"""

import dataclasses
import pathlib

import mujoco
import numpy as np

from warpsim.base.errors import ModelError, named
from warpsim.files.drives import INFINITE, drive_joints
from warpsim.files.meshes import convex_parts
from warpsim.files.mjcf.mjcf_actuators import actuator_options, actuator_target
from warpsim.files.mjcf.mjcf_constraints import add_equalities, add_tendons, compliance
from warpsim.files.mjcf.mjcf_files import Bundle, bundle
from warpsim.files.mjcf.mjcf_force_limits import SHARED, ForceLimits, compensates, is_off
from warpsim.files.mjcf.mjcf_frames import geom_pose, inertial_pose
from warpsim.files.mjcf.mjcf_kept import idle_tendons, read_kept, restore
from warpsim.files.mjcf.mjcf_law import law_of, options_of, pair_law, with_override
from warpsim.files.mjcf.mjcf_marks import add_marks
from warpsim.files.mjcf.mjcf_names import element_names
from warpsim.files.mjcf.mjcf_pressure import pressure_fields
from warpsim.files.mjcf.mjcf_refusals import (
    actuator_count,
    actuator_refusal,
    control_index,
    disabled,
    locked_ball,
    on_joint,
)
from warpsim.files.mjcf.mjcf_report import feature_report, fluid
from warpsim.files.mjcf.mjcf_sensors import add_sensors
from warpsim.files.mjcf.mjcf_spec import CALLED, compile_spec
from warpsim.files.mjcf.mjcf_textures import Images, add_looks
from warpsim.files.pressure_fields import fitted
from warpsim.files.safe_files import left_out, missing
from warpsim.model.builder import ModelBuilder
from warpsim.model.geom_types import half_extents
from warpsim.model.geometry import rotation_matrix, rotation_vector
from warpsim.model.model import FrictionRule, GeomType, JointType, Mesh, Model, ReportLine
from warpsim.model.mujoco_options import add_laws, follows, plain_law

DEFAULT_RGBA = (0.5, 0.5, 0.5, 1.0)  # of a geom; any other colour of a geom takes precedence over its material's
HIDDEN_GROUP = 3  # MuJoCo's viewer draws only lower groups


def load_mujoco(
    source, *, actuators: str | None = None, unsupported: str = "error", packages=None, root=None, decompose=False
):
    """Load an MJCF file, a `mujoco.MjSpec` or a `mujoco.MjModel`. See `warpsim.load`."""
    if isinstance(source, mujoco.MjModel):
        return convert(source, "mujoco.MjModel", actuators, unsupported, decompose)
    if isinstance(source, mujoco.MjSpec):
        m, lines, textures = compile_spec(source, packages, root)
        return convert(m, CALLED, actuators, unsupported, decompose, lines, textures)
    path = pathlib.Path(source)
    if not path.is_file():
        raise ModelError(f"{path}: {missing(path)}")
    files = bundle(path, packages, root)
    return convert(
        compile_bundle(files, path), str(path), actuators, unsupported, decompose, files.report, files.textures
    )


def compile_bundle(files: Bundle, path) -> mujoco.MjModel:
    """Compile a file and all it names with MuJoCo. Raises `ModelError` with names and lines of the user's files."""
    try:
        return mujoco.MjModel.from_xml_string(files.text, files.assets)
    except Exception as error:
        first = error
    for k, text in enumerate(files.texts):  # find the text that the line number in the message belongs to
        try:
            mujoco.MjModel.from_xml_string(text, files.assets)
        except Exception as error:
            raise ModelError(f"{path}: MuJoCo cannot compile it: {files.explain(str(error), k)}") from error
    raise ModelError(f"{path}: MuJoCo cannot compile it: {files.explain(str(first))}") from first


def convert(
    m, source: str, actuators: str | None = None, unsupported: str = "error", decompose=False, report=(), textures=()
) -> Model:
    """Convert a compiled `mujoco.MjModel`.

    `source` is its name in errors, `report` holds lines about its files, and `textures` are the sources of its
    textures.
    """
    m = with_override(m)
    lines, errors = feature_report(m)
    lines += report
    with named(source):
        left_out(source, errors, unsupported, stacklevel=5)
        kept = read_kept(m, lines)
        b = collect(m, lines, idle_tendons(kept))
        add_looks(b, m, Images(m, textures))
        b = restore(b, kept) if kept else b
        if decompose:
            _decompose(b, decompose)
        if actuators is not None:
            drive_joints(b, actuators, _efforts(m))
        return b.build()


def collect(m, lines: list[ReportLine], idle=()) -> ModelBuilder:
    """A builder with everything in a compiled `mujoco.MjModel` that can be simulated, from the MJCF alone.

    Of the tendons that do nothing, it has only those named in `idle`.
    """
    b = ModelBuilder(_model_name(m), gravity=_gravity(m), timestep=float(m.opt.timestep))
    b.wind = np.array(m.opt.wind)
    if fluid(m):
        b.density, b.viscosity = float(m.opt.density), float(m.opt.viscosity)
    b.report = lines
    b.mujoco = options_of(m)
    b.friction_rule = FrictionRule.MAXIMUM
    b.filter_parent = not disabled(m, "FILTERPARENT")
    _add_bodies(b, m)
    _add_joints(b, m)
    _add_geoms(b, m)
    add_marks(b, m)
    _add_filters(b, m)
    names = element_names(m, mujoco.mjtObj.mjOBJ_TENDON, m.ntendon, "tendon")
    tendons = add_tendons(b, m, names, idle)
    add_equalities(b, m, element_names(m, mujoco.mjtObj.mjOBJ_EQUALITY, m.neq, "constraint"), tendons)
    actuators = _add_actuators(b, m, tendons)
    add_sensors(b, m, tendons, actuators)
    _add_keyframes(b, m, actuators)
    return b


# Elements -----------------------------------------------------------------------------------------------------------


def _model_name(m) -> str:
    return m.names[: m.names.index(b"\0")].decode() or "model"


def _gravity(m):
    return np.zeros(3) if disabled(m, "GRAVITY") else np.array(m.opt.gravity)


def _add_bodies(b: ModelBuilder, m) -> None:
    names = element_names(m, mujoco.mjtObj.mjOBJ_BODY, m.nbody, "body", first=1)
    for i in range(1, m.nbody):
        inertial = inertial_pose(m, i)
        rotation = rotation_matrix(inertial[3:])
        b.add_body(
            names[i - 1],
            parent=int(m.body_parentid[i]) - 1,
            pose=np.concatenate([m.body_pos[i], m.body_quat[i]]),
            mass=m.body_mass[i],
            com=inertial[:3],
            inertia=rotation @ np.diag(m.body_inertia[i]) @ rotation.T,
            mocap=m.body_mocapid[i] >= 0,
            gravcomp=m.body_gravcomp[i] if compensates(m) else 0.0,
        )
        b.bodies[-1].axes = inertial[3:].copy()


def _add_joints(b: ModelBuilder, m) -> None:
    springs, dampers = not disabled(m, "SPRING"), not disabled(m, "DAMPER")
    limits, dry = not disabled(m, "LIMIT", "CONSTRAINT"), not disabled(m, "FRICTIONLOSS", "CONSTRAINT")
    extra_damping, extra_armature = (_actuator_sum(m, key) for key in ("damping", "armature"))
    names = element_names(m, mujoco.mjtObj.mjOBJ_JOINT, m.njnt, "joint")
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
            name=names[j],
            axis=m.jnt_axis[j],
            anchor=m.jnt_pos[j],
            range=m.jnt_range[j] if m.jnt_limited[j] and limits and not locked_ball(m, j) else None,
            stiffness=np.full(nv, float(m.jnt_stiffness[j]) if springs else 0.0),
            damping=m.dof_damping[v] + extra_damping[j] if dampers else 0.0,
            armature=m.dof_armature[v] + extra_armature[j],
            friction=m.dof_frictionloss[v] if dry else 0.0,
            reference=reference,
            q0=m.qpos0[q],
            **law_of(m, "jnt", j),
            friction_solref=m.dof_solref[v],
            friction_solimp=m.dof_solimp[v],
        )


def _actuator_sum(m, key: str) -> np.ndarray:
    """What the actuators add to each joint's damping or armature: their own value times gear²."""
    total = np.zeros(m.njnt)
    for a in range(actuator_count(m)) if hasattr(m, f"actuator_{key}") else ():
        if actuator_refusal(m, a) is None and on_joint(m, a):
            total[int(m.actuator_trnid[a][0])] += getattr(m, f"actuator_{key}")[a] * m.actuator_gear[a, 0] ** 2
    return total


def contact_material(m, geom: int) -> tuple[float, float | None]:
    """Contact stiffness [N/m] and dissipation time [s] of a geom from `solref`/`solimp`; see `compliance`.

    The weight of the geom is its body's translational `invweight0`. In a pair both compliances add, as both weights do
    in MuJoCo. A geom on the world (weight 0) is rigid.
    """
    weight = float(m.body_invweight0[m.geom_bodyid[geom]].flat[0])
    return compliance(m, m.geom_solref[geom], m.geom_solimp[geom], weight)


def _rgba(m, geom: int) -> np.ndarray:
    """The geom's colour if it is not MuJoCo's default, else its material's."""
    material = m.geom_matid[geom]
    own = not np.allclose(m.geom_rgba[geom], DEFAULT_RGBA)
    return m.geom_rgba[geom] if own or material < 0 else m.mat_rgba[material]


def _mesh(m, geom: int):
    d = m.geom_dataid[geom]
    vertices = m.mesh_vert[m.mesh_vertadr[d] : m.mesh_vertadr[d] + m.mesh_vertnum[d]]
    return vertices, m.mesh_face[m.mesh_faceadr[d] : m.mesh_faceadr[d] + m.mesh_facenum[d]]


def _hfield(m, geom: int):
    d = m.geom_dataid[geom]
    rows, columns, start = int(m.hfield_nrow[d]), int(m.hfield_ncol[d]), int(m.hfield_adr[d])
    return np.array(m.hfield_size[d]), m.hfield_data[start : start + rows * columns].reshape(rows, columns)


def _add_geoms(b: ModelBuilder, m) -> None:
    contact = not disabled(m, "CONTACT", "CONSTRAINT")
    names = element_names(m, mujoco.mjtObj.mjOBJ_GEOM, m.ngeom, "geom")
    soft = pressure_fields(m)
    for g in range(m.ngeom):
        signed_distance_field = m.geom_type[g] == 8  # it keeps its mesh
        kind = GeomType.MESH if signed_distance_field else GeomType(m.geom_type[g])
        stiffness, time = contact_material(m, g)
        rgba = _rgba(m, g)
        b.add_geom(
            kind,
            m.geom_size[g],
            body=int(m.geom_bodyid[g]) - 1,
            pose=geom_pose(m, g),
            name=names[g],
            density=0.0,
            friction=m.geom_friction[g, 0],
            stiffness=stiffness,
            dissipation_time=time,
            contype=int(m.geom_contype[g]) if contact else 0,
            conaffinity=int(m.geom_conaffinity[g]) if contact else 0,
            condim=int(m.geom_condim[g]),
            torsional_friction=m.geom_friction[g, 1],
            rolling_friction=m.geom_friction[g, 2],
            margin=m.geom_margin[g],
            priority=int(m.geom_priority[g]),
            rgba=rgba,
            hfield=_hfield(m, g) if kind == GeomType.HFIELD else None,
            mesh=_mesh(m, g) if kind == GeomType.MESH and m.geom_dataid[g] >= 0 else None,
            visible=bool(m.geom_group[g] < HIDDEN_GROUP and rgba[3] > 0),
            fluid=_ellipsoid(m, g, kind),
            hydroelastic=fitted(soft.get(g), kind, m.geom_size[g], f"geom {names[g]!r}", b.report),
            **law_of(m, "geom", g),
        )
        b.geoms[-1].mapped_stiffness = stiffness if np.isfinite(stiffness) else np.nan


def _ellipsoid(m, geom: int, kind: GeomType):
    """Fluid coefficients and semi-axes of a geom on which the medium acts as on an ellipsoid; None for other geoms."""
    if not m.geom_fluid[geom, 0] > 0:
        return None
    return np.concatenate([m.geom_fluid[geom], half_extents(kind, m.geom_size[geom])])


def _decompose(b: ModelBuilder, settings) -> None:
    """Replace each colliding mesh geom by hidden convex parts; the mesh itself is then only drawn."""
    for geom in [g for g in b.geoms if g.type == GeomType.MESH and (g.contype or g.conaffinity)]:
        mesh = b.meshes[geom.mesh]
        for k, part in enumerate(convex_parts(mesh.vertices, mesh.faces, settings)):
            copied = dataclasses.replace(geom, name=f"{geom.name}_part_{k}", visible=False, mesh=len(b.meshes))
            b.meshes.append(Mesh(copied.name, *part))
            b.geoms.append(copied)
        geom.contype = geom.conaffinity = 0
        geom.hydroelastic = np.full(4, np.nan)
        b.report.append(ReportLine(f"geom {geom.name!r}", "mapped", "touches with its convex parts"))


def _add_filters(b: ModelBuilder, m) -> None:
    for signature in m.exclude_signature:
        b.exclude(int(signature) // 65536 - 1, int(signature) % 65536 - 1)
    if disabled(m, "CONTACT", "CONSTRAINT"):
        return
    laws: dict[tuple[int, int], list[list[float]]] = {}
    for p in range(m.npair):
        geoms = tuple(sorted((int(m.pair_geom1[p]), int(m.pair_geom2[p]))))
        laws.setdefault(geoms, []).append(pair_law(m, p))
    for geoms, rows in laws.items():
        mu, condim, *lengths = np.max([plain_law(row) for row in rows], axis=0)
        own = dict(zip(("torsional_friction", "rolling_friction", "margin"), lengths, strict=True))
        b.add_pair(*geoms, mu, condim=int(condim), **own)
        if len(rows) > 1 or not follows(rows[0], [b.geoms[g] for g in geoms]):
            add_laws(b, rows)


def _add_actuators(b: ModelBuilder, m, tendons: dict[int, int]) -> list[int]:
    """Add the actuators that can be simulated; returns their indices in MuJoCo's model."""
    names = element_names(m, mujoco.mjtObj.mjOBJ_ACTUATOR, actuator_count(m), "actuator")
    kept, limits = [], ForceLimits(m)
    for a in range(actuator_count(m)):
        if actuator_refusal(m, a):
            continue
        off = is_off(m, a)
        index = b.add_actuator(
            **actuator_target(m, a, tendons),
            name=names[a],
            force_range=INFINITE if off else limits.force_range(a),
            **actuator_options(m, a, off),
        )
        if not off:
            b.actuators[index].own_range = limits.own_range(a)
        kept.append(a)
    for j in (j for j, outcome in limits.joints.items() if outcome == SHARED):
        b.add_effort_limit(j, m.jnt_actfrcrange[j], gravity_compensation=limits.gravity(j))
    for t in (t for t, outcome in limits.tendons.items() if outcome == SHARED):
        b.add_effort_limit(tendon=tendons[t], range=m.tendon_actfrcrange[t])
    return kept


def _efforts(m) -> list:
    """The force range of each joint."""
    return [m.jnt_actfrcrange[j] if m.jnt_actfrclimited[j] else INFINITE for j in range(m.njnt)]


def _add_keyframes(b: ModelBuilder, m, kept: list[int]) -> None:
    controls = [control_index(m, a) for a in kept]
    activations = [int(m.actuator_actadr[a]) for a in kept if m.actuator_dyntype[a]]
    for k, name in enumerate(element_names(m, mujoco.mjtObj.mjOBJ_KEY, m.nkey, "keyframe")):
        mocap = np.concatenate([m.key_mpos[k].reshape(-1, 3), m.key_mquat[k].reshape(-1, 4)], axis=1)
        act = m.key_act[k][activations] if m.key_act[k].any() else None  # a keyframe without activations has zeros
        b.add_keyframe(name, m.key_qpos[k], m.key_qvel[k], m.key_ctrl[k][controls], act, mocap)
