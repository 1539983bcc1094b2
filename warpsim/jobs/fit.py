# SPDX-License-Identifier: Apache-2.0
"""`ws.fit_worlds`: the number of worlds that fit into memory."""

from __future__ import annotations

from typing import Any

from warpsim.base.annotations import DeviceName
from warpsim.model.model import Model
from warpsim.run.shortage import most_worlds
from warpsim.simulator import Simulator


def fit_worlds(model: Model, device: DeviceName | None = None, *, memory: int | None = None, **options: Any) -> int:
    """The number of worlds of `model` that one `Simulator` with these options can have on a device.

    `memory` [bytes]: what the simulator may use. Default: nine tenths of the memory that is free now. `options`: those
    of `Simulator`, except `worlds`. Two states are included; further states, trajectories and the records of a tape are
    not. Raises `MemoryError` if not even one world fits.
    """
    if "worlds" in options:
        raise ValueError("fit_worlds finds the number of worlds; leave worlds= out")
    return most_worlds(Simulator, model, device, memory, **options)
