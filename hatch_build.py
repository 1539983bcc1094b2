# SPDX-License-Identifier: Apache-2.0
"""Build hook: puts compiled kernels into the wheel if WARPSIM_OBJECTS names their folder (`make wheel`).

Such a wheel is for Linux on x86-64, under the tag of Warp's own wheel, and asks for the minor version of Warp that the
kernels were compiled with: another one would compile them again. Without the variable the wheel is for every platform.
"""

import os
import pathlib
import re

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

TAG = "py3-none-manylinux_2_28_x86_64"
KEY = re.compile(r"(\d+\.\d+)\.\w+-Linux-x86_64-[0-9a-f]+")


class KernelObjects(BuildHookInterface):
    def initialize(self, version: str, build_data: dict) -> None:
        chosen = os.environ.get("WARPSIM_OBJECTS")
        if not chosen or version == "editable" or self.target_name != "wheel":
            return
        folder = pathlib.Path(self.root, chosen)
        keys = sorted(path.parent.name for path in folder.glob("*/index.json"))
        found = {match and match[1] for match in map(KEY.fullmatch, keys)}
        if len(found) != 1 or None in found:
            raise ValueError(
                f"WARPSIM_OBJECTS is {chosen}, which has objects for {', '.join(keys) or 'nothing'}; a wheel has those "
                "of one minor version of Warp on Linux x86_64: python -m warpsim.tools.kernel_objects --out FOLDER"
            )
        for key in keys:
            build_data["force_include"][str(folder / key)] = f"warpsim/objects/{key}"
        build_data["pure_python"] = False
        build_data["tag"] = TAG
        build_data["dependencies"].append(f"warp-lang=={found.pop()}.*")
