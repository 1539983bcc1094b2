# SPDX-License-Identifier: Apache-2.0
"""MuJoCo's quantities about the center of mass of a robot's tree, as Gymnasium's Ant and Humanoid observe them.

All are in world axes, about c, the center of mass of the body's tree (`subtree_com` of its root):

    centre_inertia   Ixx Iyy Izz Ixy Ixz Iyz, m (x − c), m             (cinert)
    centre_velocity  ω, and the velocity of the body's point at c      (cvel)
    centre_wrench    contact torque, contact force                     (cfrc_ext)
    joint_forces     actuator forces on the joints                     (qfrc_actuator)
"""

import numpy as np


def centre_of_mass(view):
    """Observation: center of mass of all bodies.

    Parameters
    ----------
    view : View
        The worlds.

    Returns
    -------
    array (worlds, 3)
        World axes [m].

    Examples
    --------
    >>> task = ws.envs.Task(model=ws.robots.path("ant"), observations={"com": ws.envs.com_based.centre_of_mass})
    >>> ws.envs.VectorEnv(task, 1, device="cpu").reset()[0].shape
    (1, 3)
    """
    centre = view.about_centre[3]
    return (centre[..., :1] * centre[..., 1:]).sum(1) / centre[..., :1].sum(1)


def centre_wrench(view):
    """Contact wrenches of the last physics step about the tree's center of mass, MuJoCo's `cfrc_ext`.

    Parameters
    ----------
    view : View
        The worlds.

    Returns
    -------
    array (worlds, nbody, 6)
        Torque [N m], then force [N], world axes.

    Examples
    --------
    >>> task = ws.envs.Task(model=ws.robots.path("ant"), observations={"q": lambda s: s.q})
    >>> ws.envs.com_based.centre_wrench(ws.envs.VectorEnv(task, 1, device="cpu").view).shape
    (1, 9, 6)
    """
    return view.about_centre[0]


def centre_inertia(view):
    """Inertias of the bodies about the tree's center of mass, MuJoCo's `cinert`.

    Parameters
    ----------
    view : View
        The worlds.

    Returns
    -------
    array (worlds, nbody, 10)
        Ixx Iyy Izz Ixy Ixz Iyz [kg m²], m (x − c) [kg m], m [kg], world axes, with mass m, the body's center of mass x
        and the tree's c.

    Examples
    --------
    >>> task = ws.envs.Task(model=ws.robots.path("ant"), observations={"q": lambda s: s.q})
    >>> ws.envs.com_based.centre_inertia(ws.envs.VectorEnv(task, 1, device="cpu").view).shape
    (1, 9, 10)
    """
    return view.about_centre[1]


def centre_velocity(view):
    """Velocities of the bodies at the tree's center of mass, MuJoCo's `cvel`.

    Parameters
    ----------
    view : View
        The worlds.

    Returns
    -------
    array (worlds, nbody, 6)
        Angular velocity [rad/s], then the velocity of the body's point at the tree's center of mass [m/s], world axes.

    Examples
    --------
    >>> task = ws.envs.Task(model=ws.robots.path("ant"), observations={"q": lambda s: s.q})
    >>> ws.envs.com_based.centre_velocity(ws.envs.VectorEnv(task, 1, device="cpu").view).shape
    (1, 9, 6)
    """
    return view.about_centre[2]


def joint_forces(view):
    """Forces of actuators on joints at the present state and control, MuJoCo's `qfrc_actuator`.

    Parameters
    ----------
    view : View
        The worlds.

    Returns
    -------
    array (worlds, nv)
        Generalized forces [N, N m].

    Raises
    ------
    ValueError
        An actuator acts on no joint.

    Examples
    --------
    >>> task = ws.envs.Task(model=ws.robots.path("cartpole"), observations={"f": ws.envs.com_based.joint_forces})
    >>> env = ws.envs.VectorEnv(task, 1, device="cpu")
    >>> _ = env.reset()
    >>> env.step(np.ones((1, 1)))[0].tolist()
    [[30.0, 0.0]]
    """
    places, gear, matrix = view.constant("joint_forces", lambda: _transmission(view))
    gain, bias = view.parameter("actuator_gain"), view.parameter("actuator_bias")
    control_range, force_range = view.parameter("control_range"), view.parameter("force_range")
    control = view.xp.clip(view.control, control_range[..., 0], control_range[..., 1])
    length, speed = gear * view.q[:, places[0]], gear * view.v[:, places[1]]
    force = (gain[..., 0] + gain[..., 1] * length + gain[..., 2] * speed) * control
    force = force + bias[..., 0] + bias[..., 1] * length + bias[..., 2] * speed
    return view.xp.clip(force, force_range[..., 0], force_range[..., 1]) @ matrix


def _transmission(view):
    """How actuators drive joints.

    Returns the columns of q and v of each actuator's joint, its gear (0 where the joint has no single length), and the
    matrix from actuator forces to joint forces.
    """
    m = view.model
    if (m.actuator_joint < 0).any():
        name = m.actuator_names[int(np.flatnonzero(m.actuator_joint < 0)[0])]
        raise ValueError(f"joint_forces: actuator {name!r} acts on no joint; leave this observation out")
    columns = [view.host_columns(m.joint_names[j]) for j in m.actuator_joint]
    matrix = np.zeros((m.nu, m.nv))
    for a, (_, v) in enumerate(columns):
        matrix[a, v] = m.actuator_gear[a, : len(v)]
    gear = np.array([m.actuator_gear[a, 0] if len(v) == 1 else 0.0 for a, (_, v) in enumerate(columns)])
    places = [np.array([pair[k][0] for pair in columns], int) for k in (0, 1)]
    if view.arrays.framework == "torch":
        places = [view.arrays.constant(x) for x in places]
    return places, *(view.arrays.made(x.astype(view.sim.dtype)) for x in (gear, matrix))
