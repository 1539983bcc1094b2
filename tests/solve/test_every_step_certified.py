# SPDX-License-Identifier: Apache-2.0
"""Every step ends at e_m <= tolerance or is flagged: robots under random controls over their whole range, and the example scenes.

Shortened runs; `benchmarks/certificate.py` makes the long ones.
"""

import pytest

import warpsim as ws
from scenes.contact_problems import Exported
from scenes.examples import SCENES, driven_at_random

TOLERANCE = {"float64": 1e-6, "float32": 1e-4}  # solver defaults
# Rounding of what is recomputed in float64 from data in float32 (test_certificate.py measures it).
ROUNDING = {"float64": 1e-12, "float32": 5e-6}
WORLDS, SECONDS = 8, 2.0
MISSED = 1e-3  # share of world-steps that may stay above the tolerance, flagged
ROBOTS = ("ant", "humanoid", "half_cheetah", "hopper")


def check(label: str, dtype: str, sim, trajectory, within) -> None:
    """e_m of every step and world, flags where it is above the tolerance, and e_m of the last step recomputed from the exported problem.

    UNRESOLVED, which is not about the solver, may come: dominoes of 1 cm fall, a humanoid strikes its thigh at 5 m/s.
    """
    d = {name: x.numpy() for name, x in trajectory.diagnostics.items()}
    missed = d["momentum_error"] > TOLERANCE[dtype]
    flagged = (d["flags"] & ws.NOT_CONVERGED) != 0  # from then on
    assert not (d["flags"] & ~(ws.UNRESOLVED | ws.NOT_CONVERGED)).any() and (flagged | ~missed).all()
    assert d["contacts"].max() > 0
    within(f"{dtype} {label}: share of steps not solved", missed.mean(), MISSED)
    for w in range(sim.worlds):
        p = Exported(sim, w)
        error = p.momentum_error(p.v, p.generalised(p.gamma, p.row_gamma))
        assert error <= TOLERANCE[dtype] + ROUNDING[dtype] or missed[-1, w]


@pytest.mark.both_types
@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("name", ROBOTS)
def test_robots_driven_at_random(device, assets, name, dtype, within):
    """8 worlds of a robot under sine waves and noise over the whole control range, 2 s."""
    sim, trajectory = driven_at_random(ws.load(assets(name)), WORLDS, SECONDS, device=device, dtype=dtype)
    check(name, dtype, sim, trajectory, within)


@pytest.mark.both_types
@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("name", list(SCENES))
def test_example_scenes(device, assets, name, dtype, within):
    """Every scene of the examples, from its start through its impacts."""
    sim, trajectory = SCENES[name].play(SECONDS, device=device, dtype=dtype)
    check(name, dtype, sim, trajectory, within)
