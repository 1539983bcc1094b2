# SPDX-License-Identifier: Apache-2.0
"""JAX: a rollout as a differentiable function of arrays, under `jit`, `grad` and `vmap`.

    q, v = ws.jax.rollout(sim, q, v, controls)         # (rows, worlds, nq), (rows, worlds, nv)

XLA calls the simulator with its own buffers (`wp.jax_callable`), on the CPU or on JAX's stream of a GPU: nothing passes through the
host. Arrays must be on the simulator's device. Nothing is carried from the forward to the backward pass, which therefore repeats the rollout on a tape:
it costs one forward pass more than torch's. Parameters that are not arguments must be the same in both, or the backward pass raises.
XLA calls on threads of its own: wait for its results (`block_until_ready`) before using the simulator elsewhere, which raises `RuntimeError` meanwhile.
"""

import inspect
import threading
import weakref
import zlib

import numpy as np
import warp as wp

from warpsim.base.checks import whole
from warpsim.base.extras import import_or_explain
from warpsim.differentiate.taped import (
    STATE_NAMES,
    Inputs,
    TapedRollout,
    count_steps,
    expansion,
    input_shapes,
)
from warpsim.model.parameters import SPECS

jax = import_or_explain("jax", "jax")

_lock = threading.Lock()  # a simulator has one workspace
_calls = weakref.WeakKeyDictionary()  # by simulator: what XLA calls, by what is asked for


def rollout(
    sim,
    q,
    v,
    controls=None,
    *,
    mocap=None,
    steps: int | None = None,
    activation=None,
    parameters: dict | None = None,
    substeps: int = 1,
    every: int = 1,
    checkpoint_every: int | None = None,
):
    """Positions `(rows, worlds, nq)` and velocities `(rows, worlds, nv)` of a rollout from q, v; row 0 is the start.

    `q (worlds, nq)`, `v (worlds, nv)`, `controls (steps, worlds, nu)` or None (then `steps` is needed), `mocap (steps, worlds, nmocap, 7)` or None,
    `parameters` by name as in `sim.parameters`; an array without the worlds' axis is shared by all worlds. dtypes are the simulator's.
    With `activation (worlds, na)` the activations `(rows, worlds, na)` come third; else they start at 0.
    `substeps`, `every`, `checkpoint_every` as in `Simulator.rollout`. Gradients need requires_grad=True and are first
    derivatives by reverse mode (`NotImplementedError` for more). Raises `ValueError` for a wrong shape or dtype.
    """
    steps = count_steps(controls, steps, mocap)
    for name, value in (("substeps", substeps), ("every", every)):
        whole(value, name, 1)
    if activation is not None:
        sim._inputs.refuse_activation()
    given = {"q": q, "v": v, "activation": activation, "controls": controls, "mocap": mocap}
    given = {name: x for name, x in given.items() if x is not None or name in "qv"} | (parameters or {})
    shapes = input_shapes(sim, steps, parameters or {})
    arrays = [_array(sim, name, value, shapes[name]) for name, value in given.items()]
    key = (tuple(given), steps, substeps, every, checkpoint_every)
    call = _calls.setdefault(sim, {}).get(key)
    if call is None:
        call = _calls[sim][key] = _Call(sim, tuple(given), [(x.shape, x.dtype) for x in arrays], steps, key[2:])

    @jax.custom_vjp
    def run(*arrays):
        return tuple(call.forward(*arrays))

    def forward(*arrays):
        if not sim.requires_grad:
            raise ValueError("a gradient is asked for, but this simulator was made without requires_grad=True")
        *rows, marks = call.marked_forward(*arrays)
        return tuple(rows), (arrays, marks)

    run.defvjp(forward, lambda kept, bars: tuple(call.backward(kept[1], *kept[0], *bars)))
    return run(*arrays)


def _first_order(function):
    """A function of a backward pass, which has no derivative of its own."""
    function = jax.custom_jvp(function)

    @function.defjvp
    def refuse(*_):
        raise NotImplementedError("ws.jax.rollout has first derivatives only: jax.grad or jax.vjp, once")

    return function


class _Call:
    """What XLA calls in one kind of rollout: `forward`, `marked_forward` and `backward`, functions of JAX's arrays."""

    def __init__(self, sim, names, inputs, steps: int, options):
        self.sim = weakref.ref(sim)  # Warp never forgets a function it has given to XLA
        self.names, self.steps = names, steps
        self.options = dict(zip(("substeps", "every", "checkpoint_every"), options, strict=True))
        self.row_names = tuple(name for name in STATE_NAMES if name in names)  # what comes out
        sizes, count = sim._inputs.start_sizes, steps // self.options["every"] + 1
        rows = [((count, sim.worlds, sizes[name]), inputs[0][1]) for name in self.row_names]
        marks = ((len(SPECS),), np.dtype("uint32"))
        self.forward = _called(self._entered(self._forward), inputs, rows)
        self.marked_forward = _first_order(_called(self._entered(self._marked_forward), inputs, [*rows, marks]))
        self.backward = _first_order(_called(self._entered(self._backward), [marks, *inputs, *rows], inputs))

    def _entered(self, method):
        """A method of the simulator, arrays, and arrays to fill, as a function of these arrays: in it no other thread may use the simulator."""

        def enter(arrays, out):
            sim = self._simulator(arrays[0])
            sim._use.run(method, (sim, arrays, out), {})

        return enter

    def _simulator(self, array):
        """The simulator, where the array is on its device."""
        sim = self.sim()
        if sim is None:
            raise ReferenceError(
                "the simulator of this compiled ws.jax.rollout is gone; keep it while the function is used"
            )
        if array.device != sim.device:
            place = "cpu" if sim.device.is_cpu else "cuda"
            raise ValueError(
                f"the arrays are on {array.device}, the simulator on {sim.device}; put them there: jax.device_put(x, jax.devices({place!r})[0])"
            )
        return sim

    def _forward(self, sim, arrays, out):
        options = {name: self.options[name] for name in ("substeps", "every")}
        inputs = Inputs(sim, dict(zip(self.names, arrays, strict=True)))
        trajectory = sim.rollout(inputs.start, inputs.controls, self.steps, mocap=inputs.mocap, **options)
        for name, rows in zip(self.row_names, out, strict=True):
            wp.copy(rows, getattr(trajectory, name))

    def _marked_forward(self, sim, arrays, out):
        """As `_forward`, with marks of the parameters that are not arguments."""
        self._forward(sim, arrays, out[:-1])
        out[-1].assign(self._marks(sim))

    def _marks(self, sim) -> np.ndarray:
        """A number per parameter in the order of `SPECS`: 0 where it is the model's or an argument, else a checksum."""
        parameters, marks = sim.parameters, np.zeros(len(SPECS), dtype=np.uint32)
        for i, name in enumerate(SPECS):
            if name in parameters.expanded and name not in self.names:
                values = parameters.stored(name).numpy()
                if (values != parameters.initial(name).numpy()).any():
                    marks[i] = zlib.crc32(values.tobytes()) | 1
        return marks

    def _backward(self, sim, arrays, out):
        marks, *arrays = arrays
        changed = [name for name, a, b in zip(SPECS, marks.numpy(), self._marks(sim), strict=True) if a != b]
        if changed:
            raise ValueError(
                f"parameters[{changed[0]!r}] was changed between the forward and the backward pass of ws.jax.rollout; "
                f"leave it as it is, or make it an argument: parameters={{{changed[0]!r}: ...}}"
            )
        count = len(self.names)
        run = TapedRollout(sim, dict(zip(self.names, arrays[:count], strict=True)), self.steps, **self.options)
        rows = (getattr(run.trajectory, name) for name in self.row_names)
        found = run.gradients(grads=dict(zip(rows, arrays[count:], strict=True)))
        for name, bar in zip(self.names, out, strict=True):
            wp.copy(bar, found[name])


def _called(function, inputs, outputs):
    """`function(inputs, outputs)` of device arrays as a compiled function of JAX's arrays; both are given as (shape, dtype)."""

    def entered(*arrays):
        with _lock:
            function(arrays[: len(inputs)], arrays[len(inputs) :])

    names = [f"in_{i}" for i in range(len(inputs))] + [f"out_{i}" for i in range(len(outputs))]
    kinds = [wp.array(dtype=wp.dtype_from_numpy(dtype), ndim=len(shape)) for shape, dtype in (*inputs, *outputs)]
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    entered.__annotations__ = dict(zip(names, kinds, strict=True))
    entered.__signature__ = inspect.Signature(
        [inspect.Parameter(n, kind, annotation=k) for n, k in zip(names, kinds, strict=True)]
    )
    call = wp.jax_callable(
        entered,
        len(outputs),
        wp.JaxCallableGraphMode.NONE,
        vmap_method="sequential",
        output_dims={n: s for n, (s, _) in zip(names[len(inputs) :], outputs, strict=True)},
    )
    return jax.jit(call)  # traced once: each trace is a program of its own to XLA


def _array(sim, name: str, value, wanted: tuple[int, ...]):
    """The array with its worlds' axis, checked."""
    value = jax.numpy.asarray(value)
    if value.dtype != sim.dtype:
        hint = "; float64 needs jax.config.update('jax_enable_x64', True)" if sim.dtype == "float64" else ""
        raise ValueError(f"{name} is {value.dtype}; this simulator needs {sim.dtype}{hint}")
    return jax.numpy.broadcast_to(value.reshape(expansion(name, value.shape, wanted)), wanted)
