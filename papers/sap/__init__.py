"""Castro, Permenter and Han, *An Unconstrained Convex Formulation of Compliant Contact*: the figures of §VI."""
