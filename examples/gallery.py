"""Run the scenes of `scenes/examples.py` and leave a picture, a web page and a USD stage of each in out/.

python -m examples.gallery [NAME ...]     (stack dominoes gripper clutter; hills too, which needs the gymnasium package)
"""

import pathlib
import sys

from scenes.examples import SCENES, Scene, quadruped_among_objects


def run(name: str, out: pathlib.Path) -> None:
    """Roll one scene out, print what happened, write its outputs. A name that is not a scene's is a quadruped's URDF."""
    scene = SCENES.get(name) or Scene(lambda: quadruped_among_objects(name), 2.0)
    name = pathlib.Path(name).stem
    _, trajectory = scene.play(every=2)
    error = trajectory.diagnostics["momentum_error"].numpy().max()
    flags = int(trajectory.diagnostics["flags"].numpy().max())
    print(f"{name}: {trajectory.steps} steps, worst momentum error {error:.1e}, flags {flags}")
    trajectory.render(out / f"{name}.png")
    trajectory.to_html(out / f"{name}.html")
    trajectory.to_usd(out / f"{name}.usd")


if __name__ == "__main__":
    folder = pathlib.Path("out")
    folder.mkdir(exist_ok=True)
    for scene in sys.argv[1:] or ("stack", "dominoes", "gripper", "clutter"):
        run(scene, folder)
