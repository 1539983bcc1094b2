# SPDX-License-Identifier: Apache-2.0
"""Curricula, intervals, history and the critic's observations, in a task of sliders that go where they are told."""

import numpy as np
import pytest

import warpsim as ws
from warpsim.envs import Task, VectorEnv, terms
from warpsim.envs.single import SingleEnv
from warpsim.envs.terms import every, history, push, randomise, uniform_command, widening_command
from warpsim.envs.terrain import start_by_level


def slider():
    b = ws.ModelBuilder("slider", timestep=0.01, gravity=(0.0, 0.0, 0.0))
    b.add_body("body", mass=1.0, inertia=[0.1] * 3)
    b.add_joint("body", "free", name="free")
    b.add_body("wheel", mass=1.0, inertia=[0.1] * 3, parent="body")
    b.add_joint("wheel", "hinge", name="wheel")
    b.add_actuator("wheel", "effort", name="motor", control_range=(-1.0, 1.0))
    return b.build()


class Slide(Task):
    model = staticmethod(slider)
    episode = 10
    observations = {"q": lambda s: s.q[:, :1], "steps": lambda s: 1.0 * s.steps}


def _rollout(env, steps, frames=None):
    rows = []
    for _ in range(steps):
        rows.append(env.step(np.zeros(env.action_space.shape, np.float32)))
        if frames is not None:
            frames(env)
    return rows


def test_history_begins_with_the_initial_value():
    """The last three observations, the oldest first; before an episode's first action, its initial one; columns as many."""
    env = VectorEnv(
        Slide, 2, device="cpu", autoreset="SAME_STEP", observations={"steps": history(lambda s: 1.0 * s.steps, 3)}
    )
    seen = [env.reset(seed=0)[0][0], *(row[0][0] for row in _rollout(env, 12))]
    np.testing.assert_array_equal(seen[:4], [[0, 0, 0], [0, 0, 1], [0, 1, 2], [1, 2, 3]])
    np.testing.assert_array_equal(seen[9:13], [[7, 8, 9], [0, 0, 0], [0, 0, 1], [0, 1, 2]])


@pytest.mark.parametrize("steps", [4, (2, 5)])
def test_events_at_intervals(steps):
    """An event acts where episodes begin and again within the interval's bounds; others' intervals are their own, and the same in a resumed environment."""
    acted = []
    event = every(lambda view, mask, startup: acted.append(np.array(mask)), steps)
    task = {"events": (event, push("free", 0.5, every=steps)), "episode": 30}

    def make():
        return VectorEnv(Slide, 6, device="cpu", autoreset="SAME_STEP", **task)

    env = make()
    env.reset(seed=3)
    acted.clear()
    speeds = []
    _rollout(env, 29, lambda env: speeds.append(env.view.v[:, 0].copy()))
    times = [np.flatnonzero(column) + 1 for column in np.array(acted).T]
    low, high = (4, 4) if steps == 4 else steps
    gaps = np.concatenate([np.diff([0, *t]) for t in times])
    assert gaps.min() == low and gaps.max() == high
    assert (len({tuple(t) for t in times}) == 1) == (steps == 4)
    jumps = np.flatnonzero((np.abs(np.diff(speeds, axis=0)) > 1e-6).any(1))
    assert len(jumps) >= 5
    kept = env.state_dict()
    expected = [row[0] for row in _rollout(env, 20)]
    again = make()
    again.reset(seed=4)
    again.load_state_dict(kept)
    np.testing.assert_array_equal([row[0] for row in _rollout(again, 20)], expected)


def test_intervals_that_say_nothing_are_refused():
    """An empty interval, an event with intervals of its own, and one that is drawn at the start alone."""
    for make, said in (
        (lambda: every(print, (5, 2)), "low <= high"),
        (lambda: every(print, 0), "steps"),
        (lambda: every(push("free", 1.0, every=3), 5), "of its own"),
        (lambda: every(randomise("body_mass", 0.5, 1.5), 5), 'when="reset"'),
        (lambda: history(print, 0), "steps"),
        (lambda: widening_command(0.0, 1.0, 5, print, above=0.1), "below <= above"),
        (lambda: start_by_level(np.zeros((5, 3)), 2, 1.0, 0.5), "multiple of 2"),
        (lambda: start_by_level(np.zeros((4, 3)), 2, 1.0, 1.5), "down <= up"),
    ):
        with pytest.raises(ValueError, match=said):
            make()


def test_parameters_change_within_an_episode():
    """A friction under `every` is drawn at the start, and again every three actions."""
    seen = []
    event = every(randomise("body_mass", 0.5, 1.5, when="reset"), 3)
    env = VectorEnv(Slide, 2, device="cpu", autoreset="SAME_STEP", events=(event,))
    env.reset(seed=1)
    _rollout(env, 9, lambda env: seen.append(float(env.view.parameter("body_mass")[0, 0])))
    assert [len(set(seen[a:b])) for a, b in ((0, 2), (2, 5), (5, 8))] == [1, 1, 1] and len(set(seen)) == 4


def test_levels_follow_the_distance():
    """Worlds that came far go up, those that stayed go down, others keep their level; past the hardest any follows. The state goes through a checkpoint, and a seed begins anew."""
    places = np.array([[kind * 100.0, level * 10.0, 0.0] for kind in range(2) for level in range(3)])
    starts = (start_by_level(places, 3, up=1.0, down=0.1, turned=False),)
    env = VectorEnv(Slide, 4, device="cpu", autoreset="SAME_STEP", starts=starts)

    def episode(speed):
        v = np.zeros_like(env.view.v)
        v[:, 0] = speed
        env.view.write(v=v)
        _rollout(env, 10)
        return (env.view.q[:, 1] / 10.0).round().astype(int).tolist()

    env.reset(seed=0)
    np.testing.assert_allclose(env.view.q[:, 0], [0.0, 100.0, 0.0, 100.0], atol=1e-5)  # kinds by the world's number
    fast, slow, mid = 20.0, 0.0, 5.0  # [m/s] for 0.1 s
    assert episode([fast, slow, mid, fast]) == [1, 0, 0, 1]
    assert episode([fast, slow, fast, slow]) == [2, 0, 1, 0]
    kept = env.state_dict()
    after = episode([fast, slow, mid, fast])
    assert 0 <= after[0] <= 2 and after[1:] == [0, 1, 1]
    env.load_state_dict(kept)
    assert episode([fast, slow, mid, fast]) == after
    env.reset(seed=0)
    assert (env.view.q[:, 1] == 0.0).all()


def test_commands_widen_with_success():
    """Ranges grow in worlds that succeed and shrink in others, also where episodes end early; draws stay within the share of the range."""
    command = widening_command((-2.0, 0.0), (2.0, 4.0), 5, lambda s: 1.0 * (s.numbers < 2), first=0.2, step=0.3)
    env = VectorEnv(Slide, 4, device="cpu", autoreset="SAME_STEP", commands={"go": command})
    env.reset(seed=0)
    (term,) = env.task.commands.values()
    shares, largest = [], []
    for _ in range(40):
        _rollout(env, 1)
        shares.append(term.share.copy())
        largest.append(np.abs(env.view.commands["go"] - [0.0, 2.0]).max(-1))
    shares, largest = np.array(shares), np.array(largest)
    np.testing.assert_allclose(shares[[3, 4, 9, 14, 39], 0], [0.2, 0.5, 0.8, 1.0, 1.0], atol=1e-6)
    np.testing.assert_allclose(shares[:, 2:], 0.2, atol=1e-6)
    assert (largest <= 2.0 * shares + 1e-6).all() and largest[:, :2].max() > 1.0
    env.reset(seed=0)
    np.testing.assert_allclose(term.share, 0.2, atol=1e-6)


def test_what_only_the_critic_sees():
    """`info["critic"]` at the start, in each step and of an episode's end; what is not finite in it ends the world's episode alone."""
    table = {"speed": lambda s: np.where(s.numbers == 1, np.nan, s.v[:, 0]) if s.tick > 3 else s.v[:, 0]}
    table["steps"] = lambda s: 1.0 * s.steps
    env = VectorEnv(Slide, 3, device="cpu", autoreset="SAME_STEP", critic_observations=table, episode=3)
    observation, info = env.reset(seed=0)
    assert observation.shape == (3, 2) and info["critic"].shape == (3, 2)
    rows = _rollout(env, 5)
    assert [row[4]["critic"][0, 1] for row in rows] == [1.0, 2.0, 0.0, 1.0, 2.0]
    assert rows[2][4]["final_info"]["critic"][0, 1] == 3.0 and rows[2][4]["final_info"]["_critic"].all()
    assert rows[3][2].tolist() == [False, True, False] and env.faults.tolist() == [0, 2, 0]
    assert all(np.isfinite(row[4]["critic"][[0, 2]]).all() for row in rows)
    single = SingleEnv(Slide, device="cpu", critic_observations=table)
    assert single.reset(seed=0)[1]["critic"].shape == (2,) and single.step(np.zeros(1))[4]["critic"].shape == (2,)


def test_tables_of_tensors_agree():
    """Levels, ranges, intervals and histories in torch are those of NumPy, to the rounding of float32."""
    torch = pytest.importorskip("torch")
    places = np.array([[0.0, level, 0.0] for level in range(3)])
    task = {
        "starts": (terms.start_noise(v=5.0), start_by_level(places, 3, up=0.3, down=0.1)),
        "events": (push("free", 3.0, every=(2, 4)), every(randomise("body_mass", 0.5, 1.5, when="reset"), (3, 6))),
        "commands": {"go": widening_command(-1.0, 1.0, 4, lambda s: 1.0 * (s.v[:, 0] > 0))},
        "critic_observations": {"v": history(terms.velocities(), 2)},
        "observations": {"q": history(terms.positions(), 3), "go": terms.command("go")},
    }
    found = []
    for array in ("numpy", "torch"):
        env = VectorEnv(Slide, 5, device="cpu", autoreset="SAME_STEP", array=array, **task)
        env.reset(seed=2)
        rows = [env.step(env.arrays.made(np.zeros((5, 1), np.float32))) for _ in range(45)]
        found.append([np.concatenate([np.array(row[0]), np.array(row[4]["critic"])], -1) for row in rows])
    np.testing.assert_allclose(*found, rtol=1e-4, atol=1e-5)
    assert torch is not None and isinstance(uniform_command(0.0, 1.0), terms.Term)


def test_levels_do_not_follow_episodes_that_staggering_cut_short():
    """Worlds at level 1 that stay where they are keep their level after a staggered episode, and lose it after a whole one."""
    places = np.array([[0.0, level, 0.0] for level in range(3)])
    levels = start_by_level(places, 3, up=1.0, down=0.1, turned=False)
    env = VectorEnv(Slide, 20, device="cpu", autoreset="SAME_STEP", starts=(levels,))
    env.reset(seed=0)
    levels = env.task.starts[0]
    levels.level[:] = 2
    env.reset(options={"staggered": True})  # an episode of no action: one level down
    assert (levels.level == 1).all()
    ends = np.zeros(20, int)
    for row in _rollout(env, 9):
        ends += row[3]
        assert (ends <= 1).all() and (levels.level == 1).all()
    _rollout(env, 11)
    assert (levels.level == 0).all()
