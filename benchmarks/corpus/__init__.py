# SPDX-License-Identifier: Apache-2.0
"""Robot files that nobody here wrote, each beside MuJoCo: which load, how they accelerate, whether they stay calm, how fast they are."""
