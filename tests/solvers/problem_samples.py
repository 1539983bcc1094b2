"""Random contact problems for the tests of the solvers."""

import numpy as np


def random_problem(rng, nv=10, contacts=5, condition=1e2, worlds=None):
    """Arguments of `ContactProblem` (R and v̂ near-rigid), friction from 0 to 2, a mix of sticking, sliding and open."""
    if worlds is not None:
        samples = [random_problem(rng, nv, contacts, condition) for _ in range(worlds)]
        return {name: np.stack([s[name] for s in samples]) for name in samples[0]}
    Q = np.linalg.qr(rng.normal(size=(nv, nv)))[0]
    A = (Q * np.logspace(0.0, np.log10(condition), nv)) @ Q.T
    A = 0.5 * (A + A.T)
    J = rng.normal(size=(3 * contacts, nv))
    blocks = J.reshape(contacts, 3, nv)
    W = blocks @ np.linalg.solve(A, np.swapaxes(blocks, 1, 2))
    w = np.linalg.norm(W, axis=(1, 2)) / 3.0
    R = np.stack([1e-3 * w, 1e-3 * w, w / (4.0 * np.pi**2)], axis=1)
    v_hat = np.zeros((contacts, 3))
    v_hat[:, 2] = rng.uniform(-0.1, 0.1, size=contacts)
    mu = rng.uniform(0.0, 2.0, size=contacts)
    mu[0] = 0.0
    return dict(A=A, J=J, v_star=rng.normal(size=nv), v0=rng.normal(size=nv), mu=mu, R=R, v_hat=v_hat)
