# SPDX-License-Identifier: Apache-2.0
"""Parameters of links, joints and geoms as kernels read them. Gradients flow through them as through single arrays."""

import warp as wp

from ..real import func, mat33, real, struct, transform, vec3, vec6
from . import joints


@struct
class Plant:
    """Parameters, named as in `sim.parameters`. Each has one row shared by all worlds, or one row per world."""

    link_pose: wp.array2d(dtype=transform)  # per world where there are mocap bodies
    joint_anchor: wp.array(dtype=vec3)
    q0: wp.array(dtype=real)
    joint_pose: wp.array3d(dtype=real)
    joint_axis: wp.array2d(dtype=vec3)
    joint_armature: wp.array2d(dtype=real)
    joint_stiffness: wp.array2d(dtype=real)
    joint_reference: wp.array2d(dtype=real)
    joint_damping: wp.array2d(dtype=real)
    body_mass: wp.array2d(dtype=real)
    body_com: wp.array2d(dtype=vec3)
    body_inertia: wp.array2d(dtype=mat33)
    body_active: wp.array2d(dtype=real)
    geom_pose: wp.array3d(dtype=real)
    geom_size: wp.array2d(dtype=vec3)
    gravity: wp.array(dtype=vec3)


@func
def placed_geom(plant: Plant, link_X: wp.array2d(dtype=transform), w: int, g: int, l: int) -> transform:
    """World pose of geom g, which is on link l (-1: the world)."""
    return joints.placed(link_X, w, l, joints.read_pose(plant.geom_pose, w % plant.geom_pose.shape[0], g))


@func
def sprung_deflection(plant: Plant, kind: int, q: wp.array2d(dtype=real), w: int, i: int, j: int) -> vec6:
    """`joints.spring_deflection` of a joint with springs, else 0, which has no slope with respect to the stiffness."""
    x = vec6()
    stiffness = real(0.0)
    for d in range(j, j + joints.dofs(kind)):
        stiffness += wp.abs(plant.joint_stiffness[w % plant.joint_stiffness.shape[0], d])
    if stiffness != real(0.0):
        x = joints.spring_deflection(kind, q, plant.joint_reference, w, i, j)
    return x
