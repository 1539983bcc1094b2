# SPDX-License-Identifier: Apache-2.0
"""Constraints, tendons and effort limits in motion: loops stay closed, loads sink by the stated compliance, laws are exact."""

import functools

import mujoco
import numpy as np
import pytest

import warpsim as ws
from scenes.bodies import GRAVITY, cart, pendulum
from scenes.constraints import TURN_Z_INTO_Y, fourbar, gaps, mimic_pair, stewart
from warpsim.kernels.rows.bilateral import EQUALITY_BETA, RIGID
from warpsim.model.geometry import rotation_vector
from warpsim.model.host_kinematics import body_poses

DTYPES = ("float64", "float32")


def sink(w: float, impulse: float, h: float) -> float:
    """At rest γ = −φ/((h + τ_d) R) = impulse, R = β²/(4π²) w, τ_d = β h/π."""
    return (h + EQUALITY_BETA * h / np.pi) * RIGID * w * impulse


def run(model, steps, dt, device, dtype="float64", controls=None, worlds=1, **start):
    """Trajectory (q, v) as float64 arrays and the simulator; no flag may be set."""
    sim = ws.Simulator(model, worlds=worlds, dt=dt, device=device, dtype=dtype)
    trajectory = sim.rollout(sim.state(**start), controls, steps=steps)
    assert not sim.diagnostics.flags.numpy().any()
    return trajectory.q.numpy().astype(float), trajectory.v.numpy().astype(float), sim


# Loops -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["hinge", "connect"])
@pytest.mark.parametrize(("dtype", "bar"), [("float64", 1e-6), ("float32", 1e-6)])
def test_fourbar_closes(device, dtype, bar, kind, within):
    """Falling from 57 degrees for 2 s at 1 ms, up to 2 m/s: the loop stays closed. float32 adds its rounding of 1 m.

    A hinge, and two of a connect's three rows, are redundant in the plane: the answer is the same.
    """
    model = fourbar(kind, angle=1.0)
    q, v, _ = run(model, 2000, 1e-3, device, dtype)
    assert np.abs(v).max() > 3.0 and np.ptp(q[:, 0, 0]) > 1.5
    within(f"four-bar by {kind}, {dtype}: gap [m]", gaps(model, q[:, 0]).max(), bar)


@pytest.mark.parametrize(("dtype", "bar"), [("float64", 1e-6), ("float32", 1.5e-6)])
def test_stewart_platform_closes(device, dtype, bar, within):
    """Six servos swing the platform by 0.4 m at 1 Hz for 2 s at 2 ms: every ball joint stays together."""
    model, h, steps = stewart(), 2e-3, 1000
    time = h * np.arange(steps)[:, None]
    controls = 0.06 * np.sin(2 * np.pi * time + 1.1 * np.arange(6)) * np.minimum(1.0, time / 0.3)
    q, _, _ = run(model, None, h, device, dtype, controls[:, None])
    assert np.ptp(q[:, 0, :2], axis=0).min() > 0.35
    within(f"Stewart platform, {dtype}: gap [m]", gaps(model, q[:, 0]).max(), bar)


def test_closure_error_is_of_third_order(device, within):
    """The gap of a fast four-bar is about h³ v̇ v/L: halving h divides it by 6 or more (by 4 alone if the sink ruled)."""
    model = fourbar(lengths=(0.2, 0.5, 0.4, 0.5))
    worst = []
    for h in (2e-3, 1e-3, 5e-4):
        q, _, _ = run(model, round(1.0 / h), h, device, v=[10.0, 0.0, 0.0])
        worst.append(gaps(model, q[round(0.02 / h) :, 0]).max())
    within("fast four-bar: gap at 2 ms [m]", worst[0], 3e-5)
    within("fast four-bar: gap at 1 ms over that at 2 ms", worst[1] / worst[0], 1 / 6)
    within("fast four-bar: gap at 0.5 ms over that at 1 ms", worst[2] / worst[1], 1 / 6)


def test_loop_has_the_energy_of_the_open_chain(device, within):
    """A bilateral loop does no work: the energy of the falling four-bar drifts by first order in h, as without it."""
    model = fourbar(angle=1.0)
    drift = []
    for h in (2e-3, 1e-3):
        sim = ws.Simulator(model, dt=h, device=device, dtype="float64")
        energy = sim.rollout(sim.state(), steps=round(2.0 / h)).diagnostics["energy"].numpy()[1:, 0]
        drift.append(np.ptp(energy))
    within("four-bar: energy band at 1 ms [J]", drift[1], 0.02)
    within("four-bar: energy band, ratio of steps", drift[1] / drift[0], 0.6)


def test_connect_moves_as_in_mujoco(device, within):
    """A four-bar of MJCF with `connect`: the same trajectory as MuJoCo's soft constraint at 0.5 ms, to 1 %."""
    rod = '<geom type="capsule" fromto="0 0 0 {0}" size=".02" contype="0" conaffinity="0"/>'
    xml = f"""<mujoco><option timestep="0.0005" integrator="Euler"/><worldbody>
      <body name="crank" pos="0 0 1"><joint name="a" axis="0 1 0" damping=".01"/>{rod.format("0 0 -.3")}
        <body name="coupler" pos="0 0 -.3"><joint name="b" axis="0 1 0" damping=".01"/>{rod.format(".5 0 -.1")}</body></body>
      <body name="rocker" pos=".5 0 1"><joint name="c" axis="0 1 0" damping=".01"/>{rod.format("0 0 -.4")}</body>
    </worldbody><equality><connect body1="coupler" body2="rocker" anchor=".5 0 -.1" solref="0.002 1"/></equality></mujoco>"""
    m = mujoco.MjModel.from_xml_string(xml)
    d = mujoco.MjData(m)
    d.qvel[:] = [5.0, -5.0, 3.75]
    mujoco.mj_forward(m, d)
    start, theirs = {"q": d.qpos.copy(), "v": d.qvel.copy()}, []
    m.eq_solref[:] = (0.02, 1.0)
    model = ws.load(m)  # near-rigid
    m.eq_solref[:] = (0.002, 1.0)
    for _ in range(1500):
        mujoco.mj_step(m, d)
        theirs.append(d.qpos.copy())
    q, _, _ = run(model, 1500, 5e-4, device, **start)
    within("connect against MuJoCo: angle [rad]", np.abs(q[1:, 0] - theirs).max(), 0.02)
    assert np.ptp(theirs, axis=0).max() > 1.0


@pytest.mark.parametrize("dtype", DTYPES)
def test_redundant_constraints_share_the_load(device, dtype, within):
    """A door on a hinge, held again on its own axis by connects, a hinge and a weld's worth of copies: it swings as without."""
    b = ws.ModelBuilder("door")
    b.add_body("door", pose=[1, 2, 0, 0.8, 0, 0, 0.6], mass=5.0, com=[0.4, 0, 0.9], inertia=[0.5, 0.7, 0.3])
    b.add_joint("door", "hinge", name="hinge", axis=[0, 0.1, 1])
    free = b.build()
    axis = np.array([0, 0.1, 1.0]) / np.linalg.norm([0, 0.1, 1.0])
    for k, height in enumerate((0.0, 0.7, 1.9)):
        b.add_constraint("connect", "door", "world", name=f"pin{k}", pose_a=height * axis)
    b.add_constraint("hinge", "door", "world", name="again", pose_a=[0, 0, 0, np.cos(0.05), -np.sin(0.05), 0, 0])
    tilt = np.arctan2(0.1, 1.0)  # turns z onto the axis
    b.constraints[-1].poses = (np.array([0, 0, 0, np.cos(tilt / 2), -np.sin(tilt / 2), 0, 0]), None)
    held = b.build()
    runs = [run(model, 500, 2e-3, device, dtype, v=[0.5])[0][:, 0, 0] for model in (free, held)]
    assert np.ptp(runs[0]) > 0.3
    within(
        f"door held twice, {dtype}: angle [rad]", np.abs(runs[0] - runs[1]).max(), 1e-9 if dtype == "float64" else 2e-3
    )


@pytest.mark.parametrize(("dtype", "bar"), [("float64", 1e-6), ("float32", 0.15)])
def test_misaligned_loops_do_not_jam(device, dtype, bar, within):
    """A planar linkage whose loop closes by a hinge tilted by 1e-5 and shifted by 1e-5 m out of the plane swings as the
    aligned one: rows that move next to nothing are soft (their weight has a floor). In float32 the rounding of positions,
    1e-7 m each step, still pushes along them."""
    off = [0, 1e-5, -0.5, *(TURN_Z_INTO_Y + [0, 0, 0, 1e-5])]
    models = [fourbar(angle=1.0), fourbar(angle=1.0, frame=off)]
    runs = [run(model, 1000, 1e-3, device, dtype)[0][:, 0] for model in models]
    assert np.ptp(runs[0][:, 0]) > 1.0
    within(f"four-bar misaligned by 1e-5, {dtype}: angle [rad]", np.abs(runs[0] - runs[1]).max(), bar)


SCHEMES = (ws.SymplecticEuler(), ws.ExplicitEuler(), ws.ImplicitEuler(), ws.Midpoint())


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda s: type(s).__name__)
def test_loops_close_in_every_scheme(device, scheme, within):
    """The falling four-bar for 1 s at 1 ms. Explicit Euler moves with the velocity of the step before: half h² v²/L."""
    model = fourbar(angle=1.0)
    sim = ws.Simulator(model, dt=1e-3, device=device, dtype="float64", integrator=scheme)
    q = sim.rollout(sim.state(), steps=1000).q.numpy()[:, 0]
    bar = 2e-5 if isinstance(scheme, ws.ExplicitEuler) else 1e-6
    within(f"four-bar, {type(scheme).__name__}: gap [m]", gaps(model, q).max(), bar)


@pytest.mark.parametrize(("scheme", "order"), [(s, 2 if isinstance(s, ws.Midpoint) else 1) for s in SCHEMES])
def test_particle_on_a_circle_converges_by_the_order_of_the_scheme(device, scheme, order, within):
    """A point on a rod against the pendulum's exact motion: order 2 for the midpoint rule, whose Jacobians are there."""
    b = ws.ModelBuilder("particle")
    b.add_body("p", pose=[0.6, 0, -0.8], mass=1.0, inertia=[1, 1, 1])
    for axis in ([1, 0, 0], [0, 0, 1]):
        b.add_joint("p", "slide", axis=axis)
    b.add_constraint("distance", "p", "world", name="rod")
    errors = []
    for h in (4e-3, 2e-3, 1e-3):
        sim = ws.Simulator(b.build(), dt=h, device=device, dtype="float64", integrator=scheme)
        q = sim.rollout(sim.state(), steps=round(1.0 / h)).q.numpy()[-1, 0]
        errors.append(np.abs(q - pendulum_after_one_second()).max())
    slope = np.log2(errors[-2] / errors[-1])
    within(f"rod, {type(scheme).__name__}: order, less {order}", abs(slope - order), 0.1)


@functools.cache
def pendulum_after_one_second() -> np.ndarray:
    """Displacement (x, z) of a point on a rod of 1 m that starts at rest at (0.6, -0.8), by an accurate integrator."""
    from scipy.integrate import solve_ivp

    start = [np.arctan2(0.6, 0.8), 0.0]
    path = solve_ivp(lambda t, y: [y[1], -GRAVITY * np.sin(y[0])], (0, 1), start, rtol=1e-12, atol=1e-13)
    angle = path.y[0, -1]
    return np.array([np.sin(angle) - 0.6, 0.8 - np.cos(angle)])


# Compliance --------------------------------------------------------------------------------------------------------------


def cantilever(**options) -> ws.Model:
    """A free box of 10 kg whose face, half a metre from its centre, is welded to the world."""
    b = ws.ModelBuilder("cantilever")
    b.add_body("box", mass=10.0, inertia=[0.5, 1.0, 1.2])
    b.add_joint("box", "free", name="box")
    b.add_constraint("weld", "world", "box", name="glue", pose_b=[-0.5, 0, 0], **options)
    return b.build()


def deflection(model, q) -> tuple[float, float]:
    """Drop of the welded face [m] and its turn about y [rad]."""
    pose = body_poses(model, q)[0]
    turn = rotation_vector(pose[3:])
    face = pose[2] + 0.5 * np.sin(turn[1])
    return -face, turn[1]


@pytest.mark.parametrize(("dtype", "slack"), [("float64", 1e-6), ("float32", 0.05)])
def test_weld_holds_a_box_by_the_stated_compliance(device, dtype, slack, within):
    """At rest each row sinks by (h + τ_d) R γ: m g at the face, m g 0.5 about it.

    w is that of the row, w_z = 1/m + 0.25/I_y; or the mean over the axes where that is more, w_y = tr(I⁻¹)/3.
    """
    model, m, h = cantilever(), 10.0, 0.01
    q, v, _ = run(model, 300, h, device, dtype)
    drop, turn = deflection(model, q[-1, 0])
    expected = sink(1 / m + 0.25, h * m * GRAVITY, h), sink((2.0 + 1.0 + 1 / 1.2) / 3, h * m * GRAVITY * 0.5, h)
    within(f"weld {dtype}: drop over the stated {expected[0]:.2e} m, less 1", abs(drop / expected[0] - 1), slack)
    within(f"weld {dtype}: turn over the stated {expected[1]:.2e} rad, less 1", abs(turn / expected[1] - 1), slack)
    within(f"weld {dtype}: speed at rest", np.abs(v[-1]).max(), 1e-9 if dtype == "float64" else 1e-5)


def test_compliant_weld_is_a_spring(device, within):
    """With stiffness (k, κ) the face drops by m g/k and turns by m g 0.5/κ."""
    k, kappa = 5e4, 2e3
    model = cantilever(stiffness=(k, kappa), dissipation_time=0.05)
    q, _, _ = run(model, 600, 0.01, device)
    drop, turn = deflection(model, q[-1, 0])
    within("spring weld: drop, relative", abs(drop / (10 * GRAVITY / k) - 1), 1e-6)
    load = 10 * GRAVITY * 0.5 / kappa  # φ = 2 sin(turn/2)
    within("spring weld: turn, relative", abs(2 * np.sin(turn / 2) / (load * np.cos(turn)) - 1), 2e-3)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_constraint_violated_at_the_start_is_closed_gently(device, dtype, within):
    """A slide 1 m from where its coupling wants it comes at 5 m/s, and stays without overshooting."""
    model = cart(mass=2.0)
    b = ws.ModelBuilder("offset")
    b.add_model(model)
    b.gravity[:] = 0.0
    b.add_constraint("joint", "rail", coefficients=[1.0], name="lock")
    q, v, _ = run(b.build(), 60, 0.01, device, dtype)
    within(f"violated coupling {dtype}: fastest", v.max(), 5.001)
    within(f"violated coupling {dtype}: overshoot", q.max() - 1.0, 1e-6)
    within(f"violated coupling {dtype}: at the end", abs(q[-1, 0, 0] - 1.0), 1e-6)


# The kinds ---------------------------------------------------------------------------------------------------------------


def test_hinge_and_slide_leave_their_freedom(device, within):
    """Free bodies held by a hinge turn, and by a slide shift, along the frame's z alone: a pendulum and a falling sled."""
    b = ws.ModelBuilder("two")
    b.add_body("bob", mass=2.0, com=[0, 0, -0.5], inertia=[0.01, 0.01, 0.01])
    b.add_body("sled", pose=[2, 0, 0], mass=2.0, inertia=[0.1, 0.2, 0.3])
    for name in ("bob", "sled"):
        b.add_joint(name, "free", name=name)
    b.add_constraint("hinge", "world", "bob", pose_b=[0, 0, 0, *TURN_Z_INTO_Y], name="pivot")
    b.add_constraint("slide", "world", "sled", pose_b=[0, 0, 0, 0.9, 0.3, 0.0, 0.1], name="rail")
    model = b.build()
    h, steps = 1e-3, 1000
    q, _, _ = run(model, steps, h, device, v=[0, 0, 0, 0, 3.0, 0] + [0] * 6)
    single = pendulum(mass=2.0, length=0.5)
    single.body_inertia.setflags(write=True)
    single.body_inertia[:] = np.eye(3) * 0.01
    reference, _, _ = run(single, steps, h, device, v=[3.0])
    angle = 2 * np.arctan2(q[:, 0, 5], q[:, 0, 3])
    within("hinge: angle against a pendulum's [rad]", np.abs(angle - reference[:, 0, 0]).max(), 5e-3)
    within("hinge: out of its plane", np.abs(q[:, 0, [4, 6]]).max(), 1e-9)
    axis = np.array([2 * (0.3 * 0.1 + 0 * 0.9), 2 * (0 * 0.1 - 0.3 * 0.9), 0.9**2 - 0.3**2 + 0.1**2])
    axis /= np.linalg.norm(axis)
    travel = q[-1, 0, 7:10] - [2, 0, 0]
    expected = 0.5 * axis * (axis @ [0, 0, -GRAVITY]) * (steps * h) * (steps * h + h)
    within("slide: travel against free fall along the rail [m]", np.abs(travel - expected).max(), 1e-6)
    within("slide: turn", np.abs(q[-1, 0, 11:]).max(), 1e-9)


def test_distances_hold_between_their_bounds(device, within):
    """A ball on a rod keeps its distance; on a rope it falls freely until the rope is taut, and never leaves it."""
    b = ws.ModelBuilder("pendula")
    for name, x, length in (("rod", 0.0, None), ("rope", 2.0, (0.0, 0.6))):
        b.add_body(name, pose=[x + 0.3, 0, -0.4], mass=1.0, inertia=[0.1, 0.1, 0.1])
        b.add_joint(name, "free", name=name)
        b.add_constraint("distance", "world", name, pose_a=[x, 0, 0], length=length, name=f"{name} length")
    model = b.build()
    h = 1e-3
    q, _, _ = run(model, 1500, h, device)
    d = gaps(model, q[:, 0])
    within("rod: error of its length [m]", np.abs(d[:, 0] - 0.5).max(), 1e-6)
    taut = int(np.argmax(d[:, 1] > 0.6 - 1e-6))
    fall = -0.4 - 0.5 * GRAVITY * h * h * np.arange(taut) * (np.arange(taut) + 1)
    assert taut > 100
    within("rope: free fall [m]", np.abs(q[:taut, 0, 9] - fall).max(), 1e-10)
    within("rope: longer than it is [m]", d[:, 1].max() - 0.6, 1e-5)
    within("rope: slack again after the jerk", 0.6 - d[taut:, 1].min(), 1e-3)


def test_shortest_distance_pushes(device, within):
    """A bumper keeps two carts half a metre apart, exchanges momentum, and does not pull."""
    b = ws.ModelBuilder("bumper", gravity=(0, 0, 0))
    for k in range(2):
        b.add_body(f"cart{k}", pose=[k, 0, 0], mass=1.0 + k, inertia=[1, 1, 1])
        b.add_joint(f"cart{k}", "slide", axis=[1, 0, 0], name=f"x{k}")
    b.add_constraint("distance", "cart0", "cart1", length=(0.5, np.inf), name="bumper")
    q, v, _ = run(b.build(), 400, 1e-3, device, v=[3.0, 0.0])
    apart = 1 + q[:, 0, 1] - q[:, 0, 0]
    within("bumper: too close by [m]", 0.5 - apart.min(), 1e-5)
    within("bumper: momentum", np.abs(v[:, 0] @ [1.0, 2.0] - 3.0).max(), 1e-12)
    within("bumper: common speed after", np.abs(v[-1, 0] - 1.0).max(), 1e-2)


def test_joint_equality_is_exact_at_rest(device, within):
    """Damped pendula without gravity come to rest on the cubic exactly; under gravity they miss it by the row's sink."""
    model = mimic_pair()
    c = model.constraint_coefficients[0]

    def miss(q):
        return q[1] - np.polyval(c[::-1], q[0])

    sim = ws.Simulator(model, dt=0.01, device=device, dtype="float64")
    sim.parameters["gravity"] = [0.0, 0.0, 0.0]
    q = sim.rollout(sim.state([0.5, 0.0], [1.0, 0.0]), steps=4000).q.numpy()[-1, 0]
    within("joint equality: miss at rest", abs(miss(q)), 1e-12)
    loaded = ws.Simulator(model, dt=0.01, device=device, dtype="float64")
    loaded.parameters["joint_damping"] = [2.0, 2.0]
    q = loaded.rollout(loaded.state(), steps=2000).q.numpy()[-1, 0]
    within("joint equality under gravity: miss", abs(miss(q)), 1e-7)
    slope = np.polyval(np.polyder(c[::-1]), q[0])
    masses, coms = np.array([1.0, 2.0]), np.array([0.1, -0.3])
    torque = masses * GRAVITY * (coms[0] * np.cos(q) + coms[1] * np.sin(q))
    within("joint equality: virtual work", abs(torque[0] + slope * torque[1]), 1e-6)


# Effort limits -----------------------------------------------------------------------------------------------------------


def servo(limits, kp=40.0, kv=3.0, gear=1.5, inertia=0.2) -> ws.Model:
    b = ws.ModelBuilder("servo", gravity=(0, 0, 0))
    b.add_body("wheel", mass=1.0, inertia=[inertia] * 3)
    b.add_joint("wheel", "hinge", name="axle")
    b.add_actuator("axle", "position", name="servo", kp=kp, kv=kv, gear=gear, force_range=limits)
    return b.build()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("limits", [(-2.0, 3.0), (-np.inf, 3.0), (-2.0, np.inf)])
def test_saturated_servo_accelerates_by_its_limit(device, dtype, limits, within):
    """Far from its target v changes by h gear e/I exactly, e the limit on that side; a side without one is implicit."""
    inertia, gear, h, kp, kv = 0.2, 1.5, 0.01, 40.0, 3.0
    sim = ws.Simulator(servo(limits), worlds=2, dt=h, device=device, dtype=dtype)
    v = sim.step(sim.state(v=[0.4]), [[50.0], [-50.0]]).v.numpy()[:, 0]
    implicit = (inertia * 0.4 - h * gear * kp * 50.0) / (inertia + gear**2 * (h * kv + h * h * kp))
    expected = [0.4 + h * gear * e / inertia for e in (limits[1], limits[0])]
    if np.isinf(limits[0]):
        expected[1] = implicit
    if np.isinf(limits[1]):
        expected[0] = (inertia * 0.4 + h * gear * kp * 50.0) / (inertia + gear**2 * (h * kv + h * h * kp))
    within(f"servo {limits} {dtype}: speed", np.abs(v / expected - 1).max(), 1e-13 if dtype == "float64" else 1e-6)


@pytest.mark.parametrize(("kp", "kv"), [(40.0, 3.0), (1e7, 0.0), (0.0, 1e5), (1e6, 1e4)])
def test_unsaturated_servo_is_the_implicit_spring_and_damper(device, kp, kv, within):
    """v' = (I v + h g (kp (u − g q)))/(I + h g² kv + h² g² kp), however stiff: no step limit."""
    inertia, gear, h, q0, v0, u = 0.2, 1.5, 0.01, 0.1, 0.4, 0.3
    sim = ws.Simulator(servo((-1e12, 1e12), kp, kv), dt=h, device=device, dtype="float64")
    v = sim.step(sim.state([q0], [v0]), [[u]]).v.numpy()[0, 0]
    expected = (inertia * v0 + h * gear * kp * (u - gear * q0)) / (inertia + gear**2 * (h * kv + h * h * kp))
    within(f"servo kp {kp:g} kv {kv:g}: speed", abs(v / expected - 1), 1e-9)
    final = sim.rollout(sim.state([q0], [v0]), np.full((300, 1, 1), u))
    if kp > 0:
        within(f"servo kp {kp:g} kv {kv:g}: settles", abs(final.q.numpy()[-1, 0, 0] - u / gear), 1e-2)


def test_actuators_without_a_range_are_as_before(device):
    """Without force limits, and with feedback that feeds energy in, no row is active."""
    sim = ws.Simulator(servo((-np.inf, np.inf)), dt=0.01, device=device, dtype="float64")
    v = sim.step(sim.state([0.1], [0.4]), [[0.3]]).v.numpy()[0, 0]
    damping, force = 1.5**2 * 3.0, 1.5 * 40 * (0.3 - 1.5 * 0.1)
    assert abs(v - (0.4 + 0.01 * (force - damping * 0.4) / (0.2 + 0.01 * damping))) < 1e-14
    assert (sim._step.scalar_rows.rows.R.numpy() == 0).all()
    limited = ws.Simulator(servo((-1e3, 1e3)), dt=0.01, device=device, dtype="float64")
    limited.parameters["actuator_bias"] = [[0.0, 5.0, -3.0]]
    limited.step(limited.state(), [[0.3]])
    assert (limited._step.scalar_rows.rows.R.numpy() == 0).all()


# Tendons -----------------------------------------------------------------------------------------------------------------


def two_wheels(**tendon) -> ws.ModelBuilder:
    """Wheels of inertia 0.2 and 0.5 with a tendon of coefficients 2 and -1."""
    b = ws.ModelBuilder("wheels", gravity=(0, 0, 0))
    for k, inertia in enumerate((0.2, 0.5)):
        b.add_body(f"wheel{k}", mass=1.0, inertia=[inertia] * 3)
        b.add_joint(f"wheel{k}", "hinge", name=f"w{k}")
    b.add_tendon({"w0": 2.0, "w1": -1.0}, name="belt", **tendon)
    return b


ARMS, INERTIA = np.array([2.0, -1.0]), np.array([0.2, 0.5])


@pytest.mark.parametrize(("stiffness", "damping"), [(30.0, 0.0), (0.0, 4.0), (1e6, 10.0)])
def test_tendon_spring_is_implicit(device, stiffness, damping, within):
    """(M + h aaᵀ(D + hK)) v' = M v − h a K (x − x_0): a spring and damper of any stiffness."""
    sim = ws.Simulator(
        two_wheels(stiffness=stiffness, damping=damping, reference=0.3).build(), dt=0.01, device=device, dtype="float64"
    )
    q0, v0, h = np.array([0.5, 0.1]), np.array([0.4, -0.7]), 0.01
    v = sim.step(sim.state(q0, v0)).v.numpy()[0]
    A = np.diag(INERTIA) + np.outer(ARMS, ARMS) * h * (damping + h * stiffness)
    expected = np.linalg.solve(A, INERTIA * v0 - h * ARMS * stiffness * (ARMS @ q0 - 0.3))
    within(f"tendon K {stiffness:g} D {damping:g}: speed", np.abs(v - expected).max(), 1e-10)


def test_tendon_is_slack_in_its_dead_band(device):
    """Between the two rest lengths the spring does nothing to the last bit; beyond either it pulls back."""
    sim = ws.Simulator(
        two_wheels(stiffness=50.0, reference=(-0.2, 0.3)).build(), 3, 0.01, device=device, dtype="float64"
    )
    v = sim.step(sim.state([[0.0, 0.0], [0.3, 0.0], [-0.3, 0.0]])).v.numpy() @ ARMS
    assert v[0] == 0.0 and v[1] < 0 < v[2]


def test_tendon_limit_holds_a_load(device, within):
    """A range stops the belt from both sides; a torque against it sinks by the stop's compliance only."""
    sim = ws.Simulator(two_wheels(range=(-0.1, 0.2)).build(), worlds=2, dt=0.01, device=device, dtype="float64")
    state = sim.state()
    for _ in range(200):
        state = sim.step(state, tau=[[2.0, -1.0], [-2.0, 1.0]])
    x = state.q.numpy() @ ARMS
    within("tendon limit: sink [m]", max(x[0] - 0.2, -0.1 - x[1]), 1e-4)
    assert x[0] > 0.2 - 1e-6 and x[1] < -0.1 + 1e-6


def test_tendon_friction_holds_and_slips(device, within):
    """Below the bound f the belt creeps only; above it (M v') = h (τ − a f) exactly."""
    h, f = 0.01, 3.0
    sim = ws.Simulator(two_wheels(friction=f).build(), worlds=2, dt=h, device=device, dtype="float64")
    v = sim.step(sim.state(), tau=np.array([[0.9], [2.0]]) * f * ARMS).v.numpy()
    within("tendon friction: creep", np.abs(v[0] @ ARMS), 2e-3)
    within("tendon friction: slip", np.abs(v[1] - h * f * ARMS / INERTIA).max(), 1e-12)


def test_actuators_on_tendons(device, within):
    """A motor's force goes to the joints by gear times coefficient; a servo is implicit, with and without a limit."""
    h, u, gear = 0.01, 0.7, 1.5
    b = two_wheels()
    b.add_actuator(tendon="belt", kind="effort", gear=gear, name="motor", force_range=(-0.5, 0.5))
    sim = ws.Simulator(b.build(), dt=h, device=device, dtype="float64")
    v = sim.step(sim.state(), [[u]]).v.numpy()[0]
    within("tendon motor: speed", np.abs(v - h * gear * 0.5 * ARMS / INERTIA).max(), 1e-15)
    for limit in (np.inf, 0.8):
        b = two_wheels()
        b.add_actuator(
            tendon="belt", kind="position", kp=50.0, kv=2.0, gear=gear, name="s", force_range=(-limit, limit)
        )
        sim = ws.Simulator(b.build(), dt=h, device=device, dtype="float64")
        v = sim.step(sim.state(), [[u]]).v.numpy()[0]
        A = np.diag(INERTIA) + gear**2 * np.outer(ARMS, ARMS) * h * (2.0 + h * 50.0)
        expected = np.linalg.solve(A, h * gear * ARMS * 50.0 * u)
        if limit < np.inf:
            expected = h * gear * ARMS * limit / INERTIA
        within(f"tendon servo, limit {limit:g}: speed", np.abs(v - expected).max(), 1e-12)


def test_tendon_equilibrium_is_mujocos(device, within):
    """A finger of MJCF with two springs on fixed tendons and a coupling hangs where MuJoCo's does."""
    xml = """<mujoco><option timestep="0.002"/><worldbody><body pos="0 0 1">
      <joint name="a" axis="0 1 0" damping=".3"/><geom type="capsule" fromto="0 0 0 .3 0 0" size=".02"/>
      <body pos=".3 0 0"><joint name="b" axis="0 1 0" damping=".3"/><geom type="capsule" fromto="0 0 0 .3 0 0" size=".02"/>
      <body pos=".3 0 0"><joint name="c" axis="0 1 0" damping=".3"/><geom type="capsule" fromto="0 0 0 .2 0 0" size=".02"/>
      </body></body></body></worldbody>
      <tendon><fixed name="x" stiffness="40" springlength="0 .02" damping="1"><joint joint="a" coef=".4"/><joint joint="b" coef=".2"/></fixed>
        <fixed name="y" range="-.3 .1"><joint joint="b" coef="1"/><joint joint="c" coef="-.5"/></fixed></tendon>
      <equality><joint joint1="c" joint2="b" polycoef="0 .7 .1 0 0" solref="0.004 1"/></equality>
      <contact><exclude body1="world" body2="world"/></contact></mujoco>"""
    m = mujoco.MjModel.from_xml_string(xml.replace('<contact><exclude body1="world" body2="world"/></contact>', ""))
    m.geom_contype[:] = 0
    m.geom_conaffinity[:] = 0
    d = mujoco.MjData(m)
    for _ in range(5000):
        mujoco.mj_step(m, d)
    m.eq_solref[:] = (0.02, 1.0)
    q, _, _ = run(ws.load(m), 5000, 2e-3, device)
    within("tendon equilibrium against MuJoCo [rad]", np.abs(q[-1, 0] - d.qpos).max(), 5e-3)


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda s: type(s).__name__)
def test_tendon_actuators_in_every_scheme(device, scheme, within):
    """A motor on a tendon adds h gear f a/I whatever the scheme; a limited servo on a joint is never counted twice."""
    b = two_wheels()
    b.add_actuator(tendon="belt", kind="effort", gear=1.5, name="motor")
    sim = ws.Simulator(b.build(), dt=0.01, device=device, dtype="float64", integrator=scheme)
    v = sim.step(sim.state(), [[0.7]]).v.numpy()[0]
    within(f"tendon motor, {type(scheme).__name__}: speed", np.abs(v - 0.01 * 1.5 * 0.7 * ARMS / INERTIA).max(), 1e-14)
    kp, kv, gear, inertia, h, q0, v0, u = 40.0, 3.0, 1.5, 0.2, 0.01, 0.1, 0.4, 0.3
    sim = ws.Simulator(servo((-1e3, 1e3), kp, kv), dt=h, device=device, dtype="float64", integrator=scheme)
    v = sim.step(sim.state([q0], [v0]), [[u]]).v.numpy()[0, 0]
    if isinstance(scheme, ws.Midpoint):
        K, D = gear**2 * kp, gear**2 * kv
        rest = gear * kp * u - K * q0 - (D / 2 + K * h / 4) * v0
        expected = (inertia * v0 + h * rest) / (inertia + h * (D / 2 + K * h / 4))
    else:
        expected = (inertia * v0 + h * gear * kp * (u - gear * q0)) / (inertia + gear**2 * (h * kv + h * h * kp))
    within(f"servo, {type(scheme).__name__}: speed", abs(v / expected - 1), 1e-12)


@pytest.mark.parametrize(
    "scheme", [ws.SymplecticEuler(implicit_stiffness=True), ws.ExplicitEuler(implicit_stiffness=True)]
)
def test_implicit_stiffness_leaves_rows_alone(device, scheme, within):
    """Where A takes the stiffness of actuators, one with a row is left out: the same speed as without the option."""
    h, q0, v0, u = 0.01, 0.1, 0.4, 0.3
    v = []
    for chosen in (scheme, ws.SymplecticEuler()):
        sim = ws.Simulator(servo((-1e3, 1e3)), dt=h, device=device, dtype="float64", integrator=chosen)
        v.append(sim.step(sim.state([q0], [v0]), [[u]]).v.numpy()[0, 0])
    within("implicit stiffness beside a row", abs(v[0] / v[1] - 1), 1e-13)


# Worlds ------------------------------------------------------------------------------------------------------------------


@pytest.mark.both_types
@pytest.mark.parametrize("dtype", DTYPES)
def test_bits_do_not_depend_on_the_number_of_worlds(device, dtype, rng):
    """A Stewart platform among others ends at the same bits as alone."""
    model = stewart()
    controls = 0.05 * rng.uniform(-1, 1, size=(40, 5, 6))
    together, _, _ = run(model, None, 2e-3, device, dtype, controls, worlds=5)
    for w in (0, 3):
        alone, _, _ = run(model, None, 2e-3, device, dtype, controls[:, w : w + 1])
        assert np.array_equal(alone[:, 0], together[:, w])


def test_inactive_constraints_and_bodies_do_nothing(device):
    """An inactive weld changes no bit; a constraint to a body that is switched off lets go of the other."""
    b = ws.ModelBuilder("pair")
    for k in range(2):
        b.add_body(f"ball{k}", pose=[k, 0, 0], mass=1.0, inertia=[0.1] * 3)
        b.add_joint(f"ball{k}", "free", name=f"ball{k}")
    plain = b.build()
    b.add_constraint("weld", "ball0", "ball1", name="off", active=False)
    q = [run(model, 50, 0.01, device, v=[1.0] + [0.0] * 11)[0] for model in (plain, b.build())]
    assert np.array_equal(*q)
    b.add_constraint("distance", "ball0", "ball1", name="rod")
    sim = ws.Simulator(b.build(), worlds=2, dt=0.01, device=device, dtype="float64")
    sim.parameters["body_active"] = [[1.0, 1.0], [1.0, 0.0]]
    state = sim.rollout(sim.state(v=[1.0] + [0.0] * 11), steps=20).final
    v = state.v.numpy()[:, [0, 6]]
    np.testing.assert_allclose(v, [[0.5, 0.5], [1.0, 0.0]], atol=1e-4)


def test_constraints_hold_without_contact(device, within):
    """`ws.NoContact()` leaves constraints, limits and friction on."""
    model = fourbar()
    sim = ws.Simulator(model, dt=1e-3, device=device, dtype="float64", solver=ws.NoContact())
    q = sim.rollout(sim.state(), steps=200).q.numpy()[:, 0]
    within("four-bar without contact: gap [m]", gaps(model, q).max(), 1e-7)
