# SPDX-License-Identifier: Apache-2.0
"""Diagnostics per world and contact forces per body, as attributes and primvars of an animated stage.

- on prims: `warpsim:<diagnostic>` on the Xform of each world, `warpsim:contactForce` [N] on those of its bodies
- on instances: arrays `warpsim:<diagnostic>` of all worlds on the instancer, and the primvar `warpsim:contactForce` of
  each instance

A row belongs to the step before its frame; the first frame has the values of the first step. A value is written only
where it changes.
"""

import numpy as np

from warpsim.base.checks import numbers, short
from warpsim.files.usd.usd_values import vec3
from warpsim.files.usd.usd_worlds import ROBOTS
from warpsim.model.host_kinematics import row_chunks

FORCE = "warpsim:contactForce"
SCALAR_BYTES = 120  # memory of one sample of a number in an unsaved layer


class Recorded:
    """Diagnostics and contact forces of the chosen worlds.

    Raises `ValueError` if there are none, or shapes do not fit.
    """

    def __init__(self, trajectory, chosen, diagnostics: bool, contact_forces):
        self.trajectory, self.chosen = trajectory, chosen
        self.names = list(trajectory.diagnostics) if diagnostics else []
        if diagnostics and not self.names:
            raise ValueError("diagnostics=True: this trajectory has none; they are recorded by sim.rollout")
        for name in self.names:
            _check_name(name, contact_forces is not None)
        self.forces = None if contact_forces is None else numbers(contact_forces, "contact_forces")
        expected = (trajectory.steps, trajectory.worlds, trajectory.model.nbody, 3)
        if self.forces is not None and self.forces.shape != expected:
            raise ValueError(
                f"contact_forces has shape {self.forces.shape}; it must be (steps, worlds, nbody, 3) = {expected}, "
                "sim.contact_force() after each step"
            )
        if not trajectory.steps and (diagnostics or self.forces is not None):
            raise ValueError("a trajectory without steps has neither diagnostics nor contact forces to write")

    def on_prims(self, output, rows, owners: list, bodies: list[list]) -> None:
        """Write both on the prims of the chosen worlds and on the prims of their bodies."""
        from pxr import Sdf

        for name in self.names:
            kind = self._kind(name)[0]
            held = [_Held(output, p.CreateAttribute(f"warpsim:{name}", kind, True)) for p in owners]
            for frame, values in self._rows(name, rows):
                for one, value in zip(held, values.tolist(), strict=True):
                    one.set(value, value, frame, SCALAR_BYTES)
        if self.forces is not None:
            kind = Sdf.ValueTypeNames.Vector3f
            held = [_Held(output, p.CreateAttribute(FORCE, kind, True)) for prims in bodies for p in prims]
            for frame, step in enumerate(_steps(rows)):
                values = self.forces[step, self.chosen].reshape(-1, 3).tolist()
                for one, value in zip(held, values, strict=True):
                    one.set(value, vec3(value), frame, SCALAR_BYTES)

    def on_instances(self, output, stage, rows, drawn) -> None:
        """Write both on the instancer of the chosen worlds, whose instances are the drawn bodies of each world."""
        from pxr import Sdf, UsdGeom, Vt

        prim = stage.GetPrimAtPath(ROBOTS)
        for name in self.names:
            kind, array, dtype = self._kind(name)
            held = _Held(output, prim.CreateAttribute(f"warpsim:{name}", kind.arrayType, True))
            for frame, values in self._rows(name, rows):
                values = np.ascontiguousarray(values, dtype)
                held.set(values.tolist(), array.FromNumpy(values), frame, values.nbytes)
        if self.forces is not None:
            api, kind = UsdGeom.PrimvarsAPI(prim), Sdf.ValueTypeNames.Vector3fArray
            attribute = api.CreatePrimvar(FORCE, kind, UsdGeom.Tokens.vertex).GetAttr()
            for frame, step in enumerate(_steps(rows)):
                values = np.ascontiguousarray(self.forces[step, self.chosen][:, drawn].reshape(-1, 3), np.float32)
                output.sample(attribute, Vt.Vec3fArray.FromNumpy(values), frame, values.nbytes)

    def _rows(self, name: str, rows):
        """Yield (frame, values of the chosen worlds) of a diagnostic."""
        frame = 0
        for part in row_chunks(_steps(rows), 8 * self.trajectory.worlds):
            for values in self.trajectory.rows(name, part):
                yield frame, values[self.chosen]
                frame += 1

    def _kind(self, name: str):
        """USD's type of a diagnostic, its USD array, and its NumPy type."""
        from pxr import Sdf, Vt

        dtype, types = self.trajectory.rows(name, [0]).dtype, Sdf.ValueTypeNames
        if dtype.kind not in "iub":
            return types.Double, Vt.DoubleArray, np.float64
        if np.can_cast(dtype, np.int32):
            return types.Int, Vt.IntArray, np.int32
        return (
            (types.Int64, Vt.Int64Array, np.int64)
            if np.can_cast(dtype, np.int64)
            else (types.UInt64, Vt.UInt64Array, np.uint64)
        )


def _check_name(name: str, forces: bool) -> None:
    from pxr import Sdf

    full = f"warpsim:{name}"
    if not Sdf.Path.IsValidNamespacedIdentifier(full) or (forces and full == FORCE):
        why = "are the contact forces" if full == FORCE else "is no name of an attribute of USD"
        raise ValueError(f"diagnostics {short(name)}: {full!r} {why}; give it another name, of letters, digits and _")


class _Held:
    """Writes samples of an attribute only where its value changes.

    It repeats the old value at the frame before a change, so that interpolation keeps the value until then.
    """

    def __init__(self, output, attribute):
        self.output, self.attribute = output, attribute
        self.known = self.value = self.frame = None

    def set(self, known, value, frame: int, count: int) -> None:
        """Set a value: `known` is its form for comparison, `value` its form in USD, of `count` bytes."""
        begins = self.output.begins(frame)
        if known == self.known and not (begins or self.output.ends(frame)):
            return
        if self.frame is not None and self.frame < frame - 1 and not begins:
            self.output.sample(self.attribute, self.value, frame - 1, count)
        self.output.sample(self.attribute, value, frame, count)
        self.known, self.value, self.frame = known, value, frame


def _steps(rows) -> np.ndarray:
    """The step that led to each row; for row 0 the first step."""
    return np.maximum(np.asarray(rows) - 1, 0)
