# SPDX-License-Identifier: Apache-2.0
"""A run over the corpus that can be interrupted: a line of JSON for every file as soon as it is known."""

import json
import pathlib
import sys

from benchmarks.corpus.files import corpus_files
from benchmarks.corpus.worker import Worker


def run(folders, stages, only=(), rows_file: pathlib.Path | None = None, seconds: float = 900.0) -> dict[str, dict]:
    """Rows by "package/file" of the files whose name has one of the words `only`; stages that `rows_file` has are kept."""
    rows: dict[str, dict] = {}
    if rows_file is not None and rows_file.exists():
        for line in rows_file.read_text().splitlines():
            row = json.loads(line)
            rows[row["file"]] = row
    worker = Worker(seconds)
    for file in corpus_files(folders):
        key = f"{file.package}/{file.name}"
        if only and not any(word in key for word in only):
            continue
        before = rows.get(key, {})
        missing = [stage for stage in stages if stage not in before.get("stages", {})]
        if before and (before["status"] != "loaded" or not missing):
            continue
        row = {"file": key, "package": file.package} | worker.row(file, missing)
        if row["status"] == "loaded":
            row["stages"] = before.get("stages", {}) | row["stages"]
        rows[key] = row
        print(json.dumps(row), file=sys.stderr, flush=True)
        if rows_file is not None:
            with rows_file.open("a") as stream:
                stream.write(json.dumps(row) + "\n")
    worker.stop()
    return rows
