# SPDX-License-Identifier: Apache-2.0
"""Adjoints of the tree passes by hand against those that Warp generates from the passes' own text."""

import mujoco
import numpy as np
import pytest
import warp as wp

import warpsim as ws
from scenes.zoo import ZOO, random_states
from tests.tree.test_rnea_derivative import BRANCHES
from warpsim.differentiate.taped_dynamics import TapedDynamics
from warpsim.tree.dynamics import DeviceModel, Dynamics

WORLDS = 3
NAMES = ("body_mass", "body_com", "body_inertia", "joint_armature", "gravity")


def model_of(name: str, assets) -> mujoco.MjModel:
    texts = {"zoo": ZOO, "branches": BRANCHES}
    if name in texts:
        return mujoco.MjModel.from_xml_string(texts[name])
    return mujoco.MjModel.from_xml_path(assets(name))


def gradients(by_hand: bool, name: str, dtype: str, device, assets, parameters: bool) -> dict[str, np.ndarray]:
    """Gradients of a sum over all that the passes find, with random weights."""
    m = model_of(name, assets)
    model = ws.load(m)
    rng = np.random.default_rng(5)
    values = random_states(m, WORLDS, "float64", rng)
    device_model = DeviceModel(model, WORLDS, dtype, wp.get_device(device), requires_grad=True)
    if parameters:
        for key in NAMES:
            device_model.parameters[key]  # from now on it has a gradient
    S = device_model.types.real
    dynamics = TapedDynamics(device_model) if by_hand else Dynamics(device_model, grad=True, requires_grad=True)
    q, v, a = (wp.array(x.astype(dtype), dtype=S, device=device, requires_grad=True) for x in values)
    tau = dynamics.array(model.nv, S)
    with wp.Tape() as tape:
        dynamics.position(q)
        dynamics.velocity(v)
        dynamics.inverse_dynamics(v, a, tau)
    for array in (dynamics.link_X, dynamics.dof_S, dynamics.link_I, dynamics.link_V, tau):
        array.grad.assign(rng.normal(size=array.numpy().shape).astype(dtype))
    tape.backward()
    found = {"q": q, "v": v, "a": a}
    if parameters:
        found |= {key: device_model.parameters[key] for key in NAMES}
    return {key: array.grad.numpy().astype(float) for key, array in found.items()}


@pytest.mark.parametrize("parameters", [False, True])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-13), ("float32", 3e-5)])
@pytest.mark.parametrize("name", ["zoo", "branches", "humanoid", "ant"])
def test_by_hand_as_generated(device, assets, name, dtype, tolerance, parameters):
    wanted = gradients(False, name, dtype, device, assets, parameters)
    for key, value in gradients(True, name, dtype, device, assets, parameters).items():
        scale = np.abs(wanted[key]).max(initial=1.0)
        np.testing.assert_allclose(value / scale, wanted[key] / scale, atol=tolerance, rtol=0, err_msg=key)
