# SPDX-License-Identifier: Apache-2.0
"""Run the scenes of `scenes/examples.py` and leave a picture, a web page and a USD stage of each in out/.

python -m examples.gallery [NAME ...]     (stack dominoes gripper clutter; hills too, which needs the gymnasium package, pressure, and
                                           panda, which needs pip install --no-deps robosuite)
"""

import dataclasses
import pathlib
import sys

from scenes import gripping, pressure
from scenes.examples import SCENES, Scene, quadruped_among_objects
from warpsim.show.render import Camera

MORE = {
    "pressure": Scene(pressure.heap, 1.5),
    "panda": Scene(gripping.pick, 3.2, controls=gripping.pick_controls, keyframe="home"),
}


@dataclasses.dataclass(frozen=True)
class Shot:
    """A scene's picture: when [s], None: at the end; and from where, None: so that all of it is seen."""

    time: float | None = None
    camera: Camera | None = None
    patches: bool = False


SHOTS = {
    "stack": Shot(),
    "dominoes": Shot(0.45, Camera((0.08, -0.72, 0.27), (0.255, 0.0, 0.015), 26.0)),
    "clutter": Shot(1.0),
    "gripper": Shot(1.7, Camera((0.9, -1.3, 0.65), (0.0, 0.0, 0.22), 28.0)),
    "hills": Shot(0.55, Camera((2.6, -3.0, 1.7), (0.15, 0.0, 0.95), 32.0)),
    "pressure": Shot(None, Camera((0.36, -0.72, 0.66), (0.01, 0.0, 0.11), 24.0), patches=True),
    "panda": Shot(3.0, Camera((1.7, -1.3, 1.0), (0.25, 0.05, 0.38), 22.0)),
}


def run(name: str, out: pathlib.Path) -> None:
    """Roll one scene out, print what happened, write its outputs. A name that is not a scene's is a quadruped's URDF."""
    scene = (SCENES | MORE).get(name) or Scene(lambda: quadruped_among_objects(name), 2.0)
    shot, name = SHOTS.get(name, Shot()), pathlib.Path(name).stem
    _, trajectory = scene.play(every=2)
    error = trajectory.diagnostics["momentum_error"].numpy().max()
    flags = int(trajectory.diagnostics["flags"].numpy().max())
    print(f"{name}: {trajectory.steps} steps, worst momentum error {error:.1e}, flags {flags}")
    times = trajectory.time.numpy()[:, 0]
    row = -1 if shot.time is None else int(abs(times - shot.time).argmin())
    trajectory.render(out / f"{name}.png", frame=row, camera=shot.camera, patches=shot.patches, width=640, height=360)
    trajectory.to_html(out / f"{name}.html")
    trajectory.to_usd(out / f"{name}.usd")


if __name__ == "__main__":
    folder = pathlib.Path("out")
    folder.mkdir(exist_ok=True)
    for scene in sys.argv[1:] or ("stack", "dominoes", "gripper", "clutter"):
        run(scene, folder)
