# SPDX-License-Identifier: Apache-2.0
"""Materials and images of a `ModelBuilder` as MJCF, and what MJCF cannot say of them.

Images are PNG files beside the text; within a text MuJoCo has no place for one. What comes back otherwise than it is, images among it,
is kept (`mjcf_kept_looks`).
"""

import mujoco
import numpy as np

from warpsim.files.mjcf.mjcf_elements import FORBIDDEN, add, unless
from warpsim.files.mjcf.mjcf_textures import SIX
from warpsim.model.builder_names import numbered_name
from warpsim.model.looks import PLAIN, PNG, Texture, VisualMaterial
from warpsim.model.pictures import png_size

GREY = (0.5, 0.5, 0.5, 1.0)  # of every material: a geom's own colour counts, unless it is MuJoCo's default


class Looks:
    """The materials of the assets, each once, and their images."""

    def __init__(self, shapes):
        self.shapes = shapes
        self.names: dict[VisualMaterial, str] = {}
        self.textures: dict[Texture, str] = {}

    def name(self, material: VisualMaterial) -> str:
        """What a material is called."""
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
        """What an image is called; None for one that MJCF has no place for."""
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
    """The images of what was written, as `Images` gives those of what is read."""

    def __init__(self, m, looks: Looks):
        self.m = m
        self.known: dict[int, Texture | None] = {}
        self.named = {name: texture._replace(name=name) for texture, name in looks.textures.items()}
        self.lines: list = []

    def get(self, index: int) -> Texture | None:
        name = mujoco.mj_id2name(self.m, mujoco.mjtObj.mjOBJ_TEXTURE, index) if index >= 0 else None
        return self.named.get(name)
