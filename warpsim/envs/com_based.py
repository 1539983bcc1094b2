"""MuJoCo's quantities about the centre of mass of a robot's whole tree, as Gymnasium's Ant and Humanoid observe them.

All in world axes, about c, the centre of mass of the body's tree (`subtree_com` of its root):

    centre_inertia   Ixx Iyy Izz Ixy Ixz Iyz, m (x − c), m    (cinert)
    centre_velocity  ω, velocity of the point of the body at c (cvel)
    centre_wrench    torque, force of contact                  (cfrc_ext)
    joint_forces     of the actuators on the joints            (qfrc_actuator)
"""

import numpy as np

from warpsim.envs.rotations import cross, matrix, rotated


def _centres(view):
    """Centres of mass of bodies, of their trees and of everything, `(worlds, nbody, 3)` twice and `(worlds, 3)`."""

    def make():
        xp, poses = view.xp, view.poses
        mass = view.parameter("body_mass")[..., None] + 0.0 * poses[..., :1]
        com = poses[..., :3] + rotated(xp, poses[..., 3:], view.parameter("body_com") + 0.0 * poses[..., :3])
        trees = view.model.link_tree[view.model.body_link]
        parts = []
        for tree in range(int(trees.max(initial=-1)) + 1):
            bodies = np.flatnonzero(trees == tree)
            weight = mass[:, bodies].sum(1)
            centre = (mass[:, bodies] * com[:, bodies]).sum(1) / xp.where(weight > 0.0, weight, 1.0)
            parts.append(xp.where(weight > 0.0, centre, com[:, int(bodies[0])]))
        tree_com = xp.stack([parts[t] for t in trees], axis=1)
        return com, tree_com, (mass * com).sum(1) / mass.sum(1)

    return view._once("centres", make)


def centre_of_mass(view):
    """Of all bodies `(worlds, 3)` [m]."""
    return _centres(view)[2]


def centre_inertia(view):
    """`(worlds, nbody, 10)`."""
    xp, (com, tree, _) = view.xp, _centres(view)
    d, R = com - tree, matrix(xp, view.poses[..., 3:])
    mass = view.parameter("body_mass") + 0.0 * d[..., 0]
    own = R @ (view.parameter("body_inertia") + 0.0 * R) @ xp.swapaxes(R, -1, -2)
    x, y, z = (d[..., i] for i in range(3))
    turning = [
        own[..., 0, 0] + mass * (y * y + z * z),
        own[..., 1, 1] + mass * (x * x + z * z),
        own[..., 2, 2] + mass * (x * x + y * y),
        own[..., 0, 1] - mass * x * y,
        own[..., 0, 2] - mass * x * z,
        own[..., 1, 2] - mass * y * z,
    ]
    return xp.stack([*turning, mass * x, mass * y, mass * z, mass], axis=-1)


def centre_velocity(view):
    """`(worlds, nbody, 6)`."""
    _, tree, _ = _centres(view)
    turning, moving = view.velocities[..., :3], view.velocities[..., 3:]
    arm = tree - view.poses[..., :3]
    return view.xp.concat([turning, moving + cross(view.xp, turning, arm)], axis=-1)


def centre_wrench(view):
    """`(worlds, nbody, 6)` of the last step's contacts."""
    com, tree, _ = _centres(view)
    torque, force = view.contact_wrench[..., :3], view.contact_wrench[..., 3:]
    return view.xp.concat([torque + cross(view.xp, com - tree, force), force], axis=-1)


def joint_forces(view):
    """`(worlds, nv)` of the actuators on joints, at the present state and control; those on tendons are refused."""
    m, xp = view.model, view.xp
    if (m.actuator_joint < 0).any():
        name = m.actuator_names[int(np.flatnonzero(m.actuator_joint < 0)[0])]
        raise ValueError(f"joint_forces: actuator {name!r} pulls a tendon; leave this observation out")
    gain, bias = view.parameter("actuator_gain"), view.parameter("actuator_bias")
    control_range, force_range = view.parameter("control_range"), view.parameter("force_range")
    control = xp.clip(view.control, control_range[..., 0], control_range[..., 1])
    columns = [view.columns(m.joint_names[j]) for j in m.actuator_joint]
    total = [0.0 * view.v[:, i] for i in range(m.nv)]
    for a, (q, v) in enumerate(columns):
        length = speed = 0.0
        if len(v) == 1:
            ratio = float(m.actuator_gear[a, 0])
            length, speed = ratio * view.q[:, int(q[0])], ratio * view.v[:, int(v[0])]
        k, b = gain[:, a], bias[:, a]
        force = (
            (k[:, 0] + k[:, 1] * length + k[:, 2] * speed) * control[:, a]
            + b[:, 0]
            + b[:, 1] * length
            + b[:, 2] * speed
        )
        force = xp.clip(force, force_range[:, a, 0], force_range[:, a, 1])
        for i, column in enumerate(v):
            total[column] = total[column] + float(m.actuator_gear[a, i]) * force
    return xp.stack(total, axis=-1)
