# SPDX-License-Identifier: Apache-2.0
"""SAP by islands: trees, their order and the linear solver change the arithmetic, not the answer."""

import numpy as np
import pytest

from scenes.problem_samples import forest_solver, random_forest
from warpsim.solve import SAP, ContactProblem, solve_contact

TOLERANCE = 1e-12
CASES = 40
# Newton steps that an island may take beyond what its problem takes in one piece: the two take different paths.
FURTHER_STEPS = 10


@pytest.fixture(scope="module")
def forests() -> list:
    rng = np.random.default_rng(11)
    return [random_forest(rng, int(rng.integers(2, 15)), int(rng.integers(1, 31))) for _ in range(CASES)]


def relative(v, expected) -> float:
    return float(np.abs(v - expected).max() / np.abs(expected).max())


@pytest.mark.parametrize("line_search", ["exact", "backtracking"])
@pytest.mark.parametrize("linear_solver", ["cholesky", "cg"])
def test_islands_equal_one_dense_block(forests, linear_solver, line_search, within):
    """Random trees (1 to 8 dofs) with random patches between them: the same v as the whole problem solved as one block."""
    options = SAP(tolerance=TOLERANCE, linear_solver=linear_solver, line_search=line_search)
    worst, further, islands = 0.0, 0, []
    for forest in forests:
        dense = solve_contact(ContactProblem(**forest.dense()), SAP(tolerance=TOLERANCE))
        solver = forest_solver(forest, options)
        out = solver.launch()
        assert dense.flags[0] == 0 and out.status.numpy()[0] == 0
        worst = max(worst, relative(out.v.numpy()[0], dense.v[0]))
        further = max(further, int(out.iterations.numpy()[0]) - int(dense.iterations[0]))
        islands.append(int(solver.work.islands.count.numpy()[0]))
    assert min(islands) == 1 and max(islands) > 4  # both kinds were met
    within(f"{linear_solver}, {line_search}: v of islands against one block", worst, 1e-10)
    within(f"{linear_solver}, {line_search}: further Newton steps", further, FURTHER_STEPS)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_trees_without_contact_move_freely(forests, dtype):
    """A tree that nothing touches keeps v* to the last bit, whatever the others do."""
    free = 0
    for forest in forests:
        v = forest_solver(forest, SAP(), dtype).launch().v.numpy()[0]
        for t in set(range(len(forest.A))) - set(forest.trees.ravel()):
            dofs = slice(forest.tree_v[t], forest.tree_v[t + 1])
            np.testing.assert_array_equal(v[dofs], forest.v_star[t].astype(dtype))
            free += 1
    assert free > CASES


@pytest.mark.parametrize("linear_solver", ["cholesky", "cg"])
def test_the_order_of_trees_and_contacts_does_not_matter(forests, linear_solver, within):
    """Trees and contacts renumbered at random: the same velocities and impulses, renumbered."""
    rng = np.random.default_rng(12)
    options = SAP(tolerance=TOLERANCE, linear_solver=linear_solver)
    worst = worst_impulse = 0.0
    for forest in forests:
        trees, contacts = (rng.permutation(n) for n in (len(forest.A), len(forest.mu)))
        first = forest_solver(forest, options).launch()
        v, gamma = first.v.numpy()[0], first.gamma.numpy()[0]
        again = forest_solver(forest.permuted(trees, contacts), options).launch()
        worst = max(worst, relative(forest.unpermuted(again.v.numpy()[0], trees), v))
        if gamma.any():
            worst_impulse = max(worst_impulse, relative(again.gamma.numpy()[0], gamma[contacts]))
    within(f"{linear_solver}: v, renumbered", worst, 1e-10)
    within(f"{linear_solver}: impulses, renumbered", worst_impulse, 1e-8)
