# SPDX-License-Identifier: Apache-2.0
"""Proof without a GPU: what the kernels of a step cost one, and whether they compute the same there (docs/gpu_checks.md).

`budget` asks ptxas for registers, spills and memory; `emulate` runs the PTX of one warp of every kernel on real states.
"""
