# SPDX-License-Identifier: Apache-2.0
"""Small robots of our own, MJCF files inside the package: `ws.load(ws.robots.path("ant"))`.

ant        four legs with two hinges each, torque motors; springs in the joints hold it up
cartpole   a pole on a cart on a rail, a force on the cart
hopper     one leg in the xz plane, torque motors
humanoid   18 hinges, torque motors
"""

import pathlib

from warpsim.base.checks import short

_FOLDER = pathlib.Path(__file__).parent


def names() -> list[str]:
    """Names of the robots that come with warpsim: a sorted list of str."""
    return sorted(file.stem for file in _FOLDER.glob("*.xml"))


def path(name: str) -> str:
    """Path of the MJCF file of a robot that comes with warpsim.

    Parameters
    ----------
    name : str
        One of `names()`: "ant", "cartpole", "hopper" or "humanoid".

    Returns
    -------
    str
        Path of the file.

    Raises
    ------
    ValueError
        There is no robot of this name. The message lists the names.

    Examples
    --------
    >>> ws.robots.names()
    ['ant', 'cartpole', 'hopper', 'humanoid']
    >>> ws.load(ws.robots.path("cartpole")).nv
    2
    """
    if name not in names():
        raise ValueError(f"no robot {short(name)}; there are: {', '.join(names())}")
    return str(_FOLDER / f"{name}.xml")
