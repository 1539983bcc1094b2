# SPDX-License-Identifier: Apache-2.0
"""`load`: read a robot or scene file of any supported format into a `Model`."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import re
from collections.abc import Callable, Mapping
from typing import Any

import mujoco

from warpsim.base.annotations import PathLike
from warpsim.base.checks import choice, flag, positive, short
from warpsim.base.errors import ModelError
from warpsim.base.other_names import answers
from warpsim.files.mjcf.mjcf import load_mujoco
from warpsim.files.safe_files import root_tag
from warpsim.model.builder_values import hull_limit
from warpsim.model.model import Model

MUJOCO_SUFFIXES = (".xml", ".mjcf")
URDF_SUFFIXES = (".urdf",)
USD_SUFFIXES = (".usd", ".usda", ".usdc", ".usdz")
URDF_DEFAULTS = {"merge_fixed": False, "base": "fixed", "visuals": True}
FOR_URDF = "merge_fixed, base and visuals are for URDF files; other files say so themselves"
LONGEST_WORD = 500  # characters; an error shortens words of this length or more


@contextlib.contextmanager
def _readable():
    """Shorten very long words of a file (names, prim paths) in error messages, by cutting out their middle."""
    try:
        yield
    except ModelError as error:
        text = str(error)
        cut = re.sub(rf"\S{{{LONGEST_WORD},}}", lambda word: f"{word.group()[:200]} ... {word.group()[-60:]}", text)
        if cut == text:
            raise
        raise ModelError(cut) from None


def _check_options(actuators, unsupported, base, packages, decompose, flags: dict) -> None:
    """Raise `ModelError` for an option of `load` with an invalid value."""
    choice(unsupported, "unsupported", ("error", "report"), ModelError)
    choice(actuators, "actuators", (None, "effort", "position"), ModelError)
    choice(base, "base", ("fixed", "free"), ModelError)
    for name, value in flags.items():
        flag(value, name, ModelError)
    if not isinstance(decompose, Mapping):
        flag(decompose, "decompose (True, False or a dict of settings)", ModelError)
    if packages is not None and not isinstance(packages, Mapping):
        raise ModelError(f"packages is {short(packages)}; give a dict of names and folders")


def _bounds(isolate) -> dict | None:
    """The bounds in `isolate`; None if the file is read in this process."""
    if not isinstance(isolate, Mapping):
        return {} if flag(isolate, "isolate (True, False or a dict of bounds)", ModelError) else None
    for name, value in isolate.items():
        choice(name, "a bound of isolate", ("bytes", "seconds"), ModelError)
        positive(value, f"isolate: {name}", error=ModelError)
    return dict(isolate)


@answers
def load(
    source: PathLike | mujoco.MjModel | mujoco.MjSpec,
    *,
    actuators: str | None = None,
    unsupported: str = "error",
    packages: Mapping[str, PathLike] | None = None,
    merge_fixed: bool = False,
    base: str = "fixed",
    visuals: bool = True,
    decompose: bool | dict[str, Any] = False,
    root: PathLike | None = None,
    isolate: bool | dict[str, float] = False,
    max_hull_vertices: int | None = None,
) -> Model:
    """Load a robot or a scene from a file.

    Parameters
    ----------
    source : path or mujoco.MjSpec or mujoco.MjModel
        An MJCF, URDF or USD file. The suffix decides; for `.xml` files the root element decides. A spec is not changed.
    actuators : str, optional
        "effort" or "position" adds an actuator to each hinge and slide joint that has none. URDF files need this.
        "effort": the control range is the file's effort limits. "position": the gains are kp = 100, kv = 10; the
        control range is the joint limits and the force range the effort limits.
    unsupported : str
        "error" (default) refuses a file with features that change the motion and cannot be simulated. "report" loads
        everything else with one warning. Unknown elements of a URDF are no error: each has a line in the report, and a
        warning if it may change the motion.
    packages : dict, optional
        Folders of ROS packages by name, for `package://name/...`. Default: none.
    merge_fixed : bool
        URDF: make links on fixed joints part of their parent. Default: False.
    base : str
        URDF: "fixed" (default) attaches the root link to the world, "free" lets it move.
    visuals : bool
        URDF: whether to load geometry that is only drawn. Default: True.
    decompose : bool or dict
        Whether a mesh in contact is replaced by several convex parts, from the package coacd, instead of by its convex
        hull. A dict holds coacd's settings. Default: False.
    root : path, optional
        The folder that files may be read from. Default: the folder of the nearest `package.xml` above the file, else
        the file's own. Only this folder and `packages` are read.
    isolate : bool or dict
        Whether to read the file in a separate process with bounds, for files that you do not trust. This takes about a
        second more. Default: False. A dict sets the bounds: `bytes` (default 8 GiB) and `seconds` of processor time
        (default 120).
    max_hull_vertices : int, optional
        Most vertices of a convex hull, 32 or more. A larger hull is replaced by one inside it. Default: 64, or the
        value stored in a USD file that warpsim wrote.

    Returns
    -------
    Model
        `model.report` lists each feature of the file as used, mapped, ignored or refused, and why.

    Raises
    ------
    ModelError
        The file cannot be read. The message names the file, the element and the fix.

    Examples
    --------
    >>> model = ws.load(ws.robots.path("hopper"))
    >>> model.nq, model.nv, model.nu
    (6, 6, 3)
    """
    bounds = _bounds(isolate)
    limit = None if max_hull_vertices is None else hull_limit(max_hull_vertices, "max_hull_vertices")
    _check_options(actuators, unsupported, base, packages, decompose, {"merge_fixed": merge_fixed, "visuals": visuals})
    options = {"actuators": actuators, "unsupported": unsupported, "decompose": decompose}
    of_urdf = {"merge_fixed": merge_fixed, "base": base, "visuals": visuals}
    of_files = {"packages": packages, "root": root}
    if isinstance(source, mujoco.MjModel | mujoco.MjSpec):
        options |= _options_of_mujoco(source, of_urdf, of_files, bounds)
        return _with_hulls(load_mujoco(source, **options), limit)
    path = _path_of(source, of_urdf)
    with _readable():
        if bounds is not None:
            from warpsim.files.isolated import load_isolated

            return _with_hulls(load_isolated(path, options | of_files | of_urdf, **bounds), limit)
        # called here, so that the stack level of the readers' warnings points to the line that calls `load`
        reader, options = _reader(path, options | of_files, of_urdf)
        return _with_hulls(reader(path, **options), limit)


def _options_of_mujoco(source, of_urdf: dict, of_files: dict, bounds: dict | None) -> dict:
    """The file options of `load`, for a spec; empty for a compiled model.

    Raises `ModelError` for options neither takes.
    """
    compiled = isinstance(source, mujoco.MjModel)
    if of_urdf != URDF_DEFAULTS:
        raise ModelError(FOR_URDF)
    if compiled and (any(option is not None for option in of_files.values()) or bounds is not None):
        raise ModelError("packages, root and isolate are for files; a mujoco.MjModel reads none any more")
    if bounds is not None:
        raise ModelError("isolate is for files; a mujoco.MjSpec is in this process already")
    return {} if compiled else of_files


def _with_hulls(model: Model, limit: int | None) -> Model:
    """The model with convex hulls of at most `limit` vertices (None: unchanged)."""
    if limit is None or all(mesh.max_hull_vertices == limit for mesh in model.meshes):
        return model
    return dataclasses.replace(model, meshes=tuple(mesh._replace(max_hull_vertices=limit) for mesh in model.meshes))


def _path_of(source, of_urdf: dict) -> pathlib.Path:
    """The path of a file of a known type. Raises `ModelError` for URDF options with a USD file."""
    if not isinstance(source, (str, os.PathLike)):
        raise ModelError(f"cannot load a {type(source).__name__}; give a path, a mujoco.MjModel or a mujoco.MjSpec")
    path = pathlib.Path(source)
    suffix = path.suffix.lower()
    known = (*MUJOCO_SUFFIXES, *URDF_SUFFIXES, *USD_SUFFIXES)
    if suffix not in known and str(source).lstrip().startswith("<"):
        raise ModelError(
            f"{str(source).strip()[:40]!r} is the text of a file, not a path; for MJCF use "
            "ws.load(mujoco.MjSpec.from_string(text)), for others write it to a file"
        )
    if suffix not in known:
        raise ModelError(
            f"{str(source)[:80]!r}: unknown file type {suffix!r}; give a path that ends in {', '.join(known)}"
        )
    if of_urdf != URDF_DEFAULTS and suffix in USD_SUFFIXES:
        raise ModelError(f"{path}: {FOR_URDF}")
    return path


def _reader(path: pathlib.Path, options: dict, of_urdf: dict) -> tuple[Callable[..., Model], dict]:
    """The function that reads the file, chosen by suffix or root element, and the options that it takes."""
    suffix = path.suffix.lower()
    if suffix in USD_SUFFIXES:
        from warpsim.files.usd.usd_read import load_usd

        return load_usd, options
    if suffix in URDF_SUFFIXES or (path.is_file() and root_tag(path) == "robot"):
        from warpsim.files.urdf.urdf import load_urdf

        return load_urdf, options | of_urdf
    if of_urdf != URDF_DEFAULTS:
        raise ModelError(f"{path}: {FOR_URDF}")
    return load_mujoco, options
