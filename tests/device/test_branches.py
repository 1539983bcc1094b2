# SPDX-License-Identifier: Apache-2.0
"""Branches of device code: Warp 1.19 reads a condition that is a field or an entry anew for `else`, after the branch itself has run."""

import ast
import pathlib

import pytest

KERNELS = pathlib.Path(__file__).parent.parent.parent / "kernels"


def both_branches(text: str) -> list[str]:
    """Conditions whose `if` and `else` would both run: fields or entries that their own branch writes to."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.If) and node.orelse and isinstance(node.test, ast.Attribute | ast.Subscript):
            condition = ast.unparse(node.test)
            inside = [x for statement in node.body for x in ast.walk(statement)]
            written = [t for x in inside if isinstance(x, ast.Assign) for t in x.targets]
            written += [x.target for x in inside if isinstance(x, ast.AugAssign)]
            if condition in map(ast.unparse, written):
                found.append(f"line {node.lineno}: {condition}")
    return found


@pytest.mark.parametrize("condition", ["x.found", "flags[w]"])
def test_such_branches_are_seen(condition):
    text = f"if {condition}:\n    {condition} = False\nelse:\n    y = 1\n"
    assert both_branches(text) == [f"line 1: {condition}"]
    assert both_branches(text.replace(f"if {condition}", f"if {condition} == 1")) == []


@pytest.mark.parametrize("file", sorted(KERNELS.rglob("*.py")), ids=lambda path: path.stem)
def test_no_kernel_has_them(file):
    assert both_branches(file.read_text()) == []
