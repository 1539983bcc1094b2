# SPDX-License-Identifier: Apache-2.0
"""Write a `Model` as MJCF: as text, as a file with meshes beside it, or as a `mujoco.MjSpec`.

The text is plain MJCF. It is compiled by MuJoCo and read back here. What came back different is kept in one custom text
(`warpsim.files.mjcf.mjcf_kept`), so that `ws.load` restores every number of the model. One warning says what MuJoCo
will do differently from this model. docs/mjcf.md says how each element is written.
"""

import warnings
import xml.etree.ElementTree as xml

import mujoco
import numpy as np

from warpsim.base.checks import listed
from warpsim.base.errors import ModelError
from warpsim.files.kept_json import dumps, pack
from warpsim.files.mjcf import mjcf_kept
from warpsim.files.mjcf.mjcf import collect
from warpsim.files.mjcf.mjcf_constraints import compliance
from warpsim.files.mjcf.mjcf_elements import add, check_names, text_of, unless
from warpsim.files.mjcf.mjcf_files import write
from warpsim.files.mjcf.mjcf_force_limits import MOVING, ForceLimits
from warpsim.files.mjcf.mjcf_kept import FIELDS, KINDS, NAME, agrees
from warpsim.files.mjcf.mjcf_kept_looks import keep_looks
from warpsim.files.mjcf.mjcf_law import LAW_FIELDS, option_attributes
from warpsim.files.mjcf.mjcf_pressure import PREFIX
from warpsim.files.mjcf.mjcf_refusals import tendon_roles
from warpsim.files.mjcf.mjcf_report import DEFAULT_SOLIMP
from warpsim.files.mjcf.mjcf_textures import add_looks
from warpsim.files.mjcf.mjcf_write_acts import (
    SAID,
    find_aids,
    magnetic_field,
    write_actuators,
    write_aids,
    write_constraints,
    write_contacts,
    write_keyframes,
    write_sensors,
    write_tendons,
)
from warpsim.files.mjcf.mjcf_write_bodies import Shapes, write_world
from warpsim.files.mjcf.mjcf_write_looks import Looks, Written
from warpsim.files.output import check_file, check_folder, replacing
from warpsim.model.builder import ModelBuilder
from warpsim.model.constraint_types import BODY_CONSTRAINTS, ConstraintType
from warpsim.model.elements import body_pose, constraint_record
from warpsim.model.model import JOINT_NQ, FrictionRule, GeomType, JointType, Model
from warpsim.model.renumber import LISTS, renumber

SUFFIXES = (".xml", ".mjcf")
INDENT = "  "
# Fields that a builder normalizes (a unit vector or quaternion), which changes their last bits.
ROUNDED = (("body", "inertia"), ("joint", "axis"), ("site", "pose"), ("camera", "pose"), ("sensor", "constants"))
ROUNDED += tuple(("geom", key) for key in ("size", "pose", "hydroelastic", "fluid"))
# Differences that do not change what MuJoCo does: looks, equivalent frames, and times that MuJoCo represents
# differently.
UNTOLD = {
    "geom": {"rgba", "visible", "dissipation_time", "size", "mapped_stiffness", *LAW_FIELDS["geom"]},
    "site": {"rgba", "size"},
    "camera": {"fovy"},
    "constraint": {"poses", "dissipation_time", *LAW_FIELDS["constraint"]},
    "body": {"axes"},
}


def to_mjcf(model: Model, path=None) -> str:
    """See `Model.to_mjcf`."""
    if path is None:
        return _Writer(model, None).text()
    path = check_file(path, SUFFIXES)
    name = path.stem.replace("\\", "_") + "_assets"  # MuJoCo takes a backslash for a slash
    writer, folder = _Writer(model, name), path.parent / name
    text = writer.text()
    if writer.files:
        check_folder(folder).mkdir(exist_ok=True)
    for name, data in writer.files.items():
        with replacing(check_file(folder / name)) as place:
            place.write_bytes(data)
    with replacing(path) as place:
        place.write_text(text, encoding="utf-8")
    return text


def to_mjspec(model: Model) -> mujoco.MjSpec:
    """See `Model.to_mjspec`."""
    return mujoco.MjSpec.from_string(_Writer(model, None).text())


class _Writer:
    """Writes one model as MJCF. `folder` is where its shapes are written; None: within the text."""

    def __init__(self, model: Model, folder: str | None):
        check_names({"model": (model.name,)} | model.names)
        self.model, self.folder = model, folder
        self.b = records(model)
        self.files: dict[str, bytes] = {}
        self.aids, self.sites = find_aids(self.b)

    def text(self) -> str:
        """The whole MJCF text. Warns of what MuJoCo will do differently."""
        tree = self.tree()
        m = self.compiled(tree)
        soft = geom_softness(self.b, m), constraint_softness(self.b, m)
        for elements, solref in zip(
            (tree.find("worldbody").iter("geom"), tree.iterfind("equality/*")), soft, strict=True
        ):
            for element in elements:
                if element.get("name") in solref:
                    element.set("solref", text_of(solref[element.get("name")]))
                    element.attrib.pop("solimp", None)
        unsaid = unsaid_efforts(tree, m)
        if any(soft) or unsaid:
            m = self.compiled(tree)
        idle = [tendon.name for t, tendon in enumerate(self.b.tendons) if not tendon_roles(m, t)]
        read = collect(m, [], idle)
        add_looks(read, m, Written(m, self.looks))
        kept, told = differences(self.model, self.b, read, [name for name, _, _ in self.sites])
        kept |= {"tendons": idle} if idle else {}
        told += self.frictions() + [f"effort limit of joint {name!r}" for name in unsaid]
        if kept:
            data = dumps({"version": mjcf_kept.VERSION} | kept)
            custom = tree.find("custom")
            add(add(tree, "custom") if custom is None else custom, "text", name=NAME, data=data)
        if told:
            warnings.warn(
                f"model {self.model.name!r} as MJCF: {listed(told)}: kept for ws.load, but MuJoCo does not do the same",
                stacklevel=4,
            )
        return write(tree, INDENT)[0] + "\n"

    def tree(self) -> xml.Element:
        """All that MJCF can express, except the softness of contact and constraints."""
        b, root = self.b, xml.Element("mujoco", {"model": self.model.name})
        add(root, "compiler", angle="radian", inertiafromgeom="false")
        self.options(root)
        shapes = Shapes(root, self.folder)
        self.looks = Looks(shapes)
        bodies = write_world(b, root, shapes, self.looks)
        write_aids(self.sites, bodies)
        write_contacts(b, root)
        write_tendons(b, root)
        write_constraints(b, root, self.aids)
        write_actuators(b, root)
        write_sensors(b, root)
        write_keyframes(self.model, root)
        self.pressures(root)
        self.files = shapes.files
        for section in [child for child in root if len(child) == 0 and not child.attrib and child.tag != "worldbody"]:
            root.remove(section)
        return root

    def options(self, root: xml.Element) -> None:
        model = self.model
        medium = {"density": unless(model.fluid_density, 0.0), "viscosity": unless(model.fluid_viscosity, 0.0)}
        medium |= {"wind": unless(model.wind, np.zeros(3)), "magnetic": magnetic_field(self.b)}
        law, flags = option_attributes(model.mujoco)
        option = add(root, "option", timestep=model.timestep, gravity=model.gravity, **medium, **law)
        flags["filterparent"] = None if model.filter_parent else "disable"
        if any(flags.values()):
            add(option, "flag", **flags)

    def pressures(self, root: xml.Element) -> None:
        section = add(root, "custom")
        for geom in self.b.geoms:
            if not np.isnan(geom.hydroelastic[0]):
                data = np.where(np.isfinite(geom.hydroelastic), geom.hydroelastic, 0.0)
                add(section, "numeric", name=PREFIX + geom.name, data=data)

    def frictions(self) -> list[str]:
        """The pairs of geoms whose friction differs from the one that MuJoCo combines from their geoms."""
        model = self.model
        a, b = model.geom_friction[model.pair_geom].T
        other = (model.pair_rule == FrictionRule.HARMONIC) & (a != b)
        names = [[model.geom_names[g] for g in pair] for pair in model.pair_geom[other]]
        return [f"friction of geoms {a!r} and {b!r} (MuJoCo's is the larger)" for a, b in names]

    def compiled(self, tree: xml.Element) -> mujoco.MjModel:
        """The compiled tree, with the files of shapes as they will be written."""
        assets = {f"{self.folder}/{name}": data for name, data in self.files.items()}
        try:
            return mujoco.MjSpec.from_string(write(tree)[0], assets=assets).compile()
        except ValueError as error:
            why = " ".join(str(error).split())
            raise ModelError(f"model {self.model.name!r} as MJCF: MuJoCo cannot compile it: {why}") from error


def records(model: Model) -> ModelBuilder:
    """A builder with exactly the numbers of a model."""
    b = ModelBuilder(model.name, gravity=model.gravity, timestep=model.timestep)
    b.density, b.viscosity, b.wind = model.fluid_density, model.fluid_viscosity, model.wind
    b.mujoco = model.mujoco
    b.add_model(model)
    for kind, key in ROUNDED:
        for item, value in zip(getattr(b, KINDS[kind]), getattr(model, f"{kind}_{key}"), strict=True):
            setattr(item, key, value)
    for i, body in enumerate(b.bodies):
        body.pose = body_pose(model, i)
    for j, joint in enumerate(b.joints):
        joint.q0 = model.q0[model.joint_q[j] :][: JOINT_NQ[joint.type]]
        joint.reference = model.joint_reference[model.joint_v[j] :][: len(joint.reference)]
    for c, constraint in enumerate(b.constraints):
        if constraint.type in BODY_CONSTRAINTS:
            constraint.poses = tuple(model.constraint_pose[c])
    return b


def unsaid_efforts(tree: xml.Element, m: mujoco.MjModel) -> list[str]:
    """Remove the effort ranges of joints that actuators on sites, spatial tendons or contacts move; returns the names.

    MuJoCo's range would clamp the forces of those actuators too.
    """
    moving = [j for j, outcome in ForceLimits(m).joints.items() if outcome == MOVING]
    names = [mujoco.mj_id2name(m, mujoco.mjtObj.mjOBJ_JOINT, j) for j in moving]
    for element in tree.find("worldbody").iter("joint"):
        if element.get("name") in names:
            element.attrib.pop("actuatorfrcrange", None)
            element.attrib.pop("actuatorgravcomp", None)
    return names


def geom_softness(b: ModelBuilder, m: mujoco.MjModel) -> dict[str, tuple[float, float]]:
    """solref of the geoms that have a stiffness and a weight in MuJoCo: the inverse of `contact_material`.

    A stiffness that was mapped from the geom's own solref and solimp needs no other.
    """
    found = {}
    for geom in b.geoms:
        weight = _body_weight(b, m, geom.body)
        if np.isfinite(geom.stiffness) and weight > 0 and not _is_own(m, geom, geom.stiffness, weight):
            found[geom.name] = _solref(geom.stiffness, geom.dissipation_time, weight, b.timestep)
    return found


def _is_own(m: mujoco.MjModel, item, stiffness: float, weight: float) -> bool:
    """Whether stiffness and dissipation time of a geom or constraint follow from its own solref and solimp."""
    own, time = compliance(m, item.solref, item.solimp, weight)
    return agrees([own, np.nan if time is None else time], [stiffness, item.dissipation_time])


def constraint_softness(b: ModelBuilder, m: mujoco.MjModel) -> dict[str, tuple[float, float]]:
    """solref of the constraints that have a stiffness, from its first value."""
    found = {}
    for c in b.constraints:
        if c.type not in SAID or not np.isfinite(c.stiffness[0]):
            continue
        ends = [end for end in c.ends if end >= 0]
        if c.type == ConstraintType.JOINT:
            weight = sum(m.dof_invweight0[m.joint(b.joints[end].name).dofadr[0]] for end in ends)
        elif c.type == ConstraintType.TENDON:
            weight = sum(m.tendon_invweight0[m.tendon(b.tendons[end].name).id] for end in ends)
        else:
            weight = sum(_body_weight(b, m, end) for end in ends)
        if weight > 0 and not _is_own(m, c, c.stiffness[0], float(weight)):
            found[c.name] = _solref(c.stiffness[0], c.dissipation_time, float(weight), b.timestep)
    return found


def _body_weight(b: ModelBuilder, m: mujoco.MjModel, body: int) -> float:
    """MuJoCo's inverse effective mass of a body of the builder; 0 for the world."""
    return float(m.body_invweight0[m.body(b.bodies[body].name).id, 0]) if body >= 0 else 0.0


def _solref(stiffness: float, time: float, weight: float, h: float) -> tuple[float, float]:
    """(-K, -B) for a stiffness [N/m] and a dissipation time [s] at MuJoCo's default impedance; see `compliance`."""
    K = stiffness * (1.0 - DEFAULT_SOLIMP[1]) * weight
    return -K, -K * (h / np.pi if np.isnan(time) else time)


def differences(model: Model, b: ModelBuilder, read: ModelBuilder, aids: list[str]) -> tuple[dict, list[str]]:
    """The data to keep of builder `b` beside the MJCF, read back as `read`, and what MuJoCo will do differently."""
    kept: dict = {"aids": aids} if aids else {}
    told: list[str] = []
    if aids:
        renumber(read, "site", [s for s, site in enumerate(read.sites) if site.name not in aids])
    unsaid = [i for i, c in enumerate(b.constraints) if c.type not in SAID]
    if unsaid:
        kept["constraints"] = [constraint_record(model, i) for i in unsaid]
        told += [f"constraint {b.constraints[i].name!r} (a {b.constraints[i].type.name.lower()})" for i in unsaid]
    _keep_order(b, read, kept)
    for kind in FIELDS:
        items = [x for x in getattr(b, KINDS[kind]) if kind != "constraint" or x.type in SAID]
        found = {}
        for item, other in zip(items, getattr(read, KINDS[kind]), strict=True):
            fields = _kept_fields(kind, item, other, told)
            if fields:
                found[item.name] = fields
        if found:
            kept[kind] = found
    _keep_shapes(b, read, kept)
    keep_looks(b, read, kept)
    _keep_lists(b, read, kept)
    return kept, told


def _keep_order(b: ModelBuilder, read: ModelBuilder, kept: dict) -> None:
    for kind, key in KINDS.items():
        wanted = [x.name for x in getattr(b, key) if kind != "constraint" or x.type in SAID]
        names = [x.name for x in getattr(read, key)]
        lost = sorted(set(wanted) ^ set(names)) or wanted[:1] * (kind not in LISTS and names != wanted)
        if lost:
            raise ModelError(f"{kind} {listed(lost)} cannot be written as MJCF: leave it out")
        if names != wanted:
            kept.setdefault("order", {})[kind] = wanted
            place = {name: i for i, name in enumerate(names)}
            renumber(read, kind, [place[name] for name in wanted])


def _kept_fields(kind: str, item, other, told: list[str]) -> dict:
    """The fields of one element that came back different."""
    found: dict = {}
    shaped = kind == "geom" and item.type in (GeomType.MESH, GeomType.HFIELD)
    for field in FIELDS[kind]:
        value, was = getattr(item, field), getattr(other, field)
        if (shaped and field in ("pose", "size")) or _equal(value, was):
            continue
        same = agrees(value, was)
        found[field] = value if same else {"mjcf": was, "value": value}
        idle = field == "reference" and not np.any(item.stiffness)
        idle |= field == "axis" and item.type in (JointType.FREE, JointType.BALL)
        if not same and not idle and field not in UNTOLD.get(kind, ()):
            told.append(f"{field} of {kind} {item.name!r}")
    return found


def _equal(value, was) -> bool:
    """Whether two values are equal bit by bit; a missing value (None) equals itself."""
    return np.array_equal(np.asarray(value, float), np.asarray(was, float), equal_nan=True)


def _keep_shapes(b: ModelBuilder, read: ModelBuilder, kept: dict) -> None:
    """Keep meshes and height fields, hulls, and fields of tetrahedra.

    MuJoCo keeps meshes and height fields in single precision, and meshes in axes of its own.
    """
    shapes, hulls, fields = {}, {}, {}
    heights = zip((g for g in b.geoms if g.type == GeomType.HFIELD), b.hfields, read.hfields, strict=True)
    of_geom = {id(geom): (field, other) for geom, field, other in heights}
    for geom, other in zip(b.geoms, read.geoms, strict=True):
        meshes = (b.meshes[geom.mesh], read.meshes[other.mesh]) if geom.type == GeomType.MESH else None
        shape, plain = meshes or of_geom.get(id(geom), ((), ()))
        same = all(np.array_equal(x, y) for x, y in zip(shape[1:3], plain[1:3], strict=True))
        if shape and not (same and np.array_equal(geom.pose, other.pose)):
            if meshes:
                data = {"vertices": pack(shape.vertices), "faces": pack(shape.faces)}
            else:
                data = {"size": shape.size, "data": pack(shape.data), "bounds": geom.size}
            shapes[geom.name] = data | {"pose": geom.pose}
        if meshes and shape.max_hull_vertices != plain.max_hull_vertices:
            hulls[geom.name] = shape.max_hull_vertices
        if geom.field >= 0:
            field = b.fields[geom.field]
            arrays = {key: pack(getattr(field, key)) for key in ("vertices", "tetrahedra", "pressure")}
            fields[geom.name] = {"name": field.name} | arrays
    kept |= {key: value for key, value in (("shape", shapes), ("hull", hulls), ("field", fields)) if value}


def _keep_lists(b: ModelBuilder, read: ModelBuilder, kept: dict) -> None:
    if b.friction_rule != FrictionRule.MAXIMUM:
        kept["friction_rule"] = int(b.friction_rule or 0)
    for key, found in (("pairs", mjcf_kept.plain_pairs), ("effort_limits", mjcf_kept.plain_efforts)):
        value, was = found(b), found(read)
        if value != was:
            kept[key] = {"mjcf": was, "value": value}
