# SPDX-License-Identifier: Apache-2.0
"""Shared by `warpsim run`, the demo and the bench: random controls and initial states, a timed rollout, its summary."""

import contextlib
import time

import numpy as np
import warp as wp

from warpsim.model.model import JOINT_NV, JointType
from warpsim.run.streaming import run_into_store

SLOWEST, FASTEST = 0.5, 1.5  # Hz, frequency band of random controls


def smooth_controls(model, worlds: int, steps: int, dt: float, seed: int = 0, amplitude: float = 1.0) -> np.ndarray:
    """Random sine waves `(steps, worlds, nu)` float32, one per world and actuator, within the control ranges.

    `amplitude` is the fraction of the range that is used; an actuator without a range gets [-1, 1].
    """
    rng = np.random.default_rng(seed)
    bounded = np.isfinite(model.control_range).all(axis=1)
    low = np.where(bounded, model.control_range[:, 0], -1.0)
    high = np.where(bounded, model.control_range[:, 1], 1.0)
    shape = (worlds, model.nu)
    phase, rate = rng.uniform(0, 2 * np.pi, shape), rng.uniform(SLOWEST, FASTEST, shape)
    strength = amplitude * rng.uniform(0.5, 1.0, shape) * (high - low) / 2
    controls = np.empty((steps, *shape), dtype=np.float32)
    for step in range(steps):
        controls[step] = (low + high) / 2 + strength * np.sin(phase + 2 * np.pi * rate * dt * step)
    return controls


def perturbed_start(model, worlds: int, noise: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Initial `q (worlds, nq)`, `v (worlds, nv)`: the model's initial position plus normal noise.

    `noise` [rad, m, rad/s, m/s] moves hinges and slides (within their limits), turns ball and free joints, and sets v.
    Free joints keep their position.
    """
    rng = np.random.default_rng(seed)
    q = np.tile(np.asarray(model.q0, dtype=float), (worlds, 1))
    v = noise * rng.standard_normal((worlds, model.nv))
    moving = np.array([JOINT_NV[JointType(kind)] for kind in model.joint_type], dtype=int)
    delta = np.zeros_like(v)
    for first, count in zip(model.joint_v, moving, strict=True):  # of a free joint, the last three turn it
        turning = slice(first + max(count - 3, 0), first + count)
        delta[:, turning] = noise * rng.standard_normal((worlds, min(count, 3)))
    q = model.displace(q, delta)
    limited = (moving == 1) & model.joint_limited
    places = model.joint_q[limited]
    q[:, places] = np.clip(q[:, places], *model.joint_range[limited].T)
    return q, v


@contextlib.contextmanager
def progress_bar(what: str, steps: int):
    """A callable(step, steps) that advances a progress bar on the error stream; without a terminal it shows nothing.

    Without a number of steps the bar stands beside a clock, and moves by itself until a call gives the number.
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    counted = (MofNCompleteColumn(), TimeRemainingColumn()) if steps else (TimeElapsedColumn(),)
    columns = (TextColumn("{task.description}"), BarColumn(), *counted)
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=steps or None)
        yield lambda step, steps=None: bar.update(task, completed=step, total=steps)


def timed_rollout(
    sim, state, controls, steps: int, *, substeps: int = 1, every: int = 1, store=None, half=False, tell=None
):
    """Roll out with a progress bar; returns the trajectory and its summary, a dict of plain numbers.

    The first step, on a copy of the state, loads and compiles the kernels and is timed separately. With `store`, a
    path, frames are written as they come, in `half` precision if asked for. SIGINT, SIGTERM or SIGHUP then raises
    `Stopped` once they are on disk. `tell(line)` gets a line at the end of both parts.
    """
    tell = (lambda line: None) if tell is None else tell
    start = time.perf_counter()
    with progress_bar("compiling kernels (the first run only)", 0):
        sim.step(state.clone(), substeps=substeps)
        wp.synchronize_device(sim.device)
    compiled = time.perf_counter()
    tell(f"kernels: ready after {compiled - start:.1f} s")
    options = {"substeps": substeps, "every": every}
    with progress_bar("stepping", steps) as progress:
        if store is None:
            trajectory = sim.rollout(state, controls, steps, progress=progress, **options)
        else:
            trajectory = run_into_store(sim, state, controls, steps, store, progress=progress, half=half, **options)
        wp.synchronize_device(sim.device)
    seconds = time.perf_counter() - compiled
    tell(f"steps: {steps} in {seconds:.1f} s")
    return trajectory, summarise(sim, trajectory, steps, compiled - start, seconds)


def summarise(sim, trajectory, steps: int, compile_seconds: float, seconds: float) -> dict:
    """Speed, contact and certificate of a rollout, over the recorded rows."""
    summary = {
        "model": sim.model.name,
        "worlds": sim.worlds,
        "steps": steps,
        "dt": sim.dt,
        "dtype": sim.dtype,
        "device": str(sim.device),
        "compile_seconds": compile_seconds,
        "rollout_seconds": seconds,
        "world_steps_per_second": sim.worlds * steps / seconds,
        "real_time_factor": sim.worlds * steps * sim.dt / seconds,
        "bytes_per_world": sim.bytes_per_world(),
    }
    if trajectory.steps and trajectory.diagnostics:
        found = trajectory.statistics(["contacts", "iterations", "momentum_error", "flags"], quantiles=())
        summary |= {
            "contacts_per_world": found["contacts"]["mean"],
            "contacts_max": int(found["contacts"]["max"]),
            "iterations_mean": found["iterations"]["mean"],
            "iterations_max": int(found["iterations"]["max"]),
            "momentum_error": found["momentum_error"]["max"],
            "flags": found["flags"],
        }
    return summary


def print_summary(summary: dict, console) -> None:
    """Print the summary as a table."""
    from rich.table import Table

    s = summary
    table = Table(title=f"{s['model']}: {s['worlds']} worlds × {s['steps']} steps of {s['dt']:g} s", show_header=False)
    table.add_row("device, dtype", f"{s['device']}, {s['dtype']}")
    table.add_row("time to load and compile kernels", f"{s['compile_seconds']:.2f} s")
    table.add_row("time of the rollout", f"{s['rollout_seconds']:.2f} s")
    table.add_row("world-steps per second (worlds × steps / time)", f"{s['world_steps_per_second']:,.0f}")
    table.add_row("simulated seconds of all worlds per second", f"{s['real_time_factor']:,.1f}")
    table.add_row("memory of a step per world", f"{s['bytes_per_world'] / 1000:.1f} kB")
    if "flags" in s:
        table.add_row("contact points in a world", f"mean {s['contacts_per_world']:.2f}, largest {s['contacts_max']}")
        table.add_row("solver iterations in a step", f"mean {s['iterations_mean']:.2f}, largest {s['iterations_max']}")
        table.add_row("relative solver error", f"largest {s['momentum_error']:.2e}")
        raised = ", ".join(f"{name} in {count} worlds" for name, count in s["flags"].items() if count)
        table.add_row("flags", f"[red]{raised}[/red]" if raised else "none")
    console.print(table)
    if "flags" in s:
        console.print(
            "Means and largest values are over all worlds and recorded steps. A world whose solver error is above its "
            "tolerance has the flag NOT_CONVERGED.",
            style="dim",
            highlight=False,
            soft_wrap=True,
        )
