# SPDX-License-Identifier: Apache-2.0
"""What impacts conserve, for `benchmarks.impacts`: heights and energy of bounces, times to rest, energy of plastic impacts,
momentum of free systems, and scenes without impacts, whose bits the rule leaves alone."""

from collections.abc import Callable

import numpy as np

import warpsim as ws
from benchmarks.impact_scenes import GRAVITY, SCENES, blank, box_model, free_body, rotated, turned

Run = Callable[..., tuple]  # (model, start, dt, steps, rule, **options) -> (q, v, simulator) of every step
HEAD = ("what", "ms", "rule off", "rule on", "bar")


def ball_model(restitution: float = 0.0, radius: float = 0.1) -> ws.Model:
    b = ws.ModelBuilder("ball")
    b.add_geom("plane", restitution=restitution)
    free_body(b, "ball", "sphere", [radius], 1.0, [0, 0, radius], restitution=restitution)
    return b.build()


# ---- restitution ----------------------------------------------------------------------------------------------------

DROPS = np.array([0.1, 0.3, 0.5, 1.0, 3.0, 10.0])  # [m]


def bounces(run: Run, dt: float, rule: str, restitution: float, seconds: float, **options) -> np.ndarray:
    """Gaps (steps + 1, drops) of balls dropped from DROPS."""
    model = ball_model(restitution)
    q, v = blank(model, len(DROPS))
    q[:, 2] += DROPS
    return run(model, {"q": q, "v": v}, dt, round(seconds / dt), rule, **options)[0][:, :, 2] - model.q0[2]


def height_error(run: Run, dt: float, rule: str, dtype: str = "float64") -> str:
    """Largest change of the peaks' heights over 12 s, restitution 1; a peak is the vertex of a parabola through 3 steps."""
    gap = bounces(run, dt, rule, 1.0, 12.0, dtype=dtype).astype(float)
    peak = (gap[1:-1] >= gap[:-2]) & (gap[1:-1] > gap[2:])
    slope, bend = (gap[2:] - gap[:-2]) / 2, gap[2:] - 2 * gap[1:-1] + gap[:-2]
    vertex = gap[1:-1] - slope**2 / (2 * np.where(bend < 0, bend, -np.inf))
    return " ".join(f"{np.abs(x[k] / drop - 1).max():.1e}" for x, k, drop in zip(vertex.T, peak.T, DROPS, strict=True))


def rest_error(run: Run, dt: float, rule: str, restitution: float, dtype: str = "float64") -> str:
    """Of balls dropped from 0.1 to 1 m: when they stay below 1e-5 m, minus the formula, over h/(1 − e)."""
    exact = np.sqrt(2 * DROPS[:4] / GRAVITY) * (1 + restitution) / (1 - restitution)
    gap = bounces(run, dt, rule, restitution, 1.2 * exact.max() + 0.5, dtype=dtype)[:, :4]
    steps = len(gap) - np.argmax((gap > 1e-5)[::-1], axis=0)
    return " ".join(f"{(n * dt - t) / (dt / (1 - restitution)):.2g}" for n, t in zip(steps, exact, strict=True))


def box_energy(run: Run, dt: float, rule: str) -> str:
    """Largest relative change over 3 s of the energy of boxes without friction that bounce with restitution 1."""
    model = box_model(0.1, friction=0.0, restitution=1.0)
    q, v = blank(model, 8)
    draw = np.random.default_rng(0)
    q[:, 2], q[:, 3:7] = 0.3 + 0.2 * draw.random(8), turned(draw.normal(size=(8, 3)))
    q, v, _sim = run(model, {"q": q, "v": v}, dt, round(3 / dt), rule)
    middle = v[..., :3] - [0, 0, GRAVITY * dt / 2]  # symplectic Euler is leapfrog half a step off
    inertia = model.body_inertia[0, 0, 0]
    energy = (middle**2).sum(axis=2) / 2 + inertia * (v[..., 3:] ** 2).sum(axis=2) / 2 + GRAVITY * q[..., 2]
    return f"{np.abs(energy / energy[0] - 1).max():.1e}"


# ---- energy and momentum --------------------------------------------------------------------------------------------


def energy_rise(run: Run, dt: float, rule: str, name: str) -> str:
    """Largest rise of the energy in a step, over that of the fall, without controls; in impacts, at the time of q."""
    scene = SCENES[name]()
    start = scene.start(scene.starts(8))
    start.pop("controls", None)
    q, v, sim = run(scene.model, start, dt, round(scene.duration / dt), rule)
    energy = lambda q, v: sum(x.numpy() for x in sim.energy(sim.state(q=q, v=v)))  # noqa: E731
    of_states = np.array([energy(a, b) for a, b in zip(q, v, strict=True)])
    found = f"{np.diff(of_states, axis=0).max():.1e} of {np.ptp(of_states, axis=0).min():.2g} J"
    if rule == "off":
        return found
    state, hit = sim.state(q=q[0], v=v[0]), []
    for _ in q[1:]:
        state = sim.step(state)
        hit.append(sim.diagnostics.impacts.numpy() > 0)
    # The velocity at the time of q is v + D/2, with the D of the step before or after, which has no impact.
    half, rise = np.diff(v, axis=0) / 2, -np.inf
    for k in range(1, len(half) - 1):
        alone = hit[k] & ~hit[k - 1] & ~hit[k + 1]
        if alone.any():
            change = energy(q[k + 1], v[k + 1] + half[k + 1]) - energy(q[k], v[k] + half[k - 1])
            rise = max(rise, change[alone].max())
    return f"{found}; {rise:.1e}"


def momenta(model: ws.Model, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Linear and angular momentum (steps + 1, worlds, 3) of free bodies whose origins are their centers of mass."""
    linear, angular = 0.0, 0.0
    for k in range(model.nv // 6):
        x, turn = q[..., 7 * k : 7 * k + 3], q[..., 7 * k + 3 : 7 * k + 7]
        p = model.body_mass[k] * v[..., 6 * k : 6 * k + 3]
        spin = v[..., 6 * k + 3 : 6 * k + 6] @ model.body_inertia[k].T
        shape = spin.shape
        spin = rotated(turn.reshape(-1, 4), spin.reshape(-1, 3)).reshape(shape)
        linear, angular = linear + p, angular + np.cross(x, p) + spin
    return linear, angular


def momentum_error(run: Run, dt: float, rule: str, restitution: float) -> str:
    """Largest change of linear and angular momentum, over their largest parts: boxes that collide, without gravity."""
    b = ws.ModelBuilder("boxes", gravity=(0, 0, 0))
    for k, size in enumerate(([0.1, 0.06, 0.04], [0.05, 0.1, 0.08])):
        free_body(b, f"box{k}", "box", size, 1.0 + k, [0.4 * k, 0, 0], friction=0.4, restitution=restitution)
    model = b.build()
    q, v = blank(model, 8)
    draw = np.random.default_rng(1)
    q[:, 3:7], q[:, 10:14] = turned(draw.normal(size=(8, 3))), turned(draw.normal(size=(8, 3)))
    v[:, 0], v[:, 3:6], v[:, 9:12] = 1.5, draw.normal(size=(8, 3)), draw.normal(size=(8, 3))
    q, v, _sim = run(model, {"q": q, "v": v}, dt, round(0.6 / dt), rule)
    linear, angular = momenta(model, q, v)
    met = np.abs(v[-1, :, 6]) > 1e-3
    changes = [np.abs(x - x[0]).max() / np.abs(x[0]).max() for x in (linear, angular)]
    return f"{changes[0]:.1e}, {changes[1]:.1e} ({met.sum()} of 8 met)"


# ---- bits -----------------------------------------------------------------------------------------------------------


def calm_scenes() -> dict[str, tuple[ws.Model, dict]]:
    """Scenes without impacts, at rest or in motion, by name."""
    box, ball, ant = box_model(), ball_model(), ws.load(ws.robots.path("ant"))
    found = {}
    for name, model, speed in (("box at rest", box, 0.0), ("box slides", box, 2.0), ("ball rolls", ball, 1.0)):
        q, v = blank(model, 2)
        v[:, 0] = speed
        if name == "ball rolls":
            v[:, 4] = speed / 0.1
        found[name] = model, {"q": q, "v": v}
    b = ws.ModelBuilder("stack")
    b.add_geom("plane")
    for k in range(4):
        free_body(b, f"box{k}", "box", [0.1] * 3, 1.0, [0.01 * k, 0, 0.1 + 0.2 * k])
    stack, wedge = b.build(), ws.ModelBuilder("slope", gravity=GRAVITY * np.array([np.sin(0.3), 0, -np.cos(0.3)]))
    wedge.add_geom("plane", friction=0.2)
    free_body(wedge, "box", "box", [0.1] * 3, 1.0, [0, 0, 0.1], friction=0.2)
    slope = wedge.build()
    for name, model in (("stack of 4", stack), ("box down a slope", slope), ("ant stands", ant)):
        q, v = blank(model, 2)
        found[name] = model, {"q": q, "v": v}
    return found


def same_bits(run: Run, dt: float, steps: int = 200) -> list[list[str]]:
    """Whether scenes without impacts have the same bits with the rule, from where they are after 400 steps without it."""
    rows = []
    for name, (model, start) in calm_scenes().items():
        if "rest" in name or "stack" in name or "ant" in name:
            q, v, _sim = run(model, start, dt, 400, "off")
            start = {"q": q[-1], "v": v[-1]}
        ends = [run(model, start, dt, steps, rule) for rule in ("off", "on")]
        same = all(np.array_equal(a, b) for a, b in zip(ends[0][:2], ends[1][:2], strict=True))
        gap = max(np.abs(a - b).max() for a, b in zip(ends[0][:2], ends[1][:2], strict=True))
        rows.append([f"bits: {name}", f"{1e3 * dt:g}", "", "same" if same else f"differ by {gap:.1e}", "same"])
    return rows


# ---- all ------------------------------------------------------------------------------------------------------------

CHECKS: list[tuple[str, Callable, dict, str]] = [
    (f"e = 1, 12 s, drops of {' '.join(f'{x:g}' for x in DROPS)} m: change of the height", height_error, {}, "≤ 1e-3"),
    ("the same in float32", height_error, {"dtype": "float32"}, "≤ 1e-2"),
    *(
        (f"e = {e}: time to rest − formula, over h/(1 − e)", rest_error, {"restitution": e}, "≤ 4")
        for e in (0.5, 0.9, 0.95)
    ),
    ("the same in float32", rest_error, {"restitution": 0.9, "dtype": "float32"}, "≤ 4"),
    ("boxes, e = 1, 3 s: change of the energy", box_energy, {}, "≤ 1e-3"),
    *(
        (f"largest rise of the energy in a step; in an impact, at the time of q: {n}", energy_rise, {"name": n}, "≤ 0")
        for n in ("stick", "slip", "bump", "mound", "corner", "rock", "finger", "mug", "gripper", "stop")
    ),
    *((f"two boxes, e = {e}: change of momenta", momentum_error, {"restitution": e}, "rounding") for e in (0.0, 0.7)),
]


def measure(run: Run, steps: list[float]) -> list[list[str]]:
    """Rows of all checks at the steps [ms]."""
    rows = []
    for title, check, given, bar in CHECKS:
        for ms in steps:
            cells = []
            for rule in ("off", "on"):
                try:
                    cells.append(check(run, 1e-3 * ms, rule, **given))
                except (ValueError, NotImplementedError) as error:
                    cells.append(f"{type(error).__name__}: {str(error)[:60]}")
            rows.append([title, f"{ms:g}", *cells, bar])
    for ms in steps:
        rows += same_bits(run, 1e-3 * ms)
    return rows
