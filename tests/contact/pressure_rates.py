# SPDX-License-Identifier: Apache-2.0
"""Rates of the contacts of pressure fields beside central differences through the detection of contacts, for tests."""

import functools
import itertools

import numpy as np
import warp as wp
from scipy.spatial.transform import Rotation

import warpsim as ws
from warpsim.device.copies import copy
from warpsim.differentiate.pressure_rates import PARAMETERS, PressureRates
from warpsim.kernels import preamble
from warpsim.kernels.contact.hydroelastic import fields as field_kernels
from warpsim.kernels.contact.hydroelastic import find_polygons, patches

RADIUS = 0.05
STEPS = (1e-4, 1e-5, 1e-6, 1e-7)
ROWS = {"phi": slice(0, 1), "point": slice(1, 4), "normal": slice(4, 7), "compliance": slice(7, 8), "tau": slice(8, 9)}
MOTIONS = 6


def octahedron():
    """A crooked convex mesh."""
    corners = [[1, 0.1, 0], [-0.8, 0, 0.1], [0, 0.9, -0.1], [0.1, -1, 0], [0, 0.1, 1.1], [0.05, 0, -0.9]]
    faces = [(0, 2, 4), (2, 1, 4), (1, 3, 4), (3, 0, 4), (2, 0, 5), (1, 2, 5), (3, 1, 5), (0, 3, 5)]
    return 0.06 * np.array(corners), np.array(faces)


# Sizes, and the resolution [m].
SHAPES = {
    "plane": ((), None),
    "sphere": ((0.05,), 0.02),
    "capsule": ((0.03, 0.05), 0.02),
    "ellipsoid": ((0.04, 0.05, 0.06), 0.03),
    "cylinder": ((0.04, 0.07), 0.02),
    "box": ((0.05, 0.07, 0.04), None),
    "mesh": ((), None),
}
MODULI = {"rigid and soft": (np.inf, 1e5), "soft and rigid": (1e5, np.inf), "both soft": (1e5, 3e5)}
CASES = [
    (a, b, softness)
    for a, b in itertools.combinations_with_replacement(SHAPES, 2)
    for softness in MODULI
    if not (a == b == "plane") and not (a == b and softness == "soft and rigid")
]


def pair_model(a: str, b: str, softness: str, taus=(0.02, 0.05), margin=0.0, tessellate=True) -> ws.Model:
    """Two free bodies of these shapes, a half space fixed to the world, in the order of the model's pair."""
    builder = ws.ModelBuilder("pair", gravity=(0, 0, 0))
    for name, kind, modulus, tau in zip("ab", (a, b), MODULI[softness], taus, strict=True):
        size, resolution = SHAPES[kind]
        resolution = resolution if tessellate else None
        body = -1
        if kind != "plane":
            body = builder.add_body(name, mass=1.0, inertia=np.eye(3))
            builder.add_joint(body, "free")
        thickness = 0.05 if kind == "plane" and np.isfinite(modulus) else None
        material = ws.Hydroelastic(modulus, resolution, thickness, margin)
        mesh = {"mesh": octahedron()} if kind == "mesh" else {}
        builder.add_geom(kind, size, body=body, name=name, dissipation_time=tau, hydroelastic=material, **mesh)
    return builder.build()


def random_poses(model: ws.Model, count: int, rng) -> np.ndarray:
    """q (count, nq) of pairs that overlap, most of them."""
    q = np.zeros((count, model.nq))
    for k in range(count):
        first = rng.uniform(-0.1, 0.1, 3)
        way = rng.normal(size=3)
        second = first + way * rng.uniform(0.06, 0.1) / np.linalg.norm(way)
        places = [first, second]
        if model.nbody == 1:
            places = [np.array([*first[:2], rng.uniform(0.02, 0.06)])]
        for body, x in enumerate(places):
            turn = Rotation.random(random_state=rng).as_quat()[[3, 0, 1, 2]]
            q[k, 7 * body : 7 * body + 7] = [*x, *turn]
    return q


def moved(q: np.ndarray, twist: np.ndarray) -> np.ndarray:
    """q after the last body has moved by a twist about the origin of the world."""
    q = q.copy()
    turn = Rotation.from_rotvec(twist[:3])
    q[-7:-4] = turn.apply(q[-7:-4]) + twist[3:]
    q[-4:] = (turn * Rotation.from_quat(q[-4:][[1, 2, 3, 0]])).as_quat()[[3, 0, 1, 2]]
    return q


def parameters_of(model: ws.Model) -> list[tuple]:
    """(name, index into the parameter, column of the slopes) of what the fields of a pair are made of."""
    found = []
    a, b = model.pair_geom[0]
    soft = a if np.isfinite(model.geom_hydroelastic_modulus[a]) else b
    for name, directions in PARAMETERS.items():
        value = np.asarray(getattr(model, name), float).reshape(model.ngeom, -1)
        for g, k in itertools.product((a, b), range(value.shape[1])):
            fixed = name == "geom_size" and model.geom_type[g] == ws.GeomType.MESH
            if np.isfinite(value[g, k]) and value[g, k] > 0 and not fixed:
                column = directions.start - MOTIONS + k + value.shape[1] * int(g != soft)
                found.append((name, (g, k) if name == "geom_size" else (g,), column))
    return found


def simulator(model: ws.Model, worlds: int, level: str, **options) -> ws.Simulator:
    options = {"dt": 1e-6, "dtype": "float64", "solver": ws.SAP(approximation="convex")} | options
    return ws.Simulator(model, worlds, hydroelastic=level, **options)


def contacts_at(sim: ws.Simulator, q: np.ndarray) -> list[dict]:
    """The contacts of every world: (n, 9) of φ, p, n, c, τ_d, and what tells whether two have the same topology."""
    sim.step(sim.state(q))
    collision = sim._step.collision
    c = collision.contacts
    values = np.concatenate(
        [c.phi.numpy()[..., None], c.point.numpy(), c.frame.numpy()[..., 2], c.compliance.numpy()], axis=-1
    )
    keys = topology(collision)
    return [{"values": values[w, :n], "key": keys[w]} for w, n in enumerate(c.count.numpy())]


@functools.cache
def list_patches():
    """The kernel of which patch of its pair a polygon belongs to, -1 where it does not count."""
    device = copy(patches, wp.float64)
    Fields, Polygons = copy(field_kernels.Fields, wp.float64), copy(find_polygons.Polygons, wp.float64)
    normals_of, nearest_seed = device.normals_of, device.nearest_seed

    @wp.kernel(module=preamble.warp_module("test_list_patches"), enable_backward=False)
    def list_patches(fields: Fields, polygons: Polygons, patch: wp.array2d(dtype=int)):
        w = wp.tid()
        for t in range(fields.pair.shape[0]):
            first = polygons.first[w, t]
            last = polygons.first[w, t + 1]
            seeds, seed = normals_of(polygons, w, first, last)
            for k in range(first, last):
                patch[w, k] = -1
                if polygons.values[w, k][0] > wp.float64(0.0):
                    patch[w, k] = nearest_seed(seeds, seed, polygons.normal[w, k])

    return list_patches


def topology(collision) -> list[tuple]:
    """Of every world which polygons there are, and of which patch, and the features of the contacts."""
    pressure, contacts = collision.pressure, collision.contacts
    count, listed = contacts.count.numpy(), pressure.polygons.count.numpy()
    feature, cells = contacts.feature.numpy(), pressure.polygons.cells.numpy()
    patch = wp.zeros(pressure.polygons.cells.shape, dtype=wp.int32)
    if pressure.points_per_patch:
        wp.launch(list_patches(), pressure.device_model.worlds, [pressure.fields, pressure.polygons, patch])
    patch = patch.numpy()
    return [
        (feature[w, :n].tobytes(), cells[w, :m].tobytes(), patch[w, :m].tobytes())
        for w, (n, m) in enumerate(zip(count, listed, strict=True))
    ]


def slopes_at(sim: ws.Simulator, q: np.ndarray, columns) -> list[np.ndarray]:
    """Of every world (n, 9, 6 + columns): by a motion of geom B about the origin of the world, and by parameters."""
    contacts_at(sim, q)
    collision = sim._step.collision
    rates = PressureRates(collision)
    if len(columns):
        rates.choose(PARAMETERS)
    rates.find(sim.dt)
    rows = np.concatenate([rates.slope.numpy(), rates.law_slope.numpy()], axis=2)
    # u at p is u at the origin + ω × p
    rows[..., :3] += np.cross(collision.contacts.point.numpy()[:, :, None], rows[..., 3:])
    if len(columns):
        rows = np.concatenate([rows, rates.parameter_slope.numpy()[..., columns]], axis=-1)
    return [rows[w, :n] for w, n in enumerate(collision.contacts.count.numpy())]


def scaled(values: np.ndarray) -> np.ndarray:
    """With the stiffness 1/c in the place of c: that of small polygons is small."""
    values = values.copy()
    values[:, 7] = 1 / values[:, 7]
    return values


def compare(model: ws.Model, level: str, poses: int = 2, tried: int = 24, seed: int = 0, by_parameters=False) -> dict:
    """The worst relative error of each kind of row over some poses, the number of contacts, and of derivatives whose differences all lie over a
    change of topology."""
    rng = np.random.default_rng(seed)
    parameters = parameters_of(model) if by_parameters else []
    directions = MOTIONS + len(parameters)
    sim = simulator(model, max(tried, 2 * poses * directions * len(STEPS)), level)
    q = np.resize(random_poses(model, tried, rng), (sim.worlds, model.nq))
    found = contacts_at(sim, q)
    chosen = [w for w in range(tried) if len(found[w]["values"])][:poses]
    values = [found[w] for w in chosen]
    slopes = slopes_at(sim, q, [column for *_, column in parameters])
    slopes = [slopes[w] for w in chosen]
    base, q = q[chosen], np.resize(q[chosen[0]], q.shape)
    changed = {name: np.repeat(np.asarray(getattr(model, name), float)[None], sim.worlds, 0) for name, *_ in parameters}
    units = np.ones(directions)
    for k, (name, index, _) in enumerate(parameters):
        units[MOTIONS + k] = changed[name][(0, *index)]
    cases = list(itertools.product(range(len(chosen)), range(directions), STEPS, (1, -1)))
    for w, (pose, d, step, side) in enumerate(cases):
        q[w] = base[pose]
        if d < MOTIONS:
            q[w] = moved(base[pose], side * step * np.eye(MOTIONS)[d])
        else:
            name, index, _ = parameters[d - MOTIONS]
            changed[name][(w, *index)] *= 1 + side * step
    for name, value in changed.items():
        sim.parameters[name] = value
    found = dict(zip(cases, contacts_at(sim, q), strict=False))
    errors, skipped = dict.fromkeys(ROWS, 0.0), 0
    for pose, d in itertools.product(range(len(chosen)), range(directions)):
        now, own = scaled(values[pose]["values"]), slopes[pose] * np.append(np.ones(MOTIONS), units[MOTIONS:])
        own[:, 7] *= -(now[:, 7:8] ** 2)  # of 1/c
        differences = {}
        for step in STEPS:
            up, down = (found[pose, d, step, side] for side in (1, -1))
            if up["key"] == values[pose]["key"] == down["key"]:
                differences[step] = (scaled(up["values"]) - scaled(down["values"])) / (2 * step)
        for step, finer in itertools.pairwise(STEPS):  # without the term in step²
            if step in differences and finer in differences:
                differences[step, finer] = (100 * differences[finer] - differences[step]) / 99
        skipped += not differences
        for name, part in ROWS.items():
            size = max(np.abs(own[:, part]).max(), np.abs(now[:, part]).max() / (RADIUS if d < MOTIONS else 1.0))
            misses = [np.abs(own[:, part, d] - x[:, part]).max(1) / size for x in differences.values()]
            if misses:
                errors[name] = max(errors[name], np.min(misses, axis=0).max())
    return {"errors": errors, "contacts": sum(len(x) for x in slopes), "skipped": skipped, "poses": len(chosen)}
