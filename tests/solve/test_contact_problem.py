# SPDX-License-Identifier: Apache-2.0
"""The contact problem that a step hands to its solver, recomputed from public queries by the formulas of docs/theory.md.

A = M + h D,  v* = v0 + h A^-1 (k - D v0 - c),  J = frame^T (J_B - J_A),  w = |J M^-1 J^T|_F / 3,
Rn = max(beta^2 w/(4 pi^2), 1/(h k (h + tau_d))),  Rt = sigma w,  v_hat = -phi/(h + tau_d), tau_d = 0 while phi > 0
"""

import mujoco
import numpy as np
import pytest

import warpsim as ws
from scenes.bodies import body_on_plane, quaternion_matrix

H = 0.005
BETA, BETA_LIMIT, SIGMA = 1.0, 0.1, 1e-3
WORLDS = 4


class Sampled:
    """A robot tumbling onto the floor: at some steps, the state before it and the problem of world w after it."""

    def __init__(self, path: str, device: str):
        self.model = m = ws.load(path)
        # recovery_speed=None: the law of the paper, also deep in the ground
        self.sim = ws.Simulator(m, worlds=WORLDS, dt=H, device=device, dtype="float64", recovery_speed=None)
        rng = np.random.default_rng(4)
        q = np.tile(m.q0, (WORLDS, 1))
        q[:, 2], q[:, 7:] = 1.2, np.where(m.joint_limited, m.joint_range.mean(axis=1), 0.0)[1:]
        q[:, 3:7] += 0.5 * rng.normal(size=(WORLDS, 4))
        q[:, 3:7] /= np.linalg.norm(q[:, 3:7], axis=1, keepdims=True)
        state = self.sim.state(q, rng.normal(size=(WORLDS, m.nv)))
        self.control = 0.05 * rng.uniform(-1, 1, size=(WORLDS, m.nu))
        self.steps = []
        for i in range(240):
            before = state.clone()
            state = self.sim.step(state, self.control)
            if i % 20 == 19:
                self.steps.append(self._record(before))
        assert sum(step["count"].sum() for step in self.steps) > 40

    def _record(self, before) -> dict:
        sim, p, last = self.sim, self.sim._step.solver.problem, self.sim.last_contacts
        q, v = before.q.numpy(), before.v.numpy()
        M, c = sim.mass_matrix(q).numpy(), sim.inverse_dynamics(q, v, np.zeros(self.model.nv)).numpy()
        step = {
            "q": q,
            "v": v,
            "M": M,
            "c": c,
            "count": last.count,
            "contacts": last,
            "poses": sim.kinematics(q).numpy(),
        }
        names = ("A", "v_star", "J", "R", "v_hat", "mu", "row_J", "row_R", "row_v_hat", "row_lower", "row_upper")
        step |= {name: getattr(p, name).numpy().copy() for name in names}
        step["pair"] = p.contact_pair.numpy().copy()
        step["force"], step["damping"] = sim._step.force.numpy().copy(), sim._step.damping.numpy().copy()
        step["jacobian"] = self._jacobians(step)
        return step

    def _jacobians(self, step) -> list[np.ndarray]:
        """Per world (contacts, 3, nv) from the public Jacobian of each body at the contact's point."""
        m, last, queried = self.model, step["contacts"], []
        found = [np.zeros((n, 3, m.nv)) for n in last.count]
        for w in range(WORLDS):
            for c in range(last.count[w]):
                for g, sign in zip(last.geoms[w, c], (-1.0, 1.0), strict=True):
                    if m.geom_body[g] >= 0:
                        queried.append((w, c, int(m.geom_body[g]), sign))
        for w, c, body, sign in queried:
            pose = step["poses"][w, body]
            local = quaternion_matrix(pose[3:]).T @ (last.point[w, c] - pose[:3])
            J = self.sim.jacobian(step["q"], body, local).numpy()[w, 3:]
            found[w][c] += sign * last.frame[w, c].T @ J
        return found


@pytest.fixture(scope="module", params=["ant", "humanoid"])
def sampled(request, device, assets) -> Sampled:
    return Sampled(assets(request.param), device)


def test_free_motion_and_its_matrix(sampled, within):
    """A = M + h D exactly on the diagonal, v* by the implicit formula."""
    worst = 0.0
    for s in sampled.steps:
        for w in range(WORLDS):
            A = s["M"][w] + H * np.diag(s["damping"][w])
            np.testing.assert_allclose(s["A"][w, :, : len(A)], A, rtol=1e-13, atol=0)
            rhs = s["force"][w] - s["damping"][w] * s["v"][w] - s["c"][w]
            v_star = s["v"][w] + H * np.linalg.solve(A, rhs)
            worst = max(worst, np.abs(s["v_star"][w] - v_star).max() / np.abs(v_star).max())
    within(f"{sampled.model.name}: v*", worst, 1e-11)


def test_contact_jacobians(sampled, within):
    """Rows t1, t2, n are the velocity of B relative to A at the contact point; self-contacts included."""
    p, worst, internal = sampled.sim._step.solver.problem, 0.0, 0
    support, size = p.support.numpy(), p.support_size.numpy()
    for s in sampled.steps:
        for w in range(WORLDS):
            for c in range(s["count"][w]):
                pair, J = s["pair"][w, c], np.zeros((3, sampled.model.nv))
                J[:, support[pair, : size[pair]]] = s["J"][w, c, :, : size[pair]]
                worst = max(worst, np.abs(J - s["jacobian"][w][c]).max())
                internal += int((sampled.model.geom_body[s["contacts"].geoms[w, c]] >= 0).all())
    within(f"{sampled.model.name}: contact Jacobian", worst, 1e-12)
    assert internal > 0 or sampled.model.name != "humanoid"


def test_regularisation(sampled, within):
    """R and v_hat of every contact from w, phi, h and the default material (rigid, tau_d = beta h/pi); mu of the file."""
    worst = 0.0
    for s in sampled.steps:
        for w in range(WORLDS):
            M_inverse = np.linalg.inv(s["M"][w])
            for c, J in enumerate(s["jacobian"][w]):
                weight, phi = np.linalg.norm(J @ M_inverse @ J.T) / 3.0, s["contacts"].phi[w, c]
                R = [SIGMA * weight, SIGMA * weight, BETA**2 / (4 * np.pi**2) * weight]
                tau_d = BETA * H / np.pi if phi <= 0 else 0.0
                worst = max(worst, np.abs(s["R"][w, c] / R - 1.0).max())
                np.testing.assert_allclose(s["v_hat"][w, c], [0.0, 0.0, -phi / (H + tau_d)], rtol=1e-12, atol=1e-14)
                smooth = sampled.model.geom_condim[s["contacts"].geoms[w, c]].max() == 1
                mu = 0.0 if smooth else sampled.model.geom_friction[s["contacts"].geoms[w, c]].max()
                assert s["mu"][w, c] == mu
    within(f"{sampled.model.name}: regularisation", worst, 1e-9)


def test_joint_stops(sampled, within):
    """Stops within 2 h |v| of their bound, at v0 or v*, are the active rows, with beta = 0.1; no other row is."""
    m, worst, active = sampled.model, 0.0, 0
    joints = np.flatnonzero(m.joint_limited)
    for s in sampled.steps:
        for w in range(WORLDS):
            M_inverse = np.linalg.inv(s["M"][w])
            k = 0
            for j in joints:
                i, d = int(m.joint_q[j]), int(m.joint_v[j])
                rate = max(abs(s["v"][w, d]), abs(s["v_star"][w, d]))
                low, high = m.joint_range[j]
                for sign, distance in ((1.0, s["q"][w, i] - low), (-1.0, high - s["q"][w, i])):
                    if distance < 2 * H * rate:
                        active += 1
                        R = BETA_LIMIT**2 / (4 * np.pi**2) * M_inverse[d, d]
                        tau_d = BETA_LIMIT * H / np.pi if distance <= 0 else 0.0
                        worst = max(worst, abs(s["row_R"][w, k] / R - 1.0))
                        worst = max(worst, abs(s["row_v_hat"][w, k] + distance / (H + tau_d)))
                        assert (
                            s["row_J"][w, k, 0] == sign and s["row_lower"][w, k] == 0 and s["row_upper"][w, k] == np.inf
                        )
                    else:
                        assert s["row_R"][w, k] <= 0
                    k += 1
            assert k == s["row_R"].shape[1]
    assert active > 20
    within(f"{m.name}: joint stops", worst, 1e-9)


# Materials -----------------------------------------------------------------------------------------------------------


def one_contact(model, device, *, v=0.0, h=H) -> tuple:
    """(R, v_hat, mu, phi, w) of the only contact of a body on a plane that moves at v along z."""
    sim = ws.Simulator(model, dt=h, device=device, dtype="float64")
    sim.step(sim.state(v=[0, 0, v, 0, 0, 0]))
    p = sim._step.solver.problem
    assert p.contacts.numpy()[0] == 1
    R, v_hat, mu = (x.numpy()[0, 0] for x in (p.R, p.v_hat, p.mu))
    return R, v_hat, mu, sim.last_contacts.phi[0, 0], R[0] / SIGMA


@pytest.mark.parametrize("depth", [1e-4, -1e-3])
@pytest.mark.parametrize(
    "a, b",
    [
        ({"stiffness": 1e4, "dissipation_time": 0.03}, {"stiffness": 3e4, "dissipation_time": 0.01}),
        ({"stiffness": 1e4, "dissipation_time": 0.03}, {"dissipation_time": 0.01}),  # one rigid
        ({"dissipation_time": 0.03}, {"dissipation_time": 0.01}),  # both rigid: mean of the times
        ({}, {}),  # nothing said: beta h/pi
    ],
)
def test_compliance_and_dissipation_combine(device, depth, a, b, within):
    """c = cA + cB, tau_d = (cA tauA + cB tauB)/c or the mean when c = 0; tau_d counts only in penetration."""
    builder = ws.ModelBuilder("ball")
    builder.add_geom("plane", name="floor", **a)
    builder.add_body("ball", pose=[0, 0, 0.1 - depth])
    builder.add_joint("ball", "free")
    builder.add_geom("sphere", [0.1], body="ball", **b)
    R, v_hat, _, phi, w = one_contact(builder.build(), device, v=-1.0)
    np.testing.assert_allclose(phi, -depth, rtol=1e-9)
    compliance = [1.0 / x.get("stiffness", np.inf) for x in (a, b)]
    times = [x.get("dissipation_time", BETA * H / np.pi) for x in (a, b)]
    c = sum(compliance)
    tau_d = np.dot(compliance, times) / c if c else np.mean(times)
    tau_d = tau_d if phi <= 0 else 0.0
    expected = max(BETA**2 / (4 * np.pi**2) * w, c / (H * (H + tau_d)))
    within("combined materials: Rn", abs(R[2] / expected - 1.0), 1e-9)
    np.testing.assert_allclose(v_hat, [0, 0, -phi / (H + tau_d)], rtol=1e-9)


def test_friction_combines_by_the_harmonic_mean(device):
    """A built scene: mu = 2 muA muB/(muA + muB), 0 when both are 0, and frictionless when both say condim 1."""
    for a, b, expected in ((0.4, 0.9, 2 * 0.4 * 0.9 / 1.3), (0.0, 0.9, 0.0), (0.0, 0.0, 0.0), (0.7, 0.7, 0.7)):
        builder = ws.ModelBuilder("ball")
        builder.add_geom("plane", friction=a)
        builder.add_body("ball", pose=[0, 0, 0.0999])
        builder.add_joint("ball", "free")
        builder.add_geom("sphere", [0.1], body="ball", friction=b)
        np.testing.assert_allclose(one_contact(builder.build(), device)[2], expected, rtol=1e-12)


@pytest.mark.parametrize(
    "floor, ball, expected",
    [
        ("friction='.4'", "friction='.9'", 0.9),
        ("friction='.4' priority='1'", "friction='.9'", 0.4),
        ("friction='.4'", "friction='.2' priority='2'", 0.2),
        ("friction='.4' condim='1'", "friction='.9' condim='1'", 0.0),
        ("friction='.4' condim='1'", "friction='.9' condim='3'", 0.9),
    ],
)
def test_friction_of_a_file_follows_mujoco(device, floor, ball, expected):
    """The geom of higher priority, else the larger; condim 1 on both is frictionless: the numbers of mj_collision."""
    m = mujoco.MjModel.from_xml_string(
        f"<mujoco><worldbody><geom type='plane' size='1 1 1' {floor}/><body pos='0 0 .0999'><freejoint/>"
        f"<geom size='.1' {ball}/></body></worldbody></mujoco>"
    )
    d = mujoco.MjData(m)
    mujoco.mj_forward(m, d)
    theirs = d.contact[0].friction[0] if d.contact[0].dim > 1 else 0.0
    assert theirs == expected
    np.testing.assert_allclose(one_contact(ws.load(m), device)[2], expected, rtol=1e-12)


def test_speculative_range(device):
    """A sphere above the floor enters when it will touch within the step at its speed after the free motion, else not."""
    for gap, v, enters in ((0.004, -1.0, True), (0.006, -1.0, False), (0.004, 0.0, False), (0.0002, 0.0, True)):
        sim = ws.Simulator(body_on_plane("sphere", [0.1], height=0.1 + gap), dt=H, device=device, dtype="float64")
        sim.step(sim.state(v=[0, 0, v, 0, 0, 0]))
        assert (sim.diagnostics.contacts.numpy()[0] == 1) == enters, (gap, v)
