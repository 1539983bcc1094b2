# SPDX-License-Identifier: Apache-2.0
"""`Linearizer`: Jacobians of one step in all worlds, by the implicit function theorem (theory §3.5).

It makes one step, fills the columns ∂r/∂x of the step's equations for every variable x, and solves for all of them with
the factor of the step's Hessian. Cost: a few steps, whatever the number of variables. Device:
`kernels/differentiate/linearize.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import warp as wp

from warpsim.base.annotations import Array
from warpsim.base.checks import choice, flag
from warpsim.base.reprs import ShownByShapes
from warpsim.device.copies import copy
from warpsim.device.per_world import assign, fill
from warpsim.device.recording import tape_paused
from warpsim.differentiate.actuation_columns import ActuationColumns
from warpsim.differentiate.contact_adjoint import ContactAdjoint
from warpsim.differentiate.contact_motion import ContactMotion
from warpsim.differentiate.from_distance import DistanceColumns
from warpsim.differentiate.pressure_rates import PARAMETERS as PRESSURE_PARAMETERS
from warpsim.differentiate.pressure_rates import PressureRates
from warpsim.forces.actuators import ACTUATOR_PARAMETERS
from warpsim.integrate.step import Step
from warpsim.kernels.differentiate import (
    actuator_slopes,
    contact_slopes,
    frame_slopes,
    parameter_slopes,
    pressure_columns,
    row_slopes,
    spin_slopes,
    weight_slopes,
)
from warpsim.kernels.differentiate import linearize as kernels
from warpsim.kernels.laws import contact_law
from warpsim.kernels.rows.table import ACTUATOR, RowState
from warpsim.kernels.tree import passes
from warpsim.model.parameters import SPECS, values_of
from warpsim.solve.contact_model import ContactModel
from warpsim.tree.dynamics import DeviceModel, InverseDynamicsDerivative
from warpsim.tree.wide import refuse_gradients

# Columns that one thread solves. On a CPU all of them, in the inner loop. On a GPU one, so that neighboring threads
# read neighboring memory.
COLUMNS_PER_THREAD = {False: 1 << 30, True: 1}  # by device.is_cuda

# Parameters with their own columns. Inertias come first, so that their columns are adjacent.
INERTIAS = {
    "body_mass": parameter_slopes.MASS,
    "body_com": parameter_slopes.COM,
    "body_inertia": parameter_slopes.INERTIA,
    "joint_armature": parameter_slopes.ARMATURE,
}
# Parameters of pressure fields. A size has columns where no pair touches at points.
FIELDS = ("geom_hydroelastic_modulus", "geom_hydroelastic_thickness", "geom_size")
LAWS = (
    "gravity",
    "joint_damping",
    "joint_stiffness",
    "joint_reference",
    "joint_friction",
    "joint_range",
    "actuator_gain",
    "actuator_bias",
    "control_range",
    "force_range",
    "geom_friction",
    "geom_stiffness",
    "geom_dissipation_time",
    "geom_friction_dynamic",
    "geom_friction_velocity",
    *FIELDS,
)
PARAMETERS = (*INERTIAS, *LAWS)


@dataclass(frozen=True, repr=False)
class Linearization(ShownByShapes):
    """Derivatives of the next state (q, v, activation), from `sim.linearize`.

    Rows and columns of the state are in the order (q, v, activation), n = 2 nv + na in all. Changes of q are tangent
    vectors with the layout of v: a free joint's translation in world axes, rotations in body axes.

    Attributes
    ----------
    A : array (worlds, n, n)
        With respect to the state.
    B : array (worlds, n, nu)
        With respect to the controls.
    tau : array (worlds, n, nv) or None
        With respect to generalized forces.
    parameters : dict of str to array (worlds, n, entries)
        By name, with respect to a parameter. Its entries are in the order of its array in `sim.parameters`.
    mocap : array (worlds, n, 6 nmocap) or None
        With respect to the poses of mocap bodies: for each body its translation in world axes, then its rotation in
        body axes.
    """

    A: Array
    B: Array
    tau: Array | None = None
    parameters: dict[str, Array] = field(default_factory=dict)
    mocap: Array | None = None

    def arrays(self) -> dict[str, Array]:
        """All arrays, as a dict by name: A, B, those of tau and mocap that are not None, and the parameters."""
        own = {"A": self.A, "B": self.B, "tau": self.tau, "mocap": self.mocap}
        return {name: array for name, array in own.items() if array is not None} | self.parameters


class Columns:
    """The variables that the columns of X belong to.

    These are q, v and controls, and on request generalized forces and parameters.
    """

    def __init__(self, device_model: DeviceModel, force: bool, parameters: tuple[str, ...], laws: bool):
        model, t = device_model.model, device_model.types
        self.device_model = device_model
        chosen = [name for name in PARAMETERS if name in parameters]
        entries = request_entries(model, force, chosen)
        starts = np.cumsum([0, *entries.values()])
        self.law = int(starts[-1])  # last: the laws s of actuators, where a model has an `Actuation`
        width = self.law + (3 * model.nu if laws else 0)
        self.entries, self.parameters = entries, tuple(chosen)
        self.first = dict(zip(entries, (int(n) for n in starts[:-1]), strict=True))
        self.pressure: PressureRates | None = None  # rates of contact between pressure fields
        self.X = self._zeros((model.nv, width), t.real)
        self._make_inertias([name for name in chosen if name in INERTIAS])

    def _zeros(self, shape, kind) -> wp.array:
        return wp.zeros((self.device_model.worlds, *shape), dtype=kind, device=self.device_model.device)

    def _make_inertias(self, names: list[str]) -> None:
        model, t, device = self.device_model.model, self.device_model.types, self.device_model.device
        rows = []  # kind, index, component, link
        for name in names:
            size = model.nv if name == "joint_armature" else model.nbody
            each = self.entries[name] // max(size, 1)
            for index in range(size):
                link = -1 - index if name == "joint_armature" else int(model.body_link[index])
                rows += [(int(INERTIAS[name]), index, component, link) for component in range(each)]
        table = np.array(rows, dtype=np.int32).reshape(-1, 4).T
        self.kind, self.index, self.component, link = (
            wp.array(np.ascontiguousarray(x), dtype=wp.int32, device=device) for x in table
        )
        self.inertias = copy(weight_slopes.Inertias, t.real)()
        self.inertias.first = self.first[names[0]] if names else 0
        self.inertias.link = link
        self.inertias.I, self.inertias.w = self._zeros((len(rows),), t.vec10), self._zeros((len(rows),), t.real)

    def start(self, name: str) -> int:
        """First column of a variable; -1 if it was not asked for."""
        return self.first.get(name, -1)


def blank_result(device_model: DeviceModel, entries: dict[str, int]) -> Linearization:
    """Arrays for a result. `entries`: the number of columns of each variable."""
    S, device, rows = device_model.types.real, device_model.device, state_size(device_model.model)
    arrays = {name: wp.zeros((device_model.worlds, rows, n), dtype=S, device=device) for name, n in entries.items()}
    parameters = {name: x for name, x in arrays.items() if name not in ("A", "B", "tau", "mocap")}
    return Linearization(arrays["A"], arrays["B"], arrays.get("tau"), parameters, arrays.get("mocap"))


def check_result(device_model: DeviceModel, entries: dict[str, int], out: Linearization) -> None:
    """Raise `ValueError` unless `out` has the arrays of this request."""
    S, device, rows = device_model.types.real, device_model.device, state_size(device_model.model)
    wanted = {name: (device_model.worlds, rows, n) for name, n in entries.items()}
    found = {
        name: x.shape if (x.dtype, x.device) == (S, device) else (x.dtype.__name__, str(x.device))
        for name, x in out.arrays().items()
    }
    if found != wanted:
        raise ValueError(f"out holds {found}; this request needs {wanted} on {device}")


def state_size(model) -> int:
    """Size of a state's tangent space: of q, v and activation."""
    return 2 * model.nv + model.na


def request_entries(model, force: bool, parameters: tuple[str, ...], mocap: bool = False) -> dict[str, int]:
    """Number of columns of each variable."""
    entries = {"A": state_size(model), "B": model.nu} | ({"tau": model.nv} if force else {})
    entries |= {"mocap": 6 * model.nmocap} if mocap else {}
    return entries | {name: int(np.prod(np.shape(values_of(model, name)))) for name in parameters}


class Linearizer:
    """Workspace and launches. It has its own step, so that the simulator's diagnostics and contacts do not change."""

    def __init__(self, device_model: DeviceModel, contact_model: ContactModel, max_contacts: int | None):
        self.device_model, self.model = device_model, device_model.model
        t, S, nv = device_model.types, device_model.types.real, device_model.model.nv
        make_solver = ContactAdjoint.solver_of(contact_model)
        self.step = Step(device_model, contact_model, max_contacts, make_solver=make_solver)
        self.derivative = InverseDynamicsDerivative(self.step.dynamics)
        array = self.step.dynamics.array
        self.a, self.inverse_dynamics, self.dof = array(nv, S), array(nv, S), array(nv, wp.int32)
        self.flow = copy(contact_slopes.Flow, S)()
        for key in ("link_X", "link_I", "dof_S"):
            setattr(self.flow, key, getattr(self.step.dynamics, key))
        self.flow.link_V, self.flow.v = array(self.model.nlink, t.vec6), self.step.solver.solution.v
        self.before = copy(contact_slopes.Flow, S)()  # with the velocities at v0, which friction may depend on
        slides = self.step.collision.slides
        self.before.link_X, self.before.link_I, self.before.dof_S = self.flow.link_X, self.flow.link_I, self.flow.dof_S
        self.before.link_V = array(self.model.nlink if slides else 0, t.vec6)
        self.before.v = self.step.v if slides else array(0, S)
        self._make_contacts()
        self._make_rows()
        self._make_weights()
        self.distance = None if device_model.contact_gradient is None else DistanceColumns(self.step)
        self._columns: dict[tuple, Columns] = {}
        self.actuation = None if self.step.actuation is None else ActuationColumns(self.step)

    def _make_contacts(self) -> None:
        t, collision = self.device_model.types, self.step.collision
        Changes = copy(contact_slopes.Changes, t.real)
        self.changes = Changes()
        for key in Changes.vars:
            setattr(self.changes, key, self.step.dynamics.array((collision.capacity, collision.max_support), t.vec3))
        self.motion = ContactMotion(collision)
        self.no_law_slope = self.step.dynamics.array((0, 0), t.vec6)
        self.contact_law = self.step.dynamics.array((collision.capacity, 3), copy(contact_law.ContactState, t.real))

    def _make_rows(self) -> None:
        t, forward, array = self.device_model.types, self.step.scalar_rows, self.step.dynamics.array
        S, K, width = t.real, forward.count, forward.width
        turning = any(row.between or row.b or row.turn >= 0 for row in forward.row_list)
        slopes = self.row_slopes = copy(row_slopes.RowSlopes, S)()
        slopes.J_q = array((K if turning else 0, width, width), S)
        slopes.gamma_q, slopes.gamma_v = array((K, width), S), array((K, width), S)
        slopes.gamma_w, slopes.gamma_floor, slopes.law = array(K, S), array(K, S), array(K, copy(RowState, S))
        Place = copy(frame_slopes.Place, S)
        self.here, self.ahead = Place(), Place()
        self.here.link_X, self.here.dof_S = self.flow.link_X, self.flow.dof_S
        self.ahead.link_X = forward.link_X_ahead
        self.ahead.dof_S = array(self.model.nv if forward.has_frames else 0, t.vec6)

    def _make_weights(self) -> None:
        t, array, nv = self.device_model.types, self.step.dynamics.array, self.model.nv
        solver = self.step.solver
        weights = self.weights = copy(weight_slopes.Weights, t.real)()
        weights.M_factor, weights.contact_w = self.step.M_factor, self.step.law.weight
        weights.contact_G = solver.slopes
        weights.y, weights.by_dof = array(nv, t.vec3), array(nv, t.real)
        weights.V, weights.P = (array((self.model.nlink, 3), t.vec6) for _ in range(2))

    def columns(self, force: bool, parameters: tuple[str, ...]) -> Columns:
        """The columns of a request. Their workspace is kept."""
        key = (force, parameters)
        if key not in self._columns:
            self._columns[key] = Columns(self.device_model, force, parameters, self.actuation is not None)
            if self.step.collision.pressure is not None:
                self._columns[key].pressure = PressureRates(self.step.collision, self.motion.slope)
                self._columns[key].pressure.choose(parameters)
        return self._columns[key]

    def load(self, state, control: wp.array | None, tau: wp.array | None) -> None:
        """Load the point to linearize at."""
        assign(self.step.q, state.q)
        assign(self.step.v, state.v)
        self.step.scalar_rows.load_memory(state.memory)
        if self.model.na:
            assign(self.step.actuation.activation, state.activation)
        if state.mocap is not None:
            assign(self.step.mocap, state.mocap)
        for target, source in ((self.step.control, control), (self.step.tau, tau)):
            fill(target) if source is None else assign(target, source)

    def launch(self, h: float, columns: Columns, result: Linearization) -> None:
        """Fill `result` at the loaded point."""
        self.fill_columns(h, columns)
        self.solve(columns.X)
        for name, Y in result.arrays().items():
            self.store(h, columns.X, columns.first[name], Y)
        self.add_explicit(h, columns, result)

    def fill_columns(self, h: float, columns: Columns) -> None:
        """Make the step at the loaded point, and write all columns ∂r/∂x."""
        step, X = self.step, columns.X
        step.smooth_motion(h)
        step.contact_problem(h)
        step.solve(h)
        fill(X)
        self._smooth_columns(h, columns)
        self._contact_columns(h, columns)
        if self.distance is not None:
            self.distance.add(h, self.flow, X)
        self._row_columns(h, columns)
        if self.actuation is not None:
            self.actuation.find(h)
            self.actuation.add(columns.law, columns.first["B"], X)

    def solve(self, X: wp.array) -> None:
        """X ← H⁻¹X, with the factor of the step's Hessian."""
        if not X.size:
            return
        launch, work, solver = self.step.dynamics.launch, self.step.solver.work, self.step.solver
        launch(kernels.list_dofs, self.model.nv, [solver.problem, work, self.dof])
        width = min(COLUMNS_PER_THREAD[self.device_model.device.is_cuda], X.shape[2])
        blocks = -(-X.shape[2] // width)
        inputs = [work, int(self.step.solver.has_upper), self.dof, width, X]
        launch(kernels.solve_columns, (self.model.ntree, blocks), inputs)

    def store(self, h: float, X: wp.array, first: int, Y: wp.array) -> None:
        """Write the rows (δq', δv') of the Jacobians into Y, from the solved columns of X from `first` on."""
        if not Y.size:
            return
        launch, nlink, v, topology = (
            self.step.dynamics.launch,
            self.model.nlink,
            self.flow.v,
            self.device_model.topology,
        )
        launch(kernels.store_jacobian, nlink, [topology, h, v, X, first, Y])
        if self.step.spin is not None:
            launch(spin_slopes.spin_rows, nlink, [topology, h, self.step.spin.bodies(self.step.dynamics), v, Y])

    def add_explicit(self, h: float, columns: Columns, result: Linearization) -> None:
        """Add the explicit part: how the result depends on the variables at a fixed solution."""
        step, launch, nlink, v, A = self.step, self.step.dynamics.launch, self.model.nlink, self.flow.v, result.A
        topology = self.device_model.topology
        launch(kernels.add_position, nlink, [topology, h, v, A])
        if step.spin is not None:
            given = [topology, h, step.spin.bodies(step.dynamics), v]
            launch(spin_slopes.spin_position, nlink, [*given, A])
            for name in (name for name in result.parameters if name in INERTIAS):
                Y = result.parameters[name]
                inputs = [*given, columns.inertias, columns.first[name] - columns.inertias.first, Y]
                launch(spin_slopes.spin_inertias, Y.shape[2], inputs)
        if self.model.na:
            self.actuation.store(A, result.B)

    def _smooth_columns(self, h: float, columns: Columns) -> None:
        """Columns of inertial forces, springs, actuators and generalized forces."""
        step, d, X, nv = self.step, self.device_model, columns.X, self.model.nv
        launch, dynamics, p = step.dynamics.launch, step.dynamics, d.parameters
        launch(passes.acceleration, nv, [h, step.v, self.flow.v, self.a])
        biased = step.v
        if step.spin is not None:
            biased = step.spin.still(h, dynamics, step.v)
            dynamics.velocity(biased)
        dynamics.inverse_dynamics(biased, self.a, self.inverse_dynamics)
        dynamics.velocity(self.flow.v, self.flow.link_V)
        D = self.derivative.launch_along(biased, self.a, True, 0.0, 0.0)
        launch(kernels.block_columns, nv, [d.topology, h, D, 0, X])
        D = self.derivative.launch_along(biased, self.a, False, 1.0, -1.0 / h)
        launch(kernels.block_columns, nv, [d.topology, h, D, nv, X])
        springs = [p.stored("joint_stiffness"), p.stored("joint_reference"), step.q]
        launch(kernels.spring_columns, self.model.nlink, [d.topology, h, *springs, X])
        if self.model.nu:
            inputs = [d.topology, h, *self._actuators(columns), step.q, step.v, self.flow.v, X]
            launch(actuator_slopes.actuator_columns, None, inputs)
        if "tau" in columns.first:
            launch(kernels.force_columns, nv, [h, columns.first["tau"], X])
        if columns.parameters:
            self._parameter_columns(h, columns)

    def _actuators(self, columns: Columns) -> list:
        """The actuators and their first columns, as kernels read them."""
        first = copy(actuator_slopes.FirstColumns, self.device_model.types.real)()
        first.control = columns.start("B")
        for name in (*ACTUATOR_PARAMETERS, "joint_range", "joint_friction"):
            setattr(first, name, columns.start(name))
        actuators = self.step.actuators
        if self.actuation is not None:  # laws replace biases
            actuators.control, first.actuator_bias = self.actuation.no_control, columns.law
        return [actuators, first]

    def _parameter_columns(self, h: float, columns: Columns) -> None:
        """Columns of inertial parameters and of the parameters of joint laws."""
        step, d, X, nv, first = self.step, self.device_model, columns.X, self.model.nv, columns.start
        launch, p = step.dynamics.launch, d.parameters
        if columns.kind.shape[0]:
            bodies = copy(parameter_slopes.Bodies, d.types.real)()
            bodies.mass, bodies.com, bodies.a = p.stored("body_mass"), p.stored("body_com"), self.a
            for key in ("link_X", "link_V", "link_A", "dof_S"):
                setattr(bodies, key, getattr(step.dynamics, key))
            inputs = [d.topology, h, bodies, columns.kind, columns.index, columns.component, columns.inertias, X]
            launch(parameter_slopes.inertia_columns, columns.kind.shape[0], inputs)
        if first("gravity") >= 0:
            inputs = [d.topology, h, self.flow.dof_S, step.composite, first("gravity"), X]
            launch(parameter_slopes.gravity_columns, nv, inputs)
        if first("joint_damping") >= 0:
            launch(parameter_slopes.damping_columns, nv, [h, self.flow.v, first("joint_damping"), X])
        if max(first("joint_stiffness"), first("joint_reference")) >= 0:
            inputs = [d.topology, h, p.stored("joint_stiffness"), p.stored("joint_reference"), step.q]
            inputs += [first("joint_stiffness"), first("joint_reference"), X]
            launch(parameter_slopes.spring_parameter_columns, self.model.nlink, inputs)

    def _contact_columns(self, h: float, columns: Columns) -> None:
        step, collision, X = self.step, self.step.collision, columns.X
        if not collision.enabled:
            return
        d, launch, law, size = self.device_model, step.dynamics.launch, self.contact_law, collision.capacity
        scene, contacts, G, options = (
            collision.scene,
            collision.contacts,
            self.weights.contact_G,
            step.law.law_options(h),
        )
        inputs = [scene, contacts, collision.material(), options, step.law.loads(), self.weights.contact_w]
        inputs += [step.solver.problem.v_hat, step.solver.work.u_c, G, collision.friction(), step.v, law]
        launch(contact_slopes.law_slopes, size, inputs)
        if collision.slides:
            step.dynamics.velocity(step.v, self.before.link_V)
            launch(contact_slopes.sliding_columns, None, [scene, contacts, law, G, X])
        self.motion.vary()
        slope, gamma = self.motion.slope, step.solver.solution.gamma
        fields, law_slope = self._field_columns(columns), self.no_law_slope
        if columns.pressure is not None:
            columns.pressure.find(h)
            law_slope = columns.pressure.law_slope
            if fields.slope.shape[1]:
                inputs = [d.topology, scene, contacts, law, self.flow, self.before, G, gamma, fields, X]
                launch(pressure_columns.field_columns, None, inputs)
        inputs = [d.topology, scene, contacts, law, self.flow, self.before, slope, law_slope, G, gamma, self.changes]
        launch(contact_slopes.contact_changes, (size, collision.max_support), inputs)
        inputs = [d.topology, scene, contacts, self.flow.dof_S, G, self.changes, X]
        launch(contact_slopes.contact_columns, None, inputs)
        inputs = [d.topology, scene, contacts, law, self.flow, slope, columns.inertias, self.weights, fields, X]
        launch(weight_slopes.contact_weight_columns, None, inputs)
        first = copy(parameter_slopes.ContactFirst, d.types.real)()
        of_geoms = ("friction", "stiffness", "dissipation_time", "friction_dynamic", "friction_velocity")
        for key in of_geoms:
            setattr(first, key, columns.start(f"geom_{key}"))
        first.gravity, first.body_mass = (columns.start(x) if options.coulomb else -1 for x in ("gravity", "body_mass"))
        if max(first.gravity, first.body_mass, *(getattr(first, key) for key in of_geoms)) >= 0:
            inputs = [scene, contacts, law, G, first, self.model.nbody, X]
            launch(parameter_slopes.contact_parameter_columns, None, inputs)

    def _field_columns(self, columns: Columns):
        """Slopes with respect to the parameters of pressure fields, and their first columns."""
        fields, p = copy(pressure_columns.FieldColumns, self.device_model.types.real)(), self.device_model.parameters
        for name in PRESSURE_PARAMETERS:
            key = name.removeprefix("geom_").removeprefix("hydroelastic_")
            setattr(fields, key, columns.start(name))
        if columns.pressure is not None:
            fields.soft, fields.slope = columns.pressure.soft, columns.pressure.parameter_slope
            fields.dissipation_times = p.stored("geom_dissipation_time")
        return fields

    def _row_columns(self, h: float, columns: Columns) -> None:
        """Columns of scalar rows: first the slopes of each kind, then the part that all kinds share."""
        step, d, X, slopes = self.step, self.device_model, columns.X, self.row_slopes
        forward, solver, launch = step.scalar_rows, step.solver, step.dynamics.launch
        rows, sigma = forward.rows, step.options.sigma
        G, gamma = solver.work.newton.row_G, solver.solution.row_gamma
        if not forward.count:
            return
        table, constants, phi = forward.table, forward.constants(step.actuators), forward.phi
        v = self.flow.v
        inputs = [table, constants, rows, h, sigma, phi, step.v, v, forward.floor, slopes]
        launch(row_slopes.law_slopes, forward.count, inputs)
        launch(row_slopes.coordinate_row_slopes, forward.count, [table, constants, rows, h, step.q, step.v, slopes])
        actuators, first = self._actuators(columns)
        if forward.of(ACTUATOR).size or max(first.joint_range, first.joint_friction) >= 0:
            launch(actuator_slopes.row_parameter_columns, None, [table, rows, slopes, actuators, first, X])
        if forward.has_frames:
            step.dynamics.motion_subspace(self.ahead.link_X, self.ahead.dof_S)
            inputs = [d.topology, table, constants, rows, h, self.here, self.ahead, step.v, slopes]
            launch(frame_slopes.frame_row_slopes, forward.count, inputs)
            inputs = [d.topology, table, rows, slopes, self.here, step.composite, forward.inertia]
            launch(frame_slopes.floor_columns, None, [*inputs, columns.inertias, self.weights, X])
        launch(row_slopes.row_columns, None, [rows, slopes, G, gamma, v, X])
        inputs = [d.topology, rows, slopes, self.flow, columns.inertias, self.weights, X]
        launch(weight_slopes.row_weight_columns, None, inputs)


def linearize(sim, state, control, tau, parameters, force_jacobian, mocap_jacobian, out) -> Linearization:
    """See `Simulator.linearize`."""
    sim._stepper.check_state(state)
    names, mocap = parameter_names(parameters), flag(mocap_jacobian, "mocap_jacobian")
    reason = why_reverse(sim, names, "mocap_jacobian" if mocap else "", "linearize")
    force = flag(force_jacobian, "force_jacobian")
    if out is not None and not isinstance(out, Linearization):
        raise ValueError(f"out is a {type(out).__name__}; give the Linearization of an earlier call")
    with tape_paused():
        control, tau = point_forces(sim, control, tau)
        entries = request_entries(sim.model, force, names, mocap)
        if out is None:
            out = blank_result(sim.device_model, entries)
        else:
            check_result(sim.device_model, entries, out)
        if reason:
            sim._stepper.reverse_linearizer.fill(sim.dt, state, control, tau, out)
            return out
        linearizer = sim._stepper.linearizer
        columns = linearizer.columns(force, names)
        linearizer.load(state, control, tau)
        sim._stepper.compile_once(("linearize", force, names), lambda: linearizer.launch(sim.dt, columns, out))
        key = ("linearize", id(columns), *(array.ptr for array in out.arrays().values()))
        sim._stepper.replay.run(key, lambda: linearizer.launch(sim.dt, columns, out))
    return out


def point_forces(sim, control, tau) -> list[wp.array | None]:
    """`control` and `tau` of the point on the device; None stays None."""
    given = (("control", control, sim.model.nu), ("tau", tau, sim.model.nv))
    return [None if x is None else sim._inputs.device_array(x, (sim.worlds, n), name) for name, x, n in given]


def why_reverse(sim, names: tuple[str, ...], mocap: str, method: str) -> str:
    """Why the derivatives of a step need reverse passes; empty where they have a closed form.

    `mocap`: the argument that asks for derivatives with respect to the poses of mocap bodies, or empty. Raises
    `ValueError` where there is no closed form and the simulator was made without gradients.
    """
    if mocap and not sim.model.nmocap:
        raise ValueError(f"model {sim.model.name!r} has no mocap bodies; leave {mocap} out")
    for name in (name for name in names if name in sim.parameters.refused):
        raise ValueError(f"parameters[{name!r}] {sim.parameters.refused[name]}")
    reason = _not_analytic(sim, names) or ("by the poses of mocap bodies" if mocap else "")
    if reason and not sim.requires_grad:
        raise ValueError(f"{method} has no closed form {reason}; a simulator with requires_grad=True has its Jacobians")
    return reason


def _not_analytic(sim, names: tuple[str, ...]) -> str:
    """Why the Jacobians have no closed form here; empty where they have one."""
    refuse_gradients(sim.model, sim.dtype, "linearize")
    if not sim.integrator.has_closed_form:
        return f"with {sim.integrator!r}, only with ws.SymplecticEuler()"
    if not sim.solver.has_closed_form:
        return f"with {sim.solver!r}, only with ws.SAP(...) and ws.NoContact()"
    if not sim._step.solver.has_factor:
        return 'without the factor of the Hessian, only with SAP(linear_solver="cholesky")'
    if sim._step.impacts is not None:
        return "with impacts inside a step (time_of_impact)"
    if sim.model.has_fluid:
        return "with the forces of a medium"
    if sim._step.collision.surfaces is not None:
        return "with surface velocities of geoms"
    if sim._step.collision.spin is not None:
        return "with torsional or rolling friction, only with condim 1 and 3"
    if sim.parameters.is_per_world("body_active"):
        return "with body_active per world"
    if sim._step.lines is not None:
        return "with spatial tendons, or actuators on sites and cranks"
    if sim._step.sticking is not None:
        return "with adhesion"
    if sim._step.actuation is not None and sim._step.actuation.has_limits:
        return "with ranges of what several actuators do"
    if sim._step.compensation is not None:
        return "with gravity compensation"
    others = [name for name in names if name not in PARAMETERS]
    if sim._step.actuation is not None:  # laws before a step read these
        others += [name for name in names if name in ("actuator_gain", "actuator_bias", "control_range")]
    if "geom_size" in names and sim.model.point_pairs:
        others.append("geom_size")
    return f"by {others[0]!r}, only by {', '.join(PARAMETERS)}" if others else ""


def parameter_names(parameters) -> tuple[str, ...]:
    """Names of parameters, checked, in the order of `SPECS`."""
    names = (parameters,) if isinstance(parameters, str) or not np.iterable(parameters) else tuple(parameters)
    for name in names:
        choice(name, "an entry of parameters", SPECS)
        if name == "body_active":
            raise ValueError("body_active switches bodies on and off; there is no Jacobian by it")
    return tuple(name for name in SPECS if name in names)
