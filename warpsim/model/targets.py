# SPDX-License-Identifier: Apache-2.0
"""Targets of a `ModelBuilder`'s actuators: a joint, a tendon, sites, a slider-crank, or the contacts of a body."""

import dataclasses

import numpy as np

from warpsim.base.checks import number, short
from warpsim.base.errors import ModelError, named
from warpsim.model.builder_values import array_of
from warpsim.model.model import JOINT_NV, Model


@dataclasses.dataclass
class Target:
    """Indices of the builder; -1 for what is not the target.

    `site`: site and reference site, or pin and slider of a crank.
    """

    joint: int = -1
    tendon: int = -1
    site: tuple[int, int] = (-1, -1)
    rod: float = 0.0
    body: int = -1

    def size(self, b) -> int:
        """Number of gear values."""
        if self.joint >= 0:
            return JOINT_NV[b.joints[self.joint].type]
        return 6 if self.site[0] >= 0 and not self.rod else 1


def read_target(b, joint, tendon, site, reference_site, crank, body, label: str) -> Target:
    """The target given; `ModelError` where none or several are given."""
    given = {"joint": joint, "tendon": tendon, "site": site, "crank": crank, "body": body}
    chosen = [name for name, value in given.items() if value is not None]
    if len(chosen) != 1:
        raise ModelError(f"{label}: give one of {', '.join(given)}; it has {' and '.join(chosen) or 'none'}")
    if reference_site is not None and site is None:
        raise ModelError(f"{label}: reference_site means nothing without site; leave it out")
    if joint is not None:
        return Target(joint=b._joint(joint))
    if tendon is not None:
        return Target(tendon=b._tendon(tendon))
    with named(label):
        if body is not None:
            found = b._body(body)
            if found < 0:
                raise ModelError("the world cannot stick; give a body")
            return Target(body=found)
        if site is not None:
            return Target(site=(b._site(site), -1 if reference_site is None else b._site(reference_site)))
        if not isinstance(crank, (tuple, list)) or len(crank) != 3:
            raise ModelError(
                f"crank is {short(crank)}; give (site of the pin, site of the slider, length of the rod [m])"
            )
        rod = number(
            crank[2], "rod", "its length [m] must be positive and finite", lambda x: 0 < x < np.inf, ModelError
        )
        return Target(site=(b._site(crank[0]), b._site(crank[1])), rod=rod)


def read_gear(b, target: Target, gear, label: str) -> np.ndarray:
    """Gear `(6,)`, padded with 0."""
    size, gears = target.size(b), np.zeros(6)
    values = np.atleast_1d(array_of(gear, f"{label}: gear"))
    if not np.isfinite(values).all() or values.shape not in ((size,), (6,)):  # MJCF gives six
        raise ModelError(f"{label}: gear {short(values.tolist())}; give {size} finite values")
    gears[:size] = values[:size]
    if target.body >= 0 and gears[0] != 1:
        raise ModelError(
            f"{label}: gear {gears[0]:g} means nothing for contacts that stick; leave it out, and scale the gain"
        )
    return gears


def check_feedback(b, target: Target, feeds_back: bool, control_range, gain, label: str) -> None:
    """Refuse a law that its target does not support."""
    size = target.size(b)
    if target.joint >= 0 and size > 1 and feeds_back:
        joint = b.joints[target.joint]
        raise ModelError(
            f"{label}: feedback on length or velocity needs a hinge or slide; joint {joint.name!r} is "
            f"{joint.type.name.lower()}"
        )
    if target.body < 0:
        return
    if feeds_back:
        raise ModelError(f"{label}: contacts of a body have no length; leave out feedback on length and velocity")
    if gain[0] < 0 or not control_range[0] >= 0:
        raise ModelError(
            f"{label}: contacts stick with gain times control >= 0; give a control_range from 0 on, not "
            f"{control_range[0]:g}"
        )


def compile_targets(b, order: dict[int, int]) -> dict:
    """The fields of the Model that hold targets; `order` maps joints of the builder to those of the Model."""
    targets = [a.target for a in b.actuators]
    return {
        "actuator_joint": np.array([order.get(t.joint, -1) for t in targets], dtype=np.int32),
        "actuator_tendon": np.array([t.tendon for t in targets], dtype=np.int32),
        "actuator_site": np.array([t.site for t in targets], dtype=np.int32).reshape(-1, 2),
        "actuator_rod": np.array([t.rod for t in targets], dtype=float),
        "actuator_body": np.array([t.body for t in targets], dtype=np.int32),
    }


def target_of(model: Model, a: int, joint: int = 0, tendon: int = 0, site: int = 0, body: int = 0) -> dict:
    """The target of actuator a as arguments of `add_actuator`; indices are offset by the given numbers."""
    at = model.actuator_site[a].tolist()
    if model.actuator_joint[a] >= 0:
        return {"joint": joint + int(model.actuator_joint[a])}
    if model.actuator_tendon[a] >= 0:
        return {"tendon": tendon + int(model.actuator_tendon[a])}
    if model.actuator_body[a] >= 0:
        return {"body": body + int(model.actuator_body[a])}
    if model.actuator_rod[a] > 0:
        return {"crank": (site + at[0], site + at[1], float(model.actuator_rod[a]))}
    return {"site": site + at[0], "reference_site": None if at[1] < 0 else site + at[1]}


def target_name(model: Model, a: int) -> str:
    """The name of the target of actuator a."""
    for index, names in (
        (model.actuator_joint[a], model.joint_names),
        (model.actuator_tendon[a], model.tendon_names),
        (model.actuator_body[a], model.body_names),
        (model.actuator_site[a, 0], model.site_names),
    ):
        if index >= 0:
            return names[int(index)]
    return ""
