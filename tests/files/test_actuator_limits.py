"""`actuatorfrcrange` of joints and tendons: what is loaded accelerates as in MuJoCo, what cannot be is refused by name."""

import mujoco
import numpy as np
import pytest

import warpsim as ws
from warpsim.errors import ModelError
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


REFUSED = {  # (actuators, joint, tendon), words of the error
    "joint by a tendon": (('<motor name="m" tendon="t"/>', CLAMP), ["joint 'a'", "'m'", "actuatorfrcrange -1 2"]),
    "joint by two": (('<motor name="m" joint="a"/><motor name="n" tendon="t"/>', CLAMP), ["joint 'a'", "'m'", "'n'"]),
    "tendon by two": (('<motor name="m" tendon="t"/><motor name="n" tendon="t"/>', "", CLAMP), ["tendon 't'", "'m'", "'n'"]),
    "tendon before forceranges": (
        ('<motor name="m" tendon="t" ctrlrange="-.5 .5"/><position name="n" tendon="t" kp="9" forcerange="-.5 .5"/>', "", CLAMP),
        ["tendon 't'", "'m'", "'n'"],
    ),
    "servo within the range": (
        ('<position name="m" joint="a" kp="1"/><motor name="n" tendon="t" ctrlrange="-.1 .1"/>', CLAMP),
        ["joint 'a'", "'m'", "'n'", "actuatorfrcrange"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("key", REFUSED)
def test_a_clamp_of_several_forces_is_refused_by_name(key):
    """A sum that may leave the range would be clamped in MuJoCo and not here; the report loads it without the range."""
    scene, words = REFUSED[key]
    with pytest.raises(ModelError) as error:
        load(arm(*scene))
    for word in [*words, "forcerange", "unsupported='report'"]:
        assert word in str(error.value)
    with pytest.warns(UserWarning, match="actuatorfrcrange"):
        model = load(arm(*scene), unsupported="report")
    assert model.nu == scene[0].count("name=") and not np.isin(model.force_range, (-1, 2)).any()
    assert not any("no actuator drives" in line.detail for line in model.report)
