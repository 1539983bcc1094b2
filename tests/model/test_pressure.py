"""Tables of pressure fields against Drake's contact surfaces, and against what a cell must be."""

import json
import pathlib

import numpy as np
import pytest

import warpsim as ws
from tests.model.pressure_clipper import surface, totals
from warpsim.model.pressure import pressure_tables

FILE = pathlib.Path(__file__).parents[1] / "reference" / "data" / "hydro_open.npz"
PAIRS = ("sphere_halfspace_r", "box_halfspace_r", "cyl_halfspace_r", "ell_halfspace_r", "box_on_soft_halfspace")
PAIRS += ("sphere_box_r", "box_sphere_r", "box_box_r", "cyl_box_r", "sphere_sphere_c", "sphere_box_c", "box_box_c")
PAIRS += ("ell_cyl_c", "capsule_halfspace_r", "capsule_box_c")


def add(b, spec, name):
    """A geom of the file's (kind, size, modulus or None, hint, thickness)."""
    kind, size, modulus, hint, thickness = (*spec, None)[:5]
    half = {"box": lambda: np.array(size) / 2, "half_space": lambda: [], "sphere": lambda: [size]}
    half |= dict.fromkeys(("cylinder", "capsule"), lambda: [size[0], size[1] / 2])
    soft = ws.Hydroelastic(np.inf if modulus is None else modulus, hint, thickness)
    b.add_geom({"half_space": "plane"}.get(kind, kind), half.get(kind, lambda: size)(), name=name, hydroelastic=soft)


def one(kind, size=(), **options):
    """A model of one compliant geom."""
    b = ws.ModelBuilder()
    mesh = options.pop("mesh", None)
    b.add_geom(kind, size, mesh=mesh, hydroelastic=ws.Hydroelastic(options.pop("modulus", 1.0), **options))
    return b.build()


@pytest.mark.parametrize("name", PAIRS)
def test_surfaces_are_drakes(name, within):
    """Force, area, centroid and stiffness of 20 poses with Drake's choice of polygons; exact moments where the file has them."""
    with np.load(FILE) as file:
        spec = json.loads(str(file["meta"]))["surf"][name]
        wanted = {key.split("/")[2]: file[key] for key in file.files if key.startswith(f"surf/{name}/")}
    b = ws.ModelBuilder()
    add(b, spec["a"], "a")
    add(b, spec["b"], "b")
    model = b.build()
    tables = pressure_tables(model)
    worst: dict[str, float] = {}
    for i in range(len(wanted["area"])):
        found = totals(surface(model, tables, (0, 1), (wanted["XA"][i], wanted["XB"][i])), drake=True)
        length, force = np.sqrt(wanted["area"][i]), np.linalg.norm(wanted["force"][i])
        scales = {"centroid": length, "k_centroid": length, "moment_exact": force * length}
        for key in found.keys() & wanted.keys():
            scale = scales.get(key, np.linalg.norm(wanted[key][i]))
            worst[key] = max(worst.get(key, 0.0), np.linalg.norm(found[key] - wanted[key][i]) / scale)
    for key, value in worst.items():
        within(f"pressure tables, {name}: {key}", value, 1e-9)
