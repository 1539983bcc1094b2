# SPDX-License-Identifier: Apache-2.0
"""What optimizers that sample controls share: noise, its size, and the costs of many samples at once."""

import numpy as np

from warpsim.base.checks import numbers, short, whole
from warpsim.kernels.flags import NONFINITE
from warpsim.optimise.replicas import replicas

NOISE = 0.25  # fraction of a control's range, where no noise is given


def generators(seed, worlds: int) -> list[np.random.Generator]:
    """One random generator per world. It depends on the seed and the world's index alone."""
    parts = [whole(part, "seed", 0) for part in (seed if isinstance(seed, (tuple, list)) else [seed])]
    return [np.random.default_rng([*parts, world]) for world in range(worlds)]


def noise_of(draws: list[np.random.Generator], shape: tuple[int, ...], rho: float) -> np.ndarray:
    """Normal noise of unit variance `(samples, knots, worlds, nu)`, `shape` = (samples, knots, nu).

    It is a first-order process along the knots: `rho` is its correlation from knot to knot.
    """
    white = np.stack([draw.standard_normal(shape) for draw in draws], axis=2)
    for k in range(1, white.shape[1] if rho else 0):
        white[:, k] = rho * white[:, k - 1] + np.sqrt(1.0 - rho * rho) * white[:, k]
    return white


def rolled(sim, state, controls, cost, substeps):
    """Motions `(samples, knots + 1, worlds, n)` under controls `(samples, knots, worlds, nu)`, and their costs."""
    samples, knots, worlds, nu = controls.shape
    wide = replicas(sim, samples)
    flat = np.ascontiguousarray(np.moveaxis(controls, 0, 1)).reshape(knots, samples * worlds, nu)
    motion = wide.sim.rollout(wide.load(state.numpy()), flat, substeps=substeps)
    q, v = (
        np.moveaxis(x.numpy().reshape(knots + 1, samples, worlds, -1), 1, 0).astype(float) for x in (motion.q, motion.v)
    )
    stopped = motion.final.memory["flags"].numpy().reshape(samples, worlds) & NONFINITE
    return q, v, np.where(stopped == 0, cost.value(q, v, controls), np.inf)


def deviations(model, noise, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Standard deviations that broadcast to `(worlds, nu)`."""
    if noise is None:
        bad = np.flatnonzero(~np.isfinite(high - low).all(axis=0))
        if len(bad):
            raise ValueError(f"actuator {model.actuator_names[bad[0]]!r} has no control range; give noise= or limits=")
        return NOISE * (high - low)
    sigma = numbers(noise, "noise")
    if sigma.shape not in ((), (model.nu,)) or not (np.isfinite(sigma) & (sigma >= 0)).all() or not sigma.any():
        raise ValueError(
            f"noise is {short(noise)}; give a positive standard deviation, or one per control ({model.nu},)"
        )
    return sigma
