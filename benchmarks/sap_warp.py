# SPDX-License-Identifier: Apache-2.0
"""Steps beside sap_warp (SAP on Warp by UCLA and TRI, github sap-sim/sap_warp, version 0.1.0) on one thread of a CPU.

python -m benchmarks.sap_warp --source SAP_WARP --python VENV/bin/python --assets NEWTON_ASSETS --out benchmarks/results

`--source` is a checkout of sap_warp, `--python` an interpreter with its dependencies, `--assets` a checkout of newton-assets of May 2025.
sap_warp's scenes name later files of newton-assets; where `--assets` lacks them, the same robot's URDF of that checkout takes their place. Both
simulators read one URDF, in which the bounding box of each mesh stands for the mesh, as two of sap_warp's scenes ask for. Steps, friction,
stiffness, dissipation, gains of drives and armature are those of sap_warp's scene; drives hold the first pose. Robots stand on the ground and do
not touch themselves. Timed are `--steps` steps after as many that are not, by the process's CPU time.
sap_warp's tolerance is 1e-6, as is that of `convex float64`; in float32 it is 1e-4.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET

REPEATS = 3
ROBOTS = {  # name: sap_warp's scene, URDF in newton-assets (None: the scene as it is), whether its base is free
    "free cube": ("free_cube", None, True),
    "ANYmal C": ("anymal_c_urdf", "anymal_c_simple_description/urdf/anymal.urdf", True),
    "Unitree H1": ("unitree_h1_usd", "h1_description/urdf/h1.urdf", True),
    "Unitree G1": ("unitree_g1_usd", "g1_description/g1_29dof_with_hand_rev_1_0.urdf", True),
    "Franka and a cube": ("franka_panda_cube_urdf", "franka_description/urdfs/fr3_franka_hand.urdf", False),
}
THEIRS, OURS = ("drake", "approx32"), ("convex float64", "convex float32", "default float32")


def boxed(urdf: pathlib.Path, assets: pathlib.Path, out: pathlib.Path) -> None:
    """Write the URDF without what is only drawn, each mesh in contact replaced by its bounding box, and an inertia that is not
    positive definite by 1e-4 kg m²."""
    import numpy as np
    import trimesh
    from scipy.spatial.transform import Rotation

    tree = ET.parse(urdf)
    for link in tree.getroot().iter("link"):
        for visual in link.findall("visual"):
            link.remove(visual)
        for inertia in link.iter("inertia"):
            xx, xy, xz, yy, yz, zz = (float(inertia.get(n)) for n in ("ixx", "ixy", "ixz", "iyy", "iyz", "izz"))
            if np.linalg.eigvalsh([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])[0] <= 0:
                inertia.attrib.update({"ixx": "1e-4", "iyy": "1e-4", "izz": "1e-4", "ixy": "0", "ixz": "0", "iyz": "0"})
        for collision in link.findall("collision"):
            mesh = collision.find("geometry/mesh")
            if mesh is None:
                continue
            name = mesh.get("filename")
            path = assets / name.split("://", 1)[1] if "://" in name else urdf.parent / name
            low, high = trimesh.load(path, force="mesh").bounds * np.array(mesh.get("scale", "1 1 1").split(), float)
            origin = collision.find("origin")
            origin = ET.SubElement(collision, "origin") if origin is None else origin
            turn = Rotation.from_euler("xyz", np.array(origin.get("rpy", "0 0 0").split(), float))
            middle = np.array(origin.get("xyz", "0 0 0").split(), float) + turn.apply((low + high) / 2)
            origin.set("xyz", " ".join(f"{x:.9g}" for x in middle))
            geometry = collision.find("geometry")
            geometry.remove(mesh)
            ET.SubElement(geometry, "box", size=" ".join(f"{x:.9g}" for x in np.maximum(abs(high - low), 1e-3)))
    tree.write(out)


def spec_of(scene: dict, urdf, free: bool):
    """MuJoCo's specification of a scene, for `ws.load`: robot, cube, ground; drives are springs to the first pose."""
    import mujoco
    import numpy as np

    spec = mujoco.MjSpec.from_file(str(urdf)) if urdf else mujoco.MjSpec()
    spec.compiler.balanceinertia = True
    operations = scene["post_build"]
    gains = [o for o in operations if o["op"] == "set_joint_targets" and o["mode"] == "position"]
    armature = [o["value"] for o in operations if o["op"] == "set_joint_armature"]
    first = [o["values"] for o in operations if o["op"] == "set_array" and o["array"] == "joint_q"]
    if urdf and free:
        spec.worldbody.bodies[0].add_freejoint()
    joints = [j for j in spec.joints if j.type != mujoco.mjtJoint.mjJNT_FREE]
    for k, joint in enumerate(joints):
        joint.stiffness, joint.damping = [gains[0]["ke"], 0, 0], [gains[0]["kd"], 0, 0]  # of MuJoCo 4: polynomials
        joint.armature = armature[0] if armature else joint.armature
        joint.springref = first[0][k] if urdf and first else 0.0
    for body in scene.get("bodies", ()):
        (shape,), place = body["shapes"], body["transform"]["p"]
        cube = spec.worldbody.add_body(name=body["id"], pos=place)
        cube.add_freejoint()
        size = [shape["hx"], shape["hy"], shape["hz"]]
        cube.add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, size=size, density=shape["cfg"]["density"])
    for geom in spec.geoms:
        geom.contype, geom.conaffinity = 1, 0
    own = [geom for geom in spec.geoms if geom.parent.name == "cube"]
    for geom in own:
        geom.conaffinity = 1
    spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1], contype=0, conaffinity=1)
    compiled = spec.compile()
    q = compiled.qpos0.copy()
    if first:
        q[: len(first[0])] = np.array(first[0])[[0, 1, 2, 6, 3, 4, 5]] if not urdf else first[0]
    v = np.zeros(compiled.nv)
    for o in operations:
        if o["op"] == "set_array" and o["array"] == "joint_qd":
            v[:] = o["values"]
    return spec, compiled, q, v


def height(compiled, q) -> float:
    """How high the lowest point of the robot's geoms lies; cylinders and capsules count as boxes."""
    import itertools

    import mujoco
    import numpy as np

    data = mujoco.MjData(compiled)
    data.qpos[:] = q
    mujoco.mj_forward(compiled, data)
    corners, lowest = np.array(list(itertools.product((-1, 1), repeat=3))), np.inf
    for g in range(compiled.ngeom):
        size, kind = compiled.geom_size[g], compiled.geom_type[g]
        if kind == mujoco.mjtGeom.mjGEOM_PLANE:
            continue
        if kind == mujoco.mjtGeom.mjGEOM_SPHERE:
            lowest = min(lowest, data.geom_xpos[g, 2] - size[0])
            continue
        half = size if kind == mujoco.mjtGeom.mjGEOM_BOX else [size[0], size[0], size[1]]
        lowest = min(lowest, (data.geom_xpos[g] + (corners * half) @ data.geom_xmat[g].reshape(3, 3).T)[:, 2].min())
    return float(lowest)


def ours(scene: dict, urdf, free: bool, law: str, worlds: int, steps: int) -> dict:
    """CPU seconds of the steps of warpsim, and what it did."""
    import warnings

    import numpy as np

    import warpsim as ws

    warnings.simplefilter("ignore")  # that geoms overlap before the robot is placed on the ground
    spec, _, q, v = spec_of(scene, urdf, free)
    if urdf and free:
        q[2] = scene["assets"][0]["xform"]["p"][2]
    name, dtype = law.split()
    solver = ws.SAP(approximation="convex") if name == "convex" else None
    dt, shape = scene["simulation"]["dt"], scene["builder"]["defaults"]["shape"]
    sim = ws.Simulator(ws.load(spec), worlds, dt=dt, solver=solver, dtype=dtype, device="cpu", threads=1)
    for parameter, key in (("stiffness", "ke"), ("dissipation_time", "tau"), ("friction", "mu")):
        sim.parameters[f"geom_{parameter}"] = np.full(sim.model.ngeom, shape[key])
    state = sim.state(q, v)
    for _ in range(steps):
        sim.step(state, out=state)
    start = time.process_time()
    for _ in range(steps):
        sim.step(state, out=state)
    seconds = time.process_time() - start
    contacts = sim.diagnostics.contacts.numpy().mean()
    flags = int(np.count_nonzero(sim.diagnostics.flags.numpy()))
    z = float(state.q.numpy()[0, 2 if free else -5])
    return {"seconds": seconds, "contacts": float(contacts), "flagged": flags, "height": z, "dofs": int(sim.model.nv)}


def theirs(path: str, worlds: int, steps: int) -> dict:
    """CPU seconds of the steps of sap_warp by the functions of its `benchmark.py`; runs in its own interpreter."""
    import benchmark
    import numpy as np
    import warp as wp
    from sim.collision.pipeline import SapCollisionPipeline
    from sim.loader.scene import load_sap_scene
    from sim.sap_kinematics import sap_eval_fk
    from sim.solver_sap import SolverSAP

    path = pathlib.Path(path)
    settings = benchmark._scene_simulation_config(path)
    most, device = benchmark._scene_max_rigid_contact_per_env(path, settings), wp.get_device("cpu")
    loaded = load_sap_scene(path, device=device, rigid_contact_max=most * worlds, strict=True, num_worlds=worlds)
    tau = benchmark._scene_default_shape_tau(path)
    options = benchmark._scene_solver_kwargs(path, settings)
    solver = SolverSAP(loaded.sap_model, max_rigid_contact=most, contact_tau_d=tau, **options)
    pipeline = SapCollisionPipeline(loaded.collision_model, rigid_contact_max=most * worlds)
    contacts, states = pipeline.contacts(), (loaded.sap_state, loaded.sap_model.state())
    step = {"solver": solver, "collision_pipeline": pipeline, "control": loaded.sap_control, "contacts": contacts}
    sap_eval_fk(loaded.sap_model, states[0].joint_q, states[0].joint_qd, states[0])  # bodies to the first pose
    for k in range(2 * steps):
        if k == steps:
            start = time.process_time()
        states = benchmark._step_native(state_0=states[0], state_1=states[1], dt=settings["dt"], **step)
    seconds = time.process_time() - start
    q, count = states[0].joint_q.numpy().reshape(worlds, -1), contacts.rigid_contact_count.numpy()
    found = {"seconds": seconds, "contacts": float(np.sum(count)) / worlds, "finite": bool(np.isfinite(q).all())}
    free = "anymal" in path.stem or q.shape[1] == 7 or q.shape[1] > 20
    z = float(q[0, 2 if free else -5])
    return found | {"height": z, "dofs": int(loaded.sap_model.joint_dof_count) // worlds}


def in_child(command: list[str], folder) -> dict:
    environment = os.environ | {"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        return {"error": (done.stdout + done.stderr).strip().splitlines()[-1][:300]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def scenes(source: pathlib.Path, assets: pathlib.Path, folder: pathlib.Path, robot: str) -> tuple[dict, object]:
    """sap_warp's scene of a robot on files that are here: one YAML for each preset, the scene, and its URDF."""
    import yaml

    name, urdf, free = ROBOTS[robot]
    scene = yaml.safe_load((source / "assets" / "yaml" / f"{name}.yaml").read_text())
    scene.pop("control", None)
    if urdf:
        path = folder / f"{name}.urdf"
        boxed(assets / urdf, assets, path)
        (asset,) = scene["assets"]
        for key in ("skip_mesh_approximation", "ignore_paths"):
            asset.pop(key, None)
        asset |= {"type": "urdf", "source": {"path": str(path)}, "floating": free}
        asset["xform"]["q"] = "identity"
        scene["post_build"] = [
            o for o in scene["post_build"] if o["op"] not in ("approximate_meshes", "scale_sphere_shapes")
        ]
        if free:
            _, compiled, q, _ = spec_of(scene, path, free)
            q[:3] = 0.0
            asset["xform"]["p"] = [0.0, 0.0, 0.001 - height(compiled, q)]
            # drives of the base are none, and the others hold the first pose
            gains = next(o for o in scene["post_build"] if o["op"] == "set_joint_targets" and o["mode"] == "position")
            gains["range"] = "from:6"
    for preset in THEIRS:
        scene["simulation"]["solver"]["contact_preset_variant"] = preset
        (folder / f"{name}_{preset}.yaml").write_text(yaml.safe_dump(scene))
    return scene, path if urdf else None


def markdown(result: dict) -> str:
    law = [*(f"sap_warp {x}" for x in THEIRS), *(f"warpsim {x}" for x in OURS)]
    head = f"World-steps per second of CPU time, one thread, {result['worlds']} worlds, {result['steps']} steps."
    lines = ["# Beside sap_warp", "", head, "", f"| robot | dofs | {' | '.join(law)} |", "|---" * (len(law) + 2) + "|"]
    for robot, row in result["rows"].items():
        cells = [f"{row[x]['rate']:,.0f}" if "rate" in row.get(x, {}) else "–" for x in law]
        lines.append(f"| {robot} | {row['dofs']} | {' | '.join(cells)} |")
    lines += ["", "Contact points per world at the end; height [m] of the base, or of the cube.", ""]
    lines += [f"| robot | {' | '.join(law)} |", "|---" * (len(law) + 1) + "|"]
    for robot, row in result["rows"].items():
        cells = [
            f"{row[x]['contacts']:.1f}; {row[x]['height']:.3f}"
            if "rate" in row.get(x, {})
            else row[x].get("error", "–")
            for x in law
        ]
        lines.append(f"| {robot} | {' | '.join(cells)} |")
    m = result["machine"]
    return "\n".join([*lines, "", f"{m['date']}, {m['processor']}, {m['cores']} cores", ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--worker", nargs=3, metavar=("SCENE", "WORLDS", "STEPS"), help=argparse.SUPPRESS)
    parser.add_argument("--source", type=pathlib.Path)
    parser.add_argument("--python", type=pathlib.Path)
    parser.add_argument("--assets", type=pathlib.Path)
    parser.add_argument("--robots", default=",".join(ROBOTS))
    parser.add_argument("--worlds", type=int, default=16)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--out", type=pathlib.Path)
    a = parser.parse_args()
    if a.worker:
        print(json.dumps(theirs(a.worker[0], int(a.worker[1]), int(a.worker[2]))))
        return
    import warp as wp

    from warpsim.tools.bench import machine

    result = {"machine": machine(wp.get_device("cpu")), "worlds": a.worlds, "steps": a.steps, "rows": {}}
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for robot in a.robots.split(","):
            scene, urdf = scenes(a.source, a.assets, folder, robot)
            name, _, free = ROBOTS[robot]
            row = result["rows"][robot] = {}
            runs = {}
            for preset in THEIRS:
                path = str(folder / f"{name}_{preset}.yaml")
                command = [str(a.python), __file__, "--worker", path, str(a.worlds), str(a.steps)]
                runs[f"sap_warp {preset}"] = lambda command=command: in_child(command, a.source)
            for law in OURS:
                runs[f"warpsim {law}"] = lambda law=law: ours(scene, urdf, free, law, a.worlds, a.steps)
            for _ in range(a.repeats):
                for key, run in runs.items():
                    found = run()
                    row.setdefault(key, found | {"all": []})
                    row[key]["all"].append(found.get("seconds"))
            for key, found in row.items():
                if "seconds" in found:
                    found["rate"] = a.worlds * a.steps / statistics.median(found["all"])
                print(robot, key, {k: v for k, v in found.items()}, file=sys.stderr, flush=True)
            row["dofs"] = row["warpsim default float32"]["dofs"]
    print(markdown(result))
    if a.out:
        (a.out / "sap_warp.json").write_text(json.dumps(result, indent=1) + "\n")
        (a.out / "sap_warp.md").write_text(markdown(result))


if __name__ == "__main__":
    main()
