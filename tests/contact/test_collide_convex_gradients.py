# SPDX-License-Identifier: Apache-2.0
"""Derivatives of the general contact geometry with frozen features against central differences, in float64."""

import functools

import numpy as np
import warp as wp
from test_collide_convex import (
    ALL_PAIRS,
    DEVICE,
    FAR,
    SHAPES,
    Contacts,
    default_meshes,
    random_pairs,
    table,
)

import warpsim as ws
from warpsim.device.copies import copy, scalar_types
from warpsim.kernels.contact.narrow import convex_features as features_module
from warpsim.kernels.contact.narrow import shape as shape_module
from warpsim.model import ModelBuilder

S = wp.float64
STEPS = (1e-5, 1e-6)
TOLERANCE = 1e-6  # relative to the largest entry of the Jacobian
FROZEN = 1 << 30


@functools.cache
def kernel():
    t = scalar_types(S)
    st = copy(shape_module, S)
    MeshTable, Shape = st.MeshTable, st.Shape
    evaluate = copy(features_module, S).evaluate

    @wp.kernel(module=f"test_collide_convex_{S.__name__}_grad")
    def geometry(
        table: MeshTable,
        kinds: wp.array2d(dtype=wp.int32),
        meshes: wp.array2d(dtype=wp.int32),
        features: wp.array(dtype=wp.vec3i),
        poses: wp.array2d(dtype=t.transform),
        sizes: wp.array2d(dtype=t.vec3),
        phi: wp.array(dtype=S),  # out from here
        point: wp.array(dtype=t.vec3),
        normal: wp.array(dtype=t.vec3),
    ):
        i = wp.tid()
        a = Shape()
        b = Shape()
        a.type = kinds[i, 0]
        a.mesh = meshes[i, 0]
        a.size = sizes[i, 0]
        b.type = kinds[i, 1]
        b.mesh = meshes[i, 1]
        b.size = sizes[i, 1]
        contact = evaluate(table, a, poses[i, 0], b, poses[i, 1], features[i])
        phi[i] = contact.phi
        point[i] = contact.point
        normal[i] = contact.normal

    return geometry


class Problem:
    """All cases in one launch: x holds per row the 14 pose and 6 size components, y the 7 outputs."""

    def __init__(self, kinds, meshes, features, poses, sizes):
        t, n = scalar_types(S), len(kinds)
        self.rows = n
        self.kinds, self.meshes = (
            wp.array(np.asarray(x, np.int32), dtype=wp.int32, device=DEVICE) for x in (kinds, meshes)
        )
        self.features = wp.array(np.asarray(features, np.int32), dtype=wp.vec3i, device=DEVICE)
        self.outputs = [wp.zeros(n, dtype, requires_grad=True, device=DEVICE) for dtype in (S, t.vec3, t.vec3)]
        self.x = np.concatenate([np.reshape(poses, (n, 14)), np.reshape(sizes, (n, 6))], axis=1)

    def launch(self, x, requires_grad=False):
        t, n = scalar_types(S), self.rows
        self.inputs = [
            wp.array(x[:, :14].reshape(n, 2, 7), dtype=t.transform, requires_grad=requires_grad, device=DEVICE),
            wp.array(x[:, 14:].reshape(n, 2, 3), dtype=t.vec3, requires_grad=requires_grad, device=DEVICE),
        ]
        inputs = [table(S), self.kinds, self.meshes, self.features, *self.inputs]
        wp.launch(kernel(), n, inputs=inputs, outputs=self.outputs, device=DEVICE)
        return np.concatenate([y.numpy().reshape(n, -1) for y in self.outputs], axis=1)

    def tape_jacobian(self):
        """(rows, 7, 20)."""
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
                tape.backward(grads={y: wp.array(seed.reshape(y.numpy().shape), dtype=y.dtype, device=DEVICE)})
                rows.append(np.concatenate([a.grad.numpy().reshape(self.rows, -1) for a in self.inputs], axis=1))
        return np.stack(rows, axis=1)

    def difference_jacobian(self, step):
        columns = []
        for k in range(self.x.shape[1]):
            d = np.zeros_like(self.x)
            d[:, k] = step
            columns.append((self.launch(self.x + d) - self.launch(self.x - d)) / (2 * step))
        return np.stack(columns, axis=2)


def worst_errors(problem):
    exact = problem.tape_jacobian()
    assert np.isfinite(exact).all()
    scale = np.abs(exact).max(axis=(1, 2))
    errors = [np.abs(problem.difference_jacobian(h) - exact).max(axis=(1, 2)) / scale for h in STEPS]
    return np.min(errors, axis=0)


def detected_cases(n, resting=False):
    """Contacts that detection finds in n random pairs of every two types: kinds, meshes, features, poses, sizes."""
    out = [[], [], [], [], []]
    for pair in ALL_PAIRS:
        poses, sizes = random_pairs(*pair, n, seed=11)
        contacts = Contacts(S, pair, poses, sizes, FAR)
        for i, k in zip(*np.nonzero(contacts.used), strict=True):
            row = (pair, default_meshes(n)[i], contacts.features[i, k], poses[i], sizes[i])
            for values, value in zip(out, row, strict=True):
                values.append(value)
    return [np.array(values) for values in out]


def test_derivatives_of_detected_features():
    """The tape's Jacobian of (φ, point, normal) by poses and sizes equals the difference quotient, for every pair of
    types and every kind of feature that random pairs have, from deep penetration to far apart."""
    cases = detected_cases(20)
    assert (-2 - cases[2][:, 2] < FROZEN).all()
    error = worst_errors(Problem(*cases))
    worst = int(np.argmax(error))
    assert np.quantile(error, 0.99) <= TOLERANCE
    assert error[worst] <= TOLERANCE, (cases[0][worst], cases[2][worst], error[worst])


@wp.kernel
def weighted_sum(x: wp.array2d(dtype=wp.float64), a: wp.array(dtype=wp.float64), loss: wp.array(dtype=wp.float64)):
    w, i = wp.tid()
    wp.atomic_add(loss, 0, a[i] * x[w, i])


def sliding_scene():
    """A cylinder, an ellipsoid and a mesh, each sliding on a box, a mesh or a plane of its own height."""
    b = ModelBuilder("sliding", timestep=0.01)
    mesh = (SHAPES[0], [(0, 1, 2), (1, 2, 3), (4, 5, 6), (5, 6, 7), (0, 1, 4), (2, 3, 6)])
    b.add_geom("plane", (5, 5, 1))
    for i, (kind, size, z) in enumerate(
        (
            ("cylinder", (0.1, 0.2), 0.2),
            ("ellipsoid", (0.3, 0.2, 0.1), 0.1),
            ("mesh", (1,), 0.5),
            ("cylinder", (0.2, 0.3), 0.2),
        )
    ):
        turn = (1, 0, 0, 0) if i < 3 else (0.5**0.5, 0.5**0.5, 0, 0)
        body = b.add_body(f"b{i}", pose=[2 * i, 0, z - 1e-4, *turn], mass=2.0, inertia=(0.05, 0.06, 0.07))
        b.add_joint(body, "free")
        b.add_geom(kind, size, body=body, friction=0.3, **({"mesh": mesh} if kind == "mesh" else {}))
    return b.build()


def test_gradient_of_steps_with_general_contacts():
    """The tape's gradient of a state after five steps by the first velocity equals the difference quotient."""
    model = sliding_scene()
    sim = ws.Simulator(
        model, dt=0.01, dtype="float64", requires_grad=True, solver=ws.SAP(tolerance=1e-13), device="cpu"
    )
    rng = np.random.default_rng(0)
    v0 = 0.3 * rng.normal(size=model.nv)
    a = wp.array(rng.normal(size=model.nv), dtype=wp.float64, device="cpu")
    direction = rng.normal(size=model.nv)

    def run(v):
        start = state = sim.state(model.q0, v)
        for _ in range(5):
            state = sim.step(state)
        loss = wp.zeros(1, dtype=wp.float64, device="cpu", requires_grad=True)
        wp.launch(weighted_sum, (1, model.nv), inputs=[state.v, a, loss], device="cpu")
        return loss, start

    with wp.Tape() as tape:
        loss, start = run(v0)
    tape.backward(loss)
    exact = float(start.v.grad.numpy()[0] @ direction)
    errors = []
    for step in (1e-5, 1e-6, 1e-7):
        difference = float((run(v0 + step * direction)[0].numpy() - run(v0 - step * direction)[0].numpy())[0]) / (
            2 * step
        )
        errors.append(abs(difference - exact) / abs(exact))
    assert min(errors) <= 1e-5, (exact, errors)
