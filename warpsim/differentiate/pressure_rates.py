# SPDX-License-Identifier: Apache-2.0
"""Host side of the rates of contacts between pressure fields (theory §9).

The backward pass of a step and `linearize` use them.
"""

import numpy as np
import warp as wp

from warpsim.contact.collision import Collision
from warpsim.device.copies import Variant, copy, launch
from warpsim.kernels.contact.hydroelastic import fields, listed
from warpsim.kernels.differentiate import contact_variation
from warpsim.kernels.differentiate import pressure_rates as kernels
from warpsim.kernels.differentiate import pressure_slopes as slopes
from warpsim.tree.dynamics import Dynamics

LAW_ROWS = 2  # c, τ_d
MOTIONS = 6
# The directions of each parameter (`kernels/differentiate/pressure_rates.py`): of the soft geom, and of the other geom.
PARAMETERS = {
    "geom_hydroelastic_modulus": range(6, 8),
    "geom_size": range(8, 14),
    "geom_hydroelastic_thickness": range(14, 16),
    "geom_dissipation_time": range(16, 18),
}


class PressureRates:
    """Rates of the contacts between pressure fields that a step has found, and the gradients that follow from them.

    Gradients with respect to the motion of geom B: `slope (worlds, C, 7)` of φ, p, n and `law_slope (worlds, C, 2)` of
    the law. Every contact has a row, which is zero for other contacts. `parameter_slope (worlds, C, 9)` is the gradient
    of all of these with respect to the parameters that `choose` names.
    """

    def __init__(self, collision: Collision, slope: wp.array | None = None):
        self.collision, self.pressure = collision, collision.pressure
        self.dynamics, self.device_model = collision.dynamics, collision.device_model
        t, array, C = self.device_model.types, self.dynamics.array, collision.capacity
        self.slope = array((C, contact_variation.ROWS), t.vec6) if slope is None else slope
        self.law_slope = array((C, LAW_ROWS), t.vec6)
        model, pairs = self.device_model.model, self.pressure.pairs
        first, second = model.pair_geom[pairs].T
        soft = np.where(np.isfinite(model.geom_hydroelastic_modulus[first]), first, second)
        self.soft = wp.array(soft.astype(np.int32), dtype=wp.int32, device=self.device_model.device)
        self._chosen: tuple[str, ...] | None = None
        self.choose(())

    def choose(self, names) -> None:
        """Also find slopes with respect to these parameters. Allocates when the names change."""
        names = tuple(name for name in PARAMETERS if name in names)
        if names != self._chosen:
            self._chosen = names
            self._make([*range(MOTIONS), *(k for name in names for k in PARAMETERS[name])])

    def _make(self, directions: list[int]) -> None:
        d, array, C = self.device_model, self.dynamics.array, self.collision.capacity
        t, n, kept = d.types, len(directions), self.pressure.polygons.normal.shape[1]
        self.number = wp.array(np.array(directions, np.int32), dtype=wp.int32, device=d.device)
        self.rate = array((C, slopes.RATES, n), t.real)
        self.parameter_slope = array((C if n > MOTIONS else 0, slopes.RATES), wp.types.vector(12, t.real))
        self.polygons = copy(listed.MovingPolygons, t.real)()
        self.polygons.fixed = self.pressure.polygons
        kinds = {"normal": t.vec3, "centroid": t.vec3, "second": t.mat33, "gradient": t.vec3, "values": t.vec4}
        for name, kind in kinds.items():
            setattr(self.polygons, name, array((kept, n), kind))

    def find(self, h: float) -> None:
        """Rates and slopes of the contacts that `collision` has found for a step of h."""
        collision, pressure, X = self.collision, self.pressure, self.collision.geom_X
        fields = [collision.scene, pressure.fields, pressure.sizes(), collision.material(), h / np.pi]
        contacts, found = collision.contacts, [self.number, self.rate]
        if pressure.points_per_patch:
            self._launch(kernels.polygon_rates, pressure.max_polygons, [*fields, X, self.number, self.polygons])
            inputs = [*fields, pressure.points_per_patch, X, contacts, self.polygons, *found]
            self._launch(kernels.patch_point_rates, None, inputs)
        else:
            self._launch(kernels.polygon_point_rates, collision.capacity, [*fields, X, contacts, *found])
        if pressure.caps.any():
            inputs = [*fields, pressure.points_per_cap, X, contacts, *found]
            self._launch(kernels.cap_point_rates, None, inputs)
        inputs = [collision.scene, pressure.fields, X, contacts, *found, self.slope, self.law_slope]
        self.dynamics.launch(slopes.turn_slopes, collision.capacity, [*inputs, self.parameter_slope])

    def _launch(self, kernel, n: int | None, inputs) -> None:
        """Launch the copy with dual numbers over (worlds, n, directions), or over (worlds, directions)."""
        d, each = self.device_model, () if n is None else (n,)
        dim = (d.worlds, *each, len(self.number))
        launch(kernel, Variant(d.types.real, dual=True), dim, inputs, device=d.device)

    def record(self, dynamics: Dynamics, *results: wp.array) -> None:
        """Record φ, p, frame and law of these contacts on a tape, at the configuration of `dynamics`.

        Their values are those found, and their derivatives are the slopes.
        """
        collision, sizes = self.collision, self.pressure.sizes()
        tau = self.device_model.parameters.stored("geom_dissipation_time")
        frozen = copy(slopes.Frozen, self.device_model.types.real)()
        frozen.geom_X, frozen.slope, frozen.law_slope = collision.geom_X, self.slope, self.law_slope
        frozen.parameter_slope = self.parameter_slope
        found = {name: without_gradient(getattr(sizes, name)) for name in sizes._cls.vars}
        frozen.sizes = self.device_model.struct(fields.Sizes, **found)
        frozen.dissipation_time = without_gradient(tau)
        inputs = [collision.scene, collision.contacts, frozen, self.soft, self.device_model.plant(), dynamics.link_X]
        dynamics.launch(slopes.pressure_geometry, collision.capacity, [*inputs, sizes, tau, *results])


def without_gradient(array: wp.array) -> wp.array:
    """The same memory as an array without a gradient."""
    if array.grad is None:
        return array
    return wp.array(ptr=array.ptr, dtype=array.dtype, shape=array.shape, device=array.device)
