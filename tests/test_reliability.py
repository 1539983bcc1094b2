# SPDX-License-Identifier: Apache-2.0
"""The reliability contract: worlds are independent to the last bit, runs repeat, and a bad world is flagged alone."""

import numpy as np
import pytest
import warp as wp

import warpsim as ws

STEPS = 60
SAMPLE = (0, 3, 6, 31, 63, 500, 1023)
CASES = [("ant", "float32", (1, 7, 64, 1024)), ("humanoid", "float32", (1, 64)), ("humanoid", "float64", (1, 7, 64))]


class Crowd:
    """`worlds` copies of a robot near the ground, each with its own pose, velocity and controls: world i's are the same
    for any number of worlds."""

    def __init__(self, path: str, dtype: str, device: str, worlds: int):
        self.model = ws.load(path)
        self.sim = ws.Simulator(self.model, worlds=worlds, dt=0.01, device=device, dtype=dtype)
        self.dtype, self.worlds = dtype, worlds
        rng = np.random.default_rng(11)
        m, most = self.model, 1024
        q = np.tile(m.q0, (most, 1))
        q[:, 2] = rng.uniform(0.7, 0.9, size=most) * m.q0[2]
        q[:, 3:7] += 0.3 * rng.normal(size=(most, 4))
        q[:, 3:7] /= np.linalg.norm(q[:, 3:7], axis=1, keepdims=True)
        middle = np.where(m.joint_limited, m.joint_range.mean(axis=1), 0.0)[1:]
        q[:, 7:] = middle + 0.1 * rng.normal(size=(most, m.nq - 7))
        self.q, self.v = q, 0.5 * rng.normal(size=(most, m.nv))
        self.control = 0.1 * rng.uniform(-1.0, 1.0, size=(most, m.nu))

    def state(self, chosen=None) -> ws.State:
        chosen = np.arange(self.worlds) if chosen is None else chosen
        return self.sim.state(self.q[chosen], self.v[chosen])

    def run(self, chosen=None, steps: int = STEPS, sim=None, control=None) -> dict[str, np.ndarray]:
        """Everything a rollout records, (rows, worlds, ...), with world k started as number chosen[k]."""
        chosen = np.arange(self.worlds) if chosen is None else np.asarray(chosen)
        sim = self.sim if sim is None else sim
        control = self.control[chosen] if control is None else control
        control = wp.array(control.astype(self.dtype), device=sim.device)
        trajectory = sim.rollout(self.state(chosen), lambda state: control, steps=steps)
        return recorded(trajectory)


def recorded(trajectory) -> dict[str, np.ndarray]:
    arrays = {"q": trajectory.q, "v": trajectory.v, "time": trajectory.time, **trajectory.diagnostics}
    return {name: array.numpy().copy() for name, array in arrays.items()}


def assert_same_bits(left: dict, right: dict, left_worlds=slice(None), right_worlds=slice(None)) -> None:
    """Equal bits in everything recorded (NaN equals NaN)."""
    for name in left:
        a, b = left[name][:, left_worlds], right[name][:, right_worlds]
        np.testing.assert_array_equal(a.view(f"u{a.itemsize}"), b.view(f"u{b.itemsize}"), err_msg=name)


@pytest.fixture(scope="module")
def crowd(device, assets):
    crowds = {}

    def get(name: str, dtype: str, worlds: int) -> Crowd:
        if (name, dtype, worlds) not in crowds:
            crowds[name, dtype, worlds] = Crowd(assets(name), dtype, device, worlds)
        return crowds[name, dtype, worlds]

    return get


# Independence --------------------------------------------------------------------------------------------------------


@pytest.mark.both_types
@pytest.mark.parametrize("name, dtype, numbers", CASES, ids=[f"{n}-{d}" for n, d, _ in CASES])
def test_a_world_does_not_see_how_many_others_there_are(crowd, name, dtype, numbers):
    """World i of N = 1, 7, 64, 1024 is the 1-world run bit for bit: states, certificates and counts of 60 steps."""
    alone = crowd(name, dtype, 1)
    single = {i: alone.run([i]) for i in SAMPLE if i < max(numbers)}
    assert sum(run["contacts"].max() > 0 for run in single.values()) == len(single)
    assert max(run["iterations"].max() for run in single.values()) > 2
    for n in numbers:
        many = crowd(name, dtype, n).run()
        assert not (many["flags"] & ~ws.UNRESOLVED).any()  # limbs strike each other within steps of 10 ms
        for i, run in single.items():
            if i < n:
                assert_same_bits(run, many, 0, i)


def test_the_order_of_worlds_does_not_matter(crowd):
    """Worlds in another order give the same bits in that order."""
    c = crowd("ant", "float32", 64)
    order = np.random.default_rng(0).permutation(64)
    assert_same_bits(c.run(order), c.run(), slice(None), order)


@pytest.mark.both_types
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_run_repeats(crowd, dtype, assets, device):
    """Same inputs, same bits: in one simulator, after an unrelated run in between, and in a new simulator."""
    c = crowd("humanoid", dtype, 64)
    first = c.run()
    c.run(np.arange(64)[::-1], steps=5)
    assert_same_bits(first, c.run())
    assert_same_bits(first, Crowd(assets("humanoid"), dtype, device, 64).run())


def test_the_solver_starts_from_the_state_alone(crowd):
    """Nothing of the last step leaks into the next: a state that was left and taken up again steps to the same bits."""
    c = crowd("ant", "float32", 64)
    state = c.state()
    for _ in range(30):
        c.sim.step(state, out=state)
    expected = c.sim.step(state).v.numpy()
    c.run(np.arange(64)[::-1], steps=7)
    np.testing.assert_array_equal(c.sim.step(state).v.numpy(), expected)


def test_worlds_of_different_load_are_independent(crowd):
    """Worlds that need many solver iterations next to worlds in free flight: both equal their runs alone."""
    c, alone = crowd("ant", "float32", 7), crowd("ant", "float32", 1)
    q, v = c.q[:7].copy(), c.v[:7].copy()
    q[::2, 2] += 50.0
    trajectory = recorded(c.sim.rollout(c.sim.state(q, v), steps=STEPS))
    assert not trajectory["contacts"][:, ::2].any() and trajectory["contacts"][:, 1::2].any()
    for i in range(7):
        assert_same_bits(recorded(alone.sim.rollout(alone.sim.state(q[i], v[i]), steps=STEPS)), trajectory, 0, i)


# Bad worlds ----------------------------------------------------------------------------------------------------------


@pytest.mark.both_types
@pytest.mark.parametrize("name, dtype", [("ant", "float32"), ("humanoid", "float64")])
def test_a_nan_control_flags_its_world_alone(crowd, name, dtype):
    """The others are bit for bit what they were; the bad world keeps its last finite q, v and time until it is reset."""
    c, bad, when = crowd(name, dtype, 7), 4, 20
    good = c.run()
    control = np.repeat(c.control[None, :7], STEPS, axis=0).astype(dtype)
    control[when, bad, 2] = np.nan
    broken = recorded(c.sim.rollout(c.state(), wp.array(control, device=c.sim.device)))
    others = [i for i in range(7) if i != bad]
    assert_same_bits(good, broken, others, others)
    flags = broken["flags"][:, bad]
    assert not flags[:when].any()
    assert (flags[when:] == ws.NONFINITE).all()
    for key in ("q", "v", "time"):
        np.testing.assert_array_equal(broken[key][: when + 1, bad], good[key][: when + 1, bad])
        np.testing.assert_array_equal(
            broken[key][when:, bad], np.broadcast_to(broken[key][when, bad], broken[key][when:, bad].shape)
        )
        assert np.isfinite(broken[key]).all()


def test_a_frozen_world_runs_again_after_reset(crowd):
    """The flag sticks while the control is finite again; reset clears it and the world moves as a new one does."""
    c = crowd("ant", "float32", 7)
    state, control = c.state(), c.control[:7].astype("float32")
    control[2, 0] = np.nan
    state = c.sim.step(state, wp.array(control, device=c.sim.device))
    frozen = state.q.numpy()[2].copy()
    for _ in range(3):
        state = c.sim.step(state)
    assert state.memory["flags"].numpy().tolist() == [0, 0, ws.NONFINITE, 0, 0, 0, 0]
    np.testing.assert_array_equal(state.q.numpy()[2], frozen)
    assert state.time.numpy()[2] == 0.0
    c.sim.reset(state, [2], c.q[2], c.v[2])
    assert not state.memory["flags"].numpy().any()
    alone = crowd("ant", "float32", 1).sim
    np.testing.assert_array_equal(c.sim.step(state).q.numpy()[2], alone.step(alone.state(c.q[2], c.v[2])).q.numpy()[0])


def test_a_nan_parameter_flags_its_world_alone(crowd, assets, device):
    """A NaN written on the device into one world's masses: that world stands still, the others do not notice."""
    good = crowd("ant", "float32", 7).run()
    c = Crowd(assets("ant"), "float32", device, 7)
    mass = c.sim.parameters["body_mass"]
    values = mass.numpy().copy()
    values[3, 5] = np.nan
    mass.assign(values)
    broken = c.run()
    others = [i for i in range(7) if i != 3]
    assert_same_bits(good, broken, others, others)
    assert (broken["flags"][:, 3] == ws.NONFINITE).all()
    np.testing.assert_array_equal(broken["q"][-1, 3], good["q"][0, 3])


def test_a_blow_up_is_caught_at_the_last_finite_state(crowd):
    """A velocity near the largest float32 overflows in the step: flagged, and q, v stay finite."""
    c = crowd("ant", "float32", 7)
    v = c.v[:7].copy()
    v[5, 3:6] = 1e30
    trajectory = recorded(c.sim.rollout(c.sim.state(c.q[:7], v), steps=10))
    assert trajectory["flags"][-1].tolist() == [0, 0, 0, 0, 0, ws.NONFINITE, 0]
    assert np.isfinite(trajectory["q"]).all() and np.isfinite(trajectory["v"]).all()


@pytest.mark.both_types
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_running_out_of_contact_slots_flags_its_world_alone(crowd, assets, device, dtype):
    """With 3 slots, one world on its four feet overflows and goes on with the first 3 of the contacts in order; the
    others, in the air, are bit for bit what they are when it is in the air too."""
    model = ws.load(assets("ant"))
    few = ws.Simulator(model, worlds=7, dt=0.01, device=device, dtype=dtype, max_contacts=3)
    enough = ws.Simulator(model, worlds=7, dt=0.01, device=device, dtype=dtype)
    c = crowd("ant", dtype, 7)
    q, v = c.q[:7].copy(), c.v[:7].copy()
    q[:, 2] += 30.0
    flying = recorded(few.rollout(few.state(q, v), steps=30))
    q[4], v[4] = model.q0, 0.0
    q[4, 7:] = np.where(model.joint_limited, model.joint_range.mean(axis=1), 0.0)[1:]
    standing = enough.rollout(enough.state(q, v), steps=150)
    assert standing.diagnostics["contacts"].numpy()[-1, 4] > 3
    q, v = standing.q.numpy()[-1], standing.v.numpy()[-1]
    others = [i for i in range(7) if i != 4]
    q[others], v[others] = c.q[others] + [0, 0, 30.0, *[0] * (model.nq - 3)], c.v[others]
    state = few.state(q, v)
    all_contacts = enough.contacts(enough.state(q, v))
    after = few.step(state)
    last = few.last_contacts
    assert last.count.tolist() == [0, 0, 0, 0, 3, 0, 0]
    np.testing.assert_array_equal(last.geoms[4], all_contacts.geoms[4, :3])
    np.testing.assert_allclose(last.phi[4], all_contacts.phi[4, :3], atol=1e-6)
    assert np.isfinite(after.q.numpy()).all() and after.time.numpy()[4] > 0.0
    overflowing = recorded(few.rollout(state, steps=30))
    assert_same_bits(flying, overflowing, others, others)
    assert (overflowing["flags"][:, 4] & ws.CONTACT_OVERFLOW).all()
    assert not overflowing["flags"][:, others].any()
    assert overflowing["time"][-1, 4] == overflowing["time"][-1, 0]
    # Sticky: raised once, it stays while the contacts fit, until reset.
    final = few.rollout(state, steps=1).final
    few.reset(final, [4])
    assert not final.memory["flags"].numpy().any()


def test_not_converged_is_flagged_and_goes_on(assets, device):
    """With one allowed iteration the hard worlds are flagged, e_m tells by how much, and stepping goes on, finite."""
    model = ws.load(assets("ant"))
    solver = ws.SAP(max_iterations=1, tolerance=1e-9)
    sim = ws.Simulator(model, worlds=2, dt=0.01, solver=solver, device=device, dtype="float64")
    q = np.tile(model.q0, (2, 1))
    q[:, 7:] = np.where(model.joint_limited, model.joint_range.mean(axis=1), 0.0)[1:]
    q[1, 2] += 30.0
    run = recorded(sim.rollout(sim.state(q), steps=60))
    assert run["flags"][-1].tolist() == [ws.NOT_CONVERGED, 0]
    assert run["momentum_error"][:, 0].max() > 1e-9
    assert np.isfinite(run["q"]).all()
    np.testing.assert_allclose(run["time"][-1], 0.6)


# Reset ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["indices", "mask", "device mask", "one index", "device indices"])
def test_reset_touches_only_the_chosen_worlds(crowd, kind):
    """Indices, a host mask and a device mask reset the same worlds, memory and flags included; all else keeps its bits."""
    c = crowd("ant", "float32", 7)
    state = c.sim.rollout(c.state(), steps=10).final
    state.memory["flags"].assign(np.arange(7, dtype=np.int32))
    chosen = [5] if kind == "one index" else [1, 2, 5]
    mask = np.isin(np.arange(7), chosen)
    worlds = {
        "indices": chosen,
        "mask": mask,
        "device mask": wp.array(mask, dtype=bool, device=c.sim.device),
        "one index": 5,
        "device indices": wp.array(chosen, dtype=int, device=c.sim.device),
    }[kind]
    before = {name: value.copy() for name, value in state.clone().numpy().items()}
    c.sim.reset(state, worlds)
    after = state.numpy()
    for name, value in after.items():
        np.testing.assert_array_equal(value[~mask], before[name][~mask], err_msg=name)
    np.testing.assert_array_equal(after["q"][mask], np.tile(c.model.q0, (len(chosen), 1)).astype("float32"))
    assert not after["v"][mask].any() and not after["time"][mask].any() and not after["flags"][mask].any()


def test_reset_on_the_device_to_a_row_for_each_world(crowd):
    """A mask and starts that lie on the device put each chosen world to its own row, without a look by the host."""
    c = crowd("ant", "float32", 7)
    state = c.sim.rollout(c.state(), steps=10).final
    before = {name: value.copy() for name, value in state.numpy().items()}
    mask, q, v = np.arange(7) % 3 == 1, c.q[20:27].astype("float32"), c.v[20:27].astype("float32")
    on_device = [wp.array(x, device=c.sim.device) for x in (q, v)]
    c.sim.reset(state, wp.array(mask, dtype=bool, device=c.sim.device), *on_device)
    after = state.numpy()
    np.testing.assert_array_equal(after["q"], np.where(mask[:, None], q, before["q"]))
    np.testing.assert_array_equal(after["v"], np.where(mask[:, None], v, before["v"]))
    assert not after["time"][mask].any() and (after["time"][~mask] == before["time"][~mask]).all()
    c.sim.reset(state, wp.array(mask, dtype=bool, device=c.sim.device), on_device[0])
    assert not state.v.numpy()[mask].any()
    with pytest.raises(ValueError, match="q has shape"):
        c.sim.reset(state, wp.array(mask, dtype=bool, device=c.sim.device), on_device[0][:3])


def test_reset_to_given_states(crowd):
    """q, v of shape (n,) for all chosen worlds, or (chosen, n) for each."""
    c = crowd("ant", "float32", 7)
    state = c.state()
    c.sim.reset(state, [6, 0], q=c.q[[10, 11]], v=c.v[12])
    np.testing.assert_array_equal(state.q.numpy()[[6, 0]], c.q[[10, 11]].astype("float32"))
    np.testing.assert_array_equal(state.v.numpy()[[6, 0]], np.tile(c.v[12], (2, 1)).astype("float32"))
    np.testing.assert_array_equal(state.q.numpy()[1:6], c.q[1:6].astype("float32"))


def test_a_reset_world_is_like_a_new_one(crowd):
    """After reset a world repeats its first run bit for bit, beside worlds that went on."""
    c = crowd("ant", "float32", 7)
    first = c.run(steps=20)
    state = c.sim.rollout(c.state(), steps=15).final
    c.sim.reset(state, [2], c.q[2], c.v[2])
    control = wp.array(c.control[:7].astype("float32"), device=c.sim.device)
    again = recorded(c.sim.rollout(state, lambda s: control, steps=20))
    assert_same_bits(first, again, 2, 2)


@pytest.mark.both_types
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_time_that_is_none_flags_its_world(crowd, dtype, value):
    """Whatever of a state is not finite is flagged, its time too."""
    c = crowd("humanoid", dtype, 7)
    state = c.state()
    time = state.time.numpy().copy()
    time[3] = value
    state.time.assign(time)
    good, bad = c.sim.step(c.state()), c.sim.step(state)
    assert bad.memory["flags"].numpy().tolist() == [0, 0, 0, ws.NONFINITE, 0, 0, 0]
    others = np.arange(7) != 3
    for name, array in good.arrays().items():
        np.testing.assert_array_equal(bad.arrays()[name].numpy()[others], array.numpy()[others])


def test_a_certificate_that_is_no_number_flags_its_world(crowd, assets, device):
    """Inertias below zero, written on the device, make a mass matrix that none is: finite motions of it are not called converged."""
    c = Crowd(assets("ant"), "float32", device, 7)
    inertia = c.sim.parameters["body_inertia"]
    values = inertia.numpy().copy()
    values[3] = -1.0
    inertia.assign(values)
    run = c.run(steps=4)
    lost = ~np.isfinite(run["momentum_error"]).all(axis=0)
    assert lost[3] and (run["flags"][-1, lost] & (ws.NOT_CONVERGED | ws.NONFINITE)).all()
