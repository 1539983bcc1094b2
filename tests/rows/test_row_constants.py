# SPDX-License-Identifier: Apache-2.0
"""Constants of tendons and constraints per world: as in a model that is built so, world by world; what has no row is refused."""

import numpy as np
import pytest

import warpsim as ws
from scenes.bodies import pendulum
from scenes.constraints import driven_pair, mimic_pair, nut, ropes, welded_beam

STEPS = 60
APART = welded_beam("distance").constraint_coefficients[0, 0]  # [m] the ends of a distance at the start


def finger(scale: float) -> ws.Model:
    """A finger whose tendons are scaled."""
    b = ws.ModelBuilder("finger", timestep=0.004)
    for k in range(2):
        parent, pose = (f"link{k - 1}", [0.3, 0, 0]) if k else (-1, [0, 0, 0])
        b.add_body(f"link{k}", parent=parent, pose=pose, mass=0.5, com=[0.15, 0, 0], inertia=[1e-3, 4e-3, 4e-3])
        b.add_joint(f"link{k}", "hinge", name=f"q{k}", axis=[0, 1, 0], damping=0.02)
    b.add_tendon({"q0": 0.5, "q1": 1.0}, range=(-0.3 * scale, 0.1 * scale), friction=0.05 * scale)
    b.add_tendon({"q0": 1.0}, stiffness=3.0 * scale, damping=0.2 * scale, reference=0.1)
    return b.build()


TENDONS = ("tendon_range", "tendon_friction", "tendon_stiffness", "tendon_damping")
SCENES = {
    "finger": (finger, (0.5, 1.0, 1.7), TENDONS),
    "rod": (lambda x: welded_beam("distance", length=x * APART), (1.0, 1.01, 1.1), ("constraint_coefficients",)),
    "kept apart": (
        lambda x: welded_beam("distance", length=(x * APART, np.inf)),
        (1.0, 1.01, 1.1),
        ("constraint_coefficients",),
    ),
    "screw": (nut, (0.2, -0.1, 0.5), ("constraint_coefficients",)),
    "soft weld": (
        lambda x: welded_beam(stiffness=(2e4 * x, 3e3 * x), dissipation_time=0.02 * x),
        (1.0, 0.3, 2.0),
        ("constraint_stiffness", "constraint_dissipation_time"),
    ),
}


@pytest.mark.parametrize("name", SCENES)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_per_world_as_in_the_model(name, dtype, device):
    """Each world moves as the model with its constants does, to the last bit in float64."""
    build, values, names = SCENES[name]
    models = [build(x) for x in values]
    sim = ws.Simulator(models[0], worlds=len(values), dt=0.004, dtype=dtype, device=device)
    for parameter in names:
        sim.parameters[parameter] = np.stack([getattr(m, parameter) for m in models])
    found = sim.rollout(sim.state(), steps=STEPS).q.numpy()
    for w, model in enumerate(models):
        own = ws.Simulator(model, dt=0.004, dtype=dtype, device=device)
        expected = own.rollout(own.state(), steps=STEPS).q.numpy()[:, 0]
        if dtype == "float64":
            np.testing.assert_array_equal(found[:, w], expected)
        else:
            np.testing.assert_allclose(found[:, w], expected, atol=1e-4)
    assert np.abs(found[-1, 0] - found[-1, 1]).max() > 1e-6


REFUSED = {
    "tendon without stops": (ropes, "tendon_range", lambda x: x - 0.1, "'spring', which has no range"),
    "tendon without a spring": (ropes, "tendon_stiffness", lambda x: x + 1.0, "'limit', which has no spring"),
    "tendon without friction": (ropes, "tendon_friction", lambda x: x + 1.0, "has no dry friction"),
    "reversed": (ropes, "tendon_range", lambda x: -1.0 * x, "lower bound must not exceed"),
    "near-rigid made soft": (welded_beam, "constraint_stiffness", lambda x: np.full_like(x, 1e4), "near-rigid"),
    "no stiffness": (welded_beam, "constraint_stiffness", np.zeros_like, "must be positive"),
    "coefficients of a weld": (welded_beam, "constraint_coefficients", lambda x: x + 1.0, "a weld with 0 coefficients"),
    "a rod made a rope": (
        lambda: welded_beam("distance"),
        "constraint_coefficients",
        lambda x: x + [0.0, 0.5, 0.0, 0.0, 0.0],
        "one length > 0, twice",
    ),
    "no pitch": (nut, "constraint_coefficients", lambda x: 0.0 * x, "a pitch other than 0"),
    "not finite": (mimic_pair, "constraint_coefficients", lambda x: x + [0, 0, 0, 0, np.inf], "finite coefficients"),
    "inactive": (
        lambda: welded_beam(active=False),
        "constraint_dissipation_time",
        lambda x: np.full_like(x, 0.1),
        "is not active",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_row_is_refused(name):
    """The parameter and the element are named."""
    build, parameter, change, message = REFUSED[name]
    sim = ws.Simulator(build(), dtype="float64", device="cpu")
    with pytest.raises(ValueError, match=message) as error:
        sim.parameters[parameter] = change(np.array(getattr(sim.model, parameter)))
    assert parameter in str(error.value)


def test_models_without_tendons_have_the_parameters_empty():
    """No tendon, no constraint: nothing to set."""
    sim = ws.Simulator(driven_pair(), dtype="float64", device="cpu")
    assert sim.parameters["tendon_range"].shape == (1, 0, 2)
    assert sim.parameters["constraint_coefficients"].shape == (1, 0, 5)


@pytest.mark.parametrize(
    "name", ["tendon_range", "tendon_stiffness", "constraint_stiffness", "constraint_coefficients"]
)
def test_a_model_without_such_rows_takes_its_own_values(device, name):
    """What was read is what may be written, where there is nothing of the kind, and after rounding to float32."""
    sim = ws.Simulator(pendulum(), device=device)
    sim.parameters[name] = sim.parameters[name]
    assert sim.parameters[name].shape[1] == 0
    sim = ws.Simulator(welded_beam(active=False, stiffness=1 / 3, dissipation_time=0.1), device=device)
    before = sim.parameters[name].numpy().copy()
    sim.parameters[name] = before
    np.testing.assert_array_equal(sim.parameters[name].numpy(), before)
