# SPDX-License-Identifier: Apache-2.0
"""The grid of gradients (`benchmarks/gradient_grid.py`): its rows can be written, and the results in the repository are rows of it."""

import json
import pathlib

from benchmarks.gradient_grid import grid_labels, write

RESULTS = pathlib.Path(__file__).parent.parent / "benchmarks" / "results" / "gradient_grid.json"


def test_every_row_has_its_place():
    """Labels are four words each, all different; what is kept is among them."""
    labels = grid_labels()
    assert len(set(labels)) == len(labels) and {len(label) for label in labels} == {4}
    assert {"roped arm", "mocap", "fluid", "torsion", "sensors"} <= {label[0] for label in labels}
    assert {tuple(row["label"]) for row in json.loads(RESULTS.read_text())["rows"]} <= set(labels)


def test_rows_of_every_part_are_written(tmp_path):
    """Rows given backwards come out in the order of the grid."""
    labels = grid_labels()
    chosen = [next(label for label in labels if label[0] == part) for part in ("hinge", "mocap", "arm", "roped arm")]
    row = json.loads(RESULTS.read_text())["rows"][0]
    results = {label: {key: value for key, value in row.items() if key != "label"} for label in reversed(chosen)}
    write(tmp_path, results, ["x"] * 10, [1, 10, 40, 100])
    found = json.loads((tmp_path / "gradient_grid.json").read_text())["rows"]
    assert [tuple(row["label"]) for row in found] == sorted(chosen, key=labels.index)
