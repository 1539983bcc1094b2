# SPDX-License-Identifier: Apache-2.0
"""Inverse weights at q0 are MuJoCo's `body_invweight0`, `dof_invweight0`, `tendon_invweight0` and `meaninertia`."""

import pathlib

import gymnasium
import mujoco
import numpy as np
import pytest

import warpsim as ws
from scenes.tendons import wound_tree
from warpsim.forces.lines import Lines
from warpsim.model.mujoco_weights import inverse_weights
from warpsim.tree.dynamics import DeviceModel, Dynamics

BAR = 1e-10
ASSETS = pathlib.Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets"
FILES = [*sorted(ASSETS.glob("*.xml")), *(ws.robots.path(name) for name in ("ant", "cartpole", "hopper", "humanoid"))]


def assert_mujocos(model, m, moment_arms=None) -> None:
    found = inverse_weights(model, moment_arms)
    np.testing.assert_allclose(found.body, m.body_invweight0[1:], rtol=BAR, atol=1e-13)
    np.testing.assert_allclose(found.dof, m.dof_invweight0, rtol=BAR, atol=1e-13)
    tendons = np.array([m.tendon(name).id for name in model.tendon_names], int)  # those that do something
    np.testing.assert_allclose(found.tendon, m.tendon_invweight0[tendons], rtol=BAR, atol=1e-13)
    assert found.mean_inertia == pytest.approx(m.stat.meaninertia, rel=BAR)


@pytest.mark.parametrize("path", FILES, ids=lambda path: pathlib.Path(path).stem)
def test_robots(path):
    m = mujoco.MjModel.from_xml_path(str(path))
    assert_mujocos(ws.load(m), m)


SCENE = """<mujoco><worldbody>
  <body name="slider"><joint type="slide" axis="0 0 1" armature="3"/><joint type="slide" axis="1 0 0"/><geom size=".1"/></body>
  <body name="tilted"><joint type="slide" axis="0 1 1"/><geom size=".1"/></body>
  <body name="aside"><joint type="slide"/><geom size=".1" pos=".1 0 0"/></body>
  <body name="parent"><joint name="p" type="slide"/><geom size=".1"/><body><joint name="c" pos=".1 0 .2"/><geom size=".2"/>
    <body name="welded" pos="0 .3 0"><geom size=".05"/></body></body></body>
  <body name="shelf"><geom size=".1"/><body name="on"><joint type="slide"/><geom size=".1"/></body></body>
  <body name="mocap" mocap="true"><geom size=".1"/></body>
  <body name="free" quat="1 2 3 4" pos="5 6 7"><freejoint/><geom type="box" size=".1 .2 .3" pos=".1 0 .4"/>
    <body pos=".4 .2 0"><joint type="ball" pos="0 .1 0" armature=".1"/><geom type="capsule" size=".1 .4"/></body></body>
</worldbody><tendon><fixed><joint joint="p" coef="2"/><joint joint="c" coef="-3"/></fixed></tendon>
<actuator><motor tendon="tendon"/></actuator></mujoco>""".replace("<fixed>", '<fixed name="tendon">')


def test_special_bodies():
    """Bodies that slide alone weigh 1/mass without armature; welded, fixed and mocap bodies; free and ball joints."""
    m = mujoco.MjModel.from_xml_string(SCENE)
    assert (m.body_simple == 2).sum() == 2
    assert_mujocos(ws.load(m), m)


def test_builder_models():
    """A model from code has the weights that MuJoCo computes for it; a model without joints has zeros."""
    b = ws.ModelBuilder()
    arm = b.add_body("arm", pose=[0, 0, 1])
    b.add_joint(arm, "hinge", axis=[1, 2, 0], anchor=[0.1, 0, 0], armature=0.2)
    b.add_geom("box", [0.1, 0.2, 0.3], body=arm, pose=[0, 0.2, 0])
    ball = b.add_body("ball", parent=arm, pose=[0, 0.5, 0])
    b.add_joint(ball, "ball")
    b.add_geom("capsule", [0.1, 0.2], body=ball, pose=[0.3, 0, 0])
    model = b.build()
    assert_mujocos(model, model.to_mjspec().compile())
    fixed = ws.ModelBuilder()
    fixed.add_geom("sphere", [0.1], body=fixed.add_body())
    assert not inverse_weights(fixed.build()).body.any()


def test_spatial_tendons(device):
    """With the moment arms at q0; NaN without them, never a wrong number."""
    m = wound_tree(1)
    model = ws.load(m)
    device_model = DeviceModel(model, 1, "float64", device)
    arms = Lines(device_model, Dynamics(device_model)).moment_arms_at(model.q0)
    assert_mujocos(model, m, arms)
    assert np.isnan(inverse_weights(model).tendon).all()
