# SPDX-License-Identifier: Apache-2.0
"""Videos: in real time, the camera beside the robots, whole files or none."""

import dataclasses
import sys

import numpy as np
import pytest

import warpsim as ws
from warpsim.show import render, video
from warpsim.tools.cli import main

SMALL = {"width": 64, "height": 48}


@pytest.fixture(scope="module")
def recorded():
    """Two hoppers for half a second, which move 3 m/s along x."""
    model = ws.load(ws.robots.path("hopper"))
    frames = 51
    q = np.tile(model.q0, (frames, 2, 1))
    q[:, :, 0] += 0.03 * np.arange(frames)[:, None]
    time = np.tile(0.01 * np.arange(frames)[:, None], (1, 2))
    return ws.Trajectory(model, q, np.zeros((frames, 2, model.nv)), time)


def decoded(path) -> tuple[np.ndarray, float]:
    """The frames of a video and its duration [s]."""
    av = pytest.importorskip("av")
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(stream)]
        return np.array(frames), float(stream.duration * stream.time_base)


def test_a_video_plays_in_real_time(recorded, tmp_path):
    """Its duration is that of the motion at any rate, its size as asked for, something moves in it; progress is told."""
    pytest.importorskip("av")
    for fps, count in ((30.0, 16), (10.0, 6), (240.0, 51)):
        drawn = []
        recorded.to_video(
            tmp_path / "a.mp4", fps=fps, **SMALL, progress=lambda k, frames, to=drawn: to.append((k, frames))
        )
        assert drawn[0] == (0, count) and drawn[-1] == (count, count) and drawn == sorted(drawn)
        frames, duration = decoded(tmp_path / "a.mp4")
        assert frames.shape == (count, 48, 64, 3)
        assert duration == pytest.approx(0.5, abs=1.1 / min(fps, 100.0))
    assert np.abs(frames[0].astype(int) - frames[-1]).mean() > 1.0


def test_the_camera_goes_with_the_robots(recorded):
    """One that follows moves as far as they do, its own direction and distance kept; one that does not stays."""
    q, origins = recorded.q, np.zeros((2, 3))
    follows = video._cameras(recorded.model, q, None, origins, None, True, 1.5, 100.0)
    ways = [np.subtract(c.eye, c.target) for c in follows]
    np.testing.assert_allclose(ways, np.tile(ways[0], (len(ways), 1)), atol=1e-12)
    assert follows[-1].target[0] - follows[0].target[0] == pytest.approx(1.5, abs=1e-9)
    stays = video._cameras(recorded.model, q, None, origins, None, False, 1.5, 100.0)
    assert len({camera.eye for camera in stays}) == 1
    own = render.Camera((2.0, -2.0, 1.0), (0.0, 0.0, 1.0))
    first = video._cameras(recorded.model, q, None, origins, own, True, 1.5, 100.0)[0]
    assert (first.eye, first.target) == (own.eye, own.target)


def test_more_rays_at_edges_are_nearly_more_rays_everywhere(recorded):
    """A frame is nearer to a picture of 16 rays per pixel than one of a single ray is, by half."""
    model, camera = recorded.model, render.Camera((2.0, -2.0, 1.5), (0.0, 0.0, 0.6))
    solids = render.solids_of(model, recorded.q[0, :1], None, np.zeros((1, 3)))
    frame = render.quick_image(solids, 0.0, camera, 160, 120).astype(int)
    one, many = (
        render.render_image(model, recorded.q[0, :1], camera, 160, 120, samples=n, spacing=1.0).astype(int)
        for n in (1, 4)
    )
    assert np.abs(frame - many).mean() < 0.5 * np.abs(one - many).mean()


def test_a_world_that_is_not_finite_stays_where_it_was(recorded, tmp_path):
    """It is drawn where it was last, or began, and a warning counts it."""
    pytest.importorskip("av")
    q = recorded.q.copy()
    q[20:, 1] = np.nan
    with pytest.warns(UserWarning, match="1 worlds are not finite in some of the 16 frames"):
        dataclasses.replace(recorded, q=q).to_video(tmp_path / "a.mp4", **SMALL)
    assert len(decoded(tmp_path / "a.mp4")[0]) == 16
    q[:] = np.nan
    with pytest.warns(UserWarning, match="2 worlds"):
        filled = video._finite(q, recorded.model.q0)
    assert (filled == recorded.model.q0).all()


def test_bad_requests_are_named_and_nothing_is_left(recorded, tmp_path):
    """Another ending, odd sizes, rates, worlds, cameras."""
    pytest.importorskip("av")
    for words, path, options in (
        ("must end in one of .mp4", "a.avi", {}),
        ("does not exist", "none/a.mp4", {}),
        ("width is 63; H.264 needs an even number", "a.mp4", {"width": 63}),
        ("width is 9000; H.264 needs an even number, here of at most 8192", "a.mp4", {"width": 9000}),
        ("height is 8", "a.mp4", {"height": 8}),
        ("fps is 0", "a.mp4", {"fps": 0}),
        ("fps is nan", "a.mp4", {"fps": float("nan")}),
        ("worlds=3", "a.mp4", {"worlds": 3}),
        ("camera is 1", "a.mp4", {"camera": 1}),
        ("follow is 1", "a.mp4", {"follow": 1}),
        ("spacing is -1", "a.mp4", {"spacing": -1}),
    ):
        with pytest.raises(ValueError, match=words):
            recorded.to_video(tmp_path / path, **options)
    assert not list(tmp_path.iterdir())


def test_ctrl_c_leaves_what_was_there(recorded, tmp_path, monkeypatch):
    """An interrupted video leaves neither half a file nor a folder, and the file of before."""
    pytest.importorskip("av")
    (tmp_path / "a.mp4").write_text("keep")
    drawn = []

    def interrupted(*given):
        drawn.append(given)
        if len(drawn) > 3:
            raise KeyboardInterrupt
        return np.zeros((48, 64, 3), np.uint8)

    monkeypatch.setattr(video, "quick_image", interrupted)
    with pytest.raises(KeyboardInterrupt):
        recorded.to_video(tmp_path / "a.mp4", **SMALL)
    assert [p.name for p in tmp_path.iterdir()] == ["a.mp4"] and (tmp_path / "a.mp4").read_text() == "keep"


def test_a_missing_encoder_is_one_line(recorded, tmp_path, monkeypatch, capsys):
    """It names what to install, before anything is simulated."""
    monkeypatch.setitem(sys.modules, "av", None)
    path = str(tmp_path / "a.mp4")
    with pytest.raises(ImportError, match=r"av is not installed; run: pip install 'warpsim\[video\]'"):
        recorded.to_video(path)
    assert main(["run", str(ws.robots.path("hopper")), "--video", path, "--device", "cpu"]) == 2
    assert "pip install 'warpsim[video]'" in capsys.readouterr().err and not list(tmp_path.iterdir())


def test_a_run_writes_a_video(tmp_path, capsys):
    """`warpsim run --video`; two outputs of one name are refused."""
    pytest.importorskip("av")
    path = str(tmp_path / "a.mp4")
    command = ["run", str(ws.robots.path("hopper")), "--steps", "20", "--device", "cpu", "--video", path]
    assert main(command) == 0
    assert "wrote" in capsys.readouterr().out and len(decoded(path)[0]) > 0
    assert main([*command, "--html", path]) == 2
    assert "asked for twice" in capsys.readouterr().err
