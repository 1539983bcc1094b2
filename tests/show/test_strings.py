# SPDX-License-Identifier: Apache-2.0
"""Spatial tendons on pages: their pieces are as long as MuJoCo's tendons, move, and are in the page."""

import mujoco
import numpy as np
import pytest

import warpsim as ws
from tests.show.test_html import recording
from warpsim.show import strings
from warpsim.show.strings import Strings, pieces_of

pytest.importorskip("viser")

ROPED = """<mujoco><worldbody><geom name="post" type="cylinder" size=".1 .3" pos=".5 0 0" euler="90 0 0"/>
<site name="top" pos="0 0 .4"/><body pos="1 0 0"><joint name="slide" type="slide" axis="0 0 1"/><geom size=".05" mass="1"/><site name="end"/></body>
</worldbody><tendon><spatial name="straight" damping="1"><site site="top"/><site site="end"/></spatial>
<spatial name="round" damping="1"><site site="top"/><geom geom="post"/><site site="end"/></spatial></tendon></mujoco>"""


def test_pieces_are_as_long_as_the_tendon(tmp_path, monkeypatch):
    """Straight to rounding, round a post to the chords of its arc; each world about its origin; of too many, those of the first worlds are drawn."""
    spec = mujoco.MjModel.from_xml_string(ROPED)
    model = ws.load(spec)
    sim = ws.Simulator(model, worlds=2, dtype="float64", device="cpu")
    t = sim.rollout(sim.state(q=[[-0.2], [0.1]]), steps=20)
    origins = np.array([[0.0, 0.0, 0.0], [0.0, 3.0, 0.0]])
    rows, pieces = np.array([3, 17]), pieces_of(model)
    assert len(pieces) == 1 + 14
    data = mujoco.MjData(spec)
    few = Strings(t, rows, [0, 1], origins)
    for row in rows:
        points = np.array([next(frames)[pieces] for frames in few.frames])
        length = np.linalg.norm(points[..., 1, :] - points[..., 0, :], axis=-1)
        for world in range(2):
            data.qpos[:] = t.q.numpy()[row, world]
            mujoco.mj_forward(spec, data)
            np.testing.assert_allclose(length[world, 0], data.ten_length[0], rtol=1e-12)
            np.testing.assert_allclose(length[world, 1:].sum(), data.ten_length[1], rtol=2e-3)
    t.to_html(tmp_path / "t.html")
    messages, _ = recording((tmp_path / "t.html").read_text(encoding="utf-8"))
    assert any(m.get("name") == "/tendons" for _, m in messages["messages"])
    monkeypatch.setattr(strings, "MOST_PIECES", 15)
    t.to_html(tmp_path / "t.html")
    assert "tendons of the first 1 worlds" in (tmp_path / "t.html").read_text(encoding="utf-8")


def test_a_model_without_tendons_has_none():
    """No pieces, nothing on the page."""
    b = ws.ModelBuilder("ball")
    b.add_geom("sphere", [0.1], body=b.add_body("ball", pose=[0, 0, 1]))
    assert pieces_of(b.build()).shape == (0, 2)
