# SPDX-License-Identifier: Apache-2.0
"""Checks of arguments, shared by all public calls. Each error names the argument, its value and the fix.

`name`: the argument's name in the message. `error`: `ValueError` (arguments) or `ModelError` (models).
"""

import difflib
import operator
import re

import numpy as np

MANY, NEAREST = 30, 20  # number of choices in a message
LISTED = 12  # number of names in a message before it only counts the rest


def flag(value, name: str, error=ValueError) -> bool:
    """A truth value: only True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise error(f"{name} is {short(value)}; give True or False")
    return bool(value)


def whole(value, name: str, least: int | None = None, error=ValueError) -> int:
    """A whole number of an integer type, at least `least`."""
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        value = operator.index(value)
    except TypeError:
        raise error(f"{name} is {short(value)}; it must be a whole number") from None
    if least is not None and value < least:
        raise error(f"{name} is {value}; it must be at least {least}")
    return value


def number(value, name: str, rule: str = "it must be a finite number", holds=np.isfinite, error=ValueError) -> float:
    """One number for which `holds` is true; `rule` states that in words. Strings and truth values are refused."""
    try:
        array = numbers(value, name, error)
        found = float(array) if array.ndim == 0 else np.nan
        good = array.ndim == 0 and bool(holds(found))
    except ValueError:
        good = False
    if not good:
        raise error(f"{name} is {short(value)}; {rule}")
    return found


def numbers(value, name: str, error=ValueError, dtype=float) -> np.ndarray:
    """An array of numbers.

    Strings (even of digits), a single truth value, complex numbers and masked entries are refused.
    """
    try:
        if np.ma.is_masked(value):
            raise TypeError
        array = np.asarray(value)
        text = array.dtype.kind in "SUMm" or (array.dtype.kind == "O" and any(isinstance(x, str) for x in array.flat))
        if text or array.dtype.kind == "c" or (array.ndim == 0 and array.dtype.kind == "b"):
            raise TypeError
        return np.asarray(array, dtype)
    except (TypeError, ValueError, OverflowError):
        raise error(f"{name} is {short(value)}; give numbers") from None


def tolerance(value, name: str, error=ValueError) -> None:
    """None, or a number between 0 and 1."""
    if value is not None:
        number(value, name, "give a number between 0 and 1, or None", lambda x: 0.0 < x < 1.0, error)


def positive(value, name: str, unit: str = "", error=ValueError) -> float:
    """A positive finite number."""
    rule = "it must be positive and finite" + (f" [{unit}]" if unit else "")
    return number(value, name, rule, lambda x: 0.0 < x < np.inf, error)


def choice(value, name: str, known, error=ValueError):
    """One of the `known` values."""
    if not any(value is k or (type(value) is type(k) and value == k) for k in known):
        raise error(f"{name} is {short(value)}; choose one of {_nearest(str(value), list(known))}")
    return value


def _nearest(text: str, known: list) -> str:
    """All known values; of more than `MANY` the `NEAREST` that are most similar to `text`, and the number of others."""
    if len(known) <= MANY:
        return str(known)
    likely = sorted(known, key=lambda x: -difflib.SequenceMatcher(None, text, str(x)).ratio())[:NEAREST]
    return f"{[x for x in known if x in likely]} and {len(known) - NEAREST} more"


def listed(names, most: int = LISTED) -> str:
    """The names, comma-separated: the first `most` and the number of others."""
    names = [str(name) for name in names]
    rest = len(names) - most
    text = ", ".join(names[:most]) or "none"
    return f"{text} and {rest} more" if rest > 0 else text


def several(value, name: str, rule: str = "give a list", error=ValueError) -> tuple:
    """The entries of any iterable; a string or a number is one entry."""
    if isinstance(value, (str, int, float, np.generic)):
        return (value,)
    try:
        return tuple(value)
    except TypeError:
        raise error(f"{name} is {short(value)}; {rule}") from None


def short(value) -> str:
    """The value for a message: on one line of about a hundred characters at most."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 120 else f"{text[:100]} ... ({len(text)} characters)"


def grouped(refusals, join: str = " ") -> list[str]:
    """One sentence per kind of element and defect, from (element, defect, fix), however many elements have it.

    An element is named by its kind and name, as in "joint 'knee'". The sentence quotes the first element of a group.
    The others may differ from it in the names and numbers of their defect.
    """
    groups: dict[tuple[str, str, str], list] = {}
    for element, what, fix in refusals:
        defect = re.sub(r"'[^']*'|[-+]?\d[\d.e+-]*", "", what)
        groups.setdefault((element.split(" ", 1)[0], defect, fix), []).append((element, what))
    lines = []
    for (_, _, fix), members in groups.items():
        first, what = members[0]
        others = [element.split(" ", 1)[-1] for element, _ in members[1:]]
        lines.append(f"{first}{join}{what}" + (f" (likewise {listed(others)})" if others else "") + f"; {fix}")
    return lines
