# SPDX-License-Identifier: Apache-2.0
"""`actuatorfrcrange` of joints and tendons: forces accelerate as in MuJoCo, with gravity compensation too."""

import mujoco
import numpy as np
import pytest

import warpsim as ws
from warpsim.files.load import load

STEP = 1e-6  # s; so short that forces do not change within it


def arm(actuators: str, joint: str = "", tendon: str = "", coefficient: float = 0.5, options: str = ""):
    """Two hinges 'a' and 'b'; tendon 't' pulls a with 2 and b with `coefficient`."""
    return mujoco.MjModel.from_xml_string(f"""<mujoco>{options}<worldbody><body>
      <joint name="a" axis="0 1 0" damping="0.1" {joint}/><geom size=".1" pos=".3 0 0"/>
      <body pos=".6 0 0"><joint name="b" axis="0 1 0"/><geom size=".1" pos=".2 0 0"/></body></body></worldbody>
      <tendon><fixed name="t" {tendon}><joint joint="a" coef="2"/><joint joint="b" coef="{coefficient}"/></fixed></tendon>
      <actuator>{actuators}</actuator></mujoco>""")


def accelerations(m, controls, q, v) -> tuple[np.ndarray, np.ndarray]:
    """Accelerations here, from one short step, and in MuJoCo."""
    model, d = load(m), mujoco.MjData(m)
    sim = ws.Simulator(model, len(controls), dt=STEP, solver=ws.NoContact(), dtype="float64", device="cpu")
    state = sim.state(q, v)
    ours = (sim.step(state, controls).v.numpy() - state.v.numpy()) / STEP
    theirs = []
    for u, qpos, qvel in zip(controls, q, v, strict=True):
        d.ctrl, d.qpos, d.qvel = u, qpos, qvel
        mujoco.mj_forward(m, d)
        theirs.append(d.qacc.copy())
    return ours, np.array(theirs)


CLAMP = 'actuatorfrcrange="-1 2"'
LOADED = {  # (actuators, joint, tendon, coefficient of b, options), line of the report
    "tendon, gear 3": (('<motor tendon="t" gear="3"/>', "", CLAMP), "actuatorfrcrange of tendons"),
    "tendon, gear -3, own range": (('<motor tendon="t" gear="-3" forcerange="-1.5 1"/>', "", CLAMP), "actuatorfrcrange of tendons"),
    "tendon range beside the own": (('<motor tendon="t" gear="3" forcerange="2.5 3"/>', "", CLAMP), "actuatorfrcrange of tendons"),
    "tendon servo": (('<position tendon="t" kp="9" kv=".1" gear="3"/>', "", CLAMP), "actuatorfrcrange of tendons"),
    "joint, gear 3": (('<motor joint="a" gear="3"/>', CLAMP), "actuatorfrcrange of joints"),
    "joint, gear -3, own range": (('<motor joint="a" gear="-3" forcerange="-.3 1"/>', CLAMP), "actuatorfrcrange of joints"),
    "joint through a tendon of its own": (('<motor tendon="t" gear="-3"/>', CLAMP, "", 0.0), "actuatorfrcrange of joints"),
    "tendon and joint range on one path": (('<motor tendon="t" gear="3"/>', CLAMP, 'actuatorfrcrange="-.1 .5"', 0.0), "actuatorfrcrange of joints"),
    "joint that cannot be reached": (
        ('<motor tendon="t" gear="-.2" ctrlrange="-2 2"/><motor joint="a" forcerange="-.2 1"/>', CLAMP),
        "actuatorfrcrange of joints that several drive",
    ),
    "tendon that cannot be reached": (
        ('<motor tendon="t" gear="3" ctrlrange="-.5 .5"/><general tendon="t" gainprm="2" biastype="affine" biasprm=".1" ctrlrange="-.2 .5"/>', "", CLAMP),
        "actuatorfrcrange of tendons that several drive",
    ),
    "the other one is off": (
        ('<motor joint="a" gear="3"/><motor tendon="t" group="2"/>', CLAMP, "", 0.5, '<option actuatorgroupdisable="2"/>'),
        "actuatorfrcrange of joints",
    ),
}  # fmt: skip


@pytest.mark.parametrize("key", LOADED)
def test_clamped_forces_accelerate_as_in_mujoco(key):
    """MuJoCo clamps a tendon's force before the gear and a joint's after it: 40 random states with controls far beyond
    both give its accelerations to 1e-5, the error of the step."""
    scene, line = LOADED[key]
    m, rng = arm(*scene), np.random.default_rng(0)
    ours, theirs = accelerations(m, 4 * rng.normal(size=(40, m.nu)), *rng.normal(size=(2, 40, m.nv)))
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5 * np.abs(theirs).max())
    assert line in [entry.feature for entry in load(m).report]


SHARED_JOINT, SHARED_TENDON = "actuatorfrcrange of joints, shared", "actuatorfrcrange of tendons, shared"
SHARED = {  # (actuators, joint, tendon, coefficient of b), lines of the report
    "joint by a tendon": (('<motor name="m" tendon="t"/>', CLAMP), [SHARED_JOINT]),
    "joint by two": (('<motor name="m" joint="a"/><motor name="n" tendon="t"/>', CLAMP), [SHARED_JOINT]),
    "tendon by two": (('<motor name="m" tendon="t"/><motor name="n" tendon="t" gear="-2"/>', "", CLAMP), [SHARED_TENDON]),
    "tendon before forceranges": (
        ('<motor name="m" tendon="t" ctrlrange="-.5 .5"/><position name="n" tendon="t" kp="9" forcerange="-.5 .5"/>', "", CLAMP),
        [SHARED_TENDON],
    ),
    "servo within the range": (
        ('<position name="m" joint="a" kp="1"/><motor name="n" tendon="t" ctrlrange="-.1 .1"/>', CLAMP),
        [SHARED_JOINT],
    ),
    "both": (
        (
            '<position name="m" joint="a" kp="9" kv="0.2" gear="2"/><general name="n" tendon="t" gear="-.5" dyntype="filter" dynprm=".1"/>'
            '<motor name="o" tendon="t" forcerange="-1 1"/><motor joint="b" gear="3"/>',
            CLAMP,
            'actuatorfrcrange="-2 1.5"',
        ),
        [SHARED_JOINT, SHARED_TENDON],
    ),
}  # fmt: skip


@pytest.mark.parametrize("key", SHARED)
def test_ranges_of_several_actuators_clamp_as_in_mujoco(key):
    """The sums of 200 random states, half of them beyond a range: MuJoCo's accelerations to 1e-5, the error of the step."""
    scene, lines = SHARED[key]
    m, rng = arm(*scene), np.random.default_rng(0)
    ours, theirs = accelerations(m, 3 * rng.normal(size=(200, m.nu)), *rng.normal(size=(2, 200, m.nv)))
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5 * np.abs(theirs).max())
    found = [entry.feature for entry in load(m).report]
    assert all(line in found for line in lines)


@pytest.mark.parametrize(
    "integrator",
    [ws.SymplecticEuler(), ws.Midpoint(tolerance=1e-15), ws.Variational(tolerance=1e-13)],
    ids=lambda x: type(x).__name__,
)
@pytest.mark.parametrize("size", [0.3, 5.0], ids=["within", "beyond"])
def test_gradients_through_shared_ranges(integrator, size):
    """Within all ranges and beyond them: differences of 10 steps."""
    model = load(arm(*SHARED["both"][0]))
    sim = ws.Simulator(
        model,
        dt=0.005,
        dtype="float64",
        device="cpu",
        requires_grad=True,
        integrator=integrator,
        solver=ws.SAP(tolerance=1e-13),
    )
    u = size * np.random.default_rng(2).normal(size=(10, 1, model.nu))
    found = ws.check_gradients(
        sim, sim.state([0.1, -0.2], [0.2, 0.3]), u, horizons=(1, 10), parameters=["actuator_gain", "force_range"]
    )
    assert found.ok, str(found)


GRAVITY = """<mujoco>{options}<worldbody><body name="one" gravcomp="1"><joint name="a" axis="0 1 0" damping="0.1" {joint}/><geom size=".1" pos=".3 0 .1"/>
  <body name="two" pos=".6 0 0" gravcomp="{share}"><joint name="b" axis="0 1 .3"/><geom size=".1" pos=".2 0.1 0"/></body></body>
  <body name="free" pos="0 0 2" gravcomp="0.4"><freejoint/><geom size=".1" pos=".05 0 0"/></body></worldbody>
  <actuator><motor joint="a"/><motor joint="b"/></actuator></mujoco>"""


@pytest.mark.parametrize(
    "joint, options",
    [
        ("", ""),
        ('actuatorgravcomp="true"', ""),
        ('actuatorgravcomp="true" actuatorfrcrange="-30 10"', ""),
        ('actuatorfrcrange="-30 10"', ""),
        ("", '<option gravity="1 2 -3"/>'),
        ("", '<option><flag spring="disable" damper="disable"/></option>'),
    ],
)
def test_gravity_compensation_accelerates_as_in_mujoco(joint, options):
    """gravcomp of bodies, as a passive force or as one of actuators, within their range."""
    m, rng = (
        mujoco.MjModel.from_xml_string(GRAVITY.format(joint=joint, options=options, share=0.5)),
        np.random.default_rng(0),
    )
    m.dof_damping *= "damper" not in options
    q = rng.normal(size=(100, m.nq))
    q[:, 5:] /= np.linalg.norm(q[:, 5:], axis=1, keepdims=True)
    v = rng.normal(size=(100, m.nv))
    ours, theirs = accelerations(m, 20 * rng.normal(size=(100, m.nu)), q, v)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5 * np.abs(theirs).max())


@pytest.mark.parametrize(
    "integrator",
    [
        ws.SymplecticEuler(),
        ws.ImplicitEuler(tolerance=1e-15),
        ws.Midpoint(tolerance=1e-15),
        ws.Variational(tolerance=1e-13),
    ],
    ids=lambda x: type(x).__name__,
)
def test_a_body_without_weight_keeps_its_speed(integrator, within):
    """gravcomp 1 in every integrator: a free body moves straight, to rounding, and wrenches act beside it."""
    b = ws.ModelBuilder("floating", timestep=0.01)
    body = b.add_body("x", mass=2.0, inertia=[0.1, 0.2, 0.3], gravcomp=1.0)
    b.add_joint(body, "free")
    sim = ws.Simulator(b.build(), dtype="float64", device="cpu", integrator=integrator)
    start = sim.state(v=[1.0, 2.0, 3.0, 0.0, 0.0, 0.0])
    final = sim.rollout(start, steps=100).final
    within(f"straight, {integrator!r}", np.abs(final.q.numpy()[0, :3] - [1, 2, 3]).max(), 1e-9)
    wrench = np.zeros((1, 1, 6))
    wrench[0, 0, 3:] = [2.0, 0.0, 0.0]
    pushed = start
    for _ in range(100):
        pushed = sim.step(pushed, wrench=wrench)
    within(f"pushed, {integrator!r}", np.abs(pushed.v.numpy()[0, :3] - [2, 2, 3]).max(), 2e-2)


@pytest.mark.parametrize("joint", ["", 'actuatorgravcomp="true" actuatorfrcrange="-8 3"'])
@pytest.mark.parametrize(
    "integrator",
    [ws.SymplecticEuler(), ws.Midpoint(tolerance=1e-15), ws.Variational(tolerance=1e-13)],
    ids=lambda x: type(x).__name__,
)
def test_gradients_through_gravity_compensation(integrator, joint):
    """By the state, masses and gravity, where it counts within a range that it exceeds, too."""
    model = load(mujoco.MjModel.from_xml_string(GRAVITY.format(joint=joint, options="", share=0.5)))
    sim = ws.Simulator(
        model,
        dt=0.005,
        dtype="float64",
        device="cpu",
        requires_grad=True,
        integrator=integrator,
        solver=ws.SAP(tolerance=1e-13),
    )
    q = np.array(model.q0)
    q[:2] = 0.3, -0.4
    parameters = ["body_mass", "body_com", "gravity"]
    found = ws.check_gradients(
        sim, sim.state(q, 0.1 * np.ones(model.nv)), horizons=(1, 10), parameters=parameters, entries=4
    )
    assert found.ok, str(found)


def test_wrong_effort_limits_are_refused_by_name():
    """One error each."""
    b = ws.ModelBuilder("limits")
    body = b.add_body("x", mass=1.0, inertia=[1, 1, 1])
    b.add_joint(body, "ball", name="neck")
    with pytest.raises(ws.ModelError, match="joint 'neck' is ball"):
        b.add_effort_limit("neck", (-1, 1))
    with pytest.raises(ws.ModelError, match="give a joint or a tendon"):
        b.add_effort_limit()
    with pytest.raises(ws.ModelError, match="gravcomp"):
        b.add_body("y", gravcomp=np.nan)
    hinge = b.add_joint(b.add_body("z", mass=1.0, inertia=[1, 1, 1]), "hinge", name="h")
    with pytest.raises(ws.ModelError, match=r"joint 'h': range of efforts is .*low <= high"):
        b.add_effort_limit(hinge, (1, -1))
    b.add_effort_limit(hinge, (-1, 1))
    with pytest.raises(ws.ModelError, match="joint 'h' has an effort limit already"):
        b.add_effort_limit(hinge, (-1, 1))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_shared_ranges_and_compensation_keep_worlds_apart(dtype):
    """A NaN control stops its own world alone; threads, and other numbers of worlds, have the same bits."""
    scene = arm(*SHARED["both"][0])
    scene.body_gravcomp[1] = 0.7
    scene.jnt_actgravcomp[0] = True
    model = load(scene)
    assert model.joint_effort_gravity[0] and model.body_gravcomp[0] == 0.7
    u = 4 * np.random.default_rng(5).normal(size=(20, 5, model.nu))
    finals = []
    for threads in (1, 2):
        sim = ws.Simulator(model, 5, dtype=dtype, device="cpu", threads=threads)
        finals.append(sim.rollout(sim.state(), u).final)
    bad = u.copy()
    bad[7, 2, 1] = np.nan
    sim = ws.Simulator(model, 5, dtype=dtype, device="cpu")
    state = sim.state()
    for control in bad:
        state = sim.step(state, control)
    alone = ws.Simulator(model, 1, dtype=dtype, device="cpu")
    finals += [state, alone.rollout(alone.state(), u[:, 3:4]).final]
    assert state.memory["flags"].numpy().tolist() == [0, 0, ws.NONFINITE, 0, 0]
    for name in ("q", "v"):
        first, second, third, one = (getattr(x, name).numpy() for x in finals)
        np.testing.assert_array_equal(first, second)
        np.testing.assert_array_equal(first[[0, 1, 3, 4]], third[[0, 1, 3, 4]])
        np.testing.assert_array_equal(first[3], one[0])
        assert np.isfinite(third).all()
