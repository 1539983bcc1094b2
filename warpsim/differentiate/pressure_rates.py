"""Host side of the rates of contact between pressure fields, for the backward pass of a step and for `linearize` (theory §9)."""

import numpy as np
import warp as wp

from warpsim.contact.collision import Collision
from warpsim.device.copies import copy
from warpsim.kernels.contact.hydroelastic import patch_rates
from warpsim.kernels.differentiate import contact_variation
from warpsim.kernels.differentiate import pressure_slopes as kernels

MOTIONS = list(range(6))
LAW_ROWS = 2  # c, τ_d


class PressureRates:
    """Rates of the contacts of pressure fields that a step has found, and the gradients by the motion of geom B that follow.

    `slope (worlds, C, 7)`, of φ, p, n, and `law_slope (worlds, C, 2)`, of the law, have a row each, zero but for those contacts.
    """

    def __init__(self, collision: Collision, slope: wp.array | None = None):
        self.collision, self.pressure = collision, collision.pressure
        self.dynamics, self.device_model = collision.dynamics, collision.device_model
        t, array, C = self.device_model.types, self.dynamics.array, collision.capacity
        self.slope = array((C, contact_variation.ROWS), t.vec6) if slope is None else slope
        self.law_slope = array((C, LAW_ROWS), t.vec6)
        self._make(MOTIONS)

    def _make(self, directions: list[int]) -> None:
        d, array = self.device_model, self.dynamics.array
        S, n, kept = d.types.real, len(directions), self.pressure.polygons.normal.shape[1]
        self.rates = copy(kernels.Rates, S)()
        self.rates.number = wp.array(np.array(directions, np.int32), dtype=wp.int32, device=d.device)
        self.rates.rate = array((self.collision.capacity, kernels.RATES, n), S)
        of = self.of_polygons = copy(patch_rates.PolygonRates, S)()
        t = d.types
        kinds = {"normal": t.vec3, "centroid": t.vec3, "second": t.mat33, "a": t.vec3, "values": t.vec4}
        for name, kind in kinds.items():
            setattr(of, name, array((kept, n), kind))
        of.patch = array(kept, wp.int32)

    def find(self, h: float) -> None:
        """Rates and slopes of the contacts that `collision` has found for a step of h."""
        collision, pressure, launch = self.collision, self.pressure, self.dynamics.launch
        n, X = len(self.rates.number), collision.geom_X
        fields = [collision.scene, pressure.fields, pressure.sizes(), collision.material(), h / np.pi]
        if pressure.points_per_patch:
            of, polygons = self.of_polygons, pressure.polygons
            launch(kernels.list_patches, None, [pressure.fields, polygons, of.patch])
            launch(kernels.polygon_rates, (pressure.max_polygons, n), [*fields, X, polygons, self.rates.number, of])
            inputs = [*fields, pressure.points_per_patch, X, collision.contacts, polygons, of, self.rates]
            launch(kernels.patch_slopes, (collision.capacity, n), inputs)
        else:
            launch(kernels.polygon_slopes, (collision.capacity, n), [*fields, X, collision.contacts, self.rates])
        inputs = [collision.scene, pressure.fields, X, collision.contacts, self.rates, self.slope, self.law_slope]
        launch(kernels.turn_slopes, collision.capacity, inputs)
