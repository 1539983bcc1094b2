# SPDX-License-Identifier: Apache-2.0
"""Parse the XML of a URDF into a tree of links and joints, and check every number. https://wiki.ros.org/urdf/XML

Lengths in m, angles in rad, masses in kg; poses are `[x y z qw qx qy qz]`.
"""

import collections
import dataclasses

import numpy as np

from warpsim.base.checks import listed, short
from warpsim.base.errors import ModelError
from warpsim.files.safe_files import real_of
from warpsim.files.urdf.urdf_contact import Contact, contact_lines, read_contact
from warpsim.files.urdf.urdf_extensions import Extensions
from warpsim.files.urdf.urdf_report import report_lines, unread
from warpsim.model.geometry import roll_pitch_yaw, rotation_matrix
from warpsim.model.model import ReportLine

MAX_LINKS = 2000
MAX_SHAPES = 5000
LARGEST = 1e9  # of any length, mass, moment or gain
GREY = (0.7, 0.7, 0.7, 1.0)
KINDS = ("revolute", "continuous", "prismatic", "fixed", "floating", "planar", "spherical")
JOINTS = ("joint", "drake:joint")
LEAVE_OUT = "(unsupported='report' loads the model without it)"
DROPPED = (
    ("joint/limit[@velocity]", "velocity limits of joints", "velocities are not limited"),
    ("joint/safety_controller", "safety controllers", "not part of the mechanism"),
    ("joint/calibration", "joint calibrations", "not part of the mechanism"),
    ("transmission", "transmissions", "use actuators='effort' or 'position'"),
    ("ros2_control", "ros2_control elements", "use actuators='effort' or 'position'"),
    ("gazebo", "gazebo elements", "extension of another simulator, but for what has a line of its own"),
    ("mujoco", "mujoco elements", "extension of another simulator; see merge_fixed"),
    ("sensor", "sensors", "they measure, they do not act"),
    ("link/surface", "surface elements of links", "extension of another simulator"),
    (".//material/texture", "textures", "colours are drawn"),
)


@dataclasses.dataclass
class Shape:
    """A visual or collision (`touches`) shape in the axes of its link."""

    name: str
    kind: str
    touches: bool
    size: list[float]
    pose: np.ndarray
    rgba: tuple
    file: str = ""
    scale: tuple = (1.0, 1.0, 1.0)
    contact: Contact | None = None
    friction: float | None = None  # of the merged link that the shape comes from; None: the friction of its link


@dataclasses.dataclass
class Mimic:
    """A mimic rule: the position is `multiplier` times that of `joint`, plus `offset` [rad or m]."""

    joint: str
    multiplier: float
    offset: float


@dataclasses.dataclass
class Joint:
    """A joint.

    `pose` is that of the child link in the parent at zero, `axis` a unit vector in the child's axes; range None:
    unlimited.
    """

    name: str
    kind: str
    pose: np.ndarray
    axis: np.ndarray
    range: tuple | None
    effort: float | None
    damping: float
    friction: float
    mimic: Mimic | None
    stiffness: float = 0.0
    reference: float = 0.0
    armature: float = 0.0


@dataclasses.dataclass
class Link:
    """A link: mass, centre of mass, and inertia about it in the link's axes."""

    name: str
    mass: float
    com: np.ndarray
    inertia: np.ndarray
    shapes: list[Shape]
    joint: Joint | None = None
    parent: "Link | None" = None
    children: list["Link"] = dataclasses.field(default_factory=list)
    friction: float | None = None
    weightless: bool = False
    merged: bool = False  # merged into its parent
    apart: bool = False  # has rules of its own, so it is not merged


@dataclasses.dataclass
class Robot:
    """A robot.

    - links: parents before children; the first is the root
    - report: the lines so far
    - undrawn: links with visuals that cannot be read
    - excluded: pairs of links that never touch
    - lost: features of the file that may change the motion and are not simulated
    """

    name: str
    links: list[Link]
    report: list[ReportLine]
    undrawn: list[str]
    excluded: set[tuple[str, str]]
    lost: list[str]


@dataclasses.dataclass
class _Notes:
    """Notes on what is not simulated as the file says.

    `whole`: raise `ModelError` for what could only be left out.
    """

    whole: bool
    report: list[ReportLine] = dataclasses.field(default_factory=list)
    undrawn: list[str] = dataclasses.field(default_factory=list)
    lost: list[str] = dataclasses.field(default_factory=list)

    def lose(self, feature: str, why: str) -> None:
        """Note a feature that may change the motion and is not simulated."""
        self.report.append(ReportLine(feature, "refused", why))
        self.lost.append(f"{feature} ({why})")

    def leave_out(self, feature: str, error: ModelError, instead: str) -> None:
        """Note a feature that is left out; this is an error by default."""
        if self.whole:
            raise ModelError(f"{error} {LEAVE_OUT}") from None
        self.lose(feature, f"{instead}: {error}")


def parse_robot(root, unsupported: str = "error") -> Robot:
    """The robot in a `<robot>` element. Raises `ModelError` that names the faulty element."""
    if root.tag != "robot":
        raise ModelError(f"the root element is <{root.tag[:40]}>, not <robot>: not a URDF file")
    notes = _Notes(unsupported == "error")
    report = notes.report
    elements = root.findall("link")
    if not elements:
        hint = "; it is a template, expand it with xacro" if any("xacro" in e.tag for e in root.iter()) else ""
        raise ModelError(f"the <robot> has no links{hint}")
    if len(elements) > MAX_LINKS:
        raise ModelError(f"{len(elements)} links, more than {MAX_LINKS}")
    colours = _colours(root, notes)
    links: dict[str, Link] = {}
    counts: collections.Counter = collections.Counter()
    for element in elements:
        link = _link(element, colours, notes, counts)
        if link.name in links:
            raise ModelError(f"link {short(link.name)} is there twice; names must be unique")
        links[link.name] = link
    if sum(len(link.shapes) for link in links.values()) > MAX_SHAPES:
        raise ModelError(f"more than {MAX_SHAPES} shapes")
    _joints(root, links, notes)
    report += contact_lines(counts)
    ordered = _ordered(links)
    missing = unread(root)
    excluded = Extensions(root, links, report, missing).excluded
    report += report_lines(missing)
    notes.lost += [f"{note.feature} ({note.detail})" for note in missing if note.moves]
    for where, feature, why in DROPPED:
        count = len(root.findall(where))
        if count:
            report.append(ReportLine(feature, "ignored", f"{count}: {why}"))
    joints = [link.joint for link in ordered if link.joint is not None and link.joint.kind != "fixed"]
    bare = sum(element.find("inertial") is None for element in elements)
    given = {
        "inertials": len(elements) - bare,
        "damping of joints": sum(joint.damping > 0 for joint in joints),
        "friction of joints": sum(joint.friction > 0 for joint in joints),
    }
    report += [ReportLine(feature, "used", f"{count}") for feature, count in given.items() if count]
    if bare:
        report.append(ReportLine("links without <inertial>", "used", f"{bare}: they have no mass"))
    return Robot(root.get("name") or "robot", ordered, report, notes.undrawn, excluded, notes.lost)


def _joints(root, links, notes) -> None:
    """Connect the links by the file's joints."""
    names = set()
    for element in (element for element in root if element.tag in JOINTS):
        joint = _joint(element, notes)
        label = f"joint {short(joint.name)}"
        if joint.name in names:
            raise ModelError(f"{label} is there twice; names must be unique")
        names.add(joint.name)
        ends = []
        for end in ("parent", "child"):
            name = getattr(element.find(end), "attrib", {}).get("link")
            if name not in links:
                raise ModelError(f"{label}: there is no {end} link {short(name)}")
            ends.append(links[name])
        parent, child = ends
        if child.parent is not None:
            raise ModelError(f"{label}: link {short(child.name)} already hangs on joint {short(child.joint.name)}")
        child.joint, child.parent = joint, parent


def _ordered(links) -> list[Link]:
    """Links depth first from the root, children in the order of the file."""
    roots = []
    for link in links.values():
        (roots if link.parent is None else link.parent.children).append(link)
    if not roots:
        raise ModelError(f"the joints form a loop: every one of the {len(links)} links has a parent, none is the root")
    if len(roots) > 1:
        names = ", ".join(repr(link.name) for link in roots[:5])
        raise ModelError(f"{len(roots)} links have no parent ({names}); a URDF has one root, join the others by joints")
    ordered, stack = [], roots
    while stack:
        ordered.append(stack.pop())
        stack.extend(reversed(ordered[-1].children))
    if len(ordered) < len(links):
        found = {link.name for link in ordered}
        lost = listed(repr(name) for name in links if name not in found)
        raise ModelError(f"the joints form a loop through links {lost}; a URDF is a tree")
    return ordered


def _numbers(element, attribute: str, default, label: str, count: int | None = None) -> np.ndarray:
    """The numbers in an attribute. Raises `ModelError` if one is not finite or too large."""
    text = None if element is None else element.get(attribute)
    if text is None:
        return np.array(default, float)
    try:
        values = np.array([float(part) for part in text.split()])
    except ValueError:
        raise ModelError(f"{label}: {attribute}={text[:60]!r} is not made of numbers") from None
    if len(values) != (count or np.size(default)):
        raise ModelError(f"{label}: {attribute}={text[:60]!r} must have {count or np.size(default)} numbers")
    if not (np.abs(values) <= LARGEST).all():
        raise ModelError(f"{label}: {attribute}={text[:60]!r} must be finite and at most {LARGEST:g}")
    return values


def _number(element, attribute: str, default: float, label: str) -> float:
    return float(_numbers(element, attribute, [default], label)[0])


def _pose(element, label: str) -> np.ndarray:
    origin = element.find("origin")
    xyz, rpy = _numbers(origin, "xyz", [0, 0, 0], label), _numbers(origin, "rpy", [0, 0, 0], label)
    return np.concatenate([xyz, roll_pitch_yaw(rpy)])


def _name(element, word: str) -> str:
    name = element.get("name")
    if not name:
        raise ModelError(f"a {word} has no name")
    return name


def _link(element, colours, notes, counts) -> Link:
    name = _name(element, "link")
    label = f"link {short(name)}"
    mass, com, inertia = 0.0, np.zeros(3), np.zeros((3, 3))
    if element.find("inertial") is not None:
        mass, com, inertia = _inertial(element.find("inertial"), label, notes)
    solid: list[Shape] = []
    for child in element.findall("visual"):
        try:
            shape = _shape(child, label, False, colours, notes)
        except ModelError as error:
            notes.report.append(ReportLine(f"visuals of {label}", "ignored", f"not drawn: {error}"))
            notes.undrawn.append(repr(name))
            continue
        solid.append(shape)
    empty = sum(_empty(shape) for shape in solid)
    if empty:
        notes.report.append(ReportLine(f"visuals of {label}", "ignored", f"{empty} with a size of 0 are not drawn"))
    solid = [shape for shape in solid if not _empty(shape)]
    for child in element.findall("collision"):
        try:
            shape = _shape(child, label, True, colours, notes)
            if _empty(shape):
                what = "scale 0 0 0" if shape.kind == "mesh" else f"radius or half lengths {shape.size} m"
                raise ModelError(f"{label}, collision: a <{shape.kind}> with {what}; give it a size > 0 or remove it")
        except ModelError as error:
            notes.leave_out(_collision(child, label), error, "left out")
            continue
        shape.contact = read_contact(child, _collision(child, label), counts)
        solid.append(shape)
    return Link(name, mass, com, inertia, solid)


def _inertial(inertial, label: str, notes) -> tuple[float, np.ndarray, np.ndarray]:
    """Mass, centre of mass and inertia about it; missing values are 0, with a note."""
    frame = _pose(inertial, label)
    weight, moments = inertial.find("mass"), inertial.find("inertia")
    mass = _number(weight, "value", 0.0, f"{label}: mass")
    if mass < 0:
        raise ModelError(f"{label}: mass is {mass:g}; it must not be negative")
    if weight is None or weight.get("value") is None:
        notes.lose(f"mass of {label}", 'none is given, read as 0; write <mass value="..."/>')
    keys = ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")
    given = [key for key in keys if moments is not None and moments.get(key) is not None]
    lacking = [key for key in ("ixx", "iyy", "izz") if key not in given]
    if lacking:
        notes.lose(f"inertia of {label}", f"{', '.join(lacking)} not given, read as 0")
    e = {key: _number(moments, key, 0.0, f"{label}: inertia") for key in keys}
    matrix = np.array([[e["ixx"], e["ixy"], e["ixz"]], [e["ixy"], e["iyy"], e["iyz"]], [e["ixz"], e["iyz"], e["izz"]]])
    turn = rotation_matrix(frame[3:])
    inertia = turn @ matrix @ turn.T
    return mass, frame[:3], (inertia + inertia.T) / 2


def _collision(element, label: str) -> str:
    """The name of a collision in errors."""
    return f"{label}, collision" + (f" {short(element.get('name'))}" if element.get("name") else "")


def _empty(shape: Shape) -> bool:
    """Whether a shape has no volume because its file gives a size of 0."""
    return not any(shape.scale) if shape.kind == "mesh" else 0 in shape.size


def _shape(element, label: str, touches: bool, colours, notes) -> Shape:
    label = f"{label}, {'collision' if touches else 'visual'}"
    shapes = element.findall("geometry/*")
    if len(shapes) != 1:
        raise ModelError(f"{label}: <geometry> must have one shape, it has {len(shapes)}")
    shape, kind = shapes[0], shapes[0].tag
    kind = {"drake:capsule": "capsule", "drake:ellipsoid": "ellipsoid"}.get(kind, kind)
    if kind not in ("box", "cylinder", "capsule", "sphere", "ellipsoid", "mesh"):
        raise ModelError(
            f"{label}: unknown shape <{kind[:40]}>; use box, cylinder, capsule, sphere, drake:ellipsoid or mesh"
        )
    size: list[float] = []
    if kind == "box":
        size = (_numbers(shape, "size", [], label, 3) / 2).tolist()
    elif kind == "ellipsoid":
        size = [float(_numbers(shape, key, [], label, 1)[0]) for key in "abc"]
    elif kind != "mesh":
        size = _numbers(shape, "radius", [], label, 1).tolist()
    if kind in ("cylinder", "capsule"):
        size += (_numbers(shape, "length", [], label, 1) / 2).tolist()
    if min(size, default=0.0) < 0:
        raise ModelError(f"{label}: a <{kind}> with radius or half lengths {size} m; a size must not be negative")
    result = Shape(
        element.get("name") or "", kind, touches, size, _pose(element, label), _rgba(element, colours, label, notes)
    )
    if kind == "mesh":
        result.file = shape.get("filename") or ""
        result.scale = tuple(_numbers(shape, "scale", [1, 1, 1], label))
    return result


def _colours(root, notes) -> dict[str, tuple]:
    """Named colours of the file: materials of the robot, then those defined inside a link."""
    found: dict[str, tuple] = {}
    for material in [*root.findall("material"), *root.findall("link/visual/material")]:
        if material.find("color") is not None and material.get("name"):
            if material.get("name") not in found:
                found[material.get("name")] = _colour(material, f"material {short(material.get('name'))}", notes)
    return found


def _colour(material, label: str, notes) -> tuple:
    """The colour of a material; grey, with a report line, if it is invalid."""
    try:
        if material.find("color").get("rgba") is None:
            raise ModelError(f"{label}: <color> has no rgba")
        rgba = _numbers(material.find("color"), "rgba", GREY, label)
        if (rgba != np.clip(rgba, 0.0, 1.0)).any():
            notes.report.append(ReportLine(f"colour of {label}", "mapped", f"rgba {rgba.tolist()} is cut to 0 .. 1"))
        return tuple(np.clip(rgba, 0.0, 1.0))
    except ModelError as error:
        notes.report.append(ReportLine(f"colour of {label}", "ignored", f"grey instead: {error}"))
        return GREY


def _rgba(element, colours, label: str, notes) -> tuple:
    material = element.find("material")
    if material is None:
        return GREY
    if material.find("color") is not None:
        return _colour(material, label, notes)
    name = material.get("name")
    if name not in colours and material.find("texture") is None:
        notes.report.append(ReportLine(f"material {short(name)}", "ignored", "is not defined: grey"))
        colours[name] = GREY
    return colours.get(name, GREY)


def _joint(element, notes) -> Joint:
    name, report = _name(element, "joint"), notes.report
    label = f"joint {short(name)}"
    kind = element.get("type")
    kind = "spherical" if kind == "ball" else kind  # Drake's name
    if kind not in KINDS:
        error = ModelError(f"{label}: unknown type {str(kind)[:40]!r}; use {', '.join(KINDS)}")
        notes.leave_out(label, error, "fixed instead")
        kind = "fixed"
    axis = _numbers(element.find("axis"), "xyz", [1, 0, 0], label)
    length = float(np.linalg.norm(axis))
    if length < 1e-9 and kind not in ("fixed", "floating", "spherical"):
        raise ModelError(f"{label}: axis {axis.tolist()} has no direction; give a non-zero vector")
    axis = axis / length if length >= 1e-9 else np.array([1.0, 0, 0])
    dynamics, limit, mimic = element.find("dynamics"), element.find("limit"), element.find("mimic")
    damping, friction = (_number(dynamics, key, 0.0, label) for key in ("damping", "friction"))
    stiffness, reference = (_number(dynamics, f"spring_{key}", 0.0, label) for key in ("stiffness", "reference"))
    if damping < 0 or friction < 0 or stiffness < 0:
        raise ModelError(
            f"{label}: damping {damping:g}, friction {friction:g} and spring_stiffness {stiffness:g} must not be "
            "negative"
        )
    effort = None if limit is None or limit.get("effort") is None else _bound(limit, "effort", label)
    effort = None if effort is None or np.isinf(effort) else effort
    if effort is not None and effort <= 0:
        report.append(ReportLine(f"effort limit of {label}", "ignored", f"{effort:g} is read as none"))
        effort = None
    limits = _limits(limit, label, report) if kind in ("revolute", "prismatic") else None
    if kind not in ("revolute", "prismatic", "fixed") and limit is not None:
        if {limit.get(key, "0").strip() for key in ("lower", "upper")} - {"0", "0.0"}:
            report.append(ReportLine(f"limits of {label}", "ignored", f"{kind} joints have none: unlimited"))
    if stiffness:
        report.append(ReportLine(f"spring of {label}", "used", f"{stiffness:g}, at rest at {reference:g}"))
    if mimic is not None:
        factor, offset = (
            _number(mimic, key, x, f"{label}: mimic") for key, x in (("multiplier", 1.0), ("offset", 0.0))
        )
        mimic = Mimic(mimic.get("joint") or "?", factor, offset)
    pose = _pose(element, label)
    return Joint(name, kind, pose, axis, limits, effort, damping, friction, mimic, stiffness, reference)


def _limits(limit, label: str, report) -> tuple | None:
    """Lower and upper limit; None for an unlimited joint."""
    if limit is None or (limit.get("lower") is None and limit.get("upper") is None):
        report.append(ReportLine(f"limits of {label}", "ignored", "none are given: unlimited"))
        return None
    low, high = (_bound(limit, key, label) for key in ("lower", "upper"))
    if low > high:
        report.append(ReportLine(f"limits of {label}", "ignored", f"lower, {low:g}, above upper, {high:g}: unlimited"))
        return None
    if low == high:
        report.append(ReportLine(f"limits of {label}", "ignored", f"lower equals upper, {low:g}: unlimited"))
        return None
    if np.isinf(low) and np.isinf(high):
        return None
    return max(low, -LARGEST), min(high, LARGEST)


def _bound(limit, key: str, label: str) -> float:
    text = limit.get(key, "0")
    value = real_of(text)
    if np.isnan(value):
        raise ModelError(f"{label}: {key}={text[:60]!r} is not a number")
    return value if abs(value) <= LARGEST else float(np.copysign(np.inf, value))
