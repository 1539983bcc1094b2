"""warpsim: batched, differentiable multibody physics with stiff contact, on CPU and GPU through NVIDIA Warp."""

import pathlib as _pathlib

# The device code lives in `kernels/` beside this package in a checkout and in `warpsim/kernels` in a wheel.
if not (_pathlib.Path(__file__).parent / "kernels").is_dir():
    __path__.append(str(_pathlib.Path(__file__).parent.parent))

import importlib as _importlib

_PUBLIC = {
    "warpsim.errors": ("ModelError",),
    "warpsim.gradients.linearize": ("Linearization",),
    "warpsim.io.load": ("load",),
    "warpsim.model": ("ConstraintType", "GeomType", "JointType", "Model", "ModelBuilder"),
    "warpsim.simulator": ("CONTACT_OVERFLOW", "NONFINITE", "NOT_CONVERGED", "UNRESOLVED", "Simulator"),
    "warpsim.state": ("State",),
    "warpsim.trajectory": ("Trajectory",),
    "warpsim.integrators": ("ExplicitEuler", "ImplicitEuler", "Midpoint", "SymplecticEuler", "Variational"),
    "warpsim.gradients.check": ("check_gradients",),
    "warpsim.interop.objective": ("Objective",),
    "warpsim.solvers.sap": ("SAP",),
    "warpsim.solvers.compliant": ("Compliant",),
    "warpsim.solvers.lcp_contact": ("LCP",),
    "warpsim.solvers.nocontact": ("NoContact",),
    "warpsim.solvers.lcp": ("LCPSolution", "solve_lcp"),
    "warpsim.solvers.cone_qp": ("ConeQPSolution", "solve_cone_qp"),
    "warpsim.solvers.problem": ("ContactProblem", "ContactSolution", "solve_contact"),
}
# Adapters that load their framework; not in `__all__`, so that a look at every public name loads none.
_ADAPTERS = {name: f"warpsim.interop.{name}" for name in ("torch", "jax")}
_HOME = {name: module for module, names in _PUBLIC.items() for name in names}
__all__ = list(_HOME)
__version__ = "0.1.0"


def __getattr__(name: str):
    if name in _ADAPTERS:
        value = _importlib.import_module(_ADAPTERS[name])
    elif name in _HOME:
        value = getattr(_importlib.import_module(_HOME[name]), name)
    else:
        raise AttributeError(f"module 'warpsim' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *__all__, *_ADAPTERS})
