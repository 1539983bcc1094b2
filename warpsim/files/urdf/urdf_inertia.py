# SPDX-License-Identifier: Apache-2.0
"""Repair the inertias in URDF files, and merge links rigidly.

A physical inertia I has a positive semidefinite second moment S = tr(I)/2 1 − I (Wensing, Kim & Slotine 2018). This
condition includes positive definiteness and the triangle inequality. The nearest physical inertia with the same axes
clips the principal values of S at zero.
"""

import collections
import functools

import numpy as np

from warpsim.base.checks import short
from warpsim.model.geometry import IDENTITY, combine_masses, compose, cross_matrix, rotation_matrix, spatial_inertia

SLACK = 1e-7  # relative violation that counts as rounding
NOTHING = 1e-15  # kg m^2; a smaller inertia counts as zero with rounding
LEAST_MASS = 1e-3  # kg, given to a moving link without mass
LEAST_INERTIA = 1e-6  # kg m^2
# least share of the inertia that a joint moves with the joints beyond locked; a smaller inertia with them free counts
# as none
WEAK = 1e-6
POSES = 4  # number of poses, besides zero, at which the mass matrix is checked


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
    """Make every inertia physical; `warn(element, what)` is called for each one that changes."""
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
    """Give mass to links where the mass matrix is singular, or nearly so, at zero or at one of a few other poses.

    `links` come parents first. The mass matrix is regular if the articulated-body inertia that each joint moves is
    positive (Featherstone 2008, section 7.3: it is the pivot of LᵀDL). This is the inertia of everything beyond the
    joint, with the joints beyond free. If no moving link has a mass, each of them gets one.
    """
    moved = [link for link in links if link.joint is not None and link.joint.kind != "fixed"]
    own, beyond = _groups(links)
    if not moved or all(own[id(x)][0] > 0 and np.linalg.eigvalsh(own[id(x)][2])[0] > 0 for x in moved):
        return
    if len(moved) > 1 and not any(own[id(link)][0] > 0 for link in moved):
        for link in moved:
            link.mass, link.inertia = LEAST_MASS, link.inertia + LEAST_INERTIA * np.eye(3)
        what = (
            f"no link that moves has a mass: each of {len(moved)} got {LEAST_MASS:g} kg and {LEAST_INERTIA:g} kg m^2, "
            "which say nothing about the real ones"
        )
        warn("links without <inertial>", what)
        return
    done: set[int] = set()
    light = {id(link) for link in moved if not own[id(link)][0] > 0}
    strengthen = functools.partial(_strengthen, beyond, light, done, warn)
    for link in moved:  # two links without mass in a row: when they align, nothing resists a force along them
        lighter = [child for child, _ in beyond[id(link)] if id(child) in light]
        if id(link) in light and any(np.linalg.norm(at) > 1e-9 for c in lighter for _, at in beyond[id(c)]):
            strengthen(link, "moves links without mass that can align")
    rng = np.random.default_rng(0)
    for share in (None, *rng.uniform(size=(POSES, len(links)))):
        _check_pose(links, share, done, strengthen)


def _groups(links) -> tuple[dict, dict]:
    """Inertias of groups of links fixed to each other, and the links that hang on each group.

    The first dict gives mass, centre and inertia of a group, by the id of its head: the root or a moving link. The
    second gives (link, place) of the links that hang on the group by moving joints, with `place (3,)` of the joint in
    its axes.
    """
    head: dict[int, tuple] = {}
    parts, beyond = collections.defaultdict(list), collections.defaultdict(list)
    for link in links:
        above, pose = (link, IDENTITY) if link.joint is None else head[id(link.parent)]
        if link.joint is not None:
            pose = compose(pose, link.joint.pose)
            if link.joint.kind != "fixed":
                beyond[id(above)].append((link, pose[:3]))
                above, pose = link, IDENTITY
        head[id(link)] = above, pose
        parts[id(above)].append(_placed(pose, link.mass, link.com, link.inertia))
    return {key: combine_masses(of) for key, of in parts.items()}, beyond


def _strengthen(beyond: dict, light: set, done: set, warn, link, why: str) -> None:
    """Give the least mass to a link and to the massless links beyond it, with a report line each.

    `light` holds the massless links that remain, `done` those that got a mass.
    """
    waiting = [link]
    while waiting:
        this = waiting.pop()
        if this is link or id(this) in light:
            this.mass = this.mass or LEAST_MASS
            this.inertia = this.inertia + LEAST_INERTIA * np.eye(3)
            light.discard(id(this))
            done.add(id(this))
            warn(f"mass of link {short(this.name)}", f"joint {short(link.joint.name)} {why}: made {this.mass:g} kg")
            waiting += [child for child, _ in beyond[id(this)]]


def _check_pose(links, share, done, strengthen) -> None:
    """Strengthen links whose joints move almost no inertia; hinges and slides at `share` of their range (None: 0)."""
    # per link: inertia (6, 6) of everything beyond its joint, about its origin, with the joints beyond locked
    locked: dict[str, np.ndarray] = {}
    free: dict[str, np.ndarray] = {}  # the same with the joints beyond free
    for k in range(len(links) - 1, 0, -1):
        link = links[k]
        joint, place = link.joint, _motion(link.joint, None if share is None else share[k])
        for beyond in (locked, free):
            beyond[link.name] = beyond.get(link.name, 0.0) + spatial_inertia(link.mass, link.com, link.inertia)
        if joint.kind != "fixed":
            axes = _axes(joint)
            if id(link) not in done and _weak(axes, locked[link.name], free[link.name]):
                before = spatial_inertia(link.mass, link.com, link.inertia)
                strengthen(link, "moves no inertia")
                more = spatial_inertia(link.mass, link.com, link.inertia) - before
                locked[link.name], free[link.name] = locked[link.name] + more, free[link.name] + more
            moved = free[link.name] @ axes
            free[link.name] = free[link.name] - moved @ np.linalg.solve(axes.T @ moved, moved.T)
        for beyond in (locked, free):
            beyond[link.parent.name] = beyond.get(link.parent.name, 0.0) + place @ beyond[link.name] @ place.T


def _weak(axes, locked, free) -> bool:
    """Whether the inertia a joint moves with the joints beyond free is negligible beside that with them locked."""
    least = WEAK * np.diag(axes.T @ locked @ axes)
    turning = np.abs(axes[:3]).max(axis=0) > 0
    least = np.maximum(least, 1e-9 * np.where(turning, np.trace(locked[:3, :3]), 0.0))
    if not (least > 0).all():
        return True
    pivot = axes.T @ free @ axes / np.sqrt(np.outer(least, least))
    return not np.linalg.eigvalsh(pivot)[0] > 1.0


def _axes(joint) -> np.ndarray:
    """Columns (6, n): the unit motions of a joint in its link's axes, rotation above and translation below."""
    turn, slide = np.vstack([np.eye(3), np.zeros((3, 3))]), np.vstack([np.zeros((3, 3)), np.eye(3)])
    axis = joint.axis[:, None]
    return {
        "prismatic": slide @ axis,
        "planar": np.hstack([turn @ axis, slide @ np.linalg.svd(joint.axis[None])[2][1:].T]),
        "floating": np.eye(6),
        "spherical": turn,
    }.get(joint.kind, turn @ axis)


def _motion(joint, share: float | None) -> np.ndarray:
    """The matrix (6, 6) that takes moments and forces from a link's axes to its parent's.

    A hinge or slide is at `share` of its range (None: at zero, or the limit nearest to zero).
    """
    low, high = joint.range if joint.range is not None else (-np.pi, np.pi)
    q = np.clip(0.0, low, high) if share is None else low + share * (high - low)
    turn, at = rotation_matrix(joint.pose[3:]), joint.pose[:3]
    if joint.kind == "prismatic":
        at = at + turn @ joint.axis * q
    elif joint.kind in ("revolute", "continuous"):
        turn = turn @ rotation_matrix(np.concatenate([[np.cos(q / 2)], np.sin(q / 2) * joint.axis]))
    return np.block([[turn, cross_matrix(at) @ turn], [np.zeros((3, 3)), turn]])


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
        shape.friction = link.friction if shape.friction is None else shape.friction
    parent.shapes += link.shapes
    for child in link.children:
        child.joint.pose = compose(pose, child.joint.pose)
        child.parent = parent
    at = parent.children.index(link)
    parent.children[at : at + 1] = link.children
