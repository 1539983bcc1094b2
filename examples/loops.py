# SPDX-License-Identifier: Apache-2.0
"""Short moving pictures for README and the gallery: `docs/loops/NAME.webp`, each played in real time.

    python -m examples.loops [NAME ...] [--out docs/loops]

Names: humanoids, ant (needs torch), gripper, jar, g1 (needs the files of mjlab: pip install --no-deps mjlab).
Each takes from 5 s to 60 s of processor time, most of it for drawing; g1, whose files have 393,270 triangles, takes five minutes. Needs the extra `show` (Pillow comes with matplotlib).
"""

import argparse
import pathlib
from collections.abc import Callable

import numpy as np

import warpsim as ws
from scenes.jar import lid_puller
from scenes.pressure import grip, spatula_gripper, spatula_start
from warpsim.base.extras import import_or_explain
from warpsim.files.output import replacing
from warpsim.show.render import Camera
from warpsim.show.video import drawn_frames

SIZE = 480, 270
FPS = 15.0
QUALITY = 60  # of WebP, 0 to 100


def humanoids() -> tuple[ws.Trajectory, dict]:
    """36 humanoids drop to the ground under random controls."""
    from warpsim.tools.runs import perturbed_start, smooth_controls

    model = ws.load(ws.robots.path("humanoid"))
    sim = ws.Simulator(model, 36, dt=0.01, device="cpu")
    controls = smooth_controls(model, 36, 300, sim.dt, amplitude=0.4)
    trajectory = sim.rollout(sim.state(*perturbed_start(model, 36, 0.05)), controls)
    return trajectory, {"worlds": 36, "follow": False, "camera": Camera((4.3, -8.6, 4.2), (0.4, 0.0, 0.0), 40.0)}


def ant() -> tuple[ws.Trajectory, dict]:
    """Four ants walk by a policy that gradients through the simulator have trained."""
    import torch
    import warp as wp

    from examples.policy_gradient import SUBSTEPS, Ants, learn, observe

    torch.set_num_threads(1)
    policy, _ = learn(seed=1)
    ants = Ants(4, 7)

    def control(state: ws.State) -> wp.array:
        with torch.no_grad():
            return wp.from_torch(policy(observe(*(wp.to_torch(x, requires_grad=False) for x in (state.q, state.v)))))

    start = ants.sim.state(*(x.numpy() for x in ants.starts()))
    steps = round(4.0 / (ants.sim.dt))
    return ants.sim.rollout(start, control, steps=steps, substeps=SUBSTEPS), {"worlds": 4, "spacing": 2.6}


def gripper() -> tuple[ws.Trajectory, dict]:
    """Soft fingers loosen their grip three times, and the spatula turns between them."""
    model, h = spatula_gripper(), 0.01
    sim = ws.Simulator(model, dt=h, device="cpu", dtype="float64")
    force = grip(h * np.arange(450), low=0.7, period=1.5, duty=0.5)
    trajectory = sim.rollout(sim.state(spatula_start(model)), np.stack([force, -force], axis=-1)[:, None])
    return trajectory, {"follow": False, "camera": Camera((0.6, -0.28, 0.4), (0.21, 0.0, 0.245), 24.0)}


def jar() -> tuple[ws.Trajectory, dict]:
    """Two fingers press a lid and pull it off its jar, which holds it by friction of soft contact."""
    model, h = lid_puller(), 0.005
    sim = ws.Simulator(model, dt=h, device="cpu", dtype="float64")

    def pull(state: ws.State) -> np.ndarray:
        """The fingers close; the base follows a height that grows, by a spring and a damper beside its weight."""
        q, v, t = state.q.numpy()[0], state.v.numpy()[0], float(state.time.numpy()[0])
        height, squeeze = np.interp(t, (0.4, 2.6), (0.0, 0.09)), 100.0 * min(t / 0.2, 1.0)
        lift = 9.81 * 6.05 + 3000.0 * (height - q[0]) - 600.0 * v[0]
        return np.array([[lift, squeeze, -squeeze]])

    trajectory = sim.rollout(sim.state(), pull, steps=600)
    return trajectory, {"follow": False, "camera": Camera((0.3, -0.48, 0.36), (0.0, 0.0, 0.11), 32.0)}


def g1() -> tuple[ws.Trajectory, dict]:
    """Unitree's G1 squats: its position servos follow a reference motion."""
    from warpsim.envs.imitation import squat
    from warpsim.envs.legged import G1, legged_model
    from warpsim.model.targets import target_name

    model, reference = legged_model(G1), squat()["q"]
    sim = ws.Simulator(model, dt=0.005, device="cpu", dtype="float64")
    columns = [model.joint_coordinates(target_name(model, a))[0].start for a in range(model.nu)]
    servos = np.repeat(reference[np.arange(200) % len(reference)][:, columns], 4, axis=0)  # 50 frames a second, 4 s
    trajectory = sim.rollout(sim.state(reference[:1]), servos[:, None])
    return trajectory, {"follow": False, "camera": Camera((2.2, -1.6, 1.1), (0.0, 0.0, 0.55), 32.0)}


LOOPS: dict[str, Callable[[], tuple[ws.Trajectory, dict]]] = {
    "humanoids": humanoids,
    "ant": ant,
    "gripper": gripper,
    "jar": jar,
    "g1": g1,
}


def write(trajectory: ws.Trajectory, path: pathlib.Path, worlds=1, **view) -> None:
    """Draw a trajectory and write it as an animation that repeats for ever."""
    pillow = import_or_explain("PIL.Image", "show")
    draw, frames, rate = drawn_frames(trajectory, worlds, FPS, *SIZE, **view)
    images = [pillow.fromarray(draw(k)) for k in range(frames)]
    duration = [round(1000 / rate)] * (frames - 1) + [800]  # ms; the last one stays for a moment
    options = {"save_all": True, "append_images": images[1:], "duration": duration, "loop": 0}
    with replacing(path) as new:
        images[0].save(new, format="WEBP", quality=QUALITY, method=4, **options)
    print(f"wrote {path}: {frames} frames, {path.stat().st_size / 1e6:.2f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(LOOPS)}; all if none is given")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("docs/loops"), help="folder")
    given = parser.parse_args()
    if unknown := set(given.names) - set(LOOPS):
        parser.error(f"no loop {sorted(unknown)}; there are: {', '.join(LOOPS)}")
    given.out.mkdir(parents=True, exist_ok=True)
    for name in given.names or LOOPS:
        trajectory, view = LOOPS[name]()
        write(trajectory, given.out / f"{name}.webp", **view)


if __name__ == "__main__":
    main()
