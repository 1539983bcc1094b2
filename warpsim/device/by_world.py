# SPDX-License-Identifier: Apache-2.0
"""Kernels with adjoints run one thread per world: gradients have the same bits on every run.

The adjoint of reading an array adds to its gradient. If threads of one launch read the same entry, as all contacts of a
world read its velocities, their adjoints would add to it by atomic instructions. The order of these on a GPU changes
from run to run, and the rounding with it. So a kernel written for threads over (worlds, n, ...) has an adjoint over
worlds alone, generated from the same text:

    w, c = wp.tid()             w = wp.tid()
    body                        for c in range(c_extent):           (up to the bound of the body's own `if c < n:`)
                                    body

`arguments` ensures that every array with a gradient has one row per world. A thread then adds to its own rows only, in
program order and without atomic instructions (`kernels/sums.py`). Parameters that all worlds share therefore have
gradients per world, `(worlds, …)`; `Parameters.shared_gradient` sums them, also in a fixed order.
"""

import ast
import importlib
import inspect
import sys

import warp as wp

from warpsim.device.ranges import first_and_count, listed_worlds, refuse_list
from warpsim.kernels import ranges
from warpsim.kernels.preamble import warp_module

SUMS = "plain_sums"  # a function of kernels/sums.py


def with_adjoint(entry, module_name: str) -> wp.Kernel:
    """Make the kernel with an adjoint from the text of a copy's kernel (`kernels.real.kernel`).

    `extents` of the result is the number of extents at the end of its arguments, see `arguments`.
    """
    source = entry.source
    tree, axes = serial(source)
    ranges.shift(tree.body[0])
    scope = vars(sys.modules[source.__module__]) | inspect.getclosurevars(source).nonlocals
    root = ".".join(source.__module__.split(".")[:2])
    scope[SUMS] = getattr(importlib.import_module(f"{root}.sums"), SUMS)
    function, text = ranges.define(tree, source, scope)
    options = {"enable_backward": True}
    made = wp.Kernel(func=function, key=source.__name__, module=warp_module(module_name), options=options, source=text)
    made.extents = len(axes)
    return made


def serial(source) -> tuple[ast.Module, list[str]]:
    """Rewrite a kernel as a loop within each world; return it and the names of the loop indices."""
    tree = ranges.parsed(source)
    function = tree.body[0]
    first = 1 if ast.get_docstring(function) is not None else 0
    head, (start, *body) = function.body[:first], function.body[first:]
    names = _indices(start)
    inner = ast.Module(body, [])
    if not names or any(isinstance(x, ast.Return) or ranges.is_index(x) for x in ast.walk(inner)):
        raise ValueError(
            f"{source.__module__}.{source.__name__} has an adjoint: it must begin with `w, … = wp.tid()`, the world "
            "first, ask for no other index, and leave out what it does not do by `if`, not by `return`"
        )
    extents, body = _extents(names, body)
    for axis, extent in reversed(extents.items()):
        loop = ast.parse(f"for {axis} in range({extent}): pass").body[0]
        loop.body, body = body, [loop]
    world, axes = names[0], list(extents)
    function.args.args += [ast.arg(_extent(axis), ast.Name("int", ast.Load())) for axis in axes]
    function.body = [*head, *ast.parse(f"{SUMS}()\n{world} = wp.tid()").body, *body]
    return ast.fix_missing_locations(tree), axes


def arguments(kernel: wp.Kernel, dim, inputs, options: dict) -> tuple:
    """Adapt `dim`, `inputs` and `options` of a launch.

    A kernel over worlds gets the first world and the list of worlds as additional arguments. A kernel with an adjoint
    is launched over worlds alone and gets the other extents as additional arguments.

    Raises `ValueError` for an array whose gradient has not one row per world: threads would add to it concurrently.
    """
    worlds, *extents = (dim,) if isinstance(dim, int) else dim
    further = []
    if hasattr(kernel, "extents"):
        if len(extents) != kernel.extents:
            raise ValueError(f"{kernel.key} is launched over {kernel.extents + 1} indices, got {dim}")
        for label, array in _arrays(kernel, inputs):
            if array.grad is not None and array.size and array.shape[0] != worlds:
                raise ValueError(
                    f"{kernel.key}: {label} has a gradient and the shape {array.shape}; its first axis must be that of "
                    f"the {worlds} worlds, for the gradient is added up per world"
                )
        further, extents = extents, []
    if ranges.takes_first_world(kernel):
        first, worlds = first_and_count(kernel, worlds)
        further = [*further, first]
    if ranges.takes_list(kernel):
        further = [*further, listed_worlds()]
    else:
        refuse_list(kernel)
    if "adj_inputs" in options:
        options = options | {"adj_inputs": [*options["adj_inputs"], *[None] * len(further)]}
    return (worlds, *extents), [*inputs, *further], options


def _arrays(kernel: wp.Kernel, inputs):
    """Yield (label, array) for the arrays among the arguments and in their structs."""
    found = [(argument.label, value) for argument, value in zip(kernel.adj.args, inputs, strict=False)]
    while found:
        label, value = found.pop()
        if isinstance(value, wp.array):
            yield label, value
        elif hasattr(value, "_cls"):
            found += ((f"{label}.{name}", getattr(value, name)) for name in value._cls.vars)


def _extents(names: list[str], body: list[ast.stmt]) -> tuple[dict[str, str], list[ast.stmt]]:
    """Extents of the loops by index, from the outermost, and their body.

    If the body is only `if c < n and …: …`, the loop over c ends at n, provided n is known before that loop: the
    expression uses no names that the body assigns, nor the indices of this loop and of inner ones.
    """
    extents = {axis: _extent(axis) for axis in names[1:]}
    while len(body) == 1 and isinstance(body[0], ast.If) and not body[0].orelse:
        (branch,) = body
        several = isinstance(branch.test, ast.BoolOp) and isinstance(branch.test.op, ast.And)
        first, *rest = branch.test.values if several else [branch.test]
        if not isinstance(first, ast.Compare) or [type(x) for x in first.ops] != [ast.Lt]:
            break
        axis, bound = ast.unparse(first.left), first.comparators[0]
        if axis not in extents:
            break
        made = {x.id for x in ast.walk(branch) if isinstance(x, ast.Name) and isinstance(x.ctx, ast.Store)}
        known = set(names[: names.index(axis)])
        if {x.id for x in ast.walk(bound) if isinstance(x, ast.Name)} & ((made | set(names)) - known):
            break
        extents[axis] = f"wp.min({extents[axis]}, {ast.unparse(bound)})"
        if rest:
            branch.test = rest[0] if len(rest) == 1 else ast.BoolOp(ast.And(), rest)
        else:
            body = branch.body
    return extents, body


def _extent(axis: str) -> str:
    return f"{axis}_extent"


def _indices(statement: ast.stmt) -> list[str]:
    """Names of the indices in `w, … = wp.tid()`."""
    if not isinstance(statement, ast.Assign) or not ranges.is_index(statement.value):
        return []
    target = statement.targets[0]
    return [x.id for x in (target.elts if isinstance(target, ast.Tuple) else [target])]
