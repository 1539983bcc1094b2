# SPDX-License-Identifier: Apache-2.0
"""Hydroelastic contact patches on the host, for `Simulator.contact_patches`: of the last step, or at given
positions."""

import typing

import numpy as np
import warp as wp

from warpsim.base.reprs import fields_described, show
from warpsim.contact.collision import Collision
from warpsim.contact.hydroelastic.cap_patch import cap_patches
from warpsim.contact.hydroelastic.pressure_contact import Hydroelasticity, PressureContact
from warpsim.device.copies import copy, launch
from warpsim.kernels.contact.hydroelastic import find_polygons as polygon_kernels
from warpsim.kernels.contact.hydroelastic.polygon import MAX_VERTICES
from warpsim.tree.dynamics import Dynamics


@fields_described
class ContactPatch(typing.NamedTuple):
    """A hydroelastic contact patch: all polygons between two geoms in one world, in world axes.

    `sim.contact_patches` returns them, of the last step at its beginning, or of a given state.

    Attributes
    ----------
    geoms : tuple of int
        Indices of geoms A and B.
    force : array (3,)
        Force on B in the last step, with friction and dissipation [N]; at a given state the elastic force.
    moment : array (3,)
        Moment of `force` about `centroid` [N m]; at a given state the elastic moment.
    area : float
        Area of all polygons [m²].
    centroid : array (3,)
        Centroid of that area [m].
    stiffness : float
        Stiffness against a motion along the normals [N/m].
    coherence : float
        |Σ A p n|/Σ A p over the polygons, with area A, pressure p and normal n; 1 if all have the same normal.
    depth : float
        Largest p/E, with pressure p and modulus E of the softer geom: the share of its half thickness that is
        compressed.
    elastic_force : array (3,)
        Force of the pressure alone on B [N].
    elastic_moment : array (3,)
        Moment of the pressure alone about `centroid` [N m].
    vertices : list of array (n, 3)
        Corners of each polygon [m], counter-clockwise about its normal, which points into B or into A.
    pressure : list of array (n,)
        Pressure at these corners [Pa].
    """

    geoms: tuple[int, int]
    force: np.ndarray
    moment: np.ndarray
    area: float
    centroid: np.ndarray
    stiffness: float
    coherence: float
    depth: float
    elastic_force: np.ndarray
    elastic_moment: np.ndarray
    vertices: list[np.ndarray]
    pressure: list[np.ndarray]

    @property
    def torsion(self) -> float:
        """Torsion capacity ∫ p |y − y_p| dA about the center of pressure y_p [N m].

        It is the moment about the patch's normal that friction of coefficient 1 can hold. p is the pressure at the
        point y of the patch. The integral is exact. A patch with several normals is projected along its force; each
        pressure then counts with its component along that force.
        """
        return torsion_capacity(self.vertices, self.pressure, self.elastic_force)

    def __repr__(self) -> str:
        values = {"geoms": self.geoms, "force": np.round(self.force, 4).tolist(), "area": f"{self.area:.4g}"}
        return show("ContactPatch", values | {"polygons": len(self.vertices)})


def torsion_capacity(polygons, pressures, direction) -> float:
    """∫ p |y − y_p| dA of polygons (n, 3) with linear pressures (n,) at their corners, projected along `direction`. y_p
    is their center of pressure.

    A polygon is the sum of the triangles between y_p and its edges. Let d be the distance of y_p from an edge, and d
    tan φ the coordinate along the edge from the foot of y_p. With p = p0 + g·y, a triangle has

        ∫ p |y| dA = ∫ (p0 d³ sec³φ/3 + d⁴ (g_d sec³φ + g_e tan φ sec³φ)/4) dφ,

    where g_d is the component of g toward the edge and g_e the one along it.
    """
    size = np.linalg.norm(direction)
    if not size > 0:
        return 0.0
    n = direction / size
    t = np.cross(n, np.eye(3)[np.argmin(np.abs(n))])
    axes = np.stack([t / np.linalg.norm(t), np.cross(n, t / np.linalg.norm(t))], axis=1)
    pieces = []
    for x, p in zip(polygons, pressures, strict=True):
        y = x @ axes
        arms, rises = y[1:] - y[0], p[1:] - p[0]
        crossed = arms[:-1, 0] * arms[1:, 1] - arms[:-1, 1] * arms[1:, 0]
        k = int(np.argmax(np.abs(crossed)))
        if crossed[k] == 0:  # the polygon is seen edge-on
            continue
        slope = np.linalg.solve(arms[k : k + 2], rises[k : k + 2])
        area = crossed / 2
        mean = (p[0] + p[1:-1] + p[2:]) / 3
        corners = np.stack([np.broadcast_to(y[0], y[1:-1].shape), y[1:-1], y[2:]])
        values = np.stack([np.broadcast_to(p[0], p[1:-1].shape), p[1:-1], p[2:]])
        # ∫ y p over a triangle
        first = area[:, None] / 12 * (9 * corners.mean(0) * mean[:, None] + (values[..., None] * corners).sum(0))
        pieces.append((y, p[0] - slope @ y[0], slope, (area * mean).sum(), first.sum(0)))
    force = sum(f for *_, f, _ in pieces)
    centre = sum(m for *_, m in pieces) / force
    total = sum(_about_centre(y - centre, p + slope @ centre, slope) for y, p, slope, _, _ in pieces)
    return abs(float(total))


def _about_centre(y: np.ndarray, p: float, slope: np.ndarray) -> float:
    """∫ (p + slope·y) |y| dA of a polygon (n, 2); positive if it is counter-clockwise."""
    edge = np.roll(y, -1, axis=0) - y
    length = np.linalg.norm(edge, axis=1)
    along = edge[length > 0] / length[length > 0, None]
    y, after = y[length > 0], np.roll(y, -1, axis=0)[length > 0]
    out = np.stack([along[:, 1], -along[:, 0]], axis=1)
    d = (y * out).sum(1)
    far = np.abs(d) > 0
    y, after, along, out, d = y[far], after[far], along[far], out[far], d[far]

    def parts(x):
        """The antiderivatives of sec³ φ and tan φ sec³ φ at the angle φ of each point x."""
        tan = (x * along).sum(1) / np.abs(d)
        sec = np.sqrt(1 + tan**2)
        return 0.5 * (tan * sec + np.arcsinh(tan)), sec**3 / 3

    (a, b), (a_after, b_after) = parts(y), parts(after)
    cubes, rises = a_after - a, b_after - b
    sign, d = np.sign(d), np.abs(d)
    to_edge = sign * (out @ slope)
    return float((sign * (d**3 * p * cubes / 3 + d**4 * (to_edge * cubes + (along @ slope) * rises) / 4)).sum())


def contact_patches(step, world: int) -> list[ContactPatch]:
    """The patches of a world in the last step, ordered by pair; empty before the first step."""
    pressure, collision = step.collision.pressure, step.collision
    if pressure is None or not collision.geom_X.numpy()[world].any():  # no step has been made
        return []
    patches = elastic_patches(pressure, collision, world)
    if not patches:
        return []
    contacts = collision.contacts
    count = int(contacts.count.numpy()[world])
    frame, gamma = contacts.frame.numpy()[world, :count], step.solver.solution.gamma.numpy()[world, :count]
    geoms = collision.model.pair_geom[contacts.pair.numpy()[world, :count]]
    point = contacts.point.numpy()[world, :count].astype(float)
    force = np.einsum("cij,cj->ci", frame, gamma).astype(float) / step.last_h
    found = []
    for patch in patches:
        mine = (geoms == patch.geoms).all(axis=1)
        moment = np.cross(point[mine] - patch.centroid, force[mine]).sum(0)
        found.append(patch._replace(force=force[mine].sum(0), moment=moment))
    return found


class PatchFinder:
    """Finds patches at given positions, in its own arrays: `place(q)` for all worlds, then `patches(world)`.

    `placement`: a `Collision` without contacts that places the geoms of `dynamics`.
    """

    def __init__(self, dynamics: Dynamics, placement: Collision, max_polygons: int | None):
        self.dynamics, self.placement = dynamics, placement
        device_model = dynamics.device_model
        choices = Hydroelasticity("polygons", max_polygons)
        self.pressure = PressureContact(device_model, dynamics, placement.scene, choices)
        self._rest = dynamics.array(device_model.model.nlink, device_model.types.vec6)

    def place(self, q: wp.array) -> None:
        """Find the polygons at positions q."""
        self.dynamics.kinematics(q, self.dynamics.link_X)
        self.placement.place_geoms(self._rest, self._rest)
        self.pressure.add_contacts(0.0, self._rest, self.placement)

    def patches(self, world: int) -> list[ContactPatch]:
        """The patches of a world, ordered by pair. Force and moment are the elastic ones."""
        return elastic_patches(self.pressure, self.placement, world)


def elastic_patches(pressure: PressureContact, collision: Collision, world: int) -> list[ContactPatch]:
    """The patches of a world with elastic forces, ordered by pair: of polygons, and of spheres on planes."""
    found = polygon_patches(pressure, collision, world)
    if pressure.caps.any():
        caps = cap_patches(pressure, collision.geom_X.numpy()[world], world)
        found += [ContactPatch(force=x["elastic_force"], moment=x["elastic_moment"], **x) for x in caps.values()]
        order = {tuple(int(g) for g in pair): k for k, pair in enumerate(collision.model.pair_geom)}
        found.sort(key=lambda patch: order[patch.geoms])
    return found


def polygon_patches(pressure: PressureContact, collision: Collision, world: int) -> list[ContactPatch]:
    """The patches that are made of polygons, in one world."""
    total = int(pressure.polygons.count.numpy()[world])
    if total == 0:
        return []
    outlines = outlines_of(pressure, collision, world, total)
    there = outlines["values"][:, 0] > 0  # omit polygons that lie wholly in the layer of a margin
    outlines = {name: x[there] for name, x in outlines.items()}
    found = []
    for pair in np.unique(outlines["pair"]):
        own = outlines["pair"] == pair
        area, k, depth, _ = outlines["values"][own].T
        centroid = (area[:, None] * outlines["centroid"][own]).sum(0) / area.sum()
        forces, arms = outlines["force"][own], outlines["centroid"][own] - centroid
        count, vertex, p = outlines["count"][own], outlines["vertex"][own], outlines["pressure"][own]
        force, moment = forces.sum(0), (np.cross(arms, forces) + outlines["moment"][own]).sum(0)
        size = np.linalg.norm(forces, axis=1).sum()
        found.append(
            ContactPatch(
                tuple(int(g) for g in collision.model.pair_geom[pair]),
                force,
                moment,
                float(area.sum()),
                centroid,
                float(k.sum()),
                float(np.linalg.norm(force) / size) if size > 0 else 1.0,
                float(depth.max()),
                force,
                moment,
                [x[:n] for x, n in zip(vertex, count, strict=True)],
                [x[:n] for x, n in zip(p, count, strict=True)],
            )
        )
    return found


def outlines_of(pressure, collision, world: int, total: int) -> dict[str, np.ndarray]:
    """The polygons of a world as arrays, one row per polygon."""
    d = pressure.device_model
    t, corners = d.types, int(MAX_VERTICES)
    outlines = copy(polygon_kernels.Outlines, t.real)()
    kinds = {
        "count": wp.int32,
        "pair": wp.int32,
        "vertex": t.vec3,
        "pressure": t.real,
        "normal": t.vec3,
        "centroid": t.vec3,
    }
    kinds |= {"force": t.vec3, "moment": t.vec3, "values": t.vec4}
    for name, kind in kinds.items():
        shape = (total, corners) if name in ("vertex", "pressure") else total
        setattr(outlines, name, wp.zeros(shape, dtype=kind, device=d.device))
    inputs = [pressure.scene, pressure.fields, pressure.sizes(), collision.geom_X, pressure.polygons, world, outlines]
    launch(polygon_kernels.outline, t.real, total, inputs, device=d.device, record_tape=False)
    found = {name: getattr(outlines, name).numpy() for name in kinds}
    return {name: x.astype(float) if x.dtype.kind == "f" else x for name, x in found.items()}
