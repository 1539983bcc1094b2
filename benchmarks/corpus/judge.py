# SPDX-License-Identifier: Apache-2.0
"""The bars of the corpus, and who misses them."""

import re

from benchmarks.corpus.causes import cause
from warpsim.state import FLAG_NAMES

LOADS = 0.97  # of the files that MuJoCo compiles and that use nothing that is refused by name
SMOOTH = 1e-8  # relative error of accelerations
EXCEPTED = 0.02  # of the files, in accelerations
SLOWEST = 3.0  # times MuJoCo C


def inside(rows: dict[str, dict]) -> dict[str, dict]:
    """The files that should load."""
    return {name: row for name, row in rows.items() if row["status"] not in ("no model", "outside")}


def stage_of(row: dict, stage: str):
    """What a stage found: None where it was not run or does not apply."""
    return row.get("stages", {}).get(stage) or None


def smooth_miss(row: dict) -> str | None:
    found = row.get("stages", {}).get("smooth")
    if isinstance(found, dict):
        return found["error"]
    return None if found is None or found <= SMOOTH else f"off by {found:.1e}"


def sensor_miss(row: dict) -> str | None:
    found = stage_of(row, "sensors")
    if found is None:
        return None
    if "error" in found:
        return found["error"]
    said = [f"{found[f'{s}_worst']} off by {found[s]:.1e}" for s in ("state", "step") if not found[s] <= SMOOTH]
    return "; ".join(said) or None


def _flagged(flags: int) -> str:
    return "flagged " + " and ".join(name for bit, name in FLAG_NAMES.items() if flags & bit)


def calm_miss(row: dict) -> str | None:
    found = stage_of(row, "calm")
    if found is None:
        return None
    if "error" in found:
        return found["error"]
    said = []
    for dtype in ("float32", "float64"):
        one = found[dtype]
        if one["fails"]:
            parts = [word if word != "flag" else _flagged(one["flags"]) for word in one["fails"]]
            if "energy" in one["fails"]:
                parts.append(f"{one['energy']:.3g} J, MuJoCo {one['mujoco_energy']:.3g} J")
            if "height" in one["fails"]:
                parts.append(f"{1e3 * one['height']:.2g} mm, MuJoCo's penetration {1e3 * one['depth']:.2g} mm")
            said.append(f"{dtype}: {', '.join(parts)}")
    return "; ".join(said) or None


def speed_miss(row: dict) -> str | None:
    found = stage_of(row, "speed")
    if found is None:
        return None
    if "error" in found:
        return found["error"]
    return None if found["ratio"] <= SLOWEST else f"{found['ratio']:.1f} × ({found['ms']:.3f} ms)"


MISSES = {"smooth": smooth_miss, "sensors": sensor_miss, "calm": calm_miss, "speed": speed_miss}


def misses(rows: dict[str, dict], stage: str) -> dict[str, tuple[str, str | None]]:
    """By file: what it misses and the cause on record."""
    found = {}
    for name, row in inside(rows).items():
        if stage == "load":
            said = None if row["status"] == "loaded" else f"{row['status']}: {row.get('why', '')}"
        else:
            said = MISSES[stage](row)
        if said is not None:
            found[name] = (said, cause(stage, name))
    return found


def kind_of(message: str) -> str:
    """A message without names and numbers, to count alike ones."""
    return re.sub(r"'[^']*'|\d+(\.\d+)?", "…", message)[:110]
