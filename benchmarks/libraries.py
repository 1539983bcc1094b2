# SPDX-License-Identifier: Apache-2.0
"""Libraries beside what is our own, where docs/decisions.md says why: `python -m benchmarks.libraries`; half a minute.

Box-constrained quadratic programs: ours, SciPy's BVLS and Clarabel on the same random ones. URDF files of example-robot-data (if it is installed):
how many MuJoCo's reader takes as they lie, and why not the others. Prints; the numbers of docs/decisions.md are from here.
"""

import collections
import pathlib
import sysconfig
import time

import mujoco
import numpy as np

from warpsim.optimise.box_qp import box_qp

PROGRAMS, UNKNOWNS, BY_OTHERS = 1000, 8, 100


def quadratic_programs() -> None:
    """Milliseconds of processor time per 1,000 programs, and the largest difference to SciPy's solution."""
    import clarabel
    import scipy.sparse
    from scipy.optimize import lsq_linear

    rng = np.random.default_rng(0)
    A = rng.normal(size=(PROGRAMS, UNKNOWNS, UNKNOWNS))
    H, g = A @ A.transpose(0, 2, 1) + 0.1 * np.eye(UNKNOWNS), 3 * rng.normal(size=(PROGRAMS, UNKNOWNS))
    start = time.process_time()
    x, _ = box_qp(H, g, -np.ones_like(g), np.ones_like(g))
    ours = time.process_time() - start
    start, worst = time.process_time(), 0.0
    for i in range(BY_OTHERS):
        L = np.linalg.cholesky(H[i]).T
        found = lsq_linear(L, -np.linalg.solve(L.T, g[i]), bounds=(-1, 1), method="bvls", tol=1e-12)
        worst = max(worst, float(np.abs(found.x - x[i]).max()))
    scipys = (time.process_time() - start) * PROGRAMS / BY_OTHERS
    start = time.process_time()
    bounds = scipy.sparse.csc_matrix(np.vstack([np.eye(UNKNOWNS), -np.eye(UNKNOWNS)]))
    for i in range(BY_OTHERS):
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        problem = scipy.sparse.csc_matrix(np.triu(H[i])), g[i], bounds, np.ones(2 * UNKNOWNS)
        clarabel.DefaultSolver(*problem, [clarabel.NonnegativeConeT(2 * UNKNOWNS)], settings).solve()
    clarabels = (time.process_time() - start) * PROGRAMS / BY_OTHERS
    print(
        f"{PROGRAMS} box QPs of {UNKNOWNS} unknowns: ours {ours * 1e3:.0f} ms, SciPy BVLS {scipys * 1e3:.0f} ms, ",
        end="",
    )
    print(f"Clarabel {clarabels * 1e3:.0f} ms; largest difference to SciPy {worst:.0e}")


def urdf_files() -> None:
    """URDF files that MuJoCo's own reader takes, and the beginnings of its messages on the others."""
    files = sorted(pathlib.Path(sysconfig.get_paths()["purelib"]).glob("cmeel.prefix/share/**/*.urdf"))
    reasons: collections.Counter[str] = collections.Counter()
    for file in files:
        try:
            mujoco.MjModel.from_xml_path(str(file))
        except ValueError as error:
            reasons[str(error).split("\n")[0].split("'")[0][:60]] += 1
    print(f"{len(files)} URDF files, read by MuJoCo as they lie: {len(files) - reasons.total()}")
    for reason, count in reasons.most_common():
        print(f"  {count:3d}  {reason}")


if __name__ == "__main__":
    quadratic_programs()
    urdf_files()
