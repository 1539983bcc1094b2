# SPDX-License-Identifier: Apache-2.0
"""Steps of physical parameters that always lead to physical parameters.

| parameter | a step x |
|---|---|
| masses, frictions, stiffnesses of geoms, solref, the width of solimp | p exp(x) |
| impedances d and the midpoint of solimp | d / (1 - d) times exp(x) |
| "inertial" of a body: mass, COM and inertia | adds to the log-Cholesky coordinates of its pseudo-inertia (Rucker &
Wensing 2022) |
| "delay" of an actuator, in knots | p + x, within 0 and the rows of controls before the first knot |
| others | p + x, within the bounds that a simulator has for them |

The pseudo-inertia P = [[Σ, h], [hᵀ, m]], h = m c, Σ = ½ tr(I) 1 - I + m c cᵀ, is the second moment of the mass in body
axes. P is positive definite exactly if a body of positive density has this inertia; this includes the triangle
inequalities. P = U Uᵀ is positive definite for every (α, d, s, t), with U = e^α [[e^d1, s12, s13, t1], [0, e^d2, s23,
t2], [0, 0, e^d3, t3], [0, 0, 0, 1]].

These coordinates are physical everywhere but curved, while the motion is nearly linear in P itself. Along the narrow
valleys of poorly observed parameters a straight step p + (∂p/∂x) x goes further. `move(..., straight=True)` takes that
step where it is physical.
"""

import numpy as np

from warpsim.base.checks import choice, listed, short, whole
from warpsim.model.model import JOINT_NV, FrictionRule, JointType, Model
from warpsim.model.mujoco_options import own_pairs
from warpsim.model.parameters import LAW_SPECS, PER_DOF, SPECS

INERTIAL = "inertial"
DELAY = "delay"  # of controls, in knots; no parameter of the simulator
MEMBERS = ("body_mass", "body_com", "body_inertia")  # the parameters of INERTIAL
REACH = 2.0  # longest step of a logarithm, and of log-Cholesky coordinates
NARROWEST = 1e-9  # least ratio of the eigenvalues of P; no step goes below it
# Parameters that step by their logarithms. These include frictions: at 0 the motion has no derivative with respect to
# them.
LOGARITHMS = ("body_mass", "geom_stiffness", "geom_friction", "joint_friction", "tendon_friction", "muscle_force")
LOGARITHMS += tuple(name for name in LAW_SPECS if "solref" in name)
# Of (d_min, d_max, width, midpoint, power): those that step by their logarithms, and those by their log-odds.
SOLIMP_LOGARITHMS, SOLIMP_ODDS = (2,), (0, 1, 3)
LEAST_POWER = 1.0
# Parameters without steps: rotations, unit vectors, switches, ordered pairs, an inertia without its mass.
WITHOUT = ("joint_pose", "joint_axis", "geom_pose", "body_active", "body_inertia", "joint_range", "tendon_range")
WITHOUT += ("control_range", "force_range", "actuator_length_range", "muscle_curve")


class Entries:
    """Entries `(elements, ...)` of one parameter, stepped directly, by their logarithms or by their log-odds."""

    def __init__(self, model: Model, name: str, elements):
        self.name, self.parameters = name, (name,)
        names, shape = _names(model, name), np.shape(getattr(model, name))[1:] if name != "gravity" else ()
        each = int(np.prod(shape))
        self.columns = columns_of(model, name, elements, each)
        self.size = len(self.columns)
        parts = [f"[{', '.join(map(str, i))}]" for i in np.ndindex(shape)] if shape else [""]
        self.labels = [f"{name}[{names[i // each]}]{parts[i % each]}" for i in self.columns]
        least, most = SPECS[name].least, SPECS[name].most
        self.least, self.most = -np.inf if least is None else least, np.inf if most is None else most
        self.log, self.odds = np.full(self.size, name in LOGARITHMS), np.zeros(self.size, bool)
        self.signed = "solref" in name
        if name.endswith("solimp"):
            part, self.least = self.columns % each, LEAST_POWER
            self.log, self.odds = np.isin(part, SOLIMP_LOGARITHMS), np.isin(part, SOLIMP_ODDS)

    def check(self, values: dict[str, np.ndarray]) -> None:
        """Raise `ValueError` where parameters `(worlds, ...)` are no valid initial values."""
        p = self._flat(values)
        bad = np.argwhere(
            ~np.isfinite(p)
            | (self.log & ((p == 0) if self.signed else (p <= 0)))
            | (self.odds & ((p <= 0.0) | (p >= 1.0)))
        )
        if len(bad):
            w, i = bad[0]
            which = (" other than 0" if self.signed else " above 0") if self.log[i] else ""
            which = " between 0 and 1" if self.odds[i] else which
            raise ValueError(
                f"{self.labels[i]} is {p[w, i]:g} in world {w}; set sim.parameters to a finite value{which} first"
            )

    def _flat(self, values: dict[str, np.ndarray]) -> np.ndarray:
        return values[self.name].reshape(len(values[self.name]), -1)[:, self.columns]

    def bounds(self, values: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Bounds of the allowed steps `(worlds, size)`."""
        p, reaches = self._flat(values), self.log | self.odds
        return np.where(reaches, -REACH, self.least - p), np.where(reaches, REACH, self.most - p)

    def move(self, values: dict[str, np.ndarray], x: np.ndarray, straight: bool) -> None:
        """Take the step x `(worlds, size)`, in place."""
        p = self._flat(values)
        moved = np.where(self.log, p * np.where(straight & (x > -0.5), 1.0 + x, np.exp(x)), p + x)
        moved = np.where(self.log | self.odds, moved, np.clip(moved, self.least, self.most))
        moved = np.where(self.odds, p / (p + (1.0 - p) * np.exp(-x)), moved)
        values[self.name].reshape(len(p), -1)[:, self.columns] = moved

    def derivative(self, values: dict[str, np.ndarray], name: str) -> tuple[np.ndarray, np.ndarray]:
        """Which entries of a parameter a step changes, and ∂entries/∂x `(worlds, entries, size)`."""
        p = self._flat(values)
        slope = np.where(self.log, p, np.where(self.odds, p * (1.0 - p), 1.0))
        return self.columns, slope[..., None] * np.eye(self.size)


class PseudoInertia:
    """Mass, COM and inertia of one body, with coordinates z = (α, d1, d2, d3, s12, s23, s13, t1, t2, t3)."""

    size, NAMES = 10, ("α", "d1", "d2", "d3", "s12", "s23", "s13", "t1", "t2", "t3")
    ROWS, COLUMNS = np.array([0, 1, 0, 0, 1, 2]), np.array([1, 2, 2, 3, 3, 3])  # of s12, s23, s13, t1, t2, t3

    def __init__(self, model: Model, body: int):
        self.parameters, self.body, self.name = MEMBERS, body, model.body_names[body]
        self.labels = [f"{INERTIAL}[{self.name}].{part}" for part in self.NAMES]

    def matrix(self, values: dict[str, np.ndarray]) -> np.ndarray:
        """Pseudo-inertia P `(worlds, 4, 4)`."""
        return pseudo_inertia(*(values[name][:, self.body] for name in MEMBERS))

    def check(self, values: dict[str, np.ndarray]) -> None:
        """Raise `ValueError` where no density has the inertia."""
        P = self.matrix(values)
        if not _is_physical(P).all():
            raise ValueError(
                f"body {self.name!r} has an inertia that no density has (its pseudo-inertia matrix has the eigenvalue "
                f"{np.linalg.eigvalsh(P).min():.3g}); start from a positive mass and moments of which two are larger "
                "than the third"
            )

    def bounds(self, values: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Bounds of the allowed steps `(worlds, 10)`."""
        reach = np.full((len(values["body_mass"]), 10), REACH)
        return -reach, reach

    def coordinates(self, values: dict[str, np.ndarray]) -> np.ndarray:
        """Coordinates z `(worlds, 10)`."""
        U = np.linalg.cholesky(self.matrix(values)[:, ::-1, ::-1])[:, ::-1, ::-1]
        U, last = U / U[:, 3:, 3:], U[:, 3, 3:]
        logs = np.log(np.diagonal(U, axis1=1, axis2=2)[:, :3])
        return np.concatenate([np.log(last), logs, U[:, self.ROWS, self.COLUMNS]], axis=1)

    def factor(self, z: np.ndarray) -> np.ndarray:
        """Factor U `(worlds, 4, 4)`."""
        U = np.zeros((len(z), 4, 4))
        U[:, range(3), range(3)], U[:, 3, 3] = np.exp(z[:, 1:4]), 1.0
        U[:, self.ROWS, self.COLUMNS] = z[:, 4:]
        return np.exp(z[:, :1, None]) * U

    def move(self, values: dict[str, np.ndarray], x: np.ndarray, straight: bool) -> None:
        """Take the step x `(worlds, 10)`, in place; worlds with a zero step keep their bits."""
        U = self.factor(self.coordinates(values) + x)
        P = U @ np.swapaxes(U, -1, -2)
        if straight:
            line = self.matrix(values) + np.einsum("wz,zwij->wij", x, self._slopes(values))
            P = np.where(_is_physical(line)[:, None, None], line, P)
        moves = (x != 0).any(axis=1) & _is_physical(P)
        m, c, sigma = _split(P)
        inertia = np.trace(sigma, axis1=-2, axis2=-1)[..., None, None] * np.eye(3) - sigma
        for name, value in zip(MEMBERS, (m, c, inertia), strict=True):
            values[name][moves, self.body] = value[moves]

    def _slopes(self, values: dict[str, np.ndarray]) -> np.ndarray:
        """Derivatives ∂P/∂x `(10, worlds, 4, 4)`."""
        U = self.factor(self.coordinates(values))
        dU = np.zeros((10, *U.shape))
        dU[0], dU[range(4, 10), :, self.ROWS, self.COLUMNS] = U, U[:, 3, 3]
        for i in range(3):
            dU[1 + i, :, i, i] = U[:, i, i]
        dP = dU @ np.swapaxes(U, -1, -2)
        return dP + np.swapaxes(dP, -1, -2)

    def derivative(self, values: dict[str, np.ndarray], name: str) -> tuple[np.ndarray, np.ndarray]:
        """Which entries of a parameter a step changes, and ∂entries/∂x `(worlds, entries, 10)`."""
        dP, (m, c, _) = self._slopes(values), _split(self.matrix(values))
        dm, dh = dP[..., 3, 3], dP[..., :3, 3]
        if name == "body_mass":
            slope, entries = dm[..., None], np.array([self.body])
        elif name == "body_com":
            slope, entries = (dh - c * dm[..., None]) / m[:, None], 3 * self.body + np.arange(3)
        else:
            dS = dP[..., :3, :3] - _outer(dh, c) - _outer(c, dh) + _outer(c, c) * dm[..., None, None]
            dI = np.trace(dS, axis1=-2, axis2=-1)[..., None, None] * np.eye(3) - dS
            slope, entries = dI.reshape(10, len(m), 9), 9 * self.body + np.arange(9)
        return entries, np.moveaxis(slope, 0, -1)


class Delay:
    """Delays d of controls in knots, one per actuator: u(k - d), linear between knots."""

    def __init__(self, model: Model, elements, most: int):
        self.parameters, self.columns, self.most = (DELAY,), columns_of(model, DELAY, elements, 1), most
        self.size, self.labels = len(self.columns), [f"{DELAY}[{model.actuator_names[i]}]" for i in self.columns]

    def check(self, values: dict[str, np.ndarray]) -> None:
        """Every delay is valid: the search begins with whole numbers of knots."""

    def bounds(self, values: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Bounds of the allowed steps `(worlds, size)`."""
        p = values[DELAY][:, self.columns]
        return -p, self.most - p

    def move(self, values: dict[str, np.ndarray], x: np.ndarray, straight: bool) -> None:
        """Take the step x `(worlds, size)`, in place."""
        values[DELAY][:, self.columns] = np.clip(values[DELAY][:, self.columns] + x, 0.0, self.most)

    def derivative(self, values: dict[str, np.ndarray], name: str) -> tuple[np.ndarray, np.ndarray]:
        """Which entries a step changes, and ∂entries/∂x `(worlds, entries, size)`."""
        return self.columns, np.broadcast_to(np.eye(self.size), (len(values[DELAY]), self.size, self.size))


def pseudo_inertia(mass, com, inertia) -> np.ndarray:
    """P `(..., 4, 4)` of mass `(...)`, COM `(..., 3)` and the inertia about the COM `(..., 3, 3)`."""
    mass, com = np.asarray(mass, float)[..., None], np.asarray(com, float)
    P = np.zeros((*com.shape[:-1], 4, 4))
    half = 0.5 * np.trace(inertia, axis1=-2, axis2=-1)[..., None, None] * np.eye(3)
    P[..., :3, :3] = half - inertia + mass[..., None] * _outer(com, com)
    P[..., :3, 3] = P[..., 3, :3] = mass * com
    P[..., 3, 3] = mass[..., 0]
    return P


def _is_physical(P: np.ndarray) -> np.ndarray:
    """Whether a positive density has the pseudo-inertia `(worlds,)`; nearly flat bodies are excluded."""
    eigenvalues = np.linalg.eigvalsh(P)
    return eigenvalues[:, 0] > NARROWEST * eigenvalues[:, -1]


def _split(P: np.ndarray):
    """Mass, COM and central second moment Σ_c."""
    m, c = P[..., 3, 3], P[..., :3, 3] / P[..., 3, 3, None]
    return m, c, P[..., :3, :3] - m[..., None, None] * _outer(c, c)


def _outer(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a[..., :, None] * b[..., None, :]


def _names(model: Model, name: str) -> list[str]:
    """Names of the entries on a parameter's first axis; degrees of freedom are named by their joints."""
    if name == "gravity":
        return ["x", "y", "z"]
    kind = "actuator" if name == DELAY else name.split("_")[0]
    if kind == "pair":
        explicit = name == "pair_margin"
        pairs = np.flatnonzero(model.pair_rule == FrictionRule.EXPLICIT) if explicit else own_pairs(model)
        return [" and ".join(model.geom_names[g] for g in model.pair_geom[p]) for p in pairs]
    if name == "impratio":
        return [name]
    if name not in PER_DOF:
        return list(model.names["actuator" if kind == "muscle" else kind])
    return [
        n
        for n, joint in zip(model.joint_names, model.joint_type, strict=True)
        for _ in range(JOINT_NV[JointType(joint)])
    ]


def elements_of(model: Model, name: str, elements) -> np.ndarray:
    """Indices on a parameter's first axis of the elements given by name or index; None: all."""
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


def columns_of(model: Model, name: str, elements, each: int) -> np.ndarray:
    """Indices of the entries of a parameter with `each` numbers an element: all of an element, or one, (element, k)."""
    if elements is None or isinstance(elements, (str, int, np.integer)):
        elements = elements_of(model, name, elements)
    found: list[int] = []
    for element in elements:
        owner, part = element if isinstance(element, tuple) and len(element) == 2 else (element, None)
        if part is not None and not 0 <= whole(part, f"the number in {short(element)}") < each:
            raise ValueError(
                f"parameters[{name!r}] holds {short(element)}; its elements have the numbers 0 to {each - 1}"
            )
        for i in elements_of(model, name, [owner]):
            found += range(each * i, each * (i + 1)) if part is None else [each * i + part]
    if not found or len(set(found)) < len(found):
        raise ValueError(f"parameters[{name!r}] is {short(elements)}; name each element once, and at least one")
    return np.array(found)


def charts(model: Model, parameters, most_delay: int = 0) -> list:
    """The charts of all requested parameters, given as {name: elements}. `most_delay`: in knots."""
    if not isinstance(parameters, dict) or not parameters:
        raise ValueError(
            f"parameters is {short(parameters)}; give a dict: a parameter's name and its elements (None: all)"
        )
    found = []
    known = [name for name in SPECS if name not in WITHOUT]
    for name, elements in parameters.items():
        if name in WITHOUT:
            instead = (
                f"use {INERTIAL!r}, which keeps it physical"
                if name == "body_inertia"
                else f"choose of {listed(known, 99)}"
            )
            raise ValueError(f"parameters names {name!r}, which has no steps here; {instead}")
        choice(name, "a key of parameters", [INERTIAL, DELAY, *known])
        if name == DELAY:
            found.append(Delay(model, elements, most_delay))
        elif name == INERTIAL:
            found += [PseudoInertia(model, int(body)) for body in elements_of(model, name, elements)]
        else:
            found.append(Entries(model, name, elements))
    taken = [p for chart in found if isinstance(chart, Entries) for p in chart.parameters]
    if INERTIAL in parameters and {"body_mass", "body_com"} & set(taken):
        raise ValueError(
            f"parameters names {INERTIAL!r} and {sorted({'body_mass', 'body_com'} & set(taken))}, which it holds"
        )
    return found
