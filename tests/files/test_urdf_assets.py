# SPDX-License-Identifier: Apache-2.0
"""The 69 URDFs of the PyPI package example-robot-data: how many load, and their dynamics beside Pinocchio's."""

import importlib.metadata
import pathlib
import warnings

import numpy as np
import pytest

import warpsim as ws
from warpsim.base.errors import ModelError
from warpsim.files.urdf.urdf import load_urdf
from warpsim.model.geometry import rotation_matrix
from warpsim.model.host_kinematics import body_poses

pytestmark = pytest.mark.assets
REFUSED = {"ur3.urdf": "no links"}


@pytest.fixture(scope="module")
def files():
    """Paths of the package's URDFs."""
    try:
        listed = importlib.metadata.files("example-robot-data") or []
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("needs pip install example-robot-data")
    return sorted(pathlib.Path(f.locate()).resolve() for f in listed if f.suffix == ".urdf")


def quietly(path, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return load_urdf(path, **options)


@pytest.mark.slow
def test_all_but_one_load_with_their_meshes(files):
    """68 of 69, visual meshes included, but those of one robot that names them under /usr; the other says why."""
    refused, undrawn = {}, set()
    for path in files:
        try:
            if any(line.detail.startswith("not drawn") for line in quietly(path).report):
                undrawn.add(path.name)
        except ModelError as error:
            refused[path.name] = str(error)
    assert len(files) == 69 and refused.keys() == REFUSED.keys(), refused
    assert undrawn == {"romeo_laas_small.urdf"}
    for name, why in REFUSED.items():
        assert why in refused[name]


def test_mechanisms_are_pinocchios(files, within):
    """nq, nv, total mass, joint placements, and for robots without repairs the mass matrix at random positions."""
    pin = pytest.importorskip("pinocchio")
    rng, worst, matrices = np.random.default_rng(0), dict.fromkeys(("mass", "place", "turn", "matrix"), 0.0), 0
    for path in files:
        if path.name == "ur3.urdf":
            continue
        model, theirs = quietly(path, visuals=False), pin.buildModelFromUrdf(str(path))
        repaired = sum("repaired" in line.detail for line in model.report)
        joints, names = list(theirs.joints)[1:], list(theirs.names)[1:]
        assert (model.nv, sorted(model.joint_names)) == (theirs.nv, sorted(names)), path.name
        assert model.nq == sum(1 if j.nq == 2 else j.nq for j in joints)  # theirs has (cos, sin) of continuous joints
        made = sum(float(line.detail.split()[-2]) for line in model.report if line.detail.endswith(" kg"))
        total = sum(inertia.mass for inertia in theirs.inertias) + made
        if "world" not in path.read_text().split("<link", 2)[1]:
            worst["mass"] = max(worst["mass"], abs(model.body_mass.sum() - total) / max(total, 1e-9))
        if not names:
            continue
        column = [model.joint_coordinates(name)[1].start for name in names]
        q, x = rng.normal(size=model.nv), np.zeros(theirs.nq)
        for value, joint in zip(q[column], joints, strict=True):
            x[joint.idx_q : joint.idx_q + joint.nq] = value if joint.nq == 1 else (np.cos(value), np.sin(value))
        data = theirs.createData()
        M = pin.crba(theirs, data, x)
        pin.forwardKinematics(theirs, data, x)
        poses = body_poses(model, q)
        for k, name in enumerate(names):
            ours, placed = poses[model.joint_body[model.joint(name)]], data.oMi[k + 1]
            worst["place"] = max(worst["place"], np.abs(ours[:3] - placed.translation).max())
            worst["turn"] = max(worst["turn"], np.abs(rotation_matrix(ours[3:]) - placed.rotation).max())
        if repaired == 0:
            sim = ws.Simulator(model, dtype="float64", device="cpu", solver=ws.NoContact())
            ours = sim.mass_matrix(q[None]).numpy()[0][np.ix_(column, column)]
            M = np.triu(M) + np.triu(M, 1).T
            worst["matrix"] = max(worst["matrix"], np.abs(ours - M).max() / np.abs(M).max())
            matrices += 1
    assert matrices >= 10
    within("URDF: total mass against Pinocchio, relative", worst["mass"], 1e-12)
    within("URDF: joint placements against Pinocchio [m]", worst["place"], 1e-12)
    within("URDF: joint orientations against Pinocchio", worst["turn"], 1e-12)
    within(f"URDF: mass matrix of {matrices} robots against Pinocchio, relative", worst["matrix"], 1e-9)


def test_real_robots_step(files):
    """A quadruped on a free base, an arm with a gripper: their meshes build a simulator, which takes finite steps."""
    for name, base in (("a1.urdf", "free"), ("panda.urdf", "fixed")):
        path = next(p for p in files if p.name == name)
        model = quietly(path, base=base, visuals=False, actuators="effort")
        sim = ws.Simulator(model, worlds=2, dt=0.002, device="cpu", solver=ws.NoContact())
        state = sim.state()
        for _ in range(5):
            state = sim.step(state)
        assert np.isfinite(state.q.numpy()).all() and np.abs(state.v.numpy()).max() > 0
