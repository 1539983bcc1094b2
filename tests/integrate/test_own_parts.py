# SPDX-License-Identifier: Apache-2.0
"""A contact solver and an integrator of one's own, defined in this file alone, run wherever the library's run.

`Relaxation`: projected Gauss–Seidel on the impulses, a method that the library has not. `Leapfrog`: half a drift, forces and
contact at the middle, half a drift; its backward pass is the library's list of stages with one more.
"""

import dataclasses
import functools

import numpy as np
import pytest
import warp as wp

import tests.test_bad_quaternions as quaternions
import tests.test_unresolved as unresolved
import tests.test_worlds as worlds
import warpsim as ws
from scenes.bodies import body_on_plane, pendulum
from scenes.constraints import every_constraint
from scenes.step_differences import StepDifferences
from warpsim.device.copies import SCALARS, copy
from warpsim.differentiate.implicit import StepAdjoint, step_adjoint
from warpsim.differentiate.stage import Stage
from warpsim.integrate import Integrator
from warpsim.integrate.step import Step
from warpsim.kernels.solve import delassus, problem
from warpsim.kernels.tree import passes
from warpsim.solve.contact_model import ContactModel
from warpsim.solve.contact_solver import ContactSolver
from warpsim.solve.delassus import Delassus

# A contact solver --------------------------------------------------------------------------------------------------------


@functools.cache
def relax(real):
    """The kernel for a scalar type: sweeps over the rows of the dual, each contact projected onto its cone."""
    Dual, Problem, vec3 = copy(delassus.Dual, real), copy(problem.Problem, real), wp.types.vector(3, real)

    @wp.func
    def residual(p: Problem, dual: Dual, x: wp.array2d(dtype=real), w: int, i: int) -> real:
        slots = p.contact_pair.shape[1]
        source = dual.source[w, i]
        total = dual.u_star[w, i]
        for j in range(dual.count[w]):
            total += dual.W[w, i, j] * x[w, j]
        if source < 3 * slots:
            c = source // 3
            total += p.R[w, c][source - 3 * c] * x[w, i] - p.v_hat[w, c][source - 3 * c]
        else:
            total += p.row_R[w, source - 3 * slots] * x[w, i] - p.row_v_hat[w, source - 3 * slots]
        return total

    @wp.kernel(enable_backward=False, module="unique")
    def relax(
        p: Problem,
        dual: Dual,
        sweeps: int,
        tolerance: real,
        x: wp.array2d(dtype=real),
        iterations: wp.array(dtype=int),
        error: wp.array(dtype=real),
        status: wp.array(dtype=int),
    ):
        w = wp.tid()
        slots = p.contact_pair.shape[1]
        n = dual.count[w]
        for i in range(n):
            x[w, i] = real(0.0)
        largest = real(0.0)
        for i in range(n):
            largest = wp.max(largest, wp.abs(dual.u_star[w, i]))
        change = real(wp.inf)
        sweep = int(0)
        while sweep < sweeps and change > tolerance * largest:
            change = real(0.0)
            i = int(0)
            while i < n:
                source = dual.source[w, i]
                if source < 3 * slots:
                    c = source // 3
                    R = p.R[w, c]
                    mu = p.mu[w, c]
                    s = wp.max(R[0], R[2])
                    for m in range(3):
                        s += dual.W[w, i + m, i + m]
                    r = vec3(residual(p, dual, x, w, i), residual(p, dual, x, w, i + 1), residual(p, dual, x, w, i + 2))
                    y = vec3(x[w, i], x[w, i + 1], x[w, i + 2]) - r / s
                    t = wp.sqrt(y[0] * y[0] + y[1] * y[1])
                    if t > mu * y[2]:
                        normal = wp.max((y[2] + mu * t) / (real(1.0) + mu * mu), real(0.0))
                        scale = real(0.0)
                        if t > real(0.0):
                            scale = mu * normal / t
                        y = vec3(scale * y[0], scale * y[1], normal)
                    for m in range(3):
                        change = wp.max(change, s * wp.abs(y[m] - x[w, i + m]))
                        x[w, i + m] = y[m]
                    i += 3
                else:
                    k = source - 3 * slots
                    d = dual.W[w, i, i] + p.row_R[w, k]
                    f = wp.clamp(x[w, i] - residual(p, dual, x, w, i) / d, p.row_lower[w, k], p.row_upper[w, k])
                    change = wp.max(change, d * wp.abs(f - x[w, i]))
                    x[w, i] = f
                    i += 1
            sweep += 1
        iterations[w] = sweep
        status[w] = 0
        error[w] = real(0.0)
        if largest > real(0.0):
            error[w] = change / largest
        if not (change <= tolerance * largest):
            status[w] = 1

    return relax


class RelaxationSolver(ContactSolver):
    """Delassus matrix, sweeps, velocities."""

    def __init__(self, *size, options, **keywords):
        super().__init__(*size, **keywords)
        self.options, self.delassus = options, Delassus(self)
        self.x = self.zeros((self.worlds, self.delassus.size))

    def launch(self):
        s, o = self.solution, self.options
        self.delassus.form(self.problem)
        inputs = [self.problem, self.delassus.dual, o.sweeps, o.relative_tolerance(self.dtype), self.x]
        self.run(relax(self.scalar), self.worlds, [*inputs, s.iterations, s.momentum_error, s.status])
        self.delassus.recover(self.problem, self.x, s)
        return s


@dataclasses.dataclass(frozen=True)
class Relaxation(ContactModel):
    """Options of the solver above. Everything else is as for convex SAP, with a stiction that sweeps can resolve."""

    workspace = RelaxationSolver
    sweeps: int = 20000

    @property
    def regularisation(self) -> ws.SAP:
        return ws.SAP(sigma=0.1)

    def relative_tolerance(self, dtype: str) -> float:
        return {"float32": 1e-4, "float64": 1e-12}[dtype]


# An integrator -----------------------------------------------------------------------------------------------------------


class LeapfrogStep(Step):
    """q½ = q ⊕ h/2 v0; v by forces and contact at q½; q' = q½ ⊕ h/2 v."""

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.q_start = self.dynamics.array(self.model.nq, self.device_model.types.real)

    def drift(self, h: float) -> None:
        wp.copy(self.q_start, self.q)
        inputs = [self.device_model.topology, 0.5 * h, self.q_start, self.v, self.q]
        self.dynamics.launch(passes.integrate_position, self.model.nlink, inputs)

    def launch(self, h: float) -> None:
        self.drift(h)
        super().launch(h)

    def integrate(self, h: float) -> None:
        v = self.solver.solution.v
        inputs = [self.device_model.topology, 0.5 * h, self.q, v, self.q_next]
        self.dynamics.launch(passes.integrate_position, self.model.nlink, inputs)
        self.remember(h)
        wp.copy(self.q, self.q_start)  # what a world keeps whose step is not finite
        self.commit(h, self.q_next, v)


@dataclasses.dataclass(frozen=True)
class Leapfrog(Integrator):
    """Drift, kick, drift: order 2 where the forces do not depend on velocities."""

    def make_step(self, device_model, contact_model, max_contacts, make_solver=None) -> LeapfrogStep:
        return LeapfrogStep(device_model, contact_model, max_contacts, make_solver=make_solver)


class LeapfrogAdjoint(StepAdjoint):
    """One explicit function more than symplectic Euler: the first drift."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.q_node = self.dynamics.array(self.model.nq, self.device_model.types.real)

    def _repeat(self, h: float) -> None:
        self.step.drift(h)
        super()._repeat(h)

    def _take_solution(self) -> None:
        super()._take_solution()
        wp.copy(self.q_node, self.step.q)
        wp.copy(self.q, self.step.q_start)

    def stages(self, by_position: bool = False, regular: bool = False) -> list[Stage]:
        return [Stage(self._record_drift), *self.contact_stages(regular), *super().position_stages()]

    def position_stages(self) -> list[Stage]:
        return [Stage(self._record_drift), *super().position_stages()]

    def _record_drift(self, h: float) -> None:
        inputs = [self.device_model.topology, 0.5 * h, self.q, self.v0, self.q_node]
        self.dynamics.launch(passes.integrate_position, self.model.nlink, inputs)

    def _record_positions(self, h: float) -> None:
        super()._record_positions(0.5 * h)


step_adjoint.register(Leapfrog)(lambda integrator: LeapfrogAdjoint)


# They do what they are for -----------------------------------------------------------------------------------------------


def sliding_ball(rigid: bool = False) -> ws.Model:
    """A ball 1 mm deep in the floor."""
    material = {} if rigid else {"stiffness": 2e4, "dissipation_time": 0.02}
    return body_on_plane("sphere", [0.1], height=0.099, friction=0.4, **material)


START = np.array([0.4, -0.2, -0.5, 1.0, 2.0, -0.5])


@pytest.mark.parametrize("dtype", list(SCALARS))
def test_relaxation_finds_saps_solution(device, dtype):
    """Law: the regularised problem has one solution. A tumbling box with 100 N/mm, 60 steps: 1e-6 of SAP's velocity in
    float64, 1e-3 in float32."""
    options = {"friction": 0.4, "stiffness": 1e5, "dissipation_time": 0.01}
    model = body_on_plane("box", [0.1, 0.08, 0.06], height=0.07, tilt=0.3, **options)
    paths = []
    for solver in (
        ws.SAP(approximation="convex", tolerance=1e-10 if dtype == "float64" else None, sigma=0.1),
        Relaxation(),
    ):
        sim = ws.Simulator(model, dt=0.002, solver=solver, dtype=dtype, device=device)
        trajectory = sim.rollout(sim.state(v=START), steps=60)
        assert trajectory.diagnostics["contacts"].numpy().max() > 1
        assert not trajectory.diagnostics["flags"].numpy().any()
        paths.append(trajectory.v.numpy())
    np.testing.assert_allclose(paths[1], paths[0], atol=1e-6 if dtype == "float64" else 1e-3)


def test_leapfrog_is_of_second_order(device):
    """Law: the error of a swinging pendulum falls by 4 with half the step; symplectic Euler's by 2."""
    model = pendulum()

    def end(integrator, steps: int) -> float:
        sim = ws.Simulator(model, dt=0.4 / steps, integrator=integrator, dtype="float64", device=device)
        return float(sim.rollout(sim.state(q=[1.2]), steps=steps).q.numpy()[-1, 0, 0])

    exact = end(ws.Midpoint(), 6400)
    for integrator, order in ((Leapfrog(), 2.0), (ws.SymplecticEuler(), 1.0)):
        errors = [abs(end(integrator, steps) - exact) for steps in (50, 100)]
        assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.1)


# The grids of the library's own ------------------------------------------------------------------------------------------

OWN_SOLVERS = {"relaxation": Relaxation()}
OWN_INTEGRATORS = {"leapfrog": Leapfrog()}
SOLVERS = {k: v for k, v in quaternions.SOLVERS.items() if k != "paper"} | OWN_SOLVERS
INTEGRATORS = quaternions.INTEGRATORS | OWN_INTEGRATORS
GRID = [(s, i) for s in SOLVERS for i in INTEGRATORS if s in OWN_SOLVERS or i in OWN_INTEGRATORS]


@pytest.mark.parametrize("solver, integrator", GRID, ids=["-".join(case) for case in GRID])
@pytest.mark.parametrize("dtype", list(SCALARS))
def test_bad_quaternions(device, monkeypatch, solver, integrator, dtype):
    """The grid of tests/test_bad_quaternions.py."""
    monkeypatch.setattr(quaternions, "SOLVERS", SOLVERS)
    monkeypatch.setattr(quaternions, "INTEGRATORS", INTEGRATORS)
    quaternions.test_a_quaternion_that_is_no_rotation_flags_its_world_alone(device, solver, integrator, dtype)


@pytest.mark.parametrize("requires_grad", [False, True])
def test_memory(device, requires_grad):
    """The grid of tests/test_worlds.py."""
    worlds.test_bytes_per_world_is_what_a_simulator_holds(
        body_on_plane("sphere", [0.1]), device, requires_grad, Relaxation()
    )


@pytest.mark.parametrize("speed", [1000.0, 300.0])
@pytest.mark.parametrize("dtype", list(SCALARS))
def test_unresolved(device, dtype, speed):
    """The grid of tests/test_unresolved.py."""
    unresolved.test_a_fast_ball_at_a_thin_wall(device, dtype, Relaxation(), speed)


@pytest.mark.parametrize("solver, integrator", GRID, ids=["-".join(case) for case in GRID])
def test_gradients(device, solver, integrator):
    """Law: the gradient is the derivative. Of 1 and 10 steps, of the pair of both new parts 40, against central differences in
    float64, in sliding contact."""
    horizons = (1, 10, 40) if (solver, integrator) == ("relaxation", "leapfrog") else (1, 10)
    model = sliding_ball(rigid=SOLVERS[solver].kinks_at_touch)
    options = {"solver": SOLVERS[solver], "integrator": INTEGRATORS[integrator], "dtype": "float64", "device": device}
    sim = ws.Simulator(model, dt=0.002, requires_grad=True, **options)
    parameters = ("body_mass", "geom_friction")
    start = sim.state(v=[1.0, 0.3, -0.1, 0, 2.0, 0])
    check = ws.check_gradients(sim, start, horizons=horizons, parameters=parameters, entries=2, tolerance=2e-5)
    assert check.ok, str(check)


@pytest.mark.parametrize(
    "scene, solver, integrator",
    [("constraints", "sap", "leapfrog"), ("ball", "relaxation", "leapfrog"), ("ball", "relaxation", "midpoint")],
)
def test_jacobians(device, scene, solver, integrator):
    """Law: `linearize` has the derivatives of the step. Every kind of constraint, a ball that slides, against central
    differences to 1e-5."""
    model = every_constraint() if scene == "constraints" else sliding_ball()
    v = 0.1 * np.random.default_rng(3).standard_normal(model.nv) if scene == "constraints" else START[: model.nv]
    options = {"solver": SOLVERS[solver], "integrator": INTEGRATORS[integrator], "dtype": "float64", "device": device}
    sim = ws.Simulator(model, dt=0.002, requires_grad=True, **options)
    found = sim.linearize(sim.state(v=v), force_jacobian=True)
    errors = StepDifferences(model, model.q0, v, dt=0.002, **options).errors(found)
    assert max(errors.values()) < 1e-5, errors


class Unregistered(Integrator):
    """A step whose backward pass nobody has written."""

    def make_step(self, *arguments, **named) -> LeapfrogStep:
        return LeapfrogStep(*arguments, **named)


class Derived(ws.SymplecticEuler):
    """Another step than that of the scheme it derives from."""

    def make_step(self, *arguments, **named) -> LeapfrogStep:
        return LeapfrogStep(*arguments, **named)


@pytest.mark.parametrize("kind", [Unregistered, Derived])
def test_a_step_without_a_backward_pass(device, kind):
    """It steps; gradients and Jacobians are refused by name when the simulator is made, not inherited from another step."""
    sim = ws.Simulator(sliding_ball(), integrator=kind(), device=device)
    sim.step(sim.state())
    with pytest.raises(ValueError, match="linearize has no closed form"):
        sim.linearize(sim.state())
    with pytest.raises(ValueError, match="register a StepAdjoint"):
        ws.Simulator(sliding_ball(), integrator=kind(), device=device, requires_grad=True)


def test_a_contact_model_without_a_solver(device):
    """It is refused by what it lacks."""
    with pytest.raises(ValueError, match="ContactModel names no workspace"):
        ws.Simulator(sliding_ball(), solver=ContactModel(), device=device)
