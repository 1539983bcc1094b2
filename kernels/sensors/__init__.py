# SPDX-License-Identifier: Apache-2.0
"""What sensors measure: frames, coordinates, subtrees, rays at a state; accelerations, forces and contact of a step."""
