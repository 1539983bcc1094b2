# SPDX-License-Identifier: Apache-2.0
"""Bytes per world of a simulator on a CPU, by contact model, with and without gradients; half a minute.

    python -m benchmarks.memory [--robots humanoid ant] [--worlds 64 1024] [--out benchmarks/results]

The numbers are `sim.bytes_per_world()` after a step: the arrays that a step uses. They depend on no clock. --out writes memory.md.
"""

import argparse
import pathlib

import warp as wp

import warpsim as ws
from warpsim.tools.bench import machine, robot_path

MODELS = {
    "ws.SAP()": ws.SAP(),
    'ws.SAP(approximation="convex")': ws.SAP(approximation="convex"),
    "ws.MuJoCo()": ws.MuJoCo(),
    "ws.LCP()": ws.LCP(),
    "ws.Compliant()": ws.Compliant(),
}


def kilobytes(robot: str, solver, worlds: int, gradients: bool) -> float:
    """kB per world, float32."""
    integrator = ws.MuJoCoEuler() if isinstance(solver, ws.MuJoCo) else None
    options = {"solver": solver, "integrator": integrator, "dtype": "float32", "device": "cpu"}
    sim = ws.Simulator(ws.load(robot_path(robot)), worlds, requires_grad=gradients, **options)
    sim.step(sim.state())
    return sim.bytes_per_world() / 1000


def markdown(robots: list[str], worlds: list[int]) -> str:
    """The table."""
    about = machine(wp.get_device("cpu"))
    lines = [
        "# Memory per world",
        "",
        f"`python -m benchmarks.memory`, {about['date']}, {about['processor']}, CPU, float32. kB per world of gymnasium's robots, "
        "`sim.bytes_per_world()` after a step.",
        "",
        "| robot, contact model | "
        + " | ".join(f"{n:,} worlds" for n in worlds)
        + f" | {worlds[0]:,} worlds, with gradients |",
        "|" + "---|" * (len(worlds) + 2),
    ]
    for robot in robots:
        for name, solver in MODELS.items():
            cells = [kilobytes(robot, solver, n, False) for n in worlds] + [kilobytes(robot, solver, worlds[0], True)]
            lines.append(f"| {robot}, `{name}` | " + " | ".join(f"{cell:.1f}" for cell in cells) + " |")
            print(lines[-1], flush=True)
    return "\n".join(lines) + "\n"


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robots", nargs="+", default=["humanoid", "ant"])
    parser.add_argument("--worlds", type=int, nargs="+", default=[64, 1024])
    parser.add_argument("--out", type=pathlib.Path, help="folder for memory.md")
    arguments = parser.parse_args()
    wp.config.quiet = True
    text = markdown(arguments.robots, arguments.worlds)
    if arguments.out:
        (arguments.out / "memory.md").write_text(text)


if __name__ == "__main__":
    main()
