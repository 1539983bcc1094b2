# SPDX-License-Identifier: Apache-2.0
"""Robot files of installed packages, found without importing the packages."""

import importlib.metadata

# package -> the command that installs it; mjlab's own dependencies pin another MuJoCo and are not needed for its files
INSTALL = {
    "example-robot-data": "pip install example-robot-data",
    "mjlab": "pip install --no-deps mjlab",
}


def robot_file(end: str, package: str = "example-robot-data") -> str:
    """A file of an installed package whose path ends with `end`.

    Raises `ValueError` without the package or the file, and says how to install it.

    Examples
    --------
    >>> robot_file("unitree_go1/xmls/go1.xml", "mjlab")  # doctest: +SKIP
    """
    try:
        found = [f for f in importlib.metadata.files(package) or [] if str(f).endswith(end)]
    except importlib.metadata.PackageNotFoundError:
        found = []
    if not found:
        raise ValueError(f"{end} is of the package {package}: {INSTALL.get(package, f'pip install {package}')}")
    return str(found[0].locate())
