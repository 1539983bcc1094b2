# SPDX-License-Identifier: Apache-2.0
"""Arguments of a `Simulator`, checked and copied to its device: states, controls, worlds, points, rays."""

import numpy as np
import warp as wp

from warpsim.base.checks import choice, listed, number, numbers, positive, several, short, whole
from warpsim.device.copies import SCALARS
from warpsim.device.recording import refuse_torch_gradient
from warpsim.device.start import start_warp
from warpsim.kernels.tree import joints
from warpsim.model.model import JOINT_NQ, JointType, Model
from warpsim.state import State

NAMED = "give names or indices"


class Inputs:
    """Checks and conversion of arguments, for one model and number of worlds.

    Every method raises `ValueError` that names the argument and the fix.
    """

    def __init__(self, model: Model, worlds: int, dtype: str, device):
        self.model, self.worlds, self.dtype, self.device = model, worlds, dtype, device
        self.scalar = SCALARS[dtype]
        forces = {"control": (model.nu,), "tau": (model.nv,), "wrench": (model.nbody, 6), "mocap": (model.nmocap, 7)}
        self.force_shapes = {name: (worlds, *shape) for name, shape in forces.items()}

    def numbers(self, values, name: str) -> np.ndarray:
        """Host values as an array of the simulator's dtype."""
        refuse_torch_gradient(values, name)
        return numbers(values, name, dtype=self.dtype)

    def host_rows(self, values, n: int, name: str, rows: int | None = None) -> np.ndarray:
        """Finite host values (rows, n), from (n,) or (rows, n). Default of `rows`: the number of worlds."""
        rows = self.worlds if rows is None else rows
        refuse_state(values, name)
        if isinstance(values, wp.array):
            values = values.numpy()
        values = self.numbers(values, name)
        if values.shape not in ((n,), (rows, n)):
            raise ValueError(f"{name} has shape {values.shape}; it must be ({n},) or ({rows}, {n})")
        if name == "q":
            _refuse_quaternions(self.model, values)
        elif name == "activation":
            _refuse_activations(self.model, values)
        if not np.isfinite(values).all():
            where = tuple(int(i) for i in np.argwhere(~np.isfinite(values))[0])
            raise ValueError(f"{name} is {values[where]} at {where}; every value must be finite")
        return np.ascontiguousarray(np.broadcast_to(values, (rows, n)))

    def have_rows(self, **values) -> bool:
        """Whether one of these host or device values has one row per world."""
        given = ((name, x) for name, x in values.items() if x is not None)
        return any(np.ndim(x if hasattr(x, "ndim") else self.numbers(x, name)) == 2 for name, x in given)

    @property
    def start_sizes(self) -> dict[str, int]:
        """Arrays of an initial state by name: numbers per world."""
        m = self.model
        return {"q": m.nq, "v": m.nv} | ({"activation": m.na} if m.na else {})

    def start(
        self, q=None, v=None, keyframe: str | None = None, rows: int | None = None, activation=None
    ) -> dict[str, np.ndarray]:
        """Positions, velocities and activations of an initial state.

        What is not given comes from the keyframe, or else from the model.
        """
        m = self.model
        found = {"q": m.q0, "v": np.zeros(m.nv), "activation": self.rest_activation}
        if keyframe is not None:
            if not isinstance(keyframe, str) or keyframe not in m.keyframes:
                raise ValueError(f"no keyframe {short(keyframe)} in model {m.name!r}; it has: {listed(m.keyframes)}")
            found = {name: getattr(m.keyframes[keyframe], name) for name in found}
        given = {"q": q, "v": v, "activation": activation}
        if activation is not None:
            self.refuse_activation()
        sizes = self.start_sizes
        found = {name: x if given[name] is None else given[name] for name, x in found.items() if name in sizes}
        return {name: self.host_rows(x, sizes[name], name, rows) for name, x in found.items()}

    @property
    def rest_activation(self) -> np.ndarray:
        """Initial activations (na,): 0, or the nearest bound if the actuator's range excludes 0."""
        stateful = np.flatnonzero(self.model.actuator_dynamics)
        return np.clip(0.0, *self.model.activation_range[stateful].T)

    def refuse_activation(self) -> None:
        """Raise if activations are given but the model has none."""
        if not self.model.na:
            raise ValueError(
                f"activation is given, but no actuator of model {self.model.name!r} has dynamics; leave it out"
            )

    def mocap_rows(self, values, rows: int) -> np.ndarray:
        """Poses (rows, nmocap, 7) with valid quaternions, from (nmocap, 7) or (rows, nmocap, 7)."""
        self.refuse_mocap(values)
        values = self.numbers(values.numpy() if isinstance(values, wp.array) else values, "mocap")
        names = [self.model.body_names[i] for i in np.flatnonzero(self.model.body_mocap >= 0)]
        shape = (len(names), 7)
        if values.shape not in (shape, (rows, *shape)):
            raise ValueError(f"mocap has shape {values.shape}; it must be {shape} or {(rows, *shape)}")
        values = np.ascontiguousarray(np.broadcast_to(values, (rows, *shape)))
        if not np.isfinite(values).all():
            row, k, i = (int(i) for i in np.argwhere(~np.isfinite(values))[0])
            raise ValueError(
                f"mocap: body {names[k]!r} has {values[row, k, i]} in row {row}; every value must be finite"
            )
        for k, name in enumerate(names):
            _refuse_quaternion(values[:, k, 3:], f"mocap: the quaternion of body {name!r}")
        return values

    def refuse_mocap(self, values) -> None:
        """Raise if mocap poses are given but the model has no mocap bodies."""
        if values is not None and self.model.nmocap == 0:
            raise ValueError(f"mocap is given, but model {self.model.name!r} has no mocap bodies; leave it out")

    def start_mocap(self, mocap=None, keyframe: str | None = None, rows: int | None = None) -> np.ndarray:
        """Mocap poses (rows, nmocap, 7) of an initial state. Default: those of the keyframe, or else of the model."""
        rest = self.model.mocap0 if keyframe is None else self.model.keyframes[keyframe].mocap
        return self.mocap_rows(rest if mocap is None else mocap, self.worlds if rows is None else rows)

    def mocap(self, values) -> wp.array | None:
        """Mocap poses (worlds, nmocap, 7) on the device, for a query; None stays None."""
        self.refuse_mocap(values)
        if values is None:
            return None
        if isinstance(values, wp.array):
            return self.device_array(values, self.force_shapes["mocap"], "mocap")
        return wp.array(self.start_mocap(values), dtype=self.scalar, device=self.device)

    def rows(self, **values) -> list[wp.array]:
        """Device arrays (worlds, n) of the values named q, v, a or tau.

        Each value is a device array of that shape or host values.
        """
        found = []
        for name, value in values.items():
            n = self.model.nq if name == "q" else self.model.nv
            if isinstance(value, wp.array):
                found.append(self.device_array(value, (self.worlds, n), name))
            else:
                found.append(wp.array(self.host_rows(value, n, name), dtype=self.scalar, device=self.device))
        return found

    def device_array(self, values, shape, name: str) -> wp.array:
        """`values` as an array of this device and dtype. Host values are cast; device arrays must match."""
        if is_on_host(values):
            return wp.array(self.host_array(values, shape, name), dtype=self.scalar, device=self.device)
        refuse_torch_gradient(values, name)
        if not isinstance(values, wp.array):
            values = wp.from_torch(values) if type(values).__module__.startswith("torch") else wp.array(values)
        _refuse_shape(values, shape, name)
        if values.dtype != self.scalar or values.device != self.device:
            raise ValueError(
                f"{name} is {values.dtype.__name__} on {values.device}; this simulator needs {self.dtype} on "
                f"{self.device}"
            )
        return values

    def host_array(self, values, shape, name: str) -> np.ndarray:
        """Host values of this shape as an array of this dtype. A NumPy array of floating-point numbers is returned as
        it is."""
        if type(values) is not np.ndarray or values.dtype.kind != "f":
            values = self.numbers(values, name)
        _refuse_shape(values, shape, name)
        return values

    def given_forces(self, **given) -> dict[str, wp.array | None]:
        """`control`, `tau` and `wrench` on the device; None stays None."""
        shapes = self.force_shapes
        return {n: None if x is None else self.device_array(x, shapes[n], n) for n, x in given.items()}

    def device_mask(self, worlds) -> wp.array | None:
        """`worlds` as a Warp mask if it is a contiguous boolean mask (worlds,) on this device, else None."""
        if type(worlds).__module__.split(".")[0] == "torch" and str(worlds.dtype) == "torch.bool":
            worlds = wp.from_torch(worlds.contiguous())
        if isinstance(worlds, wp.array) and worlds.dtype is wp.bool and worlds.device == self.device:
            return worlds if worlds.shape == (self.worlds,) and worlds.is_contiguous else None
        return None

    def restart(self, worlds, q, v, keyframe=None, activation=None) -> tuple:
        """The chosen worlds and the initial state of `Simulator.reset`.

        The worlds are indices, or a mask on the device. The initial state is a dict of arrays by name, or None for the
        model's.
        """
        mask, given = self.device_mask(worlds), {"q": q, "v": v, "activation": activation}
        if activation is not None:
            self.refuse_activation()
        on_device = {name for name, x in given.items() if x is not None and not is_on_host(x)}
        if mask is not None and on_device:
            sizes = self.start_sizes
            rest = {"activation": self.rest_activation}
            rest |= {} if on_device >= {"q", "v"} and keyframe is None else self.start(keyframe=keyframe, rows=1)
            return mask, {
                name: self.device_array(given[name], (self.worlds, n), name)
                if name in on_device
                else wp.array(
                    self.host_rows(rest[name] if given[name] is None else given[name], n, name, 1),
                    dtype=self.scalar,
                    device=self.device,
                )
                for name, n in sizes.items()
            }
        if mask is None or self.have_rows(**given):
            mask = self.chosen_worlds(worlds)
        rows = 1 if isinstance(mask, wp.array) else len(mask)
        named = any(x is not None for x in (keyframe, *given.values()))
        return mask, self.start(q, v, keyframe, rows, activation) if named else None

    def restart_mocap(self, chosen, mocap, keyframe=None):
        """Mocap poses for the worlds of `restart`; None stays None. Default: those of the keyframe.

        They have one row for all worlds, or one per chosen world; with a mask on the device, one per world.
        """
        if mocap is None and keyframe is not None and self.model.nmocap:
            mocap = self.model.keyframes[keyframe].mocap
        if mocap is None:
            return None
        self.refuse_mocap(mocap)
        rows = self.worlds if isinstance(chosen, wp.array) else len(chosen)
        if not is_on_host(mocap) and isinstance(chosen, wp.array):
            return self.device_array(mocap, self.force_shapes["mocap"], "mocap")
        return self.mocap_rows(mocap, rows)

    def chosen_worlds(self, worlds) -> np.ndarray:
        """Indices of worlds given as an index, a list or array of indices, or a boolean mask."""
        worlds = np.asarray(worlds.numpy() if isinstance(worlds, wp.array) else worlds)
        if worlds.dtype == bool and worlds.shape != (self.worlds,):
            raise ValueError(f"the mask of worlds has shape {worlds.shape}; it must be ({self.worlds},)")
        if worlds.size == 0:
            return np.zeros(0, dtype=int)
        if worlds.dtype != bool and not np.issubdtype(worlds.dtype, np.integer):
            raise ValueError(f"worlds is {short(worlds.tolist())}; give whole numbers or a boolean mask")
        if worlds.dtype != bool and (worlds.min() < -self.worlds or worlds.max() >= self.worlds):
            raise ValueError(f"worlds is {short(worlds.tolist())}; there are worlds 0 to {self.worlds - 1}")
        return np.atleast_1d(np.arange(self.worlds)[worlds])

    def body(self, body) -> int:
        """Index of a body given by index or name."""
        body = self.model.body(body) if isinstance(body, str) else whole(body, "body")
        if not 0 <= body < self.model.nbody:
            raise ValueError(f"body is {body}; the model has {self.model.nbody} bodies")
        return body

    def rays(self, origin, direction, max_distance) -> tuple[np.ndarray, np.ndarray, float]:
        """Origins and directions (1 or worlds, rays, 3) and the largest distance [m]."""
        rays = []
        for name, value in (("origin", origin), ("direction", direction)):
            value = numbers(value.numpy() if isinstance(value, wp.array) else value, name)
            if value.ndim == 2:
                value = value[None]
            if value.ndim != 3 or value.shape[0] not in (1, self.worlds) or value.shape[2] != 3:
                raise ValueError(f"{name} has shape {value.shape}; it must be (rays, 3) or ({self.worlds}, rays, 3)")
            if not np.isfinite(value).all():
                raise ValueError(f"{name} must be finite")
            rays.append(value)
        if rays[0].shape[1] != rays[1].shape[1]:
            raise ValueError(f"{rays[0].shape[1]} origins but {rays[1].shape[1]} directions; give one of each per ray")
        if (np.linalg.norm(rays[1], axis=-1) == 0).any():
            raise ValueError("direction has a zero vector; every ray needs a direction")
        reach = number(max_distance, "max_distance", "it must be positive [m] (inf: no limit)", lambda x: x > 0)
        return rays[0], rays[1], reach

    def ray_geoms(self, geoms, ignore) -> list[int]:
        """Indices of the geoms that rays can hit; see `Simulator.ray_cast`."""
        m = self.model
        if geoms is None:
            geoms = range(m.ngeom)
        geoms, ignore = several(geoms, "geoms", NAMED), several(ignore, "ignore", NAMED)
        chosen = [m.geom(g) if isinstance(g, str) else whole(g, "an entry of geoms") for g in geoms]
        skipped = {self._ignored(b) for b in ignore}
        if any(not 0 <= g < m.ngeom for g in chosen):
            raise ValueError(f"geoms holds an index outside 0 .. {m.ngeom - 1}")
        if any(not -1 <= b < m.nbody for b in skipped):
            raise ValueError(f"ignore holds an index outside -1 (the world) .. {m.nbody - 1}")
        return [g for g in chosen if int(m.geom_body[g]) not in skipped]

    def _ignored(self, body) -> int:
        if body == "world":
            return -1
        if isinstance(body, str) and body not in self.model.body_names:
            raise ValueError(
                f"ignore holds no body of model {self.model.name!r}: {short(body)}; it has: "
                f"{listed(self.model.body_names)}"
            )
        return self.model.body(body) if isinstance(body, str) else whole(body, "an entry of ignore")


def is_on_host(values) -> bool:
    """Whether these are host numbers: no array of Warp or torch, and no CUDA array of another package."""
    if type(values) is np.ndarray:
        return True
    if isinstance(values, wp.array):
        return False
    return type(values).__module__.split(".")[0] != "torch" and not hasattr(values, "__cuda_array_interface__")


def _refuse_shape(values, shape, name: str) -> None:
    if values.shape != shape:
        hint = shape_hint(tuple(values.shape), tuple(shape), name)
        raise ValueError(f"{name} has shape {tuple(values.shape)}; it must be {tuple(shape)}{hint}")


def shape_hint(given: tuple, wanted: tuple, name: str) -> str:
    """A hint how to fix a wrong shape of controls, as the end of a sentence; "" if there is none."""
    if name in ("control", "controls") and wanted[-1] == 0:
        return (
            ': the model has no actuators; leave it out, or load it with them: ws.load(path, actuators="effort") or '
            '"position" '
            "(a builder's model: add_actuator)"
        )
    if given == (*wanted[:-2], wanted[-1]):
        return (
            f"; a row for each world: np.tile({name}, ({wanted[-2]}, 1))"
            if len(wanted) == 2
            else f"; the same for each world: np.repeat({name}[:, None], {wanted[-2]}, axis=1)"
        )
    return ""


def refuse_state(values, name: str) -> None:
    """Raise if a `State` is given in place of one of its arrays."""
    if isinstance(values, State):
        own = name if name in ("q", "v", "activation", "mocap") else "q"
        raise ValueError(f"{name} is a State; give its array: state.{own}")


def time_step(dt, dtype: str) -> float:
    """The time step [s]. Its square and the inverse of its square must be normal numbers of the dtype."""
    dt = positive(dt, "dt", "s")
    least = float(np.finfo(dtype).tiny) ** 0.5
    if not least <= dt <= 1 / least:
        raise ValueError(f"dt is {dt}; in {dtype} give {least:.0e} to {1 / least:.0e} s")
    return dt


def dtype_called(dtype) -> str:
    """ "float32" or "float64"."""
    if not isinstance(dtype, str):
        name = next((name for name in SCALARS if name in str(dtype) or (dtype is float and name == "float64")), None)
        hint = "choose one of ['float32', 'float64']" if name is None else f'write dtype="{name}"'
        raise ValueError(f"dtype is {short(dtype)}; {hint}")
    return choice(dtype, "dtype", SCALARS)


def device_called(name):
    """The Warp device of this name. None: CUDA if there is a GPU, else the CPU."""
    start_warp()
    try:
        return wp.get_preferred_device() if name is None else wp.get_device(name)
    except Exception as error:
        known = ", ".join(str(d) for d in wp.get_devices())
        lacks = "" if wp.is_cuda_available() or "cuda" not in str(name) else " (Warp found no CUDA driver with a GPU)"
        raise ValueError(f"no device {name!r} here{lacks}; there are: {known}") from error


def _refuse_activations(model: Model, values: np.ndarray) -> None:
    """Refuse activations (na,) or (rows, na) outside the ranges of their actuators."""
    for a in np.flatnonzero(model.actuator_dynamics):
        low, high = model.activation_range[a].astype(values.dtype)  # round the bounds to the activations' dtype
        found = np.atleast_2d(values)[:, model.actuator_activation[a]]
        bad = np.flatnonzero((found < low) | (found > high))
        if len(bad):
            raise ValueError(
                f"activation of actuator {model.actuator_names[a]!r} in row {bad[0]} is {found[bad[0]]:g}; its range "
                f"is {low:g} to {high:g}"
            )


def _refuse_quaternions(model: Model, q: np.ndarray) -> None:
    """Refuse positions (nq,) or (rows, nq) with a quaternion that cannot be normalized."""
    for j in np.flatnonzero(np.isin(model.joint_type, (JointType.FREE, JointType.BALL))):
        end = int(model.joint_q[j]) + JOINT_NQ[JointType(model.joint_type[j])]
        _refuse_quaternion(np.atleast_2d(q)[:, end - 4 : end], f"q: the quaternion of joint {model.joint_names[j]!r}")


def _refuse_quaternion(quaternion: np.ndarray, label: str) -> None:
    """Refuse quaternions (rows, 4) if the length of one is outside the range that a step normalizes."""
    length = np.linalg.norm(quaternion.astype(float), axis=1)
    bad = ~((length > joints.SHORTEST_QUATERNION) & (length < joints.LONGEST_QUATERNION))
    for row in np.flatnonzero(bad):
        raise ValueError(
            f"{label} in row {row} is {quaternion[row].tolist()}; "
            f"give (w, x, y, z) of length 1, [1, 0, 0, 0] for no rotation (another length from "
            f"{joints.SHORTEST_QUATERNION:g} to {joints.LONGEST_QUATERNION:g} is normalised)"
        )
