"""`cached`: kernels are declared once per process and scalar type, whichever thread asks first.

`functools.cache` runs a factory once per thread that comes before the first is done: two sets of kernels and structs of
the same names in one Warp module, which then do not fit each other.
"""

import functools
import threading

import warp as wp

# Warp's own lock around hashing and code generation, so that no module is hashed while kernels are added to it.
_DECLARING = getattr(wp._src.codegen, "_codegen_lock", None) or threading.RLock()


def cached(factory):
    """`factory`, run once per arguments; any thread that asks meanwhile waits for the one result."""
    made = {}

    @functools.wraps(factory)
    def result(*arguments, **named):
        key = (arguments, *sorted(named.items()))
        if key not in made:
            with _DECLARING:
                if key not in made:
                    made[key] = factory(*arguments, **named)
        return made[key]

    return result
