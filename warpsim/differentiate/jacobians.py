# SPDX-License-Identifier: Apache-2.0
"""Derivatives of a step that a `Simulator` gives directly, without a tape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from warpsim.base.annotations import Array, Numbers
from warpsim.device.recording import tape_paused
from warpsim.device.threads import exclusive
from warpsim.differentiate.jvp import jvp
from warpsim.differentiate.linearize import Linearization, linearize
from warpsim.state import State


class Jacobians:
    """Base class of `Simulator` with the derivatives of one step that need no tape."""

    _stepper: Any

    @exclusive
    def linearize(
        self,
        state: State,
        control: Numbers | None = None,
        *,
        tau: Numbers | None = None,
        parameters: Sequence[str] = (),
        mocap: Numbers | None = None,
        force_jacobian: bool = False,
        mocap_jacobian: bool = False,
        out: Linearization | None = None,
    ) -> Linearization:
        """Jacobians of one step with respect to its state and inputs, without a tape.

        The features that touch (vertices, edges and faces) are held fixed, as on a tape.

        Parameters
        ----------
        state : State
            Where the step begins.
        control : array (worlds, nu), optional
            Input of the actuators. Default: zero.
        tau : array (worlds, nv), optional
            Generalized forces. Default: zero.
        parameters : sequence of str
            Physical parameters to differentiate with respect to. The result is in `parameters[name]`. Default: none.
        mocap : array (worlds, nmocap, 7), optional
            Poses of the mocap bodies, as in `step`.
        force_jacobian : bool
            Whether to fill `tau`, the Jacobian with respect to generalized forces. Default: False.
        mocap_jacobian : bool
            Whether to fill `mocap`, the Jacobian with respect to the poses of mocap bodies. Default: False.
        out : Linearization, optional
            The result of an earlier call with the same request. Its arrays are filled, and the launches are replayed
            from a graph.

        Returns
        -------
        Linearization
            `A` and `B`, and on request `tau`, `mocap` and `parameters[name]`.

        Raises
        ------
        ValueError
            A name or a shape is wrong, or this step has no closed form and the simulator was made without
            `requires_grad=True`. The message says which.

        Notes
        -----
        There is a closed form for `SymplecticEuler()` with `SAP` or `NoContact`. Elsewhere, and for poses
        of mocap bodies, the Jacobians take nv or 2 nv reverse passes of the step's equations.

        Examples
        --------
        >>> sim = ws.Simulator(ws.load(ws.robots.path("cartpole")), dt=0.01, device="cpu", dtype="float64")
        >>> found = sim.linearize(sim.state(), parameters=["body_mass"])
        >>> found.A.shape, found.B.shape, found.parameters["body_mass"].shape
        ((1, 4, 4), (1, 4, 1), (1, 4, 2))
        """
        with tape_paused():
            state = self._stepper.with_mocap(state, mocap)
        return linearize(self, state, control, tau, parameters, force_jacobian, mocap_jacobian, out)

    @exclusive
    def jvp(
        self,
        state: State,
        control: Numbers | None = None,
        dstate: Numbers | None = None,
        dcontrol: Numbers | None = None,
        *,
        tau: Numbers | None = None,
        dtau: Numbers | None = None,
        mocap: Numbers | None = None,
        dmocap: Numbers | None = None,
        parameters: Mapping[str, Any] | None = None,
        out: Array | None = None,
    ) -> Array:
        """Derivatives of one step along directions (forward mode), without a tape.

        Every direction has shape (worlds, ...), or (directions, worlds, ...) for many at once. A direction that is not
        given is zero. A direction without the axis of directions is used for all of them.

        Parameters
        ----------
        state : State
            Where the step begins.
        control : array (worlds, nu), optional
            Input of the actuators. Default: zero.
        dstate : array (..., worlds, 2 nv + na), optional
            Change of the state, in the order (q, v, activation) of the columns of `Linearization.A`. The change of q is
            a tangent vector, as v: a free joint's translation in world axes, rotations in body axes.
        dcontrol : array (..., worlds, nu), optional
            Change of the controls.
        tau : array (worlds, nv), optional
            Generalized forces. Default: zero.
        dtau : array (..., worlds, nv), optional
            Change of the generalized forces.
        mocap : array (worlds, nmocap, 7), optional
            Poses of the mocap bodies, as in `step`.
        dmocap : array (..., worlds, nmocap, 6), optional
            Change of the poses of the mocap bodies: translation in world axes, rotation in body axes.
        parameters : dict, optional
            Changes of parameters by name, shaped as in `sim.parameters`: for instance `{"body_mass": direction}` with a
            direction (..., worlds, nbody).
        out : array, optional
            Array to write the result into.

        Returns
        -------
        array (worlds, 2 nv + na) or (directions, worlds, 2 nv + na)
            Change of the next state, in the order of `dstate`: A δx + B δu + ... with the Jacobians of `linearize`.

        Raises
        ------
        ValueError
            A direction has a wrong shape, none is given, or this step has no closed form and the simulator was made
            without `requires_grad=True`. The message says which.

        Notes
        -----
        The same cases as in `linearize` have a closed form. There the step is factorized once, and each direction costs
        a solve with this factor. Elsewhere the cost is that of `linearize`, whatever the number of directions.

        Examples
        --------
        >>> sim = ws.Simulator(ws.load(ws.robots.path("ant")), worlds=2, dt=0.005, device="cpu", dtype="float64")
        >>> state, directions = sim.state(), np.random.default_rng(0).normal(size=(10, 2, 28))
        >>> change = sim.jvp(state, dstate=directions)
        >>> change.shape
        (10, 2, 28)
        >>> A = sim.linearize(state).A.numpy()
        >>> bool(np.allclose(change.numpy(), np.einsum("wij,kwj->kwi", A, directions)))
        True
        """
        with tape_paused():
            state = self._stepper.with_mocap(state, mocap)
        return jvp(self, state, control, dstate, dcontrol, tau, dtau, dmocap, parameters, out)
