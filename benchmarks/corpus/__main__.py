# SPDX-License-Identifier: Apache-2.0
"""Robot files that nobody here wrote: which load, whether they accelerate as in MuJoCo, stay calm, and how fast they are.

    python -m benchmarks.corpus FOLDER [FOLDER …] [--stages smooth speed calm] [--only WORDS …] [--rows FILE] [--page benchmarks/results/corpus.md]

Every FOLDER (an unpacked package with MJCF files) is a row of the tables. A file counts when MuJoCo compiles it. --rows: a file that gets a
line of JSON per file as soon as it is known; what it has already is not done again (remove it to start anew). --page: write the tables and,
beside the other results, benchmarks/results/corpus.csv; then `python -m benchmarks.figures` brings the tables into docs/corpus.md.
"""

import argparse
import pathlib
import sys

from benchmarks.corpus.page import table_file, write_page
from benchmarks.corpus.run import run
from benchmarks.corpus.worker import STAGES


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
    page = write_page(rows)
    print(page)
    if arguments.page:
        arguments.page.write_text(page)
        table_file(rows, pathlib.Path("benchmarks/results/corpus.csv"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
