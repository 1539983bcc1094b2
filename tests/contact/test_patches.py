# SPDX-License-Identifier: Apache-2.0
"""Polygons and patches of pressure fields: against Drake's surfaces and closed forms."""

import json
import pathlib

import numpy as np
import pytest
import warp as wp

import warpsim as ws
from scenes import pressure as scenes
from warpsim.contact.hydroelastic.contact_patch import outlines_of, torsion_capacity

DATA = np.load(pathlib.Path(__file__).parents[1] / "reference/data/hydro_open.npz")
PAIRS = json.loads(str(DATA["meta"]))["surf"]


def two_bodies(pair) -> ws.Model:
    """Two free bodies of these shapes, a half space fixed to the world."""
    b = ws.ModelBuilder("pair", gravity=(0, 0, 0))
    for name in "ab":
        kind, size, modulus, resolution, *thickness = pair[name]
        body = -1
        if kind != "half_space":
            body = b.add_body(name, mass=1.0, inertia=np.eye(3))
            b.add_joint(body, "free")
        material = scenes.material(modulus, resolution, thickness[0] if thickness else None)
        b.add_geom(*scenes.shape_of(kind, 0 if size is None else size), body=body, name=name, hydroelastic=material)
    return b.build()


def poses(pair, a, b):
    """q for poses (n, 3, 4) of the two; where b is a half space it stands still and a is moved in its frame."""
    turn_a, x_a = a[..., :3], a[..., 3]
    if pair["b"][0] != "half_space":
        return np.concatenate([x_a, quaternions(turn_a), b[..., 3], quaternions(b[..., :3])], axis=1)
    turn = np.swapaxes(b[..., :3], 1, 2)
    x = np.einsum("nij,nj->ni", turn, x_a - b[..., 3])
    return np.concatenate([x, quaternions(turn @ turn_a)], axis=1)


def a_is_second(pair) -> bool:
    """Whether geom a is B of the model's pair, where types come in the order of `GeomType`."""
    kinds = [ws.GeomType[scenes.shape_of(pair[n][0], (1, 1, 1))[0].upper()] for n in "ab"]
    return kinds[0] > kinds[1]


def quaternions(turn) -> np.ndarray:
    """(w, x, y, z) of rotation matrices (n, 3, 3)."""
    from scipy.spatial.transform import Rotation

    return Rotation.from_matrix(turn).as_quat()[:, [3, 0, 1, 2]]


def polygons_at(model, q, level="polygons", dtype="float64"):
    """The polygons at every row of q as arrays, or None, and the simulator, which has made one short step from rest."""
    sim = ws.Simulator(model, len(q), dt=1e-6, dtype=dtype, hydroelastic=level, solver=ws.SAP(approximation="convex"))
    sim.step(sim.state(q))
    pressure = sim._step.collision.pressure
    counts = pressure.polygons.count.numpy()
    return [outlines_of(pressure, sim._step.collision, w, int(n)) if n else None for w, n in enumerate(counts)], sim


# Drake leaves out polygons whose normal is more than 112.5 degrees from the pressure's gradient, and those of no slope.
DRAKE_COSINE = np.cos(5 * np.pi / 8)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", PAIRS)
def test_polygons_are_those_of_drake(name, dtype):
    """Force, area, centroid and stiffness of 20 poses of each pair of shapes, with Drake's tessellation and its choice of polygons."""
    bar, none = (1e-9, 1e-13) if dtype == "float64" else (2e-4, 2e-6)  # 1e-4 but for the four least of 300 patches
    pair, a, b = PAIRS[name], DATA[f"surf/{name}/XA"], DATA[f"surf/{name}/XB"]
    want = {key: DATA[f"surf/{name}/{key}"] for key in ("force", "area", "centroid", "stiffness")}
    found, _ = polygons_at(two_bodies(pair), poses(pair, a, b), dtype=dtype)
    touching = 0
    for k, outlines in enumerate(found):
        if want["area"][k] == 0:
            continue
        touching += 1
        turn, x = (b[k, :, :3], b[k, :, 3]) if pair["b"][0] == "half_space" else (np.eye(3), np.zeros(3))
        area, stiffness, _, cosine = outlines["values"].T
        # the kernel gives next to no stiffness where there is none
        kept = (cosine > none) & (area > 1e-14)
        sign = 1.0 if a_is_second(pair) else -1.0
        force = sign * outlines["force"][kept].sum(0)
        centroid = (area[kept, None] * outlines["centroid"][kept]).sum(0) / area[kept].sum()
        size = np.linalg.norm(want["force"][k])
        np.testing.assert_allclose(area[kept].sum(), want["area"][k], rtol=bar)
        np.testing.assert_allclose(stiffness[kept].sum(), want["stiffness"][k], rtol=bar)
        np.testing.assert_allclose(turn @ force, want["force"][k], atol=bar * size)
        np.testing.assert_allclose(turn @ centroid + x, want["centroid"][k], atol=bar * np.sqrt(want["area"][k]))
    assert touching > 5


def middles(corners, pressure, normal, start):
    """Points across the normal and forces along it, at the middles of the edges of the triangles that a polygon is cut into from one corner."""
    x, p = np.roll(corners, -start, axis=0), np.roll(pressure, -start)
    weight = np.cross(x[1:-1] - x[0], x[2:] - x[0]) @ normal / 6
    first = np.zeros(len(weight), int)
    second = first + 1 + np.arange(len(weight))
    ends = [(first, second), (second, second + 1), (first, second + 1)]
    y = np.concatenate([(x[i] + x[j]) / 2 for i, j in ends])
    force = np.concatenate([weight * (p[i] + p[j]) / 2 for i, j in ends])
    return y - np.outer(y @ normal, normal), force


TORSIONS = [name for name in PAIRS if f"surf/{name}/torsion_capacity" in DATA.files and "cyl" not in name]


@pytest.mark.parametrize("name", TORSIONS)
def test_torsion_is_that_of_the_data(name, within):
    """The data have ∫ p |y − y_p| dA of Drake's choice of polygons by a rule on the triangles of a fan in each, which depends on the corner that the fan
    starts from: they lie between the least and the most of those, to 1e-9. (The ends of cylinders are several polygons here, with other fans.)"""
    pair, a, b = PAIRS[name], DATA[f"surf/{name}/XA"], DATA[f"surf/{name}/XB"]
    want, off = DATA[f"surf/{name}/torsion_capacity"], []
    found, _ = polygons_at(two_bodies(pair), poses(pair, a, b))
    for k, o in enumerate(found):
        if not want[k] > 0:
            continue
        area, _, _, cosine = o["values"].T
        rows = np.flatnonzero((cosine > 1e-13) & (area > 1e-14))
        force = o["force"][rows].sum(0)
        normal = force / np.linalg.norm(force)
        polygons = [(o["vertex"][r, : o["count"][r]], o["pressure"][r, : o["count"][r]]) for r in rows]
        y, f = (np.concatenate(part) for part in zip(*(middles(x, p, normal, 0) for x, p in polygons), strict=True))
        centre = f @ y / f.sum()

        def torsion(x, p, start, normal=normal, centre=centre, sign=np.sign(f.sum())):
            y, f = middles(x, p, normal, start)
            return sign * f @ np.linalg.norm(y - centre, axis=1)

        sums = np.array([np.sort([torsion(x, p, start) for start in range(len(x))])[[0, -1]] for x, p in polygons])
        low, high = sums.sum(0)
        off.append(max(low - want[k], want[k] - high, 0.0) / want[k])
    within(f"torsion, {name}: outside of all fans", max(off), 1e-9)


def test_torsion_is_exact():
    """Of a regular polygon under even pressure, n d³/3 ∫ sec³; of a rectangle under a linear one in two pieces, as by quadrature; of the tilted, the same."""
    from scipy.integrate import quad

    angle = 2 * np.pi * np.arange(7) / 7
    ring = np.stack([np.cos(angle), np.sin(angle), 0 * angle], axis=1)
    side, d = np.pi / 7, np.cos(np.pi / 7)
    want = 14 * d**3 / 3 * 0.5 * (np.tan(side) / np.cos(side) + np.arcsinh(np.tan(side)))
    np.testing.assert_allclose(torsion_capacity([ring], [np.ones(7)], ring[0] * 0 + [0, 0, 2.0]), want, rtol=1e-13)
    corners = np.array([[-0.5, -0.3, 0], [1.0, -0.3, 0], [1.0, 0.6, 0], [-0.5, 0.6, 0]])
    slope, base = np.array([0.8, -0.4, 0.0]), 2.0
    middle, area = corners.mean(0), 1.5 * 0.9
    force = area * (base + middle @ slope)
    centre = middle + area * slope * [1.5**2 / 12, 0.9**2 / 12, 0] / force

    def along(y):
        found = quad(
            lambda x: (base + slope[0] * x + slope[1] * y) * np.hypot(x - centre[0], y - centre[1]),
            -0.5,
            1.0,
            points=[centre[0]],
            epsabs=1e-12,
        )
        return found[0]

    want = quad(along, -0.3, 0.6, points=[centre[1]], epsabs=1e-11)[0]
    halves = [corners[[0, 1, 2]], corners[[0, 2, 3]]]
    turn = np.array(scenes.rotation(0.3, -0.5, 1.0))
    for R in (np.eye(3), turn):
        found = torsion_capacity([x @ R.T + R[2] for x in halves], [base + x @ slope for x in halves], R[:, 2])
        np.testing.assert_allclose(found, want, rtol=1e-9)


def drakes_turn(q, v, h):
    """Orientation after h as Drake's discrete plant has it: q + h q', normalised here."""
    w, x = v[3:], q[3:]
    rate = 0.5 * np.array([-w @ x[1:], *(x[0] * w + np.cross(w, x[1:]))])
    x = x + h * rate
    return np.concatenate([q[:3] + h * v[:3], x / np.linalg.norm(x)])


def in_world(q, v, inverse=False):
    """Velocities with the angular part in world axes, or from there back to body axes."""
    from scipy.spatial.transform import Rotation

    turn = Rotation.from_quat(q[[4, 5, 6, 3]])
    return np.concatenate([v[:3], turn.apply(v[3:], inverse=inverse)])


@pytest.mark.parametrize("ms", [1, 5, 10])
def test_a_ball_rolls_as_drakes_does(ms):
    """Fall, slide and roll of a soft ball on rigid ground over 1 s, one point per polygon: Drake's path, with its rule for orientations."""
    case = json.loads(str(DATA["meta"]))["dyn"][f"sphere_rigid_h{ms}"]
    keys = ("body_shape", "E", "hint", "m", "ground", "mu", "tau")
    model, h = scenes.drop(*(case[k] for k in keys)), case["h"]
    solver = ws.SAP(approximation="convex", tolerance=1e-9)
    sim = ws.Simulator(model, dt=h, dtype="float64", solver=solver, hydroelastic="polygons")
    q, v = np.array(case["pose"], float), np.array(case["vel"])
    want, every = DATA[f"dyn/sphere_rigid_h{ms}/q"], round(0.01 / h)
    state, far = sim.state(), []
    for k in range(100 * every):
        sim.reset(state, [0], q, in_world(q, v, inverse=True))
        sim.step(state, out=state)
        v = in_world(q, state.v.numpy()[0])
        q = drakes_turn(q, v, h)
        if (k + 1) % every == 0:
            far.append(np.linalg.norm(q[:3] - want[(k + 1) // every, :3]))
    assert max(far) < 1e-7
    assert np.linalg.norm(want[-1, :2]) > 0.05  # it has gone somewhere


def elastic(model, q, level="polygons"):
    """Elastic forces and moments on B about the world's origin at every row of q, (n, 6)."""
    found, _ = polygons_at(model, q, level)
    wrenches = []
    for o in found:
        wrench = np.zeros(6)
        if o is not None:
            wrench[:3] = o["force"].sum(0)
            wrench[3:] = (np.cross(o["centroid"], o["force"]) + o["moment"]).sum(0)
        wrenches.append(wrench)
    return np.array(wrenches)


def soft_box(modulus=1e5, size=(0.1, 0.14, 0.08), ground=None) -> ws.Model:
    return two_bodies({"a": ["box", size, modulus, None], "b": ground or ["half_space", None, None, None]})


@pytest.mark.parametrize("depth", [0.0005, 0.002, 0.01, 0.03])
def test_a_flat_soft_box_has_its_closed_form(depth):
    """F = E/m (Lx Ly d − (Lx + Ly) d² + 4/3 d³) with m the least half size, the rim of the sides included."""
    x, y, z = 0.1, 0.14, 0.08
    q = np.array([[0, 0, z / 2 - depth, 1, 0, 0, 0]], float)
    want = 1e5 / 0.04 * (x * y * depth - (x + y) * depth**2 + 4 / 3 * depth**3)
    np.testing.assert_allclose(elastic(soft_box(), q)[0, 2], want, rtol=1e-12)


def test_a_rigid_box_in_a_soft_half_space_has_its_closed_form():
    """F = E d Lx Ly/thickness."""
    model = soft_box(None, ground=["half_space", None, 1e5, None, 0.05])
    q = np.array([[0, 0, 0.04 - 0.003, 1, 0, 0, 0]])
    np.testing.assert_allclose(elastic(model, q)[0, 2], 1e5 * 0.003 * 0.1 * 0.14 / 0.05, rtol=1e-12)


def test_a_soft_box_on_a_soft_half_space_is_in_series():
    """Away from the rim the two slopes are in series; no peer has this pair."""
    model = soft_box(ground=["half_space", None, 3e5, None, 0.05])
    q = np.array([[0, 0, 0.04 - 1e-4, 1, 0, 0, 0]])
    slope = 1 / (0.04 / 1e5 + 0.05 / 3e5)
    np.testing.assert_allclose(elastic(model, q)[0, 2], slope * 1e-4 * 0.1 * 0.14, rtol=3e-3)


def test_force_is_continuous_where_a_face_is_flat():
    """Tilts of ±1e-6 rad change force and moment of a flat box by no more than they should; dropping its rim would change 15 %."""
    tilt = np.array([-1e-3, -1e-6, 0.0, 1e-6, 1e-3])
    q = np.zeros((5, 7))
    q[:, 2], q[:, 3], q[:, 4] = 0.03, np.cos(tilt / 2), np.sin(tilt / 2)
    force = elastic(soft_box(), q)
    moment = force[:, 3:] - np.cross(q[:, :3], force[:, :3])
    np.testing.assert_allclose(force[2, 2], 293.3333333, rtol=1e-9)
    assert np.abs(np.diff(force[1:4, 2])).max() < 1e-3
    assert np.abs(np.diff(moment[1:4], axis=0)).max() < 1e-3
    assert np.abs(force[[0, 4], 2] - force[2, 2]).max() < 0.5


CONSERVATIVE = [
    "sphere_box_c",
    "box_box_c",
    "box_box_r",
    "cyl_box_r",
    "ell_cyl_c",
    "capsule_box_c",
    "box_on_soft_halfspace",
]


@pytest.mark.parametrize("name", CONSERVATIVE)
def test_forces_do_no_work_around_a_loop(name):
    """∮ F·dx = 0 around circles of body a: the elastic force has a potential, for every polygon counts."""
    pair, a, b = PAIRS[name], DATA[f"surf/{name}/XA"], DATA[f"surf/{name}/XB"]
    start = int(np.argmax(DATA[f"surf/{name}/area"]))
    base = poses(pair, a[start : start + 1], b[start : start + 1])[0]
    steps, radius = 600, 2e-4
    angle = 2 * np.pi * (np.arange(steps) + 0.5) / steps
    q = np.repeat(base[None], steps, axis=0)
    q[:, 0] += radius * np.cos(angle)
    q[:, 2] += radius * np.sin(angle)
    force = elastic(two_bodies(pair), q)[:, :3] * (1.0 if a_is_second(pair) else -1.0)
    tangent = np.stack([-np.sin(angle), 0 * angle, np.cos(angle)], axis=1)
    work = radius * 2 * np.pi / steps * np.einsum("ni,ni->", force, tangent)
    assert abs(work) < 2e-7 * radius * 2 * np.pi * np.linalg.norm(force, axis=1).mean()


def totals(contacts, x):
    """Force, moment about x, stiffness and its second moment of elastic contact points (ContactList, one world)."""
    list_, c = contacts
    n = list_.count[0]
    k = 1 / c[:n, 0]
    normal = list_.frame[0][:n, :, 2]
    force = (-list_.phi[0][:n] * k)[:, None] * normal
    arm = list_.point[0][:n] - x
    return force.sum(0), np.cross(arm, force).sum(0), k.sum(), np.einsum("c,ci,cj->ij", k, arm, arm)


@pytest.mark.parametrize("level", ["patch4", "patch5", "patch16"])
@pytest.mark.parametrize("name", PAIRS)
def test_patches_keep_force_and_moment(name, level):
    """Force to rounding, and where polygons have one normal the moment and the stiffness, are those of the polygons."""
    pair, a, b = PAIRS[name], DATA[f"surf/{name}/XA"], DATA[f"surf/{name}/XB"]
    model, q = two_bodies(pair), poses(pair, a, b)
    checked = 0
    for row in q[:8]:
        sim = ws.Simulator(model, dt=1e-6, dtype="float64", hydroelastic=level, solver=ws.SAP(approximation="convex"))
        sim.step(sim.state(row))
        patches = sim.contact_patches()
        if not patches:
            continue
        (patch,) = patches
        x = patch.centroid
        found = totals((sim.last_contacts, sim._step.collision.contacts.compliance.numpy()[0]), x)
        size = np.linalg.norm(patch.elastic_force)
        np.testing.assert_allclose(found[0], patch.elastic_force, atol=1e-6 * size)
        checked += 1
        if patch.coherence > 1 - 1e-9:
            # Points that would pull are held at 0, and the moment is then a little less.
            held = sim.last_contacts.phi[0].max() > -1e-12
            scale = size * np.sqrt(patch.area)
            np.testing.assert_allclose(found[1], patch.elastic_moment, atol=(0.05 if held else 1e-6) * scale)
            polygons = sim._step.collision.pressure.polygons
            area, _, compliance, *_ = polygons.values.numpy()[0, : polygons.count.numpy()[0]].T
            np.testing.assert_allclose(found[2], (area / compliance).sum(), rtol=1e-6)
    assert checked > 1


@pytest.mark.both_types
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("level", ["polygons", "patch16", "patch5", "patch4"])
def test_worlds_have_the_same_bits_in_any_company(level, dtype):
    """64 worlds of different drops, alone and together; one that is not finite leaves the others as they are."""
    model = scenes.drop(("sphere", 0.05), 1e5, 0.03, 0.5, ("box", [2.0, 2.0, 0.2], 1e6), 0.3, 0.02)
    rng = np.random.default_rng(0)
    q = np.tile(model.q0, (16, 1))
    q[:, :2], q[:, 2] = rng.uniform(-0.1, 0.1, (16, 2)), rng.uniform(0.045, 0.06, 16)
    v = rng.uniform(-1, 1, (16, 6))

    def run(rows, spoilt=None):
        sim = ws.Simulator(model, len(rows), dt=0.005, dtype=dtype, hydroelastic=level)
        start = q[rows].copy()
        state = sim.state(start, v[rows])
        if spoilt is not None:
            spoiled = state.q.numpy()
            spoiled[spoilt, 0] = np.nan
            state.q.assign(spoiled)
        for _ in range(30):
            sim.step(state, out=state)
        return state.q.numpy(), sim.diagnostics.flags.numpy()

    together, flags = run(np.arange(16))
    assert not flags.any()
    for w in (0, 7, 15):
        np.testing.assert_array_equal(run(np.array([w]))[0][0], together[w])
    spoilt, flags = run(np.arange(16), spoilt=3)
    others = np.arange(16) != 3
    np.testing.assert_array_equal(spoilt[others], together[others])
    assert flags[3] & ws.NONFINITE and not flags[others].any()


def test_more_polygons_than_there_is_room_for_are_flagged():
    """The first `max_polygons` in order act; the world is flagged and goes on."""
    model = scenes.drop(("sphere", 0.05), 1e5, 0.02, 0.5, ("half_space", None, None), 0.3, 0.02)
    sim = ws.Simulator(model, dt=0.005, hydroelastic="polygons", max_polygons=3)
    state = sim.step(sim.state([0, 0, 0.045, 1, 0, 0, 0]))
    assert sim.diagnostics.flags.numpy()[0] == ws.CONTACT_OVERFLOW
    assert sim.diagnostics.polygons.numpy()[0] == 3
    assert np.isfinite(state.q.numpy()).all()


def test_fields_that_are_driven_too_deep_are_flagged():
    """p/E above a half: the geoms are too soft, or the step too long."""
    model = scenes.drop(("sphere", 0.05), 1e5, 0.02, 0.5, ("half_space", None, None), 0.3, 0.02)
    sim = ws.Simulator(model, dt=0.005)
    sim.step(sim.state([0, 0, 0.02, 1, 0, 0, 0]))
    assert sim.diagnostics.flags.numpy()[0] == ws.DEEP_PRESSURE
    assert 0.5 < sim.diagnostics.pressure_depth.numpy()[0] < 0.7
    assert sim.diagnostics.patches.numpy()[0] == 1


def test_rigid_contact_of_pressure_fields_is_refused():
    model = scenes.drop(("sphere", 0.05), 1e5, 0.02, 0.5, ("half_space", None, None), 0.3, 0.02)
    with pytest.raises(
        ValueError, match=r"hydroelastic contact is compliant \(geoms 'ground' and 'body'\); use ws.SAP"
    ):
        ws.Simulator(model, solver=ws.LCP())
    with pytest.raises(ValueError, match="hydroelastic"):
        ws.Simulator(model, hydroelastic="patch9")
    with pytest.raises(ValueError, match="world is 1; the simulator has 1"):
        ws.Simulator(model).contact_patches(1)


@pytest.mark.parametrize("level", ["polygons", "patch16", "patch5", "patch4"])
@pytest.mark.parametrize(
    "solver", [ws.SAP(), ws.SAP(approximation="convex"), ws.Compliant()], ids=["lagged", "convex", "compliant"]
)
def test_soft_boxes_come_to_rest(solver, level):
    """A box of 1 kg sinks until its field bears its weight, level, whatever the points and the law."""
    case = json.loads(str(DATA["meta"]))["dyn"]["box_rigid_h5"]
    keys = ("body_shape", "E", "hint", "m", "ground", "mu", "tau")
    model = scenes.drop(*(case[k] for k in keys))
    sim = ws.Simulator(model, dt=0.005, dtype="float64", solver=solver, hydroelastic=level)
    state = sim.state([0, 0, 0.042, 0.999, 0.04, 0.01, 0.0])
    for _ in range(400):
        sim.step(state, out=state)
    x, y = 0.1, 0.14
    depth = 9.81 / (2e5 / 0.04 * x * y)  # the rim left out
    q, v = state.q.numpy()[0], state.v.numpy()[0]
    assert abs(q[2] - (0.04 - depth)) < 1e-5
    assert np.abs(v).max() < 1e-3
    assert np.abs(q[4:6]).max() < 1e-4
    assert not sim.diagnostics.flags.numpy()[0]


@pytest.mark.parametrize("level", ["polygons", "patch16", "patch5", "patch4"])
@pytest.mark.parametrize("other", ["ground", "block"])
def test_force_is_continuous_from_face_to_edge_to_corner(other, level):
    """A soft box turned over its edge onto a corner, at a fixed height: the force of the points is that of the polygons, and neither jumps
    where polygons come and go (in 2,000 poses, by no more than the slope of the sweep allows)."""
    ground = ["half_space", None, None, None] if other == "ground" else ["box", (0.3, 0.3, 0.1), 4e5, None]
    model = soft_box(ground=ground)
    n = 2000
    turn, roll = np.linspace(-0.2, 1.0, n), np.linspace(0.0, 0.8, n)
    q = np.zeros((n, model.nq))
    q[:, 2] = 0.06
    for k in range(n):
        q[k, 3:7] = scenes.quaternion(turn[k], roll[k], 0.3)
    if other == "block":
        q[:, 7:] = [0, 0, -0.05, 1, 0, 0, 0]
    found, sim = polygons_at(model, q, level)
    contacts, k = sim.last_contacts, sim._step.collision.contacts.compliance.numpy()[..., 0]
    count = contacts.count
    used = np.arange(contacts.phi.shape[1]) < count[:, None]
    size = np.where(used, -contacts.phi / np.where(used, k[:, : used.shape[1]], 1.0), 0.0)
    force = np.einsum("wc,wci->wi", size, contacts.frame[..., 2])
    want = np.array([np.zeros(3) if o is None else o["force"].sum(0) for o in found])
    np.testing.assert_allclose(force, want, atol=1e-6 * np.abs(want).max())
    steps = np.linalg.norm(np.diff(want, axis=0), axis=1)
    assert steps.max() < 0.01 * np.abs(want).max()
    assert (count > 0).mean() > 0.5


@pytest.mark.parametrize("level", ["polygons", "patch16"])
@pytest.mark.parametrize("resolution", [0.03, None])
def test_a_modulus_that_is_no_number_is_flagged(resolution, level):
    """Written on the device it stops its own world, and no other; without a flag the ball would fall through."""
    model = scenes.drop(("sphere", 0.05), 1e5, resolution, 0.5, ("half_space", None, None), 0.3, 0.02)
    sim = ws.Simulator(model, 3, dt=0.005, hydroelastic=level)
    modulus = sim.parameters["geom_hydroelastic_modulus"]
    values = modulus.numpy()
    values[1, model.geom("body")] = np.nan
    wp.copy(modulus, wp.array(values, dtype=wp.float32))
    sim.step(sim.state([0, 0, 0.045, 1, 0, 0, 0]))
    assert [bool(f & ws.NONFINITE) for f in sim.diagnostics.flags.numpy()] == [False, True, False]
