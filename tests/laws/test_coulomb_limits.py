# SPDX-License-Identifier: Apache-2.0
"""Coulomb's law at its limits: impulses near the least number of the type, and no load to stiffen under (zero gravity)."""

import numpy as np
import pytest
import warp as wp

from warpsim.device.copies import copy
from warpsim.kernels.laws import coulomb, spin_cone

LAWS = {S: (copy(coulomb, S), copy(spin_cone, S)) for S in (wp.float32, wp.float64)}


def kernels_of(S, law, spin):
    """What the law of type S finds at u = (x, 0.3 x, −x), in one kernel; its impulse alone in another, with its adjoint."""
    vec3 = wp.types.vector(3, S)
    impulse, newton, slopes = law.coulomb_impulse, law.coulomb_newton, law.coulomb_slopes
    compression, spin_impulse, spin_newton = law.compression, spin.spin_coulomb_impulse, spin.spin_coulomb_newton

    @wp.kernel(module=f"test_coulomb_limits_{S.__name__}")
    def evaluate(
        x: wp.array(dtype=S), load: wp.array(dtype=S), least: wp.array(dtype=S), found: wp.array2d(dtype=vec3),
    ):  # fmt: skip
        i = wp.tid()
        R = vec3(S(1e-3), S(1e-3), S(2.5e-2))
        zero = vec3(S(0.0), S(0.0), S(0.0))
        u = vec3(x[i], S(0.3) * x[i], -x[i])
        g = vec3(S(0.1) * x[i], S(0.0), x[i])
        n = newton(g, u, R, S(0.5), load[i], least[i], S(1.0), False)
        s = slopes(u, R, S(0.5), load[i], least[i])
        found[i, 0] = n.delta + n.p + n.S * u
        found[i, 1] = n.miss + s.p + s.S * u
        found[i, 2] = vec3(compression(x[i], R[2], load[i], least[i]), S(0.0), S(0.0))
        a, b = spin_impulse(u, zero, R, S(0.5), load[i], least[i])
        c = spin_newton(g, zero, u, zero, R, S(0.5), load[i], least[i], S(1.0), False)
        found[i, 3] = a + b + c.delta + c.miss

    @wp.kernel(module=f"test_coulomb_limits_taped_{S.__name__}")
    def taped(
        x: wp.array(dtype=S), load: wp.array(dtype=S), least: wp.array(dtype=S), gamma: wp.array(dtype=vec3)
    ):  # fmt: skip
        i = wp.tid()
        u = vec3(x[i], S(0.3) * x[i], -x[i])
        gamma[i] = impulse(u, vec3(S(1e-3), S(1e-3), S(2.5e-2)), S(0.5), load[i], least[i])

    return evaluate, taped


@pytest.mark.parametrize("S", [wp.float32, wp.float64], ids=lambda S: S.__name__)
def test_small_impulses_without_a_load_are_numbers(S):
    """γ, c(γ), their slopes and adjoints are finite down to subnormal numbers, and γ is c⁻¹: u/R of a law without a load."""
    (kernel, taped), tiny = kernels_of(S, *LAWS[S]), float(np.finfo(wp.dtype_to_numpy(S)).tiny)
    x, load, least = (
        a.ravel() for a in np.meshgrid(tiny * np.logspace(-6, 6, 25), [0.0, tiny], [1.0, 0.5, 1e-3, 1e-9])
    )
    vec3 = wp.types.vector(3, S)
    given = [wp.array(a, dtype=S, device="cpu", requires_grad=True) for a in (x, load, least)]
    gamma = wp.zeros(len(x), dtype=vec3, device="cpu", requires_grad=True)
    found = wp.zeros((len(x), 4), dtype=vec3, device="cpu")
    wp.launch(kernel, len(x), [*given, found], device="cpu")
    with wp.Tape() as tape:
        wp.launch(taped, len(x), [*given, gamma], device="cpu")
    tape.backward(grads={gamma: wp.ones_like(gamma)})
    assert np.isfinite(gamma.numpy()).all() and np.isfinite(found.numpy()).all()
    for array in given:
        assert np.isfinite(array.grad.numpy()).all()
    seen = (load == 0.0) & (x > 1e2 * tiny)
    np.testing.assert_allclose(gamma.numpy()[seen, 2], (x / 2.5e-2 / least)[seen], rtol=1e-5)
