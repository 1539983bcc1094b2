# SPDX-License-Identifier: Apache-2.0
"""A material that bounces where contact has no restitution: the message names the geom and `ws.LCP()`, from every way in, and that one takes it."""

import pytest

import warpsim as ws

STAGE = """#usda 1.0
(
    upAxis = "Z"
    metersPerUnit = 1
)
def Xform "ball" (prepend apiSchemas = ["PhysicsRigidBodyAPI"])
{
    double3 xformOp:translate = (0, 0, 1)
    uniform token[] xformOpOrder = ["xformOp:translate"]
    def Sphere "hull" (prepend apiSchemas = ["PhysicsCollisionAPI", "MaterialBindingAPI"])
    {
        double radius = 0.1
        rel material:binding:physics = </rubber>
    }
}
def Plane "floor" (prepend apiSchemas = ["PhysicsCollisionAPI"])
{
    uniform token axis = "Z"
}
def Material "rubber" (prepend apiSchemas = ["PhysicsMaterialAPI"])
{
    float physics:restitution = 0.7
    float physics:density = 100
}
"""
FIX = r"restitution 0\.7, which {} contact does not model.*solver=ws\.LCP\(\)"


def built(floor: float = 0.2, hull: float = 0.7) -> ws.Model:
    b = ws.ModelBuilder("ball")
    b.add_geom("plane", restitution=floor)
    ball = b.add_body("ball", pose=[0, 0, 1])
    b.add_geom("sphere", [0.1], body=ball, name="hull", restitution=hull)
    b.add_joint(ball, "free")
    return b.build()


def test_the_message_names_the_solver_that_takes_it(tmp_path):
    """A builder's model, a USD file, and a parameter that is written; the bounciest geom is the one named."""
    path = tmp_path / "ball.usda"
    path.write_text(STAGE)
    for model in (built(), ws.load(path)):
        for solver, name in ((None, "SAP"), (ws.SAP(approximation="convex"), "SAP"), (ws.Compliant(), "Compliant")):
            with pytest.raises(ValueError, match="hull.*" + FIX.format(name)):
                ws.Simulator(model, solver=solver, device="cpu", time_of_impact=False)
        ws.Simulator(model, solver=ws.LCP(), device="cpu")
    sim = ws.Simulator(built(0.0, 0.0), device="cpu")
    with pytest.raises(ValueError, match=r"geom_restitution.*time_of_impact=True, or solver=ws\.LCP\(\)"):
        sim.parameters["geom_restitution"] = [0.5, 0.5]
