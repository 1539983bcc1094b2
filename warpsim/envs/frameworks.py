# SPDX-License-Identifier: Apache-2.0
"""What terms compute with: NumPy, torch or JAX, over the memory of Warp's arrays."""

import contextlib

import numpy as np
import warp as wp

from warpsim.base.checks import choice
from warpsim.base.extras import import_or_explain

FRAMEWORKS = ("numpy", "torch", "jax")


class Arrays:
    """One framework on one device: `xp`, its functions (`where`, `clip`, `concat`, …), and the way from Warp's arrays and back."""

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
        # On the CPU an array of NumPy or torch is the memory of Warp's, and stays right as that is written; others are read anew.
        self.lasting = framework == "torch" or (framework == "numpy" and device.is_cpu)

    def stream(self):
        """Within, Warp launches on the stream that torch is using on this device; with other frameworks and on the CPU nothing changes."""
        if self.framework != "torch" or not self.device.is_cuda:
            return contextlib.nullcontext()
        current = self.xp.cuda.current_stream(wp.device_to_torch(self.device))
        return wp.ScopedStream(wp.stream_from_torch(current))

    def of(self, array: wp.array):
        """An array of Warp's in the framework, for NumPy on the CPU and torch without a copy."""
        if self.framework == "numpy":
            return array.numpy()
        if self.framework == "torch":
            return wp.to_torch(array, requires_grad=False)
        # JAX computes when it likes, also after this memory has been written to: it gets a copy, and is waited for.
        return self.xp.array(array.numpy()) if self.device.is_cpu else wp.to_jax(wp.clone(array)).block_until_ready()

    def give(self, values, dtype) -> wp.array:
        """Values of the framework as an array of Warp's on the device."""
        if self.framework == "torch":
            return wp.from_torch(values.to(wp.dtype_to_torch(dtype)).contiguous(), dtype=dtype)
        if self.framework == "jax":
            return wp.from_jax(values.astype(wp.dtype_to_jax(dtype)).block_until_ready(), dtype=dtype)
        return wp.array(np.ascontiguousarray(values), dtype=dtype, device=self.device)

    def put(self, array: wp.array, values) -> None:
        """Write values of the framework into an array of Warp's."""
        if self.framework == "numpy" and self.device.is_cpu:
            array.numpy()[...] = values
        elif self.framework == "torch":
            wp.to_torch(array, requires_grad=False).copy_(values)
        else:
            wp.copy(array, self.give(values, array.dtype))

    def host(self, values) -> np.ndarray:
        """As NumPy."""
        return values.detach().cpu().numpy() if self.framework == "torch" else np.asarray(values)

    def made(self, values):
        """Numbers in the framework, on the device."""
        if self.framework == "torch":
            values = values if self.xp.is_tensor(values) else np.asarray(values)
            return self.xp.as_tensor(values, device=wp.device_to_torch(self.device))
        if hasattr(values, "detach"):
            values = values.detach().cpu()
        return self.xp.asarray(values)

    def copied(self, values):
        """The same numbers in memory of their own."""
        if self.framework == "torch":
            return values.clone()
        return self.xp.array(values)

    def floats(self, values, dtype: str = "float32"):
        """As real numbers."""
        if self.framework == "torch":
            return values.to(getattr(self.xp, dtype))
        return self.xp.asarray(values, dtype=dtype)
