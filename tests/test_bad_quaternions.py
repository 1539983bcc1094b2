# SPDX-License-Identifier: Apache-2.0
"""A quaternion that is no rotation is refused on the host and flags its world on the device; none becomes the identity."""

import itertools

import numpy as np
import pytest
import warp as wp

import warpsim as ws
from papers.ccs.program import PrintedSimulator

SOLVERS = {
    "sap": ws.SAP(),
    "lcp": ws.LCP(),
    "compliant": ws.Compliant(),
    "paper": ws.Compliant(),  # in a `PrintedSimulator`
    "none": ws.NoContact(),
}
INTEGRATORS = {
    "symplectic": ws.SymplecticEuler(),
    "explicit": ws.ExplicitEuler(),
    "implicit": ws.ImplicitEuler(),
    "midpoint": ws.Midpoint(),
    "variational": ws.Variational(),
}
GRID = [
    (solver, integrator, dtype)
    for solver, integrator, dtype in itertools.product(SOLVERS, INTEGRATORS, ("float32", "float64"))
    if solver != "paper" or (integrator, dtype) == ("symplectic", "float64")
]
NAN = np.nan
# By world: what is written over the free joint's quaternion and the ball joint's (None: left as it is).
BAD = [
    (None, None),
    ([NAN, 0, 0, 0], None),
    ([0, 0, 0, 0], None),
    (None, [1, 0, NAN, 0]),
    (None, [0, 0, 0, 0]),
    ([1e-9, 0, 0, 0], None),
    (None, [0, 1e9, 0, 0]),
    ([np.inf, 0, 0, 0], None),
    ([0.9, 0, 0, 0], [0, 3.0, 0, 4.0]),
]
FLAGGED = [0, 1, 1, 1, 1, 1, 1, 1, 0]


def scene() -> ws.Model:
    """A box that rests on the floor, and a sphere on a ball joint beside it."""
    b = ws.ModelBuilder("box and pendulum", timestep=0.005)
    b.add_geom("plane", friction=0.5)
    box = b.add_body("box", pose=[0, 0, 0.1, 1, 0, 0, 0])
    b.add_joint(box, "free", name="root")
    b.add_geom("box", [0.1, 0.1, 0.1], body=box, friction=0.5)
    arm = b.add_body("arm", pose=[1, 0, 1, 1, 0, 0, 0])
    b.add_joint(arm, "ball", name="shoulder")
    b.add_geom("sphere", [0.05], pose=[0, 0, -0.3, 1, 0, 0, 0], body=arm)
    return b.build()


def written(sim: ws.Simulator, bad) -> ws.State:
    """The initial state with quaternions written on the device."""
    state = sim.state()
    q = state.q.numpy().copy()
    for w, (free, ball) in enumerate(bad):
        q[w, 3:7] = q[w, 3:7] if free is None else free
        q[w, 7:11] = q[w, 7:11] if ball is None else ball
    state.q.assign(q)
    return state


@pytest.mark.parametrize("solver, integrator, dtype", GRID, ids=["-".join(case) for case in GRID])
def test_a_quaternion_that_is_no_rotation_flags_its_world_alone(device, solver, integrator, dtype):
    """NaN, zero, tiny, huge and infinite quaternions in free and ball joints: NONFINITE from the first step on, q, v and
    time as they were given, the other worlds' bits unchanged. One of another length is the rotation that it stands for."""
    settings = {"dtype": dtype, "device": device, "solver": SOLVERS[solver], "integrator": INTEGRATORS[integrator]}
    sim = (PrintedSimulator if solver == "paper" else ws.Simulator)(scene(), worlds=len(BAD), **settings)
    start = written(sim, BAD)
    end = start.clone()
    for _ in range(3):
        end = sim.step(end)
    flags = end.memory["flags"].numpy()
    np.testing.assert_array_equal(flags & ws.NONFINITE, FLAGGED)
    q0, q, v, time = start.q.numpy(), end.q.numpy(), end.v.numpy(), end.time.numpy()
    stopped = np.flatnonzero(FLAGGED)
    np.testing.assert_array_equal(q[stopped], q0[stopped])
    assert not v[stopped].any() and not time[stopped].any()

    fine = sim.state()
    for _ in range(3):
        fine = sim.step(fine)
    for name, array in fine.arrays().items():
        np.testing.assert_array_equal(array.numpy()[0], end.arrays()[name].numpy()[0], err_msg=name)
    moving = np.linalg.norm(q[8, [3, 4, 5, 6]]), np.linalg.norm(q[8, 7:11])
    np.testing.assert_allclose(moving, 1.0, atol=1e-6)
    np.testing.assert_allclose(np.abs(q[8, 3:7] @ q[0, 3:7]), 1.0, atol=1e-6)
    assert flags[8] == flags[0] == 0


def test_a_bad_quaternion_on_a_tape_and_in_jacobians(device):
    """The flagged world passes no gradient and its Jacobian is not finite; the other world's are those that it has alone."""
    sim = ws.Simulator(scene(), worlds=2, dtype="float64", device=device, requires_grad=True)
    gradients = {}
    for name, bad in (("good", [(None, None)] * 2), ("bad", [(None, None), ([0, 0, 0, 0], None)])):
        state = written(sim, bad)
        with wp.Tape() as tape:
            after = sim.step(sim.step(state))
        after.v.grad.fill_(1.0)
        tape.backward()
        gradients[name] = state.q.grad.numpy().copy(), state.v.grad.numpy().copy()
        jacobian = sim.linearize(state)
        gradients[name] += (jacobian.A.numpy().copy(),)
        expected = [0, ws.NONFINITE if name == "bad" else 0]
        np.testing.assert_array_equal(after.memory["flags"].numpy(), expected)
    for good, bad in zip(gradients["good"], gradients["bad"], strict=True):
        np.testing.assert_array_equal(good[0], bad[0])
    assert not np.nan_to_num(gradients["bad"][0][1]).any()
    assert np.isnan(gradients["bad"][2][1]).any()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["joint_pose", "geom_pose", "geom_size"])
@pytest.mark.parametrize("value", [np.nan, 0.0])
def test_a_bad_parameter_of_a_pose_flags_its_world_alone(device, dtype, name, value):
    """A NaN or a zero quaternion written on the device into one world's joint or geom poses, a NaN into its sizes."""
    if name == "geom_size" and value == 0.0:
        pytest.skip("a size may be 0")
    ends = []
    for bad in (False, True):
        sim = ws.Simulator(scene(), worlds=3, dtype=dtype, device=device)
        array = sim.parameters[name]
        host = array.numpy().copy()
        if bad:
            host[1, 1, 3 if name != "geom_size" else 0 :] = value
            array.assign(host)
        state = sim.state()
        for _ in range(3):
            state = sim.step(state)
        ends.append({key: x.numpy().copy() for key, x in state.arrays().items()})
    good, bad = ends
    for key, values in good.items():
        np.testing.assert_array_equal(values[[0, 2]], bad[key][[0, 2]], err_msg=key)
    np.testing.assert_array_equal(bad["flags"], [0, ws.NONFINITE, 0])
    np.testing.assert_array_equal(bad["q"][1], np.asarray(sim.model.q0, dtype))


@pytest.mark.parametrize("values", [[0.0, 0, 0, 0], [NAN, 0, 0, 0], [1e-7, 0, 0, 0], [0, 1e7, 0, 0]])
def test_the_host_refuses_it_by_name(values):
    """`sim.state`, `sim.reset` and the queries name the joint, the row and the value."""
    sim = ws.Simulator(scene(), worlds=3, dtype="float64", device="cpu")
    q = np.tile(sim.model.q0, (3, 1))
    q[2, 7:11] = values
    for call in (sim.state, lambda q: sim.reset(sim.state(), [0, 1, 2], q=q), sim.kinematics, sim.mass_matrix):
        with pytest.raises(ValueError) as error:
            call(q)
        assert "'shoulder' in row 2" in str(error.value) and str(float(values[0])) in str(error.value)
    q[2, 7:11] = [0.9, 0, 0, 0]
    assert sim.state(q).q.numpy()[2, 7] == 0.9
