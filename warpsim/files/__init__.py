# SPDX-License-Identifier: Apache-2.0
"""Read and write robot files, trajectory stores and other outputs."""

from warpsim.base.registry import register

register("warpsim.files.mjcf.mjcf_write", "to_mjcf", "to_mjspec")
register("warpsim.files.usd.usd_write", "write_model", "write_trajectory")
register("warpsim.files.store.store", "load_trajectory", "save_trajectory")
