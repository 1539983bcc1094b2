# SPDX-License-Identifier: Apache-2.0
"""Progress of Newton's method under Coulomb's law on one island (`lagged.py`): solved, stalled or at its end.

These functions do not read the problem: they judge the sums of `Balance` and count iterations.
"""

import warp as wp

from ...real import func, real, struct
from .coupled import Lag
from .newton import Range
from .sap import Options, Workspace, epsilon, stall_level
from .surrogate import MANY_PATIENCE, is_large

# If the error has not fallen to this fraction of the least within so many iterations, full steps cycle. Friction bounds
# are then held at their values: a contact whose friction increases its own normal load has no other way out.
CYCLE_SHRINK = 0.7
CYCLE_PATIENCE = wp.constant(2)
# After so many iterations without progress another initial state is tried. Every fourth has more iterations, and more
# each time: near a fold, where a contact neither sticks nor slides, the solution is far away.
FIRST_PATIENCE = wp.constant(12)
NEXT_PATIENCE = wp.constant(16)
MORE_PATIENCE = wp.constant(8)
MOST_PATIENCE = wp.constant(64)
# Three kinds of restarts: bounds are held as soon as steps cycle, or later in alternating turns of so many iterations,
# or never.
RESTART_KINDS = wp.constant(3)
QUICK_PATIENCE = wp.constant(4)
QUICK_TURN = wp.constant(6)
ROUNDED_RESTARTS = wp.constant(8)  # an error near rounding that so many restarts have not lowered is rounding
MOST_SHARE = 2.0  # of a step that extends the one before
polished_level = epsilon * 1e2  # a solution with a smaller error needs no further step for its slopes


@struct
class Balance:
    """Sums over an island: squares of ‖D(A (v − v*) − Jᵀγ)‖ with projected impulses and of ‖D Jᵀmiss‖, and their scale.

    The scale is the larger of ‖D A v‖² and ‖D Jᵀγ‖².
    """

    momentum: real
    law: real
    scale: real
    slides: int  # number of sliding contacts
    misses: real  # Σ ρ‖miss‖², in which opposing misses do not cancel; `impulses`: Σ ρ‖γ‖²
    impulses: real
    opposing: real  # Σ ρ‖γ‖² over contacts and scalar rows; in the space of rows
    error: real  # largest ρ‖miss‖ of a contact [m/s]
    force: real  # largest `force_miss`


@func
def relative_error(balance: Balance) -> real:
    """The larger of ‖D(A (v − v*) − Jᵀγ)‖ and ‖D Jᵀmiss‖, relative to the scale."""
    error = wp.sqrt(wp.max(balance.momentum, balance.law))
    if balance.scale > real(0.0):
        error = error / wp.sqrt(balance.scale)
    return error


@func
def holds_bounds(stalled: int, restarts: int) -> bool:
    """Whether friction bounds stay at their present values after `stalled` iterations without progress."""
    held = stalled >= CYCLE_PATIENCE
    kind = restarts % RESTART_KINDS
    if kind == 1:
        held = stalled >= QUICK_PATIENCE and (stalled - QUICK_PATIENCE) % (QUICK_TURN + QUICK_TURN) < QUICK_TURN
    if kind == 2:
        held = bool(False)
    return held


@func
def first_patience(lag: Lag, r: Range) -> int:
    """Iterations without progress before a restart; 0 without contacts: that problem is convex."""
    patience = wp.where(is_large(lag, r), MANY_PATIENCE, FIRST_PATIENCE)
    return wp.where(r.contact_end == r.contact_begin, 0, patience)


@func
def unknown() -> Balance:
    """Balance of an island without contacts before its convex problem is solved: infinite error."""
    balance = Balance()
    balance.momentum = real(wp.inf)
    return balance


@func
def balance_of_pass(work: Workspace, w: int, r: Range) -> Balance:
    """Balance that a pass over the convex problem left; it is the whole balance of an island without contacts."""
    balance = Balance()
    squares = work.norms[w, r.island]
    balance.momentum = squares[0]
    balance.scale = wp.max(squares[1], squares[2])
    return balance


@func
def is_lost(balance: Balance) -> bool:
    """Whether a sum is NaN or infinite."""
    total = balance.momentum + balance.law + balance.scale
    return total - total != real(0.0)


@struct
class Progress:
    """State of the iteration of one island."""

    status: int
    iterations: int
    restarts: int
    begun: int  # iterations before the present initial state
    patience: int  # iterations without progress before a restart; 0: a pass over the convex problem solves the island
    stalled: int  # iterations without progress
    polished: int  # 1 after a step, 2 after a step from a solution: slopes are more sensitive than v
    best: real  # least error since the present initial state
    kept: real  # least error of earlier initial states, whose point is kept
    error: real
    missed: real
    forced: real  # √ of the largest `force_miss`
    limit: real  # bound on `missed` and `forced` at a solution
    share: real  # share of the last Newton step that was taken
    many: bool  # passes over the convex problem settle this island, see `is_large`
    fresh: bool  # the present initial state has no measured error yet
    near: bool  # the present initial state is v0
    bears: bool  # contacts stiffen under their loads
    lost: bool


@func
def begin(lag: Lag, r: Range) -> Progress:
    """State before the first iteration."""
    x = Progress()
    x.many = is_large(lag, r)
    x.patience = first_patience(lag, r)
    x.polished = wp.where(x.many, 2, 0)  # the iterative linear solver polishes nothing
    x.kept = real(wp.inf)
    x.share = real(1.0)
    x.fresh = bool(True)
    x.near = bool(True)
    x.bears = bool(True)
    return x


@func
def judge(before: Progress, balance: Balance, options: Options, tolerance: real, held: bool) -> Progress:
    """Update the progress with the balance of the present point."""
    x = before
    x.missed = wp.sqrt(wp.max(balance.momentum, balance.law))
    x.forced = wp.sqrt(balance.force)
    x.error = relative_error(balance)
    x.limit = options.absolute + tolerance * wp.sqrt(balance.scale)
    x.lost = is_lost(balance)
    if not (held and x.share >= real(MOST_SHARE)):
        x.stalled += 1
    if x.fresh or x.error < real(CYCLE_SHRINK) * x.best:
        x.best = x.error
        x.stalled = wp.int32(0)
        x.fresh = bool(False)
    return x


@func
def is_solved(x: Progress, options: Options) -> bool:
    """Whether the law and the momentum balance hold to the tolerance.

    An initial state within the tolerance gets one more step, so that a contact at rest does not creep by the tolerance
    in each time step. A solution whose factor is wanted is polished already.
    """
    exact = x.error <= real(polished_level) and (x.polished > 0 or options.keep_factor == 1)
    holds = x.missed <= x.limit and x.forced <= x.limit
    return holds and (x.polished > options.keep_factor or exact or x.error == real(0.0))


@func
def is_at_end(x: Progress, options: Options) -> bool:
    """Whether iterations are used up, or restarts have not lowered an error near rounding."""
    rounded = wp.where(x.many, options.max_iterations, int(ROUNDED_RESTARTS))
    return x.iterations >= options.max_iterations or (x.restarts >= rounded and x.error < real(stall_level))


@func
def is_passed(x: Progress) -> bool:
    """Whether an island without contacts has had its pass over the convex problem, which solves most of them."""
    return x.patience == 0 and x.restarts > 0


@func
def next_patience(x: Progress) -> int:
    """Iterations without progress before the next restart."""
    more = wp.min(FIRST_PATIENCE + MORE_PATIENCE * x.restarts, MOST_PATIENCE)
    return wp.where(x.restarts % 4 == 3, more, NEXT_PATIENCE)


@func
def begin_again(before: Progress, iterations: int) -> Progress:
    """Progress after a restart that took `iterations`."""
    x = before
    x.iterations += iterations
    x.kept = wp.where(x.error < x.kept, x.error, x.kept)
    x.begun = x.iterations
    x.restarts += 1
    x.polished = wp.max(x.polished, 1)
    if x.patience > 0:
        x.patience = next_patience(x)
    x.fresh = bool(True)
    x.stalled = wp.int32(0)
    return x
