# SPDX-License-Identifier: Apache-2.0
"""The engines of `warpsim bench` behind one small interface, and their cost: memory and cold start.

An engine is made for a scene, a number of worlds and a table of controls. `restart()` returns to the initial states;
`remember()` makes the present state the initial one; `advance(first, last)` makes these steps and waits for them;
`facts()` describes the final state.
"""

import dataclasses

import mujoco
import numpy as np
import warp as wp

SPARE = 1.5  # factor of room for contacts and rows above what settling needed


@dataclasses.dataclass
class Scene:
    """A model with the options that all engines run, and initial states `q (n, nq)`, `v (n, nv)`."""

    name: str
    path: str
    mj_model: mujoco.MjModel
    q: np.ndarray
    v: np.ndarray
    contacts: int  # most contacts and constraint rows of a world during settling, by MuJoCo
    rows: int

    @property
    def dt(self) -> float:
        return float(self.mj_model.opt.timestep)

    def starts(self, worlds: int) -> tuple[np.ndarray, np.ndarray]:
        """Initial states of `worlds` worlds, cycling through the settled ones."""
        chosen = np.arange(worlds) % len(self.q)
        return self.q[chosen], self.v[chosen]


class WarpsimEngine:
    """This package: SAP contact, symplectic Euler, float32."""

    @staticmethod
    def options() -> dict:
        """Arguments of the simulator."""
        return {}

    def __init__(self, scene: Scene, worlds: int, controls: np.ndarray, device):
        import warpsim

        self.on_gpu = device.is_cuda
        options = {"dt": scene.dt, "device": device, "threads": 1} | self.options()
        self.sim = warpsim.Simulator(warpsim.load(scene.path), worlds, **options)
        # Slicing a device array costs more than a step of one world.
        self.controls = wp.array(controls, dtype=wp.float32, device=device) if self.on_gpu else controls
        self.start = self.sim.state(*scene.starts(worlds))
        self.state = self.start.clone()

    def restart(self) -> None:
        self.state.assign(self.start)

    def remember(self) -> None:
        self.start.assign(self.state)

    def advance(self, first: int, last: int) -> None:
        for step in range(first, last):
            control = self.controls[step] if self.controls.size else None  # an empty array cannot be indexed
            self.sim.step(self.state, control, out=self.state)
        wp.synchronize_device(self.sim.device)

    def facts(self) -> dict:
        diagnostics = self.sim.diagnostics.numpy()
        return {
            "bytes_per_world": self.sim.bytes_per_world(),
            "contacts_per_world": float(diagnostics["contacts"].mean()),
            "iterations": float(diagnostics["iterations"].mean()),
            "momentum_error": float(diagnostics["momentum_error"].max()),
            "flagged_worlds": int(np.count_nonzero(diagnostics["flags"])),
        }


class SameLawEngine(WarpsimEngine):
    """This package under MuJoCo's constraint law, with the integrator of the peers."""

    @staticmethod
    def options() -> dict:
        import warpsim

        return {"solver": warpsim.MuJoCo(), "integrator": warpsim.MuJoCoEuler()}


class MujocoWarpEngine:
    """mujoco_warp, its step captured as a graph and replayed."""

    def __init__(self, scene: Scene, worlds: int, controls: np.ndarray, device):
        import mujoco_warp

        self.on_gpu = device.is_cuda
        self.device, self.worlds = device, worlds
        mj_data = mujoco.MjData(scene.mj_model)
        mujoco.mj_forward(scene.mj_model, mj_data)
        with wp.ScopedDevice(device):
            self.model = mujoco_warp.put_model(scene.mj_model)
            self.model.opt.warn_overflow = 0  # it would print in the timed loop; facts() reports overflow instead
            # Its default sizes, increased where settling needed more.
            sizes = {"nconmax": max(SPARE * scene.contacts, 48), "njmax": max(SPARE * scene.rows, 64)}
            sizes = {name: int(size) for name, size in sizes.items()}
            self.sizes, self.data = sizes, mujoco_warp.put_data(scene.mj_model, mj_data, nworld=worlds, **sizes)
            self.controls = wp.array(controls, dtype=wp.float32)
            q, v = scene.starts(worlds)
            start = {"qpos": wp.array(q, dtype=wp.float32), "qvel": wp.array(v, dtype=wp.float32)}
            self.start = start | {"qacc_warmstart": wp.zeros_like(self.data.qacc_warmstart)}
            self.restart()
            mujoco_warp.step(self.model, self.data)  # compiles, which capture cannot do
            with wp.ScopedCapture() as capture:
                mujoco_warp.step(self.model, self.data)
        self.graph = capture.graph

    def restart(self) -> None:
        for name, array in self.start.items():
            wp.copy(getattr(self.data, name), array)

    def remember(self) -> None:
        self.start = {name: wp.clone(getattr(self.data, name)) for name in self.start}

    def advance(self, first: int, last: int) -> None:
        for step in range(first, last):
            if self.controls.size:
                wp.copy(self.data.ctrl, self.controls[step])
            wp.capture_launch(self.graph)
        wp.synchronize_device(self.device)

    def facts(self) -> dict:
        found: dict[int, int] = {}
        _array_bytes(self.data, found)
        overflow = int(np.count_nonzero(self.data.overflow.numpy()))
        note = "mujoco_warp has room for {nconmax} contacts and {njmax} constraint rows per world".format(**self.sizes)
        return {
            "bytes_per_world": sum(found.values()) / self.worlds,
            "contacts_per_world": int(self.data.nacon.numpy()[0]) / self.worlds,
            "flagged_worlds": overflow,
            "note": note + (f", which was not enough in {overflow} worlds" if overflow else ""),
        }


class MujocoEngine:
    """MuJoCo C through `mujoco.rollout` on one thread."""

    on_gpu = False

    def __init__(self, scene: Scene, worlds: int, controls: np.ndarray, device):
        self.model, self.data = scene.mj_model, mujoco.MjData(scene.mj_model)
        self.controls = np.ascontiguousarray(controls.swapaxes(0, 1), dtype=np.float64)
        self.start = np.empty((worlds, mujoco.mj_stateSize(self.model, mujoco.mjtState.mjSTATE_FULLPHYSICS)))
        for w, (q, v) in enumerate(zip(*scene.starts(worlds), strict=True)):
            self.data.qpos, self.data.qvel = q, v
            mujoco.mj_getState(self.model, self.data, self.start[w], mujoco.mjtState.mjSTATE_FULLPHYSICS)
        self.restart()

    def restart(self) -> None:
        self.state = self.start

    def remember(self) -> None:
        self.start = self.state

    def advance(self, first: int, last: int) -> None:
        from mujoco import rollout

        controls = self.controls[:, first:last]
        states, _ = rollout.rollout(self.model, self.data, self.state, np.ascontiguousarray(controls))
        self.state = np.ascontiguousarray(states[:, -1])

    def facts(self) -> dict:
        counts = []
        for state in self.state[:256]:
            mujoco.mj_setState(self.model, self.data, state, mujoco.mjtState.mjSTATE_FULLPHYSICS)
            mujoco.mj_forward(self.model, self.data)
            counts.append(self.data.ncon)
        return {"contacts_per_world": float(np.mean(counts))}


ENGINES = {"warpsim": WarpsimEngine, "same_law": SameLawEngine, "mujoco_warp": MujocoWarpEngine, "mujoco": MujocoEngine}


def first_step(engine: str, path: str, device: str) -> None:
    """Load a robot and finish one step of one world; this is the cold start."""
    if engine in ("warpsim", "same_law"):
        import warpsim

        sim = warpsim.Simulator(warpsim.load(path), device=device, **ENGINES[engine].options())
        sim.step(sim.state()).q.numpy()
        return
    import mujoco_warp

    mj_model = mujoco.MjModel.from_xml_path(path)
    mj_model.opt.integrator = mujoco.mjtIntegrator.mjINT_EULER
    mj_model.opt.solver = mujoco.mjtSolver.mjSOL_NEWTON
    with wp.ScopedDevice(device):
        model, data = mujoco_warp.put_model(mj_model), mujoco_warp.put_data(mj_model, mujoco.MjData(mj_model))
        mujoco_warp.step(model, data)
        data.qpos.numpy()


def _array_bytes(value, found: dict[int, int]) -> None:
    """Collect the bytes of every distinct Warp array in a (nested) dataclass, by address."""
    if isinstance(value, wp.array):
        if value.ptr:
            found[value.ptr] = value.capacity
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            _array_bytes(getattr(value, field.name), found)
