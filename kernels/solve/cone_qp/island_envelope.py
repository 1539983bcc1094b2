# SPDX-License-Identifier: Apache-2.0
"""The Newton system A + JᵀGJ of one island by one thread: what `kernels/solve/sap/newton.py` does by the lanes of a warp."""

import warp as wp

from ...linalg.loops import row_fill, sparse_add_gram, support_add_gram
from ...linalg.ltdl import ltdl_factor_envelope, ltdl_solve_envelope
from ...linalg.vector import copy_lower
from ...real import func, real
from ..problem import Problem
from ..sap.islands import Islands
from ..sap.newton import Newton, Range


@func
def widen(problem: Problem, newton: Newton, islands: Islands, w: int, support: wp.array1d(dtype=int), size: int):
    """Let the envelope hold the rows of a constraint that joins trees."""
    if problem.dof_begin[support[0]] != problem.dof_begin[support[size - 1]]:
        lowest = islands.slot[w, support[0]]
        for a in range(1, size):
            lowest = wp.min(lowest, islands.slot[w, support[a]])
        for a in range(size):
            s = islands.slot[w, support[a]]
            if lowest < newton.first[w, s]:
                row_fill(real(0.0), newton.H[w, s], lowest, newton.first[w, s])
                newton.first[w, s] = lowest


@func
def assemble(problem: Problem, newton: Newton, islands: Islands, w: int, r: Range):
    """Lower triangle of H."""
    H = newton.H[w]
    for at in range(r.tree_begin, r.tree_end):
        tree = islands.tree[w, at]
        begin = problem.tree_v[tree]
        end = problem.tree_v[tree + 1]
        if begin < end:
            s = islands.slot[w, begin]
            copy_lower(problem.A[w], begin, end, H, s, s)
            for i in range(s, s + end - begin):
                newton.first[w, i] = s
    for at in range(r.contact_begin, r.contact_end):
        c = islands.contact[w, at]
        G = newton.G[w, c]
        if G[2, 2] != real(0.0):
            pair = problem.contact_pair[w, c]
            support = problem.support[pair]
            size = problem.support_size[pair]
            widen(problem, newton, islands, w, support, size)
            support_add_gram(problem.J[w, c], support, size, G, islands.slot[w], H)
    for at in range(r.row_begin, r.row_end):
        k = islands.row[w, at]
        G_k = newton.row_G[w, k]
        if G_k != real(0.0):
            support = problem.row_support[k]
            size = problem.row_support_size[k]
            widen(problem, newton, islands, w, support, size)
            sparse_add_gram(problem.row_J[w, k], support, size, G_k, islands.slot[w], H)


@func
def prepare(problem: Problem, newton: Newton, islands: Islands, w: int, r: Range) -> int:
    """Factor H from G; 0 where it is positive definite and finite."""
    assemble(problem, newton, islands, w, r)
    return ltdl_factor_envelope(newton.H[w], r.slot_begin, r.slot_end, newton.first[w])


@func
def solve_prepared(newton: Newton, islands: Islands, w: int, r: Range, b: wp.array1d(dtype=real)):
    """b ← H⁻¹ b after `prepare`."""
    x = newton.x[w]
    for at in range(r.slot_begin, r.slot_end):
        x[at] = b[islands.dof[w, at]]
    ltdl_solve_envelope(newton.H[w], r.slot_begin, r.slot_end, newton.first[w], x)
    for at in range(r.slot_begin, r.slot_end):
        b[islands.dof[w, at]] = x[at]
