# SPDX-License-Identifier: Apache-2.0
"""Consistency checks of a `Model`'s tables: of models read from a file of arrays, and of what a simulator is given.

Kernels trust indices: an index out of range reads or writes foreign memory.
"""

import dataclasses
import functools
import math

import numpy as np

from warpsim.base.checks import short
from warpsim.base.errors import ModelError
from warpsim.model.builder_values import hull_limit
from warpsim.model.constraint_types import ConstraintType
from warpsim.model.friction_rules import CONDIMS
from warpsim.model.hydroelastic import surface_pairs
from warpsim.model.model import DynamicsType, FrictionRule, GeomType, JointType, Model
from warpsim.model.mujoco_options import DEFAULTS, PAIR_LAW, MuJoCoOptions
from warpsim.model.sensor_types import CONTACT_DATA, RAY_DATA, DataType, ObjectType, SensorType, data_size
from warpsim.model.sensor_types import KINDS as KINDS_OF_SENSORS
from warpsim.model.tendon_paths import check_paths
from warpsim.model.tree_tables import check_trees

PER_DOF = ("joint_stiffness", "joint_damping", "joint_armature", "joint_friction", "joint_reference")
ROWS = {
    "control_range": "nu",
    "force_range": "nu",
    "activation_range": "nu",
    "dof_parent": "nv",
    "dof_link": "nv",
    "q0": "nq",
}
ROWS |= {"tree_reference": "ntree", "tree_link": "ntree + 1", "tree_v": "ntree + 1"} | dict.fromkeys(PER_DOF, "nv")
ROWS |= {"joint_friction_solref": "nv", "joint_friction_solimp": "nv"} | dict.fromkeys(PAIR_LAW, "nown")
# By the prefix of the name, for fields that are not listed above; the text is a key of `counts`.
OWNER = {"body": "nbody", "joint": "njoint", "link": "nlink", "geom": "ngeom", "pair": "npair", "tendon": "ntendon"}
OWNER |= {"constraint": "nconstraint", "actuator": "nu", "site": "nsite", "camera": "ncamera", "wrap": "nwrap"}
OWNER |= {"sensor": "nsensor"}
# Indices: the least allowed value, and what they count. One past the end is allowed where a slice begins.
INDICES = {
    "body_parent": (-1, "nbody"),
    "body_link": (0, "nlink"),
    "body_mocap": (-1, "nbody"),
    "joint_body": (0, "nbody"),
    "joint_link": (0, "nlink"),
    "joint_q": (0, "nq"),
    "joint_v": (0, "nv"),
    "link_parent": (-1, "nlink"),
    "link_joint": (-1, "njoint"),
    "link_body": (0, "nbody"),
    "link_q": (0, "nq + 1"),
    "link_v": (0, "nv + 1"),
    "link_tree": (0, "ntree"),
    "tree_link": (0, "nlink + 1"),
    "tree_v": (0, "nv + 1"),
    "tree_reference": (0, "nlink"),
    "dof_parent": (-1, "nv"),
    "dof_link": (0, "nlink"),
    "geom_body": (-1, "nbody"),
    "geom_mesh": (-1, "nmesh"),
    "geom_field": (-1, "nfield"),
    "geom_visual_material": (-1, "nmaterial"),
    "pair_geom": (0, "ngeom"),
    "pair_own": (-1, "nown"),
    "excluded": (-1, "nbody"),
    "constraint_body": (-1, "nbody"),
    "actuator_joint": (-1, "njoint"),
    "actuator_tendon": (-1, "ntendon"),
    "site_body": (-1, "nbody"),
    "camera_body": (-1, "nbody"),
    "wrap_tendon": (0, "ntendon"),
    "wrap_side": (-1, "nsite"),
    "actuator_site": (-1, "nsite"),
    "actuator_body": (-1, "nbody"),
}
# elements that sensors refer to; a body may be the world
ELEMENTS = ("joint", "geom", "site", "camera", "tendon", "actuator")
KINDS = {"joint_type": JointType, "link_type": JointType, "geom_type": GeomType, "pair_rule": FrictionRule}
KINDS |= {"constraint_type": ConstraintType, "site_type": GeomType, "actuator_dynamics": DynamicsType}
KINDS |= {"sensor_type": SensorType, "sensor_object_type": ObjectType, "sensor_datatype": DataType}
MOST_OF_A_SENSOR = 1_000_000  # values of a user sensor, contacts of a contact sensor
WORDS = {"f": "numbers", "i": "whole numbers", "b": "truth values"}  # by the kind of a dtype
# Fields that are always finite. Others may be infinite, or NaN where there is no value.
FINITE = {"gravity", "q0", "body_mass", "body_com", "body_inertia", "joint_anchor", "joint_axis", "geom_size", "wind"}
FINITE |= {*PAIR_LAW} - {"pair_own_condim"} | {f"{prefix}_{name}" for prefix, law in DEFAULTS.items() for name in law}
FINITE |= {f"{owner}_pose" for owner in ("joint", "link", "geom", "site", "camera", "constraint")}


def check_tables(model: Model) -> None:
    """Raise `ModelError` naming the first field whose length, index or type does not fit the others."""
    names = (
        "nq",
        "nv",
        "nu",
        "nbody",
        "njoint",
        "ngeom",
        "nlink",
        "ntree",
        "ntendon",
        "nconstraint",
        "nsite",
        "ncamera",
    )
    counts = {name: getattr(model, name) for name in (*names, "nsensor", "nown")}
    lists = {"pair": model.pair_geom, "wrap": model.wrap_tendon, "mesh": model.meshes, "field": model.fields}
    counts |= {f"n{kind}": len(items) for kind, items in (lists | {"material": model.visual_materials}).items()}
    _check_arrays(model, counts)
    _check_values(model)
    for name, (least, kind) in INDICES.items():
        _check_range(name, getattr(model, name), least, _count(kind, counts))
    for name, kinds in KINDS.items():
        known = [int(kind) for kind in kinds]
        bad = ~np.isin(getattr(model, name), known)
        if bad.any():
            raise ModelError(f"{name}[{int(np.argmax(bad))}] is {getattr(model, name)[bad][0]}; there are {known}")
    check_paths(model)
    check_trees(model)
    _check_constraints(model)
    _check_geoms(model)
    _check_sensors(model, counts)
    for name in ("geom_condim", "pair_condim", "pair_own_condim"):
        if not np.isin(getattr(model, name), CONDIMS).all():
            raise ModelError(f"{name} holds {np.setdiff1d(getattr(model, name), CONDIMS)[0]}; there are {CONDIMS}")
    owners = model.pair_own >= 0
    first = np.unique(model.pair_own[owners])
    unique = len(first) == owners.sum() and (model.nown == 0 or first.min(initial=1) == 0)
    if not unique or (model.pair_rule[owners] != FrictionRule.EXPLICIT).any():
        raise ModelError(f"pair_own is {short(model.pair_own.tolist())}; each law belongs to one explicit pair")
    surface = surface_pairs(model.geom_hydroelastic, model.pair_geom)
    if not np.array_equal(surface, np.arange(len(surface)) >= model.point_pairs):
        raise ModelError(f"point_pairs is {model.point_pairs}, but pressure-field contact is of other pairs")
    mocap = np.flatnonzero(model.body_mocap >= 0)
    roots = model.body_link[mocap]
    if not np.array_equal(model.body_mocap[mocap], np.arange(len(mocap))):
        raise ModelError(f"body_mocap is {model.body_mocap.tolist()}; it must number the mocap bodies in their order")
    if (model.link_parent[roots] >= 0).any() or (model.link_type[roots] != JointType.FIXED).any():
        raise ModelError("body_mocap: a mocap body must be a child of the world without a joint")


@functools.cache
def _empty() -> Model:
    """A model without elements, whose arrays give the number type and row shape of every field."""
    from warpsim.model.builder import ModelBuilder

    return ModelBuilder("empty").build()


def _check_array(name: str, value, shape, kind: str) -> None:
    """Check one array. `shape`: None in it allows any length; `kind`: the kind of the dtype."""
    if not isinstance(value, np.ndarray) or value.dtype.kind != kind:
        found = value.dtype if isinstance(value, np.ndarray) else f"a {type(value).__name__}"
        raise ModelError(f"{name} is {found}; it must be an array of {WORDS[kind]}")
    if len(value.shape) != len(shape) or any(n is not None and n != m for n, m in zip(shape, value.shape, strict=True)):
        rows = "(" + ", ".join("n" if n is None else str(n) for n in shape) + ")"
        raise ModelError(f"{name} has the shape {value.shape}; it must be {rows}")


def _check_arrays(model: Model, counts: dict[str, int]) -> None:
    """Check that every array has one row per element, with the row shape and number type of its field."""
    for field in dataclasses.fields(Model):
        name, value, like = field.name, getattr(model, field.name), getattr(_empty(), field.name)
        rows = ROWS.get(name) or OWNER.get(name.split("_")[0])
        if rows and (not hasattr(value, "__len__") or len(value) != _count(rows, counts)):
            size = len(value) if hasattr(value, "__len__") else short(value)
            raise ModelError(f"{name} has {size} rows; with {rows} it must have {_count(rows, counts)}")
        if name.endswith("_names") and not (isinstance(value, tuple) and all(isinstance(x, str) for x in value)):
            raise ModelError(f"{name} is {short(value)}; it must be names")
        if isinstance(like, np.ndarray):
            first = None if rows or name == "excluded" else like.shape[0]
            rest = (counts["nv"],) if name == "tendon_coefficients" else like.shape[1:]
            _check_array(name, value, (first, *rest), like.dtype.kind)
            if name in FINITE and not np.isfinite(value).all():
                where = np.argwhere(~np.isfinite(value))[0].tolist()
                raise ModelError(f"{name}{where} is {value[tuple(where)]}; it must be finite")
    for mesh in model.meshes:
        hull_limit(mesh.max_hull_vertices, f"mesh {mesh.name!r}: max_hull_vertices")
        _check_array(f"vertices of mesh {mesh.name!r}", mesh.vertices, (None, 3), "f")
        _check_array(f"faces of mesh {mesh.name!r}", mesh.faces, (None, 3), "i")
        _check_range(f"faces of mesh {mesh.name!r}", mesh.faces, 0, len(mesh.vertices))
        if not np.isfinite(mesh.vertices).all():
            raise ModelError(f"mesh {mesh.name!r} has vertices that are not finite")
        if mesh.uv is not None:
            _check_array(f"uv of mesh {mesh.name!r}", mesh.uv, (*mesh.faces.shape, 2), "f")
    for field in model.fields:
        _check_array(f"vertices of field {field.name!r}", field.vertices, (None, 3), "f")
        _check_array(f"tetrahedra of field {field.name!r}", field.tetrahedra, (None, 4), "i")
        _check_range(f"tetrahedra of field {field.name!r}", field.tetrahedra, 0, len(field.vertices))
        _check_array(f"pressure of field {field.name!r}", field.pressure, (len(field.vertices),), "f")
    for field in model.hfields:
        _check_array(f"size of height field {field.name!r}", field.size, (4,), "f")
        _check_array(f"data of height field {field.name!r}", field.data, (None, None), "f")
        if min(field.data.shape) < 2 or not (np.isfinite(field.data).all() and np.isfinite(field.size).all()):
            raise ModelError(
                f"height field {field.name!r} has the shape {field.data.shape}; give finite data, 2 by 2 at least"
            )
    shapes = {"q": (model.nq,), "v": (model.nv,), "control": (model.nu,), "activation": (model.na,)}
    shapes["mocap"] = (model.nmocap, 7)
    for label, frame in model.keyframes.items():
        for key, value in frame._asdict().items():
            older = key in ("activation", "mocap") and not value.size  # of stores written before the field existed
            _check_array(f"{key} of keyframe {label!r}", value, value.shape if older else shapes[key], "f")


def _check_values(model: Model) -> None:
    """Check type and range of the fields that are not arrays."""
    for name in ("fluid_density", "fluid_viscosity", "timestep"):
        value = getattr(model, name)
        if (
            type(value) not in (int, float)
            or not (math.isfinite(value) and value >= 0)
            or (name == "timestep" and not value)
        ):
            raise ModelError(f"{name} is {short(value)}; it must be a finite number, not negative, a timestep above 0")
    known = [int(rule) for rule in FrictionRule]
    if not isinstance(model.name, str) or type(model.filter_parent) is not bool or model.friction_rule not in known:
        raise ModelError(
            f"name, filter_parent and friction_rule are {short(model.name)}, {short(model.filter_parent)} and "
            f"{short(model.friction_rule)}; they must be a text, a truth value and one of {known}"
        )
    if not isinstance(model.mujoco, MuJoCoOptions):
        raise ModelError(f"mujoco is {short(model.mujoco)}; give ws.MuJoCoOptions(...)")
    if type(model.point_pairs) is not int or not 0 <= model.point_pairs <= len(model.pair_geom):
        raise ModelError(f"point_pairs is {short(model.point_pairs)}; it must be 0 to {len(model.pair_geom)}")
    for line in model.report:
        if len(line) != 3 or not all(isinstance(x, str) for x in line):
            raise ModelError(f"report has the line {short(line)}; it must be three texts")


def _check_constraints(model: Model) -> None:
    """Check the targets of constraints and actuators.

    Couplings tie joints of one coordinate, or tendons; other constraints tie two bodies. An actuator acts on one
    target.
    """
    single = np.flatnonzero(np.isin(model.joint_type, (JointType.HINGE, JointType.SLIDE)))
    for c, kind in enumerate(model.constraint_type.tolist()):
        first, second = model.constraint_joint[c].tolist()
        label = f"constraint_joint[{c}] is {[first, second]} of constraint {model.constraint_names[c]!r}"
        if kind in (ConstraintType.JOINT, ConstraintType.TENDON):
            allowed = single if kind == ConstraintType.JOINT else np.arange(model.ntendon)
            if first not in allowed or (second != -1 and second not in allowed):
                raise ModelError(f"{label}; couplings are of hinges and slides, or of tendons")
        elif (first, second) != (-1, -1) or model.constraint_body[c, 0] == model.constraint_body[c, 1]:
            raise ModelError(
                f"{label} and its bodies {model.constraint_body[c].tolist()}; it must tie two bodies, and no joint"
            )
    targets = (model.actuator_joint, model.actuator_tendon, model.actuator_body, model.actuator_site[:, 0])
    acts = sum((target >= 0).astype(int) for target in targets)
    crank = (model.actuator_rod > 0) & (model.actuator_site < 0).any(axis=1)
    if (acts != 1).any() or crank.any():
        a = int(np.argmax((acts != 1) | crank))
        raise ModelError(
            f"actuator {model.actuator_names[a]!r} acts on {acts[a]} things; it must be one, and a crank has two sites"
        )


def _check_geoms(model: Model) -> None:
    """Check that meshes and height fields have their data, and that pairs name two geoms, the lower type first."""
    bad = (model.geom_type == GeomType.MESH) & (model.geom_mesh < 0) & (model.geom_field < 0)
    if bad.any():
        raise ModelError(f"geom_mesh[{int(np.argmax(bad))}] is -1, of a mesh; it must be 0 to {len(model.meshes) - 1}")
    types = model.geom_type[model.pair_geom]
    bad = (model.pair_geom[:, 0] == model.pair_geom[:, 1]) | (types[:, 0] > types[:, 1])
    if bad.any():
        pair = int(np.argmax(bad))
        raise ModelError(
            f"pair_geom[{pair}] is {model.pair_geom[pair].tolist()}, of types {types[pair].tolist()}; the lower type "
            "comes first"
        )
    if (model.camera_resolution < 1).any():
        raise ModelError(
            f"camera_resolution is {short(model.camera_resolution.tolist())}; cameras have a pixel at least"
        )
    fields = int(np.count_nonzero(model.geom_type == GeomType.HFIELD))
    if len(model.hfields) != fields:
        raise ModelError(f"{fields} height-field geoms, but {len(model.hfields)} height fields")


def _check_sensors(model: Model, counts: dict[str, int]) -> None:
    """Check that the sensors' objects exist, with an allowed type, and that their columns are contiguous."""
    size = model.sensor_size
    if (size < 0).any() or not np.array_equal(model.sensor_adr, np.cumsum(size) - size):
        raise ModelError(
            f"sensor_adr is {model.sensor_adr.tolist()} of sizes {size.tolist()}; one must follow the other"
        )
    for s, name in enumerate(model.sensor_names):
        type = SensorType(model.sensor_type[s])
        kind, given = KINDS_OF_SENSORS[type], int(size[s])
        if given != _size_of_sensor(model, s, type, kind.size):
            raise ModelError(
                f"sensor {name!r} has {given} numbers, which a {type.name.lower()} sensor does not give so"
            )
        for allowed, type, index in zip(
            (kind.objects, kind.references), model.sensor_object_type[s], model.sensor_object[s], strict=True
        ):
            word = ObjectType(type).element
            count = (counts | {"nnone": 0, "nactuator": counts["nu"]})[f"n{word}"]
            if ObjectType(type) not in allowed or not (0 if word in ELEMENTS else -1) <= index < count:
                raise ModelError(f"sensor {name!r} refers to {word} {index}; there are {count}")


def _size_of_sensor(model: Model, s: int, type: SensorType, size: int) -> int:
    """Number of values of a sensor, from its constants."""
    bits, _, count = (int(x) if 0 <= x <= MOST_OF_A_SENSOR else 0 for x in model.sensor_constants[s, :3])
    if type == SensorType.RANGEFINDER:
        return data_size(RAY_DATA, bits)
    if type == SensorType.CONTACT:
        return count * data_size(CONTACT_DATA, bits)
    return min(int(model.sensor_size[s]), MOST_OF_A_SENSOR) if type == SensorType.UNAVAILABLE else size


def _count(text: str, counts: dict[str, int]) -> int:
    name, _, more = text.partition(" + ")
    return counts[name] + int(more or 0)


def _check_range(name: str, values: np.ndarray, least: int, count: int) -> None:
    if not np.issubdtype(values.dtype, np.integer):
        raise ModelError(f"{name} holds {values.dtype}; indices must be whole numbers")
    bad = (values < least) | (values >= count)
    if bad.any():
        where = np.argwhere(bad)[0].tolist()
        raise ModelError(f"{name}{where} is {values[bad][0]}; it must be {least} to {count - 1}")
