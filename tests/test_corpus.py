# SPDX-License-Identifier: Apache-2.0
"""Robot files of other packages (docs/corpus.md): how many load, their accelerations beside MuJoCo's, and a cause for every exception.

The packages are unpacked by `make corpus`, whose findings are judged here; what it has not done yet is done now, minutes long.
"""

import os
import pathlib

import pytest

from benchmarks.corpus.judge import EXCEPTED, LOADS, inside, misses
from benchmarks.corpus.run import run

FOLDER = pathlib.Path(os.environ.get("WARPSIM_CORPUS", "none"))
pytestmark = [
    pytest.mark.assets,
    pytest.mark.slow,
    pytest.mark.skipif(not FOLDER.is_dir(), reason="needs make corpus, and its folder in WARPSIM_CORPUS"),
]


@pytest.fixture(scope="module")
def rows():
    """What `make corpus` found, by file, with loading and accelerations."""
    folders = sorted(path for path in FOLDER.iterdir() if path.is_dir() and path.name != "wheels")
    return run(folders, ("smooth", "sensors"), rows_file=FOLDER / "rows.jsonl")


def test_files_load(rows):
    """Of the files that MuJoCo compiles and that use no flex, plugin or SDF 97 %."""
    files = inside(rows)
    loaded = sum(row["status"] == "loaded" for row in files.values())
    assert len(files) > 300
    assert loaded >= LOADS * len(files), misses(rows, "load")


def test_accelerations_are_mujocos(rows):
    """To 1e-8, but for 2 % of the files."""
    missed = misses(rows, "smooth")
    assert len(missed) <= EXCEPTED * len(inside(rows)), missed


def test_sensors_are_mujocos(rows):
    """To 1e-8, those of the state and those of the step, but for 2 % of the files."""
    missed = misses(rows, "sensors")
    assert len(missed) <= EXCEPTED * len(inside(rows)), missed


@pytest.mark.parametrize("stage", ["load", "smooth", "sensors", "calm", "speed"])
def test_exceptions_have_causes(rows, stage):
    """`benchmarks/corpus/causes.py` says why."""
    unknown = {name: said for name, (said, why) in misses(rows, stage).items() if why is None}
    assert not unknown
