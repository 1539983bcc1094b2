# SPDX-License-Identifier: Apache-2.0
"""DRNEA against the paper's formulas in body frames, its exact derivative, and the three root finders."""

from math import factorial

import mujoco
import numpy as np
import pytest
from scipy.linalg import logm

import warpsim as ws
from scenes.bodies import EVERY_JOINT, quaternion_matrix

H = 0.02  # [s] large, so that links turn by 0.1 rad and more in a step


def skew(a) -> np.ndarray:
    x, y, z = a
    return np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])


def adjoint(T) -> np.ndarray:
    """[Ad_T] of a 4x4 pose on (angular; linear) (paper, eq. 15)."""
    R, p = T[:3, :3], T[:3, 3]
    return np.block([[R, np.zeros((3, 3))], [skew(p) @ R, R]])


def dlog(xi) -> np.ndarray:
    """[dlog_xi] = sum_j B_j/j! ad^j (paper, eq. 13); enough terms for angles below 1 rad."""
    from scipy.special import bernoulli

    w, v = skew(xi[:3]), skew(xi[3:])
    ad, total, power = np.block([[w, np.zeros((3, 3))], [v, w]]), np.zeros((6, 6)), np.eye(6)
    for j, B in enumerate(bernoulli(40)):
        total += (-0.5 if j == 1 else B) / factorial(j) * power
        power = power @ ad
    return total


@pytest.fixture(scope="module")
def scene():
    """(MjModel, Model, q, v, control, force): the scene with every joint in a random state, driven by random forces."""
    compiled = mujoco.MjModel.from_xml_string(EVERY_JOINT)
    rng, q = np.random.default_rng(1), compiled.qpos0.copy()
    mujoco.mj_integratePos(compiled, q, 0.3 * rng.normal(size=compiled.nv), 1.0)
    return (
        compiled,
        ws.load(compiled),
        q,
        rng.normal(size=compiled.nv),
        rng.normal(size=3),
        rng.normal(size=compiled.nv),
    )


def started(scene, dtype="float64", **options):
    """A simulator whose step has begun at the scene's state, so that `_step.find_root(H)` finds the root."""
    _, model, q, v, control, tau = scene
    integrator = ws.Variational(**options)
    sim = ws.Simulator(model, dt=H, integrator=integrator, solver=ws.NoContact(), device="cpu", dtype=dtype)
    sim._stepper.set_forces(control[None], tau[None], None)
    sim._stepper.load(sim.state(q, v))
    sim._step.begin(H)
    return sim


def evaluate(sim, dq) -> np.ndarray:
    """DRNEA(dq), from a search of one evaluation that begins at dq."""
    step = sim._step
    step.work.dq.assign(np.atleast_2d(dq))
    step.search.max_evaluations = 1
    step.find_root(H, from_guess=False)
    return step.residual.numpy()[0].copy()


def body_poses(sim, q) -> np.ndarray:
    """(nbody, 4, 4) poses at the bodies' COM."""
    poses, model = sim.kinematics(q).numpy()[0], sim.model
    T = np.tile(np.eye(4), (model.nbody, 1, 1))
    T[:, :3, :3] = quaternion_matrix(poses[:, 3:])
    T[:, :3, 3] = poses[:, :3] + np.einsum("bij,bj->bi", T[:, :3, :3], model.body_com)
    return T


def paper_drnea(scene, sim, dq) -> tuple[np.ndarray, np.ndarray]:
    """DRNEA and M(q') v' from poses, matrix logarithms, the Bernoulli series and Jacobians."""
    compiled, model, q, v, _, _ = scene
    q_next = q.copy()
    mujoco.mj_integratePos(compiled, q_next, dq, 1.0)
    T, T_next = body_poses(sim, q), body_poses(sim, q_next)
    left, right = np.zeros(model.nv), np.zeros(model.nv)
    for b in range(model.nbody):
        dT = np.linalg.inv(T[b]) @ T_next[b]
        V_hat = logm(dT).real / H
        V = np.array([V_hat[2, 1], V_hat[0, 2], V_hat[1, 0], *V_hat[:3, 3]])
        G = np.zeros((6, 6))
        G[:3, :3], G[3:, 3:] = model.body_inertia[b], model.body_mass[b] * np.eye(3)
        mu = dlog(H * V).T @ G @ V
        for total, pose, configuration, wrench in ((left, T, q, mu), (right, T_next, q_next, adjoint(dT).T @ mu)):
            R = pose[b][:3, :3]
            J = sim.jacobian(configuration, b, model.body_com[b]).numpy()[0]
            total += np.concatenate([R.T @ J[:3], R.T @ J[3:]]).T @ wrench
    step, rest = sim._step, np.zeros(model.nv)
    rotor, damper = model.joint_armature / H * dq, step.damping.numpy()[0] / 2 * dq
    force = step.force.numpy()[0] - sim.inverse_dynamics(q, rest, rest).numpy()[0]
    force_next = step.force_next.numpy()[0] - sim.inverse_dynamics(q_next, rest, rest).numpy()[0]
    residual = left + rotor + damper - sim.mass_matrix(q).numpy()[0] @ v - H / 2 * force
    return residual, right + rotor - damper + H / 2 * force_next


def test_drnea_is_the_papers_formula(scene, within):
    """The residual, summed in world axes from dq alone, equals that of algorithm 2 in body frames, also far from the root."""
    sim = started(scene, guess="current")
    rng = np.random.default_rng(3)
    for size in (0.0, 0.02, 0.2):
        dq = size * rng.normal(size=sim.model.nv)
        expected, _ = paper_drnea(scene, sim, dq)
        within(f"DRNEA at |dq| {size:g}", np.abs(evaluate(sim, dq) - expected).max() / np.abs(expected).max(), 1e-12)


@pytest.mark.parametrize("root_finder", ["riqn", "newton", "broyden"])
def test_root_and_its_momentum(scene, root_finder, within):
    """At the root the paper's DRNEA vanishes, and M(q') v' is the paper's momentum at the end; all finders find the same."""
    sim = started(scene, root_finder=root_finder, tolerance=1e-15)
    step = sim._step
    step.find_root(H)
    step.end(H)
    residual, momentum = paper_drnea(scene, sim, step.work.dq.numpy()[0])
    found = sim.mass_matrix(step.q.numpy()[0]).numpy()[0] @ step.v.numpy()[0]
    scale = np.abs(momentum).max()
    within(f"{root_finder}: DRNEA at the root", np.abs(residual).max() / scale, 1e-12)
    within(f"{root_finder}: momentum at the end", np.abs(found - momentum).max() / scale, 1e-12)
    assert not step.root.status.numpy().any()


def test_root_with_an_impulse(scene, within):
    """With an impulse on the right-hand side the search goes on from the last root to DRNEA(dq) = impulse."""
    sim = started(scene, tolerance=1e-14)
    step = sim._step
    step.find_root(H)
    impulse = 0.1 * np.random.default_rng(7).normal(size=sim.model.nv)
    step.impulse.assign(impulse[None])
    step.find_root(H, from_guess=False)
    residual, _ = paper_drnea(scene, sim, step.work.dq.numpy()[0])
    within("DRNEA = impulse", np.abs(residual - impulse).max() / np.abs(impulse).max(), 1e-11)


def test_newton_uses_the_exact_derivative(scene, within):
    """One Newton step from a displacement off the root equals -J^-1 f with J by central differences."""
    sim = started(scene, root_finder="newton", guess="current")
    nv, step = sim.model.nv, 1e-5
    dq = 0.1 * np.random.default_rng(5).normal(size=nv)
    f = evaluate(sim, dq)
    columns = [evaluate(sim, dq + step * e) - evaluate(sim, dq - step * e) for e in np.eye(nv)]
    expected = dq - np.linalg.solve(np.array(columns).T / (2 * step), f)
    sim._step.work.dq.assign(dq[None])
    sim._step.search.max_evaluations, sim._step.search.tolerance = 2, 1e-30
    sim._step.find_root(H, from_guess=False)
    found = sim._step.work.dq.numpy()[0]
    within("Newton step", np.abs(found - expected).max() / np.abs(expected - dq).max(), 1e-8)


def errors(scene, root_finder, guess, count) -> np.ndarray:
    """Relative residual after 1 .. count evaluations."""
    return np.array(
        [
            step_error(started(scene, root_finder=root_finder, guess=guess, tolerance=1e-30, max_iterations=k))
            for k in range(1, count + 1)
        ]
    )


def step_error(sim) -> float:
    sim._step.find_root(H)
    return float(sim._step.root.error.numpy().max())


def test_orders_of_convergence(scene):
    """RIQN contracts by a constant factor, Broyden faster, Newton quadratically; better guesses start closer."""
    riqn, newton, broyden = (errors(scene, finder, "current", 5) for finder in ("riqn", "newton", "broyden"))
    contraction = riqn[2:] / riqn[1:-1]
    assert contraction.max() < 0.1 and contraction.max() / contraction.min() < 4
    assert newton[2] < 10 * newton[1] ** 2 and newton[3] < 10 * newton[2] ** 2 and newton[4] < 1e-14
    assert broyden[4] < 0.2 * riqn[4]
    starts = [errors(scene, "riqn", guess, 1)[0] for guess in ("current", "euler", "dynamics")]
    assert starts[0] > 2 * starts[1] > 20 * starts[2]


@pytest.mark.parametrize("root_finder", ["riqn", "newton", "broyden"])
def test_float32_follows_float64(scene, root_finder, within):
    """In float32 the search ends at round-off, not flagged, with dq within it of the root in float64."""
    found = {}
    for dtype in ("float64", "float32"):
        sim = started(scene, dtype, root_finder=root_finder, tolerance=1e-15 if dtype == "float64" else None)
        sim._step.find_root(H)
        assert not sim._step.root.status.numpy().any()
        found[dtype] = sim._step.work.dq.numpy()[0].astype(float)
    error = np.abs(found["float32"] - found["float64"]).max() / np.abs(found["float64"]).max()
    within(f"{root_finder}: dq in float32", error, 1e-5)
