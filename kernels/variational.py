"""The linear-time variational integrator (Lee, Liu, Park, Srinivasa): DRNEA, its root by RIQN, and momenta. O(links).

Everything is in world axes at q^k, each link about its own joint point r_l, which lies in the link and in its parent. The
displacement of link l from q^k to q^(k+1) is T^(k+1) (T^k)^-1: x -> r_l + dr_l + (I + A_l)(x - r_l), and down the tree

    A_l = A_p + B + A_p B,   B = exp[a dq] - I,   dr_l = dr_p + A_p (r_l - r_p)

needs neither T^(k+1) nor the difference of two poses: with the unknown dq = q^(k+1) - q^k, float32 keeps its accuracy.
With xi = log of the displacement of the COM frame, G the inertia in world axes and mu = [dlog_xi]^T G xi / h,

    DRNEA(dq) = S^T sum_subtree mu + (armature/h + D/2) dq - p - (h/2) F(q^k),   p = M(q^k) v^k

vanishes at the step's end, whose momentum is p' = S'^T sum_subtree mu + (armature/h - D/2) dq + (h/2) F(q'): a wrench in
world axes is the same momentum at both ends. F holds all forces but the damping D, trapezoidal as gravity is; the state
is (q, v) with v = M^-1 p the Legendre velocity at the node. RIQN: dq <- dq - h (M + h D/2)^-1 DRNEA(dq), by ABA.
"""

import functools
from types import SimpleNamespace

import warp as wp

from warpsim.kernels import joints, se3
from warpsim.kernels.precision import module_name, types
from warpsim.kernels.tree import Topology

CURRENT = wp.constant(0)  # IG1: dq = 0
EULER = wp.constant(1)  # IG2: dq = h v
DYNAMICS = wp.constant(2)  # IG3: dq = h v + h^2/2 (M + h D/2)^-1 (F - c)
GUESSES = {"current": 0, "euler": 1, "dynamics": 2}


@functools.cache
def structs(S) -> SimpleNamespace:
    """The groups of arrays that travel together, for scalar type S."""
    t = types(S)

    @wp.struct
    class Frame:
        """One configuration, in world axes, each link about its joint point r."""

        offset: wp.array2d(dtype=t.vec3)  # (worlds, links) r - r_parent
        inertia: wp.array2d(dtype=t.vec10)  # (worlds, links) m, COM from r, inertia about the COM: xx yy zz xy xz yz
        axis: wp.array2d(dtype=t.vec3)  # (worlds, nv) direction of the motion subspace S

    @wp.struct
    class Factor:
        """Articulated inertias: M + h D/2 = (I + S^T K ..) D (..)^T, in the order of ABA."""

        J: wp.array2d(dtype=t.mat33)  # (worlds, links) blocks [[J, H], [H^T, M]] about r: rigid, then articulated
        H: wp.array2d(dtype=t.mat33)
        M: wp.array2d(dtype=t.mat33)
        K: wp.array2d(dtype=t.vec6)  # (worlds, nv) I^A S / D
        D: wp.array2d(dtype=S)  # (worlds, nv) S^T I^A S

    @wp.struct
    class Motion:
        """The displacement of an iterate, and the workspace of the sweeps."""

        dq: wp.array2d(dtype=S)  # (worlds, nv) q^(k+1) = q^k (+) dq
        A: wp.array2d(dtype=t.mat33)  # (worlds, links) R^(k+1) R^kT - I
        dr: wp.array2d(dtype=t.vec3)  # (worlds, links) displacement of r
        mu: wp.array2d(dtype=t.vec6)  # (worlds, links) momentum (angular about r; linear) in the interval
        wrench: wp.array2d(dtype=t.vec6)  # (worlds, links) what a backward sweep accumulates
        rate: wp.array2d(dtype=t.vec6)  # (worlds, links) what a forward sweep accumulates
        u: wp.array2d(dtype=S)  # (worlds, nv) right-hand side of a solve, reduced by the backward sweep

    @wp.struct
    class Equation:
        """DRNEA(dq) = impulse, one equation per tree."""

        h: S
        armature: wp.array2d(dtype=S)  # (1 or worlds, nv)
        damping: wp.array2d(dtype=S)  # (worlds, nv)
        momentum: wp.array2d(dtype=S)  # (worlds, nv) p + (h/2) F
        impulse: wp.array2d(dtype=S)  # (worlds, nv) J^T gamma
        scale: wp.array2d(dtype=S)  # (worlds, trees) norm of the momentum in the metric M^-1, squared [J]

    @wp.struct
    class Root:
        """How a root search ended, per tree."""

        evaluations: wp.array2d(dtype=int)  # (worlds, trees) residual evaluations
        error: wp.array2d(dtype=S)  # (worlds, trees) residual over momentum, both in the metric M^-1
        status: wp.array2d(dtype=int)  # (worlds, trees)
        least: wp.array2d(dtype=S)  # (worlds, trees) least residual met, squared, in the metric M^-1 [J]
        best: wp.array2d(dtype=S)  # (worlds, nv) dq there

    return SimpleNamespace(Frame=Frame, Factor=Factor, Motion=Motion, Equation=Equation, Root=Root)


@functools.cache
def functions(S) -> SimpleNamespace:
    """Device functions over one link or one tree, for scalar type S."""
    t, st = types(S), structs(S)
    lie, jt = se3.build(S), joints.build(S)
    vec3, vec6, vec10, mat33 = t.vec3, t.vec6, t.vec10, t.mat33
    Frame, Factor, Motion, Equation = st.Frame, st.Factor, st.Motion, st.Equation

    # ---- spatial algebra about moving points ------------------------------------------------------------------------

    @wp.func
    def angular(a: vec6) -> vec3:
        return vec3(a[0], a[1], a[2])

    @wp.func
    def linear(a: vec6) -> vec3:
        return vec3(a[3], a[4], a[5])

    @wp.func
    def join(a: vec3, b: vec3) -> vec6:
        return vec6(a[0], a[1], a[2], b[0], b[1], b[2])

    @wp.func
    def is_linear(kind: int, i: int) -> bool:
        """Whether freedom i of a joint is a translation."""
        return kind == joints.SLIDE or (kind == joints.FREE and i < 3)

    @wp.func
    def along(slides: bool, axis: vec3, F: vec6) -> S:
        """S^T F."""
        x = S(0.0)
        if slides:
            x = wp.dot(axis, linear(F))
        else:
            x = wp.dot(axis, angular(F))
        return x

    @wp.func
    def motion(slides: bool, axis: vec3, x: S) -> vec6:
        """S x."""
        zero = vec3(S(0.0), S(0.0), S(0.0))
        V = join(x * axis, zero)
        if slides:
            V = join(zero, x * axis)
        return V

    @wp.func
    def moved_wrench(F: vec6, arm: vec3) -> vec6:
        """A wrench about the point that lies -arm from F's."""
        f = linear(F)
        return join(angular(F) + wp.cross(arm, f), f)

    @wp.func
    def moved_motion(V: vec6, arm: vec3) -> vec6:
        """A motion about the point that lies arm from V's."""
        w = angular(V)
        return join(w, linear(V) + wp.cross(w, arm))

    @wp.func
    def cross_columns(a: vec3, M: mat33) -> mat33:
        """[a] M."""
        return mat33(
            a[1] * M[2, 0] - a[2] * M[1, 0], a[1] * M[2, 1] - a[2] * M[1, 1], a[1] * M[2, 2] - a[2] * M[1, 2],
            a[2] * M[0, 0] - a[0] * M[2, 0], a[2] * M[0, 1] - a[0] * M[2, 1], a[2] * M[0, 2] - a[0] * M[2, 2],
            a[0] * M[1, 0] - a[1] * M[0, 0], a[0] * M[1, 1] - a[1] * M[0, 1], a[0] * M[1, 2] - a[1] * M[0, 2],
        )  # fmt: skip

    @wp.func
    def com(I: vec10) -> vec3:
        return vec3(I[1], I[2], I[3])

    @wp.func
    def turned(I: vec10, w: vec3) -> vec3:
        """I_com w."""
        return vec3(
            I[4] * w[0] + I[7] * w[1] + I[8] * w[2],
            I[7] * w[0] + I[5] * w[1] + I[9] * w[2],
            I[8] * w[0] + I[9] * w[1] + I[6] * w[2],
        )

    # ---- ABA --------------------------------------------------------------------------------------------------------

    @wp.func
    def factor_tree(
        topology: Topology,
        frame: Frame,
        factor: Factor,
        armature: wp.array2d(dtype=S),
        damping: wp.array2d(dtype=S),
        half_h: S,
        w: int,
        tree: int,
    ):
        """Articulated inertias of M + half_h D, from the rigid ones in `factor`, which they replace."""
        row = w % armature.shape[0]
        first = topology.tree_link[tree]
        end = topology.tree_link[tree + 1]
        for k in range(end - first):
            l = end - 1 - k
            kind = topology.link_type[l]
            start = topology.link_v[l]
            n = jt.dofs(kind)
            J = factor.J[w, l]
            H = factor.H[w, l]
            M = factor.M[w, l]
            for i in range(n):
                d = start + n - 1 - i
                axis = frame.axis[w, d]
                extra = armature[row, d] + half_h * damping[w, d]
                U_a = J * axis
                U_l = axis * H
                D = wp.dot(axis, U_a) + extra
                if is_linear(kind, n - 1 - i):
                    U_a = H * axis
                    U_l = M * axis
                    D = wp.dot(axis, U_l) + extra
                inverse = S(1.0) / D
                K_a = U_a * inverse
                K_l = U_l * inverse
                factor.D[w, d] = D
                factor.K[w, d] = join(K_a, K_l)
                J -= wp.outer(U_a, K_a)
                H -= wp.outer(U_a, K_l)
                M -= wp.outer(U_l, K_l)
            parent = topology.link_parent[l]
            if parent >= 0:
                offset = frame.offset[w, l]
                H_moved = H + cross_columns(offset, M)
                # J' = J + [d] H^T - H' [d], and X [d] = -([d] X^T)^T
                J_moved = J + cross_columns(offset, wp.transpose(H)) + wp.transpose(
                    cross_columns(offset, wp.transpose(H_moved))
                )
                factor.J[w, parent] = factor.J[w, parent] + J_moved
                factor.H[w, parent] = factor.H[w, parent] + H_moved
                factor.M[w, parent] = factor.M[w, parent] + M

    @wp.func
    def reduce_tree(topology: Topology, frame: Frame, factor: Factor, work: Motion, w: int, tree: int) -> S:
        """Backward half of a solve for f = S^T (sum of work.wrench) + work.u: work.u reduced; returns f^T (M..)^-1 f."""
        norm = S(0.0)
        first = topology.tree_link[tree]
        end = topology.tree_link[tree + 1]
        for k in range(end - first):
            l = end - 1 - k
            kind = topology.link_type[l]
            start = topology.link_v[l]
            n = jt.dofs(kind)
            F = work.wrench[w, l]
            for i in range(n):
                d = start + n - 1 - i
                u = work.u[w, d] + along(is_linear(kind, n - 1 - i), frame.axis[w, d], F)
                F -= factor.K[w, d] * u
                x = u / factor.D[w, d]
                norm += u * x
                work.u[w, d] = x
            parent = topology.link_parent[l]
            if parent >= 0:
                work.wrench[w, parent] = work.wrench[w, parent] + moved_wrench(F, frame.offset[w, l])
        return norm

    @wp.func
    def parent_rate(topology: Topology, frame: Frame, work: Motion, w: int, l: int) -> vec6:
        """Motion that the parent imparts to the joint point of l in the forward half of a solve."""
        y = vec6()
        parent = topology.link_parent[l]
        if parent >= 0:
            y = moved_motion(work.rate[w, parent], frame.offset[w, l])
        return y

    @wp.func
    def solve_tree(topology: Topology, frame: Frame, factor: Factor, work: Motion, w: int, tree: int):
        """Forward half of a solve: work.u <- (M..)^-1 f, from the reduced work.u."""
        for l in range(topology.tree_link[tree], topology.tree_link[tree + 1]):
            kind = topology.link_type[l]
            y = parent_rate(topology, frame, work, w, l)
            for i in range(jt.dofs(kind)):
                d = topology.link_v[l] + i
                x = work.u[w, d] - wp.dot(factor.K[w, d], y)
                y += motion(is_linear(kind, i), frame.axis[w, d], x)
                work.u[w, d] = x
            work.rate[w, l] = y

    # ---- DRNEA ------------------------------------------------------------------------------------------------------

    @wp.func
    def momentum(I: vec10, A: mat33, dr: vec3, h: S) -> vec6:
        """mu = [dlog_xi]^T G xi / h about r of a body displaced by (A, dr) about r."""
        e = com(I)
        log = lie.log_rotation(A)
        rho = lie.log_translation(log, dr + A * e)
        G_xi = join(turned(I, log.phi) / h, (I[0] / h) * rho)
        return moved_wrench(lie.dlog_transpose(log, rho, G_xi), e)

    @wp.func
    def displace(topology: Topology, frame: Frame, work: Motion, w: int, l: int):
        """A, dr of link l from those of its parent and dq."""
        kind = topology.link_type[l]
        start = topology.link_v[l]
        parent = topology.link_parent[l]
        phi = vec3(S(0.0), S(0.0), S(0.0))
        slide = vec3(S(0.0), S(0.0), S(0.0))
        for i in range(jt.dofs(kind)):
            step = work.dq[w, start + i] * frame.axis[w, start + i]
            if is_linear(kind, i):
                slide += step
            else:
                phi += step
        if parent < 0:
            work.A[w, l] = lie.exp_rotation(phi)
            work.dr[w, l] = slide
        else:
            A_p = work.A[w, parent]
            work.dr[w, l] = work.dr[w, parent] + slide + A_p * (frame.offset[w, l] + slide)
            if kind == joints.SLIDE or kind == joints.FIXED:
                work.A[w, l] = A_p
            else:
                B = lie.exp_rotation(phi)
                work.A[w, l] = A_p + B + A_p * B

    @wp.func
    def evaluate_link(topology: Topology, frame: Frame, equation: Equation, work: Motion, w: int, l: int):
        """Displacement and momentum of link l at work.dq, and the joint's own part of DRNEA in work.u."""
        h = equation.h
        row = w % equation.armature.shape[0]
        start = topology.link_v[l]
        for i in range(jt.dofs(topology.link_type[l])):
            d = start + i
            rotor = equation.armature[row, d] / h + S(0.5) * equation.damping[w, d]
            work.u[w, d] = rotor * work.dq[w, d] - equation.momentum[w, d] - equation.impulse[w, d]
        displace(topology, frame, work, w, l)
        I = frame.inertia[w, l]
        mu = vec6()
        if I[0] > S(0.0):
            mu = momentum(I, work.A[w, l], work.dr[w, l], h)
        work.mu[w, l] = mu
        work.wrench[w, l] = mu

    @wp.func
    def evaluate_tree(
        topology: Topology, frame: Frame, factor: Factor, equation: Equation, work: Motion, step: S, w: int, tree: int
    ):
        """Forward sweep: dq <- dq + step (M..)^-1 f of the reduced work.u, unless step = 0; then every link at the new dq."""
        for l in range(topology.tree_link[tree], topology.tree_link[tree + 1]):
            if step != S(0.0):
                kind = topology.link_type[l]
                y = parent_rate(topology, frame, work, w, l)
                for i in range(jt.dofs(kind)):
                    d = topology.link_v[l] + i
                    x = work.u[w, d] - wp.dot(factor.K[w, d], y)
                    y += motion(is_linear(kind, i), frame.axis[w, d], x)
                    work.dq[w, d] = work.dq[w, d] + step * x
                work.rate[w, l] = y
            evaluate_link(topology, frame, equation, work, w, l)

    @wp.func
    def project_tree(
        topology: Topology,
        frame: Frame,
        equation: Equation,
        work: Motion,
        w: int,
        tree: int,
        residual: wp.array2d(dtype=S),
        momentum_next: wp.array2d(dtype=S),
    ):
        """Backward sweep after `evaluate_tree`: DRNEA(dq) - impulse, and the momentum at q^(k+1) without its half force.

        The residual is taken off the momentum that is carried on, so that what a tolerance leaves does not add up.
        """
        h = equation.h
        row = w % equation.armature.shape[0]
        first = topology.tree_link[tree]
        end = topology.tree_link[tree + 1]
        for l in range(first, end):
            work.wrench[w, l] = work.mu[w, l]
        for k in range(end - first):
            l = end - 1 - k
            kind = topology.link_type[l]
            start = topology.link_v[l]
            F = work.wrench[w, l]
            balanced = F
            for i in range(jt.dofs(kind)):
                d = start + i
                axis = frame.axis[w, d]
                slides = is_linear(kind, i)
                rotor = equation.armature[row, d] / h + S(0.5) * equation.damping[w, d]
                f = along(slides, axis, F) + rotor * work.dq[w, d] - equation.momentum[w, d] - equation.impulse[w, d]
                residual[w, d] = f
                balanced -= motion(slides, axis, f)
            balanced = moved_wrench(balanced, -work.dr[w, l])
            for i in range(jt.dofs(kind)):
                d = start + i
                axis = frame.axis[w, d]
                if kind != joints.FREE or i >= 3:
                    axis += work.A[w, l] * axis
                rotor = equation.armature[row, d] / h - S(0.5) * equation.damping[w, d]
                momentum_next[w, d] = along(is_linear(kind, i), axis, balanced) + rotor * work.dq[w, d]
            parent = topology.link_parent[l]
            if parent >= 0:
                work.wrench[w, parent] = work.wrench[w, parent] + moved_wrench(F, frame.offset[w, l])

    return SimpleNamespace(**{key: value for key, value in locals().items() if isinstance(value, wp.Function)})


@functools.cache
def build(S) -> SimpleNamespace:
    """Kernels of scalar type S; launch over (worlds, trees) unless they say otherwise."""
    t, st, f = types(S), structs(S), functions(S)
    jt = joints.build(S)
    vec3, vec6, vec10, mat33, transform = t.vec3, t.vec6, t.vec10, t.mat33, t.transform
    Frame, Factor, Motion, Equation, Root = st.Frame, st.Factor, st.Motion, st.Equation, st.Root
    module = module_name("variational", S)

    @wp.func
    def joint_point(
        topology: Topology,
        joint_anchor: wp.array(dtype=vec3),
        link_X: wp.array2d(dtype=transform),
        w: int,
        l: int,
    ) -> vec3:
        """r_l in the world: the joint's anchor; the origin of a free or welded link."""
        X = link_X[w, l]
        r = wp.transform_get_translation(X)
        kind = topology.link_type[l]
        if kind != joints.FREE and kind != joints.FIXED:
            r = wp.transform_point(X, joint_anchor[topology.link_joint[l]])
        return r

    @wp.kernel(module=module, enable_backward=False)
    def place_links(
        topology: Topology,
        joint_anchor: wp.array(dtype=vec3),
        joint_axis: wp.array2d(dtype=vec3),
        body_mass: wp.array2d(dtype=S),
        body_com: wp.array2d(dtype=vec3),
        body_inertia: wp.array2d(dtype=mat33),
        link_X: wp.array2d(dtype=transform),
        # out
        frame: Frame,
        factor: Factor,
    ):
        """The frame of a configuration and its rigid inertias, from link poses. Launch over (worlds, links)."""
        w, l = wp.tid()
        X = link_X[w, l]
        R = wp.quat_to_matrix(wp.transform_get_rotation(X))
        r = joint_point(topology, joint_anchor, link_X, w, l)
        parent = topology.link_parent[l]
        offset = vec3(S(0.0), S(0.0), S(0.0))
        if parent >= 0:
            offset = r - joint_point(topology, joint_anchor, link_X, w, parent)
        frame.offset[w, l] = offset
        kind = topology.link_type[l]
        start = topology.link_v[l]
        if kind == joints.HINGE or kind == joints.SLIDE:
            frame.axis[w, start] = R * joint_axis[w % joint_axis.shape[0], topology.link_joint[l]]
        elif kind == joints.BALL or kind == joints.FREE:
            n = jt.dofs(kind)
            for i in range(3):
                frame.axis[w, start + n - 3 + i] = vec3(R[0, i], R[1, i], R[2, i])
            if kind == joints.FREE:
                frame.axis[w, start] = vec3(S(1.0), S(0.0), S(0.0))
                frame.axis[w, start + 1] = vec3(S(0.0), S(1.0), S(0.0))
                frame.axis[w, start + 2] = vec3(S(0.0), S(0.0), S(1.0))
        body = topology.link_body[l]
        inertia = vec10()
        J = mat33()
        H = mat33()
        M = mat33()
        if body >= 0:
            m = body_mass[w % body_mass.shape[0], body]
            e = wp.transform_point(X, body_com[w % body_com.shape[0], body]) - r
            I = R * body_inertia[w % body_inertia.shape[0], body] * wp.transpose(R)
            inertia = vec10(m, e[0], e[1], e[2], I[0, 0], I[1, 1], I[2, 2], I[0, 1], I[0, 2], I[1, 2])
            H = m * wp.skew(e)
            M = wp.diag(vec3(m, m, m))
            J = I - wp.skew(e) * H
        frame.inertia[w, l] = inertia
        factor.J[w, l] = J
        factor.H[w, l] = H
        factor.M[w, l] = M

    @wp.func
    def node_velocity(
        topology: Topology,
        frame: Frame,
        work: Motion,
        gravity: vec3,
        half_h: S,
        guess: int,
        v: wp.array2d(dtype=S),
        w: int,
        tree: int,
    ):
        """Forward sweep at (q, v): work.mu = momentum + half_h gravity, work.wrench = the same less half_h Coriolis (IG3)."""
        for l in range(topology.tree_link[tree], topology.tree_link[tree + 1]):
            kind = topology.link_type[l]
            start = topology.link_v[l]
            parent = topology.link_parent[l]
            V = vec6()
            a = vec6()  # acceleration of r, angular and linear, with all joint accelerations 0
            if parent >= 0:
                offset = frame.offset[w, l]
                V_p = work.rate[w, parent]
                V = f.moved_motion(V_p, offset)
                a_p = work.wrench[w, parent]
                w_p = f.angular(V_p)
                alpha = f.angular(a_p)
                centripetal = wp.cross(w_p, wp.cross(w_p, offset))
                a = f.join(alpha, f.linear(a_p) + wp.cross(alpha, offset) + centripetal)
            joint = vec6()
            for i in range(jt.dofs(kind)):
                joint += f.motion(f.is_linear(kind, i), frame.axis[w, start + i], v[w, start + i])
            if kind != joints.FREE:
                w_p = f.angular(V)
                a += f.join(wp.cross(w_p, f.angular(joint)), S(2.0) * wp.cross(w_p, f.linear(joint)))
            V += joint
            work.rate[w, l] = V
            work.wrench[w, l] = a
            I = frame.inertia[w, l]
            e = f.com(I)
            omega = f.angular(V)
            impulse = I[0] * (f.linear(V) + wp.cross(omega, e) + half_h * gravity)
            work.mu[w, l] = f.moved_wrench(f.join(f.turned(I, omega), impulse), e)
        for l in range(topology.tree_link[tree], topology.tree_link[tree + 1]):
            coriolis = vec6()
            if guess == DYNAMICS:
                I = frame.inertia[w, l]
                e = f.com(I)
                omega = f.angular(work.rate[w, l])
                a = work.wrench[w, l]
                alpha = f.angular(a)
                force = I[0] * (f.linear(a) + wp.cross(alpha, e) + wp.cross(omega, wp.cross(omega, e)))
                torque = f.turned(I, alpha) + wp.cross(omega, f.turned(I, omega))
                coriolis = f.moved_wrench(f.join(torque, force), e)
            work.wrench[w, l] = work.mu[w, l] - half_h * coriolis

    @wp.kernel(module=module, enable_backward=False)
    def begin_step(
        topology: Topology,
        gravity: wp.array(dtype=vec3),
        guess: int,
        v: wp.array2d(dtype=S),
        force: wp.array2d(dtype=S),
        frame: Frame,
        # out
        equation: Equation,
        factor: Factor,
        work: Motion,
    ):
        """Momentum p + (h/2) F of the node (q, v), factor of M + h D/2, and the guess for dq.

        Of IG3 only the reduced right-hand side is left in work.u; the root search adds it to dq = 0.
        """
        w, tree = wp.tid()
        half_h = S(0.5) * equation.h
        row = w % equation.armature.shape[0]
        f.factor_tree(topology, frame, factor, equation.armature, equation.damping, half_h, w, tree)
        f_gravity = gravity[w % gravity.shape[0]]
        node_velocity(topology, frame, work, f_gravity, half_h, guess, v, w, tree)
        end = topology.tree_link[tree + 1]
        for k in range(end - topology.tree_link[tree]):
            l = end - 1 - k
            kind = topology.link_type[l]
            start = topology.link_v[l]
            P = work.mu[w, l]
            for i in range(jt.dofs(kind)):
                d = start + i
                own = equation.armature[row, d] * v[w, d] + half_h * force[w, d]
                equation.momentum[w, d] = own + f.along(f.is_linear(kind, i), frame.axis[w, d], P)
                work.u[w, d] = own
                work.dq[w, d] = S(0.0)
                if guess == EULER:
                    work.dq[w, d] = equation.h * v[w, d]
            parent = topology.link_parent[l]
            if parent >= 0:
                work.mu[w, parent] = work.mu[w, parent] + f.moved_wrench(P, frame.offset[w, l])
        equation.scale[w, tree] = f.reduce_tree(topology, frame, factor, work, w, tree)

    @wp.kernel(module=module, enable_backward=False)
    def end_step(
        topology: Topology,
        gravity: wp.array(dtype=vec3),
        h: S,
        armature: wp.array2d(dtype=S),
        no_damping: wp.array2d(dtype=S),
        momentum_next: wp.array2d(dtype=S),
        force: wp.array2d(dtype=S),
        frame: Frame,
        # out
        factor: Factor,
        work: Motion,
        v: wp.array2d(dtype=S),
    ):
        """Legendre velocity v' = M(q')^-1 (momentum + (h/2) F(q')) at the end of the step; everything is at q'."""
        w, tree = wp.tid()
        half_h = S(0.5) * h
        g = half_h * gravity[w % gravity.shape[0]]
        f.factor_tree(topology, frame, factor, armature, no_damping, S(0.0), w, tree)
        for l in range(topology.tree_link[tree], topology.tree_link[tree + 1]):
            I = frame.inertia[w, l]
            work.wrench[w, l] = f.join(wp.cross(f.com(I), I[0] * g), I[0] * g)
        for d in range(topology.tree_v[tree], topology.tree_v[tree + 1]):
            work.u[w, d] = momentum_next[w, d] + half_h * force[w, d]
        f.reduce_tree(topology, frame, factor, work, w, tree)
        f.solve_tree(topology, frame, factor, work, w, tree)
        for d in range(topology.tree_v[tree], topology.tree_v[tree + 1]):
            v[w, d] = work.u[w, d]

    @wp.kernel(module=module, enable_backward=False)
    def extrapolate(h: S, v: wp.array2d(dtype=S), dq: wp.array2d(dtype=S), v_end: wp.array2d(dtype=S)):
        """Velocity at the end of the step, to second order: 2 dq/h - v. Launch over (worlds, nv)."""
        w, d = wp.tid()
        v_end[w, d] = S(2.0) * dq[w, d] / h - v[w, d]

    @wp.kernel(module=module, enable_backward=False)
    def report(root: Root, evaluations: wp.array(dtype=int), error: wp.array(dtype=S), status: wp.array(dtype=int)):
        """The worst of a world's trees. Launch over worlds."""
        w = wp.tid()
        most = int(0)
        worst = S(0.0)
        bits = int(0)
        for tree in range(root.status.shape[1]):
            most = wp.max(most, root.evaluations[w, tree])
            worst = wp.max(worst, root.error[w, tree])
            bits = bits | root.status[w, tree]
        evaluations[w] = most
        error[w] = worst
        status[w] = bits

    return SimpleNamespace(
        place_links=place_links,
        begin_step=begin_step,
        end_step=end_step,
        extrapolate=extrapolate,
        report=report,
    )
