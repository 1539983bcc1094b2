# SPDX-License-Identifier: Apache-2.0
"""Coulomb's law as the default: no gliding, no sinking under heavy bodies, its certificate, and gradients that point the right way."""

import mujoco
import numpy as np
import pytest
import warp as wp

import warpsim as ws
from benchmarks.gpu import robots
from scenes.contact_problems import Exported
from scenes.examples import clutter

RADIUS = 0.05
LAGGED = ws.SAP(approximation="lagged")


def sliding_ball(mu: float, h: float) -> ws.Model:
    b = ws.ModelBuilder("ball", timestep=h)
    b.add_geom("plane", friction=mu)
    ball = b.add_body("ball", pose=[0, 0, RADIUS])
    b.add_joint(ball, "free")
    b.add_geom("sphere", [RADIUS], body=ball, friction=mu)
    return b.build()


@pytest.mark.parametrize("mu", [0.2, 1.0])
@pytest.mark.parametrize("h", [1e-2, 1e-3])
def test_a_sliding_ball_does_not_hover(device, mu, h):
    """At 1 m/s it stays below 1 µm above the floor, where the convex model hops 2 mm, and ends rolling at 5/7 m/s."""
    sim = ws.Simulator(sliding_ball(mu, h), dtype="float64", device=device, solver=LAGGED)
    path = sim.rollout(sim.state(v=[1, 0, 0, 0, 0, 0]), steps=round(0.3 / h))
    assert path.q.numpy()[:, 0, 2].max() - RADIUS < 1e-6
    assert path.q.numpy()[:, 0, 2].min() - RADIUS > -1e-4  # near-rigid contact's own penetration is 5.5e-5 at h = 0.01
    assert path.v.numpy()[-1, 0, 0] == pytest.approx(5 / 7, rel=1e-3)
    convex = ws.Simulator(sliding_ball(mu, h), dtype="float64", device=device, solver=ws.SAP(approximation="convex"))
    hop = convex.rollout(convex.state(v=[1, 0, 0, 0, 0, 0]), steps=round(0.3 / h)).q.numpy()[:, 0, 2].max() - RADIUS
    assert hop > 1e-3


def test_friction_obeys_coulomb_while_sliding(device):
    """A block that slides at μ = 0.3 loses μ g t of its speed, whatever its speed: the normal force is its weight."""
    mu, h, steps = 0.3, 0.01, 30
    b = ws.ModelBuilder("block", timestep=h)
    b.add_geom("plane", friction=mu)
    block = b.add_body("block", pose=[0, 0, 0.02])
    b.add_joint(block, "free")
    b.add_geom("box", [0.2, 0.2, 0.02], body=block, friction=mu)
    for speed in (2.0, 10.0):
        sim = ws.Simulator(b.build(), dtype="float64", device=device, solver=LAGGED)
        settled = sim.rollout(sim.state(), steps=100, every=100).final
        state = sim.state(q=settled.q, v=[speed, 0, 0, 0, 0, 0])
        state = sim.rollout(state, steps=steps, every=steps).final
        assert state.v.numpy()[0, 0] == pytest.approx(speed - mu * 9.81 * h * steps, rel=5e-3)


def pressed_ball(ratio: float) -> ws.Model:
    b = ws.ModelBuilder("press", timestep=0.01)
    b.add_geom("plane")
    for k, mass in enumerate((1.0, ratio)):
        body = b.add_body(f"ball_{k}", pose=[0, 0, RADIUS * (2 * k + 1)], mass=mass, inertia=[1e-3 * mass] * 3)
        b.add_joint(body, "slide", axis=[0, 0, 1])
        b.add_geom("sphere", [RADIUS], body=body)
    return b.build()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_light_ball_under_a_heavy_one_does_not_sink(device, dtype):
    """1:1000 in mass: it sinks less than 0.5 % of its half-height, where β = 1 alone lets it sink by 20 %."""
    depth = {}
    for name, supported in (("own", False), ("supported", True)):
        sim = ws.Simulator(pressed_ball(1000.0), dtype=dtype, device=device, solver=ws.SAP(supported_load=supported))
        end = sim.rollout(sim.state(), steps=300, every=300).final
        depth[name] = -end.q.numpy()[0, 0]
        assert end.memory["flags"].numpy()[0] == 0
    assert 0 < depth["supported"] < 5e-3 * RADIUS and depth["own"] > 5e-3


def test_a_million_times_heavier(device):
    """1:10⁶ in float64 at 5 ms: less than 0.5 % of the half-height, unflagged."""
    model = pressed_ball(1e6)
    sim = ws.Simulator(model, dt=0.005, dtype="float64", device=device)
    end = sim.rollout(sim.state(), steps=600, every=600).final
    assert 0 < -end.q.numpy()[0, 0] < 5e-3 * RADIUS
    assert end.memory["flags"].numpy()[0] == 0


def test_lagged_clutter_settles_and_is_certified(device):
    """Spheres and boxes: every step is certified or flagged, 98 % certified; penetration ends below 0.5 mm."""
    sim = ws.Simulator(clutter(20), device=device, dtype="float64")
    path = sim.rollout(sim.state(), steps=300)
    d = {name: x.numpy() for name, x in path.diagnostics.items()}
    missed = d["momentum_error"] > 1e-6
    assert missed.mean() <= 0.02 and (((d["flags"] & ws.NOT_CONVERGED) != 0) | ~missed).all()
    assert d["lag_error"][~missed].max() < 1e-3
    assert sim.last_contacts.phi.min() > -5e-4


def coulomb_miss(sim) -> float:
    """How far the contacts of the last step of world 0 are from Coulomb's law [m/s], from the arrays of the problem alone."""
    problem, solution = sim._step.solver.problem, sim._step.solver.solution
    count = problem.contacts.numpy()[0]
    gamma, R, mu, v_hat, load, least = (
        x.numpy()[0, :count].astype(float)
        for x in (solution.gamma, problem.R, problem.mu, problem.v_hat, problem.load, problem.least)
    )
    J, v = problem.J.numpy()[0, :count], solution.v.numpy()[0]
    pair, support, size = (x.numpy() for x in (problem.contact_pair, problem.support, problem.support_size))
    worst = 0.0
    for c in range(count):
        dofs = support[pair[0, c], : size[pair[0, c]]]
        u = J[c][:, : len(dofs)] @ v[dofs] - v_hat[c]
        n = gamma[c, 2]
        give = R[c, 2] * n
        if least[c] < 1 and n > load[c]:
            give = R[c, 2] * load[c] * (1 + np.log(n / load[c]))
            if n * least[c] > load[c]:
                give = R[c, 2] * (least[c] * n - load[c] * np.log(least[c]))
        assert n >= 0 and np.hypot(*gamma[c, :2]) <= mu[c] * n * (1 + 1e-6) + 1e-12
        worst = max(worst, abs(u[2] + give) if n > 0 else max(0.0, -u[2]))
        slip = u[:2] + R[c, 0] * gamma[c, :2]
        if np.hypot(*gamma[c, :2]) < mu[c] * n * (1 - 1e-6):
            worst = max(worst, np.hypot(*slip))
        elif n > 0 and mu[c] > 0:  # friction opposes the slip
            t = -gamma[c, :2] / (mu[c] * n)
            worst = max(worst, abs(t[0] * slip[1] - t[1] * slip[0]), -(slip @ t))
    return worst


@pytest.mark.parametrize("robot", ["ant", "humanoid"])
def test_contacts_obey_coulomb_within_the_lag_error(device, assets, robot):
    """Normal law, cone and direction of friction of every contact, by a check of its own: within a few times `lag_error`."""
    sim = ws.Simulator(ws.load(assets(robot)), device=device, dtype="float64")
    rng, state, touched = np.random.default_rng(3), sim.state(), 0
    for _ in range(300):
        sim.step(state, rng.uniform(-1, 1, (1, sim.model.nu)), out=state)
        if sim.diagnostics.momentum_error.numpy()[0] <= 1e-6:
            touched += sim.diagnostics.contacts.numpy()[0] > 0
            assert coulomb_miss(sim) <= 5 * sim.diagnostics.lag_error.numpy()[0] + 1e-9
    assert touched > 50


def test_lag_error_is_zero_of_solvers_of_another_law(device):
    """The convex law is solved as it is."""
    sim = ws.Simulator(sliding_ball(0.3, 0.01), device=device, solver=ws.SAP(approximation="convex"))
    sim.step(sim.state(v=[1, 0, 0, 0, 0, 0]))
    assert sim.diagnostics.lag_error.numpy()[0] == 0


@pytest.mark.parametrize("speed", [0.3, 2.0])
def test_slope_by_friction_is_that_of_the_motion(device, speed):
    """Where a ball that slides ends, by μ: the tape beside fine differences (1e-6), and coarse ones of 3 % (0.1)."""
    friction = np.linspace(0.2, 0.6, 5)
    model, steps = sliding_ball(0.4, 0.005), 40

    def run(values, tape=False):
        sim = ws.Simulator(
            model, worlds=5, dtype="float64", device=device, requires_grad=True, solver=ws.SAP(tolerance=1e-12)
        )
        sim.parameters["geom_friction"] = np.tile(values[:, None], (1, 2))
        state = sim.state(v=[speed, 0, 0, 0, 0, 0])
        if not tape:
            return sim.rollout(state, steps=steps, every=steps).final.q.numpy()[:, 0], None
        with wp.Tape() as record:
            for _ in range(steps):
                state = sim.step(state)
        seed = np.zeros(state.q.shape)
        seed[:, 0] = 1.0
        record.backward(grads={state.q: wp.array(seed, dtype=wp.float64, device=device)})
        return None, sim.parameters["geom_friction"].grad.numpy().sum(axis=1)

    slope = run(friction, tape=True)[1]
    for step, bar in ((1e-5, 1e-6), (3e-2, 0.1)):
        difference = (run(friction * (1 + step))[0] - run(friction * (1 - step))[0]) / (2 * step * friction)
        np.testing.assert_allclose(slope, difference, rtol=bar, atol=bar * np.abs(difference).max())


def test_conjugate_gradients_find_the_same(device):
    """Without a factor, where the system is not symmetric: BiCGSTAB, forward and backward."""
    found = {}
    for linear_solver in ("cholesky", "cg"):
        solver = ws.SAP(tolerance=1e-10, linear_solver=linear_solver)
        sim = ws.Simulator(pair_of_sliders(), dtype="float64", device=device, requires_grad=True, solver=solver)
        state = start = sim.state(v=[1, 0.3, 0, 0, 0, 0, 0.5, 0, 0, 0, 0, 0.2])
        with wp.Tape() as record:
            for _ in range(20):
                state = sim.step(state)
        seed = wp.array(np.ones(state.v.shape), dtype=wp.float64, device=device)
        record.backward(grads={state.v: seed})
        found[linear_solver] = state.q.numpy(), start.v.grad.numpy()
    for a, b in zip(*found.values(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-8)


def pair_of_sliders() -> ws.Model:
    """Two boxes that slide, one on the other: one island of two trees."""
    b = ws.ModelBuilder("pair", timestep=0.005)
    b.add_geom("plane", friction=0.3)
    for k, size in enumerate((0.2, 0.1)):
        body = b.add_body(f"box_{k}", pose=[0, 0, 0.05 + 0.1 * k])
        b.add_joint(body, "free")
        b.add_geom("box", [size, size, 0.05], body=body, friction=0.3)
    return b.build()


def test_load_goes_with_coulomb_alone():
    """The convex law has no supported load."""
    with pytest.raises(ValueError, match="supported_load=True goes with"):
        ws.SAP(approximation="convex", supported_load=True)


@pytest.mark.parametrize(
    ("option", "word"), [({"approximation": "exact"}, "approximation"), ({"supported_load": 1}, "supported_load")]
)
def test_bad_options_are_refused(option, word):
    """The message names the option."""
    with pytest.raises(ValueError, match=word):
        ws.SAP(**option)


def test_worlds_do_not_depend_on_each_other(device):
    """World i of many has the bits of the same world alone, with both corrections."""
    solver = ws.SAP(approximation="lagged", supported_load=True)
    speeds = np.linspace(-2, 2, 7)
    v = np.zeros((7, 6))
    v[:, 0] = speeds
    many = ws.Simulator(sliding_ball(0.5, 0.01), worlds=7, device=device, solver=solver)
    ends = many.rollout(many.state(v=v), steps=20, every=20).final.q.numpy()
    one = ws.Simulator(sliding_ball(0.5, 0.01), device=device, solver=solver)
    for w in (0, 3, 6):
        np.testing.assert_array_equal(one.rollout(one.state(v=v[w]), steps=20, every=20).final.q.numpy()[0], ends[w])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_wedged_body_is_not_squeezed_by_its_own_overlap(device, dtype):
    """A box in a slot that is 0.1 mm too narrow on either side bears no load: forces stay within twice those of contact that
    counts none, and it falls on, held by friction of that size."""
    b = ws.ModelBuilder("slot", timestep=0.005)
    b.add_geom("plane")
    for side in (1, -1):
        b.add_geom("box", [0.1, 1, 1], pose=[side * (0.2 - 1e-4), 0, 0.5], friction=0.3)
    box = b.add_body("box", pose=[0, 0, 0.5], mass=1.0, inertia=[0.01] * 3)
    b.add_joint(box, "free")
    b.add_geom("box", [0.1] * 3, body=box, friction=0.3)
    force = {}
    for supported in (False, True):
        sim = ws.Simulator(b.build(), dtype=dtype, device=device, solver=ws.SAP(supported_load=supported))
        sim.step(sim.state(v=[0, 0, -3, 0, 0, 0]))
        force[supported] = np.abs(sim.contact_force("geom").numpy()).max()
        assert sim.diagnostics.flags.numpy()[0] & ws.NOT_CONVERGED == 0
    assert 100 < force[True] < 2 * force[False]


def test_a_given_stiffness_is_kept_under_load(device):
    """A ball of given stiffness under 500 times its weight sinks by F/k to 15 %, on both sides of the near-rigid limit of R_n/w: no
    stiffness of its own is made another one by the load."""
    for stiffness in (1e6, 1.7e6, 1.9e6):
        b = ws.ModelBuilder("press", timestep=0.01)
        b.add_geom("plane", stiffness=stiffness)
        for k, mass in enumerate((1.0, 499.0)):
            body = b.add_body(f"ball_{k}", pose=[0, 0, RADIUS * (2 * k + 1)], mass=mass, inertia=[1e-3 * mass] * 3)
            b.add_joint(body, "slide", axis=[0, 0, 1])
            b.add_geom("sphere", [RADIUS], body=body, stiffness=stiffness)
        sim = ws.Simulator(b.build(), dtype="float64", device=device)
        end = sim.rollout(sim.state(), steps=400, every=400).final
        expected = 500 * 9.81 / (stiffness / 2)  # two of them in series
        assert -end.q.numpy()[0, 0] == pytest.approx(expected, rel=0.15)


def rod_on_its_tip(mu: float) -> ws.Model:
    """A slender rod of 1 m and 1 kg in a vertical plane that touches the floor with a ball of 5 mm at its lower end."""
    b = ws.ModelBuilder("rod", timestep=0.002)
    b.add_geom("plane", friction=mu)
    rod = b.add_body("rod", pose=[0, 0, 0.505], mass=1.0, inertia=[1 / 12, 1 / 12, 1e-4])
    for name, kind, axis in (("x", "slide", [1, 0, 0]), ("z", "slide", [0, 0, 1]), ("turn", "hinge", [0, 1, 0])):
        b.add_joint(rod, kind, axis=axis, name=name)
    b.add_geom("sphere", [0.005], body=rod, pose=[0, 0, -0.5], friction=mu)
    return b.build()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_painleve_s_rod(device, dtype):
    """A rod pushed on along its tip jams: friction presses the contact harder than it is pressed, and what slides has no solution near
    where it is. Every step of 64 starts is solved all the same."""
    sim = ws.Simulator(rod_on_its_tip(2.0), worlds=64, dtype=dtype, device=device)
    random = np.random.default_rng(0)
    angle, none = random.uniform(-1.2, 1.2, 64), np.zeros(64)
    q = np.stack([none, 0.5 * (np.cos(angle) - 1.0), angle], 1)
    v = np.stack([random.uniform(-3.0, 3.0, 64), none, random.uniform(-1.0, 1.0, 64)], 1)
    state, most = sim.state(q, v), 0
    for _ in range(60):
        state = sim.step(state, out=state)
        most = max(most, int(sim.diagnostics.iterations.numpy().max()))
    assert most > 8, "no step was hard"
    assert not (state.memory["flags"].numpy() & ws.NOT_CONVERGED).any()


def test_a_singular_system_has_no_gradient(device):
    """Where A + JᵀGJ is singular the gradient of that world, and of no other, is not a number."""
    sim = ws.Simulator(
        sliding_ball(0.5, 0.01), worlds=3, dtype="float64", device=device, solver=LAGGED, requires_grad=True
    )
    start = sim.state(v=np.tile([1.0, 0, 0, 0, 0, 0], (3, 1)))
    with wp.Tape() as tape:
        end = sim.step(start)
    tape.backward(grads={end.v: wp.ones_like(end.v)})
    solver = sim._stepper.adjoint.contact.solver
    assert np.isfinite(start.v.grad.numpy()).all()
    slope = solver.lag.slope.numpy().copy()
    slope[1] = np.nan  # what `keep_factor` says of a factor with a pivot of zero
    solver.lag.slope.assign(slope)
    ones = wp.ones((3, sim.model.nv), dtype=wp.float64, device=device)
    seed = wp.zeros_like(ones)
    solver.solve_adjoint(ones, seed)
    np.testing.assert_array_equal(np.isnan(seed.numpy()).all(1), [False, True, False])
    np.testing.assert_array_equal(np.isnan(seed.numpy()).any(1), [False, True, False])


def test_robots_thrown_into_the_ground_and_their_limits_are_solved():
    """Starts from which full steps go round in circles: of 2,048 worlds five to ten were given up before other starts got more and more time."""
    sim = robots.simulator("humanoid", "lagged", 2048, "float32")
    state, control = robots.thrown(sim, seed=5)
    sim.step(state, control, out=state)
    seen = sim.diagnostics.numpy()
    assert np.sum(seen["flags"] & ws.NOT_CONVERGED != 0) <= 2
    assert np.mean(seen["iterations"]) < 10


# What may touch something, so that Coulomb's law is solved where nothing else does: a model without pairs of geoms has the convex problem.
FAR_OFF = '<geom type="plane" size="1 1 1" contype="1"/><body pos="0 0 500"><freejoint/><geom size="0.1" contype="1" conaffinity="1"/></body>'
LIMITED = f"""<mujoco><option timestep="0.005"/><default><geom contype="0" conaffinity="2"/></default><worldbody>{FAR_OFF}
<body><joint name="a" axis="0 1 0" range="-60 60" damping="0.1"/><geom type="capsule" size="0.04" fromto="0 0 0 0.3 0 0"/>
<body pos="0.3 0 0"><joint name="b" axis="0 0 1" range="-60 60" frictionloss="2"/><geom type="capsule" size="0.03" fromto="0 0 0 0.3 0 0"/>
<body pos="0.3 0 0"><joint name="c" axis="0 1 0" range="-60 60"/><geom type="box" size="0.02 0.05 0.03"/></body></body></body></worldbody>
<actuator><position joint="a" kp="2000" kv="50" forcerange="-60 60"/><position joint="b" kp="500" kv="9" forcerange="-20 20"/>
<motor joint="c" gear="5"/></actuator></mujoco>"""


def test_islands_without_contacts_are_solved_as_by_the_convex_law():
    """What servos, limits and friction loss do where nothing touches is the same under both laws, and so is its certificate."""
    states, errors = [], []
    for approximation in ("lagged", "convex"):
        solver = ws.SAP(approximation=approximation)
        sim = ws.Simulator(
            ws.load(mujoco.MjModel.from_xml_string(LIMITED)), 64, device="cpu", dtype="float64", solver=solver
        )
        rng = np.random.default_rng(0)
        q, v = np.tile(sim.model.q0, (64, 1)), np.zeros((64, sim.model.nv))
        q[:, -3:], v[:, -3:] = rng.uniform(-1.5, 1.5, (64, 3)), rng.normal(0, 20.0, (64, 3))
        state = sim.state(q=q, v=v)
        for _ in range(5):
            state = sim.step(state, rng.uniform(-3, 3, (64, 3)))
        states.append(state.v.numpy())
        errors.append(sim.diagnostics.numpy()["momentum_error"])
    assert np.abs(states[0] - states[1]).max() < 1e-6 * np.abs(states[0]).max()
    assert np.max(errors) < 1e-5


def heavy_tip(ball: str) -> mujoco.MjModel:
    """Links of grams that carry tons, each with a servo: the condition of A is 1e8; and what else there is."""
    masses, lengths = (8.4e-5, 1.6e-4, 1.1e-3, 2.7e4), (1.0, 1.0, 1.4, 0.55)
    servos = ((4500, 530, -12, 92400), (595000, 4.9, -3300, 79), (2.5e7, 12600, -2.3e7, 3.3), (196, 79, -8e6, 2.6e6))
    bodies = "".join(
        f'<body pos="{x} 0 0"><joint name="j{k}" axis="0 1 0" range="-20 20"/><geom type="capsule" size="0.03" fromto="0 0 0 {lengths[k]} 0 0" '
        f'mass="{masses[k]}" contype="0" conaffinity="0"/>'
        for k, x in enumerate((0, *lengths[:3]))
    )
    actuators = "".join(
        f'<position joint="j{k}" kp="{kp}" kv="{kv}" forcerange="{low} {high}"/>'
        for k, (kp, kv, low, high) in enumerate(servos)
    )
    text = f'<mujoco><option timestep="0.005"/><worldbody>{bodies}{"</body>" * 4}{ball}</worldbody><actuator>{actuators}</actuator></mujoco>'
    return mujoco.MjModel.from_xml_string(text)


@pytest.mark.parametrize("ball", ["", FAR_OFF], ids=["convex", "coulomb"])
def test_the_certificate_of_an_ill_conditioned_tree_is_of_its_velocities(ball):
    """Momenta that were carried along the iterations are not A (v − v*) of the last v where A is nearly singular; what is claimed is recomputed."""
    rng, worlds = np.random.default_rng(1), 256
    sim = ws.Simulator(ws.load(heavy_tip(ball)), worlds, device="cpu", dtype="float32")
    q, v = np.tile(sim.model.q0, (worlds, 1)), np.zeros((worlds, sim.model.nv))
    q[:, :4] = rng.normal(size=(worlds, 4)) * rng.choice([0.1, 1, 3], (worlds, 1))
    v[:, :4] = rng.normal(size=(worlds, 4)) * 10 ** rng.uniform(-2, 2, (worlds, 1))
    sim.step(sim.state(q=q, v=v), rng.uniform(-2, 2, (worlds, 4)))
    seen, checked = sim.diagnostics.numpy(), 0
    for w in np.flatnonzero(seen["flags"] == 0):
        p = Exported(sim, w)
        assert p.momentum_error(p.v, p.generalised(p.gamma, p.row_gamma)) < 1e-3
        checked += 1
    assert checked > 100


def test_a_large_heap_without_a_factor():
    """216 bodies fall into a heap, some 500 contacts in one island solved with Krylov methods: every step meets the tolerance or is flagged,
    and hardly any is; velocities stay those of a fall."""
    b, rng, side = ws.ModelBuilder("heap"), np.random.default_rng(0), 6
    b.add_geom("plane", friction=0.5)
    for k in range(side**3):
        at = np.array([k % side, k // side % side, k // side**2])
        sway = [*(0.01 * rng.normal(size=2)), 0.0]
        name = b.add_body(f"b{k}", pose=[*(at * [0.25, 0.25, 0.22] + [0, 0, 0.12] + sway)])
        b.add_joint(name, "free")
        b.add_geom(*(("box", [0.1, 0.1, 0.1]) if k % 2 else ("sphere", [0.1])), body=name)
    sim = ws.Simulator(b.build(), dt=0.005, device="cpu", solver=ws.SAP(linear_solver="cg"))
    state, flagged = sim.state(), 0
    for _ in range(60):
        state = sim.step(state)
        found = sim.diagnostics.numpy()
        assert found["flags"][0] in (0, ws.NOT_CONVERGED)
        assert found["flags"][0] or found["momentum_error"][0] <= 1e-4
        flagged += int(found["flags"][0] != 0)
        state.memory["flags"].zero_()
    assert flagged <= 2
    assert np.abs(state.v.numpy()).max() < 20
