# SPDX-License-Identifier: Apache-2.0
"""Sites and cameras: named frames on bodies, for tendons, actuators and sensors. They have no mass and no contact."""

import dataclasses

import numpy as np

from warpsim.base.checks import number, numbers, short
from warpsim.base.errors import ModelError
from warpsim.model.builder_values import pose_of, size_of, vector_of
from warpsim.model.model import GeomType

SITE_TYPES = (GeomType.SPHERE, GeomType.CAPSULE, GeomType.ELLIPSOID, GeomType.CYLINDER, GeomType.BOX)


@dataclasses.dataclass
class Site:
    name: str
    body: int
    pose: np.ndarray
    type: GeomType
    size: np.ndarray
    rgba: np.ndarray


@dataclasses.dataclass
class Camera:
    name: str
    body: int
    pose: np.ndarray
    fovy: float
    resolution: np.ndarray


def make_site(name: str, body: int, pose, type, size, rgba) -> Site:
    """A checked site; see `ModelBuilder.add_site`."""
    label = f"site {name!r}"
    known = {kind.name.lower(): kind for kind in SITE_TYPES}
    kind = type if isinstance(type, GeomType) else known.get(str(type).lower())
    if kind not in SITE_TYPES:
        raise ModelError(f"{label}: unknown type {type!r}; use one of {', '.join(known)}")
    return Site(
        name, body, pose_of(pose, label), kind, size_of(size, kind, label), vector_of(rgba, 4, f"{label}: rgba")
    )


def make_camera(name: str, body: int, pose, fovy, resolution) -> Camera:
    """A checked camera; see `ModelBuilder.add_camera`."""
    label = f"camera {name!r}"
    rule = "it must be an angle [rad] above 0 and below pi"
    fovy = number(fovy, f"{label}: fovy", rule, lambda x: 0 < x < np.pi, ModelError)
    pixels = numbers(resolution, f"{label}: resolution", ModelError)
    if pixels.shape != (2,) or not (pixels >= 1).all() or (pixels != np.round(pixels)).any():
        raise ModelError(
            f"{label}: resolution is {short(pixels.tolist())}; give width and height in whole pixels, 1 or more"
        )
    return Camera(name, body, pose_of(pose, label), fovy, pixels.astype(np.int32))
