# SPDX-License-Identifier: Apache-2.0
"""Islands, the trees that active constraints join, found in every step, and their order of elimination (theory §3.4).

The nodes of the graph are trees; its edges are pairs of trees that a contact or a row joins. Every connected component
is solved by itself: a tree without contact costs nothing, and no island waits for another. Within an island, trees are
numbered breadth first from a peripheral tree, neighbours of low degree first (Cuthill and McKee 1969). The Hessian
then keeps its entries near the diagonal; rows are eliminated from the last to the first. One thread per world does
this, O(trees + constraints); all lanes list the island of a single tree.
"""

import warp as wp

from ...linalg.lanes import lane, lanes, team_count, team_rank
from ...real import SPIN, func, kernel, real, struct
from ..problem import Problem, is_idle
from .contact_laws import has_spin, point_slots

UNSEEN = wp.constant(-1)  # marks of a tree before it has an island
SWEPT = wp.constant(-2)


@struct
class Islands:
    """Lists per world. Island k has entries of `tree`, `contact` and `row` from the end of island k − 1 to its end."""

    count: wp.array(dtype=int)  # (worlds,)
    tree: wp.array2d(dtype=int)  # (worlds, trees) in the order of the trees' rows in H
    contact: wp.array2d(dtype=int)  # (worlds, C) slots, ascending within an island
    row: wp.array2d(dtype=int)  # (worlds, K) active rows, ascending within an island
    tree_end: wp.array2d(dtype=int)  # (worlds, trees + 1), entry k + 1 of island k
    contact_end: wp.array2d(dtype=int)
    row_end: wp.array2d(dtype=int)
    slot_end: wp.array2d(dtype=int)  # one past the last row of H of the island
    slot: wp.array2d(dtype=int)  # (worlds, nv) row of H of each dof
    dof: wp.array2d(dtype=int)  # (worlds, nv) the dof of each row of H
    # scratch
    of_tree: wp.array2d(dtype=int)  # (worlds, trees) island of a tree
    edge_start: wp.array2d(dtype=int)  # (worlds, trees + 1)
    edge: wp.array2d(dtype=int)  # (worlds, 2 edges) neighbours


@func
def add_edge(islands: Islands, w: int, a: int, b: int, fill: int):
    """Count the edge of trees a and b; with `fill` = 1 enter it in `edge` and advance `edge_start`."""
    for side in range(2):
        tree = a
        other = b
        if side == 1:
            tree = b
            other = a
        at = islands.edge_start[w, tree]
        if fill == 1:
            islands.edge[w, at] = other
        islands.edge_start[w, tree] = at + 1


@func
def visit_edges(problem: Problem, islands: Islands, w: int, contacts: int, fill: int):
    """Visit every edge once per patch (contacts of a pair are adjacent) and once per row."""
    last = int(-1)
    for c in range(contacts):
        p = problem.contact_pair[w, c]
        size = problem.support_size[p]
        if p != last and not is_idle(problem, w, c):
            a = problem.dof_tree[problem.support[p, 0]]
            b = problem.dof_tree[problem.support[p, size - 1]]
            if a != b:
                add_edge(islands, w, a, b, fill)
            last = p
    for k in range(problem.row_support.shape[0]):
        if problem.row_R[w, k] > real(0.0):
            for i in range(1, problem.row_support_size[k]):
                a = problem.dof_tree[problem.row_support[k, i - 1]]
                b = problem.dof_tree[problem.row_support[k, i]]
                if a != b:
                    add_edge(islands, w, a, b, fill)


@func
def degree(islands: Islands, w: int, tree: int) -> int:
    return islands.edge_start[w, tree + 1] - islands.edge_start[w, tree]


@func
def sweep(islands: Islands, w: int, root: int, begin: int, mark: int) -> int:
    """Write the trees reachable from `root` into `tree[begin:]`, breadth first, and mark them; return the end."""
    islands.tree[w, begin] = root
    islands.of_tree[w, root] = mark
    head = int(begin)
    tail = int(begin + 1)
    while head < tail:
        here = islands.tree[w, head]
        first = tail
        for e in range(islands.edge_start[w, here], islands.edge_start[w, here + 1]):
            tree = islands.edge[w, e]
            seen = islands.of_tree[w, tree]
            if seen != mark and seen < 0:
                islands.of_tree[w, tree] = mark
                at = int(tail)
                while at > first and degree(islands, w, islands.tree[w, at - 1]) > degree(islands, w, tree):
                    islands.tree[w, at] = islands.tree[w, at - 1]
                    at -= 1
                islands.tree[w, at] = tree
                tail += 1
        head += 1
    return tail


@func
def find_components(problem: Problem, islands: Islands, w: int, trees: int, contacts: int) -> int:
    """Number the trees by islands; return the number of islands."""
    for t in range(trees + 1):
        islands.edge_start[w, t] = 0
    visit_edges(problem, islands, w, contacts, 0)
    total = int(0)
    for t in range(trees):
        islands.of_tree[w, t] = UNSEEN
        n = islands.edge_start[w, t]
        islands.edge_start[w, t] = total
        total += n
    visit_edges(problem, islands, w, contacts, 1)
    for back in range(trees):  # filling moved every start to its end
        islands.edge_start[w, trees - back] = islands.edge_start[w, trees - back - 1]
    islands.edge_start[w, 0] = 0
    count = int(0)
    end = int(0)
    for t in range(trees):
        if islands.of_tree[w, t] == UNSEEN:
            root = int(t)
            if degree(islands, w, t) > 0:
                far = sweep(islands, w, t, end, SWEPT)
                root = islands.tree[w, far - 1]
            end = sweep(islands, w, root, end, count)
            islands.tree_end[w, count + 1] = end
            count += 1
    return count


@func
def contact_island(problem: Problem, islands: Islands, w: int, c: int) -> int:
    """Island of a contact; −1: the contact is idle."""
    p = problem.contact_pair[w, c]
    island = int(-1)
    if not is_idle(problem, w, c):
        island = islands.of_tree[w, problem.dof_tree[problem.support[p, 0]]]
    return island


@func
def row_island(problem: Problem, islands: Islands, w: int, k: int) -> int:
    """Island of a scalar row; −1: the row is not active."""
    island = int(-1)
    if problem.row_R[w, k] > real(0.0):
        island = islands.of_tree[w, problem.dof_tree[problem.row_support[k, 0]]]
    return island


@func
def starts_from_counts(end: wp.array1d(dtype=int), count: int):
    """Turn counts in entries 1 … count into starts; placing an entry then advances its island's start to its end."""
    total = int(0)
    for k in range(count):
        n = end[k + 1]
        end[k + 1] = total
        total += n


@func
def sort_constraints(problem: Problem, islands: Islands, w: int, contacts: int, count: int):
    """List contacts and active rows by island."""
    for k in range(count + 1):
        islands.contact_end[w, k] = 0
        islands.row_end[w, k] = 0
    for c in range(contacts):
        k = contact_island(problem, islands, w, c)
        if k >= 0:
            islands.contact_end[w, k + 1] = islands.contact_end[w, k + 1] + 1
            if SPIN:
                if has_spin(problem, w, c):
                    islands.contact_end[w, k + 1] = islands.contact_end[w, k + 1] + 1
    for r in range(problem.row_support.shape[0]):
        k = row_island(problem, islands, w, r)
        if k >= 0:
            islands.row_end[w, k + 1] = islands.row_end[w, k + 1] + 1
    starts_from_counts(islands.contact_end[w], count)
    starts_from_counts(islands.row_end[w], count)
    for c in range(contacts):
        k = contact_island(problem, islands, w, c)
        if k >= 0:
            at = islands.contact_end[w, k + 1]
            islands.contact[w, at] = c
            islands.contact_end[w, k + 1] = at + 1
    if SPIN:
        for c in range(contacts):
            k = contact_island(problem, islands, w, c)
            if k >= 0 and has_spin(problem, w, c):
                at = islands.contact_end[w, k + 1]
                islands.contact[w, at] = point_slots(problem) + c
                islands.contact_end[w, k + 1] = at + 1
    for r in range(problem.row_support.shape[0]):
        k = row_island(problem, islands, w, r)
        if k >= 0:
            at = islands.row_end[w, k + 1]
            islands.row[w, at] = r
            islands.row_end[w, k + 1] = at + 1


@func
def team_list(islands_of: wp.array1d(dtype=int), filled: int, hit: int, entry: int) -> int:
    """Append the entries of lanes with a hit at index `filled`, in lane order; return the new end. By all lanes."""
    rank = team_rank(hit)
    if hit != 0:
        islands_of[filled + rank] = entry
    return filled + team_count(hit)


@func
def team_whole(problem: Problem, islands: Islands, w: int, contacts: int):
    """List the constraints of a world whose only tree is its only island. By all lanes."""
    for d in range(lane(), problem.dof_tree.shape[0], lanes()):
        islands.slot[w, d] = d
        islands.dof[w, d] = d
    listed = wp.int32(0)
    for first in range(0, contacts, lanes()):
        c = first + lane()
        hit = wp.int32(0)
        if c < contacts:
            hit = wp.where(is_idle(problem, w, c), 0, 1)
        listed = team_list(islands.contact[w], listed, hit, c)
    if SPIN:
        for first in range(0, contacts, lanes()):
            c = first + lane()
            hit = wp.int32(0)
            if c < contacts:
                if not is_idle(problem, w, c) and has_spin(problem, w, c):
                    hit = wp.int32(1)
            listed = team_list(islands.contact[w], listed, hit, point_slots(problem) + c)
    rows = wp.int32(0)
    for first in range(0, problem.row_support.shape[0], lanes()):
        k = first + lane()
        hit = wp.int32(0)
        if k < problem.row_support.shape[0]:
            hit = wp.where(problem.row_R[w, k] > real(0.0), 1, 0)
        rows = team_list(islands.row[w], rows, hit, k)
    if lane() == 0:
        islands.tree[w, 0] = 0
        islands.of_tree[w, 0] = 0
        islands.tree_end[w, 1] = 1
        islands.slot_end[w, 1] = problem.dof_tree.shape[0]
        islands.contact_end[w, 1] = listed
        islands.row_end[w, 1] = rows


@func
def find_several(problem: Problem, islands: Islands, w: int, trees: int, contacts: int) -> int:
    """Find the islands of several trees; return their number."""
    count = find_components(problem, islands, w, trees, contacts)
    slot = int(0)
    for k in range(count):
        for at in range(islands.tree_end[w, k], islands.tree_end[w, k + 1]):
            tree = islands.tree[w, at]
            for d in range(problem.tree_v[tree], problem.tree_v[tree + 1]):
                islands.slot[w, d] = slot
                islands.dof[w, slot] = d
                slot += 1
        islands.slot_end[w, k + 1] = slot
    sort_constraints(problem, islands, w, contacts, count)
    return count


@func
def used_contacts(problem: Problem, islands: Islands, w: int) -> int:
    """Number of contact slots in use, without those of spin rows."""
    slots = islands.contact.shape[1]
    if SPIN:
        slots = point_slots(problem)
    return wp.min(problem.contacts[w], slots)


@func
def begin_lists(islands: Islands, w: int):
    """Let every list begin at 0. By one lane."""
    islands.tree_end[w, 0] = 0
    islands.slot_end[w, 0] = 0
    islands.contact_end[w, 0] = 0
    islands.row_end[w, 0] = 0


@kernel(lanes=True)
def list_whole(problem: Problem, islands: Islands):
    """`find_islands` for worlds of one tree. Launch over (worlds, lanes)."""
    w, _lane = wp.tid()
    if lane() == 0:
        begin_lists(islands, w)
        islands.count[w] = 1
    team_whole(problem, islands, w, used_contacts(problem, islands, w))


@kernel
def find_islands(problem: Problem, islands: Islands):
    """Islands of every world, their constraints, and the rows of H. Launch over worlds."""
    w = wp.tid()
    trees = problem.tree_v.shape[0] - 1
    begin_lists(islands, w)
    count = int(0)
    if trees > 0:
        count = find_several(problem, islands, w, trees, used_contacts(problem, islands, w))
    islands.count[w] = count
