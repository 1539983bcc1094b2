# SPDX-License-Identifier: Apache-2.0
"""Models that differ between the worlds of one simulator: sizes, masses, joints, everything in `sim.parameters`.

World i has model i mod n. What worlds share (names, types of joints and shapes, meshes, which pairs may touch, …) must
be equal in all models.
"""

import dataclasses

import numpy as np

from warpsim.model.hydroelastic import tessellation
from warpsim.model.model import JointType, Model
from warpsim.model.mujoco_options import PAIR_LAW
from warpsim.model.parameters import LAW_SPECS, MARGINS, SPECS, values_of

FREE = (
    "name",
    "q0",
    "keyframes",
    "report",
    "timestep",
    "geom_rgba",
    "geom_visible",
    "geom_mapped_stiffness",
    "actuator_muscle",  # its parameters are muscle_force and muscle_curve
)  # may differ: without effect on the step, or set by parameters of other names
SHAPES_OF_A_MEDIUM = ("body_fluid", "geom_fluid")  # read only where there is a medium


def rows_of_starts(models: list[Model], numbers) -> np.ndarray:
    """The initial position q0 of each world `(worlds, nq)`."""
    return np.array([m.q0 for m in models])[np.asarray(numbers) % len(models)]


def keyframe_rows(models: list[Model], name: str, numbers) -> dict[str, np.ndarray]:
    """A keyframe's q and v of each world `(worlds, …)`."""
    chosen = np.asarray(numbers) % len(models)
    return {part: np.array([getattr(m.keyframes[name], part) for m in models])[chosen] for part in "qv"}


def apply_variants(sim, models: list[Model], numbers) -> None:
    """Give every world of a simulator of models[0] the parameters of its own model.

    Raises `ValueError` for models that cannot share a simulator.
    """
    if len(models) == 1:
        return
    for k, other in enumerate(models[1:], 1):
        _check_same(models[0], other, k, sim.solver.mujoco_law)
    chosen = np.asarray(numbers) % len(models)
    for name in SPECS:
        if name == "body_active" or (name in LAW_SPECS and not sim.solver.mujoco_law):
            continue
        values = [values_of(m, name) for m in models]
        if any(not np.array_equal(values[0], x, equal_nan=True) for x in values[1:]):
            sim.parameters[name] = np.array(values)[chosen]


def _check_same(first: Model, other: Model, k: int, mujoco_law: bool) -> None:
    free = FREE if first.has_fluid or other.has_fluid else FREE + SHAPES_OF_A_MEDIUM
    free += () if mujoco_law else ("mujoco", "pair_own", *PAIR_LAW)
    for field in dataclasses.fields(Model):
        follows = field.name in SPECS and (mujoco_law or field.name not in MARGINS)
        if follows or field.name in free or field.name.startswith("_"):
            continue
        a, b = getattr(first, field.name), getattr(other, field.name)
        if field.name == "geom_hydroelastic":
            a, b = tessellation(first), tessellation(other)
        if field.name == "link_pose" and len(a) == len(b):  # a step reads only the poses of links without a joint
            a, b = (x[first.link_joint < 0] for x in (a, b))
        if not _equal(a, b):
            raise ValueError(
                f"models 0 and {k} differ in {field.name}, which all worlds of a simulator share; use one environment "
                "for each (`envs.MixedEnv`)"
            )
    hinged = [
        int(q)
        for q, kind in zip(first.link_q, first.link_type, strict=True)
        if kind in (JointType.HINGE, JointType.SLIDE)
    ]
    if not np.array_equal(first.q0[hinged], other.q0[hinged]):
        raise ValueError(
            f"models 0 and {k} differ in q0 of hinges or slides, from which their angles are counted; use "
            "`envs.MixedEnv`"
        )


def _equal(a, b) -> bool:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        a, b = np.asarray(a), np.asarray(b)
        return a.shape == b.shape and (np.array_equal(a, b, equal_nan=a.dtype.kind == "f"))
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(_equal(x, y) for x, y in zip(a, b, strict=True))
    return a == b
