# SPDX-License-Identifier: Apache-2.0
"""Geoms of a USD stage: gprims to shapes with material and mass, as arguments of `ModelBuilder.add_geom`."""

import dataclasses

import numpy as np

from warpsim.base.errors import ModelError
from warpsim.files.usd import usd_extra
from warpsim.files.usd.usd_contact import collider_values, material_values
from warpsim.files.usd.usd_looks import displayed
from warpsim.files.usd.usd_pressure import read_pressure_field
from warpsim.model import mesh_mass
from warpsim.model.elements import GEOM
from warpsim.model.geometry import IDENTITY, compose, matrix_quaternion, nearest_rotation
from warpsim.model.hydroelastic import Hydroelastic
from warpsim.model.mujoco_options import DEFAULTS

MAX_POINTS = 4_000_000
SHEAR = 1e-5  # relative shear up to which a transform counts as rotation and scale
AXES = {  # quaternions, scalar first, that turn z to the axis
    "X": np.array([np.sqrt(0.5), 0, np.sqrt(0.5), 0]),
    "Y": np.array([np.sqrt(0.5), -np.sqrt(0.5), 0, 0]),
    "Z": np.array([1.0, 0, 0, 0]),
}
USED_SIZES = {"sphere": 1, "capsule": 2, "cylinder": 2, "mesh": 0}
OWN_FIELDS = (*GEOM, "rgba", "visible", "max_hull_vertices", "fluid", *DEFAULTS["geom"])


class Unsupported(ModelError):
    """A sound transform or shape that cannot be simulated: what is wrong with it, and the fix."""

    def __init__(self, label: str, what: str, fix: str):
        super().__init__(f"{label}: {what}; {fix}")
        self.what, self.fix = what, fix


@dataclasses.dataclass
class Shape:
    """A shape in the axes of its body.

    `mesh` is (vertices, faces) in the shape's own axes; `own` are the arguments that our export kept.
    """

    prim: object
    name: str
    kind: str
    size: np.ndarray
    pose: np.ndarray
    mesh: tuple | None
    touches: bool
    approximation: str
    rgba: tuple
    visible: bool
    material: dict
    kept: dict
    collider: object  # the prim with PhysicsCollisionAPI: the shape's own, an Xform above it, or None
    frame: np.ndarray  # 4x4: from the coordinates of the collider, else of the prim, to the body's axes
    hydroelastic: Hydroelastic | None = None
    hfield: tuple | None = None
    contact: dict = dataclasses.field(default_factory=dict)  # further arguments of a foreign shape


def decompose_transform(matrix, label: str, shear: bool = False):
    """Pose (7,) and scale (3,) of a 4x4 transform; a mirroring transform has a negative last scale.

    Raises `ModelError` for a sheared transform. With `shear` it returns the nearest rotation and the scale None
    instead.
    """
    linear = matrix[:3, :3]
    scale = np.linalg.norm(linear, axis=0)
    if not (scale > 1e-12).all():
        raise ModelError(f"{label}: its scale is zero")
    turn = linear / scale
    sheared = np.abs(turn.T @ turn - np.eye(3)).max() > SHEAR
    if sheared and not shear:
        raise Unsupported(label, "its transform is sheared (a scale above a rotation)", "apply the scale to its points")
    scale = scale * [1.0, 1.0, -1.0] if np.linalg.det(turn) < 0 else scale
    pose = np.concatenate([matrix[:3, 3], matrix_quaternion(nearest_rotation(linear))])
    return pose, (None if sheared else scale)


def read_shape(
    prim, to_body, units, name: str, own_names: bool, collider=None, frame=None, authored=None
) -> Shape | None:
    """The shape of a gprim; None for a gprim that is no solid (curves, points).

    `to_body` is the 4x4 transform from prim to body axes, in metres. `collider` is the prim with PhysicsCollisionAPI
    that the gprim belongs to, `frame` its transform. `authored` gives what other schemas say of contact.
    """
    from pxr import UsdGeom, UsdPhysics

    label = f"geom {prim.GetPath()}"
    found = _primitive(prim, to_body, units, label)
    if found is None:
        return None
    kind, size, pose, mesh = found
    hfield = None
    own = usd_extra.read(prim) if own_names else {}
    touches = collider is not None
    if touches:
        touches = UsdPhysics.CollisionAPI(collider).GetCollisionEnabledAttr().Get() is not False
    approximation = ""
    for source in (prim, collider):
        if source is not None and not approximation and source.HasAPI(UsdPhysics.MeshCollisionAPI):
            approximation = str(UsdPhysics.MeshCollisionAPI(source).GetApproximationAttr().Get() or "none")
    image = UsdGeom.Imageable(prim)
    hidden = image.ComputeVisibility() == "invisible" or image.ComputePurpose() not in ("default", "render")
    if own.get("type") == kind:
        kept = np.array(own.get("size"), float)
        kept[USED_SIZES.get(kind, 3) :] = 0.0
        if usd_extra.exact(size, kept) is kept:
            size = np.array(own["size"], float)
        pose = usd_extra.exact_pose(pose, own.get("pose"))
    elif kind == "mesh" and own.get("type") == "ellipsoid":
        kind, size, mesh, pose = "ellipsoid", np.array(own.get("size"), float), None, own.get("pose", pose)
    elif (
        kind == "mesh" and own.get("type") == "hfield" and (hfield := usd_extra.read_heights(prim, mesh[0])) is not None
    ):
        kind, size, mesh, pose = "hfield", np.zeros(3), None, usd_extra.exact_pose(pose, own.get("pose"))
    else:
        own = {}
    if kind == "plane" and own:
        size = np.array(own["size"], float)  # an infinite plane is drawn finite
    material, contact = _material(prim, units, authored if touches else None), {}
    if touches and authored is not None:
        contact = collider_values(authored, [prim] if collider == prim else [prim, collider], units)
    return Shape(
        prim,
        name,
        kind,
        size,
        np.asarray(pose, float),
        mesh,
        touches,
        approximation,
        _rgba(prim),
        not hidden,
        material,
        own,
        collider,
        to_body if frame is None else frame,
        read_pressure_field(prim, units, label) if touches else None,
        hfield,
        contact,
    )


def _primitive(prim, to_body, units, label: str):
    """(kind, size, pose, mesh) of a gprim; sizes in metres."""
    kind = str(prim.GetTypeName())
    if kind == "Mesh":
        return _mesh(prim, to_body, units, label)
    if kind not in ("Sphere", "Cube", "Capsule", "Capsule_1", "Cylinder", "Cylinder_1", "Cone", "Plane"):
        return None
    pose, scale = decompose_transform(to_body, label)
    scale = np.abs(scale)
    get = lambda name: _positive(prim, name, label) * units.length  # noqa: E731
    if kind == "Sphere":
        radii = get("radius") * scale
        if np.ptp(radii) <= 1e-6 * radii.max():
            return "sphere", np.array([radii.mean(), 0, 0]), pose, None
        return "ellipsoid", radii, pose, None
    if kind == "Cube":
        return "box", get("size") / 2 * scale, pose, None
    axis = str(prim.GetAttribute("axis").Get() or "Z")
    if axis not in AXES:
        raise ModelError(f"{label}: axis {axis[:20]!r} is not X, Y or Z")
    order = {"X": (1, 2, 0), "Y": (2, 0, 1), "Z": (0, 1, 2)}[axis]
    pose = compose(pose, np.concatenate([np.zeros(3), AXES[axis]]))
    across, along = scale[list(order[:2])], scale[order[2]]
    if kind == "Plane":
        size = [get("width") / 2 * across[0], get("length") / 2 * across[1], 0.0]
        return "plane", np.array(size), pose, None
    if np.ptp(across) > 1e-6 * across.max():
        raise Unsupported(label, f"a {kind} scaled differently across its axis is no {kind}", "make it a mesh")
    radii = [get(name) for name in (("radiusTop", "radiusBottom") if kind.endswith("_1") else ("radius",))]
    if np.ptp(radii) > 1e-6 * max(radii):
        raise Unsupported(label, f"a {kind} with two radii, {radii[0]:g} and {radii[-1]:g} m", "make it a mesh")
    radius = max(radii) * float(across.mean())
    half = get("height") / 2 * float(along)
    if kind == "Cone":
        return "mesh", np.zeros(3), pose, _cone(radius, half)
    return kind.removesuffix("_1").lower(), np.array([radius, half, 0.0]), pose, None


def _positive(prim, name: str, label: str) -> float:
    value = prim.GetAttribute(name).Get()
    if not isinstance(value, (int, float)) or not (np.isfinite(value) and 0 < value < 1e9):
        raise ModelError(f"{label}: {name} is {value!r}; it must be positive and finite")
    return float(value)


def _cone(radius: float, half: float, sides: int = 24):
    angle = 2 * np.pi * np.arange(sides) / sides
    ring = np.stack([radius * np.cos(angle), radius * np.sin(angle), np.full(sides, -half)], axis=-1)
    return mesh_mass.convex_hull(np.concatenate([ring, [[0, 0, half]]]))


def _mesh(prim, to_body, units, label: str):
    """A polygon mesh as triangles in metres, with its scale applied to the points."""
    from pxr import UsdGeom

    mesh = UsdGeom.Mesh(prim)
    points = np.array(mesh.GetPointsAttr().Get() or np.zeros((0, 3)), dtype=float).reshape(-1, 3) * units.length
    counts = np.array(mesh.GetFaceVertexCountsAttr().Get() or [], dtype=np.int64)
    corners = np.array(mesh.GetFaceVertexIndicesAttr().Get() or [], dtype=np.int64)
    if len(points) == 0 or len(counts) == 0:
        return None
    if len(points) > MAX_POINTS or len(corners) > 4 * MAX_POINTS:
        raise ModelError(f"{label}: more than {MAX_POINTS} points; simplify the mesh")
    if counts.min() < 3 or counts.sum() != len(corners) or corners.min() < 0 or corners.max() >= len(points):
        raise ModelError(f"{label}: faceVertexCounts and faceVertexIndices do not fit its {len(points)} points")
    if not np.isfinite(points).all() or np.abs(points).max() > 1e9:
        raise ModelError(f"{label}: its points are not finite")
    faces = fan(counts, corners)
    pose, scale = decompose_transform(to_body, label, shear=True)
    if scale is None:  # bake the whole transform
        points = points @ to_body[:3, :3].T + to_body[:3, 3]
        flip, pose = np.linalg.det(to_body[:3, :3]) < 0, IDENTITY.copy()
    else:
        points, flip = points * scale, np.prod(scale) < 0
    if (mesh.GetOrientationAttr().Get() == "leftHanded") != flip:
        faces = faces[:, ::-1]
    return "mesh", np.zeros(3), pose, (points, faces)


def fan(counts, corners) -> np.ndarray:
    """Triangles of polygons, each a fan from the polygon's first corner."""
    starts = np.cumsum(counts) - counts
    triangles = np.repeat(np.arange(len(counts)), counts - 2)
    step = np.arange(len(triangles)) - np.repeat(np.cumsum(counts - 2) - (counts - 2), counts - 2) + 1
    first = starts[triangles]
    return np.stack([corners[first], corners[first + step], corners[first + step + 1]], axis=-1)


def _rgba(prim) -> tuple:
    from pxr import UsdGeom

    gprim = UsdGeom.Gprim(prim)
    color, opacity = gprim.GetDisplayColorAttr().Get(), gprim.GetDisplayOpacityAttr().Get()
    rgb = displayed(np.clip(np.nan_to_num(color[0]), 0.0, 1.0)) if color else [0.7, 0.7, 0.7]
    return *rgb, float(np.clip(np.nan_to_num(opacity[0]), 0.0, 1.0)) if opacity else 1.0


def _material(prim, units, authored=None) -> dict:
    """Friction, restitution and density of the bound physics material; empty without one.

    What other schemas say of it is under "more".
    """
    from pxr import UsdPhysics, UsdShade

    material = UsdShade.MaterialBindingAPI(prim).ComputeBoundMaterial("physics")[0]
    if not material or not material.GetPrim().HasAPI(UsdPhysics.MaterialAPI):
        return {}
    physics = UsdPhysics.MaterialAPI(material.GetPrim())
    read = {
        "friction": physics.GetDynamicFrictionAttr().Get(),
        "static": physics.GetStaticFrictionAttr().Get(),
        "restitution": physics.GetRestitutionAttr().Get(),
        "density": (physics.GetDensityAttr().Get() or 0.0) * units.mass / units.length**3,
    }
    for key, value in read.items():
        if value is None or not (np.isfinite(value) and 0 <= value < 1e9):
            raise ModelError(f"material {material.GetPath()}: {key} is {value!r}; it must be finite, not negative")
    return read | ({} if authored is None else {"more": material_values(authored, material.GetPrim(), units)})
