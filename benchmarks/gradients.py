# SPDX-License-Identifier: Apache-2.0
"""What gradients cost: backward against forward pass, memory per env-step, growth over a training loop.

    python -m benchmarks.gradients [--parts cost memory training] [--worlds 64] [--steps 32] [--out benchmarks/results]

The scene is the ant, settled on the ground, under random controls. Forward passes with and without a tape and backward
passes take turns; times are CPU seconds of the process on the CPU (one thread), wall seconds on a GPU, medians.
--out writes gradients_cost.json and gradients_cost.md.
"""

import argparse
import gc
import json
import os
import pathlib
import statistics
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import warp as wp

import warpsim as ws
from warpsim.tools.bench import machine
from warpsim.tools.demo import robot_path

SETTLE_STEPS = 300
PUSH = 0.1  # of the control range: it stands, on four legs mostly
CHECKPOINT = 8
ITERATIONS = 1000  # of the training loop
WARM_UP = 200  # iterations before memory is first read: the allocator settles


class Ant:
    """The ant on the ground in many worlds, and the passes that are timed."""

    def __init__(self, worlds: int, steps: int, dtype: str, device):
        model = ws.load(robot_path("ant"))
        self.sim = ws.Simulator(model, worlds, dt=0.01, dtype=dtype, device=device, requires_grad=True)
        self.steps, self.dtype = steps, dtype
        rng = np.random.default_rng(0)
        push = rng.uniform(-PUSH, PUSH, size=(SETTLE_STEPS, worlds, model.nu))
        self.start = self.sim.rollout(self.sim.state(), push).final
        controls = rng.uniform(-PUSH, PUSH, size=(steps, worlds, model.nu)).astype(dtype)
        self.controls = wp.array(controls, device=self.sim.device, requires_grad=True)

    def forward(self):
        return self.sim.rollout(self.start, self.controls)

    def taped(self, **options):
        with wp.Tape() as tape:
            trajectory = self.sim.rollout(self.start, self.controls, **options)
        return tape, trajectory

    def backward(self, tape, trajectory) -> None:
        tape.backward(grads={trajectory.v: wp.ones_like(trajectory.v)})


def clock(device) -> float:
    """Seconds: of CPU time, or of wall time once a GPU is done."""
    if device.is_cpu:
        return time.process_time()
    wp.synchronize_device(device)
    return time.perf_counter()


def cost(ant: Ant, repeats: int) -> dict:
    """Median seconds of each pass, taking turns."""
    device, times = ant.sim.device, {}

    def timed(name: str, function):
        begin = clock(device)
        result = function()
        times.setdefault(name, []).append(clock(device) - begin)
        return result

    for _ in range(repeats + 2):
        timed("forward", ant.forward)
        for kind, options in (("", {}), (" checkpointed", {"checkpoint_every": CHECKPOINT})):
            tape, trajectory = timed(f"taped{kind}", lambda: ant.taped(**options))
            timed(f"backward{kind}", lambda: ant.backward(tape, trajectory))
    found = {name: statistics.median(values[2:]) for name, values in times.items()}  # the first two compile and capture
    found["contacts"] = float(trajectory.diagnostics["contacts"].numpy().mean())
    return found


def live_bytes() -> int:
    """Bytes of all Warp arrays alive that own their memory."""
    gc.collect()
    arrays = (a for a in gc.get_objects() if type(a) is wp.array)
    return sum(a.capacity for a in arrays if a.ptr and a.deleter is not None and a._ref is None)


def memory(ant: Ant, every: int, checkpoint_every: int | None) -> float:
    """Bytes per env-step that a recorded rollout holds until its tape is gone, rows of the trajectory included."""
    ant.backward(*ant.taped())  # the workspace of the backward pass is not the rollout's
    before = live_bytes()
    kept = ant.taped(every=every, checkpoint_every=checkpoint_every)
    held = live_bytes() - before
    del kept
    return held / (ant.steps * ant.sim.worlds)


def resident() -> int:
    """Bytes of resident memory of this process."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def training(ant: Ant, iterations: int) -> dict:
    """Growth of resident memory and of Warp arrays over a loop of gradient steps on the controls."""
    readings = []
    begin = time.perf_counter()
    for k in range(iterations + 1):
        if k in (WARM_UP, iterations):
            readings.append((resident(), live_bytes()))
        tape, trajectory = ant.taped(checkpoint_every=None if k % 2 else CHECKPOINT)
        ant.backward(tape, trajectory)
        ant.controls.grad.zero_()
    (resident0, arrays0), (resident1, arrays1) = readings
    seconds = time.perf_counter() - begin
    return {"resident_growth": resident1 - resident0, "array_growth": arrays1 - arrays0, "seconds": seconds}


def identical(ant: Ant) -> bool:
    """Whether a taped rollout has the bits of one without a tape."""
    plain, (_, taped), (_, kept) = ant.forward(), ant.taped(), ant.taped(checkpoint_every=CHECKPOINT)
    pairs = [(plain, other, name) for other in (taped, kept) for name in ("q", "v")]
    return all(np.array_equal(getattr(a, name).numpy(), getattr(b, name).numpy()) for a, b, name in pairs)


def report(arguments, write) -> dict:
    """Measure the parts asked for; `write(what, bar, measured)` takes one row at a time."""
    result, device = {}, arguments.device
    for dtype in ("float32", "float64"):
        ant = Ant(arguments.worlds, arguments.steps, dtype, device)
        size = f"{arguments.steps} steps × {arguments.worlds} worlds, {dtype}"
        if "cost" in arguments.parts:
            c = result[f"cost_{dtype}"] = cost(ant, arguments.repeats)
            ms = {name: f"{1000 * value:.1f} ms" for name, value in c.items() if name != "contacts"}
            write(
                f"ant, {size}: forward, taped",
                "",
                f"{ms['forward']}, {ms['taped']} ({c['contacts']:.1f} contacts per world)",
            )
            write("backward / forward", "≤ 2.5", f"{c['backward'] / c['forward']:.2f} ({ms['backward']})")
            text = f"{c['backward checkpointed'] / c['forward']:.2f} ({ms['backward checkpointed']})"
            write(f"the same with checkpoint_every={CHECKPOINT} (one more forward pass)", "", text)
            write("taped and untaped states have the same bits", "yes", "yes" if identical(ant) else "NO")
        if "memory" in arguments.parts:
            long = Ant(arguments.worlds, arguments.memory_steps, dtype, device)
            for every, checkpoint in ((1, None), (arguments.memory_steps, None), (arguments.memory_steps, CHECKPOINT)):
                rows = "every row kept" if every == 1 else "last row kept"
                label = f"{rows}{'' if checkpoint is None else f', checkpoint_every={checkpoint}'}"
                held = result[f"memory_{dtype}_{every}_{checkpoint}"] = memory(long, every, checkpoint)
                write(f"bytes per env-step of a recorded rollout, {dtype}, {label}", "", f"{held:.0f}")
    if "training" in arguments.parts:
        ant = Ant(arguments.worlds, CHECKPOINT, "float32", device)
        t = result["training"] = training(ant, arguments.iterations)
        text = (
            f"{t['resident_growth'] / 1e6:.2f} MB resident, {t['array_growth']} bytes of arrays ({t['seconds']:.0f} s)"
        )
        write(f"growth over {arguments.iterations - WARM_UP} training iterations", "none", text)
    return result


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", default=["cost", "memory", "training"])
    parser.add_argument("--worlds", type=int, default=64)
    parser.add_argument("--steps", type=int, default=32)
    parser.add_argument("--memory-steps", type=int, default=256)
    parser.add_argument("--iterations", type=int, default=ITERATIONS)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--device", default=None)
    parser.add_argument("--out", type=pathlib.Path, help="folder for gradients_cost.json and .md")
    arguments = parser.parse_args()
    wp.config.log_level = wp.LOG_WARNING
    lines = ["| what | asked | measured |", "|---|---|---|"]

    def write(*row: str) -> None:
        lines.append("| " + " | ".join(row) + " |")
        print(lines[-1], flush=True)

    result = report(arguments, write)
    if arguments.out:
        device = wp.get_preferred_device() if arguments.device is None else wp.get_device(arguments.device)
        about = machine(device)
        arguments.out.mkdir(parents=True, exist_ok=True)
        (arguments.out / "gradients_cost.json").write_text(json.dumps({"machine": about, **result}, indent=1) + "\n")
        head = "# What gradients cost\n\n" + ", ".join(f"{key} {value}" for key, value in about.items()) + "\n\n"
        (arguments.out / "gradients_cost.md").write_text(head + "\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
