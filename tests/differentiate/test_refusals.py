# SPDX-License-Identifier: Apache-2.0
"""What has no gradient, or no effect, is refused: nothing is wrong without a word."""

import numpy as np
import pytest
import warp as wp

import warpsim as ws
from scenes.bodies import body_on_plane

OPTIONS = {"dtype": "float64", "requires_grad": True, "device": "cpu"}


def sphere(**options) -> ws.Simulator:
    model = body_on_plane("sphere", [0.1], height=0.0999, friction=0.4)
    return ws.Simulator(model, dt=0.005, **({"solver": ws.Compliant(stiffness=1e6)} | OPTIONS | options))


def test_a_hertz_modulus_set_after_construction():
    """Hertz's law has no gradients: where they are asked for, its modulus cannot be read or written; without them it can."""
    sim = sphere()
    with pytest.raises(
        ValueError, match=r"parameters\['geom_hertz_modulus'\] has no gradients yet.*requires_grad=False"
    ):
        sim.parameters["geom_hertz_modulus"] = [1e8, 1e8]
    with pytest.raises(ValueError, match="no gradients yet"):
        sim.parameters["geom_hertz_modulus"].fill_(1e8)
    plain = sphere(requires_grad=False)
    plain.parameters["geom_hertz_modulus"] = [1e8, 1e8]
    assert np.isfinite(plain.step(plain.state()).q.numpy()).all()


@pytest.mark.parametrize("name, first, second", [("geom_hertz_modulus", 1e8, 0.0), ("geom_stiffness", 1e5, 1e6)])
def test_a_pair_of_both_laws(name, first, second):
    """A modulus on one side and a stiffness on the other have no law in common, whichever is set last."""
    sim = sphere(requires_grad=False)
    if name == "geom_hertz_modulus":
        sim.parameters["geom_stiffness"] = [np.inf, 1e5]
        values = [1e8, 0.0]
    else:
        sim.parameters["geom_hertz_modulus"] = [1e8, 0.0]
        values = [np.inf, 1e5]
    with pytest.raises(ValueError, match="'floor' and 'shape' may touch, one with a hertz_modulus"):
        sim.parameters[name] = values
    sim.parameters["geom_stiffness"] = [np.inf, np.inf]
    sim.parameters["geom_hertz_modulus"] = [1e8, 0.0]


def cart(**joint) -> ws.Simulator:
    b = ws.ModelBuilder("cart")
    b.add_body("cart", mass=1.0, inertia=[1.0] * 3)
    b.add_joint("cart", "slide", axis=[1, 0, 0], name="rail", **joint)
    b.add_actuator("rail")
    return ws.Simulator(b.build(), dt=0.01, **OPTIONS)


def test_dry_friction_and_stops_that_the_model_has_not():
    """Friction of a joint that has none in the model, and the range of one without limits, would do nothing."""
    sim = cart()
    with pytest.raises(ValueError, match=r"joint_friction'\] is 0.5 for joint 'rail' \(degree of freedom 0\)"):
        sim.parameters["joint_friction"] = [0.5]
    with pytest.raises(ValueError, match=r"joint_range'\] sets that of joint 'rail', which has no limits"):
        sim.parameters["joint_range"] = [[-0.1, 0.1]]
    sim.parameters["joint_friction"] = [0.0]
    sim = cart(friction=1e-3, range=(-1.0, 1.0))
    sim.parameters["joint_friction"], sim.parameters["joint_range"] = [0.5], [[-0.1, 0.1]]


def test_check_gradients_refuses_names_that_do_not_exist():
    """A misspelt variable is an error, not a gradient that is ok; so is a check of nothing."""
    sim = cart()
    with pytest.raises(ValueError, match=r"an entry of variables is .bogus.; choose one of"):
        ws.check_gradients(sim, variables=("bogus",))
    with pytest.raises(ValueError, match=r"an entry of variables is .body_mass."):
        ws.check_gradients(sim, variables=("q", "body_mass"))
    with pytest.raises(ValueError, match=r"an entry of parameters is .mass."):
        ws.check_gradients(sim, parameters=("mass",))
    with pytest.raises(ValueError, match="nothing to check"):
        ws.check_gradients(sim, variables=())
    with pytest.raises(ValueError, match="horizons"):
        ws.check_gradients(sim, horizons=())
    check = ws.check_gradients(sim, variables="v", parameters="body_mass", horizons=1)
    assert check.ok and [row.variable for row in check.rows] == ["v", "body_mass"]


@pytest.mark.parametrize("solver", [ws.SAP(approximation="lagged", supported_load=False), ws.SAP(supported_load=True)])
def test_solve_contact_does_not_pass_a_convex_answer_for_a_lagged_one(solver):
    """The passes of the lagged model belong to a step of the simulator."""
    problem = ws.ContactProblem(np.eye(3), np.eye(3), [1.0, 0.0, -1.0], 0.5, phi=[0.0], dt=0.01)
    with pytest.raises(ValueError, match=r"solve_contact: it solves one convex problem.*approximation='convex'"):
        ws.solve_contact(problem, solver)


def test_a_torch_tensor_that_wants_a_gradient():
    """Outside of ws.torch its gradient would be dropped: an error that says where to go; detached, or under no_grad, it
    is taken."""
    torch = pytest.importorskip("torch")
    sim = cart()
    u = torch.full((1, 1), 0.3, dtype=torch.float64, requires_grad=True)
    state = sim.state()
    calls = {
        "control": lambda: sim.step(state, u),
        "tau": lambda: sim.step(state, tau=u),
        "controls": lambda: sim.rollout(state, u[None]),
        "q": lambda: sim.state(q=u[0]),
        "v": lambda: sim.reset(state, [0], v=u),
        r"parameters\['body_mass'\]": lambda: sim.parameters.__setitem__("body_mass", u),
    }
    calls |= {"control ": lambda: sim.linearize(state, u), "q ": lambda: sim.kinematics(u)}
    for name, call in calls.items():
        with pytest.raises(ValueError, match=rf"{name.strip()} is a torch tensor that requires a gradient.*ws.torch"):
            call()
    with torch.no_grad():
        sim.step(state, u)
    sim.step(state, u.detach())
    with pytest.raises(ValueError, match="control is a torch tensor"), wp.Tape():
        sim.step(state, 2.0 * u)


def test_a_leaf_tensor_on_a_warp_tape():
    """A leaf tensor given to a step on a Warp tape shares its gradient: the tape fills `tensor.grad`."""
    torch = pytest.importorskip("torch")
    sim = cart()
    u, control = (
        torch.full((1, 1), 0.3, dtype=torch.float64, requires_grad=True),
        wp.full((1, 1), 0.3, dtype=wp.float64),
    )
    control.requires_grad = True
    for given in (u, control):
        with wp.Tape() as tape:
            last = sim.step(sim.state(), given)
        tape.backward(grads={last.v: wp.array([[1.0]], dtype=wp.float64, device="cpu")})
    assert u.grad.item() == control.grad.numpy()[0, 0] == pytest.approx(0.01)


@pytest.mark.parametrize("loss", ["linear", "quadratic"])
def test_torch_has_first_derivatives_only(loss):
    """A derivative of a gradient made with create_graph=True raises, also of a linear loss."""
    torch = pytest.importorskip("torch")
    sim = cart()
    q = torch.tensor([[0.3]], dtype=torch.float64, requires_grad=True)
    v = torch.tensor([[0.1]], dtype=torch.float64, requires_grad=True)
    last = ws.torch.rollout(sim, q, v, steps=3)[0][-1]
    value = last.sum() if loss == "linear" else last.square().sum()
    by_q, by_v = torch.autograd.grad(value, (q, v), create_graph=True)
    with pytest.raises(NotImplementedError, match=r"first derivatives only.*create_graph=True.*ws.hessian_vector"):
        (by_q + by_v).sum().backward()


def test_jax_has_first_derivatives_only():
    """A derivative of a derivative raises, by reverse and by forward mode."""
    jax = pytest.importorskip("jax")
    sim = ws.Simulator(cart().model, dt=0.01, **(OPTIONS | {"dtype": "float32"}))
    q, v = jax.numpy.array([[0.3]], "float32"), jax.numpy.array([[0.1]], "float32")

    def loss(v):
        return ws.jax.rollout(sim, q, v, steps=3)[0][-1].sum()

    assert jax.grad(loss)(v).shape == (1, 1)
    with pytest.raises(NotImplementedError, match="first derivatives only"):
        jax.grad(lambda v: jax.grad(loss)(v).sum())(v)
    with pytest.raises((TypeError, NotImplementedError, ValueError)):
        jax.jvp(jax.grad(loss), (v,), (v,))


def test_jax_notices_a_parameter_that_is_no_argument():
    """ws.jax repeats the rollout in its backward pass: a parameter that was edited in between is an error that names it;
    one put back to its value is none."""
    jax = pytest.importorskip("jax")
    sim = ws.Simulator(cart().model, dt=0.01, **(OPTIONS | {"dtype": "float32"}))
    q, v = jax.numpy.array([[0.3]], "float32"), jax.numpy.array([[0.1]], "float32")
    controls = jax.numpy.ones((3, 1, 1), "float32")

    def rows(u):
        return ws.jax.rollout(sim, q, v, u)[1][-1].sum()

    value, back = jax.vjp(rows, controls)
    expected = np.asarray(back(jax.numpy.ones_like(value))[0])
    sim.parameters["body_mass"] = [2.0]
    with pytest.raises(Exception, match=r"parameters\['body_mass'\] was changed between"):
        jax.block_until_ready(back(jax.numpy.ones_like(value)))
    sim.parameters["body_mass"] = [1.0]
    np.testing.assert_array_equal(np.asarray(back(jax.numpy.ones_like(value))[0]), expected)
