# SPDX-License-Identifier: Apache-2.0
"""Drake's side of `slip_control.py`: the gripper and the spatula of `scenes/pressure.py` in pydrake, run by any interpreter that has it.

    echo '{"h": 0.005, "force": [16, 16, 1], "resolution": 0.04, "inertia": [[…], […], […]]}' | python papers/sap/drake_slip.py

Writes {"pitch": [rad], "contacts": polygons, "ms": CPU time per step, "version": …}. Relaxation times of two bodies add up in Drake: 0.1 + 0.1 s.
"""

import importlib.metadata
import json
import math
import sys
import time

import numpy as np
from pydrake.geometry import (
    AddCompliantHydroelasticProperties,
    AddContactMaterial,
    Cylinder,
    Ellipsoid,
    ProximityProperties,
)
from pydrake.math import RigidTransform, RollPitchYaw
from pydrake.multibody.plant import (
    AddMultibodyPlant,
    CoulombFriction,
    MultibodyPlantConfig,
)
from pydrake.multibody.tree import (
    FixedOffsetFrame,
    PrismaticJoint,
    RotationalInertia,
    SpatialInertia,
    UnitInertia,
)
from pydrake.systems.analysis import Simulator
from pydrake.systems.framework import DiagramBuilder

HALF_RELAXATION = 0.1  # [s]


def material(modulus: float, resolution: float) -> ProximityProperties:
    found = ProximityProperties()
    AddContactMaterial(friction=CoulombFriction(1.0, 1.0), properties=found)
    AddCompliantHydroelasticProperties(resolution, modulus, found)
    found.AddProperty("material", "relaxation_time", HALF_RELAXATION)
    return found


def build(h: float, resolution: float, inertia):
    """The diagram, its plant, the finger joints and the spatula."""
    builder = DiagramBuilder()
    config = MultibodyPlantConfig(time_step=h, contact_model="hydroelastic", discrete_contact_approximation="sap")
    plant, _ = AddMultibodyPlant(config, builder)
    frame = FixedOffsetFrame("gripper", plant.world_frame(), RigidTransform(RollPitchYaw(0, -1.57, 0), [0, 0, 0.25]))
    base = plant.AddFrame(frame)
    mount = plant.AddFrame(FixedOffsetFrame("mount", base, RigidTransform([0, 0, -0.0725])))
    joints = []
    for side, name in ((-1, "left"), (1, "right")):
        finger = plant.AddRigidBody(name, SpatialInertia(0.1, np.zeros(3), UnitInertia(3.2, 3.2, 3.2)))
        limits = (-0.055, 0.0) if side < 0 else (0.0, 0.055)
        joints.append(plant.AddJoint(PrismaticJoint(name, mount, finger.body_frame(), [0, 1, 0], *limits)))
        plant.AddJointActuator(name, joints[-1])
        pose = RigidTransform([0, side * 0.041665, -0.1095])
        shape = Ellipsoid(0.04165, 0.04165, 0.0625)
        plant.RegisterCollisionGeometry(finger, pose, shape, name, material(1e5, resolution))
    I = np.array(inertia)
    moments = RotationalInertia(I[0, 0], I[1, 1], I[2, 2], I[0, 1], I[0, 2], I[1, 2])
    mass = SpatialInertia.MakeFromCentralInertia(0.068, np.array([0, 0.115649, 0.044471]), moments)
    spatula = plant.AddRigidBody("spatula", mass)
    pose = RigidTransform(RollPitchYaw(2.0, 0, 0), [0, 0.135, 0.052])
    plant.RegisterCollisionGeometry(spatula, pose, Cylinder(0.015, 0.11), "handle", material(1e8, 0.005))
    plant.Finalize()
    return builder.Build(), plant, joints, spatula


def run(job: dict) -> dict:
    """Pitch after 0, 1, … steps, polygons of every 20th step, and CPU time of a step."""
    diagram, plant, joints, spatula = build(job["h"], job["resolution"], job["inertia"])
    context = diagram.CreateDefaultContext()
    of_plant = plant.GetMyMutableContextFromRoot(context)
    plant.SetFreeBodyPose(of_plant, spatula, RigidTransform(RollPitchYaw(-0.4, 0, 1.57), [0.35, 0, 0.25]))
    for joint, place in zip(joints, (-0.01, 0.01), strict=True):
        joint.set_translation(of_plant, place)
    port = plant.get_actuation_input_port()
    port.FixValue(of_plant, np.zeros(2))
    simulator = Simulator(diagram, context)
    simulator.Initialize()
    axis = np.array([0, -math.sin(2.0), math.cos(2.0)])

    def angle() -> float:
        return float(np.arcsin(np.clip((plant.EvalBodyPoseInWorld(of_plant, spatula).rotation() @ axis)[2], -1, 1)))

    angles, contacts, spent = [angle()], [], 0.0
    for k, force in enumerate(job["force"]):
        port.FixValue(of_plant, np.array([force, -force]))
        begin = time.process_time()
        simulator.AdvanceTo((k + 1) * job["h"])
        spent += time.process_time() - begin
        angles.append(angle())
        results = plant.get_contact_results_output_port().Eval(of_plant) if k % 20 == 0 else None
        if results is not None:
            count = range(results.num_hydroelastic_contacts())
            contacts.append(sum(results.hydroelastic_contact_info(i).contact_surface().num_faces() for i in count))
    contacts = np.repeat(contacts, 20)[: len(job["force"])].tolist()
    ms = 1e3 * spent / len(job["force"])
    return {"pitch": angles, "contacts": contacts, "ms": ms, "version": importlib.metadata.version("drake")}


if __name__ == "__main__":
    json.dump(run(json.load(sys.stdin)), sys.stdout)
