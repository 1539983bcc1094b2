# SPDX-License-Identifier: Apache-2.0
"""What a robot's program must know to run a policy: layout of observations, joints, actuators, rates, delays."""

import contextlib
import hashlib
import inspect
import pathlib

import numpy as np

import warpsim
from warpsim.envs.terms import Term, actuator_network, dc_motor, first_order, history, late, noisy, scaled
from warpsim.envs.vector_env import VectorEnv
from warpsim.files.model_record import model_record
from warpsim.model.model import JOINT_NV, JointType, Model
from warpsim.model.targets import target_name

FORMAT = "warpsim policy 1"
PROBES, NEAR = 32, 1e-5  # worlds that tell what a column is; largest residual in standard deviations


def describe(kind, name: str, changes: dict, trained: dict) -> dict:
    """The description of a policy, as JSON values.

    Parameters
    ----------
    kind : class of Task
        The task.
    name : str
        Its name.
    changes : dict
        Attributes of the task that differ where the policy acts.
    trained : dict
        What is known of the training: algorithm, seed, env_steps.
    """
    env = VectorEnv(kind, PROBES, device="cpu", **changes)
    task, model, dt = env.task, env.models[0], env.view.dt
    low, high = env.single_action_space.low, env.single_action_space.high
    return {
        "format": FORMAT,
        "warpsim": warpsim.__version__,
        "task": name,
        **trained,
        "robot": robot(task, model),
        "dt": dt / task.decimation,
        "decimation": task.decimation,
        "control_rate": 1.0 / dt,
        "observation": {"size": int(env.single_observation_space.shape[0]), "terms": observation_terms(env)},
        "action": {
            "size": len(low),
            "low": _plain(low),
            "high": _plain(high),
            "clamped": "to low and high, before the terms below; last_action is the action before clamping",
            "terms": [_actuator_term(term, env.view.period) for term in task.actuators],
            "terms_rate": 1.0 / env.view.period,
        },
        "actuators": [_actuator(model, a) for a in range(model.nu)],
        "joints": [_joint(model, j) for j in range(model.njoint)],
    }


def robot(task, model: Model) -> dict:
    """Name and hashes of a robot: `file_sha256` of the file's bytes, `model_sha256` of everything that was compiled."""
    given = inspect.getattr_static(task, "model")
    given = given.__func__ if isinstance(given, staticmethod) else given
    if callable(given) and not isinstance(given, Model):
        given = given()
    found = {"name": model.name, "file": None, "file_sha256": None, "model_sha256": model_hash(model)}
    if isinstance(given, (str, pathlib.Path)):
        found |= {
            "file": pathlib.Path(given).name,
            "file_sha256": hashlib.sha256(pathlib.Path(given).read_bytes()).hexdigest(),
        }
    return found


def model_hash(model: Model) -> str:
    """SHA-256 of a model's numbers and names."""
    arrays, rest = model_record(model)
    found = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        found.update(f"{name} {array.dtype.str} {array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    found.update(repr(sorted((name, value) for name, value in rest.items() if name != "report")).encode())
    return found.hexdigest()


# observations ---------------------------------------------------------------------------------------------------------


def observation_terms(env: VectorEnv) -> list[dict]:
    """The terms of an environment's observations, with the meaning of columns that follow a coordinate.

    A column is compared with all coordinates of q and v, commands and actions in random states. What equals
    `scale` x + `offset` in all of them is named; other columns are None, and `term` and `arguments` say what they are.
    `delay` [s] and, in histories, `age` [s] say
    how old a value is.
    """
    v, found, first = env.view, [], 0
    _perturb(env)
    known = _known(env)
    for name, term in env.task.observations.items():
        entry, ages = {"name": name}, [0.0]
        while isinstance(term, (noisy, late)):
            if isinstance(term, history):
                ages = [age + k * v.dt for k in range(term.steps, -1, -1) for age in ages]
            elif isinstance(term, late):
                entry["delay"] = entry.get("delay", 0.0) + term.steps * v.dt
            else:
                entry["noise"] = {key: x for key, x in term.amounts.items() if x}
            term = term.term
        values = np.asarray(term(v), float).reshape(env.num_envs, -1)
        entry |= {"term": _name(term), "slice": [first, first + len(ages) * values.shape[1]]}
        given = _arguments(term)
        entry |= {"arguments": given} if given else {}
        columns = [_meaning(column, known) for column in values.T]
        entry["columns"] = [x if len(ages) == 1 else {**(x or {}), "age": age} for age in ages for x in columns]
        found.append(entry)
        first = entry["slice"][1]
    return found


def _perturb(env: VectorEnv) -> None:
    """Put the worlds into random states."""
    random, v, model = np.random.default_rng(0), env.view, env.models[0]
    env.reset()
    q = np.array(v.q) + random.uniform(-0.3, 0.3, v.q.shape)
    for j in range(model.njoint):
        place = model.joint_coordinates(model.joint_names[j])[0]
        if JointType(model.joint_type[j]) in (JointType.FREE, JointType.BALL):
            part = q[:, place.stop - 4 : place.stop]
            part /= np.linalg.norm(part, axis=1, keepdims=True)
    v.write(q=q.astype(env.sim.dtype), v=random.uniform(-1.0, 1.0, v.v.shape).astype(env.sim.dtype))
    v.action = random.uniform(-1.0, 1.0, v.action.shape).astype(np.float32)


def _known(env: VectorEnv) -> list[tuple[dict, np.ndarray]]:
    """Quantities that a column may be, with their values `(worlds,)`."""
    v, model, found = env.view, env.models[0], []
    for quantity, values, k in (("joint_position", v.q, 0), ("joint_velocity", v.v, 1)):
        for name in model.joint_names:
            place = model.joint_coordinates(name)[k]
            found += [
                ({"quantity": quantity, "joint": name, "index": i - place.start}, values[:, i])
                for i in range(place.start, place.stop)
            ]
    found += [({"quantity": "last_action", "index": i}, column) for i, column in enumerate(v.action.T)]
    for name, values in v.commands.items():
        found += [({"quantity": "command", "command": name, "index": i}, x) for i, x in enumerate(values.T)]
    return [(what, np.asarray(x, float)) for what, x in found]


def _meaning(column: np.ndarray, known) -> dict | None:
    """The quantity that a column is a linear function of, with its scale and offset."""
    for what, values in known:
        if np.array_equal(column, values) and np.ptp(values):
            return {**what, "scale": 1.0, "offset": 0.0}
    off, spread = column - column.mean(), column.std()
    for what, values in known:
        x = values - values.mean()
        if spread > 0 and x.any():
            scale = (off @ x) / (x @ x)
            if np.abs(off - scale * x).max() < NEAR * spread:
                offset = column.mean() - scale * values.mean()
                offset = offset if abs(offset) > NEAR * spread else 0.0
                return {**what, "scale": float(f"{scale:.6g}"), "offset": float(f"{offset:.6g}")}
    return None


# actions --------------------------------------------------------------------------------------------------------------


def _actuator_term(term, dt: float) -> dict:
    """What a term between action and control does."""
    found = {"term": _name(term)}
    if isinstance(term, scaled):
        found |= {"scale": _plain(term.scale), "offset": _plain(term.offset)}
    elif isinstance(term, actuator_network):
        found |= {"lags": [lag * dt for lag in term.lags], "velocity_first": term.velocity_first}
        found |= {"scales": [*term.scales, term.torque_scale]}
    elif isinstance(term, late):
        found |= {"delay": term.steps * dt, "steps": term.steps}
    elif isinstance(term, first_order):
        found |= {"time_constant": term.tau}
    elif isinstance(term, dc_motor):
        found |= {"stall_torque": _plain(term.stall), "free_speed": _plain(term.free)}
    return found


def _actuator(model: Model, a: int) -> dict:
    """An actuator: what it drives, its ranges and, of a servo, its gains."""
    gain, bias = model.actuator_gain[a], model.actuator_bias[a]
    found = {
        "name": model.actuator_names[a],
        "drives": target_name(model, a),
        "control_range": _bounds(model.control_range[a]),
        "force_range": _bounds(model.force_range[a]),
        "gear": _plain(model.actuator_gear[a][: max(1, _degrees(model, a))]),
    }
    if gain[0] and bias[1] == -gain[0]:
        found["servo"] = {"kp": float(gain[0]), "kv": float(-bias[2])}
    else:
        found |= {"gain": _plain(gain), "bias": _plain(bias)}
    return found


def _degrees(model: Model, a: int) -> int:
    j = model.actuator_joint[a]
    return JOINT_NV[JointType(model.joint_type[j])] if j >= 0 else 1


def _joint(model: Model, j: int) -> dict:
    name = model.joint_names[j]
    q, v = model.joint_coordinates(name)
    kind = JointType(model.joint_type[j]).name.lower()
    found = {"name": name, "type": kind, "q": [q.start, q.stop], "v": [v.start, v.stop]}
    return found | {"range": _plain(model.joint_range[j]) if model.joint_limited[j] else None}


def _bounds(pair) -> list:
    """Bounds as JSON: None where there is none."""
    return [float(x) if np.isfinite(x) else None for x in pair]


def _plain(values):
    """Numbers as JSON values; None where one is not finite."""
    array = np.asarray(values, float)
    return _bounds(array) if array.ndim else float(array)


def _arguments(term) -> dict:
    """What a term or its maker was given, such as the name of a sensor: texts, numbers and lists of these."""
    if isinstance(term, Term):
        names = inspect.signature(type(term)).parameters
        given = {name: getattr(term, name) for name in names if hasattr(term, name)}
    elif inspect.isfunction(term) and term.__closure__:
        given = {
            name: cell.cell_contents for name, cell in zip(term.__code__.co_freevars, term.__closure__, strict=True)
        }
    else:
        return {}
    found = {}
    for name, value in given.items():
        with contextlib.suppress(TypeError):
            found[name] = _value(value)
    return found


def _value(x):
    """A JSON value; raises `TypeError` for anything but texts, numbers, slices and sequences of these."""
    if isinstance(x, (np.ndarray, np.generic)):
        x = x.tolist()
    if isinstance(x, (tuple, list, slice)):
        return [_value(y) for y in ((x.start, x.stop) if isinstance(x, slice) else x)]
    if x is not None and not isinstance(x, (str, int, float)):
        raise TypeError
    return None if isinstance(x, float) and not np.isfinite(x) else x


def _name(term) -> str:
    """The name of a term: of its class, or of the function that made it."""
    if inspect.isfunction(term):
        return term.__qualname__.partition(".<locals>")[0]
    return type(term).__name__
