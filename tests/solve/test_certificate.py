# SPDX-License-Identifier: Apache-2.0
"""The certificate of a convex step recomputed in NumPy from the exported contact problem, by an implementation of its own.

    gamma = P(y), y = -R^-1 (J v - v_hat);  e_m = |D (A (v - v*) - J^T gamma)| / max(|D A v|, |D J^T gamma|)

Everything is recomputed in float64 from the arrays that the step leaves on the device.
"""

import numpy as np
import pytest

import warpsim as ws
from scenes.contact_problems import Exported, cone_projection

WORLDS = 6
TOLERANCE = {"float64": 1e-6, "float32": 1e-4}  # solver defaults
ROBOTS = ("ant", "humanoid")


def row_projection(p: Exported, row_u_c) -> np.ndarray:
    """Impulses of the scalar rows: -u_c/R clamped to the row's interval."""
    R, _, lower, upper = p.row
    return np.clip(-row_u_c / R, lower, upper)


@pytest.fixture(scope="module")
def tumbled(device, assets):
    """Robots thrown at the floor: `tumbled(name, dtype)` gives the worlds of fourteen steps on the way down."""
    cases = {}

    def get(name: str, dtype: str):
        if (name, dtype) not in cases:
            model = ws.load(assets(name))
            solver = ws.SAP(approximation="convex")
            sim = ws.Simulator(model, worlds=WORLDS, dt=0.005, device=device, dtype=dtype, solver=solver)
            rng = np.random.default_rng(4)
            q = np.tile(model.q0, (WORLDS, 1))
            q[:, 2] = 1.2
            q[:, 7:] = np.where(model.joint_limited, model.joint_range.mean(axis=1), 0.0)[1:]
            q[:, 3:7] += 0.5 * rng.normal(size=(WORLDS, 4))
            q[:, 3:7] /= np.linalg.norm(q[:, 3:7], axis=1, keepdims=True)
            state = sim.state(q, rng.normal(size=(WORLDS, model.nv)))
            control = (0.1 if name == "ant" else 1.0) * rng.uniform(-1, 1, size=(WORLDS, model.nu))
            rows = []
            for i in range(210):
                sim.step(state, control, out=state)
                if i % 15 == 14:
                    rows += [Exported(sim, w) for w in range(WORLDS)]
            assert not (state.memory["flags"].numpy() & ~ws.UNRESOLVED).any()  # limbs strike each other
            assert sum(len(p.gamma) for p in rows) > 40
            assert sum(len(p.row_gamma) for p in rows) > 10
            cases[name, dtype] = rows
        return cases[name, dtype]

    return get


every_case = pytest.mark.parametrize("name, dtype", [(n, d) for n in ROBOTS for d in TOLERANCE])


@pytest.mark.both_types
@every_case
def test_impulses_obey_the_constraint_laws(tumbled, name, dtype, within):
    """gamma = P(y) of an independent projection. float64: from v itself; float32: from the velocity u_c = J v - v_hat
    that the solver carries (a fresh J v has a rounding error that 1/R amplifies), and u_c is J v - v_hat to rounding.
    In sliding gamma is a small difference of y_n and mu_hat y_r, which costs digits: 1e-4 in float32."""
    worst = rounding = 0.0
    for p in tumbled(name, dtype):
        u_c, row_u_c = p.J @ p.v - p.v_hat, p.row_J @ p.v - p.row[1]
        # Rounding is relative to the velocities met on the way from the free motion to the solution: those that single
        # impulses give, too, since u_c is updated by W = J A^-1 J^T times their changes.
        largest = np.abs(p.v) + np.abs(p.v_star)
        rows = np.concatenate([p.J.reshape(-1, len(p.v)), p.row_J])
        impulses = np.concatenate([p.gamma.ravel(), p.row_gamma])
        alone = np.abs(rows @ np.linalg.solve(p.A, rows.T)) @ np.abs(impulses)
        speed = np.abs(p.J) @ largest + np.abs(p.v_hat) + alone[: p.gamma.size].reshape(p.gamma.shape)
        rounding = max(rounding, (np.abs(p.u_c - u_c) / np.maximum(speed, 1e-30)).max(initial=0.0))
        row_speed = np.abs(p.row_J) @ largest + np.abs(p.row[1]) + alone[p.gamma.size :]
        rounding = max(rounding, (np.abs(p.row_u_c - row_u_c) / np.maximum(row_speed, 1e-30)).max(initial=0.0))
        if dtype == "float32":
            u_c, row_u_c = p.u_c, p.row_u_c
        scale = max(np.abs(p.gamma).max(initial=0.0), np.abs(p.row_gamma).max(initial=0.0), 1e-30)
        worst = max(worst, np.abs(cone_projection(-u_c / p.R, p.R, p.mu) - p.gamma).max(initial=0.0) / scale)
        worst = max(worst, np.abs(row_projection(p, row_u_c) - p.row_gamma).max(initial=0.0) / scale)
    within(f"{dtype} {name}: |gamma - P(y)| relative", worst, {"float64": 1e-9, "float32": 1e-4}[dtype])
    within(f"{dtype} {name}: |u_c - (J v - v_hat)|, roundings", rounding / np.finfo(dtype).eps, 100)


@pytest.mark.both_types
@every_case
def test_momentum_error_is_what_the_step_reports(tumbled, name, dtype, within):
    """|D grad l| recomputed equals the reported e_m, and is below the tolerance, for every world and step."""
    worst = difference = 0.0
    for p in tumbled(name, dtype):
        error = p.momentum_error(p.v, p.generalised(p.gamma, p.row_gamma))
        worst, difference = max(worst, error), max(difference, abs(error - p.error))
    within(f"{dtype} {name}: recomputed e_m", worst, 1.05 * TOLERANCE[dtype])
    # The reported number is accumulated in the solver's precision from quantities as large as A v.
    within(f"{dtype} {name}: reported - recomputed e_m", difference, {"float64": 1e-12, "float32": 5e-6}[dtype])


@pytest.mark.both_types
@every_case
def test_a_perturbed_impulse_fails_the_certificate(tumbled, name, dtype):
    """Scaling, dropping or turning any one impulse that carries 5 % of the momentum is seen by the momentum balance, and
    by the constraint's law."""
    tolerance, rng, tried = TOLERANCE[dtype], np.random.default_rng(0), 0
    for p in tumbled(name, dtype):
        whole = max(p.scaled_norm(p.A @ p.v), 1e-30)
        for c, gamma_c in enumerate(p.gamma):
            if p.scaled_norm(p.J[c].T @ gamma_c) < 0.05 * whole:
                continue
            size = np.linalg.norm(gamma_c)
            for change in (1.05 * gamma_c, 0.0 * gamma_c, gamma_c + 0.05 * size * rng.normal(size=3)):
                gamma = p.gamma.copy()
                gamma[c] = change
                assert p.momentum_error(p.v, p.generalised(gamma, p.row_gamma)) > 5 * tolerance
                assert np.abs(gamma - cone_projection(-p.u_c / p.R, p.R, p.mu)).max() > 1e-2 * size
                tried += 1
        for k, gamma_k in enumerate(p.row_gamma):
            if p.scaled_norm(p.row_J[k] * gamma_k) > 0.05 * whole:
                row_gamma = p.row_gamma.copy()
                row_gamma[k] *= 1.05
                assert p.momentum_error(p.v, p.generalised(p.gamma, row_gamma)) > 5 * tolerance
                tried += 1
    assert tried > 25


@pytest.mark.both_types
@pytest.mark.parametrize("dtype", list(TOLERANCE))
def test_a_step_without_contact_has_error_zero(device, assets, dtype):
    """Nothing active: v = v*, e_m = 0, 0 iterations, no contacts, gamma = 0 in every slot (theory §3.3)."""
    sim = ws.Simulator(ws.load(assets("ant")), worlds=2, device=device, dtype=dtype)
    q = sim.model.q0.copy()
    q[2] = 5.0
    stops = sim.model.joint_range.mean(axis=1)
    q[7:] = stops[1:]
    sim.step(sim.state(q))
    d = sim.diagnostics.numpy()
    assert not d["iterations"].any() and not d["contacts"].any() and not d["momentum_error"].any()
    assert not (d["flags"] & ~ws.UNRESOLVED).any()
    solution = sim._step.solver.solution
    assert not solution.gamma.numpy().any() and not solution.row_gamma.numpy().any()
    np.testing.assert_array_equal(solution.v.numpy(), sim._step.v_star.numpy())
