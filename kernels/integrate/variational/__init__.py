# SPDX-License-Identifier: Apache-2.0
"""The linear-time variational integrator."""
