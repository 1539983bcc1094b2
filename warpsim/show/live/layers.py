# SPDX-License-Identifier: Apache-2.0
"""Optional layers of the selected world: contacts, forces, frames, centers of mass, inertias, joint axes, patches."""

import numpy as np

from warpsim.files.patch_frames import above_floors, triangles_of
from warpsim.files.scene import bounding_radii
from warpsim.model.geometry import rotate
from warpsim.model.model import JointType
from warpsim.show.bands import band_colors, bands
from warpsim.show.live.shown import MOVING

LAYERS = (
    "contact points",
    "contact forces",
    "body frames",
    "centres of mass",
    "inertia boxes",
    "joint axes",
    "patches",
)
OF_A_STEP = ("contact points", "contact forces", "patches")
FORCE_LENGTH = 1.0  # times the model's size, for a force equal to its weight
CONTACT_COLOR, FORCE_COLOR, AXIS_COLOR = (235, 60, 60), (250, 190, 40), (90, 60, 220)
COM_COLOR, INERTIA_COLOR = (30, 30, 30), (60, 160, 90)
CORNERS = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], float)
EDGES = np.array([(a, b) for a in range(8) for b in range(a + 1, 8) if np.abs(CORNERS[a] - CORNERS[b]).sum() == 2])


class Layers:
    """The handles of the layers, created on first use; `refresh` moves them to a state."""

    def __init__(self, server, model, sim=None):
        self.server, self.model, self.sim = server, model, sim
        radii = bounding_radii(model)[model.geom_visible] if model.ngeom else np.zeros(0)
        self.size = float(np.clip(2.0 * radii.max(initial=0.05), 0.02, 2.0))
        weight = float(model.body_mass.sum() * np.linalg.norm(model.gravity))
        self.meters_per_newton = FORCE_LENGTH * self.size / max(weight, 1e-9)
        self._handles: dict[str, object] = {}
        self._boxes = [_inertia_box(model, b) for b in range(model.nbody)]

    @property
    def names(self) -> tuple[str, ...]:
        """The layers that this model can have."""
        possible = {
            "contact points": self.sim is not None,
            "contact forces": self.sim is not None,
            "joint axes": self.model.njoint > 0,
            "patches": self.sim is not None and self.model.point_pairs < len(self.model.pair_geom),
        }
        return tuple(name for name in LAYERS if possible.get(name, self.model.nbody > 0))

    def refresh(self, shown: set, world: int, poses: np.ndarray, origin: np.ndarray) -> None:
        """Show these layers of a world, and hide the others.

        `poses (nbody, 7)` are those of its bodies, whose origin is at `origin`.
        """
        for name in set(self._handles) - set(shown):
            self._handles.pop(name).remove()
        contacts = self.sim.last_contacts if {"contact points", "contact forces"} & shown else None
        placed = poses.copy()
        placed[:, :3] += origin
        if "contact points" in shown:
            self._points("contact points", contacts.point[world, : contacts.count[world]] + origin, CONTACT_COLOR)
        if "contact forces" in shown:
            self._forces(contacts, world, origin)
        if "body frames" in shown:
            self._frames(placed)
        if "centres of mass" in shown:
            self._points("centres of mass", placed[:, :3] + rotate(placed[:, 3:], self.model.body_com), COM_COLOR)
        if "inertia boxes" in shown:
            self._inertias(placed)
        if "joint axes" in shown:
            self._axes(placed)
        if "patches" in shown:
            self._patches(world, origin)

    def _drawn(self, name: str, count: int):
        """The page's handle of this name, visible only while there is something to draw; None before that."""
        handle = self._handles.get(name)
        if handle is not None and handle.visible != bool(count):
            handle.visible = bool(count)
        return handle

    def _points(self, name: str, points: np.ndarray, color) -> None:
        points = points.astype(np.float32)
        handle = self._drawn(name, len(points))
        if not len(points):
            return
        if handle is None:
            self._handles[name] = self.server.scene.add_point_cloud(
                _path(name), points, color, point_size=0.04 * self.size, point_shape="circle", precision="float32"
            )
            return
        with self.server.atomic():
            handle.points = points
            handle.colors = np.array(color, np.uint8)

    def _arrows(self, name: str, ends: np.ndarray, color) -> None:
        ends = ends.astype(np.float32)
        old = self._drawn(name, len(ends))
        if not len(ends):
            return
        if old is not None and old.points.shape == ends.shape:
            old.points = ends
            return
        thick = {"shaft_radius": 0.008, "head_radius": 0.02, "head_length": 0.05}
        sizes = {key: value * self.size for key, value in thick.items()}
        self._handles[name] = self.server.scene.add_arrows(_path(name), ends, color, **sizes)

    def _lines(self, name: str, ends: np.ndarray, color) -> None:
        handle, ends = self._drawn(name, len(ends)), ends.astype(np.float32)
        if not len(ends):
            return
        if handle is None:
            options = {"thickness": 2.0, "thickness_units": "screen"}
            self._handles[name] = self.server.scene.add_line_segments(_path(name), ends, color, **options)
        else:
            handle.points = ends

    def _forces(self, contacts, world: int, origin) -> None:
        n = int(contacts.count[world])
        points = contacts.point[world, :n] + origin
        forces = np.einsum("cij,cj->ci", contacts.frame[world, :n], contacts.impulse[world, :n]) / self.sim.dt
        strong = np.linalg.norm(forces, axis=1) * self.meters_per_newton > 1e-3 * self.size
        tips = points + self.meters_per_newton * forces
        self._arrows("contact forces", np.stack([points, tips], axis=1)[strong], FORCE_COLOR)

    def _frames(self, placed: np.ndarray) -> None:
        handle = self._handles.get("body frames")
        if handle is None:
            self._handles["body frames"] = self.server.scene.add_batched_axes(
                _path("body frames"),
                batched_wxyzs=placed[:, 3:].astype(np.float32),
                batched_positions=placed[:, :3].astype(np.float32),
                axes_length=0.3 * self.size,
                axes_radius=0.01 * self.size,
            )
            return
        handle.batched_positions, handle.batched_wxyzs = (
            placed[:, :3].astype(np.float32),
            placed[:, 3:].astype(np.float32),
        )

    def _inertias(self, placed: np.ndarray) -> None:
        lines = [
            _placed(pose, corners)[EDGES] for pose, corners in zip(placed, self._boxes, strict=True) if len(corners)
        ]
        self._lines("inertia boxes", np.concatenate(lines) if lines else np.zeros((0, 2, 3)), INERTIA_COLOR)

    def _axes(self, placed: np.ndarray) -> None:
        model, ends = self.model, []
        for j in np.flatnonzero(np.isin(model.joint_type, (JointType.HINGE, JointType.SLIDE))):
            body = placed[model.joint_body[j]]
            at = body[:3] + rotate(body[3:], model.joint_anchor[j])
            ends.append([at, at + 0.3 * self.size * rotate(body[3:], model.joint_axis[j])])
        self._arrows("joint axes", np.array(ends, float).reshape(-1, 2, 3), AXIS_COLOR)

    def _patches(self, world: int, origin) -> None:
        corners, pressure = triangles_of(above_floors(self.model, self.sim.contact_patches(world)))
        parts = bands(corners + origin, pressure, max(float(pressure.max(initial=0.0)), 1e-12))
        vertices = np.concatenate([part.reshape(-1, 3) for part in parts])
        old = self._handles.pop("patches", None)
        if not len(vertices):
            if old is not None:
                old.remove()
            return
        import trimesh

        colors = np.concatenate(
            [
                np.tile(np.round(255 * c).astype(np.uint8), (part.size // 3, 1))
                for c, part in zip(band_colors(), parts, strict=True)
            ]
        )
        mesh = trimesh.Trimesh(vertices, np.arange(len(vertices)).reshape(-1, 3), vertex_colors=colors, process=False)
        self._handles["patches"] = self.server.scene.add_mesh_trimesh(_path("patches"), mesh)


def _path(name: str) -> str:
    return f"{MOVING}/layers/{name.replace(' ', '_')}"


def _placed(pose: np.ndarray, points: np.ndarray) -> np.ndarray:
    return pose[:3] + rotate(pose[3:], points)


def _inertia_box(model, body: int) -> np.ndarray:
    """Corners `(8, 3)` in body axes of the uniform box of this mass and inertia; none for a body without them."""
    mass, inertia = float(model.body_mass[body]), model.body_inertia[body]
    if mass <= 0 or not inertia.any():
        return np.zeros((0, 3))
    moments, axes = np.linalg.eigh(inertia)
    half = np.sqrt(np.maximum(1.5 / mass * (moments.sum() - 2 * moments), 0.0))
    return model.body_com[body] + CORNERS * half @ axes.T
