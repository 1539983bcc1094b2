# SPDX-License-Identifier: Apache-2.0
"""Read tetrahedra for pressure fields, by `meshio`: legacy VTK (`.vtk`) and Gmsh (`.msh`), text or binary."""

import pathlib

import numpy as np

from warpsim.base.errors import ModelError
from warpsim.files.limits import MAX_MESH_BYTES
from warpsim.files.safe_files import missing

SUFFIXES = (".vtk", ".msh")


def read_tetrahedra(path) -> tuple[np.ndarray, np.ndarray]:
    """`vertices (n, 3)` [m] and `tetrahedra (m, 4)` of a file; other cells, such as the surface's, are left out.

    Raises `ModelError` for a missing, broken or too large file, for a file without tetrahedra, or if the extra that
    reads it is not installed.
    """
    path = pathlib.Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise ModelError(
            f"{path}: tetrahedra are read from {' and '.join(SUFFIXES)}, not from {path.suffix or 'no suffix'!r}"
        )
    try:
        import meshio
    except ImportError:
        raise ModelError(f"{path}: reading tetrahedra needs meshio: pip install 'warpsim[mesh]'") from None
    if not path.is_file():
        raise ModelError(f"{path}: {missing(path)}")
    if path.stat().st_size > MAX_MESH_BYTES:
        raise ModelError(f"{path}: larger than {MAX_MESH_BYTES} bytes, the limit for this kind of file")
    try:
        mesh = (meshio.vtk if path.suffix.lower() == ".vtk" else meshio.gmsh).read(path)
        points = np.asarray(mesh.points, float)
        tets = [np.asarray(block.data, int) for block in mesh.cells if block.type == "tetra"]
        kinds = sorted({block.type for block in mesh.cells})
    except Exception as error:  # each reader raises errors of its own types
        message = " ".join(str(error).split())[:200]
        raise ModelError(f"{path}: not a {path.suffix[1:].upper()} mesh: {type(error).__name__} {message}") from None
    if not tets:
        raise ModelError(
            f"{path}: no linear tetrahedra, it has {', '.join(kinds) or 'no cells'}; export the volume mesh of order 1"
        )
    used, index = np.unique(np.concatenate(tets), return_inverse=True)
    if used[0] < 0 or used[-1] >= len(points):
        raise ModelError(f"{path}: a tetrahedron names vertex {used[-1]}, of {len(points)}")
    return points[used], index.reshape(-1, 4)
