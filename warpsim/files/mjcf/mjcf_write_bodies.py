# SPDX-License-Identifier: Apache-2.0
"""Bodies of a `ModelBuilder` as MJCF, with their inertia, joints, geoms and shapes, sites and cameras."""

import pathlib
import re
import xml.etree.ElementTree as xml

import numpy as np

from warpsim.files.mjcf.mjcf_elements import add, limits_of, pose_of, short_of, unless
from warpsim.files.mjcf.mjcf_law import law_attributes
from warpsim.files.mjcf.mjcf_write_acts import joints_ranges
from warpsim.files.mjcf.mjcf_write_looks import Looks
from warpsim.model.actuators import EffortLimit
from warpsim.model.by_content import content
from warpsim.model.geometry import compose, rotation_matrix
from warpsim.model.model import SIZES, GeomType, HField, JointType, Mesh

HIDDEN = 3  # group of geoms that are not drawn
LEAST = 1e-15  # least mass and moments of moving bodies, MuJoCo's mjMINVAL
FLAT = 1e-9  # volume relative to the bounding box, below which MuJoCo takes a mesh for a surface
FRICTION = (1.0, 0.005, 0.0001)  # MuJoCo's defaults
JOINTS = {"stiffness": "stiffness", "damping": "damping", "armature": "armature", "friction": "frictionloss"}


class Shapes:
    """The meshes and height fields of the asset section, each written once: in the text, or as files beside it."""

    def __init__(self, root: xml.Element, folder: str | None):
        self.section = add(root, "asset")
        self.folder = folder
        self.files: dict[str, bytes] = {}
        self.known: dict[bytes, str] = {}

    def mesh(self, mesh: Mesh) -> str:
        """Write a mesh once; returns its name."""
        uv = mesh.uv if self.folder is not None else None
        key = content(mesh.vertices) + content(mesh.faces) + (b"" if uv is None else content(uv))
        if key not in self.known:
            self.known[key] = mesh.name
            what = {"name": mesh.name, "inertia": "shell" if _is_flat(mesh) else None}
            vertices, faces = mesh.vertices.astype(np.float32).tolist(), np.asarray(mesh.faces)
            if self.folder is None:
                points = " ".join(f"{x:.9g} {y:.9g} {z:.9g}" for x, y, z in vertices)
                add(self.section, "mesh", **what, vertex=points, face=" ".join(map(str, faces.ravel().tolist())))
            else:
                lines = [f"v {x:.9g} {y:.9g} {z:.9g}\n" for x, y, z in vertices]
                lines += _corners(faces, uv)
                add(self.section, "mesh", **what, file=self.file(mesh.name, ".obj", "".join(lines).encode()))
        return self.known[key]

    def heights(self, field: HField) -> tuple[str, float]:
        """Write a height field; returns its name and the height [m] of its lowest point, which is 0 in MuJoCo."""
        low, high = float(field.data.min()), float(field.data.max())
        span = high - low or 1.0
        x, y, top, base = field.size
        size, data = np.array([x, y, top * span, base + top * low]), ((field.data - low) / span).astype(np.float32)
        what = {"name": field.name, "size": size}
        if self.folder is None:
            rows, columns = data.shape
            add(self.section, "hfield", **what, nrow=rows, ncol=columns, elevation=short_of(data[::-1]))
        else:
            head = np.array(data.shape, "<i4").tobytes()
            add(
                self.section,
                "hfield",
                **what,
                file=self.file(field.name, ".hfield", head + data.astype("<f4").tobytes()),
            )
        return field.name, top * low

    def file(self, name: str, suffix: str, data: bytes) -> str:
        """Keep a file under a unique name that every file system accepts."""
        plain = re.sub(r"[^A-Za-z0-9_.-]+", "_", name)[:60].strip(".") or "shape"
        taken, unique, count = {file.lower() for file in self.files}, f"{plain}{suffix}", 1
        while unique.lower() in taken:
            count += 1
            unique = f"{plain}_{count}{suffix}"
        self.files[unique] = data
        return str(pathlib.PurePosixPath(self.folder or "") / unique)


def _corners(faces, uv) -> list[str]:
    """The lines of an OBJ file for faces with texture coordinates `uv (m, 3, 2)` of their corners, or None."""
    if uv is None:
        return [f"f {i} {j} {k}\n" for i, j, k in (faces + 1).tolist()]
    places, index = np.unique(uv.reshape(-1, 2), axis=0, return_inverse=True)
    lines = [f"vt {u:.9g} {v:.9g}\n" for u, v in places.tolist()]
    both = np.stack([faces, index.reshape(faces.shape)], axis=-1) + 1
    return lines + [f"f {a}/{x} {b}/{y} {c}/{z}\n" for (a, x), (b, y), (c, z) in both.tolist()]


def _is_flat(mesh: Mesh) -> bool:
    """Whether MuJoCo would find no volume in a mesh. Its inertia, which no body uses, is then that of a shell."""
    corners = mesh.vertices[mesh.faces]
    corners = corners - mesh.vertices.mean(0)
    volume = np.abs(np.linalg.det(corners)).sum() / 6
    return bool(volume <= FLAT * np.prod(np.maximum(np.ptp(mesh.vertices, axis=0), np.ptp(mesh.vertices) * 1e-3)))


def write_world(b, root: xml.Element, shapes: Shapes, looks: Looks) -> dict[int, xml.Element]:
    """Write the worldbody; returns the elements of the bodies, with -1 for the world."""
    efforts = {j: EffortLimit(j, -1, range, False) for j, (_, range) in joints_ranges(b).items()}
    efforts |= {limit.joint: limit for limit in b.effort_limits if limit.joint >= 0}
    fields = iter(b.hfields)
    heights = {g: next(fields) for g, geom in enumerate(b.geoms) if geom.type == GeomType.HFIELD}
    jointed = {joint.body for joint in b.joints}
    elements = {-1: add(root, "worldbody")}
    for i, body in enumerate(b.bodies):  # parents come first
        elements[i] = _body(elements[body.parent], body, i in jointed)
    for j, joint in enumerate(b.joints):
        _joint(elements[joint.body], joint, efforts.get(j))
    for g, geom in enumerate(b.geoms):
        _geom(b, elements[geom.body], geom, heights.get(g), shapes, looks)
    for site in b.sites:
        size = np.asarray(site.size)[: SIZES[GeomType(site.type)]]
        kind = unless(site.type.name.lower(), "sphere")
        colour = unless(short_of(site.rgba), (0.5, 0.5, 0.5, 1.0))
        add(elements[site.body], "site", name=site.name, type=kind, **pose_of(site.pose), size=size, rgba=colour)
    for camera in b.cameras:
        view = {"fovy": np.rad2deg(camera.fovy), "resolution": unless(camera.resolution, (1, 1))}
        add(elements[camera.body], "camera", name=camera.name, **pose_of(camera.pose), **view)
    for element in elements.values():  # child bodies after the other elements of a body
        element[:] = sorted(element, key=lambda child: child.tag == "body")
    return elements


def _body(parent: xml.Element, body, moves: bool) -> xml.Element:
    options = {"mocap": True if body.mocap else None, "gravcomp": unless(body.gravcomp, 0.0)}
    element = add(parent, "body", name=body.name, **pose_of(body.pose), **options)
    if body.mass > 0 or body.inertia.any() or moves:
        rotation = rotation_matrix(body.axes)
        moments = np.einsum("ji,jk,ki->i", rotation, body.inertia, rotation)
        least = LEAST if moves else 0.0
        moments = _triangle(np.maximum(moments, least))
        pose = np.concatenate([body.com, body.axes])
        where = pose_of(pose) | {"pos": pose[:3]}
        add(element, "inertial", **where, mass=max(body.mass, least), diaginertia=moments)
    return element


def _triangle(moments: np.ndarray) -> np.ndarray:
    """Moments of which none exceeds the sum of the other two, not even in the last bit."""
    small, middle, large = np.argsort(moments)
    raised = moments.copy()
    while raised[small] + raised[middle] < raised[large]:
        raised[small] = np.nextafter(max(raised[small], raised[large] - raised[middle]), np.inf)
    return raised


def _joint(parent: xml.Element, joint, effort) -> None:
    kind = JointType(joint.type)
    scalar = kind in (JointType.HINGE, JointType.SLIDE)
    options = {key: unless(float(getattr(joint, field)[0]), 0.0) for field, key in JOINTS.items()}
    options["range"] = limits_of(joint.range) if joint.limited else None
    if kind != JointType.FREE:
        options["pos"] = unless(joint.anchor, np.zeros(3))
    if scalar:
        options |= {"axis": joint.axis, "ref": unless(float(joint.q0[0]), 0.0)}
        options["springref"] = unless(float(joint.reference[0]), 0.0)
    options |= law_attributes("joint", joint)
    if effort is not None:
        options["actuatorfrcrange"] = limits_of(effort.range)
        options["actuatorgravcomp"] = True if effort.gravity else None
    add(parent, "joint", name=joint.name, type=unless(kind.name.lower(), "hinge"), **options)


def _geom(b, parent: xml.Element, geom, heights: HField | None, shapes: Shapes, looks: Looks) -> None:
    kind, pose = GeomType(geom.type), geom.pose
    options: dict = {"size": np.asarray(geom.size)[: SIZES.get(kind, 3)]}
    if kind == GeomType.PLANE and geom.size[2] <= 0:
        options["size"] = [*geom.size[:2], 1.0]  # the spacing of MuJoCo's grid
    elif kind == GeomType.MESH:
        options = {"mesh": shapes.mesh(b.meshes[geom.mesh])}
    elif heights is not None:
        name, lift = shapes.heights(heights)
        options, pose = {"hfield": name}, compose(pose, [0.0, 0.0, lift, 1.0, 0.0, 0.0, 0.0]) if lift else pose
    friction = (geom.friction, geom.torsional_friction, geom.rolling_friction)
    options |= {"friction": unless(friction, FRICTION)}
    options |= {key: unless(getattr(geom, key), 1) for key in ("contype", "conaffinity")}
    options |= {
        "condim": unless(geom.condim, 3),
        "priority": unless(geom.priority, 0),
        "margin": unless(geom.margin, 0.0),
    }
    options |= {"group": None if geom.visible else HIDDEN, "rgba": unless(short_of(geom.rgba), (0.5, 0.5, 0.5, 1.0))}
    options["material"] = looks.name(geom.material) if geom.material is not None else None
    options |= law_attributes("geom", geom)
    if geom.fluid[0] > 0:
        options |= {"fluidshape": "ellipsoid", "fluidcoef": geom.fluid[1:6]}
    add(parent, "geom", name=geom.name, type=unless(kind.name.lower(), "sphere"), **pose_of(pose), **options)
