# SPDX-License-Identifier: Apache-2.0
"""Kernels over some of the worlds: a range of them, or a list. Both are the last arguments of a kernel.

Device code is written for all worlds. From the same text, on the left, Warp compiles the one on the right,

    def kernel(…):              def kernel(…, first_world: int, chosen_worlds: wp.array(dtype=int)):
        w, c = wp.tid()             w, c = wp.tid()
        body                        if chosen_worlds.shape[0] > 0:
                                        if w >= chosen_worlds[0]:
                                            return
                                        w = chosen_worlds[w + 1]
                                    else:
                                        w = w + first_world
                                    body

so that each CPU thread can launch it over its own worlds, and a step can repeat a part for the worlds that need it
(host: `warpsim/device/ranges.py`). `chosen_worlds` is empty, or has the number of worlds and then the worlds.
"""

import ast
import inspect
import textwrap

import warp as wp

FIRST = "first_world"
CHOSEN = "chosen_worlds"
WORLD = f"""
if {CHOSEN}.shape[0] > 0:
    if WORLD >= {CHOSEN}[0]:
        return
    WORLD = {CHOSEN}[WORLD + 1]
else:
    WORLD = WORLD + {FIRST}
"""


def parsed(source) -> ast.Module:
    """Syntax tree of a kernel without its decorators; `body[0]` is the function."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(source)))
    tree.body[0].decorator_list = []
    return tree


def is_index(node: ast.AST) -> bool:
    """Whether the node is a call of `wp.tid()`."""
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "wp.tid"


def shift(function: ast.FunctionDef) -> None:
    """Add `first_world` and `chosen_worlds` as last arguments, and find `w` by them.

    A kernel without `w` stays unchanged.
    """
    for place, statement in enumerate(function.body):
        if isinstance(statement, ast.Assign) and is_index(statement.value):
            target = statement.targets[0]
            world = ast.unparse(target.elts[0] if isinstance(target, ast.Tuple) else target)
            if world.split(".")[-1] == "w":
                function.body[place + 1 : place + 1] = ast.parse(WORLD.replace("WORLD", world)).body
                listed = ast.parse("wp.array(dtype=wp.int32)", mode="eval").body
                function.args.args += [ast.arg(FIRST, ast.Name("int", ast.Load())), ast.arg(CHOSEN, listed)]
            return


def takes_first_world(kernel: wp.Kernel) -> bool:
    """Whether a launch of the kernel can be over a range of worlds."""
    return bool({FIRST, CHOSEN} & {x.label for x in kernel.adj.args[-1:]})


def takes_list(kernel: wp.Kernel) -> bool:
    """Whether a launch of the kernel can be over a list of worlds."""
    return any(x.label == CHOSEN for x in kernel.adj.args[-1:])


def define(tree: ast.Module, source, scope: dict | None = None) -> tuple:
    """Compile a changed syntax tree; return the function and its text. `scope`: its globals, by default `source`'s."""
    text, made = ast.unparse(ast.fix_missing_locations(tree)), {}
    exec(compile(text, inspect.getsourcefile(source), "exec"), source.__globals__ if scope is None else scope, made)
    return made[source.__name__], text
