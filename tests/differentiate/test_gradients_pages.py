# SPDX-License-Identifier: Apache-2.0
"""The programs of docs/gradients.md and docs/impact_gradients.md run one after the other, as printed, and do what the pages say."""

import importlib.util
import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
CLAIMS = {
    "gradients": """
assert (start.q.grad.shape, start.v.grad.shape) == ((4, model.nq), (4, model.nv))
assert (controls.grad.shape, sim.parameters["body_mass"].grad.shape) == ((40, 4, model.nu), (4, model.nbody))
assert np.abs(controls.grad.numpy()).max() > 0 and np.abs(sim.parameters["body_mass"].grad.numpy()).max() > 0
assert sim.parameters.shared_gradient("body_mass").shape == (1, model.nbody)
assert motion.gradient_norms.shape == (41, 4)
n = 2 * model.nv
assert (J.A.shape, J.B.shape, J.tau.shape) == ((4, n, n), (4, n, model.nu), (4, n, model.nv))
assert J.parameters["body_mass"].shape == (4, n, model.nbody)
assert (change.shape, many.shape) == ((4, n), (2, 4, n))
np.testing.assert_allclose(np.asarray(change), J.A.numpy()[:, :, 0], atol=1e-9 * np.abs(J.A.numpy()).max())
assert found.product.shape == objective.x0.shape and gradient.shape == objective.x0.shape
""",
    "impact_gradients": """
assert abs(slope_by_height(True) / true - 1) < 0.05 and round(slope_by_height(False) / true, 1) == -3.9
""",
}


@pytest.mark.parametrize("page", CLAIMS)
def test_programs_of_the_page_run_as_printed(page, tmp_path):
    """Arrays have the shapes that the page has, `jvp` is a column of `linearize`, and the slope through an impact is that of the motion."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / f"{page}.md").read_text(), flags=re.S)
    for package in ("torch", "jax"):
        if importlib.util.find_spec(package) is None:
            blocks = [block for block in blocks if f"import {package}\n" not in block]
    assert blocks
    file = tmp_path / "program.py"  # a kernel's source is read from its file
    file.write_text("\n".join(blocks) + CLAIMS[page])
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, str(file)], capture_output=True, text=True, env=os.environ | {"PYTHONPATH": path}
    )
    assert done.returncode == 0, done.stdout + done.stderr
