# SPDX-License-Identifier: Apache-2.0
"""MuJoCo's time integrators."""
