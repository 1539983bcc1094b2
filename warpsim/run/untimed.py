# SPDX-License-Identifier: Apache-2.0
"""Pairs of geoms whose impacts are not resolved: their contact is compliant and acts as in an ordinary step."""

import warnings
from typing import NamedTuple

import numpy as np

from warpsim.base.reprs import fields_described
from warpsim.model.mapped_stiffness import is_mapped
from warpsim.model.model import Model

MOST = 0.5  # share of a model's pairs above which a simulator warns


@fields_described
class UntimedPairs(NamedTuple):
    """Numbers of pairs of geoms whose impacts steps do not resolve, from `sim.untimed_pairs`.

    Attributes
    ----------
    pairs : int
        All pairs of geoms of the model that may touch.
    mapped_stiffness : int
        Pairs whose stiffness is mapped from a file's `solref` or `solimp`.
    stiffness : int
        Pairs with a geom that was given a stiffness.
    hydroelastic : int
        Pairs that touch by pressure fields.
    """

    pairs: int
    mapped_stiffness: int  # a file's solref or solimp gives their contact a stiffness
    stiffness: int  # a geom has a given stiffness
    hydroelastic: int  # they touch by pressure fields

    @property
    def untimed(self) -> int:
        """Pairs of geoms whose impacts are not resolved."""
        return self.mapped_stiffness + self.stiffness + self.hydroelastic


def count_untimed(model: Model, stiffness: np.ndarray, rigid: bool) -> UntimedPairs:
    """Counts of pairs. `stiffness` (rows, ngeom) of the geoms; `rigid`: the contact model ignores stiffness."""
    soft = np.isfinite(np.atleast_2d(stiffness)).any(axis=0) & (not rigid)
    own = soft & ~is_mapped(model, stiffness)
    by_points = model.pair_geom[: model.point_pairs]
    given, softer = own[by_points].any(axis=1), soft[by_points].any(axis=1)
    counts = [int(x.sum()) for x in (softer & ~given, given)]
    return UntimedPairs(len(model.pair_geom), *counts, len(model.pair_geom) - model.point_pairs)


def warn_untimed(model: Model, rigid: bool, stacklevel: int) -> None:
    """Warn if impacts of most pairs are not resolved, and if a pair with restitution has compliant contact."""
    found = count_untimed(model, model.geom_stiffness, rigid)
    if found.untimed > MOST * found.pairs:
        why = {
            "have a stiffness mapped from solref, which mapped_stiffness=False leaves out": found.mapped_stiffness,
            "have a given stiffness": found.stiffness,
            "touch by pressure fields": found.hydroelastic,
        }
        reasons = ", ".join(f"{count} {reason}" for reason, count in why.items() if count)
        warnings.warn(
            f"impacts of {found.untimed} of {found.pairs} pairs of geoms are not resolved within steps: {reasons}",
            stacklevel=stacklevel + 1,
        )
    pair = None if rigid else _spring_that_bounces(model)
    if pair is not None:
        (a, b), e = pair, model.geom_restitution[list(pair)].max()
        warnings.warn(
            f"geoms {model.geom_names[a]!r} and {model.geom_names[b]!r} may touch with a stiffness, and their "
            f"restitution {e:g} has no effect: their contact is a spring with a dissipation_time; leave out one of "
            "them",
            stacklevel=stacklevel + 1,
        )


def _spring_that_bounces(model: Model) -> tuple[int, int] | None:
    """The first pair of geoms with restitution whose contact at points is compliant."""
    pairs = model.pair_geom[: model.point_pairs]
    soft = np.isfinite(model.geom_stiffness)[pairs].any(axis=1) & (model.geom_restitution > 0)[pairs].any(axis=1)
    return tuple(int(g) for g in pairs[int(np.argmax(soft))]) if soft.any() else None
