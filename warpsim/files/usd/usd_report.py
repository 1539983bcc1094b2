# SPDX-License-Identifier: Apache-2.0
"""Report lines for what was counted in a stage, and the text of its one warning."""

from warpsim.base.checks import listed
from warpsim.model.model import ReportLine

MOST = 40  # sentences in the warning; the report has all
WORDS = {
    "Scene": ("physics scenes", "used", ": gravity; the first counts"),
    "drawn": ("meshes and curves that draw", "ignored", ": the shapes and tendons that they draw count"),
    "drives": ("drives", "mapped", ": actuators; stiffness and damping are kp and kv"),
    "static friction": ("static friction", "ignored", " geoms: dynamic friction is used for both"),
    "pressure fields": ("warpsim:hydroelastic attributes", "used", " geoms: contact by pressure fields"),
    "mesh approximations": ("mesh approximations", "mapped", " meshes touch as their convex hulls; see decompose"),
}


def counted(counts, units, bodies: int) -> list[ReportLine]:
    """Lines for bodies, units, and everything that was counted."""
    scales = f"metersPerUnit {units.length:g}, kilogramsPerUnit {units.mass:g}, up axis {units.up_axis}"
    lines = [ReportLine("bodies", "used", str(bodies)), ReportLine("units", "mapped", f"{scales}: SI, z up")]
    for what, count in sorted((what, count) for what, count in counts.items() if count):
        feature, status, why = WORDS.get(what, (what, "used", ""))
        lines.append(ReportLine(feature, status, f"{count}{why}"))
    return lines


def told(warned: dict[str, list[str]]) -> str:
    """One text from the sentences and the elements that each is about."""
    said = [f"{listed(elements)}: {what}" for what, elements in warned.items()]
    rest = len(said) - MOST
    return "; ".join(said[:MOST]) + (f"; and {rest} more" if rest > 0 else "")
