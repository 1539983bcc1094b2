"""The law of `SAP(approximation="lagged")` and `supported_load=True`: corrected by the last solution, solved several times."""

import warp as wp

from warpsim.device.copies import copy, kernels_of
from warpsim.kernels.solve.sap import lagged
from warpsim.solve.contact_law import ContactLaw


class LaggedLaw(ContactLaw):
    """R and v̂ of the convex model are kept apart; the problem's are corrected after each solve (`kernels/solve/sap/lagged.py`)."""

    def attach(self, problem) -> None:
        super().attach(problem)
        array, t, C = self.dynamics.array, self.types, self.collision.capacity
        self.R, self.v_hat = array(C, t.vec3), array(C, t.vec3)
        self.lag = copy(lagged.Lag, t.real)()
        for name in ("s", "s_before", "answer"):
            setattr(self.lag, name, array(C, t.real))

    def kernels(self) -> list:
        return super().kernels() + kernels_of(lagged, self.types.real)

    def regularise(self, h: float, v: wp.array, M_factor: wp.array, z: wp.array) -> None:
        super().regularise(h, v, M_factor, z)
        wp.copy(self.problem.R, self.R)
        wp.copy(self.problem.v_hat, self.v_hat)

    def solve(self, solver, h: float, v0: wp.array) -> None:
        """`passes` further solves, each from the last one's solution."""
        self._lag_slip(v0, solves=0)
        solver.launch()
        for solves in range(1, self.options.passes + 1):
            self._lag_slip(solver.solution.v, solves)
            if self.options.supported_load:
                gravity = self.device_model.parameters.stored("gravity")
                inputs = [self.problem, h, self.options.beta, gravity, self.R, self.weight]
                inputs += [solver.solution.gamma, self.problem.R]
                self.dynamics.launch(lagged.lag_load, self.collision.capacity, inputs)
            solver.launch_again()

    def _lag_slip(self, v: wp.array, solves: int) -> None:
        """v̂ of the problem from the slip at v."""
        if self.options.approximation == "lagged":
            inputs = [self.problem, self.collision.contacts.phi, self.v_hat, v, solves, self.lag, self.problem.v_hat]
            self.dynamics.launch(lagged.lag_slip, self.collision.capacity, inputs)
