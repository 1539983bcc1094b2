# SPDX-License-Identifier: Apache-2.0
"""Constraints and tendons of files: MJCF's against MuJoCo's own violations, USD's loop joints, what comes back of ours."""

import mujoco
import numpy as np
import pytest

from scenes.constraints import every_constraint
from warpsim.base.errors import ModelError
from warpsim.files.load import load
from warpsim.files.mjcf.mjcf_constraints import compliance
from warpsim.model import ConstraintType
from warpsim.model.geometry import compose, inverse
from warpsim.model.host_kinematics import body_poses

SCENE = """<mujoco><compiler angle="radian"/><worldbody>
  <body name="a" pos="0 0 1" euler=".1 .2 .3"><joint name="j" springref=".3" ref=".1" range="-2 2"/><geom size=".1"/>
    <site name="s" pos=".1 .2 .3" euler=".4 .5 .6"/>
    <body name="b" pos="1 0 0"><joint name="k" type="slide" axis="0 1 0"/><geom size=".1"/></body></body>
  <body name="c" pos="0 2 0" euler="1 0 0"><freejoint/><geom size=".1"/><site name="t" pos="0 .1 0" euler="0 .7 0"/></body>
</worldbody>
<tendon><fixed name="pull" stiffness="30" damping="2" range="-1 1" frictionloss=".4" springlength=".2 .5">
    <joint joint="j" coef="2"/><joint joint="k" coef="-1"/></fixed>
  <fixed name="idle"><joint joint="j" coef="1"/></fixed>
  <fixed name="other"><joint joint="k" coef="3"/></fixed></tendon>
<equality>
  <weld name="weld" body1="a" body2="c" anchor=".1 .2 .3"/>
  <weld name="relative" body1="b" body2="c" relpose=".1 .2 .3 .5 .5 .5 .5"/>
  <weld name="sites" site1="s" site2="t"/>
  <weld name="loose" body1="a" body2="c" torquescale="0"/>
  <connect name="connect" body1="b" body2="c" anchor=".2 .1 0"/>
  <connect name="world" body1="b" anchor=".2 .1 0" active="false"/>
  <connect name="points" site1="s" site2="t"/>
  <joint name="poly" joint1="k" joint2="j" polycoef=".1 .2 .3 .4 .5"/>
  <joint name="lock" joint1="j" polycoef=".3 0 0 0 0"/>
  <tendon name="tie" tendon1="pull" tendon2="other" polycoef=".1 2 0 .3 0" solref=".1 2" solimp=".8 .9 .01"/>
</equality>
<actuator><position name="winch" tendon="pull" kp="7" gear="2" forcerange="-5 5"/></actuator></mujoco>"""


def violation(model, c: int, q) -> np.ndarray:
    """B's frame in A's, or what a coupling misses, from the Model's own numbers."""
    kind = ConstraintType(model.constraint_type[c])
    if kind in (ConstraintType.JOINT, ConstraintType.TENDON):
        if kind == ConstraintType.JOINT:
            values = q - model.q0
            x = [values[model.joint_q[e]] if e >= 0 else 0.0 for e in model.constraint_joint[c]]
        else:
            length = [row @ (q - model.q0)[[0, 1]] for row in model.tendon_coefficients[:, :2]]
            x = [length[e] if e >= 0 else 0.0 for e in model.constraint_joint[c]]
        return np.array([x[0] - np.polyval(model.constraint_coefficients[c][::-1], x[1])])
    poses = np.concatenate([body_poses(model, q), [[0, 0, 0, 1, 0, 0, 0]]])
    frames = [compose(poses[b], p) for b, p in zip(model.constraint_body[c], model.constraint_pose[c], strict=True)]
    return compose(inverse(frames[0]), frames[1])


def test_mjcf_equalities_mean_what_mujoco_measures(rng):
    """In a random pose the distance of anchors, the angle between frames and the residual of couplings are MuJoCo's."""
    m = mujoco.MjModel.from_xml_string(SCENE)
    model = load(m)
    assert model.constraint_names == tuple(mujoco.mj_id2name(m, mujoco.mjtObj.mjOBJ_EQUALITY, e) for e in range(m.neq))
    kinds = [ConstraintType(t).name for t in model.constraint_type]
    assert kinds == ["WELD"] * 3 + ["CONNECT"] * 4 + ["JOINT", "JOINT", "TENDON"]
    assert model.constraint_active.tolist() == [True] * 5 + [False] + [True] * 4
    d = mujoco.MjData(m)
    d.eq_active[:] = 1
    d.qpos[:] = m.qpos0 + 0.3 * rng.normal(size=m.nq)
    d.qpos[-4:] /= np.linalg.norm(d.qpos[-4:])
    mujoco.mj_forward(m, d)
    rows = d.efc_type == mujoco.mjtConstraint.mjCNSTR_EQUALITY
    for c, kind in enumerate(kinds):
        theirs = d.efc_pos[rows & (d.efc_id == c)]
        ours = violation(model, c, d.qpos.copy())
        if kind in ("JOINT", "TENDON"):
            np.testing.assert_allclose(ours, theirs, atol=1e-12)
            continue
        np.testing.assert_allclose(np.linalg.norm(ours[:3]), np.linalg.norm(theirs[:3]), atol=1e-12)
        if kind == "WELD":
            np.testing.assert_allclose(np.linalg.norm(ours[4:]), np.linalg.norm(theirs[3:]), atol=1e-12)


def test_mjcf_tendons():
    """Only tendons that do something are kept; their numbers, the actuator on one, and the mapped compliance."""
    m = mujoco.MjModel.from_xml_string(SCENE)
    model = load(m)
    assert model.tendon_names == ("pull", "other")
    np.testing.assert_array_equal(model.tendon_coefficients[:, :2], [[2, -1], [0, 3]])
    assert model.tendon_limited.tolist() == [True, False] and model.tendon_range[0].tolist() == [-1, 1]
    numbers = [model.tendon_stiffness, model.tendon_damping, model.tendon_friction]
    assert [x[0] for x in numbers] == [30, 2, 0.4] and model.tendon_reference[0].tolist() == [0.2, 0.5]
    np.testing.assert_array_equal(model.tendon_reference[1], m.tendon_lengthspring[2])  # -1: where the springs rest
    assert model.actuator_tendon.tolist() == [0] and model.actuator_joint.tolist() == [-1]
    assert model.actuator_gear[0, 0] == 2 and model.force_range.tolist() == [[-5, 5]]
    k, tau = compliance(m, m.eq_solref[9], m.eq_solimp[9], float(m.tendon_invweight0[0] + m.tendon_invweight0[2]))
    assert model.constraint_stiffness[9, 0] == k < np.inf and model.constraint_dissipation_time[9] == tau
    assert np.isinf(model.constraint_stiffness[:9]).all() and np.isnan(model.constraint_dissipation_time[:9]).all()
    report = {line.feature: line.status for line in model.report}
    assert report["tendon 'idle'"] == "ignored" and report["tendon 'pull'"] == report["equality 'tie'"] == "used"
    assert report["solref/solimp of constraints"] == "mapped" and report["equality 'world'"] == "ignored"


def test_mjcf_flags_switch_constraints_and_tendons_off():
    flags = '<option><flag equality="disable" spring="disable" damper="disable" limit="disable" frictionloss="disable"/></option>'
    model = load(mujoco.MjModel.from_xml_string(SCENE.replace("<worldbody>", flags + "<worldbody>", 1)))
    assert not model.constraint_active.any() and not model.tendon_limited.any()
    for field in ("stiffness", "damping", "friction"):
        assert not getattr(model, f"tendon_{field}").any()


@pytest.mark.parametrize("suffix", ["usda", "usdc"])
def test_usd_round_trip(tmp_path, suffix):
    """Constraints and tendons come back as they were, in order, beside actuators that pull a tendon."""
    from test_usd_read import same

    model = every_constraint()
    model.to_usd(tmp_path / f"m.{suffix}")
    same(model, load(tmp_path / f"m.{suffix}"))


def test_usd_schema_alone_keeps_the_loops(tmp_path):
    """Without what only we keep: the joints outside the articulation are read to single precision, couplings are lost."""
    from test_usd_read import strip

    model = every_constraint()
    model.to_usd(tmp_path / "m.usda")
    strip(tmp_path / "m.usda", tmp_path / "bare.usda")
    bare = load(tmp_path / "bare.usda")
    kept = [c for c in range(model.nconstraint) if model.constraint_active[c] and model.constraint_type[c] < 5]
    assert bare.constraint_names == tuple(model.constraint_names[c] for c in kept)
    np.testing.assert_array_equal(bare.constraint_type, model.constraint_type[kept])
    np.testing.assert_allclose(bare.constraint_coefficients, model.constraint_coefficients[kept], atol=1e-6)
    for k, c in enumerate(kept):
        ours, theirs = (violation(x, i, x.q0) for x, i in ((model, c), (bare, k)))
        np.testing.assert_allclose(
            theirs, ours * np.sign(ours[3] * theirs[3] + 1e-30) ** [0, 0, 0, 1, 1, 1, 1], atol=3e-6
        )


def test_usd_loops_of_foreign_stages(tmp_path):
    """A four-bar of revolute joints closes with a hinge; axis X becomes z of the frames; its bodies do not touch."""
    from test_usd_read import Stage

    s = Stage(tmp_path / "m.usda")
    for name, x, z in (("left", 0.0, 0.5), ("top", 0.5, 1.0), ("right", 1.0, 0.5)):
        s.body(name, (x, 0, z))
        s.shape(f"/{name}/cube", size=0.1)
    ends = {"one": (None, "left", (0, 0, 0), (0, 0, -0.5)), "two": ("left", "top", (0, 0, 0.5), (-0.5, 0, 0))}
    ends |= {"three": ("top", "right", (0.5, 0, 0), (0, 0, 0.5)), "four": ("right", None, (0, 0, -0.5), (1.0, 0, 0))}
    for name, (a, b, p, q) in ends.items():
        s.joint("RevoluteJoint", name, a, b, p, q, axis="Y")
    s.joint("DistanceJoint", "rope", "left", "right", minDistance=-1.0, maxDistance=2.0)
    m = s.load()
    assert m.nv == 3 and m.nconstraint == 2
    hinge, distance = (list(m.constraint_type).index(t) for t in (ConstraintType.HINGE, ConstraintType.DISTANCE))
    for side in (0, 1):
        z = compose(m.constraint_pose[hinge, side], [0, 0, 1, 1, 0, 0, 0])[:3] - m.constraint_pose[hinge, side, :3]
        np.testing.assert_allclose(z, [0, 1, 0], atol=1e-6)
    np.testing.assert_allclose(violation(m, hinge, m.q0)[:3], 0, atol=1e-6)
    np.testing.assert_allclose(m.constraint_coefficients[distance], [0, 2, 0, 0, 0])
    bodies = sorted(m.constraint_body[distance].tolist())
    assert bodies in m.excluded.tolist()


def test_usd_loop_with_a_wrong_length_is_an_error(tmp_path):
    from test_usd_read import Stage

    s = Stage(tmp_path / "m.usda")
    for name in ("a", "b"):
        s.body(name)
    s.joint("DistanceJoint", "rope", "a", "b", minDistance=3.0, maxDistance=2.0)
    with pytest.raises(ModelError, match=r"rope.*min <= max"):
        s.load()
