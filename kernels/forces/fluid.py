# SPDX-License-Identifier: Apache-2.0
"""Forces of a medium with density ρ, viscosity η and wind on bodies: MuJoCo's two models (its documentation, *Passive
forces*).

A body is represented by the box with its inertia, or by one ellipsoid per geom. The laws are functions of the velocity
(ω, v) of the shape relative to the medium, in the shape's axes at its center. They are quadratic near rest. Roots are
taken only of the direction of v, so that gradients are finite at v = 0. May be taped.
"""

import warp as wp

from ..number.num import num, num3, num6, rate_of, value_of, with_rates
from ..real import func, kernel, quat, real, struct, transform, vec3, vec6
from ..tree import joints
from ..tree import spatial as sp
from ..tree.passes import Topology, reference_point
from ..tree.plant import Plant

BOX = wp.constant(-1)  # in place of a geom: the shape is the inertia box of its body

# Columns of `Shapes.coefficients`, as in MuJoCo's geom_fluid.
INTERACTION = wp.constant(0)
BLUNT_DRAG = wp.constant(1)
SLENDER_DRAG = wp.constant(2)
ANGULAR_DRAG = wp.constant(3)
KUTTA_LIFT = wp.constant(4)
MAGNUS_LIFT = wp.constant(5)
ADDED_MASS = wp.constant(6)  # [m^3] along each axis
ADDED_INERTIA = wp.constant(9)  # [m^5]


@struct
class Shapes:
    """The shapes on which the medium acts."""

    body: wp.array(dtype=int)
    geom: wp.array(dtype=int)  # BOX: the inertia box of the body
    size: wp.array(dtype=vec3)  # widths of a box, semi-axes of an ellipsoid [m]
    axes: wp.array(dtype=quat)  # orientation of a box in its body
    coefficients: wp.array2d(dtype=real)


@struct
class Medium:
    """Parameters of the medium, one row for all worlds or one per world."""

    density: wp.array(dtype=real)
    viscosity: wp.array(dtype=real)
    wind: wp.array(dtype=vec3)


@func
def quartic(x: real) -> real:
    return x * x * x * x


@func
def join(a: num3, b: num3) -> num6:
    return num6(a[0], a[1], a[2], b[0], b[1], b[2])


@func
def box_drag(size: vec3, omega: num3, v: num3, density: real, viscosity: real) -> num6:
    """Wrench on the inertia box: Stokes' law for the sphere of its mean width, and drag quadratic in each component."""
    width = (size[0] + size[1] + size[2]) / real(3.0)
    turning = real(wp.pi) * width * width * width * viscosity
    moving = real(3.0) * real(wp.pi) * width * viscosity
    a = quartic(size[0])
    b = quartic(size[1])
    c = quartic(size[2])
    torque = num3(
        num(-density * size[0] * (b + c)) * wp.abs(omega[0]) * omega[0] / num(64.0),
        num(-density * size[1] * (c + a)) * wp.abs(omega[1]) * omega[1] / num(64.0),
        num(-density * size[2] * (a + b)) * wp.abs(omega[2]) * omega[2] / num(64.0),
    )
    force = num3(
        num(-real(0.5) * density * size[1] * size[2]) * wp.abs(v[0]) * v[0],
        num(-real(0.5) * density * size[2] * size[0]) * wp.abs(v[1]) * v[1],
        num(-real(0.5) * density * size[0] * size[1]) * wp.abs(v[2]) * v[2],
    )
    return join(torque - num(turning) * omega, force - num(moving) * v)


@func
def maximal_moment(along: real, x: real, y: real) -> real:
    """Moment coefficient of the drag on an ellipsoid that turns about the semi-axis `along`."""
    return real(8.0) / real(15.0) * real(wp.pi) * along * quartic(wp.max(x, y))


@func
def translation_force(size: vec3, v: num3, coefficients: wp.array2d(dtype=real), e: int, density: real) -> num3:
    """Quadratic drag and Kutta lift of an ellipsoid with velocity v; 0 at rest."""
    speed = wp.length(v)
    force = num3(num(0.0), num(0.0), num(0.0))
    if speed > num(0.0):
        u = v / speed
        areas = vec3(size[1] * size[2], size[2] * size[0], size[0] * size[1])
        squares = wp.cw_mul(areas, areas)
        normal = wp.cw_mul(num3(squares), u)
        numerator = wp.dot(normal, u)
        denominator = wp.dot(normal, normal)
        projected = num(wp.pi) * wp.sqrt(denominator / numerator)
        largest = wp.max(size)
        smallest = wp.min(size)
        most = real(wp.pi) * largest * (size[0] + size[1] + size[2] - largest - smallest)
        blunt = num(coefficients[e, BLUNT_DRAG])
        slender = num(coefficients[e, SLENDER_DRAG])
        drag = blunt * projected + slender * (num(most) - projected)
        lift = num(coefficients[e, KUTTA_LIFT]) * projected * numerator / denominator
        force = num(density) * speed * speed * (lift * wp.cross(wp.cross(normal, u), u) - drag * u)
    return force


@func
def ellipsoid_drag(
    size: vec3, omega: num3, v: num3, coefficients: wp.array2d(dtype=real), e: int, density: real, viscosity: real
) -> num6:
    """Wrench on an ellipsoid: added mass, drag, Kutta lift and Magnus lift."""
    added = vec3(coefficients[e, ADDED_MASS], coefficients[e, ADDED_MASS + 1], coefficients[e, ADDED_MASS + 2])
    turned = vec3(
        coefficients[e, ADDED_INERTIA], coefficients[e, ADDED_INERTIA + 1], coefficients[e, ADDED_INERTIA + 2]
    )
    momentum = num(density) * wp.cw_mul(num3(added), v)
    spin = num(density) * wp.cw_mul(num3(turned), omega)
    width = real(2.0) / real(3.0) * (size[0] + size[1] + size[2])
    largest = wp.max(size)
    smallest = wp.min(size)
    middle = size[0] + size[1] + size[2] - largest - smallest
    most = real(8.0) / real(15.0) * real(wp.pi) * middle * quartic(largest)
    slender = coefficients[e, SLENDER_DRAG]
    share = coefficients[e, ANGULAR_DRAG] - slender
    moments = num3(
        omega[0] * num(share * maximal_moment(size[0], size[1], size[2]) + slender * most),
        omega[1] * num(share * maximal_moment(size[1], size[2], size[0]) + slender * most),
        omega[2] * num(share * maximal_moment(size[2], size[0], size[1]) + slender * most),
    )
    turning = num(viscosity * real(wp.pi) * width * width * width) + num(density) * wp.length(moments)
    volume = real(4.0) / real(3.0) * real(wp.pi) * size[0] * size[1] * size[2]
    magnus = num(coefficients[e, MAGNUS_LIFT] * density * volume) * wp.cross(omega, v)
    torque = wp.cross(momentum, v) + wp.cross(spin, omega) - turning * omega
    force = wp.cross(momentum, omega) + magnus - num(real(3.0) * real(wp.pi) * width * viscosity) * v
    force += translation_force(size, v, coefficients, e, density)
    return num(coefficients[e, INTERACTION]) * join(torque, force)


@func
def shape_pose(topology: Topology, shapes: Shapes, plant: Plant, link_X: wp.array2d(dtype=transform), w: int, e: int):
    """Center and axes of a shape in the world."""
    body = shapes.body[e]
    pose = transform(plant.body_com[w % plant.body_com.shape[0], body], shapes.axes[e])
    if shapes.geom[e] != BOX:
        pose = joints.read_pose(plant.geom_pose, w % plant.geom_pose.shape[0], shapes.geom[e])
    return link_X[w, topology.body_link[body]] * pose


@func
def local_wrench(shapes: Shapes, medium: Medium, w: int, e: int, omega: num3, v: num3) -> num6:
    """The wrench on a shape about its center, in its axes; (ω, v) of it relative to the medium, likewise."""
    rho = medium.density[w % medium.density.shape[0]]
    eta = medium.viscosity[w % medium.viscosity.shape[0]]
    local = num6()
    if shapes.geom[e] == BOX:
        local = box_drag(shapes.size[e], omega, v, rho, eta)
    else:
        local = ellipsoid_drag(shapes.size[e], omega, v, shapes.coefficients, e, rho, eta)
    return local


@func
def about_reference(turn: quat, arm: vec3, torque: vec3, force: vec3) -> vec6:
    """A wrench about o in world axes, from that about a shape's center in its axes."""
    turned = wp.quat_rotate(turn, force)
    return sp.join(wp.quat_rotate(turn, torque) + wp.cross(arm, turned), turned)


@kernel(twin=True)
def shape_wrench(
    topology: Topology,
    shapes: Shapes,
    medium: Medium,
    plant: Plant,
    link_X: wp.array2d(dtype=transform),
    link_V: wp.array2d(dtype=vec6),
    # out
    wrench: wp.array2d(dtype=vec6),
):
    """The medium's wrench on each shape, about o. Launch over (worlds, shapes)."""
    w, e = wp.tid()
    l = topology.body_link[shapes.body[e]]
    X = shape_pose(topology, shapes, plant, link_X, w, e)
    turn = wp.transform_get_rotation(X)
    arm = wp.transform_get_translation(X) - reference_point(topology, link_X, w, l)
    V = link_V[w, l]
    omega = wp.quat_rotate_inv(turn, sp.angular(V))
    v = wp.quat_rotate_inv(turn, sp.velocity_at(V, arm) - medium.wind[w % medium.wind.shape[0]])
    local = local_wrench(shapes, medium, w, e, num3(omega), num3(v))
    torque = vec3(value_of(local[0]), value_of(local[1]), value_of(local[2]))
    force = vec3(value_of(local[3]), value_of(local[4]), value_of(local[5]))
    wrench[w, e] = about_reference(turn, arm, torque, force)


@kernel
def shape_slope(
    topology: Topology,
    shapes: Shapes,
    medium: Medium,
    plant: Plant,
    link_X: wp.array2d(dtype=transform),
    link_V: wp.array2d(dtype=vec6),
    # out
    slope: wp.array3d(dtype=vec6),
):
    """Derivatives of `shape_wrench` with respect to the six components of the link's velocity, in the dual copy.

    Launch over (worlds, shapes, 6).
    """
    w, e, c = wp.tid()
    l = topology.body_link[shapes.body[e]]
    X = shape_pose(topology, shapes, plant, link_X, w, e)
    turn = wp.transform_get_rotation(X)
    arm = wp.transform_get_translation(X) - reference_point(topology, link_X, w, l)
    V = link_V[w, l]
    along = vec6()
    along[c] = real(1.0)
    omega = wp.quat_rotate_inv(turn, sp.angular(V))
    v = wp.quat_rotate_inv(turn, sp.velocity_at(V, arm) - medium.wind[w % medium.wind.shape[0]])
    omega_rate = wp.quat_rotate_inv(turn, sp.angular(along))
    v_rate = wp.quat_rotate_inv(turn, sp.velocity_at(along, arm))
    local = local_wrench(shapes, medium, w, e, with_rates(omega, omega_rate), with_rates(v, v_rate))
    torque = vec3(rate_of(local[0]), rate_of(local[1]), rate_of(local[2]))
    force = vec3(rate_of(local[3]), rate_of(local[4]), rate_of(local[5]))
    slope[w, e, c] = about_reference(turn, arm, torque, force)


@kernel
def add_damping(
    topology: Topology,
    ancestor: wp.array2d(dtype=int),
    alone: wp.array(dtype=int),
    shapes: Shapes,
    tree_shape: wp.array(dtype=int),
    dof_S: wp.array2d(dtype=vec6),
    slope: wp.array3d(dtype=vec6),
    # in and out
    C: wp.array3d(dtype=real),
):
    """C −= Σ Sᵀ B S over the shapes that both dofs move, B symmetrized unless the tree is a free body alone.

    Launch over (worlds, nv).
    """
    w, d = wp.tid()
    tree = topology.link_tree[topology.dof_link[d]]
    begin = topology.tree_v[tree]
    S = dof_S[w, d]
    for i in range(tree_shape[tree], tree_shape[tree + 1]):
        last = topology.link_dof[topology.body_link[shapes.body[i]]]
        if last >= d and ancestor[last, d - begin] != 0:
            across = vec6()
            along = vec6()
            for c in range(6):
                across[c] = wp.dot(S, slope[w, i, c])
                along += slope[w, i, c] * S[c]
            if alone[tree] == 0:
                across = real(0.5) * (across + along)
            for e in range(begin, last + 1):
                if ancestor[last, e - begin] != 0:
                    C[w, d, e - begin] = C[w, d, e - begin] - wp.dot(across, dof_S[w, e])


@kernel(twin=True)
def add_force(
    topology: Topology,
    shapes: Shapes,
    tree_shape: wp.array(dtype=int),
    dof_S: wp.array2d(dtype=vec6),
    wrench: wp.array2d(dtype=vec6),
    tau: wp.array2d(dtype=real),
    # scratch
    link_F: wp.array2d(dtype=vec6),
    # out
    force: wp.array2d(dtype=real),
):
    """force = tau + the generalized force of the medium: Sᵀ times the sum over each subtree. Shapes are sorted by tree.
    Launch over (worlds, trees)."""
    w, tree = wp.tid()
    end = topology.tree_link[tree + 1]
    for l in range(topology.tree_link[tree], end):
        link_F[w, l] = vec6()
    for e in range(tree_shape[tree], tree_shape[tree + 1]):
        link_F[w, topology.body_link[shapes.body[e]]] += wrench[w, e]
    for k in range(end - topology.tree_link[tree]):
        l = end - 1 - k
        for i in range(joints.dofs(topology.link_type[l])):
            d = topology.link_v[l] + i
            force[w, d] = tau[w, d] + wp.dot(dof_S[w, d], link_F[w, l])
        if topology.link_parent[l] >= 0:
            link_F[w, topology.link_parent[l]] += link_F[w, l]
