from warpsim.kernels import lcp as kernels
import warp as wp, numpy as np
from warpsim.kernels.precision import SCALARS
DEFAULT_TOLERANCE = {"float32": 1e-4, "float64": 1e-10}
class LCPSolver:
    def __init__(self, worlds, n, *, tolerance=None, dtype="float64", device=None):
        S = SCALARS[dtype]; self.worlds=worlds; self.device=wp.get_device(device)
        self.kernels = kernels.build(S)
        def zeros(shape, kind=S): return wp.zeros(shape, dtype=kind, device=self.device)
        w=self.work = self.kernels.Workspace()
        for name in ("A","K","Z"): setattr(w,name,zeros((worlds,n,n)))
        for name in "b hi scale target x w x_theta w_theta trial best cover r y tau diagonal tau_Z diagonal_Z".split(): setattr(w,name,zeros((worlds,n)))
        for name in "classes clamped place pivots".split(): setattr(w,name,zeros((worlds,n),int))
        s=self.solution=self.kernels.Solution()
        s.x=zeros((worlds,n)); s.residual=zeros(worlds); s.classes=zeros((worlds,n),int)
        for name in ("factorizations","hit","status"): setattr(s,name,zeros(worlds,int))
        self.options=self.kernels.Options(); self.options.tolerance=tolerance or DEFAULT_TOLERANCE[dtype]
        self.problem=self.kernels.Problem()
    def launch(self):
        wp.launch(self.kernels.solve, dim=self.worlds, inputs=[self.problem,self.work,self.options], outputs=[self.solution], device=self.device, record_tape=False, block_dim=32)
        return self.solution
