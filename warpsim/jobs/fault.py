# SPDX-License-Identifier: Apache-2.0
"""Faults written by `on_fault`: load a faulty world, step through it again and inspect it."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from warpsim.base.annotations import DeviceName, PathLike
from warpsim.base.checks import short, whole
from warpsim.files.store.place import StoreError, read
from warpsim.files.store.store import Commit, Store
from warpsim.files.store.stored_array import read_whole
from warpsim.kernels.flags import UNRESOLVED
from warpsim.run.description import simulator_arguments
from warpsim.run.fault_watch import CONTACT, flag_names, pair_of_substep
from warpsim.run.streaming import STEPS, checkpoint_arrays, restored_state
from warpsim.simulator import Simulator
from warpsim.state import State


@dataclasses.dataclass(eq=False)
class Fault:
    """A world that raised a flag, loaded by `ws.load_fault`, ready to be stepped again.

    Attributes
    ----------
    sim : Simulator
        A simulator of one world with the original options and parameters.
    state : State
        The state before the step.
    inputs : dict of str to array
        Inputs of the step: `control` (1, nu), `tau` (1, nv), and `wrench` (1, nbody, 6) if it had one.
    substeps : int
        Substeps of the step.
    after : dict of str to array
        The state after the step, as NumPy arrays by name.
    world : int
        Index of the world in the original simulator.
    raised : int
        Flags that the step raised, as bits.
    contacts : dict of str to array
        Contact points of the step: `geoms`, `feature`, `point`, `frame`, `phi` and `impulse`.

    Examples
    --------
    >>> import pathlib, warnings
    >>> sim = ws.Simulator(ws.load(ws.robots.path("cartpole")), device="cpu", on_fault="faults")
    >>> with warnings.catch_warnings(action="ignore"):              # it warns of the fault
    ...     _ = sim.step(sim.state(v=[0, 1e30]))
    >>> fault = ws.load_fault(next(pathlib.Path("faults").iterdir()), device="cpu")
    >>> bool(fault.raised & ws.NONFINITE), fault.world, fault.state.v.numpy().shape
    (True, 0, (1, 2))
    """

    sim: "object"
    state: State
    inputs: dict[str, np.ndarray]
    substeps: int
    after: dict[str, np.ndarray]
    world: int
    raised: int
    contacts: dict[str, np.ndarray]

    def step(self, state: State | None = None) -> State:
        """Repeat the step, from its own state or from another.

        Parameters
        ----------
        state : State, optional
            The state to step, of `sim`. Default: the state before the step.

        Returns
        -------
        State
            The state after the step. `sim.diagnostics` has its diagnostics.

        Examples
        --------
        >>> import pathlib, warnings
        >>> sim = ws.Simulator(ws.load(ws.robots.path("cartpole")), device="cpu", on_fault="faults")
        >>> with warnings.catch_warnings(action="ignore"):              # it warns of the fault
        ...     _ = sim.step(sim.state(v=[0, 1e30]))
        >>> fault = ws.load_fault(next(pathlib.Path("faults").iterdir()), device="cpu")
        >>> fault.same(fault.step())
        True
        """
        return self.sim.step(self.state if state is None else state, **self.inputs, substeps=self.substeps)

    def replay(self, steps: int) -> tuple[list[dict[str, Any]], bool]:
        """Repeat the step and go on with the same inputs.

        Parameters
        ----------
        steps : int
            Number of steps. The first is the one that raised the flag.

        Returns
        -------
        rows : list of dict
            For each step the time, the largest velocity, the diagnostics, and the names of the flags.
        again : bool
            Whether the first step ended with the original bits.

        Examples
        --------
        >>> import pathlib, warnings
        >>> sim = ws.Simulator(ws.load(ws.robots.path("cartpole")), device="cpu", on_fault="faults")
        >>> with warnings.catch_warnings(action="ignore"):              # it warns of the fault
        ...     _ = sim.step(sim.state(v=[0, 1e30]))
        >>> fault = ws.load_fault(next(pathlib.Path("faults").iterdir()), device="cpu")
        >>> rows, again = fault.replay(3)
        >>> [row["flags"] for row in rows], again
        (['NONFINITE', 'NONFINITE', 'NONFINITE'], True)
        """
        state, rows, again = self.state, [], False
        for step in range(steps):
            state = self.step(state)
            again = self.same(state) if step == 0 else again
            measured = {name: values[0].item() for name, values in self.sim.diagnostics.numpy().items()}
            v = state.v.numpy()
            row = {"t": state.time.numpy()[0].item(), "largest |v|": float(abs(v).max()) if v.size else 0.0}
            row |= measured | {"flags": "|".join(flag_names(measured["flags"])) or "none"}
            if self.raised & UNRESOLVED:
                row["unresolved"] = self.unresolved_pair() if step == 0 else ""
            rows.append(row)
        return rows, again

    def unresolved_pair(self) -> str:
        """Describe the two geoms that moved too fast for the step, in the substep that raised UNRESOLVED.

        Returns
        -------
        str
            Names of the geoms, the speed at which they meet or part, and a time step that resolves it. Empty if the
            step did not raise UNRESOLVED.
        """
        if not self.raised & UNRESOLVED:
            return ""
        return pair_of_substep(self.sim, self.state, self.inputs, self.substeps)

    def contact_rows(self) -> list[dict[str, Any]]:
        """A list with one dict per contact point of the step: geoms, distance [m], point [m] and impulse [N s]."""
        names, found = self.sim.model.geom_names, self.contacts
        return [
            {
                "geoms": " ".join(names[g] for g in found["geoms"][c]),
                "phi": float(found["phi"][c]),
                "point": " ".join(f"{x:.4g}" for x in found["point"][c]),
                "impulse t1, t2, n": " ".join(f"{x:.4g}" for x in found["impulse"][c]),
            }
            for c in range(len(found["phi"]))
        ]

    def same(self, state: State) -> bool:
        """Whether a state has the same bits as the stored state after the step.

        Parameters
        ----------
        state : State
            A state of `sim`.

        Returns
        -------
        bool
            True if all arrays have the same bits.

        Examples
        --------
        >>> import pathlib, warnings
        >>> sim = ws.Simulator(ws.load(ws.robots.path("cartpole")), device="cpu", on_fault="faults")
        >>> with warnings.catch_warnings(action="ignore"):              # it warns of the fault
        ...     _ = sim.step(sim.state(v=[0, 1e30]))
        >>> fault = ws.load_fault(next(pathlib.Path("faults").iterdir()), device="cpu")
        >>> fault.same(fault.step())
        True
        """
        found = checkpoint_arrays(self.sim, state)
        return all(
            np.array_equal(found[name], array, equal_nan=array.dtype.kind == "f") for name, array in self.after.items()
        )

    def __repr__(self) -> str:
        return f"Fault({'|'.join(flag_names(self.raised))} in world {self.world}, {len(self.contacts['phi'])} contacts)"


def _stored_arrays(group, model) -> dict[str, np.ndarray]:
    """Arrays of a fault's group by name: forces, and contact points of the step. Raises `ValueError` if they do not fit
    the model."""
    shapes = {"tau": (1, model.nv), "wrench": (1, model.nbody, 6)} | {f"contact_{key}": () for key in CONTACT}
    arrays = {name: read_whole(group[name]) for name in shapes if name in group}
    count = len(arrays["contact_phi"])
    for name, array in arrays.items():
        shape = (
            (1, *array.shape[1:]) if name == "tau" else shapes[name] or (count, *CONTACT[name.removeprefix("contact_")])
        )
        if array.shape != shape:
            raise ValueError(f"{name} has the shape {array.shape}; it must be {shape}")
    geoms = arrays["contact_geoms"]
    if geoms.dtype.kind != "i" or (geoms < 0).any() or (geoms >= model.ngeom).any():
        raise ValueError(f"contact_geoms names geoms beyond the {model.ngeom} of the model")
    return arrays


def load_fault(path: PathLike, device: DeviceName | None = None, sim: "Simulator | None" = None) -> Fault:
    """Load a fault: the store of one world that a simulator with `on_fault` has written.

    Parameters
    ----------
    path : path
        Folder of the fault.
    device : str, optional
        Name of the Warp device of the new simulator. Default: a device of the same kind (CPU or CUDA) as in the run.
    sim : Simulator, optional
        A simulator of one world to use in place of a new one. A user-defined solver needs it. Default: a new one with
        the stored options.

    Returns
    -------
    Fault
        The world before and after the step, and a simulator that can repeat it.

    Raises
    ------
    StoreError
        The folder is no store, is damaged, or holds a trajectory.

    Examples
    --------
    >>> import pathlib, warnings
    >>> sim = ws.Simulator(ws.load(ws.robots.path("cartpole")), device="cpu", on_fault="faults")
    >>> with warnings.catch_warnings(action="ignore"):              # it warns of the fault
    ...     _ = sim.step(sim.state(v=[0, 1e30]))
    >>> fault = ws.load_fault(next(pathlib.Path("faults").iterdir()), device="cpu")
    >>> fault
    Fault(NONFINITE in world 0, 0 contacts)
    """
    store = Store(path, "r")
    if not store.run or "fault" not in store.root:
        raise StoreError(f"{path}: a trajectory, not a fault; `warpsim view` shows it")
    if sim is not None and not isinstance(sim, Simulator):
        raise ValueError(f"sim is {short(sim)}; give a Simulator of one world, or None")
    if sim is None:
        model = store.model()
        arguments = simulator_arguments(store.run["simulator"], path, device, model)
        sim = Simulator(model, 1, **arguments)
    everyone, group = slice(0, 1), store.root["fault"]
    after = {name: array for name, array in store.kept(everyone, Commit(2, 1, 1))[0].items() if name != STEPS}
    state = restored_state(sim, store.kept(everyone, Commit(1, 0, 0))[0], path)

    arrays, told = read(path, lambda: _stored_arrays(group, sim.model)), read(path, group.attrs.asdict)
    inputs = {"control": store.controls(everyone)[0]} | {
        name: arrays[name] for name in ("tau", "wrench") if name in arrays
    }
    contacts = {name.removeprefix("contact_"): array for name, array in arrays.items() if name.startswith("contact_")}
    numbers = {name: read(path, lambda name=name: whole(told.get(name), name, 0)) for name in ("world", "raised")}
    return Fault(sim, state, inputs, store.run["substeps"], after, contacts=contacts, **numbers)
