# SPDX-License-Identifier: Apache-2.0
"""Pictures, pages, plots."""

from warpsim.base.registry import register

register("warpsim.show.html", "write_html")
register("warpsim.show.notebook", "trajectory_html")
register("warpsim.show.plot", "plot_trajectory")
register("warpsim.show.render", "render_png")
register("warpsim.show.video", "write_video")
