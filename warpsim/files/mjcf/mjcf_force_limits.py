# SPDX-License-Identifier: Apache-2.0
"""Convert `actuatorfrcrange` of joints and tendons to force ranges of actuators.

MuJoCo clamps three times (`mj_fwdActuation`):

- the sum of the forces of all actuators on a tendon, before gears and forceranges, to the tendon's range
- each actuator's force to its forcerange
- the generalised force of all actuators on a hinge or slide, also through tendons and after gears, to the joint's range

If one actuator alone makes that force, the range goes to this actuator, which is solved with the step. If the sum
cannot leave the range, the range has no effect. Otherwise it becomes an effort limit (`ModelBuilder.add_effort_limit`).
"""

import numpy as np

from warpsim.files.drives import INFINITE
from warpsim.files.mjcf.mjcf_refusals import (
    actuator_count,
    actuator_refusal,
    control_index,
    disabled,
    line_bodies,
    on_tendon,
    tendon_coefficients,
)

IDLE, UNREACHED, MAPPED, SHARED, MOVING = "idle", "unreached", "mapped", "shared", "moving"
ROUNDING = 1e-9  # relative rounding by which a sum may exceed a range


def compensates(m) -> bool:
    """Whether bodies' gravity is compensated; MuJoCo disables this if springs and dampers are both disabled."""
    return bool(m.body_gravcomp.any()) and not (disabled(m, "SPRING") and disabled(m, "DAMPER"))


def is_off(m, a: int) -> bool:
    """Whether actuator `a` gives no force, because actuation or its group is disabled."""
    group = int(m.actuator_group[a])
    return disabled(m, "ACTUATION") or bool(0 <= group < 31 and int(m.opt.disableactuator) >> group & 1)


class ForceLimits:
    """What becomes of each actuatorfrcrange of a compiled model: `joints` and `tendons` give the outcome by index.

    - IDLE: there are no actuators
    - MAPPED: it goes to the only actuator
    - UNREACHED: the actuators cannot exceed it
    - SHARED: several actuators, or gravity compensation, share it
    - MOVING: an actuator on a spatial tendon, sites, a crank or contacts moves the joint
    """

    def __init__(self, m):
        self.m = m
        acting = [a for a in range(actuator_count(m)) if actuator_refusal(m, a) is None and not is_off(m, a)]
        self.tendon_drivers: dict[int, list[int]] = {}
        for a in (a for a in acting if on_tendon(m, a)):
            self.tendon_drivers.setdefault(int(m.actuator_trnid[a][0]), []).append(a)
        self.tendons = {int(t): self._tendon(int(t)) for t in np.flatnonzero(m.tendon_actfrclimited)}
        self.moments = {a: _moments(m, a) for a in acting}
        self.joint_drivers: dict[int, list[int]] = {}
        for a, moments in self.moments.items():
            for j in moments:
                self.joint_drivers.setdefault(j, []).append(a)
        self.joints = {int(j): self._joint(int(j)) for j in np.flatnonzero(m.jnt_actfrclimited)}

    def force_range(self, a: int) -> np.ndarray:
        """The force range (low, high) of actuator `a` before its gear: within its own, its tendon's and its joint's."""
        limits = self._before_joints(a)
        for j, ratio in self.moments.get(a, {}).items():
            if self.joints.get(j) == MAPPED:
                limits = np.clip(limits, *np.sort(self.m.jnt_actfrcrange[j] / ratio))
        return limits

    def own_range(self, a: int) -> np.ndarray:
        """The bounds of MuJoCo's actuator_force, NaN where they equal those of `force_range`.

        They differ if a joint's range clamps the force: MuJoCo then clamps the joint's force, not actuator_force.
        """
        own = self._before_joints(a)
        return np.where(own == self.force_range(a), np.nan, own)

    def _tendon(self, t: int) -> str:
        drivers = self.tendon_drivers.get(t, [])
        if len(drivers) < 2:
            return MAPPED if drivers else IDLE
        reach = sum(_reach(self.m, a, INFINITE) for a in drivers)
        return UNREACHED if _within(reach, self.m.tendon_actfrcrange[t]) else SHARED

    def gravity(self, j: int) -> bool:
        """Whether the range of joint `j` includes gravity compensation."""
        return bool(self.m.jnt_actgravcomp[j] and compensates(self.m))

    def _joint(self, j: int) -> str:
        drivers = self.joint_drivers.get(j, [])
        if any(np.isnan(self.moments[a][j]) for a in drivers):
            return MOVING
        if self.gravity(j):
            return SHARED
        if len(drivers) == 1 and len(self.moments[drivers[0]]) == 1:
            return MAPPED
        reach = sum(np.sort(self.moments[a][j] * _reach(self.m, a, self._before_joints(a))) for a in drivers)
        return IDLE if not drivers else UNREACHED if _within(reach, self.m.jnt_actfrcrange[j]) else SHARED

    def _before_joints(self, a: int) -> np.ndarray:
        """The tendon's range clamped to the actuator's own range."""
        own, t = _own_range(self.m, a), int(self.m.actuator_trnid[a][0])
        if on_tendon(self.m, a) and self.tendons.get(t) == MAPPED:
            return np.clip(self.m.tendon_actfrcrange[t], *own)
        return own


def _moments(m, a: int) -> dict[int, float]:
    """Generalised force per unit force of actuator `a`, by hinge or slide; zeros are left out, NaN: it varies."""
    target, gear = int(m.actuator_trnid[a][0]), float(m.actuator_gear[a, 0])
    bodies = line_bodies(m, a)
    if bodies is not None:
        chain: set[int] = set()
        for body in bodies:
            while body > 0:
                chain.add(body)
                body = int(m.body_parentid[body])
        return {j: np.nan for j in range(m.njnt) if m.jnt_type[j] >= 2 and int(m.jnt_bodyid[j]) in chain}
    coefficients = (tendon_coefficients(m, target) or {}) if on_tendon(m, a) else {target: 1.0}
    return {j: gear * c for j, c in coefficients.items() if gear * c != 0 and m.jnt_type[j] >= 2}


def _own_range(m, a: int) -> np.ndarray:
    return np.array(m.actuator_forcerange[a] if m.actuator_forcelimited[a] else INFINITE, float)


def _reach(m, a: int, limits) -> np.ndarray:
    """The interval of the possible forces of actuator `a` before its gear, at controls and activations within range."""
    c = control_index(m, a)
    force, drive = np.array(INFINITE), None
    affine = m.actuator_biastype[a] == 1 and not m.actuator_biasprm[a, 1:3].any()
    motor = m.actuator_gaintype[a] == 0 and (m.actuator_biastype[a] == 0 or affine)
    if m.actuator_dyntype[a]:
        drive = m.actuator_actrange[a] if m.actuator_actlimited[a] else None
    elif m.actuator_ctrllimited[c] and not disabled(m, "CLAMPCTRL"):
        drive = m.actuator_ctrlrange[c]
    if motor and drive is not None:
        offset = float(m.actuator_biasprm[a, 0]) if m.actuator_biastype[a] else 0.0
        force = offset + np.sort(m.actuator_gainprm[a, 0] * drive)
    return np.clip(force, *limits)


def _within(reach, limits) -> bool:
    slack = ROUNDING * np.abs(limits).max()
    return bool(limits[0] - slack <= reach[0] and reach[1] <= limits[1] + slack)
