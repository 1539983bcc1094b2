# SPDX-License-Identifier: Apache-2.0
"""Fault folders: for each world that raises a flag, a folder with everything that its last step read."""

import pathlib
import time
import warnings

import numpy as np

from warpsim.base.checks import short
from warpsim.device.recording import tape_paused
from warpsim.files.output import check_folder
from warpsim.files.store.layout import Layout
from warpsim.files.store.place import fresh, state_names, writing
from warpsim.files.store.store import Commit, Store
from warpsim.files.store.store_model import put
from warpsim.kernels.flags import ENERGY_GAIN, NOT_HELD, UNRESOLVED
from warpsim.model.geom_types import half_extents
from warpsim.model.model import GeomType
from warpsim.run.description import describe_simulator, fingerprint, simulator_arguments
from warpsim.run.rollout import RECORDED
from warpsim.run.streaming import STEPS, checkpoint_arrays, restored_state
from warpsim.state import FLAG_NAMES, State

FOLDER = "warpsim-faults"
# What a fault folder keeps of each contact point, and the shape of one entry.
CONTACT = {"geoms": (2,), "feature": (3,), "point": (3,), "frame": (3, 3), "phi": (), "impulse": (3,)}
MOST = 16  # Most worlds that one simulator writes; further ones are only counted.


class Watch:
    """The work of `on_fault` around each step: each world that raises a new flag is written to disk."""

    def __init__(self, sim, on_fault):
        if on_fault == "dump":
            on_fault = FOLDER
            pathlib.Path(FOLDER).mkdir(exist_ok=True)
        elif not isinstance(on_fault, (str, pathlib.Path)):
            raise ValueError(f'on_fault is {short(on_fault)}; give "dump", the name of a folder, or None')
        try:
            self.sim, self.folder = sim, check_folder(on_fault)
        except ValueError as error:
            raise ValueError(f"on_fault: {error}") from None
        self.folder.mkdir(exist_ok=True)
        self.written: list[pathlib.Path] = []
        self.left_out = 0

    def step(self, function, state: State, substeps: int) -> State:
        """Run `function()`, a step from `state`, and write a folder for each world that raises a new flag."""
        with tape_paused():
            before = state.clone()
        after = function()
        with tape_paused():
            raised = after.memory["flags"].numpy() & ~before.memory["flags"].numpy()
            for world in np.flatnonzero(raised):
                self._write(int(world), int(raised[world]), before, after, substeps)
        return after

    def _write(self, world: int, raised: int, before: State, after: State, substeps: int) -> None:
        if len(self.written) >= MOST:
            self.left_out += 1
            if self.left_out == 1:
                warnings.warn(f"{MOST} worlds are in {self.folder}; further faults are not written", stacklevel=6)
            return
        names = "-".join(flag_names(raised))
        stem = f"{names}-world{world}-{time.strftime('%Y%m%d-%H%M%S')}"
        path = next(p for k in range(10**6) if not (p := self.folder / f"{stem}{f'-{k}' if k else ''}.zarr").exists())
        write_fault(path, self.sim, world, raised, before, after, substeps)
        self.written.append(path)
        at = float(before.time.numpy()[world])
        met = self._met(path, world, before, after, substeps) if raised & UNRESOLVED else ""
        met += f": {lost_constraint(self.sim, after, world)}" if raised & NOT_HELD else ""
        met += f": {gaining_tree(self.sim, after, world)}" if raised & ENERGY_GAIN else ""
        warnings.warn(
            f"world {world} raised {names} in the step from t = {at:g} s{met}; step through it: warpsim replay {path}",
            stacklevel=6,
        )

    def _met(self, path, world: int, before: State, after: State, substeps: int) -> str:
        """Name the pair of geoms that raised UNRESOLVED, as the end of a sentence."""
        if substeps == 1:
            return f": {unresolved_pair(self.sim, before, after, world)}"
        sim, one = self.sim, slice(world, world + 1)
        try:
            arguments = simulator_arguments(describe_simulator(sim), path, str(sim.device), sim.model)
        except ValueError:  # a user-defined solver, which cannot be made from a store
            return f", within one of its {substeps} substeps"
        alone = type(sim)(sim.model, 1, **arguments)
        state = restored_state(alone, {name: a[one] for name, a in checkpoint_arrays(sim, before).items()}, path)
        return f": {pair_of_substep(alone, state, given_to(sim, one), substeps)}"


def flag_names(flags: int) -> list[str]:
    """Names of the bits set in `flags`."""
    return [name for bit, name in FLAG_NAMES.items() if flags & bit]


def lost_constraint(sim, after: State, world: int) -> str:
    """Describe the constraint that is NOT_HELD in a world; of several, the one that has been lost for longest."""
    row = sim._step.scalar_rows.row_list[int(after.memory["lost_time"].numpy()[world].argmax())]
    return f"constraint {sim.model.constraint_names[row.element]!r} does not hold its load with steps of {sim.dt:g} s"


def gaining_tree(sim, after: State, world: int) -> str:
    """Describe the tree that raised ENERGY_GAIN in a world and the remedy; of several trees, the one that gains
    most."""
    trees = sim._step.gain.trees.numpy()
    sums = after.memory["energy_gain"].numpy()[world].reshape(len(trees), -1)[:, 0]
    in_tree = sim.model.link_tree[sim.model.body_link] == trees[sums.argmax()]
    name = sim.model.body_names[int(np.flatnonzero(in_tree)[0])]
    return (
        f"the links on body {name!r} gain energy without work in steps of {sim.dt:g} s; take shorter steps or "
        f"ws.Midpoint()"
    )


def unresolved_pair(sim, before: State, after: State, world: int) -> str:
    """Describe the pair of geoms that a step left UNRESOLVED in a world, and the speed at which they met.

    The criterion is that of `kernels/contact/narrow/resolution.py`. Of several pairs, the one that moves farthest
    relative to its thinner geom.
    """
    model, h = sim.model, sim.dt
    size = sim._step.device_model.parameters.stored("geom_size").numpy()
    size, kind = size[world % len(size)].astype(float), model.geom_type
    thick = np.array([half_extents(*geom).min() for geom in zip(kind, size, strict=True)])
    thick[kind == GeomType.PLANE] = np.inf
    pose, moved, turned = sim.kinematics(before.q, before.mocap).numpy()[world], before.clone(), before.clone()
    theta = sim._step.scheme.theta_vq  # positions move by h (θ v' + (1 − θ) v)
    moved.v.assign(theta * after.v.numpy() + (1.0 - theta) * before.v.numpy())
    turned.v.assign(-before.v.numpy())  # reversed velocities: detection finds pairs that part during the step
    twist = [sim.body_velocity(state).numpy()[world] for state in (before, moved)]
    worst, told = -1.0, "a pair beyond max_contacts"
    for state in (before, turned):
        found = sim.contacts(state)
        for c in range(int(found.count[world])):
            a, b = found.geoms[world, c]
            normal, point, phi = found.frame[world, c, :, 2], found.point[world, c], found.phi[world, c]
            speed, then = (
                float(normal @ np.subtract(*(_at(x, pose, model.geom_body[g], point) for g in (b, a)))) for x in twist
            )
            least, both, way = min(thick[a], thick[b]), thick[a] + thick[b], h * abs(speed)
            inside = way > 0.5 * least and phi + h * then < -least
            past = 0.5 * both if phi < -0.1 * least else both + phi
            passes = way > past if speed > 0.0 else way > 2.0 * both or inside
            if passes and phi < way and way / least > worst:
                worst, verb = way / least, "part" if speed > 0.0 else "meet"
                names = " and ".join(repr(model.geom_names[g]) for g in (a, b))
                told = (
                    f"geoms {names} {verb} at {abs(speed):.4g} m/s, {way:.3g} m in a step of {h:g} s; one of "
                    f"{0.5 * least / abs(speed):.2g} s resolves them"
                )
    return told


def pair_of_substep(sim, state: State, inputs: dict[str, np.ndarray], substeps: int) -> str:
    """Describe the UNRESOLVED pair of a step of one world, from the first of its substeps that raised the flag."""
    dt = sim.dt
    sim.dt = dt / substeps
    try:
        for _ in range(substeps):
            after = sim.step(state, **inputs)
            if after.memory["flags"].numpy()[0] & ~state.memory["flags"].numpy()[0] & UNRESOLVED:
                break
            state = after
        return unresolved_pair(sim, state, after, 0)
    finally:
        sim.dt = dt


def given_to(sim, worlds: slice) -> dict[str, np.ndarray]:
    """Inputs of the last step of the given worlds: control, tau, and wrench if the step has one."""
    step = sim._stepper.step
    given = {name: getattr(step, name) for name in ("control", "tau", "wrench")}
    return {name: array.numpy()[worlds] for name, array in given.items() if array is not None}


def _at(twist: np.ndarray, pose: np.ndarray, body: int, point: np.ndarray) -> np.ndarray:
    """Velocity of the body point that is at `point` (3,), world axes. Body −1 is the world."""
    if body < 0:
        return np.zeros(3)
    return twist[body, 3:] + np.cross(twist[body, :3], point - pose[body, :3])


def write_fault(path, sim, world: int, raised: int, before: State, after: State, substeps: int) -> None:
    """Write a store of one world with two frames, before and after a step, each with its checkpoint, and the inputs of
    the step."""
    one = slice(world, world + 1)
    given = given_to(sim, one)
    arrays = [{name: a[one] for name, a in checkpoint_arrays(sim, state).items()} for state in (before, after)]
    layout = Layout.of(arrays[0] | {STEPS: np.zeros(1, int)})
    kinds = {name: array.numpy().dtype for name, array in ((n, getattr(sim.diagnostics, n)) for n in RECORDED)}
    run = {
        "steps": 1,
        "substeps": substeps,
        "every": 1,
        "controls": {"kind": "array", "options": None},
        "divided": False,
    }
    run |= {"simulator": describe_simulator(sim), "fingerprint": fingerprint(sim.device)}
    with writing(path, "nothing is kept there"), fresh(path) as new:
        dtypes = {name: arrays[0][name].dtype for name in state_names(sim.model)}
        options = {"dtypes": dtypes, "diagnostics": kinds, "layout": layout, "run": run}
        Store.create(new, sim.model, 1, 2, controls=given.pop("control")[None], **options)
        store = Store(new)
        rows = {name: np.stack([a[name] for a in arrays]) for name in dtypes}
        for name, kind in kinds.items():
            rows[name] = np.stack([np.zeros(1, kind), getattr(sim.diagnostics, name).numpy()[one]])
        store.write(0, slice(0, 1), rows)
        for slot, done in enumerate((0, 1)):
            store.keep(slice(0, 1), slot, layout.pack(arrays[slot] | {STEPS: np.full(1, done)}), None, -1)
        group = store.root.create_group("fault", attributes={"world": world, "raised": raised})
        given |= {f"contact_{name}": values for name, values in _contacts_of(sim, world).items()}
        for name, values in given.items():
            put(group, name, values)
        store.commit(slice(0, 1), Commit(2, 1, 1))


def _contacts_of(sim, world: int) -> dict[str, np.ndarray]:
    """Contact points of a world in the last step."""
    found = sim.last_contacts
    used = slice(0, int(found.count[world]))
    return {name: getattr(found, name)[world, used] for name in CONTACT}
