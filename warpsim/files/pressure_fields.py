# SPDX-License-Identifier: Apache-2.0
"""Hydroelastic properties from robot files, for every format: from a file's numbers to `ws.Hydroelastic`."""

import dataclasses

import numpy as np

from warpsim.base.errors import ModelError
from warpsim.model.hydroelastic import Hydroelastic, coarsest_resolution
from warpsim.model.model import GeomType, ReportLine


def properties(label: str, modulus, resolution=None, thickness=None, margin=0.0, field=None) -> Hydroelastic:
    """`ws.Hydroelastic` of the element called `label`, which its errors name."""
    try:
        return Hydroelastic(modulus, resolution, thickness, margin, field)
    except ModelError as error:
        raise ModelError(f"{label}: {str(error).removeprefix('Hydroelastic: ')}") from None


def fitted(given: Hydroelastic | None, kind, size, label: str, report: list[ReportLine]) -> Hydroelastic | None:
    """`given`, with a resolution that suits a shape of this type and these half sizes.

    Files give one resolution to many shapes. A resolution coarser than the shape becomes the coarsest that the shape
    can have, with a line of the report.
    """
    if given is None or given.resolution is None:
        return given
    kind = kind if isinstance(kind, GeomType) else GeomType[kind.upper()]
    coarsest = coarsest_resolution(kind, np.asarray(size, float) + given.margin)
    if given.resolution <= coarsest:
        return given
    why = f"{given.resolution:g} m is coarser than the shape: {coarsest:g} m"
    report.append(ReportLine(f"resolution of {label}", "mapped", why))
    return dataclasses.replace(given, resolution=coarsest)
