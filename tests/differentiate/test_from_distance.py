# SPDX-License-Identifier: Apache-2.0
"""`GradientFromDistance`: derivatives are those of the surrogate step of theory §7, motions do not change."""

import numpy as np
import pytest
import warp as wp

import warpsim as ws
from warpsim.differentiate import from_distance
from warpsim.run.description import describe_simulator, simulator_arguments

DISTANCE, STIFFNESS, DT = 0.6, 20.0, 0.01
OPTION = ws.GradientFromDistance(DISTANCE, STIFFNESS)
LINKS, RADIUS, THIN, GROUND = (0.3, 0.25), 0.05, 0.02, 0.4
GAPS = np.array([0.3, -0.5, 0.45, 0.25, 0.45])  # the ball 0.2 to 0.5 m from the arm and the plate


def scene(friction: float = 0.5, **material) -> ws.Model:
    """An arm of two links, a ball near it, and a plate below the ball."""
    b = ws.ModelBuilder("arm and ball", timestep=DT)
    b.add_geom("plane", friction=friction, **material)
    parent, at = None, 0.0
    for name, length in zip(("upper", "lower"), LINKS, strict=True):
        b.add_body(name, parent=parent, pose=[at, 0, 0] if parent else [0, 0, GROUND])
        b.add_joint(name, "hinge", axis=[0, 0, 1], name=f"{name}_joint", damping=0.1)
        along = [length / 2, 0, 0, np.sqrt(0.5), 0, np.sqrt(0.5), 0]
        b.add_geom("capsule", [THIN, length / 2], body=name, pose=along, friction=friction, **material)
        b.add_actuator(f"{name}_joint")
        parent, at = name, length
    b.add_joint(b.add_body("ball", pose=[0, 0, 1]), "free")
    b.add_geom("sphere", [RADIUS], body="ball", friction=friction, **material)
    return b.build()


def simulator(option=OPTION, dtype: str = "float64", model=None, **options) -> ws.Simulator:
    options = {"solver": ws.SAP(tolerance=1e-12), "device": "cpu", "contact_gradient": option} | options
    return ws.Simulator(scene() if model is None else model, dtype=dtype, **options)


def positions(x=GAPS) -> np.ndarray:
    """q of the angles of the arm and the place of the ball."""
    return np.concatenate([x, [1.0, 0.0, 0.0, 0.0]])


def potential(x: np.ndarray) -> complex:
    """U, from the distances of ball, arm and plate, by hand. x may be complex."""
    ball, start, turn, U = x[2:5], np.array([0, 0, GROUND], complex), 0.0, 0.0
    gaps = [ball[2] - RADIUS]
    for length, angle in zip(LINKS, x[:2], strict=True):
        turn = turn + angle
        along = np.array([np.cos(turn), np.sin(turn), 0.0])
        s = (ball - start) @ along
        s = 0.0 if s.real < 0 else length if s.real > length else s
        gaps.append(np.sqrt(((ball - start - s * along) ** 2).sum()) - RADIUS - THIN)
        start = start + length * along
        gaps.append(GROUND - THIN)  # two points of each capsule near the plate, which do not move
    for phi in gaps:
        if 0.0 < phi.real < DISTANCE:
            U = U + STIFFNESS * DISTANCE**2 / 12 * (1 - phi / DISTANCE) ** 4
    return U


def force(q: np.ndarray) -> np.ndarray:
    """f = −∂U/∂q by complex steps `(1, nv)`."""
    x = q[:5].astype(complex)
    slopes = [potential(x + 1e-30j * e).imag / 1e-30 for e in np.eye(5)]
    return -np.array([*slopes, 0.0, 0.0, 0.0])[None]


def surrogate(sim: ws.Simulator, q: np.ndarray, v: np.ndarray, steps: int, held: list):
    """Steps with τ = f(q) − f(q⁰), q⁰ held. `held`, the forces at q⁰, is filled by the first call."""
    state = sim.state(q, v)
    for k in range(steps):
        now = force(state.q.numpy()[0])
        if k == len(held):
            held.append(now)
        state = sim.step(state, tau=now - held[k])
    return state


def differences(sim, q, v, steps: int, move: float = 1e-6) -> np.ndarray:
    """Jacobian of (q', v') by (q, v) of `steps` surrogate steps."""
    model, held, nv = sim.model, [], sim.model.nv
    middle = surrogate(sim, q, v, steps, held).q.numpy()[0]

    def end(x):
        found = surrogate(sim, model.displace(q, x[:nv]), v + x[nv:], steps, held)
        return np.concatenate([model.difference(middle, found.q.numpy()[0]), found.v.numpy()[0]])

    return np.stack([(end(move * e) - end(-move * e)) / (2 * move) for e in np.eye(2 * nv)], -1)


def velocities(seed: int = 0) -> np.ndarray:
    return 0.3 * np.random.default_rng(seed).normal(size=8)


def by_tape(sim, q, v, bar: np.ndarray, steps: int = 1):
    """Gradients by the place of arm and ball, and by v, of bar · v'."""
    start = sim.state(q, v)
    with wp.Tape() as tape:
        state = start
        for _ in range(steps):
            state = sim.step(state)
    tape.backward(grads={state.v: wp.array(bar[None], dtype=state.v.dtype, device="cpu")})
    return np.concatenate([start.q.grad.numpy()[0, :5], start.v.grad.numpy()[0]])


def rows(J: np.ndarray, bar: np.ndarray) -> np.ndarray:
    """bar · ∂v'/∂(q, v) for the coordinates of `by_tape`."""
    found = bar @ J[8:]
    return np.concatenate([found[:5], found[8:]])


@pytest.mark.parametrize("approximation", ["lagged", "convex"])
@pytest.mark.parametrize("friction", [0.5, 0.0])
def test_jacobians_are_those_of_the_surrogate_step(approximation, friction):
    """Closed form, tape and central differences agree, under both laws; the exact derivative is another."""
    solver, model = ws.SAP(tolerance=1e-12, approximation=approximation), scene(friction)
    q, v, bar = positions(), velocities(), velocities(1)
    J = differences(simulator(None, model=model, solver=solver), q, v, 1)
    sim = simulator(model=model, solver=solver, requires_grad=True)
    A = sim.linearize(sim.state(q, v)).A.numpy()[0]
    np.testing.assert_allclose(A, J, atol=1e-9)
    np.testing.assert_allclose(by_tape(sim, q, v, bar), rows(J, bar), atol=1e-9)
    off = simulator(None, model=model, solver=solver)
    assert np.abs(off.linearize(off.state(q, v)).A.numpy()[0] - A).max() > 1e-3
    change = sim.jvp(sim.state(q, v), dstate=np.eye(16)[:, None])
    np.testing.assert_allclose(change.numpy()[:, 0].T, A, atol=1e-12)


@pytest.mark.parametrize("steps", [10, 40])
def test_gradients_of_rollouts(steps):
    """The ball falls to the plate during the longer one, and lands."""
    q, bar = positions(GAPS - [0, 0, 0, 0, 0.3]), velocities(1)
    v = velocities()
    J = differences(simulator(None), q, v, steps)
    found = by_tape(simulator(requires_grad=True), q, v, bar, steps)
    np.testing.assert_allclose(found, rows(J, bar), atol=1e-5 * np.abs(J).max())


OTHERS = [
    {"integrator": ws.ImplicitEuler()},
    {"integrator": ws.Midpoint()},
    {"integrator": ws.Variational()},
    {"solver": ws.LCP()},
    {"solver": ws.Compliant(tolerance=1e-12)},
    {"solver": ws.MuJoCo(tolerance=1e-12)},
    {"time_of_impact": True},
]


@pytest.mark.parametrize("options", OTHERS, ids=lambda x: str(next(iter(x.values()))).split("(")[0])
def test_every_integrator_and_contact_model(options):
    """τ has a gradient with all of them, and so has the force; one world is about to land."""
    material = {"stiffness": 1e4, "dissipation_time": 0.1} if "Compliant" in str(options) else {}
    model = scene(**material)
    sim = simulator(model=model, requires_grad=True, **options)
    bar = velocities(1)
    for height, fall in ((GAPS[4], 0.0), (RADIUS + 1e-3, -1.0)):
        q, v = positions([*GAPS[:4], height]), velocities() + [0, 0, 0, 0, fall, 0, 0, 0]
        J = differences(simulator(None, model=model, **options), q, v, 1)
        np.testing.assert_allclose(by_tape(sim, q, v, bar), rows(J, bar), atol=2e-6 * max(1.0, np.abs(J).max()))


@pytest.mark.both_types
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_motions_keep_their_bits(dtype):
    """With and without the option, through flight and contact; float32's derivatives are those of float64."""
    v = velocities()
    on, off = (simulator(option, dtype, requires_grad=True) for option in (OPTION, None))
    motions = [sim.rollout(sim.state(positions(), v), steps=60) for sim in (on, off)]
    for name in ("q", "v"):
        first, second = (getattr(motion, name).numpy() for motion in motions)
        assert first.tobytes() == second.tobytes()
    assert motions[0].q.numpy()[-1, 0, 4] < RADIUS + 1e-3  # it has landed
    fine = simulator()
    exact = fine.linearize(fine.state(positions(), v)).A.numpy()
    found = on.linearize(on.state(positions(), v)).A.numpy()
    np.testing.assert_allclose(found, exact, atol=1e-4 if dtype == "float32" else 1e-12)


def test_what_touches_and_what_is_far_has_exact_derivatives():
    """The same bits as without the option, on the tape and in closed form."""
    model = scene()
    on, off = (simulator(option, model=model, requires_grad=True) for option in (OPTION, None))
    q, v = positions([0.0, 0.0, 3.0, 3.0, RADIUS - 1e-4]), velocities()
    assert on.linearize(on.state(q, v)).A.numpy().tobytes() == off.linearize(off.state(q, v)).A.numpy().tobytes()
    np.testing.assert_array_equal(by_tape(on, q, v, velocities(1)), by_tape(off, q, v, velocities(1)))
    assert off._stepper.adjoint.distance is None and off._stepper.linearizer.distance is None


def test_it_fades_smoothly():
    """∂v'/∂q of a sphere above a plate: h k (1 − φ/d)² / m, to 0 at φ = d and not for φ ≤ 0."""
    b = ws.ModelBuilder("drop", timestep=DT)
    b.add_geom("plane")
    b.add_body("ball", pose=[0, 0, RADIUS], mass=2.0, inertia=[1, 1, 1])
    b.add_joint("ball", "slide", axis=[0, 0, 1])
    b.add_geom("sphere", [RADIUS], body="ball", density=0.0)
    gaps = np.array([1e-12, 0.1, 0.3, 0.5999, 0.6, 0.7])
    sim = ws.Simulator(b.build(), len(gaps), dtype="float64", device="cpu", contact_gradient=OPTION)
    start = sim.state(q=gaps[:, None], v=np.full((len(gaps), 1), 1.0))
    found = sim.linearize(start).A.numpy()[:, 1, 0]
    np.testing.assert_allclose(found, -DT * STIFFNESS / 2.0 * np.maximum(1 - gaps / DISTANCE, 0.0) ** 2, atol=1e-12)


def shapes() -> ws.Model:
    b = ws.ModelBuilder("shapes")
    sizes = {"box": [0.1, 0.15, 0.2], "cylinder": [0.1, 0.2], "ellipsoid": [0.1, 0.15, 0.2], "capsule": [0.1, 0.2]}
    for i, (kind, size) in enumerate(sizes.items()):
        b.add_joint(b.add_body(kind, pose=[0.6 * i, 0, 0.5]), "free")
        b.add_geom(kind, size, body=kind)
    b.add_geom("plane")
    return b.build()


def test_all_shapes_on_the_tape_as_in_closed_form():
    """Two implementations of ∂f/∂q agree; states, geom poses and sizes have finite gradients."""
    rng = np.random.default_rng(3)
    sim = simulator(model=shapes(), dt=DT, requires_grad=True)
    q = sim.model.displace(sim.model.q0, 0.1 * rng.normal(size=24))
    size, pose = sim.parameters["geom_size"], sim.parameters["geom_pose"]
    A, bar = sim.linearize(sim.state(q)).A.numpy()[0], rng.normal(size=24)
    start = sim.state(q)
    with wp.Tape() as tape:
        state = sim.step(start)
    tape.backward(grads={state.v: wp.array(bar[None], dtype=wp.float64, device="cpu")})
    moving = [7 * i + k for i in range(4) for k in range(3)]
    want = (bar @ A[24:])[[6 * i + k for i in range(4) for k in range(3)]]
    np.testing.assert_allclose(start.q.grad.numpy()[0, moving], want, atol=1e-9)
    assert np.isfinite(size.grad.numpy()).all() and np.abs(pose.grad.numpy()).max() > 0


def test_a_mocap_hand_has_a_gradient():
    """The ball's velocity by the places of a hand that a program moves, each by its own distance."""
    b = ws.ModelBuilder("hand", timestep=DT)
    b.add_body("hand", mocap=True)
    b.add_geom("sphere", [0.1], body="hand")
    b.add_joint(b.add_body("ball", pose=[0.4, 0, 0], mass=1.0, inertia=[1, 1, 1]), "slide", axis=[1, 0, 0])
    b.add_geom("sphere", [0.1], body="ball", density=0.0)
    sim = simulator(model=b.build(), requires_grad=True)
    places = [
        wp.array([[[x, 0.0, 0, 1, 0, 0, 0]]], dtype=wp.float64, device="cpu", requires_grad=True) for x in (0.0, -0.2)
    ]
    with wp.Tape() as tape:
        state = sim.state()
        for place in places:
            state = sim.step(state, mocap=place)
    tape.backward(grads={state.v: wp.array([[1.0]], dtype=wp.float64, device="cpu")})
    for place, gap in zip(places, (0.2, 0.4), strict=True):
        want = DT * STIFFNESS * (1 - gap / DISTANCE) ** 2
        again = gap < 0.3  # the ball moves, and the second step sees it nearer
        assert place.grad.numpy()[0, 0, 0] == pytest.approx(want, rel=2e-3 if again else 1e-9)


def test_torch_has_it():
    """`ws.torch.rollout` gives the gradient of the tape."""
    torch = pytest.importorskip("torch")
    sim, q, v, bar = simulator(requires_grad=True), positions(), velocities(), velocities(1)
    given = torch.tensor(v[None], requires_grad=True)
    _, after = ws.torch.rollout(sim, torch.tensor(q[None]), given, steps=1)[:2]
    (after[-1, 0] @ torch.tensor(bar)).backward()
    np.testing.assert_allclose(given.grad.numpy()[0], by_tape(sim, q, v, bar)[5:], atol=1e-12)


def test_worlds_with_nan_and_coincident_centers_leave_others_alone():
    """Gradients of the good world stay; that of coincident spheres is what it is without the option."""
    b = ws.ModelBuilder("two", timestep=DT)
    for name in "ab":
        b.add_joint(b.add_body(name, pose=[0.5 * (name == "b"), 0, 0]), "free")
        b.add_geom("sphere", [0.1], body=name)
    model, rest = b.build(), [0, 0, 0, 1, 0, 0, 0]
    q = np.array([[*rest, 0.4, *rest[1:]], [*rest, 0.0, *rest[1:]], [*rest, 0.4, *rest[1:]]])
    grads = []
    for option in (OPTION, None):
        sim = ws.Simulator(model, 3, dtype="float64", device="cpu", requires_grad=True, contact_gradient=option)
        start = sim.state(q)
        start.q.numpy()[2, 0] = np.nan
        with wp.Tape() as tape:
            state = sim.step(start)
        tape.backward(grads={state.v: wp.array(np.ones((3, 12)), dtype=wp.float64, device="cpu")})
        grads.append(start.q.grad.numpy())
    np.testing.assert_array_equal(*(x[1] for x in grads))
    assert np.isfinite(grads[0][0]).all() and np.abs(grads[0][0] - grads[1][0]).max() == pytest.approx(0, abs=1e-12)


def test_too_many_points_give_no_number(monkeypatch):
    """Points beyond the slots are not left out in silence."""
    monkeypatch.setattr(from_distance, "MOST_POINTS", 1)
    sim = simulator(requires_grad=True)
    assert np.isnan(sim.linearize(sim.state(positions())).A.numpy()).any()
    assert np.isnan(by_tape(sim, positions(), velocities(), velocities(1))).any()


def test_refusals_and_descriptions():
    """Bad options and models without a use for it are refused by name; stores keep the option."""
    with pytest.raises(ValueError, match="GradientFromDistance: distance is 0"):
        ws.GradientFromDistance(0.0, 1.0)
    with pytest.raises(ValueError, match="GradientFromDistance: stiffness is nan"):
        ws.GradientFromDistance(1.0, np.nan)
    with pytest.raises(ValueError, match=r"contact_gradient is 0\.3; give ws\.GradientFromDistance"):
        simulator(0.3)
    with pytest.raises(ValueError, match="nothing touches"):
        simulator(solver=ws.NoContact())
    with pytest.raises(ValueError, match="no two geoms of model 'cartpole' may touch"):
        simulator(model=ws.load(ws.robots.path("cartpole")), dt=DT)
    sim = simulator()
    kept = describe_simulator(sim)
    assert simulator_arguments(kept, "store")["contact_gradient"] == OPTION
    del kept["contact_gradient"]
    assert simulator_arguments(kept, "store").get("contact_gradient") is None
    with pytest.raises(ValueError, match="contact_gradient"):
        simulator_arguments(kept | {"contact_gradient": [1]}, "store")
