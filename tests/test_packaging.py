# SPDX-License-Identifier: Apache-2.0
"""The package as users get it: what a bare import loads, what the wheel holds, and that it runs without the checkout."""

import ast
import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile

import pytest
import warp as wp

import warpsim as ws
from warpsim.device.copies import SCALARS
from warpsim.kernels import cpu_target
from warpsim.tools import kernel_modules

ROOT = pathlib.Path(__file__).parents[1]
HEAVY = ("torch", "jax", "cupy", "ray", "viser", "matplotlib")

ROLLOUT = """
import pathlib, sys
import warpsim as ws
import warpsim.kernels.tree.passes
assert pathlib.Path(ws.__file__).is_relative_to(sys.prefix), ws.__file__
assert pathlib.Path(warpsim.kernels.tree.passes.__file__).is_relative_to(sys.prefix), warpsim.kernels.tree.passes.__file__
sim = ws.Simulator(ws.load(sys.argv[1]), worlds=2, device="cpu")
trajectory = sim.rollout(sim.state(), steps=10)
assert [ws.load(ws.robots.path(name)).name for name in ws.robots.names()] == ws.robots.names()
print("steps", trajectory.steps, "time", round(float(trajectory.time.numpy()[-1, 0]), 9))
"""

# A step, a gradient, another solver and an environment: what they compute, and how often something was compiled.
STARTS = """
import hashlib, sys
import gymnasium
import warp as wp
compiled, usual = [], wp._src.context.Module._compile
wp._src.context.Module._compile = lambda module, *a, **k: compiled.append(module.name) or usual(module, *a, **k)
import warpsim as ws
def tell(what, *arrays):
    print(what, hashlib.sha256(b"".join(x.tobytes() for x in arrays)).hexdigest(), len(compiled))
model = ws.load(ws.robots.path("hopper"))
sim = ws.Simulator(model, 2, device="cpu", requires_grad=True)
state = sim.step(sim.state())
tell("step", state.q.numpy(), state.v.numpy())
start = sim.state()
with wp.Tape() as tape:
    end = sim.step(start)
tape.backward(grads={end.q: wp.ones_like(end.q)})
tell("gradient", start.q.grad.numpy(), start.v.grad.numpy())
lcp = ws.Simulator(model, 2, device="cpu", solver=ws.LCP())
state = lcp.step(lcp.state())
tell("LCP", state.q.numpy(), state.v.numpy())
gymnasium.register_envs(ws.envs)
env = gymnasium.make_vec("warpsim/Hopper-v0", num_envs=2, vectorization_mode="vector_entry_point", device="cpu")
env.reset(seed=1)
tell("environment", env.step(0.0 * env.action_space.sample())[0])
"""
# Objects of all modules that a program has loaded.
OBJECTS = """
import pathlib
from warpsim.tools import kernel_objects
names = kernel_objects.loaded_names()
kernel_objects.write_objects(pathlib.Path(sys.argv[1]), [kernel_objects.compile_module(name) for name in names])
"""


def test_import_loads_nothing_heavy():
    """`import warpsim`, and a look at every public name, load no framework, viewer or plotting package."""
    program = "import sys, warpsim\nfor name in warpsim.__all__: getattr(warpsim, name)\n"
    program += f"print(*sorted(set({HEAVY!r}) & set(sys.modules)))"
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.splitlines()[-1].split() == []


def test_what_is_not_needed_is_not_imported():
    """`import warpsim` and `warpsim --help` start no Warp; to read an MJCF file takes neither SSL nor SciPy."""
    program = """
import sys, warpsim
assert not {"warp", "numpy", "mujoco"} & set(sys.modules)
from warpsim.tools.cli import main
try:
    main(["--help"])
except SystemExit:
    assert not {"warp", "mujoco", "zarr"} & set(sys.modules)
before = set(sys.modules)  # what the command brought: typeguard imports asyncio
import warpsim.simulator
warpsim.load(warpsim.robots.path("ant"))
assert not {"urllib.request", "xml.sax", "scipy", "zarr", "tqdm", "clarabel"} & (set(sys.modules) - before)
"""
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True)


def test_public_names_resolve():
    """Every name in `__all__` exists and is listed by `dir`, and an unknown one raises `AttributeError`."""
    for name in ws.__all__:
        assert getattr(ws, name) is not None and name in dir(ws)
    with pytest.raises(AttributeError, match="no_such_name"):
        ws.no_such_name  # noqa: B018


@pytest.mark.parametrize("real", SCALARS)
def test_cuda_check_covers_every_kernel_file(real):
    """The CUDA compile check finds every kernel of `kernels/` in some copy of each scalar type.

    No function has a `wp.static` that waits for its code: the hash of a module would depend on what was built before.
    """
    modules = kernel_modules.build_all([SCALARS[real]]).values()
    copied = {name: module for name, module in wp._src.context.user_modules.items() if name.startswith("warpsim.")}
    assert [name for name, module in copied.items() if module.has_unresolved_static_expressions] == []
    found = [kernel.func for module in modules for kernel in module.kernels.values()]
    found = {(re.sub(r"(_float\d\d)\w*", r"\1", function.__module__), function.__name__) for function in found}
    found = {
        (place, name) for place, name in found if f"_{real}" in place
    }  # a copy may bring in some of the other type
    expected = set()
    for path in (ROOT / "kernels").rglob("*.py"):
        place = ".".join(path.relative_to(ROOT / "kernels").with_suffix("").parts)
        for node in ast.parse(path.read_text()).body:
            if any("kernel" in ast.unparse(decorator) for decorator in getattr(node, "decorator_list", ())):
                expected.add((f"warpsim.kernels_{real}.{place}", node.name))
    assert len(expected) > 150 and expected == found


@pytest.mark.parametrize("name", ["warpsim.warpsim.errors", "warpsim.tests", "warpsim.benchmarks", "warpsim.papers"])
def test_nothing_beside_the_package_is_in_it(name):
    """The folders beside the package are no part of it, and none of its modules has a second name."""
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module(name)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> pathlib.Path:
    """The wheel, built from the checkout into a temporary folder."""
    if importlib.util.find_spec("hatchling") is None:
        pytest.skip("hatchling is not installed")
    return build_wheel(tmp_path_factory.mktemp("wheel"))


def build_wheel(folder: pathlib.Path, objects: str = "") -> pathlib.Path:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    environment = dict(os.environ, WARPSIM_OBJECTS=objects)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    (path,) = folder.glob("*.whl")
    return path


def install(wheel: pathlib.Path, place: pathlib.Path) -> pathlib.Path:
    """The Python of a fresh environment with the wheel in it.

    The dependencies are borrowed from the environment of the tests, which keeps tests off the network.
    """
    venv.create(place, with_pip=False)
    python = place / ("Scripts" if os.name == "nt" else "bin") / "python"
    own = pathlib.Path(sysconfig.get_path("purelib", vars={"base": str(place), "platbase": str(place)}))
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--quiet", str(wheel)]
    subprocess.run([*command, "--disable-pip-version-check"], check=True)
    (own / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def test_wheel_holds_the_package_and_nothing_else(wheel):
    """Host and device code, licence and entry point are in; tests, caches and other top-level folders are not."""
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert tops == {"warpsim", f"warpsim-{ws.__version__}.dist-info"}
    code = ("warpsim/__init__.py", "warpsim/kernels/solve/sap/sap.py", "warpsim/py.typed", "warpsim/robots/ant.xml")
    for part in (*code, "licenses/LICENSE", "entry_points.txt"):
        assert any(name.endswith(part) for name in names), part
    assert not [name for name in names if "__pycache__" in name or name.endswith(".pyc")]
    sources = {f"warpsim/{path.relative_to(ROOT)}" for path in (ROOT / "kernels").rglob("*.py")}
    sources |= {str(path.relative_to(ROOT)) for path in (ROOT / "warpsim").rglob("*.py")}
    assert sources <= set(names)


def test_source_distribution_builds_the_wheel(wheel, tmp_path):
    """It holds what the wheel is built from in less than 4 MB, and the wheel built from it has the same files, bit for bit."""
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(tmp_path)]
    subprocess.run([*command, "-t", "sdist"], cwd=ROOT, check=True, capture_output=True)
    (path,) = tmp_path.glob("*.tar.gz")
    assert path.name == f"warpsim-{ws.__version__}.tar.gz" and path.stat().st_size < 4e6
    with tarfile.open(path) as archive:
        archive.extractall(tmp_path, filter="data")
    folder = tmp_path / f"warpsim-{ws.__version__}"
    tops = {"warpsim", "README.md", "LICENSE", "CHANGELOG.md", "SECURITY.md", "CITATION.cff", "hatch_build.py"}
    assert {item.name for item in folder.iterdir()} == tops | {"PKG-INFO", "pyproject.toml", ".gitignore"}
    subprocess.run([*command, "-t", "wheel"], cwd=folder, check=True, capture_output=True)
    own, expected = zipfile.ZipFile(next(tmp_path.glob("*.whl"))), zipfile.ZipFile(wheel)
    assert {name: own.read(name) for name in own.namelist()} == {
        name: expected.read(name) for name in expected.namelist()
    }


@pytest.mark.always
def test_installed_wheel_runs_without_the_checkout(wheel, assets, tmp_path):
    """A fresh environment with the wheel in it, far from the checkout, rolls out the ant and has the command."""
    python = install(wheel, tmp_path / "venv")
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [str(python), "-c", ROLLOUT, assets("ant")], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "steps 10 time 0.1" in done.stdout
    script = python.parent / "warpsim"
    done = subprocess.run([str(script), "devices", "--json"], cwd=tmp_path, env=environment, capture_output=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.always
@pytest.mark.skipif(not cpu_target.AHEAD, reason="objects are for Linux on x86-64-v3")
def test_wheel_with_compiled_kernels_compiles_nothing(wheel, tmp_path):
    """From the installed wheel a step, a gradient, LCP and an environment compile nothing, write nothing to an empty cache
    that cannot be written, and compute the bits of the checkout, also with one thread and in two processes at once.

    The wheel has the objects of the modules that this program loads; `make wheel` makes one with all.
    """
    objects, cache = tmp_path / "objects", tmp_path / "cache" / wp.__version__
    command = [sys.executable, "-c", STARTS + OBJECTS, str(objects)]
    checkout = dict(os.environ, PYTHONPATH=os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    done = subprocess.run(command, cwd=tmp_path, env=checkout, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    expected = [line.split()[:2] for line in done.stdout.splitlines()]
    assert [what for what, _ in expected] == ["step", "gradient", "LCP", "environment"]

    path = build_wheel(tmp_path / "wheel", str(objects))
    assert path.name == f"warpsim-{ws.__version__}-py3-none-manylinux_2_28_x86_64.whl"
    inside = zipfile.ZipFile(path)
    (metadata,) = (name for name in inside.namelist() if name.endswith("/METADATA"))
    assert f"Requires-Dist: warp-lang=={'.'.join(wp.__version__.split('.')[:2])}.*" in inside.read(metadata).decode()
    more = set(inside.namelist()) - set(zipfile.ZipFile(wheel).namelist())
    assert all(name.startswith("warpsim/objects/") for name in more) and len(more) > 20

    python = install(path, tmp_path / "venv")
    cache.mkdir(parents=True)
    cache.chmod(0o555)
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environment |= {"WARP_CACHE_PATH": str(cache.parent), "OMP_NUM_THREADS": "1"}
    runs = [
        subprocess.Popen(
            [str(python), "-c", STARTS],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for run in runs:
        out, error = run.communicate()
        assert run.returncode == 0, error
        assert [line.split() for line in out.splitlines()] == [[*line, "0"] for line in expected]
        assert "compiles kernels here" not in error
    assert list(cache.parent.iterdir()) == [cache] and not list(cache.iterdir())


def test_every_file_says_its_licence():
    """An SPDX line first, or below the interpreter's."""
    folders = ("warpsim", "kernels", "tests", "benchmarks", "scenes", "examples", "papers", "docs")
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*.py") if ".venv" not in path.parts]
    assert len(paths) > 700
    for path in [*paths, ROOT / "Makefile", ROOT / ".ci/run"]:
        head = path.read_text(encoding="utf-8").split("\n", 2)[:2]
        assert "# SPDX-License-Identifier: Apache-2.0" in head, path
