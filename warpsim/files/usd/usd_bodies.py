# SPDX-License-Identifier: Apache-2.0
"""What PhysX's, MuJoCo's and UsdPhysics' attributes say of rigid bodies beyond mass and pose.

These are gravity, damping, and initial velocities.
"""

import numpy as np

from warpsim.model.builder_names import free_name
from warpsim.model.geometry import rotation_matrix
from warpsim.model.model import KeyframeParts, ReportLine

START = "initial_state"  # name of the keyframe with the initial velocities
LOCAL = "physics:localSpaceVelocities"  # PhysX's customData: velocities are in the body's own axes
ALIGNED = 1e-6  # relative, of inertia off the body's axes; and [m], of a COM off its origin


def gravity_share(authored, prim) -> float:
    """The share of a body's weight that is compensated."""
    off = authored.flag(prim, "physxRigidBody:disableGravity", False)
    share = authored.number(prim, "mjc:body:gravcomp", authored.number(prim, "mjc:gravcomp", 0.0))
    return 1.0 if off else share


def damping(authored, prim, free: bool, mass: float, com, inertia, report: list, warn) -> np.ndarray:
    """Damping (6,) of a free joint that slows a body at PhysX's rates [1/s].

    0, with a warning, if no joint damping can represent the rates.
    """
    linear, angular = (authored.number(prim, f"physxRigidBody:{k}Damping", 0.0, 0.0) for k in ("linear", "angular"))
    if not linear and not angular:
        return np.zeros(6)
    off_axes = np.abs(inertia - np.diag(np.diag(inertia))).max() > ALIGNED * np.abs(inertia).max()
    label = f"damping of {prim.GetPath()}"
    if not free:
        warn(label, "rates of damping of links are not simulated; give newton:damping on their joints")
    elif (linear and np.abs(com).max() > ALIGNED) or (angular and off_axes):
        warn(label, "rates of damping are simulated of bodies whose axes are those of their inertia alone")
    else:
        report.append(ReportLine(label, "mapped", f"to the free joint: rates of {linear:g} and {angular:g} /s"))
        return np.concatenate([np.full(3, linear * mass), angular * np.diag(inertia)])
    return np.zeros(6)


def velocity(authored, prim, turn_of, units, pose, com) -> np.ndarray | None:
    """Initial velocity (6,) of a free joint: of the origin in the world, of rotation in the body's axes; None at rest.

    UsdPhysics gives the velocity of the COM in the axes of the prim's parent, or of the prim with PhysX's customData.
    `turn_of(prim)` (3, 3) gives a prim's axes in the world.
    """
    linear, angular = (authored.numbers(prim, f"physics:{k}", 3, np.zeros(3)) for k in ("velocity", "angularVelocity"))
    if not linear.any() and not angular.any():
        return None
    space = prim if prim.GetCustomDataByKey(LOCAL) else prim.GetParent()
    own, turn = rotation_matrix(pose[3:]), turn_of(space)
    linear, angular = turn @ linear * units.length, turn @ np.radians(angular)
    return np.concatenate([linear - np.cross(angular, own @ com), own.T @ angular])


def add_start(b, velocities: dict[int, np.ndarray], targets: dict[str, float], warn) -> None:
    """Add a keyframe with the initial velocities, by joint of the builder, and with the drives' targets as controls."""
    if not velocities:
        return
    name = free_name(START, b.keyframes)
    control = {k: targets[a.name] for k, a in enumerate(b.actuators) if targets.get(a.name)}
    b.keyframes[name] = KeyframeParts({}, velocities, control, {}, {})
    where = f"in the keyframe {name!r}, sim.state(keyframe={name!r}); without it all is at rest"
    warn("velocities at the start", where, "mapped")
