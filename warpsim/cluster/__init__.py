# SPDX-License-Identifier: Apache-2.0
"""Rollouts over many machines, on Ray: worlds divided over actors that write into one store (docs/scale.md)."""

from warpsim.cluster.cluster import ShardLost, map, resume, rollout

__all__ = ["ShardLost", "map", "resume", "rollout"]
