# SPDX-License-Identifier: Apache-2.0
"""Whether gradients through contact are of use: the tape against coarse differences of the motion, hovering, and searches.

    python -m benchmarks.useful_gradients [--quick] [--only SOLVER ...] [--peers PYTHON] [--out benchmarks/results]

Every scene is one that slides, with nine frictions x four speeds as worlds of one simulator. The tape's derivative of the
place where it ends, by the friction, is set against the central difference over 3 % of the friction to either side, which is
as wide as a step of a search. The searches are Adam, from eight guesses at once. float64, CPU, one thread, some minutes;
--only measures these solvers again and keeps the others of --out; --peers names a Python with mujoco, mujoco-mjx or
nimblephysics (`benchmarks/useful_gradients_peers.py`).
"""

import argparse
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import warp as wp

import warpsim as ws
from benchmarks.useful_gradients_report import report
from warpsim.tools.bench import machine

SOLVERS = {
    "SAP, convex": ws.SAP(tolerance=1e-12, approximation="convex"),
    "SAP, lagged": ws.SAP(tolerance=1e-12, approximation="lagged"),
    "Compliant": ws.Compliant(tolerance=1e-12),
    "LCP": ws.LCP(),
}
DT, SIDE, RADIUS, DENSITY = 0.005, 0.1, 0.05, 500.0
FRICTIONS, SPEEDS = np.linspace(0.2, 0.6, 9), np.array([0.3, 1.0, 2.0, 5.0])
COARSE = 0.03  # of the friction, to either side
TRUE_FRICTION, SIGN_SPEED = 0.4, 2.0
SIGN_FRICTIONS = TRUE_FRICTION * np.concatenate([np.linspace(0.5, 0.98, 37), np.linspace(1.02, 1.5, 38)])
PUSH = 3.5  # [N] on the pushed box of 0.5 kg
HOVER_STEPS = (0.001, 0.005, 0.01)  # [s]
GUESSES, ITERATIONS = 8, 100
PEERS = pathlib.Path(__file__).with_name("useful_gradients_peers.py")


@dataclasses.dataclass
class Scene:
    """What slides. `pattern (ngeom,)`: the geoms' frictions for a friction of 1; `start(speeds)`: q, v and, where there are
    any, controls of as many worlds. Coordinate 0 is the place."""

    model: ws.Model
    steps: int
    start: Callable[[np.ndarray], dict[str, np.ndarray]]
    pattern: np.ndarray


def box(planar: bool = False) -> ws.Model:
    """A box of 0.5 kg on the floor, free or, with a motor along x, in the plane."""
    b = ws.ModelBuilder("box")
    b.add_geom("plane", friction=1.0)
    b.add_body("box", pose=[0, 0, SIDE / 2])
    if planar:
        for name, kind, axis in (("x", "slide", [1, 0, 0]), ("z", "slide", [0, 0, 1]), ("turn", "hinge", [0, 1, 0])):
            b.add_joint("box", kind, axis=axis, name=name)
        b.add_actuator("x", name="push")
    else:
        b.add_joint("box", "free")
    b.add_geom("box", [SIDE / 2] * 3, body="box", density=DENSITY, friction=1.0)
    return b.build()


def ball(stiffness: float | None = None, restitution: float = 0.0, friction: float = 1.0) -> ws.Model:
    """A ball of 0.26 kg."""
    b = ws.ModelBuilder("ball")
    material = {"friction": friction, "restitution": restitution}
    b.add_geom("plane", **material)
    b.add_body("ball", pose=[0, 0, RADIUS])
    b.add_joint("ball", "free")
    if stiffness is not None:
        material |= {"stiffness": stiffness, "dissipation_time": 0.0}
    b.add_geom("sphere", [RADIUS], body="ball", density=DENSITY, **material)
    return b.build()


def thrown(model: ws.Model, q=None):
    """Start along x at the speeds, from q (default: the model's)."""

    def start(speeds):
        v = np.zeros((len(speeds), model.nv))
        v[:, 0] = speeds
        return {"q": np.broadcast_to(model.q0 if q is None else q, (len(speeds), model.nq)), "v": v}

    return start


def scenes(solver) -> dict[str, Callable[[], Scene]]:
    """By name."""

    def pushed():
        model = box(planar=True)
        controls = lambda speeds: {"controls": np.full((100, len(speeds), 1), PUSH)}  # noqa: E731
        return Scene(model, 100, lambda speeds: thrown(model)(speeds) | controls(speeds), np.ones(2))

    def foot():
        model = ws.load(ws.robots.path("ant"))  # whose rule is the larger friction: the feet's
        pattern = np.where(model.geom_body < 0, 0.5, 1.0)
        rest = ws.Simulator(model, dt=DT, solver=solver, dtype="float64", device="cpu")
        settled = rest.rollout(rest.state(), steps=400, every=400).q.numpy()[-1, 0]
        return Scene(model, 40, thrown(model, settled), pattern)

    def plain(model):
        return Scene(model, 160, thrown(model), np.ones(2))

    return {
        "sliding box": lambda: plain(box()),
        "pushed box": pushed,
        "thrown ball": lambda: plain(ball()),
        "ant's feet": foot,
    }


# ---- losses -----------------------------------------------------------------------------------------------------------


@wp.kernel
def squared_distance(
    q: wp.array3d(dtype=wp.float64),
    target: wp.array2d(dtype=wp.float64),
    weight: wp.array2d(dtype=wp.float64),
    # out
    loss: wp.array(dtype=wp.float64),
):
    """Σ weight (q - target)² over rows and coordinates, per world."""
    w = wp.tid()
    for row in range(q.shape[0]):
        for i in range(q.shape[2]):
            d = q[row, w, i] - target[row, i]
            loss[w] += weight[row, i] * d * d


@wp.kernel
def last_place(q: wp.array3d(dtype=wp.float64), place: wp.array(dtype=wp.float64)):
    w = wp.tid()
    place[w] = q[q.shape[0] - 1, w, 0]


def launch_per_world(kernel, trajectory, *inputs) -> wp.array:
    result = wp.zeros(trajectory.worlds, dtype=wp.float64, device="cpu", requires_grad=True)
    wp.launch(kernel, dim=trajectory.worlds, inputs=[trajectory.q, *inputs, result], device="cpu")
    return result


def distance_from(target: np.ndarray, weight: np.ndarray):
    """The loss of rows `target (rows, nq)`, weighted."""
    given = [wp.array(np.ascontiguousarray(x), dtype=wp.float64, device="cpu") for x in (target, weight)]
    return lambda trajectory: launch_per_world(squared_distance, trajectory, *given)


def simulate(model, worlds: int, solver, requires_grad: bool = True, dt: float = DT) -> ws.Simulator:
    return ws.Simulator(
        model, worlds, dt, solver=solver, dtype="float64", device="cpu", requires_grad=requires_grad
    )  # fmt: skip


# ---- slopes, signs, hover ---------------------------------------------------------------------------------------------


def places(scene: Scene, solver, frictions, speeds, dt: float = DT) -> dict[str, np.ndarray]:
    """Per world: where it ends, the tape's and the coarse derivative of that by the friction, and whether
    `Objective.trust` trusts the gradient."""
    sim = simulate(scene.model, len(frictions), solver, dt=dt)
    fixed = scene.start(speeds)
    start = {"geom_friction": frictions[:, None] * scene.pattern}
    loss = lambda trajectory: launch_per_world(last_place, trajectory)  # noqa: E731
    objective = ws.Objective(sim, loss, start, fixed=fixed, steps=scene.steps)
    ends = {side: objective.rollout((1 + side * COARSE) * objective.x0).q.numpy()[-1, :, 0] for side in (-1, 0, 1)}
    _, gradient = objective(objective.x0)
    tape = objective.unpack(gradient)["geom_friction"] @ scene.pattern
    coarse = (ends[1] - ends[-1]) / (2 * COARSE * frictions)
    return {"place": ends[0], "tape": tape, "coarse": coarse, "trusted": objective.trust().trusted}


def slopes(scene: Scene, solver, quick: bool) -> dict:
    """|tape / coarse - 1| at every friction and speed, and the signs of d loss / d friction at one speed."""
    speeds, frictions = (SPEEDS[1:3], FRICTIONS[::4]) if quick else (SPEEDS, FRICTIONS)
    grid = np.repeat(speeds, len(frictions)), np.tile(frictions, len(speeds))
    found = places(scene, solver, grid[1], grid[0])
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.abs(found["tape"] / found["coarse"] - 1).reshape(len(speeds), -1)
    trusted = found["trusted"].reshape(error.shape)
    signs = SIGN_FRICTIONS[::4] if quick else SIGN_FRICTIONS
    every = np.append(signs, TRUE_FRICTION)
    ends = places(scene, solver, every, np.full(len(every), SIGN_SPEED))
    loss_slope = 2 * (ends["place"] - ends["place"][-1]) * ends["tape"]
    right = (np.sign(loss_slope) == np.sign(every - TRUE_FRICTION))[:-1]
    return {
        "speeds": {f"{s:g}": {"error": e.tolist(), "trusted": t.tolist()} for s, e, t in zip(speeds, error, trusted, strict=True)},
        "tape": found["tape"].reshape(error.shape).tolist(),
        "coarse": found["coarse"].reshape(error.shape).tolist(),
        "signs": [int(right.sum()), len(right)],
    }  # fmt: skip


def hover(solver, quick: bool) -> dict[str, float]:
    """The largest gap [mm] under the sliding box, 2 m/s, friction 0.4, by the step."""
    model, found = box(), {}
    for dt in HOVER_STEPS[1:2] if quick else HOVER_STEPS:
        sim = simulate(model, 1, solver, requires_grad=False, dt=dt)
        sim.parameters["geom_friction"].assign(np.full((1, 2), TRUE_FRICTION))
        state = sim.state(v=thrown(model)(np.array([SIGN_SPEED]))["v"])
        q = sim.rollout(state, steps=round(0.5 / dt)).q.numpy()[:, 0]
        R = np.array([rotation(x[3:]) for x in q])
        corners = np.stack(np.meshgrid(*[[-SIDE / 2, SIDE / 2]] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
        lowest = q[:, 2] + (corners @ R[:, 2].T).min(axis=0)
        found[f"{1e3 * dt:g}"] = 1e3 * float(lowest.max())
    return found


def rotation(quaternion) -> np.ndarray:
    """(3, 3) of (w, x, y, z)."""
    w, *u = quaternion / np.linalg.norm(quaternion)
    cross = np.cross(np.eye(3), u)
    return (w * w - np.dot(u, u)) * np.eye(3) + 2 * np.outer(u, u) - 2 * w * cross


# ---- searches ---------------------------------------------------------------------------------------------------------


def adam(objective: ws.Objective, values, start: np.ndarray, iterations: int, rate: float) -> np.ndarray:
    """The last iterate (worlds, k) of Adam (β 0.9, 0.999; the step falls linearly from `rate` to 0).

    `values(theta)`: the objective's variables by name, and by name the derivative (k, ...) of one world's entries.
    """
    theta, mean, square = start.copy(), np.zeros_like(start), np.zeros_like(start)
    for step in range(iterations):
        given, derivative = values(theta)
        _, packed = objective(objective.pack(given))
        given = objective.unpack(packed)
        rows = {name: given[name].reshape(len(theta), 1, -1) for name in derivative}
        gradient = sum((rows[n] * d.reshape(*d.shape[:2], -1)).sum(axis=2) for n, d in derivative.items())
        gradient = np.where(np.isfinite(gradient), gradient, 0.0)
        mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2
        unbiased = mean / (1 - 0.9 ** (step + 1)), square / (1 - 0.999 ** (step + 1))
        theta = theta - rate * (1 - step / iterations) * unbiased[0] / (np.sqrt(unbiased[1]) + 1e-12)
    return theta


def found_within(theta: np.ndarray, truth: np.ndarray, share: float) -> list[int]:
    """[how many, of how many] are that close in all entries, relative."""
    good = (np.abs(theta / truth - 1) <= share).all(axis=1)
    return [int(good.sum()), len(good)]


def find_friction(solver, iterations: int) -> list[int]:
    """The friction of a box from the place where it is after 0.4 s, thrown at 2 m/s. Adam in log μ, step 0.1."""
    model, steps = box(), 80
    fixed = thrown(model)(np.full(GUESSES, SIGN_SPEED))
    pattern = lambda mu: mu[:, None] * np.ones(2)  # noqa: E731
    sim = simulate(model, GUESSES, solver)
    truth = {"geom_friction": pattern(np.full(GUESSES, TRUE_FRICTION))}
    target = truth_of(sim, truth, fixed, steps)
    weight = np.zeros_like(target)
    weight[-1, 0] = 1.0
    objective = ws.Objective(sim, distance_from(target, weight), truth, fixed=fixed, steps=steps)

    def values(theta):
        mu = np.exp(theta[:, 0])
        return {"geom_friction": pattern(mu)}, {"geom_friction": pattern(mu)[:, None]}

    guesses = np.log(np.geomspace(0.15, 0.9, GUESSES))[:, None]
    return found_within(np.exp(adam(objective, values, guesses, iterations, 0.1)), np.array([TRUE_FRICTION]), 0.01)


def find_mass_and_friction(solver, iterations: int) -> list[int]:
    """Both of a box that starts at 2 m/s, slides for 0.25 s and is then pushed by 14 N for 0.15 s, from its way. Adam in logs,
    step 0.1, twice the iterations."""
    model, steps = box(planar=True), 80
    fixed = thrown(model)(np.full(GUESSES, SIGN_SPEED))
    push = np.where(np.arange(steps) < 50, 0.0, 4 * PUSH)
    fixed["controls"] = np.repeat(push[:, None, None], GUESSES, axis=1)
    sim = simulate(model, GUESSES, solver)

    def values(theta):
        mass, mu = np.exp(theta[:, :1]), np.exp(theta[:, 1:]) * np.ones(2)
        d_mass, d_mu = np.zeros((GUESSES, 2, 1)), np.zeros((GUESSES, 2, 2))
        d_mass[:, 0], d_mu[:, 1] = mass, mu
        return {"body_mass": mass, "geom_friction": mu}, {"body_mass": d_mass, "geom_friction": d_mu}

    truth = np.array([float(model.body_mass[0]), TRUE_FRICTION])
    there = values(np.log(np.tile(truth, (GUESSES, 1))))[0]
    target = truth_of(sim, there, fixed, steps)
    weight = np.zeros_like(target)
    weight[:, 0] = 1.0
    objective = ws.Objective(sim, distance_from(target, weight), there, fixed=fixed, steps=steps)
    guesses = np.log(truth) + np.random.default_rng(0).uniform(-0.7, 0.7, size=(GUESSES, 2))
    return found_within(np.exp(adam(objective, values, guesses, 2 * iterations, 0.1)), truth, 0.05)


def bounces(solver) -> bool:
    """Whether contact has restitution, by itself or by impacts inside steps."""
    return solver.has_restitution or solver.times_impacts


def find_restitution(solver, iterations: int) -> list[int] | None:
    """That of a ball dropped from 0.3 m, 0.7, from its height 0.4 s later. Adam in e, step 0.05; None: the model has none."""
    if not bounces(solver):
        return None
    model, steps, truth = ball(restitution=0.5), 80, 0.7
    q = np.broadcast_to(model.q0 + 0.3 * np.eye(model.nq)[2], (GUESSES, model.nq))
    fixed = {"q": q, "v": np.zeros((GUESSES, model.nv))}
    sim = simulate(model, GUESSES, solver)
    both = lambda e: {"geom_restitution": e * np.ones(2)}  # noqa: E731
    target = truth_of(sim, both(np.full((GUESSES, 1), truth)), fixed, steps)
    weight = np.zeros_like(target)
    weight[-1, 2] = 1.0
    start = both(np.full((GUESSES, 1), truth))
    objective = ws.Objective(sim, distance_from(target, weight), start, fixed=fixed, steps=steps)
    values = lambda e: (both(e), {"geom_restitution": np.ones((GUESSES, 1, 2))})  # noqa: E731
    guesses = np.linspace(0.35, 0.95, GUESSES)[:, None]
    return found_within(adam(objective, values, guesses, iterations, 0.05), np.array([truth]), 0.01)


def throw(solver, iterations: int) -> dict:
    """The throw, v_x and v_z, that is at a place 2 m away 0.65 s later, after a bounce: how many miss by less than 2 cm. Adam,
    step 0.1 m/s.

    The ball is rigid with restitution 0.8 where the model has that, else a spring without loss whose bounce takes 10 steps.
    """
    mass = DENSITY * 4 / 3 * np.pi * RADIUS**3
    rigid = bounces(solver)
    model = (
        ball(restitution=0.8, friction=0.3) if rigid else ball(stiffness=mass * (np.pi / (10 * DT)) ** 2, friction=0.3)
    )
    steps, truth = 130, np.array([3.0, 1.5])
    q = np.broadcast_to(model.q0 + 0.5 * np.eye(model.nq)[2], (GUESSES, model.nq))
    sim = simulate(model, GUESSES, solver)
    derivative = np.zeros((GUESSES, 2, model.nv))
    derivative[:, 0, 0] = derivative[:, 1, 2] = 1.0
    values = lambda x: ({"v": np.einsum("wk,wkv->wv", x, derivative)}, {"v": derivative})  # noqa: E731
    there = values(np.tile(truth, (GUESSES, 1)))[0]
    target = truth_of(sim, there, {"q": q}, steps)
    weight = np.zeros_like(target)
    weight[-1, [0, 2]] = 1.0
    objective = ws.Objective(sim, distance_from(target, weight), there, fixed={"q": q}, steps=steps)
    guesses = truth + np.random.default_rng(0).uniform(-0.5, 0.5, size=(GUESSES, 2))
    last = values(adam(objective, values, guesses, iterations, 0.1))[0]
    ends = objective.rollout(objective.pack(last)).q.numpy()[-1][:, [0, 2]]
    miss = np.linalg.norm(ends - target[-1, [0, 2]], axis=1)
    return {"within": [int((miss <= 0.02).sum()), GUESSES], "median miss [mm]": 1e3 * float(np.median(miss))}


def truth_of(sim, values: dict, fixed: dict, steps: int) -> np.ndarray:
    """Rows (steps + 1, nq) of the motion at the true values, world 0."""
    nothing = lambda trajectory: None  # noqa: E731
    objective = ws.Objective(sim, nothing, values, fixed=fixed, steps=steps)
    return objective.rollout(objective.x0).q.numpy()[:, 0].copy()


SEARCHES = {
    "friction": find_friction,
    "mass and friction": find_mass_and_friction,
    "restitution": find_restitution,
    "throw": throw,
}


# ---- running ----------------------------------------------------------------------------------------------------------


def measure(solver, quick: bool) -> dict:
    """All of one solver; `refused`, with the reason, where it gives no gradients."""
    result = {"hover": hover(solver, quick)}
    try:
        simulate(box(), 1, solver)
    except (ValueError, NotImplementedError) as error:
        return result | {"refused": str(error).splitlines()[0]}
    begin = time.process_time()
    result["scenes"] = {name: slopes(make(), solver, quick) for name, make in scenes(solver).items()}
    iterations = 30 if quick else ITERATIONS
    result["searches"] = {name: search(solver, iterations) for name, search in SEARCHES.items()}
    return result | {"seconds": time.process_time() - begin}


def peers(python: str, quick: bool) -> dict:
    """What the peers found in the environment of `python`, by name: as `measure`, or `skipped` with the reason."""
    command = [python, str(PEERS), *(["--quick"] if quick else [])]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line for line in run.stdout.splitlines() if line.startswith("{")]
    found = {name: row for line in lines for name, row in json.loads(line).items()}
    return found or {"peers": {"skipped": (run.stderr.splitlines() or ["nothing was printed"])[-1]}}


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="three frictions, two speeds, 30 iterations")
    parser.add_argument("--only", nargs="*", choices=list(SOLVERS), help="solvers; none: peers alone")
    parser.add_argument("--peers", metavar="PYTHON", help="interpreter of an environment with the peers")
    parser.add_argument("--out", type=pathlib.Path, help="folder for useful_gradients.md and .json")
    arguments = parser.parse_args()
    wp.config.log_level = wp.LOG_WARNING
    file = arguments.out and arguments.out / "useful_gradients.json"
    kept = json.loads(file.read_text())["solvers"] if file and file.is_file() else {}
    chosen = list(SOLVERS) if arguments.only is None else arguments.only

    def keep(found: dict) -> None:
        kept.update(found)
        order = [*SOLVERS, *(name for name in kept if name not in SOLVERS)]
        results = {"machine": machine(wp.get_device("cpu")), "solvers": {n: kept[n] for n in order if n in kept}}
        if file:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(results, indent=1) + "\n")
            file.with_suffix(".md").write_text(report(results))

    for name in chosen:
        keep({name: measure(SOLVERS[name], arguments.quick) | {"quick": arguments.quick}})
        print(name, "done", flush=True)
    if arguments.peers:
        keep(peers(arguments.peers, arguments.quick))
    print(report({"machine": machine(wp.get_device("cpu")), "solvers": kept}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
