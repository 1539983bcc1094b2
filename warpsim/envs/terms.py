# SPDX-License-Identifier: Apache-2.0
"""Terms that tasks are made of. Any function of a `View` is a term.

A term with a state is an object with `bind(view)`, called once, and `reset(view, mask)`, called where episodes begin.
"""

import copy
import math

import numpy as np

from warpsim.base.checks import flag, listed, number, several, short, whole
from warpsim.envs.onnx_network import OnnxNetwork
from warpsim.envs.rotations import summed
from warpsim.envs.variants import keyframe_rows


class Term:
    """A term with a state: `bind` when the environment is made, `reset` where episodes begin, and the call itself.

    `memory` names the arrays, or lists of arrays, that the term keeps from step to step; checkpoints store them. An
    environment works on copies of its task's terms.
    """

    memory: tuple = ()
    tick = -1

    def first(self, view) -> bool:
        """Whether this is the first call for this action, or of an actuator with actuation="physics" for this step.

        Terms are called again for all worlds where some begin an episode.
        """
        new, self.tick = self.tick != view.tick, view.tick
        return new

    def bind(self, view) -> None:
        """Set up what lives as long as the environment. An object belongs to one environment; `bind` starts it over."""

    def reset(self, view, mask) -> None:
        """Called where episodes begin in the worlds of `mask` `(worlds,)`."""


def _rows(view, mask, new, old):
    """Rows of `new` where the mask holds, rows of `old` elsewhere."""
    return view.arrays.rows(mask, new, old)


# observations ---------------------------------------------------------------------------------------------------------


def positions(*joints):
    """q of the named joints; without names all of q."""
    return lambda s: s.q[:, s.columns(*joints)[0]] if joints else s.q


def velocities(*joints):
    """v of the named joints; without names all of v."""
    return lambda s: s.v[:, s.columns(*joints)[1]] if joints else s.v


def last_action(s):
    """The action of this step, which the next observation shows as the last one."""
    return s.action


def command(name: str):
    """The present value of a command."""

    def term(s):
        if name not in s.commands:
            raise ValueError(f"no command {short(name)}; the task has: {listed(s.commands)}")
        return s.commands[name]

    return term


class noisy(Term):
    """A term with noise; the shape stays.

    Each step adds noise uniform in ± `uniform` or normal with standard deviation `normal`. Each episode adds a constant
    bias, uniform in ± `bias`.
    """

    memory = ("offset",)

    def __init__(self, term, *, uniform: float = 0.0, normal: float = 0.0, bias: float = 0.0):
        rule = "give a number of at least 0"
        self.term = term
        self.amounts = {
            n: number(x, n, rule, lambda x: 0.0 <= x < math.inf)
            for n, x in (("uniform", uniform), ("normal", normal), ("bias", bias))
        }

    def bind(self, view) -> None:
        _bind(self.term, view)
        self.draws, self.offset = [view.draw() for _ in range(3)], None

    def reset(self, view, mask) -> None:
        _reset(self.term, view, mask)
        if self.offset is not None:
            self.offset = _rows(view, mask, self._bias(view), self.offset)

    def _bias(self, view):
        most = self.amounts["bias"]
        return view.uniform(self.size, -most, most, draw=self.draws[2], of_episode=True)

    def __call__(self, view):
        value = self.term(view)
        shape = (view.worlds,) if value.ndim == 1 else (view.worlds, -1)
        value = value.reshape(view.worlds, -1)
        self.size = value.shape[1]
        if self.amounts["uniform"]:
            value = value + view.uniform(
                self.size, -self.amounts["uniform"], self.amounts["uniform"], draw=self.draws[0]
            )
        if self.amounts["normal"]:
            value = value + view.normal(self.size, 0.0, self.amounts["normal"], draw=self.draws[1])
        if self.amounts["bias"]:
            self.offset = self._bias(view) if self.offset is None else self.offset
            value = value + self.offset
        return value.reshape(shape)


class late(Term):
    """A term delayed by `steps` actions; in an episode's first actions, its value at the initial state."""

    memory = ("kept", "begun")

    def __init__(self, term, steps: int):
        self.term, self.steps = term, whole(steps, "steps", 0)

    def bind(self, view) -> None:
        _bind(self.term, view)
        self.kept: list = []
        self.begun = None

    def reset(self, view, mask) -> None:
        _reset(self.term, view, mask)
        self.begun = mask if self.begun is None else self.begun | mask

    def __call__(self, view):
        return self.after(view, self.term(view))

    def after(self, view, value):
        """The value of `steps` calls ago."""
        value = view.arrays.copied(value)
        if not self.kept:
            self.kept = [value] * (self.steps + 1)
        if self.begun is not None:
            self.kept = [_rows(view, self.begun, value, old) for old in self.kept]
            self.begun = None
        self.kept = [*self.kept[1:], value] if self.first(view) else [*self.kept[:-1], value]
        return self.kept[0]


class history(late):
    """The values of a term in the last `steps` observations, the oldest first, `(worlds, steps n)`.

    In an episode's first actions, its value at the initial state stands for those before.

    Examples
    --------
    >>> observations = {"gravity": history(noisy(velocities(), uniform=0.1), steps=5)}
    """

    def __init__(self, term, steps: int):
        super().__init__(term, whole(steps, "steps", 1) - 1)

    def __call__(self, view):
        self.after(view, self.term(view).reshape(view.worlds, -1))
        return view.xp.concat(self.kept, axis=-1)


# rewards --------------------------------------------------------------------------------------------------------------


def forward_velocity(axis: int = 0):
    """Mean velocity of coordinate `axis` of q during the action [m/s]."""
    return lambda s: (s.q[:, axis] - s.q_before[:, axis]) / s.dt


def action_squared(s):
    """Σ a²."""
    return summed(s.action**2)


def action_change(s):
    """Σ (a − last a)²."""
    return summed((s.action - s.last_action) ** 2)


# where episodes begin -------------------------------------------------------------------------------------------------


class start_noise(Term):
    """Noise on the initial q and v: uniform in ± q, ± v.

    With `normal=True`, q and v are standard deviations of normal noise ("v": for v only; "q": for q only).
    """

    def __init__(self, q: float = 0.0, v: float = 0.0, normal: bool | str = False):
        rule = "give a number of at least 0"
        self.q, self.v = (number(x, name, rule, lambda x: 0.0 <= x < math.inf) for name, x in (("q", q), ("v", v)))
        if normal not in (False, True, "q", "v"):
            raise ValueError(f'normal is {short(normal)}; use True, False, "q" or "v"')
        self.normal = normal

    def bind(self, view) -> None:
        self.draws = {"q": view.draw(), "v": view.draw()}

    def __call__(self, view, start):
        for name, amount in (("q", self.q), ("v", self.v)):
            if amount:
                columns = start[name].shape[1]
                if self.normal is True or self.normal == name:
                    noise = view.normal(columns, 0.0, amount, draw=self.draws[name])
                else:
                    noise = view.uniform(columns, -amount, amount, draw=self.draws[name])
                start[name] = start[name] + noise


class start_from(Term):
    """Begin episodes in a keyframe of the model."""

    def __init__(self, keyframe: str):
        self.keyframe = keyframe

    def bind(self, view) -> None:
        for model in view.models:
            if self.keyframe not in model.keyframes:
                raise ValueError(
                    f"no keyframe {short(self.keyframe)} in model {model.name!r}; it has: {listed(model.keyframes)}"
                )
        rows = keyframe_rows(view.models, self.keyframe, view.numbers)
        self.start = {name: view.arrays.made(x.astype(view.sim.dtype)) for name, x in rows.items()}

    def __call__(self, view, start) -> None:
        for name in "qv":
            start[name] = self.start[name]


# commands -------------------------------------------------------------------------------------------------------------


class uniform_command(Term):
    """Values drawn uniformly in [low, high) where an episode begins, and again every `every` actions."""

    def __init__(self, low, high, every: int | None = None):
        self.low, self.high = (np.atleast_1d(np.asarray(x, np.float32)) for x in (low, high))
        if self.low.shape != self.high.shape or not (self.low <= self.high).all():
            raise ValueError(
                f"a command is drawn between {short(low)} and {short(high)}; give low <= high of one shape"
            )
        self.every = None if every is None else whole(every, "every", 1)

    def bind(self, view) -> None:
        self.number = view.draw()

    def __call__(self, view, before, begun):
        """New commands, from the previous ones and a mask of the worlds that begin an episode."""
        if self.every is not None:
            begun = begun | (view.steps % self.every == 0)
        if before is not None and not view.arrays.any(begun):
            return before
        new = view.uniform(len(self.low), self.low, self.high, draw=self.number)
        return new if before is None else _rows(view, begun, new, before)


class widening_command(uniform_command):
    """A `uniform_command` whose range widens with success, in each world by itself.

    The range is the middle of [low, high) ± a share of its half width: at first `first`, at most 1. `success` is a term
    `(worlds,)` between 0 and 1, such as a tracking reward. Where its mean over the `every` actions of a command is
    above `above`, the share grows by `step`; where it is below `below`, as where the robot falls early, it shrinks.
    """

    memory = ("share", "gained", "count")

    def __init__(self, low, high, every: int, success, *, first=0.3, step=0.1, above=0.8, below=0.4):
        super().__init__(low, high, whole(every, "every", 1))
        self.term = success
        self.least, self.step, self.above, self.below = (
            number(value, name, "give a number between 0 and 1", lambda x: 0.0 <= x <= 1.0)
            for name, value in (("first", first), ("step", step), ("above", above), ("below", below))
        )
        if below > above:
            raise ValueError(f"below is {below} and above {above}; give below <= above")

    def bind(self, view) -> None:
        super().bind(view)
        _bind(self.term, view)
        made = view.arrays.made
        self.share = made(np.full(view.worlds, self.least, np.float32))
        self.gained, self.count = 0.0 * self.share, made(np.zeros(view.worlds, np.int64))

    def reset(self, view, mask) -> None:
        _reset(self.term, view, mask)

    def __call__(self, view, before, begun):
        xp, due, moved = view.xp, begun | (view.steps % self.every == 0), self.first(view)
        if before is not None and moved:
            self.gained, self.count = self.gained + self.term(view) / self.every, self.count + 1
        change = self.step * (1.0 * (self.gained > self.above) - 1.0 * (self.gained < self.below))
        judged = due & (self.count > 0)
        share = xp.clip(self.share + xp.where(judged, change, 0.0), self.least, 1.0)
        self.share = xp.where(begun & view.seeded, self.least, share)
        self.gained, self.count = xp.where(due, 0.0, self.gained), xp.where(due, 0, self.count)
        low, high = (view.arrays.constant(x) for x in (self.low, self.high))
        new = view.uniform(len(self.low), self.low, self.high, draw=self.number)
        middle = 0.5 * (low + high)
        new = middle + self.share[:, None] * (new - middle)
        return new if before is None else _rows(view, due, new, before)


# from actions to controls ---------------------------------------------------------------------------------------------


class scaled(Term):
    """offset + scale · a; both are one number, or one per action."""

    def __init__(self, scale=1.0, offset=0.0):
        self.scale, self.offset = (np.asarray(x, np.float32) for x in (scale, offset))
        for name, values in (("scale", self.scale), ("offset", self.offset)):
            if not np.isfinite(values).all():
                raise ValueError(f"scaled: {name} is {short(values.tolist())}; give finite numbers")

    def bind(self, view) -> None:
        self.a, self.b = view.arrays.made(self.scale), view.arrays.made(self.offset)

    def __call__(self, view, action):
        for name, values in (("scale", self.scale), ("offset", self.offset)):
            if values.ndim > 1 or values.size not in (1, action.shape[1]):
                raise ValueError(f"scaled: {name} has shape {values.shape}; there are {action.shape[1]} actions")
        return self.b + self.a * action


class delayed(late):
    """Delay actions by `steps` actions, or with actuation="physics" by `steps` physics steps."""

    def __init__(self, steps: int):
        super().__init__(None, steps)

    def __call__(self, view, action):
        return self.after(view, action)


class first_order(Term):
    """Forces that follow actions with a time constant [s]: u' = (a − u)/τ, from 0."""

    memory = ("level",)

    def __init__(self, time_constant: float):
        self.tau = number(time_constant, "time_constant", "give a positive time [s]", lambda x: 0.0 < x < math.inf)

    def bind(self, view) -> None:
        self.share, self.level = 1.0 - math.exp(-view.period / self.tau), None

    def reset(self, view, mask) -> None:
        if self.level is not None:
            self.level = view.xp.where(mask[:, None], 0.0, self.level)

    def __call__(self, view, action):
        before = 0.0 * action if self.level is None else self.level
        self.level = before + self.share * (action - before)
        return self.level


class dc_motor(Term):
    """A DC motor, whose available torque falls with speed.

    |u| ≤ stall (1 − v/free) in the direction of motion, and |u| ≤ stall against it. `stall_torque` is in units of
    control; `free_speed` [rad/s] is the speed without torque. `joints` are the joints that the actuators drive, in the
    order of the actuators.
    """

    def __init__(self, stall_torque, free_speed, joints=()):
        self.stall, self.free = (np.atleast_1d(np.asarray(x, np.float32)) for x in (stall_torque, free_speed))
        self.joints = tuple(joints)
        for name, values in (("stall_torque", self.stall), ("free_speed", self.free)):
            if values.ndim > 1 or not ((values > 0) & np.isfinite(values)).all():
                raise ValueError(
                    f"{name} is {short(stall_torque if values is self.stall else free_speed)}; give a positive "
                    "number, or one for each joint"
                )

    def bind(self, view) -> None:
        model = view.model
        if not self.joints and (model.actuator_joint < 0).any():
            name = model.actuator_names[int(np.flatnonzero(model.actuator_joint < 0)[0])]
            raise ValueError(f"dc_motor: actuator {name!r} drives no joint; name the joints, one for each action")
        self.names = self.joints or tuple(model.joint_names[j] for j in model.actuator_joint)
        self.places = view.columns(*self.names)[1]
        for name, values in (("stall_torque", self.stall), ("free_speed", self.free)):
            if len(values) not in (1, len(self.places)):
                raise ValueError(
                    f"dc_motor: {name} has {len(values)} numbers; the joints {listed(self.names)} have "
                    f"{len(self.places)} velocities"
                )

    def __call__(self, view, action):
        if action.shape[1] != len(self.places):
            raise ValueError(
                f"dc_motor: the joints {listed(self.names)} have {len(self.places)} velocities, and there are "
                f"{action.shape[1]} actions; "
                "name the joints that the actions drive, one for each"
            )
        constant = view.arrays.constant
        stall, speed = constant(self.stall), view.v[:, self.places] / constant(self.free)
        highest = stall * view.xp.clip(1.0 - speed, 0.0, 1.0)
        lowest = -stall * view.xp.clip(1.0 + speed, 0.0, 1.0)
        return view.xp.minimum(view.xp.maximum(action, lowest), highest)


class actuator_network(late):
    """Torques of motors from a network of what joints did (Hwangbo et al., 2019, "Learning agile and dynamic motor
    skills for legged robots", eq. 2).

    The action is the target position of each joint [rad or m]; `scaled` before it turns other actions into targets.
    For each joint the network sees position errors (target minus position) and velocities `lags` evaluations ago,
    errors first, each in the order of `lags`; it gives the torque [N m or N]. One call serves all worlds and joints.
    The network is evaluated once per action, and its torque is held for the action. With the task's
    `actuation = "physics"` it is evaluated at each physics step: networks of real drives expect the rate of their data,
    such as 200 to 1,000 Hz. Where an episode begins, the past is as the present.

    Parameters
    ----------
    network : path or torch.nn.Module
        From `(rows, 2 len(lags))` to `(rows, 1)`. An ONNX file (extra `export`) is run on the CPU and has no gradient.
        A module has one, on any device; it is copied, and its weights do not learn.
    joints : sequence of str
        The joints that the actions drive, in order. Default: those of the actuators.
    lags : sequence of int
        Ages in evaluations: actions, or with actuation="physics" physics steps.
    position_scale, velocity_scale, torque_scale : float
        Factors of what the network sees and gives.
    velocity_first : bool
        The network takes velocities before errors.

    Raises
    ------
    ValueError
        For a network of other sizes, weights that are not finite, and actuators that are not motors.

    Examples
    --------
    >>> actuators = (terms.scaled(0.25, POSE), terms.actuator_network("anydrive.onnx"))      # doctest: +SKIP
    """

    def __init__(
        self,
        network,
        joints=(),
        *,
        lags=(0, 1, 2),
        position_scale: float = 1.0,
        velocity_scale: float = 1.0,
        torque_scale: float = 1.0,
        velocity_first: bool = False,
    ):
        self.lags = tuple(whole(lag, "an entry of lags", 0) for lag in several(lags, "lags"))
        if not self.lags:
            raise ValueError("lags is empty; give the ages of what the network sees, such as (0, 1, 2)")
        super().__init__(None, max(self.lags))
        self.joints, self.velocity_first = tuple(joints), flag(velocity_first, "velocity_first")
        self.scales = (number(position_scale, "position_scale"), number(velocity_scale, "velocity_scale"))
        self.torque_scale = number(torque_scale, "torque_scale")
        self.module = hasattr(network, "state_dict")
        if self.module:
            self.network = copy.deepcopy(network).eval().requires_grad_(False)
            self._check_module()
        else:
            self.network = OnnxNetwork(network)
            self._check_sizes(network, self.network.inputs, self.network.outputs)

    def _check_sizes(self, label, inputs: int, outputs: int) -> None:
        if (inputs, outputs) != (2 * len(self.lags), 1):
            raise ValueError(
                f"actuator_network: {label} takes {inputs} numbers and gives {outputs}; with {len(self.lags)} lags a "
                f"joint has {2 * len(self.lags)} (errors and velocities) and 1 torque"
            )

    def _check_module(self) -> None:
        import torch

        name, shape = type(self.network).__name__, (3, 2 * len(self.lags))
        bad = [key for key, x in self.network.state_dict().items() if not torch.isfinite(x).all()]
        if bad:
            raise ValueError(f"actuator_network: weights of {name} are not finite: layer {listed(bad)}")
        self.kept_in = next((x for x in self.network.state_dict().values() if x.is_floating_point()), torch.zeros(1))
        try:
            with torch.no_grad():
                found = self.network(torch.zeros(shape, dtype=self.kept_in.dtype, device=self.kept_in.device))
            given = tuple(found.shape)
        except (RuntimeError, AttributeError) as error:
            raise ValueError(
                f"actuator_network: {name} takes no rows of shape {shape} ({str(error).splitlines()[0]}); a joint has "
                f"{shape[1]} numbers with {len(self.lags)} lags"
            ) from None
        if given != (shape[0], 1):
            raise ValueError(f"actuator_network: {name} gives shape {given} for rows of {shape}; it must be (3, 1)")

    def bind(self, view) -> None:
        super().bind(view)
        if not self.module and view.differentiable:
            raise ValueError(
                f"actuator_network: {self.network.path} has no gradient; give the network as a torch.nn.Module"
            )
        if not self.module and view.arrays.framework == "torch" and not view.arrays.near:
            raise ValueError(
                f"actuator_network: {self.network.path} is run on the CPU, and the tensors are on {view.sim.device}; "
                "give the network as a torch.nn.Module"
            )
        names, self.gains = _motors(view.model, "actuator_network")
        self.names = self.joints or names
        self.places = view.columns(*self.names)
        if len(self.names) != view.model.nu or any(len(x) != view.model.nu for x in view.host_columns(*self.names)):
            raise ValueError(
                f"actuator_network: the joints {listed(self.names)} are not one for each of the {view.model.nu} "
                "actuators, with one velocity each"
            )
        if self.names != names:
            raise ValueError(f"actuator_network: the joints are {listed(self.names)}; actuators drive {listed(names)}")
        if self.module and view.arrays.framework == "torch":
            self.network.to(view.q.device)

    def __call__(self, view, action):
        positions, velocities = view.q[:, self.places[0]], view.v[:, self.places[1]]
        if action.shape[1] != len(self.names):
            raise ValueError(f"actuator_network: there are {len(self.names)} joints and {action.shape[1]} actions")
        self.after(view, view.xp.stack([self.scales[0] * (action - positions), self.scales[1] * velocities], -1))
        seen = view.xp.stack([self.kept[-1 - lag] for lag in self.lags], -1)  # (worlds, joints, 2, lags)
        if self.velocity_first:
            seen = view.xp.stack([seen[:, :, 1], seen[:, :, 0]], -2)
        torque = self._run(view, seen.reshape(-1, 2 * len(self.lags))).reshape(action.shape)
        return self.torque_scale * torque / view.arrays.constant(self.gains)

    def _run(self, view, rows):
        """The network's torques `(rows,)`, in the framework and dtype of the rows."""
        arrays = view.arrays
        if not self.module:
            found = self.network(arrays.host(rows))[:, 0]
            return (
                arrays.made(found) if arrays.framework == "jax" else arrays.floats(arrays.made(found), view.sim.dtype)
            )
        if arrays.framework == "torch":
            return self.network(rows.to(self.kept_in.dtype))[:, 0].to(rows.dtype)
        import torch

        with torch.no_grad():
            rows = torch.as_tensor(np.array(arrays.host(rows)), dtype=self.kept_in.dtype, device=self.kept_in.device)
            return arrays.made(self.network(rows)[:, 0].cpu().numpy())


def _motors(model, label: str) -> tuple[tuple, np.ndarray]:
    """Joints that the actuators drive, and the torque of each at a control of 1. Raises `ValueError` for servos."""
    for a, name in enumerate(model.actuator_names):
        motor = not model.actuator_gain[a, 1:].any() and not model.actuator_bias[a].any()
        if model.actuator_joint[a] < 0 or not motor or model.actuator_dynamics[a]:
            raise ValueError(
                f"{label}: actuator {name!r} is no motor of a joint, whose control is a torque; give the model motors"
            )
    gains = (model.actuator_gain[:, 0] * model.actuator_gear[:, 0]).astype(np.float32)
    if not gains.all():
        raise ValueError(f"{label}: actuator {model.actuator_names[int(np.argmin(abs(gains)))]!r} has gain 0")
    return tuple(model.joint_names[j] for j in model.actuator_joint), gains


# events ---------------------------------------------------------------------------------------------------------------


class randomise(Term):
    """Multiply a parameter of every world by a random factor in [low, high).

    Factors are drawn once (`when="startup"`, and again by `reset(seed=)`) or where episodes begin ("reset"). A world
    has one factor, or with `each=True` one per entry. A parameter may be randomized only once. "body_mass" also scales
    "body_inertia" by the same factors, like a change of density. `inertia=False` leaves the inertia, like point masses
    added at the center of mass.
    """

    def __init__(
        self,
        parameter: str,
        low: float,
        high: float,
        when: str = "startup",
        each: bool = False,
        inertia: bool | None = None,
    ):
        if when not in ("startup", "reset"):
            raise ValueError(f'when is {short(when)}; choose "startup" or "reset"')
        self.low, self.high = (number(x, n) for n, x in (("low", low), ("high", high)))
        if self.low > self.high:
            raise ValueError(f"randomise {parameter!r}: low is {low} and high {high}; give low <= high")
        if inertia is not None and parameter != "body_mass":
            raise ValueError(
                f'randomise {parameter!r}: inertia is {inertia}, which is for "body_mass" alone; leave it out'
            )
        self.parameter, self.when, self.each = parameter, when, each
        inertia = parameter == "body_mass" if inertia is None else flag(inertia, "randomise 'body_mass': inertia")
        self.names = (parameter, "body_inertia") if inertia else (parameter,)

    def bind(self, view) -> None:
        for name in self.names:
            if name in view.randomised:
                hint = "; randomise('body_mass', ..., inertia=False) leaves it" if name == "body_inertia" else ""
                raise ValueError(
                    f"randomise {name!r} stands twice in events, and the second would replace the first; leave one of "
                    f"them{hint}"
                )
        view.randomised += self.names
        self.number = view.draw()
        parameters = view.sim.parameters
        self.targets = [parameters[name] for name in self.names]
        given = [target.numpy().copy() for target in self.targets]
        for factor in (self.low, self.high, 1.0):  # raises where the simulator does not support the value
            for name, values in zip(self.names, given, strict=True):
                parameters[name] = values * factor
        self.given = [view.arrays.made(values) for values in given]

    def __call__(self, view, mask, startup: bool) -> None:
        if not startup and self.when == "startup":
            return
        if not startup and not view.arrays.any(mask):
            return
        first = self.given[0]
        entries = math.prod(first.shape[1:]) if self.each else 1
        factors = view.uniform(entries, self.low, self.high, draw=self.number)
        factors = factors.reshape(len(first), *(first.shape[1:] if self.each else (1,) * (first.ndim - 1)))
        for target, values in zip(self.targets, self.given, strict=True):
            own = factors.reshape(*factors.shape, *(1,) * (values.ndim - factors.ndim))
            view.arrays.put(target, _rows(view, mask, values * own, view.arrays.of(target)))


class _Timed(Term):
    """A term that acts at intervals of an episode: every `steps` actions, or at random intervals (low, high).

    The next interval is drawn where the last one ends.
    """

    memory = ("next",)

    def __init__(self, steps, name: str = "steps"):
        steps = tuple(steps) if isinstance(steps, (tuple, list)) else (steps, steps)
        if len(steps) != 2:
            raise ValueError(f"{name} is {short(steps)}; give a number of actions, or (low, high)")
        self.steps = low, high = tuple(whole(n, name, 1) for n in steps)
        if low > high:
            raise ValueError(f"{name} is {short(steps)}; give low <= high")
        self.next = None

    def bind(self, view) -> None:
        if self.steps[0] < self.steps[1]:
            self.interval_draw = view.draw()
            self.next = view.arrays.made(np.zeros(view.worlds, np.int64))

    def reset(self, view, mask) -> None:
        if self.next is not None:
            self.next = _rows(view, mask, self._interval(view), self.next)

    def _interval(self, view):
        low, high = self.steps
        share = view.uniform(1, draw=self.interval_draw)[:, 0]
        return indices(view.xp.floor(share * (high - low + 1))) + low

    def due(self, view):
        """Worlds in which the term acts now, `(worlds,)`; none in a second call for the same action."""
        if not self.first(view):
            return view.steps < 0
        if self.next is None:
            return (view.steps > 0) & (view.steps % self.steps[0] == 0)
        now = (view.steps > 0) & (view.steps >= self.next)
        self.next = view.xp.where(now, view.steps + self._interval(view), self.next)
        return now


class every(_Timed):
    """An event that acts again and again within episodes: every `steps` actions, or at random intervals (low, high).

    The event is called with a mask of the worlds that begin an episode or whose interval has passed.

    Examples
    --------
    >>> events = (every(randomise("geom_friction", 0.4, 1.2, when="reset"), steps=(100, 300)),)
    """

    def __init__(self, term, steps):
        super().__init__(steps)
        if isinstance(term, _Timed):
            raise ValueError("every: the event has intervals of its own; give it those")
        if isinstance(term, randomise) and term.when == "startup":
            raise ValueError(f'every: randomise({term.parameter!r}, …) draws at the start alone; give it when="reset"')
        self.term = term

    def bind(self, view) -> None:
        super().bind(view)
        _bind(self.term, view)

    def reset(self, view, mask) -> None:
        super().reset(view, mask)
        _reset(self.term, view, mask)

    def __call__(self, view, mask, startup: bool) -> None:
        self.term(view, mask | self.due(view), startup)


class push(_Timed):
    """Add a random jump to the velocities of `joint` (a free joint, a slide, …), every `every` actions of an episode.

    Each velocity jumps independently, uniformly in ± `velocity`. `every=(low, high)` draws the intervals.
    """

    def __init__(self, joint: str, velocity, every):
        super().__init__(every, "every")
        self.joint = joint
        self.most = np.atleast_1d(np.asarray(velocity, np.float32))
        if not (np.isfinite(self.most).all() and (self.most >= 0).all()):
            raise ValueError(f"velocity is {short(velocity)}; give numbers of at least 0, one or one for each velocity")

    def bind(self, view) -> None:
        if view.differentiable:
            raise ValueError(
                f"push of joint {self.joint!r} writes to velocities, which has no gradient; leave it out of events, "
                "or requires_grad"
            )
        self.number, (_, places) = view.draw(), view.host_columns(self.joint)
        super().bind(view)
        self.count, made = len(places), view.arrays.made
        if len(self.most) not in (1, self.count):
            raise ValueError(f"velocity has {len(self.most)} numbers; joint {self.joint!r} has {self.count} velocities")
        own, source = np.zeros(view.model.nv, bool), np.zeros(view.model.nv, int)
        own[places], source[places] = True, np.arange(self.count)
        # by column of v: whether it jumps, and which of the jumps is its own
        self.own, self.source, self.most_of = made(own), made(source), made(self.most)

    def __call__(self, view, mask, startup: bool) -> None:
        pushed = self.due(view)
        if not view.arrays.any(pushed):
            return
        jump = view.uniform(self.count, -1.0, 1.0, draw=self.number) * self.most_of
        chosen = pushed[:, None] & self.own[None]
        view.write(v=view.xp.where(chosen, view.v + jump[:, self.source], view.v))


def indices(values):
    """Whole numbers of the framework from floats."""
    return values.long() if hasattr(values, "long") else values.astype(int)


def _bind(term, view) -> None:
    if hasattr(term, "bind"):
        term.bind(view)


def _reset(term, view, mask) -> None:
    if hasattr(term, "reset"):
        term.reset(view, mask)
