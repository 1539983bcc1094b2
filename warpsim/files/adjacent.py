# SPDX-License-Identifier: Apache-2.0
"""Links that a joint connects do not touch: what URDF and USD mean, also where the parent is welded to the world.

The parent filter of a Model is MuJoCo's and exempts bodies welded to the world, so an arm's base would touch its first
link. Here every body counts with what is fixed to it; what is fixed to the world itself is no neighbour of the other
things fixed there.
"""

from warpsim.model.builder import ModelBuilder
from warpsim.model.model import ReportLine


def exclude_neighbours(b: ModelBuilder, touching=()) -> None:
    """Exclude contact across every joint of a builder whose parent is welded to the world, but those of the bodies in
    `touching`. Bodies whose parent is the world (-1) itself touch it."""
    jointed = {joint.body for joint in b.joints}
    group: list[int] = []  # of each body: the first body of those fixed to each other
    members: dict[int, list[int]] = {}
    for index, body in enumerate(b.bodies):  # parents come first
        group.append(index if index in jointed or body.parent < 0 else group[body.parent])
        members.setdefault(group[index], []).append(index)
    before = len(b.excluded)
    for body in sorted(jointed - set(touching)):
        parent = b.bodies[body].parent
        if parent < 0 or group[parent] in jointed:
            continue  # joined to the world, or left to the parent filter
        for first in members[group[parent]]:
            for second in members[body]:
                b.exclude(first, second)
    if len(b.excluded) > before:
        why = f"{len(b.excluded) - before} pairs of bodies across a joint to a base that is fixed to the world"
        b.report.append(ReportLine("contact of neighbouring links", "mapped", f"excluded: {why}"))
