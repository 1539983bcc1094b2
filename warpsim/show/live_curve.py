# SPDX-License-Identifier: Apache-2.0
"""A learning curve that grows in the terminal; without a terminal, a line from time to time."""

import numpy as np

BLOCKS = " ▁▂▃▄▅▆▇█"
WIDTH, HEIGHT = 64, 8  # [characters]
EVERY = 10  # iterations between lines without a terminal
TITLE = "mean return of the last 100 episodes, by iteration"


def text_curve(values, width: int = WIDTH, height: int = HEIGHT) -> str:
    """Values as columns of blocks, with the scale beside them; too many values are averaged. Empty without values."""
    values = np.asarray([x for x in values if x is not None and np.isfinite(x)], float)
    if not len(values):
        return ""
    parts = np.array([part.mean() for part in np.array_split(values, min(width, len(values)))])
    low, high = parts.min(), parts.max()
    share = np.full(len(parts), 0.5) if high <= low else (parts - low) / (high - low)
    levels = np.rint(share * (8 * height - 1)).astype(int) + 1
    rows = []
    for row in reversed(range(height)):
        label = f"{high:10.4g} " if row == height - 1 else f"{low:10.4g} " if row == 0 else " " * 11
        rows.append(label + "".join(BLOCKS[int(np.clip(level - 8 * row, 0, 8))] for level in levels))
    return "\n".join(rows)


def line(row: dict) -> str:
    """One iteration as a line."""
    return (
        f"iteration {row['iteration']:5d}  {row['env_steps']:>12,} env-steps  {row['episodes']:>8,} episodes ended  "
        f"mean return {row['return']:8.1f}"
    )


class LiveCurve:
    """`add(row)` draws the returns so far on a rich console; `drawing` then says how far the video is.

    Rows have iteration, env_steps, return (or None) and episodes.
    """

    def __init__(self, console):
        self.console, self.returns, self.live, self.tenth = console, [], None, 0

    def __enter__(self) -> "LiveCurve":
        if self.console.is_terminal:
            from rich.live import Live

            self.live = Live(console=self.console, refresh_per_second=4, transient=False)
            self.live.__enter__()
        return self

    def __exit__(self, *error) -> None:
        if self.live is not None:
            self.live.__exit__(*error)

    def add(self, row: dict) -> None:
        """Add an iteration."""
        self.returns.append(row["return"])
        if row["return"] is None:
            return
        if self.live is not None:
            self._show(line(row))
        elif row["iteration"] % EVERY == 0:
            self._say(line(row))

    def drawing(self, frame: int, frames: int) -> None:
        """Say how many frames of a video are drawn, under the curve; without a terminal at each tenth of them."""
        text = f"drawing the video: {frame:,} of {frames:,} frames"
        if self.live is not None:
            self._show(text)
        elif 10 * frame // frames > self.tenth or frame == 0:
            self._say(text)
        self.tenth = 10 * frame // frames

    def _show(self, text: str) -> None:
        from rich.text import Text

        self.live.update(Text(f"{TITLE}\n{text_curve(self.returns)}\n{text}"))

    def _say(self, text: str) -> None:
        self.console.print(text, highlight=False, soft_wrap=True)
