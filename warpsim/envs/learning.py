# SPDX-License-Identifier: Apache-2.0
"""Settings of each learning algorithm for `warpsim train`; `Task.learning` overrides them."""

from collections.abc import Mapping

from warpsim.base.checks import choice, number, positive, short, whole

# iterations: number of updates, each after `horizon` actions in `envs` worlds; hidden: units per layer of actor and
# critic; gamma: discount per action; lam: λ of GAE (PPO) or TD(λ) (SHAC); learning_rate: of Adam (PPO adapts it);
# entropy: its weight.
COMMON = {"iterations": 300, "hidden": (64, 64), "gamma": 0.99, "lam": 0.95}
SETTINGS = {
    "ppo": COMMON | {"envs": 512, "horizon": 32, "learning_rate": 1e-3, "entropy": 0.0},
    "shac": COMMON | {"envs": 64, "horizon": 16, "learning_rate": 2e-3},
}


def learning_settings(learning, algorithm: str) -> dict:
    """All settings of an algorithm for a task with this `learning`."""
    choice(algorithm, "algorithm", tuple(SETTINGS))
    given = learning.get(algorithm, {})
    settings = SETTINGS[algorithm] | dict(given)
    return settings | {"hidden": tuple(settings["hidden"])}


def check_learning(learning, label: str) -> None:
    """Raise `ValueError` for a `learning` that is no table of settings by algorithm."""
    if not isinstance(learning, Mapping):
        raise ValueError(
            f'{label}: learning is {short(learning)}; give a dict, such as {{"ppo": {{"iterations": 300}}}}'
        )
    for algorithm, given in learning.items():
        choice(algorithm, f"{label}: a key of learning", tuple(SETTINGS))
        name = f"{label}: learning[{algorithm!r}]"
        if not isinstance(given, Mapping):
            raise ValueError(f"{name} is {short(given)}; give a dict of settings")
        for key, value in given.items():
            choice(key, f"{name}: a setting", tuple(SETTINGS[algorithm]))
            _check(key, value, f"{name}[{key!r}]")


def _check(key: str, value, name: str) -> None:
    if key in ("iterations", "envs", "horizon"):
        whole(value, name, 1)
    elif key == "learning_rate":
        positive(value, name)
    elif key == "entropy":
        number(value, name, "give a number of at least 0", lambda x: 0.0 <= x < float("inf"))
    elif key == "hidden":
        if not isinstance(value, (tuple, list)) or not value:
            raise ValueError(f"{name} is {short(value)}; give the units of each layer, such as (64, 64)")
        for units in value:
            whole(units, f"an entry of {name}", 1)
    else:
        number(value, name, "give a number between 0 and 1", lambda x: 0.0 <= x <= 1.0)
