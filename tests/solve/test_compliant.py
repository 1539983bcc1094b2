# SPDX-License-Identifier: Apache-2.0
"""Compliant contact: the same solution as SAP's, stability for any stiffness, and the systems of its paper (theory §4)."""

import itertools

import numpy as np
import pytest
import warp as wp
from scipy.integrate import solve_ivp

import warpsim as ws
from scenes import compliant as scenes
from scenes.examples import clutter
from warpsim.differentiate.contact_adjoint import ContactAdjoint
from warpsim.integrate.step import Step
from warpsim.tree.dynamics import DeviceModel

G = scenes.GRAVITY
STIFFNESSES = 10.0 ** np.arange(16)  # [N/m]
MOST = 25  # factorisations that a step may take


def simulator(model, h, worlds=1, device="cpu", dtype="float64", **options) -> ws.Simulator:
    solver = ws.Compliant(**{k: options.pop(k) for k in ("jdot", "stiffness") if k in options})
    return ws.Simulator(model, worlds, h, solver=solver, dtype=dtype, device=device, **options)


def run(sim, state, steps):
    """(q, v) of a rollout (steps + 1, worlds, n), every step converged in `MOST` factorisations."""
    trajectory = sim.rollout(state, steps=steps)
    found = {key: array.numpy() for key, array in trajectory.diagnostics.items()}
    assert not found["flags"].any()
    assert found["iterations"].max() <= MOST
    return trajectory.q.numpy(), trajectory.v.numpy()


# The problem -----------------------------------------------------------------------------------------------------------


MECHANISM = """
<mujoco><option timestep="0.01"/><worldbody><geom type="plane" size="5 5 1" friction="0.6"/>
  <body pos="0 0 0.62"><freejoint/><geom type="box" size="0.1 0.1 0.1"/>
    <body pos="0.1 0 0"><joint name="hip" axis="0 1 0" range="-60 60" frictionloss="0.3"/>
      <geom type="capsule" fromto="0 0 0 0.3 0 -0.2" size="0.03"/>
      <body pos="0.3 0 -0.2"><joint name="knee" axis="0 1 0" range="-100 0"/>
        <geom type="capsule" fromto="0 0 0 0 0 -0.3" size="0.03"/></body></body></body>
  <body pos="-0.3 0 0.1"><freejoint/><geom type="box" size="0.1 0.1 0.1"/></body>
  </worldbody>
  <actuator><position joint="knee" kp="30" dampratio="1" forcerange="-2 2"/></actuator></mujoco>
"""


def test_every_kind_of_row_agrees_with_sap(tmp_path, within):
    """Cones, limits, dry friction, bounded drives and welds in one step: the solution is SAP's with the same R and v_hat."""
    file = tmp_path / "mechanism.xml"
    file.write_text(MECHANISM)
    b = ws.ModelBuilder("both")
    b.add_model(ws.load(str(file)))
    b.add_body("post", pose=[1.0, 0.0, 1.0])
    b.add_joint("post", "free")
    b.add_geom("box", [0.1, 0.1, 0.1], body="post")
    b.add_constraint("weld", "post", "world", stiffness=1e5, dissipation_time=0.01)
    b.add_geom("plane", friction=0.5)
    model = b.build()
    law = ws.Compliant(stiffness=1e6)
    steps = [
        Step(DeviceModel(model, 1, "float64", wp.get_device("cpu")), law, None, make_solver=make_solver)
        for make_solver in (None, ContactAdjoint.solver_of(law))
    ]
    q, v, worst, bounded = model.q0.copy(), np.zeros(model.nv), 0.0, 0
    v[:6] = [1.0, 0.2, 0.0, 0.3, 0.5, 1.0]
    for _ in range(40):
        for step in steps:
            step.q.assign(q[None])
            step.v.assign(v[None])
            step.control.assign([[-1.0]])
            step.launch(0.01)
        ours, theirs = (step.solver.solution.v.numpy()[0] for step in steps)
        worst = max(worst, np.abs(ours - theirs).max() / np.abs(theirs).max())
        problem = steps[0].solver.problem
        bounded += np.count_nonzero((problem.row_R.numpy()[0] > 0) & np.isfinite(problem.row_upper.numpy()[0]))
        q, v = steps[0].q.numpy()[0].copy(), steps[0].v.numpy()[0].copy()
    assert bounded > 40  # dry friction and drive in every step
    within("compliant: |v - v of SAP|, mechanism", worst, 1e-6)  # SAP stops at 1e-6 there


# Stability -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["box", "sphere"])
@pytest.mark.parametrize(("h", "steps"), [(0.1, 200), (0.01, 200), (1e-3, 300), (1e-5, 400)])
def test_energy_never_grows(kind, h, steps, within):
    """Kinetic, gravity's and elastic energy of a thrown body falls at every step, at K = 1 to 1e15 in 16 worlds."""
    sim = simulator(scenes.thrown_body(kind), h, worlds=16)
    stiffness = np.full((16, 2), np.inf)
    stiffness[:, 1] = STIFFNESSES
    sim.parameters["geom_stiffness"] = stiffness
    q0 = sim.model.q0 - np.array([0, 0, max(0.0, 1e-3 - 50 * h), 0, 0, 0, 0])
    q, v = run(sim, sim.state(q0, [1.0, 0.3, -0.5, 0.2, 0.4, 0.1]), steps)
    chosen = range(0, steps + 1, steps // 50)
    energy = np.array([scenes.stored_energy(sim, q[i], v[i], STIFFNESSES) for i in chosen])
    within(f"compliant: rise of energy, {kind}, h = {h:g}", np.diff(energy, axis=0).max() / energy[0, 0], 1e-14)


@pytest.mark.parametrize("stiffness", [1e3, 1e9, 1e15])
def test_pendulum_does_not_gain_energy(stiffness):
    """A pendulum tied to its joint, h = 0.1, 20 s: the peaks of its energy only fall."""
    sim = simulator(scenes.pendulum(stiffness), 0.1)
    q, v = run(sim, sim.state(), 200)
    energy = scenes.pendulum_energy(q[:, 0], v[:, 0])
    peaks = energy[1:].reshape(10, 20).max(1)
    assert peaks[1:].max() < peaks[0] < 1.0


def test_deviation_is_quadratic_in_the_step(within):
    """The pendulum leaves its joint by O(h^2), with jdot by O(h^3): Fig. 4 of the paper."""
    for jdot, factor in ((False, 100.0), (True, 1000.0)):
        far = []
        for h in (1e-2, 1e-3):
            sim = simulator(scenes.pendulum(1e15), h, jdot=jdot)
            far.append(scenes.pendulum_deviation(run(sim, sim.state(), round(1 / h))[0][:, 0]).max())
        within(f"compliant: deviation, jdot={jdot}: |ratio/{factor:g} - 1|", abs(far[0] / far[1] / factor - 1.0), 0.05)


def test_first_order_convergence(within):
    """A springy joint and a damper against DOP853: halving h halves the error.

    The constraint acts on the points of both sides at the joint in the world, its damper on their relative velocity.
    """
    K, B = 1e3, 10.0

    def rate(t, y):
        q, v = y[:3], y[3:]
        J = np.array([[1.0, 0.0, -q[1]], [0.0, 1.0, 1.0 + q[0]]])
        gap = np.array([1.0 + q[0] - np.cos(q[2]), q[1] + np.sin(q[2])])
        return np.concatenate([v, [1.0, 1.0, 10.0] * (J.T @ (-K * gap - B * (J @ v))) + [0.0, -G, 0.0]])

    exact = solve_ivp(rate, (0.0, 1.0), np.zeros(6), method="DOP853", rtol=1e-10, atol=1e-12).y[:3, -1]
    errors = []
    for h in (4e-3, 2e-3, 1e-3):
        sim = simulator(scenes.pendulum(K, B), h)
        errors.append(np.abs(run(sim, sim.state(), round(1 / h))[0][-1, 0] - exact).max())
    for coarse, fine in itertools.pairwise(errors):
        within(f"compliant: order, |log2 {coarse:.1e}/{fine:.1e} - 1|", abs(np.log2(coarse / fine) - 1.0), 0.1)


def test_stop_restitution_follows_from_the_implicit_step(within):
    """K = 1e12 without damping: dead at h = 1e-5, elastic towards h = 1e-8, as the linear recursion says (Fig. 6)."""
    inertia, omega = 1.004, -4.0
    for h in (1e-5, 1e-6, 1e-7):
        sim = simulator(scenes.pendulum_with_stop(1e12), h)
        steps = round(4e-6 / h) + 20
        v = run(sim, sim.state([2 * h * abs(omega)], [omega]), steps)[1][-1, 0, 0]
        x, rate = 2 * h * abs(omega), omega
        for _ in range(steps):
            free = rate - h * G * x / inertia
            held = (inertia * free - h * 1e12 * x) / (inertia + h * h * 1e12)
            rate = max(free, held) if x <= 0 or x + h * free < 0 else free
            x += h * rate
        within(f"compliant: stop, h = {h:g}: |v/|v0| - recursion|", abs(v - rate) / abs(omega), 2e-3)


# Redundancy ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("stiffness", "spread"), [(1e6, 1e-9), (1e10, 1e-6), (1e15, 1e-2)])
def test_redundant_constraints_share_evenly(stiffness, spread, within):
    """One constraint of K and B, or five of a fifth: the motion is the same and each carries a fifth. At K = 1e15 and
    h = 0.1 the share itself is only known to rounding over R = 1e-13."""
    found = []
    for copies in (1, 5):
        sim = simulator(scenes.pendulum(stiffness / copies, 1.0 / copies, copies), 0.1)
        found.append(run(sim, sim.state(), 40))
        force = sim._step.solver.solution.row_gamma.numpy()[0].reshape(copies, 3)
    within(f"compliant: 5 of K/5, K = {stiffness:g}: |dq|", np.abs(found[0][0] - found[1][0]).max(), 1e-11)
    within(f"compliant: share, K = {stiffness:g}", np.ptp(force, axis=0).max() / np.abs(force).max(), spread)


def test_repeating_a_stiff_constraint_changes_nothing(within):
    """The same stiff constraint given five times moves the pendulum by no more than 1/K does."""
    found = []
    for copies in (1, 5):
        sim = simulator(scenes.pendulum(1e12, copies=copies), 0.01)
        found.append(run(sim, sim.state(), 100)[0])
    within("compliant: the same constraint 5 times: |dq|", np.abs(found[0] - found[1]).max(), 1e-9)


# The systems of the paper ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("friction", [0.0, 0.125, 0.25])
def test_box_slides_down_the_incline(friction, within):
    """Distance after 1 s at h = 0.01 within 2 % of ½ g (sin − μ cos); the discrete sum is 1 % longer."""
    sim = simulator(scenes.box_on_incline(friction), 0.01)
    x = run(sim, sim.state(), 100)[0][-1, 0, 0]
    slope = np.radians(15.0)
    within(
        f"compliant: incline, mu = {friction}",
        abs(x / (0.5 * G * (np.sin(slope) - friction * np.cos(slope))) - 1),
        0.02,
    )


def test_box_sticks_to_the_incline(within):
    """At mu = 0.375 it creeps as fast as four dampers of 1e6/h let it, 6.3e-9 m/s."""
    sim = simulator(scenes.box_on_incline(0.375), 0.01)
    v = run(sim, sim.state(), 100)[1][-1, 0, 0]
    creep = G * np.sin(np.radians(15.0)) / (4 * 1e6 / 0.01)
    within("compliant: creep / prediction - 1", abs(v / creep - 1.0), 0.05)


def test_stack_of_spheres_stands(within):
    """Twenty steel-like spheres fall on each other and stand: nothing sideways, no speed, Hertz depths that add up."""
    sim = simulator(scenes.stack_of_spheres(20), 0.01, max_contacts=40)
    q, v = run(sim, sim.state(), 300)
    z = q[-1, 0].reshape(20, 7)
    mass = 1000 * 4 / 3 * np.pi * 0.1**3
    loads = mass * G * np.arange(20, 0, -1)
    flat, pair = scenes.MODULUS * np.sqrt(0.1), scenes.MODULUS / 2 * np.sqrt(0.05)
    depths = np.cumsum(np.append((loads[0] / flat) ** (2 / 3), (loads[1:] / pair) ** (2 / 3)))
    assert not z[:, :2].any()
    within("compliant: stack, speed [m/s]", np.abs(v[-1]).max(), 1e-9)
    within(
        "compliant: stack, depth / Hertz - 1", np.abs((0.1 + 0.2 * np.arange(20) - z[:, 2]) / depths - 1).max(), 1e-6
    )


def test_foundation_bears_like_a_bed_of_springs(within):
    """A cube rests at m g L/(E A) on any number of elements, each with its share; off-centre load leans on its side."""
    for count in (4, 25):
        sim = simulator(scenes.cube_on_foundation(count, 1e5), 0.01, max_contacts=count)
        state = sim.state()
        for _ in range(300):
            state = sim.step(state)
        contacts = sim.last_contacts
        within(f"compliant: foundation of {count}, depth", abs(0.5 - state.q.numpy()[0, 2] - 8 * G / 1e5), 1e-8)
        force = contacts.impulse[0, :, 2] / 0.01
        within(f"compliant: foundation of {count}, share", np.abs(force / (8 * G / count) - 1).max(), 1e-4)
        lean = sim.step(state, wrench=[[[0.0, 4.0, 0.0, 0.0, 0.0, 0.0]]])  # pushes the +x side down
        for _ in range(200):
            lean = sim.step(lean, wrench=[[[0.0, 4.0, 0.0, 0.0, 0.0, 0.0]]])
        contacts = sim.last_contacts
        right = contacts.point[0, :, 0] > 1e-9
        moment = (contacts.impulse[0, :, 2] * contacts.point[0, :, 0]).sum() / 0.01
        within(f"compliant: foundation of {count}, moment", abs(moment - 4.0), 1e-3)
        assert contacts.impulse[0, right, 2].mean() > contacts.impulse[0, ~right, 2].mean()


# Integrators, precision, worlds ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", [ws.Compliant(), ws.LCP()], ids=["Compliant", "LCP"])
@pytest.mark.parametrize(
    "integrator",
    [ws.ImplicitEuler(), ws.Midpoint(), ws.ExplicitEuler(), ws.Variational()],
    ids=lambda x: type(x).__name__,
)
def test_rests_under_every_integrator(integrator, solver):
    """A box set down on the floor stays there."""
    b = ws.ModelBuilder("rest")
    b.add_geom("plane")
    b.add_body("box", pose=[0.0, 0.0, 0.1])
    b.add_joint("box", "free")
    b.add_geom("box", [0.1, 0.1, 0.1], body="box")
    sim = ws.Simulator(b.build(), dt=0.01, integrator=integrator, solver=solver, dtype="float64", device="cpu")
    trajectory = sim.rollout(sim.state(), steps=50)
    assert not trajectory.diagnostics["flags"].numpy().any()
    assert np.abs(trajectory.q.numpy()[-1, 0, :3] - [0.0, 0.0, 0.1]).max() < 2e-3
    assert np.abs(trajectory.v.numpy()[-1, 0]).max() < 0.11  # one step of gravity, where velocities lie between steps


def test_float32_holds_a_box():
    """In float32 a box of usual stiffness slides to rest without a flag, as far as in float64."""
    ends = []
    for dtype in ("float32", "float64"):
        b = ws.ModelBuilder("slide")
        b.add_geom("plane", friction=0.3)
        b.add_body("box", pose=[0.0, 0.0, 0.1])
        b.add_joint("box", "free")
        b.add_geom("box", [0.1, 0.1, 0.1], body="box", friction=0.3, stiffness=1e5, dissipation_time=0.02)
        sim = simulator(b.build(), 0.005, dtype=dtype)
        q, _ = run(sim, sim.state(v=[0.5, 0.0, 0.0, 0.0, 0.0, 0.0]), 100)
        ends.append(q[-1, 0, 0])
    assert abs(ends[0] - ends[1]) < 1e-4


def thrown_worlds(device, worlds):
    """Boxes that start differently, all above the floor."""
    sim = simulator(scenes.thrown_body("box"), 0.01, worlds=worlds, device=device)
    v = np.zeros((worlds, 6))
    v[:, 0], v[:, 3] = np.arange(worlds), 0.3 * np.arange(worlds)
    return sim, v


def test_worlds_do_not_touch_each_other(device):
    """World 2 of 5 has the bits of a simulator that holds it alone."""
    sim, v = thrown_worlds(device, 5)
    many = sim.rollout(sim.state(v=v), steps=60)
    alone = simulator(sim.model, 0.01, device=device)
    one = alone.rollout(alone.state(v=v[2]), steps=60)
    assert np.array_equal(many.q.numpy()[:, 2], one.q.numpy()[:, 0])
    assert np.array_equal(many.v.numpy()[:, 2], one.v.numpy()[:, 0])


def test_a_nan_stays_in_its_world(device):
    """A NaN force flags its world and freezes it; the others have the bits that they would have had."""
    sim, v = thrown_worlds(device, 3)
    clean = dirty = sim.state(v=v)
    tau = np.zeros((3, 6))
    for k in range(30):
        tau[1, 0] = np.nan if k == 10 else 0.0
        dirty = sim.step(dirty, tau=tau)
    flags = dirty.memory["flags"].numpy()
    assert flags[1] & ws.NONFINITE and not flags[[0, 2]].any()
    assert np.isfinite(dirty.q.numpy()).all()
    for _ in range(30):
        clean = sim.step(clean)
    assert np.array_equal(clean.q.numpy()[[0, 2]], dirty.q.numpy()[[0, 2]])


def test_an_unsolved_world_is_flagged_alone(device):
    """Two factorisations do not solve contact: that world is flagged and goes on; the one in free flight, and its bits, do not
    notice."""
    model = scenes.thrown_body("box")
    sims = [
        ws.Simulator(model, n, 0.01, solver=ws.Compliant(max_iterations=2), dtype="float64", device=device)
        for n in (2, 1)
    ]
    q = np.stack([model.q0, model.q0 + np.array([0, 0, 10.0, 0, 0, 0, 0])])
    many, alone = sims[0].state(q), sims[1].state(q[1])
    for _ in range(20):
        many, alone = sims[0].step(many), sims[1].step(alone)
    flags = many.memory["flags"].numpy()
    assert flags[0] == ws.NOT_CONVERGED and flags[1] == 0
    assert np.isfinite(many.q.numpy()).all()
    assert np.array_equal(many.q.numpy()[1], alone.q.numpy()[0])
    error = sims[0].diagnostics.momentum_error.numpy()
    assert error[0] > 1e-11 and error[1] == 0.0


def test_worlds_of_other_stiffness_keep_their_bits(device):
    """Sixteen stiffnesses in one simulator: the world of K = 1e10 alone has the same bits, certificate included."""
    sim, v = thrown_worlds(device, 16)
    stiffness = np.full((16, 2), np.inf)
    stiffness[:, 1] = STIFFNESSES
    sim.parameters["geom_stiffness"] = stiffness
    many = sim.rollout(sim.state(v=np.tile(v[3], (16, 1))), steps=40)
    alone = simulator(sim.model, 0.01, device=device)
    alone.parameters["geom_stiffness"] = stiffness[10:11]
    one = alone.rollout(alone.state(v=v[3]), steps=40)
    assert np.array_equal(many.q.numpy()[:, 10], one.q.numpy()[:, 0])
    for key in ("iterations", "momentum_error", "contacts"):
        assert np.array_equal(many.diagnostics[key].numpy()[:, 10], one.diagnostics[key].numpy()[:, 0])


# Limits of what it is given ---------------------------------------------------------------------------------------------


def test_without_contacts():
    """Nothing touches, or nothing can: free fall to rounding, no factorisation, a certificate of 0."""
    lonely = ws.ModelBuilder("lonely")
    lonely.add_body("ball", pose=[0.0, 0.0, 1.0], mass=1.0, inertia=[0.1] * 3)
    lonely.add_joint("ball", "free")
    for model in (scenes.thrown_body("sphere"), lonely.build()):
        sim = simulator(model, 1e-3)
        trajectory = sim.rollout(sim.state(model.q0 + np.array([0, 0, 1.0, 0, 0, 0, 0])), steps=100)
        assert np.abs(trajectory.v.numpy()[-1, 0] - [0, 0, -0.1 * G, 0, 0, 0]).max() < 1e-14
        for key in ("iterations", "momentum_error", "contacts", "flags"):
            assert not trajectory.diagnostics[key].numpy().any(), key


def test_without_friction_nothing_drags():
    """μ = 0: tangential impulses are 0 to the bit, and the speed along the floor never changes."""
    b = ws.ModelBuilder("smooth")
    b.add_geom("plane", friction=0.0)
    b.add_body("box", pose=[0.0, 0.0, 0.1])
    b.add_joint("box", "free")
    b.add_geom("box", [0.1] * 3, body="box", friction=0.0)
    sim = simulator(b.build(), 0.01)
    state = sim.state(v=[1.0, 0.5, 0.0, 0.0, 0.0, 0.0])
    for _ in range(50):
        state = sim.step(state)
        assert not sim.last_contacts.impulse[0, :, :2].any()
    assert sim.last_contacts.count[0] == 4
    assert np.abs(state.v.numpy()[0] - [1.0, 0.5, 0.0, 0.0, 0.0, 0.0]).max() < 1e-9


@pytest.mark.parametrize("ratio", [1e-6, 1e3, 1e6])
def test_mass_ratios(ratio, within):
    """A ball of 1 kg under one `ratio` times its mass rests at the depths that the weights and K = 1e10 N/m say."""
    b = ws.ModelBuilder("ratio")
    b.add_geom("plane", dissipation_time=0.0)
    law = {"stiffness": 1e10, "dissipation_time": 0.0, "density": 0.0}
    for name, z, mass in (("light", 0.1, 1.0), ("heavy", 0.3, ratio)):
        b.add_body(name, pose=[0.0, 0.0, z], mass=mass, inertia=[4e-3 * mass] * 3)
        b.add_joint(name, "free")
        b.add_geom("sphere", [0.1], body=name, **law)
    sim = simulator(b.build(), 0.01)
    q, _ = run(sim, sim.state(), 400)
    z = q[-1, 0].reshape(2, 7)[:, 2]
    floor, between = (1.0 + ratio) * G / 1e10, ratio * G / (1e10 / 2)  # two equal springs in series
    depths = np.array([0.1 - z[0], 0.2 - (z[1] - z[0])])
    error = np.abs(depths - [floor, between]).max() / floor
    within(f"compliant: mass ratio {ratio:g}: depths", error, 1e-6)


def test_plane_cone(within):
    """In a vertical plane (x, z, θ) the cone has two sides: 1 m/s at μ = 0.3 ends after v²/(2μg), within a step's length."""
    b = ws.ModelBuilder("planar")
    b.add_geom("plane", friction=0.3, dissipation_time=0.0)
    b.add_body("box", pose=[0.0, 0.0, 0.1])
    for kind, axis in (("slide", [1.0, 0, 0]), ("slide", [0, 0, 1.0]), ("hinge", [0, 1.0, 0])):
        b.add_joint("box", kind, axis=axis)
    b.add_geom("box", [0.2, 0.1, 0.1], body="box", friction=0.3, stiffness=1e7, dissipation_time=0.0)
    h = 1e-3
    sim = simulator(b.build(), h)
    q, v = run(sim, sim.state(v=[1.0, 0.0, 0.0]), 500)
    within("compliant: planar box, slides", abs(q[-1, 0, 0] - 1.0 / (2 * 0.3 * G)), h * 1.0)
    within("compliant: planar box, rests", np.abs(v[-1]).max(), 1e-6)


# Refusals --------------------------------------------------------------------------------------------------------------

BAD_OPTIONS = {
    "tolerance": ({"tolerance": 0.0}, "tolerance"),
    "stiffness": ({"stiffness": np.inf}, "stiffness"),
    "damping": ({"tangential_damping": -1.0}, "tangential_damping"),
    "formulation": ({"formulation": "other"}, "formulation"),
    "the paper's programs": ({"formulation": "paper"}, "papers/ccs"),
    "iterations": ({"max_iterations": 0}, "max_iterations"),
}


@pytest.mark.parametrize(("options", "words"), BAD_OPTIONS.values(), ids=BAD_OPTIONS)
def test_bad_options_are_refused(options, words):
    """Every option out of range is named."""
    with pytest.raises(ValueError, match=words):
        ws.Compliant(**options)


def ball(**material) -> ws.Model:
    b = ws.ModelBuilder("ball")
    b.add_geom("plane", name="floor", **{k: v for k, v in material.items() if k == "friction"})
    b.add_body("ball", pose=[0.0, 0.0, 0.1])
    b.add_joint("ball", "free")
    b.add_geom("sphere", [0.1], body="ball", name="shell", **material)
    return b.build()


def test_materials_that_a_solver_lacks_are_refused():
    """Hertz under SAP and LCP, Hertz against a stiffness, Hertz with gradients, restitution here: named and explained."""
    for solver in (ws.SAP(), ws.LCP()):
        with pytest.raises(ValueError, match="'shell' has hertz_modulus 1e\\+09"):
            ws.Simulator(ball(hertz_modulus=1e9), dt=0.01, solver=solver, device="cpu")
    with pytest.raises(ValueError, match="no gradients yet"):
        simulator(ball(hertz_modulus=1e9), 0.01, requires_grad=True)
    with pytest.raises(ValueError, match="restitution"):
        simulator(ball(restitution=0.5), 0.01)
    b = ws.ModelBuilder("pair")
    b.add_geom("plane", name="mat", stiffness=1e4)
    b.add_body("ball", pose=[0.0, 0.0, 0.1])
    b.add_joint("ball", "free")
    b.add_geom("sphere", [0.1], body="ball", name="shell", hertz_modulus=1e9)
    with pytest.raises(ValueError, match="'shell' has a hertz_modulus and may touch 'mat'"):
        simulator(b.build(), 0.01)
    with pytest.raises(ws.ModelError, match="hertz_modulus needs a sphere"):
        b.add_geom("box", [0.1] * 3, hertz_modulus=1e9)


BAD_FOUNDATIONS = {
    "face": ({"face": "down"}, "unknown face"),
    "rows": ({"rows": 0}, "rows is 0"),
    "modulus": ({"modulus": -1.0}, "modulus"),
    "thickness": ({"thickness": np.nan}, "thickness"),
}


@pytest.mark.parametrize(("change", "words"), BAD_FOUNDATIONS.values(), ids=BAD_FOUNDATIONS)
def test_bad_foundations_are_refused(change, words):
    """Faces, counts and moduli that make no sense are named."""
    b = ws.ModelBuilder("bed")
    b.add_body("cube")
    b.add_joint("cube", "free")
    with pytest.raises(ws.ModelError, match="0 box geoms"):
        b.add_foundation("cube", modulus=1e6, thickness=0.1)
    b.add_geom("box", [0.1] * 3, body="cube")
    with pytest.raises(ws.ModelError, match=words):
        b.add_foundation("cube", **({"modulus": 1e6, "thickness": 0.1} | change))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_clutter_falls_without_a_flag(dtype, device):
    """A heap of 20 bodies, two worlds, half a second: every step is solved, in single precision, too."""
    sim = ws.Simulator(clutter(20), worlds=2, dtype=dtype, device=device, solver=ws.Compliant())
    state = sim.state()
    for _ in range(round(0.5 / sim.dt)):
        state = sim.step(state, out=state)
    assert not (state.memory["flags"].numpy() & ws.NOT_CONVERGED).any()
    assert sim.diagnostics.contacts.numpy().min() > 20


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_contact_that_bears_next_to_nothing(dtype, device):
    """A rod that slides on its tip in steps of 10 µs: impulses are 1e-4 of what the velocities would ask for and lie on the edge of
    their cones, where interior points creep. Every step of 64 starts is solved."""
    b = ws.ModelBuilder("rod", timestep=1e-5)
    b.add_geom("plane", friction=1.0)
    rod = b.add_body("rod", pose=[0, 0, 0.505], mass=1.0, inertia=[1 / 12, 1 / 12, 1e-4])
    for kind, axis in (("slide", [1, 0, 0]), ("slide", [0, 0, 1]), ("hinge", [0, 1, 0])):
        b.add_joint(rod, kind, axis=axis)
    b.add_geom("sphere", [0.005], body=rod, pose=[0, 0, -0.5], friction=1.0)
    sim = ws.Simulator(b.build(), worlds=64, dtype=dtype, device=device, solver=ws.Compliant())
    random, none = np.random.default_rng(0), np.zeros(64)
    angle = random.uniform(-1.2, 1.2, 64)
    q = np.stack([none, 0.5 * (np.cos(angle) - 1.0), angle], 1)
    v = np.stack([random.uniform(-3.0, 3.0, 64), none, random.uniform(-1.0, 1.0, 64)], 1)
    state = sim.state(q, v)
    for _ in range(40):
        state = sim.step(state, out=state)
    assert not (state.memory["flags"].numpy() & ws.NOT_CONVERGED).any()
