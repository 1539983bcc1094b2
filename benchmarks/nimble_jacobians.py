# SPDX-License-Identifier: Apache-2.0
"""All Jacobians of one step in contact: `sim.linearize` beside Nimble, the same robots in the same state, one thread each.

    python -m venv nimble && nimble/bin/pip install nimblephysics "numpy<2"
    python -m benchmarks.nimble_jacobians --nimble nimble/bin/python [--out benchmarks/results]

Nimble (Werling et al. 2021) runs in an environment of its own and is given the robot as links, inertias and shapes. Its
Jacobians of one world: dq'/dq, dq'/dv, dv'/dq, dv'/dv, by forces (its forward pass included); ours of 256 worlds the same
and by controls, all of `linearize`. By masses apart: this Nimble finds those by differences.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

ROBOTS = ("half_cheetah", "humanoid33")
OVERLAP = 1e-4  # [m] that contacts are pushed into the floor: rigid contact needs to touch
NO_MASS = 1e-6  # [kg], [kg m²] of links between joints of one body
REPEATS = 200


# ---- the robot as plain numbers ---------------------------------------------------------------------------------------


def description(model, q: np.ndarray, v: np.ndarray) -> dict:
    """Links in order with their joints, inertias and shapes that touch the floor, and the state."""
    from warpsim.model.geometry import rotation_matrix
    from warpsim.model.model import GeomType, JointType

    def frame(pose):
        T = np.eye(4)
        T[:3, :3], T[:3, 3] = rotation_matrix(pose[3:]), pose[:3]
        return T.tolist()

    links = []
    for link in range(len(model.link_type)):
        joint, body = int(model.link_joint[link]), int(model.link_body[link])
        last = int(model.body_link[body]) == link
        entry = {"parent": int(model.link_parent[link]), "type": JointType(model.link_type[link]).name.lower()}
        entry["pose"] = frame(model.joint_pose[joint])
        entry["anchor"], entry["axis"] = model.joint_anchor[joint].tolist(), model.joint_axis[joint].tolist()
        entry["mass"] = float(model.body_mass[body]) if last else NO_MASS
        entry["com"] = model.body_com[body].tolist() if last else [0.0] * 3
        entry["inertia"] = model.body_inertia[body].tolist() if last else (NO_MASS * np.eye(3)).tolist()
        i, j = int(model.joint_q[joint]), int(model.joint_v[joint])
        n = 7 if entry["type"] == "free" else 1
        entry["q"], entry["v"] = q[i : i + n].tolist(), v[j : j + max(n - 1, 1)].tolist()
        entry["q0"] = model.q0[i : i + n].tolist()
        entry["geoms"] = []
        for g in np.flatnonzero(model.geom_body == body) if last else ():
            if model.geom_contype[g] or model.geom_conaffinity[g]:
                kind = GeomType(model.geom_type[g]).name.lower()
                entry["geoms"].append(
                    {"type": kind, "size": model.geom_size[g].tolist(), "pose": frame(model.geom_pose[g])}
                )
        links.append(entry)
    return {"links": links, "gravity": model.gravity.reshape(-1).tolist()}


# ---- Nimble, in its own environment -----------------------------------------------------------------------------------


def nimble_world(robot: dict, dt: float):
    """The robot over a floor."""
    import nimblephysics as nimble

    def isometry(T):
        T = np.asarray(T)
        found = nimble.math.Isometry3()
        found.set_rotation(T[:3, :3])
        found.set_translation(T[:3, 3])
        return found

    def add_shape(body, shape, T):
        node = body.createShapeNode(shape)
        node.createCollisionAspect()
        node.createDynamicsAspect().setFrictionCoeff(0.8)
        node.setRelativeTransform(isometry(T))

    def shape(geom):
        size = geom["size"]
        if geom["type"] == "sphere":
            return nimble.dynamics.SphereShape(size[0])
        if geom["type"] == "capsule":
            return nimble.dynamics.CapsuleShape(size[0], 2 * size[1])
        return nimble.dynamics.BoxShape(2 * np.asarray(size))

    world = nimble.simulation.World()
    world.setGravity(robot["gravity"])
    world.setTimeStep(dt)
    skeleton, bodies, q, v = nimble.dynamics.Skeleton(), [], [], []
    for link in robot["links"]:
        kind = {"free": "Free", "hinge": "Revolute", "slide": "Prismatic"}[link["type"]]
        create = getattr(skeleton, f"create{kind}JointAndBodyNodePair")
        joint, body = create() if link["parent"] < 0 else create(bodies[link["parent"]])
        if link["type"] == "free":
            w, xyz = link["q"][3], np.array(link["q"][4:])
            angle = 2 * np.arctan2(np.linalg.norm(xyz), w)
            q += [*(xyz / max(np.linalg.norm(xyz), 1e-12) * angle), *link["q"][:3]]
            v += [*link["v"][3:], *link["v"][:3]]
        else:
            joint.setTransformFromParentBodyNode(isometry(link["pose"]))
            T = np.eye(4)
            T[:3, 3] = link["anchor"]
            joint.setTransformFromChildBodyNode(isometry(T))
            joint.setAxis(link["axis"])
            q.append(link["q"][0] - link["q0"][0])
            v.append(link["v"][0])
        body.setMass(link["mass"])
        body.setLocalCOM(link["com"])
        I = np.asarray(link["inertia"])
        body.setMomentOfInertia(I[0, 0], I[1, 1], I[2, 2], I[0, 1], I[0, 2], I[1, 2])
        for geom in link["geoms"]:
            add_shape(body, shape(geom), geom["pose"])
        bodies.append(body)
    world.addSkeleton(skeleton)
    floor = nimble.dynamics.Skeleton()
    _, slab = floor.createWeldJointAndBodyNodePair()
    T = np.eye(4)
    T[2, 3] = -0.5
    add_shape(slab, nimble.dynamics.BoxShape(np.array([100.0, 100.0, 1.0])), T)
    world.addSkeleton(floor)
    world.setPositions(np.array(q))
    world.setVelocities(np.array(v))
    for body in bodies:
        world.getWrtMass().registerNode(body, nimble.neural.MASS, [0.0], [0.0])
    return world


def nimble_times(path: str) -> dict:
    """Medians of seconds: the forward pass, and all Jacobians after it."""
    import nimblephysics as nimble

    given = json.loads(pathlib.Path(path).read_text())
    world = nimble_world(given["robot"], given["dt"])
    names = ("PosPos", "PosVel", "VelPos", "VelVel", "ControlForceVel")
    times = []
    q, v = world.getPositions(), world.getVelocities()
    for _ in range(REPEATS):
        world.setPositions(q)
        world.setVelocities(v)
        times.append([time.perf_counter()])
        snapshot = nimble.neural.forwardPass(world, True)
        times[-1].append(time.perf_counter())
        for name in names:
            getattr(snapshot, f"get{name}Jacobian")(world)
        times[-1].append(time.perf_counter())
        if len(times) <= REPEATS // 10:
            snapshot.getMassVelJacobian(world)
        times[-1].append(time.perf_counter())
    forward, jacobians, mass = np.diff(np.array(times)).T
    return {
        "forward": float(np.median(forward)),
        "jacobians": float(np.median(jacobians)),
        "mass": float(np.median(mass[: REPEATS // 10])),
        "count": len(names),
        "contacts": world.getLastCollisionResult().getNumContacts(),
    }


# ---- ours -------------------------------------------------------------------------------------------------------------


def ours(robot: str, worlds: int) -> tuple[dict, dict, float]:
    """What a Nimble process is given; seconds per world of all our Jacobians; contacts."""
    import warp as wp

    import warpsim as ws
    from benchmarks import linearize as bench

    wp.config.log_level = wp.LOG_WARNING
    model = bench.load(robot)
    q, v, u = bench.disturbed(model, worlds)
    sim = ws.Simulator(model, worlds, dt=bench.H, dtype="float64", device="cpu")
    state, control = sim.state(q, v), wp.array(u, dtype=wp.float64, device="cpu")
    seconds = []
    for masses in ((), ("body_mass",)):
        options = {"force_jacobian": True, "parameters": masses}
        out = sim.linearize(state, control, **options)
        seconds.append(bench.least_seconds(lambda: sim.linearize(state, control, out=out, **options)) / worlds)
    sim.step(state, control)
    contacts = float(sim.diagnostics.contacts.numpy().mean())
    touching = sim.contacts(state)
    phi = touching.phi[0, : touching.count[0]]
    lowered = q[0].copy()
    lowered[2 if robot == "humanoid33" else 1] -= OVERLAP + phi.max(initial=0.0)
    given = {"robot": description(model, lowered, v[0]), "dt": bench.H}
    return given, {"seconds": seconds[0], "mass": seconds[1] - seconds[0], "dofs": model.nv}, contacts


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nimble", default=None, help="Python of the environment that has nimblephysics")
    parser.add_argument("--worlds", type=int, default=256)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        print(json.dumps(nimble_times(arguments.worker)))
        return 0
    head = "| robot | dofs | contacts, ours / Nimble | ours [µs per world] | Nimble: step, Jacobians [µs] | ratio |"
    lines = [head + " by masses, ours / Nimble [µs] |", "|---|---|---|---|---|---|---|"]
    for robot in ROBOTS:
        given, mine, contacts = ours(robot, arguments.worlds)
        if arguments.nimble is None:
            continue
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "robot.json"
            path.write_text(json.dumps(given))
            command = [arguments.nimble, __file__, "--worker", str(path)]
            result = subprocess.run(command, capture_output=True, text=True, check=True)
            theirs = json.loads(result.stdout.strip().splitlines()[-1])
        total = theirs["forward"] + theirs["jacobians"]
        row = [robot, mine["dofs"], f"{contacts:.1f} / {theirs['contacts']}", f"{1e6 * mine['seconds']:.0f}"]
        row += [f"{1e6 * theirs['forward']:.0f}, {1e6 * theirs['jacobians']:.0f}", f"{total / mine['seconds']:.0f}"]
        row += [f"{1e6 * mine['mass']:.0f} / {1e6 * theirs['mass']:.0f}"]
        lines.append("| " + " | ".join(map(str, row)) + " |")
    print("\n".join(lines))
    if arguments.out:
        text = f"# All Jacobians of a step: ours ({arguments.worlds} worlds, one thread) and Nimble\n\n"
        arguments.out.mkdir(parents=True, exist_ok=True)
        (arguments.out / "nimble_jacobians.md").write_text(text + "\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
