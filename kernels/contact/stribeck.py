# SPDX-License-Identifier: Apache-2.0
"""Stribeck's law: friction falls with the sliding speed of a contact at the beginning of the step (theory §3.1)."""

import warp as wp

from ..laws.contact_law import RULE_EXPLICIT, pair_coefficient
from ..real import func, kernel, real, struct, vec2, vec3
from .pair_laws import Contacts, Scene, friction_coefficient, rule_of

# At larger (v/v_s)² friction is the dynamic one: exp(−(v/v_s)²) is negligible, and its derivatives are not finite.
FAST = 80.0


@struct
class Friction:
    """Friction coefficients of geoms, shared or per world.

    A geom with a dynamic coefficient of NaN has none: its `friction` holds at any speed.
    """

    friction: wp.array2d(dtype=real)
    dynamic: wp.array2d(dtype=real)
    velocity: wp.array2d(dtype=real)  # [m/s]


@func
def friction_at(static: real, dynamic: real, velocity: real, rate: vec3) -> real:
    """μ of a geom at a contact with the relative velocity `rate` [m/s], in the contact frame."""
    mu = static
    if dynamic == dynamic:
        mu = dynamic
        if rate[0] * rate[0] + rate[1] * rate[1] <= real(FAST) * velocity * velocity:
            x = vec2(rate[0] / velocity, rate[1] / velocity)
            mu = dynamic + (static - dynamic) * wp.exp(-wp.dot(x, x))
    return mu


@func
def sliding_friction(scene: Scene, of: Friction, w: int, p: int, rate: vec3) -> real:
    """μ of a contact of pair p with the relative velocity `rate`: the pair's rule applied to μ of its two geoms.

    A pair with RULE_EXPLICIT keeps its constant μ, and a pair without friction stays without.
    """
    mu = friction_coefficient(scene, of.friction, w, p)
    rule = rule_of(scene, p)
    if mu > real(0.0) and rule != RULE_EXPLICIT:
        a = scene.pair_geom[p, 0]
        b = scene.pair_geom[p, 1]
        s = w % of.friction.shape[0]
        d = w % of.dynamic.shape[0]
        v = w % of.velocity.shape[0]
        mu_a = friction_at(of.friction[s, a], of.dynamic[d, a], of.velocity[v, a], rate)
        mu_b = friction_at(of.friction[s, b], of.dynamic[d, b], of.velocity[v, b], rate)
        mu = pair_coefficient(rule, mu_a, mu_b, real(0.0))
    return mu


@kernel
def slide(scene: Scene, contacts: Contacts, of: Friction, v0: wp.array2d(dtype=real), mu: wp.array2d(dtype=real)):
    """μ at the velocity v0, for all contacts with friction. Launch over (worlds, max_contacts)."""
    w, c = wp.tid()
    if c < contacts.count[w] and mu[w, c] > real(0.0):
        row = contacts.row[w, c]
        rate = vec3()
        for k in range(scene.support_size[row]):
            J = vec3(contacts.J[w, c, 0, k], contacts.J[w, c, 1, k], contacts.J[w, c, 2, k])
            rate += J * v0[w, scene.support[row, k]]
        mu[w, c] = sliding_friction(scene, of, w, contacts.pair[w, c], rate)
