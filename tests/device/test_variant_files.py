# SPDX-License-Identifier: Apache-2.0
"""Variants of the device code copy what differs in them alone."""

import ast
import functools

import pytest
import warp as wp

from warpsim.device import variant_files
from warpsim.device.copies import copy, variant
from warpsim.kernels import flags
from warpsim.kernels.laws import cone
from warpsim.kernels.linalg import lanes, loops
from warpsim.kernels.solve.sap import lagged

FILES = sorted(
    ".".join(path.relative_to(variant_files.ROOT).with_suffix("").parts)
    for path in variant_files.ROOT.rglob("*.py")
    if path.name != "__init__.py"
)


@functools.cache
def nodes(file: str) -> list:
    return list(ast.walk(ast.parse(variant_files.text_of(file))))


def test_a_variant_takes_unchanged_files_from_the_plain_copy():
    """The solver by conjugate gradients is another file, its loops and laws are not."""
    plain, by_cg = wp.float64, variant(wp.float64, cg=True)
    assert copy(lagged, by_cg) is not copy(lagged, plain)
    for file in (loops, lanes, cone, flags):
        assert copy(file, by_cg) is copy(file, plain)
    assert copy(lagged, by_cg).lane is copy(lanes, plain).lane


def test_fewer_lanes_change_what_has_lanes():
    """With 8 lanes the files that count lanes differ; others are those of the copy with a whole warp."""
    few, whole = variant(wp.float32, cg=True, lanes=8), variant(wp.float32, cg=True)
    assert copy(lanes, few) is not copy(lanes, whole)
    assert copy(cone, few) is copy(cone, whole) is copy(cone, wp.float32)


@pytest.mark.parametrize("option", variant_files.READS)
def test_files_that_read_a_constant_depend_on_it(option):
    """By the syntax trees of all files: whoever reads a constant, and whoever imports one that does."""
    names = {"spin": {"SPIN"}, "cg": {"BY_CG"}, "shaped": {"SHAPED"}, "dual": {"NUM", "DUAL", "CALLED"}}
    names |= {"lanes": {"LANES", "WHOLE"}}
    options = frozenset({option})
    readers = set()
    for file in FILES:
        if file == variant_files.CONSTANTS:
            continue
        for node in nodes(file):
            reads = isinstance(node, ast.Name) and node.id in names[option]
            reads |= isinstance(node, ast.Attribute) and node.attr in names[option]
            reads |= option == "lanes" and isinstance(node, ast.keyword) and node.arg in ("lanes", "shares")
            if reads:
                readers.add(file)
    assert readers
    for file in FILES:
        if readers & set(variant_files.needed_by(file)):
            assert variant_files.depends(file, options), file


def test_imports_are_those_of_the_syntax_trees():
    """Every relative import of every file is found, also over several lines and under another name."""
    for file in FILES:
        inside = file.split(".")[:-1]
        for node in nodes(file):
            if isinstance(node, ast.ImportFrom) and node.level:
                source = [*inside[: len(inside) - node.level + 1], *filter(None, (node.module or "").split("."))]
                for name in node.names:
                    whole = ".".join([*source, name.name])
                    expected = whole if variant_files.text_of(whole) else ".".join(source)
                    assert expected in variant_files.imports_of(file), (file, whole)
