"""Robot files that nobody here wrote: which load, whether they accelerate as in MuJoCo, stay calm, and how fast they are.

    python -m benchmarks.corpus FOLDER [FOLDER …] [--stages smooth speed calm] [--only WORDS …] [--rows FILE] [--page docs/corpus.md]

Every FOLDER (an unpacked package with MJCF files) is a row of the tables. A file counts when MuJoCo compiles it. --rows: a file that gets a
line of JSON per file as soon as it is known; what it has already is not done again (remove it to start anew). --page: write the page and,
beside the other results, benchmarks/results/corpus.csv.
"""

import argparse
import json
import pathlib
import sys

from benchmarks.corpus.files import corpus_files
from benchmarks.corpus.worker import STAGES, Worker


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


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=pathlib.Path)
    parser.add_argument("--stages", nargs="*", choices=STAGES, default=list(STAGES))
    parser.add_argument("--only", nargs="*", default=())
    parser.add_argument("--rows", type=pathlib.Path)
    parser.add_argument("--page", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=900.0, help="a file may take")
    arguments = parser.parse_args()
    rows = run(arguments.folders, arguments.stages, arguments.only, arguments.rows, arguments.seconds)
    from benchmarks.corpus.page import table_file, write_page

    page = write_page(rows)
    print(page)
    if arguments.page:
        arguments.page.write_text(page)
        table_file(rows, pathlib.Path("benchmarks/results/corpus.csv"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
