# SPDX-License-Identifier: Apache-2.0
"""Elements of Gazebo, Bullet and Drake in a URDF that are simulated here.

They set friction, springs, gravity, reflected inertia and filters. Report lines say what became of each element. An
element that is not read and may change the motion has the status "refused", and a warning names it.
"""

from warpsim.base.checks import short
from warpsim.base.errors import ModelError
from warpsim.files.safe_files import real_of
from warpsim.files.urdf.urdf_report import Note
from warpsim.model.model import ReportLine

IDLE = {  # in <gazebo>: elements that serve drawing or measuring, and plugins
    *("material", "sensor", "plugin", "visual", "provideFeedback", "disableFixedJointLumping", "preserveFixedJoint"),
    *(
        "cameraName",
        "laserRetro",
        "laser_retro",
        "implicitSpringDamper",
        "maxVel",
        "minDepth",
        "maxContacts",
        "fdir1",
        "canonical_link",
    ),
}
NOTHING = {  # in <contact>: values that have no effect here
    **dict.fromkeys(("restitution", "rolling_friction", "spinning_friction", "contact_cfm"), ("0", "0.0")),
    "inertia_scaling": ("1", "1.0"),
}
MAX_GROUPS, MAX_FILTERED = 200, 5_000_000  # groups of links, and pairs of links in them
MOST_FRICTION = 100.0  # a larger coefficient sticks no better; files have up to 1e14
TRUE, FALSE = ("1", "true"), ("0", "false")


class Extensions:
    """Reads the elements into the links and joints of a robot; `excluded` collects pairs of links that never touch."""

    def __init__(self, root, links: dict, report: list[ReportLine], notes: list[Note]):
        self.links, self.report, self.notes = links, report, notes
        self.joints = {link.joint.name: link.joint for link in links.values() if link.joint is not None}
        self.excluded: set[tuple[str, str]] = set()
        self.alone: set[str] = set()  # links that touch no other link
        self.counts: dict[tuple[str, str, str], int] = {}
        for element in root:
            if element.tag == "gazebo":
                self._gazebo(element)
            elif element.tag == "transmission":
                self._transmission(element)
            elif element.tag == "link":
                for contact in element.findall("contact"):
                    self._bullet(self.links[element.get("name")], contact)
        self._filters(root)
        for name in self.alone:
            self.links[name].apart = True
            self.excluded.update((min(name, other), max(name, other)) for other in self.links if other != name)
        for (feature, status, why), count in self.counts.items():
            if status == "refused":
                notes.append(Note(feature, f"{count}: {why}", True))
            else:
                report.append(ReportLine(feature, status, f"{count}: {why}"))

    def _tell(self, feature: str, status: str, why: str) -> None:
        self.counts[feature, status, why] = self.counts.get((feature, status, why), 0) + 1

    def _gazebo(self, element) -> None:
        name = element.get("reference")
        link, joint = self.links.get(name), self.joints.get(name)
        if name is not None and link is None and joint is None:
            self._tell("<gazebo reference>", "ignored", "there is no such link or joint")
            return
        for child in element:
            self._gazebo_value(child, link, joint)

    def _gazebo_value(self, child, link, joint) -> None:
        tag, label = child.tag, f"<gazebo>: <{child.tag[:40]}>"
        text = (child.get("value") or child.text or "").strip()
        if link is not None and tag in ("mu1", "mu"):
            self._friction(link, text, label)
        elif link is not None and tag == "mu2":
            self._tell(label, "ignored", "friction is the same in all directions: that of <mu1>")
        elif link is not None and tag in ("turnGravityOff", "gravity") and text.lower() in TRUE + FALSE:
            link.weightless = (text.lower() in TRUE) == (tag == "turnGravityOff")
            self._tell(
                label,
                "used",
                "a force at the link's centre of mass carries its weight" if link.weightless else "as everywhere",
            )
        elif joint is None and tag in ("selfCollide", "self_collide") and text.lower() in TRUE + FALSE:
            own = set(self.links) if link is None else {link.name}
            self.alone = self.alone - own if text.lower() in TRUE else self.alone | own
            never = "links do not touch each other" if link is None else "the link touches no other link"
            self._tell(label, "used", never if text.lower() in FALSE else "links touch each other, as everywhere")
        elif joint is not None and tag in ("springStiffness", "springReference"):
            which = "stiffness" if tag == "springStiffness" else "reference"
            value = self._number(text, label, negative=which == "reference")
            if value is not None:
                setattr(joint, which, value)
                self._tell(label, "used", "a spring at the joint")
        elif tag in IDLE or (tag == "static" and text.lower() in FALSE):
            self._tell(label, "ignored", "extension of another simulator")
        else:
            self._tell(label, "refused", "not simulated")

    def _bullet(self, link, contact) -> None:
        for child in contact:
            label = f"<contact>: <{child.tag[:40]}>"
            if child.tag == "lateral_friction":
                self._friction(link, child.get("value", ""), label)
            elif child.tag in NOTHING and child.get("value", "").strip() in NOTHING[child.tag]:
                self._tell(label, "ignored", f"{child.get('value').strip()} changes nothing")
            else:
                self._tell(label, "refused", "not simulated")

    def _friction(self, link, text: str, label: str) -> None:
        value = self._number(text, label)
        if value is not None:
            link.friction = min(value, MOST_FRICTION)
            more = f", of which {text} is read as {MOST_FRICTION:g}" if value > MOST_FRICTION else ""
            self._tell(label, "mapped" if more else "used", f"friction of the link's collisions{more}")

    def _number(self, text: str, label: str, negative: bool = False) -> float | None:
        """The number in a text.

        None, with a report line, for no number, or for a negative one unless `negative`.
        """
        value = real_of(text)
        if abs(value) <= 1e30 and (negative or value >= 0):
            return value
        self._tell(label, "refused", f"{short(text)} is no number" + ("" if negative else ", not negative"))
        return None

    def _transmission(self, element) -> None:
        """Drake's reflected inertia, rotor inertia times gear ratio squared, becomes an armature."""
        rotors = {"drake:rotor_inertia": 0.0, "drake:gear_ratio": 1.0}
        actuator, named = element.find("actuator"), [joint.get("name") for joint in element.findall("joint")]
        found = [child for child in ([] if actuator is None else actuator) if child.tag in rotors]
        if not found:
            return
        for child in found:
            label = f"<transmission>: <{child.tag}>"
            value = self._number(child.get("value", ""), label, child.tag == "drake:gear_ratio")
            rotors[child.tag] = 0.0 if value is None else value
        joint = self.joints.get(named[0]) if len(named) == 1 else None
        if joint is None:
            self._tell("<transmission>: rotor inertia", "refused", "its <joint> is no joint of the file")
            return
        joint.armature = rotors["drake:rotor_inertia"] * rotors["drake:gear_ratio"] ** 2
        self._tell(
            "<transmission>: rotor inertia",
            "used",
            "armature of the joint, the rotor's inertia times the gear ratio squared",
        )

    def _filters(self, root) -> None:
        """Read Drake's groups of links: links of a group never touch those of the groups that it ignores."""
        groups: dict[str, set[str]] = {}
        inner: dict[str, list[str]] = {}
        ignored = []
        for group in root.findall("drake:collision_filter_group"):
            if group.get("ignore", "false").strip().lower() in TRUE:
                self._tell("drake:collision_filter_group", "ignored", 'ignore="true"')
                continue
            name = group.get("name") or "?"
            label = f"<drake:collision_filter_group> {short(name)}"
            groups.setdefault(name, set())
            for child in group:
                if child.tag == "drake:member" and child.get("link") in self.links:
                    groups[name].add(child.get("link"))
                elif child.tag == "drake:member_group":
                    inner.setdefault(name, []).append(child.get("name"))
                elif child.tag == "drake:ignored_collision_filter_group":
                    ignored.append((name, child.get("name")))
                else:
                    raise ModelError(
                        f"{label}: <{child.tag[:40]}> {dict(child.items())} is no link or group of the file; mend or "
                        "remove it"
                    )
        if len(groups) > MAX_GROUPS:
            raise ModelError(f"{len(groups)} elements <drake:collision_filter_group>, more than {MAX_GROUPS}")
        for _ in inner:  # one pass per level of nested groups
            for name, others in inner.items():
                groups[name] |= set().union(*(groups.get(other, set()) for other in set(others)))
        for name, other in ignored:
            if other not in groups:
                raise ModelError(
                    f"<drake:collision_filter_group> {short(name)}: there is no group {short(other)}; mend or remove it"
                )
        ignored = set(ignored)
        if sum(len(groups[name]) * len(groups[other]) for name, other in ignored) > MAX_FILTERED:
            raise ModelError(
                f"elements <drake:collision_filter_group> that stand for more than {MAX_FILTERED} pairs of links"
            )
        for name, other in ignored:
            self.excluded.update((min(a, b), max(a, b)) for a in groups[name] for b in groups[other] if a != b)
        for link in set().union(*groups.values()):
            self.links[link].apart = True
        if groups:
            what = f"{len(groups)}: {len(self.excluded)} pairs of links never touch"
            self.report.append(ReportLine("drake:collision_filter_group", "used", what))
