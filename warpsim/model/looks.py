# SPDX-License-Identifier: Apache-2.0
"""How geoms look besides their color: images and surface shine. Nothing here affects physics.

An image is kept as the bytes of its file. Tuples compare and hash them by content, so a model keeps equal images once.
"""

import dataclasses
import os
import pathlib
import struct
import typing
import zlib

import numpy as np

from warpsim.base.checks import choice, flag, number, short
from warpsim.base.errors import ModelError
from warpsim.base.reprs import fields_described
from warpsim.model.pictures import JPEG, PNG, check_picture, png_chunk, png_size

KINDS = ("2d", "cube")
SUFFIX = {PNG: ".png", JPEG: ".jpg"}


@fields_described
class Texture(typing.NamedTuple):
    """An image for a `VisualMaterial`.

    Parameters
    ----------
    name : str
        Name of the image.
    data : bytes
        A PNG or JPEG file.
    kind : str
        "2d" (default) or "cube": a PNG of six squares below each other, +x, −x, +y, −y, +z, −z as in cube maps, or of
        one square for all six.

    Examples
    --------
    >>> checker = np.kron([[0, 1], [1, 0]], np.full((8, 8), 255)).astype(np.uint8)
    >>> ws.Texture.of_pixels(np.repeat(checker[..., None], 3, axis=-1), name="checker").suffix
    '.png'
    """

    name: str
    data: bytes
    kind: str = "2d"

    @classmethod
    def read(cls, path: str | os.PathLike[str], kind: str = "2d") -> "Texture":
        """Read an image file.

        Parameters
        ----------
        path : path
            A PNG or JPEG file.
        kind : str
            "2d" (default) or "cube".

        Returns
        -------
        Texture
            The image, named after the file.

        Raises
        ------
        ModelError
            There is no such file, or it is no image of that kind.

        Examples
        --------
        >>> import pathlib
        >>> image = ws.Texture.of_pixels(np.zeros((8, 8, 3), np.uint8))
        >>> _ = pathlib.Path("black.png").write_bytes(image.data)
        >>> ws.Texture.read("black.png").name
        'black'
        """
        file = pathlib.Path(path)
        try:
            return checked_texture(cls(file.stem, file.read_bytes(), kind), str(file))
        except OSError as error:
            raise ModelError(f"{file}: {error.strerror}") from None

    @classmethod
    def of_pixels(cls, pixels: typing.Any, name: str = "texture", kind: str = "2d") -> "Texture":
        """Make an image from pixels.

        Parameters
        ----------
        pixels : array of uint8 (height, width, 3 or 4)
            Values from 0 to 255 as displayed (sRGB), the top row first.
        name : str
            Name of the image. Default: "texture".
        kind : str
            "2d" (default) or "cube".

        Returns
        -------
        Texture
            The image, as PNG.

        Raises
        ------
        ModelError
            The shape does not fit the kind.

        Examples
        --------
        >>> ws.Texture.of_pixels(np.zeros((8, 8, 3), np.uint8), name="black").kind
        '2d'
        """
        return checked_texture(cls(name, encode_png(pixels), kind), f"texture {name!r}")

    @property
    def suffix(self) -> str:
        """Suffix of the image's file format: `.png` or `.jpg`."""
        return next(suffix for magic, suffix in SUFFIX.items() if self.data.startswith(magic))

    def __repr__(self) -> str:
        return f"Texture({short(self.name)}, {len(self.data)} bytes, {self.kind})"


@dataclasses.dataclass(frozen=True)
class VisualMaterial:
    """How a geom looks besides its `rgba`, for `add_geom(..., material=...)`.

    Parameters
    ----------
    texture : Texture, optional
        An image, multiplied by `rgba`. Default: none.
    repeat : (float, float)
        Number of repetitions of the image in x and y over a geom. With `uniform`: per meter of half the geom's size.
        They are MuJoCo's `texrepeat` and `texuniform` (docs/usd_export.md). Default: (1, 1).
    uniform : bool
        Whether `repeat` counts per meter. Default: False.
    emission, specular, shininess, reflectance : float
        From 0 to 1, as in MuJoCo. Default: 0, 0.5, 0.5, 0.
    metallic, roughness : float, optional
        From 0 to 1. Default: not specified.

    Raises
    ------
    ModelError
        A value is not allowed. The message names it and the fix.

    Examples
    --------
    >>> builder = ws.ModelBuilder()
    >>> gold = ws.VisualMaterial(metallic=1.0, roughness=0.2)
    >>> builder.add_geom("sphere", [0.1], pose=[0, 0, 1], rgba=[0.9, 0.7, 0.2, 1], material=gold)
    0
    """

    texture: Texture | None = None
    repeat: tuple[float, float] = (1.0, 1.0)
    uniform: bool = False
    emission: float = 0.0
    specular: float = 0.5
    shininess: float = 0.5
    reflectance: float = 0.0
    metallic: float | None = None
    roughness: float | None = None

    def __post_init__(self) -> None:
        values: dict = {"uniform": flag(self.uniform, "VisualMaterial: uniform", ModelError)}
        if self.texture is not None:
            checked_texture(self.texture, "VisualMaterial: texture")
        try:
            first, second = (float(x) for x in self.repeat)
        except (TypeError, ValueError):
            raise ModelError(f"VisualMaterial: repeat is {short(self.repeat)}; give two numbers") from None
        rule = "it must be positive and finite"
        values["repeat"] = tuple(
            number(x, "VisualMaterial: repeat", rule, lambda x: 0 < x < np.inf, ModelError) for x in (first, second)
        )
        for name in ("emission", "specular", "shininess", "reflectance", "metallic", "roughness"):
            value = getattr(self, name)
            if value is not None or name not in ("metallic", "roughness"):
                rule = "it must be finite and not negative"
                good = lambda x: 0 <= x < np.inf  # noqa: E731
                values[name] = number(value, f"VisualMaterial: {name}", rule, good, ModelError)
        for name, value in values.items():
            object.__setattr__(self, name, value)


PLAIN = VisualMaterial()  # equivalent to no material
FIELDS = tuple(field.name for field in dataclasses.fields(VisualMaterial) if field.name != "texture")


def checked_texture(texture: Texture, label: str) -> Texture:
    """The texture; `ModelError` where its data is no image of a known kind."""
    if not isinstance(texture, Texture):
        raise ModelError(f"{label} is {short(texture)}; give a ws.Texture, as ws.Texture.read(path) makes it")
    choice(texture.kind, f"{label}: kind", KINDS, ModelError)
    if not isinstance(texture.data, bytes) or not texture.data.startswith((PNG, JPEG)):
        raise ModelError(f"{label}: is no PNG or JPEG image; convert it")
    check_picture(texture.data, label)
    width, height = png_size(texture.data)
    if (texture.data.startswith(PNG) and width < 1) or (texture.kind == "cube" and height not in (width, 6 * width)):
        raise ModelError(
            f"{label}: a {texture.kind} PNG of {width} x {height} pixels; a cube needs 1 or 6 squares below each other"
        )
    return texture


def checked_material(material, label: str) -> VisualMaterial | None:
    """A geom's material; None for a material that specifies nothing."""
    if material is not None and not isinstance(material, VisualMaterial):
        raise ModelError(f"{label}: material is {short(material)}; give a ws.VisualMaterial")
    return None if material == PLAIN else material


def compile_looks(geoms) -> dict:
    """The fields of a model: its distinct materials, with equal images shared, and the material of each geom."""
    images: dict[Texture, Texture] = {}
    found: dict[VisualMaterial, int] = {}
    indices = np.full(len(geoms), -1, np.int32)
    for g, geom in enumerate(geoms):
        if geom.material is not None:
            indices[g] = found.setdefault(geom.material, len(found))
    shared = [
        dataclasses.replace(material, texture=images.setdefault(material.texture, material.texture))
        if material.texture is not None
        else material
        for material in found
    ]
    return {"visual_materials": tuple(shared), "geom_visual_material": indices}


def material_of(model, geom: int) -> VisualMaterial | None:
    """The material of a model's geom."""
    index = int(model.geom_visual_material[geom])
    return model.visual_materials[index] if index >= 0 else None


def textures_of(materials) -> list[Texture]:
    """The distinct images of some materials."""
    return list(dict.fromkeys(material.texture for material in materials if material.texture is not None))


def look_row(material: VisualMaterial, image) -> list:
    """A material as a JSON row, with `image` in place of the texture."""
    values = [getattr(material, key) for key in FIELDS]
    return [image, *(list(value) if isinstance(value, tuple) else value for value in values)]


def look_table(materials) -> tuple[list[Texture], list[list | None]]:
    """The distinct images of some materials; per material a row with the index of its image (-1: none), or None."""
    images = textures_of(material for material in materials if material is not None)
    places = [-1 if m is None or m.texture is None else images.index(m.texture) for m in materials]
    return images, [None if m is None else look_row(m, k) for m, k in zip(materials, places, strict=True)]


def looks_of(images, rows) -> list[VisualMaterial | None]:
    """The materials of a `look_table`; entries of `images` may be None."""
    return [row and _look(None if row[0] is None or row[0] < 0 else images[row[0]], row[1:]) for row in rows]


def _look(image: Texture | None, values) -> VisualMaterial:
    return VisualMaterial(image, **dict(zip(FIELDS, values, strict=True)))


def encode_png(pixels) -> bytes:
    """A PNG file of `pixels (height, width, 1, 3 or 4)`, 0..255; the same bytes for the same pixels."""
    pixels = np.asarray(pixels)
    if pixels.ndim != 3 or pixels.shape[2] not in (1, 3, 4) or 0 in pixels.shape or pixels.dtype != np.uint8:
        raise ModelError(
            f"an image of {pixels.dtype} and the shape {pixels.shape}; give uint8 (height, width, 3), 0 to 255"
        )
    height, width, channels = pixels.shape
    rows = np.zeros((height, 1 + width * channels), np.uint8)  # each begins with its filter, none
    rows[:, 1:] = pixels.reshape(height, -1)
    head = struct.pack(">IIBBBBB", width, height, 8, {1: 0, 3: 2, 4: 6}[channels], 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(rows.tobytes(), 6)), (b"IEND", b""))
    return PNG + b"".join(png_chunk(key, data) for key, data in parts)
