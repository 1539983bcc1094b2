# SPDX-License-Identifier: Apache-2.0
"""The live viewer: steps are the simulator's, the page pauses, resets and drags, and what cannot be shown is said."""

import shutil
import socket
import threading
import time

import numpy as np
import pytest
import warp as wp

import warpsim as ws
from warpsim.show.live.drag import Drag
from warpsim.show.live.layers import LAYERS
from warpsim.show.live.playback import Playback

pytest.importorskip("viser")


def swing() -> ws.Model:
    """A hinged rod over a ball on the ground."""
    b = ws.ModelBuilder("swing <&> / rod", timestep=0.005)
    b.add_geom("plane", name="floor")
    rod = b.add_body("rod/a", pose=[0, 0, 1])
    b.add_joint(rod, "hinge", axis=[0, 1, 0], name="pivot")
    b.add_geom("capsule", [0.03, 0.2], body=rod, pose=[0.2, 0, 0, np.sqrt(0.5), 0, np.sqrt(0.5), 0])
    ball = b.add_body("ball", pose=[0.5, 0.5, 0.1])
    b.add_joint(ball, "free")
    b.add_geom("sphere", [0.1], body=ball)
    b.add_actuator("pivot", "effort", control_range=(-2, 2), name="motor")
    return b.build()


@pytest.fixture(scope="module")
def sim():
    return ws.Simulator(swing(), worlds=3, device="cpu")


@pytest.fixture
def view(sim):
    with ws.Viewer(sim, port=0, fps=1000.0) as view:
        view._wishes.speed = 1e6  # no waiting
        yield view


def test_steps_are_the_simulators(sim, view):
    """`step` and `run` give the bits of `sim.step`; a control is passed on, the sliders act where there is none."""
    expected = sim.state()
    view.step(np.ones((3, 1)))
    expected = sim.step(expected, np.ones((3, 1)))
    view._wishes.control[0] = 0.5
    view.run(seconds=0.02)
    for _ in range(4):
        expected = sim.step(expected, np.full((3, 1), 0.5))
    for name, array in expected.numpy().items():
        np.testing.assert_array_equal(view.state.numpy()[name], array)
    view._wishes.take_over = True
    view.step(np.ones((3, 1)))
    np.testing.assert_array_equal(view.state.q.numpy(), sim.step(expected, np.full((3, 1), 0.5)).q.numpy())
    view.reset()
    np.testing.assert_array_equal(view.state.q.numpy(), sim.state().q.numpy())


def test_a_paused_page_steps_once(view):
    """While it is paused only single steps are made; `close` ends the wait."""
    view._wishes.playing, view._wishes.steps = False, 2
    thread = threading.Thread(target=view.run)
    thread.start()
    time.sleep(0.5)
    assert view.state.time.numpy()[0] == pytest.approx(2 * 0.005)
    view.close()
    thread.join(timeout=10)
    assert not thread.is_alive() and not view.running


def test_drag_pulls_the_point_to_the_pointer(sim):
    """A body that is held goes to the pointer and rests there, where the spring bears its weight: m g / (m ω²) below; other worlds go on alike."""
    state = sim.state()
    start = sim.kinematics(state.q).numpy()[1, 1].astype(float)
    drag = Drag(sim, state, 1, 1, start[:3], start)
    drag.target = start[:3] + [0.0, 0.0, 0.5]
    free = sim.state()
    for _ in range(600):
        poses = sim.kinematics(state.q).numpy()[1].astype(float)
        state = sim.step(state, wrench=drag.wrench(state, poses, sim.model.body_com))
        free = sim.step(free)
    end = sim.kinematics(state.q).numpy()[1, 1, :3]
    np.testing.assert_allclose(end, drag.target - [0, 0, 9.81 / drag.omega**2], atol=1e-3)
    np.testing.assert_array_equal(state.q.numpy()[[0, 2]], free.q.numpy()[[0, 2]])
    assert not state.memory["flags"].numpy().any()


def test_layers_and_plots_follow(view):
    """Everything that can be shown is shown and hidden again, also while there are no contacts."""
    view._wishes.layers |= set(LAYERS) - {"patches"}
    view._wishes.plots |= {"energy [J]", "certificate", "contacts", "joint pivot"}
    for _ in range(3):
        view.step()
        view.show()
    assert set(view._layers._handles) == set(LAYERS) - {"patches"} and len(view._curves._handles) == 4
    view._wishes.layers.clear()
    view._wishes.plots.clear()
    view.show()
    assert not view._layers._handles and not view._curves._handles


def test_parameters_are_set_between_steps(sim, view):
    """A value of one entry goes to one world or all; one that the simulator refuses changes nothing."""
    assert view._entries("gravity") == ["0", "1", "2"] and "rod/a" in view._entries("body_mass")[0]
    view._wishes.world = 1
    view._write("gravity", 2, -3.0, everywhere=False)
    assert sim.parameters["gravity"].numpy()[:, 2].tolist() == [pytest.approx(-9.81), -3.0, pytest.approx(-9.81)]
    view._write("body_mass", 0, -1.0, everywhere=True)
    assert (sim.parameters["body_mass"].numpy()[:, 0] > 0).all()
    assert view._read("gravity", 2) == -3.0
    view._write("gravity", 2, -9.81, everywhere=True)


def test_a_bad_world_stays_where_it_was(sim, view):
    """A pose that is not finite is not drawn; the others move."""
    before = [handle.batched_positions.copy() for handle in view._shown.handles]
    poses = sim.kinematics(view.state.q).numpy().copy()
    poses[0] = np.nan
    poses[1, :, 0] += 1.0
    view._shown.place(poses)
    for handle, old in zip(view._shown.handles, before, strict=True):
        moved = handle.batched_positions.reshape(3, -1, 3) - old.reshape(3, -1, 3)
        np.testing.assert_allclose(moved[:, 0, 0], [0, 1, 0], atol=1e-6)


def test_refused(sim):
    """What cannot be a live page says why."""
    with pytest.raises(ValueError, match=r"sim is .* give a Simulator"):
        ws.Viewer(sim.model)
    with pytest.raises(ValueError, match=r"listens at this machine alone"):
        ws.Viewer(sim, host="0.0.0.0", port=0)
    with pytest.raises(ValueError, match="port is 70000"):
        ws.Viewer(sim, port=70000)
    with pytest.raises(ValueError, match="fps"):
        ws.Viewer(sim, fps=0.0, port=0)
    other = ws.Simulator(swing(), worlds=2, device="cpu")
    with pytest.raises(ValueError, match=r"state.q has shape"):
        ws.Viewer(sim, other.state(), port=0)
    empty = ws.ModelBuilder("empty")
    empty.add_body("point", mass=1.0)
    with pytest.raises(ValueError, match=r"nothing to show"):
        ws.Viewer(ws.Simulator(empty.build(), device="cpu"), port=0)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(OSError, match=r"cannot listen at 127.0.0.1, port"):
            ws.Viewer(sim, port=taken.getsockname()[1])


def test_a_gradient_simulator_can_be_watched():
    """No tape is needed: the state that is stepped has no gradient."""
    sim = ws.Simulator(swing(), device="cpu", requires_grad=True)
    with ws.Viewer(sim, port=0) as view:
        view._wishes.speed = 1e6
        assert "iframe" in view._repr_html_() and view.url in repr(view)
        view.run(lambda state: np.zeros((1, 1)), seconds=0.02)
        assert isinstance(view.state.q, wp.array)


def test_a_mocap_body_follows_the_pointer():
    """No force moves it: its pose does, in the world where it was grabbed, by the point that was."""
    b = ws.ModelBuilder("hand", timestep=0.005)
    hand = b.add_body("hand", pose=[0, 0, 1], mocap=True)
    b.add_geom("box", [0.1, 0.1, 0.1], body=hand)
    sim = ws.Simulator(b.build(), worlds=2, device="cpu")
    with ws.Viewer(sim, port=0, fps=1000.0) as view:
        view._wishes.speed = 1e6
        view._grab(0, 1, 0, np.array([0.1, 0.0, 1.0]))
        view._drag.target = np.array([0.6, 0.2, 1.0])
        for _ in range(200):
            view.step()
        mocap = view.state.mocap.numpy()[:, 0]
        np.testing.assert_allclose(mocap, [[0, 0, 1, 1, 0, 0, 0], [0.5, 0.2, 1, 1, 0, 0, 0]], atol=1e-4)
        given = np.tile([1.0, 0, 0, 1, 0, 0, 0], (2, 1, 1))
        np.testing.assert_allclose(view.step(mocap=given).mocap.numpy(), given)


def test_a_store_that_grows_while_it_is_watched(sim, tmp_path):
    """Frames that are added are found; the newest is shown where that is asked for, and a store that goes away is said."""
    path = tmp_path / "run.zarr"
    whole = sim.rollout(sim.state(), None, 40)
    sim.rollout(sim.state(), None, 10, store=path)
    with Playback(path, port=0) as page:
        assert page.frames == 11
        page.newest = True
        page.run(seconds=0.1)
        assert page.frame == 10
        np.testing.assert_array_equal(page._poses(10), whole.poses()[10])
        shutil.rmtree(path)
        sim.rollout(sim.state(), None, 40, store=path)
        page._look()
        page.run(seconds=0.1)
        assert page.frame == 40 and "frame 40 of 41" in page._panel.status.content
        np.testing.assert_array_equal(page._poses(40), whole.poses()[40])
        page.newest, page._wishes.speed = False, 0.25
        page._wishes.ask(lambda: page.seek(3))
        page.run(seconds=0.05)
        assert 3 <= page.frame < 40
        page._wishes.playing, page._wishes.steps = False, 2  # Step, twice, of a page that is paused
        at = page.frame
        page.run(seconds=0.2)
        assert page.frame == at + 2
        shutil.rmtree(path)
        page._look()
        assert "cannot be read" in page._panel.status.content
        page.run(seconds=0.1)
