# SPDX-License-Identifier: Apache-2.0
"""The tree passes on the tape of a backward pass, with adjoints written by hand."""

import warp as wp

from warpsim.device.copies import launch, twin
from warpsim.device.recording import KnownTape, active_tape, tape_paused, values_known
from warpsim.kernels.differentiate import mocap_adjoint, tree_adjoint
from warpsim.tree.dynamics import BLOCK, DeviceModel, Dynamics


class TapedDynamics(Dynamics):
    """The tree passes as a tape records them, with adjoints written by hand (`kernels/differentiate/tree_adjoint.py`).

    Gradients with respect to joint poses and axes, if asked for, come from the generated adjoint of `position`. `of`: a
    `Dynamics` that already has these kinematics, so that `position` launches nothing.
    """

    def __init__(self, device_model: DeviceModel, of: Dynamics | None = None):
        super().__init__(device_model, grad=True, requires_grad=True)
        self.positioned = of is not None
        if self.positioned:
            self.link_X, self.dof_S, self.link_I = (twin(x) for x in (of.link_X, of.dof_S, of.link_I))
            self.steadied = of.steadied
        t, W, n = device_model.types, self.worlds, self.model.nlink
        scratch = {"dtype": t.vec6, "device": device_model.device}
        self.link_A, self.link_f, self._wrench, self._pushed = (wp.zeros((W, n), **scratch) for _ in range(4))

    def position(self, q: wp.array) -> None:
        if any(self.parameter_gradient(name).size for name in ("joint_pose", "joint_axis")):
            with values_known(self.positioned):
                super().position(q)
        else:
            arrays = [q, self.link_X, self.dof_S, self.link_I]
            values = (lambda q: None) if self.positioned else super().position
            self.record(values, lambda: self._position_adjoint(q), arrays, q)

    def velocity(self, v: wp.array, link_V: wp.array | None = None) -> None:
        V = self.link_V if link_V is None else link_V
        inputs = [self.device_model.topology, self.dof_S, v, V.grad, self.dof_S.grad, self._gradient(v)]
        adjoint = lambda: self.launch_adjoint(tree_adjoint.velocity_adjoint, self.model.ntree, inputs)  # noqa: E731
        self.record(super().velocity, adjoint, [v, V, self.dof_S], v, link_V)

    def inverse_dynamics(self, v: wp.array, a: wp.array, tau: wp.array, gravity: wp.array | None = None) -> None:
        arrays = [v, a, tau, self.dof_S, self.link_I, self.link_V]
        adjoint = lambda: self._inverse_dynamics_adjoint(v, a, tau, gravity)  # noqa: E731
        self.record(super().inverse_dynamics, adjoint, arrays, v, a, tau, gravity)

    def record(self, values, adjoint, arrays: list[wp.array], *arguments) -> None:
        """Run `values(*arguments)`, unless the values are known, and record `adjoint` on the active tape."""
        tape = active_tape()
        if not isinstance(tape, KnownTape):
            self.grad = False
            with tape_paused():
                values(*arguments)
            self.grad = True
        if tape is not None:
            tape.record_func(adjoint, [x for x in arrays if x.grad is not None])

    def launch_adjoint(self, kernel, n, inputs) -> None:
        """Launch an adjoint that is written by hand over (worlds, n), or over worlds where n is None."""
        d = self.device_model
        dim = self.worlds if n is None else (self.worlds, n)
        launch(kernel, d.types.real, dim, inputs, device=d.device, block_dim=BLOCK, record_tape=False)

    @property
    def links(self):
        """Motion subspaces, inertias and velocities, as adjoints read them."""
        return self._links(self.dof_S, self.link_I, self.link_V)

    @property
    def link_gradients(self):
        return self._links(self.dof_S.grad, self.link_I.grad, self.link_V.grad)

    def _links(self, S: wp.array, I: wp.array, V: wp.array):
        return self.device_model.struct(tree_adjoint.Links, S=S, I=I, V=V)

    @property
    def body_gradients(self):
        """The gradients of masses, centers of mass and inertias (`BodyBars`)."""
        bars = {name: self.parameter_gradient(f"body_{name}") for name in ("mass", "com", "inertia")}
        return self.device_model.struct(tree_adjoint.BodyBars, **bars)

    def parameter_gradient(self, name: str) -> wp.array:
        """The gradient of a parameter, or an empty array."""
        return self._gradient(self.device_model.parameters.stored(name))

    def _gradient(self, array: wp.array) -> wp.array:
        """The gradient of an array, or an empty array."""
        if array.grad is not None:
            return array.grad
        return wp.empty((0,) * array.ndim, dtype=array.dtype, device=array.device)

    def _position_adjoint(self, q: wp.array) -> None:
        d = self.device_model
        inputs = [d.topology, d.parameters.stored("body_com"), q, self.link_X, self.dof_S, self.link_I]
        inputs += [self.link_X.grad, self.dof_S.grad, self.link_I.grad, self._wrench, q.grad]
        inputs.append(self.body_gradients)
        self.launch_adjoint(tree_adjoint.position_adjoint, self.model.ntree, inputs)
        inputs = [d.topology, d.mocap_link, self.link_X, self._wrench, d.link_pose.grad]
        self.launch_adjoint(mocap_adjoint.add_wrench, self.model.nmocap, inputs)

    def _inverse_dynamics_adjoint(self, v: wp.array, a: wp.array, tau: wp.array, gravity: wp.array | None) -> None:
        d = self.device_model
        inputs = [d.topology, self.armature, self.links, v, a, self.link_A, self.link_f]
        falls = self.parameter_gradient("gravity")
        falls = falls if gravity is None else wp.empty(0, dtype=falls.dtype, device=falls.device)
        bars = {"v": self._gradient(v), "a": a.grad, "armature": self.parameter_gradient("joint_armature")}
        bars = d.struct(tree_adjoint.MotionBars, gravity=falls, **bars)
        inputs += [tau.grad, self._wrench, self._pushed, self.link_gradients, bars]
        self.launch_adjoint(tree_adjoint.rnea_adjoint, None, inputs)
