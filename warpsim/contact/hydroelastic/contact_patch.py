"""Patches of hydroelastic contact on the host, as `Simulator.contact_patches` gives them: of a step that has been made, or of any positions."""

import typing

import numpy as np
import warp as wp

from warpsim.contact.collision import Collision
from warpsim.contact.hydroelastic.cap_patch import cap_patches
from warpsim.contact.hydroelastic.pressure_contact import Hydroelasticity, PressureContact
from warpsim.device.copies import copy, launch
from warpsim.kernels.contact.hydroelastic import find_polygons as polygon_kernels
from warpsim.kernels.contact.hydroelastic.polygon import MAX_VERTICES
from warpsim.reprs import show
from warpsim.tree.dynamics import Dynamics


class ContactPatch(typing.NamedTuple):
    """All polygons between two geoms in one world, at the start of the last step or in a state that was given; world axes.

    `geoms`: indices A, B. `force` [N] on B in the last step, friction and dissipation included, `moment` [N m] of it about `centroid` [m], that of
    the `area` [m²]; of a state that was given they are the elastic ones. `elastic_force` [N], `elastic_moment` [N m]: of the pressure alone. `stiffness` [N/m] against a motion along the normals.
    `coherence` |Σ A p n|/Σ A p, 1 where all polygons have one normal. `depth`: the largest p/E of the softer geom, the part of its half thickness that
    is pressed in. `vertices`: one array (n, 3) [m] for each polygon, counter-clockwise about the normal that points into B or into A;
    `pressure`: (n,) [Pa] beside it.
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

    def __repr__(self) -> str:
        values = {"geoms": self.geoms, "force": np.round(self.force, 4).tolist(), "area": f"{self.area:.4g}"}
        return show("ContactPatch", values | {"polygons": len(self.vertices)})


def contact_patches(step, world: int) -> list[ContactPatch]:
    """The patches of a world in the last step, in the order of pairs; none before the first."""
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
    """Patches at positions that are given, found in arrays of its own: `place(q)` for all worlds, then `patches(world)`.

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
        self.pressure.detect(0.0, self._rest, self.placement)

    def patches(self, world: int) -> list[ContactPatch]:
        """The patches of a world, in the order of pairs; force and moment are the elastic ones."""
        return elastic_patches(self.pressure, self.placement, world)


def elastic_patches(pressure: PressureContact, collision: Collision, world: int) -> list[ContactPatch]:
    """The patches of a world, of the polygons that were found and of spheres on planes, in the order of pairs."""
    found = polygon_patches(pressure, collision, world)
    if pressure.caps.any():
        caps = cap_patches(pressure, collision.geom_X.numpy()[world], world)
        found += [ContactPatch(force=x["elastic_force"], moment=x["elastic_moment"], **x) for x in caps.values()]
        order = {tuple(int(g) for g in pair): k for k, pair in enumerate(collision.model.pair_geom)}
        found.sort(key=lambda patch: order[patch.geoms])
    return found


def polygon_patches(pressure: PressureContact, collision: Collision, world: int) -> list[ContactPatch]:
    """The patches of the polygons that were found in a world."""
    total = int(pressure.polygons.count.numpy()[world])
    if total == 0:
        return []
    outlines = outlines_of(pressure, collision, world, total)
    there = outlines["values"][:, 0] > 0  # not altogether in the layer of a margin
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
    """The polygons of a world as arrays, one row each."""
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
