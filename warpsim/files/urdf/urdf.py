# SPDX-License-Identifier: Apache-2.0
"""Convert URDF files to a `Model`: links, joints, inertias with repair, shapes with meshes.

`warpsim.files.urdf.urdf_parse` reads the file into a tree of `Link`s and `Joint`s, and
`warpsim.files.urdf.urdf_inertia` repairs the inertias. This module writes the tree through `ModelBuilder`.
`model.report` and docs/urdf.md say what is used, mapped, ignored and refused.
"""

import collections
import pathlib
import warnings

import numpy as np

from warpsim.base.checks import listed, short
from warpsim.base.errors import ModelError, named
from warpsim.files import tet_files
from warpsim.files.adjacent import exclude_neighbours
from warpsim.files.drives import INFINITE, drive_joints
from warpsim.files.meshes import convex_parts, has_colours, load_mesh
from warpsim.files.pressure_fields import fitted, properties
from warpsim.files.safe_files import Folders, read_xml
from warpsim.files.urdf.urdf_inertia import absorb, repair_inertias, repair_massless
from warpsim.files.urdf.urdf_parse import LEAVE_OUT, Joint, Link, Robot, parse_robot
from warpsim.model import tetrahedra
from warpsim.model.builder import ModelBuilder
from warpsim.model.builder_names import free_name, numbered_name
from warpsim.model.geometry import IDENTITY, compose
from warpsim.model.model import JointType, Model, ReportLine

MAX_MERGED = 100_000  # poses of shapes and joints along chains of fixed links: 2 s
NAMED = 6  # elements named in a warning; model.report names all


def load_urdf(
    path,
    *,
    actuators=None,
    unsupported="error",
    packages=None,
    root=None,
    merge_fixed=False,
    base="fixed",
    visuals=True,
    decompose=False,
) -> Model:
    """Load a URDF file. See `warpsim.load` for the arguments.

    Raises `ModelError` that names the file and the element. Warns once each about: inertias that were repaired, mimic
    joints that cannot follow their joint, visuals that are not drawn, and features that may change the motion and are
    not simulated.
    """
    path = pathlib.Path(path)
    with named(path):
        robot = parse_robot(read_xml(path), unsupported)
        _make_sound(robot, path, merge_fixed, base)
        b = ModelBuilder(robot.name)
        b.report = robot.report
        writer = _Writer(b, Folders(path, packages, root), visuals, decompose, robot, unsupported)
        for link in robot.links:
            writer.add(link, base)
        exclude_neighbours(b)
        writer.add_filters(robot)
        writer.add_mimics(robot, path)
        writer.report_used()
        if writer.undrawn and visuals:
            _warn_once(
                path, "visuals that cannot be read, and are not drawn, of links ", list(dict.fromkeys(writer.undrawn))
            )
        if robot.lost:
            _warn_once(path, f"{len(robot.lost)} not simulated: ", robot.lost)
        if actuators is not None:
            drive_joints(b, actuators, writer.efforts)
        elif any(effort is not INFINITE for effort in writer.efforts):
            why = "no actuator has them; actuators='effort' uses them as control_range, 'position' as force_range"
            b.report.append(ReportLine("effort limits of joints", "ignored", why))
        return b.build()


def _make_sound(robot: Robot, path, merge_fixed: bool, base: str) -> None:
    """Repair inertias, merge fixed links if asked, and warn."""
    repaired: list[str] = []

    def warn(element: str, what: str) -> None:
        repaired.append(f"{element} ({what})")
        robot.report.append(ReportLine(element, "mapped", f"repaired: {what}"))

    repair_inertias(robot.links, warn)
    if merge_fixed:
        _merge(robot)
    repair_massless(robot.links, warn)
    root = robot.links[0]
    if root.joint is None and root.name != "world":
        why = "the root link is free to move: base='free'"
        if base == "fixed":
            why = "the root link is fixed to the world, as a URDF says nothing about how it moves; base='free' lets it"
        robot.report.append(ReportLine(f"link {short(root.name)}", "mapped", why))
    if repaired:
        _warn_once(path, f"{len(repaired)} repaired: ", repaired)


def _warn_once(path, start: str, elements: list[str]) -> None:
    shown = ", ".join(elements[:NAMED]) + (", ..." if len(elements) > NAMED else "")
    warnings.warn(f"{path}: {start}{shown}; see model.report", stacklevel=6)


def _merge(robot: Robot) -> None:
    """Make links on fixed joints part of their parent, except those fixed to a root called "world"."""
    depth: dict[int, int] = {}  # per link: the number of links above it in its group of fixed links
    for link in robot.links:
        depth[id(link)] = depth[id(link.parent)] + 1 if link.joint is not None and link.joint.kind == "fixed" else 0
    poses = sum(depth[id(link)] * (1 + len(link.shapes) + len(link.children)) for link in robot.links)
    if poses > MAX_MERGED:
        raise ModelError(
            f"merge_fixed: links fixed to each other in long rows, {poses} poses to merge, more than {MAX_MERGED}"
        )
    before = len(robot.links)
    for link in reversed(robot.links):
        if link.joint is not None and link.joint.kind == "fixed" and link.parent.name != "world" and not _apart(link):
            absorb(link.parent, link)
            link.merged = True
    robot.links = [link for link in robot.links if not link.merged]
    merged = before - len(robot.links)
    robot.report.append(ReportLine("merge_fixed", "mapped", f"{merged} links are part of the link they are fixed to"))


def _apart(link: Link) -> bool:
    """Whether a link has rules that its parent has not, which would apply to the whole merged body."""
    return link.apart or link.parent.apart or link.weightless != link.parent.weightless


class _Writer:
    """Adds links to a builder, parents first."""

    def __init__(self, b: ModelBuilder, folders: Folders, visuals: bool, decompose, robot: Robot, unsupported: str):
        self.lost, self.unsupported = robot.lost, unsupported
        self.b, self.folders, self.visuals, self.decompose = b, folders, visuals, decompose
        self.body: dict[str, int] = {}
        self.placed: dict[str, np.ndarray] = {}  # world pose of each link that cannot move
        self.efforts: list = []
        self.single: dict[str, int] = {}  # indices of hinges and slides in the builder, by joint name
        self.counts: collections.Counter = collections.Counter()
        self.geom_names: set[str] = set()
        self.undrawn: list[str] = robot.undrawn  # links with a visual that cannot be read
        self.coloured: set[str] = set()  # names of mesh files that define colours

    def add(self, link: Link, base: str) -> None:
        """Add a link with its joint and shapes; a root link called "world" is the world."""
        joint = link.joint
        pose = IDENTITY if joint is None else joint.pose
        if joint is None and link.name == "world":
            if base == "free":
                raise ModelError("base='free': the root link is called 'world', which does not move")
            self.body["world"], self.placed["world"] = -1, IDENTITY
            self._shapes(link, -1)
            return
        parent = -1 if joint is None else self.body[link.parent.name]
        if joint is not None and joint.kind == "floating" and link.parent.name in self.placed:
            parent, pose = -1, compose(self.placed[link.parent.name], pose)
        elif joint is None and base == "fixed":
            self.placed[link.name] = pose
        elif joint is not None and joint.kind == "fixed" and link.parent.name in self.placed:
            self.placed[link.name] = compose(self.placed[link.parent.name], pose)
        name = link.name if link.name != "world" else "world_"
        options = {"mass": link.mass, "com": link.com, "inertia": link.inertia, "gravcomp": float(link.weightless)}
        body = self.b.add_body(name, parent=parent, pose=pose, **options)
        self.body[link.name] = body
        if joint is not None:
            self._joint(joint, body, free=parent == -1)
        elif base == "free":
            self.b.add_joint(body, "free", name=self._joint_name("root"))
            self.counts["free joints"] += 1
            self.efforts.append(INFINITE)
        self._shapes(link, body)

    def _joint_name(self, name: str) -> str:
        return free_name(name, {j.name for j in self.b.joints})

    def _joint(self, joint: Joint, body: int, free: bool) -> None:
        """Add a link's joint, or the several joints that represent it."""
        dynamics = {"damping": joint.damping, "friction": joint.friction, "armature": joint.armature}
        if joint.kind in ("revolute", "continuous", "prismatic"):
            dynamics |= {"stiffness": joint.stiffness, "reference": joint.reference}
        elif joint.stiffness or joint.armature:
            self.lose(
                f"spring and armature of joint {short(joint.name)}", f"of hinges and slides only, it is {joint.kind}"
            )
            dynamics["armature"] = 0.0
        limits = {"range": joint.range, **dynamics}
        kind, axis = joint.kind, joint.axis
        parts: list[tuple] = {
            "fixed": [],
            "revolute": [("hinge", "", axis, limits)],
            "continuous": [("hinge", "", axis, dynamics)],
            "prismatic": [("slide", "", axis, limits)],
            "spherical": [("ball", "", axis, dynamics)],
        }.get(kind, [])
        if kind == "planar":
            across = np.eye(3)[np.argmin(np.abs(axis))]
            first = np.cross(across, axis) / np.linalg.norm(np.cross(across, axis))
            axes = (("x", first), ("y", np.cross(axis, first)))
            parts = [("slide", f"_{end}", along, dynamics) for end, along in axes] + [
                ("hinge", "_turn", axis, dynamics)
            ]
        elif kind == "floating" and free:
            parts = [("free", "", axis, dynamics)]
        elif kind == "floating":
            parts = [("slide", f"_{end}", along, dynamics) for end, along in zip("xyz", np.eye(3), strict=True)]
            parts.append(("ball", "_turn", axis, dynamics))
        if len(parts) > 1:
            why = f"{len(parts)} joints of one body: {', '.join(p[0] + p[1] for p in parts)}"
            self.b.report.append(ReportLine(f"{kind} joint {short(joint.name)}", "mapped", why))
        for type, end, along, options in parts:
            index = self.b.add_joint(body, type, name=self._joint_name(joint.name + end), axis=along, **options)
            if len(parts) == 1 and type in ("hinge", "slide"):
                self.single[joint.name] = index
            self.efforts.append(INFINITE if joint.effort is None else (-joint.effort, joint.effort))
        self.counts[f"{kind} joints"] += 1

    def lose(self, feature: str, why: str) -> None:
        """Report a feature that may change the motion and is not simulated."""
        self.b.report.append(ReportLine(feature, "refused", why))
        self.lost.append(f"{feature} ({why})")

    def add_filters(self, robot: Robot) -> None:
        """Exclude the pairs of links that never touch."""
        for first, second in robot.excluded:
            self.b.exclude(self.body[first], self.body[second])

    def _shapes(self, link: Link, body: int) -> None:
        """Add a link's shapes. Visual shapes do not touch; collision shapes are hidden if the link has visual ones."""
        drawn = self.visuals and any(not shape.touches for shape in link.shapes)
        for shape in link.shapes:
            if shape.touches or self.visuals:
                self._shape(link, shape, body, visible=not shape.touches or not drawn)

    def _shape(self, link: Link, shape, body: int, visible: bool) -> None:
        common = {"body": body, "pose": shape.pose, "density": 0.0, "rgba": shape.rgba}
        use = "collision" if shape.touches else "visual"
        name = f"{link.name}_{use}" if not shape.name else shape.name
        silent = {"contype": 0, "conaffinity": 0}
        soft = None
        friction = link.friction if shape.friction is None else shape.friction
        if shape.touches and friction is not None:
            common["friction"] = friction
        if shape.contact is not None:
            common |= shape.contact.material
            soft = fitted(shape.contact.hydroelastic, shape.kind, shape.size, f"link {short(link.name)}", self.b.report)
        self.counts[f"{use} {shape.kind} geoms"] += 1
        if shape.kind != "mesh":
            masks = {} if shape.touches else silent
            self.b.add_geom(
                shape.kind,
                shape.size,
                name=self._geom_name(name),
                visible=visible,
                hydroelastic=soft,
                **masks,
                **common,
            )
            return
        try:
            vertices, faces, soft = self._mesh(shape, soft)
            parts = (
                convex_parts(vertices, faces, self.decompose and (soft is None or soft.field is None))
                if shape.touches
                else []
            )
        except ModelError as error:
            which = "" if shape.file and shape.file in str(error) else f" {short(shape.file)}"
            element = f"link {short(link.name)}, {use} mesh{which}"
            if shape.touches and self.unsupported == "error":
                raise ModelError(f"{element}: {error} {LEAVE_OUT}") from None
            if shape.touches:
                self.lose(element, f"left out: {error}")
                return
            self.b.report.append(ReportLine(element, "ignored", f"not drawn: {error}"))
            self.undrawn.append(repr(link.name))
            return
        for hull in parts:
            options = {"name": self._geom_name(name), "visible": not self.visuals, "hydroelastic": soft}
            self.b.add_geom("mesh", mesh=hull, **options, **common)
        if visible and self.visuals:
            label = self._geom_name(f"{name}_drawn" if parts else name)
            self.b.add_geom("mesh", mesh=(vertices, faces), name=label, **silent, **common)

    def _mesh(self, shape, soft):
        """Triangles of a mesh file, and `soft`.

        For a file of tetrahedra, the triangles are its surface, and `soft` gets its field.
        """
        path = self.folders.find(shape.file)
        if path.suffix.lower() not in tet_files.SUFFIXES:
            if not shape.touches and has_colours(path):
                self.coloured.add(path.name)
            return *load_mesh(path, shape.scale, self.folders), soft
        vertices, tets = tet_files.read_tetrahedra(path)
        vertices = vertices * shape.scale
        tets = tets[:, [0, 2, 1, 3]] if np.prod(shape.scale) < 0 else tets
        if soft is not None and np.isfinite(soft.modulus):
            soft = properties(str(path), soft.modulus, soft.resolution, None, soft.margin, (vertices, tets))
        return vertices, tetrahedra.surface(tets), soft

    def _geom_name(self, name: str) -> str:
        unique = numbered_name(name, self.geom_names, first=1)
        self.geom_names.add(unique)
        return unique

    def add_mimics(self, robot: Robot, path) -> None:
        """Add a joint constraint for every mimic joint; mimic joints without a single position move independently."""
        free: list[str] = []
        for joint in (link.joint for link in robot.links if link.joint is not None and link.joint.mimic is not None):
            mimic, feature = joint.mimic, f"mimic joint {short(joint.name)}"
            this, other = self.single.get(joint.name), self.single.get(mimic.joint)
            if joint.kind == "fixed":
                self.b.report.append(ReportLine(feature, "ignored", "the joint is fixed"))
            elif this is None or other is None or this == other:
                lost = "has no single position" if this is None else f"cannot follow {short(mimic.joint)}: "
                if this is not None:
                    lost += "that is itself" if this == other else "there is no such hinge or slide"
                self.b.report.append(ReportLine(feature, "refused", f"{lost}; the joint moves independently"))
                free.append(repr(joint.name))
            else:
                name = f"{joint.name}_mimic"
                self.b.add_constraint("joint", this, other, name=name, coefficients=(mimic.offset, mimic.multiplier))
                why = f"q = {mimic.multiplier:g} q of {short(mimic.joint)} + {mimic.offset:g}: constraint {name!r}"
                self.b.report.append(ReportLine(feature, "used", why))
        if free:
            _warn_once(path, f"{len(free)} mimic joints move independently, their coupling is not simulated: ", free)

    def report_used(self) -> None:
        """Add the report's lines of what was used."""
        lines = [ReportLine("links", "used", f"{len(self.body)}")]
        for what, count in sorted(self.counts.items()):
            status, why = "used", ""
            if what == "collision mesh geoms":
                status, why = (
                    "mapped",
                    ", decomposed into convex parts" if self.decompose else ", as their convex hulls",
                )
            lines.append(ReportLine(what, status, f"{count}{why}"))
        limited = sum(j.limited for j in self.b.joints)
        if limited:
            lines.append(ReportLine("joint limits", "used", f"{limited}"))
        free = sum(j.type == JointType.FREE for j in self.b.joints)
        if free:
            lines.append(ReportLine("free joints", "used", f"{free}: their q is the pose in the world"))
        if self.coloured:
            why = f"{listed(sorted(self.coloured))}: geoms have the colours of the URDF"
            lines.append(ReportLine("materials of mesh files", "ignored", why))
        self.b.report[:0] = lines
