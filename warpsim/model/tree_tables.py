# SPDX-License-Identifier: Apache-2.0
"""The tables of a model's trees that follow from its links, and whether those of a model from a file of arrays are so."""

import numpy as np

from warpsim.base.errors import ModelError
from warpsim.model.model import JOINT_NQ, JOINT_NV, JointType, Model


def check_trees(model: Model) -> None:
    """Raise `ModelError` where links are not numbered depth first, a body's one after the other, or a table does not follow from them."""
    _check_order(model)
    for name, expected in _tables(model).items():
        found = getattr(model, name)
        if not np.array_equal(found, expected):
            at = np.argmax(found != expected) if found.shape == expected.shape else 0
            raise ModelError(
                f"{name}[{at}] is {found[at] if len(found) else 'missing'}; by the types and parents of the links it must be "
                f"{expected[at] if len(expected) else 'missing'}"
            )


def _check_order(model: Model) -> None:
    """Links come depth first; the links of a body are a chain, which begins at the last link of the body's parent."""
    parents, bodies, types = (x.tolist() for x in (model.link_parent, model.link_body, model.link_type))
    path: list[int] = []  # from the root to the link before
    seen: set[int] = set()
    for link, (parent, body) in enumerate(zip(parents, bodies, strict=True)):
        if parent >= link:
            raise ModelError(f"link_parent[{link}] is {parent}: a link must come after its parent")
        if link and body == bodies[link - 1]:
            if parent != link - 1 or JointType.FIXED in (types[link], types[link - 1]):
                raise ModelError(f"link_parent[{link}] is {parent}: the links of a body must be a chain of joints")
        else:
            while path and path[-1] != parent:
                path.pop()
            if body in seen or (parent >= 0 and (not path or bodies[parent + 1] == bodies[parent])):
                raise ModelError(
                    f"link_parent[{link}] is {parent}: links must come depth first, and begin where a body ends"
                )
            seen.add(body)
        path.append(link)
    if len(seen) != model.nbody:
        raise ModelError(f"link_body has links of {len(seen)} bodies; there are {model.nbody}")


def _tables(model: Model) -> dict[str, np.ndarray]:
    """What the tables of joints, degrees of freedom, bodies and trees must be."""
    types, parent, body = model.link_type, model.link_parent, model.link_body
    nlink, roots = len(types), np.flatnonzero(parent < 0)
    sizes = {"q": JOINT_NQ, "v": JOINT_NV}
    count = {key: np.array([size[JointType(t)] for t in types.tolist()], int) for key, size in sizes.items()}
    first = {key: np.concatenate([[0], np.cumsum(n)]) for key, n in count.items()}
    jointed = types != JointType.FIXED
    links = np.flatnonzero(jointed)
    last = np.zeros(model.nbody, int)
    last[body] = np.arange(nlink)  # the last one stays
    tree = np.cumsum(parent < 0) - 1
    begins = np.append(body[1:] != body[:-1], True)[: len(body)]  # where the next link is another body's
    start = np.append(True, begins[:-1])[:nlink]
    above = np.where(parent < 0, -1, body[parent]) if nlink else body
    parents = np.zeros(model.nbody, int)
    parents[body[start]] = above[start]
    return {
        "link_q": first["q"][:-1],
        "link_v": first["v"][:-1],
        "link_tree": tree,
        "link_joint": np.where(jointed, np.cumsum(jointed) - 1, -1),
        "body_link": last,
        "body_parent": parents,
        "joint_link": links,
        "joint_type": types[links],
        "joint_body": body[links],
        "joint_q": first["q"][:-1][links],
        "joint_v": first["v"][:-1][links],
        "tree_link": np.append(roots, nlink),
        "tree_v": np.append(first["v"][:-1][roots], first["v"][-1]),
        "tree_reference": last[body[roots]],
        "dof_link": np.repeat(np.arange(nlink), count["v"]),
        "dof_parent": _dof_parents(parent, count["v"], first["v"]),
    }


def _dof_parents(parent: np.ndarray, count: np.ndarray, first: np.ndarray) -> np.ndarray:
    """`(nv,)` the next degree of freedom towards the root."""
    found = np.arange(first[-1]) - 1
    last: list[int] = []  # of each link: the last degree of freedom on the way from the root
    for link, above in enumerate(parent.tolist()):
        before = last[above] if above >= 0 else -1
        n = int(count[link])
        if n:
            found[first[link]] = before
        last.append(int(first[link]) + n - 1 if n else before)
    return found
