# SPDX-License-Identifier: Apache-2.0
"""Rows on lines (`kernels/rows/line_rows.py`): the lines that each row measures, their table, and initial lengths."""

import numpy as np

from warpsim.forces.lines import Lines, Tables
from warpsim.kernels.rows import line_rows
from warpsim.tree.dynamics import DeviceModel


def line_support(tables: Tables | None, lines) -> list[int]:
    """The degrees of freedom that move any of the lines, ascending."""
    moved: set[int] = set()
    return sorted(moved.union(*(tables.supports[line] for line in lines if line >= 0)))


def add_initial_lengths(lines: Lines, rows: list) -> None:
    """Add the lengths of lines at q0 to the reference values x_0, y_0 of couplings."""
    coupled = [row for row in rows if row.on_line and row.kind == "coupling"]
    if not coupled:
        return
    length = lines.lengths_at(lines.device_model.model.q0)
    for row in coupled:
        row.reference = tuple(
            x + (length[line] if line >= 0 else 0.0) for x, line in zip(row.reference, row.lines, strict=True)
        )


class RowsOnLines:
    """The table of the rows on `lines`. `rows`: all rows; `width`: columns of their supports."""

    def __init__(self, device_model: DeviceModel, lines: Lines, rows: list, width: int):
        self.lines, tables = lines, lines.tables
        chosen = [k for k, row in enumerate(rows) if row.on_line]
        self.count = len(chosen)
        column = np.full((len(chosen), 2, width), -1)
        for i, k in enumerate(chosen):
            for end, line in enumerate(rows[k].lines):
                for c, d in enumerate(tables.supports[line] if line >= 0 else []):
                    column[i, end, rows[k].support.index(d)] = tables.line_begin[line] + c
        line, gear = [rows[k].lines for k in chosen], [rows[k].gear for k in chosen]
        self.table = device_model.struct(line_rows.LineRows, row=chosen, line=line, gear=gear, column=column)
