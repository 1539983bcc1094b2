# SPDX-License-Identifier: Apache-2.0
"""`papers/ccs/program.py` against the paper's programs in NumPy (`papers/ccs/literal.py`), and what is wrong with them."""

import numpy as np
import pytest

import warpsim as ws
from papers.ccs import literal
from papers.ccs.program import PrintedSimulator
from scenes import compliant as scenes

G = scenes.GRAVITY


def simulator(model, h, worlds=1, device="cpu", max_contacts=None, normal_weight=None, **options) -> ws.Simulator:
    solver = ws.Compliant(**options)
    return PrintedSimulator(model, worlds, h, solver, normal_weight, device=device, max_contacts=max_contacts)


def run(sim, state, steps):
    """(q, v) of world 0, every step solved in 25 factorisations."""
    trajectory = sim.rollout(state, steps=steps)
    assert not trajectory.diagnostics["flags"].numpy().any()
    assert trajectory.diagnostics["iterations"].numpy().max() <= 25
    return trajectory.q.numpy()[:, 0], trajectory.v.numpy()[:, 0]


class Step:
    """One step of `sim` from (q, v) in the paper's notation: M⁻¹, f, and the rows of its contacts and constraints."""

    def __init__(self, sim, q, v):
        sim.step(sim.state(q, v))
        step, self.h = sim._step, sim.dt
        self.solver, problem = step.solver, step.solver.problem
        self.M_inv, self.v0 = np.linalg.inv(sim.mass_matrix(q[None]).numpy()[0]), np.asarray(v)
        self.f = np.linalg.solve(self.M_inv, problem.v_star.numpy()[0] - v) / self.h
        self.gamma = self.solver.solution.gamma.numpy()[0] / self.h
        self.row_gamma = self.solver.solution.row_gamma.numpy()[0] / self.h
        self.problem = problem

    def _dense(self, J, support, size):
        """G (rows, nv) from values on supports."""
        G = np.zeros((len(J), len(self.v0)))
        for row, values, dofs, n in zip(G, J, support, size, strict=True):
            row[dofs[:n]] = values[:n]
        return G

    def _springs(self, G, K, R, v_hat, bend=None):
        """Rows of stiffness K: R = 1/(h²K + hB) says B, v̂ = −φ/(h + B/K) says φ."""
        stiff = 1.0 / (self.h * R)  # hK + B
        return literal.Rows(G, -v_hat * stiff / K, K, stiff - self.h * K, bend)

    def scalar_rows(self, K, which):
        """Scalar rows `which`, of stiffness K."""
        p = self.problem
        J, R, v_hat = (x.numpy()[0][which] for x in (p.row_J, p.row_R, p.row_v_hat))
        G = self._dense(J, p.row_support.numpy()[which], p.row_support_size.numpy()[which])
        return self._springs(G, K, R, v_hat, self.solver.bend.numpy()[0][which] / self.h)

    def contacts(self, K, damping):
        """The contacts that overlap, of normal stiffness K and tangential damping, and which they are."""
        p, count = self.problem, int(self.problem.contacts.numpy()[0])
        pair = p.contact_pair.numpy()[0, :count]
        J, R, v_hat, mu = (x.numpy()[0, :count] for x in (p.J, p.R, p.v_hat, p.mu))
        touches = v_hat[:, 2] >= 0.0
        support, size = p.support.numpy()[pair], p.support_size.numpy()[pair]
        G = [self._dense(J[:, axis], support, size)[touches] for axis in range(3)]
        normal = self._springs(G[2], K, R[touches, 2], v_hat[touches, 2])
        tangents = [literal.Rows(G[axis], 0.0, 0.0, damping) for axis in (0, 1)]
        return literal.Contacts(normal, *tangents, mu[touches]), touches


# Against the programs in NumPy -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("stiffness", [1e3, 1e15])
@pytest.mark.parametrize("h", [0.1, 0.01])
def test_pendulum_is_the_printed_scheme(stiffness, h, within):
    """Bilateral rows, eq. 36, 37, 53, 61: one second of the pendulum, Ġ terms included, and five copies of its joint."""
    printed = literal.pendulum(h, stiffness, 1.0, 1.0, bend=True)[0]
    for copies in (1, 5):
        model = scenes.pendulum(stiffness / copies, 1.0 / copies, copies, world_axes=True)
        sim = simulator(model, h)
        q, _ = run(sim, sim.state(), round(1 / h))
        within(
            f"paper: pendulum, K = {stiffness:g}, h = {h:g}, {copies} joints: |dq| [m]", np.abs(q - printed).max(), 1e-7
        )


@pytest.mark.parametrize("h", [1e-5, 1e-6])
def test_stop_is_the_printed_program(h, within):
    """Unilateral rows, eq. 83-85: the pendulum that meets a stop of K = 1e12."""
    sim, omega = simulator(scenes.pendulum_with_stop(1e12), h), -4.0
    steps = round(4e-6 / h) + 20
    v = run(sim, sim.state([2 * h * abs(omega)], [omega]), steps)[1][-1, 0]
    M_inv, theta, rate = np.array([[1.0 / 1.004]]), 2 * h * abs(omega), np.array([omega])
    for _ in range(steps):
        f = np.array([-G * np.sin(theta)])
        load = literal.unilateral(M_inv, f, rate, h, literal.Rows([[1.0]], theta, 1e12, 0.0)) if theta <= 0.0 else 0.0
        rate = rate + h * M_inv @ (f + load)
        theta += h * rate[0]
    within(f"paper: stop, h = {h:g}: |v - printed|/|v0|", abs(v - rate[0]) / abs(omega), 1e-5)


def ropes(count: int) -> ws.Model:
    """A ball on `count` taut ropes of 1 m whose upper ends are 0.1 m apart; a distance with an upper bound."""
    b = ws.ModelBuilder("ropes")
    b.add_body("ball", pose=[0.0, 0.0, -1.0], mass=1.0, inertia=[0.1] * 3)
    b.add_joint("ball", "free")
    for i in range(count):
        above = [0.1 * (i - (count - 1) / 2), 0.0, 0.0]
        law = {"stiffness": 1e4, "dissipation_time": 0.01}
        b.add_constraint("distance", "ball", "world", pose_a=[0.0] * 3, pose_b=above, length=(0.0, 0.999), **law)
    return b.build()


@pytest.mark.parametrize("count", [1, 2])
def test_stops_that_bend_are_the_printed_program(count, within):
    """Unilateral rows with Ġ ≠ 0: the ropes of a ball that swings, minimum norm and both Ġ terms of eq. 84."""
    s = Step(simulator(ropes(count), 0.01), np.array([0.0, 0, -1, 1, 0, 0, 0]), np.array([3.0, 0.5, 0.0, 0, 0, 0]))
    rows = s.scalar_rows(1e4, np.arange(count))
    assert np.abs(rows.bend).min() > 1.0
    printed = literal.unilateral(s.M_inv, s.f, s.v0, s.h, rows)
    assert printed.min() > 0.1
    within(f"paper: {count} ropes: |dλ|/|λ|", np.abs(s.row_gamma - printed).max() / np.abs(printed).max(), 1e-7)


def held_box(friction: float) -> ws.Model:
    """A box on four feet that slides on the floor, tied by two rods to a point above."""
    b = ws.ModelBuilder("held box")
    b.add_geom("plane", friction=friction, dissipation_time=0.0)
    b.add_body("box", pose=[0.0, 0.0, 0.06], mass=1.0, inertia=[0.01, 0.02, 0.025])
    b.add_joint("box", "free")
    for x in (-0.1, 0.1):
        for y in (-0.05, 0.05):
            foot = {"friction": friction, "stiffness": 1e4, "dissipation_time": 1e-3, "density": 0.0}
            b.add_geom("sphere", [0.02], body="box", pose=[x, y, -0.0401], **foot)
    rod = {"stiffness": 1e5, "dissipation_time": 1e-4}
    for end in (-0.1, 0.1):
        b.add_constraint("distance", "box", "world", pose_a=[end, 0.0, 0.02], pose_b=[0.0, 0.0, 0.5], **rod)
    return b.build()


@pytest.mark.parametrize("friction", [0.0, 0.3, 1.0])
@pytest.mark.parametrize(("weight", "damping"), [(100.0, 10.0), (1e4, 100.0)])
def test_contact_is_the_printed_program(friction, weight, damping, within):
    """Appendix A, d and e as printed: a box on four feet, sliding and turning, held by two rods that bend."""
    sim = simulator(held_box(friction), 0.01, normal_weight=weight, tangential_damping=damping)
    q = np.array([0.0, 0.0, 0.0600, 1.0, 0.0, 0.0, 0.0])
    s = Step(sim, q, np.array([0.6, -0.2, -0.01, 0.02, 0.03, 0.5]))
    held = s.scalar_rows(1e5, np.arange(2))
    contacts, touches = s.contacts(1e4, damping)
    assert touches.sum() == 4 and np.abs(held.bend).max() > 0.1
    λ, λ_b = literal.contact(s.M_inv, s.f, s.v0, s.h, contacts, held, weight)
    size = np.abs(λ).max()
    assert (λ[:, 2] > 0.1).sum() >= 2 and np.abs(λ_b).min() > 0.1
    ours = s.gamma[: len(touches)][touches]
    label = f"paper: box with μ = {friction}, ζ = {weight:g}"
    within(f"{label}: |dλ|/|λ|", np.abs(ours - λ).max() / size, 1e-6)
    within(f"{label}: rods", np.abs(s.row_gamma - λ_b).max() / np.abs(λ_b).max(), 1e-6)


# What comes of them ----------------------------------------------------------------------------------------------------


def test_printed_pendulum_gains_energy():
    """K = 1e15, h = 0.1: the explicit Ġ terms pass the energy of a full turn within 4 s; the default never does."""
    sim = simulator(scenes.pendulum(1e15, world_axes=True), 0.1)
    trajectory = sim.rollout(sim.state(), steps=40)
    energy = scenes.pendulum_energy(trajectory.q.numpy()[:, 0], trajectory.v.numpy()[:, 0])
    assert not np.nanmax(energy) < 2 * G
    sim = ws.Simulator(sim.model, 1, 0.1, solver=ws.Compliant(), dtype="float64", device="cpu")
    trajectory = sim.rollout(sim.state(), steps=200)
    assert scenes.pendulum_energy(trajectory.q.numpy()[:, 0], trajectory.v.numpy()[:, 0]).max() < 1.0


def slider(friction=0.2) -> ws.Model:
    """A point of 1 kg on the floor, K = 1e6, B = 1."""
    b = ws.ModelBuilder("slider")
    b.add_geom("plane", friction=friction, dissipation_time=0.0)
    b.add_body("point", pose=[0.0, 0.0, 0.1], mass=1.0, inertia=[0.1] * 3)
    for axis in np.eye(3):
        b.add_joint("point", "slide", axis=axis.tolist())
    b.add_geom("sphere", [0.1], body="point", density=0.0, friction=friction, stiffness=1e6, dissipation_time=1e-6)
    return b.build()


def test_small_weight_buys_friction():
    """ζ = 1/h, B_t = 1e6/h: a point that slides at 1 m/s hops by more than a metre; ζ = 100 (1 + hB_t/m)² mends it."""
    sim = simulator(slider(), 0.01)
    q, _ = run(sim, sim.state([0.0, 0.0, -1e-9], [1.0, 0.0, 0.0]), 100)
    assert q[:, 2].max() > 1.0
    sim = simulator(slider(), 0.01, normal_weight=100 * 11.0**2, tangential_damping=10 / 0.01)
    q, _ = run(sim, sim.state([0.0, 0.0, -1e-9], [1.0, 0.0, 0.0]), 100)
    assert q[:, 2].max() < 1e-6 and abs(q[-1, 0] - 0.2499) < 1e-3  # Coulomb, by steps of 0.01 s


def test_no_weight_gives_coulomb_on_the_incline():
    """The paper's box at μ = 0.125: below ζ ~ 1e-2 (hB_t)² it hops, above it loses its friction."""
    distances, heights = [], []
    for weight in (1e2, 1e16):
        sim = simulator(scenes.box_on_incline(0.125), 0.01, normal_weight=weight)
        q, _ = run(sim, sim.state(), 100)
        distances.append(q[-1, 0])
        heights.append(q[:, 2].max() - scenes.FOOT - 0.025)
    exact = 0.5 * G * (np.sin(np.radians(15)) - 0.125 * np.cos(np.radians(15)))
    assert heights[0] > 0.1 and heights[1] < 1e-6
    assert distances[1] > 1.2 * exact


def test_least_norm_is_not_complementarity():
    """Two stops that push alike, one 1 m away: least norm loads both, complementarity the one that touches (9.9 N, 0)."""
    assert np.allclose(literal.two_stops(convex=False), [5.0, 4.95], atol=0.01)
    assert np.allclose(literal.two_stops(convex=True), [9.9, 0.0], atol=0.01)


def test_convex_form_is_complementarity(within):
    """Over half-lines the default form is 0 ≤ λ ⟂ λ + Kφ1 + Bφ̇1 ≥ 0: `ws.solve_lcp` finds the same λ."""
    within("convex form against the LCP: |dλ|/|λ|", literal.complementarity_error(50), 1e-9)


def test_redundant_rows_need_the_symmetric_form():
    """One row twice at K = 1e15: eq. 61 splits the force of 0.18 N by chance, (S⁻¹ + W)λ = … into halves."""
    printed, symmetric = literal.same_row_twice("Y"), literal.same_row_twice("symmetric")
    assert np.ptp(printed) > 10.0 * abs(symmetric.sum())
    assert np.ptp(symmetric) < 0.01 * abs(symmetric.sum())


def test_slip_of_d_and_e():
    """f in place of G_bᵀC⁻¹c + f (eq. 197, 198): right for contacts that bilateral rows do not touch, 18 % off for some that
    they do."""
    errors = literal.printed_error(50)
    assert np.median(errors) < 1e-2 and np.quantile(errors, 0.9) > 0.1


def test_hertz_needs_the_tangent_stiffness(within):
    """φ = −d^{3/2}, K = E* √r (eq. 122, 123) with G = ∂φ/∂q goes to another motion; −⅔d and 3/2 E* √(r d) are of order 1."""
    exact = literal.hertz_exact()
    error = {form: [abs(literal.hertz(h, form) - exact) for h in (5e-4, 2.5e-4)] for form in ("printed", "tangent")}
    within("Hertz: order of the tangent form, |log2 - 1|", abs(np.log2(np.divide(*error["tangent"])) - 1.0), 0.15)
    assert error["printed"][1] > 0.95 * error["printed"][0] > 1e-3


def test_stack_stands():
    """Five spheres, eq. 121: they fall on each other and stand."""
    sim = simulator(scenes.stack_of_spheres(5), 0.01, max_contacts=10)
    q, v = run(sim, sim.state(), 300)
    assert np.abs(q[-1].reshape(5, 7)[:, 2] - (0.1 + 0.2 * np.arange(5))).max() < 1e-4
    assert np.abs(v[-1]).max() < 1e-5


# Worlds, refusals ------------------------------------------------------------------------------------------------------


def test_worlds_do_not_touch_each_other(device):
    """World 1 of 3 has the bits of a simulator that holds it alone, and a NaN in world 0 changes nothing there."""
    v = np.zeros((3, 6))
    v[:, 0] = [0.1, 0.4, 0.9]
    many = simulator(held_box(0.3), 0.01, 3, device, normal_weight=1e4, tangential_damping=100.0)
    alone = simulator(held_box(0.3), 0.01, 1, device, normal_weight=1e4, tangential_damping=100.0)
    together, one, tau = many.state(v=v), alone.state(v=v[1]), np.zeros((3, 6))
    for k in range(20):
        tau[0, 0] = np.nan if k == 5 else 0.0
        together, one = many.step(together, tau=tau), alone.step(one)
    assert np.array_equal(together.q.numpy()[1], one.q.numpy()[0])
    assert np.array_equal(together.v.numpy()[1], one.v.numpy()[0])
    flags = together.memory["flags"].numpy()
    assert flags[0] & ws.NONFINITE and not flags[1:].any()


def dry_hinge() -> ws.Model:
    b = ws.ModelBuilder("dry")
    b.add_body("arm", mass=1.0, inertia=[0.1] * 3)
    b.add_joint("arm", "hinge", friction=0.1)
    return b.build()


REFUSED = {
    "gradient": (slider, {"requires_grad": True}, "no gradients"),
    "float32": (slider, {"dtype": "float32"}, 'use dtype="float64"'),
    "integrator": (slider, {"integrator": ws.Midpoint()}, "SymplecticEuler"),
    "dry friction": (dry_hinge, {}, "dry friction"),
    "weight": (slider, {"normal_weight": 0.0}, "normal_weight"),
    "bend twice": (slider, {"solver": ws.Compliant(jdot=True)}, "jdot=False"),
    "another solver": (slider, {"solver": ws.SAP()}, "ws.Compliant"),
}


@pytest.mark.parametrize(("model", "change", "words"), REFUSED.values(), ids=REFUSED)
def test_what_it_is_not_written_for_is_refused(model, change, words):
    """Gradients, float32, other schemes and other rows: named, with what to do."""
    with pytest.raises(ValueError, match=words):
        PrintedSimulator(model(), dt=0.01, device="cpu", **change)


def test_linearize_refuses_it():
    """`linearize` says that it covers the engine's form."""
    sim = simulator(slider(), 0.01)
    with pytest.raises(ValueError, match=r"linearize: .* no gradients"):
        sim.linearize(sim.state())
