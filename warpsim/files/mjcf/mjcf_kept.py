# SPDX-License-Identifier: Apache-2.0
"""What MJCF cannot express, or MuJoCo's compiler would round, as JSON in a custom text of the MJCF file.

The element is `<custom><text name="warpsim:data" data="..."/></custom>`. `to_mjcf` writes plain MJCF, reads it back,
and keeps here what came back different, element by element; `ws.load` restores it. MJCF takes precedence: a kept value
counts only if the file still has the plain value that was written. So an edited file reads as edited. The JSON has,
each if needed:

- a kind of element: {name: {field: value}}; {"mjcf": ..., "value": ...} if the two differ by more than rounding
- "shape": {geom: mesh or height field in double precision, and the pose}; "field": {geom: tetrahedra of a pressure
  field}
- "hull": {geom: most vertices of its convex hull}
- "order": {kind: names}, if MuJoCo numbers bodies and the elements on them differently
- "aids": sites that replace frames of constraints
- "constraints": those that MJCF does not have; "tendons": those that do nothing
- "looks": materials, images and texture coordinates (`mjcf_kept_looks`)
- "effort_limits", "pairs": {"mjcf", "value"}; "friction_rule"
"""

import zlib

import mujoco
import numpy as np

from warpsim.base.checks import short
from warpsim.base.errors import ModelError
from warpsim.files.kept_json import add_efforts, add_record, effort_rows, loads, unpack
from warpsim.files.mjcf.mjcf_kept_looks import restore_looks
from warpsim.files.mjcf.mjcf_law import LAW_FIELDS
from warpsim.files.mjcf.mjcf_report import KEPT as NAME
from warpsim.model.builder import ModelBuilder
from warpsim.model.constraint_types import BODY_CONSTRAINTS, ConstraintType
from warpsim.model.elements import add_pairs
from warpsim.model.geometry import compose
from warpsim.model.model import FrictionRule, GeomType, HField, ReportLine, TetField
from warpsim.model.renumber import LISTS, renumber

VERSION = 1
ROUNDING = 1e-9  # relative difference that counts as rounding
SINGLE = 1e-5  # the same for shapes, which MuJoCo keeps in single precision
TINY = 1e-13
FIELDS = {
    "body": ("pose", "mass", "com", "inertia", "axes", "gravcomp"),
    "joint": ("anchor", "axis", "range", "stiffness", "damping", "armature", "friction", "reference", "q0"),
    "geom": (
        *("size", "pose", "friction", "stiffness", "dissipation_time", "restitution", "hertz_modulus", "rgba"),
        *("visible", "hydroelastic", "fluid", "torsional_friction", "rolling_friction", "margin"),
        *("friction_dynamic", "friction_velocity", "mapped_stiffness"),
    ),
    "site": ("pose", "size", "rgba"),
    "camera": ("pose", "fovy"),
    "tendon": ("range", "stiffness", "damping", "friction", "reference"),
    "constraint": ("poses", "coefficients", "stiffness", "dissipation_time"),
    "actuator": (
        *("gear", "gain", "bias", "control_range", "force_range", "time", "activation_range", "muscle"),
        "length_range",
    ),
    "sensor": ("cutoff", "datatype", "constants"),
}
# The errors that values of a wrong type or shape cause.
DAMAGE = (ValueError, TypeError, AttributeError, LookupError, ArithmeticError, RuntimeError, MemoryError, zlib.error)
FIELDS = {kind: (*fields, *LAW_FIELDS.get(kind, ())) for kind, fields in FIELDS.items()}
KINDS = {kind: LISTS.get(kind, f"{kind}s") for kind in FIELDS}


def agrees(first, second) -> bool:
    """Whether two values are equal up to rounding."""
    a, b = np.asarray(first, float), np.asarray(second, float)
    if a.shape != b.shape:
        return False
    finite = np.isfinite(a) & np.isfinite(b)
    scale = max(np.abs(a[finite]).max(initial=0.0), np.abs(b[finite]).max(initial=0.0))
    near = np.abs(np.where(finite, a, 0.0) - np.where(finite, b, 0.0)) <= ROUNDING * scale + TINY
    return bool((near & (finite | (a == b) | (np.isnan(a) & np.isnan(b)))).all())


def read_kept(m, lines: list[ReportLine]) -> dict:
    """The kept data in the texts of a compiled model; empty if there is none.

    Raises `ModelError` if the model's own text was not written by this version of `to_mjcf`. Data for a whole model
    does not count if that model was attached to this one; `lines` gets a line for each such text.
    """
    names = {mujoco.mj_id2name(m, mujoco.mjtObj.mjOBJ_TEXT, i): i for i in range(m.ntext)}
    kept = _text(m, names[NAME], NAME) if NAME in names else {}
    for name in (name for name in names if NAME in name and name != NAME):
        try:
            found, whole = _attached(_text(m, names[name], name), *name.split(NAME, 1))
            merged = {
                key: value | kept.get(key, {}) if isinstance(value, dict) else [*kept.get(key, []), *value]
                for key, value in found.items()
            }
        except DAMAGE as error:
            lines.append(ReportLine(f"custom text {name}", "ignored", f"not what to_mjcf writes: {short(str(error))}"))
            continue
        kept |= merged
        if whole:
            why = f"{', '.join(whole)}: of the whole model, which was attached to this one"
            lines.append(ReportLine(f"custom text {name}", "ignored", why))
    return kept


def _text(m, index: int, name: str) -> dict:
    start = int(m.text_adr[index])
    text = bytes(m.text_data[start : start + int(m.text_size[index])]).rstrip(b"\0").decode(errors="replace")
    kept = loads(text)
    if kept is None or kept.get("version") != VERSION:
        raise ModelError(
            f"text {name!r} is not what to_mjcf of this version writes; remove it, and the file reads as plain MJCF"
        )
    return kept


def _attached(kept: dict, before: str, after: str) -> tuple[dict, list[str]]:
    """The kept data of the elements of an attached model, and the names of its data for the whole model.

    Names in the other model have the prefix `before` and the suffix `after`.
    """

    def renamed(name: str) -> str:
        return before + name + after

    by_name = {*FIELDS, "shape", "hull", "field"}
    found: dict = {key: {renamed(name): x for name, x in kept[key].items()} for key in kept.keys() & by_name}
    for key in kept.keys() & {"aids", "tendons"}:
        found[key] = [renamed(name) for name in kept[key]]
    between = [c for c in kept.get("constraints", ()) if None not in c["bodies"]]
    if between:
        found["constraints"] = [
            c | {"name": renamed(c["name"]), "bodies": [renamed(name) for name in c["bodies"]]} for c in between
        ]
    whole = [key for key in ("friction_rule", "pairs", "effort_limits", "looks") if key in kept]
    whole += [f"constraint {c['name']!r}" for c in kept.get("constraints", ()) if None in c["bodies"]]
    return found, whole


def idle_tendons(kept: dict) -> list[str]:
    """Names of the tendons that do nothing but are kept."""
    names = kept.get("tendons")
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def restore(b: ModelBuilder, kept: dict) -> ModelBuilder:
    """Restore kept data in a builder read from the file. Raises `ModelError` for data that no model can have."""
    try:
        with np.errstate(invalid="ignore"):  # of values that `add_model` then refuses
            _restore(b, kept)
            ModelBuilder("checked").add_model(b.build())
    except DAMAGE as error:
        why = f"{type(error).__name__}: {error}" if not isinstance(error, ModelError) else str(error)
        raise ModelError(
            f"text {NAME!r}: {short(why)[1:-1]}; remove the text, and the file reads as plain MJCF"
        ) from None
    return b


def _restore(b: ModelBuilder, kept: dict) -> None:
    _reorder(b, kept)
    for kind, fields in FIELDS.items():
        for item in getattr(b, KINDS[kind]):
            _restore_fields(item, kept.get(kind, {}).get(item.name, {}), fields)
    _restore_shapes(b, kept)
    restore_looks(b, kept)
    _restore_lists(b, kept)


def _reorder(b: ModelBuilder, kept: dict) -> None:
    aids = set(kept.get("aids", ()))
    if aids:
        renumber(b, "site", [s for s, site in enumerate(b.sites) if site.name not in aids])
    for kind, names in kept.get("order", {}).items():
        place = {item.name: i for i, item in enumerate(getattr(b, KINDS[kind]))}
        if len(names) == len(place) and place.keys() == set(names):
            order = [place[name] for name in names]
            if kind != "body" or _parents_first(b, order):  # otherwise the tree differs from the one that was written
                renumber(b, kind, order)


def _parents_first(b: ModelBuilder, order: list[int]) -> bool:
    at = {-1: -1} | {i: place for place, i in enumerate(order)}
    return all(at[body.parent] < at[i] for i, body in enumerate(b.bodies))


def _restore_fields(item, kept: dict, fields) -> None:
    for field in (field for field in fields if field in kept):
        plain, entry = getattr(item, field), kept[field]
        was, value = (entry["mjcf"], entry["value"]) if isinstance(entry, dict) else (entry, entry)
        if not agrees(plain, was):
            continue  # the file was edited
        if isinstance(plain, bool):
            setattr(item, field, bool(value))
        elif isinstance(plain, tuple):
            setattr(item, field, tuple(np.array(value, float)))
        elif np.ndim(plain):
            setattr(item, field, np.array(value, float).reshape(np.shape(plain)))
        else:
            setattr(item, field, type(plain)(value))


def _restore_shapes(b: ModelBuilder, kept: dict) -> None:
    heights = {id(geom): i for i, geom in enumerate(g for g in b.geoms if g.type == GeomType.HFIELD)}
    for geom in b.geoms:
        entry = kept.get("shape", {}).get(geom.name)
        if entry is not None and "vertices" in entry and geom.type == GeomType.MESH:
            mesh, pose = b.meshes[geom.mesh], np.array(entry["pose"], float)
            found = mesh._replace(vertices=unpack(entry["vertices"]), faces=unpack(entry["faces"]))
            if same_points(geom.pose, mesh.vertices, pose, found.vertices):
                geom.pose, geom.size = pose, np.abs(found.vertices).max(0)
                b.meshes[geom.mesh] = found
        elif entry is not None and "data" in entry and geom.type == GeomType.HFIELD:
            pose, index = np.array(entry["pose"], float), heights[id(geom)]
            found = HField(geom.name, np.array(entry["size"], float), unpack(entry["data"]))
            if same_points(geom.pose, surface(b.hfields[index]), pose, surface(found)):
                geom.pose, geom.size, b.hfields[index] = pose, np.array(entry["bounds"], float), found
        hull = kept.get("hull", {}).get(geom.name)
        if hull is not None and geom.type == GeomType.MESH:
            b.meshes[geom.mesh] = b.meshes[geom.mesh]._replace(max_hull_vertices=int(hull))
        tetrahedra = kept.get("field", {}).get(geom.name)
        if tetrahedra is not None and np.isfinite(geom.hydroelastic[0]):
            arrays = [unpack(tetrahedra[key]) for key in ("vertices", "tetrahedra", "pressure")]
            b.fields.append(TetField(str(tetrahedra["name"]), *arrays))
            geom.field = len(b.fields) - 1


def same_points(first_pose, first, second_pose, second) -> bool:
    """Whether two sets of points `(n, 3)`, each in its own frame, coincide to single precision."""
    if first.shape != second.shape:
        return False
    a, b = (compose(pose, _poses(points))[:, :3] for pose, points in ((first_pose, first), (second_pose, second)))
    return bool(np.abs(a - b).max(initial=0.0) <= SINGLE * max(np.abs(first).max(), np.abs(second).max()))


def _poses(points) -> np.ndarray:
    return np.hstack([points, np.tile([1.0, 0.0, 0.0, 0.0], (len(points), 1))])


def surface(field: HField) -> np.ndarray:
    """Points `(rows · columns, 3)` of a height field in its own axes."""
    rows, columns = field.data.shape
    x, y = np.linspace(-1, 1, columns) * field.size[0], np.linspace(-1, 1, rows) * field.size[1]
    grid = np.stack([*np.meshgrid(x, y), field.size[2] * field.data], axis=-1)
    return grid.reshape(-1, 3)


def _restore_lists(b: ModelBuilder, kept: dict) -> None:
    """Restore the data that belongs to no single MJCF element."""
    if "friction_rule" in kept:
        b.friction_rule = FrictionRule(kept["friction_rule"])
    names = {kind: {item.name for item in getattr(b, KINDS[kind])} for kind in ("body", "geom")}
    pairs = kept.get("pairs")
    if (
        pairs is not None
        and plain_pairs(b) == pairs["mjcf"]
        and all({i, j} <= names["geom"] for i, j, *_ in pairs["value"])
    ):
        b.explicit_pairs = []
        add_pairs(b, pairs["value"])
    efforts = kept.get("effort_limits")
    if efforts is not None and plain_efforts(b) == efforts["mjcf"]:
        b.effort_limits = []
        add_efforts(b, efforts["value"])
    for data in kept.get("constraints", ()):
        if all(end is None or end in names["body"] for end in data["bodies"]):
            add_kept_constraint(b, data)


def add_kept_constraint(b: ModelBuilder, record: dict) -> None:
    """Add a constraint that MJCF does not have, at its index."""
    if ConstraintType[record["type"].upper()] not in BODY_CONSTRAINTS:
        raise ModelError(f"constraint {record['name']!r} is a {record['type']} constraint; MJCF has that itself")
    add_record(b, record)
    b.constraints.insert(int(record["index"]), b.constraints.pop())


def plain_pairs(b: ModelBuilder) -> list:
    """The explicit pairs of a builder, by names."""
    return sorted([b.geoms[i].name, b.geoms[j].name, *law] for i, j, *law in b.explicit_pairs)


def plain_efforts(b: ModelBuilder) -> list:
    """The effort limits of a builder, by names."""
    return effort_rows(b.effort_limits, [j.name for j in b.joints], [t.name for t in b.tendons])
