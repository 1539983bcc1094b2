"""The scalar type of the device code and every type that follows from it.

Each kernel file is a cached factory `build(S)` over the scalar type S (`wp.float32` or `wp.float64`); it takes its
vector, matrix and transform types from `types(S)` and names its Warp module with `module_name`, because two
dtypes in one module recompile each other.
"""

from types import SimpleNamespace

import warp as wp

from warpsim.kernels.cache import cached

SCALARS = {"float32": wp.float32, "float64": wp.float64}


@cached
def types(S) -> SimpleNamespace:
    """Vector, matrix and rigid-transform types of scalar type S; spatial vectors are (angular, linear) 6-vectors."""
    return SimpleNamespace(
        scalar=S,
        vec2=wp.types.vector(2, S),
        vec3=wp.types.vector(3, S),
        vec4=wp.types.vector(4, S),
        vec6=wp.types.vector(6, S),
        vec10=wp.types.vector(10, S),
        mat33=wp.types.matrix((3, 3), S),
        mat66=wp.types.matrix((6, 6), S),
        quat=wp.types.quaternion(S),
        transform=wp.types.transformation(S),
    )


def module_name(stem: str, S, grad: bool = False) -> str:
    """Name of the Warp module that holds the kernels of one file for one scalar type, with or without adjoints."""
    return f"warpsim.kernels.{stem}_{S.__name__}{'_grad' if grad else ''}"
