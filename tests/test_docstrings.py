# SPDX-License-Identifier: Apache-2.0
"""Docstrings of public names: complete, well formed in NumPy's style, and true where an example can tell.

Public are the names of `ws.__all__`, `ws.envs.__all__` and of its modules, `ws.torch`, `ws.jax` and `ws.cluster`, what `sim.parameters`,
`sim.diagnostics` and queries return (`RESULTS`), and the public members of all these classes. numpydoc checks the form,
doctest runs the examples.
"""

import doctest
import enum
import importlib.util
import inspect
import re
import types

import numpy as np
import pytest
import warp as wp
from numpydoc.docscrape import get_doc_object
from numpydoc.validate import validate

import warpsim as ws
from warpsim.contact.collision import ContactList
from warpsim.contact.hydroelastic.contact_patch import ContactPatch
from warpsim.contact.queries import AboutCentre, RayHits, RaySensor
from warpsim.differentiate.check import GradientCheck, GradientRow
from warpsim.differentiate.trust import GradientTrust
from warpsim.integrate import Integrator
from warpsim.model.parameters import Parameters
from warpsim.optimise.identify_log import Estimate
from warpsim.run.untimed import UntimedPairs
from warpsim.solve.contact_model import ContactModel
from warpsim.stepping import Diagnostics

# What must hold of every docstring: numpydoc's codes.
FORM = {
    "GL03": "a doubled blank line",
    "GL06": "an unknown section",
    "GL07": "sections in another order",
    "GL08": "no docstring",
    "SS01": "no summary",
    "SS02": "summary without capital letter",
    "SS03": "summary without full stop",
    "SS06": "summary of more than one line",
    "PR01": "missing parameters",
    "PR02": "unknown parameters",
    "PR03": "parameters in another order",
    "PR04": "a parameter without type",
    "PR05": "a type with full stop",
    "PR07": "a parameter without description",
    "PR09": "a description without full stop",
    "RT01": "no Returns",
    "RT03": "a result without description",
    "YD01": "no Yields",
    "EX01": "no Examples",
}
ARGUMENTS = {"PR01", "RT01", "YD01", "EX01"}  # of calls with arguments alone
RESULTS = (Parameters, Diagnostics, ContactList, ContactPatch, RayHits, RaySensor, AboutCentre, UntimedPairs)
RESULTS += (GradientCheck, GradientRow, GradientTrust, Estimate)
# Classes that warpsim makes: users read them, and call no constructor.
MADE = {*RESULTS, ws.Model, ws.State, ws.Linearization, ws.ContactSolution, ws.LCPSolution, ws.ConeQPSolution, ws.Fault}
MADE |= {ws.Plan, ws.Shot, ws.Reach, ws.Identification, ws.RobotIdentification, ws.HessianVector, ws.envs.View}
MADE |= {ws.envs.terrain.Terrain}
# What examples need not import.
NAMESPACE = {"ws": ws, "np": np, "wp": wp}
# Names whose docstring still lacks something.
LACKING: set[str] = set(
    """
""".split()
)


def members(owner: type) -> dict[str, object]:
    """Public functions and properties of a class, of its bases in the package too, by name."""
    found = {}
    for kind in reversed(owner.__mro__):
        if kind.__module__.startswith("warpsim") and not kind.__name__.startswith("NamesOf"):
            for name, value in vars(kind).items():
                value = value.__func__ if isinstance(value, classmethod | staticmethod) else value
                if not name.startswith("_") and isinstance(value, types.FunctionType | property):
                    found[name] = value
    return found


def called_by_steps(owner: type) -> bool:
    """Whether the methods of a class are those that a `Simulator` calls: of solvers and integrators users call none."""
    return issubclass(owner, ContactModel | Integrator)


def is_task(item) -> bool:
    """Whether it is one of warpsim's tasks, whose attributes are those of `Task`."""
    return (
        isinstance(item, type) and issubclass(item, ws.envs.Task) and item.__name__ not in ("Task", "VelocityTracking")
    )


def public_names() -> dict[str, object]:
    """Every public name with what it is."""
    found = {name: getattr(ws, name) for name in ws.__all__} | {kind.__name__: kind for kind in RESULTS}
    found |= {f"envs.{name}": getattr(ws.envs, name) for name in ws.envs.__all__}
    modules = {"cluster": ws.cluster, "robots": ws.robots}
    modules |= {name: getattr(ws, name) for name in ("torch", "jax") if importlib.util.find_spec(name)}
    modules |= {
        f"envs.{name}": x for name, x in vars(ws.envs).items() if name in ws.envs.__all__ and inspect.ismodule(x)
    }
    for short, module in modules.items():
        own = {name: value for name, value in vars(module).items() if not name.startswith("_")}
        found |= {
            f"{short}.{name}": value
            for name, value in own.items()
            if (getattr(value, "__module__", None) or "").startswith(module.__name__)
        }
    found = {name: item for name, item in found.items() if isinstance(item, type | types.FunctionType)}
    found = {name: item for name, item in found.items() if item.__name__ != "<lambda>"}  # values: envs.symmetry.polar
    for name, item in list(found.items()):
        if isinstance(item, type) and not called_by_steps(item) and not is_task(item):
            known = vars(ws.envs.Term) if issubclass(item, ws.envs.Term) and item is not ws.envs.Term else ()
            found |= {f"{name}.{member}": value for member, value in members(item).items() if member not in known}
    return found


def with_arguments(item) -> bool:
    """Whether a user calls it with arguments."""
    if (
        isinstance(item, property)
        or item in MADE
        or is_task(item)
        or (isinstance(item, type) and issubclass(item, enum.Enum | Exception))
    ):
        return False
    return bool(set(inspect.signature(item).parameters) - {"self", "cls"})


def wrong(item) -> list[str]:
    """What is wrong with a docstring, as text."""
    ignored = set() if with_arguments(item) else ARGUMENTS
    ignored = ignored | {"RT01"} if re.search(r"^ *Yields$", item.__doc__ or "", flags=re.M) else ignored
    found = validate(get_doc_object(item))["errors"]
    return [f"{code}: {FORM[code]}: {text}" for code, text in found if code in FORM and code not in ignored]


NAMES = public_names()
each = pytest.mark.parametrize("name", NAMES)


@each
def test_docstring_is_complete(name, request):
    """A summary line; where there are arguments a line for each and no other, what is returned, and an example."""
    if name in LACKING:
        request.applymarker(pytest.mark.xfail(strict=True))
    assert not wrong(NAMES[name])


@pytest.mark.parametrize("name", [name for name, item in NAMES.items() if ">>>" in (item.__doc__ or "")])
def test_examples_run(name, tmp_path, monkeypatch):
    """The examples of a docstring print what they say, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    item = NAMES[name]
    (found,) = doctest.DocTestFinder(recurse=False).find(item, name, module=False, globs=dict(NAMESPACE))
    assert not doctest.DocTestRunner().run(found).failed


def test_nothing_that_is_complete_is_listed_as_lacking():
    """Names that are no more are not listed either."""
    assert not LACKING - set(NAMES)


@pytest.mark.parametrize("item", [ws.Simulator, ws.Simulator.step, ws.Simulator.rollout, ws.Trajectory.plot])
def test_help_shows_short_types(item):
    """`help` prints the names of types as the source has them, not what they stand for."""
    assert "numpy._typing" not in str(inspect.signature(item)) and "warpsim." not in str(inspect.signature(item))


def test_help_of_a_model_lists_every_field():
    """`help(ws.Model)` has a line with shape and type for each field, in the order of the fields."""
    section = ws.Model.__doc__.split("Attributes\n    ----------\n")[1].split("\n\n")[0]
    heads = re.findall(r"^    (\S.*) : \S", section, flags=re.M)
    assert ", ".join(heads).split(", ") == list(ws.Model.__dataclass_fields__)


def test_fields_of_named_tuples_are_described():
    """Python's own text is "Alias for field number 2"."""
    kinds = [item for item in public_names().values() if isinstance(getattr(item, "_fields", None), tuple)]
    assert ws.Texture in kinds and ContactPatch in kinds
    for kind in kinds:
        assert not [name for name in kind._fields if getattr(kind, name).__doc__.startswith("Alias")], kind
    assert ws.Texture.data.__doc__ == "A PNG or JPEG file."
