# SPDX-License-Identifier: Apache-2.0
"""The taped equations of a variational step, and the linear solves of its backward pass (theory §3.5, §6).

An interval leads from q to q' = q (+) dq. With mu the momentum of a link in it (`drnea.py`), both ends obey one
equation,

    S^T sum_subtree (mu - I V - c weight) + armature (dq/h - v) + (c/h) D dq - c F = impulse.

At the start c = h/2, v is the velocity before the node's impulse, and S, I, F are at q. This is DRNEA, whose root is
dq. At the end c = -h/2, there is no impulse, and S, I, F are at q'. Its root v is the Legendre velocity. Both ends use
the D of the start. Displacements and momenta are about o, the reference point of the tree passes at q, whose adjoints
reach everything else. In world axes mu is the same wrench at both ends.
"""

import warp as wp

from ..integrate.variational import drnea, roots
from ..integrate.variational.drnea import Equation, Factor, Frame, Motion
from ..integrate.variational.roots import Elimination
from ..integrate.variational.variational import joint_point
from ..real import func, kernel, real, transform, vec3, vec6, vec10
from ..tree import joints, spatial
from ..tree.passes import Topology


@func
def reference(topology: Topology, link_X: wp.array2d(dtype=transform), w: int, tree: int) -> vec3:
    """The point o of a tree, which its spatial vectors are about."""
    return wp.transform_get_translation(link_X[w, topology.tree_reference[tree]])


@kernel
def mean_velocity(
    topology: Topology,
    h: real,
    q: wp.array2d(dtype=real),
    q_next: wp.array2d(dtype=real),
    # out
    v: wp.array2d(dtype=real),
):
    """v with q_next = q (+) h v, up to the rounding of q. Launch over (worlds, links)."""
    w, l = wp.tid()
    kind = topology.link_type[l]
    i = topology.link_q[l]
    j = topology.link_v[l]
    n = joints.dofs(kind)
    if kind != joints.BALL and kind != joints.FIXED:
        for k in range(wp.min(n, 3)):
            v[w, j + k] = (q_next[w, i + k] - q[w, i + k]) / h
    if kind == joints.BALL or kind == joints.FREE:
        at = i + n - 3
        turn = wp.quat_inverse(joints.read_quaternion(q, w, at)) * joints.read_quaternion(q_next, w, at)
        r = joints.quaternion_log(turn) / h
        for k in range(3):
            v[w, j + n - 3 + k] = r[k]


@kernel
def momenta_about_reference(
    topology: Topology,
    joint_anchor: wp.array(dtype=vec3),
    link_X: wp.array2d(dtype=transform),
    work: Motion,
    # out
    mu: wp.array2d(dtype=vec6),
):
    """mu of every link about o, from mu about r that the root search left in `work`. Launch over (worlds, links)."""
    w, l = wp.tid()
    arm = joint_point(topology, joint_anchor, link_X, w, l) - reference(topology, link_X, w, topology.link_tree[l])
    mu[w, l] = drnea.moved_wrench(work.mu[w, l], arm)


@kernel(taped=True)
def node_wrench(
    topology: Topology,
    c: real,
    gravity: wp.array(dtype=vec3),
    link_X: wp.array2d(dtype=transform),
    link_X_node: wp.array2d(dtype=transform),
    link_I: wp.array2d(dtype=vec10),
    link_V: wp.array2d(dtype=vec6),
    mu: wp.array2d(dtype=vec6),
    # out
    wrench: wp.array2d(dtype=vec6),
):
    """sum_subtree (mu - I V - c weight) at one node. I and V are about the node's own o, that of link_X_node.

    Launch over (worlds, trees).
    """
    w, tree = wp.tid()
    first = topology.tree_link[tree]
    end = topology.tree_link[tree + 1]
    g = c * gravity[w % gravity.shape[0]]
    arm = reference(topology, link_X, w, tree) - reference(topology, link_X_node, w, tree)
    for l in range(first, end):
        P = mu[w, l]
        f = spatial.linear(P)
        I = link_I[w, l]
        weight = spatial.join(wp.cross(vec3(I[1], I[2], I[3]), g), I[0] * g)
        wrench[w, l] = (
            spatial.join(spatial.angular(P) + wp.cross(arm, f), f) - spatial.momentum(I, link_V[w, l]) - weight
        )
    for k in range(end - first):
        l = end - 1 - k
        parent = topology.link_parent[l]
        if parent >= 0:
            wrench[w, parent] += wrench[w, l]


@kernel(taped=True)
def node_balance(
    topology: Topology,
    h: real,
    c: real,
    armature: wp.array2d(dtype=real),
    dof_S: wp.array2d(dtype=vec6),
    wrench: wp.array2d(dtype=vec6),
    v: wp.array2d(dtype=real),
    dq: wp.array2d(dtype=real),
    D: wp.array2d(dtype=real),
    force: wp.array2d(dtype=real),
    # out
    r: wp.array2d(dtype=real),
):
    """The left-hand side at one node, from its `node_wrench`. S is about the node's own o.

    Launch over (worlds, trees).
    """
    w, tree = wp.tid()
    for d in range(topology.tree_v[tree], topology.tree_v[tree + 1]):
        own = armature[w % armature.shape[0], d] * (dq[w, d] / h - v[w, d])
        own += c * (D[w, d] * dq[w, d] / h - force[w, d])
        r[w, d] = own + wp.dot(dof_S[w, d], wrench[w, topology.dof_link[d]])


@kernel(taped=True)
def node_impulse(
    topology: Topology,
    h: real,
    ancestor: wp.array2d(dtype=int),
    M: wp.array3d(dtype=real),
    D: wp.array2d(dtype=real),
    v_star: wp.array2d(dtype=real),
    v: wp.array2d(dtype=real),
    # out
    impulse: wp.array2d(dtype=real),
    r: wp.array2d(dtype=real),
):
    """impulse = r = A (v - v*), A = M + h D/2, from the entries of M that `residual.mass_entries` writes.

    The caller zeroes `impulse`. Launch over (worlds, nv).
    """
    w, d = wp.tid()
    begin = topology.dof_begin[d]
    end = topology.tree_v[topology.link_tree[topology.dof_link[d]] + 1]
    impulse[w, d] += real(0.5) * h * D[w, d] * (v[w, d] - v_star[w, d])
    for e in range(begin, end):
        if e <= d and ancestor[d, e - begin] != 0:
            impulse[w, d] += M[w, d, e - begin] * (v[w, e] - v_star[w, e])
        elif e > d and ancestor[e, d - begin] != 0:
            impulse[w, d] += M[w, e, d - begin] * (v[w, e] - v_star[w, e])
    r[w, d] = impulse[w, d]


@func
def add_momentum_gradient(topology: Topology, work: Motion, elimination: Elimination, turned: Frame, w: int, tree: int):
    """work.u += S~^T N^T mu_bar.

    N^T mu_bar about r + dr of every link is in work.wrench, which is summed over subtrees and cleared.
    """
    first = topology.tree_link[tree]
    end = topology.tree_link[tree + 1]
    for k in range(end - first):
        l = end - 1 - k
        kind = topology.link_type[l]
        F = work.wrench[w, l]
        for i in range(joints.dofs(kind)):
            d = topology.link_v[l] + i
            work.u[w, d] = work.u[w, d] + drnea.along(drnea.is_linear(kind, i), elimination.axis[w, d], F)
        parent = topology.link_parent[l]
        if parent >= 0:
            work.wrench[w, parent] = work.wrench[w, parent] + drnea.moved_wrench(F, turned.offset[w, l])
        work.wrench[w, l] = vec6()


@kernel
def root_adjoint(
    topology: Topology,
    frame: Frame,
    equation: Equation,
    joint_anchor: wp.array(dtype=vec3),
    link_X: wp.array2d(dtype=transform),
    dq: wp.array2d(dtype=real),
    dq_bar: wp.array2d(dtype=real),
    mu_bar: wp.array2d(dtype=vec6),
    # scratch; out: A, dr at dq
    work: Motion,
    # scratch
    elimination: Elimination,
    turned: Frame,
    # out
    seed: wp.array2d(dtype=real),
):
    """seed = -(df/ddq)^-T (dq_bar + (dmu/ddq)^T mu_bar) at the root dq of DRNEA, in O(links).

    df/ddq = S^T (sum over common subtrees of N) S~ is transposed by exchanging S with S~, and N with N^T. The rows of
    N^T are about r + dr and its columns about r. The elimination of Newton's method then solves with it. `mu_bar`: the
    gradients of the momenta, about o. Launch over (worlds, trees).
    """
    w, tree = wp.tid()
    for d in range(topology.tree_v[tree], topology.tree_v[tree + 1]):
        work.dq[w, d] = dq[w, d]
        work.u[w, d] = dq_bar[w, d]
    for l in range(topology.tree_link[tree], topology.tree_link[tree + 1]):
        drnea.displace(topology, frame, work, w, l)
        roots.differentiate_link(topology, frame, work, equation.h, elimination, w, l)
        parent = topology.link_parent[l]
        offset = vec3(real(0.0), real(0.0), real(0.0))
        if parent >= 0:
            offset = frame.offset[w, l] + work.dr[w, l] - work.dr[w, parent]
        turned.offset[w, l] = offset
        # N^T mu_bar about r + dr
        arm = joint_point(topology, joint_anchor, link_X, w, l) - reference(topology, link_X, w, tree)
        m = drnea.moved_motion(mu_bar[w, l], arm)
        a = spatial.angular(m)
        u = spatial.linear(m)
        work.wrench[w, l] = spatial.join(
            a * elimination.aa[w, l] + u * elimination.la[w, l], a * elimination.al[w, l] + u * elimination.ll[w, l]
        )
    add_momentum_gradient(topology, work, elimination, turned, w, tree)
    for l in range(topology.tree_link[tree], topology.tree_link[tree + 1]):
        al = elimination.al[w, l]
        elimination.aa[w, l] = wp.transpose(elimination.aa[w, l])
        elimination.al[w, l] = wp.transpose(elimination.la[w, l])
        elimination.la[w, l] = wp.transpose(al)
        elimination.ll[w, l] = wp.transpose(elimination.ll[w, l])
        work.dr[w, l] = -work.dr[w, l]
    for d in range(topology.tree_v[tree], topology.tree_v[tree + 1]):
        turned.axis[w, d] = elimination.axis[w, d]
        elimination.axis[w, d] = frame.axis[w, d]
        work.dq[w, d] = real(0.0)
    roots.eliminate_tree(topology, turned, equation, work, elimination, w, tree)
    roots.newton_step(topology, turned, work, elimination, w, tree)
    for d in range(topology.tree_v[tree], topology.tree_v[tree + 1]):
        seed[w, d] = work.dq[w, d]
    for l in range(topology.tree_link[tree], topology.tree_link[tree + 1]):
        work.dr[w, l] = -work.dr[w, l]
        work.wrench[w, l] = vec6()


@kernel
def velocity_adjoint(
    topology: Topology,
    frame: Frame,
    factor: Factor,
    v_bar: wp.array2d(dtype=real),
    # scratch
    work: Motion,
    # out
    seed: wp.array2d(dtype=real),
):
    """seed = M^-1 v_bar, because the equation of the Legendre velocity has the derivative -M."""
    w, tree = wp.tid()
    for l in range(topology.tree_link[tree], topology.tree_link[tree + 1]):
        work.wrench[w, l] = vec6()
    for d in range(topology.tree_v[tree], topology.tree_v[tree + 1]):
        work.u[w, d] = v_bar[w, d]
    drnea.reduce_tree(topology, frame, factor, work, w, tree)
    drnea.solve_tree(topology, frame, factor, work, w, tree)
    for d in range(topology.tree_v[tree], topology.tree_v[tree + 1]):
        seed[w, d] = work.u[w, d]


@kernel
def impulse_adjoint(
    topology: Topology,
    A: wp.array3d(dtype=real),
    root_seed: wp.array2d(dtype=real),
    # out
    impulse_bar: wp.array2d(dtype=real),
    # in, out
    v_bar: wp.array2d(dtype=real),
):
    """impulse_bar = -root_seed, v_bar += A impulse_bar, for the impulse i = A (v - v*) in f(dq) = i."""
    w, tree = wp.tid()
    begin = topology.tree_v[tree]
    end = topology.tree_v[tree + 1]
    for i in range(begin, end):
        x = real(0.0)
        for j in range(begin, end):
            x += A[w, i, j - begin] * root_seed[w, j]
        impulse_bar[w, i] = -root_seed[w, i]
        v_bar[w, i] = v_bar[w, i] - x
