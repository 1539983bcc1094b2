# SPDX-License-Identifier: Apache-2.0
"""Kinks: the derivative is that of the side that docs/gradients_limits.md names. One-sided differences against the gradient."""

import numpy as np
import pytest
import warp as wp

import warpsim as ws

SIZE, TOLERANCE = 1e-6, 1e-4  # of the differences; the sides of a kink differ by percents


def block(height: float, friction_rule=None) -> ws.Model:
    b = ws.ModelBuilder()
    b.friction_rule = friction_rule
    b.add_geom("plane", name="floor", friction=0.5)
    b.add_body("block", pose=[0, 0, height])
    b.add_joint("block", "free")
    b.add_geom("box", [0.1, 0.1, 0.1], body="block", friction=0.5)
    return b.build()


def servo(**law) -> ws.Model:
    b = ws.ModelBuilder()
    b.add_body("arm", mass=1, inertia=[1, 1, 1])
    b.add_joint("arm", "hinge", axis=[0, 1, 0], name="joint")
    b.add_actuator("joint", **law)
    return b.build()


def sides(model, name, direction, device, q=None, v=None, control=0.0) -> tuple[float, float, float]:
    """Gradient along a direction, and the differences up and down, of a linear function of the state after one step."""
    options = dict(solver=ws.SAP(tolerance=1e-13), dtype="float64", dt=0.01, device=device)
    sim = ws.Simulator(model, requires_grad=True, **options)
    weights = np.random.default_rng(0).normal(size=(2, 8))
    point = {"q": np.array(model.q0 if q is None else q, float), "v": np.zeros(model.nv) if v is None else np.array(v)}
    point |= {"control": np.full((1, model.nu), float(control))}
    point |= {} if name in point else {name: sim.parameters[name].numpy()[0].astype(float)}

    def loss(change):
        moved = {key: value + (change if key == name else 0.0) for key, value in point.items()}
        if name not in ("q", "v", "control"):
            sim.parameters[name] = moved[name]
        start = sim.state(moved["q"], moved["v"])
        control = wp.array(moved["control"].reshape(1, -1), dtype=wp.float64, device=device, requires_grad=True)
        with wp.Tape() as tape:
            after = sim.step(start, control)
        a, b = weights[0, : model.nq], weights[1, : model.nv]
        return start, control, tape, after, float(after.q.numpy()[0] @ a + after.v.numpy()[0] @ b)

    zero, step = np.zeros_like(point[name]), SIZE * np.asarray(direction, float)
    up, middle, down = (loss(x)[-1] for x in (zero + step, zero, zero - step))
    start, control, tape, after, _ = loss(zero)
    after.q.grad.assign(weights[:1, : model.nq])
    after.v.grad.assign(weights[1:, : model.nv])
    tape.backward()
    grads = {"q": start.q, "v": start.v, "control": control}
    grad = (grads[name] if name in grads else sim.parameters[name]).grad.numpy()[0]
    return float((grad * direction).sum()), (up - middle) / SIZE, (middle - down) / SIZE


def at_stop() -> ws.Model:
    """An arm whose joint has the range ± 0.5 rad."""
    b = ws.ModelBuilder()
    b.add_body("arm", mass=1, com=[0.3, 0, 0], inertia=[1, 1, 1])
    b.add_joint("arm", "hinge", axis=[0, 1, 0], range=(-0.5, 0.5))
    return b.build()


def on_rope() -> ws.Model:
    """A load at the end of a taut rope."""
    b = ws.ModelBuilder()
    b.add_body("load", pose=[0, 0, -1], mass=1, inertia=[1, 1, 1])
    b.add_joint("load", "free")
    b.add_constraint("distance", "world", "load", length=(0, 1))
    return b.build()


UP = [0, 0, 1, 0, 0, 0, 0]
ROLL = [0, 0, 0, 0, 1, 0, 0]
SLIDING = [1.0, 0, 0, 0, 0, 0]
KINKS = {  # model, what varies, along what, side of the derivative, the rest
    "contact at distance 0": (block(0.1), "q", UP, "down", {}),
    "joint at its upper limit": (at_stop(), "q", [1.0], "up", dict(q=[0.5], v=[0.3])),
    "joint at its lower limit": (at_stop(), "q", [1.0], "down", dict(q=[-0.5], v=[-0.3])),
    "distance at its limit": (on_rope(), "q", UP, "down", {}),
    "equal frictions, geom A": (block(0.0999, 0), "geom_friction", [1, 0], "down", dict(v=SLIDING)),
    "equal frictions, geom B": (block(0.0999, 0), "geom_friction", [0, 1], "up", dict(v=SLIDING)),
    "control on its upper bound": (servo(control_range=(-1, 1)), "control", [[1.0]], "down", dict(control=1.0)),
    "control on its lower bound": (servo(control_range=(-1, 1)), "control", [[1.0]], "up", dict(control=-1.0)),
    "no feedback beside a force range": (
        servo(kind="affine", gain=[1, 0, 0], bias=[0, 0, 0], force_range=(-5, 5)),
        "actuator_bias",
        [[0, 0, 1]],
        "down",
        dict(q=[0.5], v=[0.3], control=0.3),
    ),
}


@pytest.mark.parametrize("case", KINKS)
def test_the_side_of_a_kink(case, device):
    """The two one-sided differences differ, and the gradient is that of the side that the documentation names."""
    model, name, direction, side, rest = KINKS[case]
    gradient, up, down = sides(model, name, direction, device, **rest)
    scale = max(abs(up), abs(down))
    assert abs(up - down) > 5e-3 * scale
    assert abs(gradient - (up if side == "up" else down)) < TOLERANCE * scale


def test_turning_a_body_at_distance_zero_is_neither_side(device):
    """A tilt lifts corners that touch at φ = 0 and lowers others: the gradient takes all as overlaps. 0.1 mm of overlap away
    from the kink it is that of both sides."""
    gradient, up, down = sides(block(0.1), "q", ROLL, device)
    assert min(abs(gradient - up), abs(gradient - down)) > 1e-3 * max(abs(up), abs(down))
    gradient, up, down = sides(block(0.0999), "q", ROLL, device)
    assert max(abs(gradient - up), abs(gradient - down)) < TOLERANCE * abs(up)


def test_gradients_of_a_gliding_box_are_right(device):
    """A box at 8 m/s leaves the floor in the convex model; its gradients over 10 and 40 steps agree with differences."""
    solver = ws.SAP(tolerance=1e-13, approximation="convex")
    sim = ws.Simulator(block(0.0995), dt=0.01, dtype="float64", device=device, requires_grad=True, solver=solver)
    start = sim.state(v=[8.0, 0, 0, 0, 0, 0])
    options = dict(horizons=(10, 40), entries=2, parameters=("geom_friction",), step_sizes=(1e-5, 1e-6, 1e-7))
    report = ws.check_gradients(sim, start, **options)
    assert report.ok and report.worst() < 1e-6 and all(row.verdict == "ok" for row in report.rows), str(report)
    assert sim.rollout(start, steps=5).q.numpy()[-1, 0, 2] > 0.15  # it does glide
