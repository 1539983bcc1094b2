# SPDX-License-Identifier: Apache-2.0
"""The tables of `benchmarks/useful_gradients.py`, from what it measured."""

import numpy as np

SKIPPED = ("refused", "skipped")


def number(x: float) -> str:
    """Three ranges that read well: 0.012, 3.4, 5e+06."""
    return "nan" if not np.isfinite(x) else f"{x:.2g}" if x < 100 else f"{x:.0e}"


def errors(row: dict, scene: str, speed: str) -> str:
    """Median (largest) of |tape / coarse - 1| over the frictions; "refused" or nothing where there is none."""
    found = row.get("scenes", {}).get(scene, {}).get("speeds", {}).get(speed)
    if found is None:
        return next((word for word in SKIPPED if word in row), "")
    values = np.array(found["error"], float)
    return f"{number(np.median(values))} ({number(values.max())})"


def share(pair) -> str:
    """ "5 of 8"; a dict with `within` has its median miss as well."""
    if pair is None:
        return "has none"
    if isinstance(pair, dict):
        return f"{share(pair['within'])} ({number(pair['median miss [mm]'])} mm)"
    return f"{pair[0]} of {pair[1]}"


def cell(row: dict, *keys: str) -> str:
    """A share by its path."""
    for word in SKIPPED:
        if word in row and keys[0] != "hover":
            return word
    for key in keys:
        if key not in row:
            return ""
        row = row[key]
    return share(row)


def trusted(row: dict, scene: str) -> str:
    """Cases of a scene that `Objective.trust` trusts."""
    if any(word in row for word in SKIPPED):
        return cell(row, "scenes")
    speeds = row.get("scenes", {}).get(scene, {}).get("speeds", {}).values()
    flat = [t for s in speeds for t in s.get("trusted", [])]
    return f"{sum(flat)} of {len(flat)}" if flat else ""


def report(results: dict) -> str:
    """Markdown."""
    about, rows = results["machine"], results["solvers"]
    names = list(rows)
    head = lambda *first: ["| " + " | ".join([*first, *names]) + " |", "|" + "---|" * (len(first) + len(names))]  # noqa: E731
    line = lambda first, cells: "| " + " | ".join([*first, *cells]) + " |"  # noqa: E731
    scenes = list(dict.fromkeys(scene for row in rows.values() for scene in row.get("scenes", {})))
    lines = [
        "# Whether gradients through contact are of use",
        "",
        f"{about['date']}, {about['processor']}, CPU, one thread, float64; warp-lang {about['versions']['warp-lang']}. "
        "By `python -m benchmarks.useful_gradients`.",
        "",
        "The tape's derivative of the end by the friction, beside the central difference over 3 % of the friction to either side "
        "of the same solver's motion: median (largest) of |tape / difference - 1| over nine frictions from 0.2 to 0.6, h = 5 ms.",
        "",
        *head("scene", "m/s"),
    ]
    for scene in scenes:
        speeds = dict.fromkeys(
            s for row in rows.values() for s in row.get("scenes", {}).get(scene, {}).get("speeds", {})
        )
        for speed in sorted(speeds, key=float):
            lines.append(line([scene, speed], [errors(row, scene, speed) for row in rows.values()]))
    lines += [
        "",
        "Signs of d loss / d friction at 2 m/s, loss = squared distance from the end at friction 0.4: right ones.",
        "",
    ]
    lines += head("scene")
    for scene in scenes:
        lines.append(line([scene], [cell(row, "scenes", scene, "signs") for row in rows.values()]))
    lines += ["", "Cases (frictions x speeds) in which `Objective.trust` trusts the gradient.", "", *head("scene")]
    lines += [line([scene], [trusted(row, scene) for row in rows.values()]) for scene in scenes]
    lines += ["", "Largest gap [mm] under the box that slides at 2 m/s, friction 0.4.", "", *head("h [ms]")]
    steps = dict.fromkeys(h for row in rows.values() for h in row.get("hover", {}))
    for h in sorted(steps, key=float):
        cells = [f"{row['hover'][h]:.2g}" if h in row.get("hover", {}) else "" for row in rows.values()]
        lines.append(line([h], cells))
    lines += ["", "How many of eight guesses Adam improves to the right answer in 100 iterations (mass and friction: 200). Right is: friction and restitution within 1 %, mass and friction both within 5 %,",
              "throws through a bounce within 2 cm of a target 2 m away (median miss).", "", *head("search")]  # fmt: skip
    searches = dict.fromkeys(search for row in rows.values() for search in row.get("searches", {}))
    for search in searches:
        lines.append(line([search], [cell(row, "searches", search) for row in rows.values()]))
    notes = [f"- {name}: {row[word]}" for name, row in rows.items() for word in SKIPPED if word in row]
    notes += [f"- {name}: {row['note']}" for name, row in rows.items() if "note" in row]
    notes += [
        f"- {name}: --quick (three frictions, two speeds, 30 iterations)"
        for name, row in rows.items()
        if row.get("quick")
    ]
    return "\n".join(lines + ([""] + notes if notes else [])) + "\n"
