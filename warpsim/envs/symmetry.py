# SPDX-License-Identifier: Apache-2.0
"""Left-right symmetry: how a reflection across the x-z plane of a robot's base maps observations and actions.

A task's `symmetry` names a rule for each observation and for "actions". A rule is a function of the model that gives
`(permutation, signs)`: the mirrored value is `signs * value[:, permutation]`. PPO learns from mirrored copies of what
it collects, or is penalized where it acts differently in mirrored states (Mittal et al., 2024).
"""

import numpy as np

from warpsim.base.checks import listed, short
from warpsim.model.host_kinematics import link_poses
from warpsim.model.model import JointType

REFLECTION = np.array([1.0, -1.0, 1.0])


def signs(*values):
    """Rule: keep the order of columns and multiply them by 1 or −1.

    Parameters
    ----------
    *values : int
        1 or −1 for each column.

    Returns
    -------
    rule
        A function of the model that returns (permutation, signs).

    Raises
    ------
    ValueError
        A value is neither 1 nor −1.

    Examples
    --------
    >>> permutation, sign = ws.envs.symmetry.signs(1, -1, 1)(None)
    >>> permutation.tolist(), sign.tolist()
    ([0, 1, 2], [1.0, -1.0, 1.0])
    """
    if not values or any(value not in (1, -1) for value in values):
        raise ValueError(f"signs are {short(values)}; give 1 or -1 for each column")
    return lambda model: (np.arange(len(values)), np.array(values, float))


polar = signs(1, -1, 1)  # positions, velocities, forces, directions
axial = signs(-1, 1, -1)  # angular velocities, torques
planar = signs(1, -1, -1)  # (vx, vy, yaw rate)


def swapped(*names: str):
    """Rule: one column per name (of feet, motors). Columns of partners swap: their names differ in left/right or L/R.

    Parameters
    ----------
    *names : str
        Names of the columns.

    Returns
    -------
    rule
        A function of the model that returns (permutation, signs).

    Examples
    --------
    >>> permutation, sign = ws.envs.symmetry.swapped("left_foot", "right_foot", "head")(None)
    >>> permutation.tolist(), sign.tolist()
    ([1, 0, 2], [1.0, 1.0, 1.0])
    """
    return lambda model: (_partners(names), np.ones(len(names)))


def joints(*names: str):
    """Rule: positions, velocities or targets of hinges and slides. Signs follow from the directions of their axes.

    Parameters
    ----------
    *names : str
        Names of the joints, in the order of the columns.

    Returns
    -------
    rule
        A function of the model that returns (permutation, signs). It raises `ValueError` where the axes of two partners
        are not mirrored.

    Notes
    -----
    The reflection M maps a rotation by θ about the axis a to a rotation by −θ about M a, and a displacement along a to
    the same displacement along M a.

    Examples
    --------
    >>> model = ws.load(ws.robots.path("cartpole"))
    >>> permutation, sign = ws.envs.symmetry.joints("slide", "pivot")(model)
    >>> permutation.tolist(), sign.tolist()                                # both move in the plane of symmetry
    ([0, 1], [1.0, 1.0])
    """

    def rule(model):
        partners = _partners(names)
        axes, turning = zip(*(_axis(model, name) for name in names), strict=True)
        found = []
        for k, partner in enumerate(partners):
            mirrored = (-1.0 if turning[k] else 1.0) * REFLECTION * axes[partner]
            along = float(mirrored @ axes[k])
            if abs(abs(along) - 1.0) > 1e-3 or turning[k] != turning[partner]:
                raise ValueError(
                    f"joints {names[k]!r} and {names[partner]!r} have the axes {_shown(axes[k])} and "
                    f"{_shown(axes[partner])}, which are not mirrored; give a rule of your own for them"
                )
            found.append(np.sign(along))
        return partners, np.array(found)

    return rule


def points(places):
    """Rule: one column per point, as of a height scan. The columns of the points (x, y) and (x, −y) swap.

    Parameters
    ----------
    places : array (n, 2)
        The points.

    Returns
    -------
    rule
        A function of the model that returns (permutation, signs). It raises `ValueError` for a point without a mirrored
        one.

    Examples
    --------
    >>> permutation, sign = ws.envs.symmetry.points([(0.5, -0.2), (0.5, 0.2), (1.0, 0.0)])(None)
    >>> permutation.tolist()
    [1, 0, 2]
    """
    places = np.asarray(places, float)

    def rule(model):
        away = np.linalg.norm(places[:, None] * [1.0, -1.0] - places[None], axis=-1)
        if (away.min(1) > 1e-6).any():
            place = places[int(away.min(1).argmax())]
            raise ValueError(f"point {_shown(place)} has no mirrored one among the points")
        return away.argmin(1), np.ones(len(places))

    return rule


class Mirror:
    """The reflection of a task's observations and actions: `env.mirror`.

    `env.mirror(values, of="observations")` returns the mirrored `values` (rows, columns). `of` says what they are:
    "observations", "critic_observations" or "actions". `env.mirror` is None if the task lacks a rule.

    Parameters
    ----------
    task : Task
        The task, with a rule for each of its observations.
    model : Model
        The model.
    sizes : dict of str to sequence of int
        For "observations" and "critic_observations", the number of columns of each term.
    actions : int
        Number of actions.
    arrays : Arrays
        The environment's framework.

    Examples
    --------
    >>> signs = ws.envs.symmetry.signs
    >>> rules = {"q": signs(-1, -1), "actions": signs(-1)}                    # the cart moves to the left and right
    >>> task = ws.envs.Task(model=ws.robots.path("cartpole"), observations={"q": lambda s: s.q}, symmetry=rules)
    >>> env = ws.envs.VectorEnv(task, 1, device="cpu")
    >>> env.mirror(np.array([[0.1, 0.2]])).tolist()
    [[-0.1, -0.2]]
    """

    def __init__(self, task, model, sizes: dict, actions: int, arrays):
        rules = {name: rule(model) for name, rule in task.symmetry.items()}
        self._maps = {}
        for table, columns in sizes.items():
            names = list(getattr(task, table))
            parts = [_tiled(rules[n], size, f"{table}[{n!r}]") for n, size in zip(names, columns, strict=True)]
            starts = np.concatenate([[0], np.cumsum(columns)[:-1]])
            self._maps[table] = (
                np.concatenate([p + start for (p, _), start in zip(parts, starts, strict=True)]),
                np.concatenate([s for _, s in parts]),
            )
        self._maps["actions"] = _tiled(rules["actions"], actions, "actions")
        self._maps = {n: (arrays.made(p), arrays.made(s.astype(np.float32))) for n, (p, s) in self._maps.items()}

    def __call__(self, values, of: str = "observations"):
        """Mirrored `values` (rows, n). `of`: "observations", "critic_observations" or "actions"."""
        if of not in self._maps:
            raise ValueError(f"of is {short(of)}; this task has {listed(self._maps)} to mirror")
        permutation, sign = self._maps[of]
        return values[:, permutation] * sign


def without_rule(task) -> list[str]:
    """List what a task's `symmetry` has no rule for.

    Parameters
    ----------
    task : Task
        The task.

    Returns
    -------
    list of str
        Names of observations, and "actions".

    Examples
    --------
    >>> task = ws.envs.Task(model=ws.robots.path("cartpole"), observations={"q": lambda s: s.q})
    >>> ws.envs.symmetry.without_rule(task)
    ['q', 'actions']
    """
    needed = [*task.observations, *(n for n in task.critic_observations if n not in task.observations), "actions"]
    return [name for name in needed if name not in task.symmetry]


def _tiled(rule, size: int, label: str):
    """A rule repeated for the values of several steps, as those of `terms.history`."""
    permutation, sign = (np.asarray(x) for x in rule)
    if size % len(sign):
        raise ValueError(f"symmetry of {label} has {len(sign)} columns; the value has {size}")
    copies = size // len(sign)
    steps = np.repeat(np.arange(copies) * len(sign), len(sign))
    return np.tile(permutation, copies) + steps, np.tile(sign, copies)


def _partners(names) -> np.ndarray:
    """For each name the index of its partner, or its own where it has none."""
    found = []
    for name in names:
        others = [other for other in _other_sides(name) if other in names]
        if len(others) > 1:
            raise ValueError(f"{name!r} has several partners: {listed(others)}; give a rule of your own")
        found.append(names.index(others[0]) if others else names.index(name))
    bad = [name for name, other in zip(names, found, strict=True) if found[other] != names.index(name)]
    if bad:
        raise ValueError(f"{bad[0]!r} and {names[found[names.index(bad[0])]]!r} are not partners of each other")
    return np.array(found)


def _other_sides(name: str) -> set:
    """The names that a name may have on the other side: left and right, and L and R in words of one or two letters."""
    swaps = {"left": "right", "Left": "Right", "LEFT": "RIGHT"}
    swaps |= {b: a for a, b in swaps.items()}
    found = {name.replace(a, b) for a, b in swaps.items() if a in name}
    words = name.split("_")
    for k, word in enumerate(words):
        for i, letter in enumerate(word if len(word) <= 2 else ""):
            if letter in "LRlr":
                other = word[:i] + {"L": "R", "R": "L", "l": "r", "r": "l"}[letter] + word[i + 1 :]
                found.add("_".join([*words[:k], other, *words[k + 1 :]]))
    return found - {name}


def _axis(model, name: str):
    """The axis of a joint in world axes at the model's initial position, and whether it is a hinge."""
    joint = model.joint(name)
    kind = JointType(model.joint_type[joint])
    if kind not in (JointType.HINGE, JointType.SLIDE):
        raise ValueError(f"joint {name!r} is a {kind.name.lower()}; joints() is for hinges and slides")
    link = int(np.flatnonzero((model.link_joint == joint) & (model.link_type != JointType.FIXED))[0])
    w, *u = link_poses(model, model.q0)[link, 3:]
    axis, u = np.asarray(model.joint_axis[joint], float), np.array(u)
    return axis + 2.0 * np.cross(u, np.cross(u, axis) + w * axis), kind == JointType.HINGE


def _shown(values) -> str:
    return "(" + ", ".join(f"{x:.3g}" for x in values) + ")"
