# SPDX-License-Identifier: Apache-2.0
"""The command `warpsim warm`."""

import contextlib
import dataclasses
import signal
import sys
import time
from typing import Annotated, Literal

from tyro.conf import Positional, UseAppendAction

from warpsim.base import checks

CONTACT = {
    "sap": lambda ws: ws.SAP(),
    "convex": lambda ws: ws.SAP(approximation="convex"),
    "compliant": lambda ws: ws.Compliant(),
    "lcp": lambda ws: ws.LCP(),
    "mujoco": lambda ws: ws.MuJoCo(),
    "none": lambda ws: ws.NoContact(),
}
Contact = Literal["sap", "convex", "compliant", "lcp", "mujoco", "none"]
INTEGRATORS = {
    "symplectic": "SymplecticEuler",
    "explicit": "ExplicitEuler",
    "implicit": "ImplicitEuler",
    "midpoint": "Midpoint",
    "variational": "Variational",
    "mujoco-euler": "MuJoCoEuler",
    "mujoco-implicitfast": "MuJoCoImplicitFast",
    "mujoco-rk4": "MuJoCoRK4",
}


@dataclasses.dataclass
class Warm:
    """Compile the kernels that a robot launches, so that no later process waits for them.

    Warp's kernel cache keeps them (the folder WARP_CACHE_PATH, if it is set). Robots with the same features have the
    same kernels. After Ctrl-C the command finishes the kernels that are being compiled; a second Ctrl-C ends it at
    once. The next call goes on.
    """

    model: Positional[str | None] = None
    """MJCF (.xml, .mjcf), URDF (.urdf) or USD (.usd, .usda, .usdc, .usdz) file; None is the robots of `ws.robots`."""
    gradients: bool = False
    """Also compile backward passes and Jacobians."""
    device: str | None = None
    """Warp device, as cpu or cuda:0; None is CUDA where there is one."""
    arch: Annotated[tuple[int, ...], UseAppendAction] = ()
    """Compile for GPUs of this compute capability instead, such as 90 for sm_90; may be given several times. This
    machine needs no GPU; a machine with one, the same Warp and this kernel cache then loads what was compiled."""
    dtype: Literal["float32", "float64"] = "float32"
    """Precision."""
    contact: Contact = "sap"
    """Contact model: ws.SAP(), ws.SAP(approximation="convex"), ws.Compliant(), ws.LCP(), ws.MuJoCo() or
    ws.NoContact()."""
    integrator: Literal[
        "symplectic", "explicit", "implicit", "midpoint", "variational",
        "mujoco-euler", "mujoco-implicitfast", "mujoco-rk4",
    ] | None = None  # fmt: skip
    """Integrator; None is the default of the contact model."""
    actuators: Literal["effort", "position"] | None = None
    """Add one actuator per joint where the file has none (URDF)."""
    time_of_impact: bool = False
    """Resolve impacts within steps. Without this, only steps of files with restitution do."""
    workers: int | None = None
    """Threads that compile, about 1 GB each; None is all cores that this process may use, whatever OMP_NUM_THREADS
    is."""

    def __call__(self) -> None:
        import warp as wp

        from warpsim.device.cores import allowed_cores
        from warpsim.tools.runs import progress_bar
        from warpsim.tools.warm import compile_for_gpus, compile_kernels

        if self.workers is not None:
            checks.whole(self.workers, "workers", 1)
        self._check_archs()
        workers = self.workers or allowed_cores()
        start = time.perf_counter()
        with progress_bar("finding kernels", 0):
            kernels, device = self._kernels()
        try:
            with progress_bar("compiling kernels", len({kernel.module for kernel in kernels})) as progress:
                if self.arch:
                    made, files, size = compile_for_gpus(kernels, sorted(set(self.arch)), workers, progress)
                else:
                    compiled, modules = compile_kernels(kernels, device, workers, progress)
        except KeyboardInterrupt:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # Python would wait for its threads, with a traceback
            print("finishing the kernels that are being compiled; Ctrl-C ends at once", file=sys.stderr, flush=True)
            raise
        seconds, cache = time.perf_counter() - start, wp.config.kernel_cache_dir
        if self.arch:
            names = ", ".join(f"sm_{arch}" for arch in sorted(set(self.arch)))
            print(f"compiled {made} of {files} files for {names} in {seconds:.0f} s; {size / 1e6:.1f} MB in {cache}")
        elif compiled:
            print(f"compiled {compiled} of {modules} kernel modules for {device} in {seconds:.0f} s, into {cache}")
        else:
            print(f"nothing to do: all {modules} kernel modules are compiled for {device}")

    def _check_archs(self) -> None:
        """Refuse what Warp's compiler cannot make, and a device beside it."""
        from warpsim.tools.warm import gpu_archs

        known = gpu_archs() if self.arch else []
        for arch in self.arch:
            if arch not in known:
                can = ", ".join(map(str, known)) or "none: this Warp has no CUDA compiler"
                raise ValueError(f"--arch is {arch}; this Warp compiles for {can}")
        if self.arch and self.device is not None:
            raise ValueError(f"--arch needs no device; leave out --device {self.device}")

    def _kernels(self) -> tuple[list, object]:
        """The kernels of all chosen robots, and the device."""
        import warpsim as ws
        from warpsim.tools.warm import as_on_gpu, kernels_of

        paths = [ws.robots.path(name) for name in ws.robots.names()] if self.model is None else [self.model]
        options = {"worlds": 2, "threads": 1, "device": "cpu" if self.arch else self.device, "dtype": self.dtype}
        options["solver"] = CONTACT[self.contact](ws)
        options["time_of_impact"] = self.time_of_impact or None
        if self.integrator is not None:
            options["integrator"] = getattr(ws, INTEGRATORS[self.integrator])()
        found = []
        for path in paths:
            model = ws.load(path, actuators=self.actuators)
            for requires_grad in (False, True) if self.gradients else (False,):
                sim = ws.Simulator(model, requires_grad=requires_grad, **options)
                with as_on_gpu(sim) if self.arch else contextlib.nullcontext():
                    found += kernels_of(sim)
        return found, sim.device
