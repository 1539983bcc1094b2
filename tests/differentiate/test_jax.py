# SPDX-License-Identifier: Apache-2.0
"""JAX: a rollout under jit, grad and vmap, against differences and against the simulator."""

import gc
import weakref

import numpy as np
import pytest
from adapter_samples import STEPS, WORLDS, cart_pole, everything, everything_inputs

import warpsim as ws

jax = pytest.importorskip("jax")


@pytest.fixture(autouse=True)
def double_precision():
    """float64 for these tests alone."""
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


def inputs(sim):
    rng = np.random.default_rng(0)
    m = sim.model
    return [
        jax.numpy.array(rng.normal(size=shape))
        for shape in ((WORLDS, m.nq), (WORLDS, m.nv), (STEPS, WORLDS, m.nu), m.body_mass.shape)
    ]


def loss_of(sim, **options):
    def loss(q, v, controls, change):
        mass = sim.model.body_mass * (1 + 0.1 * change)
        Q, V = ws.jax.rollout(sim, q, v, controls, parameters={"body_mass": mass}, **options)
        return (Q[-1] ** 2).sum() + (V[1] ** 3).sum()

    return loss


@pytest.mark.parametrize("options", [{}, {"checkpoint_every": 2, "substeps": 2}])
def test_gradients_against_differences(options):
    """JAX's own check of both modes: start, controls per world, and masses shared by all worlds."""
    from jax.test_util import check_grads

    sim = cart_pole()
    check_grads(loss_of(sim, **options), inputs(sim), order=1, modes=["rev", "fwd"], eps=1e-5, rtol=1e-6, atol=1e-6)


def test_jit_and_vmap():
    """The same numbers compiled, and one call per element under vmap."""
    sim = cart_pole()
    q, v, controls, change = inputs(sim)
    loss = loss_of(sim)
    every = tuple(range(4))
    plain, compiled = (f(q, v, controls, change) for f in (jax.grad(loss, every), jax.jit(jax.grad(loss, every))))
    for a, b in zip(plain, compiled, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    both = jax.vmap(lambda s: loss(q, v, s * controls, change))(jax.numpy.array([1.0, 0.5]))
    np.testing.assert_array_equal(both[1], loss(q, v, 0.5 * controls, change))


def test_rows_are_those_of_the_simulator():
    """The bits of `sim.rollout`."""
    sim = cart_pole(requires_grad=False)
    q, v, controls, _ = inputs(sim)
    expected = sim.rollout(sim.state(np.asarray(q), np.asarray(v)), np.asarray(controls), every=2)
    rows = ws.jax.rollout(sim, q, v, controls, every=2)
    np.testing.assert_array_equal(rows[0], expected.q.numpy())
    np.testing.assert_array_equal(rows[1], expected.v.numpy())


def test_errors_say_what_to_change():
    """Wrong shapes and dtypes, and a simulator without gradients."""
    sim = cart_pole()
    q, v, controls, _ = inputs(sim)
    with pytest.raises(ValueError, match=r"q is float32; this simulator needs float64.*jax_enable_x64"):
        ws.jax.rollout(sim, q.astype("float32"), v, controls)
    with pytest.raises(ValueError, match=r"controls has shape"):
        ws.jax.rollout(sim, q, v, controls[:, :2])
    with pytest.raises(ValueError, match="steps"):
        ws.jax.rollout(sim, q, v)
    plain = cart_pole(requires_grad=False)
    with pytest.raises(ValueError, match="requires_grad=True"):
        jax.grad(lambda u: ws.jax.rollout(plain, q, v, u)[0].sum())(controls)


def test_simulators_are_forgotten():
    """What XLA keeps of a rollout does not keep the simulator: its memory goes with the last reference."""
    sim = cart_pole(requires_grad=False)
    q, v, controls, _ = inputs(sim)
    for _ in range(3):
        ws.jax.rollout(sim, q, v, controls)
    gone = weakref.ref(sim)
    del sim
    gc.collect()
    assert gone() is None


def test_calls_are_compiled_once():
    """Rollouts outside `jit` are not programs of their own each time."""
    sim = cart_pole()
    q, v, controls, _ = inputs(sim)
    gradient = jax.grad(lambda u: ws.jax.rollout(sim, q, v, u)[0][-1].sum())
    seen = []
    jax.monitoring.register_event_duration_secs_listener(lambda name, *_, **__: seen.append(name))
    gradient(controls)
    assert any("compile" in name for name in seen)
    other = 2 * controls
    seen.clear()
    gradient(other)
    assert not any("compile" in name for name in seen), seen


def test_forward_and_reverse_mode_agree(within):
    """⟨w, J t⟩ = ⟨Jᵀw, t⟩ by contact, quaternions of any length, mocap poses, activations, controls and masses."""
    sim = everything()
    given = {name: jax.numpy.array(x) for name, x in everything_inputs(sim, 3).items()}

    def rows(given):
        q, v, mass = given["q"], given["v"], {"body_mass": given["body_mass"]}
        others = {name: given[name] for name in ("activation", "mocap", "controls")}
        return ws.jax.rollout(sim, q, v, parameters=mass, substeps=2, **others)

    rng = np.random.default_rng(1)
    changes = {name: jax.numpy.array(rng.normal(size=x.shape)) for name, x in given.items()}
    found, pushed = jax.jit(lambda x, t: jax.jvp(rows, (x,), (t,)))(given, changes)
    weights = tuple(jax.numpy.array(rng.normal(size=x.shape)) for x in found)
    (pulled,) = jax.vjp(rows, given)[1](weights)
    left = sum((a * b).sum() for a, b in zip(weights, pushed, strict=True))
    right = sum((pulled[name] * changes[name]).sum() for name in given)
    within("⟨w, J t⟩ − ⟨Jᵀw, t⟩", abs(left - right) / abs(left), 1e-9)


def test_jacobians_of_both_modes_and_batches(within):
    """`jacrev` and `jacfwd`, compiled and not, of a rollout and of a batch of rollouts; the transpose of a `jvp`."""
    sim = cart_pole()
    q, v, controls, _ = inputs(sim)

    def last(u):
        return ws.jax.rollout(sim, q, v, u)[1][-1]

    batch = jax.numpy.stack([controls, -0.5 * controls])
    expected = jax.jacrev(last)(controls)
    for found in (jax.jacfwd(last)(controls), jax.jit(jax.jacfwd(last))(controls)):
        within("Jacobian", abs(found - expected).max() / abs(expected).max(), 1e-12)
    by_batch = jax.jit(jax.jacfwd(jax.vmap(last)))(batch)
    within("Jacobian of a batch", abs(by_batch[0, :, :, 0] - expected).max() / abs(expected).max(), 1e-12)
    within("between slices", abs(by_batch[0, :, :, 1]).max(), 0.0)
    along = jax.grad(lambda t: jax.jvp(last, (controls,), (t,))[1].sum())(controls)
    np.testing.assert_allclose(along, jax.grad(lambda u: last(u).sum())(controls), rtol=1e-10, atol=1e-14)
    gradient = jax.grad(lambda u: (last(u) ** 2).sum())
    for k, found in enumerate(jax.vmap(gradient)(batch)):
        np.testing.assert_allclose(found, gradient(batch[k]), rtol=1e-12)
    np.testing.assert_allclose(
        jax.grad(lambda b: (jax.vmap(last)(b) ** 2).sum())(batch), jax.vmap(gradient)(batch), rtol=1e-12
    )


def test_forward_mode_says_what_to_change():
    """In closed form it needs no requires_grad=True; what has none says so; second derivatives are refused."""
    plain, other = cart_pole(requires_grad=False), cart_pole(requires_grad=False, solver=ws.LCP())
    q, v, controls, _ = inputs(plain)

    def last(sim):
        return lambda u: (ws.jax.rollout(sim, q, v, u)[1][-1] ** 2).sum()

    assert np.isfinite(jax.jvp(last(plain), (controls,), (controls,))[1])
    with pytest.raises(ValueError, match=r"forward mode has no closed form with LCP.*requires_grad=True"):
        jax.jvp(last(other), (controls,), (controls,))
    with pytest.raises(ValueError, match=r"single steps of Variational.*'jump'"):
        jax.jvp(last(cart_pole(integrator=ws.Variational())), (controls,), (controls,))
    sim = cart_pole()
    for outer in (jax.jacfwd, jax.jacrev):
        for inner in (jax.jacfwd, jax.jacrev):
            with pytest.raises(NotImplementedError, match=r"first derivatives only.*ws.hessian_vector"):
                outer(inner(last(sim)))(controls)


def test_mujocos_law_by_its_parameters():
    """solref and friction of a ball in contact under MuJoCo's law, by JAX's own check."""
    from jax.test_util import check_grads

    sim = everything(solver=ws.MuJoCo(tolerance=1e-14))
    q, v = np.tile(sim.model.q0, (2, 1)), np.tile([0.4, 0.1, 0, 0.5, 0, 0.3, 0.2], (2, 1))
    controls = np.zeros((STEPS, 2, sim.model.nu))

    def loss(v, solref, friction):
        parameters = {"geom_solref": solref, "geom_friction": friction}
        Q, V = ws.jax.rollout(sim, q, v, controls, parameters=parameters)[:2]
        return (Q[-1] ** 2).sum() + (V[-1] ** 3).sum()

    point = [v, sim.model.geom_solref, 0.5 * sim.model.geom_friction * np.array([1.0, 1.3, 1.0])]
    check_grads(loss, [jax.numpy.array(x) for x in point], order=1, modes=["rev"], eps=1e-6, rtol=1e-5, atol=1e-6)
