# SPDX-License-Identifier: Apache-2.0
"""Derivatives of the contact geometry with frozen features against central differences, in float64."""

import functools
import itertools

import numpy as np
import pytest
import warp as wp

from warpsim.device.copies import copy, scalar_types
from warpsim.kernels.contact.narrow import features as features_module

DEVICE = wp.get_preferred_device()
PLANE, SPHERE, CAPSULE, BOX = 0, 2, 3, 6
S = wp.float64
STEPS = (1e-4, 1e-5, 1e-6)
TOLERANCE = 1e-7  # a central difference of step 1e-5 errs by 1e-10 × the third derivative, and by 1e-11 in rounding

# One representative of every kind of feature, with signs and axes mixed.
FEATURES = {PLANE: (0,), SPHERE: (0,), CAPSULE: (0, 1, 2), BOX: (2, 5, 9, 15, 18, 20, 23, 25)}


def is_flat(kind, code):
    return kind == PLANE or (kind == BOX and code >= 20)


def is_line(kind, code):
    return (kind == CAPSULE and code == 2) or (kind == BOX and 8 <= code < 20)


def plain_cases():
    """Every pair of features that can touch without a reference face."""
    for a, b in itertools.combinations_with_replacement(FEATURES, 2):
        for i, j in itertools.product(FEATURES[a], FEATURES[b]):
            flats = is_flat(a, i) + is_flat(b, j)
            lines = is_line(a, i) + is_line(b, j)
            if flats == 0 or (flats == 1 and lines == 0):
                yield a, b, (i, j, -1)


CLIPPED_CASES = [
    (CAPSULE, BOX, (2, 20, 23)),
    (CAPSULE, BOX, (2, 25, 22)),
    (BOX, BOX, (9, 21, 24)),
    (BOX, BOX, (14, 22, 20)),
    (BOX, BOX, (23, 18, 25)),
    (BOX, BOX, (24, 11, 21)),
    (BOX, BOX, (3, 21, 20)),
    (BOX, BOX, (6, 24, 23)),
    (BOX, BOX, (20, 5, 21)),
    (BOX, BOX, (25, 0, 22)),
]
CASES = [*plain_cases(), *CLIPPED_CASES]
SAMPLES = 6  # random poses per case


@functools.cache
def kernel():
    t = scalar_types(S)
    shapes = copy(features_module, S)
    evaluate, contact_frame = shapes.evaluate, shapes.contact_frame

    @wp.kernel(module=f"test_collide_{S.__name__}_grad")
    def geometry(
        kinds: wp.array2d(dtype=wp.int32),
        features: wp.array(dtype=wp.vec3i),
        poses: wp.array2d(dtype=t.transform),
        sizes: wp.array2d(dtype=t.vec3),
        phi: wp.array(dtype=S),  # out from here
        point: wp.array(dtype=t.vec3),
        normal: wp.array(dtype=t.vec3),
        frame: wp.array(dtype=t.mat33),
    ):
        i = wp.tid()
        contact = evaluate(kinds[i, 0], poses[i, 0], sizes[i, 0], kinds[i, 1], poses[i, 1], sizes[i, 1], features[i])
        phi[i] = contact.phi
        point[i] = contact.point
        normal[i] = contact.normal
        frame[i] = contact_frame(contact.normal)

    return geometry


class Problem:
    """All cases in one launch: x holds per row the 14 pose and 6 size components, y the 16 outputs."""

    def __init__(self, cases, seed=0):
        t = scalar_types(S)
        rng = np.random.default_rng(seed)
        n = self.rows = len(cases)
        self.kinds = wp.array(np.array([c[:2] for c in cases], np.int32), dtype=wp.int32, device=DEVICE)
        self.features = wp.array(np.array([c[2] for c in cases], np.int32), dtype=wp.vec3i, device=DEVICE)
        self.outputs = [wp.zeros(n, dtype, requires_grad=True, device=DEVICE) for dtype in (S, t.vec3, t.vec3, t.mat33)]
        poses = rng.normal(size=(n, 2, 7))
        poses[:, :, 3:] /= np.linalg.norm(poses[:, :, 3:], axis=2, keepdims=True)
        self.x = np.concatenate([poses.reshape(n, 14), rng.uniform(0.3, 1.0, (n, 6))], axis=1)

    def launch(self, x, requires_grad=False):
        t = scalar_types(S)
        n = self.rows
        self.inputs = [
            wp.array(x[:, :14].reshape(n, 2, 7), dtype=t.transform, requires_grad=requires_grad, device=DEVICE),
            wp.array(x[:, 14:].reshape(n, 2, 3), dtype=t.vec3, requires_grad=requires_grad, device=DEVICE),
        ]
        wp.launch(kernel(), n, inputs=[self.kinds, self.features, *self.inputs], outputs=self.outputs, device=DEVICE)
        return np.concatenate([y.numpy().reshape(n, -1) for y in self.outputs], axis=1)

    def tape_jacobian(self):
        """(rows, 16, 20)."""
        tape = wp.Tape()
        with tape:
            self.launch(self.x, requires_grad=True)
        rows = []
        for y in self.outputs:
            width = y.numpy().reshape(self.rows, -1).shape[1]
            for k in range(width):
                seed = np.zeros((self.rows, width))
                seed[:, k] = 1.0
                tape.zero()
                grads = wp.array(seed.reshape(y.numpy().shape), dtype=y.dtype, device=DEVICE)
                tape.backward(grads={y: grads})
                rows.append(np.concatenate([a.grad.numpy().reshape(self.rows, -1) for a in self.inputs], axis=1))
        return np.stack(rows, axis=1)

    def difference_jacobian(self, step):
        columns = []
        for k in range(self.x.shape[1]):
            d = np.zeros_like(self.x)
            d[:, k] = step
            columns.append((self.launch(self.x + d) - self.launch(self.x - d)) / (2 * step))
        return np.stack(columns, axis=2)


def test_derivatives_of_every_feature_pair():
    """The tape's Jacobian of (φ, point, normal, frame) by poses and sizes equals the difference quotient."""
    cases = [c for c in CASES for _ in range(SAMPLES)]
    problem = Problem(cases)
    exact = problem.tape_jacobian()
    assert np.isfinite(exact).all()
    scale = np.abs(exact).max(axis=(1, 2))
    errors = [np.abs(problem.difference_jacobian(h) - exact).max(axis=(1, 2)) / scale for h in STEPS]
    best = np.min(errors, axis=0)
    worst = int(np.argmax(best))
    assert best[worst] <= TOLERANCE, (cases[worst], best[worst])


def test_derivatives_are_finite_at_coincident_features():
    """Coincident points and parallel lines have a deterministic unit normal and finite derivatives."""
    cases = [(SPHERE, SPHERE, (0, 0, -1)), (SPHERE, CAPSULE, (0, 2, -1)), (CAPSULE, CAPSULE, (2, 2, -1)),
             (CAPSULE, BOX, (2, 8, -1)), (BOX, BOX, (8, 8, -1)), (BOX, BOX, (3, 3, -1)), (BOX, BOX, (8, 24, 22))]  # fmt: skip
    problem = Problem(cases)
    problem.x[:, 7:14] = problem.x[:, :7]
    problem.x[:, 17:] = problem.x[:, 14:17]
    jacobian = problem.tape_jacobian()
    y = problem.launch(problem.x)
    assert np.isfinite(jacobian).all()
    np.testing.assert_allclose(np.linalg.norm(y[:, 4:7], axis=1), 1.0, atol=1e-12)


@pytest.mark.parametrize("seed", [1])
def test_frame_is_a_rotation_with_the_normal_last(seed):
    """contact_frame returns an orthonormal right-handed frame whose third column is the normal."""
    problem = Problem([c for c in CASES if c[0] != PLANE], seed)
    y = problem.launch(problem.x)
    frame = y[:, 7:].reshape(-1, 3, 3)
    np.testing.assert_allclose(frame @ frame.transpose(0, 2, 1), np.broadcast_to(np.eye(3), frame.shape), atol=1e-14)
    np.testing.assert_allclose(np.linalg.det(frame), 1.0, atol=1e-14)
    np.testing.assert_allclose(frame[:, :, 2], y[:, 4:7], atol=0)
