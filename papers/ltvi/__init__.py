# SPDX-License-Identifier: Apache-2.0
"""Lee, Liu, Park and Srinivasa, *A Linear-Time Variational Integrator for Multibody Systems*: the experiments of §4."""
