# SPDX-License-Identifier: Apache-2.0
"""SAP against outside numbers: 59 recorded contact problems, random SOCPs, and cases with a known answer."""

import pathlib

import numpy as np
import pytest
import warp as wp

from warpsim.device.copies import SCALARS, copy
from warpsim.kernels.laws import cone
from warpsim.solve import SAP, ContactProblem, solve_contact

DATA = pathlib.Path(__file__).parents[1] / "reference" / "data"


def groups(name):
    """{scene: {field: array}} of a file with flat keys `scene/field`."""
    out = {}
    with np.load(DATA / name) as data:
        for key in data:
            scene, field = key.rsplit("/", 1)
            out.setdefault(scene, {})[field] = data[key]
    return out


def recorded_problem(g):
    contacts = len(g["mu"])
    R = np.stack([g["Rt"], g["Rt"], g["Rn"]], axis=1)
    v_hat = np.zeros((contacts, 3))
    v_hat[:, 2] = g["vhat_n"]
    return ContactProblem(g["A"], g["J"], g["v_star"], g["mu"], R=R, v_hat=v_hat, v0=g["v0"])


# The recorded solutions carry a tolerance of 1e-6. In float32 the residual is taken to 1e-6, well below the default of
# 1e-4, so that what is left is the rounding of A, J and R⁻¹ to float32 (exact search: 3.5e-6 at worst, measured).
@pytest.mark.parametrize("line_search", ["exact", "backtracking"])
@pytest.mark.parametrize("dtype, tolerance, error", [("float64", None, 1e-6), ("float32", 1e-6, 2e-5)])
def test_recorded_problems(dtype, tolerance, error, line_search):
    """Velocities of 59 recorded problems (clutter, arm, quadruped) are reproduced and every problem converges."""
    if (dtype, line_search) == ("float32", "backtracking"):
        tolerance = 1e-5  # costs that differ by less than round-off cannot be told apart: one problem stalls at 1e-6
    options = SAP(tolerance=tolerance, line_search=line_search)
    limit = 1e-5 if (dtype, line_search) == ("float32", "exact") else error
    worst, iterations = 0.0, []
    for scene, g in groups("contact_problems.npz").items():
        solution = solve_contact(recorded_problem(g), options, dtype=dtype)
        assert solution.flags[0] == 0, (scene, solution.momentum_error[0])
        worst = max(worst, np.linalg.norm(solution.v[0] - g["v"]) / np.linalg.norm(g["v"]))
        iterations.append(int(solution.iterations[0]))
    assert len(iterations) == 59
    assert worst < limit
    assert max(iterations) <= 30


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_default_tolerance_is_a_momentum_balance(dtype):
    """The impulses and velocities given back satisfy A (v − v*) = Jᵀγ to the tolerance, recomputed in float64."""
    tolerance = SAP().relative_tolerance(dtype)
    for g in groups("contact_problems.npz").values():
        solution = solve_contact(recorded_problem(g), dtype=dtype)
        v, gamma = solution.v[0].astype(float), solution.impulse[0].astype(float)
        D = 1.0 / np.sqrt(np.diag(g["A"]))
        j_c = g["J"].T @ gamma.ravel()
        error = np.linalg.norm(D * (g["A"] @ (v - g["v_star"]) - j_c))
        scale = max(np.linalg.norm(D * (g["A"] @ v)), np.linalg.norm(D * j_c))
        # 1e-5: rounding of the float32 data itself.
        assert error <= (tolerance + (1e-5 if dtype == "float32" else 0.0)) * scale * 1.0001


def test_socp_cases():
    """Ten random problems agree with an interior-point solution (good to 1.2e-6) and with the recorded optimum."""
    for case, g in groups("socp_cases.npz").items():
        v_hat = np.zeros((len(g["mu"]), 3))
        v_hat[:, 2] = g["vhat"]
        problem = ContactProblem(g["A"], g["J"], g["vstar"], g["mu"], R=g["R"], v_hat=v_hat, v0=g["v0"])
        v = solve_contact(problem, SAP(tolerance=1e-10)).v[0]
        norm = np.linalg.norm(g["v_opt"])
        assert np.linalg.norm(v - g["v_opt"]) < 1e-8 * norm, case
        assert np.linalg.norm(v - g["v_clarabel"]) < 1e-5 * norm, case


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_friction_cone_numbers(dtype):
    """Impulses of one contact with h = 0.01, w = 1, φ = −2.5e-3, μ = 0.5, k = 3e5, τ_d = 0.02, σ = 1e-3."""
    S = SCALARS[dtype]
    f = copy(cone, S)
    vec3 = wp.types.vector(3, S)
    regularization, stabilization, y, impulse = (
        f.contact_regularization, f.contact_stabilization, f.cone_y, f.cone_impulse,
    )  # fmt: skip

    @wp.kernel(module=f"test_friction_cone_numbers_{dtype}", enable_backward=False)
    def evaluate(v_c: wp.array(dtype=vec3), gamma: wp.array(dtype=vec3)):
        i = wp.tid()
        R = regularization(S(1.0), S(-2.5e-3), S(1.0 / 3.0e5), S(0.02), S(0.01), S(1.0), S(1e-3))
        gamma[i] = impulse(y(v_c[i], stabilization(S(-2.5e-3), S(0.02), S(0.01)), R), R, S(0.5))

    v_c = wp.array([(1e-4, 0.0, -0.1), (0.1, 0.0, -0.1), (-0.1, 0.1, 0.2)], dtype=vec3, device="cpu")
    gamma = wp.zeros(3, dtype=vec3, device="cpu")
    wp.launch(evaluate, dim=3, inputs=[v_c], outputs=[gamma], device="cpu")
    expected = [(-0.1, 0.0, 7.23771), (-4.560802, 0.0, 9.121604), (0.0, 0.0, 0.0)]
    np.testing.assert_allclose(gamma.numpy(), expected, rtol=2e-6, atol=1e-12)


class Disc:
    """Three-legged disc on the floor: v = (vx, vy, vz, ωz), m = 3, radius 1.5, I = m r², g = 10, h = 0.01."""

    m, radius, g, h = 3.0, 1.5, 10.0, 0.01

    def __init__(self, mu, k=1e4, tau_d=0.0, force=(0.0, 0.0), torque=0.0, options=None):
        self.mu, self.k, self.tau_d = mu, k, tau_d
        self.options = SAP(tolerance=1e-10) if options is None else options
        inertia = self.m * self.radius**2
        self.A = np.diag([self.m, self.m, self.m, inertia])
        self.acceleration = np.array([force[0] / self.m, force[1] / self.m, -self.g, torque / inertia])
        angles = 2.0 * np.pi / 3.0 * np.arange(3)
        self.J = np.concatenate(
            [[[1, 0, 0, -self.radius * np.sin(a)], [0, 1, 0, self.radius * np.cos(a)], [0, 0, 1, 0]] for a in angles]
        )
        self.v, self.z = np.zeros(4), 0.0

    def step(self, guess=(1.0, 2.0, 3.0, 4.0)):
        problem = ContactProblem(
            self.A, self.J, self.v + self.h * self.acceleration, self.mu, v0=np.array(guess),
            phi=self.z, stiffness=self.k, dissipation_time=self.tau_d, dt=self.h,
        )  # fmt: skip
        solution = solve_contact(problem, self.options)
        assert solution.flags[0] == 0
        self.v, self.gamma = solution.v[0], solution.impulse[0]
        self.z += self.h * self.v[2]
        return solution

    def run(self, steps):
        for _ in range(steps):
            self.step()
        return self


@pytest.mark.parametrize("k", [1e4, 1e20])
def test_disc_rests(k):
    """The weight is shared by the three legs, and a near-rigid floor (k = 1e20 limited by β = 1) gives the same answer."""
    disc = Disc(mu=1.0, k=k, tau_d=0.02).run(60)
    np.testing.assert_allclose(disc.gamma[:, 2], 0.1, rtol=1e-6)
    np.testing.assert_allclose(disc.v, 0.0, atol=1e-6)


def test_disc_sticks_under_torque():
    """A torque below the friction limit: |γ_t| = 0.0444444 per leg, slip below μσhg."""
    disc = Disc(mu=2.0 / 3.0, tau_d=0.02, torque=20.0).run(40)
    np.testing.assert_allclose(np.linalg.norm(disc.gamma[:, :2], axis=1), 0.0444444, rtol=1e-5)
    slip = abs(disc.v[3]) * disc.radius
    assert slip < 6.67e-5
    assert slip == pytest.approx(1.2e-5, rel=0.3)


def test_disc_slips_under_torque():
    """A torque above the friction limit: |γ_t| = μ γ_n to machine precision."""
    disc = Disc(mu=2.0 / 3.0, tau_d=0.02, torque=40.0).run(10)
    np.testing.assert_allclose(np.linalg.norm(disc.gamma[:, :2], axis=1), 2.0 / 3.0 * disc.gamma[:, 2], rtol=1e-14)


def test_disc_slides_without_friction():
    """F h n / m: 0.1 m/s after 30 steps, and no tangential impulse."""
    disc = Disc(mu=0.0, force=(1.0, 0.0)).run(30)
    assert disc.v[0] == pytest.approx(0.1, rel=1e-12)
    np.testing.assert_array_equal(disc.gamma[:, :2], 0.0)


def test_exact_guess_needs_no_iteration():
    """Started at its own solution the solver stops at once and gives it back."""
    disc = Disc(mu=1.0, tau_d=0.02).run(5)
    v, z = disc.v, disc.z
    first = disc.step().v
    disc.v, disc.z, disc.options = v, z, SAP(tolerance=1e-8)
    again = disc.step(guess=tuple(first[0]))
    assert again.iterations[0] == 0
    np.testing.assert_array_equal(again.v, first)
