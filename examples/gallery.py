"""Run the scenes of `example_scenes.py` and leave a picture, a web page and a USD stage of each in out/.

python examples/gallery.py [stack dominoes gripper clutter]
"""

import pathlib
import sys

from example_scenes import clutter, dominoes, grip_and_lift, gripper, hills, quadruped_among_objects, stack

import warpsim as ws


def run(name: str, out: pathlib.Path) -> None:
    """Roll one scene out, print what happened, write its outputs."""
    scenes = {
        "stack": (lambda: stack(10), 2.0),
        "dominoes": (lambda: dominoes(20), 2.0),
        "gripper": (gripper, 3.0),
        "clutter": (lambda: clutter(40), 4.0),
        "hills": (hills, 2.0),
    }
    build, seconds = scenes.get(name, (lambda: quadruped_among_objects(name), 2.0))
    name = pathlib.Path(name).stem
    model = build()
    sim = ws.Simulator(model)
    state = sim.state()
    steps = round(seconds / sim.dt)
    controls = None
    if name == "gripper":
        controls = grip_and_lift(steps, sim.dt)[:, None]
    elif name == "dominoes":
        v = state.v.numpy()
        v[0, model.joint_coordinates("ball_free")[1].start] = 2.0
        state = sim.state(v=v)
    trajectory = sim.rollout(state, controls, steps, every=2)
    error = trajectory.diagnostics["momentum_error"].numpy().max()
    flags = int(trajectory.diagnostics["flags"].numpy().max())
    print(f"{name}: {steps} steps, worst momentum error {error:.1e}, flags {flags}")
    trajectory.render(out / f"{name}.png")
    trajectory.to_html(out / f"{name}.html")
    trajectory.to_usd(out / f"{name}.usd")


if __name__ == "__main__":
    folder = pathlib.Path("out")
    folder.mkdir(exist_ok=True)
    for scene in sys.argv[1:] or ("stack", "dominoes", "gripper", "clutter"):
        run(scene, folder)
