# SPDX-License-Identifier: Apache-2.0
"""Castro, Permenter and Han, *An Unconstrained Convex Formulation of Compliant Contact*: the figures of §VI."""
