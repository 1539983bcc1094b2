# SPDX-License-Identifier: Apache-2.0
"""Derivatives of inverse dynamics tau(q, v, a) = M a + c, analytic, O(nv depth) per tree; one thread per (world, tree).

After Carpentier and Mansard, Analytical Derivatives of Rigid Body Dynamics Algorithms (2018). Everything is in world
axes about the tree's reference point o, fixed at its present place, so that nothing is transformed from link to link.
Let a joint variable e turn (or slide) its link and all its descendants by the motion vector s. Let V-, A- be the
velocity and acceleration (gravity's included) of the part that e does not move. With P = V- x s, the links l that e
moves have

    dV_l = s x V_l + P,   dA_l = s x A_l + P x V_l + A- x s + V- x P,   d(S_d) = s x S_d,
    df_l = s x* f_l + I_l (A- x s + V- x P) + B_l P,   B x = V x* (I x) - I (V x x) + x x* (I V).

Derivatives with respect to v_e have df_l = B_l S_e + I_l (V- x S_e + dS_e/dt), because dS_e = V_l x S_e times the rate
is added. For a rigid body B maps (alpha; beta) to (T alpha; 2 alpha x p), p the linear momentum: T = [omega] (2 J - tr
J) - 2 (v h^T - (h.v) 1), with J about o and h = m c. These are twelve numbers, summed over subtrees. With F, I, B
summed over the subtree of the deeper of d and e,

    d tau_d / d e = S_d . (I X + B Y + [d above e] s x* F),   X = A- x s + V- x P + c_v (V- x S_e + dS_e/dt) + c_a S_e,
                                                               Y = P + c_v S_e   (only its angular part acts)

is the derivative along dq = s, dv = c_v, da = c_a of the variable e in one sweep. s = S_e alone gives d tau/dq in the
tangent space of v (free joint: world translation, body-frame rotation), c_v alone d tau/dv, c_a alone M.

The linear columns of a free joint are fixed in the world while the body turns. They are "not moved" by its rotations,
so that V- and A- of the whole joint contain its linear velocity and acceleration, and their dS/dt is 0.

A load (torque t, force f) at a body's point c, in world axes, is a term -(t + c x f; f) of f_l that does not turn with
the body: df_l gains E alpha = (alpha x t + c x (alpha x f); alpha x f), alpha the angular part of s.
"""

import warp as wp

from ..real import func, kernel, mat33, real, struct, vec3, vec6, vec10
from . import joints
from . import spatial as sp
from .passes import Topology


@struct
class Motion:
    """Results of the tree passes (kernels/tree/passes.py). link_A includes gravity; link_f is summed over subtrees."""

    dof_S: wp.array2d(dtype=vec6)
    link_I: wp.array2d(dtype=vec10)
    link_V: wp.array2d(dtype=vec6)
    link_A: wp.array2d(dtype=vec6)
    link_f: wp.array2d(dtype=vec6)


@struct
class Sweep:
    """Workspace of the derivative."""

    I: wp.array2d(dtype=vec10)  # (worlds, links) inertia of the subtree
    T: wp.array2d(dtype=mat33)  # (worlds, links) angular block of B, of the subtree
    p: wp.array2d(dtype=vec3)  # (worlds, links) linear momentum of the subtree
    E: wp.array2d(dtype=mat33)  # (worlds, links) angular block of E, in: of the link, out: of the subtree; or empty
    e: wp.array2d(dtype=vec3)  # (worlds, links) force f, in and out as E
    X: wp.array2d(dtype=vec6)  # (worlds, nv)
    Y: wp.array2d(dtype=vec3)  # (worlds, nv)


@func
def coriolis(I: vec10, V: vec6) -> mat33:
    """T = [omega] (2 J - tr J) - 2 (v h^T - (h.v) 1)."""
    w = sp.angular(V)
    v = sp.linear(V)
    h = vec3(I[1], I[2], I[3])
    trace = I[4] + I[5] + I[6]
    two = real(2.0)
    J = mat33(
        two * I[4] - trace, two * I[7], two * I[8],
        two * I[7], two * I[5] - trace, two * I[9],
        two * I[8], two * I[9], two * I[6] - trace,
    )  # fmt: skip
    T = wp.skew(w) * J - two * wp.outer(v, h)
    hv = two * wp.dot(h, v)
    return T + mat33(hv, real(0.0), real(0.0), real(0.0), hv, real(0.0), real(0.0), real(0.0), hv)


@func
def sum_subtrees(topology: Topology, motion: Motion, w: int, tree: int, sweep: Sweep):
    """Inertia, T and linear momentum of every subtree, and E where there are loads."""
    loaded = sweep.E.shape[0] > 0
    first = topology.tree_link[tree]
    end = topology.tree_link[tree + 1]
    for l in range(first, end):
        I = motion.link_I[w, l]
        V = motion.link_V[w, l]
        sweep.I[w, l] = I
        sweep.T[w, l] = coriolis(I, V)
        sweep.p[w, l] = I[0] * sp.linear(V) + wp.cross(sp.angular(V), vec3(I[1], I[2], I[3]))
    for k in range(end - first):
        l = end - 1 - k
        parent = topology.link_parent[l]
        if parent >= 0:
            sweep.I[w, parent] = sweep.I[w, parent] + sweep.I[w, l]
            sweep.T[w, parent] = sweep.T[w, parent] + sweep.T[w, l]
            sweep.p[w, parent] = sweep.p[w, parent] + sweep.p[w, l]
            if loaded:
                sweep.E[w, parent] = sweep.E[w, parent] + sweep.E[w, l]
                sweep.e[w, parent] = sweep.e[w, parent] + sweep.e[w, l]


@func
def load_rotation(t: vec3, f: vec3, c: vec3) -> mat33:
    """Angular block of E: alpha -> alpha x t + c x (alpha x f)."""
    cf = wp.dot(c, f)
    return (
        mat33(cf, real(0.0), real(0.0), real(0.0), cf, real(0.0), real(0.0), real(0.0), cf)
        - wp.outer(f, c)
        - wp.skew(t)
    )


@func
def unit_motions(
    topology: Topology,
    g: vec3,
    motion: Motion,
    v: wp.array2d(dtype=real),
    a: wp.array2d(dtype=real),
    dq: wp.array2d(dtype=vec6),
    c_v: real,
    c_a: real,
    w: int,
    tree: int,
    sweep: Sweep,
):
    """X and Y of every degree of freedom."""
    zero = vec3(real(0.0), real(0.0), real(0.0))
    for l in range(topology.tree_link[tree], topology.tree_link[tree + 1]):
        kind = topology.link_type[l]
        parent = topology.link_parent[l]
        j = topology.link_v[l]
        V_before = vec6()
        A_before = sp.join(zero, -g)
        if parent >= 0:
            V_before = motion.link_V[w, parent]
            A_before = motion.link_A[w, parent]
        if kind == joints.FREE:
            V_before = sp.join(zero, vec3(v[w, j], v[w, j + 1], v[w, j + 2]))
            A_before = sp.join(zero, vec3(a[w, j], a[w, j + 1], a[w, j + 2]) - g)
        for i in range(joints.dofs(kind)):
            e = j + i
            S_e = motion.dof_S[w, e]
            rate = sp.cross_motion(V_before, S_e)
            if kind != joints.FREE or i >= 3:
                rate += sp.cross_motion(motion.link_V[w, l], S_e)
            P = sp.cross_motion(V_before, dq[w, e])
            X = sp.cross_motion(A_before, dq[w, e]) + sp.cross_motion(V_before, P)
            sweep.X[w, e] = X + c_v * rate + c_a * S_e
            sweep.Y[w, e] = sp.angular(P) + c_v * sp.angular(S_e)


@func(inline=False)
def derivative(
    topology: Topology,
    g: vec3,
    motion: Motion,
    v: wp.array2d(dtype=real),
    a: wp.array2d(dtype=real),
    dq: wp.array2d(dtype=vec6),
    c_v: real,
    c_a: real,
    w: int,
    tree: int,
    sweep: Sweep,
    D: wp.array3d(dtype=real),
):
    """D[w, d, e - begin] = d tau_d along (dq_e, c_v, c_a) of each variable e of the tree, without armature."""
    sum_subtrees(topology, motion, w, tree, sweep)
    unit_motions(topology, g, motion, v, a, dq, c_v, c_a, w, tree, sweep)
    loaded = sweep.E.shape[0] > 0
    begin = topology.tree_v[tree]
    end = topology.tree_v[tree + 1]
    for d in range(begin, end):
        for e in range(end - begin):
            D[w, d, e] = real(0.0)
    for d in range(begin, end):
        l = topology.dof_link[d]
        kind = topology.link_type[l]
        j = topology.link_v[l]
        S_d = motion.dof_S[w, d]
        T = sweep.T[w, l]
        p = sweep.p[w, l]
        F = motion.link_f[w, l]
        # Rows: derivatives of the force on d with respect to the variables above it and those of its own joint.
        IS = sp.momentum(sweep.I[w, l], S_d)
        BS = wp.transpose(T) * sp.angular(S_d) + real(2.0) * wp.cross(p, sp.linear(S_d))
        ES = vec3()
        if loaded:
            ES = wp.transpose(sweep.E[w, l]) * sp.angular(S_d) + wp.cross(sweep.e[w, l], sp.linear(S_d))
        for i in range(joints.dofs(kind)):
            e = j + i
            slope = wp.dot(IS, sweep.X[w, e]) + wp.dot(BS, sweep.Y[w, e])
            if loaded:
                slope += wp.dot(ES, sp.angular(dq[w, e]))
            if kind == joints.FREE and d < j + 3:  # S_d does not turn with its own joint
                slope += wp.dot(S_d, sp.cross_force(dq[w, e], F))
            D[w, d, e - begin] = slope
        # Columns: derivatives of the forces above d with respect to d.
        Y = sweep.Y[w, d]
        f = sp.momentum(sweep.I[w, l], sweep.X[w, d]) + sp.join(T * Y, real(2.0) * wp.cross(Y, p))
        f += sp.cross_force(dq[w, d], F)
        if loaded:
            alpha = sp.angular(dq[w, d])
            f += sp.join(sweep.E[w, l] * alpha, wp.cross(alpha, sweep.e[w, l]))
        e = topology.dof_parent[j]
        while e >= 0:
            D[w, d, e - begin] = wp.dot(IS, sweep.X[w, e]) + wp.dot(BS, sweep.Y[w, e])
            if loaded:
                D[w, d, e - begin] = D[w, d, e - begin] + wp.dot(ES, sp.angular(dq[w, e]))
            D[w, e, d - begin] = wp.dot(motion.dof_S[w, e], f)
            e = topology.dof_parent[e]


@kernel
def rnea_derivative(
    topology: Topology,
    gravity: wp.array(dtype=vec3),
    armature: wp.array2d(dtype=real),
    motion: Motion,
    v: wp.array2d(dtype=real),
    a: wp.array2d(dtype=real),
    dq: wp.array2d(dtype=vec6),
    c_v: real,
    c_a: real,
    # scratch
    sweep: Sweep,
    # out
    D: wp.array3d(dtype=real),
):
    """Derivative of tau after `passes.rnea` at (q, v, a). D is stored by trees, with column e - first dof of the tree.

    Launch over (worlds, trees).
    """
    w, tree = wp.tid()
    g = gravity[w % gravity.shape[0]]
    derivative(topology, g, motion, v, a, dq, c_v, c_a, w, tree, sweep, D)
    begin = topology.tree_v[tree]
    for d in range(begin, topology.tree_v[tree + 1]):
        D[w, d, d - begin] = D[w, d, d - begin] + c_a * armature[w % armature.shape[0], d]
