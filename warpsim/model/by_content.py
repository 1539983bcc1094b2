# SPDX-License-Identifier: Apache-2.0
"""Per-process cache of expensive results computed from arrays, keyed by the arrays' content."""

import collections
import hashlib
import threading
from collections.abc import Callable
from typing import Any

import numpy as np


def content(array, *more: int) -> bytes:
    """A key shared by equal arrays (as doubles) and equal integers."""
    array = np.ascontiguousarray(array, float)
    return hashlib.sha256(array.tobytes()).digest() + b"".join(
        int(x).to_bytes(8, "little") for x in (len(array), *more)
    )


class Kept:
    """The last `most` results by key; thread-safe. Callers share the results and must not write to them."""

    def __init__(self, most: int):
        self.most = most
        self._found: collections.OrderedDict[bytes, Any] = collections.OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: bytes, make: Callable[[], Any]) -> Any:
        """The cached result for the key, else the result of `make()`, which is then cached."""
        with self._lock:
            if key in self._found:
                self._found.move_to_end(key)
                return self._found[key]
        made = make()
        with self._lock:
            self._found[key] = made
            while len(self._found) > self.most:
                self._found.popitem(last=False)
        return made
