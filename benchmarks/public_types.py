# SPDX-License-Identifier: Apache-2.0
"""Whether every public name has a complete type, by `pyright --verifytypes`: `python -m benchmarks.public_types`, or `make types`.

Public are the names of `warpsim.__all__` and, of classes among them, what does not begin with an underscore. Prints what is not known and
why; exit code 1 if there is anything. Types that come from packages without any are not counted.
"""

import inspect
import json
import os
import pathlib
import re
import subprocess
import sys

import warpsim


def homes() -> set[str]:
    """Where each public name is defined, as pyright calls it."""
    found = set()
    for name in warpsim.__all__:
        value = getattr(warpsim, name)
        if inspect.ismodule(value):
            public = getattr(value, "__all__", None) or [
                n for n, v in vars(value).items() if getattr(v, "__module__", None) == value.__name__ and n[0] != "_"
            ]
            found |= {f"{value.__name__}.{n}" for n in public}
        elif hasattr(value, "__qualname__"):
            found.add(f"{value.__module__}.{value.__qualname__}")
        else:
            found.add(f"{warpsim._HOME[name]}.{name}")
    return found


def verified() -> list[dict]:
    """Pyright's report on every symbol of the package that this interpreter finds."""
    path = os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ.get("PATH", "")])
    command = [sys.executable, "-m", "pyright", "--verifytypes", "warpsim", "--ignoreexternal", "--outputjson"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PATH": path})
    try:
        return json.loads(done.stdout)["typeCompleteness"]["symbols"]
    except (ValueError, KeyError):
        raise RuntimeError(f"pyright gave no report: {done.stdout[-2000:]}{done.stderr[-2000:]}") from None


def main() -> int:
    """Print the public symbols without a complete type; the number of them."""
    public = homes()
    seen, bad = 0, 0
    for symbol in verified():
        owner = next((home for home in public if symbol["name"] == home or symbol["name"].startswith(home + ".")), None)
        member = symbol["name"].rsplit(".", 1)[-1]
        if owner is None or not symbol["isExported"] or re.match(r"_(?!_)", member):
            continue
        seen += 1
        if not symbol["isTypeKnown"]:
            bad += 1
            print(symbol["name"])
            for line in symbol["diagnostics"]:
                print("    " + line["message"].replace("\n", "\n    "))
    if seen < len(public):
        raise RuntimeError(f"pyright saw {seen} public symbols, fewer than there are names, {len(public)}")
    print(f"{seen} public symbols, {bad} without a complete type")
    return int(bad > 0)


if __name__ == "__main__":
    raise SystemExit(main())
