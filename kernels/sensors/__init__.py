# SPDX-License-Identifier: Apache-2.0
"""What sensors measure. At a state: frames, coordinates, subtrees, rays. In a step: accelerations, forces, contact."""
