# SPDX-License-Identifier: Apache-2.0
"""Rollouts over many machines with Ray: actors simulate shares of the worlds and write into one store
(docs/scale.md)."""

from warpsim.cluster.cluster import ShardLost, map, resume, rollout

__all__ = ["ShardLost", "map", "resume", "rollout"]
