# SPDX-License-Identifier: Apache-2.0
"""Every kind of scalar row: φ's Jacobian, and value, cost, gradient and Hessian of its impulse through it, by differences."""

import numpy as np
import pytest

import warpsim as ws
from scenes.box_law import run_box
from scenes.constraints import every_constraint
from warpsim.kernels.rows import kinds
from warpsim.kernels.rows.table import CONSTRAINT, TENDON


class Rows:
    """The rows of `every_constraint` in one world at (q, v), after a step of dt has filled them."""

    def __init__(self, dt=1e-3):
        self.model = every_constraint(screw=True)
        self.sim = ws.Simulator(self.model, dt=dt, dtype="float64", device="cpu")
        self.rows = self.sim._step.scalar_rows
        self.table = self.rows.of(TENDON, CONSTRAINT)
        self.kind = [(row.kind, row.side) for row in self.rows.row_list]

    def at(self, q, v):
        self.sim.step(self.sim.state(q, v))
        J = np.zeros((self.rows.count, self.model.nv))
        values = self.rows.rows.J.numpy()[0]
        for k, n in enumerate(self.rows.support_size):
            J[k, self.rows.support[k, :n]] = values[k, :n]
        law = [getattr(self.rows.rows, key).numpy()[0].copy() for key in ("R", "v_hat", "lower", "upper")]
        return self.rows.phi.numpy()[0].copy(), J, law


def random_state(model, rng):
    """A pose about the initial one, quaternions turned by some 30 degrees, and velocities of 1."""
    q = model.q0 + 0.2 * rng.normal(size=model.nq)
    for start in (6, 10):
        q[start : start + 4] /= np.linalg.norm(q[start : start + 4])
    return q, rng.normal(size=model.nv)


def test_every_kind_is_there():
    """The scene has rows of every kind, and both sides of stops."""
    kinds_found = set(Rows().kind)
    assert {kind for kind, _ in kinds_found} == set(kinds.NAMES)
    assert {("stop", 1.0), ("stop", -1.0), ("reach", 1.0), ("reach", -1.0)} <= kinds_found


def test_jacobians_are_the_differences_of_the_errors(rng):
    """∂φ/∂q along each degree of freedom, on the manifold, to 1e-7: with v0 = ±e_d the rows hold φ(q ⊕ h v0) − h J v0."""
    step = 1e-6
    r = Rows(dt=step)
    q, _ = random_state(r.model, rng)
    _, J, _ = r.at(q, np.zeros(r.model.nv))
    difference = np.zeros((len(r.table), r.model.nv))
    for d in range(r.model.nv):
        up, down = (r.at(q, sign * np.eye(r.model.nv)[d])[0] for sign in (1, -1))
        difference[:, d] = (up - down)[r.table] / (2 * step) + J[r.table][:, d]
    error = np.abs(difference - J[r.table]).max(axis=1)
    assert error.max() < 1e-7, dict(zip(r.table, error, strict=True))
    assert (np.abs(J[r.table]).max(axis=1) > 1e-2).all()


def cost(J, law, v):
    """ℓ, γ and G of the rows at v, and y."""
    R, v_hat, lower, upper = law
    rate = J @ v - v_hat
    gamma, value, G = run_box(rate, R, lower, upper)
    return value.sum(), gamma, G, -rate / R


@pytest.mark.parametrize("seed", range(5))
def test_gradient_and_hessian_of_every_row(seed):
    """−∂ℓ/∂v = Jᵀγ and ∂²ℓ/∂v² = JᵀGJ by central differences to 1e-7 relative, row by row, away from the corners."""
    rng = np.random.default_rng(seed)
    r = Rows()
    q, v0 = random_state(r.model, rng)
    _, J, law = r.at(q, v0)
    seen = 0
    for k in np.flatnonzero(law[0] > 0):
        row = [x[k : k + 1] for x in law]
        v = v0 + row[0] * rng.normal() * J[k] / (J[k] @ J[k])  # y of order 1 about v̂
        v += J[k] * (row[1] - J[k] @ v0) / (J[k] @ J[k])
        _, gamma, G, y = cost(J[k : k + 1], row, v)
        step = 1e-3 * row[0][0] * (1 + abs(y[0])) / np.abs(J[k]).max()
        if min(abs(y[0] - row[2][0]), abs(y[0] - row[3][0])) < 1e-2 * (1 + abs(y[0])):
            continue
        seen += 1
        gradient, hessian = np.zeros(r.model.nv), np.zeros((r.model.nv, r.model.nv))
        for d in range(r.model.nv):
            (up, g_up, _, _), (down, g_down, _, _) = (
                cost(J[k : k + 1], row, v + sign * step * np.eye(r.model.nv)[d]) for sign in (1, -1)
            )
            gradient[d] = -(up - down) / (2 * step)
            hessian[:, d] = -J[k] * (g_up - g_down) / (2 * step)
        scale = np.abs(J[k]).max() * (1 + abs(y[0]))
        assert np.abs(gradient - J[k] * gamma).max() < 1e-7 * scale
        assert np.abs(hessian - np.outer(J[k], J[k]) * G).max() < 1e-7 * np.abs(J[k]).max() ** 2 / row[0][0]
    assert seen >= 20


@pytest.mark.parametrize("seed", range(5))
def test_impulses_are_feasible_and_complementary(seed):
    """γ in [lower, upper] to the last bit; the slip v_c − v̂ + Rγ is 0 inside and has the right sign on a bound."""
    rng = np.random.default_rng(seed)
    r = Rows()
    q, v0 = random_state(r.model, rng)
    r.at(q, v0)
    active = r.rows.rows.R.numpy()[0] > 0
    _, J, law = r.at(q, v0)
    R, v_hat, lower, upper = (x[active] for x in law)
    solution = r.sim._step.solver.solution
    gamma, v = solution.row_gamma.numpy()[0][active], solution.v.numpy()[0]
    assert np.all(gamma >= lower) and np.all(gamma <= upper)
    rate = J[active] @ v - v_hat
    _, evaluated, _, _ = cost(J[active], (R, v_hat, lower, upper), v)
    slip = rate + R * evaluated
    tiny = 4e-16 * (np.abs(rate) + np.abs(R * evaluated))
    assert np.all(slip[evaluated < upper] >= -tiny[evaluated < upper])
    assert np.all(slip[evaluated > lower] <= tiny[evaluated > lower])
    assert np.all(solution.row_gamma.numpy()[0][~active] == 0)


def test_unloaded_laws_give_nothing(rng):
    """At φ = 0 and v_c = 0 a two-sided row gives no impulse; a stop out of reach, and a slack spring, are no rows."""
    model = every_constraint()
    sim = ws.Simulator(model, dt=1e-3, dtype="float64", device="cpu")
    sim.parameters["gravity"] = [0.0, 0.0, 0.0]
    sim.step(sim.state())
    rows = sim._step.scalar_rows
    R = rows.rows.R.numpy()[0]
    for k in rows.of(TENDON, CONSTRAINT):
        if rows.row_list[k].kind in ("reach", "stop"):
            assert R[k] == 0
        elif rows.row_list[k].kind == "position":
            assert R[k] > 0


def test_an_unknown_kind_is_an_error():
    """On the host it is named; on the device, where none can be, the world is flagged and stands still, whatever the row was."""
    with pytest.raises(ValueError, match="no kind of row is called 'gear'"):
        kinds.code("gear")
    rows = Rows()
    known = rows.rows.table.kind.numpy().copy()
    seen = {}
    for k in range(rows.rows.count):
        if seen.setdefault(rows.kind[k], k) == k:
            for wrong in (len(kinds.NAMES), 99, -1):
                rows.rows.table.kind.assign(np.where(np.arange(len(known)) == k, wrong, known))
                state = rows.sim.step(rows.sim.state())
                assert rows.sim.diagnostics.flags.numpy()[0] & ws.NONFINITE, (rows.kind[k], wrong)
                np.testing.assert_array_equal(state.q.numpy()[0], rows.model.q0)
    rows.rows.table.kind.assign(known)
    rows.sim.step(rows.sim.state())
    assert rows.sim.diagnostics.flags.numpy()[0] == 0
