# SPDX-License-Identifier: Apache-2.0
"""No contact between links that a joint connects, as URDF and USD mean it, also if the parent is welded to the world.

The parent filter of a `Model` is MuJoCo's: it exempts bodies welded to the world, so an arm's base would touch its
first link. Here a body counts together with all bodies fixed to it. Bodies that are fixed to the world itself are no
neighbours of each other.
"""

from warpsim.model.builder import ModelBuilder
from warpsim.model.model import ReportLine


def exclude_neighbours(b: ModelBuilder, touching=()) -> None:
    """Exclude contact across each joint of a builder whose parent is welded to the world.

    Joints of the bodies in `touching` are left out. A body whose parent is the world (-1) itself touches the world.
    """
    jointed = {joint.body for joint in b.joints}
    group: list[int] = []  # per body: the first body of its group, the bodies fixed to each other
    members: dict[int, list[int]] = {}
    for index, body in enumerate(b.bodies):  # parents come first
        group.append(index if index in jointed or body.parent < 0 else group[body.parent])
        members.setdefault(group[index], []).append(index)
    before = len(b.excluded)
    for body in sorted(jointed - set(touching)):
        parent = b.bodies[body].parent
        if parent < 0 or group[parent] in jointed:
            continue  # joined to the world, or excluded by the parent filter
        for first in members[group[parent]]:
            for second in members[body]:
                b.exclude(first, second)
    if len(b.excluded) > before:
        count = len(b.excluded) - before
        why = f"{count} pair{'s' if count > 1 else ''} of bodies across a joint to a base that is fixed to the world"
        b.report.append(ReportLine("contact of neighbouring links", "mapped", f"excluded: {why}"))
