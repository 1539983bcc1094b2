"""The law of an actuator of a `ModelBuilder`: gain and bias from its kind."""

import numpy as np

from warpsim.checks import number, numbers, short
from warpsim.errors import ModelError

USES = {"effort": (), "position": ("kp", "kv"), "velocity": ("kv",), "affine": ("gain", "bias")}


def actuator_law(kind, kp, kv, gain, bias, label: str) -> tuple[np.ndarray, np.ndarray]:
    """Gain and bias, each (3,); what the kind has no use for must not be given."""
    if not isinstance(kind, str) or kind not in USES:
        raise ModelError(f"{label}: unknown kind {short(kind)}; use {', '.join(USES)}")
    rule = "gains must be finite and not negative"
    kp, kv = (
        number(x, f"{label}: {n}", rule, lambda x: 0 <= x < np.inf, ModelError) for n, x in (("kp", kp), ("kv", kv))
    )
    given = {"kp": kp != 0, "kv": kv != 0, "gain": gain is not None, "bias": bias is not None}
    for key in (key for key, value in given.items() if value and key not in USES[kind]):
        raise ModelError(f"{label}: {key} means nothing for an actuator of kind {kind!r}; leave it out")
    law = {
        "effort": ([1.0, 0.0, 0.0], [0.0, 0.0, 0.0]),
        "position": ([kp, 0.0, 0.0], [0.0, -kp, -kv]),
        "velocity": ([kv, 0.0, 0.0], [0.0, 0.0, -kv]),
        "affine": (gain, bias),
    }[kind]
    law = [numbers(x, f"{label}: {name}", ModelError) for name, x in zip(("gain", "bias"), law, strict=True)]
    for name, x in zip(("gain", "bias"), law, strict=True):
        if x.shape != (3,) or not np.isfinite(x).all():
            raise ModelError(f"{label}: {name} is {short(x.tolist())}; give 3 finite values")
    return law[0].copy(), law[1].copy()
