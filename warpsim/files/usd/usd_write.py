# SPDX-License-Identifier: Apache-2.0
"""OpenUSD export of a model, of one world with physics, or of many worlds on a grid (`usd_worlds.py`).

Frames are written in chunks, and the layer is saved as it grows (`usd_output.py`). So memory does not grow with the
number of frames, and a stored trajectory is read as it is written (measured in `benchmarks/usd_streaming.py`). One
frame of a recording is one time code.
"""

import dataclasses

import numpy as np

from warpsim.base.checks import choice, flag, positive, short
from warpsim.files.patch_frames import refuse_without_fields, see_through
from warpsim.files.scene import default_spacing, frame_rows, grid_origins, shown_spheres
from warpsim.files.usd import usd_constraints, usd_extra, usd_prims
from warpsim.files.usd.usd_looks import Materials, write_cameras, write_view
from warpsim.files.usd.usd_output import ClipOutput, Output
from warpsim.files.usd.usd_patches import write_patches
from warpsim.files.usd.usd_recorded import Recorded
from warpsim.files.usd.usd_tendons import Tendons
from warpsim.files.usd.usd_values import Names, keep_name, set_pose, vec3
from warpsim.files.usd.usd_worlds import stream_instances, stream_named, stream_poses
from warpsim.model.host_kinematics import body_pose_chunks, body_poses
from warpsim.state.trajectory import warn_undrawn, world_indices

FORMS = ("instanced", "named")
VIEWED = 5  # number of frames that the stage's camera shows entirely


def write_model(model, path, q=None) -> None:
    """Write `model` at positions `q (nq,)` (default: its initial pose) as a USD stage with UsdPhysics prims."""
    q = np.asarray(model.q0 if q is None else q, dtype=float)
    if q.shape != (model.nq,) or not np.isfinite(q).all():
        raise ValueError(f"q must be ({model.nq},) finite values, got shape {q.shape}")
    with Output(path) as output:
        stage = _new_stage(output.layer, model)
        poses = body_poses(model, q)
        _write_world(stage, model, poses, output.images)
        Tendons(stage, model, "/World").still(model, q)
        write_view(stage, *shown_spheres(model, poses))


def write_trajectory(
    trajectory,
    path,
    worlds=None,
    fps=None,
    spacing=None,
    patches=False,
    form=None,
    frames_per_file=None,
    diagnostics=False,
    contact_forces=None,
) -> None:
    """Write an animated stage; the arguments are those of `Trajectory.to_usd`.

    A single world, without `form`, is written as Xforms `/World/Robot/<body>` with translate and orient samples, geoms,
    masses, joints and materials.
    """
    if flag(patches, "patches"):
        refuse_without_fields(trajectory.model)
        if frames_per_file is not None:
            raise ValueError("patches=True with frames_per_file: patches come and go; leave one of them out")
        trajectory = dataclasses.replace(trajectory, model=see_through(trajectory.model))
    model = trajectory.model
    form = choice(form, "form", FORMS) if form is not None else None
    chosen = world_indices(worlds, trajectory.worlds)
    if form == "named" and len(np.unique(chosen)) < len(chosen):
        raise ValueError(f"worlds={short(chosen.tolist())}: form='named' gives a world one place; name each once")
    recorded = Recorded(trajectory, chosen, flag(diagnostics, "diagnostics"), contact_forces)
    warn_undrawn(trajectory)
    rows, rate = frame_rows(trajectory.clock(), fps)
    spacing = default_spacing(model) if spacing is None else positive(spacing, "spacing", "m")
    origins = grid_origins(len(chosen), spacing)  # the origin of a single world is 0
    with Output(path) if frames_per_file is None else ClipOutput(path, frames_per_file) as output:
        stage = _new_stage(output.layer, model)
        stage.SetStartTimeCode(0)
        stage.SetEndTimeCode(len(rows) - 1)
        stage.SetTimeCodesPerSecond(rate)
        stage.SetFramesPerSecond(rate)
        stage.SetMetadata("comment", f"warpsim: model {model.name!r}, worlds {_short_list(chosen)}")
        _write_view(stage, trajectory, rows, chosen, origins)
        if form is None and len(chosen) == 1:
            first = next(body_pose_chunks(model, trajectory.q, rows[:1], chosen, trajectory.mocap))[0, 0]
            bodies, ops = _write_world(stage, model, first, output.images)
            stream_poses(output, trajectory, rows, chosen, ops)
            Tendons(stage, model, "/World").stream(output, trajectory, rows, int(chosen[0]))
            recorded.on_prims(output, rows, [stage.GetPrimAtPath("/World/Robot")], [bodies])
        elif form == "named":
            owners, bodies = stream_named(output, stage, trajectory, rows, chosen, origins, spacing)
            for world, owner in zip(chosen.tolist(), owners, strict=True):
                Tendons(stage, model, str(owner.GetPath())).stream(output, trajectory, rows, world)
            recorded.on_prims(output, rows, owners, bodies)
        else:
            drawn = stream_instances(output, stage, trajectory, rows, chosen, origins, spacing)
            recorded.on_instances(output, stage, rows, drawn)
        if patches:
            write_patches(output, stage, trajectory, rows, chosen, origins)


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
    usd_extra.write(world.GetPrim(), usd_extra.world_data(model))
    scene = UsdPhysics.Scene.Define(stage, "/World/PhysicsScene")
    strength = float(np.linalg.norm(model.gravity))
    direction = model.gravity / strength if strength > 0 else np.array([0.0, 0.0, -1.0])
    scene.CreateGravityDirectionAttr(vec3(direction))
    scene.CreateGravityMagnitudeAttr(strength)
    return stage


def _write_view(stage, trajectory, rows, chosen, origins) -> None:
    """Write lights and a camera that sees all worlds at `VIEWED` frames; for a grid, the outer worlds decide."""
    viewed = rows[np.unique(np.linspace(0, len(rows) - 1, VIEWED).astype(int))]
    at_edge = (origins[:, :2] == origins[:, :2].min(axis=0)) | (origins[:, :2] == origins[:, :2].max(axis=0))
    seen = np.flatnonzero(at_edge.any(axis=1))
    spheres = [
        shown_spheres(trajectory.model, poses, origins[seen])
        for row in viewed
        for poses in body_pose_chunks(trajectory.model, trajectory.q, [row], chosen[seen], trajectory.mocap)
    ]
    write_view(stage, *map(np.concatenate, zip(*spheres, strict=True)))


def _write_world(stage, model, poses, images) -> tuple[list, list]:
    """Write bodies at `poses (nbody, 7)`, geoms, joints and materials of one world.

    Returns the bodies' prims, and their (translate, orient) ops.
    """
    from pxr import Usd, UsdGeom

    materials = Materials(stage, "/World/Materials", model, images)
    robot = UsdGeom.Xform.Define(stage, "/World/Robot")
    Usd.ModelAPI(robot.GetPrim()).SetKind("component")
    Usd.ModelAPI(stage.GetPrimAtPath("/World")).SetKind("assembly")
    names, prims, ops, geom_names = Names(), [], [], {}
    names.taken |= {"Joints", "Constraints"}
    for body, name in enumerate(model.body_names):
        xform = UsdGeom.Xform.Define(stage, f"/World/Robot/{names(name)}")
        ops.append(set_pose(xform, poses[body]))
        keep_name(xform.GetPrim(), name)
        usd_prims.write_mass(xform.GetPrim(), model, body)
        prims.append(xform.GetPrim())
    paths = [str(prim.GetPath()) for prim in prims]
    for geom in range(model.ngeom):
        body = int(model.geom_body[geom])
        parent = paths[body] if body >= 0 else "/World/Static"
        if body < 0:
            UsdGeom.Xform.Define(stage, parent)
        usd_prims.write_geom(stage, model, geom, parent, geom_names.setdefault(parent, Names()), materials)
    write_cameras(stage, model, paths, geom_names)
    usd_prims.write_joints(stage, model, paths, "/World/Robot/Joints")
    usd_constraints.write_constraints(stage, model, paths, "/World/Robot/Constraints")
    return prims, ops
