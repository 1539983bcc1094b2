# SPDX-License-Identifier: Apache-2.0
"""What `make test` runs, and that it compiles its kernels before: nothing is lost, a failure is said at once."""

import concurrent.futures.process
import pathlib
import subprocess
import sys
import types

import pytest
import warp as wp

from tests import selection, warm


def item(name: str, *marks: str, **params):
    """A collected test, as pytest has it."""
    found = types.SimpleNamespace(nodeid=f"tests/test_x.py::{name}{params or ''}")
    found.get_closest_marker = lambda mark: mark if mark in marks else None
    if params:
        found.nodeid, found.callspec = f"tests/test_x.py::{name}[{params}]", types.SimpleNamespace(params=params)
    return found


def test_a_pair_runs_in_one_type():
    """Of a function in both types float64 alone, whatever stands for a type; CI runs all of one marked `both_types`; none that is slow."""
    items = [item("test_a", dtype=dtype, k=k) for k in (1, 2) for dtype in selection.TYPES]
    items += [item("test_b", S=real) for real in (wp.float32, wp.float64)]
    items += [item("test_c", "both_types", dtype=dtype) for dtype in selection.TYPES]
    items += [item("test_d", dtype="float32"), item("test_e"), item("test_f", "slow"), item("test_g", k=1)]
    items += [item("test_h", "always", dtype=dtype) for dtype in selection.TYPES]
    for ci, left in ((False, (0, 2, 4, 6, 10)), (True, (0, 2, 4, 10))):
        found = selection.quick(items, ci=ci)
        assert found[1] == [items[k] for k in left]
        assert found[0] == [x for k, x in enumerate(items) if k not in left]  # none is lost


def test_cases_share_the_time_of_their_function():
    """The quickest first, up to the limit of all; the quickest alone up to another. What is marked runs."""
    seconds = {"f.py::a[1]": 3.0, "f.py::a[2]": 0.2, "f.py::a[3]": 0.09, "f.py::a[4]": 0.02, "f.py::b": 0.5}
    seconds |= {"f.py::c": 0.7, "f.py::d[1]": 0.4, "f.py::d[2]": 0.5}
    limits = selection.Limits(together=0.3, only=0.6, compiling=1.0)
    assert selection.slow_cases(seconds, limits=limits) == {"f.py::a[1]", "f.py::a[2]", "f.py::c", "f.py::d[2]"}
    items = [item("test_a", *marks) for marks in ((), ("always",), ("both_types",))]
    assert selection.quick(items, {items[0].nodeid}) == (items[1:], items[:1])


def test_functions_share_the_compiling_of_what_they_launch():
    """Each module's seconds over its functions: the costliest is left out, and what then falls to the others counts again."""
    launched = {"f.py::a[1]": {"x", "y"}, "f.py::a[2]": {"x"}, "f.py::b": {"x"}, "f.py::c": {"z"}, "f.py::d": {"w"}}
    seconds = dict.fromkeys(["f.py::a[1]", "f.py::a[2]", "f.py::b", "f.py::c"], 0.01)
    limits = selection.Limits(together=0.3, only=0.6, compiling=1.0)
    left = lambda **compiling: selection.slow_cases(seconds, launched, compiling, limits)  # noqa: E731
    assert left(x=1.8, y=0.0, z=0.9, w=9.0) == set()  # d is fixed, and x has two functions
    assert left(x=1.8, y=0.9, z=1.1) == {"f.py::a[1]", "f.py::a[2]", "f.py::b", "f.py::c"}  # without a, x is b's alone
    assert selection.slow_cases(seconds, launched | {"f.py::d": {"x", "y"}}, dict(x=9.0, y=9.0)) == set()


def test_no_file_is_left_out_whole():
    """By CI: of a file whose cases all take long the quickest runs."""
    seconds = {"f.py::a": 9.0, "f.py::b": 8.0, "g.py::a": 9.0, "g.py::b": 0.1}
    assert selection.slow_cases(seconds, limits=selection.CI) == {"f.py::a", "g.py::a"}
    assert selection.slow_cases(seconds, limits=selection.TEST) == {"f.py::a", "f.py::b", "g.py::a"}


def test_lists_of_both():
    """What CI compiles for float32 lets it run what `make test` leaves out; all that `make test` runs CI runs too. A module
    that a test file declares itself counts, and is in no list."""
    x32, x64, y, own = *(f"{selection.SHARED}{name}" for name in ("x32", "x64", "y")), "f_own"
    cases = {"f.py::a": (0.01, [x32]), "f.py::b[32]": (0.01, [x32]), "f.py::b[64]": (0.01, [x64, own])}
    cases["f.py::c"] = (9.0, [y])
    fixed = {"f.py::b[32]", "f.py::b[64]"}
    slow, modules = selection.make_lists(cases, fixed, {"f.py::b[32]"}, {x32: 9.0, x64: 9.0, y: 0.0})
    assert slow == "f.py::a ci\nf.py::c\n" and modules == f"{x32} ci\n{x64}\n"
    cases = {"f.py::a": (0.01, [own]), "f.py::b": (0.01, [x64])}
    assert selection.make_lists(cases, set(), set(), {own: 9.0}) == ("f.py::a\n", f"{x64}\n")


def test_every_launch_of_a_module_counts():
    """Whichever test launches a module first in a process, each test that launches it is found, and what its programs do."""
    program = "import warpsim as ws; sim = ws.Simulator(ws.load(ws.robots.path('cartpole')), device='cpu'); sim.step(sim.state())"
    for run in (exec, exec, lambda text: subprocess.run([sys.executable, "-c", text], check=True)):
        with selection.launches() as names:
            run(program)
        assert f"{selection.SHARED}float32.integrate.fused" in names


def test_the_list_names_tests():
    """Every function in tests/slow.txt is in its file."""
    root = selection.LIST.parents[1]
    texts = {}
    for name in selection.read_list(selection.LIST):
        file, _, function = name.partition("[")[0].partition("::")
        text = texts.setdefault(file, (root / file).read_text(encoding="utf-8"))
        assert f"def {function.rpartition('::')[2]}(" in text, f"{name}: write the list anew"


def test_a_parameter_of_both_types_is_of_none():
    """A test that compares the types runs."""
    items = [
        item("test_a", one="float32", other="float64"),
        item("test_a", one="float32"),
        item("test_a", one="float64"),
    ]
    assert selection.quick(items)[0] == [items[0], items[2]]


def test_a_full_disk_is_said_before_anything_is_compiled(tmp_path):
    """With the free space, the folder and what to do."""
    with pytest.raises(SystemExit, match=r"need 1e\+12 GB there; free some, or set WARP_CACHE_PATH"):
        warm.check_disk(tmp_path, least=1e12)
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit, match=r"cannot write to the kernel cache.*WARP_CACHE_PATH"):
        warm.check_disk(tmp_path / "file" / "cache")


def test_the_first_module_that_does_not_compile_ends_the_stage(monkeypatch):
    """With its name, the compiler's message and the free space; others do not follow."""
    from warpsim.tools import kernel_objects

    asked = []

    def compile_all(names, workers, done):
        for name in names:
            asked.append(name)
            done(types.SimpleNamespace(name=name, fresh=True, error="no space left on device"))

    monkeypatch.setattr(kernel_objects, "cpu_modules", lambda: ["large", "small"])
    monkeypatch.setattr(kernel_objects, "compile_all", compile_all)
    with pytest.raises(SystemExit, match=r"large does not compile \([\d.]+ GB free\): no space left"):
        warm.warm(None)
    assert asked == ["large"]


def test_a_compiler_that_was_ended_is_said(monkeypatch):
    """Of a full disk LLVM ends the process, as the system does for want of memory."""
    from warpsim.tools import kernel_objects

    def compile_all(names, workers, done):
        raise concurrent.futures.process.BrokenProcessPool

    monkeypatch.setattr(kernel_objects, "cpu_modules", lambda: {})
    monkeypatch.setattr(kernel_objects, "compile_all", compile_all)
    with pytest.raises(SystemExit, match=r"was ended: memory .* or disk \([\d.]+ GB free\) ran out"):
        warm.warm(None)


def test_names_of_no_module_are_said(monkeypatch, capsys):
    """A list that is older than the code hinders nobody: the rest is compiled, the largest first."""
    from warpsim.tools import kernel_objects

    asked = []
    modules = {"warpsim.large": None, "warpsim.small": None, "warpsim.unlisted": None}
    monkeypatch.setattr(kernel_objects, "cpu_modules", lambda: modules)
    monkeypatch.setattr(kernel_objects, "compile_all", lambda names, workers, done: asked.extend(names))
    monkeypatch.setattr(wp._src.context, "user_modules", modules)
    assert warm.warm(["warpsim.gone", "warpsim.small", "warpsim.large"]) == 0
    assert (
        asked == ["warpsim.large", "warpsim.small"]
        and "1 names of no module, such as warpsim.gone" in capsys.readouterr().out
    )


def test_a_cleared_cache_is_compiled_again(monkeypatch, tmp_path, capsys):
    """A second call has nothing to do while the kernels are there; `wp.clear_kernel_cache` leaves the stamp and takes them."""
    made = tmp_path / "wp_small_1234567"
    monkeypatch.setattr(wp.config, "kernel_cache_dir", str(tmp_path))
    monkeypatch.setattr(warm, "check_disk", lambda folder: None)
    monkeypatch.setattr(warm, "warm", lambda names: made.mkdir() or 1)
    told = []
    for _ in range(3):
        warm.main([])
        told.append(capsys.readouterr().out.partition(" in ")[0].strip())
        if len(told) == 2:
            made.rmdir()
    assert told == ["kernels: 1 modules compiled", "kernels: compiled before", "kernels: 1 modules compiled"]


def test_the_key_follows_the_device_code(monkeypatch, tmp_path):
    """It is the same for the same sources, and another for others."""
    before = warm.cache_key()
    assert before == warm.cache_key() and before.startswith(f"warp-{wp.__version__}-")
    for place in warm.SOURCES:
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).symlink_to(pathlib.Path(warm.ROOT / place))
    monkeypatch.setattr(warm, "ROOT", tmp_path)
    monkeypatch.setattr(warm, "SOURCES", warm.SOURCES[1:])
    assert warm.cache_key() != before


def test_the_lists_are_sorted_and_have_no_name_twice():
    """As `pytest --lists` writes them; CI leaves out less, and compiles more."""
    for path in (selection.LIST, selection.MODULES):
        lines = path.read_text(encoding="utf-8").splitlines()
        assert list(selection.read_list(path)) == sorted(selection.read_list(path)) and len(lines) == len(set(lines))
    assert all(name.startswith("warpsim.kernels_") for name in selection.listed_modules(ci=True))
    assert selection.listed_cases(ci=True) < selection.listed_cases()
    assert set(selection.listed_modules()) < set(selection.listed_modules(ci=True))
