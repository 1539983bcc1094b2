"""Device code reads rows that are side by side (`kernels/preamble.py`); arrays of a user need not be stored so."""

import numpy as np
import pytest
import warp as wp

import warpsim as ws

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
