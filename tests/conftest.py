# SPDX-License-Identifier: Apache-2.0
"""Fixtures shared by all tests: devices, robot files, quiet logs."""

import gc
import os
import pathlib
import signal
import time

import mujoco
import numpy as np
import pytest
import warp as wp

from tests import selection

wp.config.log_level = wp.LOG_WARNING
wp.init()

DEVICES = tuple(str(device) for device in wp.get_devices())


@pytest.fixture(scope="session", params=DEVICES)
def device(request) -> str:
    """Every device of this machine: the CPU and, where present, CUDA."""
    return request.param


@pytest.fixture(scope="session")
def assets():
    """`assets(name)`: path of a robot's MJCF file from the `gymnasium` package."""
    gymnasium = pytest.importorskip("gymnasium")
    folder = pathlib.Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets"

    def path(name: str) -> str:
        return str(folder / f"{name}.xml")

    return path


@pytest.fixture(scope="session", autouse=True)
def quiet_mujoco():
    """MuJoCo's warnings about deprecated attributes of the files go nowhere instead of to MUJOCO_LOG.TXT."""
    mujoco.set_mju_user_warning(lambda message: None)
    yield
    mujoco.set_mju_user_warning(None)


@pytest.fixture(autouse=True)
def plain_output():
    """What is printed, here and by programs that a test starts, is as into a file of 80 columns, whatever shell or service started pytest."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "80")
        for name in ("LINES", "FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
            patch.delenv(name, raising=False)
        yield


@pytest.fixture
def from_terminal():
    """Signals act here, and in what this test starts, as in a terminal's foreground, whoever started pytest: `nohup` and jobs in the background ignore some."""
    usual = {"SIGINT": signal.default_int_handler, "SIGTERM": signal.SIG_DFL, "SIGHUP": signal.SIG_DFL}
    usual = {getattr(signal, name): handler for name, handler in usual.items() if hasattr(signal, name)}
    before = {number: signal.signal(number, handler) for number, handler in usual.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


MEASURED: dict[str, tuple[float, float]] = {}
FOUND = pytest.StashKey[dict]()


def pytest_addoption(parser):
    parser.addoption("--quick", action="store_true", help="what make test runs (tests/selection.py)")
    parser.addoption("--ci", action="store_true", help="what continuous integration runs (tests/selection.py)")
    parser.addoption("--lists", action="store_true", help="write the lists of tests/selection.py anew")
    parser.addoption("--measured", action="store_true", help="print the numbers that tests measure beside their limits")
    parser.addoption(
        "--bounds", action="store_true", help="check every index in every kernel; one outside ends the process"
    )


def pytest_configure(config):
    if config.getoption("--lists") and not hasattr(config, "workerinput"):
        part = config.getoption("keyword") or config.getoption("markexpr") or config.getoption("collectonly")
        if part or config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
            raise pytest.UsageError("--lists writes lists of all tests: leave out -k, -m and paths")
    if config.getoption("--bounds"):
        wp.config.mode = "debug"
        wp.config.kernel_cache_dir = str(pathlib.Path(wp.config.kernel_cache_dir) / "bounds")
        os.environ["OMP_NUM_THREADS"] = "1"  # Warp's unoptimised code crashes in two threads at once
        pathlib.Path(wp.config.kernel_cache_dir).mkdir(parents=True, exist_ok=True)


@pytest.hookimpl(trylast=True)  # after -k and -m
def pytest_collection_modifyitems(config, items):
    ci, lists = config.getoption("--ci"), config.getoption("--lists")
    if not (ci or lists or config.getoption("--quick")):
        return
    if lists:
        marked = [item.nodeid for item in items if any(map(item.get_closest_marker, ("always", "both_types")))]
        only_ci = {item.nodeid for item in selection.quick(items)[1]}
        found_of(config).update(fixed=marked, only_ci=sorted(only_ci), cases={})
    listed = set() if lists else selection.listed_cases(ci)
    items[:], left = selection.quick(items, listed, ci or lists)
    config.hook.pytest_deselected(items=left)
    found_of(config)["left"] = len(left)


def pytest_collection_finish(session):
    """Let the garbage collector skip what lives to the end: tests, modules, syntax trees of kernels."""
    gc.collect()
    gc.freeze()


def found_of(config) -> dict:
    """What this process tells the one that prints the summary: a worker of pytest-xdist another one, else itself."""
    return getattr(config, "workeroutput", config.stash.setdefault(FOUND, {}))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    if not item.config.getoption("--lists"):
        yield
        return
    start = time.perf_counter()
    with selection.launches() as names:
        yield
    found_of(item.config)["cases"][item.nodeid] = (time.perf_counter() - start, sorted(names))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error):
    """A worker of pytest-xdist has ended."""
    found, told = node.config.stash.setdefault(FOUND, {}), getattr(node, "workeroutput", {})
    cases = found.get("cases", {}) | told.get("cases", {})
    found.update(told, cases=cases)  # the rest is the same in every worker


def pytest_terminal_summary(terminalreporter, exitstatus, config):
    found = config.stash.get(FOUND, {})
    if count := found.get("left", 0):
        terminalreporter.write_line(f"{count} tests left to make test-all")
    if config.getoption("--lists") and exitstatus == pytest.ExitCode.OK:
        compiling = selection.compiling_seconds(pathlib.Path(wp.config.kernel_cache_dir))
        texts = selection.make_lists(found["cases"], set(found["fixed"]), set(found["only_ci"]), compiling)
        for path, text in zip((selection.LIST, selection.MODULES), texts, strict=True):
            path.write_text(text, encoding="utf-8")
            terminalreporter.write_line(f"{path}: {len(text.splitlines())} lines")
    if config.getoption("--measured") and MEASURED:
        terminalreporter.section("measured <= limit")
        for what, (value, limit) in MEASURED.items():
            terminalreporter.write_line(f"{what:<88} {value:11.3e} {limit:11.3e}{'' if value <= limit else '  FAIL'}")


@pytest.fixture(scope="session")
def within():
    """`within(what, value, limit)`: asserts value <= limit and keeps the number for `pytest --measured`."""

    def check(what: str, value, limit) -> None:
        value, limit = float(value), float(limit)
        MEASURED[what] = (value, limit)
        assert value <= limit, f"{what}: {value:.4g} is above {limit:.4g}"

    return check


@pytest.fixture
def rng() -> np.random.Generator:
    """The same random numbers in every run."""
    return np.random.default_rng(20240917)


os.environ.setdefault("TQDM_DISABLE", "1")
