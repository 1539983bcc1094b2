# SPDX-License-Identifier: Apache-2.0
"""A body by itself on a free or ball joint spins with its angular momentum and energy (theory §2); what rests keeps its bits."""

import itertools

import mujoco
import numpy as np
import pytest
import warp as wp

import warpsim as ws
from scenes.bodies import body_on_plane
from warpsim.integrate.step import Step
from warpsim.run.streaming import restored_state

INERTIA = 'mass="0.7" fullinertia="1 2 2.5 0.2 -0.1 0.3"'
WELDED = '<body pos=".3 .1 0" euler="20 30 40"><inertial pos="0.1 0 0" mass="0.3" diaginertia=".1 .2 .25"/></body>'
SPINS = np.array([[0.1, 5.0, 0.2], [30.0, 2.0, 1.0], [60.0, -70.0, 20.0]])
KEPT = {"float64": (1e-10, 1e-10), "float32": (1e-3, 1e-3)}  # angular momentum, energy


def body(joint: str, com: str = "0.4 -.2 .1", more: str = WELDED, gravity: str = "0 0 0"):
    """MuJoCo's model of a body with an inertia that is not principal, and ours."""
    text = f"""<mujoco><option gravity="{gravity}"/><worldbody><body name="a">{joint}
        <inertial pos="{com}" {INERTIA}/>{more}</body></worldbody></mujoco>"""
    reference = mujoco.MjModel.from_xml_string(text)
    return reference, ws.load(reference)


def momentum_and_energy(reference, q, v) -> tuple[np.ndarray, float]:
    """By MuJoCo: angular momentum in world axes about the centre of mass, or the anchor of a ball joint, and kinetic energy."""
    data, p = mujoco.MjData(reference), np.zeros(reference.nv)
    data.qpos[:], data.qvel[:] = q, v
    mujoco.mj_forward(reference, data)
    mujoco.mj_subtreeVel(reference, data)
    mujoco.mj_mulM(reference, data, p, data.qvel)
    free = reference.nv == 6
    return data.subtree_angmom[0].copy() if free else data.xmat[1].reshape(3, 3) @ p, 0.5 * float(p @ data.qvel)


@pytest.mark.parametrize("integrator", [ws.SymplecticEuler(), ws.SymplecticEuler(implicit_stiffness=True)])
@pytest.mark.parametrize("dtype", KEPT)
@pytest.mark.parametrize("joint", ["free", "ball"])
def test_momentum_and_energy_stay(joint, dtype, integrator, device, within):
    """L' = L and T' = T of an eccentric body of two links over 10 s at h = 5 ms, up to 95 rad/s."""
    reference, model = body("<freejoint/>" if joint == "free" else '<joint type="ball" pos=".2 .1 0"/>')
    sim = ws.Simulator(model, len(SPINS), dt=0.005, dtype=dtype, device=device, integrator=integrator)
    v = np.concatenate([np.ones((len(SPINS), model.nv - 3)), SPINS], axis=1)
    state = sim.state(v=v)
    final = sim.rollout(state, steps=2000, every=2000).final
    for w in range(len(SPINS)):
        L0, T0 = momentum_and_energy(reference, state.q.numpy()[w], state.v.numpy()[w])
        L, T = momentum_and_energy(reference, final.q.numpy()[w], final.v.numpy()[w])
        of_L, of_T = KEPT[dtype]
        within(f"{joint} {dtype}: angular momentum", np.linalg.norm(L - L0) / np.linalg.norm(L0), of_L)
        within(f"{joint} {dtype}: energy", abs(T / T0 - 1), of_T)
    assert not sim.diagnostics.flags.numpy().any()


def test_midpoint_keeps_momentum(device, within):
    """The midpoint rule turns a body by cay(h ω_m), with which R J ω stays."""
    reference, model = body("<freejoint/>", com="0 0 0", more="")
    sim = ws.Simulator(model, len(SPINS), dt=0.005, dtype="float64", device=device, integrator=ws.Midpoint())
    state = sim.state(v=np.concatenate([np.zeros((len(SPINS), 3)), SPINS], axis=1))
    final = sim.rollout(state, steps=400).final
    for w in range(len(SPINS)):
        L0, T0 = momentum_and_energy(reference, state.q.numpy()[w], state.v.numpy()[w])
        L, T = momentum_and_energy(reference, final.q.numpy()[w], final.v.numpy()[w])
        within("midpoint: angular momentum", np.linalg.norm(L - L0) / np.linalg.norm(L0), 1e-8)
        within("midpoint: energy", abs(T / T0 - 1), 1e-8)


@pytest.mark.parametrize("angle, error", [(0.1, 1e-11), (0.5, 1e-6)])
def test_spin_about_a_principal_axis(angle, error, device, within):
    """h ω a step: R = exp(t ω)."""
    model = body_on_plane("box", [0.3, 0.2, 0.1], floor=False, height=1.0)
    sim = ws.Simulator(model, dt=0.01, dtype="float64", device=device)
    sim.parameters["gravity"] = [0.0, 0.0, 0.0]
    q = sim.rollout(sim.state(v=[0, 0, 0, 0, 0, angle / 0.01]), steps=20).q.numpy()[-1, 0]
    turned = 2 * np.arctan2(q[6], q[3])
    within(f"angle at {angle} rad a step", abs(np.exp(1j * turned) - np.exp(20j * angle)), error)


def test_many_turns_in_a_step(device, within):
    """8 rad a step: in parts, momentum and energy still stay."""
    reference, model = body("<freejoint/>")
    sim = ws.Simulator(model, dt=0.01, dtype="float64", device=device)
    state = sim.state(v=[0, 0, 0, 500, -600, 200])
    final = sim.rollout(state, steps=200).final
    (L0, T0), (L, T) = (momentum_and_energy(reference, s.q.numpy()[0], s.v.numpy()[0]) for s in (state, final))
    within("8 rad a step: angular momentum", np.linalg.norm(L - L0) / np.linalg.norm(L0), 1e-9)
    within("8 rad a step: energy", abs(T / T0 - 1), 1e-9)


TOP = """<mujoco><worldbody><body pos="0 0 1">{joint}<geom type="cylinder" size="0.04 0.005" pos="0 0 .06" density="2000"/>
    </body></worldbody>{more}</mujoco>"""
MOUNTS = {
    "ball joint": ('<joint type="ball"/>', ""),
    "connect": ("<freejoint/>", '<equality><connect body1="body_1" anchor="0 0 0"/></equality>'),
}


@pytest.mark.parametrize("mount", MOUNTS)
def test_heavy_top_keeps_its_energy(mount, device, within):
    """A leaning top of 100 rad/s at h = 1 ms, 2 s: torques turn with the world, not with the body."""
    joint, more = MOUNTS[mount]
    text = TOP.format(joint=joint, more=more).replace('<body pos="0 0 1">', '<body name="body_1" pos="0 0 1">')
    model = ws.load(mujoco.MjModel.from_xml_string(text))
    lean = [np.cos(0.2), np.sin(0.2), 0, 0]
    q = lean if model.nv == 3 else [0, 0, 1, *lean]
    sim = ws.Simulator(model, dt=0.001, dtype="float64", device=device)
    trajectory = sim.rollout(sim.state(q=[q], v=[[0] * (model.nv - 1) + [100.0]]), steps=2000, every=20)
    E = trajectory.diagnostics["energy"].numpy()[:, 0]
    within(f"top on a {mount}: rise of energy", (E - E[0]).max() / E[0], 1e-3)
    within(f"top on a {mount}: fall of energy", (E[0] - E).max() / E[0], 2e-2)


def test_a_thrown_box_gains_nothing(device, within):
    """Contact takes energy and the free motion keeps it: no step of 5 ms gains any, at 35 rad/s from the air to rest."""
    model = body_on_plane("box", [0.1, 0.06, 0.02], height=1.0)
    sim = ws.Simulator(model, dt=0.005, dtype="float64", device=device)
    trajectory = sim.rollout(sim.state(v=[1, 0, 2, 20, 15, -25]), steps=600)
    E = trajectory.diagnostics["energy"].numpy()[:, 0]
    within("thrown box: largest rise", np.diff(E).max() / E[0], 1e-5)
    assert E[-1] < 0.2 * E[0]


@pytest.mark.parametrize("force", ["wrench", "medium"])
def test_forces_are_of_first_order(force, device, within):
    """A spinning body under a wrench fixed in the world, and in a medium: the state after 0.5 s is of order 1."""
    air = 'density="1.2" viscosity="0.5"' if force == "medium" else ""
    text = f"""<mujoco><option gravity="0 0 -9" {air}/><worldbody><body><freejoint/>
        <inertial pos="0.04 -.02 .01" mass="0.7" fullinertia=".01 .02 .025 0.002 -0.001 0.003"/>
        <geom type="box" size=".3 .2 .1" mass="0"/></body></worldbody></mujoco>"""
    sim = ws.Simulator(ws.load(mujoco.MjModel.from_xml_string(text)), dt=0.02, dtype="float64", device=device)
    wrench = np.array([[[0.05, 0.1, -0.02, 0.3, 0.2, 0.1]]]) if force == "wrench" else None
    ends = []
    for n in (8, 16, 32, 64):
        state = sim.state(v=[1, 0, 0, 12, -10, 5])
        for _ in range(25):
            state = sim.step(state, wrench=wrench, substeps=n)
        ends.append(np.concatenate([state.q.numpy()[0], state.v.numpy()[0]]))
    error = [np.linalg.norm(coarse - fine) for coarse, fine in itertools.pairwise(ends)]
    within(f"{force}: |order - 1|", abs(np.log2(error[1] / error[2]) - 1), 0.1)


def run(model, device, v, steps=60, **options) -> list[np.ndarray]:
    sim = ws.Simulator(model, 2, dt=0.005, dtype="float64", device=device, **options)
    trajectory = sim.rollout(sim.state(v=v), steps=steps)
    return [trajectory.q.numpy(), trajectory.v.numpy(), trajectory.diagnostics["energy"].numpy()]


def test_verbs_one_by_one_have_the_same_bits(device, monkeypatch):
    """Spinning bodies in contact, beside a tree of two links."""
    if not wp.get_device(device).is_cpu:
        pytest.skip("lanes add in an order of their own")
    b = ws.ModelBuilder("thrown")
    b.add_geom("plane")
    for i in range(2):
        one = b.add_body(f"box{i}", pose=[0.4 * i, 0, 0.2])
        b.add_joint(one, "free")
        b.add_geom("box", [0.1, 0.06, 0.02], body=one)
    two = b.add_body("arm", parent=one, pose=[0.2, 0, 0])
    b.add_joint(two, "hinge", axis=[0, 1, 0])
    b.add_geom("sphere", [0.03], body=two)
    model = b.build()
    v = 8.0 * np.random.default_rng(0).normal(size=(2, model.nv))
    whole = run(model, device, v)
    monkeypatch.setattr(Step, "_is_plain", False)
    for a, c in zip(whole, run(model, device, v), strict=True):
        np.testing.assert_array_equal(a, c)


def test_what_rests_keeps_its_bits(device, monkeypatch):
    """Below 1e-8 rad a step a body moves as any other tree."""
    model = body_on_plane("box", [0.1, 0.06, 0.02], height=0.02)
    v = np.array([[0, 0, 0, 0, 0, 0], [0, 0, 0, 1e-6, -1e-6, 1e-6]])
    found = run(model, device, v)
    monkeypatch.setattr("warpsim.integrate.step.lone_trees", lambda model: np.zeros(model.ntree, bool))
    monkeypatch.setattr(Step, "_is_plain", False)
    plain = run(model, device, v)
    if wp.get_device(device).is_cpu:
        for a, c in zip(found, plain, strict=True):
            np.testing.assert_array_equal(a, c)


TUMBLING = """<mujoco><option gravity="0 0 0"/><worldbody><body name="front">{joint}<geom type="box" size=".1 .05 .02"/>
    <body pos=".15 0 0"><joint type="hinge" axis="0 1 0"/><geom type="box" size=".05 .05 .02"/></body></body></worldbody></mujoco>"""


@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_tree_that_gains_energy_is_flagged(dtype, plain, device, monkeypatch, within):
    """Two links at 20 rad/s gain energy at h = 5 ms: flagged before it has risen by a half. At 3 rad/s, and at rest, they are not; each world by itself."""
    if not plain:
        monkeypatch.setattr(Step, "_is_plain", False)
    model = ws.load(mujoco.MjModel.from_xml_string(TUMBLING.format(joint="<freejoint/>")))
    sim = ws.Simulator(model, 3, dt=0.005, dtype=dtype, device=device)
    spin = np.array([0, 0, 0, 0.4, 0.2, 0.9, 0])
    trajectory = sim.rollout(sim.state(v=np.outer([3, 20, 0], spin)), steps=300)
    flags, E = trajectory.diagnostics["flags"].numpy(), trajectory.diagnostics["energy"].numpy()
    assert not flags[:, [0, 2]].any()
    first = np.flatnonzero(flags[:, 1] & ws.ENERGY_GAIN)[0]
    within(f"{dtype}: energy when flagged", E[first, 1] / E[0, 1], 1.5)


def test_work_is_no_gain(device):
    """A motor, a push of the state and a weight that falls give energy, and no flag: two links, driven for 2 s at h = 5 ms."""
    text = TUMBLING.replace("0 0 0", "0 0 -9.81", 1).replace(
        "</worldbody>", '</worldbody><actuator><motor joint="turn" gear="0.02"/></actuator>'
    )
    text = text.replace('<joint type="hinge"', '<joint name="turn" type="hinge"').format(joint="<freejoint/>")
    model = ws.load(mujoco.MjModel.from_xml_string(text))
    sim = ws.Simulator(model, dt=0.005, dtype="float64", device=device)
    state = sim.state(v=[0.5, 0, 0, 1, 0.5, 1, 0])
    rng = np.random.default_rng(1)
    for k in range(400):
        state = sim.step(state, rng.uniform(-1, 1, (1, 1)))
        if k % 20 == 19:
            state.v.assign(state.v.numpy() + rng.normal(size=state.v.shape))
    assert not sim.diagnostics.flags.numpy().any()


def test_gravity_that_tilts_is_no_gain(device):
    """A pendulum that hangs at rest gains nothing where gravity turns by 0.01 rad within 10 s, written before each step."""
    link = (
        '<body pos="0 0 -1"><joint type="hinge" axis="0 1 0" damping="0.5"/><geom size="0.1" pos="0 0 -0.5" mass="1"/>'
    )
    text = f"<mujoco><worldbody>{link}{link}</body></body></worldbody></mujoco>"
    sim = ws.Simulator(ws.load(mujoco.MjModel.from_xml_string(text)), dt=0.005, dtype="float64", device=device)
    state = sim.state()
    for k in range(800):
        angle = 0.01 * np.sin(2 * np.pi * k * 0.005 / 10)
        sim.parameters["gravity"] = [9.81 * np.sin(angle), 0.0, -9.81 * np.cos(angle)]
        state = sim.step(state)
    assert not sim.diagnostics.flags.numpy().any()


def test_the_warning_names_the_tree(device, tmp_path):
    """`on_fault` says which body's links gain energy, and what to do."""
    model = ws.load(mujoco.MjModel.from_xml_string(TUMBLING.format(joint="<freejoint/>")))
    sim = ws.Simulator(model, dt=0.005, dtype="float64", device=device, on_fault=tmp_path / "faults")
    state = sim.state(v=[0, 0, 0, 16, 8, 36, 0])
    with pytest.warns(UserWarning, match="raised ENERGY_GAIN .* on body 'front' gain energy"):
        for _ in range(60):
            state = sim.step(state)


def test_a_store_without_sums_goes_on(device):
    """A checkpoint of a version that did not look for gained energy begins with sums of zero."""
    model = ws.load(mujoco.MjModel.from_xml_string(TUMBLING.format(joint="<freejoint/>")))
    sim = ws.Simulator(model, dt=0.005, dtype="float64", device=device)
    arrays = {name: array.numpy() for name, array in sim.state(v=np.ones(7)).arrays().items() if name != "energy_gain"}
    state = restored_state(sim, arrays, "old.zarr")
    np.testing.assert_array_equal(state.v.numpy(), np.ones((1, 7)))
    assert not state.memory["energy_gain"].numpy().any()
