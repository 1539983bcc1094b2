# SPDX-License-Identifier: Apache-2.0
"""Every way out writes whole files or nothing: bad paths are named, nothing of the user's is lost, nothing is left behind."""

import os
import pathlib
import socket
import subprocess
import sys

import pytest

from scenes.trajectories import rollout, small
from warpsim.files import output

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
from scenes.trajectories import rollout, small
from warpsim.state.trajectory import Trajectory

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


@pytest.mark.parametrize(("way", "suffix"), WAYS[:-1])
@pytest.mark.parametrize("kind", ["pipe", "socket", "link to a pipe"])
def test_what_is_no_file_is_not_replaced(recorded, tmp_path, way, suffix, kind):
    """A pipe or a socket at the path, as a device would be, is a `ValueError` that names it, and stays what it is."""
    path = tmp_path / f"a{suffix}"
    if kind == "socket":
        server = socket.socket(socket.AF_UNIX)
        server.bind(str(path))
        server.close()
    else:
        os.mkfifo(path if kind == "pipe" else tmp_path / "pipe")
    if kind == "link to a pipe":
        path.symlink_to("pipe")
    mode, before = path.lstat().st_mode, sorted(os.listdir(tmp_path))
    with pytest.raises(ValueError, match=rf"a\{suffix} is a {kind.split()[-1]}.*give the name of a file"):
        getattr(recorded, way)(path)
    assert path.lstat().st_mode == mode and sorted(os.listdir(tmp_path)) == before


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize(("way", "suffix"), WAYS)
def test_links_are_written_through(recorded, tmp_path, way, suffix, there):
    """A symbolic link as the path, dangling or not: what it leads to is written, in its own folder, and the link stays."""
    (tmp_path / "far").mkdir()
    made, path = tmp_path / "far" / "made", tmp_path / f"a{suffix}"
    path.symlink_to("far/made")
    if there and way == "save":
        made.mkdir()
    elif there:
        made.write_text("old")
    getattr(recorded, way)(path)
    assert path.is_symlink() and os.readlink(path) == "far/made"
    assert not made.is_symlink() and (made.is_dir() if way == "save" else made.read_bytes() not in (b"", b"old"))
    assert sorted(os.listdir(tmp_path)) == [f"a{suffix}", "far"] and os.listdir(tmp_path / "far") == ["made"]
    getattr(recorded, way)(path)  # and again, over itself
    assert path.is_symlink() and os.listdir(tmp_path / "far") == ["made"]


@pytest.mark.parametrize(("way", "suffix"), WAYS)
def test_links_that_lead_nowhere_are_named(recorded, tmp_path, way, suffix):
    """Into a folder that is missing, or in a circle: one `ValueError`."""
    path = tmp_path / f"a{suffix}"
    for leads, words in (("none/made", "does not exist"), (f"a{suffix}", "symbolic links")):
        path.symlink_to(leads)
        with pytest.raises(ValueError, match=words):
            getattr(recorded, way)(path)
        assert os.listdir(tmp_path) == [path.name] and os.readlink(path) == leads
        path.unlink()


@pytest.mark.parametrize(("way", "suffix"), WAYS)
def test_names_that_no_file_can_have_are_named(recorded, tmp_path, way, suffix):
    """A lone surrogate, in the name or in a folder's, is a `ValueError` with the path in it, not an error of codecs."""
    for name in (f"\ud800{suffix}", f"\ud800/a{suffix}"):
        with pytest.raises(ValueError, match=r"ud800.*no name of a file") as caught:
            getattr(recorded, way)(tmp_path / name)
        assert not isinstance(caught.value, UnicodeError)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("step", ["away", "there"])
def test_an_interrupt_between_two_moves_loses_no_store(recorded, tmp_path, monkeypatch, step):
    """Ctrl-C when the old store is moved away, or before the new one is moved there: the old one is back."""
    recorded.save(tmp_path / "a.zarr")
    mark = (tmp_path / "a.zarr").stat().st_ino
    rename = os.rename

    def interrupted(source, goal):
        if step == "there" and goal == tmp_path / "a.zarr" and source.parent.name != "replaced":
            raise KeyboardInterrupt
        rename(source, goal)
        if step == "away" and goal.parent.name == "replaced":
            raise KeyboardInterrupt

    monkeypatch.setattr(output.os, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        recorded.save(tmp_path / "a.zarr")
        assert (tmp_path / "a.zarr").stat().st_ino == mark and os.listdir(tmp_path) == ["a.zarr"]
