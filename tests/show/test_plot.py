# SPDX-License-Identifier: Apache-2.0
"""Plots and pictures: the right things are in the right places, without a display."""

import numpy as np
import pytest

from scenes.trajectories import rollout, small
from warpsim.files.shapes import triangles
from warpsim.model.builder import ModelBuilder
from warpsim.model.geom_types import volume_and_inertia
from warpsim.show import plot
from warpsim.show.render import Camera, render_image, render_png
from warpsim.state.trajectory import Trajectory


def scene(kind, size, mesh=None, floor=True):
    """A model with one red geom 1 m above the floor."""
    b = ModelBuilder(kind)
    if floor:
        b.add_geom("plane", name="floor")
    body = b.add_body("thing", pose=[0, 0, 1], mass=1, inertia=[1, 1, 1])
    b.add_joint(body, "free")
    b.add_geom(kind, size, body=body, rgba=[1, 0.05, 0.05, 1], density=0, mesh=mesh)
    return b.build()


def red(image):
    """Pixels of the geom."""
    return image[..., 0] > 1.5 * image[..., 2]


SHAPES = {
    "sphere": ([0.3], None),
    "capsule": ([0.15, 0.3], None),
    "box": ([0.3, 0.2, 0.4], None),
    "cylinder": ([0.2, 0.35], None),
    "ellipsoid": ([0.3, 0.2, 0.4], None),
}


@pytest.mark.parametrize("kind", SHAPES)
def test_silhouettes_have_the_right_area(kind):
    """Seen from far along x, a shape covers the area of its projection: analytic, within pixels; the mesh agrees."""
    size, _ = SHAPES[kind]
    a, b, c = (*size, 0, 0)[:3]
    area = {
        "sphere": np.pi * a * a,
        "capsule": np.pi * a * a + 4 * a * b,
        "box": 4 * b * c,
        "cylinder": 4 * a * b,
        "ellipsoid": np.pi * b * c,
    }[kind]
    camera = Camera((60.0, 0.0, 1.0), (0.0, 0.0, 1.0), fov=2.0)
    model = scene(kind, size, floor=False)
    image = render_image(model, model.q0, camera, 240, 240, samples=1)
    metres = 2 * 60 * np.tan(np.radians(1.0)) / 240
    assert red(image).sum() * metres**2 == pytest.approx(area, rel=0.04)
    mesh = scene("mesh", [0, 0, 0], mesh=triangles(model, 0), floor=False)
    same = render_image(mesh, mesh.q0, camera, 240, 240, samples=1)
    assert (red(image) != red(same)).sum() < 0.05 * red(image).sum()


def test_shadow_falls_away_from_the_sun():
    """The floor is darker where the sphere is between it and the sun, and nowhere else nearby."""
    model = scene("sphere", [0.3])
    camera = Camera((0.01, 0.0, 12.0), (0.0, 0.0, 0.0), fov=30.0)
    image = render_image(model, model.q0, camera, 200, 200, samples=1).astype(float).mean(axis=-1)
    from warpsim.show.render import SUN

    def at(x, y):
        frame = camera.frame()
        p = np.array([x, y, 0.0]) - camera.eye
        scale = 100 / np.tan(np.radians(15)) / (p @ frame[2])
        return image[int(100 - scale * (p @ frame[1])), int(100 + scale * (p @ frame[0]))]

    foot = -SUN[:2] / SUN[2]
    assert at(*foot) < 0.75 * at(*(3 * foot))


@pytest.mark.parametrize("kind", SHAPES)
def test_meshes_are_closed_and_face_outward(kind):
    """The volume enclosed by a geom's triangles is the shape's, less what 24 sides cut off."""
    size, _ = SHAPES[kind]
    model = scene(kind, size)
    vertices, faces = triangles(model, 1)
    a, b, c = (vertices[faces[:, k]] for k in range(3))
    volume = np.sum(a * np.cross(b, c)) / 6
    exact, _ = volume_and_inertia(kind, (*size, 0, 0)[:3])
    assert exact * 0.95 < volume < exact * 1.0001


def test_pictures_of_trajectories(tmp_path):
    """PNG files of the size asked for, for one world and for several, seen by an automatic camera."""
    from matplotlib.image import imread

    t = rollout(*small(), worlds=3, steps=4)
    t.render(tmp_path / "a.png", width=160, height=90)
    t.render(tmp_path / "b.png", worlds=[2], frame=0, width=160, height=90)
    for name in ("a.png", "b.png"):
        image = imread(tmp_path / name)
        assert image.shape[:2] == (90, 160) and image[..., :3].std() > 0.03
    with pytest.raises(ValueError, match="frame=9"):
        t.render(tmp_path / "c.png", frame=9)
    with pytest.raises(ValueError, match="q has shape"):
        render_image(t.model, np.zeros(3))
    with pytest.raises(ValueError, match="does not exist"):
        render_png(t.model, t.model.q0, tmp_path / "no" / "a.png")


def test_figure_has_every_panel(tmp_path, monkeypatch):
    """One figure with all panels, saved as PNG and PDF; pyplot is not touched."""
    from matplotlib import pyplot

    monkeypatch.setattr(plot, "PICTURE_SIZE", (120, 48))
    t = rollout(*small(), worlds=4, steps=30)
    figure = t.plot(tmp_path / "p.png", tolerance=1e-6)
    labels = {axes.get_ylabel() for axes in figure.axes}
    assert {"height of the base [m]", "energy [J]", "contacts per world", "worst momentum error"} <= labels
    assert (tmp_path / "p.png").stat().st_size > 20_000
    t.plot(tmp_path / "p.pdf", worlds=1)
    assert pyplot.get_fignums() == []
    with pytest.raises(ValueError, match="does not exist"):
        t.plot(tmp_path / "no" / "p.png")


def test_a_rollout_without_diagnostics_is_plotted(monkeypatch):
    """Panels say what was not recorded; a single frame is fine too."""
    monkeypatch.setattr(plot, "PICTURE_SIZE", (120, 48))
    t = rollout(*small(), worlds=2, steps=3)
    for frames in (4, 1):
        figure = Trajectory(t.model, t.q[:frames], t.v[:frames], t.time[:frames]).plot()
        told = [text.get_text() for axes in figure.axes for text in axes.texts]
        assert any("not recorded" in text for text in told)


def test_an_arm_shows_its_joints_and_worlds_are_counted():
    """Where the base stands still: positions and velocities of the joints by name. The title counts the worlds in the picture, and one world is one."""
    b = ModelBuilder("arm")
    upper = b.add_body("upper", mass=1, inertia=[1, 1, 1])
    b.add_joint(upper, "hinge", axis=[0, 1, 0], name="shoulder")
    b.add_geom("capsule", [0.05, 0.2], body=upper, density=0)
    b.add_joint(b.add_body("fore", parent=upper, pose=[0.4, 0, 0], mass=1, inertia=[1, 1, 1]), "slide", name="elbow")
    model, rows = b.build(), 5
    for worlds, picture, title in (
        (12, "last frame, 9 of 12 worlds", "12 worlds"),
        (1, "last frame, 1 of 1 world", "1 world,"),
    ):
        q = np.arange(rows * worlds * 2.0).reshape(rows, worlds, 2) / 100
        trajectory = Trajectory(model, q, 2 * q, np.tile(np.arange(rows)[:, None] / 10.0, (1, worlds)))
        figure = trajectory.plot()
        axes = {x.get_ylabel(): x for x in figure.axes}
        assert picture in [x.get_title() for x in figure.axes] and title in figure.get_suptitle()
        for label, values in (
            ("positions of joints [rad] or [m]", q),
            ("velocities of joints [rad/s] or [m/s]", 2 * q),
        ):
            lines = axes[label].get_lines()
            assert [line.get_label() for line in lines] == ["shoulder", "elbow"]
            for line, column in zip(lines, values[:, 0].T, strict=True):
                np.testing.assert_allclose(line.get_ydata(), column)
        assert "height of the base [m]" not in axes


def test_an_arm_turns_about_a_point_of_its_first_body():
    """The origin of a body that a hinge beside it joins to the world moves; it is an arm, whose joints are drawn."""
    b = ModelBuilder()
    upper = b.add_body("upper", mass=1, inertia=[1, 1, 1])
    b.add_joint(upper, "hinge", axis=[0, 1, 0], anchor=[0.3, 0, 0], name="shoulder")
    q = np.linspace(0, 1, 6).reshape(6, 1, 1)
    figure = Trajectory(b.build(), q, q, np.arange(6.0)[:, None]).plot()
    assert "positions of joints [rad] or [m]" in [x.get_ylabel() for x in figure.axes]
