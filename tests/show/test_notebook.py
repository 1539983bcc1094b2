# SPDX-License-Identifier: Apache-2.0
"""What a notebook shows of a trajectory is a small piece of static HTML, whatever the trajectory holds."""

import dataclasses
import html.parser

import numpy as np
import pytest

import warpsim as ws


class Page(html.parser.HTMLParser):
    """Tags, text and attributes of a piece of HTML."""

    def __init__(self, text: str):
        super().__init__()
        self.tags, self.attributes, self.text, self.open = [], [], "", []
        self.feed(text)
        assert not self.open, self.open

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes
        if tag != "img":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data + " "


@pytest.fixture(scope="module")
def trajectory(device):
    sim = ws.Simulator(ws.load(ws.robots.path("cartpole")), worlds=12, device=device)
    return sim.rollout(sim.state(), steps=3)


def test_table_and_picture(trajectory):
    """Model, sizes, certificate and flags are there, with one picture inside the page, and nothing that runs or loads."""
    text = trajectory._repr_html_()
    page = Page(text)
    for word in ("cartpole", "12", "3", "certificate", "none"):
        assert word in page.text, word
    assert set(page.tags) == {"div", "table", "caption", "tr", "th", "td", "img"} and len(text) < 200_000
    sources = [value for name, value in page.attributes if name in ("src", "href")]
    assert len(sources) == 1 and sources[0].startswith("data:image/png;base64,")


def test_names_are_text(trajectory):
    """A model's name with markup is shown as it is, and makes no element."""
    model = dataclasses.replace(trajectory.model, name='<script>alert("x")</script>&amp;')
    page = Page(dataclasses.replace(trajectory, model=model)._repr_html_())
    assert "script" not in page.tags and "<script>" in page.text


def test_flags_and_broken_worlds(trajectory):
    """Flags are counted by name; rows that are not finite are left out of the picture, and without any there is none."""
    flags = np.zeros((3, 12), np.int32)
    flags[-1, :2] = ws.NONFINITE | ws.NOT_CONVERGED
    q = trajectory.q.numpy().copy()
    q[-1, :2] = np.nan
    broken = dataclasses.replace(trajectory, q=q, diagnostics={"flags": flags})
    page = Page(broken._repr_html_())
    assert "NONFINITE in 2, NOT_CONVERGED in 2" in page.text and "img" in page.tags
    q[-1] = np.inf
    assert "img" not in Page(broken._repr_html_()).tags


def test_stores_starts_and_empty_models(trajectory, tmp_path, device):
    """A stored trajectory, one of no step, and one of a model without geoms have a table."""
    trajectory.save(tmp_path / "a.zarr")
    assert "cartpole" in Page(ws.Trajectory.load(tmp_path / "a.zarr")._repr_html_()).text
    builder = ws.ModelBuilder("bare")
    builder.add_joint(builder.add_body("a", mass=1, inertia=[1, 1, 1]), "free")
    sim = ws.Simulator(builder.build(), device=device)
    start = ws.Trajectory(sim.model, np.zeros((1, 1, 7)), np.zeros((1, 1, 6)), np.zeros((1, 1)))
    page = Page(start._repr_html_())
    assert "0" in page.text
    page = Page(sim.rollout(sim.state(), steps=1)._repr_html_())
    assert "bare" in page.text and "img" not in page.tags
