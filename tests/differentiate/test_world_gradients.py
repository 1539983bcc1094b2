# SPDX-License-Identifier: Apache-2.0
"""Gradients are those of each world alone, parameters that all worlds share included: nothing is added up across worlds, or in an
order that could change. What this means on a GPU is checked in PTX (`tests/device/test_by_world.py`, `make cuda-check`)."""

import numpy as np
import pytest
import warp as wp

import warpsim as ws

STEPS, WORLDS = 3, 3
METHODS = {
    "SAP": {},
    "SAP, convex": {"solver": ws.SAP(approximation="convex")},
    "SAP, conjugate gradients": {"solver": ws.SAP(linear_solver="cg")},
    "SAP, midpoint": {"integrator": ws.Midpoint()},
    "Compliant": {"solver": ws.Compliant(stiffness=1e6)},
    "LCP": {"solver": ws.LCP()},
    "variational": {"integrator": ws.Variational()},
}
SHARED = ("gravity", "body_mass", "geom_friction", "geom_size")


def spheres(count: int = 3, radius: float = 0.1) -> ws.Model:
    """Spheres above each other on a plane, pressed together by 0.1 mm: trees of their own, which share gravity."""
    b = ws.ModelBuilder("spheres")
    b.add_geom("plane")
    for i in range(count):
        b.add_body(f"ball{i}", pose=[0.0, 0.0, radius + i * 2.0 * radius - 1e-4 * (i + 1)])
        b.add_joint(f"ball{i}", "free")
        b.add_geom("sphere", [radius], body=f"ball{i}", density=1000.0)
    return b.build()


def simulator(method: str, worlds: int) -> ws.Simulator:
    options = {"worlds": worlds, "dt": 0.01, "dtype": "float64", "requires_grad": True, "device": "cpu"}
    return ws.Simulator(spheres(), **options, **METHODS[method])


def gradients(sim, v: np.ndarray, seed: np.ndarray) -> dict[str, np.ndarray]:
    """Gradients of seed · q after some steps from a pressed stack with velocities v, by the start and the parameters."""
    parameters = {name: sim.parameters[name] for name in SHARED}
    start = state = sim.state(v=v)
    with wp.Tape() as tape:
        for _ in range(STEPS):
            state = sim.step(state)
    tape.backward(grads={state.q: wp.array(seed, dtype=wp.float64, device="cpu")})
    found = {"q": start.q, "v": start.v} | parameters
    return {name: array.grad.numpy().copy() for name, array in found.items()}


def inputs(worlds: int) -> tuple[np.ndarray, np.ndarray]:
    """Velocities of spheres that slide, each at its own, and a gradient of q."""
    rng = np.random.default_rng(3)
    v = rng.standard_normal((worlds, 3, 6))
    v[..., 2] = -0.1
    return v.reshape(worlds, 18), rng.standard_normal((worlds, 21))


@pytest.mark.parametrize("method", METHODS)
def test_a_worlds_gradient_has_the_bits_of_that_world_alone(method):
    """Also by gravity, masses, friction and sizes, which are the same in all worlds."""
    v, seed = inputs(WORLDS)
    together = gradients(simulator(method, WORLDS), v, seed)
    assert np.abs(together["gravity"]).min() > 0.0 and np.abs(together["geom_friction"]).max() > 0.0
    for w in range(WORLDS):
        alone = gradients(simulator(method, 1), v[w : w + 1], seed[w : w + 1])
        for name, found in together.items():
            np.testing.assert_array_equal(found[w], alone[name][0], err_msg=f"{name} of world {w}")


@pytest.mark.parametrize("method", METHODS)
def test_no_gradient_leaks_into_another_world(method):
    """The gradient of what one world does is zero in all others."""
    v, seed = inputs(WORLDS)
    seed[[0, 2]] = 0.0
    found = gradients(simulator(method, WORLDS), v, seed)
    for name, array in found.items():
        assert not array[[0, 2]].any(), name
    assert found["q"][1].any() and found["gravity"][1].all()


@pytest.mark.both_types
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name, worlds", [("body_inertia", 130), ("gravity", 3), ("joint_range", 1)])
def test_shared_gradient_is_the_sum_over_worlds(name, worlds, dtype):
    """Added up by 64 worlds in their order, then these sums in theirs: to the bit."""
    model = ws.load(ws.robots.path("cartpole"))
    sim = ws.Simulator(model, worlds=worlds, dtype=dtype, requires_grad=True, device="cpu")
    array = sim.parameters[name]
    each = np.random.default_rng(0).standard_normal((worlds, *array.numpy().shape[1:])).astype(dtype)
    array.grad.assign(each)
    found = sim.parameters.shared_gradient(name)
    while len(each) > 1:
        parts = [each[k : k + 64] for k in range(0, len(each), 64)]
        each = np.stack([np.add.accumulate(part, axis=0)[-1] for part in parts])
    assert found.dtype == array.dtype
    np.testing.assert_array_equal(found.numpy(), each)


def test_shared_gradients_that_nothing_recorded_are_refused():
    """Where the simulator, or the parameter, was not asked for gradients."""
    model = ws.load(ws.robots.path("cartpole"))
    with pytest.raises(ValueError, match="requires_grad=True"):
        ws.Simulator(model, device="cpu").parameters.shared_gradient("gravity")
    sim = ws.Simulator(model, requires_grad=True, device="cpu")
    with pytest.raises(ValueError, match="before the steps"):
        sim.parameters.shared_gradient("gravity")
    with pytest.raises(ValueError, match="no parameter 'mass'"):
        sim.parameters.shared_gradient("mass")
    sim.parameters["tendon_stiffness"]
    assert sim.parameters.shared_gradient("tendon_stiffness").shape == (1, 0)
