# SPDX-License-Identifier: Apache-2.0
"""How a stage looks: preview surfaces, meshes of shapes, and `/View`, a camera and two lights beside `/World`.

Blender gives materials only to meshes, so a mesh draws every shape. Colours of models are sRGB, as displayed; USD's are
linear. `/View` is outside the default prim: a stage that refers to the file gets neither camera nor lights.
"""

import dataclasses

import numpy as np

from warpsim.files.scene import fit_view, geom_colors, view_axes
from warpsim.files.shapes import corner_normals
from warpsim.files.usd.usd_textures import Images, has_image, shine, show_image, write_coordinates
from warpsim.files.usd.usd_values import Names, keep_name, set_pose, vec3
from warpsim.model.geometry import matrix_quaternion
from warpsim.model.looks import material_of

ROUGHNESS = 0.5
VIEW = "/View"
APERTURE = (36.0, 27.0)  # mm, of the camera: 4 : 3
CLIPPING = (1e-3, 1e3)  # m, of a model's cameras
FOV = 35.0  # vertical angle of view [degrees]
SUN_TURN, SUN_INTENSITY, SUN_ANGLE, SUN_COLOR = (35.0, 0.0, -40.0), 0.75, 2.0, (1.0, 0.95, 0.86)
SKY_INTENSITY, SKY_COLOR = 0.5, (0.75, 0.86, 1.0)


def linear(color) -> np.ndarray:
    """Linear values, as in USD, of sRGB values in 0..1."""
    c = np.asarray(color, float)
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def displayed(color) -> np.ndarray:
    """sRGB values of linear values in 0..1; the inverse of `linear`."""
    c = np.asarray(color, float)
    return np.where(c <= 0.0031308, 12.92 * c, 1.055 * np.maximum(c, 0.0) ** (1 / 2.4) - 0.055)


class Materials:
    """The shared materials of one stage: preview surfaces by colour, physics materials by friction and restitution."""

    def __init__(self, stage, path: str, model, images: Images):
        from pxr import UsdGeom

        self.stage, self.path, self.model, self.images = stage, path, model, images
        self.colors = geom_colors(model)
        self.colors[:, :3] = linear(np.clip(self.colors[:, :3], 0.0, 1.0))
        self.made: dict = {}
        UsdGeom.Scope.Define(stage, path)

    def bind(self, prim, geom: int, physics: bool = True) -> None:
        """Bind the colour of `geom`, and its physics material, to `prim`."""
        from pxr import UsdGeom, UsdShade

        color = self.colors[geom]
        gprim = UsdGeom.Gprim(prim)
        gprim.CreateDisplayColorAttr([vec3(color[:3])])
        if color[3] < 1:
            gprim.CreateDisplayOpacityAttr([float(color[3])])
        binding = UsdShade.MaterialBindingAPI.Apply(prim)
        binding.Bind(self._surface(color, geom))
        if has_image(self.model, geom) and prim.IsA(UsdGeom.Mesh):
            write_coordinates(prim, self.model, geom)
        if physics:
            material = self._physics(geom)
            binding.Bind(material, UsdShade.Tokens.weakerThanDescendants, "physics")

    def _surface(self, color, geom: int):
        from pxr import Sdf

        material = material_of(self.model, geom)
        look = None if material is None else dataclasses.replace(material, repeat=(1.0, 1.0), uniform=False)
        key = ("color", *np.round(color, 4), look)
        if key not in self.made:
            name = "Color" if look is None or look.texture is None else "Image"
            self.made[key], shader = preview_surface(self.stage, f"{self.path}/{name}_{len(self.made)}")
            if look is not None:
                shine(shader, look)
            if name == "Image":
                show_image(self.stage, self.made[key], shader, self.images.path(look.texture), look, color[:3])
            else:
                shader.CreateInput("diffuseColor", Sdf.ValueTypeNames.Color3f).Set(vec3(color[:3]))
                if look is not None and look.emission:
                    emitted = vec3(np.minimum(look.emission, 1.0) * color[:3])
                    shader.CreateInput("emissiveColor", Sdf.ValueTypeNames.Color3f).Set(emitted)
            shader.CreateInput("opacity", Sdf.ValueTypeNames.Float).Set(float(color[3]))
        return self.made[key]

    def _physics(self, geom: int):
        from pxr import UsdPhysics, UsdShade

        friction, restitution = float(self.model.geom_friction[geom]), float(self.model.geom_restitution[geom])
        restitution = restitution if np.isfinite(restitution) else 0.0
        key = ("physics", friction, restitution)
        if key not in self.made:
            material = UsdShade.Material.Define(self.stage, f"{self.path}/Physics_{len(self.made)}")
            physics = UsdPhysics.MaterialAPI.Apply(material.GetPrim())
            physics.CreateStaticFrictionAttr(friction)
            physics.CreateDynamicFrictionAttr(friction)
            physics.CreateRestitutionAttr(restitution)
            self.made[key] = material
        return self.made[key]


def preview_surface(stage, path):
    """A UsdPreviewSurface without a colour: its material and its shader."""
    from pxr import Sdf, UsdShade

    material = UsdShade.Material.Define(stage, path)
    shader = UsdShade.Shader.Define(stage, material.GetPath().AppendChild("Surface"))
    shader.CreateIdAttr("UsdPreviewSurface")
    shader.CreateInput("roughness", Sdf.ValueTypeNames.Float).Set(ROUGHNESS)
    material.CreateSurfaceOutput().ConnectToSource(shader.ConnectableAPI(), "surface")
    return material, shader


def vertex_color_surface(stage, path):
    """A material that takes its colour from the primvar displayColor of the prim it is bound to."""
    from pxr import Sdf, UsdShade

    material, shader = preview_surface(stage, path)
    reader = UsdShade.Shader.Define(stage, material.GetPath().AppendChild("Color"))
    reader.CreateIdAttr("UsdPrimvarReader_float3")
    reader.CreateInput("varname", Sdf.ValueTypeNames.String).Set("displayColor")
    found = reader.CreateOutput("result", Sdf.ValueTypeNames.Float3)
    shader.CreateInput("diffuseColor", Sdf.ValueTypeNames.Color3f).ConnectToSource(found)
    return material


def define_mesh(stage, path, vertices, faces):
    """A mesh of triangles with normals: shared at smooth corners, separate across edges."""
    from pxr import UsdGeom, Vt

    shape = UsdGeom.Mesh.Define(stage, path)
    vertices = np.ascontiguousarray(vertices, dtype=np.float32)
    faces = np.ascontiguousarray(faces, dtype=np.int32)
    shape.CreatePointsAttr(Vt.Vec3fArray.FromNumpy(vertices))
    shape.CreateFaceVertexIndicesAttr(Vt.IntArray.FromNumpy(faces.reshape(-1)))
    shape.CreateFaceVertexCountsAttr(Vt.IntArray.FromNumpy(np.full(len(faces), faces.shape[1], np.int32)))
    shape.CreateSubdivisionSchemeAttr("none")
    shape.CreateExtentAttr(Vt.Vec3fArray.FromNumpy(np.stack([vertices.min(axis=0), vertices.max(axis=0)])))
    normals = corner_normals(vertices, faces) if faces.shape[1] == 3 else None
    if normals is not None:
        shape.CreateNormalsAttr(Vt.Vec3fArray.FromNumpy(np.ascontiguousarray(normals.reshape(-1, 3), np.float32)))
        shape.SetNormalsInterpolation(UsdGeom.Tokens.faceVarying)
    return shape


def define_floor(stage, path, half):
    """A rectangle in the xy plane with half sides `half (2,)`, seen from above."""
    corners = np.array([[-1, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]]) * [*half, 1.0]
    return define_mesh(stage, path, corners, np.arange(4)[None])


def write_view(stage, centers, radii) -> None:
    """Write a camera that sees all spheres `centers (n, 3)`, `radii (n,)` [m], a sun and a sky."""
    from pxr import Gf, Sdf, UsdGeom, UsdLux

    UsdGeom.Xform.Define(stage, VIEW)
    eye, target = fit_view(np.asarray(centers), np.asarray(radii), APERTURE[0] / APERTURE[1], FOV)
    camera = UsdGeom.Camera.Define(stage, f"{VIEW}/Camera")
    set_pose(camera, np.concatenate([eye, matrix_quaternion(view_axes(eye - target).T)]))
    write_lens(camera, np.radians(FOV), APERTURE)
    distance = float(np.linalg.norm(eye - target))
    camera.CreateClippingRangeAttr(Gf.Vec2f(0.01 * distance, 100.0 * distance))
    camera.CreateFocusDistanceAttr(distance)
    sun = UsdLux.DistantLight.Define(stage, f"{VIEW}/Sun")
    sun.CreateIntensityAttr(SUN_INTENSITY)
    sun.CreateNormalizeAttr(True)
    sun.CreateAngleAttr(SUN_ANGLE)
    sun.CreateColorAttr(Gf.Vec3f(*SUN_COLOR))
    sun.AddRotateXYZOp().Set(Gf.Vec3f(*SUN_TURN))
    sky = UsdLux.DomeLight.Define(stage, f"{VIEW}/Sky")
    sky.CreateIntensityAttr(SKY_INTENSITY)
    sky.CreateColorAttr(Gf.Vec3f(*SKY_COLOR))
    sky.GetPrim().CreateAttribute("poleAxis", Sdf.ValueTypeNames.Token, False).Set("scene")


def write_cameras(stage, model, paths, names: dict[str, Names]) -> None:
    """Write the model's cameras, on bodies at `paths` or in `/World/Cameras`; `names` are those taken, by parent."""
    from pxr import Gf, UsdGeom

    for c, name in enumerate(model.camera_names):
        body = int(model.camera_body[c])
        parent = paths[body] if body >= 0 else "/World/Cameras"
        if body < 0:
            UsdGeom.Xform.Define(stage, parent)
        camera = UsdGeom.Camera.Define(stage, f"{parent}/{names.setdefault(parent, Names())(name)}")
        keep_name(camera.GetPrim(), name)
        set_pose(camera, model.camera_pose[c])
        width, height = model.camera_resolution[c].tolist()
        write_lens(camera, float(model.camera_fovy[c]), (APERTURE[1] * width / height, APERTURE[1]))
        camera.CreateClippingRangeAttr(Gf.Vec2f(*CLIPPING))


def write_lens(camera, fovy: float, aperture) -> None:
    """Write a picture's width and height [mm], and the focal length for the vertical angle of view `fovy` [rad]."""
    camera.CreateHorizontalApertureAttr(float(aperture[0]))
    camera.CreateVerticalApertureAttr(float(aperture[1]))
    camera.CreateFocalLengthAttr(float(aperture[1] / 2 / np.tan(fovy / 2)))
