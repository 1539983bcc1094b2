# SPDX-License-Identifier: Apache-2.0
"""The SAP contact solver, with the convex law and Coulomb's law."""
