# SPDX-License-Identifier: Apache-2.0
"""Contact laws: γ = P(y) and its regularisation."""
