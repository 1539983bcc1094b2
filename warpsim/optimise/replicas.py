# SPDX-License-Identifier: Apache-2.0
"""`Replicas`: several copies of a simulator's worlds side by side, in one wide simulator.

Candidates of a line search, samples, and the knots of a trajectory to linearize are all worlds: one launch steps or
differentiates all of them. World c · worlds + w of the wide simulator is replica c of world w. Wide simulators are
cached with the original simulator, which is only read. Each use copies its parameters again.
"""

import dataclasses
import warnings
import weakref

import numpy as np

from warpsim.differentiate.linearize import _not_analytic
from warpsim.kernels.flags import NONFINITE
from warpsim.optimise.reversals import Reversals, corrected
from warpsim.simulator import Simulator
from warpsim.state import State

KEPT = 8  # cached wide simulators per simulator
WIDEST = 1024  # worlds linearized at a time, about 10 kB to 100 kB each
_kept: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


@dataclasses.dataclass
class Motion:
    """Rolled-out replicas: `arrays[name] (knots * substeps + 1, replicas, worlds, ...)` hold their whole states.

    `each (knots, substeps, replicas, worlds, nu)`: controls of all substeps; `finite (replicas, worlds)`: whether the
    flag NONFINITE was never set.
    """

    arrays: dict[str, np.ndarray]
    each: np.ndarray
    finite: np.ndarray
    substeps: int

    @property
    def controls(self) -> np.ndarray:
        """Controls `(knots, replicas, worlds, nu)` of the first substeps."""
        return self.each[:, 0]

    @property
    def q(self) -> np.ndarray:
        """Positions at the knots `(knots + 1, replicas, worlds, nq)`, float64."""
        return self.arrays["q"][:: self.substeps].astype(float)

    @property
    def v(self) -> np.ndarray:
        """Velocities at the knots."""
        return self.arrays["v"][:: self.substeps].astype(float)

    def chosen(self, replica: np.ndarray) -> "Motion":
        """One replica of each world, by index `(worlds,)`."""
        worlds = np.arange(len(replica))
        arrays = {name: x[:, replica, worlds][:, None] for name, x in self.arrays.items()}
        each = self.each[:, :, replica, worlds][:, :, None]
        return Motion(arrays, each, self.finite[replica, worlds][None], self.substeps)

    def updated(self, worlds: np.ndarray, other: "Motion") -> "Motion":
        """This motion, with the chosen worlds (a mask) replaced by those of another."""

        def mixed(mine, its):
            return np.where(worlds.reshape(-1, *[1] * (mine.ndim - 3)), its, mine)

        arrays = {name: mixed(x, other.arrays[name]) for name, x in self.arrays.items()}
        finite = np.where(worlds, other.finite, self.finite)
        each = np.where(worlds[:, None], other.each, self.each)
        return Motion(arrays, each, finite, self.substeps)


class Replicas:
    """`copies` of the worlds of `sim`, stepped with dt / `substeps`; see `replicas`."""

    def __init__(self, sim: Simulator, copies: int, substeps: int, requires_grad: bool):
        self.copies, self.substeps, self.worlds = copies, substeps, sim.worlds
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings about the initial state, which `sim` has already given
            self.sim = Simulator(
                sim.model,
                copies * sim.worlds,
                sim.dt / substeps,
                integrator=sim.integrator,
                solver=sim.solver,
                device=sim.device,
                dtype=sim.dtype,
                requires_grad=requires_grad,
                max_contacts=sim.max_contacts or None,
                recovery_speed=sim.recovery_speed,
                threads=sim._threads_given,
                hydroelastic=sim.device_model.hydroelastic.level,
                max_polygons=sim.device_model.hydroelastic.max_polygons,
                time_of_impact=sim.time_of_impact,
                mapped_stiffness=sim.mapped_stiffness,
                contact_gradient=sim.contact_gradient,
            )
        self.state = self.sim.state()
        self._jacobians: dict = {}

    def linearize(self, control: np.ndarray, parameters: tuple[str, ...]) -> dict[str, np.ndarray]:
        """Jacobians `(copies, worlds, ...)` by name at the last loaded state.

        They are written into persistent arrays, so that a captured graph can be replayed.
        """
        out = self.sim.linearize(self.state, control, parameters=parameters, out=self._jacobians.get(parameters))
        self._jacobians[parameters] = out
        shape = (self.copies, self.worlds)
        return {name: x.numpy().reshape(*shape, *x.shape[1:]).astype(float) for name, x in out.arrays().items()}

    def refresh(self, parameters) -> None:
        """Copy the parameters of the original simulator."""
        for name in {*parameters.expanded, *self.sim.parameters.expanded}:
            values = parameters.stored(name).numpy()
            self.set(name, np.broadcast_to(values, (self.worlds, *values.shape[1:])))

    def set(self, name: str, values: np.ndarray) -> None:
        """Set a parameter `(worlds, ...)` or `(copies, worlds, ...)` in every replica."""
        shape = (self.copies, self.worlds, *self.sim.parameters.stored(name).numpy().shape[1:])
        values = np.broadcast_to(values, shape).reshape(-1, *shape[2:])
        self.sim.parameters[name].assign(np.ascontiguousarray(values, dtype=self.sim.dtype))

    def load(self, arrays: dict[str, np.ndarray]) -> State:
        """A state from arrays `(worlds, ...)` or `(copies, worlds, ...)` by name."""
        for name, array in self.state.arrays().items():
            own = array.numpy()
            values = np.broadcast_to(arrays[name], (self.copies, self.worlds, *own.shape[1:]))
            array.assign(np.ascontiguousarray(values.reshape(own.shape)))
        return self.state

    def roll(self, start: State | dict[str, np.ndarray], knots: int, policy, reversals: bool = False) -> Motion:
        """The motions from `start` under `policy(knot, q, v) -> controls`, arrays `(copies, worlds, n)`.

        `start`: a state of the original worlds, or arrays `(worlds, ...)` or `(copies, worlds, ...)` by name. A policy
        may give controls of their own to the substeps of a knot: `(substeps, copies, worlds, nu)`. `reversals`: those
        of dry friction happen inside a substep (`reversals.py`).
        """
        state, shape = self.load(start if isinstance(start, dict) else start.numpy()), (self.copies, self.worlds)
        rows = knots * self.substeps
        arrays = {name: np.empty((rows + 1, *shape, *x.shape[1:]), x.dtype) for name, x in state.numpy().items()}
        each = np.empty((knots, self.substeps, *shape, self.sim.model.nu), self.sim.dtype)

        def keep(row: int) -> None:
            for name, x in state.numpy().items():
                arrays[name][row] = x.reshape(arrays[name].shape[1:])

        keep(0)
        watch = Reversals(self.sim.model, self.sim.dt, state.q.numpy(), state.v.numpy()) if reversals else None
        for row in range(rows):
            knot, within = divmod(row, self.substeps)
            if within == 0:
                given = np.broadcast_to(policy(knot, arrays["q"][row], arrays["v"][row]), each[knot].shape)
                each[knot] = given
            self.sim.step(state, each[knot, within].reshape(self.sim.worlds, self.sim.model.nu), out=state)
            if watch and (mended := watch.mended(state.q.numpy(), state.v.numpy())):
                for array, x in zip((state.q, state.v), mended, strict=True):
                    array.assign(x.astype(self.sim.dtype))
            keep(row + 1)
        finite = (arrays["flags"][-1] & NONFINITE) == 0
        return Motion(arrays, each.astype(float), finite, self.substeps)


def replicas(sim: Simulator, copies: int, substeps: int = 1, requires_grad: bool = False) -> Replicas:
    """The wide simulator with `copies` replicas of each world, with the present parameters of `sim`."""
    kept = _kept.setdefault(sim, {})
    key = (copies, substeps, requires_grad, sim.dt)
    found = kept.pop(key, None) or Replicas(sim, copies, substeps, requires_grad)
    kept[key] = found  # the most recent one is last
    while len(kept) > KEPT:
        del kept[next(iter(kept))]
    found.refresh(sim.parameters)
    return found


def jacobians(
    sim: Simulator,
    motion: Motion,
    parameters: dict[str, np.ndarray] | None = None,
    inputs: dict[str, np.ndarray] | None = None,
    reversals: bool = False,
):
    """Jacobians over all substeps of a knot, of a motion of one replica.

    Returns `A (knots, worlds, 2nv, 2nv)`, `B (knots, worlds, 2nv, nu)`, and the derivatives `(knots, worlds, 2nv,
    entries)` with respect to each parameter, which is given with its values `(worlds, ...)`. `inputs`: names of what
    the controls depend on, each with ∂u `(knots, substeps, worlds, nu)`, entry by entry; they have derivatives beside
    the parameters. `reversals`: steps in which dry friction reverses have the derivative of the motion
    (`reversals.py`).
    """
    parameters, wanted = dict(parameters or {}), set(parameters or {})
    rows, substeps = len(motion.arrays["q"]) - 1, motion.substeps
    rubs = reversals and (sim.model.joint_friction > 0).any()
    if rubs and "joint_friction" not in parameters:
        friction = sim.parameters.stored("joint_friction").numpy().astype(float)
        parameters["joint_friction"] = np.broadcast_to(friction, (sim.worlds, friction.shape[-1]))
    points = {name: x[:-1, 0] for name, x in motion.arrays.items()}
    controls = motion.each[:, :, 0].reshape(rows, sim.worlds, -1)
    copies = min(rows, max(1, WIDEST // sim.worlds))
    wide = replicas(sim, copies, substeps, requires_grad=bool(_not_analytic(sim, tuple(parameters))))
    for name, values in parameters.items():
        wide.set(name, values)
    lists: dict[str, list] = {}
    for first in range(0, rows, copies):
        chunk = np.minimum(np.arange(first, first + copies), rows - 1)
        wide.load({name: x[chunk] for name, x in points.items()})
        control = np.ascontiguousarray(controls[chunk].reshape(wide.sim.worlds, sim.model.nu), dtype=sim.dtype)
        for name, values in wide.linearize(control, tuple(parameters)).items():
            lists.setdefault(name, []).append(values[: rows - first])
    found = {name: np.concatenate(parts) for name, parts in lists.items()}
    if rubs:
        speeds = motion.arrays["v"][:, 0].astype(float)
        found["A"] = corrected(found["A"], found["joint_friction"], speeds, parameters["joint_friction"])
        if "joint_friction" not in wanted:
            del found["joint_friction"]
    for name, slope in (inputs or {}).items():
        found[name] = found["B"] * slope.reshape(rows, sim.worlds, 1, -1)
    found = {name: x.reshape(rows // substeps, substeps, *x.shape[1:]) for name, x in found.items()}
    A = found.pop("A")
    for later in range(1, substeps):  # x'' = A₂ (A₁ x + B₁ u) + B₂ u
        for x in found.values():
            x[:, 0] = A[:, later] @ x[:, 0] + x[:, later]
        A[:, 0] = A[:, later] @ A[:, 0]
    return A[:, 0], found.pop("B")[:, 0], {name: x[:, 0] for name, x in found.items()}
