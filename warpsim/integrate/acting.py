# SPDX-License-Identifier: Apache-2.0
"""The forces of a step. The step launches them, and its backward pass records them."""

import numpy as np
import warp as wp

from warpsim.device.copies import upload
from warpsim.forces.actuators import actuators_of
from warpsim.kernels.forces import actuators
from warpsim.kernels.integrate.theta import schemes
from warpsim.tree.dynamics import DeviceModel, Dynamics
from warpsim.tree.part import Part


class Acting:
    """What acts on bodies: the inputs `control`, `tau` and `wrench`, and the `parts` of the model.

    Parts replace these attributes, see `Part.act_on`:

    - `pushed`: the given generalized forces, plus those of the medium;
    - `acting_tau`: the same, limited to the ranges of joints;
    - `acting_wrench`: wrenches on bodies;
    - `compensating`: the generalized force of gravity compensation, or empty;
    - `actuator_control`, `replacing`: controls of actuators, and arrays that replace their parameters, by name.
    """

    # Each part is stored in the attribute of its name. None: the model has no such part.
    fluid = lines = compensation = actuation = pulls = tendon_energy = sticking = spin = gain = measurement = None
    impacts = None  # impacts inside the step, where they are resolved
    wrench = None  # (worlds, nbody, 6), from the first wrenches on

    def __init__(self, device_model: DeviceModel, dynamics: Dynamics):
        self.device_model, self.model, self.worlds = device_model, device_model.model, device_model.worlds
        self.dynamics, self.parts = dynamics, []
        self.replacing: dict[str, wp.array] = {}
        self.compensating = wp.empty((0, 0), dtype=device_model.types.real, device=device_model.device)

    def add(self, kind: type[Part], is_there, *arguments) -> None:
        """Make and add a part, if `is_there`."""
        if is_there:
            self.take(kind(*arguments))

    def take(self, part: Part) -> None:
        """Add a part that is already made."""
        part.of = self
        self.parts.append(part)
        setattr(self, part.name, part)

    def gather(self) -> None:
        """Let the parts replace the inputs. Runs again once there is room for wrenches."""
        self.pushed = self.acting_tau = self.tau
        self.acting_wrench, self.actuator_control = self.wrench, self.control
        for part in self.parts:
            part.act_on(self)

    def tabulate_actuators(self, rows: np.ndarray) -> None:
        """Make the tables of actuators for kernels. `rows`: see `actuator_rows`."""
        d, model = self.device_model, self.model
        link = np.where(model.actuator_joint < 0, -1, np.append(model.joint_link, -1)[model.actuator_joint])
        gear = upload(model.actuator_gear, d.types.real, d.device, ndim=2)
        self.actuator_tables = (d.array(link), d.array(rows), gear)

    @property
    def actuators(self):
        """The actuators as kernels read them: tables, and parameters and controls, or the laws that replace these."""
        return actuators_of(self.device_model, self.actuator_control, self.replacing, self.actuator_tables)

    def launch_forces(self, dynamics, q, v, link_X, dof_S, force, damping, scratch) -> None:
        """Springs, actuators, user forces and wrenches at (q, v), whose kinematics are given. `damping` stays separate.

        `scratch (worlds, nlink)`: for wrenches.
        """
        topology, plant = self.device_model.topology, self.device_model.plant()
        inputs = [topology, plant, q, self.acting_tau, force, damping]
        dynamics.launch(actuators.passive_force, self.model.nlink, inputs)
        if self.model.nu and self.pulls is None:
            dynamics.launch(actuators.actuator_force, None, [topology, self.actuators, q, v, force, damping])
        if self.wrench is not None:
            inputs = [topology, plant, link_X, dof_S, self.acting_wrench, scratch, force]
            dynamics.launch(actuators.wrench_force, self.model.ntree, inputs)
        for part in self.parts:
            part.add_forces(force)

    def launch_damping(self, dynamics, scheme, h: float, q, v, damping) -> None:
        """`damping` <- the terms of D and K in A = M + h damping of a scheme."""
        d, shares = self.device_model, (scheme.damping_share, h * scheme.stiffness_share)
        inputs = [d.topology, d.plant(), self.actuators, *shares, q, v, damping]
        dynamics.launch(schemes.effective_damping, None, inputs)

    def still_velocity(self, h: float, dynamics, v: wp.array, out: wp.array) -> wp.array:
        """The velocity that the bias is evaluated at: v, or in `out` v without the spin of freely spinning bodies."""
        return v if self.spin is None else self.spin.still(h, dynamics, v, out)
