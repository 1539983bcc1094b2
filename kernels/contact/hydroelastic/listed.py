# SPDX-License-Identifier: Apache-2.0
"""Access of patches to the polygons of a step; in copies with dual numbers the polygons have rates."""

import warp as wp

from ...number.num import matrix_with_rates, num, num3, num33, with_rate, with_rates
from ...real import DUAL, func, mat33, struct, vec3, vec4
from .find_polygons import Polygons

num5 = wp.types.vector(5, num)


@struct
class MovingPolygons:
    """Polygons, and their rates along the chosen direction; rates are (worlds, max_polygons, directions)."""

    fixed: Polygons  # their values; the arrays below have the rates
    normal: wp.array3d(dtype=vec3)
    centroid: wp.array3d(dtype=vec3)
    second: wp.array3d(dtype=mat33)
    gradient: wp.array3d(dtype=vec3)
    values: wp.array3d(dtype=vec4)  # area, p at the centroid, c, τ_d
    direction: int


Listed = MovingPolygons if DUAL else Polygons


@func
def listed_cells(polygons: Listed, w: int, k: int) -> wp.vec2i:
    if DUAL:
        return polygons.fixed.cells[w, k]
    else:
        return polygons.cells[w, k]


@func
def listed_normal(polygons: Listed, w: int, k: int) -> num3:
    if DUAL:
        return with_rates(polygons.fixed.normal[w, k], polygons.normal[w, k, polygons.direction])
    else:
        return polygons.normal[w, k]


@func
def listed_centroid(polygons: Listed, w: int, k: int) -> num3:
    if DUAL:
        return with_rates(polygons.fixed.centroid[w, k], polygons.centroid[w, k, polygons.direction])
    else:
        return polygons.centroid[w, k]


@func
def listed_second(polygons: Listed, w: int, k: int) -> num33:
    if DUAL:
        return matrix_with_rates(polygons.fixed.second[w, k], polygons.second[w, k, polygons.direction])
    else:
        return polygons.second[w, k]


@func
def listed_gradient(polygons: Listed, w: int, k: int) -> num3:
    if DUAL:
        return with_rates(polygons.fixed.gradient[w, k], polygons.gradient[w, k, polygons.direction])
    else:
        return polygons.gradient[w, k]


@func
def listed_values(polygons: Listed, w: int, k: int) -> num5:
    """Values of polygon k: area, p at the centroid, c, τ_d, radius about the centroid (without a rate)."""
    if DUAL:
        values = polygons.fixed.values[w, k]
        rates = polygons.values[w, k, polygons.direction]
        moving = num5()
        for i in range(4):
            moving[i] = with_rate(values[i], rates[i])
        moving[4] = num(values[4])
        return moving
    else:
        return polygons.values[w, k]
