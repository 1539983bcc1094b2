"""Opening a USD stage that may read nothing outside the model's folder, and its units and axes.

USD composes a stage of layers: sublayers, references, payloads, value clips. Every layer is looked through before the
stage is composed, and refused where it names a file outside.
"""

import pathlib

import numpy as np

from warpsim.errors import ModelError
from warpsim.io.safe_files import Folders
from warpsim.model.geometry import rotation_matrix

MAX_USD_BYTES = 512 * 2**20
MAX_LAYERS = 200
MAX_PRIMS = 200_000
FLIP_UP = {"Z": (1.0, 0.0, 0.0, 0.0), "Y": (np.sqrt(0.5), np.sqrt(0.5), 0.0, 0.0)}  # to z up


def open_stage(path: pathlib.Path, packages=None):
    """Open a stage. Raises `ModelError` for what is broken, too large, or reads outside."""
    try:
        from pxr import Sdf, Tf, Usd
    except ImportError:
        raise ModelError(f"{path}: reading USD needs usd-core: pip install usd-core") from None
    _check_file(path)
    folders = Folders(path, packages)
    try:
        _check_layers(Sdf, path, folders)
        stage = Usd.Stage.Open(Sdf.Layer.FindOrOpen(str(path)), Usd.Stage.LoadAll)
    except Tf.ErrorException as error:
        raise ModelError(f"{path}: USD cannot open it: {' '.join(str(error).split())[:300]}") from None
    if stage is None:
        raise ModelError(f"{path}: USD cannot open it")
    return stage


def _check_file(path: pathlib.Path) -> None:
    try:
        size = path.stat().st_size if path.is_file() else None
    except (OSError, ValueError) as error:
        raise ModelError(f"{path}: cannot be read: {error}") from None
    if size is None:
        raise ModelError(f"{path}: no such file")
    if not 0 < size <= MAX_USD_BYTES:
        raise ModelError(f"{path}: {size} bytes; a USD file has 1 to {MAX_USD_BYTES}")


def _check_layers(Sdf, path: pathlib.Path, folders: Folders) -> None:
    """Look through every layer that the stage would be composed of."""
    waiting, seen = [str(path.absolute())], set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        if len(seen) > MAX_LAYERS:
            raise ModelError(f"{path}: made of more than {MAX_LAYERS} layers")
        layer = Sdf.Layer.FindOrOpen(name)
        if layer is None:
            raise ModelError(f"{path}: USD cannot read the layer {name}")
        if _has_clips(layer):
            raise ModelError(f"{path}: layer {name} has value clips, which are not read; flatten the stage")
        for asset in layer.GetCompositionAssetDependencies():
            if asset.startswith("`"):
                raise ModelError(
                    f"{path}: layer {name} names a layer by the expression {asset[:60]}; flatten the stage"
                )
            absolute = layer.ComputeAbsolutePath(asset)
            outer = absolute.split("[", 1)[0]
            if outer == name.split("[", 1)[0]:
                waiting.append(absolute)  # inside the same package
                continue
            inner = absolute[len(outer) :]
            waiting.append(str(folders.find(outer)) + inner)


def _has_clips(layer) -> bool:
    found = []

    def look(place):
        spec = layer.GetObjectAtPath(place)
        if spec is not None and hasattr(spec, "HasInfo") and (spec.HasInfo("clips") or spec.HasInfo("clipSets")):
            found.append(place)

    layer.Traverse("/", look)
    return bool(found)


class Units:
    """From a stage's units and up axis to metres, kilograms and z up."""

    def __init__(self, stage):
        from pxr import UsdGeom, UsdPhysics

        self.length = float(UsdGeom.GetStageMetersPerUnit(stage))
        self.mass = float(UsdPhysics.GetStageKilogramsPerUnit(stage))
        for name, value in (("metersPerUnit", self.length), ("kilogramsPerUnit", self.mass)):
            if not (np.isfinite(value) and 1e-9 <= value <= 1e9):
                raise ModelError(f"{name} is {value:g}; it must be a positive number")
        self.up_axis = str(UsdGeom.GetStageUpAxis(stage))
        self.up = rotation_matrix(FLIP_UP.get(self.up_axis, FLIP_UP["Z"]))

    def matrix(self, transform) -> np.ndarray:
        """A USD transform to the world as 4x4 acting on columns, in metres and z up."""
        m = np.array(transform, float).T
        if not np.isfinite(m).all():
            raise ModelError("a transform is not finite")
        result = np.eye(4)
        result[:3, :3] = self.up @ m[:3, :3]
        result[:3, 3] = self.up @ m[:3, 3] * self.length
        return result
