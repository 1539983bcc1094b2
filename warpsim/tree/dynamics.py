# SPDX-License-Identifier: Apache-2.0
"""Host side of the tree passes: owns the model on the device and the workspace of one state, launches the kernels."""

import numpy as np
import warp as wp

from warpsim.device.copies import (
    BLOCK,
    SCALARS,
    WARP,
    copy,
    fill_struct,
    lanes_for,
    launch,
    scalar_types,
    struct,
    upload,
    variant,
)
from warpsim.kernels.linalg.vector import padded
from warpsim.kernels.tree import energy, passes, plant, rnea_derivative
from warpsim.kernels.tree import mocap as mocap_kernels
from warpsim.model.model import Model
from warpsim.model.parameters import SPECS, Parameters


class DeviceModel:
    """A `Model` on a device: topology and constants shared by all worlds, parameters shared or per world.

    - `recovery`: (m/s, rad/s), see `recovery_speed` of `Simulator`.
    - `threads`: ranges that the worlds are divided into, see `Replay`.
    - `hydroelastic`: the options of `warpsim/contact/hydroelastic/pressure_contact.py`.
    - `reactions`: whether steps keep accelerations and the loads of joints.
    - `contact_gradient`: see `Simulator`.
    - `beside`: a `Step` whose memory other steps of this device model may share, or None.
    """

    beside = None

    def __init__(
        self,
        model: Model,
        worlds: int,
        dtype: str,
        device,
        requires_grad: bool = False,
        recovery: tuple[float, float] = (np.inf, np.inf),
        threads: int = 1,
        hydroelastic=None,
        reactions: bool = False,
        time_of_impact: bool = False,
        contact_gradient=None,
    ):
        self.time_of_impact, self.contact_gradient = time_of_impact, contact_gradient
        self.threads, self.hydroelastic, self.reactions = threads, hydroelastic, reactions
        self.model, self.worlds, self.dtype, self.device = model, worlds, dtype, device
        self.recovery = recovery
        self.types = scalar_types(SCALARS[dtype])
        self.lanes = self.lanes_by_share() if wp.get_device(device).is_cuda else {}
        self.parameters = Parameters(model, worlds, dtype, device, requires_grad)
        self.topology = self._topology()
        t = self.types
        # One row for all worlds, or one row per world where there are mocap bodies.
        rows = np.tile(_xyzw(model.link_pose), (worlds if model.nmocap else 1, 1, 1))
        self.link_pose = upload(rows, t.transform, device, ndim=2)
        self.mocap_link, self.mocap0 = self.array(model.mocap_links), upload(model.mocap0[None], t.real, device, ndim=3)
        self.joint_anchor, self.q0 = self.array(model.joint_anchor, t.vec3), self.array(model.q0, t.real)

    def plant(self, armature: wp.array | None = None):
        """The parameters of links, joints and geoms as kernels read them. `armature` replaces the parameter."""
        names = SPECS.keys() & copy(plant.Plant, self.types.real).vars.keys()
        stored = {name: self.parameters.stored(name) for name in names}
        stored |= {} if armature is None else {"joint_armature": armature}
        constants = {"link_pose": self.link_pose, "joint_anchor": self.joint_anchor, "q0": self.q0}
        return self.struct(plant.Plant, **constants, **stored)

    def lanes_by_share(self) -> dict[str, int]:
        """Lanes per world, or per tree of a world, by what the lanes of a kernel share."""
        m = self.model
        counts = {"dofs": m.nv, "pairs": max(m.nv, len(m.pair_geom)), "tree": self.largest_tree}
        return {share: lanes_for(count) for share, count in counts.items()}

    @property
    def largest_tree(self) -> int:
        """Most links or degrees of freedom of a tree."""
        m = self.model
        return int(max(np.diff(m.tree_v).max(initial=0), np.diff(m.tree_link).max(initial=0)))

    def code(self, kernel):
        """The copy of the device code that a kernel is launched from."""
        return variant(self.types.real, lanes=self.lanes.get(getattr(kernel, "shares", ""), WARP))

    def _topology(self):
        m = self.model
        carried = np.full(m.nlink, -1, dtype=np.int32)
        carried[m.body_link] = np.arange(m.nbody)
        last = np.array([(m.ancestors(link) or [-1])[-1] for link in range(m.nlink)], dtype=np.int32)
        begin = np.repeat(m.tree_v[:-1], np.diff(m.tree_v))
        derived = {"link_body": carried, "link_dof": last, "dof_begin": begin}
        fields = copy(passes.Topology, self.types.real).vars
        return self.struct(passes.Topology, **{key: getattr(m, key) for key in fields if key not in derived}, **derived)

    def ancestors(self, width: int) -> wp.array:
        """`(nv, width)`: 1 at [d, e − first dof of the tree] for e = d and each e above d, where M_de is not 0."""
        m = self.model
        table = np.zeros((m.nv, width), dtype=np.int32)
        begin = np.repeat(m.tree_v[:-1], np.diff(m.tree_v))
        for d in range(m.nv):
            table[d, [e - begin[d] for e in m.ancestors(int(m.dof_link[d])) if e <= d]] = 1
        return upload(table, wp.int32, self.device, ndim=2)

    def array(self, values, kind=wp.int32) -> wp.array:
        """Constants on the device. `kind`: int32, the scalar type, or a type made of it."""
        return upload(values, kind, self.device)

    def struct(self, kind, /, **values):
        """A struct of device code, see `warpsim.device.copies.struct`."""
        return struct(kind, self.types.real, self.device, **values)

    def fill(self, made, **values) -> None:
        """Set fields of a struct in the same way."""
        fill_struct(made, self.device, values)


class Dynamics:
    """Workspace and launches of the tree passes over all worlds, for one set of arrays.

    After `position(q)` and `velocity(v)`, `link_X`, `dof_S`, `link_I` and `link_V` hold the kinematics; see
    `kernels/tree/passes.py` for the conventions. `grad=True` launches kernels that a tape can record, where they exist.
    """

    def __init__(self, device_model: DeviceModel, *, grad: bool = False, requires_grad: bool = False):
        self.device_model = device_model
        self.model, self.worlds = device_model.model, device_model.worlds
        self.grad, self.requires_grad = grad, requires_grad
        self.steadied: wp.array | None = None  # the armature of a step, where it is not the parameter
        t, n, nv = device_model.types, self.model.nlink, self.model.nv
        self.link_X = self.array(n, t.transform)
        self.dof_S = self.array(nv, t.vec6)
        self.link_I = self.array(n, t.vec10)
        self.link_V = self.array(n, t.vec6)
        self.link_A = self.array(n, t.vec6)
        self.link_f = self.array(n, t.vec6)

    def array(self, n, dtype) -> wp.array:
        """Zeros of shape (worlds, n) or (worlds, *n), or (worlds,) where n is None."""
        return wp.zeros(self._over(n), dtype=dtype, device=self.device_model.device, requires_grad=self.requires_grad)

    def _over(self, n) -> tuple[int, ...]:
        return (self.worlds, *(() if n is None else n if isinstance(n, tuple) else (n,)))

    def workspace(self, kind, /, **sizes):
        """A struct of zeros. `sizes`: for each array field, its n in `array`."""
        fields = copy(kind, self.device_model.types.real).vars
        arrays = {name: self.array(n, fields[name].type.dtype) for name, n in sizes.items()}
        return self.device_model.struct(kind, **arrays)

    @property
    def armature(self) -> wp.array:
        """The armature in M: the parameter; in a step, plus what stabilizes light links (`kernels/rows/watch.py`)."""
        return self.device_model.parameters.stored("joint_armature") if self.steadied is None else self.steadied

    def launch(self, kernel, n, inputs) -> None:
        """Launch over (worlds, n) or (worlds, *n), or over worlds where n is None."""
        d = self.device_model
        launch(kernel, d.code(kernel), self._over(n), inputs, taped=self.grad, device=d.device, block_dim=BLOCK)

    def position(self, q: wp.array) -> None:
        """Kinematics at q: link poses, motion subspaces, inertias in world axes."""
        self.kinematics(q, self.link_X)
        self.motion_subspace(self.link_X, self.dof_S)
        d = self.device_model
        self.launch(passes.link_inertia, self.model.nlink, [d.topology, d.plant(), self.link_X, self.link_I])

    def place_mocap(self, mocap: wp.array, flags: wp.array | None = None) -> None:
        """Put the mocap bodies at `mocap (worlds, nmocap, 7)`, where they stay. Call it before `position`.

        `flags`: those of a step, see `mocap.place`.
        """
        if self.model.nmocap:
            d = self.device_model
            flags = wp.empty(0, dtype=wp.int32, device=d.device) if flags is None else flags
            self.launch(mocap_kernels.place, None, [d.mocap_link, mocap, flags, d.link_pose])

    def kinematics(self, q: wp.array, link_X: wp.array) -> None:
        """Link poses at q."""
        d = self.device_model
        self.launch(passes.kinematics, self.model.ntree, [d.topology, d.plant(), q, link_X])

    def motion_subspace(self, link_X: wp.array, dof_S: wp.array) -> None:
        """Motion subspaces at link poses."""
        d = self.device_model
        self.launch(passes.motion_subspace, self.model.nlink, [d.topology, d.plant(), link_X, dof_S])

    def velocity(self, v: wp.array, link_V: wp.array | None = None) -> None:
        """Link velocities at v, after `position`."""
        out = self.link_V if link_V is None else link_V
        self.launch(passes.link_velocity, self.model.ntree, [self.device_model.topology, self.dof_S, v, out])

    def inverse_dynamics(self, v: wp.array, a: wp.array, tau: wp.array, gravity: wp.array | None = None) -> None:
        """tau = M a + c(q, v) by RNEA, after `position` and `velocity`. `gravity` replaces the model's."""
        p = self.device_model.parameters
        gravity = p.stored("gravity") if gravity is None else gravity
        inputs = [self.device_model.topology, gravity, self.armature, self.dof_S, self.link_I]
        inputs += [self.link_V, v, a, self.link_A, self.link_f, tau]
        self.launch(passes.rnea, self.model.ntree, inputs)

    def mass_matrix(self, composite: wp.array, M: wp.array) -> None:
        """M(q) by CRBA, after `position`, stored by trees `(worlds, nv, widest tree)`: see `blocks`."""
        inputs = [self.device_model.topology, self.armature, self.dof_S, self.link_I, composite, M]
        self.launch(passes.crba, self.model.ntree, inputs)

    def blocks(self) -> wp.array:
        """Zeros for a block-diagonal matrix stored by trees, (worlds, nv, dofs of the widest tree, padded).

        M_de is at [d, e - first dof of the tree].
        """
        widest = int(np.diff(self.model.tree_v).max(initial=0))
        return self.array((self.model.nv, padded(widest)), self.device_model.types.real)

    def expand_blocks(self, blocks: wp.array, M: wp.array) -> None:
        """Write the square matrix of `blocks` to M. The caller zeroes M."""
        self.launch(passes.expand_blocks, self.model.nv, [self.device_model.topology, blocks, M])

    def forward_dynamics(self, v: wp.array, tau: wp.array, a: wp.array) -> None:
        """a = M^-1 (tau - c) by ABA, after `position` and `velocity`. Allocates its scratch."""
        armature = self.device_model.parameters.stored("joint_armature")
        self.articulated(v, tau, armature, self.articulated_scratch(), a)

    def articulated_scratch(self):
        """The scratch of `articulated`."""
        n, nv = self.model.nlink, self.model.nv
        work = self.workspace(passes.Articulated, IA=n, p=n, U=nv, u=nv)
        work.A = self.link_A
        return work

    def articulated(self, v: wp.array, tau: wp.array, armature: wp.array, scratch, a: wp.array) -> None:
        """`forward_dynamics` with a given armature, in `articulated_scratch`."""
        d = self.device_model
        inputs = [d.topology, d.parameters.stored("gravity"), armature, self.dof_S, self.link_I, self.link_V]
        self.launch(passes.aba, self.model.ntree, [*inputs, v, tau, scratch, a])

    def body_poses(self, poses: wp.array) -> None:
        """Body poses `(worlds, nbody, 7)`, after `position`."""
        self.launch(passes.body_poses, self.model.nbody, [self.device_model.topology, self.link_X, poses])

    def body_velocities(self, velocity: wp.array) -> None:
        """Body velocities `(worlds, nbody, 6)`, after `position` and `velocity`."""
        self.launch(
            passes.body_velocities, self.model.nbody, [self.device_model.topology, self.link_X, self.link_V, velocity]
        )

    def jacobian(self, body: int, point: wp.array, J: wp.array) -> None:
        """Jacobian rows (angular, linear) of a body-fixed point, after `position`. The caller zeroes J."""
        link = int(self.model.body_link[body])
        inputs = [self.device_model.topology, self.link_X, self.dof_S, link, point, J]
        self.launch(passes.point_jacobian, None, inputs)

    def energy(self, q: wp.array, v: wp.array, kinetic: wp.array, potential: wp.array, total: wp.array) -> None:
        """Kinetic and potential energy and their sum, after `position(q)` and `velocity(v)`."""
        d = self.device_model
        found = d.struct(energy.Energies, kinetic=kinetic, potential=potential, total=total)
        inputs = [d.topology, d.plant(), self.link_X, self.link_I, self.link_V, q, v, found]
        self.launch(energy.mechanical_energy, None, inputs)


class InverseDynamicsDerivative:
    """Derivatives of `Dynamics.inverse_dynamics` with respect to q, v or a, stored by trees (see `Dynamics.blocks`)."""

    def __init__(self, dynamics: Dynamics):
        self.dynamics, model = dynamics, dynamics.model
        fields = copy(rnea_derivative.Motion, dynamics.device_model.types.real).vars
        made = {key: getattr(dynamics, key) for key in fields}
        self.motion = dynamics.device_model.struct(rnea_derivative.Motion, **made)
        nlink, nv = model.nlink, model.nv
        self.sweep = dynamics.workspace(rnea_derivative.Sweep, I=nlink, T=nlink, p=nlink, X=nv, Y=nv)
        self.still = dynamics.array(nv, dynamics.device_model.types.vec6)
        self.D = dynamics.blocks()

    def launch(self, v: wp.array, a: wp.array, by: str) -> wp.array:
        """d tau / d `by`, after `inverse_dynamics(v, a, ...)`. `by`: "q" (in the tangent space of v), "v" or "a"."""
        return self.launch_along(v, a, by == "q", float(by == "v"), float(by == "a"))

    def launch_along(self, v: wp.array, a: wp.array, by_q: bool, c_v: float, c_a: float) -> wp.array:
        """d tau along each degree of freedom: dq (in the tangent space of v, or none), dv = c_v, da = c_a."""
        dynamics, p = self.dynamics, self.dynamics.device_model.parameters
        dq = dynamics.dof_S if by_q else self.still
        inputs = [dynamics.device_model.topology, p.stored("gravity"), dynamics.armature, self.motion, v, a]
        inputs += [dq, c_v, c_a, self.sweep, self.D]
        dynamics.launch(rnea_derivative.rnea_derivative, dynamics.model.ntree, inputs)
        return self.D


def _xyzw(poses: np.ndarray) -> np.ndarray:
    """Poses (x y z, qw qx qy qz) in Warp's order (x y z, qx qy qz qw)."""
    return poses[..., [0, 1, 2, 4, 5, 6, 3]]
