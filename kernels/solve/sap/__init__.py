# SPDX-License-Identifier: Apache-2.0
"""SAP: the convex contact solver."""
