# SPDX-License-Identifier: Apache-2.0
"""The optimality residual of one step, written to be taped: gradients of a step are those of its equations.

    r(v; q, v0, tau, p) = h RNEA(q, v0, (v - v0)/h) + h D v - h force(q, v0) - J^T gamma(J v; R, v_hat, mu) - rows = 0

This is A (v - v*) - J^T gamma, but A is never formed (theory §3.5, §7). Contact features are frozen. The effective
inverse mass w of a contact enters R as a value. `weight_adjoint` adds its derivative dw = 2 G : (dJ Y) - (Y G Y^T) :
dM, Y = M^-1 J^T, G = W / (9 w), between the two halves of the tape.
"""

import warp as wp

from ..contact import contacts as contact
from ..contact import pair_laws
from ..contact.narrow import features
from ..contact.narrow.manifold import is_general
from ..contact.pair_laws import Contacts, Scene
from ..contact.stribeck import Friction, sliding_pair
from ..laws import cone
from ..laws.contact_law import sliding_friction_of
from ..real import func, kernel, mat33, real, struct, transform, vec3, vec6, vec10
from ..rows.table import Rows
from ..tree import joints
from ..tree import spatial as sp
from ..tree.effective_mass import inverse_mass_times
from ..tree.passes import Topology
from ..tree.plant import Plant
from .tree_adjoint import product_gradient


@kernel(taped=True)
def contact_geometry(
    scene: Scene,
    contacts: Contacts,
    plant: Plant,
    link_X: wp.array2d(dtype=transform),
    # out
    phi: wp.array2d(dtype=real),
    point: wp.array2d(dtype=vec3),
    frame: wp.array2d(dtype=mat33),
):
    """Distance, point and frame of every simple contact, with features frozen. Launch over (worlds, max_contacts)."""
    w, c = wp.tid()
    if c < contacts.count[w]:
        p = contacts.pair[w, c]
        a = scene.pair_geom[p, 0]
        b = scene.pair_geom[p, 1]
        if p < scene.point_pairs and not is_general(scene.geom_type[a]) and not is_general(scene.geom_type[b]):
            size = plant.geom_size
            row = w % size.shape[0]
            X_a = contact.geom_pose_world(scene, plant, link_X, w, a)
            X_b = contact.geom_pose_world(scene, plant, link_X, w, b)
            feature = contacts.feature[w, c]
            g = features.evaluate(scene.geom_type[a], X_a, size[row, a], scene.geom_type[b], X_b, size[row, b], feature)
            phi[w, c] = g.phi - pair_laws.parameter_margin(scene, w, p)
            point[w, c] = g.point
            frame[w, c] = features.contact_frame(g.normal)


@kernel(taped=True)
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
    J: wp.array4d(dtype=real),
):
    """Jacobians of the contacts with chosen = choice. Launch over (worlds, max_contacts)."""
    w, c = wp.tid()
    if c < contacts.count[w] and chosen[w, c] == choice:
        p = contacts.row[w, c]
        for k in range(scene.support_size[p]):
            d = scene.support[p, k]
            root = topology.tree_reference[topology.link_tree[topology.dof_link[d]]]
            arm = point[w, c] - wp.transform_get_translation(link_X[w, root])
            u = scene.support_sign[p, k] * sp.velocity_at(dof_S[w, d], arm)
            local = wp.transpose(frame[w, c]) * u
            J[w, c, 0, k] = local[0]
            J[w, c, 1, k] = local[1]
            J[w, c, 2, k] = local[2]


@kernel
def mass_entries(
    topology: Topology,
    ancestor: wp.array2d(dtype=int),
    armature: wp.array2d(dtype=real),
    dof_S: wp.array2d(dtype=vec6),
    composite: wp.array2d(dtype=vec10),
    # out
    M: wp.array3d(dtype=real),
):
    """M_de, by trees, for e = d or an ancestor of d; other entries are not written. Launch over (worlds, nv)."""
    w, d = wp.tid()
    begin = topology.dof_begin[d]
    f = sp.momentum(composite[w, topology.dof_link[d]], dof_S[w, d])
    for k in range(d - begin):
        if ancestor[d, k] != 0:
            M[w, d, k] = wp.dot(dof_S[w, begin + k], f)
    M[w, d, d - begin] = wp.dot(dof_S[w, d], f) + armature[w % armature.shape[0], d]


@kernel
def mass_adjoint(
    topology: Topology,
    ancestor: wp.array2d(dtype=int),
    dof_S: wp.array2d(dtype=vec6),
    composite: wp.array2d(dtype=vec10),
    M_bar: wp.array3d(dtype=real),
    # scratch
    pushed: wp.array2d(dtype=vec10),
    # out
    S_bar: wp.array2d(dtype=vec6),
    I_bar: wp.array2d(dtype=vec10),
    armature_bar: wp.array2d(dtype=real),
):
    """Add the gradient of `mass_entries`, including its sums over subtrees. `armature_bar` may be empty.

    Launch over (worlds, trees).
    """
    w, tree = wp.tid()
    for l in range(topology.tree_link[tree], topology.tree_link[tree + 1]):
        parent = topology.link_parent[l]
        I_l = vec10()
        if parent >= 0:
            I_l = pushed[w, parent]
        j = topology.link_v[l]
        for d in range(j, j + joints.dofs(topology.link_type[l])):
            begin = topology.dof_begin[d]
            S = dof_S[w, d]
            f = sp.momentum(composite[w, l], S)
            m = M_bar[w, d, d - begin]
            a = m * S
            for k in range(d - begin):
                x = M_bar[w, d, k]
                if ancestor[d, k] != 0 and x != real(0.0):
                    a += x * dof_S[w, begin + k]
                    S_bar[w, begin + k] = S_bar[w, begin + k] + x * f
            S_bar[w, d] = S_bar[w, d] + sp.momentum(composite[w, l], a) + m * f
            I_l += product_gradient(a, S)
            if armature_bar.shape[0] > 0:
                armature_bar[w, d] = armature_bar[w, d] + m
        pushed[w, l] = I_l
        I_bar[w, l] = I_bar[w, l] + I_l


@kernel(taped=True)
def smooth_residual(
    h: real,
    inverse_dynamics: wp.array2d(dtype=real),
    D: wp.array2d(dtype=real),
    force: wp.array2d(dtype=real),
    v: wp.array2d(dtype=real),
    # out
    r: wp.array2d(dtype=real),
):
    """r = h (RNEA + D v - force). Launch over (worlds, nv)."""
    w, d = wp.tid()
    r[w, d] = h * (inverse_dynamics[w, d] + D[w, d] * v[w, d] - force[w, d])


@kernel(taped=True)
def contact_rate(
    scene: Scene,
    contacts: Contacts,
    J: wp.array4d(dtype=real),
    v: wp.array2d(dtype=real),
    # out
    v_c: wp.array2d(dtype=vec3),
):
    """v_c = J v. The caller zeroes `v_c`. Launch over (worlds, slots): contacts, then their spin rows."""
    w, c = wp.tid()
    of = c % contacts.pair.shape[1]
    if of < contacts.count[w]:
        p = contacts.row[w, of]
        for k in range(scene.support_size[p]):
            d = scene.support[p, k]
            v_c[w, c] += vec3(J[w, c, 0, k], J[w, c, 1, k], J[w, c, 2, k]) * v[w, d]


@kernel(taped=True)
def contact_friction(
    scene: Scene,
    contacts: Contacts,
    of: Friction,
    rate0: wp.array2d(dtype=vec3),
    # out
    mu: wp.array2d(dtype=real),
):
    """μ of every contact: that of its pair; where it depends on the sliding speed, at its rate when the step begins.

    Launch over (worlds, max_contacts).
    """
    w, c = wp.tid()
    if c < contacts.count[w]:
        rate = vec3()
        if of.slides == 1:
            rate = rate0[w, c]
        mu[w, c] = sliding_friction_of(sliding_pair(scene, of, w, contacts.pair[w, c], rate))


@kernel(taped=True)
def contact_residual(
    scene: Scene,
    contacts: Contacts,
    J: wp.array4d(dtype=real),
    gamma: wp.array2d(dtype=vec3),
    # out
    r: wp.array2d(dtype=real),
):
    """r -= J^T gamma. Launch over (worlds, slots): contacts, then their spin rows."""
    w, c = wp.tid()
    of = c % contacts.pair.shape[1]
    if of < contacts.count[w]:
        p = contacts.row[w, of]
        for k in range(scene.support_size[p]):
            g = gamma[w, c]
            x = J[w, c, 0, k] * g[0] + J[w, c, 1, k] * g[1] + J[w, c, 2, k] * g[2]
            wp.atomic_add(r, w, scene.support[p, k], -x)


@func
def add_mass_adjoint(
    topology: Topology,
    ancestor: wp.array2d(dtype=int),
    z: wp.array2d(dtype=vec3),
    w: int,
    nv: int,
    G: mat33,
    M_bar: wp.array3d(dtype=real),
):
    """M_bar -= Y G Y^T on the entries that `mass_entries` writes. Each off-diagonal entry stands for two."""
    for d in range(nv):
        x = G * z[w, d]
        begin = topology.dof_begin[d]
        diagonal = d - begin
        for k in range(diagonal):
            if ancestor[d, k] != 0:
                M_bar[w, d, k] = M_bar[w, d, k] - real(2.0) * wp.dot(x, z[w, begin + k])
        M_bar[w, d, diagonal] = M_bar[w, d, diagonal] - wp.dot(x, z[w, d])


@struct
class WeightBars:
    """Gradients of the weights of contacts and rows, and of the arrays that the weights follow from."""

    weight: wp.array2d(dtype=real)
    row_weight: wp.array2d(dtype=real)
    J: wp.array4d(dtype=real)
    row_J: wp.array3d(dtype=real)
    M: wp.array3d(dtype=real)


@kernel
def weight_adjoint(
    topology: Topology,
    scene: Scene,
    contacts: Contacts,
    table: Rows,
    ancestor: wp.array2d(dtype=int),
    M_factor: wp.array3d(dtype=real),
    J: wp.array4d(dtype=real),
    weight: wp.array2d(dtype=real),
    # scratch
    z: wp.array2d(dtype=vec3),
    # in and out
    bars: WeightBars,
):
    """Add the gradient of the contact and row weights to those of J and M. Launch over worlds."""
    w = wp.tid()
    nv = z.shape[1]
    for c in range(contacts.count[w]):
        if bars.weight[w, c] != real(0.0):
            p = contacts.row[w, c]
            for d in range(nv):
                z[w, d] = vec3(real(0.0), real(0.0), real(0.0))
            for k in range(scene.support_size[p]):
                z[w, scene.support[p, k]] = vec3(J[w, c, 0, k], J[w, c, 1, k], J[w, c, 2, k])
            W = inverse_mass_times(topology, M_factor, z, w, 0, nv)
            G = W * (bars.weight[w, c] / (real(9.0) * wp.max(weight[w, c], real(cone.INVERSE_MASS_FLOOR))))
            for k in range(scene.support_size[p]):
                x = real(2.0) * (G * z[w, scene.support[p, k]])
                for i in range(3):
                    bars.J[w, c, i, k] = bars.J[w, c, i, k] + x[i]
            add_mass_adjoint(topology, ancestor, z, w, nv, G, bars.M)
    for k in range(table.support.shape[0]):
        if table.R[w, k] > real(0.0) and bars.row_weight[w, k] != real(0.0):
            for d in range(nv):
                z[w, d] = vec3(real(0.0), real(0.0), real(0.0))
            for i in range(table.support_size[k]):
                z[w, table.support[k, i]] = vec3(table.J[w, k, i], real(0.0), real(0.0))
            W = inverse_mass_times(topology, M_factor, z, w, 0, nv)
            G = mat33()
            G[0, 0] = bars.row_weight[w, k]
            for i in range(table.support_size[k]):
                J_k = real(2.0) * bars.row_weight[w, k] * z[w, table.support[k, i]][0]
                bars.row_J[w, k, i] = bars.row_J[w, k, i] + J_k
            add_mass_adjoint(topology, ancestor, z, w, nv, G, bars.M)
