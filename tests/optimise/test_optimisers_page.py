# SPDX-License-Identifier: Apache-2.0
"""The programs of the pages of optimizers run one after the other, as printed, and do what the pages say."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
CLAIMS = {
    "optimisers": """
assert plan.controls.shape == (40, 4, 1), plan
assert np.abs(motion.q.numpy()[..., 1]).max() < 0.5
assert np.abs(shot).max() <= 1.0 and objective(best.x)[0] < 0.5 * objective(objective.x0)[0]
assert (best.loss <= best.history[0]).all() and np.abs(best.values["controls"]).max() <= 1.0
assert not safe.fallbacks.any() and safe.notes == ("",) * 4
assert (reached.q.shape, reached.position_error.shape) == ((4, arm.model.nq), (4, 1)), reached
""",
    "sampling": """
assert (plan.controls.shape, plan.effective_samples.shape) == ((40, 4, 1), (4,)), plan
assert np.abs(motion.q.numpy()[..., 1]).max() < 0.5
""",
    "identification": """
assert found.status == ["converged"] and error.shape == (4,)
off = np.log(found.parameters["body_mass"][0] / (1.3 * model.body_mass)) / error[:2]
assert np.abs(off).max() < 4, off
""",
}


@pytest.mark.parametrize("page", CLAIMS)
def test_programs_of_the_page_run_as_printed(page, tmp_path):
    """Plans have the shapes that the pages have, shooting stays within bounds, masses are found to within their standard deviations."""
    program = "\n".join(re.findall(r"```python\n(.*?)```", (ROOT / "docs" / f"{page}.md").read_text(), flags=re.S))
    file = tmp_path / "program.py"  # a kernel's source is read from its file
    file.write_text(program + CLAIMS[page])
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, str(file)], capture_output=True, text=True, env=os.environ | {"PYTHONPATH": path}
    )
    assert done.returncode == 0, done.stderr
