from warpsim.kernels import cone_qp as kernels
import warp as wp, numpy as np
from warpsim.kernels.precision import SCALARS,types
DEFAULT_TOLERANCE = {"float32": 1e-4, "float64": 1e-9}
class ConeQPSolver:
    def __init__(self, worlds, n, m, cones, *, tolerance=None, max_iterations=25, dtype="float64", device=None):
        S = SCALARS[dtype]; self.worlds=worlds; self.device=wp.get_device(device)
        self.kernels = kernels.build(S)
        def zeros(shape, kind=S): return wp.zeros(shape, dtype=kind, device=self.device)
        w=self.work = self.kernels.Workspace()
        w.H=zeros((worlds,n,n)); w.N=zeros((worlds,n,n)); w.A=zeros((worlds,m,n)); w.T=zeros((worlds,m,n)); w.schur=zeros((worlds,m,m))
        for name in "g scale_x x z Hx r_x x1 x2 dz shift omega lam s_x s_z e p r newton_x u trial_x best_x".split(): setattr(w,name,zeros((worlds,n)))
        for name in "q scale_y y s r_y y1 y2 ds shift_y weight compliance e_y d_y newton_y v trial_y best_y".split(): setattr(w,name,zeros((worlds,m)))
        w.axis=zeros((worlds,cones),types(S).vec2); w.start=zeros((worlds,cones),int);w.size=zeros((worlds,cones),int);w.stiff=zeros((worlds,m),int)
        s=self.solution=self.kernels.Solution()
        s.x=zeros((worlds,n)); s.z=zeros((worlds,n)); s.y=zeros((worlds,m)); s.residual=zeros(worlds)
        s.iterations=zeros(worlds,int); s.status=zeros(worlds,int)
        self.options=self.kernels.Options(); self.options.tolerance=tolerance or DEFAULT_TOLERANCE[dtype]; self.options.max_iterations=max_iterations
        self.problem=self.kernels.Problem()
    def launch(self):
        wp.launch(self.kernels.solve, dim=self.worlds, inputs=[self.problem,self.work,self.options], outputs=[self.solution], device=self.device, record_tape=False, block_dim=32)
        return self.solution
