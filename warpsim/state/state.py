# SPDX-License-Identifier: Apache-2.0
"""`State`: everything a step reads besides parameters and control."""

from __future__ import annotations

from typing import Any

import numpy as np
import warp as wp

from warpsim.base.annotations import Array, DeviceName, Numbers
from warpsim.base.checks import listed
from warpsim.base.extras import import_or_explain
from warpsim.base.other_names import NamesOfState
from warpsim.base.pickled import pack, unpack
from warpsim.base.reprs import show
from warpsim.device.array_module import device_view
from warpsim.device.recording import tape_paused
from warpsim.kernels import flags

FLAG_NAMES = {bit: name for name, bit in vars(flags).items() if name.isupper()}


class State(NamesOfState):
    """The state of all worlds: the full input of a step, except parameters and control.

    Make one with `sim.state()`. Two states with equal arrays step to equal states.

    Attributes
    ----------
    q : wp.array (worlds, nq)
        Positions, with MuJoCo's layout of `qpos`.
    v : wp.array (worlds, nv)
        Velocities, with MuJoCo's layout of `qvel`.
    time : wp.array (worlds,)
        Time [s], in float64.
    memory : dict of wp.array
        What the solver and the integrator carry from step to step. `memory["flags"] (worlds,)` holds the flags
        (docs/flags.md).

    Notes
    -----
    Pickles and deep copies keep all values. They stay on the same device, or move to the CPU if there is no device of
    that name; gradients start at zero.

    Examples
    --------
    >>> sim = ws.Simulator(ws.load(ws.robots.path("hopper")), worlds=3, device="cpu")
    >>> state = sim.state()
    >>> state[[0, 2]].worlds          # chosen worlds
    2
    >>> state.q.numpy().shape         # NumPy: a view on the CPU, a copy from CUDA
    (3, 6)
    """

    q: Array
    v: Array
    time: Array
    memory: dict[str, Array]
    recorded: bool

    def __init__(self, q: Array, v: Array, time: Array, memory: dict[str, Array]):
        self.q, self.v, self.time, self.memory = q, v, time, memory
        self.recorded = False  # whether a tape has recorded the arrays and needs their values

    @property
    def worlds(self) -> int:
        """Number of worlds."""
        return self.q.shape[0]

    @property
    def activation(self) -> Array:
        """Activations `(worlds, na)` of the actuators with dynamics, in their order; the array in `memory`."""
        if "activation" not in self.memory:
            raise ValueError("this state has no activation: no actuator of its model has dynamics")
        return self.memory["activation"]

    @property
    def mocap(self) -> Array | None:
        """Poses `(worlds, nmocap, 7)` of the mocap bodies as `[x y z qw qx qy qz]`; None if the model has none.

        The next step uses them unless it is given others.
        """
        return self.memory.get("mocap")

    def __getstate__(self) -> dict[str, Any]:
        return pack(vars(self))

    def __setstate__(self, kept: dict[str, Any]) -> None:
        vars(self).update(unpack(kept))
        self.recorded = False  # no tape has recorded the arrays of the copy

    def __repr__(self) -> str:
        extra = {"requires_grad": True} if self.q.requires_grad else {}
        names = {
            "worlds": self.worlds,
            "q": self.q,
            "v": self.v,
            "dtype": self.q.dtype.__name__,
            "device": self.q.device,
        }
        return show("State", names | {"memory": f"[{', '.join(self.memory)}]", "flags": self._flagged()} | extra)

    def _flagged(self) -> str | None:
        """The flags that are raised and the number of worlds; None if the device cannot be read now."""
        flags = self.memory.get("flags")
        if not isinstance(flags, wp.array) or flags.device.is_capturing:
            return None
        values = flags.numpy()
        counts = {name: int(np.count_nonzero(values & bit)) for bit, name in FLAG_NAMES.items()}
        found = [f"{name} in {count} of {len(values)} worlds" for name, count in counts.items() if count]
        return f"[{', '.join(found)}]" if found else "none"

    def arrays(self) -> dict[str, Array]:
        """All arrays by name: `q`, `v`, `time` and those of `memory`."""
        return {"q": self.q, "v": self.v, "time": self.time, **self.memory}

    def smooth_arrays(self) -> dict[str, Array]:
        """The arrays that have a gradient, by name."""
        return {name: array for name, array in self.arrays().items() if array.grad is not None}

    def require(self, kinds: dict[str, tuple[Any, ...]], device: DeviceName, label: str = "state") -> None:
        """Check that the arrays have given shapes and dtypes.

        Parameters
        ----------
        kinds : dict
            (shape, dtype) by name of the array.
        device : str or wp.Device
            The device that the arrays must be on.
        label : str
            Name of the state in error messages. Default: "state".

        Raises
        ------
        ValueError
            An array is missing, or has another shape, dtype or device. The message names it.

        Examples
        --------
        >>> state = ws.Simulator(ws.load(ws.robots.path("hopper")), worlds=3, device="cpu").state()
        >>> state.require({name: (array.shape, array.dtype) for name, array in state.arrays().items()}, "cpu")
        """
        arrays = self.arrays()
        alike = arrays.keys() == kinds.keys()
        for name, (shape, kind) in kinds.items():
            if not alike and name not in ("q", "v", "time"):
                raise ValueError(
                    f"{label} has the memory {listed(self.memory)}, this simulator's has {listed(list(kinds)[3:])}: it "
                    "is of one with another solver, integrator or recovery_speed; make a state with this sim.state(q, "
                    "v)"
                )
            array = arrays[name]
            if isinstance(array, wp.array) and array.shape == shape and array.dtype is kind and array.is_contiguous:
                if array.device is device or array.device == device:
                    continue
            where = f"{label}.{name}" if name in ("q", "v", "time") else f"{label}.memory[{name!r}]"
            _refuse(array, where, shape, kind, device)

    def clone(self) -> "State":
        """Return an independent copy on the same device."""
        return self._map(wp.clone)

    def without_gradient(self) -> "State":
        """Return a copy whose arrays have no gradient."""
        return self._map(lambda array: wp.clone(array, requires_grad=False))

    def assign(self, other: "State") -> None:
        """Copy the values of another state into the arrays of this one.

        Parameters
        ----------
        other : State
            A state with arrays of the same names, shapes and dtypes.

        Raises
        ------
        ValueError
            The arrays differ in name, shape or dtype. Nothing is written then.

        Examples
        --------
        >>> sim = ws.Simulator(ws.load(ws.robots.path("hopper")), worlds=3, dt=0.005, device="cpu")
        >>> state = sim.state()
        >>> start = state.clone()
        >>> state = sim.step(state, out=state)
        >>> state.assign(start)
        >>> float(state.time.numpy()[0])
        0.0
        """
        if not isinstance(other, State):
            raise ValueError(f"other is a {type(other).__name__}; give a State")
        own, given = self.arrays(), other.arrays()
        if own.keys() != given.keys():
            raise ValueError(
                f"the state holds {', '.join(own)}, the one to assign {', '.join(given)}; both must come from "
                "simulators with the same integrator and solver"
            )
        for name, array in given.items():
            target = own[name]
            if (target.shape, target.dtype) != (array.shape, array.dtype):
                raise ValueError(
                    f"{name} of other is {array.dtype.__name__} of shape {array.shape}; this state holds "
                    f"{target.dtype.__name__} of shape {target.shape}: it is of another simulator"
                )
        self.release()
        for name, array in given.items():
            wp.copy(self.arrays()[name], array)

    def release(self) -> None:
        """Prepare the arrays for writing.

        If a tape has recorded them, the tape keeps them and the state continues with copies. The gradients of the
        copies are zero.
        """
        if self.recorded:
            with tape_paused():
                copy = self.clone()
            self.q, self.v, self.time, self.memory = copy.q, copy.v, copy.time, copy.memory
            self.recorded = False

    def alias(self) -> "State":
        """Return a state with the same arrays, which keeps them when this state gets new ones."""
        alias = self._map(lambda array: array)
        alias.recorded = self.recorded
        return alias

    def __getitem__(self, worlds: Numbers) -> "State":
        """A copy of the chosen worlds: an index, a slice, or a list or array of indices or booleans."""
        chosen = np.atleast_1d(np.arange(self.worlds)[worlds]).astype(np.int32)
        index = wp.array(chosen, dtype=wp.int32, device=self.q.device)

        def rows(array):
            if array.size == 0:  # Warp cannot index an array of size 0
                return wp.zeros((len(chosen), *array.shape[1:]), dtype=array.dtype, device=array.device)
            return wp.clone(array[index])

        return self._map(rows)

    def _map(self, function) -> "State":
        memory = {name: function(array) for name, array in self.memory.items()}
        return State(function(self.q), function(self.v), function(self.time), memory)

    def numpy(self) -> dict[str, np.ndarray]:
        """Return host arrays by name: views on the CPU, copies from CUDA."""
        return {name: array.numpy() for name, array in self.arrays().items()}

    def torch(self) -> dict[str, Any]:
        """Return Torch tensors by name that share memory with the state."""
        import_or_explain("torch", "torch")
        return {name: wp.to_torch(array) for name, array in self.arrays().items()}

    def jax(self) -> dict[str, Any]:
        """Return JAX arrays by name that share memory with the state."""
        import_or_explain("jax", "jax")
        return {name: wp.to_jax(array) for name, array in self.arrays().items()}

    def cupy(self) -> dict[str, Any]:
        """Return CuPy arrays by name that share memory with the state; it needs a CUDA device."""
        if not self.q.device.is_cuda:
            raise ValueError(f"State.cupy() needs a CUDA device, this state is on {self.q.device}; use numpy()")
        return {name: device_view(array) for name, array in self.arrays().items()}


def _refuse(array, where: str, shape, kind, device) -> None:
    """Raise the error for an array of a wrong type, shape, dtype or device, or with gaps."""
    if not isinstance(array, wp.array):
        raise ValueError(f"{where} is a {type(array).__name__}; make states with this sim.state(q, v)")
    if array.shape != shape:
        raise ValueError(f"{where} has shape {array.shape}; it must be {shape}; make states with this sim.state(q, v)")
    if (array.dtype, array.device) != (kind, device):
        found = f"{array.dtype.__name__} on {array.device}"
        raise ValueError(f"{where} is {found}; this simulator needs {kind.__name__} on {device}")
    raise ValueError(f"{where} is a view with gaps; give wp.clone(...) of it")
