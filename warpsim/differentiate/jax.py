# SPDX-License-Identifier: Apache-2.0
"""JAX: a rollout as a differentiable function of arrays, under `jit`, `grad`, `vjp`, `jvp`, Jacobians and `vmap`.

    q, v = ws.jax.rollout(sim, q, v, controls)         # (rows, worlds, nq), (rows, worlds, nv)

XLA calls the simulator with its own buffers (`wp.jax_callable`), on the CPU or on JAX's stream of a GPU. Nothing passes
through the host. Arrays must be on the simulator's device.

The forward pass records nothing. The backward pass therefore repeats the rollout on a tape, which costs one forward
pass more than with `ws.torch`. Parameters that are not arguments must be the same in both passes, or the backward pass
raises.

XLA calls the simulator on XLA's threads. Wait for the results (`block_until_ready`) before you use the simulator in
another way: until then such a use raises `RuntimeError`.
"""

import functools
import importlib
import inspect
import threading
import typing
import weakref
import zlib

import numpy as np
import warp as wp

from warpsim.base.checks import whole
from warpsim.base.extras import import_or_explain
from warpsim.differentiate.jvp import change_shape, push_rollout, way_of_rollout
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
importlib.import_module("jax.extend.core")
ad, batching, mlir = (importlib.import_module(f"jax.interpreters.{name}") for name in ("ad", "batching", "mlir"))

_lock = threading.Lock()  # a simulator has only one workspace
_calls = weakref.WeakKeyDictionary()  # per simulator: the functions that XLA calls, by kind of request


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
    """Roll out a motion as a differentiable function of JAX arrays.

    Parameters
    ----------
    sim : Simulator
        The simulator. Arrays have its dtype and lie on its device. All worlds share an array without the worlds' axis.
        Reverse mode needs `requires_grad=True`.
    q : array (worlds, nq)
        Initial positions.
    v : array (worlds, nv)
        Initial velocities.
    controls : array (steps, worlds, nu), optional
        Controls of every step. Default: none.
    mocap : array (steps, worlds, nmocap, 7), optional
        Poses of the mocap bodies in every step. Default: those of the model.
    steps : int, optional
        Number of steps. Default: that of `controls` or `mocap`.
    activation : array (worlds, na), optional
        Initial activations. Default: 0.
    parameters : dict of str to array, optional
        Physical parameters by name, shaped as in `sim.parameters`. They are written into `sim.parameters` and stay
        there. Default: the present ones.
    substeps : int
        Substeps of each step. Default: 1.
    every : int
        Steps from one row of the result to the next. Default: 1.
    checkpoint_every : int, optional
        Steps from one checkpoint to the next, as in `Simulator.rollout`. Default: none.

    Returns
    -------
    q : array (rows, worlds, nq)
        Positions. Row 0 is the initial state.
    v : array (rows, worlds, nv)
        Velocities.
    activation : array (rows, worlds, na)
        Activations, if `activation` is given.

    Raises
    ------
    NotImplementedError
        A derivative of a derivative is asked for.
    ValueError
        A shape or dtype is wrong.

    Notes
    -----
    It works under `jit`, `grad`, `vjp`, `jvp`, `jacrev`, `jacfwd` and `vmap`. The backward pass repeats the rollout on
    a tape. Forward mode goes step by step (`Simulator.jvp`). Derivatives with respect to q are those by its
    coordinates, quaternions included; those along a quaternion's length are 0. Float64 needs
    `jax.config.update("jax_enable_x64", True)`.

    Examples
    --------
    >>> import jax
    >>> sim = ws.Simulator(ws.load(ws.robots.path("cartpole")), worlds=2, device="cpu", requires_grad=True)
    >>> q, v = jax.numpy.zeros((2, 2)), jax.numpy.zeros((2, 2))
    >>> def loss(controls):
    ...     return ws.jax.rollout(sim, q, v, controls)[0][-1, :, 0].sum()
    >>> jax.grad(loss)(jax.numpy.zeros((5, 2, 1))).shape
    (5, 2, 1)
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

    @jax.custom_jvp
    def run(*arrays):
        return tuple(call.forward(*arrays))

    @functools.partial(run.defjvp, symbolic_zeros=True)
    def rule(arrays, tangents):
        *rows, marks = call.marked_forward(*arrays)
        changed = [i for i, t in enumerate(tangents) if not isinstance(t, jax.custom_derivatives.SymbolicZero)]
        linear = _Linear(call, tuple(call.names[i] for i in changed))
        return tuple(rows), tuple(linear([marks, *arrays], [tangents[i] for i in changed]))

    return run(*arrays)


FIRST_ORDER = (
    "ws.jax.rollout has first derivatives only: jax.grad, vjp, jvp, jacrev or jacfwd, once; ws.hessian_vector gives "
    "products with the Hessian"
)


def _first_order(function):
    """`function`, with its derivative refused."""
    function = jax.custom_jvp(function)

    @function.defjvp
    def refuse(*_):
        raise NotImplementedError(FIRST_ORDER)

    return function


class _Linear(typing.NamedTuple):
    """The derivative of a rollout: a linear map from changes of the inputs `changed` to changes of its rows.

    `transposed`: the transposed map. Operands of the primitive: marks and inputs of the rollout, then the linear
    operands. `batches`: for each `jax.vmap` around the primitive, the batch axes of the marks and inputs. The linear
    operands and the results have their batch axes in front.
    """

    call: "_Call"
    changed: tuple[str, ...]
    transposed: bool = False
    batches: tuple[tuple[int | None, ...], ...] = ()

    def __call__(self, fixed, linear):
        return _primitive().bind(*fixed, *linear, derivative=self)

    def split(self, operands):
        """(marks and inputs of the rollout, linear operands)."""
        n = 1 + len(self.call.names)
        return list(operands[:n]), list(operands[n:])

    def apply(self, *operands):
        """The values, as XLA computes them: all directions at one point at once, other batches slice by slice."""
        call, (fixed, linear) = self.call, self.split(operands)
        if self.transposed:

            def function(*operands):
                bars = dict(zip(call.names, call.backward(*operands), strict=True))
                return [bars[name] for name in self.changed]

        else:

            def function(*operands):
                fixed, linear = self.split(operands)
                return [row[0] for row in call.push(self.changed, fixed, [x[None] for x in linear])]

            if self.batches == ((None,) * len(fixed),):
                return call.push(self.changed, fixed, linear)
        for axes in self.batches:
            function = jax.vmap(function, (*axes, *[0] * len(linear)))
        return function(*operands)

    def shapes(self, *operands):
        """Shapes and dtypes of the results."""
        call, front = self.call, self.split(operands)[1][0].shape[: len(self.batches)]
        given = dict(zip(call.names, call.inputs, strict=True))
        found = [given[name] for name in self.changed] if self.transposed else call.rows
        return [jax.core.ShapedArray((*front, *shape), dtype) for shape, dtype in found]

    def of_changes(self, primals, tangents):
        """The derivative of this map: the map itself, as long as the rollout does not change."""
        (fixed, linear), (moved, changes) = self.split(primals), self.split(tangents)
        if any(not isinstance(t, ad.Zero) for t in moved):
            raise NotImplementedError(FIRST_ORDER)
        return self(fixed, linear), self(fixed, [ad.instantiate_zeros(t) for t in changes])

    def transpose(self, bars, *operands):
        """The transposed map, applied to the gradients of the results."""
        if not self.transposed and not self.call.has_gradients:
            raise ValueError("a gradient is asked for, but this simulator was made without requires_grad=True")
        fixed, linear = self.split(operands)
        found = self._replace(transposed=not self.transposed)(fixed, [ad.instantiate_zeros(bar) for bar in bars])
        wanted = zip(found, linear, strict=True)
        return [None] * len(fixed) + [bar if ad.is_undefined_primal(x) else None for bar, x in wanted]

    def batch(self, operands, axes):
        """The map of a batch; the results have the batch axis in front."""
        (fixed, linear), (fixed_axes, linear_axes) = self.split(operands), self.split(axes)
        count = next(x.shape[axis] for x, axis in zip(operands, axes, strict=True) if axis is not None)
        np = jax.numpy
        linear = [
            np.broadcast_to(x, (count, *x.shape)) if axis is None else np.moveaxis(x, axis, 0)
            for x, axis in zip(linear, linear_axes, strict=True)
        ]
        found = self._replace(batches=(*self.batches, tuple(fixed_axes)))(fixed, linear)
        return found, [0] * len(found)


@functools.cache
def _primitive():
    """The JAX primitive with its rules. Its parameter `derivative` is a `_Linear`."""
    primitive = jax.extend.core.Primitive("warpsim_rollout_derivative")
    primitive.multiple_results = True

    def apply(*operands, derivative):
        return derivative.apply(*operands)

    primitive.def_impl(apply)
    primitive.def_abstract_eval(lambda *operands, derivative: derivative.shapes(*operands))
    mlir.register_lowering(primitive, mlir.lower_fun(apply, multiple_results=True))
    ad.primitive_jvps[primitive] = lambda primals, tangents, derivative: derivative.of_changes(primals, tangents)
    ad.primitive_transposes[primitive] = lambda bars, *operands, derivative: derivative.transpose(bars, *operands)
    batching.primitive_batchers[primitive] = lambda operands, axes, derivative: derivative.batch(operands, axes)
    return primitive


class _Call:
    """The functions of JAX arrays that XLA calls for one kind of rollout."""

    def __init__(self, sim, names, inputs, steps: int, options):
        self.sim = weakref.ref(sim)  # Warp never releases a function that it has given to XLA
        self.names, self.steps = names, steps
        self.options = dict(zip(("substeps", "every", "checkpoint_every"), options, strict=True))
        self.row_names = tuple(name for name in STATE_NAMES if name in names)  # the outputs
        sizes, count = sim._inputs.start_sizes, steps // self.options["every"] + 1
        rows = [((count, sim.worlds, sizes[name]), inputs[0][1]) for name in self.row_names]
        marks = ((len(SPECS),), np.dtype("uint32"))
        self.has_gradients, self.inputs, self.rows, self._pushes = sim.requires_grad, inputs, rows, {}
        self._fixed = [marks, *inputs]
        self.forward = _called(self._entered(self._forward), inputs, rows)
        self.marked_forward = _first_order(_called(self._entered(self._marked_forward), inputs, [*rows, marks]))
        self.backward = _first_order(_called(self._entered(self._backward), [*self._fixed, *rows], inputs))

    def push(self, changed: tuple[str, ...], fixed, changes) -> list:
        """Derivatives (directions, ...) of the rows, along changes (directions, ...) of the inputs in `changed`."""
        shapes = [change_shape(name, x.shape[1:]) for name, x in zip(changed, changes, strict=True)]
        changes = [x.reshape(len(x), *shape) for x, shape in zip(changes, shapes, strict=True)]
        return list(self._pushed(changed, tuple((x.shape, x.dtype) for x in changes))(*fixed, *changes))

    def _pushed(self, changed: tuple[str, ...], changes):
        sim = self.sim()
        if sim is not None:
            way_of_rollout(sim, changed, self.steps * self.options["substeps"])
        key = (changed, changes[0][0][0])
        if key not in self._pushes:
            rows = [((key[1], *shape), dtype) for shape, dtype in self.rows]
            method = self._entered(functools.partial(self._push, changed))
            self._pushes[key] = _first_order(_called(method, [*self._fixed, *changes], rows))
        return self._pushes[key]

    def _entered(self, method):
        """`method(sim, arrays, out)` as a function of (arrays, out).

        While it runs, no other thread may use the simulator.
        """

        def enter(arrays, out):
            sim = self._simulator(arrays[0])
            sim._use.run(method, (sim, arrays, out), {})

        return enter

    def _simulator(self, array):
        """The simulator, if it still exists and the array is on its device."""
        sim = self.sim()
        if sim is None:
            raise ReferenceError(
                "the simulator of this compiled ws.jax.rollout is gone; keep it while the function is used"
            )
        if array.device != sim.device:
            place = "cpu" if sim.device.is_cpu else "cuda"
            raise ValueError(
                f"the arrays are on {array.device}, the simulator on {sim.device}; "
                f"put them there: jax.device_put(x, jax.devices({place!r})[0])"
            )
        return sim

    def _forward(self, sim, arrays, out):
        options = {name: self.options[name] for name in ("substeps", "every")}
        inputs = Inputs(sim, dict(zip(self.names, arrays, strict=True)))
        trajectory = sim.rollout(inputs.start, inputs.controls, self.steps, mocap=inputs.mocap, **options)
        for name, rows in zip(self.row_names, out, strict=True):
            wp.copy(rows, getattr(trajectory, name))

    def _marked_forward(self, sim, arrays, out):
        """As `_forward`, and write marks of the parameters that are not arguments."""
        self._forward(sim, arrays, out[:-1])
        out[-1].assign(self._marks(sim))

    def _marks(self, sim) -> np.ndarray:
        """One number per parameter in `SPECS`: a checksum, or 0 where it is the model's value or an argument."""
        parameters, marks = sim.parameters, np.zeros(len(SPECS), dtype=np.uint32)
        for i, name in enumerate(SPECS):
            if name in parameters.expanded and name not in self.names:
                values = parameters.stored(name).numpy()
                if (values != parameters.initial(name).numpy()).any():
                    marks[i] = zlib.crc32(values.tobytes()) | 1
        return marks

    def _push(self, changed, sim, arrays, out):
        self._check_marks(sim, arrays[0], "the rollout and its derivative")
        n = 1 + len(self.names)
        values = dict(zip(self.names, arrays[1:n], strict=True))
        changes = dict(zip(changed, arrays[n:], strict=True))
        options = {name: self.options[name] for name in ("substeps", "every")}
        for target, row in zip(out, push_rollout(sim, values, changes, self.steps, **options), strict=True):
            wp.copy(target, row)

    def _check_marks(self, sim, marks, where: str) -> None:
        changed = [name for name, a, b in zip(SPECS, marks.numpy(), self._marks(sim), strict=True) if a != b]
        if changed:
            raise ValueError(
                f"parameters[{changed[0]!r}] was changed between {where} of ws.jax.rollout; "
                f"leave it as it is, or make it an argument: parameters={{{changed[0]!r}: ...}}"
            )

    def _backward(self, sim, arrays, out):
        self._check_marks(sim, arrays[0], "the forward and the backward pass")
        arrays = arrays[1:]
        count = len(self.names)
        run = TapedRollout(sim, dict(zip(self.names, arrays[:count], strict=True)), self.steps, **self.options)
        rows = (getattr(run.trajectory, name) for name in self.row_names)
        found = run.gradients(grads=dict(zip(rows, arrays[count:], strict=True)))
        for name, bar in zip(self.names, out, strict=True):
            wp.copy(bar, found[name])


def _called(function, inputs, outputs):
    """`function(inputs, outputs)` of device arrays, as a compiled function of JAX arrays. Both: (shape, dtype)."""

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
    return jax.jit(call)  # traced only once: XLA takes each trace for another program


def _array(sim, name: str, value, wanted: tuple[int, ...]):
    """The array with its worlds' axis, checked."""
    value = jax.numpy.asarray(value)
    if value.dtype != sim.dtype:
        hint = "; float64 needs jax.config.update('jax_enable_x64', True)" if sim.dtype == "float64" else ""
        raise ValueError(f"{name} is {value.dtype}; this simulator needs {sim.dtype}{hint}")
    return jax.numpy.broadcast_to(value.reshape(expansion(name, value.shape, wanted)), wanted)
