# SPDX-License-Identifier: Apache-2.0
"""Start states and controls of a corpus file, the same for both engines."""

import mujoco
import numpy as np

SHAKE = 1e-4  # [m/s, rad/s], of the start velocities of all worlds but the first


def own_start(m: mujoco.MjModel, worlds: int) -> dict[str, np.ndarray]:
    """The first keyframe or the model's own start, in every world, all but the first a little shaken: `q`, `v`, `control`, `act`, `mocap`."""
    data = mujoco.MjData(m)
    if m.nkey:
        mujoco.mj_resetDataKeyframe(m, data, 0)
    rng = np.random.default_rng(2)
    v = np.tile(data.qvel, (worlds, 1))
    v[1:] += SHAKE * rng.standard_normal((worlds - 1, m.nv))
    q, control, act = (np.tile(x, (worlds, 1)) for x in (data.qpos, data.ctrl, data.act))
    return {"q": q, "v": v, "control": control, "act": act, "mocap": np.tile(_poses(data), (worlds, 1, 1))}


def _poses(data: mujoco.MjData) -> np.ndarray:
    """Of the mocap bodies `(nmocap, 7)`."""
    return np.concatenate([data.mocap_pos.reshape(-1, 3), data.mocap_quat.reshape(-1, 4)], axis=1)


def random_states(m: mujoco.MjModel, worlds: int, seed: int = 1) -> dict[str, np.ndarray]:
    """States near the model's own, within its joints' ranges, with random velocities, controls, activations and mocap bodies."""
    rng = np.random.default_rng(seed)
    q, v = np.tile(m.qpos0, (worlds, 1)), 0.3 * rng.standard_normal((worlds, m.nv))
    limited = (m.jnt_limited > 0) & np.isin(m.jnt_type, (mujoco.mjtJoint.mjJNT_SLIDE, mujoco.mjtJoint.mjJNT_HINGE))
    inside = m.jnt_qposadr[limited]
    low, high = m.jnt_range[limited].T
    for row in q:
        mujoco.mj_integratePos(m, row, 0.05 * rng.standard_normal(m.nv), 1.0)
        row[inside] = np.clip(row[inside], 0.9 * low + 0.1 * high, 0.1 * low + 0.9 * high)
    mocap = np.tile(_poses(mujoco.MjData(m)), (worlds, 1, 1)) + 0.05 * rng.standard_normal((worlds, m.nmocap, 7))
    mocap[..., 3:] /= np.linalg.norm(mocap[..., 3:], axis=-1, keepdims=True)
    low, high = np.where(m.actuator_ctrllimited[:, None] > 0, m.actuator_ctrlrange, [-1.0, 1.0]).T
    return {
        "q": q,
        "v": v,
        "control": rng.uniform(low, high, (worlds, m.nu)),
        "act": _activations(m, rng, worlds),
        "mocap": mocap,
    }


def _activations(m: mujoco.MjModel, rng, worlds: int) -> np.ndarray:
    """Activations within their ranges, of those without one within 0 and 1."""
    low, high = np.zeros(m.na), np.ones(m.na)
    for a in np.flatnonzero(m.actuator_actadr >= 0):
        if m.actuator_actlimited[a]:
            last = m.actuator_actadr[a] + m.actuator_actnum[a] - 1
            low[last], high[last] = m.actuator_actrange[a]
    return rng.uniform(low, high, (worlds, m.na))


def place(data: mujoco.MjData, states: dict[str, np.ndarray], k: int) -> None:
    """Put world k of the states into MuJoCo's data."""
    data.qpos[:], data.qvel[:], data.ctrl[:] = states["q"][k], states["v"][k], states["control"][k]
    data.act[:] = states["act"][k]
    data.mocap_pos[:], data.mocap_quat[:] = states["mocap"][k][:, :3], states["mocap"][k][:, 3:]


def state_of(sim, states: dict[str, np.ndarray]):
    """The states as a `ws.State` of a simulator."""
    more = {"activation": states["act"], "mocap": states["mocap"]}
    return sim.state(states["q"], states["v"], **{key: value for key, value in more.items() if value.size})
