# SPDX-License-Identifier: Apache-2.0
"""Whether the tables of a `Model` fit each other: for models that come from a file of arrays, where anything may stand.

Kernels trust indices; one out of range reads or writes memory that is not theirs.
"""

import numpy as np

from warpsim.errors import ModelError
from warpsim.model.builder_values import hull_limit
from warpsim.model.constraint_types import ConstraintType
from warpsim.model.friction_rules import CONDIMS
from warpsim.model.hydroelastic import surface_pairs
from warpsim.model.model import DynamicsType, FrictionRule, GeomType, JointType, Model
from warpsim.model.sensor_records import CONSTANTS
from warpsim.model.sensor_types import KINDS as KINDS_OF_SENSORS
from warpsim.model.sensor_types import DataType, ObjectType, SensorType
from warpsim.model.tendon_paths import check_paths

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
# By the beginning of the name, for those that are not above; the text is what `counts` knows.
OWNER = {"body": "nbody", "joint": "njoint", "link": "nlink", "geom": "ngeom", "pair": "npair", "tendon": "ntendon"}
OWNER |= {"constraint": "nconstraint", "actuator": "nu", "site": "nsite", "camera": "ncamera", "wrap": "nwrap"}
OWNER |= {"sensor": "nsensor"}
# Indices: the least that is allowed, and what they count; one past the end is allowed where a slice begins.
INDICES = {
    "body_parent": (-1, "nbody"),
    "body_link": (0, "nlink"),
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
ELEMENTS = ("joint", "geom", "site", "camera", "tendon", "actuator")  # that sensors refer to; bodies may be the world
KINDS = {"joint_type": JointType, "link_type": JointType, "geom_type": GeomType, "pair_rule": FrictionRule}
KINDS |= {"constraint_type": ConstraintType, "site_type": GeomType, "actuator_dynamics": DynamicsType}
KINDS |= {"sensor_type": SensorType, "sensor_object_type": ObjectType, "sensor_datatype": DataType}


def check_tables(model: Model) -> None:
    """Raise `ModelError` naming the first field whose length, index or kind does not fit the rest."""
    counts = {name: getattr(model, name) for name in ("nq", "nv", "nu", "nbody", "njoint", "ngeom", "nlink", "ntree")}
    counts |= {"ntendon": model.ntendon, "nconstraint": model.nconstraint, "npair": len(model.pair_geom)}
    counts |= {
        "nsite": model.nsite,
        "ncamera": model.ncamera,
        "nwrap": len(model.wrap_tendon),
        "nsensor": model.nsensor,
    }
    counts |= {"nmesh": len(model.meshes), "nfield": len(model.fields)}
    counts["nmaterial"] = len(model.visual_materials)
    for name, value in vars(model).items():
        rows = ROWS.get(name) or OWNER.get(name.split("_")[0])
        if rows and len(value) != _count(rows, counts):
            raise ModelError(f"{name} has {len(value)} rows; with {rows} it must have {_count(rows, counts)}")
    for name, (least, kind) in INDICES.items():
        _check_range(name, getattr(model, name), least, _count(kind, counts))
    _check_range("constraint_joint", model.constraint_joint, -1, max(model.njoint, model.ntendon))
    for name, kinds in KINDS.items():
        known = [int(kind) for kind in kinds]
        bad = ~np.isin(getattr(model, name), known)
        if bad.any():
            raise ModelError(f"{name}[{int(np.argmax(bad))}] is {getattr(model, name)[bad][0]}; there are {known}")
    check_paths(model)
    for name in ("tree_link", "tree_v"):
        if (np.diff(getattr(model, name)) < 0).any():
            raise ModelError(f"{name} is {getattr(model, name).tolist()}; it must not decrease")
    if (model.link_parent >= np.arange(model.nlink)).any():
        raise ModelError("link_parent: a link must come after its parent")
    for mesh in model.meshes:
        hull_limit(mesh.max_hull_vertices, f"mesh {mesh.name!r}: max_hull_vertices")
        _check_range(f"faces of mesh {mesh.name!r}", mesh.faces, 0, len(mesh.vertices))
        if mesh.uv is not None and mesh.uv.shape != (*mesh.faces.shape, 2):
            raise ModelError(
                f"uv of mesh {mesh.name!r} has the shape {mesh.uv.shape}; it must be {(*mesh.faces.shape, 2)}"
            )
    for field in model.fields:
        _check_range(f"tetrahedra of field {field.name!r}", field.tetrahedra, 0, len(field.vertices))
        if field.pressure.shape != (len(field.vertices),):
            raise ModelError(
                f"field {field.name!r} has pressures {field.pressure.shape}, and {len(field.vertices)} vertices"
            )
    if not np.isin(model.pair_condim, CONDIMS).all():
        raise ModelError(f"pair_condim holds {np.setdiff1d(model.pair_condim, CONDIMS)[0]}; there are {CONDIMS}")
    if model.geom_hydroelastic.shape != (model.ngeom, 4):
        raise ModelError(
            f"geom_hydroelastic has the shape {model.geom_hydroelastic.shape}; it must be ({model.ngeom}, 4)"
        )
    _check_sensors(model, counts)
    for name in ("joint_effort_range", "tendon_effort_range"):
        if getattr(model, name).shape[1:] != (2,):
            raise ModelError(f"{name} has the shape {getattr(model, name).shape}; its rows must be (low, high)")
    for name, width in (("actuator_time", (3,)), ("activation_range", (2,)), ("actuator_muscle", (2, 8))):
        if getattr(model, name).shape != (model.nu, *width):
            raise ModelError(f"{name} has the shape {getattr(model, name).shape}; it must be {(model.nu, *width)}")
    surface = surface_pairs(model.geom_hydroelastic, model.pair_geom)
    if not np.array_equal(surface, np.arange(len(surface)) >= model.point_pairs):
        raise ModelError(f"point_pairs is {model.point_pairs}, but pressure-field contact is of other pairs")
    mocap = np.flatnonzero(model.body_mocap >= 0)
    roots = model.body_link[mocap]
    if not np.array_equal(model.body_mocap[mocap], np.arange(len(mocap))):
        raise ModelError(f"body_mocap is {model.body_mocap.tolist()}; it must number the mocap bodies in their order")
    if (model.link_parent[roots] >= 0).any() or (model.link_type[roots] != JointType.FIXED).any():
        raise ModelError("body_mocap: a mocap body must be a child of the world without a joint")
    fields = int(np.count_nonzero(model.geom_type == GeomType.HFIELD))
    if len(model.hfields) != fields:
        raise ModelError(f"{fields} height-field geoms, but {len(model.hfields)} height fields")


def _check_sensors(model: Model, counts: dict[str, int]) -> None:
    """Their objects are there, of a type that the kind allows, and their places follow each other."""
    size = model.sensor_size
    if (size < 0).any() or not np.array_equal(model.sensor_adr, np.cumsum(size) - size):
        raise ModelError(
            f"sensor_adr is {model.sensor_adr.tolist()} of sizes {size.tolist()}; one must follow the other"
        )
    if model.sensor_constants.shape != (model.nsensor, CONSTANTS):
        raise ModelError(
            f"sensor_constants has the shape {model.sensor_constants.shape}; it must be {(model.nsensor, CONSTANTS)}"
        )
    for s, name in enumerate(model.sensor_names):
        kind = KINDS_OF_SENSORS[SensorType(model.sensor_type[s])]
        for allowed, type, index in zip(
            (kind.objects, kind.references), model.sensor_object_type[s], model.sensor_object[s], strict=True
        ):
            count = {ObjectType.NONE: 0, ObjectType.ACTUATOR: counts["nu"]}.get(ObjectType(type))
            word = {ObjectType.INERTIA: "body", ObjectType.SUBTREE: "body"}.get(
                ObjectType(type), ObjectType(type).name.lower()
            )
            count = counts[f"n{word}"] if count is None else count
            if ObjectType(type) not in allowed or not (0 if word in ELEMENTS else -1) <= index < count:
                raise ModelError(f"sensor {name!r} refers to {word} {index}; there are {count}")


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
