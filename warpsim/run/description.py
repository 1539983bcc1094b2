# SPDX-License-Identifier: Apache-2.0
"""The JSON description of a simulator and its inverse; the fingerprint of the machine, which decides the last bits."""

import dataclasses
import functools
import math
import platform

import numpy as np
import warp as wp

from warpsim import integrate
from warpsim.base.checks import short
from warpsim.differentiate.from_distance import GradientFromDistance
from warpsim.solve.cone_qp.compliant import Compliant
from warpsim.solve.lcp.contact_lcp import LCP
from warpsim.solve.mujoco import MuJoCo
from warpsim.solve.nocontact import NoContact
from warpsim.solve.sap.sap import SAP

KNOWN = {kind.__name__: kind for kind in (SAP, Compliant, LCP, MuJoCo, NoContact, GradientFromDistance)}
KNOWN |= {name: getattr(integrate, name) for name in integrate.__all__ if name not in ("Integrator", "ThetaScheme")}
REMOVED = ("bounce_correction",)  # options in older stores, which changed no motion
# Upper bounds per world on slots that a store may request. A simulator allocates its slots at once, so a forged or
# damaged store must not ask for more.
MOST_SLOTS, MOST_OF_SURFACES, SLOTS_OF_A_PAIR = 2**16, 2**20, 1024
# Instruction sets that change how sums and products are rounded; a processor may lack some of them.
ROUNDING = ("fma", "avx2", "avx512f", "asimd")


def describe_simulator(sim) -> dict:
    """The arguments of `Simulator`, except the model and the number of worlds. A user-defined solver is described by
    its class name only."""
    speed = sim.recovery_speed
    return {
        "device": str(sim.device),
        "dt": sim.dt,
        "dtype": sim.dtype,
        "max_contacts": sim.max_contacts,
        "recovery_speed": None if speed is None else [_number(x) for x in np.atleast_1d(speed)],
        "requires_grad": sim.requires_grad,
        "hydroelastic": sim.device_model.hydroelastic.level,
        "max_polygons": sim.device_model.hydroelastic.max_polygons,
        "reactions": sim.device_model.reactions,
        "time_of_impact": sim.time_of_impact,
        "mapped_stiffness": sim.mapped_stiffness,
        "contact_gradient": None if sim.contact_gradient is None else _options(sim.contact_gradient),
        "solver": _options(sim.solver),
        "integrator": _options(sim.integrator),
    }


def simulator_arguments(kept: dict, path, device=None, model=None) -> dict:
    """The inverse of `describe_simulator`. The default device is of the described kind: the CPU, or the preferred
    device.

    Raises `ValueError` for a solver or an integrator that is not one of warpsim's.
    """
    wanted = ("device", "dt", "dtype", "max_contacts", "recovery_speed", "requires_grad", "solver", "integrator")
    missing = [name for name in wanted if name not in kept]
    missing += [name for name in ("solver", "integrator") if name in kept and not isinstance(kept[name], dict)]
    if missing:
        raise ValueError(
            f"{path}: the store does not tell the {missing[0]} of its simulator; give sim=, a Simulator of the same "
            f"model and worlds"
        )
    pairs = 0 if model is None else len(model.pair_geom)
    surfaces = model is not None and model.point_pairs < pairs
    most = max(MOST_OF_SURFACES if surfaces else MOST_SLOTS, SLOTS_OF_A_PAIR * pairs)
    for name in ("max_contacts", "max_polygons"):
        if isinstance(kept.get(name), (int, float)) and kept[name] > most:
            raise ValueError(
                f"{path}: {name} is {kept[name]:g} in the store, of a model of {pairs} pairs; at most {most} are made "
                "from a store, give sim=, a Simulator of the same model and worlds"
            )
    speed = kept["recovery_speed"]
    # stores of older versions lack these
    later = [name for name in ("hydroelastic", "max_polygons", "reactions") if name in kept]
    arguments = {name: kept[name] for name in ("dt", "dtype", "requires_grad", *later)}
    arguments["time_of_impact"] = kept.get("time_of_impact", False)
    arguments["mapped_stiffness"] = kept.get("mapped_stiffness", True)
    arguments["device"] = "cpu" if device is None and kept.get("device") == "cpu" else device
    # A stored capacity of 0 means a model without pairs. None gives the same capacity again.
    arguments["max_contacts"] = kept["max_contacts"] or None
    try:
        arguments["recovery_speed"] = None if speed is None else tuple(float(x) for x in speed)
    except (TypeError, ValueError):
        raise ValueError(
            f"{path}: recovery_speed is {speed!r} in the store; give sim=, a Simulator of the same model and worlds"
        ) from None
    given = [name for name in ("solver", "integrator", "contact_gradient") if kept.get(name) is not None]
    for name in given:
        try:
            arguments[name] = _made(kept[name])
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            kind = kept[name].get("class") if isinstance(kept[name], dict) else kept[name]
            raise ValueError(
                f"{path}: its {name} is {short(kind)}, which this warpsim cannot make ({error}); "
                "give sim=, a Simulator of the same model and worlds"
            ) from error
    return arguments


def fingerprint(device) -> dict[str, str]:
    """What decides the last bits of a simulation besides its input: the versions of the packages and the kind of
    device."""
    import warpsim

    found = {"warpsim": warpsim.__version__, "warp": wp.config.version, "numpy": np.__version__}
    if device.is_cuda:
        return found | {"device": f"{device.name}, sm_{device.arch}"}
    return found | {"device": f"{platform.machine()} CPU with {', '.join(_instructions()) or 'its base instructions'}"}


@functools.cache
def _instructions() -> list[str]:
    try:
        with open("/proc/cpuinfo") as text:
            for line in text:
                name, _, value = line.partition(":")
                if name.strip() in ("flags", "Features"):
                    found = set(value.split())
                    return [x for x in ROUNDING if x in found]
    except OSError:
        pass
    return []


def _options(value) -> dict:
    kind = type(value)
    if KNOWN.get(kind.__name__) is not kind or not dataclasses.is_dataclass(value):
        return {"class": f"{kind.__module__}.{kind.__qualname__}"}
    fields = {}
    for field in dataclasses.fields(value):
        option = getattr(value, field.name)
        fields[field.name] = _options(option) if dataclasses.is_dataclass(option) else _number(option)
    return {"class": kind.__name__, "options": fields}


def _made(kept: dict):
    given = {name: x for name, x in kept["options"].items() if name not in REMOVED}
    options = {name: _made(x) if isinstance(x, dict) else x for name, x in given.items()}
    return KNOWN[kept["class"]](**{name: math.inf if x == "inf" else x for name, x in options.items()})


def _number(value):
    """A number in JSON's form: infinity becomes "inf"."""
    if isinstance(value, np.generic):
        value = value.item()
    return "inf" if isinstance(value, float) and math.isinf(value) else value
