# SPDX-License-Identifier: Apache-2.0
"""Motion of trees of links: joints, poses, velocities, mass matrix, bias forces."""
