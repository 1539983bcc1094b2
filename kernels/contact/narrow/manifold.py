# SPDX-License-Identifier: Apache-2.0
"""Feature codes of contact geometry, and the manifold: a short list of feature contacts between two geoms.

A feature contact is a triple (feature_a, feature_b, reference) of integer codes; `features.evaluate` gives its
geometry. Codes of a feature, by geom type:

| type    | code   | feature                                                                                     |
|---------|--------|---------------------------------------------------------------------------------------------|
| plane   | 0      | the plane z = 0, outward normal +z                                                          |
| sphere  | 0      | the centre                                                                                  |
| capsule | 0, 1   | end of the axis at z = −half_length, z = +half_length                                       |
| capsule | 2      | the interior of the axis                                                                    |
| box     | 0..7   | vertex; bit i is set on the positive side of axis i                                         |
| box     | 8..19  | edge 8 + 4 i + k along axis i; bits 0 and 1 of k: positive side of axes i+1, i+2 (mod 3)    |
| box     | 20..25 | face 20 + 2 i + s with normal along axis i, s = 1 on the positive side                      |

`reference` is NO_REFERENCE, or the code of a reference face (20..25) of a box. There are two cases:

| (one feature, other feature, reference)              | point that touches the reference face                         |
|------------------------------------------------------|---------------------------------------------------------------|
| (edge or capsule axis, side face, reference face)    | where the line crosses the side face's plane                  |
| (face, vertex of the reference face, reference face) | on the face's plane, above that vertex along the normal       |

The reference face belongs to the box of the side face in the first case, to the box of the vertex in the second.
"""

import warp as wp

from ... import real as device
from ...linalg.lanes import WORLD, WORLDS, by_device
from ...real import LANES, func, struct

# Shapes, with the numbers of `GeomType` (`warpsim/model/model.py`).
PLANE = wp.constant(0)
HEIGHT_FIELD = wp.constant(1)
SPHERE = wp.constant(2)
CAPSULE = wp.constant(3)
ELLIPSOID = wp.constant(4)
CYLINDER = wp.constant(5)
BOX = wp.constant(6)
MESH = wp.constant(7)

CAPSULE_AXIS = wp.constant(2)
FIRST_EDGE = wp.constant(8)
FIRST_FACE = wp.constant(20)
NO_REFERENCE = wp.constant(-1)

MAX_POINTS = wp.constant(8)  # two quadrilaterals intersect in at most eight vertices

features_type = wp.types.matrix((8, 3), wp.int32)
# On a GPU an array with an index that is unknown at compile time is kept in local memory as a whole. So the GPU code
# compares k with every row: all indices are constants, and the list stays in registers.
GET = "row.c[0] = features.data[ROW][0]; row.c[1] = features.data[ROW][1]; row.c[2] = features.data[ROW][2];"
SET = "with.data[ROW][0] = row.c[0]; with.data[ROW][1] = row.c[1]; with.data[ROW][2] = row.c[2];"
GET_ROW = "wp::vec_t<3, int> row;\nBODY\nreturn row;\n"
SET_ROW = "auto with = features;\nBODY\nreturn with;\n"


# Bits of the types that only the general narrow phase (`convex.py`, `convex_contacts.py`) handles.
GENERAL = wp.constant(sum(1 << int(kind) for kind in (HEIGHT_FIELD, ELLIPSOID, CYLINDER, MESH)))


@func
def is_general(type: wp.int32) -> wp.bool:
    """Whether the bit of a type is among `GENERAL`."""
    return (GENERAL >> type) & 1 == 1


@struct
class Manifold:
    """Up to MAX_POINTS feature contacts, rows of `features` in deterministic order."""

    count: wp.int32
    features: features_type


def at_row(body: str, entry: str) -> str:
    """C++ body that applies `entry` to row k."""
    each = "\n".join(f"if (k == {row}) {{ {entry.replace('ROW', str(row))} }}" for row in range(int(MAX_POINTS)))
    return by_device(body.replace("BODY", each), body.replace("BODY", entry.replace("ROW", "k")))


@device.func_native(at_row(GET_ROW, GET))
def row_of(features: features_type, k: int) -> wp.vec3i:
    """Row k of the list."""
    ...


@device.func_native(at_row(SET_ROW, SET))
def with_row(features: features_type, k: int, row: wp.vec3i) -> features_type:
    """The list with row k replaced."""
    ...


@func
def add_contact(manifold: Manifold, feature_a: wp.int32, feature_b: wp.int32, reference: wp.int32) -> Manifold:
    """Append one feature contact; drop it when the manifold is full."""
    if manifold.count < MAX_POINTS:
        manifold.features = with_row(manifold.features, manifold.count, wp.vec3i(feature_a, feature_b, reference))
        manifold.count += 1
    return manifold


@func
def contact_features(manifold: Manifold, i: wp.int32) -> wp.vec3i:
    """The triple (feature_a, feature_b, reference) of contact i."""
    return row_of(manifold.features, i)


# A lane puts its rows at the places from `at` on that are this world's lanes.
PUT = "if (ROW < count && unsigned(at + ROW) < LANES) { quad& to = dealt[at + ROW]; to.c[0] = features.data[ROW][0]; \
to.c[1] = features.data[ROW][1]; to.c[2] = features.data[ROW][2]; to.c[3] = pair; }"
DEAL = f"""
typedef wp::vec_t<4, int> quad;
__shared__ alignas(16) int places[{4 * WORLDS * LANES}];
quad* const dealt = reinterpret_cast<quad*>(places) + {WORLD} * LANES;
meet();
PUTS
meet();
return dealt[lane];
"""


@device.func_native(
    by_device(
        DEAL.replace("PUTS", "\n".join(PUT.replace("ROW", str(row)) for row in range(int(MAX_POINTS)))),
        "const auto& row = features.data[-at]; return wp::vec_t<4, int>(row[0], row[1], row[2], pair);",
    )
)
def team_deal(count: int, features: features_type, pair: int, at: int) -> wp.vec4i:
    """Deal the rows of all lanes' lists in sequence, one to each lane, with their `pair` as fourth number.

    Row k of this lane's list is dealt to lane `at` + k, which need not exist. On one lane row −`at`.
    """
    ...
