# SPDX-License-Identifier: Apache-2.0
"""Two arms open a jar, pour its marbles into a bowl, and close it again (SAP paper, §VI-E): the robots' program, all worlds at once.

Goals are poses of what a hand holds (jar, lid); the palm keeps its place in that frame. A phase moves from the last goals to its own by
minimum jerk while inverse kinematics (`ws.reach`, two iterations a step) follows, and ends when its time is over and its event has come, each
world by itself. Fingers go to open or closed postures with limited effort. Events are forces: grasped, lid on, jar down.
"""

import time
import typing

import numpy as np

import warpsim as ws
from scenes.two_arms import (
    ARM_DAMPING,
    HAND_EFFORT,
    HAND_KP,
    JAR,
    JAR_AT,
    SIDES,
    robots,
    task_scene,
)
from warpsim.model.geometry import (
    axis_angle,
    compose,
    inverse,
    matrix_quaternion,
    quaternion_multiply,
    rotation_matrix,
    rotation_vector,
)

REST = (0.0, 0.65, 0.0, -1.89, 0.0, 0.6, 0.0)  # [rad] posture of an arm
POSTURE_WEIGHT, DAMPING = 0.01, 0.01  # of `ws.reach`
GRASPED, LID_ON, JAR_DOWN = 10.0, 8.0, 3.0  # [N]
HELD_FROM = 0.6  # [s] of closing before force counts
POLYGONS = 512  # per world
PATIENCE = 3.0  # [s] an event may be late before its world goes on without it

# The task is done with so many marbles in the bowl, the jar on the table and the lid on it.
POURED, BOWL_REACH, BOWL_TOP = 12, 0.13, 0.09  # [m]
UPRIGHT, STANDS = 0.98, 0.02  # cosine of the tilt; [m]
LID_BESIDE, LID_ABOVE = 0.006, 0.015  # [m]
LID_OFF = 0.05  # [m] above the rim
REACHED = ("jar grasped", "jar lifted, closed", "lid off, held", "poured", "lid on again", "jar back, all done")

# Palm in the frame of what it holds: columns x (out of the palm), y, z (along the fingers), and where the thing is in the palm's frame.
JAR_TURN = np.array([[0.0, 0.0, 1.0], [-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]])
JAR_IN_PALM, JAR_HEIGHT = np.array([0.056, 0.0, -0.022]), 0.066
LID_ANGLE = 0.8  # [rad] of the right hand's fingers from x
LID_IN_PALM, LID_HEIGHT = np.array([0.100, 0.006, -0.010]), JAR.cap / 2

FINGERS = {  # four joints of a finger three times, then of the thumb
    "left open": ((0.0, 0.4, 0.3, 0.2), (1.1, 0.0, -0.18, -0.16)),
    "left closed": ((0.0, 1.55, 1.0, 0.8), (1.39, 0.2, 0.5, 0.8)),
    "right open": ((0.0, 0.65, 0.55, 0.35), (1.39, -0.1, -0.18, -0.1)),
    "right closed": ((0.0, 1.15, 0.75, 0.55), (1.39, -0.1, 0.4, 0.4)),
}


def posture(name: str) -> np.ndarray:
    """(16,) joints of a hand."""
    finger, thumb = FINGERS[name]
    return np.array([*finger * 3, *thumb])


def palm_in_thing(turn: np.ndarray, thing_in_palm: np.ndarray, height: float) -> np.ndarray:
    """(7,) the palm's pose in the frame of what it holds at `height`."""
    at = np.array([0.0, 0.0, height]) - turn @ thing_in_palm
    return np.concatenate([at, matrix_quaternion(turn)])


def lid_turn(angle: float) -> np.ndarray:
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[0.0, -s, c], [0.0, c, s], [-1.0, 0.0, 0.0]])


HOLDS = {
    "left": palm_in_thing(JAR_TURN, JAR_IN_PALM, JAR_HEIGHT),
    "right": palm_in_thing(lid_turn(LID_ANGLE), LID_IN_PALM, LID_HEIGHT),
}


def minimum_jerk(s) -> np.ndarray:
    s = np.clip(s, 0.0, 1.0)
    return s**3 * (10 - 15 * s + 6 * s * s)


def between(a: np.ndarray, b: np.ndarray, s: np.ndarray) -> np.ndarray:
    """Poses (worlds, 7) a part s (worlds,) of the way from a to b."""
    turn = rotation_vector(quaternion_multiply(b[:, 3:], a[:, 3:] * (1.0, -1.0, -1.0, -1.0)))
    angle = np.linalg.norm(turn, axis=1)
    axis = turn / np.maximum(angle, 1e-12)[:, None]
    part = np.stack([axis_angle(x, t) for x, t in zip(axis, s * angle, strict=True)])
    at = a[:, :3] + s[:, None] * (b[:, :3] - a[:, :3])
    return np.concatenate([at, quaternion_multiply(part, a[:, 3:])], axis=1)


def _up(pose: np.ndarray) -> np.ndarray:
    """(worlds, 3) the z axes of poses."""
    return rotation_matrix(pose[:, 3:])[..., 2]


class Phase(typing.NamedTuple):
    """`left`, `right`: functions of a `Task` that give goals (worlds, 7) of jar and lid, None to stay; `hands`: postures to go to."""

    name: str
    seconds: float
    left: typing.Callable | None = None
    right: typing.Callable | None = None
    hands: tuple[str, ...] = ()
    event: str | None = None  # what ends it; it may come early where `early`
    early: bool = False


def shifted(pose: np.ndarray, x=0.0, y=0.0, z=0.0) -> np.ndarray:
    return pose + np.array([x, y, z, 0, 0, 0, 0])


LIFT, POUR_TURN = 0.15, 2.27  # [m], [rad]
POUR_AT = (0.65, -0.10, 0.24)  # [m] of the middle of the jar


def _poured(task: "Task", angle: float) -> np.ndarray:
    """The jar's pose turned about x around its middle at POUR_AT."""
    quat = axis_angle((1.0, 0.0, 0.0), angle)
    middle = compose(np.array([0, 0, 0, *quat]), np.array([0, 0, JAR.height / 2, 1, 0, 0, 0]))[:3]
    return np.tile([*(np.array(POUR_AT) - middle), *quat], (task.worlds, 1))


PHASES = (
    Phase("reach", 2.0, lambda t: shifted(t.jar, y=0.12), lambda t: shifted(t.lid, y=-0.12, z=0.3)),
    Phase("approach", 1.2, lambda t: t.jar),
    Phase("grasp jar", 1.0, hands=("left closed",), event="jar grasped"),
    Phase("lift", 2.0, lambda t: shifted(t.jar, z=LIFT)),
    Phase("over lid", 1.5, right=lambda t: shifted(t.lid_now, z=0.08)),
    Phase("to lid", 1.0, right=lambda t: t.lid_now),
    Phase("grasp lid", 1.0, hands=("right closed",), event="lid grasped"),
    Phase("pull", 2.5, right=lambda t: shifted(t.right_goal, z=0.10)),
    Phase("carry", 2.0, lambda t: _poured(t, 0.0), lambda t: shifted(t.right_goal, y=-0.20, z=0.12)),
    Phase("pour", 4.0, lambda t: _poured(t, POUR_TURN)),
    Phase("empty", 1.0),
    Phase("turn back", 3.0, lambda t: _poured(t, 0.0)),
    Phase("carry back", 2.0, lambda t: shifted(t.jar, z=LIFT), lambda t: shifted(t.jar, z=LIFT + JAR.height + 0.10)),
    Phase("over jar", 1.0, right=lambda t: t.lid_to(shifted(t.rim_now, z=0.04))),
    Phase("lid on", 2.5, right=lambda t: t.lid_to(shifted(t.rim_now, z=-0.035)), event="lid on", early=True),
    Phase("let lid go", 0.8, hands=("right open",)),
    Phase("leave lid", 1.5, right=lambda t: shifted(t.right_goal, z=0.15)),
    Phase("put down", 2.5, lambda t: t.jar_to(shifted(t.jar, z=-0.015)), event="jar down", early=True),
    Phase("let jar go", 0.8, hands=("left open",)),
    Phase("leave jar", 1.5, lambda t: shifted(t.left_goal, y=0.12)),
    Phase("end", 0.5),
)


class Task:
    """The scene in `worlds` worlds with jars at `jar_at` (worlds, 2), and the program that works on them."""

    def __init__(self, files, jar_at: np.ndarray, tolerance: float = 1e-3, **options):
        self.worlds = len(jar_at)
        self.model = task_scene(files)
        solver = options.pop("solver", None) or ws.SAP(tolerance=tolerance)
        self.sim = ws.Simulator(self.model, self.worlds, dtype="float64", solver=solver, **options)
        self.arms = ws.Simulator(robots(files), self.worlds, dtype="float64", solver=ws.NoContact())
        self.dofs = self.arms.model.nv
        self._find_places()
        q = np.tile(self.model.q0, (self.worlds, 1))
        move = np.asarray(jar_at) - q[:, self.free["jar"]][:, :2]
        for name in ("jar", "lid", *(f"marble {k}" for k in range(16))):
            q[:, self.free[name].start : self.free[name].start + 2] += move
        self.jar, self.lid = q[:, self.free["jar"]].copy(), q[:, self.free["lid"]].copy()
        self.hands = {side: np.tile(posture(f"{side} open"), (self.worlds, 1)) for side in SIDES}
        self.left_goal, self.right_goal = shifted(self.jar, y=0.25, z=0.1), shifted(self.lid, y=-0.25, z=0.35)
        for side in SIDES:
            q[:, self.arm[side]] = REST
            q[:, self.hand[side]] = self.hands[side]
        found = self._reach(q[:, : self.dofs], 200)
        q[:, : self.dofs] = found.q
        self.start_errors = found.position_error, found.rotation_error
        self.state = self.sim.state(q)
        self.desired, self.time, self.stepping = found.q.copy(), 0.0, 0.0  # the last: seconds of CPU
        self.phase = np.zeros(self.worlds, int)
        self.since = np.zeros(self.worlds)
        self.begin, self.goal = [self.left_goal, self.right_goal], [self.left_goal, self.right_goal]
        self.fingers = {side: self.hands[side].copy() for side in SIDES}
        self.fingers_from = {side: self.hands[side].copy() for side in SIDES}
        self.events: list[dict[str, float]] = [{} for _ in range(self.worlds)]  # by world: name to time [s]
        self.reached = {name: np.zeros(self.worlds, bool) for name in REACHED}
        self.phase_start = np.full((self.worlds, len(PHASES)), np.nan)
        self.q = q
        self._enter(np.ones(self.worlds, bool))

    def _find_places(self) -> None:
        """Slices of q and indices of dofs, actuators and geoms by name."""
        m = self.model
        free = [n for n in m.body_names if n in ("jar", "lid", "bowl") or n.startswith("marble")]
        of_body = {int(m.joint_body[j]): int(m.joint_q[j]) for j in range(m.njoint)}
        self.free = {n: slice(of_body[m.body(n)], of_body[m.body(n)] + 7) for n in free}
        dof = lambda name: m.joint_coordinates(name)[1].start  # noqa: E731
        self.arm = {s: [dof(f"{s}_joint_{i + 1}") for i in range(7)] for s in SIDES}
        self.hand = {s: [dof(f"{s}_hand_joint_{i}.0") for i in range(16)] for s in SIDES}
        self.order = [d for s in SIDES for d in (*self.arm[s], *self.hand[s])]  # of the actuators
        geoms = [m.body_names[b] if b >= 0 else "" for b in m.geom_body]
        self.hand_geoms = {s: [g for g, n in enumerate(geoms) if n.startswith(f"{s}_hand_")] for s in SIDES}
        self.table_geom = m.geom("table jar")

    # goals -----------------------------------------------------------------------------------------------------------

    @property
    def lid_now(self) -> np.ndarray:
        """Where the lid is, taken as level."""
        return np.concatenate([self.q[:, self.free["lid"]][:, :3], self.lid[:, 3:]], axis=1)

    @property
    def rim_now(self) -> np.ndarray:
        """The pose a lid has that is on the jar."""
        up = np.array([0.0, 0.0, JAR.height, 1.0, 0.0, 0.0, 0.0])
        return np.stack([compose(pose, up) for pose in self.q[:, self.free["jar"]]])

    def lid_to(self, pose: np.ndarray) -> np.ndarray:
        """The goal that brings the lid there as it lies in the hand."""
        return self._as_held(pose, "lid", self.right_goal)

    def jar_to(self, pose: np.ndarray) -> np.ndarray:
        return self._as_held(pose, "jar", self.left_goal)

    def _as_held(self, pose, name, now) -> np.ndarray:
        held = [compose(inverse(a), b) for a, b in zip(self.q[:, self.free[name]], now, strict=True)]
        return np.stack([compose(p, h) for p, h in zip(pose, held, strict=True)])

    # the program -----------------------------------------------------------------------------------------------------

    def _enter(self, chosen: np.ndarray) -> None:
        """Begin the phases of the chosen worlds."""
        for k in np.unique(self.phase[chosen]):
            here = chosen & (self.phase == k)
            phase = PHASES[k]
            for i, goal in enumerate((phase.left, phase.right)):
                now = (self.left_goal, self.right_goal)[i]
                self.begin[i] = np.where(here[:, None], now, self.begin[i])
                new = now if goal is None else goal(self)
                self.goal[i] = np.where(here[:, None], new, self.goal[i])
            for name in phase.hands:
                side = name.split()[0]
                self.fingers_from[side] = np.where(here[:, None], self.hands[side], self.fingers_from[side])
                self.fingers[side] = np.where(here[:, None], posture(name), self.fingers[side])
            self.phase_start[here, k] = self.time
            self._look(here, phase.name)
            self.since[here] = 0.0

    def _look(self, here: np.ndarray, entered: str) -> None:
        """What has been reached by the worlds that enter a phase."""
        rim = self.q[:, self.free["jar"]][:, 2] + JAR.height
        lid = self.q[:, self.free["lid"]][:, 2]
        if entered == "lift":
            self.reached["jar grasped"][here] = [("jar grasped" in self.events[w]) for w in np.flatnonzero(here)]
        elif entered == "over lid":
            self.reached["jar lifted, closed"][here] = ((rim > JAR.height + LIFT / 2) & (lid - rim < LID_ABOVE))[here]
        elif entered == "carry":
            self.reached["lid off, held"][here] = (lid - rim > LID_OFF)[here]
        elif entered == "turn back":
            self.reached["poured"][here] = (self.outcome()["marbles"] >= POURED)[here]
        elif entered == "put down":
            self.reached["lid on again"][here] = self.outcome()["closed"][here]
        elif entered == "end":
            self.reached["jar back, all done"][here] = self.outcome()["success"][here]

    def _forces(self) -> dict[str, np.ndarray]:
        """[N] of the last step by event: sums of what a hand's links feel, of what the right hand is pushed up with, and of the table."""
        force = self.sim.contact_force("geom").numpy()
        left, right = (force[:, self.hand_geoms[s]] for s in SIDES)
        return {
            "jar grasped": np.linalg.norm(left, axis=2).sum(1), "lid grasped": np.linalg.norm(right, axis=2).sum(1),
            "lid on": right[..., 2].sum(1), "jar down": -force[:, self.table_geom, 2],
        }  # fmt: skip

    def _advance(self) -> None:
        """Goals of this step, and the next phase where one is over."""
        seconds = np.array([p.seconds for p in PHASES])[self.phase]
        s = minimum_jerk(self.since / seconds)
        self.left_goal, self.right_goal = (between(a, b, s) for a, b in zip(self.begin, self.goal, strict=True))
        closing = minimum_jerk(self.since / 0.6)[:, None]
        for side in SIDES:
            moving = np.array([any(n.startswith(side) for n in p.hands) for p in PHASES])[self.phase][:, None]
            part = self.fingers_from[side] + closing * (self.fingers[side] - self.fingers_from[side])
            self.hands[side] = np.where(moving, part, self.hands[side])
        threshold = {"jar grasped": GRASPED, "lid grasped": GRASPED, "lid on": LID_ON, "jar down": JAR_DOWN}
        ended = self.since >= seconds
        for k in np.unique(self.phase):
            name, early = PHASES[k].event, PHASES[k].early
            if name is None:
                continue
            here = self.phase == k
            came = here & (self.force[name] > threshold[name]) & (self.since > HELD_FROM)
            for w in np.flatnonzero(came):
                self.events[w].setdefault(name, self.time)
            has = np.array([name in e for e in self.events])
            over = has & (early | ended) | (self.since > seconds + PATIENCE)
            ended = np.where(here, over, ended)
        ended &= self.phase < len(PHASES) - 1
        if ended.any():
            self.phase[ended] += 1
            self._enter(ended)

    def outcome(self) -> dict[str, np.ndarray]:
        """(worlds,) marbles that lie in the bowl, and whether jar, lid and task are as they should be."""
        q = self.state.q.numpy()
        jar, lid, bowl = (q[:, self.free[name]] for name in ("jar", "lid", "bowl"))
        marbles = np.stack([q[:, at] for name, at in self.free.items() if name.startswith("marble")], axis=1)
        away = np.linalg.norm(marbles[..., :2] - bowl[:, None, :2], axis=2)
        inside = ((away < BOWL_REACH) & (marbles[..., 2] < BOWL_TOP)).sum(1)
        upright = (_up(jar)[:, 2] > UPRIGHT) & (np.abs(jar[:, 2]) < STANDS)
        rim = np.stack([compose(pose, np.array([0, 0, JAR.height, 1, 0, 0, 0])) for pose in jar])
        beside = np.linalg.norm(lid[:, :2] - rim[:, :2], axis=1)
        closed = (beside < LID_BESIDE) & (lid[:, 2] - rim[:, 2] < LID_ABOVE) & ((_up(jar) * _up(lid)).sum(1) > UPRIGHT)
        done = (inside >= POURED) & upright & closed
        return {"marbles": inside, "upright": upright, "closed": closed, "success": done}

    @property
    def done(self) -> bool:
        last = len(PHASES) - 1
        return bool(((self.phase == last) & (self.since >= PHASES[last].seconds)).all())

    def _reach(self, q, iterations: int) -> ws.Reach:
        goals = {"left": self.left_goal, "right": self.right_goal}
        targets = {f"{side}_hand_palm_link": np.stack([compose(g, HOLDS[side]) for g in goals[side]]) for side in SIDES}
        rest = np.array(q)
        for side in SIDES:
            rest[:, self.arm[side]] = REST
        return ws.reach(
            self.arms, q, targets, iterations=iterations, damping=DAMPING, posture=rest, posture_weight=POSTURE_WEIGHT
        )

    def step(self) -> None:
        """One step of program and scene."""
        h, v = self.sim.dt, self.state.v.numpy()
        self.q = self.state.q.numpy()
        self.force = self._forces()
        self._advance()
        before = self.desired
        found = self._reach(before, 2)
        self.desired, self.errors = found.q, (found.position_error, found.rotation_error)
        speed = (self.desired - before) / h
        robot_q = self.q[:, : self.dofs]
        tau = np.zeros((self.worlds, self.model.nv))
        tau[:, : self.dofs] = self.arms.inverse_dynamics(robot_q, v[:, : self.dofs], np.zeros_like(robot_q)).numpy()
        target = self.desired + ARM_DAMPING * speed
        for side in SIDES:
            now = robot_q[:, self.hand[side]]
            most = HAND_EFFORT / HAND_KP
            target[:, self.hand[side]] = now + np.clip(self.hands[side] - now, -most, most)
        begin = time.process_time()
        self.state = self.sim.step(self.state, target[:, self.order], tau=tau, out=self.state)
        self.stepping += time.process_time() - begin
        self.time += h
        self.since += h


START_SPREAD = 0.02  # [m] of the jars' places
LONGEST = 60.0  # [s]
KEPT = 8  # every so many steps a frame is kept


def jar_places(worlds: int, seed: int = 0) -> np.ndarray:
    """(worlds, 2): the first as it is built, the others moved at random."""
    move = np.random.default_rng(seed).uniform(-START_SPREAD, START_SPREAD, (worlds, 2))
    move[0] = 0.0
    return np.array(JAR_AT) + move


class Run(typing.NamedTuple):
    """A run of the task: `rows` by step and world, `q (frames, worlds, nq)`, `time` of the frames [s], seconds of CPU by part."""

    task: Task
    rows: dict[str, np.ndarray]
    q: np.ndarray
    time: np.ndarray
    seconds: dict[str, float]


def run_task(
    files, worlds: int = 1, tolerance: float = 1e-3, seed: int = 0, longest: float = LONGEST, report=None
) -> Run:
    """The whole task in all worlds; `report`: a function of the task, called twice a second of its time."""
    task = Task(files, jar_places(worlds, seed), tolerance, max_polygons=POLYGONS)
    rows: dict[str, list] = {name: [] for name in ("contacts", "iterations", "momentum_error", "phase")}
    frames, times, clock = [], [], time.process_time()
    while task.time < longest and not task.done:
        k = len(rows["phase"])
        if k % KEPT == 0:
            frames.append(task.state.q.numpy().copy())
            times.append(task.time)
        task.step()
        found = task.sim.diagnostics
        for name in ("contacts", "iterations", "momentum_error"):
            rows[name].append(getattr(found, name).numpy().copy())
        rows["phase"].append(task.phase.copy())
        if report is not None and k % 100 == 0:
            report(task)
    seconds = {"all": time.process_time() - clock, "steps": task.stepping}
    return Run(task, {n: np.array(r) for n, r in rows.items()}, np.array(frames), np.array(times), seconds)


def trajectory(model: ws.Model, q: np.ndarray, time: np.ndarray) -> ws.Trajectory:
    """Frames of a run, to be shown."""
    v = np.zeros((*q.shape[:2], model.nv))
    return ws.Trajectory(model, q, v, np.repeat(np.asarray(time, float)[:, None], q.shape[1], axis=1))
