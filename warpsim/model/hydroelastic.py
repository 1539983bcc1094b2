# SPDX-License-Identifier: Apache-2.0
"""Pressure-field (hydroelastic) contact: the properties of a geom, and their checks.

The pressure in a compliant geom is E F(x), with F from 0 on its surface to 1 in its middle (Elandt et al. 2019;
Masterjohn et al. 2022). A rigid geom is its surface alone. Curved shapes are polyhedra, whose facets follow from
`resolution` as in Drake. `warpsim.model.pressure` makes the tables that kernels read.
"""

import dataclasses
import os
import typing

import numpy as np

from warpsim.base.checks import number, numbers, short
from warpsim.base.errors import ModelError
from warpsim.model.model import GeomType, ReportLine, TetField

LARGEST_FINE = 1 << 15  # largest number of facets of one geom
LONGEST_SIDES = 4096  # largest number of sides of a cylinder
FEATURE = "hydroelastic contact"  # feature name in a model's report
NAMED = 3  # largest number of pairs that the report names


@dataclasses.dataclass(frozen=True, eq=False)
class Hydroelastic:
    """Pressure-field contact of a geom, for `add_geom(..., hydroelastic=...)`.

    Two geoms that both have it touch by pressure fields if at least one of them is compliant (docs/hydroelastic.md).

    Parameters
    ----------
    modulus : float
        Pressure in the middle of the geom [Pa]; `np.inf` makes the geom rigid.
    resolution : float, optional
        Longest edge of the polyhedron that stands for a sphere, ellipsoid, capsule or cylinder [m]. Default: for
        spheres and ellipsoids half the largest semi-axis (128 facets), for capsules and cylinders 0.4 times the radius
        (16 sides).
    thickness : float, optional
        Thickness of the soft layer of a compliant plane [m]. Default: none.
    margin : float
        Distance outside the surface at which contact begins [m]. The pressure is negative there, as in Drake. It
        applies with one contact point per polygon; patches of 4, 5 or 16 points ignore it. Default: 0.
    field : path or tuple, optional
        Tetrahedra of a compliant mesh that is not convex, in place of those of its hull: a path to a VTK or Gmsh file,
        or `(vertices (n, 3), tetrahedra (m, 4))` in the geom's frame [m]. A third entry gives the pressures `(n,)` of
        the vertices, from 0 to 1; without it they are the depth below the surface over the largest depth.

    Raises
    ------
    ModelError
        A value is not allowed. The message names it and the fix.

    Examples
    --------
    >>> builder = ws.ModelBuilder()
    >>> floor = builder.add_geom("plane", hydroelastic=ws.Hydroelastic(modulus=np.inf))
    >>> builder.add_geom("sphere", [0.1], pose=[0, 0, 1], hydroelastic=ws.Hydroelastic(modulus=1e5))
    1
    """

    modulus: float
    resolution: float | None = None
    thickness: float | None = None
    margin: float = 0.0
    field: typing.Any = None

    def __post_init__(self) -> None:
        rule = "it must be positive [Pa]; np.inf makes the geom rigid"
        values = {"modulus": number(self.modulus, "Hydroelastic: modulus", rule, lambda x: x > 0, ModelError)}
        for name in ("resolution", "thickness"):
            values[name] = getattr(self, name)
            if values[name] is not None:
                rule = "it must be positive and finite [m], or None"
                good = lambda x: 0 < x < np.inf  # noqa: E731
                values[name] = number(values[name], f"Hydroelastic: {name}", rule, good, ModelError)
        rule = "it must be finite and not negative [m]"
        values["margin"] = number(self.margin, "Hydroelastic: margin", rule, lambda x: 0 <= x < np.inf, ModelError)
        if self.field is not None:
            if values["modulus"] == np.inf:
                raise ModelError(
                    "Hydroelastic: a field is the pressure in a compliant geom; give a finite modulus, or no field"
                )
            values["field"] = tet_field(self.field)
        for name, value in values.items():
            object.__setattr__(self, name, value)


def tet_field(field) -> TetField:
    """A checked field from a path or from its arrays."""
    from warpsim.model.tetrahedra import checked_field

    if isinstance(field, TetField):
        return checked_field(*field)
    if isinstance(field, (str, os.PathLike)):
        from warpsim.files.tet_files import read_tetrahedra

        try:
            return checked_field(os.path.basename(field), *read_tetrahedra(field))
        except ModelError as error:
            text = str(error).removeprefix("Hydroelastic: ")
            raise ModelError(text if str(field) in text else f"{os.fspath(field)}: {text}") from None
    if not isinstance(field, (tuple, list)) or len(field) not in (2, 3):
        raise ModelError(
            f"Hydroelastic: field is {short(field)}; give a path, (vertices, tetrahedra) or (vertices, tetrahedra, "
            "pressure)"
        )
    vertices, tetrahedra, *pressure = (
        None if p is None else numbers(p, "Hydroelastic: field", ModelError) for p in field
    )
    return checked_field("field", vertices, tetrahedra, *(pressure or [None]))


def octahedron_level(radius: float, resolution: float) -> int:
    """How often the octahedron of a sphere is refined: until no edge is longer than `resolution` (Drake's rule)."""
    angle = np.arcsin(min(resolution, 2 * radius) / (2 * radius))
    return max(0, int(np.ceil(np.log2(np.pi / angle)) - 2))


def cylinder_sides(radius: float, resolution: float) -> int:
    """Sides of a cylinder by Drake's rule."""
    return max(3, int(np.ceil(2 * np.pi * radius / resolution)))


def capsule_sides(radius: float, resolution: float) -> int:
    """Sides of a capsule by Drake's rule, which rounds down; its caps have half as many rings."""
    return max(3, int(2 * np.pi * radius / resolution))


def default_resolution(kind: GeomType, size) -> float:
    """Default resolution: 128 facets of a sphere or ellipsoid, 16 sides of a cylinder or capsule; NaN for polyhedra."""
    if kind in (GeomType.SPHERE, GeomType.ELLIPSOID):
        return 0.5 * _radius(kind, size)
    # of the radius; they differ because one count rounds up and the other down
    share = {GeomType.CYLINDER: 0.4, GeomType.CAPSULE: 0.39}
    return share[kind] * _radius(kind, size) if kind in share else np.nan


def coarsest_resolution(kind: GeomType, size) -> float:
    """The diameter of a curved shape; a coarser `resolution` has no effect. inf for polyhedra."""
    curved = (GeomType.SPHERE, GeomType.ELLIPSOID, GeomType.CYLINDER, GeomType.CAPSULE)
    return 2 * _radius(kind, size) if kind in curved else np.inf


def resolution_of(model, g: int) -> float:
    """Resolution of geom g: its own, or the default of its shape."""
    _, resolution, _, margin = model.geom_hydroelastic[g]
    kind = GeomType(model.geom_type[g])
    return (
        default_resolution(kind, np.asarray(model.geom_size[g]) + margin) if np.isnan(resolution) else float(resolution)
    )


def has_closed_form(model, pairs) -> np.ndarray:
    """Which pairs of pressure fields have a closed form: a sphere with default resolution on a plane.

    One of the two must be rigid, and both must have zero margin.
    """
    kind, (modulus, resolution, _, margin) = model.geom_type, model.geom_hydroelastic.T
    ends = np.asarray(model.pair_geom)[pairs].reshape(-1, 2)
    sphere = (kind == GeomType.SPHERE) & np.isnan(resolution)
    shapes = (sphere[ends].sum(1) == 1) & ((kind == GeomType.PLANE)[ends].sum(1) == 1)
    return shapes & (np.isinf(modulus[ends]).sum(1) == 1) & (margin[ends] == 0).all(1)


def _radius(kind: GeomType, size) -> float:
    return float(max(size[:3])) if kind == GeomType.ELLIPSOID else float(size[0])


def _facets(kind: GeomType, size, resolution: float) -> float:
    """Number of facets of the polyhedron, without building it.

    A cylinder has a limit on its sides, so its result is the number of sides, scaled to the limit on facets.
    """
    radius = _radius(kind, size)
    if 2 * np.pi * radius / resolution > LARGEST_FINE:
        return np.inf
    if kind in (GeomType.SPHERE, GeomType.ELLIPSOID):
        return 8 * 4 ** octahedron_level(radius, resolution)
    if kind == GeomType.CAPSULE:
        n = capsule_sides(radius, resolution)
        return n * (2 * (n // 2) + 1)
    return cylinder_sides(radius, resolution) * LARGEST_FINE / LONGEST_SIDES


def geom_row(given, kind: GeomType, size, label: str) -> np.ndarray:
    """(modulus, resolution, thickness, margin) of a geom; the default resolution is filled in, None becomes NaN.

    Raises `ModelError` naming the geom where its shape does not allow what `given` asks.
    """
    if given is None:
        return np.full(4, np.nan)
    if not isinstance(given, Hydroelastic):
        raise ModelError(f"{label}: hydroelastic is {short(given)}; give a ws.Hydroelastic, or None")
    if kind == GeomType.HFIELD:
        raise ModelError(
            f"{label}: a height field has no pressure field; use a mesh or boxes, or leave out hydroelastic"
        )
    if kind == GeomType.PLANE and np.isfinite(given.modulus) and given.thickness is None:
        raise ModelError(
            f"{label}: a compliant plane needs the thickness [m] of its soft layer; give Hydroelastic(thickness=), or "
            "modulus=np.inf"
        )
    if given.field is not None and kind != GeomType.MESH:
        raise ModelError(
            f"{label}: a field of tetrahedra is for mesh geoms, and it is a {kind.name.lower()}; leave out field"
        )
    grown = np.asarray(size, float) + given.margin  # Drake counts the facets of the shape grown by the margin
    resolution = default_resolution(kind, grown) if given.resolution is None else given.resolution
    exact = kind == GeomType.SPHERE and given.resolution is None  # exact against planes, by a closed form
    coarsest = coarsest_resolution(kind, grown)
    if resolution > coarsest:
        raise ModelError(
            f"{label}: resolution {resolution:g} m is coarser than the shape; give at most its diameter, {coarsest:g} m"
        )
    if np.isfinite(coarsest) and _facets(kind, grown, resolution) > LARGEST_FINE:
        raise ModelError(
            f"{label}: resolution {resolution:g} m makes too many facets; give at least {_finest(kind, grown):.2g} m"
        )
    resolution = np.nan if exact else resolution
    return np.array([given.modulus, resolution, np.nan if given.thickness is None else given.thickness, given.margin])


def tessellation(model) -> np.ndarray:
    """(ngeom, 3) properties that all worlds of one simulator share; 0 for geoms without pressure fields.

    The columns are 1 (compliant) or 2 (rigid), the count that sets the facets, and the margin.
    """
    shared = np.zeros((model.ngeom, 3))
    for g in np.flatnonzero(~np.isnan(model.geom_hydroelastic[:, 0])).tolist():
        modulus, _, _, margin = model.geom_hydroelastic[g]
        kind, size = GeomType(model.geom_type[g]), model.geom_size[g]
        curved = np.isfinite(coarsest_resolution(kind, size))
        shared[g] = (
            1 + np.isinf(modulus),
            _facets(kind, size + margin, resolution_of(model, g)) if curved else 0.0,
            margin,
        )
    return shared


def of_geom(model, g: int) -> Hydroelastic | None:
    """The `Hydroelastic` of geom g of a model; None where it has none."""
    modulus, resolution, thickness, margin = (float(x) for x in model.geom_hydroelastic[g])
    if np.isnan(modulus):
        return None
    field = None if model.geom_field[g] < 0 else model.fields[model.geom_field[g]]
    lengths = [None if np.isnan(x) else x for x in (resolution, thickness)]
    return Hydroelastic(modulus, lengths[0], lengths[1], margin, field)


def _finest(kind: GeomType, size) -> float:
    """A resolution whose number of facets is allowed, found by doubling."""
    resolution = 1e-4 * _radius(kind, size)
    while _facets(kind, size, resolution) > LARGEST_FINE:
        resolution *= 1.05
    return resolution


def surface_pairs(hydroelastic: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """Which pairs (n, 2) touch by pressure fields.

    Both geoms must have `hydroelastic` (ngeom, 4), and at least one must be compliant.
    """
    modulus = hydroelastic[:, 0][pairs]
    return ~np.isnan(modulus).any(axis=1) & np.isfinite(modulus).any(axis=1)


def sort_pairs(hydroelastic: np.ndarray, tables: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], int]:
    """The pair tables sorted so that pairs of pressure fields come last, and the number of pairs before them."""
    surface = surface_pairs(hydroelastic, tables["pair_geom"])
    order = np.argsort(surface, kind="stable")
    return {name: table[order] for name, table in tables.items()}, int((~surface).sum())


def report_lines(hydroelastic: np.ndarray, pairs: np.ndarray, margin: np.ndarray, names) -> list[ReportLine]:
    """Report lines for pairs in which only one geom has pressure fields, so that the pair does not use them."""
    has = ~np.isnan(hydroelastic[:, 0])
    if not has.any():
        return []
    surface = surface_pairs(hydroelastic, pairs)
    lines = [ReportLine(FEATURE, "used", f"{int(surface.sum())} pairs of geoms touch by pressure fields")]
    apart = int(np.count_nonzero(margin[surface]))
    if apart:
        why = "pairs of pressure fields touch at their surfaces, whatever the margin of their geoms"
        lines.append(ReportLine(FEATURE, "ignored", f"{apart} {why}"))
    reasons = (
        (has[pairs].all(axis=1), "both geoms are rigid; make one compliant"),
        (has[pairs].sum(axis=1) == 1, "one geom has no hydroelastic properties; give it some"),
    )
    for kept, why in reasons:
        kept &= ~surface
        if kept.any():
            shown = ", ".join(f"{names[a]!r} and {names[b]!r}" for a, b in pairs[kept][:NAMED])
            more = ", ..." if kept.sum() > NAMED else ""
            lines.append(
                ReportLine(FEATURE, "mapped", f"{int(kept.sum())} pairs keep point contact ({shown}{more}): {why}")
            )
    return lines
