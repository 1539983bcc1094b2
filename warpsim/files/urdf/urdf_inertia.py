# SPDX-License-Identifier: Apache-2.0
"""Repair of the inertias that URDF files give, and rigid merging of links.

Physical inertias have a positive semidefinite second moment S = tr(I)/2 1 − I (Wensing, Kim & Slotine 2018): that is
positive definiteness and the triangle inequality in one. The nearest physical inertia with the same axes clips the
principal values of S at zero.
"""

import numpy as np

from warpsim.checks import short
from warpsim.model.geometry import combine_masses, compose, rotation_matrix

SLACK = 1e-7  # relative violation that is rounding
NOTHING = 1e-15  # kg m^2, below which an inertia is the rounding of zero
LEAST_MASS = 1e-3  # kg, of a moving link on which nothing has a mass
LEAST_INERTIA = 1e-6  # kg m^2


def physical_inertia(inertia: np.ndarray) -> tuple[np.ndarray, bool]:
    """The nearest inertia (3, 3) that a mass distribution can have, and whether it differs."""
    moments, axes = np.linalg.eigh(inertia)
    second = moments.sum() / 2 - moments
    largest = np.abs(second).max()
    if largest < NOTHING:
        return np.zeros((3, 3)), False
    if second.min() >= -SLACK * largest:
        return inertia, False
    second = np.maximum(second, 1e-6 * largest)
    return axes @ np.diag(second.sum() - second) @ axes.T, True


def repair_inertias(links, warn) -> None:
    """Make every inertia physical; `warn(element, what)` is called for each that was not."""
    for link in links:
        before = np.linalg.eigvalsh(link.inertia)
        link.inertia, changed = physical_inertia(link.inertia)
        if changed:
            after = np.linalg.eigvalsh(link.inertia)
            what = "is not positive definite" if before[0] < -SLACK * before[2] else "breaks the triangle inequality"
            warn(f"inertia of link {short(link.name)}", f"{what}: moments {_text(before)} made {_text(after)} kg m^2")


def _text(moments) -> str:
    return "[" + ", ".join(f"{m:.3g}" for m in moments) + "]"


def repair_massless(links, warn) -> None:
    """Give mass to the links that move nothing: a joint must move some inertia, or the mass matrix is singular.

    `links` come parents first. Looks at everything beyond a joint as one rigid body, at the joints' zero.
    """
    beyond: dict[str, tuple] = {}
    for link in reversed(links):
        mass, centre, inertia = combine_masses(
            [(link.mass, link.com, link.inertia), *(_placed(c.joint.pose, *beyond[c.name]) for c in link.children)]
        )
        joint = link.joint
        if joint is not None and _singular(joint, mass, centre, inertia):
            link.mass = link.mass or LEAST_MASS
            link.inertia = link.inertia + LEAST_INERTIA * np.eye(3)
            mass, inertia = mass or LEAST_MASS, inertia + LEAST_INERTIA * np.eye(3)
            warn(
                f"mass of link {short(link.name)}", f"joint {short(joint.name)} moves no inertia: made {link.mass:g} kg"
            )
        beyond[link.name] = mass, centre, inertia


def _singular(joint, mass, centre, inertia) -> bool:
    axis = joint.axis
    if joint.kind == "floating":
        return not (mass > 0 and np.linalg.eigvalsh(inertia)[0] > 0)
    about = float(axis @ inertia @ axis) + mass * float(np.sum(np.cross(axis, centre) ** 2))
    around = max(float(np.trace(inertia)), 0.0) + mass * float(centre @ centre)
    turns_nothing = not about > 1e-9 * around
    return {
        "fixed": False,
        "prismatic": not mass > 0,
        "planar": not mass > 0 or turns_nothing,
    }.get(joint.kind, turns_nothing)


def _placed(pose, mass, centre, inertia) -> tuple[float, np.ndarray, np.ndarray]:
    turn = rotation_matrix(pose[3:])
    return mass, pose[:3] + turn @ centre, turn @ inertia @ turn.T


def absorb(parent, link) -> None:
    """Make `link`, fixed to `parent`, part of it: inertia, shapes, and the joints to its children."""
    pose = link.joint.pose
    parts = [(parent.mass, parent.com, parent.inertia), _placed(pose, link.mass, link.com, link.inertia)]
    parent.mass, parent.com, parent.inertia = combine_masses(parts)
    for shape in link.shapes:
        shape.pose = compose(pose, shape.pose)
    parent.shapes += link.shapes
    for child in link.children:
        child.joint.pose = compose(pose, child.joint.pose)
        child.parent = parent
    at = parent.children.index(link)
    parent.children[at : at + 1] = link.children
