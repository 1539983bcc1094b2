# SPDX-License-Identifier: Apache-2.0
"""Tendons, constraints, actuators, sensors, contact filters and keyframes of a `ModelBuilder` as MJCF."""

import xml.etree.ElementTree as xml

import numpy as np

from warpsim.files.mjcf.mjcf_elements import add, limits_of, pose_of, unless
from warpsim.files.mjcf.mjcf_kept import agrees
from warpsim.files.mjcf.mjcf_law import law_attributes, pair_elements
from warpsim.model.builder_names import free_name
from warpsim.model.constraint_types import ConstraintType
from warpsim.model.constraints import initial_poses
from warpsim.model.geometry import CONJUGATE, compose, inverse, quaternion_multiply
from warpsim.model.model import DynamicsType
from warpsim.model.sensor_records import CONTACT_DATA, MAGNETIC_FIELD, RAY_DATA, REDUCTIONS, names_of
from warpsim.model.sensor_types import KINDS, ObjectType, SensorType
from warpsim.model.tendon_paths import WrapType

SAID = (ConstraintType.CONNECT, ConstraintType.WELD, ConstraintType.JOINT, ConstraintType.TENDON)  # types that MJCF has
FRAMES = {ObjectType.BODY: "xbody", ObjectType.INERTIA: "body", ObjectType.GEOM: "geom", ObjectType.SITE: "site"}
FRAMES |= {ObjectType.CAMERA: "camera"}


def body_name(b, index: int) -> str:
    """A body's name; "world" for the index -1."""
    return "world" if index < 0 else b.bodies[index].name


def write_contacts(b, root: xml.Element) -> None:
    """Write excluded bodies and explicit pairs."""
    section = add(root, "contact")
    for first, second in sorted(b.excluded):
        add(section, "exclude", body1=body_name(b, first), body2=body_name(b, second))
    for pair in b.explicit_pairs:
        ends = {f"geom{k + 1}": b.geoms[geom].name for k, geom in enumerate(pair[:2])}
        for law in pair_elements(b, pair):
            add(section, "pair", **ends, **law)


def write_tendons(b, root: xml.Element) -> None:
    """Write fixed and spatial tendons."""
    section = add(root, "tendon")
    for t, tendon in enumerate(b.tendons):
        reference = np.array(tendon.reference, float)
        if (reference == -1).all():  # MuJoCo takes (-1, -1) for the length in the initial pose
            reference[0] = np.nextafter(-1.0, -2.0)
        options = {
            "stiffness": unless(tendon.stiffness, 0.0),
            "damping": unless(tendon.damping, 0.0),
            "frictionloss": unless(tendon.friction, 0.0),
            "springlength": reference,
            **law_attributes("tendon", tendon),
        }
        options["range"] = limits_of(tendon.range) if tendon.limited else None
        for limit in (limit for limit in b.effort_limits if limit.tendon == t):
            options["actuatorfrcrange"] = limits_of(limit.range)
        element = add(section, "spatial" if tendon.path else "fixed", name=tendon.name, **options)
        for j, coefficient in tendon.coefficients.items():
            add(element, "joint", joint=b.joints[j].name, coef=coefficient)
        for wrap in tendon.path:
            if wrap.type == WrapType.PULLEY:
                add(element, "pulley", divisor=wrap.divisor)
            elif wrap.type == WrapType.SITE:
                add(element, "site", site=b.sites[wrap.object].name)
            else:
                side = None if wrap.side < 0 else b.sites[wrap.side].name
                add(element, "geom", geom=b.geoms[wrap.object].name, sidesite=side)


def write_constraints(b, root: xml.Element, aids: dict[tuple[int, int], str]) -> None:
    """Write the equalities that MJCF has; `aids` maps (index, end) to the name of a site that replaces a frame."""
    section = add(root, "equality")
    for index, c in enumerate(b.constraints):
        if c.type not in SAID:
            continue
        common = {"name": c.name, "active": None if c.active else False} | law_attributes("constraint", c)
        word = c.type.name.lower()
        if word != "weld":
            del common["torquescale"]
        if c.type in (ConstraintType.JOINT, ConstraintType.TENDON):
            items = b.joints if c.type == ConstraintType.JOINT else b.tendons
            ends = {f"{word}{k + 1}": items[end].name for k, end in enumerate(c.ends) if end >= 0}
            add(section, word, **ends, polycoef=c.coefficients, **common)
            continue
        if (index, 0) in aids:
            add(section, word, site1=aids[index, 0], site2=aids[index, 1], **common)
            continue
        first, second = c.poses
        ends = {"body1": body_name(b, c.ends[0]), "body2": body_name(b, c.ends[1])}
        if c.type == ConstraintType.CONNECT:
            add(section, word, **ends, anchor=first[:3], **common)
        else:
            turn = quaternion_multiply(first[3:], CONJUGATE * second[3:])
            add(section, word, **ends, anchor=second[:3], relpose=[*first[:3], *turn], **common)


def find_aids(b) -> tuple[dict[tuple[int, int], str], list[tuple[str, int, np.ndarray]]]:
    """Sites at the ends of the connect constraints that are open in the initial pose, which MuJoCo would close.

    Returns the names of the sites by (index, end), and those that the model does not have as (name, body, pose).
    """
    found: dict[tuple[int, int], str] = {}
    new: list[tuple[str, int, np.ndarray]] = []
    rows = [i for i, c in enumerate(b.constraints) if c.type == ConstraintType.CONNECT]
    world = initial_poses(b) if rows else {}
    taken = {site.name for site in b.sites}
    for i in rows:
        c = b.constraints[i]
        relative = compose(inverse(world[c.ends[1]]), compose(world[c.ends[0]], c.poses[0]))
        if agrees(relative[:3], c.poses[1][:3]):
            continue
        for k, (body, pose) in enumerate(zip(c.ends, c.poses, strict=True)):
            name = next((s.name for s in b.sites if s.body == body and np.array_equal(s.pose[:3], pose[:3])), None)
            if name is None:
                name = free_name(f"{c.name}:{'ab'[k]}", taken)
                taken.add(name)
                new.append((name, body, pose))
            found[i, k] = name
    return found, new


def write_aids(new, bodies: dict[int, xml.Element]) -> None:
    """Write the new sites of `find_aids`."""
    for name, body, pose in new:
        parent = bodies[body]
        place = next((i for i, child in enumerate(parent) if child.tag == "body"), len(parent))
        parent.insert(place, add(xml.Element("new"), "site", name=name, **pose_of(pose)))


def joints_ranges(b) -> dict[int, tuple[int, np.ndarray]]:
    """Joint -> (actuator, effort range), if the force range of the joint's only actuator gives the effort range."""
    movers: dict[int, list[tuple[int, float]]] = {}
    for a, actuator in enumerate(b.actuators):
        arms = {actuator.target.joint: 1.0}
        if actuator.target.tendon >= 0:
            arms = b.tendons[actuator.target.tendon].coefficients
        if actuator.target.joint < 0 and not arms:
            return {}  # an actuator on a line or contacts may move any joint
        for j, arm in arms.items():
            movers.setdefault(j, []).append((a, float(actuator.gear[0] * arm)))
    limited = {limit.joint for limit in b.effort_limits}
    found = {}
    for j, ((a, arm), *others) in movers.items():
        if not np.isnan(b.actuators[a].own_range).all() and not others and arm and j not in limited:
            found[j] = (a, np.sort(arm * b.actuators[a].force_range))
    return found


def write_actuators(b, root: xml.Element) -> None:
    """Write all actuators as `general`."""
    section = add(root, "actuator")
    ranged = {a for a, _ in joints_ranges(b).values()}
    for a, actuator in enumerate(b.actuators):
        options = _target(b, actuator.target) | _law(actuator)
        if actuator.dynamics:
            kind = DynamicsType(actuator.dynamics)
            times = {DynamicsType.INTEGRATOR: None, DynamicsType.MUSCLE: actuator.time}.get(kind, actuator.time[:1])
            options |= {"dyntype": kind.name.lower(), "dynprm": times, "actearly": True if actuator.early else None}
            options["actrange"] = limits_of(actuator.activation_range)
        own = actuator.own_range if a in ranged else np.full(2, np.nan)
        force_range = np.where(np.isnan(own), actuator.force_range, own)
        options |= {"ctrlrange": limits_of(actuator.control_range), "forcerange": limits_of(force_range)}
        add(section, "general", name=actuator.name, **options, group=unless(actuator.group, 0))


def _target(b, target) -> dict:
    first, second = target.site
    if target.joint >= 0:
        return {"joint": b.joints[target.joint].name}
    if target.tendon >= 0:
        return {"tendon": b.tendons[target.tendon].name}
    if target.body >= 0:
        return {"body": b.bodies[target.body].name}
    if target.rod:
        ends = {"cranksite": b.sites[first].name, "slidersite": b.sites[second].name}
        return ends | {"cranklength": target.rod}
    return {"site": b.sites[first].name, "refsite": None if second < 0 else b.sites[second].name}


def _law(actuator) -> dict:
    """The attributes of gain, bias and gear."""
    gear = actuator.gear[: max(np.flatnonzero(actuator.gear), default=0) + 1]
    found = {"gear": unless(gear, (1.0,)), "gainprm": actuator.gain}
    if actuator.gain[1:].any():
        found["gaintype"] = "affine"
    else:
        found["gainprm"] = actuator.gain[0]
    if actuator.bias.any():
        found |= {"biastype": "affine", "biasprm": actuator.bias}
    for word, row in zip(("gain", "bias"), actuator.muscle, strict=True):
        if np.isfinite(row[2]):
            low, high, force, *others = row
            scale = 200.0  # unused if there is a force
            found |= {f"{word}type": "muscle", f"{word}prm": [low, high, force, scale, *others]}
            found["lengthrange"] = actuator.length_range
    return found


def write_sensors(b, root: xml.Element) -> None:
    """Write all sensors; one that cannot be evaluated becomes a `user` sensor with the same number of values."""
    section = add(root, "sensor")
    for sensor in b.sensors:
        kind, rules = SensorType(sensor.type), KINDS[SensorType(sensor.type)]
        options: dict = {"name": sensor.name, "cutoff": unless(sensor.cutoff, 0.0)}
        ends = [(type, _object(b, type, index)) for type, index in sensor.objects]
        if kind == SensorType.UNAVAILABLE:
            add(section, "user", **options, dim=sensor.size)
            continue
        if kind == SensorType.CONTACT:
            bits, reduction, count = (int(x) for x in sensor.constants[:3])
            for k, (type, name) in enumerate(ends):
                number = "" if type == ObjectType.SITE else k + 1
                options |= {} if type == ObjectType.NONE else {f"{type.name.lower()}{number}": name}
            options |= {"data": " ".join(names_of(CONTACT_DATA, bits)), "reduce": REDUCTIONS[reduction], "num": count}
        elif kind == SensorType.CAMPROJECTION:
            options |= {"site": ends[0][1], "camera": ends[1][1]}
        elif kind == SensorType.RANGEFINDER:
            options |= {"site": ends[0][1], "data": " ".join(names_of(RAY_DATA, int(sensor.constants[0])))}
        elif len(rules.objects) == 1 and ends[0][0] != ObjectType.NONE:
            options[ends[0][0].name.lower()] = ends[0][1]
        elif ends[0][0] != ObjectType.NONE:
            options |= {"objtype": FRAMES[ends[0][0]], "objname": ends[0][1]}
            if kind == SensorType.INSIDESITE:
                options["site"] = ends[1][1]
            elif ends[1][0] != ObjectType.NONE:
                options |= {"reftype": FRAMES[ends[1][0]], "refname": ends[1][1]}
        add(section, kind.name.lower(), **options)


def _object(b, type: ObjectType, index: int) -> str | None:
    if type == ObjectType.NONE:
        return None
    return body_name(b, index) if type.element == "body" else type.items(b)[index].name


def magnetic_field(b) -> np.ndarray | None:
    """The magnetic field of the first magnetometer: MuJoCo has one field for all."""
    fields = [sensor.constants[:3] for sensor in b.sensors if sensor.type == SensorType.MAGNETOMETER]
    return unless(fields[0], MAGNETIC_FIELD) if fields else None


def write_keyframes(model, root: xml.Element) -> None:
    """Write all keyframes, with every number."""
    section = add(root, "keyframe")
    for name, frame in model.keyframes.items():
        values = {"qpos": frame.q, "qvel": frame.v, "act": frame.activation, "ctrl": frame.control}
        values |= {"mpos": frame.mocap[:, :3], "mquat": frame.mocap[:, 3:]}
        add(section, "key", name=name, **{key: value if np.size(value) else None for key, value in values.items()})
