# SPDX-License-Identifier: Apache-2.0
"""`sim.jvp`: derivatives along directions against `sim.linearize`, the tape, and central differences of steps."""

import mujoco
import numpy as np
import pytest
import warp as wp

import warpsim as ws
from scenes.bodies import body_on_plane

SIZES = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7)
SOLVERS = {
    "SAP": ws.SAP(tolerance=1e-13),
    "convex": ws.SAP(tolerance=1e-13, approximation="convex"),
    "Compliant": ws.Compliant(stiffness=1e6, tolerance=1e-13),
    "LCP": ws.LCP(tolerance=1e-13),
    "NoContact": ws.NoContact(),
}
INTEGRATORS = {
    "symplectic": ws.SymplecticEuler(),
    "explicit": ws.ExplicitEuler(),
    "implicit": ws.ImplicitEuler(),
    "midpoint": ws.Midpoint(),
    "variational": ws.Variational(tolerance=1e-15),
}
PARAMETERS = ("gravity", "body_mass", "joint_damping")


def scene(actuators: bool = True) -> ws.Model:
    """A box that slides on a plane, and a pendulum on a cart, driven by one actuator."""
    b = ws.ModelBuilder("scene")
    b.add_geom("plane", friction=0.4)
    box = b.add_body("box", pose=[0, 0, 0.09995])
    b.add_joint(box, "free")
    b.add_geom("box", [0.1, 0.12, 0.1], body=box, density=1000, friction=0.3)
    cart = b.add_body("cart", pose=[3, 0, 1], mass=2.0, inertia=[1.0, 1.0, 1.0])
    b.add_joint(cart, "slide", axis=[1, 0, 0], name="rail", damping=0.1)
    pole = b.add_body("pole", parent=cart, mass=0.5, com=[0, 0, 0.4], inertia=[0.02, 0.02, 0.001])
    b.add_joint(pole, "ball", stiffness=0.3)
    if actuators:
        b.add_actuator("rail", gear=3.0)
    return b.build()


def simulator(model, worlds, **options) -> ws.Simulator:
    options = {"dtype": "float64", "device": "cpu", "requires_grad": True, "solver": SOLVERS["SAP"]} | options
    return ws.Simulator(model, worlds, 0.005, **options)


def point(model, rng) -> tuple[np.ndarray, np.ndarray]:
    """(q, v) with the box in contact, sliding and turning."""
    q = model.q0.copy()
    q[7:] = [0.1, np.cos(0.2), 0, np.sin(0.2), 0]
    return q, np.concatenate([[0.4, 0.1, -0.01, 0, 0, 0.5], 0.3 * rng.normal(size=4)])


def coordinates(model, q) -> np.ndarray:
    """∂(q ⊕ δ)/∂δ at 0 `(nq, nv)`."""
    size = 1e-6
    ends = [model.displace(q, sign * size * np.eye(model.nv)) for sign in (1, -1)]
    return (ends[0] - ends[1]).T / (2 * size)


def differences(sim, q, v, u, directions) -> np.ndarray:
    """Central differences (sizes, 2 nv) of a step along one direction by name; two worlds for every step size."""
    model = sim.model
    moves = np.outer(SIZES, [1.0, -1.0]).ravel()[:, None]
    dq, dv = np.split(directions["A"], [model.nv])
    values = {name: sim.parameters[name].numpy() for name in PARAMETERS}
    for name, x in values.items():
        sim.parameters[name].assign(x + moves.reshape(-1, *[1] * (x.ndim - 1)) * directions[name].reshape(x.shape[1:]))
    start = sim.state(model.displace(q, moves * dq), v + moves * dv)
    after = sim.step(start, u + moves * directions["B"], tau=moves * directions["tau"])
    for name, x in values.items():
        sim.parameters[name].assign(x)
    sides = [np.arange(k, 2 * len(SIZES), 2) for k in (0, 1)]
    Q, V = after.q.numpy(), after.v.numpy()
    change = np.concatenate([model.difference(Q[sides[1]], Q[sides[0]]), V[sides[0]] - V[sides[1]]], axis=1)
    return change / (2 * np.array(SIZES)[:, None])


@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize("solver", SOLVERS)
def test_every_solver_and_integrator(solver, integrator, rng, within):
    """J dx is that of `linearize`, of differences, and ⟨w, J dx⟩ = ⟨Jᵀw, dx⟩ with the Jᵀw of the tape."""
    model, worlds = scene(), 2 * len(SIZES)
    sim = simulator(model, worlds, solver=SOLVERS[solver], integrator=INTEGRATORS[integrator])
    q, v = point(model, rng)
    state = sim.state(q, v)
    u = wp.array(np.full((worlds, 1), 0.3), dtype=wp.float64, device="cpu", requires_grad=True)
    J = sim.linearize(state, u, force_jacobian=True, parameters=PARAMETERS)
    d = {name: rng.normal(size=(3, worlds, x.shape[2])) for name, x in J.arrays().items()}
    shaped = {n: d[n].reshape(3, worlds, *np.shape(getattr(model, n))) for n in PARAMETERS}
    found = sim.jvp(state, u, d["A"], d["B"], dtau=d["tau"], parameters=shaped).numpy()
    expected = sum(np.einsum("wij,kwj->kwi", x.numpy(), d[name]) for name, x in J.arrays().items())
    scale = np.abs(expected).max()
    within("linearize", np.abs(found - expected).max() / scale, 1e-12)

    one = {name: x[1, 4] for name, x in d.items()}
    errors = np.abs(differences(sim, q, v, 0.3, one) - found[1, 4]).max(axis=1) / np.abs(found[1, 4]).max()
    within("differences", errors.min(), 1e-6)

    parameters = {name: sim.parameters[name] for name in PARAMETERS}
    for array in parameters.values():
        array.grad.zero_()
    with wp.Tape() as tape:
        after = sim.step(state, u)
    w_q, w_v = rng.normal(size=(worlds, model.nv)), rng.normal(size=(worlds, model.nv))
    seed = np.stack([np.linalg.pinv(coordinates(model, x)).T @ y for x, y in zip(after.q.numpy(), w_q, strict=True)])
    seeds = {after.q: seed, after.v: w_v}
    tape.backward(grads={a: wp.array(x, dtype=wp.float64, device="cpu") for a, x in seeds.items()})
    back = {"A": np.concatenate([state.q.grad.numpy() @ coordinates(model, q), state.v.grad.numpy()], axis=1)}
    back |= {"B": u.grad.numpy()} | {n: a.grad.numpy().reshape(worlds, -1) for n, a in parameters.items()}
    left = np.einsum(
        "wi,kwi->kw", np.concatenate([w_q, w_v], axis=1), sim.jvp(state, u, d["A"], d["B"], parameters=shaped).numpy()
    )
    right = sum(np.einsum("wi,kwi->kw", back[name], d[name]) for name in back)
    within("tape", np.abs(left - right).max() / np.abs(left).max(), 1e-8)


def test_spin_activations_and_inertias(rng, within):
    """Free spin, an activation, parameters of inertia: what variables change where the solution stays."""
    text = """<mujoco><worldbody><body pos="0 0 1"><freejoint/><geom type="box" size=".1 .2 .3" pos=".01 .02 0"/></body>
    <body pos="2 0 1"><joint name="hinge" axis="0 1 0"/><geom size=".1" pos=".2 0 0"/></body></worldbody>
    <actuator><general joint="hinge" dyntype="filter" dynprm=".1" gainprm="2"/></actuator></mujoco>"""
    model = ws.load(mujoco.MjModel.from_xml_string(text))
    sim = simulator(model, 2, requires_grad=False)
    v = np.concatenate([rng.normal(size=3), [30.0, 5.0, 10.0], [0.4]])
    state, u = sim.state(v=v, activation=[0.3]), np.full((2, 1), 0.2)
    names = ("body_mass", "body_com", "body_inertia", "joint_armature")
    J = sim.linearize(state, u, parameters=names)
    d = {name: rng.normal(size=(2, 2, x.shape[2])) for name, x in J.arrays().items()}
    shaped = {n: d[n].reshape(2, 2, *np.shape(getattr(model, n))) for n in names}
    found = sim.jvp(state, u, d["A"], d["B"], parameters=shaped).numpy()
    expected = sum(np.einsum("wij,kwj->kwi", x.numpy(), d[name]) for name, x in J.arrays().items())
    assert found.shape == (2, 2, 2 * model.nv + 1)
    inertia = wp.array(shaped["body_inertia"][0], dtype=wp.mat33d, device="cpu")
    np.testing.assert_array_equal(
        sim.jvp(state, u, parameters={"body_inertia": inertia}).numpy(),
        sim.jvp(state, u, parameters={"body_inertia": shaped["body_inertia"][0]}).numpy(),
    )
    within("free spin", np.abs(found - expected).max() / np.abs(expected).max(), 1e-12)


def test_poses_of_mocap_bodies(rng, within):
    """Six directions for each mocap body, by reverse passes."""
    text = """<mujoco><worldbody><body name="hook" mocap="true" pos="0 0 1"><body pos=".3 0 0"><joint axis="0 1 0"/>
    <geom size=".06"/></body></body></worldbody></mujoco>"""
    sim = simulator(ws.load(mujoco.MjModel.from_xml_string(text)), 2)
    state = sim.state(v=[0.3], mocap=[[0, 0, 1, 0.9, 0.1, 0.3, 0.2]])
    d = rng.normal(size=(3, 2, 1, 6))
    found = sim.jvp(state, dmocap=d).numpy()
    expected = np.einsum("wij,kwj->kwi", sim.linearize(state, mocap_jacobian=True).mocap.numpy(), d[:, :, 0])
    within("mocap", np.abs(found - expected).max() / np.abs(expected).max(), 1e-12)
    plain = simulator(ws.load(mujoco.MjModel.from_xml_string(text)), 2, requires_grad=False)
    with pytest.raises(ValueError, match="jvp has no closed form by the poses of mocap bodies"):
        plain.jvp(plain.state(), dmocap=d)
    with pytest.raises(ValueError, match="no mocap bodies; leave dmocap out"):
        simulator(scene(), 1).jvp(simulator(scene(), 1).state(), dmocap=d)


def test_float32(rng, within):
    """Single precision agrees with `linearize` to rounding, and with float64 to what the solver's tolerance allows."""
    model = scene()
    sims = {x: simulator(model, 1, dtype=x, solver=ws.SAP(), requires_grad=False) for x in ("float32", "float64")}
    errors = {dtype: [] for dtype in sims}
    for _ in range(10):  # of single states rounding is up to three times the median
        q, v = point(model, rng)
        d = rng.normal(size=(4, 1, 2 * model.nv))
        found = {}
        for dtype, sim in sims.items():
            state = sim.state(q, v)
            found[dtype] = sim.jvp(state, dstate=d.astype(dtype)).numpy()
            expected = np.einsum("wij,kwj->kwi", sim.linearize(state).A.numpy(), d)
            errors[dtype].append(np.abs(found[dtype] - expected).max() / np.abs(expected).max())
        within("both", np.abs(found["float32"] - found["float64"]).max() / np.abs(expected).max(), 1e-3)
    within("float32", np.median(errors["float32"]), 1e-5)
    within("float32, worst", max(errors["float32"]), 3e-5)
    within("float64", max(errors["float64"]), 1e-12)


@pytest.mark.parametrize("integrator", ["symplectic", "midpoint"])
def test_directions_do_not_depend_on_each_other(integrator, rng):
    """One direction, many, one for all, with `out` and from a graph: the same bits. A zero direction gives zeros."""
    model = scene()
    sim = simulator(model, 2, integrator=INTEGRATORS[integrator])
    state = sim.state(*point(model, rng))
    n = 2 * model.nv
    dx, du = rng.normal(size=(3, 2, n)), rng.normal(size=(2, 1))
    dx[2] = 0.0
    out = wp.zeros((3, 2, n), dtype=wp.float64, device="cpu")
    for _ in range(3):
        assert sim.jvp(state, None, dx, out=out) is out
    assert not out.numpy()[2].any()
    for k in range(3):
        one = sim.jvp(state, dstate=wp.array(dx[k], dtype=wp.float64, device="cpu"))
        assert one.shape == (2, n)
        np.testing.assert_array_equal(one.numpy(), out.numpy()[k])
    shared = sim.jvp(state, None, dx, du).numpy()
    np.testing.assert_array_equal(shared, sim.jvp(state, None, dx, np.stack([du] * 3)).numpy())
    with wp.Tape() as tape:
        sim.jvp(state, None, dx)
    assert not tape.launches


def test_leaves_the_simulator_as_it_was(rng):
    """Diagnostics and contacts are those of the last step."""
    model = scene()
    sim = simulator(model, 1)
    sim.step(sim.state(*point(model, rng)))
    before = sim.diagnostics.numpy() | {"impulse": sim.last_contacts.impulse}
    sim.jvp(sim.state(), dstate=np.ones((1, 2 * model.nv)))
    for name, x in (sim.diagnostics.numpy() | {"impulse": sim.last_contacts.impulse}).items():
        np.testing.assert_array_equal(x, before[name])


@pytest.mark.parametrize("integrator", ["symplectic", "midpoint"])
def test_a_world_that_is_not_finite(integrator):
    """It has derivatives of NaN; the other has the bits that it has without it."""
    model = body_on_plane("box", [0.1, 0.1, 0.1])
    sim = simulator(model, 2, integrator=INTEGRATORS[integrator])
    tau, dx = np.zeros((2, model.nv)), np.ones((2, 2 * model.nv))
    alone = sim.jvp(sim.state(), dstate=dx, tau=tau).numpy()
    tau[0] = 1e300
    found = sim.jvp(sim.state(), dstate=dx, tau=tau).numpy()
    assert np.isnan(found[0]).all()
    np.testing.assert_array_equal(found[1], alone[1])


def test_models_without_controls_contacts_or_joints(rng):
    """nu = 0, a body in the air, and a model in which nothing moves."""
    model = scene(actuators=False)
    sim = simulator(model, 1)
    assert not sim.jvp(sim.state(), dcontrol=np.zeros((1, 0))).numpy().any()
    air = simulator(body_on_plane("sphere", [0.1], height=5.0), 1)
    dx = rng.normal(size=(1, 12))
    A = air.linearize(air.state()).A.numpy()
    np.testing.assert_allclose(air.jvp(air.state(), dstate=dx).numpy(), np.einsum("wij,wj->wi", A, dx), rtol=1e-12)
    b = ws.ModelBuilder("still")
    b.add_geom("plane")
    still = simulator(b.build(), 2)
    assert still.jvp(still.state(), dstate=np.zeros((3, 2, 0))).shape == (3, 2, 0)
    assert still.linearize(still.state()).A.shape == (2, 0, 0)


def test_errors_say_what_to_change(rng):
    """Shapes, counts, names, nothing at all, and what has no derivative."""
    model = scene()
    sim = simulator(model, 2)
    state, n = sim.state(), 2 * model.nv
    with pytest.raises(ValueError, match=r"dstate has shape \(20,\); it must be \(2, 20\), or \(directions, 2, 20\)"):
        sim.jvp(state, dstate=np.zeros(n))
    with pytest.raises(ValueError, match=r"dcontrol has shape \(3, 1\)"):
        sim.jvp(state, dcontrol=np.zeros((3, 1)))
    with pytest.raises(ValueError, match=r"numbers of directions differ: dstate 3, dcontrol 2"):
        sim.jvp(state, None, np.zeros((3, 2, n)), np.zeros((2, 2, 1)))
    with pytest.raises(ValueError, match="jvp has no direction; give dstate"):
        sim.jvp(state)
    with pytest.raises(ValueError, match=r"parameters is \('body_mass',\); give a dict of directions by name"):
        sim.jvp(state, parameters=("body_mass",))
    with pytest.raises(ValueError, match="body_mass"):
        sim.jvp(state, parameters={"mass": 1.0})
    with pytest.raises(ValueError, match=r"parameters\['body_mass'\] has shape \(\); it must be \(2, 3\)"):
        sim.jvp(state, parameters={"body_mass": 1.0})
    with pytest.raises(ValueError, match="dstate is 'left'; give numbers"):
        sim.jvp(state, dstate="left")
    with pytest.raises(ValueError, match=r"out has shape \(2, 20\); it must be \(1, 2, 20\)"):
        sim.jvp(state, None, np.zeros((1, 2, n)), out=sim.jvp(state, None, np.zeros((2, n))))
    with pytest.raises(ValueError, match="out is a ndarray"):
        sim.jvp(state, None, np.zeros((2, n)), out=np.zeros((2, n)))
    plain = simulator(model, 2, requires_grad=False, solver=ws.LCP())
    with pytest.raises(ValueError, match=r"jvp has no closed form with LCP.*requires_grad=True"):
        plain.jvp(plain.state(), None, np.zeros((2, n)))
