# SPDX-License-Identifier: Apache-2.0
"""Derivatives of inverse dynamics by q (tangent space), v and a, against differences, Pinocchio and the mass matrix."""

import mujoco
import numpy as np
import pytest
import warp as wp

import warpsim as ws
from scenes.zoo import ZOO, random_states
from warpsim.tree.dynamics import DeviceModel, Dynamics, InverseDynamicsDerivative

WORLDS = 5
EPSILON = 1e-3  # of the five-point difference: error O(eps^4) of the method, 1e-16/eps of rounding
RELATIVE = 1e-8

# Off-centre anchors, skew axes, and no free joint, whose velocity Pinocchio expresses otherwise.
BRANCHES = """<mujoco><worldbody>
  <body name="base" pos="0 0 1" quat=".8 .1 -.3 .2"><joint name="turn" axis=".6 0 .8" pos=".1 .2 .3"/>
    <geom type="box" size=".1 .2 .05" pos=".05 0 .1"/>
    <body name="upper" pos=".1 .2 0" euler="20 30 40"><joint name="shoulder" type="ball"/>
      <geom type="capsule" fromto="0 0 0 .3 .1 0" size=".03"/>
      <body name="lower" pos="0 .1 .05"><joint name="slide" type="slide" axis=".6 .8 0"/>
        <geom size=".04"/><body name="end" quat=".9 0 .1 .3"><joint name="elbow" axis="0 .6 .8" pos="0 .05 0"/>
          <geom type="box" size=".1 .02 .05" pos="0 .1 0"/></body></body>
      <body name="hand" pos=".2 0 .1"><joint name="wrist" type="ball"/><geom type="ellipsoid" size=".05 .1 .02" pos=".1 0 0"/>
      </body></body>
    <body name="tail" pos="-.1 0 0"><joint name="tail" axis="0 0 1"/><geom size=".05" pos="-.2 0 .1"/></body>
  </body></worldbody></mujoco>"""


def derivative(model, q, v, a, by, device, dtype="float64") -> np.ndarray:
    """(worlds, nv, nv) of d tau / d `by`, the trees' blocks put on the diagonal."""
    dynamics = Dynamics(DeviceModel(model, len(q), dtype, device))
    derivatives = InverseDynamicsDerivative(dynamics)
    S = dynamics.device_model.types.real
    q, v, a = (wp.array(x.astype(dtype), dtype=S, device=device) for x in (q, v, a))
    dynamics.position(q)
    dynamics.velocity(v)
    dynamics.inverse_dynamics(v, a, dynamics.array(model.nv, S))
    full = dynamics.array((model.nv, model.nv), S)
    dynamics.expand_blocks(derivatives.launch(v, a, by), full)
    return full.numpy().astype(float)


def states(name, assets):
    m = mujoco.MjModel.from_xml_string(ZOO) if name == "zoo" else mujoco.MjModel.from_xml_path(assets(name))
    q, v, a = random_states(m, WORLDS, "float64", np.random.default_rng(11))
    return m, ws.load(m), q, v, a


def moved(m, q, direction, length) -> np.ndarray:
    """q (+) length direction in every world, by MuJoCo."""
    q = q.copy()
    for row in q:
        mujoco.mj_integratePos(m, row, direction, length)
    return q


@pytest.mark.parametrize("name", ["zoo", "humanoid", "ant"])
@pytest.mark.parametrize("by", ["q", "v", "a"])
def test_against_differences(device, assets, name, by, within):
    """Central differences of RNEA for every joint type, branching trees, several trees, armature and fixed bodies."""
    m, model, q, v, a = states(name, assets)
    sim = ws.Simulator(model, worlds=WORLDS, solver=ws.NoContact(), device=device, dtype="float64")
    D = derivative(model, q, v, a, by, device)

    def tau(e, s):
        u = np.eye(m.nv)[e]
        at = (moved(m, q, u, s) if by == "q" else q, v + s * u * (by == "v"), a + s * u * (by == "a"))
        return sim.inverse_dynamics(*at).numpy()

    columns = []
    for e in range(m.nv):
        near, far = (tau(e, s) - tau(e, -s) for s in (EPSILON, 2.0 * EPSILON))
        columns.append((8.0 * near - far) / (12.0 * EPSILON))
    difference = np.stack(columns, axis=-1)
    scale = np.abs(difference).max(axis=(1, 2), keepdims=True)
    within(f"{name}: d RNEA / d {by}", np.max(np.abs(D - difference) / scale), RELATIVE)


def test_against_pinocchio(device, tmp_path, within):
    """computeRNEADerivatives, an implementation of its own, on a branching arm of hinges, a slide and ball joints."""
    pin = pytest.importorskip("pinocchio")
    m = mujoco.MjModel.from_xml_string(BRANCHES)
    path = tmp_path / "branches.xml"
    path.write_text(BRANCHES)
    model, theirs = ws.load(m), pin.buildModelFromMJCF(str(path))
    theirs.gravity.linear = np.array(model.gravity)
    q, v, a = random_states(m, WORLDS, "float64", np.random.default_rng(3))
    ours = {by: derivative(model, q, v, a, by, device) for by in "qva"}
    # Pinocchio numbers branches in an order of its own, and its quaternions have the scalar last.
    dofs = np.concatenate([np.arange(s.start, s.stop) for s in (model.joint_coordinates(n)[1] for n in names(theirs))])
    worst = 0.0
    for w in range(WORLDS):
        x = np.concatenate([coordinates(q[w, model.joint_coordinates(n)[0]]) for n in names(theirs)])
        data = theirs.createData()  # owns the results
        partials = pin.computeRNEADerivatives(theirs, data, x, v[w, dofs], a[w, dofs])
        for by, expected in zip("qva", partials, strict=True):
            if by == "a":
                expected = np.triu(expected) + np.triu(expected, 1).T
            error = ours[by][w][np.ix_(dofs, dofs)] - expected
            worst = max(worst, np.abs(error).max() / np.abs(expected).max())
    within("branches: derivatives of RNEA against Pinocchio", worst, 1e-12)


def names(pinocchio_model) -> list[str]:
    return list(pinocchio_model.names)[1:]


def coordinates(q) -> np.ndarray:
    return q[[1, 2, 3, 0]] / np.linalg.norm(q) if len(q) == 4 else q


@pytest.mark.parametrize("name", ["zoo", "humanoid"])
def test_by_acceleration_is_the_mass_matrix(device, assets, name, within):
    """d tau / d a = M of CRBA, armature included, to round-off; zero between branches and trees."""
    _, model, q, v, a = states(name, assets)
    sim = ws.Simulator(model, worlds=WORLDS, solver=ws.NoContact(), device=device, dtype="float64")
    M, D = sim.mass_matrix(q).numpy(), derivative(model, q, v, a, "a", device)
    within(f"{name}: d RNEA / d a against CRBA", np.abs(D - M).max() / np.abs(M).max(), 1e-14)
    assert np.all(D[M == 0.0] == 0.0)


@pytest.mark.parametrize("by", ["q", "v"])
def test_float32(device, assets, by, within):
    """Single precision agrees with double to 1e-4 of the largest entry."""
    _, model, q, v, a = states("humanoid", assets)
    q, v, a = (x.astype("float32").astype(float) for x in (q, v, a))
    double, single = (derivative(model, q, v, a, by, device, dtype) for dtype in ("float64", "float32"))
    within(f"float32 humanoid: d RNEA / d {by}", np.abs(single - double).max() / np.abs(double).max(), 1e-4)
