# SPDX-License-Identifier: Apache-2.0
"""Heavy bodies: contact forces under mass ratios are those of statics, and what contact cannot hold is refused, or flagged."""

import numpy as np
import pytest

import warpsim as ws

G = 9.81


def stack(masses, kind: str = "box", h: float = 0.005) -> ws.Model:
    """Bodies of 20 cm at rest on top of each other."""
    b = ws.ModelBuilder("stack", timestep=h)
    b.add_geom("plane")
    for i, mass in enumerate(masses):
        body = b.add_body(f"body {i}", pose=[0, 0, 0.1 + 0.2 * i, 1, 0, 0, 0], mass=mass, inertia=[mass * 0.04 / 6] * 3)
        b.add_joint(body, "free")
        b.add_geom(kind if i == 0 else "box", [0.1] * (2 if i == 0 and kind == "cylinder" else 3), body=body)
    return b.build()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "solver", [ws.SAP(), ws.SAP(linear_solver="cg"), ws.SAP(tolerance=1e-3)], ids=["", "cg", "loose"]
)
@pytest.mark.parametrize("masses", [(1.0, 1e4), (1.0, 1e6), (1.0, 1e4, 1.0, 1e4)], ids=str)
def test_forces_on_heavy_bodies_at_rest_are_their_weight(device, dtype, solver, masses):
    """Σ m g above and below every heavy body, in every one of 50 steps, or the step says NOT_CONVERGED."""
    sim = ws.Simulator(stack(masses), dtype=dtype, device=device, solver=solver)
    state, weight, forces = sim.state(), G * np.array(masses), []
    for step in range(110):
        state = sim.step(state)
        if step >= 60:
            forces.append(sim.contact_force().numpy()[0, :, 2])
    if not sim.diagnostics.flags.numpy()[0] & ws.NOT_CONVERGED:
        np.testing.assert_allclose(np.array(forces)[:, weight > 10], np.tile(weight[weight > 10], (50, 1)), rtol=2e-2)
        assert not sim.diagnostics.flags.numpy().any()


XML = '<mujoco><worldbody><geom type="plane" size="1 1 1"/><body name="planet"><freejoint/><geom size="0.1" mass="1e13"/></body></worldbody></mujoco>'
URDF = """<robot name="r"><link name="base"/><link name="planet"><inertial><mass value="1e13"/><inertia ixx="1e11" ixy="0" ixz="0" iyy="1e11"
 iyz="0" izz="1e11"/></inertial></link><joint name="j" type="prismatic"><parent link="base"/><child link="planet"/><axis xyz="0 0 1"/>
 <limit lower="0" upper="1" effort="1" velocity="1"/></joint></robot>"""
USD = """#usda 1.0
(
    metersPerUnit = 1
    kilogramsPerUnit = 1
    upAxis = "Z"
)
def PhysicsScene "scene" {}
def Plane "ground" (
    prepend apiSchemas = ["PhysicsCollisionAPI"]
)
{
    uniform token axis = "Z"
}
def Sphere "planet" (
    prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsCollisionAPI", "PhysicsMassAPI"]
)
{
    double radius = 0.1
    float physics:mass = 1e13
}
"""


@pytest.mark.parametrize("suffix, text", [("xml", XML), ("urdf", URDF), ("usda", USD)])
def test_files_with_a_body_that_contact_cannot_hold(tmp_path, suffix, text):
    """A body of more than 10¹² kg would sink into the ground, or fall through it: refused by name, with what to do."""
    path = tmp_path / f"planet.{suffix}"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"planet.*1e\+?13.*at most 1e\+(12|09)"):  # a URDF may have 10⁹ kg
        ws.Simulator(ws.load(path), device="cpu")


@pytest.mark.parametrize("solver", [ws.SAP(), ws.SAP(approximation="convex"), ws.LCP(), ws.Compliant()], ids=repr)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_body_that_contact_cannot_hold(dtype, solver):
    """With every law; 10¹² kg stand as 1 kg does, where contact is near-rigid without a stiffness. What stands in the world has any mass."""
    for mass in (1e13, 1e30):
        with pytest.raises(ValueError, match="body 'body 0': mass is"):
            ws.Simulator(stack([mass]), dtype=dtype, device="cpu", solver=solver)
    b = ws.ModelBuilder("rock")
    rock = b.add_body("rock", mass=1e20, inertia=[1e20] * 3)
    b.add_geom("box", [1, 1, 1], body=rock)
    ball = b.add_body("ball", pose=[0, 0, 1.1, 1, 0, 0, 0])
    b.add_joint(ball, "free")
    b.add_geom("sphere", [0.1], body=ball)
    ws.Simulator(b.build(), dtype=dtype, device="cpu", solver=solver)
    if isinstance(solver, ws.Compliant):  # near-rigid contact is a spring: 10⁷ kg sink some mm
        with pytest.raises(ValueError, match=r"1e\+08 kg; contact and constraints hold at most 1e\+07 with Compliant"):
            ws.Simulator(stack([1e8]), dtype=dtype, device="cpu", solver=solver)
        ws.Simulator(stack([1e8]), dtype=dtype, device="cpu", solver=ws.Compliant(stiffness=1e13))
        return
    heights = []
    for mass in (1.0, 1e12):
        sim = ws.Simulator(stack([mass]), dtype=dtype, device="cpu", solver=solver)
        heights.append(sim.rollout(sim.state(), steps=100).final.q.numpy()[0, 2])
        assert not sim.diagnostics.flags.numpy().any()
    np.testing.assert_allclose(*heights, atol=1e-6)


def test_parameters_of_a_body_that_contact_cannot_hold(device):
    """Assigned they are refused, too; written by a kernel they flag their world NOT_CONVERGED. Without contact any mass may fall."""
    sim = ws.Simulator(stack([1.0]), worlds=2, dtype="float64", device=device)
    with pytest.raises(ValueError, match=r"body 'body 0': mass is 2e\+12 kg"):
        sim.parameters["body_mass"] = [[1.0], [2e12]]
    with pytest.raises(ValueError, match="armature is 1e"):
        sim.parameters["joint_armature"] = np.full(6, 1e15)
    sim.parameters["body_mass"].assign(np.array([[1.0], [1e18]]))
    sim.parameters["body_inertia"].assign(np.array([np.eye(3), 1e18 * np.eye(3)]).reshape(2, 1, 3, 3))
    state = sim.step(sim.state())
    np.testing.assert_array_equal(state.memory["flags"].numpy(), [0, ws.NOT_CONVERGED])
    sim = ws.Simulator(stack([1e30]), dtype="float64", device=device, solver=ws.NoContact())
    assert not sim.step(sim.state()).memory["flags"].numpy().any()
