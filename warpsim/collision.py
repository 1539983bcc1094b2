"""Host side of contact: the pair and support tables of a model, the per-world contact slots, and their launches."""

import numpy as np
import warp as wp

from warpsim.dynamics import DeviceModel, Dynamics
from warpsim.errors import ModelError
from warpsim.kernels import contact
from warpsim.model.model import GeomType, Model

SUPPORTED = (GeomType.PLANE, GeomType.SPHERE, GeomType.CAPSULE, GeomType.BOX)
SLOTS_PER_ROBOT = 64
SLOTS_PER_FURTHER_TREE = 16

# Most contact points that a pair of types can have; other pairs have one.
PAIR_POINTS = {
    (GeomType.PLANE, GeomType.CAPSULE): 2,
    (GeomType.PLANE, GeomType.BOX): 8,
    (GeomType.CAPSULE, GeomType.CAPSULE): 2,
    (GeomType.CAPSULE, GeomType.BOX): 2,
    (GeomType.BOX, GeomType.BOX): 8,
}


def supports(model: Model) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Per pair: the degrees of freedom that move one geom but not both (ascending), their signs, and their count."""
    chains = {-1: []} | {link: model.ancestors(link) for link in range(model.nlink)}
    link = np.array([-1 if b < 0 else model.body_link[b] for b in model.geom_body], dtype=int)
    cache: dict[tuple[int, int], tuple[list[int], list[float]]] = {}
    rows = []
    for a, b in model.pair_geom:
        key = (int(link[a]), int(link[b]))
        if key not in cache:
            first, second = set(chains[key[0]]), set(chains[key[1]])
            dofs = sorted(first ^ second)
            cache[key] = (dofs, [1.0 if d in second else -1.0 for d in dofs])
        rows.append(cache[key])
    width = max([len(r[0]) for r in rows], default=0)
    table = np.zeros((len(rows), width), dtype=np.int32)
    signs = np.zeros((len(rows), width))
    for i, (dofs, sign) in enumerate(rows):
        table[i, : len(dofs)] = dofs
        signs[i, : len(dofs)] = sign
    return table, signs, np.array([len(r[0]) for r in rows], dtype=np.int32)


def default_capacity(model: Model) -> int:
    """Contact slots per world: what the pairs can produce, capped at 64 for one tree and 16 more for each further one."""
    kinds = [tuple(GeomType(k) for k in model.geom_type[pair]) for pair in model.pair_geom]
    moving = max(1, int(np.sum(np.diff(model.tree_v) > 0)))
    return min(sum(PAIR_POINTS.get(k, 1) for k in kinds), SLOTS_PER_ROBOT + SLOTS_PER_FURTHER_TREE * (moving - 1))


def refuse_unsupported(model: Model) -> None:
    """Raise `ModelError` when a pair that may touch has a shape without contact kernels."""
    bad: dict[str, str] = {}
    for pair in model.pair_geom:
        for g in pair:
            kind = GeomType(model.geom_type[g])
            if kind not in SUPPORTED:
                bad[model.geom_names[g]] = kind.name.lower()
    if bad:
        listed = ", ".join(f"{name!r} ({kind})" for name, kind in list(bad.items())[:6])
        raise ModelError(
            f"model {model.name!r}: no contact yet for geoms {listed}{' and more' if len(bad) > 6 else ''}; make them "
            "plane, sphere, capsule or box, switch their contact off (contype = conaffinity = 0), or simulate with "
            "solver=ws.NoContact()"
        )


class Collision:
    """Contact slots of all worlds and the launches that fill them. See `kernels/contact.py`."""

    def __init__(
        self,
        device_model: DeviceModel,
        dynamics: Dynamics,
        max_contacts: int | None,
        enabled: bool = True,
        placement: bool = False,
    ):
        model = device_model.model
        self.device_model, self.dynamics, self.model = device_model, dynamics, model
        self.enabled = enabled and len(model.pair_geom) > 0
        if self.enabled:
            refuse_unsupported(model)
        self.capacity = 0
        if self.enabled:
            self.capacity = default_capacity(model) if max_contacts is None else max_contacts
        S = device_model.types.scalar
        self.kernels = contact.build(S)
        self.structs = contact.structs(S)
        self.scene = self._scene()
        self.contacts = self._contacts()
        t = device_model.types
        placed = model.ngeom if self.enabled or placement else 0
        self.geom_X, self.geom_speed = dynamics.array(placed, t.transform), dynamics.array(placed, t.scalar)

    def _scene(self):
        m, device, dtype = self.model, self.device_model.device, self.device_model.dtype
        table, signs, sizes = supports(m)
        link = np.array([-1 if b < 0 else m.body_link[b] for b in m.geom_body], dtype=np.int32)
        scene = self.structs.Scene()
        for key, value in (
            ("geom_type", m.geom_type),
            ("geom_link", link),
            ("pair_geom", m.pair_geom),
            ("pair_rule", m.pair_rule),
            ("support", table),
            ("support_size", sizes),
        ):
            setattr(scene, key, wp.array(np.asarray(value, np.int32), dtype=wp.int32, device=device))
        for key, value in (("pair_friction", m.pair_friction), ("support_sign", signs)):
            setattr(scene, key, wp.array(value.astype(dtype), dtype=self.device_model.types.scalar, device=device))
        self.max_support = table.shape[1]
        return scene

    def _contacts(self):
        t, array = self.device_model.types, self.dynamics.array
        contacts = self.structs.Contacts()
        contacts.count = wp.zeros(self.device_model.worlds, dtype=wp.int32, device=self.device_model.device)
        contacts.overflow = wp.zeros(self.device_model.worlds, dtype=wp.int32, device=self.device_model.device)
        contacts.pair = array(self.capacity, wp.int32)
        contacts.feature = array(self.capacity, wp.vec3i)
        contacts.phi = array(self.capacity, t.scalar)
        contacts.point = array(self.capacity, t.vec3)
        contacts.frame = array(self.capacity, t.mat33)
        contacts.J = array((self.capacity, 3, self.max_support), t.scalar)
        return contacts

    def place_geoms(self, link_V: wp.array, link_V_star: wp.array) -> None:
        """World poses of the geoms and bounds of their speeds at two sets of link velocities."""
        d, p = self.device_model, self.device_model.parameters
        inputs = [d.topology, self.scene, p.stored("geom_pose"), p.stored("geom_size"), self.dynamics.link_X]
        inputs += [link_V, link_V_star, self.geom_X, self.geom_speed]
        self.dynamics.launch(self.kernels.place_geoms, self.model.ngeom, inputs)

    def detect(self, h: float, link_V: wp.array, link_V_star: wp.array) -> None:
        """Find the contacts of the present kinematics that can act within a step of h, and their geometry."""
        if not self.enabled:
            return
        self.place_geoms(link_V, link_V_star)
        d, p = self.device_model, self.device_model.parameters
        size = p.stored("geom_size")
        motion = [self.dynamics.link_X, link_V, link_V_star]
        inputs = [d.topology, self.scene, h, size, *motion, self.geom_X, self.geom_speed, self.contacts]
        self.dynamics.launch(self.kernels.detect, None, inputs)

    def jacobian(self) -> None:
        """Jacobians of the contacts found."""
        if self.enabled:
            inputs = [self.device_model.topology, self.scene, self.dynamics.link_X, self.dynamics.dof_S, self.contacts]
            self.dynamics.launch(self.kernels.jacobian, self.capacity, inputs)

    def material(self):
        """The contact parameters as kernels read them."""
        p = self.device_model.parameters
        material = self.structs.Material()
        material.friction = p.stored("geom_friction")
        material.stiffness = p.stored("geom_stiffness")
        material.dissipation_time = p.stored("geom_dissipation_time")
        return material


class ContactList:
    """Contacts of every world on the host. `count (worlds,)` says how many rows of the others are used.

    `geoms (worlds, n, 2)` geom indices A, B; `feature (worlds, n, 3)` codes of the features that touch; `point` [m] and
    `frame` (columns t1, t2, n from A into B) in the world; `phi` signed distance [m]; `impulse` on B in the contact
    frame [N s], or None where nothing has been solved.
    """

    def __init__(self, collision: Collision, impulse: np.ndarray | None):
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
        self.impulse = None
        if impulse is not None:
            self.impulse = impulse[:, :n].copy()
            self.impulse[~used] = 0.0

    def __len__(self) -> int:
        return int(self.count.sum())
