# SPDX-License-Identifier: Apache-2.0
"""Adroit's hand takes a ball from its table, carries it to its place and holds it. python -m examples.shipped.adroit_ball FOLDER [out.html]"""

import sys

import numpy as np

import warpsim as ws
from examples.shipped import dressed, glide, load, servo, with_goal
from warpsim.model.geometry import compose

WORLDS, MOVE, REST, HOLD = 9, 450, 100, 1500  # steps of 2 ms
GRIP = [-0.011, 0.051, -0.077, 1, 0, 0, 0]  # m, the palm as the ball sees it
TILT = [0, 0, 0, np.cos(0.075), -np.sin(0.075), 0, 0]  # rad, fingers lower than the wrist
OPEN, CLOSED = [*[0] * 17, 0.9, 0, 0, 0, 0], [*[0, 1.5, 1.5, 1.5] * 3, 0, 0, 1.5, 1.5, 1.5, 0.9, 1, -0.1, -0.05, -0.3]


def carry(folder, seed=0):
    """The run, and how far from its goal each ball is in the steps in which it is to be held [m], (frames, WORLDS)."""
    model = load(folder, "adroit_hand/adroit_relocate.xml")
    model = dressed(model, [f"geom_{leg}" for leg in (2, 3, 4, 5)], sphere=(0.9, 0.1, 0.1, 1))  # a table without legs
    model, rng = with_goal(model, 0.035, (0.1, 0.8, 0.2, 0.3)), np.random.default_rng(seed)
    exact, q = ws.Simulator(model, WORLDS, dtype="float64"), np.tile(model.q0, (WORLDS, 1))
    palm = exact.kinematics(q).numpy()[0, model.body("palm")] * [0, 0, 0, 1, 1, 1, 1]
    ball = rng.uniform([-0.15, -0.15, 0.035], [0.15, 0.3, 0.035], (WORLDS, 3))
    goal = rng.uniform([-0.2, -0.2, 0.15], [0.2, 0.2, 0.25], (WORLDS, 3))
    q[:, [model.joint_q[model.joint(f"OBJT{x}")] for x in "xyz"]] = ball - [0, 0, 0.035]
    above, reached, controls = ball + [0, 0, 0.12], [], []
    for place, fingers in ((above, OPEN), (ball, OPEN), (ball, CLOSED), (above, CLOSED), (goal, CLOSED)):
        grip = compose(compose(np.pad(place, ((0, 0), (0, 4))) + TILT, palm), GRIP)
        reached.append(ws.reach(exact, [q, *reached][-1], {"palm": grip}).q)
        controls.append(np.hstack([servo(exact, reached[-1])[:, :8], np.tile(fingers, (WORLDS, 1))]))
    controls = np.concatenate([glide(controls, MOVE, REST), np.tile(controls[-1], (HOLD, 1, 1))])
    mocap = np.tile(model.mocap0, (WORLDS, 1, 1))
    mocap[:, 1, :3] = goal
    sim = ws.Simulator(model, WORLDS)
    run = sim.rollout(sim.state(reached[0], mocap=mocap), controls, every=10)
    return run, np.linalg.norm(run.poses()[-HOLD // 10 :, :, model.body("Object"), :3] - goal, axis=-1)


if __name__ == "__main__":
    run, miss = carry(sys.argv[1])
    print(f"{(miss < 0.1).all(axis=0).sum()} of {WORLDS} balls held for {HOLD * 0.002:g} s, "
          f"{1e3 * np.median(miss):.0f} mm from their places in the median, {1e3 * miss.max():.0f} mm at most")  # fmt: skip
    run.to_html(*(sys.argv[2:] or ["out/adroit.html"]), worlds=range(4), spacing=1.0)
