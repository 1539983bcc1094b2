# SPDX-License-Identifier: Apache-2.0
"""Energy of tendon springs: ½ K δ², where δ is the length beyond the slack interval."""

import warp as wp

from ..real import kernel, real, struct, vec2


@struct
class TendonSprings:
    """The tendons that have a spring; shared by all worlds.

    The length of a spatial tendon is that of its line; the length of a fixed tendon is Σ coefficient q.
    """

    tendon: wp.array(dtype=int)
    line: wp.array(dtype=int)  # -1: a fixed tendon
    begin: wp.array(dtype=int)  # first term of each tendon
    q: wp.array(dtype=int)
    coefficient: wp.array(dtype=real)
    slack: wp.array(dtype=vec2)


@kernel
def tendon_energy(
    springs: TendonSprings,
    stiffness: wp.array2d(dtype=real),
    q: wp.array2d(dtype=real),
    line_length: wp.array2d(dtype=real),
    # out
    elastic: wp.array(dtype=real),
):
    """The elastic energy [J] of all tendons. Launch over worlds."""
    w = wp.tid()
    U = real(0.0)
    for i in range(springs.tendon.shape[0]):
        length = real(0.0)
        if springs.line[i] >= 0:
            length = line_length[w, springs.line[i]]
        for k in range(springs.begin[i], springs.begin[i + 1]):
            length += springs.coefficient[k] * q[w, springs.q[k]]
        beyond = wp.max(length - springs.slack[i][1], real(0.0)) + wp.min(length - springs.slack[i][0], real(0.0))
        U += real(0.5) * stiffness[w % stiffness.shape[0], springs.tendon[i]] * beyond * beyond
    elastic[w] = U


@kernel
def add_elastic(
    elastic: wp.array(dtype=real),
    # in and out
    potential: wp.array(dtype=real),
    total: wp.array(dtype=real),
):
    """Add the elastic energy to the potential and total energy. Launch over worlds."""
    w = wp.tid()
    potential[w] = potential[w] + elastic[w]
    total[w] = total[w] + elastic[w]
