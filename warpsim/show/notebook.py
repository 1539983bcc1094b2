# SPDX-License-Identifier: Apache-2.0
"""A notebook's view of a `Trajectory`: a table and an image of its end, as static HTML without scripts or links."""

import base64
import html

import numpy as np

from warpsim.base.checks import short
from warpsim.model.looks import encode_png
from warpsim.state import FLAG_NAMES

PICTURED = 9  # worlds in the image
WIDTH, HEIGHT = 480, 270


def trajectory_html(trajectory) -> str:
    """HTML with sizes, times, the solver's report of the last step, and an image of the last row's first worlds.

    It reads only the ends of a stored trajectory.
    """
    rows = {
        "model": short(trajectory.model.name),
        "worlds": f"{trajectory.worlds:,}",
        "steps": f"{trajectory.steps:,}",
        "duration": f"{trajectory.duration:g} s",
    }
    if trajectory.steps:
        rows |= _last_step(trajectory)
    cells = "".join(
        f'<tr><th style="text-align:left">{html.escape(name)}</th><td '
        f'style="text-align:left">{html.escape(text)}</td></tr>'
        for name, text in rows.items()
    )
    table = f"<table><caption>Trajectory</caption>{cells}</table>"
    return (
        f'<div style="display:flex;gap:1em;align-items:flex-start;flex-wrap:wrap">{table}{_picture(trajectory)}</div>'
    )


def _last_step(trajectory) -> dict[str, str]:
    """The recorded diagnostics of the last step. Flags are sticky: they count every world that ever raised one."""
    last = {name: trajectory.rows(name, [trajectory.steps - 1])[0] for name in trajectory.diagnostics}
    found: dict[str, str] = {}
    if "contacts" in last:
        found["contacts at the end"] = f"{np.mean(last['contacts']):.3g} per world"
    if "momentum_error" in last:
        found["certificate at the end"] = f"{np.max(last['momentum_error']):.1e}, the worst world"
    if "flags" in last:
        counts = {name: np.count_nonzero(last["flags"] & bit) for bit, name in FLAG_NAMES.items()}
        found["flags"] = ", ".join(f"{name} in {n:,}" for name, n in counts.items() if n) or "none"
    return found


def _picture(trajectory) -> str:
    """The last row of the first worlds whose positions are finite, as an inline PNG."""
    from warpsim.show.render import render_image

    row = [trajectory.frames - 1]
    q = trajectory.rows("q", row)[0][:PICTURED]
    good = np.isfinite(q).all(axis=1)
    q, mocap = q[good], None if trajectory.mocap is None else trajectory.rows("mocap", row)[0][:PICTURED][good]
    if not len(q) or not trajectory.model.ngeom:
        return ""
    image = render_image(trajectory.model, q, width=WIDTH, height=HEIGHT, samples=1, mocap=mocap)
    text = base64.b64encode(encode_png(image)).decode()
    return f'<img alt="the last frame" width="{WIDTH}" height="{HEIGHT}" src="data:image/png;base64,{text}">'
