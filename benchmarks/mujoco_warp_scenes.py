# SPDX-License-Identifier: Apache-2.0
"""mujoco_warp's benchmark scenes under MuJoCo's law: which load, one step beside MuJoCo C, and 100 steps without flags.

    python -m benchmarks.mujoco_warp_scenes CHECKOUT [--assets NAME=FOLDER …] [--only WORD] [--page benchmarks/results/mujoco_warp_scenes.md]

CHECKOUT: google-deepmind/mujoco_warp. Its nightly scenes take meshes from other repositories (`SCENES`); `--assets mujoco_menagerie=FOLDER` says where
one lies. Meshes that are not there are left out, with the geoms that have them, and the table says how many.
"""

import argparse
import dataclasses
import datetime
import pathlib
import shutil
import sys
import tempfile
import warnings

import mujoco
import numpy as np

import warpsim as ws
from benchmarks.corpus.files import outside
from benchmarks.mujoco_law import one_step, states_of

WORLDS, STEPS = 8, 100
MENAGERIE, SIM = "mujoco_menagerie", "aloha_sim"
# Folder and file in `benchmarks`, and what is copied beside it: (repository, folder there, folder here).
SCENES: dict[str, tuple[str, str, tuple]] = {
    "humanoid": ("humanoid", "humanoid.xml", ()),
    "three_humanoids": ("humanoid", "three_humanoids.xml", ()),
    "unitree_g1_flat": ("unitree_g1", "scene_flat.xml", ((MENAGERIE, "unitree_g1/assets", "assets"),)),
    "unitree_g1_hfield": ("unitree_g1", "scene_hfield.xml", ((MENAGERIE, "unitree_g1/assets", "assets"),)),
    "franka_emika_panda": ("franka_emika_panda", "scene.xml", ((MENAGERIE, "franka_emika_panda", ""),)),
    "myoarm": ("myosim", "myo_sim/arm/myoarm.xml", (("myo_sim", "", "myo_sim"),)),
    "primitives": ("render", "primitives.xml", ()),
    "cloth": ("cloth", "scene.xml", ()),
    "aloha_pot": ("aloha", "scene_pot.xml", ((MENAGERIE, "aloha", ""),)),
    "aloha_sdf": ("aloha", "scene_sdf.xml", ((MENAGERIE, "aloha", ""), ("mujoco", "model/plugin/sdf/asset", "assets"))),
    "aloha_cloth": ("aloha", "scene_cloth.xml", ((MENAGERIE, "aloha", ""),)),
    "aloha_clutter": (
        *("aloha", "scene_clutter.xml"),
        (
            (MENAGERIE, "aloha", ""),
            (SIM, "aloha_sim/assets/ycb", "assets/ycb"),
            (SIM, "aloha_sim/assets/gso", "assets/gso"),
        ),
    ),
}


@dataclasses.dataclass
class Row:
    """A row of the table. `why`: what the scene needs and warpsim or this machine does not have."""

    name: str
    why: str = ""
    without: int = 0  # geoms left out
    nv: int = 0
    found: dict = dataclasses.field(default_factory=dict)  # of `one_step`
    given: dict = dataclasses.field(default_factory=dict)  # of `one_step` with MuJoCo's contact points
    flags: dict[str, int] = dataclasses.field(default_factory=dict)  # worlds that were flagged, by dtype


def assembled(checkout: pathlib.Path, scene: str, assets: dict[str, pathlib.Path], into: pathlib.Path) -> pathlib.Path:
    """The scene's file, beside all of its assets that are here."""
    folder, file, parts = SCENES[scene]
    for repository, source, target in parts:
        if repository in assets and (assets[repository] / source).is_dir():
            shutil.copytree(assets[repository] / source, into / target, dirs_exist_ok=True)
    shutil.copytree(checkout / "benchmarks" / folder, into, dirs_exist_ok=True)
    return into / file


def compiled_without_missing(path: pathlib.Path) -> tuple[mujoco.MjModel, int]:
    """The model without the meshes whose files are missing, and the number of geoms that had them."""
    spec = mujoco.MjSpec.from_file(str(path))
    folders = [path.parent / spec.modelfiledir, path.parent / spec.meshdir, path.parent]
    missing = {
        x.name or pathlib.Path(x.file).stem
        for x in spec.meshes
        if x.file and not any((f / x.file).exists() for f in folders)
    }
    dropped = [g for g in spec.geoms if g.meshname in missing]
    for geom in dropped:
        spec.delete(geom)
    for mesh in [x for x in spec.meshes if (x.name or pathlib.Path(x.file).stem) in missing]:
        spec.delete(mesh)
    return spec.compile(), len(dropped)


def motion(m: mujoco.MjModel, dtype: str) -> int:
    """The number of worlds with a flag within `STEPS` steps from the first keyframe, or from the start, under random controls."""
    sim = ws.Simulator(ws.load(m), WORLDS, dtype=dtype, device="cpu", threads=1, solver=ws.MuJoCo(), max_contacts=400)
    rng, first = np.random.default_rng(0), mujoco.MjData(m)
    if m.nkey:
        mujoco.mj_resetDataKeyframe(m, first, 0)
    state = sim.state(first.qpos, first.qvel)
    low, high = np.where(m.actuator_ctrllimited[:, None] > 0, m.actuator_ctrlrange, [-1.0, 1.0]).T
    flagged = np.zeros(WORLDS, bool)
    for step in range(STEPS):
        if step % 10 == 0:
            control = first.ctrl + 0.3 * (rng.uniform(low, high, (WORLDS, m.nu)) - first.ctrl)
        state = sim.step(state, control if m.nu else None)
        flagged |= sim.diagnostics.flags.numpy() != 0
    return int(flagged.sum())


def examine(checkout: pathlib.Path, scene: str, assets: dict[str, pathlib.Path], states: int) -> Row:
    """Load a scene, step it beside MuJoCo, and simulate it."""
    row = Row(scene)
    with tempfile.TemporaryDirectory() as folder:
        try:
            path = assembled(checkout, scene, assets, pathlib.Path(folder))
            m, row.without = compiled_without_missing(path)
        except (ValueError, OSError) as error:
            row.why = f"does not compile here: {str(error).splitlines()[0]}"
            return row
        row.nv = m.nv
        try:
            if uses := outside(m):
                row.why = f"has {', '.join(uses)}"
                ws.load(m)
                return row
            row.flags = {dtype: motion(m, dtype) for dtype in ("float64", "float32")}
            cone = "elliptic" if m.opt.cone else "pyramidal"
            at = states_of(m, states)
            row.found = one_step(m, at, cone, given=False)
            row.given = one_step(m, at, cone, given=True)
        except (ws.ModelError, ValueError, NotImplementedError) as error:
            row.why = " ".join(str(error).split())
    return row


def errors(found: dict) -> str:
    """States compared, and the worst errors."""
    if not found:
        return "–"
    if not found["compared"]:
        return f"0 of {found['states']}"
    return f"{found['compared']} of {found['states']}; {found['qacc']:.0e}; {found['force']:.0e}"


def table(rows: list[Row]) -> str:
    lines = [
        "| scene | nv | own contact points: states; acceleration; force | MuJoCo's contact points | worlds flagged in 100 steps, float64, float32 |",
        "|---|---|---|---|---|",
    ]
    for r in (r for r in rows if r.flags):
        name = f"{r.name} (without {r.without} geoms)" if r.without else r.name
        flags = ", ".join(f"{n} of {WORLDS}" for n in r.flags.values())
        lines.append(f"| {name} | {r.nv} | {errors(r.found)} | {errors(r.given)} | {flags} |")
    for r in (r for r in rows if r.why):
        lines += ["", f"- **{r.name}**: {r.why[:300]}"]
    return "\n".join(lines)


TEXT = """# mujoco_warp's benchmark scenes under MuJoCo's law

`python -m benchmarks.mujoco_warp_scenes CHECKOUT --assets …`, {date}, MuJoCo {version}, one CPU core.

One step from states of a rollout in MuJoCo, float64, both engines converged, with the file's cone: the number of states whose contact points agree to 1e-11, the largest relative
error of the acceleration, and of a contact's force; then the same at all states with MuJoCo's own contact points. Then {steps} steps of {worlds} worlds under random controls,
with the file's integrator. Meshes whose files were not at hand are left out, with their geoms. {note}

"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=pathlib.Path)
    parser.add_argument("--assets", nargs="*", default=[], metavar="NAME=FOLDER")
    parser.add_argument("--only", default="")
    parser.add_argument("--states", type=int, default=8)
    parser.add_argument("--note", default="", help="a sentence for the page, such as where meshes come from")
    parser.add_argument("--page", type=pathlib.Path)
    options = parser.parse_args()
    assets = {name: pathlib.Path(folder) for name, _, folder in (x.partition("=") for x in options.assets)}
    rows = []
    for scene in (x for x in SCENES if options.only in x):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rows.append(examine(options.checkout, scene, assets, options.states))
        print(rows[-1], file=sys.stderr, flush=True)
    text = table(rows)
    print(text)
    if options.page:
        values = {
            "date": datetime.date.today(),
            "version": mujoco.__version__,
            "steps": STEPS,
            "worlds": WORLDS,
            "note": options.note,
        }
        options.page.write_text(TEXT.format(**values) + text + "\n")


if __name__ == "__main__":
    main()
