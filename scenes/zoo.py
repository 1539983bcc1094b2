# SPDX-License-Identifier: Apache-2.0
"""One model with all that a tree can have, loaded from MJCF, and random states of any model of MuJoCo's."""

import mujoco
import numpy as np

# Every joint type, several joints per body, fixed bodies, offset anchors, off-centre and rotated inertias, three trees of
# which one hangs from a fixed body, and the actuators, springs and dampers of `actuated`.
ZOO = """<mujoco><option gravity="1 -2 -9"/><worldbody>
  <body name="torso" pos="0 0 1" quat=".8 .1 -.3 .2"><freejoint/><geom type="box" size=".1 .2 .05" pos=".05 0 .1"/>
    <body name="upper" pos=".1 .2 0" euler="20 30 40">
      <joint name="shoulder" type="ball" pos=".02 .03 0" damping=".3" armature=".02" stiffness="2"/>
      <geom type="capsule" fromto="0 0 0 .3 .1 0" size=".03"/>
      <body name="mount" pos=".3 .1 0" euler="0 50 0"><geom size=".04" pos="0 .1 0"/>
        <body name="lower" pos="0 .1 .05">
          <joint name="slide" type="slide" axis="1 2 0" pos=".1 0 0" stiffness="30" springref=".1" damping="2"/>
          <joint name="elbow" axis="0 1 1" pos="0 .05 0" ref=".3" springref=".6" stiffness="4" armature=".1"/>
          <joint name="twist" axis="1 0 0" pos="0 0 .02" damping=".5"/>
          <inertial pos=".02 .1 .03" mass="1.3" fullinertia=".02 .03 .025 .002 -.003 .001"/>
        </body>
      </body>
    </body>
    <body name="tail" pos="-.1 0 0"><joint name="tail" axis="0 0 1" range="-1 1"/><geom size=".05" pos="-.2 0 .1"/></body>
  </body>
  <body name="post" pos="2 0 0" euler="10 20 30"><geom type="box" size=".1 .1 .5"/>
    <body name="arm" pos="0 0 .5"><joint name="pan" axis="0 0 1" armature=".3"/><geom type="capsule" fromto="0 0 0 .4 0 0"
      size=".04"/><body name="hand" pos=".4 0 0"><joint name="wrist" type="ball"/><geom type="box" size=".1 .02 .05"/></body>
    </body>
  </body>
  <body name="ball" pos="-2 0 1"><joint name="ball" type="free" stiffness="3" damping=".4"/>
    <geom type="ellipsoid" size=".1 .2 .15" pos=".05 .02 0"/></body>
</worldbody></mujoco>"""
DRIVES = """<actuator>
  <motor joint="elbow" gear="-3" ctrlrange="-.5 .5"/>
  <position joint="slide" kp="40" kv="3" forcerange="-4 4" gear="2"/>
  <velocity joint="twist" kv="2" gear=".5"/>
  <general joint="tail" gainprm="5 2 -1" gaintype="affine" biasprm="1 -3 -.2" biastype="affine" gear="1.5"/>
  <motor joint="wrist" gear="1 -2 .5"/>
  <motor joint="ball" gear="1 2 3 -1 -2 -3" ctrlrange="-1 2" forcerange="-.7 .7"/>
  <general joint="pan" gainprm="7" biasprm="0 -2 -1" biastype="affine" forcerange="-5 5"/>
  <motor joint="elbow" gear="2"/>
</actuator>"""


def random_states(m: mujoco.MjModel, count: int, dtype: str, rng):
    """q, v, a as float64 values that `dtype` holds exactly; q by normal noise on the manifold around qpos0."""
    q = np.tile(m.qpos0, (count, 1))
    for row in q:
        mujoco.mj_integratePos(m, row, rng.normal(size=m.nv), 1.0)
    v, a = rng.normal(size=(2, count, m.nv))
    return tuple(x.astype(dtype).astype(float) for x in (q, v, a))
