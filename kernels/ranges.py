# SPDX-License-Identifier: Apache-2.0
"""Kernels over a range of worlds: the first world of the launch is their last argument.

Device code is written for all worlds. From the same text, on the left, Warp compiles the one on the right,

    def kernel(…):              def kernel(…, first_world: int):
        w, c = wp.tid()             w, c = wp.tid()
        body                        w = w + first_world
                                    body

so that each CPU thread can launch it over its own worlds (host: `warpsim/device/ranges.py`).
"""

import ast
import inspect
import textwrap

import warp as wp

FIRST = "first_world"


def parsed(source) -> ast.Module:
    """Syntax tree of a kernel without its decorators; `body[0]` is the function."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(source)))
    tree.body[0].decorator_list = []
    return tree


def is_index(node: ast.AST) -> bool:
    """Whether the node is a call of `wp.tid()`."""
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "wp.tid"


def shift(function: ast.FunctionDef) -> None:
    """Add `first_world` as last argument and add it to the world index `w`; a kernel without `w` stays unchanged."""
    for place, statement in enumerate(function.body):
        if isinstance(statement, ast.Assign) and is_index(statement.value):
            target = statement.targets[0]
            world = ast.unparse(target.elts[0] if isinstance(target, ast.Tuple) else target)
            if world.split(".")[-1] == "w":
                function.body.insert(place + 1, ast.parse(f"{world} = {world} + {FIRST}").body[0])
                function.args.args.append(ast.arg(FIRST, ast.Name("int", ast.Load())))
            return


def takes_first_world(kernel: wp.Kernel) -> bool:
    """Whether a launch of the kernel can be over a range of worlds."""
    arguments = kernel.adj.args
    return bool(arguments) and arguments[-1].label == FIRST


def define(tree: ast.Module, source, scope: dict | None = None) -> tuple:
    """Compile a changed syntax tree; return the function and its text. `scope`: its globals, by default `source`'s."""
    text, made = ast.unparse(ast.fix_missing_locations(tree)), {}
    exec(compile(text, inspect.getsourcefile(source), "exec"), source.__globals__ if scope is None else scope, made)
    return made[source.__name__], text
