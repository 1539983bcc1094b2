# SPDX-License-Identifier: Apache-2.0
"""Slopes that are generated from the law of contact are those of its impulse, by all that it depends on: by differences."""

import numpy as np
import pytest
import warp as wp

import warpsim as ws
from warpsim.device.copies import copy
from warpsim.kernels.laws import contact_law

real = wp.float64
LAW = copy(contact_law, real)
ContactState, impulse_along, slopes_along = LAW.ContactState, LAW.impulse_along, LAW.slopes_along
vec2, vec3 = wp.types.vector(2, real), wp.types.vector(3, real)
STEP = 1e-6
NUMBERS = 23
RULES = (0, 1, 2, 3, 4, 5)  # the largest, A's, B's, the harmonic mean, none, the pair's own


@wp.func
def numbers(x: wp.array(dtype=real), change: wp.array(dtype=real), scale: real) -> ContactState:
    """The part of a state that may change, from so many numbers and changes."""
    s = ContactState()
    s.phi = x[0] + scale * change[0]
    s.weight = x[1] + scale * change[1]
    s.v_c = vec3(x[2] + scale * change[2], x[3] + scale * change[3], x[4] + scale * change[4])
    s.friction.a = x[5] + scale * change[5]
    s.friction.b = x[6] + scale * change[6]
    s.stiffness = vec2(x[7] + scale * change[7], x[8] + scale * change[8])
    s.dissipation_time = vec2(x[9] + scale * change[9], x[10] + scale * change[10])
    s.compliance = vec2(x[11] + scale * change[11], x[12] + scale * change[12])
    s.gravity = vec3(x[13] + scale * change[13], x[14] + scale * change[14], x[15] + scale * change[15])
    s.mass = x[16] + scale * change[16]
    s.friction.dynamic = vec2(x[17] + scale * change[17], x[18] + scale * change[18])
    s.friction.velocity = vec2(x[19] + scale * change[19], x[20] + scale * change[20])
    s.friction.rate = vec3(x[21] + scale * change[21], x[22] + scale * change[22], real(0.0))
    return s


@wp.func
def rate_along(by: ContactState, d: ContactState) -> real:
    """Change of a number with the slopes `by` where the state changes by d."""
    rate = by.phi * d.phi + by.weight * d.weight + wp.dot(by.v_c, d.v_c)
    rate += by.friction.a * d.friction.a + by.friction.b * d.friction.b
    rate += wp.dot(by.friction.dynamic, d.friction.dynamic) + wp.dot(by.friction.velocity, d.friction.velocity)
    rate += wp.dot(by.friction.rate, d.friction.rate)
    rate += wp.dot(by.stiffness, d.stiffness) + wp.dot(by.dissipation_time, d.dissipation_time)
    return rate + wp.dot(by.compliance, d.compliance) + wp.dot(by.gravity, d.gravity) + by.mass * d.mass


@wp.func
def state(
    x: wp.array(dtype=real), change: wp.array(dtype=real), scale: real, coulomb: int, is_field: int, rule: int,
    slides: int,
) -> ContactState:  # fmt: skip
    s = numbers(x, change, scale)
    s.options.h = real(0.004)
    s.options.beta = real(1.0)
    s.options.sigma = real(1e-3)
    s.options.tau_share = real(1.0)
    s.options.coulomb = coulomb
    s.options.counts = 1
    s.friction.rule = rule
    s.friction.slides = slides
    s.friction.mu = real(0.4)
    s.is_field = is_field
    s.recovery = real(1.0)
    return s


@wp.kernel(enable_backward=False, module="test_contact_law")
def compare(
    x: wp.array2d(dtype=real), change: wp.array2d(dtype=real), e: vec3, h: real, coulomb: int, is_field: int,
    slides: int, found: wp.array3d(dtype=real),
):  # fmt: skip
    i, rule = wp.tid()
    by = slopes_along(state(x[i], change[i], real(0.0), coulomb, is_field, rule, slides), e)
    found[i, rule, 0] = rate_along(by, numbers(change[i], change[i], real(0.0)))
    ahead = impulse_along(state(x[i], change[i], h, coulomb, is_field, rule, slides), e)
    behind = impulse_along(state(x[i], change[i], -h, coulomb, is_field, rule, slides), e)
    found[i, rule, 1] = (ahead - behind) / (real(2.0) * h)


@pytest.mark.parametrize("is_field", [0, 1], ids=["points", "fields"])
@pytest.mark.parametrize("coulomb", [0, 1], ids=["convex", "coulomb"])
@pytest.mark.parametrize("rigid", [False, True], ids=["compliant", "near-rigid"])
@pytest.mark.parametrize("slides", [0, 1], ids=["", "Stribeck"])
def test_slopes_of_the_law_are_its_differences(coulomb, is_field, rigid, slides):
    """Contacts that stick, slide, part and recover from overlap, under all rules of friction."""
    rng, n = np.random.default_rng(coulomb + 2 * is_field + 4 * rigid), 300
    scale = [1e-3, 1.0, 0.3, 0.3, 0.3, 0.5, 0.5, 1e4, 1e4, 5e-3, 5e-3, 1e-4, 5e-3, 0.0, 0.0, 9.8, 20.0]
    scale += [0.5, 0.5, 0.3, 0.3, 0.3, 0.3]
    x = rng.normal(size=(n, NUMBERS)) * scale
    x[:, 5:] = np.abs(x[:, 5:]) + 0.1 * np.array(scale[5:])
    x[:, 1] = np.abs(x[:, 1]) + 0.1
    x[:, 0] -= 1e-3
    x[:, 2:5] *= 10.0 ** rng.uniform(-6, 0, size=(n, 1))
    x[:, 15] *= -1.0
    change = rng.normal(size=x.shape) * np.abs(x)
    if rigid:
        x[:, 7:9], change[:, 7:9] = np.inf, 0.0
        x[:, 11], change[:, 11] = 0.0, 0.0
        x[:, 9:11], change[:, 9:11] = np.nan, 0.0
    found = wp.zeros((n, len(RULES), 2), dtype=real, device="cpu")
    given = [wp.array(a, dtype=real, device="cpu") for a in (x, change)]
    e = vec3(*rng.normal(size=3))
    wp.launch(compare, found.shape[:2], [*given, e, STEP, coulomb, is_field, slides, found], device="cpu")
    slopes, differences = np.moveaxis(found.numpy(), 2, 0)
    assert (differences != 0.0).mean(axis=0).min() > 0.3
    smooth = np.abs(slopes - differences) < 1e-5 * np.abs(differences) + 1e-9
    assert smooth.mean(axis=0).min() > 0.98, smooth.mean(axis=0)  # the rest: kinks


@pytest.mark.parametrize("coulomb", [0, 1], ids=["convex", "coulomb"])
def test_without_friction_the_slope_by_it_is_that_of_sliding(coulomb):
    """At μ = 0 the slope by μ is the one from above."""
    x = np.array(
        [[-1e-3, 1.0, 0.2, 0.1, -0.1, 0.0, 0.0, 1e4, 1e4, 5e-3, 5e-3, 0.0, 0.0, 0.0, 0.0, -9.8, 20.0, *[0.0] * 6]]
    )
    change = np.zeros_like(x)
    change[:, 5:7] = 1.0
    found = []
    for mu in (0.0, STEP):
        x[:, 5:7] = mu
        both = wp.zeros((1, 1, 2), dtype=real, device="cpu")
        given = [wp.array(a, dtype=real, device="cpu") for a in (x, change)]
        wp.launch(compare, (1, 1), [*given, vec3(1.0, 2.0, 3.0), STEP, coulomb, 0, 0, both], device="cpu")
        found.append(both.numpy()[0, 0])
    assert found[0][0] == pytest.approx(found[1][1], rel=1e-4)
    assert abs(found[0][0]) > 1e-3


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_without_friction_slow_slip_does_not_stick(dtype):
    """`linearize` of a ball on a ball, both without friction: at a slip that is next to nothing, A is that of none."""
    b = ws.ModelBuilder("balls", timestep=0.005)
    b.add_geom("sphere", [0.1], friction=0.0)
    b.add_body("ball", pose=[0, 0, 0.1995])
    b.add_joint("ball", "free")
    b.add_geom("sphere", [0.1], body="ball", density=1000.0, friction=0.0)
    sim = ws.Simulator(b.build(), 4, dtype=dtype, device="cpu", solver=ws.SAP(approximation="convex"))
    v = np.zeros((4, 6))
    v[1:, 0] = 1e-20, 1e-27, 1e-35
    A = sim.linearize(sim.state(v=v)).A.numpy()
    np.testing.assert_allclose(A[1:], np.stack([A[0]] * 3), atol=1e-6 * np.abs(A[0]).max())
