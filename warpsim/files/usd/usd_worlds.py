# SPDX-License-Identifier: Apache-2.0
"""Many worlds in one stage, on a grid: as point instancers, or as prims with names.

- `instanced`: `/World/Robots` has one prototype per body. Per frame it has `positions` (float) and half-precision
  `orientations`, world by world: 20 bytes per body.
- `named`: `/World/Worlds/World_<w>/<body>` are Xforms with translate and orient samples. They refer to shared
  prototypes, as instances.

Horizontal ground planes are written once, other fixed geoms once per world.
"""

import numpy as np

from warpsim.base.errors import ModelError
from warpsim.files.scene import bounding_radii, horizontal_planes
from warpsim.files.usd import usd_prims
from warpsim.files.usd.usd_looks import Materials
from warpsim.files.usd.usd_values import Names, keep_name, set_pose
from warpsim.model.host_kinematics import body_component_chunks, body_poses
from warpsim.model.model import GeomType

ROBOTS, WORLDS, PROTOTYPES = "/World/Robots", "/World/Worlds", "/World/Prototypes"
XFORM_SAMPLE_BYTES = 400  # memory of one translate and one orient sample of a body in an unsaved layer


def continuous_signs(quaternions, before, axis: int = -1) -> np.ndarray:
    """Quaternions `(frames, ..., 4)` with signs flipped so that each is nearest to the one before it.

    Their components are along `axis`. `before (..., 4)` precedes the first. Viewers that interpolate then turn the
    short way.
    """
    chain = np.concatenate([before[None], quaternions])
    flips = np.where(np.sum(chain[1:] * chain[:-1], axis=axis, keepdims=True) < 0, -1.0, 1.0)
    return quaternions * np.cumprod(flips, axis=0)


def stream_instances(output, stage, trajectory, rows, chosen, origins, spacing: float):
    """Write the chosen worlds as point instancers; returns the bodies that are drawn."""
    from pxr import UsdGeom, Vt

    model = trajectory.model
    materials = Materials(stage, "/World/Materials", model, output.images)
    _write_static(stage, model, materials, origins, spacing)
    drawn = [b for b in range(model.nbody) if (model.geom_visible & (model.geom_body == b)).any()]
    if not drawn:
        raise ModelError(f"model {model.name!r} has no visible geom on a body, so there is nothing to draw; add geoms")
    instancer = UsdGeom.PointInstancer.Define(stage, ROBOTS)
    UsdGeom.Scope.Define(stage, f"{ROBOTS}/Prototypes")
    targets = _write_prototypes(stage, f"{ROBOTS}/Prototypes", model, drawn, materials)
    instancer.CreatePrototypesRel().SetTargets(list(targets.values()))
    indices = np.tile(np.arange(len(drawn), dtype=np.int32), len(chosen))
    instancer.CreateProtoIndicesAttr(Vt.IntArray.FromNumpy(indices))
    instancer.CreateIdsAttr(Vt.Int64Array.FromNumpy(np.arange(len(indices), dtype=np.int64)))
    instancer.GetPrim().SetCustomDataByKey("warpsim:order", "world-major: instance = world * bodies drawn + body")
    positions, orientations = instancer.CreatePositionsAttr(), instancer.CreateOrientationsAttr()
    radii = np.array([_body_radius(model, b) for b in drawn])[:, None]
    low, high, before, frame = np.full(3, np.inf), np.full(3, -np.inf), None, 0
    for poses in body_component_chunks(model, trajectory.q, rows, chosen, trajectory.mocap):
        poses = poses[drawn] if len(drawn) < model.nbody else poses
        places = poses[:, :3] + origins.T[:, None]
        low = np.minimum(low, (places.min(axis=(2, 3)) - radii).min(axis=0))
        high = np.maximum(high, (places.max(axis=(2, 3)) + radii).max(axis=0))
        turns = np.moveaxis(poses[:, 3:], 2, 0)  # (rows, bodies, 4, worlds)
        turns = continuous_signs(turns, turns[0] if before is None else before, axis=2)
        before = turns[-1]
        points, packed = _packed(places, turns)
        for point, turn in zip(points, packed, strict=True):
            output.sample(positions, Vt.Vec3fArray.FromNumpy(point), frame, point.nbytes)
            output.sample(orientations, Vt.QuathArray.FromNumpy(turn), frame, turn.nbytes)
            frame += 1
    instancer.CreateExtentAttr(Vt.Vec3fArray.FromNumpy(np.stack([low, high]).astype(np.float32)))
    return drawn


def _packed(places, turns) -> tuple[np.ndarray, np.ndarray]:
    """Instance arrays `(rows, instances, 3)` float32 and `(rows, instances, 4)` float16 (x, y, z, w).

    The arguments are components `(bodies, 3, rows, worlds)` and `(rows, bodies, 4, worlds)`.
    """
    rows, bodies, _, worlds = turns.shape
    points = np.empty((rows, worlds, bodies, 3), np.float32)
    points[...] = places.transpose(2, 3, 0, 1)
    halves = turns.astype(np.float32).astype(np.float16)
    packed = np.empty((rows, worlds, bodies, 4), np.float16)
    for k, source in enumerate((1, 2, 3, 0)):
        packed[..., k] = halves[:, :, source].swapaxes(1, 2)
    return points.reshape(rows, -1, 3), packed.reshape(rows, -1, 4)


def stream_named(output, stage, trajectory, rows, chosen, origins, spacing: float) -> tuple[list, list]:
    """Write the chosen worlds as named prims; returns the prims of the worlds, and those of each world's bodies."""
    from pxr import UsdGeom

    model = trajectory.model
    materials = Materials(stage, "/World/Materials", model, output.images)
    _write_static(stage, model, materials, origins, spacing)
    stage.CreateClassPrim(PROTOTYPES)
    drawn = [b for b in range(model.nbody) if (model.geom_visible & (model.geom_body == b)).any()]
    targets = _write_prototypes(stage, PROTOTYPES, model, drawn, materials)
    first = body_poses(
        model,
        trajectory.rows("q", rows[:1])[0],
        None if trajectory.mocap is None else trajectory.rows("mocap", rows[:1])[0],
    )
    owners, prims, ops = [], [], []
    for world, origin in zip(chosen.tolist(), origins, strict=True):
        root = UsdGeom.Xform.Define(stage, f"{WORLDS}/World_{world}")
        set_pose(root, [*origin, 1.0, 0.0, 0.0, 0.0])
        owners.append(root.GetPrim())
        names = Names()
        names.taken.add("Tendons")
        prims.append([])
        for body, name in enumerate(model.body_names):
            xform = UsdGeom.Xform.Define(stage, root.GetPath().AppendChild(names(name)))
            keep_name(xform.GetPrim(), name)
            if body in targets:
                xform.GetPrim().GetReferences().AddInternalReference(targets[body])
                xform.GetPrim().SetInstanceable(True)
            ops.append(set_pose(xform, first[world, body]))
            prims[-1].append(xform.GetPrim())
    stream_poses(output, trajectory, rows, chosen, ops)
    return owners, prims


def stream_poses(output, trajectory, rows, chosen, ops) -> None:
    """Write translate and orient samples of the moving bodies; `ops` has all bodies of each chosen world in turn."""
    from pxr import Gf, Sdf

    model = trajectory.model
    moving = [b for b in range(model.nbody) if moves(model, b)]
    columns = [w * model.nbody + b for w in range(len(chosen)) for b in moving]
    attributes = [[op.GetAttr() for op in ops[column]] for column in columns]
    frame, before = 0, None
    for poses in body_component_chunks(model, trajectory.q, rows, chosen, trajectory.mocap):
        poses = np.moveaxis(poses[moving], (2, 3), (0, 1))  # (rows, worlds, bodies, 7)
        places, turns = poses[..., :3].reshape(len(poses), -1, 3), poses[..., 3:].reshape(len(poses), -1, 4)
        turns = continuous_signs(turns, turns[0] if before is None else before)
        before = turns[-1]
        for place, turn in zip(places.tolist(), turns.tolist(), strict=True):
            with Sdf.ChangeBlock():
                for (translate, orient), position, quaternion in zip(attributes, place, turn, strict=True):
                    output.sample(translate, Gf.Vec3d(*position), frame, XFORM_SAMPLE_BYTES // 2)
                    output.sample(orient, Gf.Quatd(*quaternion), frame, XFORM_SAMPLE_BYTES // 2)
            frame += 1


def moves(model, body: int) -> bool:
    """Whether a body can move: it has a joint above it, or hangs on a mocap body."""
    link = model.body_link[body]
    root = model.tree_link[model.link_tree[link]]
    return bool(model.ancestors(int(link))) or bool(model.body_mocap[model.link_body[root]] >= 0)


def _write_prototypes(stage, root: str, model, drawn, materials) -> dict:
    """Write one Xform per drawn body with the meshes of its visible geoms; returns their paths by body."""
    from pxr import Sdf, UsdGeom

    names, targets = Names(), {}
    for body in drawn:
        path = Sdf.Path(root).AppendChild(names(model.body_names[body]))
        keep_name(UsdGeom.Xform.Define(stage, path).GetPrim(), model.body_names[body])
        geom_names = Names()
        for geom in np.flatnonzero((model.geom_body == body) & model.geom_visible):
            usd_prims.write_geom(stage, model, int(geom), path, geom_names, materials, physics=False)
        targets[body] = path
    return targets


def _write_static(stage, model, materials, origins, spacing: float) -> None:
    """Write geoms fixed to the world: horizontal planes once, over the whole grid; others at each world's origin."""
    from pxr import UsdGeom, Vt

    names = Names()
    floors = horizontal_planes(model)
    reach = float(np.abs(origins[:, :2]).max()) + max(spacing, usd_prims.GROUND_HALF_SIZE)
    rest = np.setdiff1d(np.flatnonzero((model.geom_body < 0) & model.geom_visible), floors)
    UsdGeom.Xform.Define(stage, "/World/Static")
    for geom in floors:  # a finite size is that of one world; every world needs its floor
        usd_prims.write_geom(stage, model, int(geom), "/World/Static", names, materials, half=(reach, reach))
    if len(rest) == 0:
        return
    instancer = UsdGeom.PointInstancer.Define(stage, "/World/Static/PerWorld")
    root = instancer.GetPath().AppendChild("Prototypes")
    UsdGeom.Scope.Define(stage, root)
    targets = []
    for geom in rest:
        size = model.geom_size[geom, :2]
        half = np.where(size > 0, size, spacing / 2) if model.geom_type[geom] == GeomType.PLANE else None
        path = usd_prims.write_geom(stage, model, int(geom), root, names, materials, physics=False, half=half)
        targets.append(path)
    instancer.CreatePrototypesRel().SetTargets(targets)
    count = len(origins)
    instancer.CreateProtoIndicesAttr(Vt.IntArray.FromNumpy(np.repeat(np.arange(len(rest), dtype=np.int32), count)))
    instancer.CreatePositionsAttr(Vt.Vec3fArray.FromNumpy(np.tile(origins, (len(rest), 1)).astype(np.float32)))
    instancer.CreateExtentAttr(UsdGeom.Boundable.ComputeExtentFromPlugins(instancer, 0))


def _body_radius(model, body: int) -> float:
    """Radius [m] of a body's visible geoms about its origin."""
    geoms = np.flatnonzero((model.geom_body == body) & model.geom_visible)
    return float((np.linalg.norm(model.geom_pose[geoms, :3], axis=-1) + bounding_radii(model)[geoms]).max())
