# SPDX-License-Identifier: Apache-2.0
"""Elements of MJCF for `mjcf_write`: values as text without loss, and names that XML can hold."""

import re
import xml.etree.ElementTree as xml

import numpy as np

from warpsim.base.checks import short
from warpsim.base.errors import ModelError

HUGE = 1e30  # replaces an infinite end of a range
LEAST = 1e-30  # least width of a range
FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # in XML 1.0


def add(parent: xml.Element, tag: str, **attributes) -> xml.Element:
    """Append an element. Attributes that are None are left out; a trailing `_` of a key is removed."""
    found = {key.rstrip("_"): text_of(value) for key, value in attributes.items() if value is not None}
    return xml.SubElement(parent, tag, found)


def text_of(value) -> str:
    """A value as MuJoCo reads it, in as many digits as the value needs."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    return " ".join(_digits(x) for x in np.ravel(value).tolist())


def _digits(x: float) -> str:
    x = min(max(x, -HUGE), HUGE)
    return repr(int(x)) if float(x).is_integer() and abs(x) < 2**53 and not (x == 0 and str(x)[0] == "-") else repr(x)


def unless(value, default):
    """The value; None if it equals MuJoCo's `default`."""
    return None if np.array_equal(value, default) else value


def pose_of(pose) -> dict:
    """The attributes of a pose."""
    return {"pos": unless(pose[:3], np.zeros(3)), "quat": unless(pose[3:], [1.0, 0.0, 0.0, 0.0])}


def short_of(array) -> np.ndarray:
    """Single-precision numbers in as few digits as identify them; other numbers unchanged."""
    array = np.asarray(array)
    single = array.astype(np.float32)
    if array.dtype != np.float32 and (single != array).any():
        return array
    return np.array([float(str(x)) for x in single.ravel()]).reshape(array.shape)


def limits_of(interval):
    """A range, or None if neither end is finite; a range of equal ends becomes the narrowest that MuJoCo accepts."""
    low, high = interval
    if not np.isfinite(interval).any():
        return None
    return (low, max(np.nextafter(high, np.inf), high + LEAST) if low == high else high)


def check_names(names: dict[str, tuple[str, ...]]) -> None:
    """Raise `ModelError` that names an element whose name XML cannot hold."""
    for element, found in names.items():
        for name in found:
            if FORBIDDEN.search(name):
                raise ModelError(f"{element} {short(name)}: XML has no words for a character of its name; rename it")
