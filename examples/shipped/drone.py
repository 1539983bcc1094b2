# SPDX-License-Identifier: Apache-2.0
"""A quadrotor: four motors at sites lift it to a point each, and hold it there in the wind. python -m examples.shipped.drone [out.html]"""

import sys

import numpy as np

import warpsim as ws

ARM, DRAG, MASS = 0.14, 0.02, 0.3  # m, m (torque over thrust), kg
CORNERS = np.array([[1, 1], [-1, 1], [-1, -1], [1, -1]]) * ARM
WORLDS, STEPS = 9, 600


def model() -> ws.Model:
    b = ws.ModelBuilder("drone", timestep=0.01, density=1.2, viscosity=1.8e-5, wind=(1.0, 0.5, 0.0))
    b.add_geom("plane")
    body = b.add_body("drone", pose=[0, 0, 0.1], mass=MASS, inertia=[2e-3, 2e-3, 4e-3])
    b.add_joint(body, "free")
    b.add_geom("box", [0.05, 0.05, 0.02], body=body, rgba=(0.2, 0.2, 0.25, 1), density=0)
    for k, (x, y) in enumerate(CORNERS):
        b.add_geom("cylinder", [0.06, 0.004], body=body, pose=[x, y, 0.02], rgba=(0.9, 0.5, 0.1, 1), density=0)
        b.add_geom("capsule", [0.008, ARM * 0.7], body=body, rgba=(0.3, 0.3, 0.3, 1), density=0,
                   pose=[x / 2, y / 2, 0, np.sqrt(0.5), -np.sign(y) * 0.5, np.sign(x) * 0.5, 0])  # fmt: skip
        site = b.add_site(f"motor_{k}", body=body, pose=[x, y, 0.02])
        gear = [0, 0, 1, 0, 0, DRAG * (-1) ** k]
        b.add_actuator(site=site, kind="effort", gear=gear, control_range=(0, 3), name=f"thrust_{k}")
    return b.build()


def hover(seed=0):
    """The run, and how far each drone is from its goal in the end [m], (WORLDS,): position to tilt, tilt to torque."""
    goals = np.random.default_rng(seed).uniform([-0.5, -0.5, 0.8], [0.5, 0.5, 1.6], (WORLDS, 3))
    mix = np.linalg.inv(np.stack([np.ones(4), CORNERS[:, 1], -CORNERS[:, 0], DRAG * np.array([1, -1, 1, -1])]))

    def control(state):
        q, v = state.q.numpy(), state.v.numpy()
        pull = 2.0 * (goals - q[:, :3]) - 2.0 * v[:, :3]
        tilt = 2 * np.sign(q[:, 3:4]) * q[:, 4:]
        wish = np.stack([-pull[:, 1], pull[:, 0], 0 * pull[:, 2]], axis=1).clip(-3, 3) / 9.81
        torque = [2e-3, 2e-3, 4e-3] * (60 * (wish - tilt) - 15 * v[:, 3:])
        return np.concatenate([MASS * (9.81 + pull[:, 2:]), torque], axis=1) @ mix.T

    sim = ws.Simulator(model(), worlds=WORLDS)
    run = sim.rollout(sim.state(), control, STEPS)
    return run, np.linalg.norm(run.q.numpy()[-1, :, :3] - goals, axis=1)


if __name__ == "__main__":
    run, miss = hover()
    print(f"{1e3 * np.median(miss):.0f} mm from the goals after {STEPS / 100:g} s, {1e3 * miss.max():.0f} at most")
    run.to_html(*(sys.argv[1:] or ["out/drone.html"]), spacing=1.5)
