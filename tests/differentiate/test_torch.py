# SPDX-License-Identifier: Apache-2.0
"""PyTorch: rollouts as functions of tensors, gradients against differences, dtypes, memory shared, modules."""

import numpy as np
import pytest
from adapter_samples import STEPS, WORLDS, cart_pole, everything, everything_inputs

import warpsim as ws
from scenes.bodies import body_on_plane

torch = pytest.importorskip("torch")


def inputs(sim, seed=0, dtype=torch.float64):
    random = torch.Generator().manual_seed(seed)
    m = sim.model
    shapes = ((sim.worlds, m.nq), (sim.worlds, m.nv), (STEPS, sim.worlds, m.nu))
    return [torch.randn(shape, generator=random, dtype=dtype).requires_grad_() for shape in shapes]


@pytest.mark.parametrize("checkpoint_every", [None, 2])
def test_gradients_against_differences(checkpoint_every):
    """torch's own gradcheck: start, controls, masses per world, and a centre of mass shared by all worlds."""
    sim = cart_pole()
    q, v, controls = inputs(sim)
    mass = torch.tensor(np.tile(sim.model.body_mass, (WORLDS, 1)), requires_grad=True)
    com = torch.tensor(sim.model.body_com, requires_grad=True)

    def rows(q, v, controls, mass, com):
        parameters = {"body_mass": mass, "body_com": com}
        return ws.torch.rollout(sim, q, v, controls, parameters=parameters, checkpoint_every=checkpoint_every)

    assert torch.autograd.gradcheck(rows, (q, v, controls, mass, com), eps=1e-6, atol=1e-7, rtol=1e-5)


def test_rows_are_those_of_the_simulator():
    """The tensors hold the bits of `sim.rollout`, with and without a gradient asked for."""
    sim = cart_pole()
    q, v, controls = inputs(sim)
    expected = sim.rollout(sim.state(q.detach().numpy(), v.detach().numpy()), controls.detach().numpy(), every=2)
    for asked in (True, False):
        with torch.set_grad_enabled(asked):
            rows = ws.torch.rollout(sim, q, v, controls, every=2)
        assert rows[0].requires_grad is asked and rows[0].shape == (3, WORLDS, sim.model.nq)
        np.testing.assert_array_equal(rows[0].detach().numpy(), expected.q.numpy())
        np.testing.assert_array_equal(rows[1].detach().numpy(), expected.v.numpy())


def test_parameters_may_change_between_the_passes():
    """Two rollouts with different masses before either's backward pass: each gets its own gradient, and the
    simulator keeps the last values."""
    sim = cart_pole()
    q, v, controls = (x.detach() for x in inputs(sim))

    def loss(mass):
        return ws.torch.rollout(sim, q, v, controls, parameters={"body_mass": mass})[1][-1].square().sum()

    masses = [torch.tensor(sim.model.body_mass * s, requires_grad=True) for s in (1.0, 1.7)]
    alone = [torch.autograd.grad(loss(mass), mass)[0] for mass in masses]
    (loss(masses[0]) + loss(masses[1])).backward()
    for mass, expected in zip(masses, alone, strict=True):
        torch.testing.assert_close(mass.grad, expected, rtol=0, atol=0)
    np.testing.assert_array_equal(sim.parameters["body_mass"].numpy()[0], masses[1].detach().numpy())


def test_a_second_backward_pass_adds_nothing_of_the_first():
    """retain_graph: the same gradient twice."""
    sim = cart_pole()
    q, v, controls = inputs(sim)
    loss = ws.torch.rollout(sim, q, v, controls)[0].square().sum()
    first, second = (torch.autograd.grad(loss, (q, controls), retain_graph=True) for _ in range(2))
    for a, b in zip(first, second, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)


def test_a_step_is_a_rollout_of_one_step():
    """Values and gradients of `step` in two parts are those of `rollout`, bit for bit."""
    sim = cart_pole()
    q, v, controls = inputs(sim)
    found = []
    for ends in (
        ws.torch.step(sim, q, v, controls[0], substeps=2),
        [rows[1] for rows in ws.torch.rollout(sim, q, v, controls[:1], substeps=2)],
    ):
        gradients = torch.autograd.grad(ends[0].square().sum() + ends[1].sum(), (q, v, controls))
        found.append([*ends, *gradients])
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)


def test_what_a_step_returns_may_be_overwritten():
    """A caller that changes q and v in place, as a reset does, leaves the gradient of that step as it was.

    The backward pass of `ws.LCP` reads the velocities at the end of the step.
    """
    model = ws.load(ws.robots.path("hopper"))
    sim = ws.Simulator(model, dtype="float64", requires_grad=True, solver=ws.LCP(), device="cpu")
    state = sim.state()
    for _ in range(300):
        state = sim.step(state)
    assert sim.diagnostics.contacts.numpy()[0]
    q, v = torch.tensor(state.q.numpy()), torch.tensor(state.v.numpy())
    found = []
    for overwritten in (False, True):
        start = v.clone().requires_grad_()
        ends = ws.torch.step(sim, q, start)
        loss = ends[1].sum()
        if overwritten:
            with torch.no_grad():
                ends[0].fill_(1.0)
                ends[1].fill_(1e3)
        found.append(torch.autograd.grad(loss, start)[0])
    torch.testing.assert_close(found[1], found[0], rtol=0, atol=0)


def test_closed_loop_with_a_policy():
    """A torch policy in the loop: gradients of its weights by gradcheck, rows as those of the same controls given."""
    sim = cart_pole()
    q, v, _ = (x.detach() for x in inputs(sim))
    weights = torch.tensor([[0.3, -0.4, 0.1, 0.2]], dtype=torch.float64, requires_grad=True)

    def rows(weights):
        return ws.torch.rollout(sim, q, v, lambda q, v: torch.cat([q, v], 1) @ weights.T, steps=STEPS)

    assert torch.autograd.gradcheck(rows, (weights,), eps=1e-6, atol=1e-7, rtol=1e-5)
    Q, V = (x.detach() for x in rows(weights))
    controls = torch.cat([Q, V], 2)[:-1] @ weights.detach().T
    torch.testing.assert_close(ws.torch.rollout(sim, q, v, controls)[0], Q, rtol=0, atol=0)


def test_a_module_learns_the_mass():
    """torch.optim on a module's physical parameter finds the mass that made a motion."""
    sim = cart_pole()
    q, v, controls = (x.detach() for x in inputs(sim))
    seen = ws.torch.rollout(sim, q, v, controls)[1].clone()
    sim.parameters["body_mass"] = sim.model.body_mass * 1.5
    model = ws.torch.Module(sim, parameters=["body_mass"])
    assert [name for name, _ in model.named_parameters()] == ["body_mass"]
    optimiser = torch.optim.LBFGS(model.parameters(), max_iter=50, line_search_fn="strong_wolfe")

    def closure():
        optimiser.zero_grad()
        loss = (model(q, v, controls)[1] - seen).square().mean()
        loss.backward()
        return loss

    optimiser.step(closure)
    np.testing.assert_allclose(model.body_mass.detach().numpy(), sim.model.body_mass, rtol=1e-4)


def test_float32(within):
    """float32 tensors with a float32 simulator: the float64 gradient to single precision."""
    found = []
    for dtype, name in ((torch.float32, "float32"), (torch.float64, "float64")):
        sim = cart_pole(dtype=name, solver=None)
        q, v, controls = (x.detach().to(dtype).requires_grad_() for x in inputs(sim))
        rows = ws.torch.rollout(sim, q, v, controls)
        assert rows[0].dtype == dtype
        found.append(torch.autograd.grad(rows[1].square().sum(), (q, controls)))
    for a, b in zip(*found, strict=True):
        within("float32 gradient through torch", (a.double() - b).abs().max() / b.abs().max(), 1e-5)


def test_errors_say_what_to_change():
    """Wrong dtype, shape or kind, a simulator without gradients, a tensor written to before the backward pass."""
    sim = cart_pole()
    q, v, controls = inputs(sim)
    with pytest.raises(ValueError, match=r"q is torch.float32 on cpu; this simulator needs torch.float64"):
        ws.torch.rollout(sim, q.float(), v, controls)
    with pytest.raises(ValueError, match=r"controls has shape .*; it must be \(5, 3, 1\), or \(5, 1\)"):
        ws.torch.rollout(sim, q, v, controls[:, :2])
    with pytest.raises(ValueError, match=r"v is a ndarray; give a torch.Tensor"):
        ws.torch.rollout(sim, q, v.detach().numpy(), controls)
    with pytest.raises(ValueError, match="steps"):
        ws.torch.rollout(sim, q, v)
    with pytest.raises(ValueError, match="no parameter 'mass'"):
        ws.torch.rollout(sim, q, v, controls, parameters={"mass": q})
    with pytest.raises(ValueError, match="requires_grad=True"):
        ws.torch.rollout(cart_pole(requires_grad=False), q, v, controls)
    loss = ws.torch.rollout(sim, q, v, controls)[0].sum()
    with torch.no_grad():
        controls += 1.0
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_contact_in_float64():
    """A box that slides: gradients of the start's velocity and of friction by gradcheck."""
    model = body_on_plane("box", [0.1, 0.1, 0.1], height=0.0999, friction=0.4)
    options = {"dtype": "float64", "requires_grad": True, "solver": ws.SAP(tolerance=1e-13), "device": "cpu"}
    sim = ws.Simulator(model, dt=0.01, **options)
    q = torch.tensor(model.q0)
    v = torch.tensor([0.3, 0.1, 0, 0, 0, 0.5], dtype=torch.float64, requires_grad=True)
    friction = torch.tensor([0.39, 0.41], dtype=torch.float64, requires_grad=True)

    def last(v, friction):
        return ws.torch.rollout(sim, q, v, steps=4, parameters={"geom_friction": friction})[1][-1]

    assert torch.autograd.gradcheck(last, (v, friction), eps=1e-6, atol=1e-6, rtol=1e-5)


# Transforms of torch.func ---------------------------------------------------------------------------------------------


def step_of(sim):
    return lambda q, v, u: ws.torch.step(sim, q, v, u)


def step_inputs(sim):
    q, v, controls = (x.detach() for x in inputs(sim))
    return q, v, controls[0]


def test_forward_mode_against_differences():
    """torch's own gradcheck of forward-mode derivatives, with masses and a rollout of several steps and substeps."""
    sim = cart_pole()
    q, v, controls = inputs(sim)
    mass = torch.tensor(sim.model.body_mass, requires_grad=True)

    def rows(q, v, controls, mass):
        return ws.torch.rollout(sim, q, v, controls, parameters={"body_mass": mass}, every=2, substeps=2)

    options = {"eps": 1e-6, "atol": 1e-7, "rtol": 1e-5, "check_forward_ad": True, "check_backward_ad": False}
    assert torch.autograd.gradcheck(rows, (q, v, controls, mass), **options)


@pytest.mark.parametrize("solver", ["SAP", "LCP"])
@pytest.mark.parametrize("steps", [1, 4])
def test_forward_and_reverse_mode_agree(steps, solver, within):
    """⟨w, J t⟩ = ⟨Jᵀw, t⟩ by contact, quaternions of any length, mocap poses, activations, controls and masses."""
    kind = {"SAP": ws.SAP(tolerance=1e-13), "LCP": ws.LCP(tolerance=1e-13)}[solver]
    sim = everything(solver=kind)
    given = {name: torch.tensor(x) for name, x in everything_inputs(sim, steps).items()}
    names, values = tuple(given), tuple(given.values())

    def rows(*values):
        by_name = dict(zip(names, values, strict=True))
        q, v, mass = (by_name.pop(name) for name in ("q", "v", "body_mass"))
        return ws.torch.rollout(sim, q, v, parameters={"body_mass": mass}, substeps=2, **by_name)

    random = torch.Generator().manual_seed(1)
    changes = tuple(torch.randn(x.shape, generator=random, dtype=x.dtype) for x in values)
    found, pushed = torch.func.jvp(rows, values, changes)
    weights = tuple(torch.randn(x.shape, generator=random, dtype=x.dtype) for x in found)
    pulled = torch.func.vjp(rows, *values)[1](weights)
    left = sum((a * b).sum() for a, b in zip(weights, pushed, strict=True))
    right = sum((a * b).sum() for a, b in zip(pulled, changes, strict=True))
    assert len(found) == 3
    within("⟨w, J t⟩ − ⟨Jᵀw, t⟩", abs(left - right) / abs(left), 1e-9)


def test_jacobians(within):
    """`jacrev` and `jacfwd` give the same Jacobians, those of `sim.linearize`, in every world."""
    sim = cart_pole()
    q, v, u = step_inputs(sim)
    by_reverse, by_forward = (
        f(step_of(sim), argnums=(0, 1, 2))(q, v, u) for f in (torch.func.jacrev, torch.func.jacfwd)
    )
    J = sim.linearize(sim.state(q.numpy(), v.numpy()), u.numpy())
    A, B = J.A.numpy(), J.B.numpy()
    expected = [[A[:, :2, :2], A[:, :2, 2:], B[:, :2]], [A[:, 2:, :2], A[:, 2:, 2:], B[:, 2:]]]
    for found in (by_reverse, by_forward):
        for row, block_row in zip(found, expected, strict=True):
            for x, block in zip(row, block_row, strict=True):
                wanted = np.zeros(x.shape)
                wanted[range(WORLDS), :, range(WORLDS)] = block
                within("Jacobian", np.abs(x.numpy() - wanted).max(), 1e-12)


def test_batches(within):
    """`vmap` over inputs, over gradients, directions and Jacobians are those of each slice; the gradient of a `vmap`, too."""
    func = torch.func
    sim = cart_pole()
    q, v, u = step_inputs(sim)
    batch = torch.stack([u, -2 * u, 0.5 * u])

    def loss(u):
        return (ws.torch.step(sim, q, v, u)[1] ** 2).sum()

    def along(u):
        return func.jvp(loss, (u,), (torch.ones_like(u),))[1]

    gradient = func.grad(loss)
    for function in (loss, gradient, along):
        expected = torch.stack([function(x) for x in batch])
        torch.testing.assert_close(func.vmap(function)(batch), expected, rtol=1e-12, atol=1e-15)
    found = func.grad(lambda batch: func.vmap(loss)(batch).sum())(batch)
    torch.testing.assert_close(found, torch.stack([gradient(x) for x in batch]), rtol=1e-12, atol=1e-15)
    for rows in (1, 3, WORLDS * 2 * sim.model.nv):  # fewer than inputs, as many, more
        jacobian = func.jacrev(lambda u, rows=rows: torch.cat(ws.torch.step(sim, q, v, u), 1).flatten()[:rows])
        expected = torch.stack([jacobian(x) for x in batch])
        torch.testing.assert_close(func.vmap(jacobian)(batch), expected, rtol=1e-12, atol=1e-15)


def test_forward_mode_without_gradients():
    """In closed form forward mode needs no requires_grad=True; what has none says so."""
    plain, sim = cart_pole(requires_grad=False), cart_pole()
    q, v, u = step_inputs(sim)
    changes = (torch.ones_like(q), torch.ones_like(v), torch.ones_like(u))
    for a, b in zip(*(torch.func.jvp(step_of(s), (q, v, u), changes)[1] for s in (plain, sim)), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)
    plain = cart_pole(requires_grad=False, solver=ws.LCP())
    with pytest.raises(ValueError, match=r"forward mode has no closed form with LCP.*requires_grad=True"):
        torch.func.jvp(step_of(plain), (q, v, u), changes)
    variational = cart_pole(integrator=ws.Variational())
    torch.func.jvp(step_of(variational), (q, v, u), changes)
    with pytest.raises(ValueError, match=r"single steps of Variational.*'jump'"):
        torch.func.jvp(lambda q: ws.torch.rollout(variational, q, v, steps=2), (q,), (torch.ones_like(q),))


def test_second_derivatives_are_refused():
    """Every combination of two derivatives."""
    func = torch.func
    sim = cart_pole()
    q, v, u = step_inputs(sim)

    def loss(u):
        return (ws.torch.step(sim, q, v, u)[1] ** 2).sum()

    for outer in (func.jacfwd, func.jacrev):
        for inner in (func.jacfwd, func.jacrev):
            with pytest.raises(NotImplementedError, match=r"first derivatives only.*ws.hessian_vector"):
                outer(inner(loss))(u)
    forward = torch.autograd.forward_ad
    with forward.dual_level(), pytest.raises(NotImplementedError, match="first derivatives only"):
        dual = forward.make_dual(u.clone().requires_grad_(), torch.ones_like(u))
        torch.autograd.grad(loss(dual), dual)


def test_mujocos_law_by_its_parameters():
    """solref and friction of a ball in contact under MuJoCo's law, by torch's gradcheck."""
    sim = everything(solver=ws.MuJoCo(tolerance=1e-14))
    q, v = (torch.tensor(x) for x in (np.tile(sim.model.q0, (2, 1)), np.tile([0.4, 0.1, 0, 0.5, 0, 0.3, 0.2], (2, 1))))
    solref, friction = (
        torch.tensor(x, requires_grad=True) for x in (sim.model.geom_solref, 0.5 * sim.model.geom_friction)
    )
    friction = (friction.detach() * torch.tensor([1.0, 1.3, 1.0])).requires_grad_()
    controls = torch.zeros((STEPS, 2, sim.model.nu), dtype=torch.float64)

    def rows(v, solref, friction):
        parameters = {"geom_solref": solref, "geom_friction": friction}
        return ws.torch.rollout(sim, q, v, controls, parameters=parameters)[1]

    assert torch.autograd.gradcheck(rows, (v.requires_grad_(), solref, friction), eps=1e-6, atol=1e-6, rtol=1e-5)
