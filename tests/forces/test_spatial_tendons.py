# SPDX-License-Identifier: Apache-2.0
"""Spatial tendons and actuators on sites and cranks against MuJoCo: lengths, moment arms, wraps, accelerations."""

import mujoco
import numpy as np
import pytest
import warp as wp

import warpsim as ws
from scenes.tendons import drone, roped_arm, wound_tree
from warpsim.forces.lines import Lines
from warpsim.kernels.forces import wrapping
from warpsim.tree.dynamics import DeviceModel, Dynamics

WORLDS = 125


def random_positions(m, count: int, seed: int, scale: float = 0.7) -> np.ndarray:
    r, found = np.random.default_rng(seed), np.tile(m.qpos0, (count, 1))
    for q in found:
        mujoco.mj_integratePos(m, q, scale * r.normal(size=m.nv), 1.0)
    return found


def lines_at(m, q, device) -> Lines:
    """The lines of a model at positions (worlds, nq)."""
    device_model = DeviceModel(ws.load(m), len(q), "float64", device)
    dynamics = Dynamics(device_model)
    lines = Lines(device_model, dynamics)
    dynamics.position(wp.array(q, dtype=wp.float64, device=device))
    lines.launch()
    return lines


def tendon_moments(m, data) -> np.ndarray:
    """MuJoCo's (ntendon, nv)."""
    found = np.zeros((m.ntendon, m.nv))
    for t in range(m.ntendon):
        entries = slice(m.ten_J_rowadr[t], m.ten_J_rowadr[t] + m.ten_J_rownnz[t])
        found[t, m.ten_J_colind[entries]] = data.ten_J[entries]
    return found


def dense_moments(lines: Lines, nv: int) -> np.ndarray:
    """(worlds, lines, nv)."""
    tables, moment = lines.tables, lines.moment.numpy()
    found = np.zeros((len(moment), len(tables.supports), nv))
    for i, support in enumerate(tables.supports):
        found[:, i, support] = moment[:, tables.line_begin[i] : tables.line_begin[i + 1]]
    return found


def test_lengths_and_moments_are_mujocos(device, within):
    """1,000 poses of 8 trees with 8 tendons each, on free joints too: length and ∂L/∂q; every case of a wrap occurs."""
    cases, length_error, moment_error = set(), 0.0, 0.0
    for seed in range(8):
        m = wound_tree(seed)
        q, data = random_positions(m, WORLDS, seed), mujoco.MjData(m)
        lines = lines_at(m, q, device)
        moments = dense_moments(lines, m.nv)
        cases |= set(lines.choice.numpy().ravel().tolist())
        for w in range(WORLDS):
            data.qpos[:] = q[w]
            mujoco.mj_forward(m, data)
            length_error = max(length_error, np.abs(lines.length.numpy()[w] - data.ten_length).max())
            moment_error = max(moment_error, np.abs(moments[w] - tendon_moments(m, data)).max())
    assert cases >= {0, 1, -1, 2}  # none, both ways round, inside
    within("spatial tendons: length against MuJoCo [m]", length_error, 1e-10)
    within("spatial tendons: moment arms against MuJoCo [m]", moment_error, 1e-10)


WRAP = """<mujoco><worldbody><geom name="g" type="{kind}" size="{r} 1"/><site name="side" pos="{side}"/>
<body><joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 1 0"/><joint type="slide" axis="0 0 1"/><geom size=".01" density="1"/>
<site name="a"/></body><body><joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 1 0"/><joint type="slide" axis="0 0 1"/>
<geom size=".01" density="1"/><site name="b"/></body></worldbody><tendon><spatial stiffness="1" springlength="0"><site site="a"/>
<geom geom="g" {sided}/><site site="b"/></spatial></tendon></mujoco>"""
CORNERS = [
    ([0.1, 0.0, 0.0], [1.0, 0.5, 0.0]),  # within the radius
    ([0.0, 0.0, 0.0], [1.0, 0.5, 0.0]),  # at the centre
    ([0.3, 0.0, 0.0], [1.0, 0.5, 0.2]),  # on the surface
    ([1.0, 0.2, 0.1], [1.0, 0.2, 0.1]),  # the same point
    ([1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]),  # across the centre: no plane
    ([0.0, 0.0, 1.0], [0.0, 0.0, -0.7]),  # along the cylinder's axis
    ([1.0, 0.0, 0.0], [2.0, 0.0, 0.0]),  # one behind the other
    ([0.5, 0.3, 0.0], [-0.5, 0.3, 0.0]),  # just touching
    ([0.5, 0.31, 0.0], [-0.5, 0.31, 0.0]),  # just clear
    ([0.31, 0.0, 0.0], [-0.31, 0.01, 0.3]),  # close to the surface
]

ON_SURFACE = 2


@pytest.mark.parametrize("kind", ["sphere", "cylinder"])
@pytest.mark.parametrize("side", [None, [0.0, 0.5, 0.05], [-0.4, -0.2, 0.3], [0.05, 0.02, 0.1]])
def test_wraps_at_the_corners_of_their_cases(device, kind, side):
    """Ends within the radius, at the centre, coinciding, opposite, touching: what MuJoCo does, and always a number.

    But an end exactly on the surface whose way leads outward goes straight; MuJoCo leads it once round the geom.
    """
    sided = "" if side is None else 'sidesite="side"'
    where = " ".join(map(str, side or [0, 0, 0]))
    m = mujoco.MjModel.from_xml_string(WRAP.format(kind=kind, r=0.3, side=where, sided=sided))
    r = np.random.default_rng(3)
    q = np.array([np.r_[a, b] for a, b in CORNERS] + [r.uniform(-0.6, 0.6, 6) for _ in range(200)])
    lines, data = lines_at(m, q, device), mujoco.MjData(m)
    assert np.isfinite(lines.moment.numpy()).all()
    for w, position in enumerate(q):
        data.qpos[:] = position
        mujoco.mj_forward(m, data)
        if w == ON_SURFACE:
            straight = np.linalg.norm(position[:3] - position[3:])
            assert lines.length.numpy()[w, 0] == pytest.approx(straight) or side is not None
            continue
        assert lines.length.numpy()[w, 0] == pytest.approx(data.ten_length[0], abs=1e-11)
        np.testing.assert_allclose(dense_moments(lines, 6)[w], tendon_moments(m, data), atol=1e-10)


def test_moment_arms_are_the_slopes_of_lengths(device, within):
    """∂L/∂q by central differences of 1e-6 along every degree of freedom, wraps unchanged. Through a ring the angle is found to 1e-6 rad, as
    MuJoCo's, and the moment arm with it."""
    m = wound_tree(1)
    q = random_positions(m, 1, 5)[0]
    moved = np.tile(q, (2 * m.nv, 1))
    for d in range(m.nv):
        for k, sign in enumerate((1.0, -1.0)):
            mujoco.mj_integratePos(m, moved[2 * d + k], np.eye(m.nv)[d] * sign, 1e-6)
    lines = lines_at(m, np.vstack([q, moved]), device)
    length, choice = lines.length.numpy(), lines.choice.numpy()
    same = (choice == choice[:1]).all(0)
    steady = [same[lines.tables.segment_begin[t] : lines.tables.segment_begin[t + 1]].all() for t in range(m.ntendon)]
    slope = (length[1::2] - length[2::2]).T / 2e-6
    error = np.abs(slope - dense_moments(lines, m.nv)[0])[steady]
    assert sum(steady) >= 6
    within("spatial tendons: moment arms against differences [m]", error.max(), 1e-6)


def test_float32_is_float64_rounded(device):
    """The same poses in single precision: lengths and moment arms to 3e-5, wraps decided alike but on edges."""
    m = wound_tree(2)
    q = random_positions(m, 50, 1)
    found = {}
    for dtype in ("float32", "float64"):
        device_model = DeviceModel(ws.load(m), len(q), dtype, device)
        dynamics = Dynamics(device_model)
        lines = Lines(device_model, dynamics)
        dynamics.position(wp.array(q.astype(dtype), dtype=device_model.types.real, device=device))
        lines.launch()
        found[dtype] = lines
    alike = (found["float32"].choice.numpy() == found["float64"].choice.numpy()).all(1)
    assert alike.mean() > 0.95
    for name in ("length", "moment"):
        one, other = (getattr(found[dtype], name).numpy()[alike] for dtype in ("float32", "float64"))
        assert np.abs(one - other).max() < 2e-4 and np.median(np.abs(one - other)) < 3e-6


def smooth_error(m, states: int = 5, seed: int = 0) -> float:
    """Worst relative error of (v' − v)/h of steps h, h/2, h/4, from which the powers of h are taken out, against `mj_forward`."""
    m.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
    r, data = np.random.default_rng(seed), mujoco.MjData(m)
    q, v, u = random_positions(m, states, seed), r.normal(size=(states, m.nv)), r.uniform(-1, 1, (states, m.nu))
    expected = []
    for k in range(states):
        data.qpos[:], data.qvel[:], data.ctrl[:] = q[k], v[k], u[k]
        mujoco.mj_forward(m, data)
        expected.append(data.qacc.copy())
    expected, found = np.array(expected), []
    solver = ws.NoContact(limits=ws.SAP(tolerance=1e-14))
    sim = ws.Simulator(ws.load(m), states, solver=solver, dtype="float64", device="cpu", threads=1)
    for h in (1e-5, 1e-6, 1e-7):
        rates = []
        for part in (1, 2, 4):
            sim.dt = h / part
            rates.append((sim.step(sim.state(q, v), u).v.numpy() - v) / sim.dt)
        error = (rates[0] - 6.0 * rates[1] + 8.0 * rates[2]) / 3.0 - expected
        found.append((np.linalg.norm(error, axis=1) / np.linalg.norm(expected, axis=1)).max())
    return min(found)


@pytest.mark.parametrize("seed", [0, 1])
def test_accelerations_are_mujocos(seed, within):
    """Springs with slack, dampers, motors and servos on tendons, sites, pairs of sites and cranks, force ranges: `mj_forward`'s qacc."""
    within(f"accelerations, tree {seed}: relative error", smooth_error(wound_tree(seed, actuators=True)), 1e-8)


@pytest.mark.parametrize("drive", ["muscle", "crank", "site servo"])
def test_an_arm_accelerates_as_mujocos(drive, within):
    """A rope round a sphere and a cylinder with pulleys, and a muscle, a crank or a servo between sites."""
    within(f"acceleration of the arm, {drive}: relative error", smooth_error(roped_arm(drive)), 1e-8)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_drone_hovers(device, dtype):
    """Four motors with a quarter of the weight each: it stands still for 4 s to rounding, and no row is needed."""
    m = drone()
    sim = ws.Simulator(ws.load(m), worlds=3, dt=0.01, dtype=dtype, device=device)
    weight = float(m.body_mass.sum()) * 9.81
    state = sim.state()
    for _ in range(400):
        state = sim.step(state, np.full((3, 4), weight / 4))
    assert sim._step.scalar_rows.count == 0
    drift = np.abs(state.q.numpy() - sim.state().q.numpy()).max()
    fused = 0.0 if device == "cpu" else 1e-11  # multiplications and additions of a GPU
    assert drift <= (fused if dtype == "float64" else 1e-4)


def test_a_drone_turns_with_its_torques(device):
    """One rotor pair faster: yaw accelerates with Σ ±0.02 thrust over the inertia about z, and nothing else."""
    m = drone()
    sim = ws.Simulator(ws.load(m), dt=1e-3, dtype="float64", device=device)
    thrust = float(m.body_mass.sum()) * 9.81 / 4 + np.array([1.0, -1.0, 1.0, -1.0])
    state = sim.step(sim.state(), thrust[None])
    expected = np.array([0, 0, 0, 0, 0, -0.02 * 4 * 1e-3 / 0.03])
    np.testing.assert_allclose(state.v.numpy()[0], expected, atol=1e-12)


def test_choices_have_the_numbers_of_their_ways():
    """The kernels take the sign of the way round from the choice itself."""
    assert (int(wrapping.CLOCKWISE), int(wrapping.ANTICLOCKWISE), int(wrapping.NONE)) == (1, -1, 0)
