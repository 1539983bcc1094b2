# SPDX-License-Identifier: Apache-2.0
"""The step's derivatives: the residual on the tape, and closed forms."""
