# SPDX-License-Identifier: Apache-2.0
"""Physical parameters on the device, stored per world only where someone has accessed them.

A parameter that is equal in every world is stored once, with leading dimension 1; kernels index it `w % rows`. The
first access through `Parameters` expands it to `(worlds, …)`. It may then be written per world.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import warp as wp

from warpsim.base.annotations import Array, Device, Numbers
from warpsim.base.checks import numbers, short
from warpsim.base.other_names import ATTRIBUTES, other_names
from warpsim.device.copies import SCALARS, launch, scalar_types
from warpsim.device.recording import refuse_torch_gradient
from warpsim.device.threads import Use, exclusive
from warpsim.kernels import sums
from warpsim.model.friction_rules import has_dynamic_friction
from warpsim.model.model import SIZES, FrictionRule, GeomType, Model
from warpsim.model.mujoco_options import ROWS as LAW_ROWS

SUMMED_AT_ONCE = 64  # worlds whose gradients one thread sums


class Spec(typing.NamedTuple):
    """Layout of a parameter: the Model field, the kind of element, and the allowed values."""

    kind: str  # "scalar", "vec3", "mat33" (Warp types) or "row" (a trailing dimension of scalars)
    least: float | None = None
    finite: bool = True
    most: float | None = None
    nan: bool = False  # NaN is allowed and stands for the default


SPECS = {
    "body_mass": Spec("scalar", 0.0),
    "body_com": Spec("vec3"),
    "body_inertia": Spec("mat33"),
    "joint_stiffness": Spec("scalar", 0.0),
    "joint_damping": Spec("scalar", 0.0),
    "joint_armature": Spec("scalar", 0.0),
    "joint_friction": Spec("scalar", 0.0),
    "joint_reference": Spec("scalar"),
    "joint_range": Spec("row"),
    "joint_pose": Spec("row"),
    "joint_axis": Spec("vec3"),
    "tendon_range": Spec("row"),
    "tendon_stiffness": Spec("scalar", 0.0),
    "tendon_damping": Spec("scalar", 0.0),
    "tendon_friction": Spec("scalar", 0.0),
    "constraint_stiffness": Spec("row", 0.0, finite=False),
    "constraint_dissipation_time": Spec("scalar", 0.0, nan=True),
    "constraint_coefficients": Spec("row", finite=False),
    "actuator_gain": Spec("row"),
    "actuator_bias": Spec("row"),
    "actuator_time": Spec("row", 0.0),
    "actuator_length_range": Spec("row"),
    "muscle_force": Spec("row", 0.0, nan=True),
    "muscle_curve": Spec("row", nan=True),
    "control_range": Spec("row", finite=False),
    "force_range": Spec("row", finite=False),
    "geom_size": Spec("vec3", 0.0),
    "geom_pose": Spec("row"),
    "geom_friction": Spec("scalar", 0.0),
    "geom_friction_dynamic": Spec("scalar", 0.0, nan=True),
    "geom_friction_velocity": Spec("scalar", 0.0, nan=True),
    "geom_torsional_friction": Spec("scalar", 0.0),
    "geom_rolling_friction": Spec("scalar", 0.0),
    "geom_stiffness": Spec("scalar", 0.0, finite=False),
    "geom_dissipation_time": Spec("scalar", 0.0, nan=True),
    "geom_restitution": Spec("scalar", 0.0, most=1.0),
    "geom_surfacevel": Spec("row"),
    "geom_hertz_modulus": Spec("scalar", 0.0),
    "geom_hydroelastic_modulus": Spec("scalar", 0.0, finite=False, nan=True),
    "geom_hydroelastic_thickness": Spec("scalar", 0.0, nan=True),
    "gravity": Spec("vec3"),
    "fluid_density": Spec("scalar", 0.0),
    "fluid_viscosity": Spec("scalar", 0.0),
    "wind": Spec("vec3"),
    "body_active": Spec("scalar", 0.0),
}
# MuJoCo's constraint law, without effect on others.
LAW_SPECS = {f"{prefix}_{name}": Spec("row") for prefix in LAW_ROWS for name in ("solref", "solimp")}
LAW_SPECS |= {name: Spec("row") for name in ("pair_solref", "pair_solreffriction", "pair_solimp")}
LAW_SPECS |= {
    "pair_own_friction": Spec("row", 0.0),
    "geom_solmix": Spec("scalar", 0.0),
    "impratio": Spec("scalar", 0.0),
}
LAW_SPECS |= {name: Spec("scalar") for name in ("joint_margin", "tendon_margin", "constraint_torquescale")}
MARGINS = ("geom_margin", "pair_margin")
LAW_SPECS |= {name: Spec("scalar") for name in MARGINS}
SPECS |= LAW_SPECS


PER_DOF = ("joint_stiffness", "joint_damping", "joint_armature", "joint_friction", "joint_reference")
PER_DOF += ("joint_friction_solref", "joint_friction_solimp")
DRAWN = ("joint_pose", "joint_axis", "geom_size", "geom_pose")  # parameters that set the shape and place of geoms


if typing.TYPE_CHECKING:

    class NamesOfParameters: ...

else:  # assigning the attribute of a parameter's name would have no effect
    NamesOfParameters = other_names("Parameters", {name: f'sim.parameters["{name}"]' for name in SPECS})


class ParameterArray(wp.array):
    """A parameter's array as `sim.parameters` returns it; indexing by an element's name raises an error with a hint."""

    def __getitem__(self, key: Any) -> Any:
        self._refuse_names(key)
        return super().__getitem__(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._refuse_names(key)
        super().__setitem__(key, value)

    def _refuse_names(self, key: Any) -> None:
        for name in key if isinstance(key, tuple) else (key,):
            if isinstance(name, str):
                kind = next((k for k, names in self.model.names.items() if name in names), "joint")
                index = f"model.joint_coordinates({name!r})[1]" if self.name in PER_DOF else f"model.{kind}({name!r})"
                raise ValueError(
                    f"parameters[{self.name!r}] has no {short(name)}: its columns are numbers. values = "
                    f"sim.parameters[{self.name!r}].numpy().copy(); "
                    f"values[:, {index}] = ...; sim.parameters[{self.name!r}] = values"
                )


def _handed_out(array: wp.array, name: str, model: Model) -> ParameterArray:
    """A `ParameterArray` with the same memory and gradient."""
    place = {"ptr": array.ptr, "dtype": array.dtype, "shape": array.shape, "device": array.device, "copy": False}
    shown = wp.array(**place, grad=array.grad) if array.grad is not None else wp.array(**place)
    shown.__class__ = ParameterArray
    shown._ref, shown.name, shown.model = array, name, model
    return shown


def values_of(model: Model, name: str) -> np.ndarray:
    """The model's values of a parameter; of `pair_margin` those of explicit pairs, in the order of the pairs."""
    values = np.asarray(getattr(model, name), float)
    return values[model.pair_rule == FrictionRule.EXPLICIT] if name == "pair_margin" else values


class Parameters(NamesOfParameters):
    """Physical parameters of all worlds by name, on the device: `sim.parameters`.

    `parameters["body_mass"]` is the array (worlds, ...), to read, or to write in a kernel. `parameters["body_mass"] =
    values` checks host values of shape (worlds, ...) or (...) and copies them. Names and shapes are those of the
    model's arrays.

    Notes
    -----
    Worlds share one array until you access it; then each world has its own copy. Each parameter is written separately:
    `parameters["body_mass"] = values` leaves `body_inertia`, which is about the center of mass, unchanged. `scale_mass`
    scales both.

    Examples
    --------
    >>> sim = ws.Simulator(ws.load(ws.robots.path("ant")), worlds=2, device="cpu")
    >>> sim.parameters["geom_friction"] = np.outer([0.5, 1.0], np.ones(sim.model.ngeom))       # one row per world
    >>> sim.parameters["geom_friction"].numpy()[:, 0].tolist()
    [0.5, 1.0]
    """

    model: Model
    worlds: int
    dtype: str
    device: Device
    requires_grad: bool
    version: int

    def __init__(self, model: Model, worlds: int, dtype: str, device: Device, requires_grad: bool):
        self.model, self.worlds, self.dtype, self.device = model, worlds, dtype, device
        self.requires_grad = requires_grad
        self._use = Use()  # shared with the simulator that owns these parameters
        self._expanded: set[str] = set()
        self._initial: dict[str, wp.array] = {}
        self._shown: dict[str, ParameterArray] = {}  # the arrays returned so far, of expanded parameters
        self._refused: dict[str, str] = {}
        self._checks: list = []
        self._followers: list[Callable[[str], None]] = []
        self.version = 0  # number of expansions; captured graphs are remade when it changes
        t = scalar_types(SCALARS[dtype])
        self._types = {"scalar": t.real, "row": t.real, "vec3": t.vec3, "mat33": t.mat33}
        self._numpy = np.dtype(dtype)
        self._arrays = {name: self._upload(name, self._default(name)[None]) for name in SPECS}
        for name in () if model.has_fluid else ("fluid_density", "fluid_viscosity", "wind"):
            self.refuse(
                name, "is of a medium, which the model has none of: give its builder or file a density or a viscosity"
            )
        for name in () if model.has_muscles else ("actuator_length_range", "muscle_force", "muscle_curve"):
            self.refuse(
                name, "is of muscles, which the model has none of: add_actuator(kind='muscle', muscle=ws.Muscle(...))"
            )
        for name in () if has_dynamic_friction(model) else ("geom_friction_dynamic", "geom_friction_velocity"):
            self.refuse(name, "is of geoms with friction_dynamic and friction_velocity, which the model has none of")
        if not model.geom_surfacevel.any():
            why = "is of geoms whose surface moves, which the model has none of: add_geom(surfacevel=)"
            self.refuse("geom_surfacevel", why)
        own = [name for name in LAW_SPECS if name.startswith("pair") and name != "pair_margin"]
        for name in own if not model.nown else ():
            self.refuse(name, "is of pairs with a law of their own, which the model has none of: add_pair(solref=...)")
        if not self._arrays["pair_margin"].size:
            why = "is of explicit pairs, which the model has none of: add_pair(margin=...), or change geom_margin"
            self.refuse("pair_margin", why)
        if not model.actuator_time.any():
            self.refuse(
                "actuator_time",
                "is of activations with a time, which the model has none of: add_actuator(dynamics=...)",
            )

    def _default(self, name: str) -> np.ndarray:
        if name == "body_active":
            return np.ones(self.model.nbody)
        return values_of(self.model, name)

    def _upload(self, name: str, values: np.ndarray, per_world: bool = False) -> wp.array:
        kind = SPECS[name].kind
        if name in ("gravity", "wind"):
            values = values.reshape(-1, 3)
        return wp.array(
            np.ascontiguousarray(values, dtype=self._numpy),
            dtype=self._types[kind],
            device=self.device,
            requires_grad=self.requires_grad and per_world,
        )

    def stored(self, name: str) -> Array:
        """Return the array that kernels read.

        Parameters
        ----------
        name : str
            Name of the parameter.

        Returns
        -------
        wp.array (1 or worlds, ...)
            One row while all worlds share it, else one per world.

        Examples
        --------
        >>> sim = ws.Simulator(ws.load(ws.robots.path("hopper")), worlds=3, device="cpu")
        >>> sim.parameters.stored("body_mass").shape
        (1, 4)
        """
        return self._arrays[name]

    def is_per_world(self, name: str) -> bool:
        """Whether a parameter has been accessed, and so may differ between worlds.

        Parameters
        ----------
        name : str
            Name of the parameter.

        Returns
        -------
        bool
            False while all worlds share one row.

        Examples
        --------
        >>> sim = ws.Simulator(ws.load(ws.robots.path("hopper")), worlds=3, device="cpu")
        >>> _ = sim.parameters["body_mass"]
        >>> sim.parameters.is_per_world("body_mass"), sim.parameters.is_per_world("gravity")
        (True, False)
        """
        return name in self._expanded

    @property
    def expanded(self) -> list[str]:
        """Names of the parameters that have been accessed."""
        return [name for name in SPECS if name in self._expanded]

    @exclusive
    def undrawn(self) -> tuple[str, ...]:
        """Names of the parameters that set shapes and places of geoms and differ from the model in some world.

        Pictures draw the model and do not show them.
        """
        found = []
        for name in (name for name in DRAWN if name in self._expanded and not self.device.is_capturing):
            ours = self._default(name).astype(self._numpy)
            if not np.array_equal(self._arrays[name].numpy(), np.broadcast_to(ours, (self.worlds, *ours.shape))):
                found.append(name)
        return tuple(found)

    def initial(self, name: str) -> Array:
        """Return the model's values of a parameter that has been accessed.

        Parameters
        ----------
        name : str
            Name of the parameter.

        Returns
        -------
        wp.array (1, ...)
            The values that all worlds shared before the access.

        Examples
        --------
        >>> sim = ws.Simulator(ws.load(ws.robots.path("hopper")), worlds=3, device="cpu")
        >>> sim.parameters["gravity"] = [0, 0, -1.62]
        >>> print(sim.parameters.initial("gravity").numpy().round(2))
        [[ 0.    0.   -9.81]]
        """
        return self._initial[name]

    def check(self, function: Callable[[str, Any], None]) -> None:
        """Register a check of the values that are assigned.

        Parameters
        ----------
        function : callable
            `function(name, values)` raises `ValueError` for values that the simulator cannot use.

        Examples
        --------
        >>> sim = ws.Simulator(ws.load(ws.robots.path("hopper")), worlds=3, device="cpu")
        >>> seen = []
        >>> sim.parameters.check(lambda name, values: seen.append(name))
        >>> sim.parameters["gravity"] = [0, 0, -1.62]
        >>> seen
        ['gravity']
        """
        self._checks.append(function)

    def on_expansion(self, function: Callable[[str], None]) -> None:
        """Call a function at the first access to each parameter, and now for those that have been accessed.

        Parameters
        ----------
        function : callable
            `function(name)`.

        Examples
        --------
        >>> sim = ws.Simulator(ws.load(ws.robots.path("hopper")), worlds=3, device="cpu")
        >>> accessed = []
        >>> sim.parameters.on_expansion(accessed.append)
        >>> mass = sim.parameters["body_mass"]
        >>> accessed
        ['body_mass']
        """
        self._followers.append(function)
        for name in self.expanded:
            function(name)

    def refuse(self, name: str, why: str) -> None:
        """Make access to a parameter raise an error, because the simulator ignores it.

        Parameters
        ----------
        name : str
            Name of the parameter.
        why : str
            The end of the error's text, which begins with the name.

        Examples
        --------
        >>> sim = ws.Simulator(ws.load(ws.robots.path("hopper")), worlds=3, device="cpu")
        >>> sim.parameters.refuse("gravity", "is constant in this experiment")
        >>> sim.parameters["gravity"]
        Traceback (most recent call last):
            ...
        ValueError: parameters['gravity'] is constant in this experiment
        """
        self._refused[name] = why

    @property
    def refused(self) -> dict[str, str]:
        """The parameters that this simulator ignores, and why."""
        return dict(self._refused)

    @exclusive
    def __getitem__(self, name: str) -> Array:
        self._known(name)
        if name in self._refused:
            raise ValueError(f"parameters[{name!r}] {self._refused[name]}")
        if name not in self._expanded:
            self._expanded.add(name)
            self._initial[name] = self._arrays[name]
            values = np.repeat(self._arrays[name].numpy(), self.worlds, axis=0)
            self._arrays[name] = self._upload(name, values, per_world=True)
            self._shown[name] = _handed_out(self._arrays[name], name, self.model)
            self.version += 1
            for follow in self._followers:
                follow(name)
        return self._shown[name]

    @exclusive
    def shared_gradient(self, name: str) -> Array:
        """Return the gradient of a parameter that all worlds share: `parameters[name].grad` summed over worlds.

        Parameters
        ----------
        name : str
            Name of the parameter. Access it before the steps that are to record a gradient.

        Returns
        -------
        wp.array (1, ...)
            Partial sums of 64 worlds each are added in the order of the worlds, so every run gives the same bits.

        Raises
        ------
        ValueError
            No step has recorded a gradient.

        Examples
        --------
        >>> sim = ws.Simulator(ws.load(ws.robots.path("hopper")), worlds=3, device="cpu", requires_grad=True)
        >>> mass, state = sim.parameters["body_mass"], sim.state()
        >>> with wp.Tape() as tape:
        ...     after = sim.step(state)
        >>> tape.backward(grads={after.v: wp.ones_like(after.v)})
        >>> sim.parameters.shared_gradient("body_mass").shape
        (1, 4)
        """
        self._known(name)
        if not self.requires_grad:
            raise ValueError(f"parameters[{name!r}] has no gradient: make the Simulator with requires_grad=True")
        if name not in self._expanded:
            raise ValueError(
                f"parameters[{name!r}] has no gradient: ask for parameters[{name!r}] before the steps that are to "
                "record one"
            )
        array, real = self._arrays[name], self._types["scalar"]
        result = wp.zeros((1, *array.shape[1:]), dtype=array.dtype, device=self.device)
        width = array.size * wp.types.type_size(array.dtype) // self.worlds
        if not width:
            return result
        x = wp.array(ptr=array.grad.ptr, dtype=real, shape=(self.worlds, width), device=self.device)
        while True:
            rows = -(-x.shape[0] // SUMMED_AT_ONCE)
            total = wp.zeros((rows, width), dtype=real, device=self.device)
            if rows == 1:
                total = wp.array(ptr=result.ptr, dtype=real, shape=(1, width), device=self.device)
            inputs = [x, SUMMED_AT_ONCE, total]
            launch(sums.sum_rows, real, total.shape, inputs, device=self.device, block_dim=32, record_tape=False)
            if rows == 1:
                return result
            x = total

    @exclusive
    def __setitem__(self, name: str, values: Numbers) -> None:
        array = self[name]
        refuse_torch_gradient(values, f"parameters[{name!r}]")
        values = numbers(values.numpy() if isinstance(values, wp.array) else values, f"parameters[{name!r}]")
        shape = (self.worlds, *self._default(name).shape)
        if values.shape not in (shape, shape[1:]):
            lengths = name == "geom_friction" and values.shape in ((*shape, 3), (*shape[1:], 3))
            own = "; torsional and rolling friction are geom_torsional_friction and geom_rolling_friction"
            raise ValueError(
                f"parameters[{name!r}] takes shape {shape} or {shape[1:]}, got {values.shape}{own if lengths else ''}"
            )
        spec = SPECS[name]
        bad = np.isnan(values) & (not spec.nan)
        if spec.finite:
            bad |= np.isinf(values)
        for bound, side in ((spec.least, -1), (spec.most, 1)):
            if bound is not None:
                bad |= side * values > side * bound
        if bad.any():
            where = tuple(int(i) for i in np.argwhere(bad)[0])
            bounds = "" if spec.least is None else f" and at least {spec.least:g}"
            bounds += "" if spec.most is None else f" and at most {spec.most:g}"
            raise ValueError(f"parameters[{name!r}] is {values[where]} at {where}; values must be finite{bounds}")
        _check_meaning(self.model, name, values)
        for check in self._checks:
            check(name, values)
        array.assign(np.ascontiguousarray(np.broadcast_to(values, shape), dtype=self._numpy))

    @exclusive
    def scale_mass(self, factor: Numbers) -> None:
        """Set each body's mass and inertia to multiples of the model's, like a change of density.

        Parameters
        ----------
        factor : float or array (worlds,), (worlds, nbody) or (1, nbody)
            Positive factors of the model's values. Repeated calls do not accumulate.

        Raises
        ------
        ValueError
            A factor is not positive and finite, or the shape is wrong.

        Examples
        --------
        >>> sim = ws.Simulator(ws.load(ws.robots.path("hopper")), worlds=3, device="cpu")
        >>> sim.parameters.scale_mass([0.9, 1.0, 1.1])
        >>> bool(np.allclose(sim.parameters["body_mass"].numpy()[2], 1.1 * sim.model.body_mass))
        True
        """
        found = numbers(factor, "factor")
        if not (np.isfinite(found) & (found > 0)).all():
            raise ValueError(f"factor is {short(factor)}; every value must be positive and finite")
        each = found[:, None] if found.ndim == 1 else found
        shape = (self.worlds, self.model.nbody)
        if each.ndim not in (0, 2) or any(n not in (1, m) for n, m in zip(each.shape, shape, strict=False)):
            raise ValueError(
                f"factor has shape {found.shape}; give a number, ({shape[0]},), {shape} or (1, {shape[1]})"
            )
        each = np.broadcast_to(each, shape)
        self["body_mass"] = each * self.model.body_mass
        self["body_inertia"] = each[..., None, None] * self.model.body_inertia

    @exclusive
    def restore(self, worlds: Numbers) -> None:
        """Restore the model's values in the chosen worlds.

        Parameters
        ----------
        worlds : array of int
            Indices of the worlds.

        Examples
        --------
        >>> sim = ws.Simulator(ws.load(ws.robots.path("hopper")), worlds=3, device="cpu")
        >>> sim.parameters["gravity"] = [0, 0, -1.62]
        >>> sim.parameters.restore([1])
        >>> print(sim.parameters["gravity"].numpy()[:, 2].round(2))
        [-1.62 -9.81 -1.62]
        """
        for name in self._expanded:
            array = self._arrays[name]
            values = array.numpy().copy()
            values[worlds] = self._default(name)
            array.assign(values)

    def _known(self, name: str) -> None:
        if isinstance(name, str) and name not in SPECS and self.model._elsewhere(name):
            raise ValueError(
                f"no parameter {short(name)}{self.model._elsewhere(name)}; a parameter has a row for each element: "
                "change a copy, and assign it: "
                f'values = sim.parameters["body_mass"].numpy().copy(); values[:, model.body("name")] = ...; '
                'sim.parameters["body_mass"] = values'
            )
        if not isinstance(name, str) or name not in SPECS:
            here = ATTRIBUTES["Model"].get(name) if isinstance(name, str) else None
            if here in SPECS:
                raise ValueError(f"no parameter {short(name)}; here it is {here}")
            raise ValueError(f"no parameter {short(name)}, as body_mass is one; there are {_names_by_kind()}")

    def __repr__(self) -> str:
        own = ", ".join(sorted(self._expanded)) or "none"
        return f"Parameters({len(SPECS)} by name, worlds={self.worlds}; per world: {own})"

    def __iter__(self) -> Iterator[str]:
        return iter(SPECS)

    def keys(self) -> Iterable[str]:
        """Names of all parameters."""
        return SPECS.keys()

    def bytes_per_world(self) -> int:
        """Bytes per world of the parameters that are stored per world."""
        return sum(a.capacity // self.worlds for name, a in self._arrays.items() if name in self._expanded)


def _names_by_kind() -> str:
    """All names, with common prefixes factored out: `body_(mass, com), gravity`; in short those of MuJoCo's law."""
    kinds: dict[str, list[str]] = {}
    for name in (name for name in SPECS if name not in LAW_SPECS):
        kind, _, rest = name.partition("_")
        kinds.setdefault(kind, []).append(rest)
    said = [f"{kind}_{rest[0]}" if rest[0] else kind for kind, rest in kinds.items() if len(rest) == 1]
    said = [f"{kind}_({', '.join(rest)})" for kind, rest in kinds.items() if len(rest) > 1] + said
    return ", ".join(said) + "; of MuJoCo's law geom_solref, joint_solimp, impratio, …"


def _pulls(model: Model) -> np.ndarray:
    """(nu,) whether an actuator is a muscle."""
    return np.isfinite(model.muscle_force).any(axis=-1)


def _check_meaning(model: Model, name: str, values: np.ndarray) -> None:
    """Check what a finite value of the right size can still get wrong."""

    def refuse(bad: np.ndarray, what: str) -> None:
        if bad.any():
            where = tuple(int(i) for i in np.argwhere(bad)[0])
            raise ValueError(f"parameters[{name!r}] at {where} is {values[where].tolist()}; {what}")

    if name == "body_inertia":
        scale = np.abs(values).max(axis=(-2, -1), initial=0.0)
        skew = np.abs(values - np.swapaxes(values, -1, -2)).max(axis=(-2, -1), initial=0.0)
        refuse(skew > 1e-6 * scale, "an inertia must be symmetric")
        lowest = np.linalg.eigvalsh((values + np.swapaxes(values, -1, -2)) / 2)[..., 0]
        refuse(lowest < -1e-6 * scale, "an inertia must be positive definite")
    elif name == "geom_stiffness":
        refuse(values <= 0, "a stiffness must be positive [N/m] (inf: near-rigid)")
    elif name == "geom_hydroelastic_modulus":
        held = np.isnan(model.geom_hydroelastic_modulus), np.isinf(model.geom_hydroelastic_modulus)
        refuse(np.isnan(values) != held[0], "geoms with pressure fields keep them, and others get none (NaN)")
        refuse(np.isinf(values) != held[1], "a rigid geom stays so (inf), and a compliant one too")
        refuse(values <= 0, "a modulus must be positive [Pa]")
    elif name == "geom_hydroelastic_thickness":
        refuse(
            np.isnan(values) != np.isnan(model.geom_hydroelastic_thickness),
            "geoms with a thickness keep one, and others get none (NaN)",
        )
        refuse(values <= 0, "a thickness must be positive [m]")
    elif name in ("geom_friction_dynamic", "geom_friction_velocity"):
        what = "geoms with dynamic friction keep it, and others get none (NaN)"
        refuse(np.isnan(values) != np.isnan(model.geom_friction_dynamic), what)
        refuse((values <= 0) & (name == "geom_friction_velocity"), "a speed must be positive [m/s]")
    elif name == "geom_size":
        sizes = np.array([SIZES.get(GeomType(kind), 0) for kind in model.geom_type], dtype=int)
        used = np.arange(3) < sizes[:, None]
        refuse((used & (values <= 0)).any(axis=-1), "the sizes of a shape must be positive [m]")
        fixed = np.isin(model.geom_type, (GeomType.MESH, GeomType.HFIELD))[:, None]
        other = np.abs(values - model.geom_size) > 1e-6 * np.abs(model.geom_size)
        refuse((fixed & other).any(axis=-1), "a mesh and a height field have the size of their points; scale those")
    elif name == "body_active":
        refuse((values != 0) & (values != 1), "a body is on (1) or off (0)")
    elif name == "impratio":
        refuse(values <= 0, "it must be positive")
    elif name == "constraint_stiffness":
        refuse(values <= 0, "a stiffness must be positive [N/m, N m/rad] (inf: near-rigid)")
    elif name in ("joint_range", "tendon_range", "control_range", "force_range"):
        refuse(values[..., 0] > values[..., 1], "the lower bound must not exceed the upper")
    elif name == "actuator_time":
        rising = (model.actuator_time > 0) & np.array([True, True, False])
        refuse((rising & (values <= 0)).any(axis=-1), "the times of an activation must be positive [s]")
    elif name == "actuator_length_range":
        refuse(
            (values[..., 0] >= values[..., 1]) & _pulls(model), "the range of a muscle's length must have low < high"
        )
    elif name in ("muscle_force", "muscle_curve"):
        none = np.isnan(getattr(model, name))
        refuse(np.isnan(values) != none, "what is a muscle stays one, and other actuators get no muscle (NaN)")
        if name == "muscle_curve":
            low, high, l_min, l_max, v_max, fp_max, fv_max = np.moveaxis(values, -1, 0)
            bad = (low >= high) | (l_min < 0) | (l_min >= 1) | (l_max <= 1) | (v_max <= 0) | (fp_max < 0) | (fv_max < 0)
            refuse(
                bad,
                "a curve (low, high, lmin, lmax, vmax, fpmax, fvmax) has low < high, 0 <= lmin < 1 < lmax, vmax > 0, "
                "no other below 0",
            )
    elif name == "joint_axis":
        refuse(np.abs(np.linalg.norm(values, axis=-1) - 1.0) > 1e-3, "an axis must have length 1")
    elif name in ("joint_pose", "geom_pose"):
        refuse(np.abs(np.linalg.norm(values[..., 3:], axis=-1) - 1.0) > 1e-3, "a quaternion must have length 1")
