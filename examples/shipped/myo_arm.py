# SPDX-License-Identifier: Apache-2.0
"""A MyoSuite elbow bends under its muscles: flexors and extensors in turn. python -m examples.shipped.myo_arm FOLDER [out.html]"""

import sys

import numpy as np

import warpsim as ws
from examples.shipped import dressed, load

STEPS, EVERY = 1500, 5  # of 2 ms
FLEXORS, EFFORTS = ("BIClong", "BICshort", "BRA"), np.array([0.2, 0.4, 0.6, 1.0])


def bend(folder, seed=0):
    """The run, and the elbow's angles by effort [degrees], (frames, EFFORTS), from random ones on."""
    model = dressed(load(folder, "assets/elbow/myoelbow_1dof6muscles.xml"), ["geom_1", "geom_3"])  # without the room
    sim, elbow = ws.Simulator(model, worlds=len(EFFORTS), dt=0.002), model.joint_q[model.joint("r_elbow_flex")]
    flexes = np.array([name in FLEXORS for name in model.actuator_names])
    q = np.tile(model.q0, (len(EFFORTS), 1))
    q[:, elbow] = np.random.default_rng(seed).uniform(0, 2, len(EFFORTS))

    def control(state):
        second = int(state.time.numpy()[0]) % 2
        return np.where(flexes == (second == 0), EFFORTS[:, None], 0.01)

    run = sim.rollout(sim.state(q), control, STEPS, every=EVERY)
    return run, np.rad2deg(run.q.numpy()[:, :, elbow])


if __name__ == "__main__":
    run, angles = bend(sys.argv[1])
    ends = np.arange(1, 4) * STEPS // (3 * EVERY)
    print("elbow [degrees] after each second, by effort:", angles[ends].T.round().tolist())
    run.to_html(*(sys.argv[2:] or ["out/myo_arm.html"]), spacing=1.0)
