# SPDX-License-Identifier: Apache-2.0
"""metaworld's Sawyer follows its mocap body from ball to ball over its table. python -m examples.shipped.metaworld_reach FOLDER [out.html]"""

import sys

import numpy as np

import warpsim as ws
from examples.shipped import glide, leader, load, with_goal

WORLDS, GOALS, MOVE, REST = 9, 5, 320, 80  # steps of 2.5 ms
HOME = [0, 0.6, 0.25, np.sqrt(0.5), 0, np.sqrt(0.5), 0]  # the gripper looks down


def follow(folder, seed=0):
    """The run, and the distance [m] of the hand from where it is led, (frames, WORLDS)."""
    model = with_goal(load(folder, "sawyer_xyz/sawyer_reach_v3.xml"))
    exact = ws.Simulator(model, dtype="float64")
    start = ws.reach(exact, model.q0, {"hand": HOME}, iterations=100).q
    goals = np.tile(HOME, (GOALS, WORLDS, 1))
    goals[..., :3] += np.random.default_rng(seed).uniform([-0.25, -0.15, -0.1], [0.25, 0.15, 0.1], (GOALS, WORLDS, 3))
    poses = glide([np.tile(HOME, (WORLDS, 1)), *goals], MOVE, REST)
    mocap = leader(model, "hand", poses, np.repeat(goals, MOVE + REST, axis=0))
    sim = ws.Simulator(model, worlds=WORLDS)
    run = sim.rollout(sim.state(np.tile(start, (WORLDS, 1)), mocap=mocap[0]), mocap=mocap, every=8)
    return run, np.linalg.norm(run.poses()[1:, :, model.body("hand"), :3] - poses[7::8, :, :3], axis=-1)


if __name__ == "__main__":
    run, lag = follow(sys.argv[1])
    print(f"behind its mocap by {1e3 * np.median(lag):.3f} mm in the median, {1e3 * lag.max():.3f} mm at most")
    run.to_html(*(sys.argv[2:] or ["out/metaworld.html"]), worlds=range(4), spacing=2.2)
