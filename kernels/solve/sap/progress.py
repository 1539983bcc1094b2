# SPDX-License-Identifier: Apache-2.0
"""How far Newton's method under Coulomb's law has come on one island (`lagged.py`): solved, stalled or at its end.

No function here reads the problem: they judge the sums of `Balance` and count iterations.
"""

import warp as wp

from ...real import func, real, struct
from .coupled import Lag
from .newton import Range
from .sap import Options, Workspace, epsilon, stall_level
from .surrogate import MANY_PATIENCE, is_large

# Full steps go round in circles where the error has not fallen to this fraction of the least for so many iterations.
# Friction bounds are held at their values then: a contact whose friction presses it harder than it is pressed has no
# other way out.
CYCLE_SHRINK = 0.7
CYCLE_PATIENCE = wp.constant(2)
# After so many iterations without progress another start is tried; every fourth has more time, and more each time: near
# a fold, where a contact neither sticks nor slides, the solution is far away.
FIRST_PATIENCE = wp.constant(12)
NEXT_PATIENCE = wp.constant(16)
MORE_PATIENCE = wp.constant(8)
MOST_PATIENCE = wp.constant(64)
# Bounds are held at once there, or later in turns of so many iterations, or never.
RESTART_KINDS = wp.constant(3)
QUICK_PATIENCE = wp.constant(4)
QUICK_TURN = wp.constant(6)
ROUNDED_RESTARTS = wp.constant(8)  # an error near rounding that so many have not lowered is rounding
MOST_SHARE = 2.0  # of a step that goes on along the one before
polished_level = epsilon * 1e2  # slopes of a solution so exact need no further step


@struct
class Balance:
    """Squares of ‖D(A (v − v*) − Jᵀγ)‖ with projected impulses, ‖D Jᵀmiss‖, ‖D A v‖, ‖D Jᵀγ‖; contacts that slide."""

    momentum: real
    law: real
    scale: real
    slides: int
    misses: real  # Σ ρ‖miss‖², where those that oppose each other do not cancel, and Σ ρ‖γ‖²
    impulses: real
    error: real  # largest ρ‖miss‖ of a contact [m/s]
    force: real  # largest `force_miss`


@func
def relative_error(balance: Balance) -> real:
    """‖D(A (v − v*) − Jᵀγ)‖ or ‖D Jᵀmiss‖, the larger, in parts of the scale."""
    error = wp.sqrt(wp.max(balance.momentum, balance.law))
    if balance.scale > real(0.0):
        error = error / wp.sqrt(balance.scale)
    return error


@func
def holds_bounds(stalled: int, restarts: int) -> bool:
    """Whether friction bounds stay at their present values, after so many iterations without progress."""
    held = stalled >= CYCLE_PATIENCE
    kind = restarts % RESTART_KINDS
    if kind == 1:
        held = stalled >= QUICK_PATIENCE and (stalled - QUICK_PATIENCE) % (QUICK_TURN + QUICK_TURN) < QUICK_TURN
    if kind == 2:
        held = bool(False)
    return held


@func
def first_patience(lag: Lag, r: Range) -> int:
    """Iterations without progress before another start is tried: none without contacts, which are a convex problem."""
    patience = wp.where(is_large(lag, r), MANY_PATIENCE, FIRST_PATIENCE)
    return wp.where(r.contact_end == r.contact_begin, 0, patience)


@func
def unknown() -> Balance:
    """What is not measured before an island without contacts, a convex problem, has been solved as such."""
    balance = Balance()
    balance.momentum = real(wp.inf)
    return balance


@func
def balance_of_pass(work: Workspace, w: int, r: Range) -> Balance:
    """What a pass of the convex problem left: all there is to know of an island without contacts."""
    balance = Balance()
    squares = work.norms[w, r.island]
    balance.momentum = squares[0]
    balance.scale = wp.max(squares[1], squares[2])
    return balance


@func
def is_lost(balance: Balance) -> bool:
    """Whether something is not a number, or infinite."""
    total = balance.momentum + balance.law + balance.scale
    return total - total != real(0.0)


@struct
class Progress:
    """How far the iteration of one island has come."""

    status: int
    iterations: int
    restarts: int
    begun: int  # iterations before the present start
    patience: int  # iterations without progress before another start is tried; 0: a pass of the convex problem does it
    stalled: int  # iterations without progress
    polished: int  # 1 after a step, 2 after one from a solution: slopes are more sensitive than v
    best: real  # least error of this start
    kept: real  # least error of earlier starts, whose point is kept
    error: real
    missed: real
    forced: real  # √ of the largest `force_miss`
    limit: real  # of both, at a solution
    share: real  # of the last step
    many: bool  # an island that passes of the convex problem are to settle, see `is_large`
    fresh: bool  # nothing is known of this start
    near: bool  # it was v0
    bears: bool  # contacts stiffen under their loads
    lost: bool


@func
def begin(lag: Lag, r: Range) -> Progress:
    """Before the first start."""
    x = Progress()
    x.many = is_large(lag, r)
    x.patience = first_patience(lag, r)
    x.polished = wp.where(x.many, 2, 0)  # by a linear solver that does not polish anything
    x.kept = real(wp.inf)
    x.share = real(1.0)
    x.fresh = bool(True)
    x.near = bool(True)
    x.bears = bool(True)
    return x


@func
def judge(before: Progress, balance: Balance, options: Options, tolerance: real, held: bool) -> Progress:
    """What the present point says of the progress."""
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
    """Whether law and balance hold to the tolerance.

    A start within the tolerance is taken one step further, lest a contact at rest creeps by it in each step. A solution
    whose factor is wanted is polished already.
    """
    exact = x.error <= real(polished_level) and (x.polished > 0 or options.keep_factor == 1)
    holds = x.missed <= x.limit and x.forced <= x.limit
    return holds and (x.polished > options.keep_factor or exact or x.error == real(0.0))


@func
def is_at_end(x: Progress, options: Options) -> bool:
    """Whether no more iterations are allowed, or other starts have not lowered an error near rounding."""
    rounded = wp.where(x.many, options.max_iterations, int(ROUNDED_RESTARTS))
    return x.iterations >= options.max_iterations or (x.restarts >= rounded and x.error < real(stall_level))


@func
def is_passed(x: Progress) -> bool:
    """Whether an island without contacts has been through a pass of the convex problem, which solves most of them."""
    return x.patience == 0 and x.restarts > 0


@func
def next_patience(x: Progress) -> int:
    """Of a start after others."""
    more = wp.min(FIRST_PATIENCE + MORE_PATIENCE * x.restarts, MOST_PATIENCE)
    return wp.where(x.restarts % 4 == 3, more, NEXT_PATIENCE)


@func
def begin_again(before: Progress, iterations: int) -> Progress:
    """After another start, which took so many iterations."""
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
