# SPDX-License-Identifier: Apache-2.0
"""A run of a simulator: its input checked, its controls, the rollout, what it is described by and the store that it
goes into."""
