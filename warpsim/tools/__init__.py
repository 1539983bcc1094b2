# SPDX-License-Identifier: Apache-2.0
"""The command `warpsim` and its programs: demo, bench, the compile check for CUDA."""
