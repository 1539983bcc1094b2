# SPDX-License-Identifier: Apache-2.0
"""Validate the whole checkpoint of an environment before anything is written."""

import numpy as np

from warpsim.base.checks import listed, short, whole
from warpsim.model.parameters import SPECS
from warpsim.run.streaming import PARAMETERS

FIX = "give what state_dict gave in an environment of the same task and as many worlds"
KINDS = {"f": "real numbers", "i": "whole numbers", "b": "booleans"}


def check_kept(kept, own: dict, sim) -> None:
    """Raise `ValueError` unless `kept` has the parts, shapes and types of `own`, the present result of `state_dict`."""
    _table(kept, {name: value for name, value in own.items() if name != "cut"}, "state_dict")
    state = {name: array for name, array in own["arrays"].items() if not name.startswith(PARAMETERS)}
    _arrays(kept["arrays"], state, "arrays")
    for name, values in kept["arrays"].items():
        if name not in state:
            _parameter(values, name, sim)
    for part in ("view", "commands"):
        _arrays(kept[part], own[part], part)
    _arrays(kept["stream"], {n: x for n, x in own["stream"].items() if n != "seed"}, "stream")
    for name in ("faults", "clipped", "gradient_faults"):
        _array(kept[name], own[name].shape, "i", name)
    if kept["ended"] is not None:
        _array(kept["ended"], (sim.worlds,), "b", "ended")
    if kept.get("cut") is not None:  # which checkpoints of earlier versions lack
        _array(kept["cut"], (sim.worlds,), "f", "cut")
        if not (np.asarray(kept["cut"]) >= 0.0).all():
            raise ValueError(f"load_state_dict: cut is {short(kept['cut'])}; numbers of actions are 0 or more; {FIX}")
    for name, value in (("tick", kept["tick"]), ("stream['seed']", kept["stream"].get("seed"))):
        whole(value, f"load_state_dict: {name}", 0)
    if not isinstance(kept["begun"], (bool, np.bool_)):
        raise ValueError(f"load_state_dict: begun is {short(kept['begun'])}; {FIX}")
    terms = kept["terms"]
    if not isinstance(terms, (list, tuple)) or len(terms) != len(own["terms"]):
        raise ValueError(f"load_state_dict: terms is {short(terms)}; this task has {len(own['terms'])} of them; {FIX}")
    for k, (memory, mine) in enumerate(zip(terms, own["terms"], strict=True)):
        _table(memory, mine, f"terms[{k}]")
        for name, value in memory.items():
            _memory(value, mine[name], f"terms[{k}][{name!r}]")


def _table(kept, own: dict, label: str) -> None:
    if not isinstance(kept, dict):
        raise ValueError(f"load_state_dict: {label} is {short(kept)}; {FIX}")
    missing = [name for name in own if name not in kept]
    if missing:
        raise ValueError(f"load_state_dict: {label} has no {listed(missing)}; {FIX}")


def _arrays(kept, own: dict, label: str) -> None:
    _table(kept, own, label)
    for name, mine in own.items():
        _array(kept[name], mine.shape, mine.dtype.kind, f"{label}[{name!r}]")


def _array(value, shape, kind: str | None, label: str) -> None:
    try:
        array = value if isinstance(value, np.ndarray) else np.asarray(value)
    except ValueError:
        raise ValueError(f"load_state_dict: {label} is {short(value)}, which is no array; {FIX}") from None
    if array.shape != tuple(shape) or array.dtype.kind != (kind or array.dtype.kind):
        raise ValueError(
            f"load_state_dict: {label} is {short(value)} of shape {array.shape} and dtype {array.dtype}; it must be "
            f"{KINDS.get(kind, 'numbers')} of shape {tuple(shape)}; {FIX}"
        )


def _parameter(values, name: str, sim) -> None:
    known = name.removeprefix(PARAMETERS)
    if not name.startswith(PARAMETERS) or known not in SPECS:
        raise ValueError(f"load_state_dict: arrays has {name!r}, which is no part of a state and no parameter; {FIX}")
    _array(values, (sim.worlds, *sim.parameters.stored(known).numpy().shape[1:]), "f", f"arrays[{name!r}]")


def _memory(value, mine, label: str) -> None:
    """Check a term's memory: it may be None, and lists may have any length; arrays must have the same shape."""
    if isinstance(value, list):
        if not isinstance(mine, (list, type(None))):
            raise ValueError(f"load_state_dict: {label} is a list, and was none; {FIX}")
        for each in value:
            _memory(each, mine[0] if mine else None, label)
    elif value is not None and mine is not None and not isinstance(mine, list):
        _array(value, mine.shape, mine.dtype.kind, label)
    elif isinstance(mine, list) and value is not None:
        raise ValueError(f"load_state_dict: {label} is {short(value)}, and was a list; {FIX}")
