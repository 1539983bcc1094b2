# SPDX-License-Identifier: Apache-2.0
"""The backward pass of a step with impacts (device: `kernels/differentiate/impact_adjoint.py`; theory §2).

It repeats the step and records its impacts. Then it takes back the parts of the step from the last to the first: the
path to q' and the last solve; then for every impact the solve of the impact, the gap that sets its time, the path to it
and the solve whose change of velocity D makes that path. Each solve is taken back as in an ordinary step, at its own
state.
"""

import contextlib
from types import SimpleNamespace

import warp as wp

from warpsim.device.copies import twin
from warpsim.device.per_world import assign, fill
from warpsim.device.ranges import WorldList, among
from warpsim.device.recording import KnownTape
from warpsim.differentiate.stage import take_back
from warpsim.differentiate.taped_dynamics import TapedDynamics
from warpsim.integrate.impacts import MOST
from warpsim.kernels.contact import taped_contacts
from warpsim.kernels.differentiate import impact_adjoint, residual, spin_slopes
from warpsim.kernels.integrate import impacts
from warpsim.kernels.tree import passes


class ImpactsAdjoint:
    """The backward pass of the worlds that have impacts, with the stages of a `StepAdjoint`."""

    def __init__(self, adjoint):
        self.adjoint, self.step, self.impacts = adjoint, adjoint.step, adjoint.step.impacts
        self.segments = self.impacts.segments
        model, worlds, S = adjoint.model, adjoint.worlds, adjoint.device_model.types.real
        with_gradient, array = adjoint.dynamics.array, self.step.dynamics.array
        self.q, self.q_end, self.way = (with_gradient(n, S) for n in (model.nq, model.nq, model.nv))
        C, t = self.step.collision.capacity, adjoint.device_model.types
        self.ahead = TapedDynamics(adjoint.device_model)  # kinematics half a step ahead, and there of the contacts:
        made = {"q": (model.nq, S), "phi": (C, S), "rate": (C, S), "point": (C, t.vec3), "frame": (C, t.mat33)}
        self.contacts_ahead = SimpleNamespace(**{name: with_gradient(*of) for name, of in made.items()})
        self.contacts_ahead.shift = twin(self.step.collision.contacts.shift)
        self.shift_bar = array(C, t.vec3)
        sizes = {"time": None, "length": None, "by_length": None, "q": model.nq}
        sizes |= dict.fromkeys(("v", "before", "rate", "start"), model.nv)
        self.bars = self.step.dynamics.workspace(impact_adjoint.Bars, **sizes)
        self.solution_bar, self.gain_bar = array(model.nv, S), array(model.nv, S)
        self.no_gravity = wp.zeros(1, dtype=adjoint.device_model.types.vec3, device=adjoint.device)
        self.has_impact = wp.zeros(worlds, dtype=wp.int32, device=adjoint.device)
        self.of_impact = WorldList(worlds, adjoint.device)

    def repeat(self, h: float) -> None:
        """Continue the repeated step after its solve: tape the worlds without impacts, trace the impacts of others."""
        self.impacts.find(h)
        with among(self.impacts.others):
            self.adjoint.take_solution(h)
        self._run(h)

    def reverse(self, h: float, by_position: bool, regular: bool) -> None:
        """`StepAdjoint.reverse` in all worlds."""
        with among(self.impacts.others):
            self.adjoint.reverse_plain(h, by_position, regular)
        with self.step.solver.cold():
            self._reverse(h)

    def record_before(self, h: float) -> None:
        """v_n of the contacts at v0, and the bend hκ of their bounds, on the tape."""
        a, collision, ahead = self.adjoint, self.step.collision, self.ahead
        if not collision.enabled:
            return
        d, known, x = a.device_model, [collision.scene, collision.contacts], self.contacts_ahead
        ahead.launch(passes.integrate_position, a.model.nlink, [d.topology, 0.5 * h, a.q_node, a.v0, x.q])
        ahead.position(x.q)
        ahead.velocity(a.v0)
        a._record_contact_geometry(ahead, x.phi, x.point, x.frame)
        inputs = [d.topology, *known, ahead.link_X, ahead.link_V, x.point, x.frame, x.rate]
        ahead.launch(taped_contacts.normal_rate, collision.capacity, inputs)
        ahead.launch(taped_contacts.before_impact, collision.capacity, [known[1], a.rate0, x.rate, x.shift, a.before])

    def _run(self, h: float) -> None:
        """Repeat the segments; solvers start at the velocity of their problem."""
        solver, v_solved = self.step.solver, self.step.solver.problem.v0
        solver.problem.v0 = self.step.v
        self.impacts.run(h)
        solver.problem.v0 = v_solved

    def _reverse(self, h: float) -> None:
        a, s, step = self.adjoint, self.segments, self.step
        state = [step.q, step.v, a.v_solved, a.seed]
        with among(self.impacts.struck):
            for array in self._sums:
                fill(array.grad)
            self._launch(
                impact_adjoint.begin_end,
                [s, a.inputs.q_next_bar, a.inputs.v_next_bar, self.bars, self.q, self.way, self.q_end.grad],
            )
            self._take_back_path(h)
            inputs = [s, a.inputs.v_next_bar, self.q.grad, self.way.grad, self.bars]
            self._launch(impact_adjoint.reverse_end, [*inputs, *state])
            self._take_back_solve(h, mode=-1)
            if a.model.na:  # the next activations are taken back once
                fill(a.actuation.following_bar)
        for i in reversed(range(MOST)):
            with among(None):
                self._launch(impact_adjoint.list_impacts, [s, i, self.has_impact])
                self.impacts.list(self.of_impact, 1, self.has_impact)
            with among(self.of_impact):
                self._take_back_impact(h, i, state)
        with among(self.impacts.struck):
            self._launch(impact_adjoint.give_bars, [self.bars, a.q.grad, a.v0.grad])

    def _take_back_impact(self, h: float, i: int, state: list) -> None:
        a, s, step = self.adjoint, self.segments, self.step
        self._launch(impact_adjoint.begin_impact, [s, i, self.bars, *state])
        self._take_back_strike(h)
        path = [self.q, self.way, self.q_end.grad]
        self._launch(impact_adjoint.begin_path, [s, i, a.q.grad, a.v0.grad, self.bars, *path])
        self._take_back_path(h, by_parameters=False)
        self._clear()
        topology, bars = a.device_model.topology, self.bars
        inputs = [topology, h, s, i, int(bool(step.spin)), self.way, self.way.grad, bars]
        self._launch(impact_adjoint.path_rate, inputs)
        if step.spin:
            inputs = [topology, h, self._bodies(), bars.start, self.way, bars.rate]
            step.dynamics.launch(spin_slopes.turn_rate, a.model.nlink, inputs)
        inputs = [h, s, i, self.impacts.known(), step.v, bars]
        self._launch(impact_adjoint.seed_gap, [*inputs, a.phi.grad, a.rows.phi.grad])
        with KnownTape() as tape:
            a._record_geometry(h)
        tape.backward()
        self._launch(impact_adjoint.add_gap, [a.q.grad, self.bars, self.q_end.grad])
        self._take_back_path(h)
        self._launch(impact_adjoint.reverse_path, [s, i, self.q.grad, self.way.grad, self.bars, *state])
        if i:
            self._take_back_solve(h, impacts.LEAVES | impacts.CLOSES)
        else:
            with step.solver.as_at_first():
                self._take_back_solve(h, impacts.LEAVES)

    def _take_back_path(self, h: float, by_parameters: bool = True) -> None:
        """From the gradient of q ⊕ h way to those of q and way, and by what spinning bodies gain, of the length."""
        a = self.adjoint
        for array in (self.q, self.way):
            fill(array.grad)
        fill(self.bars.by_length)
        if self.step.spin:
            self._take_back_turn(h, by_parameters)
        with KnownTape() as tape:
            inputs = [a.device_model.topology, h, self.q, self.way, self.q_end]
            a.dynamics.launch(passes.integrate_position, a.model.nlink, inputs)
        tape.backward()

    def _take_back_turn(self, h: float, by_parameters: bool) -> None:
        a, bars, d = self.adjoint, self.bars, self.adjoint.device_model
        self.impacts.ahead.position(self.q)
        given = {"q_next": self.q_end.grad, "v_next": self.gain_bar, "q": self.q.grad, "v": self.way.grad}
        if by_parameters:
            given |= {"bodies": a.dynamics.body_gradients, "armature": a.dynamics.parameter_gradient("joint_armature")}
        inputs = [d.topology, h, self._bodies(), bars.start, bars.length, self.way, self.q, bars.before]
        self._launch(spin_slopes.reverse_turn, [*inputs, d.struct(spin_slopes.Bars, **given), bars.by_length])

    def _bodies(self):
        """The bodies where the present path begins."""
        return self.step.spin.bodies(self.impacts.ahead)

    def _take_back_solve(self, h: float, mode) -> None:
        """From the gradient `seed` of the solution at (q, v) to those of q and v, which are added to `bars`."""
        a = self.adjoint
        self.impacts.smooth(h)
        self.impacts.problem(h, mode)
        self._take_back(h)
        self._launch(impact_adjoint.add_bars, [a.q.grad, a.v0.grad, self.bars])

    def _take_back_strike(self, h: float) -> None:
        """The same for an impact; the gradients stay where the stages leave them."""
        self.impacts.impact(h)
        self._solve(h)
        if self.impacts.yields:
            self.impacts.find_rebounds()
            with among(self.impacts.rebounding):
                self.impacts.give_back(1.0)
                self._solve(h)
        with self._without_duration():
            self._take_back_solution(h)
            if self.impacts.yields:
                with among(self.impacts.rebounding):
                    self._take_back_yield(h)

    @contextlib.contextmanager
    def _without_duration(self):
        """The equations inside are those of an impact: M (v − v0) = Jᵀγ at q."""
        a = self.adjoint
        own = {"record_momentum_balance": self._record_impact, "record_inertia": self._record_mass}
        own |= {"inertial": a.dynamics, "solve_stages": a.contact_stages, "_record_configuration": lambda h: None}
        own |= {"takes_time": False}
        inertial = a.inertial
        vars(a).update(own)
        try:
            yield
        finally:
            for name in own:
                delattr(a, name)
            a.inertial = inertial

    def _take_back(self, h: float) -> None:
        self._solve(h)
        self._take_back_solution(h)

    def _take_back_solution(self, h: float) -> None:
        a = self.adjoint
        assign(self.solution_bar, a.seed)  # the residual's seed takes its place
        a.take_solution(h)
        self._clear()
        assign(a.v.grad, self.solution_bar)
        take_back([*a._first_stages(), *a.solve_stages()], h)

    def _take_back_yield(self, h: float) -> None:
        """Add the gradients by what the contacts of an impact yield in its first solve."""
        a, shift = self.adjoint, self.contacts_ahead.shift
        assign(self.shift_bar, shift.grad)
        self.impacts.give_back(0.0)
        self._solve(h)
        a.take_solution(h)
        self._clear(a.q, a.v0)
        assign(shift.grad, self.shift_bar)
        with KnownTape() as tape:
            a._record_impulses(h)
            self.step.law.record_yield(a.dynamics, h, a.weight, a.phi, a.gamma, shift)
        tape.backward()
        for array in (a.gamma, a.v_c, shift):
            fill(array.grad)
        take_back([*a._first_stages(), *a.solve_stages()], h)

    def _solve(self, h: float) -> None:
        self.step.prepare_solver(h)
        self.step.solver.launch()

    def _record_impact(self, h: float, v: wp.array) -> None:
        """r = M (v − v0)."""
        self._record_change(h, self.adjoint.v0, v)

    def _record_mass(self, h: float, v: wp.array) -> None:
        """r = M v."""
        self._record_change(h, self.step.zero_acceleration, v)

    def _record_change(self, h: float, v_from: wp.array, v: wp.array) -> None:
        a, dynamics, still = self.adjoint, self.adjoint.dynamics, self.step.zero_acceleration
        a._record_inertial(h, dynamics, still, v_from, v, self.no_gravity)
        inputs = [h, a.inverse_dynamics, still, still, v, a.r]
        dynamics.launch(residual.smooth_residual, a.model.nv, inputs)

    @property
    def _sums(self) -> list[wp.array]:
        """The arrays whose gradients sum up over the parts of a step."""
        a = self.adjoint
        found = [a.control, a.tau, a.wrench, a.link_pose]
        if a.model.na:
            found.append(a.actuation.activation)
        return [x for x in found if x is not None and x.grad is not None]

    def _clear(self, *kept: wp.array) -> None:
        a, sums = self.adjoint, {id(x) for x in (*self._sums, *kept)}
        for array in a._cleared:
            if id(array) not in sums:
                fill(array.grad)

    def _launch(self, kernel, inputs) -> None:
        self.step.dynamics.launch(kernel, None, inputs)
