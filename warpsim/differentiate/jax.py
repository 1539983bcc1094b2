# SPDX-License-Identifier: Apache-2.0
"""JAX: a rollout as a differentiable function of arrays, under `jit`, `grad` and `vmap`.

    q, v = ws.jax.rollout(sim, q, v, controls)         # (rows, worlds, nq), (rows, worlds, nv)

The simulator is called back with host arrays (`jax.pure_callback`), on every platform alike. Nothing is carried from the
forward to the backward pass, which therefore repeats the rollout on a tape: it costs one forward pass more than torch's.
Parameters that are not arguments must be the same in both, or the backward pass raises.
JAX runs callbacks on threads of its own: wait for its results (`block_until_ready`) before using the simulator elsewhere.
"""

import threading
import zlib

import numpy as np

from warpsim.checks import whole
from warpsim.differentiate.taped import (
    STATE_NAMES,
    Inputs,
    TapedRollout,
    count_steps,
    device_array,
    expansion,
    input_shapes,
)
from warpsim.model.parameters import SPECS
from warpsim.state import import_or_explain

jax = import_or_explain("jax", "jax")

_lock = threading.Lock()  # a simulator has one workspace


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
    call = _Call(sim, tuple(given), steps, {"substeps": substeps, "every": every}, checkpoint_every)

    @jax.custom_vjp
    def run(*arrays):
        return jax.pure_callback(call.forward, call.results(), *arrays, vmap_method="sequential")

    @_first_order
    def marked(*arrays):
        like = (*call.results(), jax.ShapeDtypeStruct((len(SPECS),), "uint32"))
        return tuple(jax.pure_callback(call.marked_forward, like, *arrays, vmap_method="sequential"))

    @_first_order
    def adjoint(arrays, marks, bars):
        like = tuple(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in arrays)
        return jax.pure_callback(call.backward, like, marks, *arrays, *bars, vmap_method="sequential")

    def forward(*arrays):
        if not sim.requires_grad:
            raise ValueError("a gradient is asked for, but this simulator was made without requires_grad=True")
        *rows, marks = marked(*arrays)
        return tuple(rows), (arrays, marks)

    run.defvjp(forward, lambda kept, bars: adjoint(*kept, bars))
    return run(*arrays)


def _first_order(function):
    """A function of a backward pass, which has no derivative of its own."""
    function = jax.custom_jvp(function)

    @function.defjvp
    def refuse(*_):
        raise NotImplementedError("ws.jax.rollout has first derivatives only: jax.grad or jax.vjp, once")

    return function


class _Call:
    """The two host functions of one rollout."""

    def __init__(self, sim, names, steps: int, options: dict, checkpoint_every: int | None):
        self.sim, self.names, self.steps, self.options = sim, names, steps, options
        self.rows = tuple(name for name in STATE_NAMES if name in names)  # what comes out
        self.checkpoint_every = checkpoint_every

    def results(self):
        rows, sim = self.steps // self.options["every"] + 1, self.sim
        sizes = sim._inputs.start_sizes
        return tuple(jax.ShapeDtypeStruct((rows, sim.worlds, sizes[name]), sim.dtype) for name in self.rows)

    def _values(self, arrays) -> dict:
        pairs = zip(self.names, (np.asarray(x) for x in arrays), strict=True)
        return {name: device_array(self.sim, name, x, x.shape) for name, x in pairs}

    def forward(self, *arrays):
        with _lock:
            inputs = Inputs(self.sim, self._values(arrays))
            trajectory = self.sim.rollout(inputs.start, inputs.controls, self.steps, mocap=inputs.mocap, **self.options)
            return tuple(getattr(trajectory, name).numpy().copy() for name in self.rows)

    def marked_forward(self, *arrays):
        """As `forward`, with marks of the parameters that are not arguments."""
        rows = self.forward(*arrays)
        with _lock:
            return *rows, self._marks()

    def _marks(self) -> np.ndarray:
        """A number per parameter in the order of `SPECS`: 0 where it is the model's or an argument, else a checksum."""
        parameters, marks = self.sim.parameters, np.zeros(len(SPECS), dtype=np.uint32)
        for i, name in enumerate(SPECS):
            if name in parameters.expanded and name not in self.names:
                values = parameters.stored(name).numpy()
                if (values != parameters.initial(name).numpy()).any():
                    marks[i] = zlib.crc32(values.tobytes()) | 1
        return marks

    def backward(self, marks, *arrays):
        with _lock:
            changed = [name for name, a, b in zip(SPECS, np.asarray(marks), self._marks(), strict=True) if a != b]
            if changed:
                raise ValueError(
                    f"parameters[{changed[0]!r}] was changed between the forward and the backward pass of ws.jax.rollout; "
                    f"leave it as it is, or make it an argument: parameters={{{changed[0]!r}: ...}}"
                )
            arrays, bars = arrays[: len(self.names)], arrays[len(self.names) :]
            options = self.options | {"checkpoint_every": self.checkpoint_every}
            run = TapedRollout(self.sim, self._values(arrays), self.steps, **options)
            rows = (getattr(run.trajectory, name) for name in self.rows)
            seeds = {
                a: device_array(self.sim, "gradient", np.asarray(g), a.shape) for a, g in zip(rows, bars, strict=True)
            }
            found = run.gradients(grads=seeds)
            return tuple(found[name].numpy().copy() for name in self.names)


def _array(sim, name: str, value, wanted: tuple[int, ...]):
    """The array with its worlds' axis, checked."""
    value = jax.numpy.asarray(value)
    if value.dtype != sim.dtype:
        hint = "; float64 needs jax.config.update('jax_enable_x64', True)" if sim.dtype == "float64" else ""
        raise ValueError(f"{name} is {value.dtype}; this simulator needs {sim.dtype}{hint}")
    return jax.numpy.broadcast_to(value.reshape(expansion(name, value.shape, wanted)), wanted)
