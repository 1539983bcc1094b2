# SPDX-License-Identifier: Apache-2.0
"""The root searches that the LTVI paper compares with (`baselines.py`), for one serial chain of hinges per world, in float64.

`search` finds the root of DRNEA or of SVI's momentum balance by RIQN, dense Newton or Broyden. One thread per world; the
engine's own device code does the rest.
"""

import warp as wp

from warpsim.device.copies import copy, scalar_types
from warpsim.kernels.integrate.variational import drnea, roots
from warpsim.kernels.tree import passes, spatial

real = wp.float64
func, struct = wp.func, wp.struct
kernel = wp.kernel(enable_backward=False)
types, drnea, roots, spatial = scalar_types(real), copy(drnea, real), copy(roots, real), copy(spatial, real)
vec3, vec6, vec10, mat33 = types.vec3, types.vec6, types.vec10, types.mat33
angular, linear, join = spatial.angular, spatial.linear, spatial.join
Equation, Frame, Motion = drnea.Equation, drnea.Frame, drnea.Motion
com, turned, moved_motion, moved_wrench = drnea.com, drnea.turned, drnea.moved_motion, drnea.moved_wrench
evaluate_tree, residual_tree = drnea.evaluate_tree, drnea.residual_tree
reduce_tree, solve_tree = drnea.reduce_tree, drnea.solve_tree
Elimination, Search, Topology = roots.Elimination, roots.Search, copy(passes.Topology, real)
start, judge, broyden_step = roots.start, roots.judge, roots.broyden_step
differentiate_link = roots.differentiate_link

DRNEA, SVI = wp.constant(0), wp.constant(1)
RIQN, NEWTON, BROYDEN = wp.constant(0), wp.constant(1), wp.constant(2)
MEMORY = roots.BROYDEN_MEMORY


@struct
class Chain:
    """The chain in body axes, joints at the bodies' origins."""

    axis: wp.array(dtype=vec3)
    offset: wp.array(dtype=vec3)
    inertia: wp.array(dtype=vec10)  # m, COM, inertia about the COM


@struct
class Dense:
    """Workspace: body twists with their derivatives by (body, dof), and the matrix of a Newton step."""

    q: wp.array2d(dtype=real)
    R: wp.array2d(dtype=mat33)
    V: wp.array2d(dtype=vec6)
    P: wp.array2d(dtype=vec6)
    V_q: wp.array3d(dtype=vec6)
    V_v: wp.array3d(dtype=vec6)
    P_q: wp.array3d(dtype=vec6)
    P_v: wp.array3d(dtype=vec6)
    p: wp.array2d(dtype=real)
    p_next: wp.array2d(dtype=real)
    J: wp.array3d(dtype=real)
    x: wp.array2d(dtype=real)


@func
def momentum(I: vec10, V: vec6) -> vec6:
    """G V about the body's origin."""
    e = com(I)
    w = angular(V)
    impulse = I[0] * (linear(V) + wp.cross(w, e))
    return join(turned(I, w) + wp.cross(e, impulse), impulse)


@func
def into_child(R: mat33, offset: vec3, V: vec6) -> vec6:
    """Ad_{g^-1} V."""
    w = angular(V)
    R_T = wp.transpose(R)
    return join(R_T * w, R_T * (linear(V) + wp.cross(w, offset)))


@func
def bracket_axis(V: vec6, axis: vec3) -> vec6:
    """[V, S] with S a turn about `axis`."""
    return join(wp.cross(angular(V), axis), wp.cross(linear(V), axis))


@func
def svi_begin(frame: Frame, dense: Dense, equation: Equation, w: int, n: int):
    """The momentum p + h/2 F of the node, from that of the links."""
    F = vec6()
    for k in range(n):
        d = n - 1 - k
        F += equation.momentum[w, d]
        dense.p[w, d] = wp.dot(frame.axis[w, d], angular(F)) + real(0.5) * equation.h * equation.force[w, d]
        F = moved_wrench(F, frame.offset[w, d])


@func
def svi_end(frame: Frame, dense: Dense, work: Motion, residual: wp.array2d(dtype=real), w: int, n: int):
    """Make the step end with the momentum of SVI: its difference to that of DRNEA takes the place of the residual."""
    F = vec6()
    for k in range(n):
        d = n - 1 - k
        F += work.mu[w, d]
        axis = frame.axis[w, d]
        moved = axis + work.A[w, d] * axis
        here = moved_wrench(F, -work.dr[w, d])
        residual[w, d] = (wp.dot(moved, angular(here)) - dense.p_next[w, d]) / wp.dot(axis, moved)
        F = moved_wrench(F, frame.offset[w, d])


@func
def svi_evaluate(
    chain: Chain, dense: Dense, equation: Equation, work: Motion, residual: wp.array2d(dtype=real), w: int, n: int
):
    """f = dT/dq' - h/2 dT/dq - p at the midpoint, and the momentum at the end dT/dq' + h/2 dT/dq."""
    h = equation.h
    for i in range(n):
        rate = work.dq[w, i] / h
        axis = chain.axis[i]
        R = wp.quat_to_matrix(wp.quat_from_axis_angle(axis, dense.q[w, i] + real(0.5) * work.dq[w, i]))
        dense.R[w, i] = R
        S_i = join(axis, vec3(real(0.0), real(0.0), real(0.0)))
        carried = vec6()
        if i > 0:
            carried = into_child(R, chain.offset[i], dense.V[w, i - 1])
        V = carried + S_i * rate
        dense.V[w, i] = V
        P = momentum(chain.inertia[i], V)
        dense.P[w, i] = P
        for j in range(i + 1):
            V_q = bracket_axis(carried, axis)
            V_v = S_i
            if j < i:
                V_q = into_child(R, chain.offset[i], dense.V_q[w, i - 1, j])
                V_v = into_child(R, chain.offset[i], dense.V_v[w, i - 1, j])
            dense.V_q[w, i, j] = V_q
            dense.V_v[w, i, j] = V_v
    for j in range(n):
        T_q = real(0.0)
        T_v = real(0.0)
        for i in range(j, n):
            T_q += wp.dot(dense.P[w, i], dense.V_q[w, i, j])
            T_v += wp.dot(dense.P[w, i], dense.V_v[w, i, j])
        residual[w, j] = T_v - real(0.5) * h * T_q - dense.p[w, j]
        dense.p_next[w, j] = T_v + real(0.5) * h * T_q


@func
def svi_derivative(chain: Chain, dense: Dense, h: real, w: int, n: int):
    """df/ddq = T_vv/h + (T_vq - T_qv)/2 - h/4 T_qq: three nested loops over dofs and bodies."""
    for i in range(n):
        for j in range(i + 1):
            dense.P_q[w, i, j] = momentum(chain.inertia[i], dense.V_q[w, i, j])
            dense.P_v[w, i, j] = momentum(chain.inertia[i], dense.V_v[w, i, j])
    for i in range(n):
        for j in range(i, n):
            # second derivatives of the twist of body k by (q'_i, q_j) and (q_i, q_j), i <= j <= k
            V_vq = vec6()
            V_qq = vec6()
            vv = real(0.0)
            vq = real(0.0)
            qv = real(0.0)
            qq = real(0.0)
            for k in range(j, n):
                if k == j:
                    V_qq = bracket_axis(dense.V_q[w, j, i], chain.axis[j])
                    if i < j:
                        V_vq = bracket_axis(dense.V_v[w, j, i], chain.axis[j])
                else:
                    V_vq = into_child(dense.R[w, k], chain.offset[k], V_vq)
                    V_qq = into_child(dense.R[w, k], chain.offset[k], V_qq)
                P = dense.P[w, k]
                vv += wp.dot(dense.V_v[w, k, i], dense.P_v[w, k, j])
                vq += wp.dot(dense.V_v[w, k, i], dense.P_q[w, k, j]) + wp.dot(P, V_vq)
                qv += wp.dot(dense.V_q[w, k, i], dense.P_v[w, k, j])
                qq += wp.dot(dense.V_q[w, k, i], dense.P_q[w, k, j]) + wp.dot(P, V_qq)
            both = vv / h - real(0.25) * h * qq
            dense.J[w, i, j] = both + real(0.5) * (vq - qv)
            dense.J[w, j, i] = both + real(0.5) * (qv - vq)


@func
def drnea_derivative(topology: Topology, frame: Frame, equation: Equation, work: Motion, elimination: Elimination,
                     dense: Dense, w: int, n: int):  # fmt: skip
    """df/ddq column by column: motions down the chain, changes of momentum, wrenches back up."""
    for i in range(n):
        differentiate_link(topology, frame, work, equation.h, elimination, w, i)
    for j in range(n):
        y = vec6()
        for i in range(j, n):
            if i == j:
                y = join(elimination.axis[w, j], vec3(real(0.0), real(0.0), real(0.0)))
            else:
                y = moved_motion(y, frame.offset[w, i] + work.dr[w, i] - work.dr[w, i - 1])
            a = elimination.aa[w, i] * angular(y) + elimination.al[w, i] * linear(y)
            b = elimination.la[w, i] * angular(y) + elimination.ll[w, i] * linear(y)
            work.wrench[w, i] = join(a, b)
        F = vec6()
        for k in range(n):
            i = n - 1 - k
            if i >= j:
                F += work.wrench[w, i]
            dense.J[w, i, j] = wp.dot(frame.axis[w, i], angular(F))
            F = moved_wrench(F, frame.offset[w, i])


@func
def gauss(J: wp.array3d(dtype=real), x: wp.array2d(dtype=real), w: int, n: int):
    """x <- J^-1 x by elimination with row exchanges."""
    for k in range(n):
        pivot = int(k)
        for i in range(k + 1, n):
            if wp.abs(J[w, i, k]) > wp.abs(J[w, pivot, k]):
                pivot = i
        if pivot != k:
            for j in range(k, n):
                swapped = J[w, k, j]
                J[w, k, j] = J[w, pivot, j]
                J[w, pivot, j] = swapped
            swapped_x = x[w, k]
            x[w, k] = x[w, pivot]
            x[w, pivot] = swapped_x
        for i in range(k + 1, n):
            factor = J[w, i, k] / J[w, k, k]
            for j in range(k + 1, n):
                J[w, i, j] = J[w, i, j] - factor * J[w, k, j]
            x[w, i] = x[w, i] - factor * x[w, k]
    for reverse in range(n):
        k = n - 1 - reverse
        total = x[w, k]
        for j in range(k + 1, n):
            total -= J[w, k, j] * x[w, j]
        x[w, k] = total / J[w, k, k]


@kernel
def search(
    topology: Topology,
    search: Search,
    evaluation: int,
    method: int,
    chain: Chain,
    dense: Dense,
    elimination: Elimination,
    steps: wp.array3d(dtype=real),
    square: wp.array3d(dtype=real),
):
    """Root of `evaluation` by `method` from the guess in `work`."""
    w, tree = wp.tid()
    frame, factor, equation = search.frame, search.factor, search.equation
    work, root, residual = search.work, search.root, search.residual
    n = work.dq.shape[1]
    start(root, w, tree)
    first = search.first_step
    if first != real(0.0):  # the second half of the guess "dynamics" is left in work.u
        solve_tree(topology, frame, factor, work, w, tree)
        for d in range(n):
            work.dq[w, d] = work.dq[w, d] + first * work.u[w, d]
    if evaluation == SVI:
        svi_begin(frame, dense, equation, w, n)
    norm = real(wp.inf)
    count = int(0)
    over = bool(False)
    while not over:
        previous = norm
        if evaluation == SVI:
            svi_evaluate(chain, dense, equation, work, residual, w, n)
        else:
            evaluate_tree(topology, frame, factor, equation, work, real(0.0), w, tree)
            residual_tree(topology, frame, equation, work, residual, w, tree)
        for d in range(n):
            work.u[w, d] = residual[w, d]
            work.wrench[w, d] = vec6()
        norm = reduce_tree(topology, frame, factor, work, w, tree)
        over = judge(topology, search, norm, previous, w, tree)
        if not over:
            if method == NEWTON:
                if evaluation == SVI:
                    svi_derivative(chain, dense, equation.h, w, n)
                else:
                    drnea_derivative(topology, frame, equation, work, elimination, dense, w, n)
                for d in range(n):
                    dense.x[w, d] = residual[w, d]
                gauss(dense.J, dense.x, w, n)
                for d in range(n):
                    work.dq[w, d] = work.dq[w, d] - dense.x[w, d]
            else:
                solve_tree(topology, frame, factor, work, w, tree)
                if method == RIQN:
                    for d in range(n):
                        work.dq[w, d] = work.dq[w, d] - equation.h * work.u[w, d]
                else:
                    if count == MEMORY:
                        count = 0
                    broyden_step(topology, equation, work, steps, square, count, w, tree)
                    count += 1
    if evaluation == SVI:
        evaluate_tree(topology, frame, factor, equation, work, real(0.0), w, tree)
        svi_end(frame, dense, work, residual, w, n)
    root.error[w, tree] = wp.sqrt(root.least[w, tree] / equation.scale[w, tree])
