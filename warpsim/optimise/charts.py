"""Coordinates of physical parameters in which every point is physical.

| parameter | coordinates z |
|---|---|
| masses, stiffnesses of geoms | their logarithms |
| "inertial" of a body: mass, COM and inertia | log-Cholesky of the pseudo-inertia matrix (Rucker & Wensing 2022): P = U Uᵀ, U upper triangular |
| others | themselves, within the bounds that a simulator has for them |

The pseudo-inertia P = [[Σ, h], [hᵀ, m]], h = m c, Σ = Σ_c + m c cᵀ, Σ_c = ½ tr(I) 1 - I is the second moment of the mass in body axes:
it is positive definite exactly if a body of positive density has this inertia (the triangle inequalities among them).
"""

import numpy as np

from warpsim.checks import choice, listed, short, whole
from warpsim.model.model import JOINT_NV, JointType, Model
from warpsim.model.parameters import SPECS

INERTIAL = "inertial"
MEMBERS = ("body_mass", "body_com", "body_inertia")  # of INERTIAL
LOGARITHMS = ("body_mass", "geom_stiffness")
# No chart: rotations, unit vectors, switches, ordered pairs, an inertia without its mass.
WITHOUT = ("joint_pose", "joint_axis", "geom_pose", "body_active", "body_inertia", "joint_range", "tendon_range")
WITHOUT += ("control_range", "force_range")


class Entries:
    """The entries `(elements, ...)` of one parameter, as they are or by their logarithms."""

    def __init__(self, model: Model, name: str, elements):
        self.parameters, self.log = (name,), name in LOGARITHMS
        self.index = elements_of(model, name, elements)
        spec, names = SPECS[name], _names(model, name)
        each = np.shape(getattr(model, name))[1:] if name != "gravity" else ()
        self.size = len(self.index) * int(np.prod(each))
        bounds = [-np.inf if spec.least is None else spec.least, np.inf if spec.most is None else spec.most]
        self.low, self.high = np.broadcast_to([[-np.inf, np.inf] if self.log else bounds], (self.size, 2)).T
        parts = [""] if not each else [str(i) for i in np.ndindex(each)]
        self.labels = [f"{name}[{names[i]}]{part}" for i in self.index for part in parts]
        self.columns = (self.index[:, None] * int(np.prod(each)) + np.arange(int(np.prod(each)))).ravel()

    def coordinates(self, values: dict[str, np.ndarray]) -> np.ndarray:
        """z `(worlds, size)` of parameters `(worlds, ...)`."""
        (name,) = self.parameters
        z = values[name].reshape(len(values[name]), -1)[:, self.columns]
        bad = np.argwhere(~np.isfinite(z) | (self.log & (z <= 0)))
        if len(bad):
            w, i = bad[0]
            least = " above 0" if self.log else ""
            raise ValueError(f"{self.labels[i]} is {z[w, i]:g} in world {w}; set sim.parameters to a finite value{least} first")
        return np.log(z) if self.log else z

    def put(self, z: np.ndarray, values: dict[str, np.ndarray]) -> None:
        """Write the parameters `(..., worlds, *shape)` of z `(..., worlds, size)`."""
        (name,) = self.parameters
        flat = values[name].reshape(*z.shape[:-1], -1)
        flat[..., self.columns] = np.exp(z) if self.log else z
        values[name] = flat.reshape(values[name].shape)

    def derivative(self, z: np.ndarray, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Which entries of a parameter z moves, and ∂entries/∂z `(worlds, entries, size)`."""
        scale = np.exp(z) if self.log else np.ones_like(z)
        return self.columns, scale[..., None] * np.eye(self.size)


class PseudoInertia:
    """Mass, COM and inertia of one body by z = (α, d1, d2, d3, s12, s23, s13, t1, t2, t3):

    U = e^α [[e^d1, s12, s13, t1], [0, e^d2, s23, t2], [0, 0, e^d3, t3], [0, 0, 0, 1]].
    """

    size, labels_of = 10, ("α", "d1", "d2", "d3", "s12", "s23", "s13", "t1", "t2", "t3")
    ROWS, COLUMNS = np.array([0, 1, 0, 0, 1, 2]), np.array([1, 2, 2, 3, 3, 3])  # of s12, s23, s13, t1, t2, t3

    def __init__(self, model: Model, body: int):
        self.parameters, self.body, self.name = MEMBERS, body, model.body_names[body]
        self.low, self.high = np.full(10, -np.inf), np.full(10, np.inf)
        self.labels = [f"{INERTIAL}[{self.name}].{part}" for part in self.labels_of]

    def coordinates(self, values: dict[str, np.ndarray]) -> np.ndarray:
        """z `(worlds, 10)` of parameters `(worlds, ...)`."""
        P = pseudo_inertia(*(values[name][:, self.body] for name in MEMBERS))
        if not (np.linalg.eigvalsh(P) > 0).all():
            raise ValueError(
                f"body {self.name!r} has an inertia that no density has (its pseudo-inertia matrix has the eigenvalue "
                f"{np.linalg.eigvalsh(P).min():.3g}); start from a positive mass and an inertia with A + B > C"
            )
        U = np.linalg.cholesky(P[:, ::-1, ::-1])[:, ::-1, ::-1]
        last = U[:, 3, 3]
        logs = np.log(np.diagonal(U, axis1=1, axis2=2)[:, :3] / last[:, None])
        return np.concatenate([np.log(last)[:, None], logs, U[:, self.ROWS, self.COLUMNS] / last[:, None]], axis=1)

    def root(self, z: np.ndarray) -> np.ndarray:
        """U `(..., 4, 4)`."""
        U = np.zeros((*z.shape[:-1], 4, 4))
        U[..., range(3), range(3)], U[..., 3, 3] = np.exp(z[..., 1:4]), 1.0
        U[..., self.ROWS, self.COLUMNS] = z[..., 4:]
        return np.exp(z[..., :1, None]) * U

    def put(self, z: np.ndarray, values: dict[str, np.ndarray]) -> None:
        """Write the parameters of z `(..., worlds, 10)`."""
        U = self.root(z)
        P = U @ np.swapaxes(U, -1, -2)
        m, c, sigma = _split(P)
        found = (m, c, np.trace(sigma, axis1=-2, axis2=-1)[..., None, None] * np.eye(3) - sigma)
        for name, value in zip(MEMBERS, found, strict=True):
            np.moveaxis(values[name], z.ndim - 1, 0)[self.body] = value

    def derivative(self, z: np.ndarray, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Which entries of a parameter z moves, and ∂entries/∂z `(worlds, entries, 10)`."""
        U, worlds = self.root(z), len(z)
        dU = np.zeros((10, worlds, 4, 4))
        dU[0] = U
        for i in range(3):
            dU[1 + i, :, i, i] = U[:, i, i]
        dU[range(4, 10), :, self.ROWS, self.COLUMNS] = U[:, 3, 3]
        dP = dU @ np.swapaxes(U, -1, -2)
        dP = dP + np.swapaxes(dP, -1, -2)
        m, c, _ = _split(U @ np.swapaxes(U, -1, -2))
        dm = dP[..., 3, 3]
        dc = (dP[..., :3, 3] - c * dm[..., None]) / m[:, None]
        if name == "body_mass":
            slope, entries = dm[..., None], np.array([self.body])
        elif name == "body_com":
            slope, entries = dc, 3 * self.body + np.arange(3)
        else:
            moved = _outer(dP[..., :3, 3], c)
            dS = dP[..., :3, :3] - moved - np.swapaxes(moved, -1, -2) + _outer(c, c) * dm[..., None, None]
            dI = np.trace(dS, axis1=-2, axis2=-1)[..., None, None] * np.eye(3) - dS
            slope, entries = dI.reshape(10, worlds, 9), 9 * self.body + np.arange(9)
        return entries, np.moveaxis(slope, 0, -1)


def pseudo_inertia(mass, com, inertia) -> np.ndarray:
    """P `(..., 4, 4)` of mass `(...)`, COM `(..., 3)` and inertia about it `(..., 3, 3)`."""
    mass, com = np.asarray(mass, float)[..., None], np.asarray(com, float)
    P = np.zeros((*com.shape[:-1], 4, 4))
    half = 0.5 * np.trace(inertia, axis1=-2, axis2=-1)[..., None, None] * np.eye(3)
    P[..., :3, :3] = half - inertia + mass[..., None] * _outer(com, com)
    P[..., :3, 3] = P[..., 3, :3] = mass * com
    P[..., 3, 3] = mass[..., 0]
    return P


def _split(P: np.ndarray):
    """Mass, COM and central second moment Σ_c."""
    m, c = P[..., 3, 3], P[..., :3, 3] / P[..., 3, 3, None]
    return m, c, P[..., :3, :3] - m[..., None, None] * _outer(c, c)


def _outer(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a[..., :, None] * b[..., None, :]


def _names(model: Model, name: str) -> list[str]:
    """What the entries of a parameter's first axis are called; degrees of freedom by their joints."""
    if name == "gravity":
        return ["x", "y", "z"]
    kind = name.split("_")[0]
    if name in ("joint_range", "joint_pose", "joint_axis") or kind != "joint":
        return list(model.names[kind])
    return [n for n, joint in zip(model.joint_names, model.joint_type, strict=True) for _ in range(JOINT_NV[JointType(joint)])]


def elements_of(model: Model, name: str, elements) -> np.ndarray:
    """Indices on a parameter's first axis of elements by name or index; None: all."""
    names = _names(model, "body_mass" if name == INERTIAL else name)
    if elements is None:
        return np.arange(len(names))
    found = []
    for element in [elements] if isinstance(elements, (str, int, np.integer)) else elements:
        if isinstance(element, str):
            places = [i for i, known in enumerate(names) if known == element]
            if not places:
                raise ValueError(f"parameters[{name!r}] names {short(element)}; there are: {listed(names)}")
            found += places
        elif 0 <= whole(element, f"an entry of parameters[{name!r}]") < len(names):
            found.append(int(element))
        else:
            raise ValueError(f"parameters[{name!r}] holds {element}; the indices are 0 to {len(names) - 1}")
    if not found or len(set(found)) < len(found):
        raise ValueError(f"parameters[{name!r}] is {short(elements)}; name each element once, and at least one")
    return np.array(found)


def charts(model: Model, parameters) -> list:
    """A chart of every parameter asked for: {name: elements}."""
    if not isinstance(parameters, dict) or not parameters:
        raise ValueError(f"parameters is {short(parameters)}; give a dict: a parameter's name and its elements (None: all)")
    found = []
    known = [name for name in SPECS if name not in WITHOUT]
    for name, elements in parameters.items():
        if name in WITHOUT:
            instead = f"use {INERTIAL!r}, which keeps it physical" if name == "body_inertia" else f"choose of {listed(known, 99)}"
            raise ValueError(f"parameters names {name!r}, which has no coordinates here; {instead}")
        choice(name, "a key of parameters", [INERTIAL, *known])
        if name == INERTIAL:
            found += [PseudoInertia(model, int(body)) for body in elements_of(model, name, elements)]
        else:
            found.append(Entries(model, name, elements))
    taken = [p for chart in found if isinstance(chart, Entries) for p in chart.parameters]
    if INERTIAL in parameters and {"body_mass", "body_com"} & set(taken):
        raise ValueError(f"parameters names {INERTIAL!r} and {sorted({'body_mass', 'body_com'} & set(taken))}, which it holds")
    return found
