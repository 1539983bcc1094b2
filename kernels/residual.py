"""The optimality residual of one step, written to be taped: gradients of a step are those of its equations.

    r(v; q, v0, tau, p) = h RNEA(q, v0, (v - v0)/h) + h D v - h force(q, v0) - J^T gamma(J v; R, v_hat, mu) - rows = 0

which is A (v - v*) - J^T gamma without A ever being formed (theory §3.5, §7). Contact features are frozen. The effective
inverse mass w of a contact enters R as a value; its derivative dw = 2 G : (dJ Y) - (Y G Y^T) : dM, Y = M^-1 J^T,
G = W / (9 w), is added by `weight_adjoint` between the two halves of the tape.
"""

from types import SimpleNamespace

import warp as wp

from warpsim.kernels import contact, effective_mass, joints, rows, spatial
from warpsim.kernels.cache import cached
from warpsim.kernels.collide import features
from warpsim.kernels.collide.manifold import is_general
from warpsim.kernels.constraints import box, cone, limit
from warpsim.kernels.precision import module_name, types
from warpsim.kernels.tree import Topology


@cached
def build(S) -> SimpleNamespace:
    """Taped kernels of scalar type S, and the untaped helpers of the backward pass."""
    t = types(S)
    sp, jt = spatial.build(S), joints.build(S)
    st = contact.structs(S)
    Scene, Contacts, Rows = st.Scene, st.Contacts, rows.build(S).Rows
    d_features, d_cone, d_box = features.build(S), cone.build(S), box.build(S)
    laws = contact.laws(S)
    inverse_mass_times = effective_mass.build(S).inverse_mass_times
    stop_law = limit.build(S).stop_law
    vec3, vec6, vec10, mat33, transform = t.vec3, t.vec6, t.vec10, t.mat33, t.transform
    module = module_name("residual", S, True)

    # ---- geometry: from poses to Jacobians and the mass matrix ------------------------------------------------------

    @wp.kernel(module=module)
    def contact_geometry(
        scene: Scene,
        contacts: Contacts,
        geom_pose: wp.array3d(dtype=S),
        geom_size: wp.array2d(dtype=vec3),
        link_X: wp.array2d(dtype=transform),
        # out
        phi: wp.array2d(dtype=S),
        point: wp.array2d(dtype=vec3),
        frame: wp.array2d(dtype=mat33),
    ):
        """Distance, point and frame of every simple contact with its features frozen. Launch over (worlds, max_contacts)."""
        w, c = wp.tid()
        if c < contacts.count[w]:
            p = contacts.pair[w, c]
            a = scene.pair_geom[p, 0]
            b = scene.pair_geom[p, 1]
            if not is_general(scene.geom_type[a]) and not is_general(scene.geom_type[b]):
                row = w % geom_size.shape[0]
                X_a = laws.geom_pose_world(scene, geom_pose, link_X, w, a)
                X_b = laws.geom_pose_world(scene, geom_pose, link_X, w, b)
                feature = contacts.feature[w, c]
                g = d_features.evaluate(
                    scene.geom_type[a], X_a, geom_size[row, a], scene.geom_type[b], X_b, geom_size[row, b], feature
                )
                phi[w, c] = g.phi
                point[w, c] = g.point
                frame[w, c] = d_features.contact_frame(g.normal)

    @wp.kernel(module=module)
    def contact_jacobian(
        topology: Topology,
        scene: Scene,
        contacts: Contacts,
        link_X: wp.array2d(dtype=transform),
        dof_S: wp.array2d(dtype=vec6),
        point: wp.array2d(dtype=vec3),
        frame: wp.array2d(dtype=mat33),
        chosen: wp.array2d(dtype=int),
        choice: int,
        # out
        J: wp.array4d(dtype=S),
    ):
        """Jacobians of the chosen contacts. Launch over (worlds, max_contacts)."""
        w, c = wp.tid()
        if c < contacts.count[w] and chosen[w, c] == choice:
            p = contacts.pair[w, c]
            for k in range(scene.support_size[p]):
                d = scene.support[p, k]
                root = topology.tree_reference[topology.link_tree[topology.dof_link[d]]]
                arm = point[w, c] - wp.transform_get_translation(link_X[w, root])
                u = scene.support_sign[p, k] * sp.velocity_at(dof_S[w, d], arm)
                local = wp.transpose(frame[w, c]) * u
                J[w, c, 0, k] = local[0]
                J[w, c, 1, k] = local[1]
                J[w, c, 2, k] = local[2]

    @wp.kernel(module=module)
    def composite_inertia(
        topology: Topology,
        link_I: wp.array2d(dtype=vec10),
        # out
        composite: wp.array2d(dtype=vec10),
    ):
        """Inertia of every subtree; `composite` comes in as zero. Launch over (worlds, trees)."""
        w, tree = wp.tid()
        end = topology.tree_link[tree + 1]
        for k in range(end - topology.tree_link[tree]):
            l = end - 1 - k
            composite[w, l] += link_I[w, l]
            parent = topology.link_parent[l]
            if parent >= 0:
                composite[w, parent] += composite[w, l]

    @wp.kernel(module=module)
    def mass_entries(
        topology: Topology,
        ancestor: wp.array2d(dtype=int),
        armature: wp.array2d(dtype=S),
        dof_S: wp.array2d(dtype=vec6),
        composite: wp.array2d(dtype=vec10),
        # out
        M: wp.array3d(dtype=S),
    ):
        """M_de, by trees, for e = d or an ancestor of d; other entries are not written. Launch over (worlds, nv)."""
        w, d = wp.tid()
        begin = topology.dof_begin[d]
        f = sp.momentum(composite[w, topology.dof_link[d]], dof_S[w, d])
        for k in range(d - begin):
            if ancestor[d, k] != 0:
                M[w, d, k] = wp.dot(dof_S[w, begin + k], f)
        M[w, d, d - begin] = wp.dot(dof_S[w, d], f) + armature[w % armature.shape[0], d]

    @wp.kernel(module=module)
    def row_jacobian(
        table: Rows,
        joint_type: wp.array(dtype=int),
        joint_q: wp.array(dtype=int),
        q: wp.array2d(dtype=S),
        # out
        J: wp.array3d(dtype=S),
    ):
        """Jacobian of active rows; only a ball joint's stop depends on q. Launch over (worlds, joint rows)."""
        w, k = wp.tid()
        if table.R[w, k] > S(0.0):
            joint = table.joint[k]
            turning = int(0)
            if table.kind[k] != rows.DRY_FRICTION and joint_type[joint] == joints.BALL:
                turn = jt.quaternion_log(jt.read_quaternion(q, w, joint_q[joint]))
                angle = wp.length(turn)
                if angle > S(0.0):
                    turning = 1
                    for i in range(3):
                        J[w, k, i] = -turn[i] / angle
            if turning == 0:
                for i in range(table.support_size[k]):
                    J[w, k, i] = table.J[w, k, i]

    # ---- residual: from Jacobians, weights and velocities to r ------------------------------------------------------

    @wp.kernel(module=module)
    def acceleration(h: S, v0: wp.array2d(dtype=S), v: wp.array2d(dtype=S), a: wp.array2d(dtype=S)):
        """a = (v - v0)/h. Launch over (worlds, nv)."""
        w, d = wp.tid()
        a[w, d] = (v[w, d] - v0[w, d]) / h

    @wp.kernel(module=module)
    def smooth_residual(
        h: S,
        inverse_dynamics: wp.array2d(dtype=S),
        D: wp.array2d(dtype=S),
        force: wp.array2d(dtype=S),
        v: wp.array2d(dtype=S),
        # out
        r: wp.array2d(dtype=S),
    ):
        """r = h (RNEA + D v - force). Launch over (worlds, nv)."""
        w, d = wp.tid()
        r[w, d] = h * (inverse_dynamics[w, d] + D[w, d] * v[w, d] - force[w, d])

    @wp.kernel(module=module)
    def contact_rate(
        scene: Scene,
        contacts: Contacts,
        J: wp.array4d(dtype=S),
        v: wp.array2d(dtype=S),
        # out
        v_c: wp.array2d(dtype=vec3),
    ):
        """v_c = J v; `v_c` comes in as zero. Launch over (worlds, max_contacts)."""
        w, c = wp.tid()
        if c < contacts.count[w]:
            p = contacts.pair[w, c]
            for k in range(scene.support_size[p]):
                d = scene.support[p, k]
                v_c[w, c] += vec3(J[w, c, 0, k], J[w, c, 1, k], J[w, c, 2, k]) * v[w, d]

    @wp.kernel(module=module)
    def contact_impulse(
        scene: Scene,
        contacts: Contacts,
        friction: wp.array2d(dtype=S),
        stiffness: wp.array2d(dtype=S),
        dissipation_time: wp.array2d(dtype=S),
        h: S,
        beta: S,
        sigma: S,
        weight: wp.array2d(dtype=S),
        phi: wp.array2d(dtype=S),
        v_c: wp.array2d(dtype=vec3),
        # out
        gamma: wp.array2d(dtype=vec3),
    ):
        """gamma = P(-R^-1 (v_c - v_hat)) with R and v_hat from the physical parameters. (worlds, max_contacts)."""
        w, c = wp.tid()
        if c < contacts.count[w]:
            p = contacts.pair[w, c]
            law = laws.pair_compliance(scene, stiffness, dissipation_time, w, p, beta * h / S(wp.pi))
            R_free = d_cone.contact_regularization(weight[w, c], phi[w, c], law[0], law[1], h, beta, sigma)
            v_free = d_cone.contact_stabilization(phi[w, c], law[1], h)
            recovery = laws.pair_recovery(scene, law[0])
            R = d_cone.recovery_regularization(R_free, v_free, recovery)
            v_hat = d_cone.recovery_stabilization(v_free, recovery)
            mu = laws.friction_coefficient(scene, friction, w, p)
            gamma[w, c] = d_cone.cone_impulse(d_cone.cone_y(v_c[w, c], v_hat, R), R, mu)

    @wp.kernel(module=module)
    def contact_residual(
        scene: Scene,
        contacts: Contacts,
        J: wp.array4d(dtype=S),
        gamma: wp.array2d(dtype=vec3),
        # out
        r: wp.array2d(dtype=S),
    ):
        """r -= J^T gamma. Launch over (worlds, max_contacts)."""
        w, c = wp.tid()
        if c < contacts.count[w]:
            p = contacts.pair[w, c]
            for k in range(scene.support_size[p]):
                g = gamma[w, c]
                x = J[w, c, 0, k] * g[0] + J[w, c, 1, k] * g[1] + J[w, c, 2, k] * g[2]
                wp.atomic_add(r, w, scene.support[p, k], -x)

    @wp.kernel(module=module)
    def row_residual(
        table: Rows,
        joint_type: wp.array(dtype=int),
        joint_q: wp.array(dtype=int),
        joint_range: wp.array3d(dtype=S),
        joint_friction: wp.array2d(dtype=S),
        h: S,
        sigma: S,
        row_J: wp.array3d(dtype=S),
        weight: wp.array2d(dtype=S),
        q: wp.array2d(dtype=S),
        v: wp.array2d(dtype=S),
        # out
        r: wp.array2d(dtype=S),
    ):
        """r -= J^T gamma of one scalar row; which rows are active is frozen. Launch over (worlds, rows)."""
        w, k = wp.tid()
        if table.R[w, k] > S(0.0):
            joint = table.joint[k]
            dof = table.support[k, 0]
            kind = table.kind[k]
            if kind == rows.DRY_FRICTION:
                bound = h * joint_friction[w % joint_friction.shape[0], dof]
                y = -v[w, dof] / (sigma * weight[w, k])
                wp.atomic_add(r, w, dof, -d_box.box_impulse(y, -bound, bound))
            else:
                i = joint_q[joint]
                bounds = w % joint_range.shape[0]
                distance = S(0.0)
                if joint_type[joint] == joints.BALL:
                    angle = wp.length(jt.quaternion_log(jt.read_quaternion(q, w, i)))
                    distance = joint_range[bounds, joint, 1] - angle
                elif kind == rows.LOWER:
                    distance = q[w, i] - joint_range[bounds, joint, 0]
                else:
                    distance = joint_range[bounds, joint, 1] - q[w, i]
                law = stop_law(weight[w, k], distance, S(0.0), S(wp.nan), h, table.recovery[k], S(wp.inf), S(wp.inf))
                if joint_type[joint] == joints.BALL:
                    J = vec3(row_J[w, k, 0], row_J[w, k, 1], row_J[w, k, 2])
                    rate = J[0] * v[w, dof] + J[1] * v[w, dof + 1] + J[2] * v[w, dof + 2]
                    g = d_box.box_impulse((law[1] - rate) / law[0], S(0.0), S(wp.inf))
                    wp.atomic_add(r, w, dof, -J[0] * g)
                    wp.atomic_add(r, w, dof + 1, -J[1] * g)
                    wp.atomic_add(r, w, dof + 2, -J[2] * g)
                else:
                    g = d_box.box_impulse((law[1] - row_J[w, k, 0] * v[w, dof]) / law[0], S(0.0), S(wp.inf))
                    wp.atomic_add(r, w, dof, -row_J[w, k, 0] * g)

    # ---- untaped parts of the backward pass -------------------------------------------------------------------------

    @wp.func
    def add_mass_adjoint(
        topology: Topology,
        ancestor: wp.array2d(dtype=int),
        z: wp.array2d(dtype=vec3),
        w: int,
        nv: int,
        G: mat33,
        M_bar: wp.array3d(dtype=S),
    ):
        """M_bar -= Y G Y^T on the entries that `mass_entries` writes; each off-diagonal one stands for two."""
        for d in range(nv):
            x = G * z[w, d]
            begin = topology.dof_begin[d]
            diagonal = d - begin
            for k in range(diagonal):
                if ancestor[d, k] != 0:
                    M_bar[w, d, k] = M_bar[w, d, k] - S(2.0) * wp.dot(x, z[w, begin + k])
            M_bar[w, d, diagonal] = M_bar[w, d, diagonal] - wp.dot(x, z[w, d])

    @wp.kernel(module=module_name("residual", S), enable_backward=False)
    def weight_adjoint(
        topology: Topology,
        scene: Scene,
        contacts: Contacts,
        table: Rows,
        ancestor: wp.array2d(dtype=int),
        M_factor: wp.array3d(dtype=S),
        J: wp.array4d(dtype=S),
        weight: wp.array2d(dtype=S),
        weight_bar: wp.array2d(dtype=S),
        row_weight_bar: wp.array2d(dtype=S),
        # scratch
        z: wp.array2d(dtype=vec3),
        # out
        J_bar: wp.array4d(dtype=S),
        row_J_bar: wp.array3d(dtype=S),
        M_bar: wp.array3d(dtype=S),
    ):
        """Adds the gradient of the contact and row weights to those of J and M. Launch over worlds."""
        w = wp.tid()
        nv = z.shape[1]
        for c in range(contacts.count[w]):
            if weight_bar[w, c] != S(0.0):
                p = contacts.pair[w, c]
                for d in range(nv):
                    z[w, d] = vec3(S(0.0), S(0.0), S(0.0))
                for k in range(scene.support_size[p]):
                    z[w, scene.support[p, k]] = vec3(J[w, c, 0, k], J[w, c, 1, k], J[w, c, 2, k])
                W = inverse_mass_times(topology, M_factor, z, w, 0, nv)
                G = W * (weight_bar[w, c] / (S(9.0) * wp.max(weight[w, c], S(cone.INVERSE_MASS_FLOOR))))
                for k in range(scene.support_size[p]):
                    x = S(2.0) * (G * z[w, scene.support[p, k]])
                    for i in range(3):
                        J_bar[w, c, i, k] = J_bar[w, c, i, k] + x[i]
                add_mass_adjoint(topology, ancestor, z, w, nv, G, M_bar)
        for k in range(table.support.shape[0]):
            if table.R[w, k] > S(0.0) and row_weight_bar[w, k] != S(0.0):
                for d in range(nv):
                    z[w, d] = vec3(S(0.0), S(0.0), S(0.0))
                for i in range(table.support_size[k]):
                    z[w, table.support[k, i]] = vec3(table.J[w, k, i], S(0.0), S(0.0))
                W = inverse_mass_times(topology, M_factor, z, w, 0, nv)
                G = mat33()
                G[0, 0] = row_weight_bar[w, k]
                for i in range(table.support_size[k]):
                    J_k = S(2.0) * row_weight_bar[w, k] * z[w, table.support[k, i]][0]
                    row_J_bar[w, k, i] = row_J_bar[w, k, i] + J_k
                add_mass_adjoint(topology, ancestor, z, w, nv, G, M_bar)

    return SimpleNamespace(
        contact_geometry=contact_geometry,
        contact_jacobian=contact_jacobian,
        composite_inertia=composite_inertia,
        mass_entries=mass_entries,
        row_jacobian=row_jacobian,
        acceleration=acceleration,
        smooth_residual=smooth_residual,
        contact_rate=contact_rate,
        contact_impulse=contact_impulse,
        contact_residual=contact_residual,
        row_residual=row_residual,
        weight_adjoint=weight_adjoint,
    )
