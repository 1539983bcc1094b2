# SPDX-License-Identifier: Apache-2.0
"""Fetch reaches for green balls: its gripper is welded to a mocap body, which is led. python -m examples.shipped.fetch_reach FOLDER [out.html]"""

import sys

import numpy as np

import warpsim as ws
from examples.shipped import glide, leader, load, with_goal

WORLDS, GOALS, MOVE, REST = 9, 5, 400, 100  # steps of 2 ms
HAND, DOWN = "robot0:gripper_link", [np.sqrt(0.5), 0, np.sqrt(0.5), 0]
BASE = [0.4049, 0.48, 0]  # m, where the task has it
ASIDE, HOME = [1.6, 0.6, 0.7, 1, 0, 0, 0], [1.34, 0.75, 0.6, *DOWN]  # a stretched arm cannot be led straight inwards


def reach(folder, seed=0):
    """The run, how far from its goals each gripper rests, (GOALS, WORLDS), and from where it is led, (frames, WORLDS) [m]."""
    model = with_goal(load(folder, "assets/fetch/reach.xml"))
    sim, q, hand = ws.Simulator(model, worlds=WORLDS), model.q0.copy(), model.body(HAND)
    q[:3] = BASE
    stops = [np.tile(pose, (WORLDS, 1)) for pose in (sim.kinematics(q).numpy()[0, hand], ASIDE)]
    goals = np.tile(HOME, (GOALS, WORLDS, 1))
    goals[..., :3] += np.random.default_rng(seed).uniform(-0.15, 0.15, goals[..., :3].shape)
    poses = glide([*stops, *goals], MOVE, REST)
    shown = np.repeat([goals[0], *goals], MOVE + REST, axis=0)
    run = sim.rollout(sim.state(np.tile(q, (WORLDS, 1))), mocap=leader(model, HAND, poses, shown), every=10)
    found, ends = run.poses()[1:, :, hand, :3], np.arange(2, GOALS + 2) * (MOVE + REST) // 10 - 1
    misses = np.linalg.norm(found[ends] - goals[..., :3], axis=-1)
    return run, misses, np.linalg.norm(found - poses[9::10, :, :3], axis=-1)


if __name__ == "__main__":
    run, misses, lag = reach(sys.argv[1])
    print(
        f"{misses.size} goals missed by {1e6 * np.median(misses):.1f} µm in the median, by {1e6 * misses.max():.1f} at most"
    )
    print(f"behind its mocap body by {1e6 * np.median(lag):.1f} µm in the median, by {1e6 * lag.max():.0f} at most")
    run.to_html(*(sys.argv[2:] or ["out/fetch.html"]), worlds=range(4), spacing=2.0)
