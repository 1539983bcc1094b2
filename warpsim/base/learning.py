# SPDX-License-Identifier: Apache-2.0
"""Settings of the learning algorithms of `warpsim train`: a dataclass for each, checked where it is made.

A task has them in `learning`, by algorithm: `{"ppo": PpoSettings(iterations=200)}`. A dict of some of them does too,
`{"ppo": {"iterations": 200}}`: the rest are the defaults or, in the `learning` that is given to `train`, the task's.
A field has the check that its values must pass. A new setting needs a field, its line in the docstring, which is also
the help of the command, and a value in `BEFORE`.
"""

import dataclasses
import functools
import math
from collections.abc import Mapping
from typing import Literal

from warpsim.base.checks import choice, flag, number, positive, short, whole

_count = functools.partial(whole, least=1)


def _between(value, name: str) -> float:
    return number(value, name, "give a number between 0 and 1", lambda x: 0.0 <= x <= 1.0)


def _weight(value, name: str) -> float:
    return number(value, name, "give a number of at least 0", lambda x: 0.0 <= x < math.inf)


def _limit(value, name: str) -> float:
    return number(value, name, "give a positive number, or inf for no limit", lambda x: x > 0.0)


def _below_one(value, name: str) -> float:
    return number(value, name, "give a number of at least 0 and below 1", lambda x: 0.0 <= x < 1.0)


def _layers(value, name: str) -> tuple:
    if not isinstance(value, (tuple, list)) or not value:
        raise ValueError(f"{name} is {short(value)}; give the units of each layer, such as (64, 64)")
    return tuple(whole(units, f"an entry of {name}", 1) for units in value)


def _pair(value, name: str) -> tuple:
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise ValueError(f"{name} is {short(value)}; give two numbers, such as (0.9, 0.999)")
    return tuple(_below_one(x, f"an entry of {name}") for x in value)


def _count_or_none(value, name: str) -> int | None:
    return None if value is None else whole(value, name, 1)


def _rate_or_none(value, name: str) -> float | None:
    return None if value is None else positive(value, name)


_activation = functools.partial(choice, known=("elu", "gelu", "relu", "selu", "swish", "tanh"))
_schedule = functools.partial(choice, known=("adaptive", "fixed"))
_symmetry = functools.partial(choice, known=("none", "augmentation", "loss"))


def _set(default, check):
    """A field with its default value and the check of its values."""
    return dataclasses.field(default=default, metadata={"check": check})


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Settings:
    """What both algorithms have."""

    iterations: int = _set(300, _count)
    envs: int = _set(512, _count)
    horizon: int = _set(32, _count)
    hidden: tuple[int, ...] = _set((64, 64), _layers)
    activation: Literal["elu", "gelu", "relu", "selu", "swish", "tanh"] = _set("elu", _activation)
    obs_normalization: bool = _set(True, flag)
    gamma: float = _set(0.99, _between)
    lam: float = _set(0.95, _between)
    learning_rate: float = _set(1e-3, positive)
    epochs: int = _set(5, _count)
    minibatches: int = _set(4, _count)
    max_grad_norm: float = _set(1.0, _limit)
    init_std: float = _set(1.0, positive)

    def __post_init__(self):
        """Raise `ValueError` for a value out of range; keep plain values, which a checkpoint holds."""
        for name, value in _checked(type(self), vars(self), lambda key: f"{type(self).__name__}: {key}").items():
            object.__setattr__(self, name, value)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PpoSettings(_Settings):
    """Settings of PPO (Schulman et al., 2017), as rsl_rl implements it.

    The signature shows the defaults; a task can have others (`Task.learning`).

    Parameters
    ----------
    iterations : int
        Number of iterations: `horizon` actions in each world, then an update.
    envs : int
        Number of worlds that are simulated at once.
    horizon : int
        Number of actions in each world between updates.
    hidden : tuple of int
        Number of units in each layer of actor and critic.
    activation : str
        Activation function: elu, gelu, relu, selu, swish or tanh.
    obs_normalization : bool
        Normalize observations by their running mean and standard deviation.
    gamma : float
        Discount per action.
    lam : float
        λ of the advantages (GAE).
    learning_rate : float
        Learning rate of Adam; the initial value with an adaptive schedule.
    epochs : int
        Number of passes over the data in an update.
    minibatches : int
        Number of parts of the data in a pass, each with a gradient step.
    max_grad_norm : float
        Limit of the gradient's norm; inf is none.
    init_std : float
        Initial standard deviation of the actions.
    schedule : str
        adaptive changes the learning rate so that updates have the KL divergence `desired_kl`; fixed keeps it.
    desired_kl : float
        KL divergence of an update that the adaptive schedule aims at.
    clip : float
        Limit of the change of the probability ratio.
    clip_value : bool
        Limit the change of the critic's values to `clip` too. A critic then needs many updates to reach large returns.
    entropy : float
        Weight of the policy's entropy.
    value_loss_coef : float
        Weight of the critic's loss.
    symmetry : str
        augmentation learns from mirrored copies of the data too, loss penalizes acting differently in mirrored states
        (Mittal et al., 2024); none does neither. The task says how it is mirrored (`Task.symmetry`).

    Examples
    --------
    >>> ws.envs.PpoSettings(iterations=200, hidden=(128, 128)).gamma
    0.99
    """

    schedule: Literal["adaptive", "fixed"] = _set("adaptive", _schedule)
    desired_kl: float = _set(0.01, positive)
    clip: float = _set(0.2, positive)
    clip_value: bool = _set(False, flag)
    entropy: float = _set(0.0, _weight)
    value_loss_coef: float = _set(1.0, _weight)
    symmetry: Literal["none", "augmentation", "loss"] = _set("none", _symmetry)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShacSettings(_Settings):
    """Settings of SHAC (Xu et al., 2022): a policy learns by gradients through the simulator.

    The signature shows the defaults; a task can have others (`Task.learning`).

    Parameters
    ----------
    iterations : int
        Number of iterations: `horizon` actions in each world, then an update.
    envs : int
        Number of worlds that are simulated at once.
    horizon : int, optional
        Number of actions that gradients reach back over; None: from `horizon_steps`.
    hidden : tuple of int
        Number of units in each layer of actor and critic.
    activation : str
        Activation function: elu, gelu, relu, selu, swish or tanh.
    obs_normalization : bool
        Normalize observations by their running mean and standard deviation.
    gamma : float
        Discount per action.
    lam : float
        λ of the returns that the critic learns, TD(λ).
    learning_rate : float
        Learning rate of the actor's Adam.
    epochs : int
        Passes of the critic over the data of an update.
    minibatches : int
        Parts of the data in a pass, each with a gradient step of the critic.
    max_grad_norm : float
        Limit of the norm of the actor's gradient, and of the critic's; inf is none.
    init_std : float
        Initial standard deviation of the noise on the actor's output.
    output_gain : float
        Factor of the actor's output in tanh, which bounds the actions: with half a range of 4, a gain of 0.25 makes a
        small output the action itself.
    horizon_steps : int
        Number of physics steps that gradients reach back over, if `horizon` is None: `horizon` is then this number over
        the task's `decimation`, rounded down, at least 1.
    critic_learning_rate : float, optional
        Learning rate of the critic's Adam; None: `learning_rate`.
    betas : tuple of float
        β₁ and β₂ of Adam.
    critic_weight : float
        Weight of the critic's estimates, after an iteration's actions and in the returns that the critic learns. Less
        than 1 helps where the slope of the critic misleads; iterations must then be long enough to see a fall.
    target_decay : float
        Weight of the old target critic after an update.
    critic_horizon : int
        Number of actions in each world that the critic's returns reach over, rounded up to whole iterations.
    averaging : float
        Weight of the old average of the actor's weights per action: after an update of n actions in each world it is
        `averaging` to the power of n. The average is what is evaluated and exported; 0: the last weights.
    validate_every : int, optional
        Number of actions in each world after which the average is evaluated over 16 episodes. The best average so far
        is then what is evaluated and exported; None: always the last one.
    max_state_gradient : float
        Limit of a world's gradient with respect to its state, as a multiple of the median over all worlds; inf is none.
    smoothing : float
        Softness of contact while learning, the `amount` of `SAP.smoothed`.

    Examples
    --------
    >>> ws.envs.ShacSettings(horizon=8).smoothing
    0.3
    """

    iterations: int = _set(1000, _count)
    envs: int = _set(64, _count)
    horizon: int | None = _set(None, _count_or_none)
    horizon_steps: int = _set(20, _count)
    learning_rate: float = _set(2e-3, positive)
    critic_learning_rate: float | None = _set(None, _rate_or_none)
    betas: tuple[float, float] = _set((0.7, 0.95), _pair)
    epochs: int = _set(4, _count)
    critic_weight: float = _set(1.0, _between)
    target_decay: float = _set(0.4, _between)
    critic_horizon: int = _set(40, _count)
    averaging: float = _set(0.995, _below_one)
    validate_every: int | None = _set(None, _count_or_none)
    max_state_gradient: float = _set(3.0, _limit)
    smoothing: float = _set(0.3, _weight)
    init_std: float = _set(math.exp(-1.0), positive)
    output_gain: float = _set(1.0, positive)


SETTINGS = {"ppo": PpoSettings, "shac": ShacSettings}
# What a checkpoint without a setting was trained with: its value before it was a setting, whatever the default is now.
BEFORE = {
    "ppo": {
        **{"activation": "elu", "obs_normalization": True, "init_std": 1.0, "clip": 0.2, "epochs": 5, "minibatches": 4},
        **{"schedule": "adaptive", "desired_kl": 0.01, "value_loss_coef": 1.0, "max_grad_norm": 1.0},
        **{"symmetry": "none", "clip_value": True},
    },
    "shac": {
        **{"activation": "elu", "obs_normalization": True, "init_std": math.exp(-1.0), "betas": (0.7, 0.95)},
        **{"critic_learning_rate": None, "epochs": 8, "minibatches": 4, "max_grad_norm": 1.0, "target_decay": 0.4},
        **{"max_state_gradient": 3.0, "smoothing": 0.3, "horizon": 16, "horizon_steps": 20},
        **{"critic_horizon": 1, "averaging": 0.0, "validate_every": None},
        **{"critic_weight": 1.0, "output_gain": 1.0},
    },
}


def learning_settings(algorithm: str, *tables) -> _Settings:
    """Settings of an algorithm from tables such as `Task.learning`, in which a later one changes an earlier one.

    Tables have been checked (`check_learning`).
    """
    kind = SETTINGS[choice(algorithm, "algorithm", tuple(SETTINGS))]
    found = kind()
    for table in tables:
        given = table.get(algorithm, {})
        found = given if isinstance(given, kind) else dataclasses.replace(found, **given)
    return found


def learning_changes(algorithm: str, *tables) -> dict:
    """The settings of an algorithm that tables give, as plain values, those of a later one last."""
    found: dict = {}
    for table in tables:
        given = table.get(algorithm, {})
        found |= given if isinstance(given, Mapping) else dataclasses.asdict(given)
    return _checked(SETTINGS[algorithm], found, str)


def changes_for(algorithm: str, learning, label: str) -> dict:
    """A table of changes that has only this algorithm's. Raises `ValueError` where it has those of another."""
    check_learning(learning or {}, label)
    for other, given in (learning or {}).items():
        if other != algorithm:
            first = next(iter(given), "") if isinstance(given, Mapping) else ""
            raise ValueError(
                f"{label}: learning[{other!r}]{f'[{first!r}]' if first else ''} is given, and the algorithm is "
                f"{algorithm}; leave it out, or choose the algorithm {other}"
            )
    return dict(learning or {})


def kept_settings(algorithm: str, kept, label: str) -> _Settings:
    """Settings from a checkpoint, also from one of a version that had fewer of them."""
    check_learning({algorithm: kept}, label)
    return SETTINGS[algorithm](**(BEFORE[algorithm] | dict(kept)))


def check_learning(learning, label: str) -> None:
    """Raise `ValueError` for a `learning` that is no table of settings by algorithm."""
    if not isinstance(learning, Mapping):
        raise ValueError(
            f'{label}: learning is {short(learning)}; give a dict, such as {{"ppo": PpoSettings(iterations=300)}}'
        )
    for algorithm, given in learning.items():
        kind = SETTINGS[choice(algorithm, f"{label}: a key of learning", tuple(SETTINGS))]
        name = f"{label}: learning[{algorithm!r}]"
        if isinstance(given, kind):
            continue
        if not isinstance(given, Mapping):
            raise ValueError(f"{name} is {short(given)}; give {kind.__name__}, or a dict of some of its settings")
        _checked(kind, given, lambda key, name=name: f"{name}[{key!r}]", f"{name}: a setting")


def _checked(kind, given: Mapping, name_of, label: str = "a setting") -> dict:
    """The given settings as plain values. Raises `ValueError` for an unknown one, or a bad value, by its name."""
    checks = {field.name: field.metadata["check"] for field in dataclasses.fields(kind)}
    for key in given:
        choice(key, label, tuple(checks))
    return {key: checks[key](value, name_of(key)) for key, value in given.items()}
