# SPDX-License-Identifier: Apache-2.0
"""Sites and cameras: named frames that keep MuJoCo's order, follow `add_model`, and survive a pickle."""

import pickle

import mujoco
import numpy as np
import pytest

import warpsim as ws

MJCF = """<mujoco><asset><material name="red" rgba="1 0 0 1"/></asset><worldbody>
  <site name="mark" pos="1 2 3" euler="90 0 0" type="box" size=".1 .2 .3"/>
  <camera name="eye" pos="0 -3 1" xyaxes="1 0 0 0 0 1" fovy="60" resolution="64 48"/>
  <body name="arm" pos="0 0 1"><joint/><geom size=".1"/>
    <site pos=".1 0 0" material="red"/><camera pos="0 0 .2" mode="track"/></body>
</worldbody></mujoco>"""


def loaded() -> ws.Model:
    return ws.load(mujoco.MjModel.from_xml_string(MJCF))


def test_file():
    """Bodies, poses, shapes and angles of view are those of the compiled file; the report says so."""
    model = loaded()
    assert model.site_names == ("mark", "site_1") and model.camera_names == ("eye", "camera_1")
    assert model.site_body.tolist() == [-1, 0] and model.camera_body.tolist() == [-1, 0]
    np.testing.assert_allclose(model.site_pose[0], [1, 2, 3, np.sqrt(0.5), np.sqrt(0.5), 0, 0], atol=1e-15)
    np.testing.assert_allclose(model.site_size[0], [0.1, 0.2, 0.3])
    np.testing.assert_allclose(model.site_rgba[1], [1, 0, 0, 1])
    np.testing.assert_allclose(model.camera_fovy, np.deg2rad([60, 45]))
    assert model.camera_resolution.tolist() == [[64, 48], [1, 1]]
    assert {line.feature for line in model.report if line.status == "used"} >= {"sites", "cameras"}
    assert model.site("site_1") == 1 and model.camera("eye") == 0
    with pytest.raises(ValueError, match="no site named 'nose'"):
        model.site("nose")


def test_copies():
    """A pickle and `add_model` keep them; those of the world move with the model."""
    model = loaded()
    again = pickle.loads(pickle.dumps(model))
    builder = ws.ModelBuilder()
    builder.add_body("first", mass=1.0)
    builder.add_model(model, pose=[0, 0, 5], prefix="a/")
    joined = builder.build()
    assert joined.site_names == ("a/mark", "a/site_1") and joined.camera_names == ("a/eye", "a/camera_1")
    assert joined.site_body.tolist() == [-1, 1]
    np.testing.assert_allclose(joined.site_pose[0, :3], [1, 2, 8])
    np.testing.assert_array_equal(joined.site_pose[1], model.site_pose[1])
    for name in ("site_pose", "site_type", "site_size", "site_rgba", "camera_pose", "camera_fovy"):
        np.testing.assert_array_equal(getattr(again, name), getattr(model, name))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda b: b.add_site("s", body="leg"), "no body 'leg'"),
        (lambda b: b.add_site("s", type="mesh"), "site 's': unknown type 'mesh'; use one of sphere"),
        (lambda b: b.add_site("s", pose=[0, 0, np.nan]), "site 's': pose is"),
        (lambda b: b.add_site("s", size=[0.0]), "site 's': size .* must be positive"),
        (lambda b: [b.add_site("s"), b.add_site("s")], "site name 's' is used twice"),
        (lambda b: b.add_camera("c", fovy=45.0), "camera 'c': fovy .* angle"),
        (lambda b: b.add_camera("c", resolution=(0, 5)), "camera 'c': resolution is"),
    ],
)
def test_refused(call, message):
    """What is wrong is named."""
    with pytest.raises(ws.ModelError, match=message):
        call(ws.ModelBuilder())
