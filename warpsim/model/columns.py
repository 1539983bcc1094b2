# SPDX-License-Identifier: Apache-2.0
"""Fields of a `Model` that are columns of a `ModelBuilder`'s records: number type and shape of one row."""

import numpy as np

# (element, number type, row shape, attributes). The field is named ELEMENT_ATTRIBUTE; fields in `PLAIN` have the
# attribute's name alone.
COLUMNS = (
    ("body", np.int32, (), "parent"),
    ("body", float, (), "mass gravcomp"),
    ("body", float, (3,), "com"),
    ("body", float, (3, 3), "inertia"),
    ("joint", np.int32, (), "type body"),
    ("joint", bool, (), "limited"),
    ("joint", float, (), "margin"),
    ("joint", float, (2,), "range solref"),
    ("joint", float, (3,), "anchor axis"),
    ("joint", float, (5,), "solimp"),
    ("geom", np.int32, (), "type body contype conaffinity condim priority mesh field"),
    ("geom", bool, (), "visible"),
    ("geom", float, (), "friction stiffness dissipation_time restitution hertz_modulus"),
    (
        "geom",
        float,
        (),
        "torsional_friction rolling_friction margin friction_dynamic friction_velocity mapped_stiffness solmix gap",
    ),
    ("geom", float, (2,), "solref"),
    ("geom", float, (3,), "size"),
    ("geom", float, (4,), "rgba hydroelastic"),
    ("geom", float, (5,), "solimp"),
    ("geom", float, (6,), "surfacevel"),
    ("geom", float, (7,), "pose"),
    ("geom", float, (15,), "fluid"),
    ("tendon", bool, (), "limited"),
    ("tendon", float, (), "stiffness damping friction margin"),
    ("tendon", float, (2,), "range solref friction_solref"),
    ("tendon", float, (5,), "solimp friction_solimp"),
    ("constraint", np.int32, (), "type"),
    ("constraint", bool, (), "active"),
    ("constraint", float, (), "dissipation_time torquescale"),
    ("constraint", float, (2,), "stiffness solref"),
    ("constraint", float, (5,), "solimp"),
    ("actuator", np.int32, (), "dynamics group"),
    ("actuator", bool, (), "early"),
    ("actuator", float, (2,), "control_range force_range activation_range length_range own_range"),
    ("actuator", float, (3,), "gain bias time"),
    ("actuator", float, (6,), "gear"),
    ("actuator", float, (2, 8), "muscle"),
    ("site", np.int32, (), "body type"),
    ("site", float, (3,), "size"),
    ("site", float, (4,), "rgba"),
    ("site", float, (7,), "pose"),
    ("camera", np.int32, (), "body"),
    ("camera", np.int32, (2,), "resolution"),
    ("camera", float, (), "fovy"),
    ("camera", float, (7,), "pose"),
    ("wrap", np.int32, (), "type object side"),
    ("wrap", float, (), "divisor"),
    ("sensor", np.int32, (), "type size datatype"),
    ("sensor", float, (), "cutoff"),
    ("sensor", float, (8,), "constants"),
)
PLAIN = ("control_range", "force_range", "activation_range")
# Fields computed from several records, for kinds of elements that a model may lack.
FOLLOWING = (("wrap", np.int32, (), "tendon"), ("sensor", np.int32, (), "adr"))
FOLLOWING += (("sensor", np.int32, (2,), "object_type object"),)


def columns(kind: str, records) -> dict:
    """The fields of one kind of element, by name, from its records."""
    return {
        key if key in PLAIN else f"{kind}_{key}": _column([getattr(x, key) for x in records], shape, dtype)
        for owner, dtype, shape, keys in COLUMNS
        if owner == kind
        for key in keys.split()
    }


def no_elements(*kinds: str) -> dict[str, np.ndarray]:
    """The empty fields of a model without elements of these kinds."""
    return {
        f"{kind}_{key}": _column([], shape, dtype)
        for kind, dtype, shape, keys in COLUMNS + FOLLOWING
        if kind in kinds
        for key in keys.split()
    }


def filled(kind: str, count: int, value: float, keys: str) -> dict[str, np.ndarray]:
    """Some fields of `count` elements, filled with one value."""
    known = {key: (shape, dtype) for owner, dtype, shape, names in COLUMNS if owner == kind for key in names.split()}
    return {f"{kind}_{key}": np.full((count, *known[key][0]), value, known[key][1]) for key in keys.split()}


def _column(values: list, shape, dtype) -> np.ndarray:
    return np.array(values, dtype=dtype).reshape(len(values), *shape)
