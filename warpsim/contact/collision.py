# SPDX-License-Identifier: Apache-2.0
"""Host side of contact: the pair and support tables of a model, the per-world contact slots, and their launches."""

import warnings
from typing import Any

import numpy as np
import warp as wp

from warpsim.base.other_names import NamesOfContactList
from warpsim.contact.broadphase import LARGEST_LIST, BroadPhase
from warpsim.contact.hydroelastic.pressure_contact import PressureContact
from warpsim.contact.spin_contact import Spin
from warpsim.contact.surfaces import Surfaces, has_surfaces
from warpsim.device.copies import copy, upload
from warpsim.kernels.contact import broadphase as broadphase_kernels
from warpsim.kernels.contact import contacts as contact
from warpsim.kernels.contact import convex_contacts, pair_laws, stribeck
from warpsim.kernels.contact.narrow import shape
from warpsim.model.friction_rules import has_dynamic_friction
from warpsim.model.hull import convex_table
from warpsim.model.model import FrictionRule, GeomType, Model
from warpsim.model.overlap import start_of
from warpsim.model.parameters import MARGINS
from warpsim.tree.dynamics import DeviceModel, Dynamics

SIMPLE = (GeomType.PLANE, GeomType.SPHERE, GeomType.CAPSULE, GeomType.BOX)  # others: kernels/contact/convex_contacts.py
SLOTS_PER_ROBOT = 64
LEAST_SLOTS = 32  # for a robot whose geoms have fewer contact points in total
HULL_WARNING = 0.02  # share of a mesh's size
SLOTS_PER_FURTHER_TREE = 16
CHUNK = 4096  # pairs handled at a time

# Largest number of contact points per pair of types; 1 for types that are not listed.
PAIR_POINTS = {
    (GeomType.PLANE, GeomType.CAPSULE): 2,
    (GeomType.PLANE, GeomType.BOX): 8,
    (GeomType.CAPSULE, GeomType.CAPSULE): 2,
    (GeomType.CAPSULE, GeomType.BOX): 2,
    (GeomType.BOX, GeomType.BOX): 8,
    (GeomType.PLANE, GeomType.CYLINDER): 6,
    (GeomType.PLANE, GeomType.MESH): 8,
    (GeomType.CAPSULE, GeomType.CYLINDER): 2,
    (GeomType.CAPSULE, GeomType.MESH): 2,
    (GeomType.CYLINDER, GeomType.CYLINDER): 8,
    (GeomType.CYLINDER, GeomType.BOX): 8,
    (GeomType.CYLINDER, GeomType.MESH): 8,
    (GeomType.BOX, GeomType.MESH): 8,
    (GeomType.MESH, GeomType.MESH): 8,
} | {(GeomType.HFIELD, kind): 8 for kind in GeomType if kind > GeomType.HFIELD}


def geom_links(model: Model) -> np.ndarray:
    """The link of every geom; -1 for geoms of the world."""
    return np.array([-1 if b < 0 else model.body_link[b] for b in model.geom_body], dtype=np.int32)


def link_chains(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """The degrees of freedom that move each link, ascending, and their count; the last row is the world's."""
    chains = [model.ancestors(link) for link in range(model.nlink)] + [[]]
    padded = np.zeros((len(chains), max(len(chain) for chain in chains)), dtype=np.int32)
    for row, chain in zip(padded, chains, strict=True):
        row[: len(chain)] = chain
    return padded, np.array([len(chain) for chain in chains], dtype=np.int32)


def widest_support(model: Model) -> int:
    """The largest number of degrees of freedom that move one geom of a pair but not both, over all pairs that may
    touch."""
    pairs = geom_links(model)[model.pair_geom]
    chains, length = link_chains(model)
    tree = np.append(model.link_tree, -1)[pairs]
    one_tree = tree[:, 0] == tree[:, 1]
    a, b = pairs[~one_tree].T
    width = int((length[a] + length[b]).max(initial=0))
    alike = np.unique(pairs[one_tree], axis=0)
    for first in range(0, len(alike), CHUNK):  # chains of one tree share their beginning
        a, b = alike[first : first + CHUNK].T
        used = np.arange(chains.shape[1]) < np.minimum(length[a], length[b])[:, None]
        shared = np.logical_and.accumulate((chains[a] == chains[b]) & used, axis=1).sum(axis=1)
        width = max(width, int((length[a] + length[b] - 2 * shared).max()))
    return width


def pair_supports(model: Model, links) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Per pair of links (-1: the world): the degrees of freedom that move one link but not both (ascending), their
    signs (+1 moves the second), and their count."""
    padded, length = link_chains(model)
    chains = [row[:n].tolist() for row, n in zip(padded, length, strict=True)]
    tree, depth = np.append(model.link_tree, -1), padded.shape[1]
    a, b = np.asarray(links, dtype=int).reshape(-1, 2).T
    swap = tree[a] > tree[b]
    first, second = np.where(swap, b, a), np.where(swap, a, b)
    table = np.zeros((len(a), 2 * depth), dtype=np.int32)
    signs = np.zeros((len(a), 2 * depth))
    size = length[first] + length[second]
    for n in np.unique(length[first]):  # two trees: the chains are concatenated
        rows = np.flatnonzero(length[first] == n)
        table[rows, :n] = padded[first[rows], :n]
        signs[rows, :n] = np.where(swap[rows], 1.0, -1.0)[:, None]
        table[rows, n : n + depth] = padded[second[rows]]
        signs[rows, n : n + depth] = np.where(swap[rows], -1.0, 1.0)[:, None]
    cache: dict[tuple[int, int], tuple[list[int], list[float]]] = {}
    for row in np.flatnonzero(tree[a] == tree[b]):  # one tree: the dofs that the chains do not share
        key = (int(a[row]), int(b[row]))
        if key not in cache:
            mine, other = set(chains[key[0]]), set(chains[key[1]])
            dofs = sorted(mine ^ other)
            cache[key] = (dofs, [1.0 if d in other else -1.0 for d in dofs])
        dofs, sign = cache[key]
        size[row] = len(dofs)
        table[row, : len(dofs)], signs[row, : len(dofs)] = dofs, sign
    width = int(size.max(initial=0))
    used = np.arange(width) < size[:, None]
    return np.where(used, table[:, :width], 0), np.where(used, signs[:, :width], 0.0), size.astype(np.int32)


def default_capacity(model: Model, hulls: dict[int, np.ndarray]) -> int:
    """Default number of contact slots per world.

    It is the number of contact points that all pairs can have, at most 64 for one tree plus 16 per further tree. A
    model of one tree gets fewer slots, but at least 32, if its geoms have fewer points when each touches one other
    geom. It gets more if the pairs that touch at q0 can have more points.
    """
    points = _points(model, np.arange(model.point_pairs))
    moving = max(1, int(np.sum(np.diff(model.tree_v) > 0)))
    usual = SLOTS_PER_ROBOT + SLOTS_PER_FURTHER_TREE * (moving - 1)
    if moving == 1:
        usual = min(usual, max(LEAST_SLOTS, _points_of_geoms(model)))
    if points <= usual:
        return points
    start = start_of(model, hulls)
    if _points(model, start.near) <= usual:
        return usual
    return max(usual, _points(model, start.touching()))


def _points_of_geoms(model: Model) -> int:
    """Contact points if each moving geom touches one other geom, the one with the most points."""
    pairs, most = model.pair_geom[: model.point_pairs], np.zeros(model.ngeom, dtype=int)
    table = np.array([[PAIR_POINTS.get((a, b), 1) for b in GeomType] for a in GeomType])
    first, second = model.geom_type[pairs].T
    np.maximum.at(most, pairs, table[first, second][:, None])
    moves = [link >= 0 and bool(model.ancestors(int(link))) for link in geom_links(model)]
    return int(most[np.array(moves, dtype=bool)].sum())


def _points(model: Model, pairs) -> int:
    """Largest total number of contact points of these pairs."""
    kinds, counts = np.unique(model.geom_type[model.pair_geom[pairs]].reshape(-1, 2), axis=0, return_counts=True)
    return int(np.dot([PAIR_POINTS.get((GeomType(a), GeomType(b)), 1) for a, b in kinds], counts))


def kinds_of_pairs(model: Model) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The kind of each pair of geoms (npair,), and the friction rule and the margin [m] of each kind."""
    margins, margin = np.unique(model.pair_margin, return_inverse=True)
    rules, rule = np.unique(model.pair_rule, return_inverse=True)
    kinds, kind = np.unique(margin * max(len(rules), 1) + rule, return_inverse=True)
    return kind, rules[kinds % max(len(rules), 1)], margins[kinds // max(len(rules), 1)]


def reach_of(model: Model) -> np.ndarray:
    """The largest margin of each geom's pairs [m], 0 for planes. The bounds of geoms grow by it."""
    reach = np.zeros(model.ngeom)
    np.maximum.at(reach, model.pair_geom, model.pair_margin[:, None])
    reach[model.geom_type == GeomType.PLANE] = 0.0
    return reach


def explicit_columns(model: Model) -> np.ndarray:
    """The column of each pair in the parameter `pair_margin`, -1: none; ends after the last explicit pair."""
    explicit = model.pair_rule == FrictionRule.EXPLICIT
    return np.where(explicit, np.cumsum(explicit) - 1, -1)[: np.flatnonzero(explicit).max(initial=-1) + 1]


def _warn_of_simplified_hulls(model: Model, deviation: np.ndarray) -> None:
    """Warn once if hulls that may touch deviate from their meshes by more than `HULL_WARNING` of the mesh's size."""
    touching = np.unique(model.geom_mesh[model.pair_geom])
    coarse = []
    for k in touching[touching >= 0]:
        size = np.ptp(model.meshes[k].vertices, axis=0).max()
        if deviation[k] > HULL_WARNING * size:
            mesh = model.meshes[k]
            coarse.append((deviation[k] / size, mesh.name, deviation[k], mesh.max_hull_vertices))
    if coarse:
        share, name, worst, limit = max(coarse)
        warnings.warn(
            f"model {model.name!r}: the hulls of {len(coarse)} meshes are cut to {limit} vertices; worst {name!r}, "
            f"up to {worst:.2g} m ({share:.1%} of its size) inside the mesh's own hull; max_hull_vertices= of "
            f"ws.load allows more",
            stacklevel=7,
        )


class Collision:
    """Contact slots of all worlds, and the launches that fill them. See `kernels/contact/contacts.py`."""

    def __init__(
        self,
        device_model: DeviceModel,
        dynamics: Dynamics,
        max_contacts: int | None,
        enabled: bool = True,
        placement: bool = False,
        most: int | None = None,
    ):
        model = device_model.model
        self.device_model, self.dynamics, self.model = device_model, dynamics, model
        self.enabled = enabled and len(model.pair_geom) > 0
        self.slides = self.enabled and has_dynamic_friction(model)
        self.capacity = 0
        self.margins: tuple[wp.array, wp.array] | None = None  # what `grow_bounds` reads, where margins are parameters
        self._tables = self._scene(np.arange(model.ngeom) if placement else np.unique(model.pair_geom))
        self.hulls: dict[int, np.ndarray] = {}  # vertices of the meshes' hulls on the host
        self.convex_scene = self._convex_scene() if self.enabled else None
        if self.enabled:
            self.capacity = default_capacity(model, self.hulls) if max_contacts is None else max_contacts
        if self.enabled and most is not None:
            self.capacity = min(_points(model, np.arange(model.point_pairs)), most)
        points = model.geom_type[model.pair_geom[: model.point_pairs]].reshape(-1, 2)
        self.may_pass = self.enabled and bool((points != GeomType.PLANE).all(1).any())  # no geom passes a plane
        self.pressure = None  # contact by pressure fields
        if self.enabled and model.point_pairs < len(model.pair_geom):
            self.pressure = PressureContact(device_model, dynamics, self.scene, device_model.hydroelastic)
            self.capacity += self.pressure.capacity
        t = device_model.types
        large = self.enabled and len(model.pair_geom) > LARGEST_LIST
        self.broadphase = BroadPhase(device_model, self.scene) if large else None
        self.spin = None  # torsional and rolling friction
        self.slots = self.capacity  # slots of the solver: spin rows need as many again
        if self.enabled and model.has_spin:
            self.spin, self.slots = Spin(self), 2 * self.capacity
        self.surfaces = Surfaces(self) if self.enabled and has_surfaces(model) else None
        self.no_rate = dynamics.array(0, device_model.types.vec3)
        self._chains = self._supports()
        self.max_support = self.scene.support.shape[1]
        self.contacts = self._contacts()
        self.solver_options = {} if self.spin is None else {"spin": True}
        # row in the tables of supports per slot
        self.rows_of_slots = self.contacts.row if self.spin is None else self.spin.row
        # Arrays that `detect` and `jacobian` write and that are dead after them.
        self.detects_with = () if self.pressure else ("geom_X", "geom_capsule", "geom_speed")
        self.grid = self.broadphase.grid if self.broadphase else device_model.struct(broadphase_kernels.Grid)
        placed = model.ngeom if self.enabled or placement else 0
        self.geom_X, self.geom_speed = dynamics.array(placed, t.transform), dynamics.array(placed, t.real)
        self.geom_capsule = dynamics.array(placed, t.vec5)
        device_model.parameters.on_expansion(self._read_margins)

    def _read_margins(self, name: str) -> None:
        """Make what `grow_bounds` reads and writes, at the first access to a margin; captured graphs use the memory."""
        d, m = self.device_model, self.model
        if name in MARGINS and self.margins is None and self.enabled:
            reach = wp.zeros((d.worlds, m.ngeom), dtype=d.types.real, device=d.device)
            own = np.flatnonzero(m.pair_rule == FrictionRule.EXPLICIT)
            self.margins = d.array(np.flatnonzero(m.geom_type == GeomType.PLANE)), d.array(own)
            self._tables.geom_reach = self.grid.reach = reach
            kind = np.arange(len(m.pair_geom))
            d.fill(self._tables, pair_kind=kind % 256, pair_kind_high=kind // 256, kind_rule=m.pair_rule)
            d.fill(self._tables, kind_margin=np.tile(m.pair_margin, (d.worlds, 1)))

    @property
    def scene(self):
        """The scene's tables, with margins from the parameters after the first access to one of them."""
        if self.margins is not None:
            stored = self.device_model.parameters.stored
            self.device_model.fill(self._tables, **{name: stored(name) for name in MARGINS})
        return self._tables

    def follow(self, moved: wp.array, dof_S: wp.array) -> None:
        """Use the contact points that a second-order scheme has `moved (worlds, max_contacts)`, and `dof_S` at their
        place."""
        if self.spin is not None:
            self.spin.moved, self.spin.moved_S = moved, dof_S

    def _scene(self, placed):
        m = self.model
        explicit = np.flatnonzero(m.pair_rule == FrictionRule.EXPLICIT).max(initial=-1) + 1
        kind, rules, margins = kinds_of_pairs(m)
        return self.device_model.struct(
            pair_laws.Scene,
            recovery=self.device_model.recovery[0],
            point_pairs=m.point_pairs,
            geom_type=m.geom_type,
            geom_link=geom_links(m),
            placed=placed,
            pair_geom=m.pair_geom,
            pair_kind=kind % 256,
            pair_kind_high=(kind // 256)[: np.flatnonzero(kind // 256).max(initial=-1) + 1],
            kind_rule=rules,
            pair_friction=m.pair_friction[:explicit],
            kind_margin=margins[None],
            geom_reach=reach_of(m)[None],
            geom_margin=np.zeros((0, m.ngeom)),
            pair_margin=np.zeros((0, 0)),
            pair_explicit=explicit_columns(m),
        )

    def _supports(self) -> tuple[wp.array, wp.array] | None:
        """Fill the tables of supports; return the chains of the links for `list_supports`, or None.

        The table has one row per pair of geoms. If the broad phase is used and there are fewer contact slots than
        pairs, it has one row per contact slot of every world, which `list_supports` fills.
        """
        d, scene, m = self.device_model, self.scene, self.model
        S, slots = d.types.real, d.worlds * self.capacity
        if self.broadphase is None or slots >= len(m.pair_geom):
            table, signs, sizes = pair_supports(m, geom_links(m)[m.pair_geom] if self.enabled else np.zeros((0, 2)))
            d.fill(scene, support=table, support_size=sizes, support_sign=signs)
            return None
        shape = (slots, widest_support(m))
        scene.support, scene.support_size = (wp.zeros(n, dtype=wp.int32, device=d.device) for n in (shape, slots))
        scene.support_sign = wp.zeros(shape, dtype=S, device=d.device)
        chains, sizes = link_chains(m)
        return upload(chains, wp.int32, d.device, ndim=2), d.array(sizes)

    def _convex_scene(self):
        """The tables of the general narrow phase; None for a model without pairs for it."""
        m = self.model
        general = ~np.isin(m.geom_type[m.pair_geom[: m.point_pairs]].reshape(-1, 2), SIMPLE).all(1)
        if not general.any():
            return None
        arrays, field = convex_table(m), m.geom_type == GeomType.HFIELD
        _warn_of_simplified_hulls(m, arrays.pop("deviation"))
        for k, (first, count) in enumerate(arrays["mesh_range"][: len(m.meshes), :2]):
            self.hulls[k] = arrays["vertex"][first : first + count]
        index, struct = np.where(field, np.cumsum(field) - 1, m.geom_mesh), self.device_model.struct
        table = struct(shape.MeshTable, **arrays)
        return struct(convex_contacts.ConvexScene, pair=np.flatnonzero(general), geom_mesh=index, table=table)

    def _contacts(self):
        of_slots = dict.fromkeys(("pair", "feature", "phi", "point", "recovery", "frame"), self.capacity)
        of_fields, J = self.capacity if self.pressure else 0, (self.slots, 3, self.max_support)
        contacts = self.dynamics.workspace(
            pair_laws.Contacts, count=None, flags=None, **of_slots, J=J, compliance=of_fields, touch=0, bend=0, shift=0
        )
        contacts.row = contacts.pair
        if self._chains is not None:
            self.device_model.fill(contacts, row=np.arange(contacts.pair.size).reshape(contacts.pair.shape))
        return contacts

    @property
    def finds_at_once(self) -> bool:
        """Whether one launch finds all contact points and writes their Jacobians."""
        return self.convex_scene is None and self.pressure is None and self._chains is None

    def place_geoms(self, link_V: wp.array, link_V_star: wp.array) -> None:
        """World poses of the geoms, and bounds of their speeds for two sets of link velocities."""
        d = self.device_model
        inputs = [d.topology, self.scene, d.plant(), self._links(link_V, link_V_star), self._geoms()]
        self.dynamics.launch(contact.place_geoms, len(self.scene.placed), inputs)

    def _links(self, link_V: wp.array, link_V_star: wp.array):
        return self.device_model.struct(contact.Moving, X=self.dynamics.link_X, V=link_V, V_star=link_V_star)

    def _geoms(self):
        geoms = {"X": self.geom_X, "speed": self.geom_speed, "capsule": self.geom_capsule}
        return self.device_model.struct(pair_laws.Geoms, **geoms)

    def detect(self, h: float, link_V: wp.array, link_V_star: wp.array) -> None:
        """Find the contact points at the present kinematics that can act within a step of h [s], and their geometry."""
        if not self.enabled:
            return
        d, plant = self.device_model, self.device_model.plant()
        links, geoms = self._links(link_V, link_V_star), self._geoms()
        scene = self.scene
        if self.margins is not None:
            self.dynamics.launch(contact.set_margins, len(self.model.pair_geom), [scene])
            self.dynamics.launch(contact.grow_bounds, self.model.ngeom, [scene, *self.margins, scene.geom_reach])
        if self.broadphase is not None:
            self.place_geoms(link_V, link_V_star)
            self.broadphase.launch(h, plant.geom_size, geoms)
        inputs = [d.topology, self.scene, plant, h, links, self.dynamics.dof_S, self.grid, int(self.finds_at_once)]
        self.dynamics.launch(contact.detect, None, [*inputs, geoms, self.contacts])
        if self.convex_scene is not None:
            inputs = [d.topology, self.scene, self.convex_scene, plant, h, links, self.grid, geoms, self.contacts]
            self.dynamics.launch(convex_contacts.add_convex_contacts, None, inputs)
        if self.pressure is not None:
            self.pressure.add_contacts(h, link_V, self)
        if self._chains is not None:
            self.dynamics.launch(contact.list_supports, None, [self.scene, *self._chains, self.contacts])

    def jacobian(self) -> None:
        """Jacobians of the contact points, unless `detect` has written them, and the velocities of their surfaces."""
        if self.enabled and not self.finds_at_once:
            inputs = [self.device_model.topology, self.scene, self.dynamics.link_X, self.dynamics.dof_S, self.contacts]
            self.dynamics.launch(contact.jacobian, None, inputs)
        if self.surfaces:
            self.surfaces.launch(self.dynamics, self.contacts.point, self.contacts.frame, self.surfaces.rate)

    @property
    def surface_rate(self) -> wp.array:
        """Velocities `(worlds, slots)` of the surfaces at contacts; no columns where no surface moves."""
        return self.surfaces.rate if self.surfaces else self.no_rate

    def look_after(self, h: float, theta_vq: float, v0: wp.array, v: wp.array) -> None:
        """Mark pairs that a step from v0 with the solution v leaves UNRESOLVED. Detection marks candidates as
        SUSPECT."""
        if self.may_pass:
            inputs = [self.scene, self.device_model.parameters.stored("geom_size"), h, theta_vq, v0, v, self.contacts]
            self.dynamics.launch(contact.look_after, None, inputs)

    def look_along(self, h: float, v: wp.array, flags: wp.array) -> None:
        """Raise UNRESOLVED in `flags (worlds,)` where a geom at v passes another within h."""
        if self.may_pass:
            inputs = [self.scene, self.device_model.parameters.stored("geom_size"), h, v, self.contacts, flags]
            self.dynamics.launch(contact.look_along, None, inputs)

    def material(self):
        """The contact parameters in the form that kernels read."""
        names = copy(pair_laws.Material, self.device_model.types.real).vars
        stored = {name: self.device_model.parameters.stored(f"geom_{name}") for name in names}
        return self.device_model.struct(pair_laws.Material, **stored)

    def friction(self):
        """The friction parameters of the geoms in the form that kernels read."""
        p, of = self.device_model.parameters, copy(stribeck.Friction, self.device_model.types.real)()
        of.friction, of.dynamic = p.stored("geom_friction"), p.stored("geom_friction_dynamic")
        of.velocity, of.slides = p.stored("geom_friction_velocity"), int(self.slides)
        return of


class ContactList(NamesOfContactList):
    """Contact points of every world, on the host; from `sim.contacts` and `sim.last_contacts`.

    Attributes
    ----------
    count : array (worlds,)
        Number of valid rows in the other arrays. n below is the largest.
    geoms : array (worlds, n, 2)
        Indices of geoms A and B; −1 beyond `count`.
    feature : array (worlds, n, 3)
        Codes of the features that touch.
    point : array (worlds, n, 3)
        Contact points in the world frame [m].
    frame : array (worlds, n, 3, 3)
        Contact frames in world axes, with columns t1, t2 and the normal n from A into B.
    phi : array (worlds, n)
        Signed distance minus the margin of the pair [m].
    impulse : array (worlds, n, 3) or None
        Impulse on B in the contact frame [N s]; None if nothing has been solved.
    moment : array (worlds, n, 3) or None
        Moment impulse of torsional and rolling friction on B about the point, in the contact frame [N m s]; None
        without impulses.
    """

    count: np.ndarray
    geoms: np.ndarray
    feature: np.ndarray
    point: np.ndarray
    frame: np.ndarray
    phi: np.ndarray
    impulse: np.ndarray | None
    moment: np.ndarray | None

    def __init__(self, collision: Any, impulse: np.ndarray | None):
        c = collision.contacts
        self.count = c.count.numpy().copy()
        n = int(self.count.max(initial=0))
        used = np.arange(n)[None] < self.count[:, None]

        def read(array, fill):
            values = array.numpy()[:, :n].copy()
            values[~used] = fill
            return values

        pair = read(c.pair, -1)
        geoms = np.where(pair[..., None] >= 0, collision.model.pair_geom[np.maximum(pair, 0)], -1) if n else None
        self.geoms = np.zeros((len(self.count), 0, 2), dtype=np.int32) if geoms is None else geoms
        self.feature = read(c.feature, -1)
        self.point, self.frame, self.phi = read(c.point, 0.0), read(c.frame, 0.0), read(c.phi, 0.0)
        self.impulse = self.moment = None
        if impulse is not None:
            self.impulse = impulse[:, :n].copy()
            self.impulse[~used] = 0.0
            self.moment = np.zeros_like(self.impulse)
            if collision.spin is not None:
                self.moment[used] = collision.spin.moments(impulse)[:, :n][used]

    def __len__(self) -> int:
        return int(self.count.sum())

    def __repr__(self) -> str:
        solved = "without impulses" if self.impulse is None else "with impulses"
        return f"ContactList({len(self)} contacts in {len(self.count)} worlds, {solved})"
