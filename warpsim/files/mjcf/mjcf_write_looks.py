# SPDX-License-Identifier: Apache-2.0
"""Materials and images of a `ModelBuilder` as MJCF.

Images are PNG files beside the text; MJCF cannot hold an image within a text. What comes back different, images among
it, is kept (`mjcf_kept_looks`).
"""

import mujoco
import numpy as np

from warpsim.files.mjcf.mjcf_elements import FORBIDDEN, add, unless
from warpsim.files.mjcf.mjcf_textures import SIX
from warpsim.model.builder_names import numbered_name
from warpsim.model.looks import PLAIN, PNG, Texture, VisualMaterial
from warpsim.model.pictures import png_size

GREY = (0.5, 0.5, 0.5, 1.0)  # of every material: the geom's colour counts, unless it is MuJoCo's default


class Looks:
    """The materials and images of the asset section, each written once."""

    def __init__(self, shapes):
        self.shapes = shapes
        self.names: dict[VisualMaterial, str] = {}
        self.textures: dict[Texture, str] = {}

    def name(self, material: VisualMaterial) -> str:
        """The name of a material in the MJCF."""
        if material not in self.names:
            self.names[material] = f"look_{len(self.names)}"
            image = None if material.texture is None else self.image(material.texture)
            options = {
                key: unless(getattr(material, key), getattr(PLAIN, key))
                for key in ("emission", "specular", "shininess", "reflectance", "metallic", "roughness")
            }
            if image is not None:
                options |= {"texture": image, "texrepeat": unless(np.array(material.repeat), np.ones(2))}
                options["texuniform"] = True if material.uniform else None
            add(self.shapes.section, "material", name=self.names[material], rgba=GREY, **options)
        return self.names[material]

    def image(self, texture: Texture) -> str | None:
        """The name of an image in the MJCF; None for an image that MJCF cannot hold."""
        if self.shapes.folder is None or not texture.data.startswith(PNG):
            return None
        if texture not in self.textures:
            plain = FORBIDDEN.sub("_", texture.name)
            name = self.textures[texture] = numbered_name(plain, {"", *self.textures.values()})
            width, height = png_size(texture.data)
            grid = SIX if texture.kind == "cube" and width != height else {}
            file = self.shapes.file(plain, ".png", texture.data)
            add(self.shapes.section, "texture", name=name, type=texture.kind, file=file, **grid)
        return self.textures[texture]


class Written:
    """The images that were written, with the interface of `Images`, which holds images that are read."""

    def __init__(self, m, looks: Looks):
        self.m = m
        self.known: dict[int, Texture | None] = {}
        self.named = {name: texture._replace(name=name) for texture, name in looks.textures.items()}
        self.lines: list = []

    def get(self, index: int) -> Texture | None:
        name = mujoco.mj_id2name(self.m, mujoco.mjtObj.mjOBJ_TEXTURE, index) if index >= 0 else None
        return self.named.get(name)
