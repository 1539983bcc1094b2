# SPDX-License-Identifier: Apache-2.0
"""The programs that compile kernels for a GPU and time them on one (`warpsim/tools/kernel_modules.py`, `benchmarks/gpu/measure.py`), where there is none."""

import concurrent.futures
import json
import types

import pytest

from benchmarks.gpu import measure
from warpsim.tools import kernel_modules

SMALL = f"{kernel_modules.PREFIX}float32_8.tree.crba"
NAMES = [f"{kernel_modules.PREFIX}{dtype}.tree.{name}" for dtype in ("float32", "float64") for name in ("crba", "rnea")]


@pytest.fixture
def compiled(monkeypatch, tmp_path):
    """The names of modules that `kernel_modules.main` asks to be compiled; those named `rnea` fail if `failing` is set."""
    asked = types.SimpleNamespace(names=[], forms=[], hashes={}, failing=False)

    def compile_module(name, form):
        asked.names.append(name)
        asked.forms.append(form)
        error = "no" if asked.failing and name.endswith("rnea") else None
        return kernel_modules.Compiled(name, 1, form, 0.0, 0, error)

    pool = lambda workers, mp_context: concurrent.futures.ThreadPoolExecutor(1)  # noqa: E731
    monkeypatch.setattr(kernel_modules, "_modules", lambda: dict.fromkeys(NAMES))
    monkeypatch.setattr(kernel_modules, "compile_module", compile_module)
    monkeypatch.setattr(kernel_modules, "module_hash", lambda name: asked.hashes.get(name, f"hash of {name}"))
    monkeypatch.setattr(concurrent.futures, "ProcessPoolExecutor", pool)
    monkeypatch.setenv("WARP_CACHE_PATH", str(tmp_path))
    asked.passed = lambda: set(json.loads((tmp_path / "cuda_passed.json").read_text())["passed"])
    return asked


def keys(names, form="ptx"):
    return {f"{form} {name.removeprefix(kernel_modules.PREFIX)}" for name in names}


def test_modules_of_one_scalar_type(compiled):
    """`--dtype` asks for its modules alone, and keeps what is known of the others; what passed is not compiled again."""
    both = keys(NAMES[:2]) | keys(NAMES[2:], "cubin")
    assert kernel_modules.main([]) == 0
    assert compiled.names == NAMES and compiled.forms == ["ptx", "ptx", "cubin", "cubin"] and compiled.passed() == both
    compiled.names.clear()
    assert kernel_modules.main(["--dtype", "float32", "--machine-code", "none"]) == 0
    assert compiled.names == [] and compiled.passed() == both
    assert kernel_modules.main(["--machine-code", "none"]) == 0
    assert compiled.names == NAMES[2:] and compiled.passed() == both | keys(NAMES)


def test_copies_left_out(compiled, monkeypatch):
    """`--without` leaves the copies of a name to others, and keeps what is known of them."""
    monkeypatch.setattr(kernel_modules, "_modules", lambda: dict.fromkeys([*NAMES, SMALL]))
    assert kernel_modules.main(["--machine-code", "none", "--without", "_8"]) == 0
    assert compiled.names == NAMES and compiled.passed() == keys(NAMES)
    assert kernel_modules.main(["--machine-code", "none"]) == 0
    assert compiled.names == [*NAMES, SMALL]
    assert kernel_modules.main(["--machine-code", "none", "--without", "_8"]) == 0
    assert compiled.passed() == keys([*NAMES, SMALL])


@pytest.mark.parametrize("change", ["module", "warp", "rules", "not built"])
def test_what_changes_is_compiled_again(compiled, monkeypatch, tmp_path, change):
    """Another hash of a module, another Warp, another check, and a module that Warp cannot build."""
    path, options = tmp_path / "passed.json", ["--dtype", "float32", "--passed", str(tmp_path / "passed.json")]
    assert kernel_modules.main(options) == 0
    compiled.names.clear()
    if change == "module":
        compiled.hashes[NAMES[1]] = "another"
    elif change == "not built":
        monkeypatch.setattr(kernel_modules, "module_hash", lambda name: 1 // 0)
    else:
        path.write_text(json.dumps(json.loads(path.read_text()) | {change: "another"}))
    assert kernel_modules.main(options) == 0
    assert compiled.names == (NAMES[1:2] if change == "module" else NAMES[:2])


def test_modules_that_fail_are_counted_and_tried_again(compiled):
    compiled.failing = True
    assert kernel_modules.main(["--dtype", "float64"]) == 1
    assert compiled.passed() == keys(NAMES[2:3], "cubin")
    compiled.names.clear()
    assert kernel_modules.main(["--dtype", "float64"]) == 1
    assert compiled.names == NAMES[3:]


@pytest.mark.parametrize("contact", ["lagged", "convex"])
def test_steps_are_measured_on_any_device(device, capsys, contact):
    """The start states come from the device itself: a machine may have no compiler for another."""
    arguments = ["--robot", "ant", "--worlds", "64", "--steps", "2", "--contact", contact, "--device", device]
    assert measure.main(arguments) == 0
    first, second = capsys.readouterr().out.splitlines()[:2]
    assert f"ant, {contact}, 64 worlds" in first and "M steps/s" in first
    assert second.startswith("iterations") and second.endswith("worlds with a flag 0")
