"""Scalar constraint rows on joints: limits and dry friction (theory §3.1, "other members of the family").

A row is gamma = clamp(y, lower, upper), y = -(v_c - v_hat)/R: a limit pushes only, 0 <= gamma, and is active while its
bound can be reached within two steps, distance < 2 h |v|; dry friction is bounded by the impulse h e.
"""

import warp as wp

from ..real import func, kernel, real, struct, vec3
from ..tree import joints
from ..tree.effective_mass import eliminate_one
from ..tree.passes import Topology
from .stop import stop_law, within_reach

LOWER = wp.constant(0)
UPPER = wp.constant(1)
DRY_FRICTION = wp.constant(2)


@struct
class Rows:
    kind: wp.array(dtype=int)  # (joint rows,): the first of all rows
    joint: wp.array(dtype=int)  # (joint rows,)
    recovery: wp.array(dtype=real)  # (joint rows,) [rad/s, m/s] fastest return of what is beyond its stop
    pull: real  # [m/s, rad/s] that constraints may give what meets a stop within a step
    support: wp.array2d(dtype=int)  # (rows, width) dofs that the row moves, ascending
    support_size: wp.array(dtype=int)  # (rows,)
    J: wp.array3d(dtype=real)  # (worlds, rows, width); columns: the support
    R: wp.array2d(dtype=real)  # <= 0: not active
    weight: wp.array2d(dtype=real)  # inverse effective mass of active rows
    v_hat: wp.array2d(dtype=real)
    lower: wp.array2d(dtype=real)
    upper: wp.array2d(dtype=real)


@func
def effective_weight(
    topology: Topology, L: wp.array3d(dtype=real), z: wp.array2d(dtype=vec3), w: int, rows: Rows, k: int
) -> real:
    """Inverse effective mass of row k, tree by tree."""
    weight = real(0.0)
    n = rows.support_size[k]
    i = int(0)
    while i < n:
        begin = topology.dof_begin[rows.support[k, i]]
        end = int(i + 1)
        while end < n and topology.dof_begin[rows.support[k, end]] == begin:
            end += 1
        last = rows.support[k, end - 1]
        for d in range(begin, last + 1):
            z[w, d] = vec3(real(0.0), real(0.0), real(0.0))
        for j in range(i, end):
            z[w, rows.support[k, j]] = vec3(rows.J[w, k, j], real(0.0), real(0.0))
        weight += eliminate_one(topology, L, z, w, begin, last)
        i = end
    return weight


@kernel
def joint_rows(
    topology: Topology,
    joint_type: wp.array(dtype=int),
    joint_q: wp.array(dtype=int),
    joint_range: wp.array3d(dtype=real),
    joint_friction: wp.array2d(dtype=real),
    h: real,
    sigma: real,
    q: wp.array2d(dtype=real),
    v0: wp.array2d(dtype=real),
    v_star: wp.array2d(dtype=real),
    M_factor: wp.array3d(dtype=real),
    # scratch
    z: wp.array2d(dtype=vec3),
    # out
    rows: Rows,
):
    """Fill every joint row; a limit out of reach and dry friction of 0 get R = 0. Launch over worlds."""
    w = wp.tid()
    for k in range(rows.kind.shape[0]):
        joint = rows.joint[k]
        dof = rows.support[k, 0]
        kind = rows.kind[k]
        rows.R[w, k] = real(0.0)
        if kind == DRY_FRICTION:
            bound = h * joint_friction[w % joint_friction.shape[0], dof]
            if bound > real(0.0):
                rows.J[w, k, 0] = real(1.0)
                weight = effective_weight(topology, M_factor, z, w, rows, k)
                rows.weight[w, k] = weight
                rows.R[w, k] = sigma * weight
                rows.v_hat[w, k] = real(0.0)
                rows.lower[w, k] = -bound
                rows.upper[w, k] = bound
        else:
            i = joint_q[joint]
            n = int(1)
            J = vec3(real(1.0), real(0.0), real(0.0))
            bounds = w % joint_range.shape[0]
            distance = real(0.0)
            if joint_type[joint] == joints.BALL:
                n = 3
                r = joints.quaternion_log(joints.read_quaternion(q, w, i))
                angle = wp.length(r)
                distance = joint_range[bounds, joint, 1] - angle
                if angle > real(0.0):
                    J = -r / angle
            elif kind == LOWER:
                distance = q[w, i] - joint_range[bounds, joint, 0]
            else:
                distance = joint_range[bounds, joint, 1] - q[w, i]
                J = vec3(real(-1.0), real(0.0), real(0.0))
            rate = real(0.0)
            rate_star = real(0.0)
            for d in range(n):
                rate += J[d] * v0[w, dof + d]
                rate_star += J[d] * v_star[w, dof + d]
            if within_reach(distance, rate, rate_star, rows.pull, h):
                for d in range(n):
                    rows.J[w, k, d] = J[d]
                weight = effective_weight(topology, M_factor, z, w, rows, k)
                law = stop_law(weight, distance, real(0.0), real(wp.nan), h, rows.recovery[k])
                rows.weight[w, k] = weight
                rows.R[w, k] = law[0]
                rows.v_hat[w, k] = law[1]
                rows.lower[w, k] = real(0.0)
                rows.upper[w, k] = real(wp.inf)
