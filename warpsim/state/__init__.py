# SPDX-License-Identifier: Apache-2.0
"""The state of all worlds, and objects made of states: trajectories, spare states, repeated steps."""

from warpsim.state.state import FLAG_NAMES, State

__all__ = ["FLAG_NAMES", "State"]
