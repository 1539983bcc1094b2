# SPDX-License-Identifier: Apache-2.0
"""Printing of objects that hold arrays: one short line with shapes in place of numbers. Descriptions of the
fields of named tuples."""

import inspect
import re
import typing

T = typing.TypeVar("T", bound=type)


def fields_described(kind: T) -> T:
    """Give each field of a named tuple, which Python calls an alias for a number, its description in the docstring."""
    text = inspect.cleandoc(kind.__doc__ or "")
    for name in kind._fields:  # type: ignore[attr-defined]
        getattr(kind, name).__doc__ = " ".join(re.search(rf"^{name} : .*\n((?: +.*\n?)+)", text, re.M)[1].split())
    return kind


def show(owner: str, values: dict) -> str:
    """`Owner(name=value, ...)`; arrays are printed as shapes, and None is left out."""
    parts = []
    for name, value in values.items():
        if isinstance(value, dict):
            value = "{" + ", ".join(f"{key}: {_brief(x)}" for key, x in value.items()) + "}"
        if value is not None:
            parts.append(f"{name}={_brief(value)}")
    return f"{owner}({', '.join(parts)})"


def _brief(value) -> str:
    shape = getattr(value, "shape", None)
    return str(tuple(shape)) if isinstance(shape, tuple) else str(value)


class ShownByShapes:
    """A dataclass whose repr prints the shapes of its arrays."""

    def __repr__(self) -> str:
        return show(type(self).__name__, {name: getattr(self, name) for name in self.__dataclass_fields__})
