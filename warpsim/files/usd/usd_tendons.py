# SPDX-License-Identifier: Apache-2.0
"""Spatial tendons in USD: linear BasisCurves with moving points (`tendon_lines.py`).

There is one prim per tendon, and one curve per segment of its path.
"""

import numpy as np

from warpsim.files.tendon_lines import tendon_counts, tendon_frames
from warpsim.files.usd import usd_extra
from warpsim.files.usd.usd_looks import linear, preview_surface
from warpsim.files.usd.usd_values import Names, keep_name, vec3
from warpsim.forces.lines import line_tendons

NAME = "Tendons"
WIDTH, COLOR = 0.006, (0.75, 0.2, 0.15)  # m, sRGB: models have neither


class Tendons:
    """The curves of one world, below `parent`; none if the model has no spatial tendons."""

    def __init__(self, stage, model, parent: str):
        from pxr import Sdf, UsdGeom, UsdShade, Vt

        self.parts, self.curves, start, names = [], [], 0, Names()
        self.bounds = [(np.full(3, np.inf), np.full(3, -np.inf))] * len(line_tendons(model))
        if not self.bounds:
            return
        root = f"{parent}/{NAME}"
        UsdGeom.Scope.Define(stage, root)
        material, shader = preview_surface(stage, "/World/Materials/Tendon")
        shader.CreateInput("diffuseColor", Sdf.ValueTypeNames.Color3f).Set(vec3(linear(COLOR)))
        for t in line_tendons(model):
            counts = tendon_counts(model, int(t))
            self.parts.append(slice(start, start + sum(counts)))
            start += sum(counts)
            curve = UsdGeom.BasisCurves.Define(stage, f"{root}/{names(model.tendon_names[t])}")
            keep_name(curve.GetPrim(), model.tendon_names[t])
            curve.GetPrim().SetCustomDataByKey(usd_extra.DRAWS, model.tendon_names[t])
            curve.CreateTypeAttr("linear")
            curve.CreateCurveVertexCountsAttr(Vt.IntArray(counts))
            curve.CreateWidthsAttr([WIDTH])
            curve.SetWidthsInterpolation(UsdGeom.Tokens.constant)
            curve.CreateDisplayColorAttr([vec3(linear(COLOR))])
            UsdShade.MaterialBindingAPI.Apply(curve.GetPrim()).Bind(material)
            self.curves.append((curve, curve.CreatePointsAttr()))

    def still(self, model, q) -> None:
        """Write the points at one position."""
        if self.curves:
            for points in tendon_frames(model, np.asarray(q)[None, None], [0], 0):
                self._each(points, lambda attribute, value, _: attribute.Set(value))
            self._extents()

    def stream(self, output, trajectory, rows, world: int) -> None:
        """Write the points of a world at the rows."""
        if not self.curves:
            return
        frames = tendon_frames(trajectory.model, trajectory.q, rows, world, trajectory.mocap)
        for frame, points in enumerate(frames):
            write = lambda attribute, value, size: output.sample(attribute, value, frame, size)  # noqa: E731
            self._each(points, write)
        self._extents()

    def _each(self, points, write) -> None:
        from pxr import Vt

        for k, ((_, attribute), part) in enumerate(zip(self.curves, self.parts, strict=True)):
            own = np.ascontiguousarray(points[part], np.float32)
            low, high = self.bounds[k]
            self.bounds[k] = np.minimum(low, own.min(axis=0)), np.maximum(high, own.max(axis=0))
            write(attribute, Vt.Vec3fArray.FromNumpy(own), own.nbytes)

    def _extents(self) -> None:
        for (curve, _), (low, high) in zip(self.curves, self.bounds, strict=True):
            curve.CreateExtentAttr([vec3(low - WIDTH / 2), vec3(high + WIDTH / 2)])
