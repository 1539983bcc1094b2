# SPDX-License-Identifier: Apache-2.0
"""Rollouts from a file's own start beside MuJoCo's: flags, the largest kinetic energy, and where free bodies come to rest.

Four worlds, two seconds, default options, the start's controls. MuJoCo runs the file as it is. Kinetic energy may be 1.1 times the largest
of MuJoCo's and the energy of a fall by 10 mm more. Of bodies on a free joint with nothing jointed to them that rest at the end in
both engines, heights may differ by 1 mm and MuJoCo's deepest penetration.
"""

import mujoco
import numpy as np

import warpsim as ws
from benchmarks.corpus.starts import own_start, place, state_of

WORLDS, SECONDS = 4, 2.0
FALL, HEIGHT, FACTOR = 0.010, 0.001, 1.1  # [m], [m], 1
AT_REST = 1e-2  # [m/s, rad/s]


def free_bodies(m: mujoco.MjModel) -> list[tuple[int, int]]:
    """Start in qpos and in qvel of the free joints whose tree has no other joint."""
    lone = np.bincount(m.dof_treeid[m.dof_treeid >= 0], minlength=m.ntree) == 6 if m.nv else []
    free = np.flatnonzero(m.jnt_type == mujoco.mjtJoint.mjJNT_FREE)
    return [(int(m.jnt_qposadr[j]), int(m.jnt_dofadr[j])) for j in free if lone[m.dof_treeid[m.jnt_dofadr[j]]]]


def mujoco_rollout(m: mujoco.MjModel) -> dict:
    """Largest kinetic energy, final states, deepest penetration at the end, and MuJoCo's warnings."""
    states, steps, data = own_start(m, WORLDS), round(SECONDS / m.opt.timestep), mujoco.MjData(m)
    energy, q, v, depth, warned = 0.0, [], [], 0.0, False
    for k in range(WORLDS):
        mujoco.mj_resetData(m, data)
        place(data, states, k)
        for _ in range(steps):
            mujoco.mj_step(m, data)
            mujoco.mj_energyVel(m, data)
            energy = max(energy, float(data.energy[1]))
        depth = max(depth, -float(data.contact.dist.min(initial=0.0)))
        warned |= any(w.number for w in data.warning)
        q.append(data.qpos.copy())
        v.append(data.qvel.copy())
    return {"energy": energy, "q": np.array(q), "v": np.array(v), "depth": depth, "warned": warned}


def rollout(m: mujoco.MjModel, model: ws.Model, peer: dict, dtype: str) -> dict:
    """The same with this package, and how it compares: flags, energies [J], worst height [m], and `fails`, a list of words."""
    states, steps = own_start(m, WORLDS), round(SECONDS / m.opt.timestep)
    sim = ws.Simulator(model, WORLDS, dtype=dtype, device="cpu", threads=1)
    state = state_of(sim, states)
    control = states["control"] if m.nu else None
    energy = 0.0
    for _ in range(steps):
        state = sim.step(state, control)
        energy = max(energy, float(sim.energy(state)[0].numpy().max()))
    flags = int(np.bitwise_or.reduce(sim.diagnostics.flags.numpy()))
    q, v = state.q.numpy(), state.v.numpy()
    gravity = float(np.linalg.norm(m.opt.gravity))
    bound = FACTOR * peer["energy"] + float(m.body_mass[1:].sum()) * gravity * FALL
    height = heights(m, q, v, peer)
    checks = {
        "flag": flags != 0,
        "not finite": not (np.isfinite(q).all() and np.isfinite(v).all()),
        "energy": not energy <= bound,
        "height": height is not None and height > HEIGHT + peer["depth"],
    }
    fails = [word for word, failed in checks.items() if failed]
    return {
        "flags": flags,
        "energy": energy,
        "mujoco_energy": peer["energy"],
        "bound": bound,
        "height": height,
        "depth": peer["depth"],
        "fails": fails,
    }


def heights(m: mujoco.MjModel, q, v, peer: dict) -> float | None:
    """Largest difference of the heights of free bodies that rest in both; None without any."""
    worst = None
    for a, d in free_bodies(m):
        for k in range(WORLDS):
            if max(np.abs(v[k, d : d + 6]).max(), np.abs(peer["v"][k, d : d + 6]).max()) < AT_REST:
                worst = max(worst or 0.0, abs(float(q[k, a + 2] - peer["q"][k, a + 2])))
    return worst


def calm(m: mujoco.MjModel, model: ws.Model) -> dict:
    """Both dtypes."""
    if m.nv == 0:
        return {}
    peer = mujoco_rollout(m)
    row = {dtype: rollout(m, model, peer, dtype) for dtype in ("float32", "float64")}
    return row | {"mujoco_warned": peer["warned"]}
