# SPDX-License-Identifier: Apache-2.0
"""A body held by the mouse: a damped spring from the grabbed point to the pointer.

The stiffness is m ω², with m the effective mass at the point, 3 over the trace of J M⁻¹ Jᵀ, so an explicit spring is
stable. The damping ratio is ζ = 0.7. A mocap body, which no force moves, follows the pointer with the same ω.
"""

import numpy as np

from warpsim.model.geometry import rotate

OMEGA = 12.0  # rad/s
LARGEST_TURN = 0.3  # largest ω h of an explicit spring
DAMPING = 0.7


class Drag:
    """The hold on one body of one world: `point` in body axes, `target` in world axes."""

    def __init__(self, sim, state, world: int, body: int, place, pose: np.ndarray):
        self.sim, self.world, self.body = sim, world, body
        inverse = pose[3:] * [1.0, -1.0, -1.0, -1.0]
        self.point = rotate(inverse, np.asarray(place, float) - pose[:3])
        self.target = np.asarray(place, float)
        self.mocap = int(sim.model.body_mocap[body])
        self.mass, self.omega = 0.0, min(OMEGA, LARGEST_TURN / sim.dt)
        if self.mocap >= 0:
            return
        J = sim.jacobian(state.q, body, self.point).numpy()[world, 3:].astype(float)
        M = sim.mass_matrix(state.q).numpy()[world].astype(float)
        mobility = float(np.trace(J @ np.linalg.solve(M, J.T))) if J.size else 0.0
        self.mass = 3.0 / mobility if mobility > 1e-12 else 0.0

    def moved(self, state, seconds: float) -> np.ndarray:
        """Poses of the mocap bodies `(worlds, nmocap, 7)` after `seconds`, the dragged one nearer to the pointer."""
        poses = state.mocap.numpy().astype(float)
        pose = poses[self.world, self.mocap]
        pose[:3] += -np.expm1(-OMEGA * seconds) * (self.target - pose[:3] - rotate(pose[3:], self.point))
        return poses

    def wrench(self, state, poses: np.ndarray, com: np.ndarray) -> np.ndarray:
        """`(worlds, nbody, 6)` torque about each COM, and force; world axes.

        `poses (nbody, 7)` and `com (nbody, 3)` are those of the world.
        """
        pose = poses[self.body]
        arm = rotate(pose[3:], self.point)
        motion = self.sim.body_velocity(state).numpy()[self.world, self.body].astype(float)
        rate = motion[3:] + np.cross(motion[:3], arm)
        force = self.mass * self.omega * (self.omega * (self.target - pose[:3] - arm) - 2 * DAMPING * rate)
        lever = arm - rotate(pose[3:], com[self.body])
        result = np.zeros((self.sim.worlds, self.sim.model.nbody, 6))
        result[self.world, self.body] = [*np.cross(lever, force), *force]
        return result
