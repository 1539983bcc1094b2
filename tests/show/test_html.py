# SPDX-License-Identifier: Apache-2.0
"""The stand-alone page: it holds the whole recording and asks for nothing from outside."""

import base64
import re
import sys
import threading
import time

import numpy as np
import pytest

from scenes.trajectories import rollout, small
from warpsim.files.scene import default_spacing, grid_origins

pytest.importorskip("viser")


def recording(page):
    """The messages and buffers inside a page, as viser's client decodes them."""
    import msgspec
    import zstandard

    data = base64.b64decode(re.search(r'__VISER_EMBED_DATA__="([^"]*)"', page).group(1))
    raw = zstandard.ZstdDecompressor().decompress(data[8:], max_output_size=int.from_bytes(data[:8], "little"))
    length = int.from_bytes(raw[:8], "little")
    return msgspec.msgpack.decode(raw[8 : 8 + length], strict=False), raw


def test_page_is_whole_and_plays_the_recording(tmp_path, capfd):
    """Every frame of the chosen worlds is in the page; it plays for the time simulated; no address is outside."""
    t = rollout(*small(), worlds=3, steps=40, dt=1 / 50)
    path = tmp_path / "t.html"
    t.to_html(path, worlds=2, fps=25.0)
    page = path.read_text(encoding="utf-8")
    assert "<title>small - warpsim</title>" in page
    addresses = set(re.findall(r"https?://[\w./-]+", re.sub(r'__VISER_EMBED_DATA__="[^"]*"', "", page)))
    assert not {a for a in addresses if not a.startswith(("http://www.w3.org", "https://www.w3.org"))}, addresses
    messages, _ = recording(page)
    assert messages["durationSeconds"] == pytest.approx(21 / 25)
    kinds = {message["type"] for _, message in messages["messages"]}
    assert (
        "EnvironmentMapMessage" not in kinds
    )  # the client would load its own again at every loop, and look otherwise until then
    times = sorted({round(time * 25) for time, _ in messages["messages"]})
    assert times == list(range(21))
    updates = [m for _, m in messages["messages"] if m["type"] == "SceneNodeUpdateMessage"]
    assert any("batched_positions" in m["updates"] for m in updates)
    assert any("batched_wxyzs" in m["updates"] for m in updates)
    assert "viser" not in capfd.readouterr().out and not list(tmp_path.glob("*.partial"))


def test_worlds_stand_on_the_grid(tmp_path):
    """The first frame's instances are the geoms' positions plus the grid's origins."""
    from warpsim.model.host_kinematics import body_poses, geom_poses

    t = rollout(*small(), worlds=4, steps=1)
    t.to_html(tmp_path / "t.html", spacing=default_spacing(t.model))
    _, raw = recording((tmp_path / "t.html").read_text(encoding="utf-8"))
    poses = (
        geom_poses(t.model, body_poses(t.model, t.q[0]))[..., :3] + grid_origins(4, default_spacing(t.model))[:, None]
    )
    trunk = poses[:, t.model.geom("trunk")].astype(np.float32)
    trunk = np.round(trunk * 2.0**13) / 2.0**13
    assert trunk.astype(np.float32).tobytes() in raw


def test_bad_arguments(tmp_path):
    """A missing folder and wrong worlds are told."""
    t = rollout(*small(), worlds=2, steps=1)
    with pytest.raises(ValueError, match="does not exist"):
        t.to_html(tmp_path / "no" / "t.html")
    with pytest.raises(ValueError, match="has 2 worlds"):
        t.to_html(tmp_path / "t.html", worlds=3)
    with pytest.raises(ValueError, match="spacing"):
        t.to_html(tmp_path / "t.html", spacing=0)
    assert not list(tmp_path.iterdir())


def test_threads_that_write_pages_leave_the_output_of_the_process_alone(tmp_path, capsys):
    """While and after three threads write pages, `sys.stdout` is what it was: what others print meanwhile comes out."""
    t = rollout(*small(), worlds=1, steps=2)
    before, seen, errors = sys.stdout, set(), []

    def write(name):
        try:
            for _ in range(2):
                t.to_html(tmp_path / f"{name}.html")
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        seen.add(id(sys.stdout))
        print("tick")
        time.sleep(0.01)
    assert not errors and seen == {id(before)} and sys.stdout is before
    out = capsys.readouterr().out
    assert "tick" in out and "viser" not in out and len(list(tmp_path.iterdir())) == 3
