# SPDX-License-Identifier: Apache-2.0
"""The table of docs/urdf.md: which URDFs of the PyPI package example-robot-data load, and why the others do not.

    pip install example-robot-data 'warpsim[mesh]'
    python -m benchmarks.urdf_table [--out docs/urdf.md]

Replaces what stands between the marks TABLE and END in the file.
"""

import argparse
import collections
import datetime
import importlib.metadata
import pathlib
import platform
import time
import warnings

import warpsim as ws

PACKAGE = "example-robot-data"
BEGIN, END = "<!-- TABLE -->", "<!-- END -->"


def files() -> list[pathlib.Path]:
    """The package's URDFs."""
    listed = importlib.metadata.files(PACKAGE) or []
    return sorted(pathlib.Path(f.locate()).resolve() for f in listed if f.suffix == ".urdf")


def short(path: pathlib.Path) -> str:
    """Path from the folder of robots."""
    parts = path.parts
    return "/".join(parts[parts.index("robots") + 1 :])


def row(path: pathlib.Path) -> tuple[str, bool, float]:
    """A line of the table, whether the file loaded, and the seconds it took."""
    start = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            model = ws.load(path)
    except ws.ModelError as error:
        why = str(error).replace(str(path), "").lstrip(": ").replace("|", "/")
        why = why.replace(str(path.parents[len(path.parts) - 2 - path.parts.index("robots")]), "example-robot-data")
        return f"| {short(path)} | refused | | | | | {why} |", False, time.perf_counter() - start
    lines = collections.Counter()
    for line in model.report:
        lines["repaired inertias"] += line.feature.startswith("inertia of") and "repaired" in line.detail
        lines["massless links repaired"] += line.feature.startswith("mass of") and "repaired" in line.detail
        lines["mimic joints independent"] += line.feature.startswith("mimic joint") and line.status == "refused"
        lines["joints without limits"] += line.feature.startswith("limits of joint")
        lines["visual meshes missing"] += line.detail.startswith("not drawn")
    notes = ", ".join(f"{count} {what}" for what, count in lines.items() if count)
    seconds = time.perf_counter() - start
    numbers = f"{model.nbody} | {model.njoint} | {model.ngeom} | {len(model.pair_geom)}"
    return f"| {short(path)} | loaded | {numbers} | {notes} |", True, seconds


def table() -> str:
    """The text between the marks."""
    paths = files()
    rows = [row(path) for path in paths]  # read from cold, meshes are shared within and between robots
    loaded = sum(r[1] for r in rows)
    version = importlib.metadata.version(PACKAGE)
    intro = (
        f"{loaded} of the {len(rows)} URDFs of {PACKAGE} {version} load, with all their meshes that are there, in "
        f"{sum(r[2] for r in rows):.0f} s together. Made by `python -m benchmarks.urdf_table` on {datetime.date.today()}, "
        f"{platform.system()} {platform.machine()}, Python {platform.python_version()}."
    )
    head = "| file | | bodies | joints | geoms | pairs | notes |\n|---|---|---|---|---|---|---|"
    return "\n".join([intro, "", head, *(r[0] for r in rows)])


def main() -> None:
    """Write the table into the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parents[1] / "docs" / "urdf.md")
    out = parser.parse_args().out
    text = out.read_text()
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    made = table()
    out.write_text(f"{before}{BEGIN}\n{made}\n{END}{after}")
    print(made.split("\n")[0])


if __name__ == "__main__":
    main()
