# SPDX-License-Identifier: Apache-2.0
"""A rollout's loss as a function of one flat vector, for `scipy.optimize.minimize(..., jac=True)` and the like."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from warpsim.base.annotations import Array, Numbers
from warpsim.base.checks import choice, listed, numbers, positive, short
from warpsim.base.extras import import_or_explain
from warpsim.base.reprs import show
from warpsim.device.threads import holds
from warpsim.differentiate.taped import (
    BY_STEP,
    STATE_NAMES,
    Inputs,
    TapedRollout,
    count_steps,
    device_array,
    input_shapes,
    shared_shape,
)
from warpsim.differentiate.trust import (
    HOP_STEPS,
    RELATIVE_STEP,
    TOLERANCE,
    GradientTrust,
    checked_options,
    measure_trust,
    worlds_axis,
)
from warpsim.differentiate.unreached import unreached
from warpsim.model.parameters import SPECS
from warpsim.state.trajectory import Trajectory

if TYPE_CHECKING:
    from warpsim.simulator import Simulator


class Objective:
    """The loss of a rollout and its gradient, as a function of one flat vector.

    `objective(x)` returns the loss and its gradient (float, array (n,)), as `scipy.optimize.minimize(objective,
    objective.x0, jac=True)` expects.

    Parameters
    ----------
    sim : Simulator
        A simulator made with `requires_grad=True`.
    loss : callable
        With `framework="warp"`: a function of the trajectory that returns a Warp array with `requires_grad=True`, from
        kernels that it launches, or a slice of `trajectory.q` or `trajectory.v`. The loss is the sum of the array. With
        "torch": a function of the tensors q (steps + 1, worlds, nq) and v (steps + 1, worlds, nv) that returns a
        scalar.
    variables : dict of str to array
        Initial values by name: `q`, `v`, `activation` (the initial state), `controls`, `mocap`, or parameters. A value
        with the worlds' axis varies per world. All worlds share a value without it.
    steps : int, optional
        Number of steps. Default: from `controls` or `mocap`; without these it must be given.
    fixed : dict of str to array, optional
        Further inputs by name, which do not vary. Default: the model's initial pose, at rest, without controls.
    bounds : dict of str to tuple or "model", optional
        By name, (low, high) as numbers or arrays; or "model": the control ranges, or the values that a simulator
        accepts for a parameter. Default: no bounds.
    scale : dict of str to float, optional
        By name, the size of one unit of x: a variable is `scale` times its entries of x. Default: 1.
    framework : str
        Framework of `loss`: "warp" (default) or "torch".
    **options : Any
        Options of `Simulator.rollout`: `substeps`, `every`, `checkpoint_every`.

    Raises
    ------
    ValueError
        A name or a shape is wrong, or the simulator has no gradients.

    Examples
    --------
    >>> model = ws.load(ws.robots.path("cartpole"))
    >>> sim = ws.Simulator(model, dt=0.02, dtype="float64", device="cpu", requires_grad=True)
    >>> def cart(trajectory):                                              # the last position of each world's cart
    ...     return trajectory.q[trajectory.steps, :, 0]
    >>> objective = ws.Objective(sim, cart, {"controls": np.zeros((10, 1, 1))}, bounds={"controls": "model"})
    >>> objective
    Objective(variables={controls: (10, 1, 1)}, steps=10, worlds=1)
    >>> loss, gradient = objective(objective.x0)
    >>> loss, gradient.shape, bool((gradient > 0).all())
    (0.0, (10,), True)
    """

    sim: "Simulator"
    loss: Callable[[Any], Any]
    framework: str
    options: dict[str, Any]
    fixed: dict[str, Any]
    start: dict[str, np.ndarray]
    steps: int
    shapes: dict[str, tuple[int, ...]]
    scale: dict[str, Any]

    def __init__(
        self,
        sim: "Simulator",
        loss: Callable[[Any], Any],
        variables: Mapping[str, Any],
        *,
        steps: int | None = None,
        fixed: Mapping[str, Any] | None = None,
        bounds: Any = None,
        scale: Mapping[str, float] | None = None,
        framework: str = "warp",
        **options: Any,
    ):
        choice(framework, "framework", ("warp", "torch"))
        if not getattr(sim, "requires_grad", False):
            raise ValueError("an Objective needs a simulator made with requires_grad=True")
        if not callable(loss):
            raise ValueError(f"loss is {short(loss)}; give a function")
        for name, table in (
            ("variables", variables),
            ("fixed", fixed or {}),
            ("bounds", bounds or {}),
            ("scale", scale or {}),
        ):
            if not isinstance(table, Mapping):
                raise ValueError(f"{name} is {short(table)}; give a dict by name")
        if not variables:
            raise ValueError("variables is empty; name at least one")
        self.sim, self.loss, self.framework, self.options = sim, loss, framework, options
        self.fixed = {name: x[0] for name, x in sim._inputs.start(rows=1).items()} | dict(fixed or {})
        self.start = {name: numbers(value, f"variables[{name!r}]") for name, value in variables.items()}
        self.fixed = {name: value for name, value in self.fixed.items() if name not in self.start}
        given = self.fixed | self.start
        self.steps = count_steps(given.get("controls"), steps, given.get("mocap"))
        parameters = [name for name in given if name not in (*STATE_NAMES, *BY_STEP)]
        self.shapes = input_shapes(sim, self.steps, parameters)
        self._told = False
        self._fixed = {name: device_array(sim, name, x, self.shapes[name]) for name, x in self.fixed.items()}
        scales = dict.fromkeys(self.start, 1.0) | dict(scale or {})
        self.scale = {name: positive(scales[name], f"scale[{name!r}]") for name in self.start}
        self._refuse_unknown("bounds", bounds)
        self._refuse_unknown("scale", scale)
        self._bounds = {
            n: self._of_model(n) if isinstance(pair, str) and pair == "model" else pair
            for n, pair in dict(bounds or {}).items()
        }
        for name, pair in self._bounds.items():
            if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                raise ValueError(f"bounds[{name!r}] is {short(pair)}; give (low, high)")
            low, high = (numbers(side, f"bounds[{name!r}]") for side in pair)
            if not (low <= high).all():
                raise ValueError(f"bounds[{name!r}] is {short(pair)}; the lower must not exceed the upper")
        for name, value in self.start.items():
            device_array(sim, name, value, self.shapes[name])  # checks its shape and numbers

    def __repr__(self) -> str:
        return show("Objective", {"variables": self.start, "steps": self.steps, "worlds": self.sim.worlds})

    def _refuse_unknown(self, what: str, table) -> None:
        unknown = set(table or {}) - set(self.start)
        if unknown:
            raise ValueError(f"{what} names {sorted(unknown)}; the variables are {sorted(self.start)}")

    def _of_model(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """The simulator's bounds of a variable."""
        if name == "controls":
            low, high = np.moveaxis(self.sim.parameters.stored("control_range").numpy().astype(float), -1, 0)
            if self.start[name].ndim < 3:  # all worlds share them
                return low.max(axis=0), high.min(axis=0)
            return low, high
        if name in (*STATE_NAMES, "mocap"):
            raise ValueError(f'bounds[{name!r}] is "model", which bounds controls and parameters; give (low, high)')
        spec = SPECS[name]
        return -np.inf if spec.least is None else spec.least, np.inf if spec.most is None else spec.most

    @property
    def x0(self) -> np.ndarray:
        """The initial values, packed: array (n,)."""
        return self.pack(self.start)

    @property
    def bounds(self) -> list[tuple[float, float]] | None:
        """A list of (low, high) per entry of x, or None where nothing is bounded."""
        if not self._bounds:
            return None
        sides = [{name: self._bounds.get(name, (-np.inf, np.inf))[i] for name in self.start} for i in (0, 1)]
        low, high = (self.pack({n: np.broadcast_to(side[n], self.start[n].shape) for n in side}) for side in sides)
        return list(zip(low.tolist(), high.tolist(), strict=True))

    def pack(self, values: dict[str, Any]) -> np.ndarray:
        """Pack values by name into one flat vector, in units of `scale`.

        Parameters
        ----------
        values : dict of str to array
            A value for every variable, shaped as its initial value.

        Returns
        -------
        array (n,)
            The vector x.

        Examples
        --------
        >>> sim = ws.Simulator(ws.load(ws.robots.path("cartpole")), device="cpu", requires_grad=True)
        >>> variables = {"q": np.zeros(2), "body_mass": [1.0, 0.1]}
        >>> objective = ws.Objective(sim, lambda t: t.q[t.steps, :, 0], variables, steps=2, scale={"body_mass": 0.1})
        >>> objective.pack({"q": [0.0, 0.5], "body_mass": [2.0, 0.1]}).round(6).tolist()
        [0.0, 0.5, 20.0, 1.0]
        """
        return np.concatenate([np.ravel(np.asarray(values[name], float)) / self.scale[name] for name in self.start])

    def unpack(self, x: Numbers) -> dict[str, np.ndarray]:
        """Unpack a flat vector into values by name.

        Parameters
        ----------
        x : array (n,)
            The vector.

        Returns
        -------
        dict of str to array
            Values by name, shaped as the initial values.

        Examples
        --------
        >>> sim = ws.Simulator(ws.load(ws.robots.path("cartpole")), device="cpu", requires_grad=True)
        >>> objective = ws.Objective(sim, lambda t: t.q[t.steps, :, 0], {"q": np.zeros(2)}, steps=2, scale={"q": 0.1})
        >>> objective.unpack([1.0, 2.0])
        {'q': array([0.1, 0.2])}
        """
        ends = np.cumsum([value.size for value in self.start.values()])
        parts = np.split(np.asarray(x, float), ends[:-1])
        pairs = zip(self.start.items(), parts, strict=True)
        return {name: part.reshape(value.shape) * self.scale[name] for (name, value), part in pairs}

    @holds
    def rollout(self, x: Numbers) -> Trajectory:
        """Roll out the motion at x, without gradients.

        Parameters
        ----------
        x : array (n,)
            The variables.

        Returns
        -------
        Trajectory
            The trajectory. Parameters among the variables stay written into `sim.parameters`.

        Examples
        --------
        >>> sim = ws.Simulator(ws.load(ws.robots.path("cartpole")), device="cpu", requires_grad=True)
        >>> objective = ws.Objective(sim, lambda t: t.q[t.steps, :, 0], {"q": np.zeros(2)}, steps=2)
        >>> objective.rollout([0.0, 0.1]).q.shape
        (3, 1, 2)
        """
        inputs = Inputs(self.sim, self.arrays(x))
        return self.sim.rollout(inputs.start, inputs.controls, self.steps, mocap=inputs.mocap, **self.options)

    @holds
    def __call__(self, x: Numbers) -> tuple[float, np.ndarray]:
        """Compute the loss and its gradient.

        Parameters
        ----------
        x : array (n,)
            The variables.

        Returns
        -------
        loss : float
            The loss, summed over the worlds.
        gradient : array (n,)
            The gradient with respect to x.

        Warns
        -----
        UserWarning
            Once: a world's gradient is exactly zero, because the loss depends on bodies that no variable reaches.
        """
        arrays = self.arrays(x)
        loss, found = self._taped(arrays)
        self._warn_of_unreached(arrays, found)
        return float(loss.sum()), self.pack_gradient(found)

    def _warn_of_unreached(self, arrays, found: dict[str, np.ndarray]) -> None:
        """Once: name the bodies that the variables do not reach, where a world's gradient is exactly zero."""
        worlds = [np.moveaxis(found[name], worlds_axis(name), 0).reshape(self.sim.worlds, -1) for name in self.start]
        zero = np.flatnonzero(~np.any([x.any(axis=1) for x in worlds], axis=0))
        if self._told or not len(zero):
            return
        named = {int(w): names for w, names in enumerate(unreached(self, arrays)) if names and w in zero}
        if named:
            self._told = True
            w, names = next(iter(named.items()))
            warnings.warn(
                f"the gradient of {len(named)} of {self.sim.worlds} worlds is exactly zero: the loss of world {w} "
                f"depends on {listed(names)}, which no variable reaches, for nothing touches it; give the simulator "
                "contact_gradient=ws.GradientFromDistance(...), or start from the plan of ws.cem",
                stacklevel=4,
            )

    def pack_gradient(self, found: dict[str, np.ndarray]) -> np.ndarray:
        """Pack gradients by name into the gradient with respect to x.

        Parameters
        ----------
        found : dict of str to array
            By name the gradient of every variable, with the worlds' axis. It is summed over the worlds for a shared
            variable.

        Returns
        -------
        array (n,)
            The gradient.

        Examples
        --------
        >>> sim = ws.Simulator(ws.load(ws.robots.path("cartpole")), worlds=2, device="cpu", requires_grad=True)
        >>> objective = ws.Objective(sim, lambda t: t.q[t.steps, :, 0], {"q": np.zeros(2)}, steps=2)
        >>> objective.pack_gradient({"q": np.array([[1.0, 2.0], [3.0, 4.0]])}).tolist()
        [4.0, 6.0]
        """
        parts = []
        for name, value_at_start in self.start.items():
            gradient = found[name]
            if value_at_start.shape == shared_shape(name, gradient.shape):
                gradient = gradient.sum(axis=worlds_axis(name))
            parts.append(np.ravel(gradient) * self.scale[name])
        return np.concatenate(parts)

    @holds
    def unreached(self, x: Numbers | None = None) -> tuple[tuple[str, ...], ...]:
        """Find the bodies that the loss depends on and that no variable reaches.

        Parameters
        ----------
        x : array (n,), optional
            The variables. Default: `x0`.

        Returns
        -------
        tuple of tuples of str
            For each world the names of these bodies; an empty tuple where all are reached.

        Notes
        -----
        In the motion at x these bodies touch nothing that depends on the variables. The gradient therefore belongs to
        the rest of the loss. Cost: a rollout with its backward pass for each tree of the model that the loss depends
        on.

        Examples
        --------
        >>> sim = ws.Simulator(ws.load(ws.robots.path("cartpole")), device="cpu", requires_grad=True)
        >>> ws.Objective(sim, lambda t: t.q[t.steps, :, 0], {"q": np.zeros(2)}, steps=2).unreached()
        ((),)
        """
        return unreached(self, self.arrays(self.x0 if x is None else x))

    @holds
    def trust(
        self,
        x: Numbers | None = None,
        *,
        relative_step: float = RELATIVE_STEP,
        hop_steps: int = HOP_STEPS,
        tolerance: float = TOLERANCE,
    ) -> GradientTrust:
        """Report for each world whether the gradient predicts how the loss changes.

        The report counts the kinks of the motion at x: contacts that begin or end, changes between sticking and
        sliding, and joint stops. It also compares the tape's derivative along each world's own gradient with a central
        difference as wide as a step of an optimizer.

        Parameters
        ----------
        x : array (n,), optional
            The variables. Default: `x0`.
        relative_step : float
            Largest change of an entry to either side, relative to its unit. The unit of a parameter's entry is its own
            value (an entry of 0 does not change), of a control the largest control, of q and v one unit of `scale`.
            Default: 0.03.
        hop_steps : int
            A pair of geoms that parts and touches again within this number of steps counts as a hop. 0: none does.
            Default: 10.
        tolerance : float
            A world with a larger `disagreement` is not trusted. Default: 0.2.

        Returns
        -------
        GradientTrust
            The report; `print` shows it as a table. A loss of one number per world, an array (worlds,), is compared
            world by world. Any other loss is compared as a sum.

        Notes
        -----
        Cost: one gradient and three rollouts, one of them read step by step on the host.

        Examples
        --------
        >>> sim = ws.Simulator(ws.load(ws.robots.path("cartpole")), dtype="float64", device="cpu", requires_grad=True)
        >>> objective = ws.Objective(sim, lambda t: t.q[t.steps, :, 0], {"v": np.zeros(2)}, steps=5)
        >>> objective.trust().trusted.tolist()
        [True]
        """
        options = checked_options(relative_step, hop_steps, tolerance)
        arrays = self.arrays(self.x0 if x is None else x)
        point = {name: array.numpy().astype(float) for name, array in arrays.items()}
        loss, found = self._taped(arrays)

        def run(values, **watch):
            inputs = Inputs(self.sim, {n: device_array(self.sim, n, y, self.shapes[n]) for n, y in values.items()})
            options = {"mocap": inputs.mocap} | self.options | watch
            trajectory = self.sim.rollout(inputs.start, inputs.controls, self.steps, **options)
            loss = self.loss(trajectory).numpy() if self.framework == "warp" else self._tensors_loss(trajectory)[0]
            return loss, trajectory

        gradient = {name: found[name] for name in self.start}
        try:
            found = measure_trust(self.sim, run, point, gradient, loss, self.scale, **options)
            return dataclasses.replace(found, unreached=unreached(self, arrays))
        finally:
            Inputs(self.sim, arrays)  # restores the parameters of x

    def _taped(self, arrays) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """The loss, and its gradients by name with the worlds' axis."""
        run = TapedRollout(self.sim, arrays, self.steps, **self.options)
        value, seeds = self.seeds(run.tape, run.trajectory)
        return value, {name: x.numpy().astype(float) for name, x in run.gradients(grads=seeds).items()}

    def arrays(self, x: Numbers) -> dict[str, Array]:
        """Make all inputs of the rollout at x.

        Parameters
        ----------
        x : array (n,)
            The variables.

        Returns
        -------
        dict of str to array
            Inputs by name on the simulator's device, with the worlds' axis: the variables and the fixed inputs.

        Examples
        --------
        >>> sim = ws.Simulator(ws.load(ws.robots.path("cartpole")), worlds=2, device="cpu", requires_grad=True)
        >>> objective = ws.Objective(sim, lambda t: t.q[t.steps, :, 0], {"q": np.zeros(2)}, steps=2)
        >>> objective.arrays([0.0, 0.1])["q"].shape
        (2, 2)
        """
        values = {n: device_array(self.sim, n, value, self.shapes[n]) for n, value in self.unpack(x).items()}
        return self._fixed | values

    def seeds(self, tape: wp.Tape, trajectory: Trajectory) -> tuple[np.ndarray, dict[Array, Array]]:
        """Compute the loss of a trajectory and its seeds: gradients with respect to the arrays that the loss reads.

        Parameters
        ----------
        tape : wp.Tape
            The tape that has recorded the rollout. A Warp loss is recorded on it too.
        trajectory : Trajectory
            The trajectory.

        Returns
        -------
        loss : array
            What the loss function returned, as a NumPy array.
        seeds : dict of array to array
            Gradients of the loss by array. A backward pass begins with them: `tape.backward(grads=seeds)`.

        Examples
        --------
        >>> sim = ws.Simulator(ws.load(ws.robots.path("cartpole")), device="cpu", requires_grad=True)
        >>> objective = ws.Objective(sim, lambda t: t.q[t.steps, :, 0], {"q": np.zeros(2)}, steps=2)
        >>> state = sim.state(q=[0.1, 0.0])
        >>> with wp.Tape() as tape:
        ...     trajectory = sim.rollout(state, steps=2)
        >>> loss, seeds = objective.seeds(tape, trajectory)
        >>> tape.backward(grads=seeds)
        >>> loss.round(3).tolist(), state.q.grad.numpy()[0, 0].round(3).item()
        ([0.1], 1.0)
        """
        return self._warp_loss(tape, trajectory) if self.framework == "warp" else self._torch_loss(trajectory)

    def _warp_loss(self, tape: wp.Tape, trajectory: Trajectory):
        with tape:
            loss = self.loss(trajectory)
        if not (isinstance(loss, wp.array) and loss.requires_grad):
            raise ValueError("the loss must return a wp.array made with requires_grad=True, filled by a kernel")
        ones = wp.zeros_like(loss, requires_grad=False)
        ones.fill_(1.0)
        return loss.numpy().astype(float), {loss: ones}

    def _torch_loss(self, trajectory: Trajectory):
        torch = import_or_explain("torch", "torch")
        value, loss, tensors = self._tensors_loss(trajectory)
        bars = torch.autograd.grad(loss, tensors, materialize_grads=True)
        arrays = (trajectory.q, trajectory.v)
        return value, {a: wp.from_torch(g.contiguous()) for a, g in zip(arrays, bars, strict=True)}

    def _tensors_loss(self, trajectory: Trajectory):
        """The loss of the tensors q and v, as an array and as a tensor, and the two tensors."""
        arrays = (trajectory.q, trajectory.v)
        tensors = [wp.to_torch(a, requires_grad=False).detach().requires_grad_() for a in arrays]
        loss = self.loss(*tensors)
        return np.asarray(float(loss.detach())), loss, tensors
