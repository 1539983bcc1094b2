# SPDX-License-Identifier: Apache-2.0
"""Slopes that `rows/dispatch.py` generates are those of each kind of row's law and geometry: by differences."""

import numpy as np
import pytest
import warp as wp

from warpsim.device.copies import copy
from warpsim.kernels.rows import dispatch, kinds, table
from warpsim.kernels.tree import spatial

real = wp.float64
DISPATCH, TABLE, SPATIAL = (copy(file, real) for file in (dispatch, table, spatial))
RowState, Frames, FrameMotion = TABLE.RowState, TABLE.Frames, TABLE.FrameMotion
row_impulse, row_slopes, axis_slope, geometry = (
    DISPATCH.row_impulse,
    DISPATCH.row_slopes,
    DISPATCH.axis_slope,
    DISPATCH.geometry,
)
moved = SPATIAL.moved
vec2, vec3, vec6, transform = (
    wp.types.vector(2, real),
    wp.types.vector(3, real),
    wp.types.vector(6, real),
    wp.types.transformation(real),
)
STEP = 1e-6


@wp.func
def state(x: wp.array(dtype=real), change: wp.array(dtype=real), scale: real) -> RowState:
    """A row's state from ten numbers and a change of them."""
    s = RowState()
    s.phi = x[0] + scale * change[0]
    s.rate = x[1] + scale * change[1]
    s.rate0 = x[2] + scale * change[2]
    s.weight = x[3] + scale * change[3]
    s.e = x[4] + scale * change[4]
    s.K = x[5] + scale * change[5]
    s.D = x[6] + scale * change[6]
    s.gains = vec3(x[7] + scale * change[7], x[8] + scale * change[8], x[9] + scale * change[9])
    s.tau_d = real(wp.nan)
    s.slack = vec2(real(-0.01), real(0.01))
    s.low = real(-5.0)
    s.high = real(5.0)
    s.on_tendon = 1
    s.speed = real(1.0)
    s.lever = real(0.5)
    s.h = real(0.005)
    s.sigma = real(1e-3)
    return s


@wp.kernel(enable_backward=False, module="test_row_slopes")
def compare(x: wp.array2d(dtype=real), change: wp.array2d(dtype=real), h: real, found: wp.array3d(dtype=real)):
    i, kind = wp.tid()
    s = state(x[i], change[i], real(0.0))
    by = row_slopes(kind, s)
    d = change[i]
    along = by.phi * d[0] + by.rate * d[1] + by.rate0 * d[2] + by.weight * d[3] + by.e * d[4] + by.K * d[5]
    along += by.D * d[6] + by.gains[0] * d[7] + by.gains[1] * d[8] + by.gains[2] * d[9]
    found[i, kind, 0] = along
    found[i, kind, 1] = (row_impulse(kind, state(x[i], d, h)) - row_impulse(kind, state(x[i], d, -h))) / (real(2.0) * h)


@wp.kernel(enable_backward=False, module="test_row_slopes")
def compare_axes(
    X: wp.array2d(dtype=transform), m: wp.array2d(dtype=vec6), h: real, e: int, found: wp.array3d(dtype=real)
):
    i, kind = wp.tid()
    frames = Frames()
    frames.A = X[i, 0]
    frames.B = X[i, 1]
    frames.e = e
    frames.side = real(-1.0)
    frames.c = real(0.7)
    given = FrameMotion()
    given.X = frames
    given.motion = m[i, 0]
    twist = m[i, 1]
    found[i, kind, 0] = wp.dot(axis_slope(kind, given), twist)
    at = wp.transform_get_translation(X[i, 1])
    frames.B = moved(X[i, 1], at, h * twist)
    ahead = geometry(kind, frames).axis
    frames.B = moved(X[i, 1], at, -h * twist)
    found[i, kind, 1] = wp.dot(ahead - geometry(kind, frames).axis, m[i, 0]) / (real(2.0) * h)


def test_slopes_of_laws_are_their_differences():
    """400 states of every kind: within bounds and beyond them, at errors where the recovery speed counts and less."""
    rng, n = np.random.default_rng(0), 400
    x = rng.normal(size=(n, 10)) * [0.02, 1.0, 1.0, 1.0, 5.0, 100.0, 10.0, 10.0, 50.0, 5.0]
    x[:, 3:7] = np.abs(x[:, 3:7]) + 0.1
    x[:, 8:] = -np.abs(x[:, 8:])
    change = rng.normal(size=x.shape) * np.abs(x)
    found = wp.zeros((n, len(kinds.NAMES), 2), dtype=real, device="cpu")
    given = [wp.array(a, dtype=real, device="cpu") for a in (x, change)]
    wp.launch(compare, found.shape[:2], [*given, STEP, found], device="cpu")
    slopes, differences = np.moveaxis(found.numpy(), 2, 0)
    scale = np.abs(differences).max(axis=0)
    assert (scale > 0.0).all()
    smooth = np.abs(slopes - differences) < 1e-6 * (np.abs(differences) + 1e-3 * scale)
    assert smooth.mean(axis=0).min() > 0.99, dict(zip(kinds.NAMES, smooth.mean(axis=0), strict=True))  # the rest: kinks


@pytest.mark.parametrize("e", [0, 1])
def test_slopes_of_axes_are_their_differences(e):
    rng, n = np.random.default_rng(1), 50
    X, m = rng.normal(size=(n, 2, 7)), rng.normal(size=(n, 2, 6))
    X[..., 3:] /= np.linalg.norm(X[..., 3:], axis=-1, keepdims=True)
    found = wp.zeros((n, len(kinds.NAMES), 2), dtype=real, device="cpu")
    given = [wp.array(X, dtype=transform, device="cpu"), wp.array(m, dtype=vec6, device="cpu"), STEP, e, found]
    wp.launch(compare_axes, found.shape[:2], given, device="cpu")
    between = [k for k, name in enumerate(kinds.NAMES) if kinds.KINDS[name].geometry]
    slopes, differences = np.moveaxis(found.numpy()[:, between], 2, 0)
    np.testing.assert_allclose(slopes, differences, rtol=1e-6, atol=1e-6)
