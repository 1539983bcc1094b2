# SPDX-License-Identifier: Apache-2.0
"""Device code reads rows that are side by side (`kernels/preamble.py`); arrays of a user need not be stored so."""

import numpy as np
import pytest
import warp as wp

import warpsim as ws
from warpsim.device.copies import launch
from warpsim.kernels.tree import wide

WORLDS = 3


def spread(values: np.ndarray, how: str, device) -> wp.array:
    """The numbers in an array of their own, in every other column of one, or along the columns of one; with a gradient."""
    if how == "rows":
        return wp.array(values, dtype=wp.float64, device=device, requires_grad=True)
    if how == "columns":
        return wp.array(np.ascontiguousarray(values.T), dtype=wp.float64, device=device, requires_grad=True).transpose()
    wide = np.zeros((len(values), 2 * values.shape[1]))
    wide[:, ::2] = values
    return wp.array(wide, dtype=wp.float64, device=device, requires_grad=True)[:, ::2]


@pytest.mark.parametrize("how", ["every other", "columns"])
def test_controls_of_any_strides(device, how):
    """Steps, gradients on a tape and Jacobians have the bits of those from an array of rows."""
    model = ws.load(ws.robots.path("ant"))
    sim = ws.Simulator(model, WORLDS, dtype="float64", device=device, requires_grad=True)
    values = np.random.default_rng(0).uniform(-1, 1, (WORLDS, model.nu))
    found = []
    for control in (spread(values, "rows", device), spread(values, how, device)):
        with wp.Tape() as tape:
            state = sim.step(sim.step(sim.state(), control), control)
        ones = wp.array(np.ones((WORLDS, model.nv)), dtype=wp.float64, device=device)
        tape.backward(grads={state.v: ones})
        jacobian = sim.linearize(sim.state(), control)
        found.append([state.q.numpy(), state.v.numpy(), control.grad.numpy(), jacobian.B.numpy()])
    for expected, given in zip(*found, strict=True):
        np.testing.assert_array_equal(given, expected)
    assert np.abs(found[0][2]).max() > 0.0


@pytest.mark.parametrize("how", ["every other", "columns"])
def test_controls_of_servos_of_any_strides(device, how):
    """Servos held to a range of force are rows, whose kernels read the control from a struct."""
    b = ws.ModelBuilder("servos", gravity=(0, 0, 0))
    for k in range(3):
        body = b.add_body(mass=1.0, inertia=[0.1, 0.1, 0.1])
        b.add_joint(body, "hinge", name=f"axle {k}")
        b.add_actuator(f"axle {k}", "position", kp=40.0, kv=3.0, force_range=(-1, 1))
    sim = ws.Simulator(b.build(), WORLDS, dtype="float64", device=device)
    values = np.random.default_rng(0).uniform(-1, 1, (WORLDS, 3))
    found = []
    for control in (spread(values, "rows", device), spread(values, how, device)):
        control.requires_grad = False
        state = sim.step(sim.step(sim.state(), control), control)
        found.append(state.v.numpy())
    np.testing.assert_array_equal(found[1], found[0])
    assert (np.abs(found[0]) > 0.0).all()


def test_recording_refuses_what_its_kernels_would_not_read(device):
    """A kernel's copy of a strided array would be lost to the tape: what records says what to give instead."""
    array = spread(np.ones((WORLDS, 4)), "every other", device)
    array.requires_grad = False
    out = wp.zeros((WORLDS, 4), dtype=wp.float64, device=device)
    with wp.Tape(), pytest.raises(ValueError, match=r"cannot record an array of strides .*give array\.contiguous\(\)"):
        launch(wide.widen, wp.float64, (WORLDS, 4), [array, out], device=device)
