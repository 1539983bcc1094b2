# SPDX-License-Identifier: Apache-2.0
"""Inverse effective masses at q0, MuJoCo's `body_invweight0`, `dof_invweight0` and `tendon_invweight0`.

With M the mass matrix at q0, armature included, and J the Jacobian of a body's COM (translation, rotation), of a joint
or of a tendon, a weight is the mean of the diagonal of J M⁻¹ Jᵀ. MuJoCo's law scales the regularization of a row by
them. They are constants of the model: parameters of single worlds do not change them, as in MuJoCo.
"""

import typing

import numpy as np

from warpsim.model.geometry import rotate, rotation_matrix
from warpsim.model.host_kinematics import link_poses
from warpsim.model.model import JointType, Model

ROUNDING = 1e-14  # of poses and axes that MuJoCo takes for null or aligned
LEAST_MASS = 1e-15


class Weights(typing.NamedTuple):
    """Inverse weights of a model, in float64."""

    body: np.ndarray  # (nbody, 2) translation [1/kg], rotation [1/(kg m²)]
    dof: np.ndarray  # (nv,)
    tendon: np.ndarray  # (ntendon,) NaN for spatial tendons without moment arms
    mean_inertia: float  # mean of the diagonal of M; 1 without degrees of freedom


def inverse_weights(model: Model, moment_arms: np.ndarray | None = None) -> Weights:
    """The inverse weights of a model.

    Parameters
    ----------
    model : Model
        The model; what is computed is kept with it.
    moment_arms : (at least the spatial tendons, nv)
        Moment arms of the spatial tendons at q0, in their order (`Lines.moment_arms_at`). The host does not have them.
    """
    if "_inverse_weights" not in vars(model):
        vars(model)["_inverse_weights"] = _compute(model)
    body, dof, trees, mean = vars(model)["_inverse_weights"]
    arms, spatial = model.tendon_coefficients.copy(), np.unique(model.wrap_tendon)
    arms[spatial] = np.nan if moment_arms is None else moment_arms[: len(spatial)]
    tendon = np.zeros(model.ntendon)
    for dofs, inverse in trees:
        tendon += np.einsum("ti,ij,tj->t", arms[:, dofs], inverse, arms[:, dofs])
    return Weights(body, dof, tendon, mean)


def _compute(model: Model):
    """Weights of bodies and dofs, the dofs and inverse mass matrix of each tree, and the mean of the diagonal of M."""
    poses = link_poses(model, model.q0)
    body, dof, trees, diagonal = np.zeros((model.nbody, 2)), np.zeros(model.nv), [], []
    bodies: list[list[int]] = [[] for _ in range(model.ntree)]
    for b, link in enumerate(model.body_link):
        bodies[model.link_tree[link]].append(b)
    turning, axis, anchor = _motions(model, poses)
    for tree, own in enumerate(bodies):
        dofs = slice(int(model.tree_v[tree]), int(model.tree_v[tree + 1]))
        size, first = dofs.stop - dofs.start, dofs.start
        if not size:
            continue
        M, jacobians = np.diag(model.joint_armature[dofs]), []
        for b in own:
            moved = np.array(model.ancestors(int(model.body_link[b])), int)
            pose = poses[model.body_link[b]]
            com = pose[:3] + rotate(pose[3:], model.body_com[b])
            J = np.zeros((6, len(moved)))
            J[3:] = np.where(turning[moved], axis[moved].T, 0.0)
            J[:3] = np.where(turning[moved], np.cross(axis[moved], com - anchor[moved]).T, axis[moved].T)
            R = rotation_matrix(pose[3:])
            columns = moved - first
            M[np.ix_(columns, columns)] += model.body_mass[b] * J[:3].T @ J[:3]
            M[np.ix_(columns, columns)] += J[3:].T @ (R @ model.body_inertia[b] @ R.T) @ J[3:]
            jacobians.append((b, columns, J))
        inverse = np.linalg.inv(M)
        trees.append((dofs, inverse))
        diagonal.append(np.diag(M))
        dof[dofs] = np.diag(inverse)
        for b, columns, J in jacobians:
            along = np.einsum("ki,ij,kj->k", J, inverse[np.ix_(columns, columns)], J)
            body[b] = along[:3].mean(), along[3:].mean()
    for j, kind in enumerate(model.joint_type):
        first = int(model.joint_v[j])
        for start, stop in {JointType.FREE: ((0, 3), (3, 6)), JointType.BALL: ((0, 3),)}.get(JointType(kind), ()):
            dof[first + start : first + stop] = dof[first + start : first + stop].mean()
    for b in np.flatnonzero(_slides_alone(model)):
        body[b] = 1.0 / max(model.body_mass[b], LEAST_MASS), 0.0
        dof[model.joint_v[model.joint_body == b]] = body[b, 0]
    mean = float(np.concatenate(diagonal).mean()) if diagonal else 1.0
    return body, dof, trees, mean


def _motions(model: Model, poses: np.ndarray):
    """Of each dof: whether it turns (nv,), its axis (nv, 3) and a point on it (nv, 3), in the world."""
    turning, axis, anchor = np.zeros(model.nv, bool), np.zeros((model.nv, 3)), np.zeros((model.nv, 3))
    for j, kind in enumerate(model.joint_type):
        first, pose = int(model.joint_v[j]), poses[model.joint_link[j]]
        if kind == JointType.FREE:
            axis[first : first + 3] = np.eye(3)
            first += 3
        axes = np.eye(3) if kind in (JointType.FREE, JointType.BALL) else model.joint_axis[j][None]
        rows = slice(first, first + len(axes))
        axis[rows], turning[rows] = rotate(pose[3:], axes), kind != JointType.SLIDE
        anchor[rows] = pose[:3] + rotate(pose[3:], model.joint_anchor[j])
    return turning, axis, anchor


def _slides_alone(model: Model) -> np.ndarray:
    """(nbody,) whether MuJoCo takes 1/mass for a body: it slides along its own axes, COM and axes of inertia in place.

    Its parent is the world, or a fixed child of it, and it has no children.
    """
    jointed = np.bincount(model.joint_body, minlength=model.nbody) > 0
    found = jointed & ~np.isin(np.arange(model.nbody), model.body_parent)
    above = model.body_parent
    found &= (above < 0) | ((model.body_parent[above] < 0) & ~jointed[above])
    found &= (np.abs(model.body_com) <= ROUNDING).all(1)
    found &= (np.abs(model.body_fluid[:, 3:] - [1.0, 0.0, 0.0, 0.0]) <= ROUNDING).all(1)
    aligned = (np.abs(model.joint_axis) > ROUNDING).sum(1) == 1
    good = (model.joint_type == JointType.SLIDE) & aligned & (np.abs(model.joint_anchor) <= ROUNDING).all(1)
    found[model.joint_body[~good]] = False
    return found
