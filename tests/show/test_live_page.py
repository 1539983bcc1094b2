# SPDX-License-Identifier: Apache-2.0
"""The live pages under rough use: names that are one path, scenes of any size, drags of several visitors, stores that are replaced, busy machines."""

import html
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import warpsim as ws
from warpsim.files.scene import view_axes
from warpsim.show.live.panel import MARKUP, plain, slider_range
from warpsim.show.live.playback import Playback
from warpsim.show.page_scene import ASPECT, FIELD_OF_VIEW
from warpsim.show.strings import LiveStrings, pieces_of

pytest.importorskip("viser")


def balls(size: float = 0.1, count: int = 2, names=("a/b", "a_b"), name: str = "balls") -> ws.Model:
    """Free bodies side by side over a floor, a ball and boxes, and a hinge."""
    b = ws.ModelBuilder(name, timestep=0.005)
    b.add_geom("plane", name="floor")
    for k in range(count):
        body = b.add_body(f"body {k}", pose=[3 * k * size, 0, 2 * size])
        b.add_joint(body, "free", name=f"free {k}")
        label = names[k] if k < len(names) else f"geom {k}"
        b.add_geom("box" if k else "sphere", [size] * 3 if k else [size], body=body, name=label)
    arm = b.add_body("arm", pose=[0, 5 * size, 5 * size])
    b.add_joint(arm, "hinge", axis=[0, 1, 0], name="pivot")
    b.add_geom("box", [2 * size, 0.2 * size, 0.2 * size], body=arm)
    b.add_actuator("pivot", "effort", control_range=(2, np.inf), name="one-sided")
    return b.build()


@pytest.fixture(scope="module")
def sim():
    return ws.Simulator(balls(), worlds=3, device="cpu")


@pytest.fixture
def view(sim):
    with ws.Viewer(sim, port=0, fps=1000.0) as view:
        view._wishes.speed = 1e6  # no waiting
        yield view


def test_names_that_are_one_path(sim, tmp_path):
    """Geoms "a/b" and "a_b" of two shapes are two things on the page, and a recording has both."""
    with ws.Viewer(sim, port=0) as view:
        assert len({handle.name for handle in view._shown.handles}) == len(view._shown.handles) == 3
    sim.rollout(sim.state(), None, 2).to_html(tmp_path / "page.html")
    assert (tmp_path / "page.html").stat().st_size > 1e5


def test_markup_is_shown_as_it_is():
    """No character of a name or a path is markup or a tag; the text is the same to a reader."""
    text = "<script>{z}_x_ `q` *b* https://a.b/c [l](m) #1 & $a$ 機器人"
    shown = plain(text)
    assert html.unescape(shown) == text
    assert not set(MARKUP) - set("&#") & set(shown)


@pytest.mark.parametrize("size", [1e-3, 0.1, 1.0, 300.0])
def test_the_first_view_holds_everything(size):
    """Every ball and box lies within the picture, and fills a fair part of it, from millimetres to a kilometre; nothing is cut off near or far."""
    with ws.Viewer(ws.Simulator(balls(size), worlds=4, device="cpu"), port=0) as view:
        camera, shown = view._shown.server.initial_camera, view._shown
        frame = shown._frame(view._poses())
        drawn = np.flatnonzero(view.sim.model.geom_body >= 0)
        right, up, back = view_axes(np.subtract(camera.position, camera.look_at))
        offset = frame[:, drawn, :3].reshape(-1, 3) - camera.position
        half = np.tan(FIELD_OF_VIEW / 2)
        ahead = -(offset @ back)
        x, y = np.abs(offset @ right) / (half * ASPECT * ahead), np.abs(offset @ up) / (half * ahead)
        assert x.max() + size / (half * ASPECT * ahead).min() < 1.05 and y.max() < 1 and max(x.max(), y.max()) > 0.4
        assert camera.near < ahead.min() - 3 * size and camera.far > ahead.max() + 3 * size


def test_a_start_that_is_not_finite_is_framed(sim):
    """The first view is of the worlds that are finite; the one that is not does not take the scene away."""
    q = sim.state().q.numpy().copy()
    q[0] = np.nan
    state = sim.state()
    state.q.assign(q)
    with ws.Viewer(sim, state, port=0, fps=1000.0) as view:
        view._wishes.speed = 1e6
        assert np.isfinite(view._shown.server.initial_camera.position).all()
        view.step()
        view.show()
        assert np.isfinite(view._shown._offset).all()


def test_drags_where_the_scene_has_moved(view):
    """The page's places are those of the scene that a followed world has moved; what is grabbed is where it was grabbed."""
    view._shown.follow(None)
    view._shown.follow(1)
    poses = view._poses().copy()
    poses[1, :, :3] += [7.0, -2.0, 0.0]
    view._shown.place(poses)
    view._shown.follow(1)
    shown = view._shown._scene.position + view._shown.origins[1] + poses[1, 0, :3]
    np.testing.assert_allclose(shown, view._shown.origins[1] + view._poses()[1, 0, :3], atol=1e-6)
    np.testing.assert_allclose(view._shown.in_world(1, shown), poses[1, 0, :3], atol=1e-6)


def test_one_visitor_drags_at_a_time(view):
    """A second visitor neither moves nor ends the first one's drag; a reset ends it."""
    view._on_drag("start", 1, 0, 1, np.array([0.0, 0, 0.2]), np.zeros(3))
    view.step()
    view._on_drag("start", 2, 1, 2, np.array([0.3, 0, 0.2]), np.zeros(3))
    view._on_drag("update", 2, 1, 2, np.zeros(3), np.array([9.0, 9.0, 9.0]))
    view._on_drag("end", 2, 1, 2, np.zeros(3), np.zeros(3))
    view.step()
    assert (view._drag.world, view._drag.body) == (0, 0)
    np.testing.assert_allclose(view._drag.target, [0, 0, 0.2])
    view.show()
    before = view._shown._offset.copy()
    view._on_drag("update", 1, 0, 1, np.zeros(3), np.array([0.0, 0, 3.0]))
    view.run(seconds=0.2)
    np.testing.assert_array_equal(view._shown._offset, before)  # the scene rests while something is dragged
    view.reset()
    assert view._drag is None and not view._shown._pull.visible


def test_a_world_that_is_not_finite_is_not_dragged(sim, view):
    """The others go on with the same bits, its layers are gone, and the page says it."""
    state = sim.state()
    q = state.q.numpy().copy()
    q[1] = np.nan
    state.q.assign(q)
    view.state, view._wishes.world = state, 1
    view._wishes.layers |= set(view._layers.names)
    view._on_drag("start", 1, 1, 1, np.zeros(3), np.zeros(3))
    expected = sim.step(state)
    view.step()
    view._told = 0.0
    view.show()
    assert view._drag is None and not view._layers._handles
    np.testing.assert_array_equal(view.state.q.numpy(), expected.q.numpy())
    assert "not finite" in view._panel.status.content


def test_nothing_is_drawn_where_there_is_no_contact(view):
    """No point and no arrow without contacts, and none of the step before a reset."""
    view._wishes.layers |= {"contact points", "contact forces"}
    view.show()
    assert not any(handle.visible for handle in view._layers._handles.values())
    view.run(seconds=1.0)
    view.show()
    assert len(view._layers._handles["contact points"].points) >= 4
    view._wishes.plots |= {"contacts", "joint pivot"}
    view.reset()
    view.show()
    assert not view._layers._handles and "contacts" not in view._curves._handles


def test_a_curve_is_of_one_world(view):
    """Another world begins anew."""
    view._wishes.plots |= {"joint pivot"}
    for world in (0, 2):
        view._wishes.world = world
        for _ in range(3):
            view.step()
            view.show()
    assert len(view._curves._kept["joint pivot"]) == 3


def test_a_closed_viewer_is_quiet(sim, recwarn):
    """Showing, stepping and resetting after the end do nothing to the page that is gone."""
    view = ws.Viewer(sim, port=0)
    view.step()
    view.close()
    view.close()
    view.step()
    view.show()
    view.sync(sim.state())
    view.reset()
    assert not [w for w in recwarn if "closed connection" in str(w.message)]


def test_a_program_that_steps_itself_is_reset(sim, view):
    """`sync` returns the state to go on with: after a Reset the start."""
    state = sim.state()
    for _ in range(3):
        state = view.sync(sim.step(state))
    assert state.time.numpy()[0] == pytest.approx(0.015)
    view._wishes.ask(view.reset)
    state = view.sync(sim.step(state))
    assert state.time.numpy()[0] == 0 and view.state is state
    view._on_drag("start", 1, 0, 1, np.zeros(3), np.zeros(3))
    view.sync(sim.step(state))
    assert view._drag is None


def test_a_pause_ends_a_long_wait(sim):
    """At a twentieth of real time a step of 0.5 s is 10 s away; pausing and resetting do not wait for it."""
    slow = ws.Simulator(balls(), dt=0.5, device="cpu")
    with ws.Viewer(slow, port=0) as view:
        view._wishes.speed = 0.05
        thread = threading.Thread(target=view.run)
        thread.start()
        time.sleep(0.5)
        made = view.state.time.numpy()[0]
        view._wishes.playing = False
        asked = time.perf_counter()
        view._wishes.ask(lambda: view._wishes.plots.add("energy [J]"))
        while not view._wishes.plots and time.perf_counter() - asked < 5:
            time.sleep(0.01)
        assert time.perf_counter() - asked < 2 and view.state.time.numpy()[0] == made
        view.close()
        thread.join(10)


def test_a_slow_picture_does_not_slow_the_steps(sim):
    """Where a picture takes longer than there is between two, half of the time is left to the steps, many of them to a picture."""
    with ws.Viewer(sim, port=0, fps=40.0) as view:
        view._wishes.speed = 1e6
        drawn = []

        def slow():
            drawn.append(1)
            time.sleep(0.1)

        view.run(seconds=0.05)
        view._draw = slow
        view.run(seconds=0.5)
        assert len(drawn) < 50


def test_sliders_of_open_ranges():
    """An open end is a unit beyond 0 or the other end, so that no actuator is without a slider."""
    inf = np.inf
    expected = {(-inf, inf): (-1, 1), (2, inf): (2, 3), (-inf, -5): (-6, -5), (-3, inf): (-3, 1), (-2, 2): (-2, 2)}
    for limits, found in expected.items():
        assert slider_range(np.array(limits)) == found


def test_entries_have_the_names_of_their_elements(view):
    """Rows of velocities are named by joint, ranges by actuator; they are all listed once."""
    assert view._entries("joint_damping")[-1] == "pivot" and view._entries("joint_damping")[0] == "free 0 0"
    assert view._entries("control_range") == ["one-sided 0", "one-sided 1"]
    for name in view.sim.parameters.keys():
        entries = view._entries(name)
        assert len(set(entries)) == len(entries) == view.sim.parameters.stored(name).numpy()[0].size


def test_a_store_that_is_replaced(sim, tmp_path):
    """By a shorter run: it goes on within it. By one of other worlds or geoms: that is said, and what is shown stays."""
    path = tmp_path / "run <b>.zarr"

    def record(sim, steps):
        shutil.rmtree(path, ignore_errors=True)
        sim.rollout(sim.state(), None, steps, store=path)

    record(sim, 40)
    with Playback(path, port=0) as page:
        page._wishes.playing = False
        page.seek(38)
        page.run(seconds=0.1)
        record(sim, 5)
        page._look()
        page.run(seconds=0.1)
        assert page.frame == 5 and "frame 5 of 6" in page._panel.status.content
        for other in (ws.Simulator(balls(), device="cpu"), ws.Simulator(balls(0.2), worlds=3, device="cpu")):
            record(other, 50)
            page._look()
            page._wishes.playing = True
            page.run(seconds=0.1)
            assert "view it anew" in page._panel.status.content and "<b>" not in page._panel.status.content
        record(sim, 5)
        page._look()
        page.run(seconds=0.1)
        assert "of 6" in page._panel.status.content


def test_a_stored_world_that_is_not_finite_is_said(sim, tmp_path):
    """It stays where it was, and the page counts it."""
    import zarr

    sim.rollout(sim.state(), None, 10, store=tmp_path / "run.zarr")
    q = zarr.open_group(str(tmp_path / "run.zarr"))["q"]
    rows = q[...]
    rows[5:, 1] = np.nan
    q[...] = rows
    with Playback(tmp_path / "run.zarr", port=0) as page:
        page._wishes.playing = False
        page.seek(7)
        page.run(seconds=0.1)
        assert "1 of 3 worlds are not finite" in page._panel.status.content


def test_tendons_are_drawn_live():
    """Spatial tendons run from site to site where the state has them; a world that is not finite has none."""
    b = ws.ModelBuilder("string", timestep=0.005)
    arm = b.add_body("arm", pose=[0, 0, 1])
    b.add_joint(arm, "hinge", axis=[0, 1, 0])
    b.add_geom("capsule", [0.03, 0.2], body=arm)
    b.add_site("here", pose=[0, 0, 2])
    b.add_site("there", body=arm, pose=[0.3, 0, 0])
    b.add_tendon(path=["here", "there"], name="string")
    sim = ws.Simulator(b.build(), worlds=2, device="cpu")
    with ws.Viewer(sim, port=0) as view:
        view.show()
        strings = view._shown._strings
        assert isinstance(strings, LiveStrings) and len(pieces_of(sim.model)) == 1
        expected = np.array([[0, 0, 2], [0.3, 0, 1]]) + view._shown.origins[:, None]
        np.testing.assert_allclose(strings._handle.points, expected, atol=1e-6)
        q = view.state.q.numpy().copy()
        q[0] = np.nan
        view.state.q.assign(q)
        view.show()
        np.testing.assert_allclose(strings._handle.points, expected[1:], atol=1e-6)


def test_a_picture_has_its_mocap_bodies(tmp_path):
    """The notebook's picture of a trajectory is of its last row, where the hand had gone."""
    b = ws.ModelBuilder("hand", timestep=0.005)
    hand = b.add_body("hand", pose=[0, 0, 1], mocap=True)
    b.add_geom("box", [0.1, 0.1, 0.1], body=hand)
    b.add_geom("sphere", [0.1], pose=[0, 0, 0.1])
    sim = ws.Simulator(b.build(), device="cpu")
    state = sim.state()
    moved = sim.state()
    moved.mocap.assign(np.array([[[0.5, 0, 0.3, 1, 0, 0, 0]]]))
    pictures = [sim.rollout(s, None, 2)._repr_html_().partition("<img")[2] for s in (state, moved)]
    assert pictures[0] != pictures[1]


@pytest.mark.usefixtures("from_terminal")
@pytest.mark.parametrize(("number", "ignored"), [("SIGINT", ()), ("SIGTERM", ()), ("SIGTERM", ("SIGINT", "SIGHUP"))])
def test_a_signal_leaves_no_page_behind(sim, tmp_path, number, ignored):
    """`warpsim view` of a store removes its page when it is told to end; what its starter ignores (`nohup … &`) does not end it."""
    sim.rollout(sim.state(), None, 2, store=tmp_path / "run.zarr")
    command = [sys.executable, "-m", "warpsim", "view", str(tmp_path / "run.zarr"), "--port", "0"]
    folder = tmp_path / "temporary"
    folder.mkdir()
    for name in ignored:
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"TMPDIR": str(folder)})
    while "Ctrl-C" not in process.stdout.readline():
        assert process.poll() is None
    assert list(folder.glob("*/index.html"))
    for name in ignored:
        process.send_signal(getattr(signal, name))
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.2)
    process.send_signal(getattr(signal, number))
    assert process.wait(30) == (0 if number == "SIGINT" else 128 + signal.SIGTERM)
    assert not list(folder.glob("*/index.html"))


def test_view_says_what_it_does_not_do(sim, tmp_path, capsys):
    """A robot file that is not there is no store; steps and devices are of robot files."""
    from warpsim.tools.cli import main

    sim.rollout(sim.state(), None, 2, store=tmp_path / "run.zarr")
    assert main(["view", str(tmp_path / "nothing.xml"), "--port", "0"]) == 2
    assert "no such store" not in capsys.readouterr().err
    for option in (["--dt", "0.1"], ["--device", "cpu"]):
        assert main(["view", str(tmp_path / "run.zarr"), "--port", "0", *option]) == 2
        assert "not stepped" in capsys.readouterr().err
