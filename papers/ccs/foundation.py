# SPDX-License-Identifier: Apache-2.0
"""A cube on an elastic foundation as a stiff ODE (Drumwright, §5.5): its right-hand side, SciPy's integrators, a reference.

State (x, quaternion wxyz, v, ω in the world), 13 numbers. Element i pushes up with max(0, −K z_i − B ż_i) while z_i < 0.
The reference is the classical Runge-Kutta method in a Warp kernel, 40 steps per radian of the stiffest motion (10 with 900
elements): where BDF is content, it follows every oscillation (10⁵ rad/s at E = 10¹¹).
"""

import time

import numpy as np
import warp as wp
from scipy.integrate import solve_ivp

MASS, SIDE, GRAVITY, DAMPING = 8.0, 1.0, 9.81, 1.0
INERTIA = MASS * SIDE**2 / 6.0
START = np.array([0.0, 0.0, 0.5, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
STEPS_PER_RADIAN = {100: 40.0, 900: 10.0}  # by elements


class TimeOut(Exception):
    """An integrator took longer than it was given."""


def load_point(t: float) -> np.ndarray:
    """Where the load acts, in the cube's axes."""
    return 0.5 * np.array([np.cos(10.0 * t), np.sin(10.0 * t), 1.0])


def rotation(q) -> np.ndarray:
    """Matrix of a quaternion wxyz."""
    w, x, y, z = q / np.linalg.norm(q)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def elements(count: int) -> np.ndarray:
    """Elements in the cube's axes (count, 3)."""
    side = round(np.sqrt(count))
    grid = (np.arange(side) + 0.5) / side - 0.5
    x, y = np.meshgrid(grid, grid, indexing="ij")
    return np.stack([x.ravel(), y.ravel(), np.full(count, -0.5)], axis=1)


def right_hand_side(count: int, modulus: float, force: float):
    """f(t, y) of the ODE."""
    points, K = elements(count), modulus * SIDE**2 / count

    def f(t, y):
        R, v, omega = rotation(y[3:7]), y[7:10], y[10:]
        arms = points @ R.T
        z = y[2] + arms[:, 2]
        rate = v[2] + omega[0] * arms[:, 1] - omega[1] * arms[:, 0]
        push = np.where(z < 0.0, np.maximum(-K * z - DAMPING * rate, 0.0), 0.0)
        arm = R @ load_point(t)
        up = push.sum() - force
        torque = np.array([push @ arms[:, 1] - force * arm[1], -(push @ arms[:, 0]) + force * arm[0], 0.0])
        w, x = y[3], y[4:7]
        turn = 0.5 * np.concatenate([[-omega @ x], w * omega + np.cross(omega, x)])
        return np.concatenate([v, turn, [0.0, 0.0, up / MASS - GRAVITY], torque / INERTIA])

    return f


def scipy_run(method: str, count: int, modulus: float, force: float, limit: float, **options):
    """(seconds, state after 1 s) of a SciPy integrator, steps of at most 0.01 s; None where it took over `limit` [s]."""
    f, start = right_hand_side(count, modulus, force), time.process_time()

    def timed(t, y):
        if time.process_time() - start > limit:
            raise TimeOut
        return f(t, y)

    try:
        found = solve_ivp(timed, (0.0, 1.0), START, method=method, t_eval=[1.0], **({"max_step": 0.01} | options))
    except TimeOut:
        return None
    return time.process_time() - start, found.y[:, -1]


vec13 = wp.types.vector(13, wp.float64)
mat3 = wp.mat33d


@wp.func
def derivative(t: wp.float64, y: vec13, points: wp.array(dtype=wp.vec3d), K: wp.float64, force: wp.float64) -> vec13:
    """`right_hand_side` on the device."""
    zero, half, one, two = wp.float64(0.0), wp.float64(0.5), wp.float64(1.0), wp.float64(2.0)
    scale = one / wp.sqrt(y[3] * y[3] + y[4] * y[4] + y[5] * y[5] + y[6] * y[6])
    w = y[3] * scale
    a = y[4] * scale
    b = y[5] * scale
    c = y[6] * scale
    R = mat3(
        one - two * (b * b + c * c), two * (a * b - w * c), two * (a * c + w * b),
        two * (a * b + w * c), one - two * (a * a + c * c), two * (b * c - w * a),
        two * (a * c - w * b), two * (b * c + w * a), one - two * (a * a + b * b),
    )  # fmt: skip
    up = -force
    load = R * (half * wp.vec3d(wp.cos(wp.float64(10.0) * t), wp.sin(wp.float64(10.0) * t), one))
    torque_x = -force * load[1]
    torque_y = force * load[0]
    for i in range(points.shape[0]):
        arm = R * points[i]
        z = y[2] + arm[2]
        if z < zero:
            rate = y[9] + y[10] * arm[1] - y[11] * arm[0]
            push = wp.max(-K * z - wp.float64(DAMPING) * rate, zero)
            up += push
            torque_x += push * arm[1]
            torque_y -= push * arm[0]
    omega = wp.vec3d(y[10], y[11], y[12])
    x = wp.vec3d(y[4], y[5], y[6])
    turn = half * (y[3] * omega + wp.cross(omega, x))
    d = vec13()
    d[0] = y[7]
    d[1] = y[8]
    d[2] = y[9]
    d[3] = -half * wp.dot(omega, x)
    d[4] = turn[0]
    d[5] = turn[1]
    d[6] = turn[2]
    d[9] = up / wp.float64(MASS) - wp.float64(GRAVITY)
    d[10] = torque_x / wp.float64(INERTIA)
    d[11] = torque_y / wp.float64(INERTIA)
    return d


@wp.kernel(enable_backward=False)
def runge_kutta(
    points: wp.array(dtype=wp.vec3d), K: wp.float64, force: wp.float64, steps: int, state: wp.array2d(dtype=wp.float64)
):
    """One second of the classical method, in place."""
    h = wp.float64(1.0) / wp.float64(steps)
    half = wp.float64(0.5)
    y = vec13()
    for i in range(13):
        y[i] = state[0, i]
    for k in range(steps):
        t = wp.float64(k) * h
        k1 = derivative(t, y, points, K, force)
        k2 = derivative(t + half * h, y + half * h * k1, points, K, force)
        k3 = derivative(t + half * h, y + half * h * k2, points, K, force)
        k4 = derivative(t + h, y + h * k3, points, K, force)
        y = y + h / wp.float64(6.0) * (k1 + wp.float64(2.0) * k2 + wp.float64(2.0) * k3 + k4)
    for i in range(13):
        state[0, i] = y[i]


def reference(count: int, modulus: float, force: float, per_radian: float | None = None) -> tuple[np.ndarray, int]:
    """State after 1 s, and the number of steps it took."""
    per_radian = STEPS_PER_RADIAN[count] if per_radian is None else per_radian
    fastest = np.sqrt(modulus * SIDE**2 / MASS) * 1.5  # rocking: I = m/6, Σ k x² = E/12, twice as stiff as heaving
    steps = int(per_radian * fastest)
    points = wp.array(elements(count), dtype=wp.vec3d, device="cpu")
    state = wp.array(START[None], dtype=wp.float64, device="cpu")
    wp.launch(runge_kutta, 1, [points, modulus * SIDE**2 / count, force, steps, state], device="cpu")
    return state.numpy()[0], steps


def error(state, exact) -> tuple[float, float]:
    """Absolute and relative error of the generalised coordinates (position, quaternion)."""
    q, q_exact = np.array(state[:7]), np.array(exact[:7])
    q[3:] *= np.sign(q[3:] @ q_exact[3:]) / np.linalg.norm(q[3:])
    q_exact[3:] /= np.linalg.norm(q_exact[3:])
    distance = np.linalg.norm(q - q_exact)
    return float(distance), float(distance / np.linalg.norm(q_exact))
