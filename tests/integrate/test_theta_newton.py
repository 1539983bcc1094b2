# SPDX-License-Identifier: Apache-2.0
"""The equations of the implicit free motion: their Jacobian, the rotations in it, and the roots that Newton's method finds."""

import functools

import mujoco
import numpy as np
import pytest
import warp as wp
from scipy.spatial.transform import Rotation

import warpsim as ws
from scenes.zoo import DRIVES, ZOO, random_states
from warpsim.device.copies import copy, scalar_types
from warpsim.kernels.integrate.theta import free_motion
from warpsim.kernels.tree import joints, passes

WORLDS = 6
SCHEMES = {"implicit Euler": ws.ImplicitEuler(), "midpoint": ws.Midpoint()}
EPSILON = 1e-3  # of five-point differences


@functools.cache
def equations_kernel():
    """A kernel that leaves r and dr/dv at `work.v` in `work.r` and `work.J`."""
    f, Topology = copy(free_motion, wp.float64), copy(passes.Topology, wp.float64)
    residual, linearise = f.residual, f.linearise

    @wp.kernel(module="test_theta_equations", enable_backward=False)
    def equations(
        topology: Topology,
        problem: f.Problem,
        work: f.Newton,
    ):
        w, passes = wp.tid()
        residual(topology, problem, w, passes, work)
        linearise(topology, problem, w, passes, work)

    return equations


def five_point(f, epsilon=EPSILON):
    """df/ds at 0."""
    return (8.0 * (f(epsilon) - f(-epsilon)) - (f(2.0 * epsilon) - f(-2.0 * epsilon))) / (12.0 * epsilon)


def test_derivatives_of_rotations(within):
    """dexp and dlog, right-handed: exp(r + dr) = exp(r) exp(dexp dr), and dlog is its inverse; 0 to pi, series and closed form."""
    t = scalar_types(wp.float64)
    f = copy(joints, wp.float64)
    rotation_dexp, rotation_dlog = f.rotation_dexp, f.rotation_dlog

    @wp.kernel(module="test_rotation_derivatives", enable_backward=False)
    def evaluate(r: wp.array(dtype=t.vec3), dexp: wp.array(dtype=t.mat33), dlog: wp.array(dtype=t.mat33)):
        i = wp.tid()
        dexp[i] = rotation_dexp(r[i])
        dlog[i] = rotation_dlog(r[i])

    rng = np.random.default_rng(0)
    axes = rng.normal(size=(60, 3))
    angles = np.concatenate([[0.0], np.geomspace(1e-9, 3.1, 58), [np.pi]])
    r = angles[:, None] * axes / np.linalg.norm(axes, axis=1, keepdims=True)
    dexp, dlog = (wp.zeros(len(r), dtype=t.mat33, device="cpu") for _ in range(2))
    wp.launch(evaluate, dim=len(r), inputs=[wp.array(r, dtype=t.vec3, device="cpu"), dexp, dlog], device="cpu")
    within("dexp dlog = 1", np.abs(dexp.numpy() @ dlog.numpy() - np.eye(3)).max(), 1e-12)
    for i, row in enumerate(r):
        back = Rotation.from_rotvec(row).inv()
        for k in range(3):
            difference = five_point(lambda s: (back * Rotation.from_rotvec(row + s * np.eye(3)[k])).as_rotvec())
            np.testing.assert_allclose(dexp.numpy()[i][:, k], difference, atol=1e-11)


class Equations:
    """The equations of one scheme for the zoo under controls, forces and wrenches: r(v) and J(v)."""

    def __init__(self, scheme, device, dt=0.01):
        m = mujoco.MjModel.from_xml_string(ZOO.replace("</mujoco>", DRIVES + "</mujoco>"))
        self.model = ws.load(m)
        options = dict(worlds=WORLDS, dt=dt, solver=ws.NoContact(), device=device, dtype="float64", integrator=scheme)
        self.sim = ws.Simulator(self.model, **options)
        self.q, self.v, _ = random_states(m, WORLDS, "float64", np.random.default_rng(5))
        rng = np.random.default_rng(6)
        self.forces = {
            "control": 0.3 * rng.normal(size=(WORLDS, m.nu)),
            "tau": rng.normal(size=(WORLDS, m.nv)),
            "wrench": rng.normal(size=(WORLDS, self.model.nbody, 6)),
        }

    def step(self) -> ws.State:
        return self.sim.step(self.sim.state(self.q, self.v), **self.forces)

    def at(self, v) -> tuple[np.ndarray, np.ndarray]:
        """r (worlds, nv) and J (worlds, nv, nv) at v, for the step that was last made."""
        step, stages = self.sim._step, self.sim._step.stages
        step.q.assign(self.q)
        step.v.assign(self.v)
        stages.newton.v.assign(v)
        inputs = [step.device_model.topology, stages.problem, stages.newton]
        stages.between.launch(equations_kernel(), self.model.ntree, inputs)
        J = stages.between.array((self.model.nv, self.model.nv), wp.float64)
        stages.between.expand_blocks(stages.newton.J, J)
        return stages.newton.r.numpy().copy(), J.numpy()


@pytest.fixture(scope="module", params=SCHEMES)
def equations(request, device) -> Equations:
    return Equations(SCHEMES[request.param], device)


def test_jacobian(equations, rng, within):
    """J = dr/dv against differences: every joint type, springs and dampers, all kinds of actuators, tau and wrenches."""
    equations.step()
    v = equations.v + 0.3 * rng.normal(size=equations.v.shape)
    _, J = equations.at(v)
    columns = [five_point(lambda s: equations.at(v + s * np.eye(v.shape[1])[k])[0]) for k in range(v.shape[1])]
    difference = np.stack(columns, axis=-1)
    within("Jacobian of the free motion", np.abs(J - difference).max() / np.abs(difference).max(), 1e-10)


def test_root(equations, within):
    """The free velocity v* solves the equations to round-off: ‖r‖ relative to ‖J v*‖, in units of sqrt(M_ii)."""
    equations.step()
    assert not equations.sim.diagnostics.flags.numpy().any()
    v_star = equations.sim._step.v_star.numpy().copy()
    r, J = equations.at(v_star)
    scale = np.sqrt(np.einsum("wii->wi", equations.sim.mass_matrix(equations.q).numpy()))
    momentum = np.einsum("wij,wj->wi", J, v_star)
    within("root of the free motion", np.linalg.norm(r / scale) / np.linalg.norm(momentum / scale), 1e-11)


def test_few_evaluations(equations, within):
    """With the exact Jacobian few evaluations are enough, also when the first factor is used again and again."""
    equations.step()
    within("evaluations of the equations per step", equations.sim._step.stages.newton.evaluations.numpy().max(), 10)


def test_tree_of_too_large_a_step_is_flagged(device):
    """Half a turn per step under a torque is not resolved: NOT_CONVERGED with the best iterate, finite."""
    equations = Equations(ws.Midpoint(max_evaluations=3), device, dt=0.3)
    state = equations.step()
    assert np.all(equations.sim.diagnostics.flags.numpy() == ws.NOT_CONVERGED)
    assert np.isfinite(state.v.numpy()).all()
