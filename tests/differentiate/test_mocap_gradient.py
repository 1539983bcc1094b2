# SPDX-License-Identifier: Apache-2.0
"""Gradients by the poses of mocap bodies against differences in float64: on a tape, through the state, in Jacobians, in torch and JAX."""

import mujoco
import numpy as np
import pytest
import warp as wp

import warpsim as ws
from warpsim.model.geometry import axis_angle, compose

# A gripper welded to a mocap body, a pendulum that hangs on another, and a ball that lies on a third.
SCENE = """<mujoco model="mocap"><option timestep="0.005"/><worldbody>
<body name="hook" mocap="true" pos="0 0 1"><body name="bob" pos=".3 0 0"><joint axis="0 1 0" damping=".05"/><geom size=".06"/></body></body>
<body name="target" mocap="true" pos="-1 0 .5"/>
<body name="gripper" pos="-1 0 .502"><freejoint/><geom type="box" size=".05 .04 .03" contype="0" conaffinity="0"/></body>
<body name="ball" pos="1 0 .2995"><freejoint/><geom size=".1"/></body>
<body name="table" mocap="true" pos="1.02 0 .1"><geom type="box" size=".2 .2 .1"/></body>
</worldbody><equality><weld body1="gripper" body2="target" relpose="0 0 0 1 0 0 0"/></equality></mujoco>"""
SIZES = (1e-4, 1e-5, 1e-6, 1e-7)


@pytest.fixture(scope="module")
def model():
    return ws.load(mujoco.MjModel.from_xml_string(SCENE))


def simulator(model, worlds=1, **options):
    options = {"solver": ws.SAP(tolerance=1e-13), "requires_grad": True} | options
    return ws.Simulator(model, worlds=worlds, dtype="float64", device="cpu", **options)


def poses(model, steps, worlds, seed=0, size=1e-3):
    """(steps, worlds, nmocap, 7) about those of the model, with quaternions that are not of length 1."""
    rng = np.random.default_rng(seed)
    return model.mocap0 + size * rng.normal(size=(steps, worlds, model.nmocap, 7))


@wp.kernel
def weighted_sum(x: wp.array2d(dtype=wp.float64), a: wp.array2d(dtype=wp.float64), loss: wp.array(dtype=wp.float64)):
    w, i = wp.tid()
    wp.atomic_add(loss, 0, a[w, i] * x[w, i])


def loss_of(state, weights):
    loss = wp.zeros(1, dtype=wp.float64, device="cpu", requires_grad=True)
    for x, a in zip((state.q, state.v), weights, strict=True):
        wp.launch(
            weighted_sum, dim=x.shape, inputs=[x, wp.array(a, dtype=wp.float64, device="cpu"), loss], device="cpu"
        )
    return loss


@pytest.mark.parametrize(("steps", "tolerance"), [(1, 1e-7), (10, 1e-6), (40, 1e-5)])
def test_poses_given_step_by_step(model, steps, tolerance):
    """Positions and rotations of all three bodies, along random directions; the gradient by a quaternion is orthogonal to it."""
    sim, plain = simulator(model), simulator(model, requires_grad=False)
    rng = np.random.default_rng(3)
    weights = [rng.normal(size=(1, n)) for n in (model.nq, model.nv)]
    given = poses(model, steps, 1)

    def value(table):
        final = plain.rollout(plain.state(), mocap=table).final
        return (final.q.numpy() * weights[0]).sum() + (final.v.numpy() * weights[1]).sum()

    table = wp.array(given, dtype=wp.float64, device="cpu", requires_grad=True)
    with wp.Tape() as tape:
        state = sim.state()
        for k in range(steps):
            state = sim.step(state, mocap=table[k])
        loss = loss_of(state, weights)
    table_values = table.numpy().copy()
    wp.copy(table, wp.zeros_like(table))  # the record keeps what the steps were given
    tape.backward(loss)
    gradient = table.grad.numpy()
    assert np.abs((gradient[..., 3:] * table_values[..., 3:]).sum(-1)).max() < 1e-9 * np.abs(gradient).max()
    for part in (slice(0, 3), slice(3, 7)):
        for body in range(model.nmocap):
            direction = np.zeros(given.shape)
            direction[:, :, body, part] = rng.normal(size=direction[:, :, body, part].shape)
            expected = (gradient * direction).sum()
            found = [(value(given + e * direction) - value(given - e * direction)) / (2 * e) for e in SIZES]
            scale = np.abs(gradient[:, :, body, part]).max() * np.linalg.norm(direction)
            assert np.abs(np.array(found) - expected).min() < tolerance * max(scale, 1e-3), (body, part)
            shifts_the_hook = body == 0 and part.start == 0  # which has no velocity: its pendulum feels nothing
            assert (scale == 0) == shifts_the_hook


@pytest.mark.parametrize(
    "integrator", [ws.SymplecticEuler(), ws.ImplicitEuler(), ws.Midpoint(), ws.Variational()], ids=str
)
def test_poses_that_the_state_holds(model, integrator):
    """`check_gradients` with the poses of one start, for each integrator; and through the state, which hands them on."""
    sim = simulator(model, integrator=integrator)
    start = sim.state(mocap=poses(model, 1, 1)[0])
    check = ws.check_gradients(sim, start, horizons=(1, 10), variables=("mocap",), entries=6)
    assert check.ok and check.worst() < 1e-5, str(check)
    rng = np.random.default_rng(5)
    weights = [rng.normal(size=(1, n)) for n in (model.nq, model.nv)]
    table = wp.array(
        np.repeat(start.mocap.numpy()[None], 4, axis=0), dtype=wp.float64, device="cpu", requires_grad=True
    )
    gradients = []
    for given in (None, table):
        state = begin = sim.state(mocap=start.mocap)
        with wp.Tape() as tape:
            for k in range(4):
                state = sim.step(state, mocap=None if given is None else given[k])
            loss = loss_of(state, weights)
        tape.backward(loss)
        gradients.append(begin.mocap.grad.numpy() if given is None else given.grad.numpy().sum(axis=0))
    np.testing.assert_allclose(gradients[0], gradients[1], rtol=1e-9, atol=1e-9 * np.abs(gradients[1]).max())


@pytest.mark.parametrize("solver", [ws.SAP(tolerance=1e-13), ws.Compliant(), ws.LCP()], ids=lambda s: type(s).__name__)
def test_columns_of_the_jacobian(model, solver):
    """Six for each body: its translation in world axes, its rotation in body axes; A and B are those of the closed form."""
    sim = simulator(model, worlds=2, solver=solver)
    given = poses(model, 1, 2)[0]
    state = sim.state(mocap=given)
    J = sim.linearize(state, mocap_jacobian=True)
    assert J.mocap.shape == (2, 2 * model.nv, 6 * model.nmocap)
    if isinstance(solver, ws.SAP):
        np.testing.assert_allclose(sim.linearize(state).A.numpy(), J.A.numpy(), atol=1e-9 * np.abs(J.A.numpy()).max())
        assert sim.linearize(state).mocap is None
    scale = np.abs(J.mocap.numpy()).max()
    for column in range(6 * model.nmocap):
        body, axis = divmod(column, 6)
        errors = []
        for e in (1e-5, 1e-6, 1e-7):
            ends = []
            for sign in (e, -e):
                motion = np.zeros(6)
                motion[axis] = sign
                turned = given.copy()
                turned[:, body] = compose(
                    given[:, body], np.array([0, 0, 0, *axis_angle(np.eye(3)[axis % 3], sign * (axis > 2))])
                )
                turned[:, body, :3] = given[:, body, :3] + motion[:3]
                ends.append(sim.step(state, mocap=turned))
            moved = model.difference(ends[1].q.numpy(), ends[0].q.numpy())
            moved = np.concatenate([moved, ends[0].v.numpy() - ends[1].v.numpy()], axis=1) / (2 * e)
            errors.append(np.abs(moved - J.mocap.numpy()[:, :, column]).max())
        assert min(errors) < 1e-6 * scale, (column, errors, scale)
    with pytest.raises(ValueError, match="no closed form by the poses of mocap bodies"):
        simulator(model, requires_grad=False).linearize(
            simulator(model, requires_grad=False).state(), mocap_jacobian=True
        )


def test_long_rollouts_and_other_frameworks(model):
    """Checkpoints, torch and JAX give the bits of the tape."""
    torch = pytest.importorskip("torch")
    sim, given = simulator(model, worlds=2), poses(model, 7, 2)
    found = []
    for every in (None, 3):
        table = wp.array(given, dtype=wp.float64, device="cpu", requires_grad=True)
        with wp.Tape() as tape:
            rolled = sim.rollout(sim.state(), mocap=table, checkpoint_every=every)
            loss = loss_of(rolled.final, [np.ones((2, n)) for n in (model.nq, model.nv)])
        tape.backward(loss)
        found.append(table.grad.numpy())
    np.testing.assert_array_equal(found[0], found[1])
    tensor = torch.tensor(given, requires_grad=True)
    q0, v0 = torch.tensor(model.q0), torch.zeros(model.nv, dtype=torch.float64)
    q, v = ws.torch.rollout(sim, q0, v0, mocap=tensor)
    (q[-1].sum() + v[-1].sum()).backward()
    np.testing.assert_allclose(tensor.grad.numpy(), found[0], rtol=1e-12)
    first, _ = ws.torch.step(sim, q0, v0, mocap=tensor[0].detach())
    np.testing.assert_array_equal(first.numpy(), q[1].detach().numpy())
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)

    def loss(table):
        q, v = ws.jax.rollout(sim, model.q0, np.zeros(model.nv), mocap=table)
        return q[-1].sum() + v[-1].sum()

    np.testing.assert_allclose(np.asarray(jax.grad(loss)(given)), found[0], rtol=1e-12)


def test_a_world_that_stands_still_passes_no_gradient(model):
    """NaN in one world's poses reaches neither its own gradient nor that of another world."""
    sim, given = simulator(model, worlds=2), poses(model, 3, 2)
    given[1, 0, 1, 4] = np.nan
    table = wp.array(given, dtype=wp.float64, device="cpu", requires_grad=True)
    with wp.Tape() as tape:
        rolled = sim.rollout(sim.state(), mocap=table)
        loss = loss_of(rolled.final, [np.ones((2, n)) for n in (model.nq, model.nv)])
    tape.backward(loss)
    gradient = table.grad.numpy()
    assert np.isfinite(gradient).all() and not gradient[1:, 0].any() and gradient[:, 1].any()


def test_reset_cuts_the_gradient_of_the_worlds_that_it_puts_back(model):
    """Poses of a world that goes on pass theirs; of one that starts anew they have none."""
    sim = simulator(model, worlds=2)
    start = sim.state(mocap=poses(model, 1, 2)[0])
    with wp.Tape() as tape:
        state = sim.step(start)
        sim.reset(state, [0])
        state = sim.step(state)
        loss = loss_of(state, [np.ones((2, n)) for n in (model.nq, model.nv)])
    tape.backward(loss)
    gradient = start.mocap.grad.numpy()
    assert not gradient[0].any() and gradient[1].any()
