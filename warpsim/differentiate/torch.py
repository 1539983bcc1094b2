# SPDX-License-Identifier: Apache-2.0
"""PyTorch: rollouts and steps of a simulator as differentiable functions of tensors, without copies of trajectories.

    q, v = ws.torch.rollout(sim, q, v, controls)         # (rows, worlds, nq), (rows, worlds, nv)
    loss(q, v).backward()                                # gradients arrive in the tensors given

Tensors must have the simulator's dtype and device. A tensor without the worlds' axis is shared by all worlds, and its
gradient is the sum over them. `step` and `rollout` work under `torch.func.grad`, `vjp`, `jvp`, `jacrev`, `jacfwd` and
`vmap`. `vmap` over inputs makes one rollout per slice, one after the other: only worlds run side by side.
"""

import contextlib
import dataclasses
import inspect

import warp as wp

from warpsim.base.checks import whole
from warpsim.base.extras import import_or_explain
from warpsim.device.threads import holds
from warpsim.differentiate.jvp import change_shape, push_rollout
from warpsim.differentiate.taped import (
    STATE_NAMES,
    Inputs,
    TapedRollout,
    TapedStep,
    count_steps,
    expansion,
    input_shapes,
)

torch = import_or_explain("torch", "torch")

DTYPES = {"float32": torch.float32, "float64": torch.float64}


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
    """Roll out a motion as a differentiable function of tensors.

    Parameters
    ----------
    sim : Simulator
        The simulator. Tensors have its dtype and device. All worlds share a tensor without the worlds' axis. Reverse
        mode needs `requires_grad=True`.
    q : tensor (worlds, nq)
        Initial positions.
    v : tensor (worlds, nv)
        Initial velocities.
    controls : tensor (steps, worlds, nu) or callable, optional
        Controls of every step, or a function `policy(q, v)` of tensors that returns (worlds, nu). With `activation` it
        is `policy(q, v, activation)`. A policy, or no controls, needs `steps`. Default: none.
    mocap : tensor (steps, worlds, nmocap, 7), optional
        Poses of the mocap bodies in every step. Default: those of the model.
    steps : int, optional
        Number of steps. Default: that of `controls` or `mocap`.
    activation : tensor (worlds, na), optional
        Initial activations. Default: 0.
    parameters : dict of str to tensor, optional
        Physical parameters by name. They are written into `sim.parameters` and stay there. Default: the present ones.
    substeps : int
        Substeps of each step. Default: 1.
    every : int
        Steps from one row of the result to the next. Default: 1.
    checkpoint_every : int, optional
        Steps from one checkpoint to the next, as in `Simulator.rollout`. Not with a policy. Default: none.

    Returns
    -------
    q : tensor (rows, worlds, nq)
        Positions. Row 0 is the initial state.
    v : tensor (rows, worlds, nv)
        Velocities.
    activation : tensor (rows, worlds, na)
        Activations, if `activation` is given.

    Raises
    ------
    NotImplementedError
        A derivative of a derivative is asked for.
    ValueError
        A shape, dtype or device is wrong.

    Notes
    -----
    Derivatives with respect to q are those by its coordinates, quaternions included; those along a quaternion's length
    are 0. Forward mode goes step by step (`Simulator.jvp`).

    Examples
    --------
    >>> import torch
    >>> sim = ws.Simulator(ws.load(ws.robots.path("cartpole")), worlds=2, device="cpu", requires_grad=True)
    >>> q, v = torch.zeros(2, 2), torch.zeros(2, 2)
    >>> controls = torch.zeros(5, 2, 1, requires_grad=True)
    >>> positions, velocities = ws.torch.rollout(sim, q, v, controls)
    >>> positions[-1, :, 0].sum().backward()
    >>> positions.shape, controls.grad.shape
    (torch.Size([6, 2, 2]), torch.Size([5, 2, 1]))
    """
    if callable(controls):
        if checkpoint_every is not None:
            raise ValueError(
                "checkpoint_every needs controls as a tensor; wrap pieces in torch.utils.checkpoint instead"
            )
        return _closed_loop(sim, (q, v), activation, controls, mocap, steps, every, parameters, substeps)
    steps = count_steps(controls, steps, mocap)
    options = {"substeps": substeps, "every": every, "checkpoint_every": checkpoint_every}
    given = {"q": q, "v": v, "activation": activation, "controls": controls, "mocap": mocap}
    return _found(sim, given, parameters, steps, options)


def _found(sim, given: dict, parameters: dict | None, steps: int, options: dict):
    """What a rollout with these options returns, of inputs given by name or None, which are checked here.

    `options`: those of `Simulator.rollout`, or for a step, which returns its end alone, its `substeps`.
    """
    if given["activation"] is not None:
        sim._inputs.refuse_activation()
    given = {name: x for name, x in given.items() if x is not None or name in "qv"} | (parameters or {})
    shapes = input_shapes(sim, steps, parameters or {})
    tensors = [_tensor(sim, name, value, shapes[name]) for name, value in given.items()]
    return _rows(sim, tuple(given), steps, options, tensors)


def step(sim, q, v, control=None, *, activation=None, mocap=None, parameters: dict | None = None, substeps: int = 1):
    """Make one step as a differentiable function of tensors.

    Parameters
    ----------
    sim : Simulator
        The simulator. Tensors have its dtype and device. All worlds share a tensor without the worlds' axis. Reverse
        mode needs `requires_grad=True`.
    q : tensor (worlds, nq)
        Positions.
    v : tensor (worlds, nv)
        Velocities.
    control : tensor (worlds, nu), optional
        Controls. Default: none.
    activation : tensor (worlds, na), optional
        Activations. Default: 0.
    mocap : tensor (worlds, nmocap, 7), optional
        Poses of the mocap bodies. Default: those of the model.
    parameters : dict of str to tensor, optional
        Physical parameters by name. They are written into `sim.parameters` and stay there. Default: the present ones.
    substeps : int
        Substeps of the step. Default: 1.

    Returns
    -------
    q : tensor (worlds, nq)
        Positions after the step.
    v : tensor (worlds, nv)
        Velocities after the step.
    activation : tensor (worlds, na)
        Activations after the step, if `activation` is given.

    Raises
    ------
    NotImplementedError
        A derivative of a derivative is asked for.
    ValueError
        A shape, dtype or device is wrong.

    Notes
    -----
    A sequence of calls carries only these tensors from step to step. The rest of the state is lost between calls, for
    instance `memory["jump"]` of the variational integrator.

    Examples
    --------
    >>> import torch
    >>> sim = ws.Simulator(ws.load(ws.robots.path("cartpole")), worlds=2, device="cpu", requires_grad=True)
    >>> v = torch.zeros(2, 2, requires_grad=True)
    >>> q, _ = ws.torch.step(sim, torch.zeros(2, 2), v)
    >>> q[:, 0].sum().backward()
    >>> bool(torch.allclose(v.grad[:, 0], torch.tensor(sim.dt), rtol=0.01))                 # dq/dv = dt
    True
    """
    controls, mocap = (None if x is None else x[None] for x in (control, mocap))
    given = {"q": q, "v": v, "activation": activation, "controls": controls, "mocap": mocap}
    return _found(sim, given, parameters, 1, {"substeps": substeps})


class Module(torch.nn.Module):
    """A simulator as a layer of a network: `forward` is `ws.torch.rollout`.

    Parameters
    ----------
    sim : Simulator
        The simulator, made with `requires_grad=True`.
    parameters : sequence of str
        Names of physical parameters that are trainable. Default: none.
    shared : bool
        Whether all worlds share one value, that of world 0; else each world has its own. Default: True.

    Examples
    --------
    >>> import torch
    >>> sim = ws.Simulator(ws.load(ws.robots.path("cartpole")), worlds=2, device="cpu", requires_grad=True)
    >>> layer = ws.torch.Module(sim, ["body_mass"])
    >>> positions, velocities = layer(torch.zeros(2, 2), torch.zeros(2, 2), torch.ones(5, 2, 1))
    >>> positions[-1].sum().backward()
    >>> layer.body_mass.grad.shape
    torch.Size([2])
    """

    def __init__(self, sim, parameters=(), shared: bool = True):
        super().__init__()
        self.sim = sim
        self.names = tuple(parameters)
        for name in self.names:
            values = torch.as_tensor(sim.parameters[name].numpy().copy(), device=wp.device_to_torch(sim.device))
            self.register_parameter(name, torch.nn.Parameter(values[0].clone() if shared else values))

    def forward(self, q, v, controls=None, **options):
        """Roll out a motion with the trainable parameters.

        Parameters
        ----------
        q : tensor (worlds, nq)
            Initial positions.
        v : tensor (worlds, nv)
            Initial velocities.
        controls : tensor (steps, worlds, nu) or callable, optional
            Controls, as in `ws.torch.rollout`. Default: none.
        **options : Any
            Further arguments of `ws.torch.rollout`.

        Returns
        -------
        tuple of tensors
            As `ws.torch.rollout` returns them.

        Examples
        --------
        >>> import torch
        >>> sim = ws.Simulator(ws.load(ws.robots.path("cartpole")), device="cpu", requires_grad=True)
        >>> layer = ws.torch.Module(sim)
        >>> layer(torch.zeros(2), torch.zeros(2), steps=3)[0].shape
        torch.Size([4, 1, 2])
        """
        values = {name: getattr(self, name) for name in self.names}
        return rollout(self.sim, q, v, controls, parameters=values, **options)


FIRST_ORDER = (
    "ws.torch has first derivatives only: a gradient made with create_graph=True, or inside of another transform of "
    "torch.func than vmap, has none of its own; ws.hessian_vector gives products with the Hessian"
)


def _rows(sim, names, steps, options, tensors, kept=None):
    """Rows of a rollout of tensors that have the worlds' axis. Recorded on a tape where a gradient is asked for."""
    kept = _Kept() if kept is None else kept
    kept.taped |= torch.is_grad_enabled() and any(t.requires_grad for t in tensors)
    if kept.taped and not sim.requires_grad:
        raise ValueError("a tensor asks for a gradient, but this simulator was made without requires_grad=True")
    return _Rollout.apply(sim, names, steps, options, kept, *tensors)


@dataclasses.dataclass
class _Kept:
    """What a forward pass leaves for the backward pass: its taped rollout, or under `vmap` one per slice."""

    taped: bool = False
    run: TapedRollout | None = None
    slices: list["_Kept"] = dataclasses.field(default_factory=list)


class _FirstOrder(torch.autograd.Function):
    """A function whose own derivatives are refused."""

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, *_):
        raise NotImplementedError(FIRST_ORDER)

    @staticmethod
    def jvp(ctx, *_):
        raise NotImplementedError(FIRST_ORDER)


class _Rollout(torch.autograd.Function):
    """The rollout of tensors that have the worlds' axis. `kept`: see `_Kept`."""

    @staticmethod
    def forward(sim, names, steps, options, kept, *tensors):
        with _on_torch_stream(sim.device):
            arrays = _arrays(names, tensors)
            if not kept.taped:
                found = _plain(sim, arrays, steps, options)
            else:
                run = (
                    TapedRollout(sim, arrays, steps, **options)
                    if "every" in options
                    else TapedStep(sim, arrays, **options)
                )
                kept.run, found = run, run.found
            rows = tuple(_tensor_of(found[name]) for name in _row_names(names))
            # The backward pass reads the end of a step, and the caller may write to what is returned.
            return tuple(row.clone() for row in rows) if isinstance(kept.run, TapedStep) else rows

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.sim, ctx.names, ctx.steps, ctx.options, ctx.kept, *tensors = inputs
        ctx.save_for_backward(*tensors)  # so that torch notices if they are overwritten in between
        ctx.save_for_forward(*tensors)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, *bars):
        rows = [name for name, bar in zip(_row_names(ctx.names), bars, strict=True) if bar is not None]
        wanted = [name for name, needed in zip(ctx.names, ctx.needs_input_grad[5:], strict=True) if needed]
        bars = [bar for bar in bars if bar is not None]
        # Second derivatives and transforms are asked of `_Pullback`; otherwise its call takes as long as a step.
        pull = _Pullback.apply if torch.is_grad_enabled() or ctx.kept.slices or _transformed() else _Pullback.forward
        found = pull(ctx.sim.device, ctx.kept, rows, wanted, *bars, *ctx.saved_tensors)
        found = dict(zip(wanted, found, strict=True))
        return (None,) * 5 + tuple(found.get(name) for name in ctx.names)

    @staticmethod
    def jvp(ctx, *changes):
        changes = dict(zip(ctx.names, changes[5:], strict=True))
        changes = {name: change for name, change in changes.items() if change is not None}
        options = {"substeps": ctx.options["substeps"], "every": ctx.options.get("every", 1)}
        inputs = (ctx.sim, ctx.names, tuple(changes), ctx.steps, options)
        rows = _Pushforward.apply(*inputs, *ctx.saved_tensors, *(change[None] for change in changes.values()))
        return tuple(row[0] if "every" in ctx.options else row[0][1] for row in rows)

    @staticmethod
    def vmap(info, in_dims, sim, names, steps, options, kept, *tensors):
        kept.slices = [_Kept(kept.taped) for _ in range(info.batch_size)]

        def run(k):
            return _rows(sim, names, steps, options, _slices(tensors, in_dims[5:], k), kept.slices[k])

        return _stacked(run, info.batch_size)


# torch asks for the signature at every call, which takes as long as a step of few worlds, unless it stands here.
_Rollout.forward.__signature__ = inspect.signature(_Rollout.forward)


def _transformed() -> bool:
    """Whether a transform of `torch.func`, or forward mode, is at work."""
    return torch._C._are_functorch_transforms_active() or torch.autograd.forward_ad._current_level >= 0


class _Pullback(_FirstOrder):
    """Gradients of the inputs in `wanted`, from the gradients of the rows named, which come first.

    The inputs follow as arguments, so that torch asks here for second derivatives with respect to them.
    """

    @staticmethod
    def forward(device, kept, rows, wanted, *tensors):
        with _on_torch_stream(device):
            bars = _arrays(rows, tensors[: len(rows)])
            found = kept.run.gradients(grads={kept.run.found[name]: bar for name, bar in bars.items()})
            return tuple(_tensor_of(found[name]).clone() for name in wanted)

    @staticmethod
    def vmap(info, in_dims, device, kept, rows, wanted, *tensors):
        # Whether an input is batched, not only the gradients of rows.
        batched = any(dim is not None for dim in in_dims[4 + len(rows) :])
        slices = kept.slices if batched else [kept] * info.batch_size

        def run(k):
            return _Pullback.apply(device, slices[k], rows, wanted, *_slices(tensors, in_dims[4:], k))

        return _stacked(run, info.batch_size)


class _Pushforward(_FirstOrder):
    """Derivatives (directions, ...) of the rows along changes (directions, ...) of inputs, the last arguments."""

    @staticmethod
    def forward(sim, names, changed, steps, options, *tensors):
        n = len(names)
        changes = {
            name: x.reshape(len(x), *change_shape(name, x.shape[1:]))
            for name, x in zip(changed, tensors[n:], strict=True)
        }
        with _on_torch_stream(sim.device):
            changes = _arrays(changes, changes.values())
            rows = push_rollout(sim, _arrays(names, tensors[:n]), changes, steps, **options)
            return tuple(_tensor_of(row) for row in rows)

    @staticmethod
    def vmap(info, in_dims, sim, names, changed, steps, options, *tensors):
        """A batch of directions at one point becomes one call with more directions."""
        n, dims, count = len(names), in_dims[5:], info.batch_size

        def run(*tensors):
            return _Pushforward.apply(sim, names, changed, steps, options, *tensors)

        if any(dim is not None for dim in dims[:n]):
            return _stacked(lambda k: run(*_slices(tensors, dims, k)), count)
        changes = zip(tensors[n:], dims[n:], strict=True)
        changes = [x.expand(count, *x.shape) if dim is None else x.movedim(dim, 0) for x, dim in changes]
        rows = run(*tensors[:n], *(x.flatten(0, 1) for x in changes))
        return tuple(row.unflatten(0, (count, len(row) // count)) for row in rows), (0,) * len(rows)


def _slices(tensors, dims, k: int):
    """Entry k of the batch of each tensor. `dims`: the batch axes; a tensor without one is the same in all slices."""
    return [t if dim is None else t.select(dim, k) for t, dim in zip(tensors, dims, strict=True)]


def _stacked(run, count: int):
    """The results of `run(k)` stacked along a new first axis, and the batch axes for torch."""
    found = [run(k) for k in range(count)]
    return tuple(torch.stack(column) for column in zip(*found, strict=True)), (0,) * len(found[0])


@holds
def _plain(sim, arrays, steps, options) -> dict[str, wp.array]:
    """Rows by name of a rollout without gradients, or with the options of a step its end."""
    inputs = Inputs(sim, arrays)
    trajectory = sim.rollout(inputs.start, inputs.controls, steps, mocap=inputs.mocap, **options)
    rows = {name: getattr(trajectory, name) for name in _row_names(arrays)}
    return rows if "every" in options else {name: array[1] for name, array in rows.items()}


def _row_names(names) -> tuple[str, ...]:
    """Names of what a rollout of these inputs returns."""
    return tuple(name for name in STATE_NAMES if name in names)


def _closed_loop(sim, start, activation, policy, mocap, steps, every, parameters, substeps):
    """A rollout whose controls come from a function of tensors."""
    if steps is None and mocap is not None:
        steps = len(mocap)
    if steps is None:
        raise ValueError("rollout needs steps= unless controls is a tensor (steps, worlds, nu)")
    whole(steps, "steps", 1)
    whole(every, "every", 1)
    shown = 2 if activation is None else 3
    if activation is None and sim.model.na:  # carried from step to step, but not returned
        activation = torch.zeros((sim.worlds, sim.model.na), dtype=start[0].dtype, device=start[0].device)
    state = start if activation is None else (*start, activation)
    rows = [state[:shown]]
    for k in range(steps):
        own = dict(zip(("q", "v", "activation"), state, strict=False))
        own["mocap"] = None if mocap is None else mocap[k]
        state = step(sim, control=policy(*state[:shown]), parameters=parameters, substeps=substeps, **own)
        if (k + 1) % every == 0:
            rows.append(state[:shown])
    return tuple(torch.stack(column) for column in zip(*rows, strict=True))


def _tensor(sim, name: str, value, wanted: tuple[int, ...]):
    """The tensor with its worlds' axis, checked."""
    if not isinstance(value, torch.Tensor):
        raise ValueError(f"{name} is a {type(value).__name__}; give a torch.Tensor")
    device = torch.device(wp.device_to_torch(sim.device))
    if value.dtype != DTYPES[sim.dtype] or value.device != device:
        raise ValueError(
            f"{name} is {value.dtype} on {value.device}; this simulator needs {DTYPES[sim.dtype]} on {device}"
        )
    if value.shape == wanted:
        return value
    return value.reshape(expansion(name, value.shape, wanted)).expand(wanted)


def _arrays(names, tensors) -> dict[str, wp.array]:
    return {
        name: wp.from_torch(t.detach().contiguous(), requires_grad=False)
        for name, t in zip(names, tensors, strict=True)
    }


def _tensor_of(array: wp.array):
    return wp.to_torch(array, requires_grad=False)


def _on_torch_stream(device):
    """On CUDA, launch on the stream that torch is using on this device."""
    if not device.is_cuda:
        return contextlib.nullcontext()
    return wp.ScopedStream(wp.stream_from_torch(torch.cuda.current_stream(wp.device_to_torch(device))))
