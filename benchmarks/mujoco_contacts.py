# SPDX-License-Identifier: Apache-2.0
"""Contact points beside MuJoCo's: number, distance, place, normal and frame, by pair of geom types.

    python -m benchmarks.mujoco_contacts [--corpus FOLDER …] [--states 6] [--page benchmarks/results/mujoco_contacts.md]

States come from MuJoCo: rollouts of every file from its own start under random controls, of which the states with contact are kept. At each
of them the contact points with dist < margin are compared, pair of geoms by pair of geoms. Without --corpus the files are Gymnasium's and
`ws.robots`.
"""

import argparse
import collections
import dataclasses
import multiprocessing
import pathlib
import sys
import warnings

import gymnasium
import mujoco
import numpy as np

import warpsim as ws
from benchmarks.corpus.files import CorpusFile, compiled, corpus_files, outside
from benchmarks.corpus.starts import own_start, place, state_of
from warpsim.contact.collision import Collision, ContactList

AGREE = 1e-9  # [m, 1] of distance, place and normal
NEAR = 1e-6  # MuJoCo's own tolerance of general pairs (`ccd_tolerance`)
SECONDS, HOLD = 1.0, 10  # [s] of a rollout; steps that a control is held
SLOTS = 1024  # contact points of a world


def gymnasium_files() -> list[CorpusFile]:
    """The robot files of Gymnasium, installed here, and those of `ws.robots`."""
    root = pathlib.Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets"
    found = [CorpusFile("gymnasium", path, root) for path in sorted(root.glob("*.xml"))]
    own = [pathlib.Path(ws.robots.path(name)) for name in ws.robots.names()]
    return found + [CorpusFile("warpsim", path, path.parent) for path in own]


def contact_states(
    m: mujoco.MjModel, count: int, seed: int = 0, seconds: float = SECONDS
) -> dict[str, np.ndarray] | None:
    """Up to `count` states with contact, evenly over a rollout under random controls: as `starts.own_start`. None: no contact."""
    rng, data, states = np.random.default_rng(seed), mujoco.MjData(m), own_start(m, 2)
    place(data, states, 1)
    low, high = np.where(m.actuator_ctrllimited[:, None] > 0, m.actuator_ctrlrange, [-1.0, 1.0]).T
    found = []
    for step in range(max(count, round(seconds / m.opt.timestep))):
        if step % HOLD == 0:
            data.ctrl[:] = rng.uniform(low, high)
        before = [x.copy() for x in (data.qpos, data.qvel, data.ctrl, data.act, data.mocap_pos, data.mocap_quat)]
        mujoco.mj_step(m, data)
        if any(w.number for w in data.warning):
            break
        if acting(data).any():  # contact points of `before`
            found.append(before)
    if not found:
        return None
    chosen = [found[i] for i in np.unique(np.linspace(0, len(found) - 1, count).round().astype(int))]
    q, v, control, act, pos, quat = (np.array(column) for column in zip(*chosen, strict=True))
    mocap = np.concatenate([pos.reshape(len(q), m.nmocap, 3), quat.reshape(len(q), m.nmocap, 4)], axis=2)
    return {"q": q, "v": v, "control": control, "act": act, "mocap": mocap}


def acting(data: mujoco.MjData) -> np.ndarray:
    """Which contact points are nearer than their margin."""
    return data.contact.dist < data.contact.includemargin


def mujoco_contacts(m: mujoco.MjModel, data: mujoco.MjData) -> dict[tuple[int, int], list[tuple]]:
    """(dist, pos, normal, tangent, margin) of the contact points at the data's state, by pair of geoms."""
    mujoco.mj_fwdPosition(m, data)
    found, c = collections.defaultdict(list), data.contact
    for i in np.flatnonzero(acting(data) & (c.exclude != 3) & (c.geom >= 0).all(1)):
        frame = c.frame[i].reshape(3, 3)
        found[tuple(c.geom[i].tolist())].append((c.dist[i], c.pos[i], frame[0], frame[1], c.includemargin[i]))
    return found


def detected(sim: ws.Simulator, state: ws.State) -> ContactList:
    """The contact points with φ < 0 at the state, without a look ahead."""
    dynamics = sim._at(state)
    collision = Collision(sim.device_model, dynamics, SLOTS, enabled=sim.max_contacts > 0)
    collision.scene.mujoco = sim._step.collision.scene.mujoco
    dynamics.position(state.q)
    dynamics.velocity(state.v)
    collision.detect(0.0, dynamics.link_V, dynamics.link_V)
    return ContactList(collision, None)


def own_contacts(sim: ws.Simulator, states) -> list[dict[tuple[int, int], list[tuple]]]:
    """As `mujoco_contacts`, of every state."""
    model, found = sim.model, detected(sim, state_of(sim, states))
    margins = {tuple(pair): margin for pair, margin in zip(model.pair_geom.tolist(), model.pair_margin, strict=True)}
    worlds = []
    for w, count in enumerate(found.count):
        pairs = collections.defaultdict(list)
        for i in range(count):
            pair, frame = tuple(found.geoms[w, i].tolist()), found.frame[w, i]
            margin = margins[pair]
            pairs[pair].append((found.phi[w, i] + margin, found.point[w, i], frame[:, 2], frame[:, 0], margin))
        worlds.append(pairs)
    return worlds


@dataclasses.dataclass
class PairDifference:
    """One pair of geoms at one state: numbers of points, and the largest difference of matched points."""

    types: tuple[int, int]
    theirs: int
    ours: int
    lowest: float  # of the smallest distances
    dist: float
    pos: float
    normal: float
    margin: float

    @property
    def worst(self) -> float:
        """Of distance, place and normal of the points; infinite where numbers differ."""
        return max(self.dist, self.pos, self.normal) if self.theirs == self.ours else np.inf


def difference(types, theirs: list[tuple], ours: list[tuple]) -> PairDifference:
    """Compare the points of a pair; each of MuJoCo's goes with the nearest one of ours."""
    result = PairDifference(types, len(theirs), len(ours), np.nan, np.nan, np.nan, np.nan, np.nan)
    if theirs and ours:
        result.lowest = abs(min(x[0] for x in theirs) - min(x[0] for x in ours))
        result.margin = abs(theirs[0][4] - ours[0][4])
        matched = [(a, min(ours, key=lambda b, a=a: np.linalg.norm(b[1] - a[1]))) for a in theirs]
        result.dist = max(abs(a[0] - b[0]) for a, b in matched)
        result.pos = max(float(np.abs(a[1] - b[1]).max()) for a, b in matched)
        result.normal = max(float(np.abs(a[2] - b[2]).max()) for a, b in matched)
    return result


def frame_of(normal: np.ndarray, axis: np.ndarray | None) -> np.ndarray:
    """MuJoCo's contact frame (rows n, t1, t2): t1 is `axis`, or y, or z where |n_y| ≥ 1/2, made orthogonal to n; t2 = n × t1."""
    tangent = np.array([0.0, 1.0, 0.0] if abs(normal[1]) < 0.5 else [0.0, 0.0, 1.0]) if axis is None else axis
    tangent = tangent - (normal @ tangent) * normal
    size = np.linalg.norm(tangent)
    tangent = tangent / size if size >= mujoco.mjMINVAL else np.array([1.0, 0.0, 0.0])
    return np.array([normal, tangent, np.cross(normal, tangent)])


def frame_error(m: mujoco.MjModel, data: mujoco.MjData, pair, point: tuple) -> float:
    """Of `frame_of` against MuJoCo's tangent; a capsule on a plane gives its axis."""
    kinds = m.geom_type[list(pair)].tolist()
    along = kinds == [mujoco.mjtGeom.mjGEOM_PLANE, mujoco.mjtGeom.mjGEOM_CAPSULE]
    axis = data.geom_xmat[pair[1]].reshape(3, 3)[:, 2] if along else None
    return float(np.abs(frame_of(point[2], axis)[1] - point[3]).max())


def audit(
    m: mujoco.MjModel, model: ws.Model, states
) -> tuple[list[list[PairDifference]], dict[tuple[int, int], float]]:
    """The pairs of geoms in contact at each state, and by types the worst error of `frame_of`."""
    sim = ws.Simulator(model, len(states["q"]), dtype="float64", device="cpu", threads=1)
    sim._step.collision.scene.mujoco = 1
    rows, frames, data = [], collections.defaultdict(float), mujoco.MjData(m)
    for k, ours in enumerate(own_contacts(sim, states)):
        mujoco.mj_resetData(m, data)
        place(data, states, k)
        theirs = mujoco_contacts(m, data)
        rows.append([])
        for pair in sorted(theirs.keys() | ours.keys()):
            types = tuple(m.geom_type[list(pair)].tolist())
            rows[-1].append(difference(types, theirs.get(pair, []), ours.get(pair, [])))
            for point in theirs.get(pair, []):
                frames[types] = max(frames[types], frame_error(m, data, pair, point))
    return rows, dict(frames)


def examine(file: CorpusFile, count: int):
    """`audit` of one file; None where there is nothing to compare."""
    warnings.simplefilter("ignore")
    mujoco.set_mju_user_warning(lambda message: None)
    m = compiled(str(file.path))
    if isinstance(m, str) or outside(m) or m.nv == 0:
        return None
    states = contact_states(m, count)
    return None if states is None else audit(m, ws.load(file.path, root=file.root), states)


def type_name(types: tuple[int, int]) -> str:
    """Such as "plane–box"."""
    return "–".join(mujoco.mjtGeom(t).name[7:].lower() for t in types)


def table(rows: list[PairDifference], frames: dict[tuple[int, int], float]) -> str:
    """A line per pair of types."""
    lines = [
        "| pair | seen | same number | agree to 1e-9 | to 1e-6 | MuJoCo's points | ours | only MuJoCo | only ours | smallest distance | "
        "distance | place | normal | frame rule |",
        "|" + "---|" * 14,
    ]
    by_types = collections.defaultdict(list)
    for row in rows:
        by_types[row.types].append(row)
    for types, found in sorted(by_types.items()):
        both = [r for r in found if r.theirs and r.ours]
        same = [r for r in both if r.theirs == r.ours]
        worst = [max((getattr(r, x) for r in group), default=np.nan) for x, group in
                 (("lowest", both), ("dist", same), ("pos", same), ("normal", same))]  # fmt: skip
        n = len(found)
        shares = [len(same) / n, sum(r.worst <= AGREE for r in same) / n, sum(r.worst <= NEAR for r in same) / n]
        means = [np.mean([getattr(r, x) for r in found]) for x in ("theirs", "ours")]
        cells = [type_name(types), str(n), *(f"{s:.1%}" for s in shares), *(f"{x:.2f}" for x in means)]
        cells += [str(sum(r.ours == 0 for r in found)), str(sum(r.theirs == 0 for r in found))]
        cells += [f"{w:.1e}" for w in worst] + [f"{frames.get(types, np.nan):.0e}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


TEXT = """# Contact points beside MuJoCo's

`python -m benchmarks.mujoco_contacts {command}`, MuJoCo {version}, float64. States with contact from rollouts of {seconds:g} s under random
controls, {states} of each file. Compared are the contact points with dist < margin, pair of geoms by pair of geoms.

Of {files} files with contact, {any} have a state at which all pairs agree to 1e-9 m, and at all states of {all} they do.

- *seen*: pairs of geoms in contact in either engine, over all states. *agree*: same number of points, and distance, place and normal as MuJoCo's.
- *only*: pairs with points in one engine only. Distances within rounding of the margin are among them.
- *smallest distance*: worst difference of the pair's smallest distance. *distance*, *place*, *normal*: worst difference of the points, of
  pairs with the same number of points.
- *frame rule*: worst difference of MuJoCo's first tangent from `frame_of`: the y axis (z where |n_y| ≥ 1/2), or the axis of a capsule on a
  plane, made orthogonal to the normal.

Where pairs differ:

- plane–box, plane–cylinder: with `ws.MuJoCo()` the points are MuJoCo's: up to four vertices of a box below its center; the lowest point of
  either rim of a cylinder and the two points of the lower rim 120° from it. (With other contact models all vertices of the box, and fixed
  points of a standing cylinder's rim.) MuJoCo's distances of a cylinder that is tilted by less than 1e-6 are off by up to 1e-8 m.
- plane–mesh: MuJoCo takes the lowest vertex and up to two neighbors of it on the hull that are 0.3 bounding radii away from it. Here up to
  eight vertices that span the largest area.
- capsule–capsule: here capsules within 0.6° of parallel have a point at either end of their overlap, in MuJoCo parallel ones; there in-line
  capsules have the same point twice. Capsules whose axes meet have an arbitrary normal in both.
- capsule–box: MuJoCo searches one or two points by a rule of its own; deep inside a box it may take another face.
- box–box: with `ws.MuJoCo()` MuJoCo's choice of a face or an edge pair, and its points. The point of an edge pair is that of the lines;
  MuJoCo's stays within the edges (they differ in one of 400 pairs of separated boxes within the margin).
  (Other contact models take a face of nearly the same depth more often, and the nearest features of separated boxes.)
- general pairs (ellipsoids, cylinders, meshes, height fields): MuJoCo's distance is that of GJK and EPA with the tolerance 1e-6; its normals
  are as inexact as its witness points. Here normals are exact to rounding. The manifolds differ. A mesh is its hull, here of at most
  `max_hull_vertices`.
"""


def _job(arguments):
    file, count = arguments
    try:
        return examine(file, count)
    except Exception as error:  # a line of the list of files
        return f"{type(error).__name__}: {error}"


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", nargs="*", type=pathlib.Path, default=[])
    parser.add_argument("--states", type=int, default=6)
    parser.add_argument("--only", nargs="*", default=())
    parser.add_argument("--page", type=pathlib.Path)
    arguments = parser.parse_args()
    files = gymnasium_files() if not arguments.corpus else corpus_files(arguments.corpus)
    files = [f for f in files if not arguments.only or any(word in f"{f.package}/{f.name}" for word in arguments.only)]
    found, frames, failed = [], collections.defaultdict(float), {}
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=40) as pool:
        for file, result in zip(files, pool.imap(_job, [(f, arguments.states) for f in files]), strict=True):
            name = f"{file.package}/{file.name}"
            print(name, result if isinstance(result, str) else "", file=sys.stderr, flush=True)
            if isinstance(result, str):
                failed[name] = result
            elif result is not None:
                found.append([max((r.worst for r in rows), default=0.0) <= AGREE for rows in result[0]])
                found[-1].append([row for rows in result[0] for row in rows])
                for types, error in result[1].items():
                    frames[types] = max(frames[types], error)
    command = "--corpus …" if arguments.corpus else ""
    page = TEXT.format(
        command=command, version=mujoco.__version__, seconds=SECONDS, states=arguments.states, files=len(found),
        any=sum(any(x[:-1]) for x in found), all=sum(all(x[:-1]) for x in found),
    )  # fmt: skip
    page += f"\n{table([row for x in found for row in x[-1]], frames)}\n"
    page += "".join(f"\n- {name}: {why}" for name, why in failed.items())
    print(page)
    if arguments.page:
        arguments.page.write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
