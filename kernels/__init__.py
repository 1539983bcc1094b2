# SPDX-License-Identifier: Apache-2.0
"""Device code: Warp functions and kernels, one file per method, written in the scalar type of a copy (`real.py`)."""
