# SPDX-License-Identifier: Apache-2.0
"""Every solver and integrator, and every gradient: one step and one gradient of each in float64 in `make test`, in both scalar types in CI.

float64 is compared with central differences, float32 with float64. The law of `Compliant` has a slope of friction that
amplifies what float32 rounds.
"""

import functools

import numpy as np
import pytest
import warp as wp

import warpsim as ws
from tests import selection
from warpsim.integrate.integrator import Integrator
from warpsim.solve.contact_model import ContactModel

SOLVERS = {
    "lagged": ws.SAP(),
    "convex": ws.SAP(approximation="convex"),
    "lcp": ws.LCP(),
    "compliant": ws.Compliant(),
    "none": ws.NoContact(),
    "mujoco": ws.MuJoCo(),
}
INTEGRATORS = {
    "explicit": ws.ExplicitEuler(),
    "symplectic": ws.SymplecticEuler(),
    "implicit": ws.ImplicitEuler(),
    "midpoint": ws.Midpoint(),
    "variational": ws.Variational(),
    "mujoco_euler": ws.MuJoCoEuler(),
    "mujoco_implicitfast": ws.MuJoCoImplicitFast(),
    "mujoco_rk4": ws.MuJoCoRK4(),
}
# Every solver and every integrator at least once.
PAIRS = [(solver, "symplectic") for solver in SOLVERS if solver != "mujoco"]
PAIRS += [("lagged", name) for name in ("explicit", "implicit", "midpoint", "variational")]
PAIRS += [("mujoco", name) for name in ("mujoco_euler", "mujoco_implicitfast", "mujoco_rk4")]
WITHOUT_GRADIENTS = {("mujoco", "mujoco_rk4")}  # refused, test_mujoco_schemes.py
WORLDS, DT = 2, 0.005
STEP_ERROR, GRADIENT_ERROR = 1e-5, 2e-4  # of float32, relative to the largest number
COMPLIANT_STEP_ERROR, COMPLIANT_GRADIENT_ERROR = 1e-3, 1e-2
ALL = pytest.mark.parametrize(("solver", "integrator"), PAIRS)
BOTH = pytest.mark.parametrize("dtype", selection.TYPES)
pytestmark = pytest.mark.both_types


@functools.cache
def cart() -> ws.Model:
    """A ball on a plane, pressed into it by 0.1 mm, that carries an arm with a motor."""
    b = ws.ModelBuilder("cart", timestep=DT)
    b.add_geom("plane")
    ball = b.add_body("ball", pose=[0, 0, 0.0999])
    b.add_joint(ball, "free")
    b.add_geom("sphere", [0.1], body=ball, density=1000.0)
    arm = b.add_body("arm", parent=ball, pose=[0, 0, 0.2])
    b.add_joint(arm, "hinge", name="elbow", axis=[0, 1, 0], damping=0.1)
    b.add_geom("capsule", [0.02, 0.1], body=arm, density=1000.0)
    b.add_actuator("elbow")
    return b.build()


def simulator(solver: str, integrator: str, dtype: str, **options) -> ws.Simulator:
    given = {"solver": SOLVERS[solver], "integrator": INTEGRATORS[integrator], "dtype": dtype, "dt": DT}
    return ws.Simulator(cart(), WORLDS, device="cpu", **given, **options)


def start(sim) -> tuple[ws.State, np.ndarray]:
    """The ball slides; the arm swings; controls differ from world to world."""
    v = np.tile([0.3, 0.1, -0.05, 0.2, -0.1, 0.1, 0.5], (WORLDS, 1))
    return sim.state(v=v), np.array([[0.1], [-0.2]])


@functools.cache
def velocities(solver: str, integrator: str, dtype: str) -> np.ndarray:
    """Velocities after one step."""
    sim = simulator(solver, integrator, dtype)
    state, control = start(sim)
    end = sim.step(state, control)
    assert not sim.diagnostics.flags.numpy().any()
    assert (sim.diagnostics.contacts.numpy() > 0).all() or solver == "none"
    return end.v.numpy()


@ALL
@BOTH
def test_one_step(solver, integrator, dtype, within):
    """No flag, so solved to the tolerance of the type; float32 ends where float64 does, to rounding."""
    found, expected = velocities(solver, integrator, dtype), velocities(solver, integrator, "float64")
    assert found.dtype == dtype and np.isfinite(found).all()
    difference = np.abs(found - expected).max() / np.abs(expected).max()
    within(
        f"one step, {solver}, {integrator}, {dtype}: from float64",
        difference,
        COMPLIANT_STEP_ERROR if solver == "compliant" else STEP_ERROR,
    )


@pytest.mark.always
def test_one_step_as_users_have_it(within):
    """In float32, in `make test` too: so its tests of the default settings find their kernels compiled."""
    found, expected = (velocities("lagged", "symplectic", dtype) for dtype in selection.TYPES)
    difference = np.abs(found - expected).max() / np.abs(expected).max()
    within("one step, lagged, symplectic, as users have it: from float64", difference, STEP_ERROR)


def weights(nv: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((WORLDS, nv))


@functools.cache
def gradients(solver: str, integrator: str, dtype: str) -> np.ndarray:
    """Gradient of a weighted sum of the velocities after one step by the velocities before it and the controls."""
    sim = simulator(solver, integrator, dtype, requires_grad=True)
    state, values = start(sim)
    control = wp.array(values, dtype=state.v.dtype, device="cpu", requires_grad=True)
    with wp.Tape() as tape:
        end = sim.step(state, control)
    tape.backward(grads={end.v: wp.array(weights(sim.model.nv), dtype=state.v.dtype, device="cpu")})
    return np.concatenate([state.v.grad.numpy(), control.grad.numpy()], axis=1)


@pytest.mark.parametrize(("solver", "integrator"), [pair for pair in PAIRS if pair not in WITHOUT_GRADIENTS])
@BOTH
def test_one_gradient(solver, integrator, dtype, within):
    """float64: as central differences by the controls; float32: as float64."""
    found, expected = gradients(solver, integrator, dtype), gradients(solver, integrator, "float64")
    assert found.dtype == dtype and np.isfinite(found).all()
    difference = np.abs(found - expected).max() / np.abs(expected).max()
    within(
        f"one gradient, {solver}, {integrator}, {dtype}: from float64",
        difference,
        COMPLIANT_GRADIENT_ERROR if solver == "compliant" else GRADIENT_ERROR,
    )
    if dtype == "float64":
        sim, h, ends = simulator(solver, integrator, dtype), 1e-4, []
        for sign in (1, -1):
            state, control = start(sim)
            ends.append(sim.step(state, control + sign * h).v.numpy())
        slopes = (weights(sim.model.nv) * (ends[0] - ends[1])).sum(axis=1) / (2 * h)
        difference = np.abs(found[:, -1] - slopes).max() / np.abs(slopes).max()
        within(f"one gradient, {solver}, {integrator}: from differences", difference, 1e-4)


def test_whole_runs_have_every_solver_integrator_and_gradient_in_both_types(request):
    """Of the tests that this run collected; `make test` has float64. A run of some files has what it was given."""
    if len({selection.function_of(item).partition("::")[0] for item in request.session.items}) < 200:
        pytest.skip("this run has some files of tests")
    items = [
        item
        for item in request.session.items
        if item.path.samefile(__file__) and item.originalname in ("test_one_step", "test_one_gradient")
    ]
    found = {
        (item.originalname, *(item.callspec.params[k] for k in ("solver", "integrator", "dtype"))) for item in items
    }
    types = (selection.QUICK,) if request.config.getoption("--quick") else selection.TYPES
    steps = {("test_one_step", *pair, dtype) for pair in PAIRS for dtype in types}
    slopes = {("test_one_gradient", *pair, dtype) for pair in PAIRS for dtype in types}
    refused = {("test_one_gradient", *pair, dtype) for pair in WITHOUT_GRADIENTS for dtype in types}
    assert found == (steps | slopes) - refused


@pytest.mark.parametrize(("base", "here"), [(ContactModel, SOLVERS), (Integrator, INTEGRATORS)])
def test_no_solver_and_no_integrator_is_missing(base, here):
    """Every public class of the package below its base is in a pair above."""
    public = [getattr(ws, name) for name in ws.__all__]
    known = {cls for cls in public if isinstance(cls, type) and issubclass(cls, base) and cls is not base}
    assert known == set(map(type, here.values()))
    assert {name for pair in PAIRS for name in pair} == SOLVERS.keys() | INTEGRATORS.keys()
