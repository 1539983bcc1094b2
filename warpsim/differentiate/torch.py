# SPDX-License-Identifier: Apache-2.0
"""PyTorch: rollouts and steps of a simulator as differentiable functions of tensors, without copies of trajectories.

    q, v = ws.torch.rollout(sim, q, v, controls)         # (rows, worlds, nq), (rows, worlds, nv)
    loss(q, v).backward()                                # gradients arrive in the tensors given

Tensors must have the simulator's dtype and device. A tensor without the worlds' axis is shared by all worlds, and its
gradient is their sum.
"""

import contextlib

import warp as wp

from warpsim.base.checks import whole
from warpsim.base.extras import import_or_explain
from warpsim.device.threads import holds
from warpsim.differentiate.taped import STATE_NAMES, Inputs, TapedRollout, count_steps, expansion, input_shapes

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
    """Positions `(rows, worlds, nq)` and velocities `(rows, worlds, nv)` of a rollout from q, v; row 0 is the start.

    `q (worlds, nq)`, `v (worlds, nv)`. With `activation (worlds, na)` the activations `(rows, worlds, na)` come third; else they start at 0.
    `controls`: a tensor (steps, worlds, nu), a function `policy(q, v)`, or `policy(q, v, activation)` where that is given, of tensors
    that returns (worlds, nu), or None; the last two need `steps`. `mocap`: a tensor (steps, worlds, nmocap, 7) of poses of mocap bodies, or None:
    where the model has them. `parameters`: tensors by name (`{"body_mass": m}`),
    written into `sim.parameters`, where they stay. `substeps`, `every`, `checkpoint_every` as in `Simulator.rollout`.
    Gradients need a simulator with requires_grad=True and are first derivatives: `create_graph=True` raises
    `NotImplementedError`. Raises `ValueError` for a wrong shape, dtype or device.
    """
    if callable(controls):
        if checkpoint_every is not None:
            raise ValueError(
                "checkpoint_every needs controls as a tensor; wrap pieces in torch.utils.checkpoint instead"
            )
        return _closed_loop(sim, (q, v), activation, controls, mocap, steps, every, parameters, substeps)
    steps = count_steps(controls, steps, mocap)
    options = {"substeps": substeps, "every": every, "checkpoint_every": checkpoint_every}
    if activation is not None:
        sim._inputs.refuse_activation()
    given = {"q": q, "v": v, "activation": activation, "controls": controls, "mocap": mocap}
    given = {name: x for name, x in given.items() if x is not None or name in "qv"} | (parameters or {})
    shapes = input_shapes(sim, steps, parameters or {})
    tensors = [_tensor(sim, name, value, shapes[name]) for name, value in given.items()]
    if not (torch.is_grad_enabled() and any(t.requires_grad for t in tensors)):
        return _plain(sim, tuple(given), tensors, steps, options)
    if not sim.requires_grad:
        raise ValueError("a tensor asks for a gradient, but this simulator was made without requires_grad=True")
    return _Rollout.apply(sim, tuple(given), steps, options, *tensors)


def step(sim, q, v, control=None, *, activation=None, mocap=None, parameters: dict | None = None, substeps: int = 1):
    """q, v, and with `activation` that, after one step; `control (worlds, nu)`, `mocap (worlds, nmocap, 7)`. Otherwise as `rollout`. Only these
    are carried from step to step."""
    controls, mocap = (None if x is None else x[None] for x in (control, mocap))
    options = {"steps": 1, "mocap": mocap, "parameters": parameters, "substeps": substeps}
    return tuple(x[1] for x in rollout(sim, q, v, controls, activation=activation, **options))


class Module(torch.nn.Module):
    """A simulator as a layer: `forward` is `rollout`, the parameters named are trainable.

    `parameters`: names; with `shared` one value for all worlds (that of world 0), else one per world.
    """

    def __init__(self, sim, parameters=(), shared: bool = True):
        super().__init__()
        self.sim = sim
        self.names = tuple(parameters)
        for name in self.names:
            values = torch.as_tensor(sim.parameters[name].numpy().copy(), device=wp.device_to_torch(sim.device))
            self.register_parameter(name, torch.nn.Parameter(values[0].clone() if shared else values))

    def forward(self, q, v, controls=None, **options):
        """See `rollout`."""
        values = {name: getattr(self, name) for name in self.names}
        return rollout(self.sim, q, v, controls, parameters=values, **options)


class _Rollout(torch.autograd.Function):
    """The rollout of tensors that have the worlds' axis; its backward pass is that of the tape."""

    @staticmethod
    def forward(ctx, sim, names, steps, options, *tensors):
        with _on_torch_stream(sim.device):
            ctx.run = TapedRollout(sim, _arrays(names, tensors), steps, **options)
        ctx.names, ctx.device = names, sim.device
        ctx.save_for_backward(*tensors)  # so that torch notices tensors that are written to in between
        ctx.rows = _row_names(names)
        return tuple(_tensor_of(getattr(ctx.run.trajectory, name)) for name in ctx.rows)

    @staticmethod
    def backward(ctx, *bars):
        if torch.is_grad_enabled():
            raise NotImplementedError(
                "ws.torch.rollout has first derivatives only: call backward or torch.autograd.grad without create_graph=True"
            )
        ctx.saved_tensors  # noqa: B018 (raises where one was changed)
        trajectory = ctx.run.trajectory
        with _on_torch_stream(ctx.device):
            rows = (getattr(trajectory, name) for name in ctx.rows)
            seeds = {a: wp.from_torch(bar.contiguous()) for a, bar in zip(rows, bars, strict=True)}
            found = ctx.run.gradients(grads=seeds)
            wanted = zip(ctx.names, ctx.needs_input_grad[4:], strict=True)
            gradients = [_tensor_of(found[name]).clone() if needed else None for name, needed in wanted]
        return None, None, None, None, *gradients


@holds
def _plain(sim, names, tensors, steps, options):
    """A rollout that nobody asks the gradient of."""
    with _on_torch_stream(sim.device):
        inputs = Inputs(sim, _arrays(names, tensors))
        trajectory = sim.rollout(inputs.start, inputs.controls, steps, mocap=inputs.mocap, **options)
    return tuple(_tensor_of(getattr(trajectory, name)) for name in _row_names(names))


def _row_names(names) -> tuple[str, ...]:
    """What a rollout of these inputs returns."""
    return tuple(name for name in STATE_NAMES if name in names)


def _closed_loop(sim, start, activation, policy, mocap, steps, every, parameters, substeps):
    """A rollout in which a function of tensors gives the controls."""
    if steps is None and mocap is not None:
        steps = len(mocap)
    if steps is None:
        raise ValueError("rollout needs steps= unless controls is a tensor (steps, worlds, nu)")
    whole(steps, "steps", 1)
    whole(every, "every", 1)
    shown = 2 if activation is None else 3
    if activation is None and sim.model.na:  # carried all the same
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
