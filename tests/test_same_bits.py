# SPDX-License-Identifier: Apache-2.0
"""The tools that watch over a rebuilding: stored rollouts are found again bit by bit, changed ones are named; lines are counted."""

import numpy as np
import pytest

from benchmarks import house, same_bits

CELL, REFUSED = "fourbar/SAP/symplectic/float64", "hertz/SAP/symplectic/float64"


@pytest.fixture(scope="module")
def small_grid():
    """SAP with symplectic Euler in float64 alone."""
    with pytest.MonkeyPatch.context() as patch:
        for name, key in (("SOLVERS", "SAP"), ("INTEGRATORS", "symplectic")):
            patch.setattr(same_bits, name, {key: getattr(same_bits, name)[key]})
        patch.setattr(same_bits, "DTYPES", ("float64",))
        patch.setattr(same_bits, "STEPS", 30)
        yield


@pytest.fixture(scope="module")
def stored(small_grid, tmp_path_factory):
    """What one version stores of two scenes, of which SAP refuses the second."""
    path = tmp_path_factory.mktemp("bits") / "stored.npz"
    assert same_bits.main(["--store", str(path), "--scenes", "fourbar", "hertz"]) == 0
    return path


def compare(stored, capsys, tmp_path, change=lambda found: None) -> tuple[int, str]:
    """Exit code and printed text of a comparison with the file after `change` of the four-bar's arrays."""
    results, quick = same_bits.read(stored)
    change(next(found for cell, found in results.items() if str(cell) == CELL))
    same_bits.write(tmp_path / "changed.npz", results, quick)
    capsys.readouterr()
    return same_bits.main(["--compare", str(tmp_path / "changed.npz")]), capsys.readouterr().out


def test_the_same_code_gives_the_same_bits(stored, capsys, tmp_path):
    """A second run in the same process finds every array bit by bit, and the refusal word by word."""
    code, text = compare(stored, capsys, tmp_path)
    assert code == 0
    assert f"{CELL}: same bits" in text and f"{REFUSED}: refused\n" in text


def test_another_trajectory_is_shown_and_passes_where_restarts_and_gradients_agree(stored, capsys, tmp_path):
    """Chaos makes trajectories part: their difference is printed, restarts from the stored states are judged."""

    def change(found):
        found["sha1"] = np.array("other")
        found["q"][-1] *= 1.0 + 1e-7  # the last state is no start of a restart

    code, text = compare(stored, capsys, tmp_path, change)
    assert code == 0
    line = next(line for line in text.splitlines() if line.startswith(CELL))
    assert "trajectory" in line and "restart 0.0e+00" in line and "gradient 0.0e+00" in line


@pytest.mark.parametrize("name", ["restart_v", "gradient_q", "gradient_J_A", "diagnostics_iterations"])
def test_a_changed_number_is_found(stored, capsys, tmp_path, name):
    """One entry that is off by 1e-9 of the largest, or by one iteration, fails the comparison and is named."""

    def change(found):
        found[name].flat[0] += 1 if found[name].dtype.kind == "i" else 1e-9 * np.abs(found[name]).max()

    code, text = compare(stored, capsys, tmp_path, change)
    assert code == 1 and name.replace("diagnostics_", "diagnostics ") in text


def test_what_comes_and_goes_is_named(stored, capsys, tmp_path):
    """A combination that ran and is refused now fails; one that was refused and runs now is new."""
    code, text = compare(stored, capsys, tmp_path, lambda found: found.update(refused=np.array("not yet")))
    assert code == 0 and f"{CELL}: NEW: was refused: not yet" in text
    results, quick = same_bits.read(stored)
    cells = {str(cell): cell for cell in results}
    results[cells[REFUSED]] = results.pop(cells[CELL])
    same_bits.write(tmp_path / "swapped.npz", results, quick)
    assert same_bits.main(["--compare", str(tmp_path / "swapped.npz"), "--scenes", "hertz"]) == 1
    assert f"{REFUSED}: REMOVED: refused now: geom" in capsys.readouterr().out


def test_code_lines_leave_out_blanks_comments_and_docstrings():
    """Lines of code are those with code, whatever stands beside or within them."""
    source = '"""Module,\ntwo lines."""\n\nx = """a\n\nb"""  # text\n\n\ndef f():\n    "Docstring."\n    # comment\n    return (\n        x\n    )\n'
    assert house.code_lines(source) == {4, 5, 6, 9, 12, 13, 14}
