# SPDX-License-Identifier: Apache-2.0
"""Report lines for the parts of a URDF that the reader does not read: elements, attributes and text, by their place.

A part that may change the motion is "refused" and named in a warning. A part that only serves drawing, measuring or
planning is "ignored".
"""

import collections

from warpsim.base.checks import short
from warpsim.model.model import ReportLine

ORIGIN = ("xyz", "rpy")
SHAPES = {
    "box": ("size",),
    "cylinder": ("radius", "length"),
    "capsule": ("radius", "length"),
    "drake:capsule": ("radius", "length"),
    "sphere": ("radius",),
    "ellipsoid": ("a", "b", "c"),
    "drake:ellipsoid": ("a", "b", "c"),
    "mesh": ("filename", "scale"),
}
LOOKS = {"material": ("name",), "material/color": ("rgba",), "material/texture": ("filename",)}
SHAPE = {
    "": ("name",),
    "origin": ORIGIN,
    "geometry": ("name",),
    **{f"geometry/{k}": of for k, of in SHAPES.items()},
    **LOOKS,
}
JOINT = {
    "": ("name", "type"),
    "origin": ORIGIN,
    "parent": ("link",),
    "child": ("link",),
    "axis": ("xyz",),
    "limit": ("lower", "upper", "effort", "velocity"),
    "dynamics": ("damping", "friction", "spring_stiffness", "spring_reference"),
    "mimic": ("joint", "multiplier", "offset"),
}
READ = {  # attributes that are read, by the place of their element below <robot>
    "": ("name", "version"),
    "link": ("name",),
    "link/inertial": (),
    "link/inertial/origin": ORIGIN,
    "link/inertial/mass": ("value",),
    "link/inertial/inertia": ("ixx", "ixy", "ixz", "iyy", "iyz", "izz"),
    **{f"link/{use}/{place}".rstrip("/"): of for use in ("visual", "collision") for place, of in SHAPE.items()},
    **{f"{tag}/{place}".rstrip("/"): of for tag in ("joint", "drake:joint") for place, of in JOINT.items()},
    **LOOKS,
}
TOLD = {  # elements that other modules report, with all that is in them
    *("transmission", "ros2_control", "gazebo", "mujoco", "sensor", "drake:collision_filter_group"),
    *("joint/safety_controller", "joint/calibration", "link/contact", "link/surface"),
    "link/collision/drake:proximity_properties",
}
CHILDREN = {  # attributes of elements whose children other modules report
    "gazebo": ("reference",),
    "link/contact": (),
    "link/collision/drake:proximity_properties": (),
    "drake:collision_filter_group": ("name", "ignore"),
}
TAGS = ("robot", "link", "joint", "gazebo", "transmission", "loop_joint")  # of elements of a robot, in lower case
HARMLESS = ("visual", "material", "color", "texture")  # elements whose unknown parts can only affect drawing
ELSEWHERE = {
    "loop_joint": "loops are not closed; close them by ModelBuilder.add_constraint, or in MJCF by <equality>",
    "drake:linear_bushing_rpy": "bushings are not simulated",
    "drake:ball_constraint": "constraints of Drake are not read",
    "verbose": "nothing reads it",
}
# limits that only planners use
PLANNED = {"acceleration": "accelerations", "drake:acceleration": "accelerations", "jerk": "jerks"}
MOST_LINES = 100
Note = collections.namedtuple("Note", "feature detail moves")


def unread(root) -> list[Note]:
    """Notes on what a URDF has that is not read: one for each kind of thing, in the file's order."""
    found: dict[tuple, int] = {}
    notes: dict[tuple, tuple[str, bool]] = {}  # for each: where the first is, and whether it may change the motion

    def tell(what: str, why: str, moves: bool) -> None:
        key = what, why
        found[key] = found.get(key, 0) + 1
        notes.setdefault(key, (owner, moves))

    stack, owner = [("", root, "")], ""
    while stack:
        place, element, owner = stack.pop()
        if place and element.get("name"):
            owner = f" of {place.rsplit('/', 1)[-1]} {short(element.get('name'))}"
        parts = place.split("/")
        drawn = any(part in HARMLESS for part in parts)
        below = f"<{parts[-1]}>" if place else "<robot>"
        for key in element.keys():
            if place.endswith("joint/limit") and key in PLANNED:
                tell(f"{below}: attribute {key}", f"{PLANNED[key]} are not limited", False)
            elif key not in READ[place] and not key.startswith("xmlns"):
                tell(f"{below}: attribute {key[:40]}", "not known here", not drawn and bool(place) and place != "link")
        if not drawn and any((text or "").strip() for text in (element.text, *(child.tail for child in element))):
            tell(
                f"{below}: text", 'values stand in attributes, such as value="1"; the text is not read', len(parts) > 1
            )
        single: set[str] = set()
        for child in element:
            inner = f"{place}/{child.tag}".lstrip("/")
            if inner in TOLD:
                _told(inner, child, tell)
                continue
            if parts[-1] == "geometry" and inner not in READ:
                continue
            if inner not in READ:
                outer, owner = owner, f" {short(child.get('name'))}" if child.get("name") else owner
                tell(*_unknown(child, below, drawn, bool(place)))
                owner = outer
                continue
            if child.tag in single and not drawn:
                tell(f"{below}: a second <{child.tag}>", "the first one counts", True)
            if len(parts) > 1 or place in ("link", "joint", "drake:joint"):
                single.update({child.tag} - {"visual", "collision"})
            stack.append((inner, child, owner))
    lines = [
        Note(f"{what}{first}", why if found[what, why] == 1 else f"{found[what, why]}, this the first: {why}", moves)
        for (what, why), (first, moves) in notes.items()
    ]
    if len(lines) > MOST_LINES:
        rest = lines[MOST_LINES:]
        lines[MOST_LINES:] = [
            Note("further elements and attributes", f"{len(rest)} kinds, not known here", any(n.moves for n in rest))
        ]
    return lines


def _told(place: str, element, tell) -> None:
    """Note attributes and text of an element whose children other modules report."""
    if place not in CHILDREN:
        return
    for key in element.keys():
        if key not in CHILDREN[place]:
            tell(f"<{element.tag}>: attribute {key[:40]}", "not known here", True)
    if any((text or "").strip() for text in (element.text, *(child.tail for child in element))):
        tell(f"<{element.tag}>: text", "values stand in elements; the text is not read", True)


def _unknown(element, below: str, drawn: bool, inside: bool) -> tuple[str, str, bool]:
    """The note of an unknown element: name, reason, and whether it may change the motion."""
    tag = element.tag
    what = f"{below}: <{tag[:40]}>"
    if tag.startswith("xacro:"):
        inert = tag in ("xacro:property", "xacro:arg", "xacro:include")
        return what, "a template's, not expanded: run xacro on the file", not inert or tag == "xacro:include"
    words = tag.lower()
    known = words.rsplit(":", 1)[-1] in TAGS or any(len(e) and e.tag in ("link", "joint") for e in element)
    known = known or any(word in words for word in ("joint", "constraint", "collision"))
    moves = not drawn and (inside or tag.startswith("drake:") or known)
    return what, ELSEWHERE.get(tag, "not known here"), moves and tag != "verbose"


def report_lines(notes) -> list[ReportLine]:
    """The report lines of notes."""
    return [ReportLine(n.feature, "refused" if n.moves else "ignored", n.detail) for n in notes]
