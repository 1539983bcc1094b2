# SPDX-License-Identifier: Apache-2.0
"""Sphinx configuration of the documentation: `make docs`.

The source folder is the root of the repository, so that a link from one page to another is the same in a checkout and
on the site. `include_patterns` says which of its Markdown files are pages. The tutorials have stored outputs
(`stored_outputs`); `DOCS_EXECUTE=force` runs them instead (`make docs-nightly`).
"""

import os
import pathlib
import sys
import tomllib

ROOT = pathlib.Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]

project = "warpsim"
author = "The warpsim authors"
copyright = author
release = version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx_copybutton",
    "markdown_docstrings",
    "stored_outputs",
]
root_doc = "docs/index"
include_patterns = [
    "docs/**.md",
    "papers/**.md",
    "benchmarks/README.md",
    "benchmarks/LOG.md",
    "benchmarks/results/*.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
]
exclude_patterns = [".*", "build", "out", "dist"]
source_suffix = {".md": "myst-nb"}

myst_enable_extensions = ["deflist", "dollarmath"]
myst_heading_anchors = 4  # the same anchors as on GitHub
nb_execution_mode = os.environ.get("DOCS_EXECUTE", "off")
nb_execution_timeout = 300
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_merge_streams = True
nb_output_stderr = "remove"  # Warp says there that the machine has no GPU
highlight_language = "none"  # indented blocks are formulas

autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_typehints = "signature"
# Signatures show these names of warpsim/base/annotations.py, not what they stand for.
_ANNOTATIONS = ("Array", "Device", "DeviceName", "Element", "Numbers", "PathLike", "Progress", "Selection")
autodoc_type_aliases = {name: name for name in _ANNOTATIONS}
autodoc_mock_imports = ["jax", "ray", "torch"]
autodoc_preserve_defaults = True
add_module_names = False
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100

html_theme = "furo"
html_title = f"warpsim {release}"
html_static_path = ["static"]
html_css_files = ["warpsim.css"]
html_extra_path = ["site_root"]  # a page at the root that leads to docs/index.html
html_search_scorer = str(ROOT / "docs" / "scorer.js")
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"sidebar_hide_name": False, "navigation_with_keys": True}
copybutton_exclude = ".linenos, .gp, .go"
copybutton_prompt_text = "$ "
linkcheck_anchors = False
suppress_warnings = ["myst.header"]  # a page may skip a level of headings


def add_title(app, docname: str, source: list[str]) -> None:
    """Give a table of results the title that its file has as a name."""
    path = pathlib.PurePosixPath(docname)
    if path.parent.name == "results" and not source[0].startswith("# "):
        paper = f"{path.parts[1].upper()}: " if path.parts[0] == "papers" else ""
        source[0] = f"# {paper}{path.name.replace('_', ' ')}\n\n{source[0]}"


def setup(app) -> None:
    """Register with Sphinx."""
    app.connect("source-read", add_title)
