"""The two ends of a step of the linear-time variational integrator (Lee, Liu, Park, Srinivasa; theory §6). O(links).

    begin_step   at the node (q, v): p + (h/2) F, the factor of M + h D/2, the guess for dq
    (kernels/variational_roots.py: dq with DRNEA(dq) = impulse, and the momentum at its end)
    end_step     at q' = q (+) dq: v' = M(q')^-1 (momentum + (h/2) F(q')), the Legendre velocity of the node

The state is (q, v): M(q) v is the momentum that the interval before the node handed on, with its half of the force.
"""

import functools
from types import SimpleNamespace

import warp as wp

from warpsim.kernels import drnea, joints, spatial
from warpsim.kernels.precision import module_name, types
from warpsim.kernels.tree import Topology

CURRENT = wp.constant(0)  # IG1: dq = 0
EULER = wp.constant(1)  # IG2: dq = h v
DYNAMICS = wp.constant(2)  # IG3: dq = h v + h^2/2 (M + h D/2)^-1 (F - c)
GUESSES = {"current": 0, "euler": 1, "dynamics": 2}


@functools.cache
def build(S) -> SimpleNamespace:
    """Kernels of scalar type S; launch over (worlds, trees) unless they say otherwise."""
    t, st, f = types(S), drnea.structs(S), drnea.build(S)
    jt, sp = joints.build(S), spatial.build(S)
    angular, linear, join = sp.angular, sp.linear, sp.join
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
    def node_momentum(
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
                w_p = angular(V_p)
                alpha = angular(a_p)
                centripetal = wp.cross(w_p, wp.cross(w_p, offset))
                a = join(alpha, linear(a_p) + wp.cross(alpha, offset) + centripetal)
            joint = vec6()
            for i in range(jt.dofs(kind)):
                joint += f.motion(f.is_linear(kind, i), frame.axis[w, start + i], v[w, start + i])
            if kind != joints.FREE:
                w_p = angular(V)
                a += join(wp.cross(w_p, angular(joint)), S(2.0) * wp.cross(w_p, linear(joint)))
            V += joint
            work.rate[w, l] = V
            work.wrench[w, l] = a
            I = frame.inertia[w, l]
            e = f.com(I)
            omega = angular(V)
            impulse = I[0] * (linear(V) + wp.cross(omega, e) + half_h * gravity)
            work.mu[w, l] = f.moved_wrench(join(f.turned(I, omega), impulse), e)
        for l in range(topology.tree_link[tree], topology.tree_link[tree + 1]):
            coriolis = vec6()
            if guess == DYNAMICS:
                I = frame.inertia[w, l]
                e = f.com(I)
                omega = angular(work.rate[w, l])
                a = work.wrench[w, l]
                alpha = angular(a)
                force = I[0] * (linear(a) + wp.cross(alpha, e) + wp.cross(omega, wp.cross(omega, e)))
                torque = f.turned(I, alpha) + wp.cross(omega, f.turned(I, omega))
                coriolis = f.moved_wrench(join(torque, force), e)
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
        node_momentum(topology, frame, work, gravity[w % gravity.shape[0]], half_h, guess, v, w, tree)
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
            work.wrench[w, l] = join(wp.cross(f.com(I), I[0] * g), I[0] * g)
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
