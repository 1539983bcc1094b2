# SPDX-License-Identifier: Apache-2.0
"""Energy that a tree gains without work: links that spin too fast for an explicit step (theory §2).

Their worlds are flagged ENERGY_GAIN.

The impulses of a step, other than those of gravity and inertia, are i = M(q0) (v' − v0) + h c, with gravity in c. They
do the work i · ½ (v0 + v'), whatever their origin. A step should end with its initial energy E0 plus that work. The
next step knows the excess, because it starts with the energy of links and gravity (springs count as forces).

Where the bias of spinning links is explicit, this error is positive and grows with h ‖ω‖ until the tree blows up.
Elsewhere it changes sign. Impacts change v too much within a step for the work to be exact. An excess therefore counts
only beyond all the work of a step, Σ |i_d v_d|. The sum of such excess over steps, relative to the largest kinetic
energy of the last second, fades in `FADING`. Only one step of `EVERY` is checked, and stands for all of them.

In a step with impacts the work is that of its solves, each in proportion to its part of v' − v (`impulse_shares.py`).
"""

import warp as wp

from ..flags import ENERGY_GAIN, NONFINITE
from ..linalg.lanes import lane, lanes, sync, team_sum
from ..linalg.loops import row_dot_at
from ..real import func, kernel, real, struct, transform, vec3, vec6, vec10
from ..solve.problem import Solution
from ..tree import spatial as sp
from ..tree.passes import Topology
from .impacts import Segments
from .impulse_shares import IMPACT, share_at

MOST = 0.25  # largest sum, relative to the kinetic energy
EVERY = 4  # steps; one of them is checked
STEP_MOST = 0.1  # largest increase in that many steps: a parameter may have been changed
FADING = 10.0  # [s] in which the sum fades
LATE = 1.0  # [s] in which the largest kinetic energy fades
# Numbers per tree in memory: the sum, the expected energy, the work that hides an excess, the mark of the velocity, and
# the recent kinetic energy.
NUMBERS = 5
# Round-off of an energy, relative to its parts.
noise = wp.constant(real({wp.float32: 4.0e-6, wp.float64: 7.0e-15}[real]))


@struct
class Motion:
    """The arrays of a step that the check reads."""

    gravity: wp.array(dtype=vec3)
    own_armature: wp.array2d(dtype=real)
    armature: wp.array2d(dtype=real)  # in M: the parameter, or more
    link_X: wp.array2d(dtype=transform)
    link_I: wp.array2d(dtype=vec10)
    link_V: wp.array2d(dtype=vec6)
    A: wp.array3d(dtype=real)  # M + h D by trees; no columns where the step forms none
    D: wp.array2d(dtype=real)
    bias: wp.array2d(dtype=real)
    force: wp.array2d(dtype=real)


@func
def impulse_at(
    topology: Topology, h: real, motion: Motion, v0: wp.array2d(dtype=real), v: wp.array2d(dtype=real), w: int,
    tree: int, d: int,
) -> real:  # fmt: skip
    """i_d."""
    begin = topology.tree_v[tree]
    n = topology.tree_v[tree + 1] - begin
    i = h * (motion.force[w, d] - motion.D[w, d] * v[w, d])
    if motion.A.shape[2] > 0:
        added = motion.armature[w % motion.armature.shape[0], d]
        added -= motion.own_armature[w % motion.own_armature.shape[0], d]
        i = row_dot_at(motion.A[w, d], n, v[w], begin) - row_dot_at(motion.A[w, d], n, v0[w], begin)
        i += h * motion.bias[w, d] - (h * motion.D[w, d] + added) * (v[w, d] - v0[w, d])
    return i


@func
def raised(sum: real, excess: real, hidden: real, kinetic: real, h: real) -> real:
    """The sum after `EVERY` more steps."""
    over = excess
    if over > real(0.0):
        over = wp.max(over - hidden, real(0.0))
    share = real(0.0)
    if over != real(0.0) and kinetic > real(0.0):
        share = real(EVERY) * over / kinetic
    if not (share <= real(STEP_MOST)):  # too large, infinite or not a number
        share = real(STEP_MOST)
    kept = sum * wp.max(real(1.0) - real(EVERY) * h / real(FADING), real(0.0))
    return wp.max(kept + wp.max(share, real(-STEP_MOST)), real(0.0))


@func
def looks(step: wp.float64, time: wp.array(dtype=wp.float64), w: int) -> int:
    """0 in a step whose work is noted, 1 in one that is compared with it, else more."""
    return int(wp.float64(EVERY) * wp.frac(time[w] / step / wp.float64(EVERY)) + wp.float64(0.5)) % EVERY


@func
def mark_of(g: vec3) -> real:
    return g[0] + real(2.0) * g[1] + real(3.0) * g[2]


@kernel(lanes=True, shares="tree")
def find_gain(
    topology: Topology,
    h: real,
    step: wp.float64,
    time: wp.array(dtype=wp.float64),
    trees: wp.array(dtype=int),
    motion: Motion,
    v0: wp.array2d(dtype=real),
    v: wp.array2d(dtype=real),
    works: int,
    # in and out
    gain: wp.array2d(dtype=real),
    flags: wp.array(dtype=int),
):
    """Sum up the energy that `trees` gain. `step`: h. `works` 0: the work is added by its solves. Launch over (worlds,
    lanes), before the step is accepted."""
    w, _lane = wp.tid()
    turn = looks(step, time, w)
    if turn > 1 or flags[w] & NONFINITE != 0:
        return
    notes = turn == 0
    g = motion.gravity[w % motion.gravity.shape[0]]
    for k in range(trees.shape[0]):
        tree = trees[k]
        at = NUMBERS * k
        o = wp.transform_get_translation(motion.link_X[w, topology.tree_reference[tree]])
        T = real(0.0)
        U = real(0.0)
        for l in range(topology.tree_link[tree] + lane(), topology.tree_link[tree + 1], lanes()):
            I = motion.link_I[w, l]
            if I[0] > real(0.0):
                V = motion.link_V[w, l]
                T += real(0.5) * wp.dot(V, sp.momentum(I, V))
                U -= wp.dot(g, vec3(I[1], I[2], I[3]) + I[0] * o)
        work = real(0.0)
        hidden = real(0.0)
        mark = real(0.0)  # of velocity and gravity: if a user has changed one in between, nothing is compared
        for d in range(topology.tree_v[tree] + lane(), topology.tree_v[tree + 1], lanes()):
            x = v0[w, d]
            T += real(0.5) * motion.own_armature[w % motion.own_armature.shape[0], d] * x * x
            if notes and works == 1:
                done = real(0.5) * (x + v[w, d]) * impulse_at(topology, h, motion, v0, v, w, tree, d)
                work += done
                hidden += wp.abs(done)
                x = v[w, d]
            mark += x
        T = team_sum(T)
        U = team_sum(U)
        mark = team_sum(mark) + mark_of(g)
        sync()
        if notes:
            gain[w, at + 1] = T + U + team_sum(work)
            gain[w, at + 2] = team_sum(hidden)
            gain[w, at + 3] = mark
        elif gain[w, at + 3] == mark:
            hides = gain[w, at + 2] + noise * (T + wp.abs(U))
            late = wp.max(T, gain[w, at + 4] * wp.max(real(1.0) - real(EVERY) * h / real(LATE), real(0.0)))
            sum = raised(gain[w, at], T + U - gain[w, at + 1], hides, late, h)
            sync()
            gain[w, at] = sum
            gain[w, at + 4] = late
        sync()
        if gain[w, at] > real(MOST):
            flags[w] = flags[w] | ENERGY_GAIN
        sync()


@kernel(lanes=True, shares="tree")
def add_work(
    topology: Topology,
    h: real,
    step: wp.float64,
    time: wp.array(dtype=wp.float64),
    trees: wp.array(dtype=int),
    motion: Motion,
    part: int,
    segments: Segments,
    solution: Solution,
    v: wp.array2d(dtype=real),
    # in and out
    gain: wp.array2d(dtype=real),
):
    """Add the work of one solve of a step with impacts; h = 0 for an impact. v: before it. Launch over (worlds,
    lanes)."""
    w, _lane = wp.tid()
    if looks(step, time, w) != 0:
        return
    for k in range(trees.shape[0]):
        tree = trees[k]
        work = real(0.0)
        hidden = real(0.0)
        for d in range(topology.tree_v[tree] + lane(), topology.tree_v[tree + 1], lanes()):
            share = share_at(segments, part, w, d)
            done = real(0.0)
            if part == IMPACT:
                done = impulse_at(topology, h, motion, v, solution.v, w, tree, d)
                done = done * real(0.5) * (v[w, d] + solution.v[w, d])
            else:
                done = share * impulse_at(topology, h, motion, segments.v, solution.v, w, tree, d)
                done = done * (segments.v[w, d] + real(0.5) * share * segments.change[w, d])
            work += done
            hidden += wp.abs(done)
        work = gain[w, NUMBERS * k + 1] + team_sum(work)
        hidden = gain[w, NUMBERS * k + 2] + team_sum(hidden)
        sync()
        gain[w, NUMBERS * k + 1] = work
        gain[w, NUMBERS * k + 2] = hidden
        sync()


@kernel(lanes=True, shares="tree")
def mark_end(
    topology: Topology,
    step: wp.float64,
    time: wp.array(dtype=wp.float64),
    trees: wp.array(dtype=int),
    motion: Motion,
    v: wp.array2d(dtype=real),
    # out
    gain: wp.array2d(dtype=real),
):
    """The mark of the velocity at the end of a step with impacts. Launch over (worlds, lanes)."""
    w, _lane = wp.tid()
    if looks(step, time, w) != 0:
        return
    g = motion.gravity[w % motion.gravity.shape[0]]
    for k in range(trees.shape[0]):
        tree = trees[k]
        mark = real(0.0)
        for d in range(topology.tree_v[tree] + lane(), topology.tree_v[tree + 1], lanes()):
            mark += v[w, d]
        mark = team_sum(mark)
        gain[w, NUMBERS * k + 3] = mark + mark_of(g)
