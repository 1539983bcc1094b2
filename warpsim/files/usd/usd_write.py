"""OpenUSD export: a model, one world with physics, or many worlds as point instancers.

Frames are written a chunk at a time and the layer is saved as it grows: a saved `.usdc` layer drops its time samples
from memory, so memory does not grow with the number of frames (measured in `tests/files/test_usd.py`). `.usda` is text
and is held in memory until the end. One frame of a recording is one time code.
"""

import contextlib
import dataclasses
import os
import re

import numpy as np

from warpsim.checks import flag, positive
from warpsim.errors import ModelError
from warpsim.files.output import check_file, replacing, usual_mode
from warpsim.files.patch_frames import refuse_without_fields, see_through
from warpsim.files.scene import (
    bounding_radii,
    default_spacing,
    frame_rows,
    grid_origins,
    horizontal_planes,
    shown_spheres,
    world_indices,
)
from warpsim.files.usd import usd_constraints, usd_extra, usd_prims
from warpsim.files.usd.usd_looks import Materials, write_view
from warpsim.files.usd.usd_patches import write_patches
from warpsim.files.usd.usd_values import Names, keep_name, set_pose, vec3
from warpsim.model.host_kinematics import body_pose_chunks, body_poses
from warpsim.model.model import GeomType

SAVE_BYTES = 16 * 2**20  # of time samples between saves of the layer
VIEWED = 9
XFORM_SAMPLE_BYTES = 400  # what one translate and one orient sample of a body take in an unsaved layer
SUFFIXES = (".usd", ".usdc", ".usda", ".usdz")


def write_model(model, path, q=None) -> None:
    """Write `model` at positions `q (nq,)` (default: its initial pose) as a USD stage with UsdPhysics prims."""
    q = np.asarray(model.q0 if q is None else q, dtype=float)
    if q.shape != (model.nq,) or not np.isfinite(q).all():
        raise ValueError(f"q must be ({model.nq},) finite values, got shape {q.shape}")
    with _Output(path) as output:
        stage = _new_stage(output.layer, model)
        poses = body_poses(model, q)
        _write_world(stage, model, poses)
        write_view(stage, *shown_spheres(model, poses))
        output.save()


def write_trajectory(trajectory, path, worlds=None, fps=None, spacing=None, patches=False) -> None:
    """Write an animated stage; the arguments are those of `Trajectory.to_usd`.

    One world: `/World/Robot/<body>` Xforms with translate and orient samples, geoms, masses, joints and materials.
    Several: `/World/Robots`, a point instancer with one prototype per body, `positions` (float) and half-precision
    `orientations` per frame in world-major order; horizontal ground planes once, other fixed geoms once per world.
    """
    if flag(patches, "patches"):
        refuse_without_fields(trajectory.model)
        trajectory = dataclasses.replace(trajectory, model=see_through(trajectory.model))
    model = trajectory.model
    chosen = world_indices(worlds, trajectory.worlds)
    rows, rate = frame_rows(trajectory.clock(), fps)
    if spacing is not None:
        spacing = positive(spacing, "spacing", "m")
    with _Output(path) as output:
        stage = _new_stage(output.layer, model)
        stage.SetStartTimeCode(0)
        stage.SetEndTimeCode(len(rows) - 1)
        stage.SetTimeCodesPerSecond(rate)
        stage.SetFramesPerSecond(rate)
        stage.SetMetadata("comment", f"warpsim: model {model.name!r}, worlds {_short_list(chosen)}")
        spacing = default_spacing(model) if spacing is None else spacing
        origins = grid_origins(len(chosen), spacing)  # that of one world is 0
        _write_view(stage, trajectory, rows, chosen, origins)
        if len(chosen) == 1:
            _stream_world(output, stage, trajectory, rows, int(chosen[0]))
        else:
            _stream_instances(output, stage, trajectory, rows, chosen, spacing)
        if patches:
            write_patches(output, stage, trajectory, rows, chosen, origins)
        output.save()


class _Output:
    """A layer written beside its destination and moved there when whole; nothing is left behind on an error.

    What OpenUSD cannot write, as on a full disk, becomes an `OSError` that names the file.
    """

    def __init__(self, path):
        self.path = check_file(path, SUFFIXES)

    def __enter__(self):
        from pxr import Sdf

        suffix = ".usdc" if self.path.suffix == ".usdz" else self.path.suffix
        self._stack = contextlib.ExitStack()
        with self._stack:  # undone here if opening fails
            self._stack.enter_context(self._told())
            self._done = self._stack.enter_context(replacing(self.path))
            self._mode = usual_mode(self._done.parent)
            self.partial = str(self._done.with_name(f"layer{suffix}"))
            self.layer = Sdf.Layer.CreateNew(self.partial)
            self.unsaved = 0
            self._stack = self._stack.pop_all()
        return self

    def grew(self, count: int) -> None:
        """Note `count` bytes of new samples; save when enough have gathered."""
        self.unsaved += count
        if self.unsaved >= SAVE_BYTES and not self.partial.endswith(".usda"):
            self.save()

    def save(self) -> None:
        if not self.layer.Save():
            raise OSError("the layer could not be saved")
        self.unsaved = 0

    def __exit__(self, kind, error, trace):
        self.layer = None
        if kind is not None:
            return self._stack.__exit__(kind, error, trace)
        with self._stack:
            self._finish()
        from pxr import Sdf

        stale = Sdf.Layer.Find(str(self.path))
        if stale:
            stale.Reload(force=True)
        return None

    def _finish(self) -> None:
        from pxr import Sdf, UsdUtils

        if self.path.suffix != ".usdz":
            os.replace(self.partial, self._done)
        elif not UsdUtils.CreateNewUsdzPackage(Sdf.AssetPath(self.partial), str(self._done)):
            raise OSError("the usdz package could not be made; is the disk full?")
        os.chmod(self._done, self._mode)

    @contextlib.contextmanager
    def _told(self):
        from pxr import Tf

        try:
            yield
        except Tf.ErrorException as error:
            found = re.findall(r" : '(.*?)'\s*$", str(error), flags=re.MULTILINE)
            why = "; ".join(dict.fromkeys(found)) or " ".join(str(error).split())
            raise OSError(f"{self.path} could not be written: {why}") from None


def _short_list(indices) -> str:
    return str(indices.tolist()) if len(indices) <= 16 else f"{indices[0]}..{indices[-1]} ({len(indices)})"


def _new_stage(layer, model):
    from pxr import Usd, UsdGeom, UsdPhysics

    stage = Usd.Stage.Open(layer)
    UsdGeom.SetStageUpAxis(stage, UsdGeom.Tokens.z)
    UsdGeom.SetStageMetersPerUnit(stage, 1.0)
    UsdPhysics.SetStageKilogramsPerUnit(stage, 1.0)
    world = UsdGeom.Xform.Define(stage, "/World")
    stage.SetDefaultPrim(world.GetPrim())
    world.GetPrim().SetCustomDataByKey("warpsim:model", model.name)
    world.GetPrim().SetCustomDataByKey("warpsim:timestep", float(model.timestep))
    usd_extra.write(world.GetPrim(), usd_extra.world_data(model) | usd_constraints.coordinate_data(model))
    scene = UsdPhysics.Scene.Define(stage, "/World/PhysicsScene")
    strength = float(np.linalg.norm(model.gravity))
    direction = model.gravity / strength if strength > 0 else np.array([0.0, 0.0, -1.0])
    scene.CreateGravityDirectionAttr(vec3(direction))
    scene.CreateGravityMagnitudeAttr(strength)
    return stage


def _write_world(stage, model, poses):
    """Bodies at `poses (nbody, 7)`, geoms, joints and materials of one world; returns the bodies' (translate, orient)."""
    from pxr import Usd, UsdGeom

    materials = Materials(stage, "/World/Materials", model)
    robot = UsdGeom.Xform.Define(stage, "/World/Robot")
    Usd.ModelAPI(robot.GetPrim()).SetKind("component")
    Usd.ModelAPI(stage.GetPrimAtPath("/World")).SetKind("assembly")
    names, paths, ops, geom_names = Names(), [], [], {}
    names.taken |= {"Joints", "Constraints"}
    for body, name in enumerate(model.body_names):
        xform = UsdGeom.Xform.Define(stage, f"/World/Robot/{names(name)}")
        ops.append(set_pose(xform, poses[body]))
        keep_name(xform.GetPrim(), name)
        usd_prims.write_mass(xform.GetPrim(), model, body)
        paths.append(str(xform.GetPath()))
    for geom in range(model.ngeom):
        body = int(model.geom_body[geom])
        parent = paths[body] if body >= 0 else "/World/Static"
        if body < 0:
            UsdGeom.Xform.Define(stage, parent)
        usd_prims.write_geom(stage, model, geom, parent, geom_names.setdefault(parent, Names()), materials)
    usd_prims.write_joints(stage, model, paths, "/World/Robot/Joints")
    usd_constraints.write_constraints(stage, model, paths, "/World/Robot/Constraints")
    return ops


def _stream_world(output, stage, trajectory, rows, world: int) -> None:
    from pxr import Gf, Sdf

    model = trajectory.model
    first = next(body_pose_chunks(model, trajectory.q, rows[:1], [world], trajectory.mocap))[0, 0]
    ops = _write_world(stage, model, first)
    moving = [b for b in range(model.nbody) if _moves(model, b)]
    frame, last = 0, first[None, :, 3:]
    for poses in body_pose_chunks(model, trajectory.q, rows, [world], trajectory.mocap):
        quaternions = continuous_signs(poses[:, 0, :, 3:], last[0])
        last = quaternions[-1:]
        for begin in range(0, len(poses), 64):
            part = slice(begin, min(begin + 64, len(poses)))
            positions, turns = poses[part, 0, :, :3].tolist(), quaternions[part].tolist()
            with Sdf.ChangeBlock():
                for position, turn in zip(positions, turns, strict=True):
                    for body in moving:
                        translate, orient = ops[body]
                        translate.Set(Gf.Vec3d(*position[body]), frame)
                        orient.Set(Gf.Quatd(*turn[body]), frame)
                    frame += 1
            output.grew(len(positions) * len(moving) * XFORM_SAMPLE_BYTES)


def _write_view(stage, trajectory, rows, chosen, origins) -> None:
    """A camera that sees every world at `VIEWED` of the frames."""
    viewed = rows[np.unique(np.linspace(0, len(rows) - 1, VIEWED).astype(int))]
    spheres = [
        shown_spheres(trajectory.model, poses, origins)
        for row in viewed
        for poses in body_pose_chunks(trajectory.model, trajectory.q, [row], chosen, trajectory.mocap)
    ]
    write_view(stage, *map(np.concatenate, zip(*spheres, strict=True)))


def _moves(model, body: int) -> bool:
    link = model.body_link[body]
    root = model.tree_link[model.link_tree[link]]
    return bool(model.ancestors(int(link))) or bool(model.body_mocap[model.link_body[root]] >= 0)


def continuous_signs(quaternions, before) -> np.ndarray:
    """Quaternions `(frames, ..., 4)` with signs flipped so that each is nearest to the one before it.

    `before (..., 4)` precedes the first. Interpolating viewers then turn the short way.
    """
    chain = np.concatenate([before[None], quaternions])
    flips = np.where(np.sum(chain[1:] * chain[:-1], axis=-1, keepdims=True) < 0, -1.0, 1.0)
    return quaternions * np.cumprod(flips, axis=0)


def half_quaternions(quaternions) -> np.ndarray:
    """`(..., 4)` float16 in the memory order of `Gf.Quath` (x, y, z, w), from scalar-first quaternions."""
    return np.ascontiguousarray(np.roll(quaternions, -1, axis=-1), dtype=np.float16)


def _stream_instances(output, stage, trajectory, rows, chosen, spacing: float) -> None:
    from pxr import UsdGeom, Vt

    model = trajectory.model
    origins = grid_origins(len(chosen), spacing)
    materials = Materials(stage, "/World/Materials", model)
    _write_static(stage, model, materials, origins, spacing)
    drawable = model.geom_visible.copy()
    drawn = [b for b in range(model.nbody) if (drawable & (model.geom_body == b)).any()]
    if not drawn:
        raise ModelError(f"model {model.name!r} has no visible geom on a body, so there is nothing to draw; add geoms")
    instancer = UsdGeom.PointInstancer.Define(stage, "/World/Robots")
    _write_prototypes(stage, instancer, model, drawn, materials)
    indices = np.tile(np.arange(len(drawn), dtype=np.int32), len(chosen))
    instancer.CreateProtoIndicesAttr(Vt.IntArray.FromNumpy(indices))
    instancer.CreateIdsAttr(Vt.Int64Array.FromNumpy(np.arange(len(indices), dtype=np.int64)))
    instancer.GetPrim().SetCustomDataByKey("warpsim:order", "world-major: instance = world * bodies drawn + body")
    positions, orientations = instancer.CreatePositionsAttr(), instancer.CreateOrientationsAttr()
    radii = np.array([_body_radius(model, b) for b in drawn])[:, None]
    low, high = np.full(3, np.inf), np.full(3, -np.inf)
    before, frame = None, 0
    for poses in body_pose_chunks(model, trajectory.q, rows, chosen, trajectory.mocap):
        poses = poses[:, :, drawn]
        points = poses[..., :3] + origins[:, None]
        low, high = (
            np.minimum(low, (points - radii).min(axis=(0, 1, 2))),
            np.maximum(high, (points + radii).max(axis=(0, 1, 2))),
        )
        turns = continuous_signs(poses[..., 3:], poses[0, ..., 3:] if before is None else before)
        before = turns[-1]
        points = np.ascontiguousarray(points, dtype=np.float32).reshape(len(poses), -1, 3)
        packed = half_quaternions(turns).reshape(len(poses), -1, 4)
        for k in range(len(poses)):
            positions.Set(Vt.Vec3fArray.FromNumpy(points[k]), frame)
            orientations.Set(Vt.QuathArray.FromNumpy(packed[k]), frame)
            frame += 1
            output.grew(points[k].nbytes + packed[k].nbytes)
    instancer.CreateExtentAttr(Vt.Vec3fArray.FromNumpy(np.stack([low, high]).astype(np.float32)))


def _write_prototypes(stage, instancer, model, drawn, materials) -> None:
    """One Xform per drawn body with its visible geoms, as targets of the instancer."""
    from pxr import UsdGeom

    names = Names()
    root = instancer.GetPath().AppendChild("Prototypes")
    UsdGeom.Scope.Define(stage, root)
    targets = []
    for body in drawn:
        path = root.AppendChild(names(model.body_names[body]))
        keep_name(UsdGeom.Xform.Define(stage, path).GetPrim(), model.body_names[body])
        geom_names = Names()
        for geom in np.flatnonzero((model.geom_body == body) & model.geom_visible):
            usd_prims.write_geom(stage, model, int(geom), path, geom_names, materials, physics=False)
        targets.append(path)
    instancer.CreatePrototypesRel().SetTargets(targets)


def _write_static(stage, model, materials, origins, spacing: float) -> None:
    """Geoms fixed to the world: horizontal planes once, over the whole grid; every other one at each world's origin."""
    from pxr import UsdGeom, Vt

    names = Names()
    floors = horizontal_planes(model)
    reach = float(np.abs(origins[:, :2]).max()) + max(spacing, usd_prims.GROUND_HALF_SIZE)
    rest = np.setdiff1d(np.flatnonzero((model.geom_body < 0) & model.geom_visible), floors)
    UsdGeom.Xform.Define(stage, "/World/Static")
    for geom in floors:  # a finite size is one world's; every world needs its floor
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
