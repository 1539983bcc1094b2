# SPDX-License-Identifier: Apache-2.0
"""Input arrays of the solvers as functions: read as float64 and checked, with errors that name the element.

Results come back as the type of the input. The leading axis is that of worlds; without it there is one world.
"""

import numpy as np
import warp as wp

from warpsim.base import checks
from warpsim.device.copies import SCALARS

# Largest asymmetry |A − Aᵀ| accepted, relative to the largest entry: storage in float32.
ASYMMETRY = 1e-5
# A negative eigenvalue of a semidefinite matrix above −INDEFINITE × the largest one counts as rounding.
INDEFINITE = 1e-6


def host(value, name: str = "an array") -> np.ndarray:
    """The array as NumPy float64; a value that holds no numbers raises an error that calls it `name`."""
    return checks.numbers(value.numpy() if isinstance(value, wp.array) else value, name)


def first_device_array(*values) -> wp.array | None:
    """The first of `values` that is a Warp array."""
    return next((x for x in values if isinstance(x, wp.array)), None)


def batch(owner: str, name: str, value, shape, text: str, *, infinite: bool = False) -> np.ndarray:
    """`value` as a contiguous float64 array of `shape` (worlds first); without a leading axis all worlds share it.

    Raises ValueError with the shape `text`, or with the first entry that is NaN (or infinite, unless `infinite`).
    """
    value = host(value, f"{owner}: {name}")
    if value.ndim == len(shape) - 1:
        value = np.broadcast_to(value, (shape[0], *value.shape))
    if value.shape != tuple(shape):
        raise ValueError(f"{owner}: {name} has shape {value.shape}; expected {text} = {tuple(shape)}.")
    bad = np.isnan(value) if infinite else ~np.isfinite(value)
    if np.any(bad):
        raise entry_error(owner, name, value, bad, "every entry must be " + ("a number." if infinite else "finite."))
    return np.ascontiguousarray(value)


def entry_error(owner: str, name: str, value: np.ndarray, bad: np.ndarray, rule: str) -> ValueError:
    """The error for the first entry of `value` where `bad`."""
    where = tuple(int(i) for i in np.argwhere(bad)[0])
    return ValueError(f"{owner}: {name}{list(where)} is {value[where]}; {rule}")


def counts(owner: str, name: str, value, worlds: int, most: int) -> np.ndarray:
    """`value (worlds,)` as int32 counts from 0 to `most`; None: all of them."""
    if value is None:
        return np.full(worlds, most, dtype=np.int32)
    value = batch(owner, name, np.atleast_1d(host(value, f"{owner}: {name}")), (worlds,), "(worlds,)")
    bad = (value < 0) | (value > most) | (value != np.round(value))
    if np.any(bad):
        raise entry_error(owner, name, value, bad, f"give whole numbers from 0 to {most}.")
    return value.astype(np.int32)


def check_symmetric(owner: str, name: str, matrices: np.ndarray) -> None:
    """Raise unless every matrix is symmetric to the precision of float32 storage."""
    for w, matrix in enumerate(matrices):
        if np.abs(matrix - matrix.T).max(initial=0.0) > ASYMMETRY * np.abs(matrix).max(initial=0.0):
            raise ValueError(f"{owner}: {name}[{w}] is not symmetric; pass ({name} + {name}ᵀ)/2 if that is meant.")


def check_semidefinite(owner: str, name: str, matrices: np.ndarray, fix: str) -> None:
    """Raise unless every matrix is symmetric positive semidefinite, up to rounding in float32."""
    check_symmetric(owner, name, matrices)
    for w, matrix in enumerate(matrices):
        if matrix.size == 0:
            continue
        eigenvalues = np.linalg.eigvalsh(0.5 * (matrix + matrix.T))
        if eigenvalues[0] < -INDEFINITE * max(abs(eigenvalues[-1]), abs(eigenvalues[0])):
            raise ValueError(
                f"{owner}: {name}[{w}] is not positive semidefinite (lowest eigenvalue {eigenvalues[0]:.3g}); {fix}"
            )


def check_dtype(owner: str, dtype: str):
    """The scalar type called `dtype`."""
    return SCALARS[checks.choice(dtype, f"{owner}: dtype", SCALARS)]


def check_tolerance(owner: str, tolerance: float | None) -> None:
    """Raise unless the tolerance is None or in (0, 1)."""
    checks.tolerance(tolerance, f"{owner}: tolerance")


def to_device(value: np.ndarray, kind, device) -> wp.array:
    """A Warp array of scalar type `kind`."""
    numpy_type = np.int32 if kind is int else wp.dtype_to_numpy(kind)
    return wp.array(np.ascontiguousarray(value, dtype=numpy_type), dtype=kind, device=device)


def allocate(struct, device, shapes: dict) -> None:
    """Allocate zeros for every array of a Warp struct, of shape `shapes[name]` if present, else `shapes[ndim]`."""
    for name, variable in struct._cls.vars.items():
        shape = shapes[name] if name in shapes else shapes[variable.type.ndim]
        setattr(struct, name, wp.zeros(shape, dtype=variable.type.dtype, device=device))
