# SPDX-License-Identifier: Apache-2.0
"""MuJoCo's constraint law in one step: accelerations, contact forces and the state after it beside MuJoCo's, both sides converged.

    python -m benchmarks.mujoco_law [--corpus FOLDER …] [--cone pyramidal elliptic] [--states 20] [--given] [--rows FILE] [--page FILE]

States are those of `mujoco_contacts`, and `RANDOM` random states (no contact needed). MuJoCo solves by Newton's method until nothing changes,
whatever the file says. Compared are states at which the contact points of both engines agree to 1e-11; the pairs of the others are named. With
--given the steps take MuJoCo's contact points, so that the law alone is compared, at all states.
"""

import argparse
import collections
import json
import pathlib
import sys
import time
import warnings

import mujoco
import numpy as np
import warp as wp

import warpsim as ws
from benchmarks.corpus.files import compiled, corpus_files, outside
from benchmarks.corpus.starts import place, random_states, state_of
from benchmarks.mujoco_contacts import (
    contact_states,
    difference,
    gymnasium_files,
    mujoco_contacts,
    own_contacts,
    type_name,
)
from warpsim.contact.collision import Collision
from warpsim.kernels.rows import table as row_table

Disable = mujoco.mjtDisableBit
CONES = ("pyramidal", "elliptic")
RANDOM = 4
QACC, FORCE = 1e-8, 1e-7  # bars
POINTS = 1e-11  # [m, 1] that contact points may differ by: stiff contacts turn 1e-9 m into 1e-5 of an acceleration
SOLVED = 1e-9  # error of an acceleration by MuJoCo's own residual; above it MuJoCo's solution says nothing


def converged(m: mujoco.MjModel, cone: str) -> mujoco.MjModel:
    """The model with Newton's method to its end, in place; integrators without a counterpart become Euler's."""
    m.opt.cone = CONES.index(cone)
    m.opt.solver, m.opt.tolerance, m.opt.iterations = mujoco.mjtSolver.mjSOL_NEWTON, 0.0, 300
    m.opt.ls_iterations, m.opt.ls_tolerance, m.opt.noslip_iterations = 200, 1e-8, 0
    m.opt.jacobian = mujoco.mjtJacobian.mjJAC_DENSE
    if m.opt.integrator != mujoco.mjtIntegrator.mjINT_IMPLICITFAST:
        m.opt.integrator = mujoco.mjtIntegrator.mjINT_EULER
    return m


def joined(*several):
    """States one after the other."""
    some = [s for s in several if s is not None]
    return {name: np.concatenate([s[name] for s in some]) for name in some[0]}


class Peer:
    """One step of MuJoCo from a state: acceleration, contact forces in world axes, velocity after it, and how well it is solved."""

    def __init__(self, m: mujoco.MjModel, states, k: int):
        d = self.data = mujoco.MjData(m)
        place(d, states, k)
        mujoco.mj_forward(m, d)
        self.qacc, self.nefc, self.sensors = d.qacc.copy(), d.nefc, d.sensordata.copy()
        residual, inverse = np.zeros(m.nv), np.zeros((1, m.nv))
        mujoco.mj_mulM(m, d, residual, d.qacc - d.qacc_smooth)
        mujoco.mj_solveM(m, d, inverse, (residual - d.qfrc_constraint)[None])
        self.residual = relative(inverse, 0.0, self.qacc)
        self.contacts, self.given = [], []  # (geoms, point, wrench), (geoms, φ, point, frame)
        for i in np.flatnonzero(d.contact.efc_address >= 0):
            frame, force = d.contact.frame[i].reshape(3, 3), np.zeros(6)
            mujoco.mj_contactForce(m, d, i, force)
            wrench = np.concatenate([frame.T @ force[:3], frame.T @ force[3:]])
            geoms, point = tuple(d.contact.geom[i].tolist()), d.contact.pos[i].copy()
            self.contacts.append((geoms, point, wrench))
        sticks = (m.actuator_trntype == int(mujoco.mjtTrn.mjTRN_BODY)).any()  # adhesion acts within a gap too
        for i in np.flatnonzero((d.contact.efc_address >= 0) | (sticks & (d.contact.exclude == 1))):
            phi = float(d.contact.dist[i] - d.contact.includemargin[i])
            frame = d.contact.frame[i].reshape(3, 3)[[1, 2, 0]].T.copy()
            self.given.append((tuple(d.contact.geom[i].tolist()), phi, d.contact.pos[i].copy(), frame))
        self.rows = rows_of(d)
        mujoco.mj_step(m, d)
        self.v = d.qvel.copy()


def rows_of(d: mujoco.MjData) -> dict[tuple[int, int], list[float]]:
    """Forces of the rows that are no contacts, by type (`mjtConstraint`) and element."""
    found = collections.defaultdict(list)
    for kind, element, force in zip(d.efc_type, d.efc_id, d.efc_force, strict=True):
        if kind < int(mujoco.mjtConstraint.mjCNSTR_CONTACT_FRICTIONLESS):
            found[int(kind), int(element)].append(float(force))
    return dict(found)


def relative(found, expected, scale=None) -> float:
    """Largest difference, relative to the largest value or 1."""
    scale = expected if scale is None else scale
    return float(np.abs(found - expected).max(initial=0.0) / max(1.0, np.abs(scale).max(initial=0.0)))


class Given(Collision):
    """Contact points that were put into `contacts`, in place of detection."""

    finds_at_once = False

    def detect(self, h: float, link_V: wp.array, link_V_star: wp.array) -> None:
        self.contacts.flags.zero_()


def give(sim: ws.Simulator, peers: list[Peer]) -> None:
    """Put MuJoCo's contact points into a simulator, for all its further steps."""
    collision, m = sim._step.collision, sim.model
    if not collision.enabled:
        return
    if collision._chains is not None:
        raise NotImplementedError("supports of contact slots: too many pairs to give contact points")
    collision.__class__ = Given
    c = collision.contacts
    values = {name: getattr(c, name).numpy() for name in ("count", "pair", "feature", "phi", "point", "frame")}
    table = {tuple(pair): p for p, pair in enumerate(m.pair_geom.tolist())}
    for w, peer in enumerate(peers):
        acts = peer.given
        if len(acts) > c.pair.shape[1]:
            raise NotImplementedError(f"{len(acts)} contact points, {c.pair.shape[1]} slots")
        values["count"][w] = len(acts)
        for slot, (geoms, phi, point, frame) in enumerate(acts):
            values["pair"][w, slot], values["phi"][w, slot] = table[geoms], phi
            values["point"][w, slot], values["frame"][w, slot] = point, frame
    for name, array in values.items():
        getattr(c, name).assign(array)


def differing(m: mujoco.MjModel, sim: ws.Simulator, states) -> list[set[str]]:
    """The pairs of types whose contact points differ, for each state."""
    found, data = [], mujoco.MjData(m)
    for k, ours in enumerate(own_contacts(sim, states)):
        mujoco.mj_resetData(m, data)
        place(data, states, k)
        theirs = mujoco_contacts(m, data)
        rows = [
            difference(tuple(m.geom_type[list(pair)].tolist()), theirs.get(pair, []), ours.get(pair, []))
            for pair in theirs.keys() | ours.keys()
        ]
        found.append({type_name(row.types) for row in rows if not row.worst <= POINTS})
    return found


def gap_points(m: mujoco.MjModel, given) -> np.ndarray:
    """The points within a gap at which adhesion pulls, of (geoms, φ, point, …): rows of geoms, φ and place."""
    sticks = m.actuator_trnid[m.actuator_trntype == int(mujoco.mjtTrn.mjTRN_BODY), 0]
    pulled = [x for x in given if x[1] >= 0 and np.isin(m.geom_bodyid[list(x[0])], sticks).any()]
    return np.array(sorted((*geoms, phi, *point) for geoms, phi, point, *_ in pulled)).reshape(-1, 6)


def gaps_agree(m: mujoco.MjModel, sim: ws.Simulator, w: int, peer: Peer) -> bool:
    """Whether the points within gaps at which adhesion pulls are MuJoCo's."""
    part, found = sim._step.sticking, sim._step.collision.contacts
    if not (part and part.stickers.gap.size):
        return True
    count, gap = int(found.count.numpy()[w]), part.stickers.gap.numpy()
    pair, phi, point = (x.numpy()[w, :count] for x in (found.pair, found.phi, found.point))
    geoms = [tuple(x) for x in sim._step.device_model.model.pair_geom[pair].tolist()]
    ours = [x[:3] for x in zip(geoms, phi, point, phi < gap[pair], strict=True) if x[3]]
    ours, theirs = gap_points(m, ours), gap_points(m, peer.given)
    return ours.shape == theirs.shape and bool((np.abs(ours - theirs) <= POINTS).all())


def contact_force_error(found, w: int, h: float, peer: Peer) -> float:
    """Worst difference of the force and moment of a contact point in world axes, relative to the world's largest."""
    worst, largest = 0.0, max([1.0, *(float(np.abs(c[2]).max()) for c in peer.contacts)])
    for geoms, point, wrench in peer.contacts:
        slots = [i for i in range(found.count[w]) if tuple(found.geoms[w, i].tolist()) == geoms]
        if not slots:
            return np.inf
        i = min(slots, key=lambda i: np.linalg.norm(found.point[w, i] - point))
        frame = found.frame[w, i]
        ours = np.concatenate([frame @ found.impulse[w, i], frame @ found.moment[w, i]]) / h
        worst = max(worst, float(np.abs(ours - wrench).max()) / largest)
    return worst


def own_rows(sim: ws.Simulator, m: mujoco.MjModel) -> dict[tuple[int, int], list[int]]:
    """The scalar rows of each element, as in `rows_of`; without kinds of which a reader leaves elements out."""
    found, kinds, model = collections.defaultdict(list), mujoco.mjtConstraint, sim.model
    of_joint = {"stop": kinds.mjCNSTR_LIMIT_JOINT, "friction": kinds.mjCNSTR_FRICTION_DOF}
    of_tendon = {"stop": kinds.mjCNSTR_LIMIT_TENDON, "friction": kinds.mjCNSTR_FRICTION_TENDON}
    names = {int(row_table.JOINT): of_joint}
    if model.ntendon == m.ntendon:
        names[int(row_table.TENDON)] = of_tendon
    if len(model.constraint_type) == m.neq:
        names[int(row_table.CONSTRAINT)] = {}
    for k, row in enumerate(sim._step.scalar_rows.row_list):
        if int(row.owner) in names:
            kind = names[int(row.owner)].get(row.kind, kinds.mjCNSTR_EQUALITY)
            found[int(kind), int(row.element)].append(k)
    return found


def row_force_error(gamma: np.ndarray, rows: dict[tuple[int, int], list[int]], h: float, peer: Peer) -> float:
    """Worst difference of the forces of an element's rows, relative to the world's largest.

    The error of a connect or weld has the other sign here. Of a limit's two sides the sum counts.
    """
    worst, largest = 0.0, max([1.0, *(max(map(abs, f)) for f in peer.rows.values())])
    for key in peer.rows.keys() & rows.keys():
        theirs, ours = np.array(peer.rows[key]), gamma[rows[key]] / h
        if key[0] != int(mujoco.mjtConstraint.mjCNSTR_EQUALITY):
            theirs, ours = theirs.sum(), ours.sum()
        worst = max(worst, min(float(np.abs(ours - sign * theirs).max()) for sign in (1, -1)) / largest)
    return worst


def sensor_errors(m: mujoco.MjModel, readings: np.ndarray, peers: list[Peer], counts: list[int]) -> dict[str, float]:
    """Worst relative error by type of sensor, of those that read forces or accelerations of the step."""
    worst: dict[str, float] = {}
    for i in np.flatnonzero(m.sensor_needstage == mujoco.mjtStage.mjSTAGE_ACC):
        columns = slice(m.sensor_adr[i], m.sensor_adr[i] + m.sensor_dim[i])
        name = mujoco.mjtSensor(int(m.sensor_type[i])).name[7:].lower()
        for k in counts:
            if np.isfinite(readings[k, columns]).all():
                error = relative(readings[k, columns], peers[k].sensors[columns])
                worst[name] = max(worst.get(name, 0.0), error)
    return worst


def one_step(m: mujoco.MjModel, states, cone: str, given: bool, model: ws.Model | None = None) -> dict:
    """How a step from every state compares. `m` is changed: see `converged`."""
    converged(m, cone)
    peers = [Peer(m, states, k) for k in range(len(states["q"]))]
    implicit = m.opt.integrator == mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    integrator = ws.MuJoCoImplicitFast() if implicit else ws.MuJoCoEuler()
    sim = ws.Simulator(
        ws.load(m) if model is None else model, len(peers), dtype="float64", device="cpu", threads=1, max_contacts=400,
        solver=ws.MuJoCo(cone=cone, tolerance=1e-14), integrator=integrator,
    )  # fmt: skip
    differ = [set()] * len(peers) if given else differing(m, sim, states)
    if given:
        give(sim, peers)
    after = sim.step(state_of(sim, states), states["control"] if m.nu else None)
    h, solved, v = m.opt.timestep, sim._step.solver.solution.v.numpy(), after.v.numpy()
    alike = [k for k in range(len(peers)) if not differ[k] and gaps_agree(m, sim, k, peers[k])]
    counts = [k for k in alike if peers[k].residual <= SOLVED]
    qacc = [relative((solved[k] - states["v"][k]) / h, peers[k].qacc) for k in counts]
    end = [relative(v[k], peers[k].v) for k in counts]
    force = [contact_force_error(sim.last_contacts, k, h, peers[k]) for k in counts]
    rows, gamma = own_rows(sim, m), sim._step.solver.solution.row_gamma.numpy()
    row = {
        "states": len(peers),
        "compared": len(counts),
        "unsolved": len(alike) - len(counts),
        "contacts": int(sum(len(peers[k].contacts) for k in counts)),
        "rows": int(sum(peers[k].nefc for k in counts)),
        "qacc": max(qacc, default=None),
        "force": max(force, default=None),
        "row_force": max((row_force_error(gamma[k], rows, h, peers[k]) for k in counts), default=None),
        "v": max(end, default=None),
        "residual": max((peers[k].residual for k in counts), default=None),
        "iterations": int(sim.diagnostics.iterations.numpy().max()),
        "flags": int(np.bitwise_or.reduce(sim.diagnostics.flags.numpy())),
        "differ": sorted(set().union(*differ)),
    }
    if qacc:
        k = counts[int(np.argmax(qacc))]
        row["worst_state"], row["worst_residual"] = int(k), peers[k].residual
        row["worst_dof"] = int(np.argmax(np.abs((solved[k] - states["v"][k]) / h - peers[k].qacc)))
    if m.nsensor and counts:
        row["sensors"] = sensor_errors(m, sim.sensors(after).numpy(), peers, counts)
    return row


def states_of(m: mujoco.MjModel, count: int) -> dict[str, np.ndarray]:
    """States with contact, and random ones."""
    return joined(contact_states(m, count), random_states(m, RANDOM))


def examine(file, cone: str, count: int, given: bool, without_rows: bool = False) -> dict:
    """`one_step` of a file: a row of the table, with `why` where there is nothing to compare."""
    m = compiled(str(file.path))
    if isinstance(m, str):
        return {"status": "no model", "why": m}
    if uses := outside(m):
        return {"status": "outside", "why": " ".join(uses)}
    if m.nv == 0:
        return {"status": "still"}
    if without_rows:
        m.opt.disableflags |= int(Disable.mjDSBL_LIMIT | Disable.mjDSBL_FRICTIONLOSS | Disable.mjDSBL_EQUALITY)
    try:
        return {"status": "ran"} | one_step(m, states_of(m, count), cone, given)
    except (ws.ModelError, ValueError, NotImplementedError) as error:
        return {"status": "refused", "why": f"{type(error).__name__}: {error}"}


def misses(row: dict) -> bool:
    """Whether a file that was compared is above a bar."""
    bars = {"qacc": QACC, "force": FORCE, "row_force": FORCE, "v": QACC}
    return bool(row.get("compared")) and not all(row.get(x, 0.0) <= bar for x, bar in bars.items())


def table(rows: list[dict]) -> str:
    """Summary by cone, files above a bar, files refused, and what differs."""
    lines = []
    for cone in CONES:
        found = [r for r in rows if r["cone"] == cone and r["status"] == "ran"]
        some = [r for r in found if r["compared"]]
        if not found:
            continue
        bad = [r for r in some if misses(r)]
        lines += [
            f"**{cone}**: {len(found)} files, {sum(r['states'] for r in found)} states; compared {len(some)} files, "
            f"{sum(r['compared'] for r in some)} states, {sum(r['contacts'] for r in some)} contact points, "
            f"{sum(r['rows'] for r in some)} rows. Within the bars {len(some) - len(bad)} files; of those the worst is "
            + ", ".join(
                f"{x} {max((r.get(x, 0.0) for r in some if not misses(r)), default=0):.1e}"
                for x in ("qacc", "force", "row_force", "v")
            )
            + ".",
            "",
        ]
        for r in bad:
            lines.append(
                f"- {r['file']}: qacc {r['qacc']:.1e}, force {r['force']:.1e}, v {r['v']:.1e}; MuJoCo's residual "
                f"{r['worst_residual']:.1e}; flags {r['flags']}"
            )
        lines.append("")
        if unsolved := {r["file"]: r["unsolved"] for r in found if r.get("unsolved")}:
            lines += [f"States that MuJoCo does not solve to {SOLVED:g}: {unsolved}", ""]
        alone = [f"{r['file']} ({', '.join(r['differ'])})" for r in found if not r["compared"]]
        if alone:
            lines += ["Files without a state to compare, and their pairs: " + "; ".join(alone) + ".", ""]
        pairs = collections.Counter(pair for r in found for pair in r["differ"])
        if pairs:
            lines += [
                "Files with states left out, by pair: " + ", ".join(f"{p} {n}" for p, n in pairs.most_common()),
                "",
            ]
    sensors: dict[str, tuple[float, str]] = {}
    for row in rows:
        for name, error in (row.get("sensors") or {}).items():
            sensors[name] = max(sensors.get(name, (0.0, "")), (error, row["file"] if error > FORCE else ""))
    if sensors:
        worst = ", ".join(f"{name} {error:.0e} {file}".rstrip() for name, (error, file) in sorted(sensors.items()))
        lines += [f"Sensors of the step, worst: {worst}", ""]
    refused = collections.Counter(
        (r["why"].split(": ", 1)[-1])[:140] for r in rows if r["status"] in ("refused", "crashed")
    )
    lines += [f"- not run, {n} ×: {why}" for why, n in refused.most_common()]
    return "\n".join(lines)


TEXT = """# One step under MuJoCo's law beside MuJoCo's

`python -m benchmarks.mujoco_law --corpus …{option}`, MuJoCo {version}, float64, CPU. Both engines solve until nothing changes.

States of each file: up to {states} with contact from a rollout of 1 s under random controls, and {random} random ones. Compared are the acceleration
(relative to the largest of the state, or 1; bar 1e-8), force and moment of every contact point and forces of rows (bar 1e-7), and the velocity after the step (bar
1e-8). {which}

"""
EDGES = "\nThe touch sensor of `manipulate_block_touch_sensors` differs at one state, where a ray hits an edge of the zone to rounding.\n"
OWN = "States count whose contact points agree with MuJoCo's to 1e-11; see [mujoco_contacts.md](mujoco_contacts.md) for the others."
GIVEN = "The steps take MuJoCo's contact points, so that all states count."


def page(rows: list[dict], states: int, given: bool) -> str:
    """The page of results."""
    head = {"states": states, "random": RANDOM, "version": mujoco.__version__}
    return TEXT.format(option=" --given" if given else "", which=GIVEN if given else OWN, **head) + table(rows) + EDGES


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", nargs="*", type=pathlib.Path, default=[])
    parser.add_argument("--cone", nargs="*", choices=CONES, default=list(CONES))
    parser.add_argument("--states", type=int, default=20)
    parser.add_argument("--only", nargs="*", default=())
    parser.add_argument("--given", action="store_true", help="steps take MuJoCo's contact points")
    parser.add_argument("--without-rows", action="store_true", help="no limits, dry friction and equalities")
    parser.add_argument("--rows", type=pathlib.Path, help="gets a line of JSON per file")
    parser.add_argument("--page", type=pathlib.Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    mujoco.set_mju_user_warning(lambda message: None)
    wp.config.log_level = wp.LOG_WARNING
    files = corpus_files(arguments.corpus) if arguments.corpus else gymnasium_files()
    files = [f for f in files if not arguments.only or any(word in f"{f.package}/{f.name}" for word in arguments.only)]
    rows = []
    for file in files:
        for cone in arguments.cone:
            began = time.perf_counter()
            try:
                row = examine(file, cone, arguments.states, arguments.given, arguments.without_rows)
            except Exception as error:  # a line of the table
                row = {"status": "crashed", "why": f"{type(error).__name__}: {error}"}
            if row["status"] in ("ran", "refused", "crashed"):
                row = {"file": f"{file.package}/{file.name}", "cone": cone, **row, "s": time.perf_counter() - began}
                rows.append(row)
                print(json.dumps(row), file=sys.stderr, flush=True)
                if arguments.rows:
                    with arguments.rows.open("a") as stream:
                        stream.write(json.dumps(row) + "\n")
    found = page(rows, arguments.states, arguments.given)
    print(found)
    if arguments.page:
        arguments.page.write_text(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
