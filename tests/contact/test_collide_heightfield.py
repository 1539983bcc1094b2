# SPDX-License-Identifier: Apache-2.0
"""Height fields: what rests, rolls and falls on them, against planes and energy."""

import mujoco
import numpy as np
import pytest

import warpsim
from warpsim.model import ModelBuilder
from warpsim.simulator import Simulator

HALF = 0.5**0.5
CUBE = np.array([(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], float)
FACES = [(0, 1, 2), (1, 2, 3), (4, 5, 6), (5, 6, 7), (0, 1, 4), (2, 3, 6)]
MASS, INERTIA = 3.0, 0.06
BODIES = {
    "sphere": ("sphere", (0.2, 0, 0), 0.2, (1, 0, 0, 0)),
    "capsule": ("capsule", (0.1, 0.2), 0.1, (HALF, 0, HALF, 0)),
    "ellipsoid": ("ellipsoid", (0.2, 0.2, 0.1), 0.1, (1, 0, 0, 0)),
    "standing": ("cylinder", (0.1, 0.2), 0.2, (1, 0, 0, 0)),
    "lying": ("cylinder", (0.1, 0.2), 0.1, (HALF, 0, HALF, 0)),
    "box": ("box", (0.2, 0.2, 0.1), 0.1, (1, 0, 0, 0)),
    "mesh": ("mesh", (0.2, 0.1, 0.1), 0.1, (1, 0, 0, 0)),
}
every_body = pytest.mark.parametrize("body", BODIES)


def simulator(data, body, z, dt, dtype="float64"):
    kind, size, _, turn = BODIES[body]
    b = ModelBuilder("field", timestep=dt)
    b.add_geom("hfield", hfield=((2, 2, 1, 0.2), data))
    index = b.add_body("body", pose=[0.01, 0.02, z, *turn], mass=MASS, inertia=(INERTIA, INERTIA, INERTIA))
    b.add_joint(index, "free")
    mesh = {"mesh": (CUBE * size, FACES)} if kind == "mesh" else {}
    b.add_geom(kind, size, body=index, friction=0.8, **mesh)
    return Simulator(b.build(), worlds=1, dt=dt, dtype=dtype)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@every_body
def test_flat_field_is_a_plane(body, dtype):
    """A body put on a flat field stays where it is: at its height, without drift."""
    height = 0.1
    sim = simulator(np.full((21, 21), height), body, height + BODIES[body][2], 0.01, dtype)
    state = sim.state()
    for i in range(300):
        sim.step(state, out=state)
        if i == 100:
            settled = state.q.numpy().copy()
    assert np.abs(state.q.numpy() - settled).max() < 1e-5
    assert abs(state.q.numpy()[0, 2] - height - BODIES[body][2]) < 1e-3


@pytest.mark.parametrize("terrain", ["bowl", "bumps"])
@every_body
def test_energy_does_not_grow_on_a_rough_field(body, terrain):
    """Contact with any shape of ground takes energy and gives none, and nothing falls through."""
    x = np.linspace(-2, 2, 21)
    data = 0.05 + 0.1 * (x[:, None] ** 2 + x**2)
    if terrain == "bumps":
        data = 0.2 + 0.15 * np.sin(2.5 * x)[:, None] * np.cos(2 * x)
    sim = simulator(data, body, 0.8, 0.005)
    state, first = sim.state(), None
    for _ in range(400):
        sim.step(state, out=state)
        q, v = state.q.numpy()[0], state.v.numpy()[0]
        energy = 0.5 * MASS * v[:3] @ v[:3] + MASS * 9.81 * q[2] + 0.5 * INERTIA * v[3:] @ v[3:]
        first = energy if first is None else first
        assert energy < first + 1e-2
        if np.abs(q[:2]).max() < 1.9:
            assert q[2] > 0.05


def test_contact_does_not_depend_on_the_way_out():
    """A sphere deep in a steep field has the contact of a prism beside those that it is in, whichever way it moves."""
    rows = np.random.default_rng(0).random((8, 8))
    text = " ".join(map(str, rows.ravel()))
    model = mujoco.MjModel.from_xml_string(
        f'<mujoco><option timestep="0.01"/><asset><hfield name="h" nrow="8" ncol="8" size="1 1 1 .5" elevation="{text}"/></asset>'
        '<worldbody><geom type="hfield" hfield="h"/><body><freejoint/><geom size=".05" mass="1"/></body></worldbody></mujoco>'
    )
    sim = Simulator(warpsim.load(model), 2, device="cpu", dtype="float64")
    v = np.zeros((2, 6))
    v[0, :3] = (1.16726, 0.18529, 0.54948)
    v[1] = -v[0]
    state = sim.state([-0.48492, -0.78571, 0.40782, 1, 0, 0, 0], v)
    assert sim.contacts(state).count.tolist() == [1, 1]
