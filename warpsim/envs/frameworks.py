# SPDX-License-Identifier: Apache-2.0
"""The array framework of terms: NumPy, torch or JAX, over the memory of Warp's arrays."""

import contextlib
import math

import numpy as np
import warp as wp

from warpsim.base.checks import choice
from warpsim.base.extras import import_or_explain

FRAMEWORKS = ("numpy", "torch", "jax")
SHARED = 256  # arrays whose wrapping is kept


class Arrays:
    """One framework on one device: its functions `xp` (`where`, `clip`, …), and conversions from and to Warp arrays."""

    def __init__(self, framework: str, device):
        self.framework, self.device = choice(framework, "array", FRAMEWORKS), device
        if framework == "numpy":
            self.xp = np
        elif framework == "torch":
            self.xp = import_or_explain("torch", "torch")
        else:
            import_or_explain("jax", "jax")
            import jax.numpy

            self.xp = jax.numpy
        # On the CPU a NumPy or torch array shares the memory of the Warp array and follows writes to it. Others are
        # read again.
        self.lasting = framework == "torch" or (framework == "numpy" and device.is_cpu)
        # Whether values can be read without waiting for the device. If not, no step of an environment reads any.
        self.near = device.is_cpu or framework == "numpy"
        self._constants: dict[tuple, object] = {}
        self._shared: dict[tuple, tuple] = {}

    def stream(self):
        """A context in which Warp launches on torch's current stream.

        It has no effect on the CPU or with other frameworks.
        """
        if self.framework != "torch" or not self.device.is_cuda:
            return contextlib.nullcontext()
        current = self.xp.cuda.current_stream(wp.device_to_torch(self.device))
        return wp.ScopedStream(wp.stream_from_torch(current))

    def of(self, array: wp.array):
        """A Warp array in the framework; without a copy for NumPy on the CPU and for torch."""
        if self.framework == "numpy":
            return array.numpy()
        if self.framework == "torch":
            return wp.to_torch(array, requires_grad=False)
        # JAX is asynchronous, and may compute after this memory has been overwritten. It gets a copy, and is waited
        # for.
        return self.xp.array(array.numpy()) if self.device.is_cpu else wp.to_jax(wp.clone(array)).block_until_ready()

    def shared(self, array: wp.array):
        """`of` for an array that lives about as long as the environment; where memory is shared, wrapped once."""
        if not self.lasting:
            return self.of(array)
        key = (array.ptr, array.shape)
        kept, found = self._shared.get(key, (None, None))
        if kept is not array:
            if len(self._shared) >= SHARED:
                self._shared.clear()
            with self._lasts():
                found = self.of(array)
            self._shared[key] = array, found  # with the array, so that its memory is not another's
        return found

    def give(self, values, dtype) -> wp.array:
        """Values of the framework as a Warp array on the device."""
        scalar = getattr(dtype, "_wp_scalar_type_", dtype)
        if self.framework == "torch":
            return wp.from_torch(values.to(wp.dtype_to_torch(scalar)).contiguous(), dtype=dtype)
        if self.framework == "jax":
            return wp.from_jax(values.astype(wp.dtype_to_jax(scalar)).block_until_ready(), dtype=dtype)
        return wp.array(np.ascontiguousarray(values), dtype=dtype, device=self.device)

    def put(self, array: wp.array, values) -> None:
        """Write values of the framework into a Warp array that lives about as long as the environment."""
        if self.framework == "torch":
            self.shared(array).copy_(values)
        elif self.device.is_cpu:
            (self.shared(array) if self.lasting else array.numpy())[...] = values
        else:
            wp.copy(array, self.give(values, array.dtype))

    def host(self, values) -> np.ndarray:
        """The values as a NumPy array."""
        return values.detach().cpu().numpy() if self.framework == "torch" else np.asarray(values)

    def made(self, values):
        """Values as an array of the framework, on the device."""
        if self.framework == "torch":
            values = values if self.xp.is_tensor(values) else np.asarray(values)
            return self.xp.as_tensor(values, device=wp.device_to_torch(self.device))
        if hasattr(values, "detach"):
            values = values.detach().cpu()
        return self.xp.asarray(values)

    def constant(self, values):
        """Host numbers as an array of the framework that nobody writes to, copied to the device once."""
        values = np.asarray(values)
        key = (values.dtype.str, values.shape, values.tobytes())
        if key not in self._constants:
            with self._lasts():
                self._constants[key] = self.made(values)
        return self._constants[key]

    def _lasts(self):
        """A context for what is kept, and may be used inside and outside of torch's inference mode."""
        return self.xp.inference_mode(False) if self.framework == "torch" else contextlib.nullcontext()

    def zeros(self, count: int, dtype: str = "bool"):
        """An array of zeros, made on the device."""
        kind = getattr(self.xp, dtype)
        if self.framework == "torch":
            return self.xp.zeros(count, dtype=kind, device=wp.device_to_torch(self.device))
        return self.xp.zeros(count, dtype=kind)

    def any(self, mask) -> bool:
        """Whether a mask may hold anywhere; on a device that is not near, True without a look."""
        return not self.near or bool(self.host(mask).any())

    def seen_finite(self, *arrays) -> bool:
        """Whether all entries are finite, as far as their sums tell: False may be a sum that is too large.

        It reads the sums, so only where values are near. A sum takes less time than a comparison of every entry.
        """
        if self.framework == "torch":
            return all(math.isfinite(x.detach().sum().item()) for x in arrays)
        with np.errstate(over="ignore", invalid="ignore"):
            return all(math.isfinite(x.sum()) for x in arrays)

    def copied(self, values):
        """A copy in separate memory."""
        if self.framework == "torch":
            return values.clone()
        return self.xp.array(values)

    def rows(self, mask, new, old):
        """Rows of `new` where a mask `(worlds,)` holds, rows of `old` elsewhere. `new` may be a number."""
        if self.framework == "numpy" and (np.ndim(new) == 0 or (new.dtype, new.shape) == (old.dtype, old.shape)):
            found, rows = np.array(old), mask.nonzero()[0]
            found[rows] = new[rows] if np.ndim(new) else new
            return found
        return self.xp.where(mask.reshape(-1, *(1,) * (old.ndim - 1)), new, old)

    def without_rows(self, values, rows: np.ndarray):
        """A copy of the values, with the rows of those numbers set to 0."""
        if self.framework == "jax":
            return values.at[rows].set(0)
        values = self.copied(values)
        values[self.made(rows)] = 0
        return values

    def floats(self, values, dtype: str = "float32"):
        """The values as floats."""
        if self.framework == "torch":
            return values.to(getattr(self.xp, dtype))
        return self.xp.asarray(values, dtype=dtype)
