# SPDX-License-Identifier: Apache-2.0
"""`ws.fit_worlds`: the number of worlds that fit into memory."""

from __future__ import annotations

from typing import Any

from warpsim.base.annotations import DeviceName
from warpsim.model.model import Model
from warpsim.run.shortage import most_worlds
from warpsim.simulator import Simulator


def fit_worlds(model: Model, device: DeviceName | None = None, *, memory: int | None = None, **options: Any) -> int:
    """Find the largest number of worlds that fits into the memory of a device.

    Parameters
    ----------
    model : Model
        The model.
    device : str, optional
        Name of a Warp device. Default: as in `ws.Simulator`.
    memory : int, optional
        Memory that the simulator may use [bytes]. Default: nine tenths of the memory that is free now.
    **options : Any
        Options of `ws.Simulator`, except `worlds`.

    Returns
    -------
    int
        Number of worlds that one simulator with these options can have. The memory of two states is included, that of
        further states, trajectories and tapes is not.

    Raises
    ------
    MemoryError
        Not even one world fits.
    ValueError
        `worlds` is given.

    Examples
    --------
    >>> model = ws.load(ws.robots.path("ant"))
    >>> 100 < ws.fit_worlds(model, "cpu", memory=100_000_000) < 100_000
    True
    """
    if "worlds" in options:
        raise ValueError("fit_worlds finds the number of worlds; leave worlds= out")
    return most_worlds(Simulator, model, device, memory, **options)
