# SPDX-License-Identifier: Apache-2.0
"""Pictures of our USD by Blender, on the CPU: an ant, four of them, a gripper that lifts a box, a clutter, pressure between two geoms,
images on a floor and on meshes.

python -m benchmarks.blender --blender PYTHON [--out docs] [--only usd_ant ...] [--corpus build/corpus]

PYTHON is an interpreter that has the package `bpy`, which needs a Python of its own version (5.0: 3.11). The scenes are made here, exported,
imported there by `bpy.ops.wm.usd_import` and rendered as they stand in the file: its camera, its lights, its materials. Fails where a mesh came
without a material, or where a picture has no colours. `usd_objects` needs robosuite, unpacked in the corpus (`make corpus`), and is left out without.
"""

import argparse
import math
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Callable

WIDTH, HEIGHT, SAMPLES = 480, 360, 32
LARGEST = 120_000  # bytes of a picture
COLOURED, COLOUR = 0.01, 0.15  # least share of pixels whose channels differ by more than the second


def _ant(worlds: int):
    import warpsim as ws

    sim = ws.Simulator(ws.load(ws.robots.path("ant")), worlds, dt=0.01, device="cpu")
    return sim.rollout(sim.state(), ws.RandomControls(seed=3, scale=0.6), 120)


def _gripper():
    import warpsim as ws
    from scenes.examples import grip_and_lift, gripper

    sim = ws.Simulator(gripper(), device="cpu")
    return sim.rollout(sim.state(), grip_and_lift(400)[:, None], 400)


def _clutter():
    import warpsim as ws
    from scenes.examples import clutter

    sim = ws.Simulator(clutter(60), dt=0.01, device="cpu")
    fallen = sim.rollout(sim.state(), steps=150).final
    return sim.rollout(fallen, steps=50)


def _pressure():
    import warpsim as ws
    from scenes.pressure import drop

    model = drop(("ellipsoid", (0.09, 0.06, 0.05)), 2e4, 0.01, 0.8, ("half_space", None, None), 0.3, 0.02)
    sim = ws.Simulator(model, dt=0.005, device="cpu")
    return sim.rollout(sim.state([0, 0, 0.06, 1, 0, 0, 0]), steps=60)


def _floor():
    import gymnasium

    import warpsim as ws

    return ws.load(pathlib.Path(gymnasium.__file__).parent / "envs/mujoco/assets/ant.xml")


def _objects(corpus: pathlib.Path):
    """robosuite's groceries on a board; None without them."""
    import warpsim as ws
    from warpsim.model.geometry import rotate
    from warpsim.model.host_kinematics import body_poses

    root = corpus / "robosuite" / "models" / "assets"
    if not root.is_dir():
        return None
    b = ws.ModelBuilder("groceries")
    wood = ws.VisualMaterial(ws.Texture.read(root / "textures" / "light-wood.png"), repeat=(2, 2), uniform=True)
    b.add_geom("box", [0.22, 0.16, 0.015], pose=[0, 0, -0.015], name="board", material=wood, rgba=[1, 1, 1, 1])
    at = {"can": (-0.16, 0.0, 0.4), "cereal": (-0.06, 0.07, 0.3), "milk": (0.04, -0.04, 0.5)}
    at |= {"bread": (0.1, 0.07, 0.2), "lemon": (0.12, -0.08, 1.0)}
    for name, (x, y, turn) in at.items():
        b.friction_rule = b.filter_parent = None
        part = ws.load(root / "objects" / f"{name}.xml", root=root)
        turned = rotate(body_poses(part, part.q0)[-1, 3:], rotate(part.geom_pose[0, 3:], part.meshes[0].vertices))
        z = -(turned[:, 2].min() + body_poses(part, part.q0)[-1, 2] + part.geom_pose[0, 2])  # it stands on the board
        b.add_model(part, pose=[x, y, z, math.cos(turn / 2), 0, 0, math.sin(turn / 2)], prefix=f"{name}_")
    return b.build()


# Name: trajectory or model, options of to_usd, and the frame that is drawn.
PICTURES: dict[str, tuple[Callable, dict, int]] = {
    "usd_ant": (lambda: _ant(1), {}, 40),
    "usd_ants": (lambda: _ant(4), {}, 40),
    "usd_gripper": (_gripper, {}, 110),
    "usd_clutter": (_clutter, {}, 40),
    "usd_floor": (_floor, {}, 0),
    "usd_objects": (_objects, {}, 0),
    "usd_pressure": (_pressure, {"patches": True}, 15),
}


def render(stage: str, picture: str, frame: int) -> None:
    """Import a stage into Blender, in this process, and render a frame through its camera."""
    import bpy

    bpy.ops.wm.read_factory_settings(use_empty=False)  # with a world, which takes the sky
    for thing in list(bpy.data.objects):
        bpy.data.objects.remove(thing)
    bpy.ops.wm.usd_import(filepath=stage)
    drawn = [thing for thing in bpy.data.objects if thing.type == "MESH"]
    bare = [thing.name for thing in drawn if not any(thing.data.materials)]
    if bare or not drawn:
        raise SystemExit(f"{len(drawn)} meshes, without a material: {bare}")
    scene = bpy.context.scene
    scene.camera = next(thing for thing in bpy.data.objects if thing.type == "CAMERA")
    scene.render.engine, scene.cycles.device = "CYCLES", "CPU"
    scene.cycles.samples, scene.cycles.use_denoising = SAMPLES, True
    scene.render.resolution_x, scene.render.resolution_y, scene.render.resolution_percentage = WIDTH, HEIGHT, 100
    scene.view_settings.view_transform = "Standard"
    scene.render.image_settings.color_mode, scene.render.image_settings.compression = "RGB", 100
    scene.frame_set(frame)
    scene.render.filepath = picture
    bpy.ops.render.render(write_still=True)


def _finish(picture: pathlib.Path) -> None:
    """Colours of a palette, which is a third of the bytes; that there are some, and not too many bytes."""
    import numpy as np
    from PIL import Image

    image = Image.open(picture).convert("RGB")
    values = np.asarray(image, float) / 255
    share = float((values.max(axis=-1) - values.min(axis=-1) > COLOUR).mean())
    image.quantize(256, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE).save(picture, optimize=True)
    size = picture.stat().st_size
    if share < COLOURED or size > LARGEST:
        raise SystemExit(f"{picture}: {share:.2%} of it is coloured, {size} bytes")
    print(f"{picture}: {share:.1%} coloured, {size} bytes", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blender", default=sys.executable, help="a Python that has bpy")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("docs"))
    parser.add_argument("--only", nargs="*", choices=PICTURES, default=list(PICTURES))
    parser.add_argument("--corpus", type=pathlib.Path, default=pathlib.Path("build/corpus"))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    code = "import sys; from benchmarks.blender import render; render(sys.argv[1], sys.argv[2], int(sys.argv[3]))"
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.only:
            make, options, frame = PICTURES[name]
            stage, picture = f"{folder}/{name}.usdc", arguments.out.absolute() / f"{name}.png"
            shown = make(arguments.corpus) if make is _objects else make()
            if shown is None:
                print(f"{picture}: not drawn, there is no robosuite in {arguments.corpus}", flush=True)
                continue
            shown.to_usd(stage, **options)
            subprocess.run([arguments.blender, "-c", code, stage, str(picture), str(frame)], check=True)
            _finish(picture)


if __name__ == "__main__":
    main()
