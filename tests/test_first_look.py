# SPDX-License-Identifier: Apache-2.0
"""What a user sees first: robots in the package, short reprs, types, Warp's silence, and programs of the README that run."""

import ast
import doctest
import importlib.util
import inspect
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest
import warp as wp

import warpsim as ws

ROOT = pathlib.Path(__file__).parents[1]
ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}


def python(program: str, folder, **environment) -> subprocess.CompletedProcess:
    """Run a program in a fresh process in `folder`."""
    file = folder / "program.py"  # a kernel's source is read from its file
    file.write_text(program)
    return subprocess.run(
        [sys.executable, str(file)], cwd=folder, capture_output=True, text=True, env=ENVIRONMENT | environment
    )


# Robots ------------------------------------------------------------------------------------------------------------------

SIZES = {"ant": (15, 14, 8), "cartpole": (2, 2, 1), "hopper": (6, 6, 3), "humanoid": (25, 24, 18)}


def test_robots_are_listed():
    """`names` are those of the files, each with the sizes that its users rely on; an unknown one is refused with the list."""
    assert ws.robots.names() == sorted(SIZES)
    assert all(name in ws.robots.__doc__ for name in SIZES)
    for wrong in ("spider", "", "../ant", 3, None):
        with pytest.raises(ValueError, match="ant, cartpole, hopper, humanoid"):
            ws.robots.path(wrong)


@pytest.mark.parametrize("name", SIZES)
def test_robots_load_whole_and_stand(name, device):
    """Nothing of our own robots is refused or changed; each starts at rest, free of overlap, and stays finite for a second
    under random controls. The ant stands by itself: its torso stays within 2 cm and comes to rest."""
    model = ws.load(ws.robots.path(name))
    assert (model.nq, model.nv, model.nu) == SIZES[name]
    left_out = [line for line in model.report if line.status in ("ignored", "refused")]
    assert [line.feature for line in left_out] == ["option integrator = EULER"]
    assert np.abs(model.control_range).max() == 1.0
    sim = ws.Simulator(model, worlds=4, device=device)
    assert sim.contacts(sim.state()).phi.min(initial=0.0) > -1e-6
    steps = round(1.0 / sim.dt)
    controls = np.random.default_rng(0).uniform(-0.3, 0.3, (steps, 4, model.nu))
    assert not sim.rollout(sim.state(), controls).diagnostics["flags"].numpy().any()
    for frame in model.keyframes:
        assert sim.contacts(sim.state(keyframe=frame)).phi.min(initial=0.0) > -0.005
    if name == "ant":
        rest = sim.rollout(sim.state(), steps=2 * steps)
        assert abs(rest.q.numpy()[-1, 0, 2] - model.q0[2]) < 0.02 and np.abs(rest.v.numpy()[-1]).max() < 0.01


# Reprs -------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shown(device):
    """One of every object that a session meets, of a model with long names."""
    model = ws.load(ws.robots.path("humanoid"))
    sim = ws.Simulator(model, worlds=64, device=device, dtype="float64")
    grad = ws.Simulator(model, worlds=2, device=device, dtype="float64", requires_grad=True)
    state = sim.state()
    with wp.Tape():
        report = grad.rollout(grad.state(), steps=1, gradient_norms=True).gradients
    trajectory = sim.rollout(state, steps=2)
    sim.parameters["body_mass"]
    problem = ws.ContactProblem(np.eye(3), np.eye(3), [0, 0, -1], [0.5], phi=[0.0], dt=0.01)
    field = ws.ModelBuilder()
    field.add_geom("hfield", hfield=([1, 1, 1, 1], np.zeros((50, 50))))
    field.add_geom("mesh", mesh=(np.eye(3), [[0, 1, 2]]))
    many = ws.ModelBuilder("a long name " * 100)
    many.add_body("x", mass=1)
    objective = ws.Objective(grad, lambda t: t.q, {"v": np.zeros(model.nv), "body_mass": model.masses}, steps=2)
    return {
        "Model": model,
        "Model of a long name": many.build(),
        "Mesh": field.meshes[0],
        "HField": field.hfields[0],
        "ModelBuilder": field,
        "Simulator": sim,
        "State": state,
        "Trajectory": trajectory,
        "Diagnostics": sim.diagnostics,
        "Parameters": sim.parameters,
        "ContactList": sim.last_contacts,
        "RayHits": sim.ray_cast(state, [[0, 0, 3]], [[0, 0, -1]]),
        "Linearization": sim.linearize(state, parameters=["body_mass"]),
        "GradientReport": report,
        "GradientCheck": ws.check_gradients(grad, horizons=(1,), variables=("v",), entries=1, step_sizes=(1e-6,)),
        "Objective": objective,
        "ContactProblem": problem,
        "ContactSolution": ws.solve_contact(problem),
        "LCPSolution": ws.solve_lcp(np.eye(50), np.ones(50), np.ones(50), -np.ones(50)),
        "ConeQPSolution": ws.solve_cone_qp(np.eye(50), np.ones(50)),
    }


WORDS = {
    "Model": "'humanoid'|nv=24|ngeom=|timestep 0.005 s",
    "ModelBuilder": "2 geoms",
    "Simulator": "'humanoid'|worlds=64|SAP|SymplecticEuler|float64",
    "State": "worlds=64|(64, 25)|float64|flags",
    "Trajectory": "'humanoid'|steps=2|worlds=64",
    "Parameters": "worlds=64|body_mass",
    "Linearization": "A=(64, 48, 48)|body_mass: (64, 48, ",
    "ContactProblem": "nv=3|contacts=1",
    "ContactSolution": "v=(1, 3)|impulse=(1, 1, 3)",
    "LCPSolution": "x=(1, 50)",
    "Objective": "v: (24,)|steps=2",
}


def test_reprs_are_short_and_say_what_it_is(shown):
    """Every object shows itself in one line below 300 characters that starts with its class and has its sizes."""
    for name, value in shown.items():
        text = repr(value)
        assert len(text) < 300 and "\n" not in text, (name, len(text))
        assert text.startswith(name.split()[0] + "("), text
        for word in WORDS.get(name, "").split("|"):
            assert word in text, (word, text)


# Types -------------------------------------------------------------------------------------------------------------------

SNIPPET = """
import warpsim as ws

model = ws.load(ws.robots.path("ant"))
sim = ws.Simulator(model, worlds=4, solver=ws.SAP(tolerance=1e-6), integrator=ws.Midpoint())
state = sim.state()
trajectory = sim.rollout(state, steps=3)
reveal_type(model)  # warpsim.model.model.Model
reveal_type(model.nq)  # int
reveal_type(sim)  # warpsim.simulator.Simulator
reveal_type(state)  # warpsim.state.state.State
reveal_type(sim.step(state, out=state))  # warpsim.state.state.State
reveal_type(trajectory)  # warpsim.state.trajectory.Trajectory
reveal_type(trajectory.final)  # warpsim.state.state.State | None
reveal_type(trajectory.poses())  # numpy.ndarray
reveal_type(sim.linearize(state))  # warpsim.differentiate.linearize.Linearization
reveal_type(sim.contacts(state))  # warpsim.contact.collision.ContactList
reveal_type(sim.ray_cast(state, [[0, 0, 1]], [[0, 0, -1]]))  # warpsim.contact.queries.RayHits
reveal_type(sim.parameters["body_mass"])  # array
reveal_type(ws.ModelBuilder("a").build())  # warpsim.model.model.Model
reveal_type(ws.solve_contact(ws.ContactProblem([[1]], [], [], [])))  # warpsim.solve.problem.ContactSolution
reveal_type(ws.solve_lcp([[1]], [1], [1], [-1]))  # warpsim.solve.lcp.lcp.LCPSolution
reveal_type(ws.check_gradients(sim))  # warpsim.differentiate.check.GradientCheck
reveal_type(ws.Trajectory.load("a"))  # warpsim.state.trajectory.Trajectory
"""
WRONG = """
import warpsim as ws
ws.no_such_name
ws.SAP(tolerence=1e-6)
ws.Simulator("ant.xml")
"""


def mypy(source: str, folder) -> str:
    file = folder / "snippet.py"
    file.write_text(source)
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(folder / "cache"), "--hide-error-context", str(file)]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, env=ENVIRONMENT | {"MYPYPATH": str(ROOT)}
    )
    return done.stdout + done.stderr


@pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="mypy is not installed")
def test_type_checkers_see_the_public_types(tmp_path):
    """mypy finds no error in a user's program, knows what every call returns, and finds a wrong name, option and argument."""
    found = re.findall(r'Revealed type is "(.*)"', mypy(SNIPPET, tmp_path))
    wanted = re.findall(r"# (.*)", SNIPPET)
    assert len(found) == len(wanted), found
    for got, want in zip(found, wanted, strict=True):
        assert want in got and got != "Any", (got, want)
    errors = [line for line in mypy(WRONG, tmp_path).splitlines() if "snippet.py" in line and "error" in line]
    assert [int(line.split(":")[1]) for line in errors] == [3, 4, 5], errors


def test_type_checkers_see_every_public_name():
    """The imports for type checkers are those of the names loaded on demand: none is missing, none is left over."""
    text = (ROOT / "warpsim" / "__init__.py").read_text()
    block = text.split("TYPE_CHECKING:")[1].split("\nelse:")[0]
    pairs = re.findall(r"from (\S+) import (\w+) as (\w+)", block)
    assert all(name == shown for _, name, shown in pairs)
    assert {name for _, name, _ in pairs} == {*ws.__all__, "torch", "jax", "envs"}
    for module, name, _ in pairs:
        if name not in ("torch", "jax", "envs"):
            assert getattr(ws, name) is getattr(__import__(module, fromlist=[name]), name)
    assert (ROOT / "warpsim" / "py.typed").is_file()


# Warp's own lines --------------------------------------------------------------------------------------------------------

STEP = """
import warpsim as ws
b = ws.ModelBuilder()
b.add_body("ball", mass=1, inertia=[1, 1, 1])
b.add_joint("ball", "free")
sim = ws.Simulator(b.build(), device="cpu")
sim.step(sim.state())
"""


def lines(program: str, folder, **environment) -> list[str]:
    done = python(program, folder, **environment)
    assert done.returncode == 0, done.stderr
    return (done.stdout + done.stderr).splitlines()


def test_warp_is_quiet_unless_asked(tmp_path):
    """A step prints nothing, also where there is no CUDA driver; Warp's banner and module lines come back by WARPSIM_VERBOSE=1, by a level that the user set, before
    or after, and by `wp.init()` before."""
    assert lines(STEP, tmp_path) == []
    assert lines("import warp as wp\n" + STEP, tmp_path) == []
    for start in (
        "import warp as wp, warpsim\nwp.config.log_level = wp.LOG_INFO\n",
        "import warp as wp\nwp.config.log_level = wp.LOG_DEBUG\n",
        "import warpsim as ws\nws.Simulator\nimport warp as wp\nwp.config.log_level = wp.LOG_INFO\n",
        "import warp as wp\nwp.init()\n",
    ):
        assert any("Module warpsim.kernels" in line for line in lines(start + STEP, tmp_path)), start
    assert any("initialized" in line for line in lines(STEP, tmp_path, WARPSIM_VERBOSE="1"))


# Docstrings --------------------------------------------------------------------------------------------------------------

FIRST = (ws.load, ws.Model, ws.Simulator, ws.Simulator.step, ws.Simulator.rollout, ws.State, ws.Trajectory)
FIRST += (ws.Simulator.jvp,)


@pytest.mark.parametrize("item", FIRST, ids=lambda item: item.__qualname__)
def test_examples_of_first_docstrings_run(item):
    """What a user looks up first has an example that runs as printed, and a line for each of its arguments."""
    (found,) = doctest.DocTestFinder(recurse=False).find(item, item.__qualname__, globs={"ws": ws, "np": np})
    assert found.examples and not doctest.DocTestRunner().run(found).failed
    if item not in (ws.Model, ws.State):
        listed = re.findall(r"^ *(\w+)(?: : |$)", found.docstring, flags=re.M)
        assert set(inspect.signature(item).parameters) - {"self"} <= set(listed)


# README ------------------------------------------------------------------------------------------------------------------


def blocks(file: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / file).read_text(), flags=re.S)


@pytest.mark.always
def test_first_programs_run_as_printed(tmp_path):
    """The Python blocks of README and of the quickstart run one after the other, as printed; those of another framework where it is installed."""
    program = ""
    for block in blocks("README.md") + blocks("docs/quickstart.md"):
        framework = re.search(r"ws\.(torch|jax)\.", block)
        if framework is None or importlib.util.find_spec(framework[1]):
            program += block + "\n"
    assert "ws.load(ws.robots.path(" in program and "tape.backward" in program and "sim.linearize" in program
    done = python(program, tmp_path)
    assert done.returncode == 0, done.stderr
    assert {"ant.html", "ant.usd", "ant.zarr"} <= {path.name for path in tmp_path.iterdir()}
    assert "verdict" in done.stdout and "WRONG" not in done.stdout


WITH_PROGRAMS = {
    "README.md",
    *(
        f"docs/{name}.md"
        for name in (
            "quickstart",
            "concepts",
            "migration",
            "constraints",
            "device_code",
            "gradients",
            "ltvi",
            "threads",
        )
    ),
}


@pytest.mark.parametrize("file", ["README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))])
def test_docs_blocks_are_python(file):
    """Every Python block of the documentation is read, and has statements that compile; pages that show programs have some."""
    found = blocks(file)
    assert len(found) == (ROOT / file).read_text().count("```py")
    assert found or file not in WITH_PROGRAMS, f"{file} shows no program any more"
    for block in found:
        text = doctest.script_from_examples(block) if ">>>" in block else block
        assert ast.parse(text, file).body, f"{file}: a block without a statement: {block!r}"
        compile(text, file, "exec")
