# SPDX-License-Identifier: Apache-2.0
"""Bodies and grasps that touch by pressure fields, beside Drake's recorded motion over 1 s (SAP, hydroelastic, one point per polygon)."""

import json
import pathlib
import types

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import warpsim as ws
from scenes import pressure as scenes

DATA = np.load(pathlib.Path(__file__).parents[1] / "reference/data/hydro_open.npz")
CASES = json.loads(str(DATA["meta"]))["dyn"]
LEVELS = ["polygons", "patch16", "patch5", "patch4"]


def simulator(model, h, level):
    solver = ws.SAP(approximation="convex", tolerance=1e-8)  # Drake's approximation
    return ws.Simulator(model, dt=h, dtype="float64", solver=solver, hydroelastic=level)


def dropped(name, level, ms):
    """Position and speed after 1 s, the flags, and the recorded position."""
    case = CASES[f"{name}_h{ms}"]
    model = scenes.drop(*(case[k] for k in ("body_shape", "E", "hint", "m", "ground", "mu", "tau")))
    q, v, want = np.array(case["pose"]), np.array(case["vel"]), DATA[f"dyn/{name}_h{ms}/q"][-1]
    sim = simulator(model, case["h"], level)
    turn = Rotation.from_quat(q[[4, 5, 6, 3]])
    state = sim.state(q, np.concatenate([v[:3], turn.apply(v[3:], inverse=True)]))
    for _ in range(round(1.0 / case["h"])):
        sim.step(state, out=state)
    return state.q.numpy()[0], np.abs(state.v.numpy()).max(), sim.diagnostics.flags.numpy().any(), want


# How far [m] from Drake's place a box may come to rest where 1 cm is not met: it tumbles, and the moment of Drake's points is another (next test).
FARTHER = {("box_rigid", 10): 0.013, ("rigid_box_soft_halfspace", 1): 0.036, ("rigid_box_soft_halfspace", 10): 0.02}
POINT_BY_POINT = {("rigid_box_soft_halfspace", 5): 0.0105}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("ms", [1, 5, 10])
@pytest.mark.parametrize("name", ["box_rigid", "box_soft_box", "rigid_box_soft_halfspace"])
def test_boxes_fall_slide_and_rest(name, ms, level):
    """A thrown box: rest height to 1e-4 m, where it comes to rest to 1 cm (Drake's faces are cut otherwise; it slides 4 to 16 cm)."""
    if (name, ms) == ("box_rigid", 1):
        pytest.skip("still tips over after 1 s; 0.5 % of its spin more or less moves Drake's own place by 1 to 5 cm")
    found, speed, flags, want = dropped(name, level, ms)
    bar = FARTHER.get((name, ms), 0.01)
    if level == "polygons":
        bar = POINT_BY_POINT.get((name, ms), bar)
    assert abs(found[2] - want[2]) < 1e-4
    assert np.linalg.norm(found[:2] - want[:2]) < bar
    assert speed < 1e-5
    assert not flags


# Drake's mesh of a box: its corners and the middles of its faces, four triangles a face.
CORNERS = np.array([[x, y, z] for z in (-1, 1) for y in (-1, 1) for x in (1, -1)], float)
MIDDLES = np.array([[0, 0, -1], [0, 0, 1], [0, -1, 0], [0, 1, 0], [1, 0, 0], [-1, 0, 0]], float)
RINGS = [
    (0, 1, 3, 2),
    (4, 6, 7, 5),
    (4, 5, 1, 0),
    (2, 3, 7, 6),
    (0, 2, 6, 4),
    (5, 7, 3, 1),
]  # about the outward normals


@pytest.mark.parametrize(("ms", "bar"), [(1, 1.2e-3), (5, 1e-4), (10, 4e-3)])
def test_drakes_points_make_the_difference(ms, bar, monkeypatch):
    """A rigid box on soft ground with one point at the middle of each polygon of Drake's 24 triangles, whose moment is not that of the pressure: it
    comes to rest where Drake's does, not the 1 to 3.5 cm away that four points per face do, which have the exact moment. Drake takes the bias of a
    spin at the start of the step, which turns a tumbling box otherwise."""
    vertices = np.pad(np.concatenate([CORNERS, MIDDLES]), [(0, 0), (0, 1)])
    loops = np.array(
        [(a, b, 8 + k) for k, ring in enumerate(RINGS) for a, b in zip(ring, np.roll(ring, -1), strict=True)]
    )
    mesh = types.SimpleNamespace(vertex=vertices, large=np.zeros(24), loops=loops)
    monkeypatch.setattr("warpsim.model.pressure.polyhedron", lambda *shape: mesh)
    found, _, _, want = dropped("rigid_box_soft_halfspace", "polygons", ms)
    assert np.linalg.norm(found[:2] - want[:2]) < bar


def grasped(name, level, ms=5):
    """How far the object has slipped in the grip [m] and turned [deg], here and as recorded."""
    case = CASES[f"{name}_h{ms}"]
    keys = ("obj", "E_obj", "hint_obj", "m_obj", "pad", "E_pad", "hint_pad", "mu", "tau")
    model, h = scenes.grasp(*(case[k] for k in keys)), case["h"]
    sim = simulator(model, h, level)
    free = next(n for n in model.joint_names if n not in ("lift", "left", "right"))
    own, (lift_q, lift_v) = model.joint_coordinates(free)[0], model.joint_coordinates("lift")
    q = np.array(model.q0)
    q[model.joint_coordinates("left")[0]], q[model.joint_coordinates("right")[0]] = 0.0005, -0.0005
    q[own] = np.concatenate([case["offset"], scenes.quaternion(*case.get("rpy", (0, 0, 0)))])
    weight, state = 9.81 * (2.4 + case["m_obj"]), sim.state(q)
    for k in range(round(1.0 / h)):
        z, rate = state.q.numpy()[0][lift_q][0], state.v.numpy()[0][lift_v][0]
        goal = case["amp"] * np.sin(2 * np.pi * case["freq"] * k * h)
        sim.step(state, [[4000 * (goal - z) - 100 * rate + weight, case["force"], -case["force"]]], out=state)
    assert not sim.diagnostics.flags.numpy().any()
    end, recorded, lift = state.q.numpy()[0], DATA[f"dyn/{name}_h{ms}/q"], DATA[f"dyn/{name}_h{ms}/j"][:, 0]
    slips = (end[own][2] - end[lift_q][0] - q[own][2], recorded[-1, 2] - lift[-1] - (recorded[0, 2] - lift[0]))
    turns = (turned(end[own], q[own]), turned(recorded[-1], recorded[0]))
    return slips, turns


def turned(a, b) -> float:
    first, second = (Rotation.from_quat(x[[4, 5, 6, 3]]) for x in (a, b))
    return float(np.degrees((first * second.inv()).magnitude()))


@pytest.mark.parametrize("level", LEVELS)
def test_a_firm_grip_holds_a_box(level):
    """Shaken at 4.7 Hz: it creeps by less than 2e-5 m in a second."""
    (slip, _), (turn, _) = grasped("grasp_box_hold", level)
    assert abs(slip) < 2e-5 and turn < 0.01


@pytest.mark.parametrize("level", LEVELS)
def test_a_loose_grip_lets_a_box_slip_as_far_as_recorded(level):
    (slip, want), _ = grasped("grasp_box_slip", level)
    assert want < -0.009
    np.testing.assert_allclose(slip, want, rtol=0.01)


@pytest.mark.parametrize("level", ["polygons", "patch16"])
def test_a_cylinder_turns_between_bubbles_as_recorded(level):
    """Held aside of its centre, a cylinder pivots by 10.8 degrees; with five points or four, which hold too much torsion, by 2."""
    (slip, want), (turn, want_turn) = grasped("grasp_cylinder_pivot", level)
    np.testing.assert_allclose(turn, want_turn, rtol=0.15)
    np.testing.assert_allclose(slip, want, rtol=0.16)
    (slip, want), (turn, want_turn) = grasped("grasp_cylinder_hold", level)
    np.testing.assert_allclose(slip, want, atol=1e-4)
    np.testing.assert_allclose(turn, want_turn, atol=0.15)


@pytest.mark.parametrize("ms", [1, 10])
@pytest.mark.parametrize("level", ["polygons", "patch16"])
def test_grips_at_other_steps(level, ms):
    """At 1 and 10 ms the box is held in the loose grip too, as recorded, and the cylinder turns as far."""
    for name in ("grasp_box_hold", "grasp_box_slip"):
        (slip, want), (turn, _) = grasped(name, level, ms)
        assert abs(want) < 2e-5 and abs(slip) < 2e-5 and turn < 0.01
    (slip, want), (turn, want_turn) = grasped("grasp_cylinder_pivot", level, ms)
    np.testing.assert_allclose(turn, want_turn, rtol=0.03)
    np.testing.assert_allclose(slip, want, rtol=0.04)
    (slip, want), (turn, want_turn) = grasped("grasp_cylinder_hold", level, ms)
    np.testing.assert_allclose(slip, want, atol=2e-5)
    np.testing.assert_allclose(turn, want_turn, atol=0.01)
