# SPDX-License-Identifier: Apache-2.0
"""Adjoints of the tree passes by hand against those that Warp generates from the passes' functions."""

import functools

import mujoco
import numpy as np
import pytest
import warp as wp

import warpsim as ws
from scenes.zoo import ZOO, random_states
from tests.tree.test_rnea_derivative import BRANCHES
from warpsim.device.copies import copy, scalar_types
from warpsim.differentiate.taped_dynamics import TapedDynamics
from warpsim.kernels.tree import passes
from warpsim.tree.dynamics import DeviceModel, Dynamics

WORLDS = 3
NAMES = ("body_mass", "body_com", "body_inertia", "joint_armature", "gravity")


@functools.cache
def generated(real):
    """Velocities and inverse dynamics link by link, as kernels whose adjoints Warp generates."""
    p, t = copy(passes, real), scalar_types(real)
    topology, vec6, vec10 = copy(passes.Topology, real), wp.array2d(dtype=t.vec6), wp.array2d(dtype=t.vec10)
    scalars = wp.array2d(dtype=real)

    @wp.kernel(module="unique")
    def velocity(topology: topology, dof_S: vec6, v: scalars, link_V: vec6):
        w = wp.tid()
        for l in range(topology.link_type.shape[0]):
            p.move_link(topology, dof_S, v, w, l, link_V)

    @wp.kernel(module="unique")
    def inverse_dynamics(
        topology: topology, gravity: wp.array(dtype=t.vec3), armature: scalars, dof_S: vec6, link_I: vec10, link_V: vec6,
        v: scalars, a: scalars, link_A: vec6, link_f: vec6, tau: scalars,
    ):  # fmt: skip
        w = wp.tid()
        n = topology.link_type.shape[0]
        for l in range(n):
            p.accelerate_link(
                topology, gravity[w % gravity.shape[0]], dof_S, link_I, link_V, v, a, w, l, link_A, link_f
            )
        for k in range(n):
            l = n - 1 - k
            if topology.link_parent[l] >= 0:
                link_f[w, topology.link_parent[l]] += link_f[w, l]
        for d in range(tau.shape[1]):
            f = link_f[w, topology.dof_link[d]]
            tau[w, d] = wp.dot(dof_S[w, d], f) + armature[w % armature.shape[0], d] * a[w, d]

    return velocity, inverse_dynamics


class Generated(Dynamics):
    """The tree passes with generated adjoints."""

    def velocity(self, v):
        inputs = [self.device_model.topology, self.dof_S, v, self.link_V]
        wp.launch(generated(self.device_model.types.real)[0], self.worlds, inputs, device=v.device)

    def inverse_dynamics(self, v, a, tau):
        inputs = [self.device_model.topology, self.device_model.parameters.stored("gravity"), self.armature]
        inputs += [self.dof_S, self.link_I, self.link_V, v, a, self.link_A, self.link_f, tau]
        wp.launch(generated(self.device_model.types.real)[1], self.worlds, inputs, device=v.device)


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
    dynamics = TapedDynamics(device_model) if by_hand else Generated(device_model, grad=True, requires_grad=True)
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
