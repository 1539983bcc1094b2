# SPDX-License-Identifier: Apache-2.0
"""The launches of one real step: which kernels, over how many threads, on which arrays; and their PTX.

A step is replayed from a graph, which hides its launches. `launches` runs it once without, and hands every launch to a
function before or instead of making it.
"""

import contextlib
import dataclasses
import math
import pathlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import warp as wp
from warp._src.context import _build_launch_bounds_from_tuple, pack_arg

import warpsim as ws
from warpsim import stepping
from warpsim.device.relaunch import Relaunch
from warpsim.tools.kernel_modules import ARCH, kept_ptx
from warpsim.tools.warm import as_on_gpu

SLOW = (".sap.lagged", ".sap.lagged_quick", ".sap.sap")  # modules whose CUDA code takes long to compile


@dataclasses.dataclass(frozen=True)
class Launch:
    """One launch: a kernel, or a copy or fill of an array where `kernel` is None."""

    kernel: wp.Kernel | None
    dim: tuple[int, ...]
    inputs: tuple
    block: int
    options: dict[str, Any]

    @property
    def name(self) -> str:
        """`file.kernel`, for humans and budget files; the file's copy for float64 has the same."""
        if self.kernel is None:
            return "copy"
        return f"{self.kernel.module.name.split('.')[-1]}.{self.kernel.key}"

    @property
    def is_slow(self) -> bool:
        """Whether it belongs to a module that quick checks leave out."""
        return self.kernel is not None and self.kernel.module.name.endswith(SLOW)

    @property
    def threads_by_axis(self) -> tuple[int, ...]:
        """What it is launched over on a GPU: there a kernel with lanes has a warp of them, or part of one, here it has one."""
        lanes = getattr(self.kernel, "lanes", 0)
        return (*self.dim[:-1], lanes) if lanes else self.dim

    @property
    def threads(self) -> int:
        """How many threads it has on a GPU."""
        return math.prod(self.threads_by_axis)

    def make(self) -> None:
        """Run it on the CPU."""
        launch_on_cpu(self.kernel, self.dim, list(self.inputs), **self.options)

    def arrays(self) -> dict[str, wp.array]:
        """Every array that it is given, those in structs as `argument.field`, each address once."""
        found: dict[int, tuple[str, wp.array]] = {}
        for argument, value in zip(self.kernel.adj.args, self.inputs, strict=True):
            collect_arrays(argument.label, value, found)
        return dict(found.values())

    def parameters(self) -> list[bytes]:
        """What CUDA would be given, in order: the launch bounds, then every argument."""
        bounds = _build_launch_bounds_from_tuple(self.threads_by_axis, self.kernel.adj.kernel_dim)
        arguments = zip(self.kernel.adj.args, self.inputs, strict=True)
        return [bytes(bounds), *(bytes(pack_arg(self.kernel, a.type, a.label, x, "cpu", False)) for a, x in arguments)]


launch_on_cpu = wp.launch
ON_CPU = ("space",)  # arrays of structs that a GPU has no use for


def collect_arrays(name: str, value, found: dict[int, tuple[str, wp.array]]) -> None:
    """Add the arrays of a launch argument, and of its structs, to `found`: name and array by address."""
    if isinstance(value, wp.array):
        if value.ptr and value.size:
            found.setdefault(value.ptr, (name, value))
    elif hasattr(value, "_cls"):
        for field in value._cls.vars:
            if field in ON_CPU:
                continue
            collect_arrays(f"{name}.{field}", getattr(value, field), found)


@contextlib.contextmanager
def intercepted(each: Callable[[Launch], None]) -> Iterator[None]:
    """Within it `each(launch)` is called in place of every `wp.launch`, on the CPU and outside graphs."""

    def launch(kernel, dim, inputs=(), outputs=(), **options):
        dim = tuple(dim) if hasattr(dim, "__len__") else (dim,)
        each(Launch(kernel, dim, (*inputs, *outputs), options.get("block_dim") or 256, options))

    call, Relaunch.__call__ = Relaunch.__call__, Relaunch.launch_afresh
    wp.launch = launch
    try:
        yield
    finally:
        wp.launch, Relaunch.__call__ = launch_on_cpu, call


@contextlib.contextmanager
def unreplayed(sim: ws.Simulator) -> Iterator[None]:
    """Within it the simulator launches its kernels one by one instead of replaying them from a graph."""
    stepper, replay = sim._stepper, sim._stepper.replay
    stepper.repeat = lambda *step: None
    replay.run = lambda key, launch, **options: launch()
    try:
        yield
    finally:
        del replay.run, stepper.repeat


def step_launches(sim: ws.Simulator, state: ws.State, control=None, make=Launch.make) -> list[Launch]:
    """The launches and copies of one `sim.step(state, control, out=state)`; `make(launch)` makes each of the launches."""
    seen: list[Launch] = []
    original = wp.copy

    def copy(target, source, *args, **options):
        seen.append(Launch(None, target.shape, (target, source), 0, {}))
        original(target, source, *args, **options)

    def each(launch: Launch) -> None:
        seen.append(launch)
        make(launch)

    on_host = stepping.copy_on_host
    wp.copy = stepping.copy_on_host = copy
    try:
        with intercepted(each), unreplayed(sim), as_on_gpu(sim):
            sim.step(state, control, out=state)
    finally:
        wp.copy, stepping.copy_on_host = original, on_host
    return seen


def gradient_launches(sim: ws.Simulator, state: ws.State, control, make) -> None:
    """Hands to `make(launch)` the launches with lanes of a step that a tape records, and of its backward pass; the others are made."""

    def each(launch: Launch) -> None:
        (make if getattr(launch.kernel, "lanes", 0) else Launch.make)(launch)

    with intercepted(each), unreplayed(sim), as_on_gpu(sim):
        with wp.Tape() as tape:
            after = sim.step(state, control)
        tape.backward(grads={after.v: wp.full_like(after.v, 1.0)})


def compiled(module: wp.Module, block: int) -> pathlib.Path:
    """Folder with PTX of a Warp module for sm_90 and blocks of `block` threads, and Warp's notes; kept beside Warp's own cache."""
    module.options["block_dim"] = block  # known at compile time, part of the hash
    kept = kept_ptx(module)
    if not list(kept.glob("*.ptx")):
        kept.parent.mkdir(parents=True, exist_ok=True)
        made = pathlib.Path(tempfile.mkdtemp(dir=kept.parent))
        wp.compile_aot_module(module, arch=ARCH, module_dir=made, use_ptx=True)
        for source in made.glob("*.cu"):
            source.unlink()
        try:
            made.rename(kept)
        except OSError:  # another process was faster
            shutil.rmtree(made)
    return kept


def ptx_of(launch: Launch) -> tuple[str, str]:
    """PTX of the module of a launch, compiled for its block size, and the name of its entry."""
    (path,) = compiled(launch.kernel.module, launch.block).glob("*.ptx")
    return path.read_text(errors="replace").rstrip("\0"), f"{launch.kernel.get_mangled_name()}_cuda_kernel_forward"
