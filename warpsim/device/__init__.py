# SPDX-License-Identifier: Apache-2.0
"""Copies of the device code, launches, replay of graphs, and recording."""
