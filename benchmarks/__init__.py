# SPDX-License-Identifier: Apache-2.0
"""Measurements, each a program: `python -m benchmarks.NAME` from the root of the checkout. README.md lists them."""
