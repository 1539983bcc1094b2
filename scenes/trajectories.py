# SPDX-License-Identifier: Apache-2.0
"""Small recorded trajectories, made with MuJoCo itself so that they need no simulator of ours."""

import pathlib

import gymnasium
import mujoco
import numpy as np

from warpsim.files.mjcf.mjcf import load_mujoco
from warpsim.state.trajectory import Trajectory

ASSETS = pathlib.Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets"

SMALL = """
<mujoco model="small"><worldbody>
  <geom name="floor" type="plane" size="5 5 .1"/>
  <body name="1 odd/name" pos="0 0 1"><freejoint/><geom name="trunk" type="box" size=".2 .1 .05" rgba=".8 .2 .1 1"/>
    <body name="arm" pos=".3 0 0"><joint name="elbow" axis="0 1 1" pos="-.1 0 0" range="-60 90" ref="10"/>
      <geom type="capsule" fromto="0 0 0 .3 0 0" size=".04"/>
      <body name="wrist" pos=".3 0 0"><joint name="socket" type="ball" range="0 40"/>
        <geom type="ellipsoid" size=".08 .05 .03"/></body></body>
    <body name="rail" pos="-.3 0 0"><joint name="slider" type="slide" axis="1 0 0" range="-.1 .1"/>
      <geom type="cylinder" size=".05 .1"/></body></body>
  <body name="post" pos="1 0 .5"><geom type="sphere" size=".1" pos="0 0 .1"/></body>
  <body name="cart" pos="-1 0 .5"><joint name="cx" type="slide" axis="1 0 0"/><joint name="cy" type="slide" axis="0 1 0"/>
    <joint name="turn" axis="0 0 1"/><geom type="box" size=".1 .1 .1"/></body>
</worldbody></mujoco>"""


def small():
    """(MjModel, Model) with every joint and several geom types."""
    compiled = mujoco.MjModel.from_xml_string(SMALL)
    return compiled, load_mujoco(compiled)


def asset(name):
    """(MjModel, Model) of a gymnasium robot."""
    path = str(ASSETS / f"{name}.xml")
    return mujoco.MjModel.from_xml_path(path), load_mujoco(path)


def random_q(compiled, rng):
    """A random configuration with unnormalised-safe unit quaternions: integrate a random velocity from qpos0."""
    q = compiled.qpos0.copy()
    mujoco.mj_integratePos(compiled, q, rng.normal(size=compiled.nv), 1.0)
    return q


def rollout(compiled, model, worlds=3, steps=20, dt=0.01, seed=0, every=1):
    """A Trajectory stepped by MuJoCo from small random velocities, with made-up but plausible diagnostics."""
    rng = np.random.default_rng(seed)
    compiled.opt.timestep = dt
    q, v = np.zeros((steps + 1, worlds, compiled.nq)), np.zeros((steps + 1, worlds, compiled.nv))
    time, contacts, energy = (
        np.zeros((steps + 1, worlds)),
        np.zeros((steps, worlds), np.int32),
        np.zeros((steps, worlds)),
    )
    compiled.opt.enableflags |= int(mujoco.mjtEnableBit.mjENBL_ENERGY)
    for w in range(worlds):
        data = mujoco.MjData(compiled)
        data.qvel[:] = 0.5 * rng.normal(size=compiled.nv)
        control = 0.4 * rng.normal(size=compiled.nu)
        q[0, w], v[0, w] = data.qpos, data.qvel
        for t in range(steps):
            data.ctrl[:] = control * np.sin(0.05 * t * every + w)
            for _ in range(every):
                mujoco.mj_step(compiled, data)
            q[t + 1, w], v[t + 1, w], time[t + 1, w] = data.qpos, data.qvel, data.time
            contacts[t, w], energy[t, w] = data.ncon, data.energy.sum()
    diagnostics = {
        "iterations": (contacts > 0) * 3 + 1,
        "momentum_error": 10.0 ** rng.uniform(-9, -6, size=(steps, worlds)),
        "contacts": contacts,
        "energy": energy,
        "flags": np.zeros((steps, worlds), np.int32),
    }
    return Trajectory(model, q, v, time, diagnostics)
