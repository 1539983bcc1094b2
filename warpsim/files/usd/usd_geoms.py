# SPDX-License-Identifier: Apache-2.0
"""Shapes of a USD stage to geoms of a `ModelBuilder`.

Shapes of our own export become the geoms that were written; foreign shapes follow the schemas.
"""

import numpy as np

from warpsim.base.errors import ModelError
from warpsim.files.meshes import convex_parts
from warpsim.files.pressure_fields import fitted
from warpsim.files.usd import usd_extra
from warpsim.files.usd.usd_shapes import OWN_FIELDS
from warpsim.model.elements import OPTIONAL, given_time


class Geoms:
    """Adds geoms to a builder.

    - touching: geoms of foreign prims that may touch, with the path of their prim
    - rounded: spheres and cylinders by path
    - soft: MuJoCo's (solref, solimp) of the geoms that have any
    """

    def __init__(self, b, reader):
        self.b, self.kept, self.looks, self.counts = b, reader.kept, reader.looks, reader.counts
        self.decompose, self.report, self.authored, self.units = (
            reader.decompose,
            reader.report,
            reader.authored,
            reader.units,
        )
        self.warn = reader.warn
        self.touching: dict[int, str] = {}
        self.rounded: dict[str, int] = {}
        self.soft: dict[int, list] = {}

    def add(self, rows) -> None:
        """Add geoms from rows (body, shape), in the order that our export kept, else in the given order."""
        if rows and all("index" in shape.kept for _, shape in rows):
            rows.sort(key=lambda row: int(row[1].kept["index"]))
        for body, shape in rows:
            if shape.kept:
                self._own(body, shape)
            else:
                self._foreign(body, shape)

    def _own(self, body: int, shape) -> None:
        own = {key: shape.kept[key] for key in OWN_FIELDS if key in shape.kept}
        for key in ("friction", "restitution"):
            if key in shape.material:
                own[key] = float(usd_extra.exact(shape.material[key], own[key]))
        pairs = self.kept.get("pairs", [])
        if not shape.touches and not any(pair for pair in pairs if shape.kept["index"] in pair[:2]):
            own["contype"] = own["conaffinity"] = 0
        own |= {key: given_time(own.get(key)) for key in OPTIONAL}
        material = self.looks.kept_material(shape)
        self.b.add_geom(
            shape.kind,
            shape.size,
            body=body,
            pose=shape.pose,
            name=shape.name,
            density=0.0,
            material=material,
            mesh=self.looks.kept_mesh(shape, material),
            hfield=shape.hfield,
            hydroelastic=self._pressure_field(shape),
            **own,
        )
        self.b.geoms[-1].mapped_stiffness = float(shape.kept.get("mapped_stiffness", np.nan))
        self.counts[f"{shape.kind} geoms"] += 1

    def _foreign(self, body: int, shape) -> None:
        """Add a foreign shape; a colliding mesh becomes hidden convex parts behind the mesh that is drawn."""
        common = {"body": body, "pose": shape.pose, "density": 0.0, "rgba": shape.rgba}
        material = {key: shape.material[key] for key in ("friction", "restitution") if key in shape.material}
        material |= shape.material.get("more", {}) | shape.contact
        silent = {"contype": 0, "conaffinity": 0}
        first, soft = len(self.b.geoms), material.pop("soft", None)
        self.counts[f"{'colliding' if shape.touches else 'drawn'} {shape.kind} geoms"] += 1
        if shape.material and shape.material["static"] != shape.material["friction"]:
            self.counts["static friction"] += 1
        law, soft = soft, self._pressure_field(shape)
        if law is not None:  # solref and solimp are exact, the material's values derive from them
            material = {key: x for key, x in material.items() if key not in ("stiffness", "dissipation_time")}
        if shape.kind != "mesh":
            options = {"name": shape.name, "visible": shape.visible, "hydroelastic": soft}
            g = self.b.add_geom(
                shape.kind, shape.size, **({} if shape.touches else silent), **options, **common, **material
            )
            self.touching |= {g: str(shape.prim.GetPath())} if shape.touches else {}
            self.soft |= {} if law is None else {g: law}
            self.rounded |= {str(shape.prim.GetPath()): g} if shape.kind in ("sphere", "cylinder") else {}
            return
        if shape.touches:
            try:
                whole = soft is not None and soft.field is not None
                parts = convex_parts(*shape.mesh, self.decompose and not whole)
            except ModelError as error:
                raise ModelError(f"geom {shape.prim.GetPath()}: {error}") from None
            if shape.approximation != "convexHull" and not self.decompose:
                self.counts["mesh approximations"] += 1
            for k, part in enumerate(parts):
                label = f"{shape.name}_hull" if len(parts) == 1 else f"{shape.name}_part_{k}"
                self.b.add_geom("mesh", mesh=part, name=label, visible=False, hydroelastic=soft, **common, **material)
        parts = range(first, len(self.b.geoms))
        self.touching |= dict.fromkeys(parts, str(shape.prim.GetPath()))
        self.soft |= {} if law is None else dict.fromkeys(parts, law)
        if shape.visible or not shape.touches:
            look, mesh, colour = self.looks.foreign(shape)
            common |= colour | {"material": look}
            self.b.add_geom("mesh", mesh=mesh, name=shape.name, visible=shape.visible, **silent, **common)

    def _pressure_field(self, shape):
        """The hydroelastic properties of a shape, with a resolution that suits its size."""
        self.counts["pressure fields"] += shape.hydroelastic is not None
        return fitted(shape.hydroelastic, shape.kind, shape.size, f"geom {shape.prim.GetPath()}", self.report)
