# SPDX-License-Identifier: Apache-2.0
"""Names and values of prims: unique names, poses, vectors and quaternions as `pxr` takes them."""

import re

from warpsim.model.builder_names import numbered_name


class Names:
    """Valid, unique prim names under one parent, from arbitrary element names."""

    def __init__(self):
        self.taken: set[str] = set()

    def __call__(self, name: str) -> str:
        plain = re.sub(r"[^A-Za-z0-9_]", "_", name) or "unnamed"
        if plain[0].isdigit():
            plain = "_" + plain
        unique = numbered_name(plain, self.taken)
        self.taken.add(unique)
        return unique


def keep_name(prim, name: str) -> None:
    """Keep the element's name in customData, and as the display name if it is no valid prim name."""
    if prim.GetName() != name:
        prim.SetDisplayName(name)
    prim.SetCustomDataByKey("warpsim:name", name)


def quatf(quaternion):
    """`Gf.Quatf` of a quaternion (4,), scalar first."""
    from pxr import Gf

    w, x, y, z = (float(c) for c in quaternion)
    return Gf.Quatf(w, x, y, z)


def quatd(quaternion):
    """`Gf.Quatd` of a quaternion (4,), scalar first."""
    from pxr import Gf

    return Gf.Quatd(*(float(c) for c in quaternion))


def vec3(values, kind="f"):
    """`Gf.Vec3f` or `Gf.Vec3d` of three numbers."""
    from pxr import Gf

    return (Gf.Vec3f if kind == "f" else Gf.Vec3d)(*(float(x) for x in values))


def set_pose(prim, pose, scale=None):
    """Give an xformable translate and orient ops (and scale) with default values; returns the first two."""
    from pxr import UsdGeom

    translate = prim.AddTranslateOp(UsdGeom.XformOp.PrecisionDouble)
    orient = prim.AddOrientOp(UsdGeom.XformOp.PrecisionDouble)  # USD goes through acos(w): 3e-4 rad in single precision
    translate.Set(vec3(pose[:3], "d"))
    orient.Set(quatd(pose[3:]))
    if scale is not None:
        prim.AddScaleOp(UsdGeom.XformOp.PrecisionFloat).Set(vec3(scale))
    return translate, orient
