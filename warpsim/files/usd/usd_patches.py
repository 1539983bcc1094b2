# SPDX-License-Identifier: Apache-2.0
"""Contact patches of hydroelastic contact in USD: one mesh per pair of geoms and world, whose polygons vary by frame.

The meshes are `/World/Patches/<A>_<B>`; with several worlds `/World/Patches/World_<w>/<A>_<B>`. Points,
faceVertexCounts, faceVertexIndices and extent are time samples, empty while the geoms are apart. Primvars at the
vertices are `pressure` [Pa], and displayColor by the scale of `fixed_share`.
"""

import numpy as np

from warpsim.files.patch_frames import fixed_share, patch_frames, pressure_colors
from warpsim.files.usd.usd_looks import linear, vertex_color_surface
from warpsim.files.usd.usd_values import Names, keep_name, vec3

ROOT, MATERIALS = "/World/Patches", "/World/Materials"


def write_patches(output, stage, trajectory, rows, chosen, origins) -> None:
    """Write the patches of the chosen worlds at `origins (worlds, 3)`; the rows of the trajectory are the frames."""
    from pxr import UsdGeom

    model = trajectory.model
    UsdGeom.Scope.Define(stage, ROOT)
    material = vertex_color_surface(stage, f"{MATERIALS}/Pressure")
    names: dict[str, Names] = {}
    meshes: dict[tuple, _PatchMesh] = {}
    for frame, worlds in enumerate(patch_frames(model, trajectory.q, rows, chosen, trajectory.mocap)):
        touching = set()
        for world, patches, origin in zip(chosen.tolist(), worlds, origins, strict=True):
            for patch in patches:
                key = world, patch.geoms
                touching.add(key)
                if key not in meshes:
                    parent = ROOT if len(chosen) == 1 else f"{ROOT}/World_{world}"
                    if parent not in names:
                        UsdGeom.Scope.Define(stage, parent)
                    labels = [model.geom_names[g] for g in patch.geoms]
                    path = f"{parent}/{names.setdefault(parent, Names())('_'.join(labels))}"
                    meshes[key] = _PatchMesh(output, stage, path, labels, frame, material)
                colors = pressure_colors(fixed_share(model, patch.geoms, np.concatenate(patch.pressure)))
                meshes[key].set(frame, patch, origin, colors)
        for key in meshes.keys() - touching:
            meshes[key].clear(frame)


class _PatchMesh:
    """The mesh of a pair of geoms in one world."""

    def __init__(self, output, stage, path: str, labels: list[str], frame: int, material):
        from pxr import Sdf, UsdGeom, UsdShade, Vt

        self._output, mesh = output, UsdGeom.Mesh.Define(stage, path)
        keep_name(mesh.GetPrim(), " ".join(labels))
        mesh.GetPrim().SetCustomDataByKey("warpsim:geoms", Vt.StringArray(labels))
        mesh.CreateSubdivisionSchemeAttr("none")
        UsdShade.MaterialBindingAPI.Apply(mesh.GetPrim()).Bind(material)
        mesh.CreateDoubleSidedAttr(True)
        vertex = UsdGeom.Tokens.vertex
        self._arrays = [mesh.CreatePointsAttr(), mesh.CreateFaceVertexCountsAttr(), mesh.CreateFaceVertexIndicesAttr()]
        kind = Sdf.ValueTypeNames.FloatArray
        pressure = UsdGeom.PrimvarsAPI(mesh).CreatePrimvar("pressure", kind, vertex).GetAttr()
        pressure.SetDocumentation("Contact pressure in Pa")
        self._arrays += [mesh.CreateExtentAttr(), pressure, mesh.CreateDisplayColorPrimvar(vertex).GetAttr()]
        self._empty = False
        if frame > 0:
            self.clear(0)

    def set(self, frame: int, patch, origin, colors) -> None:
        """Write the polygons of a frame."""
        points = np.ascontiguousarray(np.concatenate(patch.vertices) + origin, np.float32)
        counts = np.array([len(x) for x in patch.vertices], np.int32)
        self._write(frame, points, counts, np.concatenate(patch.pressure), linear(colors))

    def clear(self, frame: int) -> None:
        """Write no polygons from this frame on."""
        if not self._empty:
            nothing = np.zeros((0, 3), np.float32)
            self._write(frame, nothing, np.zeros(0, np.int32), np.zeros(0), nothing)

    def _write(self, frame: int, points, counts, pressure, colors) -> None:
        from pxr import Vt

        self._empty = len(points) == 0
        index = np.arange(len(points), dtype=np.int32)
        low, high = (np.zeros(3), np.zeros(3)) if self._empty else (points.min(axis=0), points.max(axis=0))
        values = [Vt.Vec3fArray.FromNumpy(points), Vt.IntArray.FromNumpy(counts), Vt.IntArray.FromNumpy(index)]
        values += [Vt.Vec3fArray([vec3(low), vec3(high)])]
        values += [Vt.FloatArray.FromNumpy(np.ascontiguousarray(pressure, np.float32))]
        values += [Vt.Vec3fArray.FromNumpy(np.ascontiguousarray(colors, np.float32))]
        for attribute, value in zip(self._arrays, values, strict=True):
            self._output.sample(attribute, value, frame, 6 * len(points))
