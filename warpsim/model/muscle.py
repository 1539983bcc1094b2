# SPDX-License-Identifier: Apache-2.0
"""`Muscle`: the constants of an actuator that pulls like a muscle."""

import dataclasses
from typing import Any

import numpy as np

from warpsim.base.checks import number, numbers, short
from warpsim.base.errors import ModelError

COLUMNS = ("low", "high", "force", "lmin", "lmax", "vmax", "fpmax", "fvmax")
FORCE = COLUMNS.index("force")
NO_MUSCLE = np.full((2, len(COLUMNS)), np.nan)  # (active, passive) rows of an actuator that is no muscle


@dataclasses.dataclass(frozen=True)
class Muscle:
    """A muscle as in MuJoCo, for `add_actuator(kind="muscle", muscle=ws.Muscle(...))`.

    Parameters
    ----------
    force : float
        Largest active force at rest [N, N m].
    length_range : (float, float)
        Least and largest length of the actuator [m, rad], gear included.
    range : (float, float)
        `length_range` in units of the optimal length L0, at which the muscle pulls hardest. Default: (0.75, 1.05).
    lmin, lmax : float
        Lengths between which the muscle is active [L0]. At lmax the passive force is fpmax; it is linear beyond the
        middle. Default: 0.5, 1.6.
    vmax : float
        Shortening velocity at which the force is zero [L0/s]. Default: 1.5.
    fpmax, fvmax : float
        Passive force at lmax, and active force at fast lengthening, in units of `force`. Default: 1.3, 1.2.
    times : (float, float)
        Time constants of the activation, rise and fall [s]. Default: (0.01, 0.04).
    width : float
        Change of control over which rise blends into fall. Default: 0, a sharp switch.

    Raises
    ------
    ModelError
        A value is outside its range.

    Notes
    -----
    The force is −force (FL(L) FV(V) activation + FP(L)) along the joint or tendon, times gear. L is the length [L0] and
    V its rate [L0/s]. FL, FV and FP are MuJoCo's force-length, force-velocity and passive-force curves.

    Worlds may differ in all of these. `sim.parameters["muscle_force"]` is (worlds, nu, 2) and `["muscle_curve"]`
    (worlds, nu, 2, 7), for the active and the passive force (range, lmin, lmax, vmax, fpmax, fvmax); NaN for other
    actuators. `["actuator_length_range"]` is (worlds, nu, 2) and `["actuator_time"]` (worlds, nu, 3).

    Examples
    --------
    >>> builder = ws.ModelBuilder()
    >>> arm = builder.add_body("arm", mass=1.0, inertia=[0.1, 0.1, 0.1])
    >>> joint = builder.add_joint(arm, "hinge", name="elbow", range=[-1, 1])
    >>> builder.add_actuator("elbow", "muscle", muscle=ws.Muscle(force=200.0, length_range=(-0.05, 0.05)), gear=0.05)
    0
    """

    force: float
    length_range: tuple[float, float]
    range: tuple[float, float] = (0.75, 1.05)
    lmin: float = 0.5
    lmax: float = 1.6
    vmax: float = 1.5
    fpmax: float = 1.3
    fvmax: float = 1.2
    times: tuple[float, float] = (0.01, 0.04)
    width: float = 0.0

    def __post_init__(self) -> None:
        for name in ("length_range", "range"):
            value = numbers(getattr(self, name), f"muscle: {name}", ModelError)
            if value.shape != (2,) or not np.isfinite(value).all() or not value[0] < value[1]:
                raise ModelError(f"muscle: {name} is {short(getattr(self, name))}; give (low, high) with low < high")
        times = numbers(self.times, "muscle: times", ModelError)
        if times.shape != (2,) or not (np.isfinite(times) & (times > 0)).all():
            raise ModelError(f"muscle: times is {short(self.times)}; give (rise, fall) > 0 [s]")
        for name in ("force", "fpmax", "fvmax", "width"):
            number(
                getattr(self, name),
                f"muscle: {name}",
                "it must be finite and not negative",
                lambda x: 0 <= x < np.inf,
                ModelError,
            )
        number(self.vmax, "muscle: vmax", "it must be finite and positive", lambda x: 0 < x < np.inf, ModelError)
        for name, rule, good in (
            ("lmin", "it must be 0 to 1", lambda x: 0 <= x < 1),
            ("lmax", "it must be above 1 and finite", lambda x: 1 < x < np.inf),
        ):
            number(getattr(self, name), f"muscle: {name}", rule, good, ModelError)

    @property
    def dynamics(self) -> tuple[Any, ...]:
        """Kind, times and width of the activation, as `dynamics` of `ModelBuilder.add_actuator`."""
        return ("muscle", *self.times, self.width)

    @property
    def rows(self) -> np.ndarray:
        """Array (2, 8), as in `Model.actuator_muscle[i]`: a row for the active and one for the passive force.

        The columns are the two values of `range`, then force, lmin, lmax, vmax, fpmax and fvmax.
        """
        row = [*self.range, self.force, self.lmin, self.lmax, self.vmax, self.fpmax, self.fvmax]
        return np.tile(np.array(row, float), (2, 1))


@dataclasses.dataclass(frozen=True)
class MuscleRows:
    """A muscle of a compiled model: `rows (2, 8)` as in `Muscle`, NaN where a force is absent; without the dynamics."""

    rows: np.ndarray
    length_range: np.ndarray
    dynamics: None = None
