"""`load`: a robot file to a `Model`, whatever the format."""

import os
import pathlib

import mujoco

from warpsim.errors import ModelError
from warpsim.io.mjcf import load_mujoco
from warpsim.model.model import Model

MUJOCO_SUFFIXES = (".xml", ".mjcf", ".urdf")
USD_SUFFIXES = (".usd", ".usda", ".usdc", ".usdz")


def load(source, *, actuators: str | None = None, unsupported: str = "error") -> Model:
    """Load a robot or a scene from an MJCF or URDF file, or from a compiled `mujoco.MjModel`.

    `actuators` "effort" or "position" adds one actuator to every hinge and slide that has none, as in a URDF: effort
    with the file's effort limits as control range, or position with kp = 100, kv = 10, the joint limits as control range
    and the effort limits as force range.
    `unsupported` "error" raises on what changes the motion and cannot be simulated; "report" loads the rest with one
    warning. `model.report` lists every feature of the file as used, mapped, ignored or refused, and why.
    Raises `ModelError` naming the file, the element and the fix.
    """
    if unsupported not in ("error", "report"):
        raise ModelError(f"unsupported={unsupported!r} is unknown; use 'error' or 'report'")
    if isinstance(source, mujoco.MjModel):
        return load_mujoco(source, actuators=actuators, unsupported=unsupported)
    if not isinstance(source, (str, os.PathLike)):
        raise ModelError(f"cannot load a {type(source).__name__}; give a path or a mujoco.MjModel")
    path = pathlib.Path(source)
    suffix = path.suffix.lower()
    if suffix in USD_SUFFIXES:
        raise ModelError(f"{path}: reading USD is not supported yet; convert the scene to MJCF or URDF")
    if suffix not in MUJOCO_SUFFIXES:
        known = ", ".join(MUJOCO_SUFFIXES)
        raise ModelError(f"{str(source)[:80]!r}: unknown file type {suffix!r}; give a path that ends in {known}")
    return load_mujoco(path, actuators=actuators, unsupported=unsupported)
