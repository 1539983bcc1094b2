# SPDX-License-Identifier: Apache-2.0
"""Statistics of recorded diagnostics, by the array module of the array: on the device, where that is CuPy."""

from typing import Any

import numpy as np

from warpsim.device.array_module import module_of, to_host
from warpsim.state.state import FLAG_NAMES


def spread(values: Any, quantiles: np.ndarray, per_world: bool) -> dict[str, Any]:
    """Mean, greatest value and quantiles of `values (steps, worlds)`, without those that are not finite.

    Quantiles are interpolated linearly, as by `numpy.quantile`. Without finite values all are NaN.
    """
    module = module_of(values)
    values = module.ascontiguousarray(values.T) if per_world else values.reshape(1, -1)
    good = module.isfinite(values)
    count = good.sum(axis=1)
    whole = bool(good.all())
    total = (values if whole else module.where(good, values, 0)).sum(axis=1, dtype=np.float64)
    most = (values if whole else module.where(good, values, -module.inf)).max(axis=1)
    found = {"mean": total / module.maximum(count, 1), "max": most}
    found = {name: module.where(count > 0, x, module.nan) for name, x in found.items()}
    found["not_finite"] = values.shape[1] - count
    if len(quantiles):
        ordered = module.sort(values if whole else module.where(good, values, module.nan), axis=1)  # NaN comes last
        last = module.maximum(count - 1, 0)[:, None]
        place = last * module.asarray(quantiles)
        low = place.astype(np.int64)
        below, above = (
            module.take_along_axis(ordered, at, axis=1).astype(np.float64)
            for at in (low, module.minimum(low + 1, last))
        )
        found["quantiles"] = (below + (place - low) * (above - below)).T
    host = {name: to_host(array) for name, array in found.items()}
    if per_world:
        return host
    return {name: array[..., 0] if array.ndim > 1 else array[0].item() for name, array in host.items()}


def flag_counts(values: Any, per_world: bool) -> dict[str, Any]:
    """For each flag, by name: the number of worlds that raised it in a row of `values (steps, worlds)`; with
    `per_world` the number of rows `(worlds,)` with it."""
    raised = to_host((values != 0).any(axis=0))
    few = values[:, module_of(values).asarray(np.flatnonzero(raised))]
    found = {}
    for bit, name in FLAG_NAMES.items():
        rows = np.zeros(len(raised), int)
        rows[raised] = to_host(((few & bit) != 0).sum(axis=0))
        found[name] = rows if per_world else int(np.count_nonzero(rows))
    return found
