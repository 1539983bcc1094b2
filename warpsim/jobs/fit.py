# SPDX-License-Identifier: Apache-2.0
"""`ws.fit_worlds`."""

from typing import Any

from warpsim.base.annotations import DeviceName
from warpsim.model.model import Model
from warpsim.run.shortage import most_worlds
from warpsim.simulator import Simulator


def fit_worlds(model: Model, device: DeviceName | None = None, *, memory: int | None = None, **options: Any) -> int:
    """Worlds of `model` that one `Simulator` of these options may have on a device.

    `memory` [bytes]: what it may take; None is nine tenths of what is free now. `options` are those of `Simulator`
    besides `worlds`. Two states are counted as well; further states, trajectories and what a tape keeps are beside it.
    Raises `MemoryError` where not even one world fits.
    """
    if "worlds" in options:
        raise ValueError("fit_worlds finds the number of worlds; leave worlds= out")
    return most_worlds(Simulator, model, device, memory, **options)
