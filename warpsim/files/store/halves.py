# SPDX-License-Identifier: Apache-2.0
"""Rows of states in half precision (float16) for stores, rounded where they are, so that half of the bytes are copied
to the host."""

import warnings

import numpy as np

from warpsim.device.array_module import device_view, module_of, to_host
from warpsim.model.host_kinematics import host_span


class Halves:
    """What the store at `path` with these `dtypes` by name holds in half precision.

    A number beyond ±65504 becomes infinite. A warning names the first one; its world is counted from `world` on.
    """

    def __init__(self, path, dtypes: dict, world: int = 0):
        self.names = frozenset(name for name, dtype in dtypes.items() if dtype == np.float16)
        self._path, self._world, self._told = path, world, False

    def rows(self, name: str, array, first: int, stop: int, frame: int) -> np.ndarray:
        """Rows `first` to `stop` of an array as the store holds them, on the host. `frame`: the number of the first."""
        if name not in self.names:
            return host_span(array, first, stop)
        part = device_view(array)[first:stop]
        module = module_of(part)
        with np.errstate(over="ignore"):
            half = part.astype(np.float16)
        lost = module.isinf(half) & module.isfinite(part)
        if not self._told and bool(lost.any()):
            self._told = True
            row, world = np.argwhere(to_host(lost))[0][:2].tolist()
            warnings.warn(
                f"{self._path}: {name} of world {self._world + world} at frame {frame + row} is beyond ±65504, where "
                "half precision ends: the store holds inf there, and wherever else a number is that large; without "
                "half=True it holds them",
                stacklevel=2,
            )
        return to_host(half)


def half_dtypes(dtypes: dict) -> dict:
    """The dtypes of a store in half precision: float16 for all but the time."""
    return {name: dtype if name == "time" else np.dtype(np.float16) for name, dtype in dtypes.items()}
