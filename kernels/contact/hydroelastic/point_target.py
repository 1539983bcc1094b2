# SPDX-License-Identifier: Apache-2.0
"""Output of hydroelastic contact points: the list of contacts, in copies with dual numbers the rates of contacts."""

import warp as wp

from ...number.num import num, num3, rate_of, rates_of, value_of, values_of
from ...real import DUAL, func, real, struct, transform, vec2
from ..narrow.features import contact_frame
from ..pair_laws import Contacts


@struct
class Rates:
    """Rates of change of contacts along one direction: of φ, point, normal (both in world axes), c and τ_d."""

    rate: wp.array4d(dtype=real)  # (worlds, C, 9, directions)
    direction: int


Target = Rates if DUAL else Contacts


@func
def room_of(target: Target) -> int:
    """Largest number of contacts per world."""
    room = int(0)
    if DUAL:
        room = target.rate.shape[1]
    else:
        room = target.pair.shape[1]
    return room


@func
def place_point(
    target: Target, w: int, c: int, p: int, feature: wp.vec3i, X_s: transform, sign: real, m: num3, x: num3,
    phi: num, softness: num, tau: num,
):  # fmt: skip
    """Write contact c: point x and normal sign·m (both in the frame of S), φ, compliance c [m/N] and τ_d."""
    if DUAL:
        k = target.direction
        x_rate = wp.transform_vector(X_s, rates_of(x))
        n_rate = sign * wp.transform_vector(X_s, rates_of(m))
        target.rate[w, c, 0, k] = rate_of(phi)
        for i in range(3):
            target.rate[w, c, 1 + i, k] = x_rate[i]
            target.rate[w, c, 4 + i, k] = n_rate[i]
        target.rate[w, c, 7, k] = rate_of(softness)
        target.rate[w, c, 8, k] = rate_of(tau)
    else:
        target.pair[w, c] = p
        target.feature[w, c] = feature
        target.phi[w, c] = value_of(phi)
        target.point[w, c] = wp.transform_point(X_s, values_of(x))
        target.frame[w, c] = contact_frame(sign * wp.transform_vector(X_s, values_of(m)))
        target.compliance[w, c] = vec2(value_of(softness), value_of(tau))
