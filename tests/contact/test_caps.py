# SPDX-License-Identifier: Apache-2.0
"""A sphere on a plane by pressure, in closed form."""

import numpy as np
import pytest

import warpsim as ws
from scenes import pressure as scenes

R, E, THICKNESS = 0.05, 1e5, 0.03


def ball(soft: str, resolution=None) -> ws.Model:
    modulus, ground = (E, None) if soft == "sphere" else (None, E)
    return scenes.drop(("sphere", R), modulus, resolution, 0.5, ("half_space", ground, THICKNESS), 0.5, 0.02)


def sums(model, depth, level="patch4"):
    """Force, stiffness, its second moment and torsion about the normal of the points at a depth."""
    sim = ws.Simulator(
        model, dt=1e-6, dtype="float64", hydroelastic=level, solver=ws.SAP(approximation="convex"), max_polygons=20000
    )
    sim.step(sim.state([0.02, 0.01, R - depth, 0.8, 0.6, 0, 0]))
    contacts = sim.last_contacts
    n = contacts.count[0]
    k = 1 / sim._step.collision.contacts.compliance.numpy()[0, :n, 0]
    f = -contacts.phi[0][:n] * k
    arm = contacts.point[0][:n] - [0.02, 0.01, 0]
    across = np.hypot(arm[:, 0], arm[:, 1])
    return f.sum(), k.sum(), (k * across**2).sum() / 2, (f * across).sum(), sim


def integrals(soft, depth):
    """The same by quadrature over the surface."""
    w, weight = np.polynomial.legendre.leggauss(60)
    s = R - depth
    w, weight = s + depth * (w + 1) / 2, weight * depth / 2  # distance from the centre, or height on the cap
    rho = np.sqrt((w**2 - s**2) if soft == "sphere" else (R**2 - w**2))
    if soft == "sphere":
        p, slope = E * (1 - w / R), E * s / (R * w)
        area = 2 * np.pi * w * weight
    else:
        p, slope = E * (w - s) / THICKNESS, E / THICKNESS * w / R
        area = 2 * np.pi * w * weight  # seen along the normal of the plane
    return (p * area).sum(), (slope * area).sum(), (slope * area * rho**2).sum() / 2, (p * area * rho).sum()


@pytest.mark.parametrize("depth", [1e-6, 1e-3, 0.02])
@pytest.mark.parametrize("soft", ["sphere", "layer"])
def test_sums_are_the_integrals(soft, depth):
    """Force, stiffness and its second moments of the points; torsion of five points to 10 %."""
    found, want = sums(ball(soft), depth), integrals(soft, depth)
    np.testing.assert_allclose(found[:3], want[:3], rtol=1e-9)
    np.testing.assert_allclose(sums(ball(soft), depth, "patch5")[3], want[3], rtol=0.1)


@pytest.mark.parametrize("soft", ["sphere", "layer"])
def test_fine_facets_come_to_the_closed_form(soft):
    """Force of tessellations against the closed form: they are too soft, less and less."""
    want = sums(ball(soft), 0.01)[0]
    errors = []
    for resolution in (0.02, 0.01, 0.005):
        sim = sums(ball(soft, resolution), 0.01, "polygons")[4]
        errors.append(1 - sim.contact_patches()[0].elastic_force[2] / want)
    assert errors[0] > 2.5 * errors[1] > 6 * errors[2] > 0.05


@pytest.mark.parametrize("level", ["polygons", "patch16", "patch5", "patch4"])
@pytest.mark.parametrize("soft", ["sphere", "layer"])
def test_a_ball_rolls_evenly(soft, level):
    """A rolling ball keeps its height, and loses speed as the damping h + τ of its patch in rolling asks: ω' = −(h + τ) ω ∫k x²/(7/5 m R²)."""
    ground = ("half_space", None if soft == "sphere" else E, THICKNESS)
    model = scenes.drop(("sphere", R), E if soft == "sphere" else None, None, 0.5, ground, 0.5, 1e-5)
    sim = ws.Simulator(model, dt=0.002, dtype="float64", hydroelastic=level)
    state = sim.state([0, 0, R - 0.002, 1, 0, 0, 0], [0.3, 0, 0, 0, 0.3 / R, 0])
    heights = []
    for k in range(1000):
        sim.step(state, out=state)
        if k > 700:
            heights.append(state.q.numpy()[0, 2])
    assert np.ptp(heights) < 1e-3 * R
    rate = (0.002 + 1e-5) * integrals(soft, R - heights[-1])[2] / (1.4 * 0.5 * R**2)
    np.testing.assert_allclose(state.v.numpy()[0, 0], 0.3 * np.exp(-2.0 * rate), rtol=0.1)
    assert not sim.diagnostics.flags.numpy().any()


@pytest.mark.parametrize("level", ["patch4", "patch5"])
@pytest.mark.parametrize("soft", ["sphere", "layer"])
def test_gradients_are_those_of_differences(soft, level):
    """Steps of a rolling and a sliding ball by state and parameters, at 1, 10 and 40 steps."""
    solver = ws.SAP(tolerance=1e-13)
    sim = ws.Simulator(ball(soft), 2, dt=0.002, dtype="float64", requires_grad=True, hydroelastic=level, solver=solver)
    q = np.array([[0, 0, 0.0485, 1, 0, 0, 0], [0, 0, 0.047, 0.9, 0.1, 0.2, 0.3]])
    v = np.array([[0.3, 0, 0, 0, 6, 0], [0.2, 0.1, -0.1, 1, -2, 0.5]])
    names = ["geom_hydroelastic_modulus", "geom_size", "geom_dissipation_time", "geom_friction"]
    names += ["geom_hydroelastic_thickness"] if soft == "layer" else []
    report = ws.check_gradients(sim, state=sim.state(q, v), horizons=(1, 10, 40), parameters=names)
    assert report.ok, str(report)


@pytest.mark.parametrize("soft", ["sphere", "layer"])
def test_patches_are_told_and_shown(soft):
    """Force, area and stiffness in closed form; the polygons that are shown add up to them nearly. In the last step and in a state."""
    sim = sums(ball(soft), 0.01, "patch16")[4]
    want = integrals(soft, 0.01)
    (patch,) = sim.contact_patches()
    (seen,) = sim.contact_patches(state=sim.state([0.02, 0.01, R - 0.01, 0.8, 0.6, 0, 0]))
    assert patch.geoms == seen.geoms == (sim.model.geom("ground"), sim.model.geom("body"))
    for found in (patch, seen):
        np.testing.assert_allclose(found.elastic_force, [0, 0, want[0]], atol=1e-9 * want[0])
        np.testing.assert_allclose(found.stiffness, want[1], rtol=1e-9)
    np.testing.assert_allclose(seen.force, seen.elastic_force)
    shown = sum(
        np.linalg.norm(np.cross(x[1] - x[0], x[2] - x[0]) + np.cross(x[2] - x[0], x[3] - x[0])) / 2
        for x in patch.vertices
    )
    np.testing.assert_allclose(shown, patch.area, rtol=0.02)
    assert abs(max(p.max() for p in patch.pressure) / E - patch.depth) < 1e-9
    assert not sim.contact_patches(state=sim.state([0, 0, 1, 1, 0, 0, 0]))
