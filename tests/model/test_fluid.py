# SPDX-License-Identifier: Apache-2.0
"""Forces of the medium: MuJoCo's inertia-box and ellipsoid models, its swimmer, terminal velocities, gradients by differences."""

import mujoco
import numpy as np
import pytest

import warpsim as ws
from warpsim.model.medium import added_mass, ellipsoid_row
from warpsim.model.model import GeomType

ELLIPSOIDS = """<mujoco><option density="1000" viscosity="0.7" wind="0.3 -0.2 0.5" timestep="0.002"/><worldbody>
<body pos="0 0 1"><freejoint/><geom type="ellipsoid" size=".1 .2 .05" fluidshape="ellipsoid" pos=".05 0 0" euler="10 20 30"/>
 <body pos=".2 0 0"><joint type="ball"/><geom type="capsule" fromto="0 0 0 .3 .1 0" size=".04" fluidshape="ellipsoid" fluidcoef="0.6 0.2 1.2 0.8 0.9"/>
  <geom type="box" size=".05 .06 .07" pos=".1 .1 .1" fluidshape="ellipsoid"/>
 <body pos=".3 .1 0"><joint axis="0 1 0"/><geom type="cylinder" size=".03 .1" euler="30 0 10"/><geom size=".04" pos=".1 0 0"/></body></body></body>
<body pos="1 0 1"><joint type="slide" axis="1 0 0"/><joint axis="0 0 1"/><geom type="sphere" size=".1" fluidshape="ellipsoid"/></body>
</worldbody></mujoco>"""


@pytest.fixture(scope="module")
def scenes(assets):
    return {
        "swimmer": mujoco.MjModel.from_xml_path(assets("swimmer")),
        "ellipsoids": mujoco.MjModel.from_xml_string(ELLIPSOIDS),
    }


@pytest.mark.parametrize("name", ["swimmer", "ellipsoids"])
@pytest.mark.filterwarnings("error")
def test_forces_are_those_of_mujoco(scenes, name):
    """At 1,000 random states, to rounding; the file loads without a warning, and its report says that the medium is used."""
    compiled, worlds = scenes[name], 1000
    model = ws.load(compiled)
    assert {line.status for line in model.report if "density" in line.feature or "fluid" in line.feature} == {"used"}
    sim = ws.Simulator(model, worlds=worlds, dtype="float64", solver=ws.NoContact(), device="cpu")
    rng = np.random.default_rng(0)
    q = model.displace(np.tile(model.q0, (worlds, 1)), rng.normal(size=(worlds, model.nv)))
    v, data = 3 * rng.normal(size=(worlds, model.nv)), mujoco.MjData(compiled)
    sim.step(sim.state(q, v))
    found, expected = sim._step.fluid.pushed.numpy(), np.zeros((worlds, model.nv))
    for w in range(worlds):
        data.qpos, data.qvel = q[w], v[w]
        mujoco.mj_forward(compiled, data)
        expected[w] = data.qfrc_fluid
    scale = np.abs(expected).max(axis=1)
    assert (np.abs(found - expected).max(axis=1) / scale).max() < 1e-10


def wave(t):
    """A travelling wave of control for the two joints of the swimmer."""
    return 0.3 * np.stack([np.sin(3 * t), np.sin(3 * t - 1.5)], axis=-1)


def test_the_swimmer_swims_as_in_mujoco(scenes):
    """Under a travelling wave: every step's change of velocity is MuJoCo's, and so is the way in 5 s (1 %)."""
    compiled = scenes["swimmer"]
    compiled.opt.integrator = mujoco.mjtIntegrator.mjINT_EULER
    model, data = ws.load(compiled), mujoco.MjData(compiled)
    sim = ws.Simulator(model, dtype="float64", device="cpu")
    steps = round(5 / sim.dt)
    controls = wave(np.arange(steps) * sim.dt)
    state, worst, counted = sim.state(), 0.0, 0
    for k in range(steps):
        data.qpos, data.qvel, data.ctrl = state.q.numpy()[0], state.v.numpy()[0], controls[k]
        before, before_q = data.qvel.copy(), data.qpos.copy()
        mujoco.mj_step(compiled, data)
        state = sim.step(state, controls[k : k + 1])
        angles = np.abs(before_q[3:])
        if (angles < model.joint_range[-2:, 1] - 0.3).all():  # far from the stops
            change = np.abs(data.qvel - before).max()
            worst = max(worst, np.abs(state.v.numpy()[0] - data.qvel).max() / max(change, 1e-6))
            counted += 1
    assert worst < 1e-8 and counted > 100
    mujoco.mj_resetData(compiled, data)
    for k in range(steps):
        data.ctrl = controls[k]
        mujoco.mj_step(compiled, data)
    way, expected = np.linalg.norm(state.q.numpy()[0, :2]), np.linalg.norm(data.qpos[:2])
    assert expected > 0.2 and abs(way - expected) < 0.01 * expected


def ball(viscosity=0.0, density=0.0, fluid=None, wind=(0, 0, 0)):
    builder = ws.ModelBuilder(density=density, viscosity=viscosity, wind=wind)
    body = builder.add_body(pose=[0, 0, 1])
    builder.add_joint(body, "free")
    builder.add_geom("sphere", [0.05], body=body, density=1200.0, fluid=fluid)
    return builder.build()


def test_terminal_velocities():
    """Stokes' law, 6 π η r v = m g, where the medium is viscous; with ρ alone ½ ρ π r² C v² = m g with the blunt drag C ×2 = 1; and with the wind."""
    mass, r, g = 1200.0 * 4 / 3 * np.pi * 0.05**3, 0.05, 9.81
    for model, expected in (
        (ball(viscosity=50.0, fluid=True), mass * g / (6 * np.pi * 50.0 * r)),
        (ball(density=100.0, fluid=True), np.sqrt(mass * g / (0.5 * 100.0 * np.pi * r**2))),
    ):
        sim = ws.Simulator(model, dtype="float64", dt=0.001, solver=ws.NoContact(), device="cpu")
        v = sim.rollout(sim.state(), steps=4000).final.v.numpy()[0]
        np.testing.assert_allclose(v[2], -expected, rtol=1e-3)
    blown = ball(viscosity=5.0, wind=(3, 0, 0))
    sim = ws.Simulator(blown, dtype="float64", dt=0.001, solver=ws.NoContact(), device="cpu")
    assert abs(sim.rollout(sim.state(), steps=6000).final.v.numpy()[0, 0] - 3) < 0.01


def test_added_mass_of_potential_flow():
    """Half the displaced volume for a sphere; MuJoCo's quadrature within 1e-6; nothing turns a sphere."""
    mass, inertia = added_mass([0.1, 0.1, 0.1])
    np.testing.assert_allclose(mass, 0.5 * 4 / 3 * np.pi * 1e-3, rtol=1e-9)
    assert not inertia.any()
    compiled = mujoco.MjModel.from_xml_string(ELLIPSOIDS)
    for g in np.flatnonzero(compiled.geom_fluid[:, 0] > 0):
        row = ellipsoid_row(GeomType(compiled.geom_type[g]), compiled.geom_size[g], compiled.geom_fluid[g, 1:6], "")
        assert np.abs(row[6:12] - compiled.geom_fluid[g, 6:]).max() < 1e-6 * np.abs(row[6:12]).max()


@pytest.mark.parametrize(
    "integrator",
    [ws.SymplecticEuler(), ws.ExplicitEuler(), ws.ImplicitEuler(), ws.Midpoint(), ws.Variational()],
    ids=str,
)
def test_gradients(scenes, integrator):
    """By state, control, density, viscosity, wind and COM, after 1, 10 and 40 steps, against differences."""
    model = ws.load(scenes["ellipsoids"])
    sim = ws.Simulator(
        model, dtype="float64", solver=ws.NoContact(), integrator=integrator, requires_grad=True, device="cpu"
    )
    rng = np.random.default_rng(2)
    start = sim.state(model.displace(model.q0, 0.3 * rng.normal(size=model.nv)), rng.normal(size=model.nv))
    horizons = (1, 10, 40) if isinstance(integrator, ws.SymplecticEuler) else (1, 10)
    parameters = ("fluid_density", "fluid_viscosity", "wind", "body_com")
    check = ws.check_gradients(sim, start, horizons=horizons, parameters=parameters, entries=4)
    assert check.ok and check.worst() < 1e-5, str(check)
    with pytest.raises(ValueError, match="no closed form"):
        ws.Simulator(model, device="cpu").linearize(ws.Simulator(model, device="cpu").state())


def test_gradients_at_rest_are_finite():
    """At rest the laws are quadratic in the velocity: what is left is the slope of the viscous part."""
    for fluid in (None, True):
        sim = ws.Simulator(
            ball(viscosity=1.0, density=10.0, fluid=fluid),
            dtype="float64",
            solver=ws.NoContact(),
            requires_grad=True,
            device="cpu",
        )
        J = sim.linearize(sim.state())
        A = J.A.numpy()[0]
        assert np.isfinite(A).all()
        mass = sim.model.masses[0]
        width = 0.1 if fluid else np.sqrt(6 * 0.4) * 0.05  # of the sphere, or of the box of its inertia
        slope = 1 - sim.dt * 3 * np.pi * width / mass
        np.testing.assert_allclose(A[6, 6], slope, rtol=1e-12)


def test_parameters_and_worlds():
    """Density, viscosity and wind differ from world to world, in both dtypes and over threads; a world that is alone has the same bits."""
    model = ball(viscosity=1.0, density=10.0, fluid=True)
    for dtype in ("float32", "float64"):
        sim = ws.Simulator(model, worlds=64, dtype=dtype, threads=2, device="cpu")
        sim.parameters["fluid_density"] = np.linspace(0, 50, 64)
        sim.parameters["wind"] = np.stack([np.linspace(-1, 1, 64), np.zeros(64), np.zeros(64)], axis=1)
        final = sim.rollout(sim.state(), steps=20).final
        one = ws.Simulator(model, dtype=dtype, device="cpu")
        one.parameters["fluid_density"], one.parameters["wind"] = (
            np.linspace(0, 50, 64)[40],
            [np.linspace(-1, 1, 64)[40], 0, 0],
        )
        np.testing.assert_array_equal(one.rollout(one.state(), steps=20).final.v.numpy()[0], final.v.numpy()[40])


def test_mistakes_are_told(tmp_path):
    """Media that there are none of, shapes that are no ellipsoids, parameters of a model without a medium; a store keeps all."""
    for options, match in (
        ({"density": -1.0}, "density of the medium is -1"),
        ({"viscosity": np.nan}, "viscosity of the medium is nan"),
        ({"wind": (1, 2)}, "wind is"),
    ):
        with pytest.raises(ws.ModelError, match=match):
            ws.ModelBuilder(**options)
    with pytest.raises(ws.ModelError, match="a plane is no ellipsoid"):
        ws.ModelBuilder().add_geom("plane", fluid=True)
    with pytest.raises(ws.ModelError, match="give True, or five numbers"):
        ws.ModelBuilder().add_geom("sphere", [1.0], fluid=(1, 2))
    still = ws.Simulator(ball(), device="cpu")
    with pytest.raises(ValueError, match=r"fluid_density.*the model has none of"):
        still.parameters["fluid_density"]
    model = ball(viscosity=1.0, density=10.0, fluid=True, wind=(1, 0, 0))
    sim = ws.Simulator(model, device="cpu")
    sim.rollout(sim.state(), steps=2).save(tmp_path / "a.zarr")
    again = ws.Trajectory.load(tmp_path / "a.zarr").model
    assert (again.fluid_density, again.fluid_viscosity) == (10.0, 1.0)
    for name in ("wind", "body_fluid", "geom_fluid"):
        np.testing.assert_array_equal(getattr(again, name), getattr(model, name))
    builder = ws.ModelBuilder(density=1.0)
    builder.add_model(model, prefix="a_")
    np.testing.assert_array_equal(builder.build().geom_fluid, model.geom_fluid)
