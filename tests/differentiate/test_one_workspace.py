# SPDX-License-Identifier: Apache-2.0
"""Steps and the backward pass of a simulator work in one memory: neither reads what the other has left there, nor takes what users read of a step."""

import numpy as np
import pytest
import warp as wp

import warpsim as ws
from benchmarks import same_bits

WORLDS, STEPS = 2, 5
LAWS = {
    "lagged": ws.SAP(),
    "convex": ws.SAP(approximation="convex"),
    "cg": ws.SAP(linear_solver="cg"),
    "compliant": ws.Compliant(),
}


def memory(value, name: str, found: dict[int, wp.array], seen: set[int]) -> None:
    """Arrays that own their memory, by address, reached from a step."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, wp.array):
        if value._ref is not None:
            memory(value._ref, name, found, seen)
        elif value.ptr and value.size and value.deleter is not None and name not in CONSTANT:
            found[value.ptr] = value
    elif hasattr(value, "_cls"):
        for key in value._cls.vars:
            memory(getattr(value, key), key, found, seen)
    elif type(value).__module__.startswith("warpsim") and name not in ("device_model", "scene", "model"):
        for key, part in vars(value).items():
            memory(part, key, found, seen)


CONSTANT = ("zero_acceleration",)  # nobody writes to it


def shared(sim) -> list[wp.array]:
    """What a step and its repetition have both, and write: not rows' Jacobians, of which those of joints are constant."""
    found = []
    for step in (sim._step, sim._stepper.adjoint.step):
        found.append({})
        memory(step, "", found[-1], set())
    rows = sim._step.scalar_rows.rows
    return [
        array for ptr, array in found[0].items() if ptr in found[1] and ptr not in (rows.J.ptr, sim.device_model.q0.ptr)
    ]


def poison(arrays: list[wp.array]) -> None:
    for array in arrays:
        words = array.size * wp.types.type_size_in_bytes(array.dtype) // 4
        wp.array(ptr=array.ptr, dtype=float, shape=words, device=array.device, copy=False).fill_(float("nan"))


def run(scene: str, law: str, device, before=lambda sim: None) -> tuple[ws.Simulator, list[np.ndarray]]:
    """Two backward passes over steps, a step between, and what users read of the last one; `before` each step and each part of a backward pass."""
    model = same_bits.SCENES[scene]()
    sim = ws.Simulator(model, WORLDS, solver=LAWS[law], dtype="float64", device=device, requires_grad=True)
    adjoint, rng, found = sim._stepper.adjoint, np.random.default_rng(3), []
    load = adjoint.load
    adjoint.load = lambda record: (before(sim), load(record))

    def step(state):
        before(sim)
        return sim.step(state)

    start = sim.state(v=0.2 * rng.normal(size=(WORLDS, model.nv)))
    for _ in range(40):
        start = step(start)
    for _ in range(2):
        end = state = sim.state(q=start.q.numpy(), v=start.v.numpy())
        with wp.Tape() as tape:
            for _ in range(STEPS):
                end = step(end)
        contacts = read(sim)
        tape.backward(grads={end.v: wp.ones_like(end.v), end.q: wp.ones_like(end.q)})
        assert same(contacts, read(sim))
        found += [state.q.grad.numpy(), state.v.grad.numpy(), *contacts]
        start = step(start)
        found += [start.q.numpy(), start.v.numpy()]
    return sim, found


def same(a, b) -> bool:
    return all(np.array_equal(x, y, equal_nan=True) for x, y in zip(a, b, strict=True))


def read(sim) -> list[np.ndarray]:
    """What users read of a step after it."""
    c = sim.last_contacts
    found = [c.count, c.geoms, c.feature, c.point, c.frame, c.phi, c.impulse, sim.contact_force().numpy()]
    return [np.array(x) for x in [*found, *sim.diagnostics.numpy().values()]]


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("scene", ["ant", "gripper", "rows"])
def test_steps_and_backward_passes_do_not_need_what_the_other_left(scene, law, device):
    """NaN in all memory that they share, before each step and each step's backward pass, changes no bit; and what users read after a step
    stays as it is through a backward pass."""
    sim, expected = run(scene, law, device)
    assert len(shared(sim)) > 20
    assert np.isfinite(expected[0]).all() and expected[0].any()
    assert same(expected, run(scene, law, device, lambda sim: poison(shared(sim)))[1])
