# SPDX-License-Identifier: Apache-2.0
"""Wrong calls made from the signatures of the public names: each argument in turn is given what it cannot mean.

    python -m benchmarks.wrong_calls --out benchmarks/results

A call is right but for one argument. It must be refused in one short line that names the argument and says what would do, before anything is
computed: by `ValueError` (`ModelError`, `StoreError`), or by `OSError` or `ImportError` for what is not there. Another exception, a message that does
not name the argument, or a result that differs from the right call's is a finding. So is a parameter of a signature that has no kind here. Exit code
1 where there is one.
"""

import argparse
import collections
import contextlib
import dataclasses
import inspect
import io
import json
import os
import pathlib
import sys
import tempfile
import warnings

import numpy as np
import warp as wp

import warpsim as ws
from scenes.bodies import arm
from warpsim.tools.bench import machine

NAN, INF = float("nan"), float("inf")
WORLDS = 2
LONGEST = 700


class Thing:
    def __repr__(self) -> str:
        return "Thing()"


# What each kind of argument cannot be. `None` is left out where it is the default.
WRONG = {
    "count": ("x", 2.5, NAN, -1, [1], True, Thing(), 1e20),
    "count from 1": ("x", 2.5, NAN, -1, 0, [1], True, Thing()),
    "positive": ("x", "1", NAN, INF, -1.0, 0.0, 1j, {}, Thing(), True),
    "not negative": ("x", "1", NAN, -1.0, 1j, {}, Thing()),
    "number": ("x", "1", NAN, 1j, {}, Thing()),
    "fraction": ("x", NAN, -0.1, 2.0, 1j, Thing()),
    "flag": ("x", 1, 0.0, [], Thing(), "yes"),
    "choice": ("nope", 3, "", [], Thing()),
    "array": ("x", np.zeros((5, 77)), 1j, [[1.0], [1.0, 2.0]], Thing(), np.array(["a"]), {}),
    "3 numbers": ("x", [1.0, 2.0], np.zeros(7), [NAN, 0, 0], [1j, 0, 0], Thing(), {}),
    "pose": ("x", [1.0, 2.0], np.zeros(7), [NAN] * 7, Thing(), {}),
    "range": ("x", [1.0, -1.0], [NAN, 1.0], [1.0, 2.0, 3.0], Thing(), {}),
    "model": (3, "x", None, Thing(), []),
    "state": (3, "x", None, Thing(), np.zeros(3)),
    "path": (3, "", "a\0b", Thing(), [], "no/such/folder/of/mine"),
    "source": (3, "", "no/such/file.xml", Thing(), []),
    "callable": (3, "x", Thing(), []),
    "name": (3.5, "nope", [], Thing(), 10**6),
    "new name": (3.5, [], Thing()),
    "device": ("nope", 3.5, Thing(), "cuda:77"),
    "worlds": ("x", [77], [0.5], -77, Thing(), [True]),
    "names": ("nope", 3, ["nope"], Thing(), [3]),
    "dtype": ("float16", 3, Thing(), "double", ""),
    "solver": ("x", 3, Thing(), ws.SymplecticEuler()),
    "integrator": ("x", 3, Thing(), ws.SAP()),
    "simulator": ("x", 3, None, Thing()),
    "table": ("x", 3, Thing(), ["a"]),
    "builder's shape": ("nope", 3.5, Thing(), "", None),
    "progress": ("x", 3, Thing()),
}
# By function and parameter, by parameter alone, or by the annotation.
KINDS = {
    "Simulator worlds": "count from 1", "Simulator dt": "positive", "Simulator threads": "count from 1",
    "Simulator max_contacts": "count from 1", "Simulator on_fault": "path", "RandomStream worlds": "worlds of a stream",
    "ModelBuilder gravity": "3 numbers", "ModelBuilder timestep": "positive", "ModelBuilder name": "new name",
    "ModelBuilder.add_geom type": "builder's shape", "ModelBuilder.add_joint type": "builder's shape",
    "ModelBuilder.add_constraint kind": "builder's shape", "ModelBuilder.add_actuator kind": "builder's shape",
    "ModelBuilder.add_geom body": "name", "ModelBuilder.add_joint body": "name", "ModelBuilder.add_geom name": "new name",
    "ModelBuilder.add_joint name": "new name", "ModelBuilder.add_body name": "new name", "ModelBuilder.add_actuator name": "new name",
    "ModelBuilder.add_constraint name": "new name", "ModelBuilder.add_keyframe name": "new name", "ModelBuilder.add_tendon name": "new name",
    "ModelBuilder.add_geom friction": "not negative", "ModelBuilder.add_pair friction": "not negative",
    "ModelBuilder.add_geom stiffness": "not negative", "ModelBuilder.add_geom size": "array", "ModelBuilder.add_geom rgba": "array",
    "ModelBuilder.add_geom priority": "integer", "ModelBuilder.add_geom contype": "integer", "ModelBuilder.add_geom conaffinity": "integer",
    "ModelBuilder.add_geom condim": "choice", "ModelBuilder.add_joint q0": "array", "ModelBuilder.add_joint range": "range",
    "ModelBuilder.add_foundation body": "name", "ModelBuilder.add_foundation face": "choice", "ModelBuilder.add_tendon joints": "table",
    "ModelBuilder.add_model prefix": "new name", "ModelBuilder.add_model other": "model", "ModelBuilder.add_model free": "choice", "ModelBuilder.add_constraint active": "flag",
    "Simulator.reset worlds": "worlds", "Simulator.jacobian body": "name", "Simulator.contact_force of": "choice",
    "Simulator.linearize parameters": "names", "Simulator.linearize out": "simulator's", "Simulator.step out": "state",
    "Simulator.ray_cast geoms": "names", "Simulator.ray_cast ignore": "names", "Simulator.ray_cast max_distance": "positive",
    "Simulator.capture function": "callable", "Simulator.state keyframe": "name", "load decompose": "table", "load isolate": "table", "load packages": "table",
    "load root": "path", "load actuators": "choice", "load unsupported": "choice", "load base": "choice", "Trajectory.rows name": "choice",
    "Trajectory.rows rows": "worlds", "Trajectory.pose_chunks rows": "worlds", "Trajectory.render frame": "frame",
    "Trajectory.plot tolerance": "positive", "check_gradients variables": "names", "check_gradients parameters": "names",
    "check_gradients horizons": "count list", "check_gradients step_sizes": "step sizes", "ilqr cost": "cost", "mppi cost": "cost", "cem cost": "cost",
    "ilqr limits": "limits", "mppi limits": "limits", "mppi noise": "noise", "mppi correlation": "fraction", "cem limits": "limits", "cem noise": "noise", "cem correlation": "fraction", "identify parameters": "table",
    "Cost running": "callable", "MPC plan": "callable", "MPC controls": "array", "ContactProblem mu": "array", "solve_cone_qp cones": "cones",
    "ModelBuilder wind": "3 numbers", "ModelBuilder.add_geom hydroelastic": "options", "ModelBuilder.add_geom max_hull_vertices": "count from 1",
    "ModelBuilder.add_geom fluid": "coefficients", "ModelBuilder.add_actuator group": "integer", "ModelBuilder.add_actuator dynamics": "choice",
    "ModelBuilder.add_actuator muscle": "options", "ModelBuilder.add_camera name": "new name", "ModelBuilder.add_camera body": "name",
    "ModelBuilder.add_site name": "new name", "ModelBuilder.add_site body": "name", "ModelBuilder.add_site type": "builder's shape", "ModelBuilder.add_site size": "array",
    "ModelBuilder.add_sensor name": "new name", "ModelBuilder.add_sensor kind": "choice", "ModelBuilder.add_sensor object": "name", "Simulator.ray_sensor body": "name",
    "ModelBuilder.add_sensor datatype": "data type", "Simulator.ray_sensor geoms": "names", "Simulator.ray_sensor ignore": "names", "Simulator.ray_sensor max_distance": "not negative",
    "Hydroelastic resolution": "positive", "Hydroelastic modulus": "not negative", "Hydroelastic margin": "not negative", "Hydroelastic field": "options", "Muscle range": "range", "Muscle length_range": "range", "Muscle times": "muscle times",
    "reach targets": "table", "reach damping": "positive", "reach posture_weight": "not negative", "reach largest_step": "positive", "Simulator hydroelastic": "options", "Trajectory.to_usd form": "choice",
    "Trajectory.to_usd contact_forces": "array", "robots.path name": "choice", "RandomControls seed": "seed", "RandomStream seed": "seed", "check_gradients seed": "generator", "mppi seed": "generator", "cem seed": "generator", "ilqr iterations": "count", "identify iterations": "count", "reach iterations": "count", "solve_lcp rows": "counts", "solve_cone_qp rows": "counts",
    "SAP beta": "positive", "SAP sigma": "positive", "cluster.rollout address": None, "cluster.resume address": None, "cluster.map address": None,
    "cluster.map items": None, "Trajectory.rows worlds": "worlds", "load_fault sim": "simulator", "resume sim": "simulator",
}  # fmt: skip
WRONG |= {
    "data type": ("nope", 77, "", [], Thing()),
    "muscle times": ("x", [-1.0, 1.0], [NAN, 1.0], [1.0, 2.0, 3.0], Thing(), {}),
    "options": ("x", 3, Thing(), ws.SymplecticEuler()),
    "coefficients": ("x", [1.0, 2.0], [NAN] * 5, Thing(), {}),
    "generator": ("x", 2.5, -1, Thing()),
    "counts": ("x", 2.5, -1, [77], Thing(), np.zeros((5, 77))),
    "integer": ("x", 2.5, NAN, [1], Thing(), True),
    "worlds of a stream": ("x", 0, -1, [0.5], [-1], Thing(), True),
    "seed": ("x", 2.5, -1, [1], Thing(), True, 2**70),
    "frame": ("x", 2.5, 10**6, Thing(), True),
    "simulator's": (3, "x", Thing()),
    "count list": ("x", [0], [2.5], 3.5, Thing(), []),
    "step sizes": ("x", [0.0], [NAN], [-1.0], Thing(), []),
    "cost": ("x", 3, None, Thing()),
    "limits": ("x", [1.0, -1.0], Thing(), np.zeros((5, 77)), [NAN, 1.0]),
    "noise": ("x", -1.0, NAN, Thing(), np.zeros((5, 77))),
    "cones": ("x", [("nope", 1)], [("friction", -1.0)], 3, Thing(), [("friction", NAN)]),
}
BY_NAME = {
    "pose": "pose", "pose_a": "pose", "pose_b": "pose", "mass": "not negative", "com": "3 numbers", "inertia": "array", "parent": "name",
    "axis": "3 numbers", "anchor": "3 numbers", "density": "not negative", "restitution": "fraction", "hertz_modulus": "not negative",
    "dissipation_time": "not negative", "damping": "not negative", "armature": "not negative", "friction": "not negative",
    "stiffness": "not negative", "reference": "number", "visible": "flag", "gear": "array", "kp": "not negative", "kv": "not negative",
    "control_range": "range", "force_range": "range", "joint": "name", "tendon": "name", "a": "name", "b": "name", "body_a": "name",
    "body_b": "name", "geom_a": "name", "geom_b": "name", "q": "array", "v": "array", "control": "array", "controls": "array", "tau": "array",
    "wrench": "array", "point": "array", "origin": "array", "direction": "array", "state": "state", "model": "model", "device": "device",
    "dtype": "dtype", "solver": "solver", "integrator": "integrator", "progress": "progress", "path": "path", "store": "path", "worlds": "worlds",
    "source": "source", "steps": "count from 1", "every": "count from 1", "substeps": "count from 1", "checkpoint_every": "count from 1",
    "iterations": "count from 1", "entries": "count from 1", "samples": "count from 1", "max_iterations": "count from 1",
    "max_evaluations": "count from 1", "passes": "count from 1", "shards": "count from 1", "threads": "count from 1", "retries": "count",
    "tolerance": "positive", "fps": "positive", "spacing": "not negative", "temperature": "positive", "regularisation": "not negative",
    "hold": "count from 1", "columns": "count", "rows": "count from 1", "draw": "count", "ahead": "integer", "scale": "number",
    "name": "name", "function": "callable", "sim": "simulator", "residual": "callable", "jacobian": "callable", "terminal": "callable",
    "running_jacobian": "callable", "terminal_jacobian": "callable", "memory": "count from 1", "recovery_speed": "array",
    "line_search": "choice", "linear_solver": "choice", "approximation": "choice", "guess": "choice", "root_finder": "choice",
    "error_reduction": "fraction", "restitution_threshold": "not negative", "tangential_damping": "not negative", "modulus": "positive",
    "thickness": "positive", "length": "number", "coefficients": "array", "pitch": "number", "A": "array", "J": "array", "v_star": "array",
    "H": "array", "g": "array", "hi": "array", "findex": "array", "R": "array", "mesh": "table", "hfield": "table", "range": "range",
    "activation": "array", "mocap": "array", "activation_range": "range", "margin": "number", "torsional_friction": "not negative",
    "rolling_friction": "not negative", "fovy": "positive", "resolution": "counts", "rgba": "array", "cutoff": "not negative", "start": "array", "end": "array",
    "delta": "array", "posture": "array", "force": "not negative", "lmin": "not negative", "lmax": "positive", "vmax": "positive", "fpmax": "not negative", "fvmax": "not negative", "width": "not negative",
    "object": "name", "gravity_compensation": "flag", "low": "array", "high": "array", "mean": "array", "deviation": "array", "out": "simulator's", "formulation": "choice",
    "classes": "array", "variables": "counts", "v_hat": "array", "v0": "array", "phi": "array", "dt": "positive", "M": "array", "contacts": "counts",
    "problem": "model", "parameters": "table", "gain": "array", "bias": "array", "columns_": "count",
}  # fmt: skip


# right calls -----------------------------------------------------------------------------------------------------------


def builder() -> ws.ModelBuilder:
    b = arm()
    b.add_geom("sphere", [0.1], body="ball", name="skin")
    b.add_body("spare", mass=1.0, inertia=[1, 1, 1], pose=[2, 0, 3])
    return b


MODEL = builder().build()
ROBOT = """<mujoco model="m"><worldbody><geom name="floor" type="plane" size="1 1 1"/><body name="a" pos="0 0 1"><freejoint/><geom size=".1"/></body>
</worldbody></mujoco>"""


def sim(**options) -> ws.Simulator:
    return ws.Simulator(MODEL, WORLDS, device="cpu", threads=1, **options)


def trajectory():
    s = sim()
    return s.rollout(s.state(), steps=3)


def interrupted(folder: str):
    s = sim()
    s.rollout(s.state(), steps=3, store=f"{folder}/a.zarr")
    return f"{folder}/a.zarr"


STATE = lambda s: s.state()  # noqa: E731
COST = ws.Cost(lambda q, v, u: q)


def plain(function, /, **keywords):
    """A right call of a function."""
    return lambda: (function, keywords)


def method(make, called, /, **keywords):
    """A right call of a method of what `make` makes; a lambda stands for what depends on that."""

    def call():
        owner = make()
        given = {k: g(owner) if inspect.isfunction(g) and g.__name__ == "<lambda>" else g for k, g in keywords.items()}
        return getattr(owner, called), given

    return call


def right_calls(folder: str) -> dict:
    """Label -> () -> (callable, keyword arguments) of a call that is right."""
    return calls_of_simulators() | calls_of_models() | calls_of_the_rest(folder)


def calls_of_simulators() -> dict:
    zeros, nv = np.zeros, MODEL.nv
    return {
        "Simulator": plain(ws.Simulator, model=MODEL, worlds=WORLDS, device="cpu"),
        "Simulator.state": method(sim, "state"),
        "Simulator.step": method(sim, "step", state=STATE),
        "Simulator.rollout": method(sim, "rollout", state=STATE, steps=2),
        "Simulator.reset": method(sim, "reset", state=STATE, worlds=[0]),
        "Simulator.contacts": method(sim, "contacts", state=STATE),
        "Simulator.energy": method(sim, "energy", state=STATE),
        "Simulator.forward_dynamics": method(
            sim, "forward_dynamics", q=np.tile(MODEL.q0, (WORLDS, 1)), v=zeros((WORLDS, nv)), tau=zeros((WORLDS, nv))
        ),
        "Simulator.inverse_dynamics": method(
            sim, "inverse_dynamics", q=np.tile(MODEL.q0, (WORLDS, 1)), v=zeros((WORLDS, nv)), a=zeros((WORLDS, nv))
        ),
        "Simulator.mass_matrix": method(sim, "mass_matrix", q=np.tile(MODEL.q0, (WORLDS, 1))),
        "Simulator.kinematics": method(sim, "kinematics", q=np.tile(MODEL.q0, (WORLDS, 1))),
        "Simulator.jacobian": method(sim, "jacobian", q=np.tile(MODEL.q0, (WORLDS, 1)), body="ball"),
        "Simulator.contact_force": method(stepped, "contact_force"),
        "Simulator.linearize": method(lambda: sim(requires_grad=True), "linearize", state=STATE),
        "Simulator.ray_cast": method(sim, "ray_cast", state=STATE, origin=[[0.0, 0, 5]], direction=[[0.0, 0, -1]]),
        "Simulator.capture": method(sim, "capture", function=dict),
        "Simulator.acceleration": method(lambda: stepped(reactions=True), "acceleration", state=STATE),
        "Simulator.body_velocity": method(sim, "body_velocity", state=STATE),
        "Simulator.about_centre": method(sim, "about_centre", state=STATE),
        "Simulator.ray_sensor": method(sim, "ray_sensor", origin=[[0.0, 0, 5]], direction=[[0.0, 0, -1]]),
    }


def calls_of_models() -> dict:
    return {
        "ModelBuilder": plain(ws.ModelBuilder),
        "ModelBuilder.add_body": method(builder, "add_body", name="new", mass=1.0, inertia=[1.0, 1, 1]),
        "ModelBuilder.add_joint": method(builder, "add_joint", body="spare", type="hinge", name="new"),
        "ModelBuilder.add_geom": method(builder, "add_geom", type="sphere", size=[0.1], body="ball", name="new"),
        "ModelBuilder.add_actuator": method(builder, "add_actuator", joint="elbow", name="new"),
        "ModelBuilder.add_tendon": method(builder, "add_tendon", joints={"elbow": 2.0}, name="new"),
        "ModelBuilder.add_constraint": method(
            builder, "add_constraint", kind="connect", a="upper", b="ball", name="new"
        ),
        "ModelBuilder.add_foundation": method(builder, "add_foundation", body="upper", modulus=1e5, thickness=0.01),
        "ModelBuilder.add_keyframe": method(builder, "add_keyframe", name="new"),
        "ModelBuilder.add_model": method(builder, "add_model", other=MODEL, prefix="b_"),
        "ModelBuilder.add_pair": method(builder, "add_pair", geom_a="bone", geom_b="skin", friction=0.5),
        "ModelBuilder.add_camera": method(builder, "add_camera", name="new"),
        "ModelBuilder.add_site": method(builder, "add_site", name="new"),
        "ModelBuilder.add_sensor": method(builder, "add_sensor", kind="jointpos", object="elbow", name="new"),
        "ModelBuilder.add_effort_limit": method(builder, "add_effort_limit", joint="elbow", range=[-1.0, 1.0]),
        "ModelBuilder.exclude": method(builder, "exclude", body_a="upper", body_b="ball"),
        "Model.body": plain(MODEL.body, name="ball"),
        "Model.joint": plain(MODEL.joint, name="elbow"),
        "Model.geom": plain(MODEL.geom, name="bone"),
        "Model.tendon": plain(MODEL.tendon, name="cord"),
        "Model.actuator": plain(MODEL.actuator, name="motor"),
        "Model.difference": plain(MODEL.difference, start=MODEL.q0, end=MODEL.q0),
        "Model.displace": plain(MODEL.displace, q=MODEL.q0, delta=np.zeros(MODEL.nv)),
        "Model.to_mjcf": plain(MODEL.to_mjcf),
        "Hydroelastic": plain(ws.Hydroelastic, modulus=1e5),
        "Muscle": plain(ws.Muscle, force=100.0, length_range=(0.1, 0.3)),
        "Model.joint_coordinates": plain(MODEL.joint_coordinates, name="root"),
    }


def calls_of_the_rest(folder: str) -> dict:
    """Trajectories, random numbers, options, files, optimisers and solvers."""
    robot, zeros = pathlib.Path(folder) / "robot.xml", np.zeros
    robot.write_text(ROBOT)
    problem = {
        "A": np.eye(3),
        "J": np.eye(3),
        "v_star": np.array([0.0, 0.0, -1.0]),
        "mu": np.array([0.5]),
        "R": np.full((1, 3), 0.1),
        "v_hat": np.zeros((1, 3)),
    }
    return {
        "Trajectory.save": method(trajectory, "save", path=f"{folder}/s.zarr"),
        "Trajectory.load": plain(ws.Trajectory.load, path=interrupted(folder)),
        "Trajectory.poses": method(trajectory, "poses"),
        "Trajectory.rows": method(trajectory, "rows", name="q", rows=[0, 1]),
        "Trajectory.to_usd": method(trajectory, "to_usd", path=f"{folder}/a.usda"),
        "Trajectory.to_html": method(trajectory, "to_html", path=f"{folder}/a.html"),
        "Trajectory.plot": method(trajectory, "plot", path=f"{folder}/a.png"),
        "Trajectory.render": method(trajectory, "render", path=f"{folder}/b.png"),
        "RandomControls": plain(ws.RandomControls),
        "RandomStream": plain(ws.RandomStream, device="cpu"),
        "RandomStream.uniform": method(lambda: ws.RandomStream(1, 3, device="cpu"), "uniform", columns=2),
        "RandomStream.normal": method(lambda: ws.RandomStream(1, 3, device="cpu"), "normal", columns=2),
        "RandomStream.words": method(lambda: ws.RandomStream(1, 3, device="cpu"), "words", columns=2),
        "RandomStream.reset": method(lambda: ws.RandomStream(1, 3, device="cpu"), "reset", worlds=[0]),
        "SAP": plain(ws.SAP),
        "Compliant": plain(ws.Compliant),
        "LCP": plain(ws.LCP),
        "Variational": plain(ws.Variational),
        "Midpoint": plain(ws.Midpoint),
        "ImplicitEuler": plain(ws.ImplicitEuler),
        "ExplicitEuler": plain(ws.ExplicitEuler),
        "SymplecticEuler": plain(ws.SymplecticEuler),
        "load": plain(ws.load, source=str(robot)),
        "resume": plain(ws.resume, path=interrupted(folder), device="cpu"),
        "load_fault": plain(ws.load_fault, path=fault(folder), device="cpu"),
        "fit_worlds": plain(ws.fit_worlds, model=MODEL, device="cpu", memory=10**9),
        "check_gradients": lambda: (
            ws.check_gradients,
            {"sim": sim(requires_grad=True, dtype="float64"), "horizons": (1,), "entries": 2},
        ),
        "ilqr": lambda: with_sim(
            ws.ilqr, dtype="float64", requires_grad=True, controls=zeros((3, WORLDS, 1)), cost=COST, iterations=1
        ),
        "reach": lambda: with_reach(targets={"ball": [0.5, 0.0, 2.0, 1.0, 0, 0, 0]}),
        "mppi": lambda: with_sim(ws.mppi, noise=0.1, controls=zeros((3, WORLDS, 1)), cost=COST, samples=4),
        "cem": lambda: with_sim(ws.cem, noise=0.1, controls=zeros((3, WORLDS, 1)), cost=COST, samples=4, iterations=2),
        "identify": lambda: with_sim(
            ws.identify,
            dtype="float64",
            requires_grad=True,
            controls=zeros((3, WORLDS, 1)),
            residual=lambda q, v: q,
            parameters={"body_mass": None},
        ),
        "Cost": plain(ws.Cost, running=lambda q, v, u: (q**2).sum(-1)),
        "MPC": plain(ws.MPC, plan=lambda state, controls: None, controls=zeros((3, WORLDS, 1))),
        "solve_lcp": plain(
            ws.solve_lcp, A=np.eye(2), b=-np.ones(2), hi=np.full(2, np.inf), findex=np.full(2, -1), device="cpu"
        ),
        "solve_cone_qp": plain(ws.solve_cone_qp, H=np.eye(3), g=-np.ones(3), cones=[("free", 3)], device="cpu"),
        "ContactProblem": plain(ws.ContactProblem, **problem),
        "solve_contact": lambda: (ws.solve_contact, {"problem": ws.ContactProblem(**problem), "device": "cpu"}),
        "robots.path": plain(ws.robots.path, name="ant"),
    }


def with_sim(function, dtype="float32", requires_grad=False, **keywords):
    s = sim(dtype=dtype, requires_grad=requires_grad)
    return function, {"sim": s, "state": s.state()} | keywords


def with_reach(**keywords):
    return ws.reach, {"sim": sim(dtype="float64"), "q": np.tile(MODEL.q0, (WORLDS, 1))} | keywords


def stepped(**options) -> ws.Simulator:
    s = sim(**options)
    s.step(s.state())
    return s


def fault(folder: str) -> str:
    path = pathlib.Path(folder) / "faults"
    s = sim(on_fault=path)
    control = np.full((WORLDS, 1), np.nan)
    s.step(s.state(), control)
    return str(next(path.iterdir()))


# checks ----------------------------------------------------------------------------------------------------------------


def kind_of(label: str, parameter: inspect.Parameter):
    """The kind of a parameter; None where nothing is to be tried, "?" where none is known."""
    name = parameter.name
    for table, key in ((KINDS, f"{label} {name}"), (BY_NAME, name)):
        if key in table:
            return table[key]
    annotation = str(parameter.annotation)
    for word, kind in (("bool", "flag"), ("int", "count"), ("float", "number")):
        if word in annotation:
            return kind
    return "?"


def result_of(value) -> object:
    """What a call gave, in terms that compare."""
    if isinstance(value, wp.array):
        return value.numpy().tobytes()
    if isinstance(value, np.ndarray):
        return value.tobytes()
    if isinstance(value, ws.Simulator):
        return tuple(
            str(getattr(value, n))
            for n in (
                "worlds",
                "dt",
                "solver",
                "integrator",
                "device",
                "dtype",
                "requires_grad",
                "max_contacts",
                "recovery_speed",
            )
        )
    if isinstance(value, ws.State):
        return tuple(a.numpy().tobytes() for a in value.arrays().values())
    if isinstance(value, ws.Trajectory):
        return tuple(
            np.asarray(a.numpy() if hasattr(a, "numpy") else a).tobytes() for a in (value.q, value.v, value.time)
        )
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return tuple(result_of(getattr(value, f.name)) for f in dataclasses.fields(value))
    if isinstance(value, (tuple, list)):
        return tuple(result_of(x) for x in value)
    return repr(value)


def attempt(make, name: str, value) -> tuple[str, str]:
    """What comes of a call with one argument replaced: the outcome, and the message or the result."""
    function, keywords = make()
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            result = function(**keywords | ({} if name is None else {name: value}))
            if inspect.isgenerator(result):
                result = list(result)
            owner = getattr(function, "__self__", None)
            if isinstance(owner, ws.ModelBuilder):
                result = result_of(owner.build())
    except (ValueError, OSError, ImportError) as error:
        return "refused", str(error)
    except Exception as error:
        return "raw", f"{type(error).__name__}: {error}"
    return "accepted", str(result_of(result))


# Other words for an argument.
SAYS = {
    "a": ("body_a", " a ", "constraint"), "b": ("body_b", " b ", "constraint"), "J": ("J",), "source": ("", ), "path": ("", ), "store": ("", ),
    "name": ("name", "no ", "names"), "dt": ("dt", "timestep"), "body": ("body", "bodies"), "type": ("type", "kind"), "kind": ("kind", "type"),
    "joints": ("joint",), "root": ("root", "folder", "package"), "controls": ("control",), "on_fault": ("on_fault", "folder", "path"),
    "columns": ("column",), "rows": ("row",), "horizons": ("horizon",), "step_sizes": ("step",), "geoms": ("geom",), "ignore": ("ignore", "geom"),
    "other": ("model",), "cones": ("cone",), "limits": ("limit",), "parameters": ("parameter",), "variables": ("variable",), "device": ("device", "cuda"),
    "memory": ("memory", "bytes"), "worlds": ("world",), "name ": ("name",), "pose": ("pose", "quaternion"), "pose_a": ("pose",), "pose_b": ("pose",),
    "keyframe": ("keyframe",), "tau": ("tau",), "parent": ("parent", "body"), "joint": ("joint",), "tendon": ("tendon",), "geom_a": ("geom",), "geom_b": ("geom",),
    "body_a": ("body",), "body_b": ("body",), "range": ("range",), "prefix": ("prefix", "name"), "out": ("out",), "of": ("of",), "problem": ("problem",),
    "plan": ("plan",), "object": ("sensor",), "field": ("field", "tetrahedra"), "temperature": ("temperature",),
}  # fmt: skip


def judged(name: str, outcome: str, text: str, right: str) -> str | None:
    """What is wrong with an outcome, or None."""
    if outcome == "raw":
        return f"raw exception: {text[:200]}"
    if outcome == "accepted":
        return None if text == right else "accepted, and the result is another"
    if "\n" in text or len(text) > LONGEST:
        return f"long message ({len(text)} characters)"
    if not any(word.lower() in text.lower() for word in (name, *SAYS.get(name, ()))):
        return f"does not name it: {text[:200]}"
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="labels that begin so")
    parser.add_argument("--out", type=pathlib.Path)
    a = parser.parse_args()
    counts, findings, unknown = collections.Counter(), [], []
    here = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for label, make in right_calls(folder).items():
            if a.only and not label.startswith(a.only):
                continue
            outcome, right = attempt(make, None, None)
            if outcome != "accepted":
                findings.append(
                    {"call": label, "argument": "", "value": "", "finding": f"the right call is {outcome}: {right}"}
                )
                print(findings[-1], flush=True)
                continue
            if attempt(make, None, None)[1] != right:
                right = None  # its repr holds an address: nothing to compare with
            for parameter in inspect.signature(make()[0]).parameters.values():
                if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
                    continue
                kind = kind_of(label, parameter)
                if kind is None:
                    continue
                if kind == "?":
                    unknown.append(f"{label} {parameter.name}")
                    continue
                for value in WRONG[kind]:
                    if value is parameter.default or (value is None and parameter.default is None):
                        continue
                    outcome, text = attempt(make, parameter.name, value)
                    wrong = judged(parameter.name, outcome, text, right)
                    counts[outcome] += 1
                    if wrong:
                        findings.append(
                            {"call": label, "argument": parameter.name, "value": repr(value)[:60], "finding": wrong}
                        )
                        print(findings[-1], flush=True)
        os.chdir(here)
    result = {"machine": machine(wp.get_device("cpu")), "counts": counts, "findings": findings, "unknown": unknown}
    print(markdown(result))
    print("no kind:", unknown)
    if a.out:
        (a.out / "wrong_calls.json").write_text(json.dumps(result, indent=1) + "\n")
        (a.out / "wrong_calls.md").write_text(markdown(result))
    return 1 if findings or unknown else 0


def markdown(result: dict) -> str:
    counts, m = result["counts"], result["machine"]
    accepted = sum("accepted" in f["finding"] for f in result["findings"])
    raw = sum("raw" in f["finding"] for f in result["findings"])
    lines = [
        "# Wrong calls",
        "",
        f"{sum(counts.values()):,} calls with one wrong argument each: {counts['refused']:,} refused by a `ValueError`, `OSError` or `ImportError`, ",
    ]
    lines[-1] += (
        f"{counts['accepted']:,} accepted with the right call's result, {raw} other exceptions, {accepted} accepted with another result, "
    )
    lines[-1] += f"{len(result['findings']) - raw - accepted} messages that are long or do not name the argument."
    return "\n".join([*lines, "", f"{m['date']}, {m['processor']}, {m['cores']} cores", ""])


if __name__ == "__main__":
    sys.exit(main())
