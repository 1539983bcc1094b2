"""Rates of the contacts of pressure fields beside central differences through the detection of contacts, for tests."""

import itertools

import numpy as np
import warp as wp
from scipy.spatial.transform import Rotation

import warpsim as ws
from warpsim.differentiate.pressure_rates import PressureRates
from warpsim.kernels.differentiate import pressure_slopes as kernels

RADIUS = 0.05
STEPS = (1e-4, 1e-5, 1e-6, 1e-7)
ROWS = {"phi": slice(0, 1), "point": slice(1, 4), "normal": slice(4, 7), "compliance": slice(7, 8), "tau": slice(8, 9)}


def octahedron():
    """A crooked convex mesh."""
    corners = 0.06 * np.array(
        [[1, 0.1, 0], [-0.8, 0, 0.1], [0, 0.9, -0.1], [0.1, -1, 0], [0, 0.1, 1.1], [0.05, 0, -0.9]]
    )
    faces = [(0, 2, 4), (2, 1, 4), (1, 3, 4), (3, 0, 4), (2, 0, 5), (1, 2, 5), (3, 1, 5), (0, 3, 5)]
    return corners, np.array(faces)


SHAPES = {
    "plane": ((), None),
    "sphere": ((0.05,), 0.02),
    "capsule": ((0.03, 0.05), 0.02),
    "ellipsoid": ((0.04, 0.05, 0.06), 0.03),
    "cylinder": ((0.04, 0.07), 0.02),
    "box": ((0.05, 0.07, 0.04), None),
    "mesh": ((), None),
}
MODULI = {"rs": (np.inf, 1e5), "sr": (1e5, np.inf), "ss": (1e5, 3e5)}
CASES = [
    (a, b, softness)
    for a, b in itertools.combinations_with_replacement(SHAPES, 2)
    for softness in MODULI
    if not (a == b == "plane") and not (a == b and softness == "sr")
]


def pair_model(a: str, b: str, softness: str, taus=(0.02, 0.05)) -> ws.Model:
    """Two free bodies of these shapes, a half space fixed to the world, in the order of the model's pair."""
    builder = ws.ModelBuilder("pair", gravity=(0, 0, 0))
    for name, kind, modulus, tau in zip("ab", (a, b), MODULI[softness], taus, strict=True):
        size, resolution = SHAPES[kind]
        body = -1
        if kind != "plane":
            body = builder.add_body(name, mass=1.0, inertia=np.eye(3))
            builder.add_joint(body, "free")
        material = ws.Hydroelastic(modulus, resolution, 0.05 if kind == "plane" and np.isfinite(modulus) else None)
        mesh = {"mesh": octahedron()} if kind == "mesh" else {}
        builder.add_geom(kind, size, body=body, name=name, dissipation_time=tau, hydroelastic=material, **mesh)
    return builder.build()


def random_poses(model: ws.Model, count: int, rng) -> np.ndarray:
    """q (count, nq) of pairs that overlap, most of them."""
    q = np.zeros((count, model.nq))
    for k in range(count):
        first = np.zeros(3)
        for body in range(model.nbody):
            x = rng.normal(size=3)
            x *= rng.uniform(0.06, 0.1) / np.linalg.norm(x)
            if model.nbody == 1:
                x = np.array([*rng.uniform(-0.1, 0.1, 2), rng.uniform(0.02, 0.06)])
            elif body == 0:
                x = first = rng.uniform(-0.1, 0.1, 3)
            else:
                x = first + x
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


def simulator(model: ws.Model, worlds: int, level: str, **options) -> ws.Simulator:
    return ws.Simulator(
        model, worlds, dt=1e-6, dtype="float64", hydroelastic=level, solver=ws.SAP(approximation="convex"), **options
    )


def contacts_at(sim: ws.Simulator, q: np.ndarray) -> list[dict]:
    """The contacts of every world: (n, 9) of φ, p, n, c, τ_d, and what tells whether two have the same topology."""
    sim.step(sim.state(q))
    collision = sim._step.collision
    c, polygons = collision.contacts, collision.pressure.polygons
    count, feature, cells = c.count.numpy(), c.feature.numpy(), polygons.cells.numpy()
    listed, patch = polygons.count.numpy(), patches_of(collision)
    values = np.concatenate(
        [c.phi.numpy()[..., None], c.point.numpy(), c.frame.numpy()[..., 2], c.compliance.numpy()], axis=-1
    )
    return [
        {
            "values": values[w, :n],
            "key": (feature[w, :n].tobytes(), cells[w, : listed[w]].tobytes(), patch[w, : listed[w]].tobytes()),
        }
        for w, n in enumerate(count)
    ]


def patches_of(collision) -> np.ndarray:
    """Which patch each polygon belongs to."""
    pressure = collision.pressure
    patch = wp.zeros(pressure.polygons.cells.shape, dtype=wp.int32)
    if pressure.points_per_patch:
        collision.dynamics.launch(kernels.list_patches, None, [pressure.fields, pressure.polygons, patch])
    return patch.numpy()


def rows_at(sim: ws.Simulator, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(worlds, C, 9, 6) by a motion of geom B about the origin of the world, and the counts."""
    contacts_at(sim, q)
    collision = sim._step.collision
    rates = PressureRates(collision)
    rates.find(sim.dt)
    rows = np.concatenate([rates.slope.numpy(), rates.law_slope.numpy()], axis=2)
    point = collision.contacts.point.numpy()
    # u at p is u at the origin + ω × p
    rows[..., :3] += np.cross(point[:, :, None], rows[..., 3:])
    return rows, collision.contacts.count.numpy()


def compare(model: ws.Model, level: str, poses: int = 3, tried: int = 24, seed: int = 0) -> dict:
    """The worst relative error of each kind of row over some poses, the number of contacts, and of differences over a change of topology."""
    rng = np.random.default_rng(seed)
    sim = simulator(model, max(tried, poses * 12 * len(STEPS)), level)
    q = np.repeat(random_poses(model, tried, rng), -(-sim.worlds // tried), axis=0)[: sim.worlds]
    rows, count = rows_at(sim, q)
    chosen = np.unique(np.flatnonzero(count > 0))
    chosen = [w for w in chosen if w == 0 or np.any(q[w] != q[w - 1])][:poses]
    base, values = q[chosen], contacts_at(sim, q)
    values = [values[w] for w in chosen]
    rows = [rows[w, : count[w]] for w in chosen]
    q = np.repeat(base[:1], sim.worlds, axis=0)
    places = {}
    for k, (pose, d, step) in enumerate(itertools.product(range(len(chosen)), range(6), STEPS)):
        for side in (0, 1):
            q[2 * k + side] = moved(base[pose], np.eye(6)[d] * (step if side else -step))
            places[pose, d, step, side] = 2 * k + side
    found = contacts_at(sim, q)
    errors, skipped, contacts = dict.fromkeys(ROWS, 0.0), 0, sum(len(x) for x in rows)
    for pose, d in itertools.product(range(len(chosen)), range(6)):
        best = {}
        for step in STEPS:
            up, down = (found[places[pose, d, step, side]] for side in (1, 0))
            if up["key"] != values[pose]["key"] or down["key"] != values[pose]["key"]:
                continue
            difference = (up["values"] - down["values"]) / (2 * step)
            for name, part in ROWS.items():
                own, now, seen = rows[pose][:, part], values[pose]["values"][:, part], difference[:, part]
                if name == "compliance":  # as stiffness, that of small polygons is small
                    own = -own / now[..., None] ** 2
                    seen = (1 / up["values"][:, part] - 1 / down["values"][:, part]) / (2 * step)
                    now = 1 / now
                size = max(np.abs(own).max(), np.abs(now).max() / RADIUS)
                best.setdefault(name, []).append(np.abs(own[..., d] - seen).max(1) / size)
        skipped += not best
        for name, x in best.items():
            errors[name] = max(errors[name], np.min(x, axis=0).max())
    return {"errors": errors, "contacts": contacts, "skipped": skipped, "poses": len(chosen)}
