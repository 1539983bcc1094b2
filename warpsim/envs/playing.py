# SPDX-License-Identifier: Apache-2.0
"""Evaluate and show a policy, by its `Judge`: the numbers and files of `warpsim play`, and its live page."""

from warpsim.base.checks import whole
from warpsim.envs.judging import EPISODES, EVALUATION_SEED, Judge


def play_policy(
    judge: Judge, worlds: int = 4, episodes: int = EPISODES, html=None, usd=None, video=None, progress=None
) -> dict:
    """Evaluate a policy in so many episodes, and write a page, a stage or a video of some worlds.

    `progress` is that of `Trajectory.to_video`.
    """
    judged = judge.evaluate(max(whole(episodes, "episodes", 1), worlds), record=whole(worlds, "worlds", 1))
    trajectory = judged.pop("trajectory")
    if html is not None:
        trajectory.to_html(html)
    if usd is not None:
        trajectory.to_usd(usd, spacing=2.0)
    if video is not None:
        trajectory.to_video(video, progress=progress)
    return judged


def watch_policy(judge: Judge, worlds: int = 4, port: int = 8080, host: str = "127.0.0.1", ready=print) -> None:
    """Show a policy on a live page until Ctrl-C; `ready(url)` is called once the page is up."""
    from warpsim.show.viewer import Viewer

    env = judge.environment(whole(worlds, "worlds", 1))
    try:
        env.reset(seed=EVALUATION_SEED)
        with Viewer(env.sim, env.state, port=port, host=host) as view:
            ready(view.url)
            judge.perform(env, view)
    except KeyboardInterrupt:
        pass
