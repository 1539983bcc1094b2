# SPDX-License-Identifier: Apache-2.0
"""USD prims of a `Model` in OpenUSD's Physics schema: geoms and the meshes that draw them, bodies with mass, joints.

Units are SI (metersPerUnit 1, kilogramsPerUnit 1), Z up; USD's angles are in degrees. Bodies are siblings under one
Xform, because UsdPhysics allows no rigid body inside another. `customData["warpsim"]` keeps what the schema cannot
express: armature, dry friction, chains of joints, actuators (`warpsim.files.usd.usd_extra`).
"""

import warnings

import numpy as np

from warpsim.files.shapes import field_of
from warpsim.files.texture_map import drawn_triangles
from warpsim.files.usd import usd_extra
from warpsim.files.usd.usd_looks import define_floor, define_mesh
from warpsim.files.usd.usd_pressure import write_pressure_field
from warpsim.files.usd.usd_values import Names, keep_name, quatf, set_pose, vec3
from warpsim.model.elements import body_pose
from warpsim.model.geometry import compose, matrix_quaternion
from warpsim.model.model import GeomType, JointType

GROUND_HALF_SIZE = 50.0  # m, drawn half width of an infinite plane
AXES = ("X", "Y", "Z")
# Other shapes are meshes: UsdPhysics has no spheres with unequal scales.
PRIMITIVES = (GeomType.PLANE, GeomType.SPHERE, GeomType.CAPSULE, GeomType.CYLINDER, GeomType.BOX)


def write_geom(stage, model, geom: int, parent, names: Names, materials, *, physics=True, half=None):
    """Write one geom below `parent`: its shape, and, if this is no mesh, one that draws it. Returns the shape's path.

    The shape has the geom's name and the physics, and is a guide; renderers see the mesh. Without `physics` only the
    mesh is written. `half (2,)`: half sides [m] of a plane; by default its own, or GROUND_HALF_SIZE if it is infinite.
    """
    from pxr import UsdPhysics

    kind, name = GeomType(model.geom_type[geom]), model.geom_names[geom]
    if kind == GeomType.PLANE and half is None:
        half = [float(x) or GROUND_HALF_SIZE for x in model.geom_size[geom, :2]]
    visible, path = bool(model.geom_visible[geom]), f"{parent}/{names(name)}"
    if kind not in PRIMITIVES or not physics:
        shape, scale = _drawn(stage, model, geom, path, half), None
    else:
        shape, scale = _primitive(stage, model, geom, path, half)
    set_pose(shape, model.geom_pose[geom], scale)
    prim = shape.GetPrim()
    keep_name(prim, name)
    if physics:
        usd_extra.write(prim, usd_extra.geom_data(model, geom))
        if kind == GeomType.HFIELD:
            usd_extra.write_heights(prim, field_of(model, geom))
        elif kind == GeomType.ELLIPSOID:
            prim.SetCustomDataByKey("warpsim:ellipsoid", vec3(model.geom_size[geom], "d"))
    collides = bool(model.geom_contype[geom] or model.geom_conaffinity[geom] or (model.pair_geom == geom).any())
    if physics and collides:
        UsdPhysics.CollisionAPI.Apply(prim)
        if kind not in PRIMITIVES:
            approximation = "none" if kind == GeomType.HFIELD else "convexHull"
            UsdPhysics.MeshCollisionAPI.Apply(prim).CreateApproximationAttr(approximation)
        write_pressure_field(prim, model, geom)
    materials.bind(prim, geom, physics and collides)
    if not visible or (physics and kind in PRIMITIVES):
        shape.CreatePurposeAttr("guide")
    if visible and physics and kind in PRIMITIVES:
        mesh = _drawn(stage, model, geom, f"{parent}/{names(f'{name}_mesh')}", half)
        set_pose(mesh, model.geom_pose[geom])
        mesh.GetPrim().SetCustomDataByKey(usd_extra.DRAWS, name)
        materials.bind(mesh.GetPrim(), geom, False)
    return prim.GetPath()


def _drawn(stage, model, geom: int, path, half):
    """The mesh that draws a geom, in the geom's axes."""
    kind = GeomType(model.geom_type[geom])
    if kind == GeomType.PLANE:
        return define_floor(stage, path, half)
    if kind == GeomType.MESH and model.geom_mesh[geom] < 0:
        raise ValueError(
            f"geom {model.geom_names[geom]!r}: USD export has no shape for type {kind.name}; remove the geom"
        )
    return define_mesh(stage, path, *drawn_triangles(model, geom))


def _primitive(stage, model, geom: int, path, half):
    """The gprim of a geom in its axes, and the scale that it needs or None."""
    from pxr import UsdGeom

    kind, size, scale = GeomType(model.geom_type[geom]), [float(x) for x in model.geom_size[geom]], None
    if kind == GeomType.SPHERE:
        shape = UsdGeom.Sphere.Define(stage, path)
        shape.CreateRadiusAttr(size[0])
    elif kind in (GeomType.CAPSULE, GeomType.CYLINDER):
        shape = (UsdGeom.Capsule if kind == GeomType.CAPSULE else UsdGeom.Cylinder).Define(stage, path)
        shape.CreateRadiusAttr(size[0])
        shape.CreateHeightAttr(2 * size[1])
        shape.CreateAxisAttr("Z")
    elif kind == GeomType.BOX:
        shape = UsdGeom.Cube.Define(stage, path)
        shape.CreateSizeAttr(2.0)
        scale = size
    else:
        shape = UsdGeom.Plane.Define(stage, path)
        shape.CreateAxisAttr("Z")
        shape.CreateWidthAttr(2 * float(half[0]))
        shape.CreateLengthAttr(2 * float(half[1]))
    extent = UsdGeom.Boundable.ComputeExtentFromPlugins(shape, 0)
    if extent is not None:
        shape.CreateExtentAttr(extent)
    return shape, scale


def write_mass(prim, model, body: int) -> None:
    """Write a rigid body with mass [kg], centre of mass [m], principal moments [kg m^2] and their axes."""
    from pxr import UsdPhysics

    UsdPhysics.RigidBodyAPI.Apply(prim)
    mass = UsdPhysics.MassAPI.Apply(prim)
    mass.CreateMassAttr(float(model.body_mass[body]))
    mass.CreateCenterOfMassAttr(vec3(model.body_com[body]))
    moments, axes = np.linalg.eigh(model.body_inertia[body])
    if np.linalg.det(axes) < 0:
        axes[:, 0] *= -1
    mass.CreateDiagonalInertiaAttr(vec3(np.maximum(moments, 0)))
    mass.CreatePrincipalAxesAttr(quatf(matrix_quaternion(axes)))
    usd_extra.write(prim, usd_extra.body_data(model, body))


def write_joints(stage, model, body_paths, root_path) -> None:
    """Write articulation roots, filtered pairs, and under `root_path` a UsdPhysics joint per body that is not free."""
    from pxr import Sdf, UsdGeom, UsdPhysics

    UsdGeom.Scope.Define(stage, root_path)
    names = Names()
    joint_of_body: dict[int, object] = {}
    for body in range(model.nbody):
        joints = np.flatnonzero(model.joint_body == body)
        kinds = [JointType(model.joint_type[j]) for j in joints]
        if JointType.FREE in kinds:
            continue
        label = "_".join(model.joint_names[j] for j in joints) if len(joints) else f"{model.body_names[body]}_fixed"
        path = f"{root_path}/{names(label)}"
        joint = _define_joint(stage, model, body, joints, path)
        parent = int(model.body_parent[body])
        if parent >= 0:
            joint.CreateBody0Rel().SetTargets([Sdf.Path(body_paths[parent])])
        joint.CreateBody1Rel().SetTargets([Sdf.Path(body_paths[body])])
        prim = joint.GetPrim()
        keep_name(prim, label)
        joint_of_body[body] = prim
    for tree in range(model.ntree):
        bodies = np.unique(model.link_body[model.tree_link[tree] : model.tree_link[tree + 1]])
        root = int(bodies[model.body_parent[bodies] < 0][0])
        if len(bodies) > 1:
            UsdPhysics.ArticulationRootAPI.Apply(joint_of_body.get(root) or stage.GetPrimAtPath(body_paths[root]))
    for a, b in model.excluded:
        if a >= 0 and b >= 0:
            pairs = UsdPhysics.FilteredPairsAPI.Apply(stage.GetPrimAtPath(body_paths[a]))
            pairs.CreateFilteredPairsRel().AddTarget(Sdf.Path(body_paths[b]))


def _define_joint(stage, model, body: int, joints, path):
    """The joint prim of a body with its frames: the two frames coincide at the position q0."""
    from pxr import UsdPhysics

    pose = body_pose(model, body)
    if len(joints) == 0:
        joint, anchor, axes = UsdPhysics.FixedJoint.Define(stage, path), np.zeros(3), np.eye(3)
    elif len(joints) == 1:
        j = int(joints[0])
        kind, anchor, axes = JointType(model.joint_type[j]), model.joint_anchor[j], _frame(model.joint_axis[j])
        if kind == JointType.BALL:
            joint = UsdPhysics.SphericalJoint.Define(stage, path)
            joint.CreateAxisAttr("X")
            cone = float(np.degrees(model.joint_range[j, 1])) if model.joint_limited[j] else -1.0
            joint.CreateConeAngle0LimitAttr(cone)
            joint.CreateConeAngle1LimitAttr(cone)
            axes = np.eye(3)
        else:
            hinge = kind == JointType.HINGE
            joint = (UsdPhysics.RevoluteJoint if hinge else UsdPhysics.PrismaticJoint).Define(stage, path)
            joint.CreateAxisAttr("X")
            limits = _limits(model, j)
            joint.CreateLowerLimitAttr(limits[0])
            joint.CreateUpperLimitAttr(limits[1])
            _drive(joint.GetPrim(), model, j, "angular" if hinge else "linear")
    else:
        joint, anchor, axes = _generic_joint(stage, model, joints, path)
    frame = quatf(matrix_quaternion(axes))
    in_parent = compose(pose, np.concatenate([anchor, matrix_quaternion(axes)]))
    joint.CreateLocalPos0Attr(vec3(in_parent[:3]))
    joint.CreateLocalRot0Attr(quatf(in_parent[3:]))
    joint.CreateLocalPos1Attr(vec3(anchor))
    joint.CreateLocalRot1Attr(frame)
    return joint


def _generic_joint(stage, model, joints, path):
    """Several joints of one body as one six-axis joint; exact if their axes are orthogonal and share an anchor."""
    from pxr import UsdPhysics

    joint = UsdPhysics.Joint.Define(stage, path)
    kinds = [JointType(model.joint_type[j]) for j in joints]
    turning = [j for j, kind in zip(joints, kinds, strict=True) if kind == JointType.HINGE]
    anchor = model.joint_anchor[turning[0]] if turning else np.zeros(3)
    axes: list[np.ndarray] = []
    slots, exact = {}, JointType.BALL not in kinds
    for j, kind in zip(joints, kinds, strict=True):
        if kind == JointType.BALL:
            continue
        axis = model.joint_axis[j]
        match = [i for i, a in enumerate(axes) if abs(a @ axis) > 1 - 1e-6]
        if not match:
            exact &= len(axes) < 3 and all(abs(a @ axis) < 1e-6 for a in axes)
            if not exact:
                break
            axes.append(np.array(axis))
        slots[j] = match[0] if match else len(axes) - 1
        sign = axes[slots[j]] @ axis
        exact &= sign > 0 and (kind != JointType.HINGE or np.allclose(model.joint_anchor[j], anchor, atol=1e-9))
    exact &= len({(slots.get(j), kind) for j, kind in zip(joints, kinds, strict=True)}) == len(joints)
    if not exact:
        warnings.warn(
            f"body {model.body_names[model.joint_body[joints[0]]]!r} has joints "
            f"{[model.joint_names[j] for j in joints]} that UsdPhysics has no joint for (axes not orthogonal, or "
            "several anchors); the motion is exported exactly, the joint without limits and in customData only",
            stacklevel=2,
        )
        return joint, np.array(anchor), np.eye(3)
    frame = _complete(axes)
    free = {("rot" if k == JointType.HINGE else "trans", slots[j]): j for j, k in zip(joints, kinds, strict=True)}
    for motion in ("trans", "rot"):
        for slot in range(3):
            j = free.get((motion, slot))
            low, high = (1.0, -1.0) if j is None else _limits(model, j)  # low > high: locked
            token = f"{motion}{AXES[slot]}"
            if j is None or np.isfinite(low) or np.isfinite(high):
                limit = UsdPhysics.LimitAPI.Apply(joint.GetPrim(), token)
                limit.CreateLowAttr(low)
                limit.CreateHighAttr(high)
            if j is not None:
                _drive(joint.GetPrim(), model, j, token)
    return joint, np.array(anchor), frame


def _complete(axes) -> np.ndarray:
    """Rotation matrix whose first columns are the orthonormal `axes`; a third may be flipped to be right-handed."""
    if len(axes) == 1:
        return _frame(axes[0])
    return np.stack([axes[0], axes[1], np.cross(axes[0], axes[1])], axis=-1)


def _frame(axis) -> np.ndarray:
    """A rotation matrix whose first column is the unit `axis`; the identity for +x."""
    axis = np.asarray(axis, float)
    helper = np.array([0.0, 1.0, 0.0]) if abs(axis[1]) < 0.9 else np.array([0.0, 0.0, 1.0])
    second = helper - axis * (axis @ helper)
    second /= np.linalg.norm(second)
    return np.stack([axis, second, np.cross(axis, second)], axis=-1)


def _limits(model, j) -> tuple[float, float]:
    """Limits relative to q0, in degrees or metres; infinite for an unlimited joint."""
    if not model.joint_limited[j]:
        return -np.inf, np.inf
    low, high = model.joint_range[j] - model.q0[model.joint_q[j]]
    hinge = model.joint_type[j] == JointType.HINGE
    return (float(np.degrees(low)), float(np.degrees(high))) if hinge else (float(low), float(high))


def _drive(prim, model, j, token: str) -> None:
    """Write the joint's spring and damper as a drive; USD's gains of angles are per degree."""
    from pxr import UsdPhysics

    dof = int(model.joint_v[j])
    stiffness, damping = float(model.joint_stiffness[dof]), float(model.joint_damping[dof])
    if stiffness == 0 and damping == 0:
        return
    hinge = model.joint_type[j] == JointType.HINGE
    rest = float(model.joint_reference[dof] - model.q0[model.joint_q[j]])
    drive = UsdPhysics.DriveAPI.Apply(prim, token)
    drive.CreateTypeAttr("force")
    drive.CreateStiffnessAttr(stiffness * np.pi / 180 if hinge else stiffness)
    drive.CreateDampingAttr(damping * np.pi / 180 if hinge else damping)
    drive.CreateTargetPositionAttr(float(np.degrees(rest)) if hinge else rest)
