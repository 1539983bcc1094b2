# SPDX-License-Identifier: Apache-2.0
"""Whether a gradient can be trusted, world by world: the kinks that the motion crosses, and a coarse difference.

An exact derivative can be useless. Where contacts come and go from step to step, the loss as a function of its
variables has teeth, and the derivative is that of a single tooth. This module measures both signs of it. Cost: one
rollout that is watched, one with a tape, and two for the difference.
"""

import dataclasses

import numpy as np

from warpsim.base.checks import listed, positive, whole
from warpsim.differentiate.taped import BY_STEP, STATE_NAMES
from warpsim.kernels import flags as flag_bits
from warpsim.rows.scalar_rows import joint_rows

RELATIVE_STEP = 0.03
HOP_STEPS = 10
TOLERANCE = 0.2
# A contact pushes above this share of the world's largest normal impulse in the rollout: an iterative solver leaves
# traces in contacts that do not push.
PUSHES = 1e-6
# A contact with |γ_t| ≥ (1 - AT_BOUND) μ γ_n slides: solvers meet the bound only to their tolerance.
AT_BOUND = 1e-3
# Differences below this many roundings of the loss count as none.
ROUNDINGS = 1e3
LISTED = 16  # worlds in a table

COUNTS = ("made", "broken", "slips", "stops", "hops", "landings", "impacts")
FLAGS = {
    int(flag_bits.NONFINITE): "NONFINITE",
    int(flag_bits.NOT_CONVERGED): "NOT_CONVERGED",
    int(flag_bits.CONTACT_OVERFLOW): "CONTACT_OVERFLOW",
    int(flag_bits.UNRESOLVED): "UNRESOLVED",
    int(flag_bits.DEEP_PRESSURE): "DEEP_PRESSURE",
    int(flag_bits.NOT_HELD): "NOT_HELD",
    int(flag_bits.ENERGY_GAIN): "ENERGY_GAIN",
}


@dataclasses.dataclass(repr=False)
class GradientTrust:
    """Whether gradients are useful, world by world: the report of `Objective.trust` and `check_gradients(trust=True)`.

    `print` shows it as a table. Counts run from the end of the first step to that of the last. With substeps, they read
    the last substep of each step. A contact counts while it pushes. Each contact point of a pair counts by itself (a
    box on a plane has four).

    Attributes
    ----------
    made, broken : array (worlds,) of int
        Contacts that push and did not in the step before, and the reverse.
    slips : array (worlds,) of int
        Changes between sticking and sliding of a contact that pushes in both steps.
    stops : array (worlds,) of int
        Joint stops that begin or cease to push.
    hops : array (worlds,) of int
        Pairs of geoms that part and touch again within `hop_steps` steps.
    landings : array (worlds,) of int
        Pairs of geoms that begin to push in a step that does not resolve an impact. If they come together fast, the
        loss is a sawtooth there: entries of the gradient may be slopes of one tooth, even if `slope` and `difference`
        agree.
    impacts : array (worlds,) of int
        Impacts that steps resolve (`time_of_impact`). The loss is smooth there, so contacts that impacts make or break
        are not counted above.
    other_impacts : array (worlds,) of bool
        Whether the motion at either end of the central difference has a different number of impacts. The loss may jump
        in between.
    slope : array (worlds,)
        The tape's derivative of the loss along its own gradient, per unit of relative change.
    difference : array (worlds,)
        The central difference along the same line, `relative_step` wide to either side.
    disagreement : array (worlds,)
        |slope − difference| over the largest size of slope, difference and the two one-sided differences. 0: they are
        equal, 1: one of them is noise, 2: they have opposite signs.
    flags : array (worlds,) of int
        Flags that the motion raised, as bits (docs/flags.md).
    steps : int
        Number of steps of the motion.
    relative_step, tolerance : float
        As given to `Objective.trust`.
    hop_steps : int
        As given to `Objective.trust`.
    per_world : bool
        Whether the loss is one number per world. If not, slope and difference are those of the sum, the same in every
        world.
    unreached : tuple of tuples of str
        For each world the bodies that the loss depends on and no variable reaches (`Objective.unreached`). Empty for
        `check_gradients`.
    """

    made: np.ndarray
    broken: np.ndarray
    slips: np.ndarray
    stops: np.ndarray
    hops: np.ndarray
    landings: np.ndarray
    impacts: np.ndarray
    other_impacts: np.ndarray
    slope: np.ndarray
    difference: np.ndarray
    disagreement: np.ndarray
    flags: np.ndarray
    steps: int
    relative_step: float
    hop_steps: int
    tolerance: float
    per_world: bool
    unreached: tuple[tuple[str, ...], ...] = ()

    @property
    def kinks(self) -> np.ndarray:
        """Number of kinks that the motion crosses, array (worlds,): made, broken, slips and stops together."""
        return self.made + self.broken + self.slips + self.stops

    @property
    def trusted(self) -> np.ndarray:
        """Worlds whose gradient can be trusted, array (worlds,) of bool.

        These have a disagreement within the tolerance, no hop, no flag, and no zero gradient with bodies unreached.
        Kinks alone do no harm. The difference is along the gradient: a wrong small entry beside a large right one stays
        unseen. Where bodies land fast, use `time_of_impact=True`.
        """
        good = (self.disagreement <= self.tolerance) & (self.hops == 0) & (self.flags == 0)
        return good & ~np.array([self._untouched(w) for w in range(len(good))], bool)

    def _untouched(self, w: int) -> bool:
        return bool(self.unreached and self.unreached[w] and self.slope[w] == 0)

    def __repr__(self) -> str:
        return f"GradientTrust({self.trusted.sum()} of {len(self.hops)} worlds trusted; print it for the table)"

    def __str__(self) -> str:
        trusted = self.trusted
        worst = np.argsort(np.where(np.isfinite(self.disagreement), -self.disagreement, -np.inf), kind="stable")
        worst = worst[np.argsort(trusted[worst], kind="stable")]
        listed = np.sort(worst[:LISTED])
        timed = self.impacts.any() or self.other_impacts.any()
        impacts = f"{'impacts':>7s} " if timed else ""
        lines = [
            f"gradient trusted in {trusted.sum()} of {len(trusted)} worlds ({self.steps} steps, differences "
            f"{self.relative_step:g} wide to either side, tolerance {self.tolerance:g})",
            f"{'world':>5s} {'made':>5s} {'broken':>6s} {'slips':>5s} {'stops':>5s} {'hops':>5s} "
            f"{impacts}{'slope':>10s} {'difference':>10s} {'disagreement':>12s}  verdict",
        ]
        for w in listed:
            counts = f"{self.made[w]:5d} {self.broken[w]:6d} {self.slips[w]:5d} {self.stops[w]:5d} {self.hops[w]:5d}"
            counts += f" {self.impacts[w]:7d}" if timed else ""
            slopes = f"{self.slope[w]:10.2e} {self.difference[w]:10.2e} {self.disagreement[w]:12.2g}"
            lines.append(f"{w:5d} {counts} {slopes}  {self._verdict(w)}")
        if len(listed) < len(trusted):
            lines.append(f"and {len(trusted) - len(listed)} more worlds that disagree less")
        if self.landings.any():
            lines.append(
                f"geoms land in steps that do not resolve the impact ({self.landings.sum()} times): where they land "
                "fast, entries of the gradient can be wrong although the line agrees; Simulator(time_of_impact=True) "
                "resolves impacts"
            )
        if not self.per_world:
            lines.append("the loss is one number for all worlds: slope and difference are those of their sum")
        return "\n".join(lines)

    def _verdict(self, w: int) -> str:
        reasons = [f"flag {name}" for bit, name in FLAGS.items() if self.flags[w] & bit]
        reasons += ["hops"] if self.hops[w] else []
        if not self.disagreement[w] <= self.tolerance:
            reasons.append("disagreement" if np.isfinite(self.disagreement[w]) else "not finite")
            reasons += ["another number of impacts at an end of the difference"] if self.other_impacts[w] else []
        if self.unreached and self.unreached[w]:
            text = f"no variable reaches {listed(self.unreached[w])}"
            if not self._untouched(w):
                return ("not trusted: " + ", ".join(reasons) if reasons else "trusted") + f"; {text}"
            reasons.append(text)
        return "not trusted: " + ", ".join(reasons) if reasons else "trusted"


class ImpactCount:
    """Counts the impacts of a rollout, step by step: pass it as `progress`. `steps`: arrays (worlds,)."""

    def __init__(self, sim):
        self.sim = sim
        self.steps: list[np.ndarray] = []

    def __call__(self, step: int) -> None:
        """Keep the number of impacts of the step just made (with substeps: of the last one)."""
        self.steps.append(self.sim.diagnostics.impacts.numpy().copy())

    def total(self) -> np.ndarray:
        """The number of impacts of each world."""
        return np.sum(self.steps, axis=0, dtype=int)


class Watch(ImpactCount):
    """Records contacts and stops of each step of a rollout without a tape: pass it as `progress`, read `counts`."""

    def __init__(self, sim):
        super().__init__(sim)
        self.stops = [i for i, row in enumerate(joint_rows(sim.model)) if row.kind == "stop"]
        self.contacts: list[tuple[np.ndarray, ...]] = []
        self.stop_impulses: list[np.ndarray] = []

    def __call__(self, step: int) -> None:
        """Keep the contacts and impulses of the step just made (with substeps: of the last one)."""
        super().__call__(step)
        solver, found = self.sim._step.solver, self.sim.last_contacts
        n = found.phi.shape[1]
        bound = solver.problem.mu.numpy()[:, :n] * found.impulse[..., 2]
        tangential = np.abs(found.impulse[..., :2])
        pyramid = self.sim.solver.has_pyramid
        size = tangential.max(axis=-1) if pyramid else np.hypot(tangential[..., 0], tangential[..., 1])
        names = np.concatenate([found.geoms, found.feature], axis=-1)
        self.contacts.append((names, found.impulse[..., 2], size >= (1.0 - AT_BOUND) * bound))
        self.stop_impulses.append(np.abs(solver.solution.row_gamma.numpy()[:, self.stops]))

    def counts(self, hop_steps: int) -> dict[str, np.ndarray]:
        """The counts `(worlds,)`, by the names in `COUNTS`."""
        found = [self._count(w, hop_steps) for w in range(self.sim.worlds)]
        return {name: np.array([f[i] for f in found], int) for i, name in enumerate(COUNTS)}

    def _count(self, w: int, hop_steps: int) -> tuple[int, ...]:
        """The counts of one world. Its geoms and the features that touch identify a contact.

        What begins to push in a step with impacts is struck, and what ceases in the next one rebounds: no kinks.
        """
        least = PUSHES * max((push[w].max(initial=0.0) for _, push, _ in self.contacts), default=0.0)
        made = broken = slips = hops = landings = 0
        before, parted, struck = None, {}, set()
        hit = np.array([x[w] > 0 for x in self.steps], bool)
        for step, (names, push, slides) in enumerate(self.contacts):
            rows = np.flatnonzero(push[w] > least)
            now = {tuple(names[w, i].tolist()): bool(slides[w, i]) for i in rows}
            if before is not None:
                new = now.keys() - before.keys()
                made += 0 if hit[step] else len(new)
                broken += len(before.keys() - now.keys() - struck)
                struck = new if hit[step] else set()
                slips += sum(now[name] != before[name] for name in now.keys() & before.keys())
                pairs, pairs_before = ({name[:2] for name in x} for x in (now, before))
                parted |= dict.fromkeys(pairs_before - pairs, step)
                again = set() if hit[step] else pairs - pairs_before
                hops += sum(step - parted[p] <= hop_steps for p in again if p in parted)
                landings += len(again)
            before = now
        stops = np.array([x[w] for x in self.stop_impulses])
        pushes = stops > PUSHES * stops.max(initial=0.0)
        begins, ends = pushes[1:] & ~pushes[:-1], pushes[:-1] & ~pushes[1:]
        by_impact = begins & hit[1:, None]
        ends[1:] &= ~by_impact[:-1]
        return (
            made,
            broken,
            slips,
            int((begins & ~by_impact).sum() + ends.sum()),
            hops,
            landings,
            int(sum(x[w] for x in self.steps)),
        )


def checked_options(relative_step, hop_steps, tolerance) -> dict:
    """The options of `measure`, checked."""
    return {
        "relative_step": positive(relative_step, "relative_step"),
        "hop_steps": whole(hop_steps, "hop_steps", 0),
        "tolerance": positive(tolerance, "tolerance"),
    }


def worlds_axis(name: str) -> int:
    """The worlds' axis of an input."""
    return 1 if name in BY_STEP else 0


def _per_world(name: str, x: np.ndarray) -> np.ndarray:
    """An input as (worlds, entries)."""
    x = np.moveaxis(x, worlds_axis(name), 0)
    return x.reshape(len(x), -1)


def _sizes(name: str, x: np.ndarray, scale: float) -> np.ndarray:
    """The size of a relative change of one, (worlds, entries).

    For an entry of a parameter it is its own size, so that signs stay. For q and v it is one unit of `scale`. For a
    control it is the world's largest control, or one unit of `scale` where all are 0.
    """
    x = np.abs(np.where(np.isfinite(x), x, 0.0))
    if name in (*STATE_NAMES, "mocap"):
        return np.full_like(x, scale)
    if name == "controls":
        largest = x.max(axis=1, initial=0.0, keepdims=True)
        return np.broadcast_to(np.where(largest > 0, largest, scale), x.shape)
    return x


def line_along_gradient(point: dict, gradient: dict, scale: dict) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Directions by name, shaped as the inputs, and the tape's slopes `(worlds,)` along them.

    The direction is the one of steepest change in relative units (`_sizes`); its largest entry is a change of one.
    Where the gradient is 0, every entry moves by one, which shows whether 0 is right. Where it is not finite, nothing
    moves and the slope is nan.
    """
    names = list(gradient)
    widths = [_per_world(name, gradient[name]).shape[1] for name in names]
    g = np.concatenate([_per_world(name, gradient[name]) for name in names], axis=1)
    size = np.concatenate([_sizes(name, _per_world(name, point[name]), scale[name]) for name in names], axis=1)
    finite = np.isfinite(g).all(axis=1, keepdims=True)
    relative = np.where(finite, g * size, 0.0)
    largest = np.abs(relative).max(axis=1, initial=0.0, keepdims=True)
    unit = np.where(largest > 0, relative / np.where(largest > 0, largest, 1.0), 1.0)
    move = np.where(finite, unit * size, 0.0)
    directions = {}
    for name, part in zip(names, np.split(move, np.cumsum(widths)[:-1], axis=1), strict=True):
        shape = np.moveaxis(point[name], worlds_axis(name), 0).shape
        directions[name] = np.moveaxis(part.reshape(shape), 0, worlds_axis(name))
    if "body_inertia" in directions:  # only its symmetric part has an effect
        directions["body_inertia"] = (directions["body_inertia"] + directions["body_inertia"].swapaxes(-1, -2)) / 2
    slope = sum((_per_world(name, gradient[name]) * _per_world(name, d)).sum(axis=1) for name, d in directions.items())
    return directions, np.where(finite[:, 0], slope, np.nan)


def disagreement(slope, sides, loss, relative_step: float, rounding: float) -> np.ndarray:
    """|slope - central difference| over the largest size of slope, central and one-sided differences.

    `sides (2, worlds)`: the one-sided differences. At a minimum of the loss they are large and the two others small,
    and the disagreement is small. `rounding`: relative, of the dtype.
    """
    central = sides.mean(axis=0)
    gap = np.abs(slope - central) - ROUNDINGS * rounding * np.abs(loss) / relative_step
    size = np.maximum.reduce([np.abs(slope), np.abs(central), *np.abs(sides)])
    share = np.where(size > 0, np.maximum(gap, 0.0) / np.where(size > 0, size, 1.0), 0.0)
    return np.where(np.isfinite(gap), share, np.nan)


def measure_trust(sim, run, point, gradient, loss, scale, *, relative_step, hop_steps, tolerance) -> GradientTrust:
    """The report.

    `run(point, progress=None)` gives the loss, `(worlds,)` or one number, and the trajectory. `point`: inputs by name,
    with the worlds' axis. `gradient`, `loss`: those at `point` by the tape. `scale`: by name, the unit of q, v and
    controls.
    """
    watch = Watch(sim)
    _, trajectory = run(point, progress=watch)
    directions, slope = line_along_gradient(point, gradient, scale)
    counts, ends = [ImpactCount(sim) if sim.time_of_impact else None for _ in range(2)], []
    for sign, count in zip((1.0, -1.0), counts, strict=True):
        ahead = {name: point[name] + sign * relative_step * d for name, d in directions.items()}
        ends.append(run(point | ahead, progress=count)[0])
    up, down = ends
    other = np.array([x is not None and x.total() != watch.total() for x in counts]).any(axis=0)
    per_world = np.shape(loss) == (sim.worlds,)
    if not per_world:
        slope, loss, up, down = (np.full(sim.worlds, np.sum(x)) for x in (slope, loss, up, down))
    sides = np.stack([up - loss, loss - down]) / relative_step
    rounding = float(np.finfo(sim.dtype).eps)
    return GradientTrust(
        **watch.counts(hop_steps),
        other_impacts=np.broadcast_to(other, (sim.worlds,)),
        slope=slope,
        difference=sides.mean(axis=0),
        disagreement=disagreement(slope, sides, loss, relative_step, rounding),
        flags=trajectory.diagnostics["flags"].numpy()[-1].copy(),
        steps=len(watch.contacts),
        relative_step=relative_step,
        hop_steps=hop_steps,
        tolerance=tolerance,
        per_world=per_world,
    )
