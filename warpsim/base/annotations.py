# SPDX-License-Identifier: Apache-2.0
"""Types of the arguments and results of public calls, for readers and type checkers."""

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import warp as wp

if TYPE_CHECKING:
    Array: TypeAlias = wp.array[Any, Any]
    Device: TypeAlias = wp.Device[Any, Any]
else:
    Array, Device = wp.array, wp.Device

Numbers: TypeAlias = npt.ArrayLike | Array  # cast to the dtype and copied to the device if necessary
PathLike: TypeAlias = str | os.PathLike[str]
Selection: TypeAlias = int | Sequence[int] | np.ndarray  # n for the first n, or indices
DeviceName: TypeAlias = str | Device
Element: TypeAlias = int | str  # an index, or a name
Progress: TypeAlias = bool | Callable[[int], Any]
