# SPDX-License-Identifier: Apache-2.0
"""What the kernels of a step ask of a GPU by what ptxas says: registers, spills, stack, shared memory; launches and bytes.

    python -m benchmarks.gpu.budget [--quick] [--robot humanoid] [--contact lagged|convex|mujoco] [--dtype float32] [--store]
                                    [--out benchmarks/results]

ptxas comes from the wheel nvidia-cuda-nvcc (extra `cuda`) or from PATH; no GPU is needed. Bytes: the arrays that hold something
per world and that a launch is given, each once, an upper bound of what it moves. `--quick` leaves out the solver, whose CUDA
code takes minutes to compile. Exit code 1 where a cost is above `budgets.json`.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import warp as wp

from benchmarks.gpu import budgets, robots
from benchmarks.gpu.trace import ARCH, Launch, compiled, step_launches

WORLDS = 64
FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")


def ptxas() -> str:
    """The newest ptxas of the packages and of PATH. Raises `FileNotFoundError` that says how to get one."""
    package = importlib.util.find_spec("nvidia")
    folders = package.submodule_search_locations if package else []
    found = [str(path) for folder in folders for path in pathlib.Path(folder).glob("*/bin/ptxas")]
    found += filter(None, [shutil.which("ptxas", path=folder) for folder in os.environ["PATH"].split(os.pathsep)])
    if not found:
        raise FileNotFoundError("no ptxas: run pip install 'warpsim[cuda]' (the package nvidia-cuda-nvcc)")
    return max(found, key=_version)


def _version(path: str) -> tuple[int, ...]:
    text = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
    return tuple(int(x) for x in re.search(r"V(\d+)\.(\d+)\.(\d+)", text).groups())


def assemble(launches: list[Launch], assembler: str) -> dict[str, dict[str, int]]:
    """Registers, spills, stack and shared bytes of the kernels of launches that share a module and a block size, by name."""
    folder = compiled(launches[0].kernel.module, launches[0].block)
    (path,), (notes,) = folder.glob("*.ptx"), folder.glob("*.meta")
    dynamic = json.loads(notes.read_text())
    entries = {f"{x.kernel.get_mangled_name()}_cuda_kernel_forward": x.name for x in launches}
    with tempfile.TemporaryDirectory() as directory:
        source = pathlib.Path(directory) / "module.ptx"
        source.write_bytes(path.read_bytes().rstrip(b"\0"))
        command = [
            assembler,
            "-v",
            f"-arch=sm_{ARCH}",
            "--entry",
            ",".join(entries),
            str(source),
            "-o",
            f"{directory}/out.cubin",
        ]
        report = subprocess.run(command, check=True, stderr=subprocess.PIPE, text=True).stderr
    found = {}
    for entry, body in re.findall(r"entry function '(\w+)'(.*?)(?=Compiling entry|\Z)", report, re.DOTALL):
        stack, *spills = map(int, FRAME.search(body).groups())
        static = re.search(r"(\d+) bytes smem", body)
        shared = int(dynamic.get(f"{entry}_smem_bytes", 0)) + (int(static[1]) if static else 0)
        registers = int(re.search(r"Used (\d+) registers", body)[1])
        found[entries[entry]] = {"registers": registers, "spill": sum(spills), "stack": stack, "shared": shared}
    return found


def bytes_per_world(arrays, worlds: int) -> float:
    """Bytes of those arrays that have an axis of worlds, of one world."""
    sizes = (x.size * wp.types.type_size_in_bytes(x.dtype) for x in arrays if x.ndim and x.shape[0] == worlds)
    return sum(sizes) / worlds


def step_costs(launches: list[Launch], worlds: int) -> dict[str, float]:
    """Launches, copies and bytes per world of a step."""
    kernels = [x for x in launches if x.kernel is not None]
    copied = sum(2 * x.inputs[0].capacity / worlds for x in launches if x.kernel is None)
    moved = sum(bytes_per_world(x.arrays().values(), worlds) for x in kernels)
    return {"launches": len(kernels), "copies": len(launches) - len(kernels), "bytes": round(moved + copied)}


def measure(robot: str, contact: str, dtype: str, quick: bool) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """Costs of a step, and of its kernels by name."""
    sim = robots.simulator(robot, contact, WORLDS, dtype)
    launches = step_launches(sim, *robots.settled(sim, 1))
    modules: dict[tuple[str, int], list[Launch]] = {}
    for launch in launches:
        if launch.kernel is not None and not (quick and launch.is_slow):
            modules.setdefault((launch.kernel.module.name, launch.block), []).append(launch)
    assembler, costs = ptxas(), {}
    for together in modules.values():
        found = assemble(together, assembler)
        for launch in together:
            moved = round(bytes_per_world(launch.arrays().values(), WORLDS))
            costs[launch.name] = found[launch.name] | {"bytes": max(moved, costs.get(launch.name, {}).get("bytes", 0))}
    return step_costs(launches, WORLDS), costs


def parse(argv) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--robot", choices=list(robots.ROBOTS), default="humanoid")
    parser.add_argument("--contact", choices=list(robots.CONTACT), default="lagged")
    parser.add_argument("--dtype", choices=("float32", "float64"), default="float32")
    parser.add_argument("--quick", action="store_true", help="without the solver")
    parser.add_argument("--store", action="store_true", help="keep the costs as the budget")
    parser.add_argument("--out", type=pathlib.Path, metavar="FOLDER", help="write gpu_budget.json")
    return parser.parse_args(argv)


def main(argv=None) -> int:
    """Command line; 1 if a cost is above its budget."""
    arguments = parse(argv)
    wp.config.log_level = wp.LOG_WARNING
    case = f"{arguments.robot}/{arguments.contact}/{arguments.dtype}"
    step, kernels = measure(arguments.robot, arguments.contact, arguments.dtype, arguments.quick)
    print(f"{'kernel':36s} registers spill stack shared  bytes/world")
    for name, cost in kernels.items():
        print(
            f"{name:36s} {cost['registers']:9d} {cost['spill']:5d} {cost['stack']:5d} {cost['shared']:6d} {cost['bytes']:12d}"
        )
    print(
        f"{case}: {step['launches']} launches and {step['copies']} copies; at most {step['bytes']} bytes per world in their arrays"
    )
    if arguments.store and not arguments.quick:
        budgets.store(case, "ptxas", kernels)
        budgets.store(case, "step", {"step": step})
    if arguments.out and not arguments.quick:
        path = arguments.out / "gpu_budget.json"
        results = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(
            json.dumps(results | {case: {"step": step, "kernels": kernels}}, indent=1, sort_keys=True) + "\n"
        )
    budget = budgets.read().get(case, {})
    over = budgets.excess({"step": step}, budget.get("step")) + budgets.excess(kernels, budget.get("ptxas"))
    print("\n".join(over) or "within the budget")
    return int(bool(over))


if __name__ == "__main__":
    sys.exit(main())
