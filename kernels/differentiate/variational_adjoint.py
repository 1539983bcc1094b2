"""The equations of a variational step, written to be taped, and the linear solves of its backward pass (theory §3.5, §6).

An interval leads from q to q' = q (+) dq. With mu the momentum of a link in it (`drnea.py`), both ends obey one equation,

    S^T sum_subtree (mu - I V - c weight) + armature (dq/h - v) + (c/h) D dq - c F = impulse,

at the start with c = h/2, v the velocity before the node's impulse and S, I, F at q: DRNEA, whose root is dq; at the end
with c = -h/2, no impulse and S, I, F at q': its root v is the Legendre velocity. D is that of the start at both ends.
Displacements and momenta are about o, the reference point of the tree passes at q, whose adjoints reach everything else;
in world axes mu is the same wrench at both ends.
"""

import warp as wp

from ..integrate.variational import drnea, roots
from ..integrate.variational.drnea import Equation, Factor, Frame, Motion
from ..integrate.variational.roots import Elimination
from ..real import func, kernel, mat33, real, transform, vec3, vec6, vec10
from ..tree import passes, spatial
from ..tree import se3 as lie
from ..tree.passes import Topology


@func
def reference(topology: Topology, link_X: wp.array2d(dtype=transform), w: int, tree: int) -> vec3:
    """The point o of a tree that its spatial vectors are about."""
    return wp.transform_get_translation(link_X[w, topology.tree_reference[tree]])


@func
def displace_link(
    topology: Topology,
    dof_S: wp.array2d(dtype=vec6),
    dq: wp.array2d(dtype=real),
    w: int,
    l: int,
    # out
    A: wp.array2d(dtype=mat33),
    d: wp.array2d(dtype=vec3),
):
    """The joint's displacement x -> x + B (x - o) + d_J, followed by that of the parent."""
    parent = topology.link_parent[l]
    kind = topology.link_type[l]
    turn = passes.turning_velocity(kind, dof_S, dq, w, topology.link_v[l])
    slide = spatial.linear(passes.joint_velocity(kind, dof_S, dq, w, topology.link_v[l]) - turn)
    B = lie.exp_rotation(spatial.angular(turn))
    d_J = slide + lie.exp_translation(spatial.angular(turn), spatial.linear(turn))
    if parent < 0:
        A[w, l] = B
        d[w, l] = d_J
    else:
        A[w, l] = A[w, parent] + B + A[w, parent] * B
        d[w, l] = d[w, parent] + d_J + A[w, parent] * d_J


@kernel(taped=True)
def displace(
    topology: Topology,
    dof_S: wp.array2d(dtype=vec6),
    dq: wp.array2d(dtype=real),
    # out
    A: wp.array2d(dtype=mat33),
    d: wp.array2d(dtype=vec3),
):
    """Displacement x -> x + A (x - o) + d of every link from q to q (+) dq. Launch over (worlds, trees)."""
    w, tree = wp.tid()
    for l in range(topology.tree_link[tree], topology.tree_link[tree + 1]):
        displace_link(topology, dof_S, dq, w, l, A, d)


@func
def momentum_about_com(mass: real, I: mat33, A: mat33, p: vec3, h: real) -> vec6:
    """[dlog_xi]^T G xi / h of a body displaced by (A, p), about its COM at the start."""
    log = lie.log_rotation(A)
    rho = lie.log_translation(log, p)
    return lie.dlog_transpose(log, rho, spatial.join((I * log.phi) / h, (mass / h) * rho))


@kernel(taped=True)
def interval_momentum(
    topology: Topology,
    h: real,
    body_mass: wp.array2d(dtype=real),
    body_com: wp.array2d(dtype=vec3),
    body_inertia: wp.array2d(dtype=mat33),
    link_X: wp.array2d(dtype=transform),
    A: wp.array2d(dtype=mat33),
    d: wp.array2d(dtype=vec3),
    # out
    mu: wp.array2d(dtype=vec6),
):
    """mu of every link, about o at q; 0 of a massless one. Launch over (worlds, links)."""
    w, l = wp.tid()
    body = topology.link_body[l]
    if body >= 0:
        X = link_X[w, l]
        com = wp.transform_point(X, body_com[w % body_com.shape[0], body])
        arm = com - reference(topology, link_X, w, topology.link_tree[l])
        R = wp.quat_to_matrix(wp.transform_get_rotation(X))
        I = R * body_inertia[w % body_inertia.shape[0], body] * wp.transpose(R)
        p = d[w, l] + A[w, l] * arm
        P = momentum_about_com(body_mass[w % body_mass.shape[0], body], I, A[w, l], p, h)
        f = spatial.linear(P)
        mu[w, l] = spatial.join(spatial.angular(P) + wp.cross(arm, f), f)


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
    """sum_subtree (mu - I V - c weight) at one node: I, V about its own o, that of link_X_node. Launch over (worlds, trees)."""
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
    """The left-hand side at one node, from `node_wrench` there; S about its own o. Launch over (worlds, trees)."""
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
    """impulse = r = A (v - v*), A = M + h D/2, from the entries of M that `residual.mass_entries` writes; `impulse` comes
    in as zero. Launch over (worlds, nv)."""
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


@kernel
def root_adjoint(
    topology: Topology,
    frame: Frame,
    equation: Equation,
    dq: wp.array2d(dtype=real),
    dq_bar: wp.array2d(dtype=real),
    # scratch
    work: Motion,
    elimination: Elimination,
    turned: Frame,
    # out
    seed: wp.array2d(dtype=real),
):
    """seed = -(df/ddq)^-T dq_bar at the root dq of DRNEA, in O(links).

    df/ddq = S^T (sum over common subtrees of N) S~ is transposed by exchanging S with S~, and N with N^T, whose rows are
    about r + dr and whose columns are about r: the elimination of Newton's method then solves with it.
    """
    w, tree = wp.tid()
    for d in range(topology.tree_v[tree], topology.tree_v[tree + 1]):
        work.dq[w, d] = dq[w, d]
    for l in range(topology.tree_link[tree], topology.tree_link[tree + 1]):
        drnea.displace(topology, frame, work, w, l)
        roots.differentiate_link(topology, frame, work, equation.h, elimination, w, l)
        parent = topology.link_parent[l]
        offset = vec3(real(0.0), real(0.0), real(0.0))
        if parent >= 0:
            offset = frame.offset[w, l] + work.dr[w, l] - work.dr[w, parent]
        turned.offset[w, l] = offset
    for l in range(topology.tree_link[tree], topology.tree_link[tree + 1]):
        al = elimination.al[w, l]
        elimination.aa[w, l] = wp.transpose(elimination.aa[w, l])
        elimination.al[w, l] = wp.transpose(elimination.la[w, l])
        elimination.la[w, l] = wp.transpose(al)
        elimination.ll[w, l] = wp.transpose(elimination.ll[w, l])
        work.dr[w, l] = -work.dr[w, l]
        work.wrench[w, l] = vec6()
    for d in range(topology.tree_v[tree], topology.tree_v[tree + 1]):
        turned.axis[w, d] = elimination.axis[w, d]
        elimination.axis[w, d] = frame.axis[w, d]
        work.u[w, d] = dq_bar[w, d]
        work.dq[w, d] = real(0.0)
    roots.eliminate_tree(topology, turned, equation, work, elimination, w, tree)
    roots.newton_step(topology, turned, work, elimination, w, tree)
    for d in range(topology.tree_v[tree], topology.tree_v[tree + 1]):
        seed[w, d] = work.dq[w, d]


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
    """seed = M^-1 v_bar: the equation of the Legendre velocity has the derivative -M."""
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
    """The impulse i = A (v - v*) stands in f(dq) = i: impulse_bar = -root_seed, v_bar += A impulse_bar."""
    w, tree = wp.tid()
    begin = topology.tree_v[tree]
    end = topology.tree_v[tree + 1]
    for i in range(begin, end):
        x = real(0.0)
        for j in range(begin, end):
            x += A[w, i, j - begin] * root_seed[w, j]
        impulse_bar[w, i] = -root_seed[w, i]
        v_bar[w, i] = v_bar[w, i] - x
