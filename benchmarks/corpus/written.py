# SPDX-License-Identifier: Apache-2.0
"""Robot files read, written by `Model.to_mjcf` and read again: is it the same model, and for MuJoCo the same robot?

    python -m benchmarks.corpus.written FOLDER [FOLDER …]

The folders are those of `make corpus`. By package: the files that load; those that come back bit for bit, from a file with its shapes beside it and from a spec; those whose
accelerations without constraints, in MuJoCo, are the original file's to 1e-10, in the norm of the mass matrix, at five random states. Each exception has a line.
"""

import argparse
import collections
import dataclasses
import pathlib
import sys
import tempfile
import warnings

import mujoco
import numpy as np

import warpsim as ws
from benchmarks.corpus.files import compiled, corpus_files, outside
from benchmarks.corpus.smooth import STATES, relative_error, unconstrained
from benchmarks.corpus.starts import place, random_states

MUJOCO = 1e-10  # relative error of MuJoCo's accelerations


def same(a, b) -> bool:
    """Whether two values of a model are equal, bit for bit."""
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(map(same, a, b))
    if hasattr(a, "items"):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    return a == b


def differing(ours: ws.Model, theirs: ws.Model) -> list[str]:
    """The fields in which two models differ; the report tells of the file, and may."""
    fields = [field.name for field in dataclasses.fields(ours) if field.name != "report"]
    return [name for name in fields if not same(getattr(ours, name), getattr(theirs, name))]


def mujocos_error(original: mujoco.MjModel, written: mujoco.MjModel) -> float:
    """Worst relative difference of MuJoCo's accelerations of two models that should be one."""
    states, found = random_states(original, STATES), []
    for m in (original, written):
        unconstrained(m)
        data, dense = mujoco.MjData(m), np.zeros((m.nv, m.nv))
        for k in range(STATES):
            place(data, states, k)
            mujoco.mj_forward(m, data)
            mujoco.mj_fullM(m, data, dense)
            found.append((data.qacc.copy(), dense.copy()))
    return max(relative_error(b, a, M) for (a, M), (b, _) in zip(found[:STATES], found[STATES:], strict=True))


def examine(file) -> tuple[list[str], float]:
    """What came back otherwise of one file, and MuJoCo's error."""
    original = compiled(str(file.path))
    model = ws.load(file.path, root=file.root)
    with tempfile.TemporaryDirectory() as folder:
        model.to_mjcf(f"{folder}/model.xml")
        differs = differing(model, ws.load(f"{folder}/model.xml"))
    written = model.to_mjspec().compile()
    differs += differing(model, ws.load(written))
    return differs, mujocos_error(original, written) if original.nv else 0.0


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=pathlib.Path)
    warnings.simplefilter("ignore")
    mujoco.set_mju_user_warning(lambda message: None)
    counts: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
    for file in corpus_files(parser.parse_args().folders):
        m = compiled(str(file.path))
        if isinstance(m, str) or outside(m):
            continue
        found = counts[file.package]
        try:
            differs, error = examine(file)
        except ws.ModelError as wrong:
            print(f"{file.package}/{file.name}: {wrong}", flush=True)
            continue
        found.update(files=1, same=not differs, mujoco=error <= MUJOCO)
        if differs or not error <= MUJOCO:
            print(
                f"{file.package}/{file.name}: {', '.join(differs)}; MuJoCo's accelerations differ by {error:.1e}",
                flush=True,
            )
    total = sum(counts.values(), collections.Counter())
    print("| package | files | the same | the same to MuJoCo |\n|---|---|---|---|")
    for name, found in [*sorted(counts.items()), ("**all**", total)]:
        print(f"| {name} | {found['files']} | {found['same']} | {found['mujoco']} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
