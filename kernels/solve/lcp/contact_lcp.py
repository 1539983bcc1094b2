# SPDX-License-Identifier: Apache-2.0
"""The contact problem of a step as a boxed LCP (Werling et al., §4; theory §5), and its warm start between steps.

    w = (W + R) x − b ≥ 0 ⟂ x  on normals and one-sided rows,  |x_t| ≤ μ x_n on tangents,  γ = x − shift

W = J A⁻¹Jᵀ comes from `delassus.py`. Contacts are rigid (R = 0). v_n ≥ −φ/h where they are apart; v_n ≥ r |φ|/h where
they overlap (r: error reduction; at most the recovery speed); v_n ≥ −e v*_n where they meet at v_n0 < 0 with a
restitution e > 0. Scalar rows keep their compliance R and their v̂. A row with two finite bounds is shifted to
[0, u − l]. A bilateral row is eliminated beforehand, and its impulse recovered afterwards.
"""

import warp as wp

from ...contact.pair_laws import Contacts, Scene
from ...laws.contact_law import AWAY, CLOSED, FREE, STRUCK, rebound_of
from ...linalg.loops import sparse_dot
from ...real import SPIN, func, kernel, real, struct, vec3
from ..delassus import Dual
from ..problem import Problem
from ..scratch import Scratch, matrix, square, take
from .lcp import MATRICES


@struct
class Boxed:
    """The boxed LCP; its N rows are listed in `Dual`."""

    b: wp.array2d(dtype=real)  # (worlds, N)
    hi: wp.array2d(dtype=real)
    findex: wp.array2d(dtype=int)
    shift: wp.array2d(dtype=real)
    bilateral: wp.array2d(dtype=int)  # k > 0: the k-th eliminated row, x_r = E_b,r − Σ E_kj x_j
    # (worlds,) number of rows of E (bilaterals, rows); E lies in `Scratch` after the matrices of `lcp`
    bilaterals: wp.array(dtype=int)
    E_b: wp.array2d(dtype=real)


@struct
class Memory:
    """Warm start for the next step: contacts by pair and feature, and x of their rows; 0 contacts: empty."""

    count: wp.array(dtype=int)  # (worlds,)
    key: wp.array2d(dtype=int)  # (worlds, 4 max_contacts) pair, feature
    contact_x: wp.array2d(dtype=real)  # (worlds, 3 max_contacts); backward passes read it too
    row_x: wp.array2d(dtype=real)  # (worlds, K)


@func
def pair_restitution(scene: Scene, restitution: wp.array2d(dtype=real), w: int, p: int) -> real:
    """The larger restitution of the pair's geoms."""
    row = w % restitution.shape[0]
    return wp.max(restitution[row, scene.pair_geom[p, 0]], restitution[row, scene.pair_geom[p, 1]])


@func
def gap_target(phi: real, h: real, error_reduction: real, recovery: real, touching: real) -> real:
    """Target velocity of a contact that does not bounce; below φ = `touching` it is an overlap."""
    target = -phi / h
    if phi < touching:
        target = wp.min(error_reduction * target, recovery)
    return target


@func
def impact_target(e: real, v_n: real, v_n_star: real, threshold: real) -> real:
    """−e v*_n for a contact that meets at v_n < −threshold; −∞ if it does not bounce.

    Without restitution there is no impact law: the target −φ/h alone lets bodies meet and stops them there.
    """
    if e > real(0.0) and v_n < -threshold:
        return -e * v_n_star
    return -real(wp.inf)


@func
def touched_target(touch: int, plain: real, e: real, v_n: real, threshold: real) -> real:
    """Target velocity of a contact that acts in a step with impacts, without its bend. `touch`: see `ContactState`;
    `plain`: the target of a contact that no impact concerns. One that touches as the step begins rebounds at once."""
    target = plain
    if touch == STRUCK:
        target = rebound_of(e, v_n, threshold)
    elif touch == FREE:
        back = rebound_of(e, v_n, threshold)
        if back > real(0.0):
            target = wp.max(plain, back)
    elif touch == CLOSED:
        target = real(0.0)
    return target


@func
def surface_speed(surface: wp.array2d(dtype=vec3), w: int, slot: int, axis: int) -> real:
    """Velocity of the surfaces in one direction of a contact or its spin rows."""
    speed = real(0.0)
    if surface.shape[1] > 0:
        speed = surface[w, slot][axis]
    return speed


@kernel
def fill(
    problem: Problem,
    scene: Scene,
    contacts: Contacts,
    restitution: wp.array2d(dtype=real),
    h: real,
    error_reduction: real,
    threshold: real,
    surface: wp.array2d(dtype=vec3),
    dual: Dual,
    # out
    boxed: Boxed,
):
    """Compute b, bounds and shifts of every listed row. Launch over (worlds, N)."""
    w, r = wp.tid()
    if r >= dual.count[w]:
        return
    slots = problem.contact_pair.shape[1]
    source = dual.source[w, r]
    target = real(0.0)
    hi = real(wp.inf)
    findex = int(-1)
    shift = real(0.0)
    bilateral = int(0)
    if source < 3 * slots:
        c = source // 3
        axis = source - 3 * c
        p = problem.contact_pair[w, c]
        spin = bool(False)
        if SPIN:
            spin = c >= slots // 2
        if spin:
            hi = problem.mu[w, c]
            findex = 3 * (c - slots // 2) + 2
            target -= surface_speed(surface, w, c, axis)
        elif axis == 2:
            target = gap_target(contacts.phi[w, c], h, error_reduction, scene.recovery, real(0.0))
            e = pair_restitution(scene, restitution, w, contacts.pair[w, c])
            v_n = sparse_dot(problem.J[w, c, 2], problem.support[p], problem.support_size[p], problem.v0[w])
            if contacts.touch.shape[1] == 0:
                target = wp.max(target, impact_target(e, v_n, dual.u_star[w, r], threshold))
            else:
                target = touched_target(contacts.touch[w, c], target, e, v_n, threshold) - contacts.bend[w, c]
                if contacts.touch[w, c] == AWAY:  # by its bound: b = 0 leaves the scale of the others alone
                    target = dual.u_star[w, r]
                    hi = real(0.0)
        else:
            hi = problem.mu[w, c]
            findex = r - axis + 2
            target -= surface_speed(surface, w, c, axis)
    else:
        k = source - 3 * slots
        lower = problem.row_lower[w, k]
        upper = problem.row_upper[w, k]
        target = problem.row_v_hat[w, k]
        if lower == -real(wp.inf):
            bilateral = 1
        else:
            shift = -lower
            hi = upper - lower
    boxed.b[w, r] = target - dual.u_star[w, r]
    boxed.hi[w, r] = hi
    boxed.findex[w, r] = findex
    boxed.shift[w, r] = shift
    boxed.bilateral[w, r] = bilateral


@kernel
def reserve(dual: Dual, boxed: Boxed, scratch: Scratch):
    """Number the bilateral rows and take memory for the matrices. Launch over worlds."""
    w = wp.tid()
    n = dual.count[w]
    k = int(0)
    for r in range(n):
        if boxed.bilateral[w, r] > 0:
            k += 1
            boxed.bilateral[w, r] = k
    boxed.bilaterals[w] = k
    take(scratch, w, wp.int64(MATRICES) * square(n) + wp.int64(k) * wp.int64(n))


@func
def elimination(boxed: Boxed, scratch: Scratch, w: int, n: int):
    """View of E in the scratch memory."""
    return matrix(scratch, w, wp.int64(MATRICES) * square(n), boxed.bilaterals[w], n)


@kernel
def eliminate(problem: Problem, dual: Dual, boxed: Boxed, scratch: Scratch, turn: int):
    """Add R to the diagonal of W and the shifts to b; pivot on the bilateral rows, which become x = 0.

    Launch over worlds.
    """
    w = wp.tid()
    if scratch.turn[w] != turn:
        return
    n = dual.count[w]
    slots = problem.contact_pair.shape[1]
    W = matrix(scratch, w, wp.int64(0), n, n)
    E = elimination(boxed, scratch, w, n)
    for r in range(n):
        k = dual.source[w, r] - 3 * slots
        if k >= 0:
            W[r, r] = W[r, r] + problem.row_R[w, k]
    for r in range(n):
        s = boxed.shift[w, r]
        if s != real(0.0):
            for i in range(n):
                boxed.b[w, i] = boxed.b[w, i] + W[i, r] * s
    for r in range(n):
        if boxed.bilateral[w, r] > 0:
            E_r = E[boxed.bilateral[w, r] - 1]
            inverse = real(1.0) / W[r, r]
            for j in range(n):
                E_r[j] = W[r, j] * inverse
            E_r[r] = real(0.0)
            boxed.E_b[w, r] = boxed.b[w, r] * inverse
            for i in range(n):
                W_ir = W[i, r]
                if i != r and W_ir != real(0.0):
                    boxed.b[w, i] = boxed.b[w, i] - W_ir * boxed.E_b[w, r]
                    for j in range(n):
                        if j != r:
                            W[i, j] = W[i, j] - W_ir * E_r[j]
            for i in range(n):
                W[i, r] = real(0.0)
                W[r, i] = real(0.0)
            W[r, r] = real(1.0)
            boxed.b[w, r] = real(0.0)
            boxed.hi[w, r] = real(0.0)


@kernel
def recover(
    dual: Dual, boxed: Boxed, scratch: Scratch, turn: int, x: wp.array2d(dtype=real), impulse: wp.array2d(dtype=real)
):
    """γ = x − shift; recover the bilateral impulses from the last eliminated to the first. Launch over worlds."""
    w = wp.tid()
    if scratch.turn[w] != turn:
        return
    n = dual.count[w]
    E = elimination(boxed, scratch, w, n)
    for r in range(n):
        impulse[w, r] = x[w, r]
    for reverse in range(n):
        r = n - 1 - reverse
        if boxed.bilateral[w, r] > 0:
            E_r = E[boxed.bilateral[w, r] - 1]
            value = boxed.E_b[w, r]
            for j in range(n):
                value -= E_r[j] * impulse[w, j]
            impulse[w, r] = value
    for r in range(n):
        impulse[w, r] = impulse[w, r] - boxed.shift[w, r]


@func
def scalar_row(dual: Dual, w: int, r: int, slots: int) -> int:
    """Index of a listed row among the scalar rows; negative for spin rows."""
    k = dual.source[w, r] - 3 * slots
    if SPIN:
        k = k - 3 * slots
    return k


@kernel
def recall(contacts: Contacts, dual: Dual, memory: Memory, guess: wp.array2d(dtype=real)):
    """Initial x for the listed rows from the previous step, 0 for new contacts. Launch over worlds.

    Memory is a user's array: a count above its capacity, as from a damaged file, counts as empty.
    """
    w = wp.tid()
    slots = contacts.pair.shape[1]
    kept = memory.count[w]
    if kept > memory.key.shape[1] // 4:
        kept = 0
    start = int(0)  # both lists are in the order of pairs
    for c in range(wp.min(contacts.count[w], slots)):
        p = contacts.pair[w, c]
        feature = contacts.feature[w, c]
        for axis in range(3):
            guess[w, 3 * c + axis] = real(0.0)
        while start < kept and memory.key[w, 4 * start] < p:
            start += 1
        for m in range(start, kept):
            if memory.key[w, 4 * m] == p and memory.key[w, 4 * m + 1] == feature[0]:
                if memory.key[w, 4 * m + 2] == feature[1] and memory.key[w, 4 * m + 3] == feature[2]:
                    for axis in range(3):
                        guess[w, 3 * c + axis] = memory.contact_x[w, 3 * m + axis]
    for r in range(3 * wp.min(contacts.count[w], slots), dual.count[w]):
        k = scalar_row(dual, w, r, slots)
        guess[w, r] = real(0.0)  # spin rows have no warm start
        if k >= 0:
            guess[w, r] = memory.row_x[w, k]


@kernel
def remember(contacts: Contacts, dual: Dual, x: wp.array2d(dtype=real), memory: Memory):
    """Keep x as warm start of the next step. Launch over worlds."""
    w = wp.tid()
    slots = contacts.pair.shape[1]
    count = wp.min(contacts.count[w], slots)
    memory.count[w] = count
    for c in range(count):
        feature = contacts.feature[w, c]
        memory.key[w, 4 * c] = contacts.pair[w, c]
        for i in range(3):
            memory.key[w, 4 * c + 1 + i] = feature[i]
            memory.contact_x[w, 3 * c + i] = x[w, 3 * c + i]
    for k in range(memory.row_x.shape[1]):
        memory.row_x[w, k] = real(0.0)
    for r in range(3 * count, dual.count[w]):
        k = scalar_row(dual, w, r, slots)
        if k >= 0:
            memory.row_x[w, k] = x[w, r]
