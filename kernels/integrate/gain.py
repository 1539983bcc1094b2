# SPDX-License-Identifier: Apache-2.0
"""Energy that a tree gains without work (theory §2): links that spin too fast for an explicit step, flagged ENERGY_GAIN.

All impulses of a step but gravity's and those of inertia are i = M(q0) (v' − v0) + h c, c with gravity, whatever gave them: their work is i · ½ (v0 + v').
What a step ends with beyond E0 and that work, the next step knows: it begins with the energy of links and gravity, and springs are among the forces. Where the
bias of links that spin is explicit this error is positive and grows with h ‖ω‖ until the tree blows up; else it comes and goes. Impacts change v too much within
a step for the sum to be exact, so that an excess counts only beyond all the work of a step, Σ |i_d v_d|. The sum over steps of such
excess, relative to the kinetic energy, fades in `FADING`.
"""

import warp as wp

from ..flags import ENERGY_GAIN, NONFINITE
from ..linalg.lanes import lane, lanes, sync, team_sum
from ..linalg.loops import row_dot_at
from ..real import func, kernel, real, struct, transform, vec3, vec6, vec10
from ..tree import spatial as sp
from ..tree.passes import Topology

MOST = 0.25  # of the kinetic energy
STEP_MOST = 0.05  # of it in one step: a parameter may have been changed
FADING = 10.0  # [s]
NUMBERS = (
    4  # of a tree in memory: the sum; the energy expected, the work that hides an excess, the mark of the velocity
)
noise = wp.constant(real({wp.float32: 4.0e-6, wp.float64: 7.0e-15}[real]))  # of an energy, relative to its parts


@struct
class Motion:
    """What is read of a step."""

    gravity: wp.array(dtype=vec3)
    own_armature: wp.array2d(dtype=real)
    armature: wp.array2d(dtype=real)  # of the step
    link_X: wp.array2d(dtype=transform)
    link_I: wp.array2d(dtype=vec10)
    link_V: wp.array2d(dtype=vec6)
    A: wp.array3d(dtype=real)  # M + h D by trees; without columns where a step has none
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
    """The sum after one more step."""
    over = excess
    if over > real(0.0):
        over = wp.max(over - hidden, real(0.0))
    share = real(0.0)
    if over != real(0.0) and kinetic > real(0.0):
        share = over / kinetic
    if not (share <= real(STEP_MOST)):  # infinite, or not a number
        share = real(STEP_MOST)
    return wp.max(sum * wp.max(real(1.0) - h / real(FADING), real(0.0)) + wp.max(share, real(-STEP_MOST)), real(0.0))


@kernel(lanes=True, shares="tree")
def find_gain(
    topology: Topology,
    h: real,
    trees: wp.array(dtype=int),
    motion: Motion,
    v0: wp.array2d(dtype=real),
    v: wp.array2d(dtype=real),
    # in and out
    gain: wp.array2d(dtype=real),
    flags: wp.array(dtype=int),
):
    """Add the excess of the step before to the sums of `trees`, and note what this one leads to. Launch over (worlds, lanes), before the step is accepted."""
    w, _lane = wp.tid()
    g = motion.gravity[w % motion.gravity.shape[0]]
    for k in range(trees.shape[0]):
        tree = trees[k]
        T = real(0.0)
        U = real(0.0)
        mark = real(0.0)  # of a velocity: one that was written to meanwhile has another
        mark_next = real(0.0)
        for l in range(topology.tree_link[tree] + lane(), topology.tree_link[tree + 1], lanes()):
            I = motion.link_I[w, l]
            V = motion.link_V[w, l]
            T += real(0.5) * wp.dot(V, sp.momentum(I, V))
            o = wp.transform_get_translation(motion.link_X[w, topology.tree_reference[tree]])
            U -= wp.dot(g, vec3(I[1], I[2], I[3]) + I[0] * o)
        work = real(0.0)
        hidden = real(0.0)
        for d in range(topology.tree_v[tree] + lane(), topology.tree_v[tree + 1], lanes()):
            T += real(0.5) * motion.own_armature[w % motion.own_armature.shape[0], d] * v0[w, d] * v0[w, d]
            done = real(0.5) * (v0[w, d] + v[w, d]) * impulse_at(topology, h, motion, v0, v, w, tree, d)
            work += done
            hidden += wp.abs(done)
            mark += v0[w, d]
            mark_next += v[w, d]
        T = team_sum(T)
        U = team_sum(U)
        work = team_sum(work)
        hidden = team_sum(hidden)
        mark = team_sum(mark)
        mark_next = team_sum(mark_next)
        at = NUMBERS * k
        sum = gain[w, at]
        if gain[w, at + 3] == mark:
            hides = gain[w, at + 2] + noise * (T + wp.abs(U))
            sum = raised(sum, T + U - gain[w, at + 1], hides, T, h)
        sync()
        gain[w, at] = sum
        gain[w, at + 1] = T + U + work
        gain[w, at + 2] = hidden
        gain[w, at + 3] = mark_next
        if sum > real(MOST) and flags[w] & NONFINITE == 0:
            flags[w] = flags[w] | ENERGY_GAIN
        sync()
