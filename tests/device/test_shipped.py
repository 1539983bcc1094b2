# SPDX-License-Identifier: Apache-2.0
"""Compiled kernels of a wheel: loaded where Warp would compile the same, else compiled, with one line that says why."""

import json
import logging
import os
import pathlib
import subprocess
import sys
import types

import pytest
import warp as wp

from warpsim.device import shipped
from warpsim.device.copies import copy
from warpsim.kernels import cpu_target
from warpsim.kernels.linalg import words
from warpsim.tools import kernel_objects

pytestmark = pytest.mark.skipif(not cpu_target.AHEAD, reason="objects are for Linux on x86-64-v3")
NAME = "warpsim.kernels_float32.linalg.words"
ROOT = pathlib.Path(__file__).parents[2]


def declared() -> wp.Module:
    """A small Warp module with its object lent."""
    kernel = next(item for item in vars(words).values() if hasattr(item, "taped") and not item.taped)
    return copy(kernel, wp.float32).module


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> pathlib.Path:
    """A folder of objects with one module in it."""
    declared()
    folder = tmp_path_factory.mktemp("objects")
    result = kernel_objects.compile_module(NAME)
    assert result.error is None
    kernel_objects.write_objects(folder, [result])
    return folder


@pytest.fixture
def objects(built, tmp_path, monkeypatch, caplog):
    """A copy of that folder where the package looks, with nothing loaded or said; `load()` gives (compiled, lines)."""
    folder = tmp_path / "objects"
    subprocess.run(["cp", "-r", str(built), str(folder)], check=True)
    monkeypatch.setattr(shipped, "FOLDER", folder)
    monkeypatch.setattr(shipped, "_said", False)
    shipped._index.cache_clear()
    module, usual, compiled = declared(), wp._src.context.Module._compile, []
    monkeypatch.setattr(
        wp._src.context.Module, "_compile", lambda self, *a, **k: compiled.append(1) or usual(self, *a, **k)
    )
    module.unload()

    def load():
        compiled.clear()
        caplog.clear()
        with caplog.at_level(logging.WARNING, "warpsim"):
            assert module.load("cpu", 1) is not None
        return bool(compiled), [record.getMessage() for record in caplog.records]

    (place,) = folder.iterdir()
    yield types.SimpleNamespace(module=module, load=load, folder=folder, place=place)
    shipped._index.cache_clear()
    module.unload()


def test_an_object_is_loaded_and_nothing_compiled(objects):
    """With the same Warp, target and hash the machine code comes from the package; a launch loads it as `load` does."""
    assert objects.load() == (False, [])
    path = pathlib.Path(objects.module.execs[None, 1].binary_path)
    assert path.parent == objects.place and path.name == "kernels_float32.linalg.words.o"
    objects.module.unload()
    wp.force_load("cpu", [objects.module], block_dim=32, max_workers=0)
    assert pathlib.Path(objects.module.execs[None, 1].binary_path) == path


def test_without_objects_nothing_is_said(objects, monkeypatch, tmp_path):
    """A clone has no folder of objects: modules compile as ever, in silence."""
    monkeypatch.setattr(shipped, "FOLDER", tmp_path / "none")
    assert objects.load() == (True, [])


def truncated(place):
    path = next(place.glob("*.o"))
    path.write_bytes(path.read_bytes()[:-100])


def flipped(place):
    path = next(place.glob("*.o"))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def no_meta(place):
    next(place.glob("*.meta")).unlink()


def other_meta(place):
    next(place.glob("*.meta")).write_text("{}")


def no_index(place):
    (place / shipped.INDEX).unlink()


def half_index(place):
    path = place / shipped.INDEX
    path.write_text(path.read_text()[:50])


def list_as_index(place):
    (place / shipped.INDEX).write_text("[1, 2]")


def deep_index(place):
    (place / shipped.INDEX).write_text("[" * 200_000)


def empty_index(place):
    (place / shipped.INDEX).write_text("{}")


def short_row(place):
    path = place / shipped.INDEX
    found = json.loads(path.read_text())
    path.write_text(json.dumps({NAME: found[NAME][:2]}))


def other_module(place):
    path = place / shipped.INDEX
    found = json.loads(path.read_text())
    path.write_text(json.dumps({"warpsim.kernels_float32.other": found[NAME]}))


def other_hash(place):
    path = place / shipped.INDEX
    found = json.loads(path.read_text())
    found[NAME][0] = "0" * 64
    path.write_text(json.dumps(found))


def not_machine_code(place):
    path = next(place.glob("*.o"))
    path.write_bytes(b"no machine code")
    index = json.loads((place / shipped.INDEX).read_text())
    index[NAME][1] = shipped.digest(path)
    (place / shipped.INDEX).write_text(json.dumps(index))


def other_warp(place):
    place.rename(place.with_name("1.18.0-Linux-x86_64-01234567"))


DAMAGES = {
    truncated: "words.o is damaged; install the wheel again",
    flipped: "words.o is damaged; install the wheel again",
    no_meta: "words.meta: No such file or directory; install the wheel again",
    other_meta: "words.meta is damaged; install the wheel again",
    no_index: "index.json is damaged",
    half_index: "index.json is damaged",
    list_as_index: "index.json is damaged",
    deep_index: "index.json is damaged (maximum recursion depth exceeded",
    empty_index: "index.json is damaged (not a hash and two sums for each module)",
    short_row: "index.json is damaged (not a hash and two sums for each module)",
    other_module: f"it has none for {NAME}",
    other_hash: "linalg.words or an option of `wp.config` is not that of the wheel",
    not_machine_code: "does not load kernels_float32.linalg.words.o",
    other_warp: "they are for 1.18.0-Linux-x86_64-01234567, this is " + wp.__version__,
}


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_what_cannot_be_used_is_compiled_and_said_once(objects, damage):
    """A damaged object, or one of another Warp, is never run: its module compiles, and one line names it and the reason."""
    damage(objects.place)
    compiled, lines = objects.load()
    assert compiled and len(lines) == 1 and DAMAGES[damage] in lines[0] and "\n" not in lines[0]
    objects.module.unload()
    assert objects.load() == (True, [])


def test_an_older_cpu_compiles_and_says_what_it_lacks(objects, monkeypatch):
    """Without a feature of x86-64-v3 no object is loaded."""
    monkeypatch.setattr(cpu_target, "AHEAD", False)
    monkeypatch.setattr(cpu_target, "MISSING", ["avx2", "fma"])
    compiled, (line,) = objects.load()
    assert compiled and "this CPU has no avx2, fma" in line


@pytest.mark.parametrize("chosen", [cpu_target.WARPS, None, "", "-march=native"])
def test_flags_of_a_user_are_kept(chosen, monkeypatch):
    """`wp.config.cpu_compiler_flags` is for all modules: where it is set, none has flags of its own, which Warp would prefer."""
    from warpsim.kernels import preamble

    assert wp.config.cpu_compiler_flags == cpu_target.WARPS
    monkeypatch.setattr(wp.config, "cpu_compiler_flags", chosen)
    name = "warpsim.kernels_float32.flags"
    module = preamble.warp_module(name)
    flags = module.resolve_options(wp.config)["cpu_compiler_flags"]
    wp._src.context.user_modules.pop(name)
    assert flags == {cpu_target.WARPS: cpu_target.flags(), None: "-march=native"}.get(chosen, chosen)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="permissions are of Unix")
def test_objects_that_may_not_be_read(objects, monkeypatch):
    """Modules compile, and the line has the system's reason."""

    def refused(self):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(type(objects.folder), "iterdir", refused)
    objects.place.rename(objects.place.with_name("other"))
    compiled, (line,) = objects.load()
    assert compiled and "Permission denied" in line


def test_features_of_a_cpu_are_read(monkeypatch, tmp_path):
    """What Linux tells of a CPU decides: all features, one missing, and no answer."""
    told = tmp_path / "cpuinfo"
    monkeypatch.setattr(cpu_target, "CPUINFO", told)
    assert cpu_target.missing_features() is None
    told.write_text("processor : 0\nflags\t\t: " + " ".join(cpu_target.FEATURES) + " avx512f\n")
    assert cpu_target.missing_features() == []
    told.write_text(told.read_text().replace(" avx2 ", " "))
    assert cpu_target.missing_features() == ["avx2"]
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    assert cpu_target.missing_features() is None


def test_flags_of_modules(monkeypatch):
    """Modules are compiled for one level of CPUs, with Warp's limit for inlining; where code of others cannot run, as Warp does."""
    assert cpu_target.flags() == f"{cpu_target.V3} {cpu_target.INLINING}"
    assert set(cpu_target.INLINING.split()) <= set(wp.config.cpu_compiler_flags.split())
    assert declared().options["cpu_compiler_flags"] == cpu_target.flags()
    monkeypatch.setattr(cpu_target, "AHEAD", False)
    assert cpu_target.flags() is None


def test_a_warp_without_these_internals_compiles(objects, monkeypatch):
    """Loading objects needs names inside Warp: where one is missing, modules load as Warp loads them."""
    monkeypatch.delattr(wp, "get_cpu_kernel_cache_key")
    compiled, (line,) = objects.load()
    assert compiled and f"this is Warp {wp.__version__} without that target" in line
    bare = types.SimpleNamespace(name=NAME)
    shipped.lend_object(bare)
    assert not hasattr(bare, "load")


def test_modules_of_users_are_left_alone():
    """A kernel that is not of this package keeps Warp's `load`."""

    @wp.kernel(module="somebody_else")
    def mine(x: wp.array(dtype=float)):
        x[wp.tid()] = 1.0

    assert copy(mine, wp.float32) is mine
    shipped.lend_object(mine.module)
    assert "load" not in vars(mine.module)


def test_two_builds_give_the_same_bytes(built, tmp_path):
    """What compiles here is what the wheel has: another process with an empty cache makes the same machine code."""
    program = (
        "import sys, pathlib\nfrom tests.device.test_shipped import declared, NAME\n"
        "from warpsim.tools import kernel_objects as k\ndeclared()\n"
        "k.write_objects(pathlib.Path(sys.argv[1]), [k.compile_module(NAME)])\n"
    )
    environment = dict(os.environ, WARP_CACHE_PATH=str(tmp_path / "cache"), PYTHONPATH=str(ROOT))
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "out")], check=True, env=environment)
    (one,), (other,) = built.iterdir(), (tmp_path / "out").iterdir()
    assert one.name == other.name
    assert {x.name: shipped.digest(x) for x in one.iterdir()} == {x.name: shipped.digest(x) for x in other.iterdir()}


def test_the_command_refuses_what_it_cannot_do(capsys, monkeypatch):
    """No module, no worker, and a CPU for which there are no objects: each is an error that says what to do."""
    for arguments, text in (
        (["--workers", "0"], "--workers is 0, it must be at least 1"),
        (["--out", "x"], "--out needs Linux on x86-64-v3 (AVX2, FMA), this CPU lacks avx2; leave it out"),
    ):
        monkeypatch.setattr(cpu_target, "AHEAD", False)
        monkeypatch.setattr(cpu_target, "MISSING", ["avx2"])
        with pytest.raises(SystemExit):
            kernel_objects.main(arguments)
        assert text in " ".join(capsys.readouterr().err.split())
