# SPDX-License-Identifier: Apache-2.0
"""The budget file: what launches and kernels of a step may cost, by case (robot, contact law, scalar type).

Costs of the file are those of a version that was measured (`--store`); a later one may be above by `SLACK`, because compilers
and the iterations of a solver vary, and lines per request with the contacts of the worlds that a warp holds. A kernel that the file does not know is above its budget.
"""

import json
import pathlib

FILE = pathlib.Path(__file__).with_name("budgets.json")
# Key: (relative slack, absolute slack), above which a cost is too much; for `useful`, below which.
SLACK = {
    "launches": (0.0, 0),
    "copies": (0.0, 0),
    "bytes": (0.02, 0),
    "registers": (0.1, 8),
    "spill": (0.0, 0),
    "stack": (0.0, 64),
    "shared": (0.0, 0),
    "slots": (0.1, 20),
    "useful": (0.0, 0.05),
    "lines_per_request": (0.3, 3.0),
}


def read() -> dict:
    """All budgets: case → {"step": {cost: value}, "ptxas": {kernel: {…}}, "emulated": {kernel: {…}}}."""
    return json.loads(FILE.read_text()) if FILE.exists() else {}


def store(case: str, part: str, costs: dict) -> None:
    """Make the costs of a part of a case its budget."""
    budgets = read()
    budgets.setdefault(case, {})[part] = costs
    FILE.write_text(json.dumps(budgets, indent=1, sort_keys=True) + "\n")


def excess(costs: dict[str, dict], budget: dict[str, dict] | None) -> list[str]:
    """One line for each cost above its budget; `costs` and `budget` are kernel → cost → value."""
    if budget is None:
        return ["there is no budget for this case in benchmarks/gpu/budgets.json: measure it with --store"]
    over = []
    for kernel, found in costs.items():
        if kernel not in budget:
            over.append(f"{kernel} has no budget: check its costs and keep them with --store")
            continue
        for key, value in found.items():
            allowed, relative, absolute = budget[kernel].get(key), *SLACK[key]
            if allowed is None:
                continue
            limit = allowed - absolute if key == "useful" else max(allowed * (1 + relative), allowed + absolute)
            if value < limit if key == "useful" else value > limit:
                over.append(f"{kernel}: {key} {value:.4g}, the budget is {allowed:.4g} (limit {limit:.4g})")
    return over
