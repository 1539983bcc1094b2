# SPDX-License-Identifier: Apache-2.0
"""Stored outputs of the tutorials: the site shows what each cell prints and draws, without running it.

    python -m docs.stored_outputs [NAME ...]     # run these tutorials (default: all) and store their outputs

`docs/tutorials/outputs/NAME.json` lists the cells of `docs/tutorials/NAME.md`: the source of each, and its outputs in
the notebook format. As a Sphinx extension this module adds the outputs to the notebook that MyST-NB reads. With
`DOCS_EXECUTE` MyST-NB runs the pages instead.
"""

import base64
import io
import json
import pathlib
import re
import sys
import tempfile
import time

TUTORIALS = pathlib.Path(__file__).parent / "tutorials"
CELL = re.compile(r"^```{code-cell} python\n(.*?)\n```$", re.S | re.M)
SHOWN = ("text/plain", "text/html", "image/png")
LARGEST = 100_000  # bytes of a picture
COLORS = 128  # of a picture's palette


def pages() -> list[pathlib.Path]:
    """The tutorials, without the table of them."""
    return sorted(path for path in TUTORIALS.glob("*.md") if path.stem != "index")


def cells(page: pathlib.Path) -> list[str]:
    """Programs of a page's cells."""
    return CELL.findall(page.read_text(encoding="utf-8"))


def outputs_of(page: pathlib.Path) -> pathlib.Path:
    """The file with a page's stored outputs."""
    return page.parent / "outputs" / f"{page.stem}.json"


def stored(page: pathlib.Path) -> list[dict]:
    """Stored cells of a page: `source` and `outputs` of each; none if nothing is stored."""
    path = outputs_of(page)
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else []


def smaller(picture: str) -> str:
    """A picture with few colors, of half the size where it is large; PNG in base64."""
    from PIL import Image

    image = Image.open(io.BytesIO(base64.b64decode(picture))).convert("RGB")
    for factor in (1, 2):
        data = io.BytesIO()
        image.reduce(factor).quantize(COLORS, dither=Image.Dither.NONE).save(data, "PNG", optimize=True)
        if len(data.getvalue()) <= LARGEST:
            return base64.b64encode(data.getvalue()).decode()
    raise ValueError(f"a picture has {len(data.getvalue()):,} bytes; draw it smaller, up to {LARGEST:,} are stored")


def plain(output: dict) -> dict | None:
    """What a page shows of an output of a cell; None: nothing."""
    if output["output_type"] == "stream":
        shown = output["name"] == "stdout"
        return {"output_type": "stream", "name": "stdout", "text": output["text"]} if shown else None
    data = {kind: output["data"][kind] for kind in SHOWN if output["data"].get(kind)}
    if "text/plain" not in data:  # a progress bar that has ended
        return None
    if "image/png" in data:
        data["image/png"] = smaller(data["image/png"])
    if "text/html" in data:
        inline = r"(?<=data:image/png;base64,)[\w+/=]+"
        data["text/html"] = re.sub(inline, lambda found: smaller(found[0]), data["text/html"])
    return {"output_type": "display_data", "data": data, "metadata": {}}


def store(page: pathlib.Path) -> float:
    """Run a page in an empty folder and store its outputs; the seconds that it took."""
    import nbclient
    import nbformat

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells(page)])
    with tempfile.TemporaryDirectory() as folder:
        options = {"timeout": 1200, "extra_arguments": ["--InlineBackend.figure_formats={'retina'}"]}
        client = nbclient.NotebookClient(notebook, resources={"metadata": {"path": folder}}, **options)
        start = time.perf_counter()
        client.execute()
        seconds = time.perf_counter() - start
    kept = [
        {"source": cell.source, "outputs": [shown for output in cell.outputs if (shown := plain(output))]}
        for cell in notebook.cells
    ]
    outputs_of(page).parent.mkdir(exist_ok=True)
    outputs_of(page).write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return seconds


def setup(app) -> None:
    """Register with Sphinx: notebooks get their stored outputs."""
    from myst_nb.core import read
    from nbformat import from_dict
    from sphinx.util import logging

    read_page = read.read_myst_markdown_notebook

    def read_with_outputs(*args, path=None, **options):
        notebook = read_page(*args, path=path, **options)
        programs = [cell for cell in notebook.cells if cell.cell_type == "code"]
        if app.config.nb_execution_mode == "off":
            page = pathlib.Path(path)
            kept = stored(page)
            app.env.note_dependency(outputs_of(page))
            if [cell["source"] for cell in kept] != [cell.source for cell in programs]:
                text = f"{page}: cells differ from the stored ones; run python -m docs.stored_outputs {page.stem}"
                logging.getLogger(__name__).warning(text)
            for program, cell in zip(programs, kept, strict=False):
                program.outputs = [from_dict(output) for output in cell["outputs"]]
        return notebook

    read.read_myst_markdown_notebook = read_with_outputs


if __name__ == "__main__":
    for name in sys.argv[1:] or [page.stem for page in pages()]:
        print(f"{name}: {store(TUTORIALS / f'{name}.md'):.0f} s")
