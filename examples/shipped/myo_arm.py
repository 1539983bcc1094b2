"""A MyoSuite elbow bends under its muscles: flexors and extensors in turn. python -m examples.shipped.myo_arm FOLDER [out.html]"""

import sys

import numpy as np

import warpsim as ws
from examples.shipped import found

STEPS = 1500
FLEXORS = ("BIClong", "BICshort", "BRA")

if __name__ == "__main__":
    file = found(sys.argv[1], "assets/elbow/myoelbow_1dof6muscles.xml")
    model = ws.load(file, root=sys.argv[1], unsupported="report")
    sim = ws.Simulator(model, worlds=4, dt=0.002)
    flexes = np.array([name in FLEXORS for name in model.actuator_names])
    effort = np.array([0.2, 0.4, 0.6, 1.0])[:, None]

    def control(state):
        second = int(state.time.numpy()[0]) % 2
        return np.where(flexes == (second == 0), effort, 0.01)

    run = sim.rollout(sim.state(), control, STEPS, every=5)
    j = model.joint_q[model.joint("r_elbow_flex")]
    bent = np.rad2deg(run.q.numpy()[:, :, j])
    print("elbow [degrees], least and most by effort:", np.round(np.stack([bent.min(0), bent.max(0)], axis=1)).tolist())
    run.to_html(*(sys.argv[2:] or ["out/myo_arm.html"]))
