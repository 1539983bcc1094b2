"""Every way out writes whole files or nothing: bad paths are named, nothing of the user's is lost, nothing is left behind."""

import os
import pathlib
import subprocess
import sys

import pytest
from trajectory_helpers import rollout, small

from warpsim.io import output

ROOT = pathlib.Path(__file__).resolve().parents[2]
WAYS = (("to_usd", ".usda"), ("to_usd", ".usdz"), ("to_html", ".html"), ("plot", ".png"), ("render", ".png"))
WAYS += (("save", ".zarr"),)


@pytest.fixture(scope="module")
def recorded():
    return rollout(*small(), worlds=2, steps=2)


@pytest.mark.parametrize(("way", "suffix"), WAYS)
def test_bad_paths_are_named_and_nothing_is_left(recorded, tmp_path, way, suffix):
    """A missing folder, a folder or a file in the way, a folder that takes nothing, no name: one `ValueError` each."""
    write = getattr(recorded, way)
    (tmp_path / f"folder{suffix}").mkdir()
    (tmp_path / f"folder{suffix}" / "mine").write_text("keep")
    (tmp_path / "file").write_text("keep")
    bad = {
        tmp_path / "none" / f"a{suffix}": "does not exist",
        tmp_path / "file" / f"a{suffix}": "does not exist",
        tmp_path / f"folder{suffix}": "not a Zarr" if way == "save" else "is a folder",
        f"/proc/a{suffix}": "nothing can be written into /proc",
        tmp_path / f"{'x' * 300}{suffix}": "too long",
        f"a\0{suffix}": "not the name",
        "": "not the name|must end",
        3: "the path is 3",
    }
    if not pathlib.Path("/proc").is_dir():
        del bad[f"/proc/a{suffix}"]
    if way == "save":
        bad[tmp_path / "file"] = "is a file"
    for path, words in bad.items():
        with pytest.raises(ValueError, match=words):
            write(path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", f"folder{suffix}"]
    assert (tmp_path / f"folder{suffix}" / "mine").read_text() == "keep" and (tmp_path / "file").read_text() == "keep"


@pytest.mark.parametrize(("way", "suffix"), WAYS[:-1])
@pytest.mark.parametrize("worlds", [99, 0, -1, 1.5, "a", [[0]], True, [2], [], [-1]])
def test_worlds_that_are_not_there_are_named(recorded, tmp_path, way, suffix, worlds):
    """Bad indices of worlds are a `ValueError` that says so, before a file is touched."""
    with pytest.raises(ValueError, match="worlds="):
        getattr(recorded, way)(tmp_path / f"a{suffix}", worlds=worlds)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("option", ["fps", "spacing"])
@pytest.mark.parametrize("value", ["a", 0, -1, float("nan"), float("inf"), [1]])
def test_rates_and_distances_are_positive_numbers(recorded, tmp_path, option, value):
    """Anything else is a `ValueError` that names the option."""
    for way, suffix in (("to_usd", ".usda"), ("to_html", ".html")):
        with pytest.raises(ValueError, match=f"{option} is "):
            getattr(recorded, way)(tmp_path / f"a{suffix}", **{option: value})
    assert not list(tmp_path.iterdir())


FULL_DISK = """
import os, pathlib, resource, sys
sys.path.insert(0, "tests/io")
from trajectory_helpers import rollout, small
from warpsim.trajectory import Trajectory

folder = pathlib.Path(sys.argv[1])
recorded = rollout(*small(), worlds=30, steps=40)
rollout(*small(), worlds=1, steps=2).save(folder / "a.zarr")
for name in ("a.usda", "a.usdc", "a.usdz", "a.html", "a.png"):
    (folder / name).write_text("keep")
before = sorted(os.listdir(folder))
resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))
ways = (("to_usd", ".usda"), ("to_usd", ".usdc"), ("to_usd", ".usdz"), ("to_html", ".html"), ("plot", ".png"))
for way, suffix in (*ways, ("render", ".png"), ("save", ".zarr")):
    path = folder / f"a{suffix}"
    try:
        getattr(recorded, way)(path)
    except OSError as error:
        assert type(error) is OSError and str(error).startswith(f"{path} could not be written"), error
        assert "File too large" in str(error), error
    else:
        raise SystemExit(f"{way} {suffix} wrote the whole file")
assert sorted(os.listdir(folder)) == before, os.listdir(folder)
assert all((folder / name).read_text() == "keep" for name in before if name != "a.zarr")
assert Trajectory.load(folder / "a.zarr").frames == 3
print("kept")
"""


def test_a_full_disk_loses_nothing_and_leaves_nothing(tmp_path):
    """Files may not grow beyond 20 kB in a process of its own: each way out raises `OSError` naming its path, what was
    there before stays as it was, and no unfinished file remains."""
    pytest.importorskip("resource")
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", FULL_DISK, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip().endswith("kept")


def test_files_called_partial_are_somebody_elses(recorded, tmp_path):
    """No name of ours can be a file or folder that was there."""
    for name in ("a.html.partial", ".a.zarr.partial", "a.png.partial"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "mine").write_text("keep")
    recorded.to_html(tmp_path / "a.html")
    recorded.save(tmp_path / "a.zarr")
    assert all((p / "mine").read_text() == "keep" for p in tmp_path.glob("*.partial"))
    assert all((tmp_path / name / "mine").exists() for name in ("a.html.partial", ".a.zarr.partial"))


def test_an_interrupted_write_leaves_what_was_there(tmp_path):
    """Ctrl-C in the middle of a file or folder: the old one stays, nothing else does."""
    for name, folder in (("file", False), ("folder", True)):
        path = tmp_path / name
        with output.replacing(path) as new:
            if folder:
                new.mkdir()
            (new / "inside" if folder else new).write_text("old")
        with pytest.raises(KeyboardInterrupt), output.replacing(path) as new:
            new.write_text("new")
            raise KeyboardInterrupt
        assert (path / "inside" if folder else path).read_text() == "old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "folder"]


def test_a_new_file_has_the_usual_permissions(recorded, tmp_path):
    """As any file that this process makes, though it grew in a private folder."""
    (tmp_path / "plain").write_text("")
    for way, suffix in WAYS[:-1]:
        getattr(recorded, way)(tmp_path / f"a{suffix}")
        assert (tmp_path / f"a{suffix}").stat().st_mode == (tmp_path / "plain").stat().st_mode, suffix
