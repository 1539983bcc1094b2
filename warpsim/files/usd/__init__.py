# SPDX-License-Identifier: Apache-2.0
"""Read and write USD stages."""
