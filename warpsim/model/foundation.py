# SPDX-License-Identifier: Apache-2.0
"""Elastic foundation: a Winkler bed of springs on a face of a box (Drumwright, §5.5).

The face is divided into equal cells. In the middle of each cell is a point element: a tiny sphere whose lowest point
lies in the face, of stiffness E · cell area / thickness. Each element that touches costs one contact.
"""

import numpy as np

from warpsim.base.checks import positive, whole
from warpsim.base.errors import ModelError
from warpsim.model.elements import given_time
from warpsim.model.geometry import compose
from warpsim.model.model import GeomType

# Radius of an element over the smaller side of its cell: a tilt of θ moves the lowest point by this ratio times θ²/2.
ELEMENT_RADIUS = 1e-3
FACES = ("+x", "-x", "+y", "-y", "+z", "-z")


def add_foundation(
    builder, body: int, face: str, rows: int, columns: int, modulus: float, thickness: float, time
) -> list:
    """Add the elements and return their geom indices; see `ModelBuilder.add_foundation`."""
    owner = "world" if body < 0 else builder.bodies[body].name
    label = f"foundation of body {owner!r}"
    if face not in FACES:
        raise ModelError(f"{label}: unknown face {face!r}; use one of {', '.join(FACES)}")
    boxes = [g for g in builder.geoms if g.body == body and g.type == GeomType.BOX]
    if len(boxes) != 1:
        raise ModelError(f"{label}: the body has {len(boxes)} box geoms; give it one, whose face it is")
    for name, value in (("rows", rows), ("columns", columns)):
        whole(value, f"{label}: {name}", 1, ModelError)
    for name, value in (("modulus [Pa]", modulus), ("thickness [m]", thickness)):
        positive(value, f"{label}: {name}", error=ModelError)
    box = boxes[0]
    normal = "xyz".index(face[1])
    across = [axis for axis in range(3) if axis != normal]
    cell = 2.0 * box.size[across] / (rows, columns)
    radius = ELEMENT_RADIUS * cell.min()
    found, moves = [], np.asarray(box.surfacevel, float)
    for i in range(rows):
        for j in range(columns):
            place = np.zeros(3)
            place[across] = (np.array([i, j]) + 0.5) * cell - box.size[across]
            place[normal] = (box.size[normal] - radius) * (1.0 if face[0] == "+" else -1.0)
            element = builder.add_geom(
                "sphere",
                [radius],
                body=body,
                pose=compose(box.pose, np.array([*place, 1.0, 0.0, 0.0, 0.0])),
                name=f"{box.name} {face} {i},{j}",
                density=0.0,
                friction=box.friction,
                stiffness=modulus * cell.prod() / thickness,
                dissipation_time=time,
                contype=box.contype,
                conaffinity=box.conaffinity,
                condim=box.condim,
                torsional_friction=box.torsional_friction,
                rolling_friction=box.rolling_friction,
                margin=box.margin,
                friction_dynamic=given_time(box.friction_dynamic),
                friction_velocity=given_time(box.friction_velocity),
                priority=box.priority,
                surfacevel=np.concatenate([moves[:3] + np.cross(moves[3:], place), moves[3:]]),
                visible=False,
            )
            found.append(element)
    box.contype = box.conaffinity = 0
    return found
