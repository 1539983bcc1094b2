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
    asked = types.SimpleNamespace(names=[], forms=[], failing=False)

    def compile_module(name, form, known):
        asked.names.append(name)
        asked.forms.append(form)
        error = "no" if asked.failing and name.endswith("rnea") else None
        return kernel_modules.Compiled(name, 1, form, 0.0, 0, error), f"digest of {name}"

    pool = lambda workers, mp_context: concurrent.futures.ThreadPoolExecutor(1)  # noqa: E731
    monkeypatch.setattr(kernel_modules, "_modules", lambda: dict.fromkeys(NAMES))
    monkeypatch.setattr(kernel_modules, "compile_module", compile_module)
    monkeypatch.setattr(concurrent.futures, "ProcessPoolExecutor", pool)
    monkeypatch.setenv("WARP_CACHE_PATH", str(tmp_path))
    asked.stamp = lambda: set(json.loads(next(tmp_path.glob("*.json")).read_text()))
    return asked


def test_modules_of_one_scalar_type(compiled):
    """`--dtype` asks for its modules alone, and keeps what is known of the others."""
    assert kernel_modules.main([]) == 0
    assert compiled.names == NAMES and compiled.forms == ["ptx", "ptx", "cubin", "cubin"]
    compiled.names.clear()
    assert kernel_modules.main(["--dtype", "float32", "--machine-code", "none"]) == 0
    assert compiled.names == NAMES[:2]
    assert compiled.stamp() == {f"digest of {name}" for name in NAMES}


def test_copies_left_out(compiled, monkeypatch):
    """`--without` leaves the copies of a name to others, and keeps what is known of them."""
    monkeypatch.setattr(kernel_modules, "_modules", lambda: dict.fromkeys([*NAMES, SMALL]))
    assert kernel_modules.main([]) == 0
    compiled.names.clear()
    assert kernel_modules.main(["--without", "_8"]) == 0
    assert compiled.names == NAMES and compiled.stamp() == {f"digest of {name}" for name in [*NAMES, SMALL]}


def test_modules_that_fail_are_counted_and_tried_again(compiled):
    compiled.failing = True
    assert kernel_modules.main(["--dtype", "float64"]) == 1
    assert compiled.stamp() == {f"digest of {NAMES[2]}"}


@pytest.mark.parametrize("contact", ["lagged", "convex"])
def test_steps_are_measured_on_any_device(device, capsys, contact):
    """The start states come from the device itself: a machine may have no compiler for another."""
    arguments = ["--robot", "ant", "--worlds", "64", "--steps", "2", "--contact", contact, "--device", device]
    assert measure.main(arguments) == 0
    first, second = capsys.readouterr().out.splitlines()[:2]
    assert f"ant, {contact}, 64 worlds" in first and "M steps/s" in first
    assert second.startswith("iterations") and second.endswith("worlds with a flag 0")
