# SPDX-License-Identifier: Apache-2.0
"""The curve in the terminal: as wide and high as asked for, rising where the numbers rise."""

import io

import numpy as np
from rich.console import Console

from warpsim.show.live_curve import HEIGHT, WIDTH, LiveCurve, text_curve


def test_a_curve_in_blocks():
    """Columns rise with the numbers; the scale names the least and the greatest mean; nothing for no numbers."""
    rows = text_curve(np.arange(1000.0)).split("\n")
    assert len(rows) == HEIGHT and {len(row) for row in rows} == {WIDTH + 11}
    heights = [sum(row[11 + k] != " " for row in rows) for k in range(WIDTH)]
    assert heights == sorted(heights) and heights[0] == 1 and heights[-1] == HEIGHT
    assert float(rows[0][:10]) > 990 and float(rows[-1][:10]) < 10
    assert text_curve([None, np.nan]) == "" and len(text_curve([3.0]).split("\n")) == HEIGHT


def test_lines_where_there_is_no_terminal():
    """Every tenth round in a line; in a terminal the curve."""
    row = {"iteration": 10, "env_steps": 1000, "return": 5.0, "episodes": 3}
    for terminal in (False, True):
        out = io.StringIO()
        with LiveCurve(Console(file=out, force_terminal=terminal, width=120)) as live:
            live.add(row | {"iteration": 1, "return": None})
            live.add(row | {"iteration": 9})
            live.add(row)
        assert out.getvalue().count("1,000 env-steps") >= 1 and ("█" in out.getvalue()) == terminal


def test_frames_of_a_video():
    """Where there is no terminal the first frame, each tenth of all frames and the last have a line; else each a look."""
    out = io.StringIO()
    with LiveCurve(Console(file=out, width=120)) as live:
        for k in range(0, 1001, 2):
            live.drawing(min(k, 999), 999)
    lines = out.getvalue().splitlines()
    assert len(lines) == 11 and lines[0].endswith("0 of 999 frames") and lines[-1].endswith("999 of 999 frames")
    out = io.StringIO()
    with LiveCurve(Console(file=out, force_terminal=True, width=120)) as live:
        live.drawing(1, 999)
    assert "1 of 999 frames" in out.getvalue()
