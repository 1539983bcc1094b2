# SPDX-License-Identifier: Apache-2.0
"""warpsim: batched, differentiable multibody physics with stiff contact, on CPU and GPU through NVIDIA Warp.

Warp's start-up banner and its line per module are off, unless the environment has WARPSIM_VERBOSE=1, `warp.init()` was
called before, or you set `warp.config.log_level`.
"""

import importlib as _importlib
import os as _os
import re as _re
import sys as _sys
import typing as _typing

# Registers the functions that write models and trajectories.
import warpsim.files as _files  # noqa: F401
import warpsim.show as _show  # noqa: F401

if _os.path.isfile(_os.path.join(__path__[0], "kernels")):
    raise ImportError(
        "warpsim/kernels is a symbolic link to ../kernels, and this checkout has none: "
        "run `git config core.symlinks true` and `git checkout warpsim/kernels`, or install a wheel"
    )

# The public names and their modules, from the imports for type checkers below: `import warpsim` runs none of them.
_SOURCE = _typing.cast(str, __loader__.get_source(__name__))
_IMPORTS = _re.findall(r"^    from (warpsim\S*) import (\w+)", _SOURCE, _re.MULTILINE)
# Modules, not names of one. Adapters import their framework; they are not in `__all__`, so that listing all public
# names imports none.
_MODULES = {name: f"{home}.{name}" for home, name in _IMPORTS if name in ("robots", "cluster")}
_ADAPTERS = {name: f"{home}.{name}" for home, name in _IMPORTS if name in ("torch", "jax", "envs")}
_HOME = {name: home for home, name in _IMPORTS if name not in _MODULES | _ADAPTERS}
__all__ = [*_HOME, *_MODULES]  # noqa: PLE0604 (names)
__version__ = "0.2.0"

_hushed = False


def _hush() -> None:
    """Set Warp's log level to warnings, once, unless someone has chosen another level."""
    global _hushed
    if _hushed:
        return
    _hushed = True
    import warp

    untouched = warp.config.log_level == warp.LOG_INFO and warp._src.context.runtime is None
    if untouched and _os.environ.get("WARPSIM_VERBOSE", "0") in ("", "0"):
        warp.config.log_level = warp.LOG_WARNING


if "warp" in _sys.modules:  # otherwise at the first use of a name that needs Warp; a level set later is never changed
    _hush()

if _typing.TYPE_CHECKING:  # for type checkers and editors, which cannot follow names that are loaded on demand
    from warpsim import cluster as cluster
    from warpsim import envs as envs
    from warpsim import robots as robots
    from warpsim.base.errors import ModelError as ModelError
    from warpsim.differentiate import jax as jax
    from warpsim.differentiate import torch as torch
    from warpsim.differentiate.check import check_gradients as check_gradients
    from warpsim.differentiate.from_distance import GradientFromDistance as GradientFromDistance
    from warpsim.differentiate.linearize import Linearization as Linearization
    from warpsim.differentiate.objective import Objective as Objective
    from warpsim.files.load import load as load
    from warpsim.integrate import ExplicitEuler as ExplicitEuler
    from warpsim.integrate import ImplicitEuler as ImplicitEuler
    from warpsim.integrate import Midpoint as Midpoint
    from warpsim.integrate import MuJoCoEuler as MuJoCoEuler
    from warpsim.integrate import MuJoCoImplicitFast as MuJoCoImplicitFast
    from warpsim.integrate import MuJoCoRK4 as MuJoCoRK4
    from warpsim.integrate import SymplecticEuler as SymplecticEuler
    from warpsim.integrate import Variational as Variational
    from warpsim.jobs.fault import Fault as Fault
    from warpsim.jobs.fault import load_fault as load_fault
    from warpsim.jobs.fit import fit_worlds as fit_worlds
    from warpsim.jobs.resume import resume as resume
    from warpsim.kernels.flags import CONTACT_OVERFLOW as CONTACT_OVERFLOW
    from warpsim.kernels.flags import DEEP_PRESSURE as DEEP_PRESSURE
    from warpsim.kernels.flags import ENERGY_GAIN as ENERGY_GAIN
    from warpsim.kernels.flags import NONFINITE as NONFINITE
    from warpsim.kernels.flags import NOT_CONVERGED as NOT_CONVERGED
    from warpsim.kernels.flags import NOT_HELD as NOT_HELD
    from warpsim.kernels.flags import UNRESOLVED as UNRESOLVED
    from warpsim.model import ConstraintType as ConstraintType
    from warpsim.model import GeomType as GeomType
    from warpsim.model import Hydroelastic as Hydroelastic
    from warpsim.model import JointType as JointType
    from warpsim.model import Model as Model
    from warpsim.model import ModelBuilder as ModelBuilder
    from warpsim.model import MuJoCoOptions as MuJoCoOptions
    from warpsim.model import Muscle as Muscle
    from warpsim.model import Pulley as Pulley
    from warpsim.model import Texture as Texture
    from warpsim.model import VisualMaterial as VisualMaterial
    from warpsim.optimise.cem import cem as cem
    from warpsim.optimise.cost import Cost as Cost
    from warpsim.optimise.hessian import HessianVector as HessianVector
    from warpsim.optimise.hessian import hessian_vector as hessian_vector
    from warpsim.optimise.identify import Identification as Identification
    from warpsim.optimise.identify import identify as identify
    from warpsim.optimise.identify_log import RobotIdentification as RobotIdentification
    from warpsim.optimise.identify_log import identify_log as identify_log
    from warpsim.optimise.ilqr import ilqr as ilqr
    from warpsim.optimise.inverse_kinematics import Reach as Reach
    from warpsim.optimise.inverse_kinematics import reach as reach
    from warpsim.optimise.mppi import mppi as mppi
    from warpsim.optimise.plan import MPC as MPC
    from warpsim.optimise.plan import Plan as Plan
    from warpsim.optimise.shoot import Shot as Shot
    from warpsim.optimise.shoot import shoot as shoot
    from warpsim.run.randomness import RandomControls as RandomControls
    from warpsim.run.randomness import RandomStream as RandomStream
    from warpsim.show.viewer import Viewer as Viewer
    from warpsim.simulator import Simulator as Simulator
    from warpsim.solve.cone_qp.compliant import Compliant as Compliant
    from warpsim.solve.cone_qp.cone_qp import ConeQPSolution as ConeQPSolution
    from warpsim.solve.cone_qp.cone_qp import solve_cone_qp as solve_cone_qp
    from warpsim.solve.lcp.contact_lcp import LCP as LCP
    from warpsim.solve.lcp.lcp import LCPSolution as LCPSolution
    from warpsim.solve.lcp.lcp import solve_lcp as solve_lcp
    from warpsim.solve.mujoco import MuJoCo as MuJoCo
    from warpsim.solve.nocontact import NoContact as NoContact
    from warpsim.solve.problem import ContactProblem as ContactProblem
    from warpsim.solve.problem import ContactSolution as ContactSolution
    from warpsim.solve.problem import solve_contact as solve_contact
    from warpsim.solve.sap.sap import SAP as SAP
    from warpsim.state import State as State
    from warpsim.state.trajectory import Trajectory as Trajectory
else:

    def __getattr__(name: str):
        if name in _HOME or name in _ADAPTERS:
            _hush()
        if name in _ADAPTERS or name in _MODULES:
            value = _importlib.import_module((_ADAPTERS | _MODULES)[name])
        elif name in _HOME:
            value = getattr(_importlib.import_module(_HOME[name]), name)
        else:
            from warpsim.base.other_names import module_hint

            raise AttributeError(f"module 'warpsim' has no attribute {name!r}{module_hint(name)}")
        globals()[name] = value
        return value

    def __dir__():
        return sorted({*globals(), *__all__, *_ADAPTERS})
