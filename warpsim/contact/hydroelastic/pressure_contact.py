# SPDX-License-Identifier: Apache-2.0
"""Host side of hydroelastic contact: tables of pressure fields on the device, the polygons of a step, and launches."""

import typing

import numpy as np
import warp as wp

from warpsim.kernels.contact.hydroelastic import caps as cap_kernels
from warpsim.kernels.contact.hydroelastic import fields as field_kernels
from warpsim.kernels.contact.hydroelastic import find_polygons as polygon_kernels
from warpsim.kernels.contact.hydroelastic import patches as patch_kernels
from warpsim.model.hydroelastic import has_closed_form
from warpsim.model.model import Model
from warpsim.model.pressure import pressure_tables
from warpsim.tree.dynamics import DeviceModel, Dynamics

# What represents a contact patch: its polygons (0), or this number of contact points per patch of one normal.
LEVELS = {"polygons": 0, "patch16": 16, "patch5": 5, "patch4": 4}
MOST_POLYGONS, FURTHER_POLYGONS = 192, 64  # default slots per world, and additional slots per further tree
# factor on the slots if patches reduce the polygons: a polygon then takes a tenth of the memory of a contact point
REDUCED = 3
MOST_PATCHES, FURTHER_PATCHES = 128, 12
FLAT_POINTS = 4  # contact points of a polygon between flat faces
CAP_POINTS = 4  # contact points of a sphere on a plane; one more if patches have five


class Hydroelasticity(typing.NamedTuple):
    """The hydroelastic options of a `Simulator`."""

    level: str = "patch16"
    max_polygons: int | None = None


class PressureContact:
    """Hydroelastic contact of the pairs with pressure fields. Its contact points follow the others in
    `Collision.contacts`."""

    def __init__(self, device_model: DeviceModel, dynamics: Dynamics, scene, choices: Hydroelasticity):
        model = device_model.model
        self.device_model, self.dynamics, self.scene, self.model = device_model, dynamics, scene, model
        self.pairs = np.arange(model.point_pairs, len(model.pair_geom), dtype=np.int32)
        self.caps = has_closed_form(model, self.pairs)
        self.points_per_patch = LEVELS[choices.level]
        tables = pressure_tables(model)
        self.combinations = cell_combinations(model, tables, self.pairs)
        self.max_polygons = choices.max_polygons
        if self.max_polygons is None:
            usual = MOST_POLYGONS + FURTHER_POLYGONS * self._further_trees()
            usual *= REDUCED if self.points_per_patch else 1
            self.max_polygons = int(min(usual, usual_polygons(self.combinations[~self.caps]).sum()))
        self.fields = self._upload(tables)
        self.polygons = self._polygons()
        self.capacity = self._capacity(tables)

    def _upload(self, tables):
        names, model = field_kernels.Fields.source.__annotations__, self.model
        arrays = {key: value for key, value in tables._asdict().items() if key in names}
        arrays |= {"pair": self.pairs, "cap": self.caps, "geom_type": model.geom_type, "geom_size": model.geom_size}
        if self.points_per_patch:
            # In sums over a patch, the negative pressure in the layer of a margin would act as pull. The fields
            # therefore have no shift.
            arrays["geom_shift"] = np.zeros_like(arrays["geom_shift"])
        return self.device_model.struct(field_kernels.Fields, **arrays)

    def _polygons(self):
        kept = self.max_polygons if self.points_per_patch else 0
        of_patches = dict.fromkeys(("normal", "centroid", "second", "gradient", "values"), kept)
        near = int(self.combinations[~self.caps].sum(axis=1).max(initial=0))
        sizes = {"first": len(self.pairs) + 1, "cells": self.max_polygons, "near": near}
        numbers = dict.fromkeys(("count", "patches", "depth"))
        return self.dynamics.workspace(polygon_kernels.Polygons, **numbers, **sizes, **of_patches)

    def _capacity(self, tables) -> int:
        """Largest number of contact points per world."""
        return self._polygon_points(tables) + self.points_per_cap * int(self.caps.sum())

    @property
    def points_per_cap(self) -> int:
        """Contact points of a sphere on a plane."""
        return CAP_POINTS + (self.points_per_patch == CAP_POINTS + 1)

    def _polygon_points(self, tables) -> int:
        if self.points_per_patch == 0:
            flat = bool(np.any(tables.cell_large)) and (
                bool(np.any(tables.face_large)) or np.sum(tables.cell_large) > 1
            )
            return self.max_polygons * (FLAT_POINTS if flat else 1)
        usual = MOST_PATCHES + FURTHER_PATCHES * self._further_trees()
        return self.points_per_patch * min(usual, patch_kernels.MOST_NORMALS * int(np.sum(~self.caps)))

    def _further_trees(self) -> int:
        """Number of trees that these pairs move, beyond the first."""
        bodies = self.model.geom_body[np.unique(self.model.pair_geom[self.pairs])]
        trees = np.unique(self.model.link_tree[self.model.body_link[bodies[bodies >= 0]]])
        return max(0, int(np.sum(np.diff(self.model.tree_v)[trees] > 0)) - 1)

    def sizes(self):
        """The parameters of the pressure fields, which may differ per world, in the form that kernels read."""
        stored = self.device_model.parameters.stored
        fields = {key: stored(f"geom_hydroelastic_{key}") for key in ("modulus", "thickness")}
        return self.device_model.struct(field_kernels.Sizes, size=stored("geom_size"), **fields)

    def add_contacts(self, h: float, link_V: wp.array, collision) -> None:
        """Append the contact points of the pressure fields to those that `collision` has found."""
        inputs = [self.scene, self.fields, self.sizes(), collision.material(), h / np.pi, collision.geom_X]
        inputs += [
            collision.geom_speed,
            collision.geom_capsule,
            int(self.points_per_patch == 0),
            collision.contacts,
            self.polygons,
        ]
        self.dynamics.launch(polygon_kernels.find_polygons, None, inputs)
        if self.points_per_patch:
            inputs = [self.device_model.topology, self.scene, self.fields, self.sizes(), h, self.points_per_patch]
            inputs += [self.dynamics.link_X, link_V, collision.geom_X, self.polygons, collision.contacts]
            self.dynamics.launch(patch_kernels.reduce, None, inputs)
        if self.caps.any():
            inputs = [self.scene, self.fields, self.sizes(), collision.material(), h / np.pi, self.points_per_cap]
            inputs += [collision.geom_X, collision.geom_speed, self.polygons, collision.contacts]
            self.dynamics.launch(cap_kernels.add_caps, None, inputs)


def usual_polygons(combinations: np.ndarray) -> np.ndarray:
    """Usual largest number of polygons of pairs of geoms with the given numbers of cells or faces (pairs, 2).

    Pairs that overlap by more than half may have more.
    """
    return np.minimum(combinations.prod(axis=1, dtype=np.int64), 2 * combinations.sum(axis=1))


def cell_combinations(model: Model, tables, pairs) -> np.ndarray:
    """(pairs, 2): number of cells of each geom of a pair, or of faces if it is rigid."""
    parts = np.where(tables.geom_cells[:, 1] > 0, tables.geom_cells[:, 1], tables.geom_faces[:, 1])
    return parts[model.pair_geom[pairs]]
