# SPDX-License-Identifier: Apache-2.0
"""The command `warpsim` and the programs beside it: demo, bench, the compile check for CUDA."""
