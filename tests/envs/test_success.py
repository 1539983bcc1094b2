# SPDX-License-Identifier: Apache-2.0
"""Success: the share of episodes at whose end all terms of a task's `success` hold."""

import numpy as np
import pytest

from warpsim.envs import TASKS, VectorEnv
from warpsim.tools.cli import main
from warpsim.tools.cli_training import find_modules_here

MODULE = """
from warpsim.envs import TASKS
class Pole(TASKS["CartPole"]):
    episode = 12
    terminations = {"some": lambda s: s.steps > abs(3000.0 * s.q[:, 1]) % 12}
    success = {"even": lambda s: s.steps % 2 == 0, "late": lambda s: s.steps >= 4}
    learning = {"ppo": {"iterations": 1, "envs": 4, "horizon": 2, "hidden": (4,)}}
"""


def test_all_terms_hold():
    """A mask of worlds in which every term is true; without terms nobody succeeds; no booleans are refused by name."""
    terms = {"right": lambda s: s.q[:, 0] > 0.0, "even": lambda s: s.steps % 2 == 0}
    env = VectorEnv(TASKS["CartPole"], 64, device="cpu", autoreset="DISABLED", success=terms)
    env.reset(seed=1)
    assert 0 < env.succeeded().sum() < 64
    np.testing.assert_array_equal(env.succeeded(), env.view.q[:, 0] > 0.0)
    env.step(np.zeros((64, 1), np.float32))
    assert not env.succeeded().any()
    plain = VectorEnv(TASKS["CartPole"], 2, device="cpu")
    plain.reset()
    assert not plain.succeeded().any()
    wrong = VectorEnv(TASKS["CartPole"], 2, device="cpu", success={"right": lambda s: s.q[:, 0]})
    with pytest.raises(ValueError, match=r"success\['right'\] gives float32; it must be booleans"):
        wrong.succeeded()
    with pytest.raises(ValueError, match="success is"):
        VectorEnv(TASKS["CartPole"], 2, device="cpu", success=lambda s: s.q[:, 0] > 0.0)


def test_evaluations_tell_the_share(tmp_path, monkeypatch, capsys):
    """Of an episode its end counts, not what follows; from the command line, in as many episodes as are asked for."""
    pytest.importorskip("rsl_rl")
    from warpsim.envs.training import play

    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_success.py").write_text(MODULE)
    find_modules_here()
    main(["train", "my_success:Pole", "--out", "out", "--device", "cpu", "--threads", "1"])
    judged = play("out", episodes=30, device="cpu")
    lengths = np.array(judged["lengths"])
    assert len(lengths) == 30 and 0.0 < judged["success"] < 1.0
    assert judged["success"] == pytest.approx(((lengths % 2 == 0) & (lengths >= 4)).mean())
    capsys.readouterr()
    main(["play", "out", "--episodes", "30", "--device", "cpu"])
    assert f"success {100 * judged['success']:.0f} % (means of 30 episodes)" in capsys.readouterr().out
    main(["play", "out", "--live", "--episodes", "3"])
    assert "leave out --episodes" in capsys.readouterr().err
