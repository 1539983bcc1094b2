# SPDX-License-Identifier: Apache-2.0
"""Contact solvers and the problem they read."""
