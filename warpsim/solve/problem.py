# SPDX-License-Identifier: Apache-2.0
"""Contact problems as data, solved without a simulator: `solve_contact(ContactProblem(...))` (theory §3.1).

    find v, γ:  A (v − v*) = Jᵀγ,  γ_i = P(−R_i⁻¹ (J_i v − v̂_i)) in the friction cone of contact i

Matrices are dense here; the device code gets J with a single support that lists all dofs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp

from warpsim.base import checks
from warpsim.base.annotations import Array, DeviceName, Numbers
from warpsim.base.reprs import ShownByShapes, show
from warpsim.device.copies import SCALARS, launch
from warpsim.kernels.linalg.vector import padded
from warpsim.kernels.solve.sap import sap
from warpsim.solve.arrays import batch, check_symmetric, counts, first_device_array, host
from warpsim.solve.contact_model import ContactModel, is_contact_model
from warpsim.solve.contact_solver import ContactSolver
from warpsim.solve.sap.sap import SAP

OWNER = "ContactProblem"


class ContactProblem:
    """Data of one convex contact problem per world.

    Give either `R` and `v_hat`, or `phi` and `dt`. Arrays are NumPy arrays, lists or Warp arrays. Without the worlds'
    axis in `A` there is one world. Otherwise all worlds share an array without that axis.

    Parameters
    ----------
    A : array (worlds, nv, nv)
        Momentum matrix, symmetric positive definite [kg, kg m, kg m²].
    J : array (worlds, 3 nc, nv)
        Contact Jacobian with rows t1, t2, n per contact: J v is the velocity of body B relative to body A.
    v_star : array (worlds, nv)
        Velocity v* without contact [m/s, rad/s].
    mu : array (worlds, nc) or float
        Friction coefficients ≥ 0.
    R : array (worlds, nc, 3), optional
        Regularization > 0 in the order t1, t2, n, with R[..., 0] = R[..., 1] [1/kg].
    v_hat : array (worlds, nc, 3), optional
        Velocity v̂ that a contact without load seeks, in the order t1, t2, n [m/s].
    v0 : array (worlds, nv), optional
        Initial guess of the velocity. Default: `v_star`.
    phi : array (worlds, nc) or float, optional
        Signed distances [m].
    stiffness : array (worlds, nc) or float, optional
        Stiffness [N/m]. Default: infinite, which is near-rigid.
    dissipation_time : array (worlds, nc) or float, optional
        Dissipation time [s]. Default: β dt/π, with the solver's β.
    dt : float, optional
        Time step [s].
    M : array (worlds, nv, nv), optional
        Mass matrix for the effective inverse mass w = ‖J M⁻¹ Jᵀ‖_F / 3 of each contact. Default: `A`.
    contacts : array (worlds,) of int, optional
        Number of contacts that each world uses, counted from the first. Default: all.

    Raises
    ------
    ValueError
        A shape is wrong, a value is not finite or out of range, or arrays do not go together. The message names the
        array, the value and the fix.

    Notes
    -----
    The problem: find v and γ with A (v − v*) = Jᵀγ, where the impulse γ_i is the projection P(−R_i⁻¹ (J_i v − v̂_i))
    onto the friction cone of contact i (Castro, Permenter and Han 2022; docs/theory.md, §3.1). This law is convex: a
    contact that slides at the speed ‖v_t‖ separates at the speed μ‖v_t‖. The step of a simulator corrects that, unless
    its solver has `approximation="convex"`.

    Examples
    --------
    A body of 1 kg falls onto the ground at 0.1 m/s and moves along it at 0.02 m/s.

    >>> problem = ws.ContactProblem(A=np.eye(3), J=np.eye(3), v_star=[0.02, 0.0, -0.1], mu=0.5, phi=0.0, dt=0.01)
    >>> problem
    ContactProblem(worlds=1, nv=3, contacts=1, data=phi, dt 0.01 s)
    """

    like: Array | None
    single: bool
    worlds: int
    nv: int
    contact_slots: int
    A: np.ndarray
    J: np.ndarray
    v_star: np.ndarray
    v0: np.ndarray
    mu: np.ndarray
    contacts: np.ndarray
    R: np.ndarray | None
    v_hat: np.ndarray | None
    phi: np.ndarray | None
    dt: float
    compliance: np.ndarray
    dissipation_time: np.ndarray | None
    w_effective: np.ndarray

    def __init__(
        self,
        A: Numbers,
        J: Numbers,
        v_star: Numbers,
        mu: Numbers,
        *,
        R: Numbers | None = None,
        v_hat: Numbers | None = None,
        v0: Numbers | None = None,
        phi: Numbers | None = None,
        stiffness: Numbers | None = None,
        dissipation_time: Numbers | None = None,
        dt: float | None = None,
        M: Numbers | None = None,
        contacts: Numbers | None = None,
    ):
        given = (A, J, v_star, mu)
        self.like = first_device_array(*given)
        A = host(A, f"{OWNER}: A")
        if A.ndim not in (2, 3) or A.shape[-1] != A.shape[-2] or A.shape[-1] == 0:
            raise ValueError(f"ContactProblem: A has shape {A.shape}; give (worlds, nv, nv) or (nv, nv).")
        self.single = A.ndim == 2
        self.worlds, self.nv = (1 if self.single else A.shape[0]), A.shape[-1]
        J = host(J, f"{OWNER}: J")
        if J.ndim not in (2, 3) or J.shape[-2] % 3:
            raise ValueError(
                f"ContactProblem: J has shape {J.shape}; give (worlds, 3 nc, nv), rows t1, t2, n per contact."
            )
        self.contact_slots = J.shape[-2] // 3
        W, nv, nc = self.worlds, self.nv, self.contact_slots

        self.A = self._spd("A", A)
        self.J = self._array("J", J, (W, 3 * nc, nv), "(worlds, 3 nc, nv)")
        self.v_star = self._array("v_star", v_star, (W, nv), "(worlds, nv)")
        self.v0 = self.v_star if v0 is None else self._array("v0", v0, (W, nv), "(worlds, nv)")
        self.mu = self._at_least("mu", self._array("mu", mu, (W, nc), "(worlds, nc)"), 0.0)
        self.contacts = np.full(W, nc, dtype=np.int32)
        if contacts is not None:
            self.contacts = counts(OWNER, "contacts", contacts, W, nc)
        self.R = self.v_hat = self.phi = None
        if R is not None or v_hat is not None:
            others = {"phi": phi, "dt": dt, "stiffness": stiffness, "dissipation_time": dissipation_time, "M": M}
            given = [name for name, value in others.items() if value is not None]
            if R is None or v_hat is None or given:
                found = f", not {given[0]} with them" if given else ""
                raise ValueError(f"ContactProblem: give R and v_hat together{found}, or phi and dt instead of both.")
            self.R = self._array("R", R, (W, nc, 3), "(worlds, nc, 3)")
            self.v_hat = self._array("v_hat", v_hat, (W, nc, 3), "(worlds, nc, 3)")
            used = np.arange(nc) < self.contacts[:, None]
            if np.any(self.R[used] <= 0.0):
                raise ValueError(f"ContactProblem: R is {self.R[used].min()} somewhere; every entry must be above 0.")
            if np.any(self.R[used][:, 0] != self.R[used][:, 1]):
                raise ValueError(
                    "ContactProblem: R[..., 0] and R[..., 1] differ; the cone is isotropic, make them equal."
                )
        elif phi is None or dt is None:
            raise ValueError("ContactProblem: give R and v_hat, or phi and dt.")
        else:
            self._physical(phi, stiffness, dissipation_time, dt, M)

    def __repr__(self) -> str:
        data = "R, v_hat" if self.R is not None else f"phi, dt {self.dt:g} s"
        return show(
            "ContactProblem", {"worlds": self.worlds, "nv": self.nv, "contacts": self.contact_slots, "data": data}
        )

    def _physical(self, phi, stiffness, dissipation_time, dt, M):
        shape = (self.worlds, self.contact_slots)
        self.dt = checks.positive(dt, f"{OWNER}: dt", "s")
        self.phi = self._array("phi", phi, shape, "(worlds, nc)")
        stiffness = host(np.inf if stiffness is None else stiffness, f"{OWNER}: stiffness")
        if np.any(np.isnan(stiffness)) or np.any(stiffness <= 0.0):
            raise ValueError("ContactProblem: stiffness holds values ≤ 0 or NaN; give N/m above 0 (inf is near-rigid).")
        self.compliance = self._array("stiffness", 1.0 / stiffness, shape, "(worlds, nc)")
        self.dissipation_time = None
        if dissipation_time is not None:
            tau_d = self._array("dissipation_time", dissipation_time, shape, "(worlds, nc)")
            self.dissipation_time = self._at_least("dissipation_time", tau_d, 0.0)
        M = self.A if M is None else self._spd("M", host(M, f"{OWNER}: M"))
        # w = ‖W_ii‖_F / 3 with W_ii = J_i M⁻¹ J_iᵀ.
        J_T = np.swapaxes(self.J, 1, 2)
        solved = np.linalg.solve(M, J_T).reshape(self.worlds, self.nv, self.contact_slots, 3)
        J = self.J.reshape(self.worlds, self.contact_slots, 3, self.nv)
        self.w_effective = np.linalg.norm(np.einsum("wcai,wicb->wcab", J, solved), axis=(2, 3)) / 3.0

    def _array(self, name, value, shape, text) -> np.ndarray:
        value = host(value, f"{OWNER}: {name}")
        if value.ndim == len(shape) - 1 and (self.single or value.ndim == 0):
            value = value[None]
        if name in ("mu", "stiffness", "dissipation_time", "phi") and value.size == 1 and value.shape != shape:
            value = np.full(shape, value.reshape(-1)[0])
        return batch(OWNER, name, value, shape, text)

    def _spd(self, name, value) -> np.ndarray:
        value = self._array(name, value, (self.worlds, self.nv, self.nv), "(worlds, nv, nv)")
        check_symmetric(OWNER, name, value)
        for w, matrix in enumerate(value):
            try:
                np.linalg.cholesky(matrix)
            except np.linalg.LinAlgError:
                lowest = np.linalg.eigvalsh(matrix)[0]
                raise ValueError(
                    f"ContactProblem: {name}[{w}] is not positive definite (lowest eigenvalue {lowest:.3g}); "
                    "add armature or inertia until it is."
                ) from None
        return value

    @staticmethod
    def _at_least(name, value, low):
        if np.any(value < low):
            raise ValueError(f"ContactProblem: {name} is {value.min()} somewhere; every entry must be at least {low}.")
        return value


@dataclass(frozen=True, repr=False)
class ContactSolution(ShownByShapes):
    """Solution of `solve_contact`.

    Attributes
    ----------
    v : array (worlds, nv)
        Velocities [m/s, rad/s].
    impulse : array (worlds, nc, 3)
        Impulses on body B in the contact frame (t1, t2, n) [N s]; 0 in unused slots.
    iterations : array (worlds,) of int
        Iterations of the solver.
    momentum_error : array (worlds,)
        Relative error of the solution, as in `Diagnostics`.
    flags : array (worlds,) of int
        Bits: `ws.NONFINITE` (data are not finite), `ws.NOT_CONVERGED` (`v` is the best iterate).
    """

    v: Any
    impulse: Any
    iterations: Any
    momentum_error: Any
    flags: Any


def solve_contact(
    problem: ContactProblem,
    solver: ContactModel | None = None,
    dtype: str = "float64",
    device: DeviceName | None = None,
) -> ContactSolution:
    """Solve a contact problem in every world.

    Parameters
    ----------
    problem : ContactProblem
        The data.
    solver : SAP or Compliant, optional
        `ws.SAP()` solves for the velocities, `ws.Compliant()` for the impulses. Both have the same solution. Default:
        `ws.SAP()`, which means `ws.SAP(approximation="convex")` here.
    dtype : str
        "float64" (default) or "float32": the arithmetic of the solver.
    device : str, optional
        Name of a Warp device. Default: the device of the problem's Warp arrays, else Warp's default device.

    Returns
    -------
    ContactSolution
        Warp arrays if A, J, v_star or mu is one, else NumPy arrays. The first axis is always that of worlds.

    Raises
    ------
    ValueError
        The solver cannot solve a single convex problem. `ws.Compliant()` can, and `ws.SAP()` unless it has
        `approximation="lagged"` or `supported_load=True`.

    Notes
    -----
    The problem is checked and copied on the host. Inside a simulation use `ws.Simulator`. If the problem lacks `R` and
    `v_hat`, they are computed from `phi` and `dt` by SAP's rule (docs/theory.md, §3.1).

    Examples
    --------
    A body of 1 kg falls onto the ground at 0.1 m/s and moves along it at 0.02 m/s. Contact stops it, friction holds it.

    >>> problem = ws.ContactProblem(A=np.eye(3), J=np.eye(3), v_star=[0.02, 0.0, -0.1], mu=0.5, phi=0.0, dt=0.01)
    >>> found = ws.solve_contact(problem, device="cpu")
    >>> found.impulse.shape, found.flags.tolist()
    ((1, 1, 3), [0])
    >>> bool(np.allclose(found.impulse[0, 0], [-0.02, 0.0, 0.1], atol=0.01))
    True
    """
    solver = SAP() if solver is None else solver
    if not is_contact_model(solver):
        raise ValueError(f"solve_contact: solver is {solver!r}; give a SAP(...) or a Compliant(...).")
    why = solver.refuse_alone()
    if why is not None:
        raise ValueError(f"solve_contact: {why}")
    solver = solver.alone()
    if not isinstance(problem, ContactProblem):
        raise ValueError(f"solve_contact: problem is a {type(problem).__name__}; make a ws.ContactProblem(A, J, ...).")
    checks.choice(dtype, "solve_contact: dtype", SCALARS)
    if device is None and problem.like is not None:
        device = problem.like.device
    size = (problem.worlds, [0, problem.nv], problem.contact_slots)
    workspace = solver.make_solver(*size, dtype=dtype, device=device)
    fill_problem(workspace, problem, solver.regularisation, dtype)
    out = workspace.launch()
    results = (out.v, out.gamma, out.iterations, out.momentum_error, out.status)
    if problem.like is None:
        results = tuple(x.numpy() for x in results)
    else:
        gamma = wp.array(ptr=out.gamma.ptr, dtype=SCALARS[dtype], shape=(*out.gamma.shape, 3), device=out.gamma.device)
        gamma._ref = out.gamma
        results = (results[0], gamma, *results[2:])
    return ContactSolution(*results)


def fill_problem(solver: ContactSolver, problem: ContactProblem, options: SAP, dtype: str):
    """Copy the dense problem to the solver's arrays: one pair whose support is all dofs."""
    S, device = SCALARS[dtype], solver.device
    vec3 = wp.types.vector(3, S)
    W, nv, nc = problem.worlds, problem.nv, problem.contact_slots

    def array(value, kind=S):
        host = np.int32 if kind is int else wp.dtype_to_numpy(S)
        return wp.array(np.ascontiguousarray(value, dtype=host), dtype=kind, device=device)

    struct = solver.problem
    A = np.pad(problem.A, ((0, 0), (0, 0), (0, padded(nv) - nv)))
    struct.A, struct.v_star = array(A), array(problem.v_star)
    solver.start_at(array(problem.v0))
    struct.contacts = array(problem.contacts, int)
    struct.contact_pair = wp.zeros((W, nc), dtype=int, device=device)
    struct.support, struct.support_size = array(np.arange(nv)[None], int), array([nv], int)
    struct.J, struct.mu = array(problem.J.reshape(W, nc, 3, nv)), array(problem.mu)
    if problem.R is not None:
        struct.R, struct.v_hat = array(problem.R, vec3), array(problem.v_hat, vec3)
    else:
        tau_d = problem.dissipation_time
        if tau_d is None:
            tau_d = np.full((W, nc), options.beta * problem.dt / np.pi)
        struct.R, struct.v_hat = (wp.zeros((W, nc), dtype=vec3, device=device) for _ in range(2))
        given = (problem.w_effective, problem.phi, problem.compliance, tau_d)
        inputs = [*map(array, given), problem.dt, options.beta, options.sigma, struct.R, struct.v_hat]
        launch(sap.regularize, S, (W, nc), inputs, device=device, record_tape=False)
    struct.row_J = wp.zeros((W, 0, 1), dtype=S, device=device)
    for name in ("row_R", "row_v_hat", "row_lower", "row_upper"):
        setattr(struct, name, wp.zeros((W, 0), dtype=S, device=device))
    solver.complete()
