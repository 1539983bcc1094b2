# SPDX-License-Identifier: Apache-2.0
"""`load(..., isolate=True)`: the same model, and an error where the process that reads the file ends."""

import dataclasses

import numpy as np
import pytest

from warpsim.base.errors import ModelError
from warpsim.files import isolated
from warpsim.files.load import load

TETRA = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"
TEXT = """<mujoco><asset><mesh name="t" file="../t.obj"/><hfield name="h" nrow="4" ncol="4" size="1 1 1 1"/></asset>
<worldbody><geom type="hfield" hfield="h"/><body name="a"><joint name="j" range="-1 1"/><geom type="mesh" mesh="t"/></body>
</worldbody><actuator><motor name="m" joint="j"/></actuator><keyframe><key name="k" qpos="0.5"/></keyframe></mujoco>"""


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # MuJoCo's log
    (tmp_path / "in").mkdir()
    (tmp_path / "t.obj").write_text(TETRA)
    (tmp_path / "in" / "m.xml").write_text(TEXT)
    return tmp_path / "in" / "m.xml"


def test_the_model_is_the_same(path):
    """Every field, of a model with a mesh, a height field and a keyframe, with options; errors and warnings come through."""
    options = {"root": path.parent.parent, "unsupported": "report"}
    ours, theirs = load(path, isolate=True, **options), load(path, **options)
    for field in dataclasses.fields(ours):
        a, b = getattr(ours, field.name), getattr(theirs, field.name)
        if isinstance(b, np.ndarray):
            np.testing.assert_array_equal(a, b, err_msg=field.name)
            assert a.dtype == b.dtype, field.name
        elif field.name == "report":
            assert a == b
    assert ours.keyframes["k"].q == theirs.keyframes["k"].q
    with pytest.raises(ModelError, match=r"m.xml.*outside"):
        load(path, isolate=True)
    path.write_text(
        TEXT.replace("../t.obj", "../none.obj").replace(
            "<worldbody>", '<option o_friction="1 2 0 0 0"><flag override="enable"/></option><worldbody>'
        )
    )
    (path.parent.parent / "none.obj").write_text(TETRA)
    with pytest.warns(UserWarning, match="override"):
        load(path, isolate=True, **options)


@pytest.mark.always
def test_bounds(path, monkeypatch):
    """Too much memory, or time, for the child: one error that names the file; this process lives."""
    field = '<mujoco><asset><hfield name="h" nrow="4000" ncol="4000" size="1 1 1 1"/></asset></mujoco>'
    path.write_text(field)
    with monkeypatch.context() as patched:
        patched.setattr(isolated, "ISOLATED_BYTES", 2**25)
        with pytest.raises(ModelError, match=r"m.xml.*(ended|GiB|memory|alloc)"):
            load(path, isolate=True)
    with pytest.raises(ModelError, match=r"m.xml.*(ended|GiB|memory|alloc)"):
        load(path, isolate={"bytes": 2**25})
    bodies = '<body><joint/><geom size=".1"/></body>' * 6000
    path.write_text(f"<mujoco><worldbody>{bodies}</worldbody></mujoco>")
    monkeypatch.setattr(isolated, "ISOLATED_SECONDS", 1.0)
    with pytest.raises(ModelError, match=r"m.xml: damaged or too large.*ended by SIG"):
        load(path, isolate=True)


@pytest.mark.parametrize("bounds", [3, "yes", {"seconds": -1}, {"bytes": 0}, {"minutes": 1}, {"seconds": "x"}, None])
def test_bounds_that_are_none(path, bounds):
    with pytest.raises(ModelError, match="isolate"):
        load(path, isolate=bounds)


def test_a_crash_is_an_error(path, monkeypatch):
    """The process that reads ends by a signal of its own, as after a segmentation fault."""
    monkeypatch.setattr(isolated, "CODE", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    with pytest.raises(ModelError, match=r"m.xml: damaged or too large.*SIGSEGV"):
        load(path, isolate=True)


def test_only_files_are_isolated(path):
    import mujoco

    with pytest.raises(ModelError, match="for files"):
        load(mujoco.MjModel.from_xml_string("<mujoco/>"), isolate=True)
    with pytest.raises(ModelError, match="isolate=True takes"):
        load(path, isolate=True, decompose={"seed": object()})
