# SPDX-License-Identifier: Apache-2.0
"""Impacts inside a step, from the host (device: `kernels/integrate/impacts.py`, `path_bend.py`; theory §2)."""

import contextlib

import numpy as np
import warp as wp

from warpsim.device.copies import launch
from warpsim.device.per_world import fill
from warpsim.device.ranges import WorldList, among, cut, present, repeat
from warpsim.integrate.explicit_motion import FreeMotion
from warpsim.integrate.impact_sums import FLIGHT, IMPACT, LAST, ImpactSums
from warpsim.kernels import flags
from warpsim.kernels.contact import contacts as contact
from warpsim.kernels.contact.narrow import resolution
from warpsim.kernels.integrate import impacts, path_bend, spin
from warpsim.kernels.integrate.theta import schemes
from warpsim.tree.dynamics import Dynamics

ACCELERATION = 9.81  # [m/s²] g of the bounds below, also without gravity
FAST = 0.25  # a contact or stop is fast if it approaches at more than this times ACCELERATION h
MOST = 4  # impacts that a step resolves
LEAST_BEND = 1e-4  # smallest J̇v of a touching contact that counts, in units of ACCELERATION
NEWTON = {"float32": 1, "float64": 3}  # Newton steps of the time of an impact
SOFTNESS = {"float32": 0.1, "float64": 0.01}  # factor of R in an impact
SEEN = 1e-3  # part of the window g h² within which detection after an impact finds what was hit

SUSPECT, UNRESOLVED = int(resolution.SUSPECT), int(flags.UNRESOLVED)


class Impacts:
    """Takes the end of a `Step` in the worlds where a fast contact or stop closes within the step."""

    def __init__(self, step, traces: bool = False):
        self.step, model, worlds, device = step, step.model, step.worlds, step.device_model.device
        nq, nv, C, K = model.nq, model.nv, step.collision.capacity, step.scalar_rows.count
        sizes = dict.fromkeys(
            (
                "state",
                "impacts",
                "time",
                "sigma",
                "error",
                "lag",
                "iterations",
                "status",
                "flags",
                "mode",
                "touching",
                "rebounds",
                "plain",
            )
        )
        sizes |= {"q0": nq, "q": nq} | dict.fromkeys(("v0", "v", "change", "base", "way", "bound"), nv)
        sizes |= {"fast": C, "gap": C, "rate": C, "row_fast": K}
        self.segments = step.dynamics.workspace(impacts.Segments, **sizes)
        n = MOST if traces else 0
        shapes = {"q": (n, nq), "v": (n, nv), "change": (n, nv), "before": (n, nv)} | dict.fromkeys(
            ("sigma", "pair", "feature"), n
        )
        self.segments.trace = step.dynamics.workspace(impacts.Trace, **shapes)
        self.ahead, self.q_ahead = Dynamics(step.device_model), step.dynamics.array(nq, step.device_model.types.real)
        collision, rows, t = step.collision, step.scalar_rows, step.device_model.types
        array = step.dynamics.array
        collision.contacts.touch, collision.contacts.bend = array(C, wp.int32), array(C, t.real)
        collision.contacts.shift = array(C, t.vec3)
        rows.rows.touch = array(K, wp.int32)
        rigid = np.full((1, model.ngeom), np.inf)
        self.rigid = step.device_model.array(rigid, t.real) if step.contact_model.is_rigid else None
        self.struck, self.others, self.active, self.rebounding = (WorldList(worlds, device) for _ in range(4))
        # Impacts have no duration: A = M at q, and v* = v.
        self.still = FreeMotion(step) if step.scheme.implicit else step.motion
        self.yields = C > 0 and not step.contact_model.is_rigid
        self.sums = None if traces else ImpactSums(self)

    def rule(self, h: float):
        fall, d = ACCELERATION * h, self.step.device_model
        return d.struct(impacts.Rule, speed=FAST * fall, window=fall * h, least=LEAST_BEND * fall, half=0.5 * h)

    def launch(self, h: float) -> None:
        """The end of a step, after its solve."""
        self.find(h)
        with among(self.others):
            self.step.integrate(h)
        self.run(h)
        with among(self.struck):
            self._end(h)

    def find(self, h: float) -> None:
        """List the worlds where a fast contact closes within the step, and the others."""
        step, d = self.step, self.step.device_model
        inputs = [d.topology, h, self.known(), step.solver.solution, self.segments, step.q, step.v]
        self._launch_plain(impacts.find, None, inputs)
        self.list(self.others, impacts.RESTS)
        self.list(self.struck, impacts.FLIES)
        self._go_on(h)

    def run(self, h: float) -> None:
        """From impact to impact to the last segment of the step."""
        with self._own_certificates(), self.step.solver.cold():
            with among(self.struck):
                self._begin(h)
            repeat(self.active, lambda: self._segment(h))

    @contextlib.contextmanager
    def _own_certificates(self):
        """Every solve inside certifies its solution."""
        solver = self.step.solver
        before = solver.certified_later
        try:
            solver.certified_later = False
            yield
        finally:
            solver.certified_later = before

    def _begin(self, h: float) -> None:
        step, s = self.step, self.segments
        if step.fused and step.reports_energy:
            step.dynamics.energy(s.q0, s.v0, step.kinetic, step.potential, step.energy)
            for part in step.fused.elastic:
                part.compute(s.q0)
                part.add(step.potential, step.energy)
        step.solver.certify()
        step.stages.report()
        self._note(SUSPECT)
        self._measure(h)
        if step.gain:
            step.gain.begin_solves(h)

    def _segment(self, h: float) -> None:
        """From (q, v) near the next impact through it to near the one after it, or to the last solution of the step."""
        for left in reversed(range(NEWTON[self.step.device_model.dtype])):
            self._correct(h, int(left == 0))
        self._add(h, FLIGHT)
        self.impact(h)
        self._solve(h)
        if self.yields:
            self.find_rebounds()
            with among(self.rebounding):
                self.give_back(1.0)
                self._solve(h)
        self._measure(h, is_impact=True)
        self._add(h, IMPACT)
        self._launch_plain(
            impacts.take, None, [self.step.q, self.step.solver.solution, MOST, self.segments, self.step.v]
        )
        if self.step.fused:
            self.step.fused.move_again(h)
        else:
            self.smooth(h)
        self.problem(h, -1)
        self._solve(h)
        self.step.collision.look_along(h, self.segments.v, self.segments.flags)
        self._measure(h)
        self._meet(h)

    def _measure(self, h: float, is_impact: bool = False) -> None:
        """Let sensors measure the present solve."""
        if self.sums:
            self.sums.measure(h, is_impact)

    def _add(self, h: float, part: int) -> None:
        """Add what the present solution does to what the step does."""
        if self.sums:
            self.sums.add(part)
        if self.step.gain:
            self.step.gain.add_solve(0.0 if part == IMPACT else h, part, self.segments)

    def _meet(self, h: float) -> None:
        step, d = self.step, self.step.device_model
        inputs = [d.topology, h, self.known(), step.solver.solution, MOST, self.segments, step.q, step.v]
        self._launch_plain(impacts.meet, None, inputs)
        self._go_on(h)

    def _go_on(self, h: float) -> None:
        """List the worlds that still fly, and turn their spinning bodies along the path to (q, v)."""
        self.list(self.active, impacts.FLIES)
        with among(self.active):
            self._turn(h, self.step.q, self.step.v)

    def _turn(self, h: float, q: wp.array, v: wp.array) -> None:
        step, s = self.step, self.segments
        if step.spin:
            inputs = [step.device_model.topology, h, step.spin.bodies(step.dynamics), s.v, s.sigma, s.way, s.q, q, v]
            self._launch_plain(spin.turn_path, step.model.nlink, inputs)

    def _correct(self, h: float, last: int) -> None:
        """One Newton step of the time of the next impact, on the true gaps."""
        step, d, dynamics = self.step, self.step.device_model, self.ahead
        collision, rows = step.collision, step.scalar_rows
        self._place(0.0, self.segments.state, dynamics)
        if collision.enabled:
            inputs = [d.topology, collision.scene, d.plant(), dynamics.link_X, dynamics.link_V, collision.contacts]
            self._launch(impacts.measure_gaps, None, inputs)
            if collision.convex_scene is not None:
                self._launch(impacts.measure_convex_gaps, None, [collision.convex_scene, *inputs])
        inputs = [d.topology, h, collision.contacts, rows.table, rows.constants(step.actuators)]
        self._launch_plain(impacts.correct, None, [*inputs, rows.rows, last, self.segments, step.q, step.v])
        self._go_on(h)

    def impact(self, h: float) -> None:
        """The problem of an impact at (q, v)."""
        self.smooth(0.0)
        with self._window(self.rule(h), h):
            self.problem(h, impacts.STRIKES)

    def find_rebounds(self) -> None:
        """List the worlds where a contact of the present impact rebounds."""
        s, states = self.step, self.segments.rebounds
        with among(None):
            fill(states)
        self._launch(impacts.find_rebounds, None, [s.collision.contacts, s.law.filled()])
        self.list(self.rebounding, 1, states)

    def give_back(self, share: float) -> None:
        """Shift v̂ by `share` of what contacts yield to the impulses of the solution: the next solve is exact to R²."""
        s = self.step
        inputs = [share, s.solver.solution, s.law.loads(), s.collision.contacts, s.law.filled()]
        self._launch_plain(impacts.give_back, s.collision.capacity, inputs)

    def smooth(self, h: float) -> None:
        """Kinematics and free motion at (q, v); h = 0: A = M, v* = v."""
        step = self.step
        if step.fused:
            step.begin_worlds()
            step.fused.smooth_motion(h)
            return
        dynamics = step.dynamics
        step.begin_worlds()
        dynamics.position(step.q)
        dynamics.velocity(step.v)
        for part in step.parts:
            if part is not step.tendon_energy:
                part.before_forces(h)
        step.forces()
        step.stages.damp(h)
        (step.motion if h else self.still).launch(h)
        dynamics.velocity(step.v_star, step.link_V_star)

    @contextlib.contextmanager
    def _window(self, rule, h: float):
        """Detection inside also finds contacts with a gap below the window."""
        scene, rows = self.step.collision.scene, self.step.scalar_rows.rows
        before = scene.expect_impacts, rows.pull
        try:
            scene.window, scene.haste, scene.expect_impacts = rule.window, rule.window / h, 1
            rows.pull = max(rows.pull, rule.window / h)
            yield
        finally:
            scene.window = scene.haste = 0.0
            scene.expect_impacts, rows.pull = before

    @contextlib.contextmanager
    def _seen(self, h: float):
        """Detection inside finds what an impact has left at a gap of 0, with rounding to either side."""
        scene = self.step.collision.scene
        scene.window = SEEN * self.rule(h).window
        scene.haste = scene.window / h
        try:
            yield
        finally:
            scene.window = scene.haste = 0.0

    def problem(self, h: float, mode) -> None:
        """The contact problem at the present kinematics and v*, where `touch` says what impacts change."""
        step, collision, rows = self.step, self.step.collision, self.step.scalar_rows
        found = contextlib.nullcontext() if int(mode) in (impacts.LEAVES, impacts.STRIKES) else self._seen(h)
        with found:
            collision.detect(h, step.dynamics.link_V, step.link_V_star)
        collision.jacobian()
        if collision.enabled:
            self.touch(h, mode)
        if mode != impacts.STRIKES:
            for part in step.parts:
                part.after_contacts(h)
        if collision.enabled:
            step.law.regularise(h, step.v, step.M_factor, step.z)
        state = (step.q, step.v, step.v_star, step.M_factor, step.force, step.z, step.actuators)
        rows.launch(h, step.options.sigma, *state)
        self.touch_rows(h, mode)

    def touch(self, h: float, mode=impacts.LEAVES) -> None:
        """Say what contacts do in a solve, before they are regularized."""
        step, collision, rule = self.step, self.step.collision, self.rule(h)
        bounces = max(rule.speed, getattr(step.contact_model, "restitution_threshold", 0.0))
        step.solver.threshold = step.law.fast = bounces
        if int(mode) not in (impacts.LEAVES, impacts.STRIKES):  # after an impact: what is left does not rebound
            step.solver.threshold = step.law.fast = np.inf
        step.law.softness = SOFTNESS[step.device_model.dtype]
        inputs = [rule, int(mode), collision.scene, self.stiffness(), collision.contacts, step.v]
        self._launch(impacts.touch_contacts, None, inputs)
        if mode != impacts.STRIKES:
            self.bend(h)

    def stiffness(self) -> wp.array:
        """Stiffness (rows, ngeom) of the geoms; impacts of contact with a finite one are not resolved."""
        own = self.step.device_model.parameters.stored("geom_stiffness")
        return own if self.rigid is None else self.rigid

    def touch_rows(self, h: float, mode=impacts.LEAVES) -> None:
        """Say what rows do in a solve, once they are filled."""
        step, rows = self.step, self.step.scalar_rows
        inputs = [self.rule(h), int(mode), rows.table, rows.constants(step.actuators), rows.phi, step.v, rows.rows]
        self._launch(impacts.touch_rows, None, inputs)

    def bend(self, h: float) -> None:
        """Let the bounds of touching contacts follow the surfaces within the step: v_n ≥ −hκ."""
        step, d, ahead, collision = self.step, self.step.device_model, self.ahead, self.step.collision
        self._place(0.5 * h, self.segments.touching, ahead)
        links = d.struct(contact.Moving, X=ahead.link_X, V=ahead.link_V)
        inputs = [d.topology, self.rule(h), collision.scene, d.plant(), self.stiffness(), links]
        inputs += [collision._geoms(), step.v, self.segments.touching, collision.contacts]
        step.dynamics.launch(path_bend.bend, None, inputs)
        if collision.convex_scene is not None:
            step.dynamics.launch(path_bend.bend_convex, None, [collision.convex_scene, *inputs])

    def _place(self, t: float, wanted: wp.array, dynamics: Dynamics) -> None:
        """Kinematics at q ⊕ t v, with the velocities at v, in the worlds that want them."""
        step, d = self.step, self.step.device_model
        arrays = [self.q_ahead, dynamics.link_X, dynamics.dof_S, dynamics.link_V]
        step.dynamics.launch(
            path_bend.place, step.model.ntree, [d.topology, d.plant(), t, wanted, step.q, step.v, *arrays]
        )

    def _solve(self, h: float) -> None:
        step = self.step
        step.solve(h)
        step.stages.report()
        self._note()

    def _note(self, left_out: int = SUSPECT | UNRESOLVED) -> None:
        """Join the certificate of a solve, and the flags of its contacts but for those left out, to those of the step.

        After an impact geoms part fast that have not passed each other.
        """
        solver = self.step.solver
        self._launch(impacts.note, None, [solver.solution, solver.lag_error, self.step.collision.contacts, left_out])

    def _end(self, h: float) -> None:
        """Accept the ends of the segments."""
        step, d = self.step, self.step.device_model
        self._add(h, LAST)
        ends = [step.q, step.v, step.q_next, step.solver.solution, step.solver.lag_error, step.collision.contacts]
        self._launch_plain(impacts.end, None, [d.topology, h, self.segments, *ends])
        self._turn(h, step.q_next, step.solver.solution.v)
        step.collision.look_after(h, 1.0, self.segments.v, self.segments.way)
        if step.gain:
            step.gain.end_solves()
        step.scalar_rows.remember(h, step.solver.solution, step.force, step.flags)
        if self.sums:
            self.sums.give(h)
        v = step.solver.solution.v
        for part in step.parts:
            if part is not step.measurement:
                part.before_commit(h, v)
        inputs = [d.topology, d.plant(), h, step.solver.solution.status, step.ends(step.q_next, v)]
        step.dynamics.launch(schemes.commit, None, inputs)
        for part in step.parts:
            part.after_commit()

    def known(self):
        """The present contact problem."""
        step, rows = self.step, self.step.scalar_rows
        found = {"scene": step.collision.scene, "contacts": step.collision.contacts, "phi": rows.phi}
        return step.device_model.struct(impacts.Known, **found, table=rows.table, rows=rows.rows)

    def _launch(self, kernel, n, inputs) -> None:
        self._launch_plain(kernel, n, [*inputs, self.segments])

    def _launch_plain(self, kernel, n, inputs) -> None:
        self.step.dynamics.launch(kernel, n, inputs)

    def list(self, chosen: WorldList, state, states: wp.array | None = None) -> None:
        """List the worlds of a state. Default of `states (worlds,)`: those of the segments."""
        own, d = present(), self.step.device_model
        first, count = (0, self.step.worlds) if own is None else (own.first, len(own))
        inputs = [self.segments.state if states is None else states, int(state), first, count, chosen.own()]
        with cut(), among(None):
            launch(impacts.list_worlds, d.types.real, 1, inputs, device=d.device, record_tape=False)
