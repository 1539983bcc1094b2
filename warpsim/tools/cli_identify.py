# SPDX-License-Identifier: Apache-2.0
"""The command `warpsim identify`."""

import dataclasses
import json
import os
from typing import Literal

from tyro.conf import Positional

from warpsim.tools.cli_training import console

Kind = Literal["body_mass", "joint_damping", "joint_friction", "joint_armature", "delay"]


@dataclasses.dataclass
class Identify:
    """Find parameters of a robot from the log of a motion, with 95 % intervals.

    The log is a CSV file of a motion in free space, evenly sampled, of some seconds in which every joint moves fast and
    slowly. Its first row names the columns: `time` [s], `q:JOINT` of every joint [rad or m], `v:JOINT` if measured
    [rad/s or m/s], `u:ACTUATOR` (or the joint's name) of every actuator: what the actuator is sent from that row to the
    next. What the motion does not show is named and left at the file's value.
    """

    log: Positional[str]
    """CSV file: time, q:JOINT, v:JOINT (optional), u:ACTUATOR."""
    robot: Positional[str]
    """URDF (.urdf), MJCF (.xml, .mjcf) or USD (.usd, .usda, .usdc, .usdz) file, of hinges and slides."""
    parameters: tuple[Kind, ...] = ("body_mass", "joint_damping", "joint_friction", "joint_armature", "delay")
    """Which kinds to find."""
    actuators: Literal["effort", "position"] | None = None
    """Add one actuator to each joint that has none: u in N m or N, or target positions of servos with the gains of
    `warpsim run --actuators position`. None is effort for a robot without actuators."""
    window: float = 0.5
    """Length [s] of the pieces that the log is cut into; each has an initial state of its own."""
    most_delay: int = 5
    """Largest delay of an actuator, in rows of the log."""
    substeps: int | None = None
    """Simulation steps per row; None is steps of at most 1 ms, halved until the estimates stay."""
    out: str | None = None
    """Write the results: .json holds estimates and intervals, .xml the robot as MJCF with the values found."""
    device: str | None = None
    """Warp device, as cpu or cuda:0; None is CUDA where there is one."""
    threads: int | None = None
    """Threads of the CPU that share the work; None is as many as the cores that this process may use."""
    json: bool = False
    """Print the results as JSON and nothing else."""

    def __call__(self) -> None:
        from warpsim import identify_log, load
        from warpsim.files.output import check_file

        if self.out:
            out = check_file(self.out, (".json", ".xml"))
            if out.exists() and any(os.path.exists(path) and out.samefile(path) for path in (self.robot, self.log)):
                raise ValueError(f"--out {out} is read here; give another name")
        model = load(self.robot, actuators=self.actuators)
        if not model.nu:
            model = load(self.robot, actuators="effort")
        options = {"window": self.window, "most_delay": self.most_delay, "substeps": self.substeps}
        found = identify_log(self.log, model, self.parameters, **options, device=self.device, threads=self.threads)
        if self.out:
            found.save(self.out)
        if self.json:
            print(json.dumps(found.data(), indent=2, allow_nan=False))
            return
        print_table(found)
        if self.out:
            console().print(f"wrote {self.out}", highlight=False)


def print_table(found) -> None:
    """The estimates, what is not shown, and what makes them doubtful."""
    from rich.markup import escape
    from rich.table import Table

    screen = console()
    table = Table("parameter", "element", "value", "95 % interval", "file", "unit")
    for e in found.estimates:
        cells = (e.parameter, e.element, f"{e.value:.5g}", f"{e.low:.5g} … {e.high:.5g}", f"{e.file:.5g}", e.unit)
        table.add_row(*(escape(cell) for cell in cells))
    screen.print(table)
    lines = [
        f"{found.rows} rows, {found.dt:g} s apart, in {found.windows} windows; {found.status}; noise: "
        + ", ".join(f"{name} {x:.2g}" for name, x in found.noise.items())
    ]
    if len(found.estimates) > 1:
        lines.append(
            "each interval holds its own parameter with 95 %; those that hold all parameters together with 95 % are "
            f"{found.wider:.2f} times as wide (--json: all_low, all_high)"
        )
    if found.unshown:
        lines.append(f"not shown by this motion, left at the file's values: {', '.join(found.unshown)}")
    lines += [f"warning: {text}" for text in found.warnings]
    for line in lines:
        screen.print(escape(line), highlight=False, soft_wrap=True)
