# SPDX-License-Identifier: Apache-2.0
"""MuJoCo's constraint law on contacts: accelerations of MuJoCo itself, gradients, and what is refused (theory §3.8)."""

import dataclasses

import mujoco
import numpy as np
import pytest
import warp as wp

import warpsim as ws

SCENE = """
<mujoco>
  <option cone="{cone}" impratio="{impratio}" timestep="0.004" solver="Newton" tolerance="1e-15" ls_tolerance="1e-8"
          ls_iterations="200" iterations="300"/>
  <worldbody>
    <geom type="plane" size="5 5 .1" friction="0.7 0.005 0.0001"/>
    <body pos="0 0 0.098"><freejoint/>
      <geom type="sphere" size=".1" friction="0.7" solref="0.03 0.7" solimp="0.8 0.9 0.01 0.4 3"/></body>
    <body pos="0.5 0.5 0.095"><freejoint/><geom type="sphere" size=".1" {material}/></body>
    <body pos="0.6 0 0.097"><freejoint/>
      <geom type="capsule" size=".1 .2" euler="0 90 30" solmix="3" solref="-4000 -20"/></body>
  </worldbody>
</mujoco>
"""
MATERIALS = {
    "condim 3": "",
    "condim 1, priority": 'condim="1" priority="1"',
    "condim 4": 'condim="4"',
    "condim 6": 'condim="6" friction="0.6 0.01 0.02"',
    "no torsional friction": 'condim="6" friction="0.5 0 0" priority="1"',
    "mixed solref": 'solref="0.02 -1" solimp="0.9 0.9 0.001" margin="0.02" gap="0.01"',
}
WORLDS = 4


def scene(cone="pyramidal", impratio=1, material=""):
    """The model of both engines, and states in contact."""
    text = SCENE.format(cone=cone, impratio=impratio, material=material)
    peer = mujoco.MjModel.from_xml_string(text)
    rng = np.random.default_rng(0)
    q, v = np.tile(peer.qpos0, (WORLDS, 1)), rng.normal(size=(WORLDS, peer.nv)) * 0.5
    q[:, :2] += 0.01 * rng.normal(size=(WORLDS, 2))
    return peer, ws.load(peer), q, v


def simulator(model, **options):
    options = {"solver": ws.MuJoCo(tolerance=1e-12), "integrator": ws.MuJoCoEuler()} | options
    return ws.Simulator(model, worlds=WORLDS, dtype="float64", device="cpu", **options)


def accelerations(peer, q, v):
    """MuJoCo's accelerations."""
    found = []
    for q_w, v_w in zip(q, v, strict=True):
        data = mujoco.MjData(peer)
        data.qpos[:], data.qvel[:] = q_w, v_w
        mujoco.mj_forward(peer, data)
        found.append(data.qacc.copy())
    return np.array(found)


@pytest.mark.parametrize("cone", ["pyramidal", "elliptic"])
@pytest.mark.parametrize("material", MATERIALS)
@pytest.mark.filterwarnings("ignore:.*overlap")
def test_accelerations_are_those_of_mujoco(cone, material):
    """v' − v0 = h qacc for every condim, both cones, solmix, priority, both formats of solref and a mixed one."""
    for impratio in (1, 10):
        peer, model, q, v = scene(cone, impratio, MATERIALS[material])
        sim = simulator(model)
        found = (sim.step(sim.state(q=q, v=v)).v.numpy() - v) / sim.dt
        expected = accelerations(peer, q, v)
        # MuJoCo's Newton ends an elliptic problem when the cost no longer falls.
        bar = 1e-9 if cone == "pyramidal" else 1e-7
        assert np.abs(found - expected).max() < bar * max(1.0, np.abs(expected).max())
        assert not sim.diagnostics.flags.numpy().any()


@pytest.mark.parametrize("cone", ["pyramidal", "elliptic"])
@pytest.mark.filterwarnings("ignore:.*overlap")
def test_gradients_are_those_of_the_step(cone):
    """Five steps against central differences: by v, and by solref, solimp and impratio."""
    peer, model, q, v = scene(cone, 3, MATERIALS["condim 6"])
    sim = simulator(model, requires_grad=True)
    weight = np.random.default_rng(1).normal(size=peer.nv)

    def run(v):
        state = start = sim.state(q=q, v=v)
        for _ in range(5):
            state = sim.step(state)
        return start, state

    def loss(v):
        return run(v)[1].v.numpy() @ weight

    names = ("geom_solref", "geom_solimp", "impratio")
    arrays = {name: sim.parameters[name] for name in names}
    with wp.Tape() as tape:
        start, end = run(v)
    end.v.grad.assign(np.tile(weight, (WORLDS, 1)))
    tape.backward()
    by_v, by = start.v.grad.numpy(), {name: array.grad.numpy().copy() for name, array in arrays.items()}
    for i in range(0, peer.nv, 4):
        step = 1e-6 * np.eye(peer.nv)[i]
        assert np.abs((loss(v + step) - loss(v - step)) / 2e-6 - by_v[:, i]).max() < 1e-6 * np.abs(by_v).max()
    for name, at in {"geom_solref": (2, 0), "geom_solimp": (1, 2), "impratio": ()}.items():
        base, sides = sim.parameters[name].numpy().copy(), []
        size = 1e-6 * max(abs(float(base[(0, *at)])), 1e-3)
        for sign in (1, -1):
            moved = base.copy()
            moved[(slice(None), *at)] += sign * size
            sim.parameters[name] = moved
            sides.append(loss(v))
        sim.parameters[name] = base
        expected = (sides[0] - sides[1]) / (2 * size)
        assert np.abs(expected - by[name][(slice(None), *at)]).max() < 1e-5 * np.abs(expected).max() + 1e-9


PAIRS = {
    "anisotropic, condim 6": '<pair geom1="floor" geom2="ball" condim="6" friction="0.6 0.3 0.01 0.002 0.004"/>',
    "solreffriction": '<pair geom1="floor" geom2="ball" condim="3" friction="0.6 0.3" solreffriction="0.05 1"/>',
    "two pairs": """<pair geom1="floor" geom2="ball" condim="1"/>
                    <pair geom1="ball" geom2="floor" condim="4" friction="0.3 0.4 0.02" solref="-900 -30"/>""",
}


@pytest.mark.parametrize("cone", ["pyramidal", "elliptic"])
@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.filterwarnings("ignore:.*overlap")
def test_explicit_pairs_have_their_own_law(cone, pair):
    """Friction that differs between the tangents, solreffriction, and several pairs of the same geoms."""
    text = SCENE.format(cone=cone, impratio=3, material='name="ball"').replace("plane", 'plane" name="floor', 1)
    peer = mujoco.MjModel.from_xml_string(text.replace("</mujoco>", f"<contact>{PAIRS[pair]}</contact></mujoco>"))
    _, _, q, v = scene()
    sim = simulator(ws.load(peer))
    found = (sim.step(sim.state(q=q, v=v)).v.numpy() - v) / sim.dt
    expected = accelerations(peer, q, v)
    bar = 1e-9 if cone == "pyramidal" else 1e-7
    assert np.abs(found - expected)[:, 6:12].max() < bar * max(1.0, np.abs(expected[:, 6:12]).max())


@pytest.mark.parametrize(("name", "value"), [("stiffness", 1e4), ("dissipation_time", 0.25), ("restitution", 0.5)])
def test_material_of_other_laws_is_refused(name, value):
    """A number that is given, not mapped, has no meaning: one line names the geom and the fix."""
    _, model, *_ = scene()
    values = np.where(np.arange(model.ngeom) == 2, value, getattr(model, f"geom_{name}"))
    with pytest.raises(ValueError, match=rf"geom .* has {name} {value:g}, which MuJoCo's law does not read"):
        simulator(dataclasses.replace(model, **{f"geom_{name}": values}))


@pytest.mark.parametrize("solref", ["0.02 1", "0.0005 0.8", "-900 -30"])
def test_material_of_a_file_is_not_given(solref):
    """A geom of the world with its own solref or solimp stays near-rigid, with a dissipation time that the reader mapped."""
    xml = f'''<mujoco><worldbody><geom type="plane" size="1 1 1" solref="{solref}" solimp="0.8 0.8 0.01"/>
        <body pos="0 0 0.09"><freejoint/><geom size="0.1" solref="{solref}" solimp="0.8 0.8 0.01"/></body></worldbody></mujoco>'''
    model = ws.load(mujoco.MjModel.from_xml_string(xml))
    assert np.isinf(model.geom_stiffness[0]) and np.isfinite(model.geom_dissipation_time[0])
    simulator(model)


@pytest.mark.parametrize("name", ["speculative", "noslip_iterations"])
def test_options_that_the_law_does_not_have_are_refused(name):
    """An option of the file that would change the motion is refused, with the fix."""
    _, model, *_ = scene()
    options = dataclasses.replace(model.mujoco, **{name: type(getattr(model.mujoco, name))(3)})
    with pytest.raises(ValueError, match=f"sets the option {name}, which ws.MuJoCo.* does not have"):
        simulator(dataclasses.replace(model, mujoco=options))


def test_exact_inverse_masses_have_no_gradients():
    """`diagexact` is refused with gradients, with the fix; its R follows the masses of each world."""
    peer, model, q, v = scene("elliptic")
    model = dataclasses.replace(model, mujoco=dataclasses.replace(model.mujoco, diagexact=True))
    with pytest.raises(ValueError, match="diagexact, which has no gradients"):
        simulator(model, requires_grad=True)
    sim = simulator(model)
    mass = np.linspace(0.5, 2, WORLDS)[:, None] * model.body_mass
    sim.parameters["body_mass"] = mass
    peer.opt.enableflags |= int(mujoco.mjtEnableBit.mjENBL_DIAGEXACT)
    found = (sim.step(sim.state(q=q, v=v)).v.numpy() - v) / sim.dt
    for w in range(WORLDS):
        peer.body_mass[1:] = mass[w]
        mujoco.mj_setConst(peer, mujoco.MjData(peer))
        expected = accelerations(peer, q[w : w + 1], v[w : w + 1])[0]
        assert np.abs(found[w] - expected).max() < 1e-7 * np.abs(expected).max()


def test_a_recovery_speed_is_refused():
    """solref and solimp say how constraints recover."""
    _, model, *_ = scene()
    with pytest.raises(ValueError, match=r"recovery_speed is 0.5, which has no meaning with ws\.MuJoCo"):
        simulator(model, recovery_speed=0.5)


def test_worlds_have_parameters_of_their_own():
    """solref, solimp, solmix, friction and impratio of every world: MuJoCo's accelerations with the same values."""
    peer, model, q, v = scene("pyramidal", 3, MATERIALS["condim 6"])
    sim, rng = simulator(model), np.random.default_rng(5)
    solref, solimp, solmix, friction = (
        np.repeat(getattr(peer, f"geom_{name}")[None], WORLDS, 0) for name in ("solref", "solimp", "solmix", "friction")
    )
    solref[:, 1] *= rng.uniform(0.5, 2, (WORLDS, 2))
    solimp[:, 2, :2] *= rng.uniform(0.8, 1, (WORLDS, 2))
    friction *= rng.uniform(0.5, 1.5, friction.shape)
    solmix *= rng.uniform(0.1, 2, solmix.shape)
    impratio = rng.uniform(0.5, 5, WORLDS)
    given = {"solref": solref, "solimp": solimp, "solmix": solmix}
    given |= {
        "friction": friction[..., 0],
        "torsional_friction": friction[..., 1],
        "rolling_friction": friction[..., 2],
    }
    for name, values in given.items():
        sim.parameters[f"geom_{name}"] = values
    sim.parameters["impratio"] = impratio
    found = (sim.step(sim.state(q=q, v=v)).v.numpy() - v) / sim.dt
    for w in range(WORLDS):
        peer.geom_solref[:], peer.geom_solimp[:], peer.geom_solmix[:] = solref[w], solimp[w], solmix[w]
        peer.geom_friction[:], peer.opt.impratio = friction[w], impratio[w]
        expected = accelerations(peer, q[w : w + 1], v[w : w + 1])[0]
        assert np.abs(found[w] - expected).max() < 1e-10 * np.abs(expected).max()


@pytest.mark.parametrize("cone", ["pyramidal", "elliptic"])
@pytest.mark.parametrize("name", ["geom_solref", "geom_solimp", "geom_friction", "geom_torsional_friction", "impratio"])
@pytest.mark.filterwarnings("ignore:.*overlap")
def test_a_world_of_nan_is_flagged(cone, name):
    """A number that a kernel writes and that is no number is flagged, not clamped; the other worlds keep their bits."""
    _, model, q, v = scene(cone, 3, MATERIALS["condim 6"])
    sims = [simulator(model) for _ in range(2)]
    values = sims[1].parameters[name].numpy().copy()
    values[1] = np.nan
    sims[1].parameters[name].assign(values)
    found = [sim.step(sim.state(q=q, v=v)) for sim in sims]
    flags = sims[1].diagnostics.flags.numpy()
    assert flags[1] & ws.NONFINITE and not flags[[0, 2, 3]].any()
    for array in ("q", "v"):
        one, other = (getattr(state, array).numpy()[[0, 2, 3]] for state in found)
        np.testing.assert_array_equal(one, other)


def test_other_integrators_are_refused():
    """An integrator that does not step as MuJoCo does is refused by name."""
    _, model, *_ = scene()
    with pytest.raises(ValueError, match=r"does not step as MuJoCo does; use ws\.MuJoCoEuler"):
        simulator(model, integrator=ws.ImplicitEuler())
