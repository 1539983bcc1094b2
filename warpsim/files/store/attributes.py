# SPDX-License-Identifier: Apache-2.0
"""Check the attributes of a store before anything is built from them: sizes, and the record of its run."""

import numpy as np

from warpsim.base.checks import short

MOST_FRAMES = 1024  # in one block
SOURCES = ("none", "random", "array", "callable")


def check_attributes(attributes: dict) -> None:
    """Raise `ValueError` for the first attribute that is not a store's."""
    _whole(attributes, ("frames", "worlds"), 0)
    if attributes["version"] == 1:
        return
    _whole(attributes, ("frames", "worlds", "column", "block"), 1)
    for name, most, room in (("column", "worlds", 2), ("block", "frames", 1)):  # a column is rounded up to whole chunks
        if attributes[name] > room * attributes[most]:
            raise ValueError(f"{name} is {attributes[name]}, of {attributes[most]} {most}")
    if attributes["block"] > MOST_FRAMES:
        raise ValueError(f"block is {attributes['block']}; it must be at most {MOST_FRAMES}")
    check_names(attributes.get("diagnostics"))
    if "run" not in attributes:
        raise ValueError("run is not there")
    if attributes["run"] is not None:
        _check_run(attributes["run"], attributes["frames"])


def check_names(named) -> None:
    """Raise `ValueError` for diagnostics whose names are no member names, or occur twice."""
    if not (isinstance(named, list) and all(isinstance(name, str) for name in named)):
        raise ValueError(f"diagnostics is {short(named)}; it must be a list of names")
    for name in named:
        if name in ("", ".", "..", "zarr.json") or set(name) & set("/\\\0"):
            raise ValueError(f"diagnostics has {short(name)}; each must be a name without slashes")
    if len(set(named)) < len(named):
        raise ValueError(f"diagnostics is {short(named)}; each name must be there once")


def _check_run(run, frames: int) -> None:
    if not isinstance(run, dict):
        raise ValueError(f"run is {short(run)}; it must be a table")
    _whole(run, ("steps", "substeps", "every"), 1)
    if run["steps"] // run["every"] + 1 != frames:
        raise ValueError(f"{run['steps']} steps, every {run['every']}th recorded, are not {frames} frames")
    if type(run.get("divided")) is not bool:
        raise ValueError(f"divided is {short(run.get('divided'))}; it must be true or false")
    controls = run.get("controls")
    if not isinstance(controls, dict) or controls.get("kind") not in SOURCES:
        raise ValueError(f"controls is {short(controls)}; its kind must be one of {', '.join(SOURCES)}")
    if controls["kind"] == "random" and not isinstance(controls.get("options"), dict):
        raise ValueError(f"options of controls is {short(controls.get('options'))}; it must be a table")
    for name in ("simulator", "fingerprint"):
        if not isinstance(run.get(name), dict):
            raise ValueError(f"{name} is {short(run.get(name))}; it must be a table")
    _check_layout(run.get("layout"))


def _check_layout(layout) -> None:
    if not isinstance(layout, list) or not layout:
        raise ValueError(f"layout is {short(layout)}; it must be a list")
    for entry in layout:
        name, dtype, shape = entry
        if (
            not isinstance(name, str)
            or np.dtype(dtype).kind not in "fiub"
            or any(type(n) is not int or n < 0 for n in shape)
        ):
            raise ValueError(f"an entry of layout is {short(entry)}")


def _whole(table: dict, names, least: int) -> None:
    for name in names:
        value = table.get(name)
        if type(value) is not int or value < least:
            raise ValueError(f"{name} is {short(value)}; it must be a whole number of at least {least}")
