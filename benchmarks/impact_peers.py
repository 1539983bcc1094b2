# SPDX-License-Identifier: Apache-2.0
"""The scenes of `benchmarks/impact_slopes.py` in other engines: MuJoCo, MJX, Newton and Nimble.

    PYTHON benchmarks/impact_peers.py < problem.json

Runs by itself, in an environment with the engines (mujoco, mujoco-mjx and jax, newton, nimblephysics; each may be
missing), and prints one line of JSON per engine. `benchmarks.impact_slopes --peers PYTHON` starts it. A ball of 1 kg falls
on a floor, or rolls over a bump in it, from starts (q, v); the answer is x at the end and its derivative along (dq, dv),
of the engine's own motion: by its automatic differentiation where it has one, else by differences of its steps. `coarse`
is the difference of two motions that start far apart, in which the phase of the impact within its step averages out;
`step` is a small difference, that of the steps themselves.
"""

import importlib.metadata
import itertools
import json
import sys
import time
import warnings

import numpy as np

RADIUS, MASS = 0.1, 1.0
BUMP = {"radius": 0.1, "half": 3.0, "x": 0.6, "z": -0.08}  # a capsule along y
SMALL = 1e-6  # differences of float64 steps


def version(*packages: str) -> str:
    return ", ".join(f"{p} {importlib.metadata.version(p)}" for p in packages)


class MuJoCo:
    """MuJoCo C, differences of its steps; elliptic cones, a tight solver, everything else default."""

    title, small = "MuJoCo, differences", SMALL
    note = "soft contact, default solref (20 ms); no automatic differentiation, so differences of whole motions"

    def __init__(self, scene: dict):
        import mujoco

        self.about, self.mujoco = version("mujoco"), mujoco
        self.model = mujoco.MjModel.from_xml_string(mjcf(scene, "elliptic", 100))
        self.data, self.duration = mujoco.MjData(self.model), scene["duration"]

    def ends(self, h: float, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        model, data, result = self.model, self.data, []
        model.opt.timestep = h
        for place, speed in zip(q, v, strict=True):
            self.mujoco.mj_resetData(model, data)
            data.qpos[:], data.qvel[:] = place, speed
            self.mujoco.mj_step(model, data, round(self.duration / h))
            result.append(data.qpos[0])
        return np.array(result)

    def slopes(self, h: float, q, v, dq, dv) -> tuple[np.ndarray, np.ndarray]:
        sides = [self.ends(h, q + s * SMALL * dq, v + s * SMALL * dv) for s in (1, -1)]
        return self.ends(h, q, v), (sides[0] - sides[1]) / (2 * SMALL)


def mjcf(scene: dict, cone: str, iterations: int) -> str:
    bump = (
        f'<geom type="capsule" size="{BUMP["radius"]} {BUMP["half"]}" pos="{BUMP["x"]} 0 {BUMP["z"]}" euler="90 0 0"/>'
    )
    return f"""<mujoco><option cone="{cone}" tolerance="1e-12" iterations="{iterations}" ls_iterations="50"/>
    <default><geom friction="{scene["friction"]} 0 0"/></default><worldbody><geom type="plane" size="50 50 1"/>
    {bump if scene["bump"] else ""}<body pos="0 0 {RADIUS}"><freejoint/><geom type="sphere" size="{RADIUS}" mass="{MASS}"/>
    </body></worldbody></mujoco>"""


class MJX:
    """MJX by `jax.jvp` through all steps, all starts at once. Pyramids: the derivatives of its elliptic cones are nan."""

    title, small = "MJX, jax.jvp", SMALL
    note = "soft contact, default solref (20 ms), pyramids, float64"

    def __init__(self, scene: dict):
        import jax
        import mujoco
        from mujoco import mjx

        jax.config.update("jax_enable_x64", True)
        self.about, self.duration, self.jax = version("mujoco-mjx", "jax"), scene["duration"], jax
        host = mujoco.MjModel.from_xml_string(mjcf(scene, "pyramidal", 30))
        base = mjx.put_model(host)
        data = mjx.make_data(base)

        def end(q, v, h, steps):
            model = self.at_step(base.replace(opt=base.opt.replace(timestep=h)), h)
            start = data.replace(qpos=q, qvel=v)
            return jax.lax.fori_loop(0, steps, lambda _, d: mjx.step(model, d), start).qpos[0]

        def both(q, v, dq, dv, h, steps):
            return jax.jvp(lambda a, b: end(a, b, h, steps), (q, v), (dq, dv))

        self.both = jax.jit(jax.vmap(both, in_axes=(0, 0, 0, 0, None, None)))

    def at_step(self, model, h):
        return model

    def slopes(self, h: float, q, v, dq, dv) -> tuple[np.ndarray, np.ndarray]:
        found = self.both(q, v, dq, dv, h, round(self.duration / h))
        return np.asarray(found[0]), np.asarray(found[1])

    def ends(self, h: float, q, v) -> np.ndarray:
        return self.slopes(h, q, v, 0 * q, 0 * v)[0]


class StiffMJX(MJX):
    """The same with contact as stiff as MuJoCo's documentation allows, a time constant of two steps."""

    title = "MJX, jax.jvp, stiffest"
    note = "soft contact as stiff as its documentation allows (solref of 2 h), pyramids, float64"

    def at_step(self, model, h):
        return model.replace(geom_solref=model.geom_solref.at[:, 0].set(2 * h))


class Newton:
    """Newton's semi-implicit solver with a Warp tape.

    Damping of rotations is off, as no other engine has it. The slope of friction by the slip, kf, is its default of 1000 N s/m or
    what an explicit step of h can bear, 0.25 kg/h, if that is less: with the default the ball's slip oscillates and the tape's derivatives
    grow to 1e5 and more.
    """

    title, small = "Newton, semi-implicit", 2e-4
    note = "penalty contact, default ke and kd (a damped contact of 60 ms), kf at most 0.25 m/h (mass m, step h), angular_damping 0, float32"
    solver, options = "SolverSemiImplicit", {"angular_damping": 0.0}

    def __init__(self, scene: dict):
        import newton
        import warp as wp

        wp.config.quiet = True
        self.about, self.newton, self.wp, self.scene = version("newton", "warp-lang"), newton, wp, scene

    def _model(self, worlds: int, h: float):
        newton, wp = self.newton, self.wp
        material = {"mu": self.scene["friction"], "kf": min(1000.0, 0.25 * MASS / h)}
        config = newton.ModelBuilder.ShapeConfig(density=MASS / (4 / 3 * np.pi * RADIUS**3), **material)
        ball, builder = newton.ModelBuilder(), newton.ModelBuilder()
        body = ball.add_body(xform=wp.transform((0.0, 0.0, RADIUS), wp.quat_identity()))
        ball.add_shape_sphere(body, radius=RADIUS, cfg=config)
        for _ in range(worlds):
            builder.add_world(ball)
        builder.add_ground_plane(cfg=config)
        if self.scene["bump"]:
            turn = wp.quat_from_axis_angle(wp.vec3(1.0, 0.0, 0.0), np.pi / 2)
            place = wp.transform((BUMP["x"], 0.0, BUMP["z"]), turn)
            builder.add_shape_capsule(-1, xform=place, radius=BUMP["radius"], half_height=BUMP["half"], cfg=config)
        return builder.finalize(requires_grad=True, device="cpu")

    def _roll(self, h: float, q, v):
        """The tape, the states, and x at the end."""
        newton, wp = self.newton, self.wp
        model, steps = self._model(len(q), h), round(self.scene["duration"] / h)
        solver = getattr(newton.solvers, self.solver)(model, **self.options)
        pipeline = newton.CollisionPipeline(model, broad_phase="explicit", requires_grad=True)
        states, control = [model.state() for _ in range(steps + 1)], model.control()
        states[0].body_q.assign(np.concatenate([q[:, :3], q[:, 4:], q[:, 3:4]], axis=1))  # quaternions: w last
        states[0].body_qd.assign(v)
        contacts = []
        with wp.Tape() as tape:
            for before, after in itertools.pairwise(states):
                before.clear_forces()
                contacts.append(pipeline.contacts())  # the tape needs those of every step
                pipeline.collide(before, contacts[-1])
                solver.step(before, after, control, contacts[-1], h)
        return tape, states, states[-1].body_q.numpy()[:, 0].astype(float)

    def ends(self, h: float, q, v) -> np.ndarray:
        return self._roll(h, q, v)[2]

    def slopes(self, h: float, q, v, dq, dv) -> tuple[np.ndarray, np.ndarray]:
        tape, states, ends = self._roll(h, q, v)
        seed = np.zeros((len(q), 7), np.float32)
        seed[:, 0] = 1.0
        tape.backward(grads={states[-1].body_q: self.wp.array(seed, dtype=self.wp.transform, device="cpu")})
        by_q, by_v = states[0].body_q.grad.numpy(), states[0].body_qd.grad.numpy()
        return ends, (by_q[:, :3] * dq[:, :3]).sum(axis=1) + (by_v * dv).sum(axis=1)


class XPBD(Newton):
    """Newton's position-based solver with a Warp tape, its default settings but for damping of rotations."""

    title = "Newton, XPBD"
    note = "position-based contact, 2 iterations, angular_damping 0, float32"
    solver, options = "SolverXPBD", {"angular_damping": 0.0}


class Nimble:
    """Nimble by the Jacobians of its steps. Its y points up, because it refuses contact normals along z."""

    title, small = "Nimble", SMALL
    note = "rigid contact (an LCP by velocities), its own Jacobians, default settings, float64"

    def __init__(self, scene: dict):
        import nimblephysics

        self.about, self.nimble, self.scene = version("nimblephysics"), nimblephysics, scene

    def _world(self, h: float):
        nimble, scene = self.nimble, self.scene
        world = nimble.simulation.World()
        world.setGravity([0, -9.81, 0])
        world.setTimeStep(h)
        shapes = [(nimble.dynamics.BoxShape([100, 1, 100]), [0, -0.5, 0])]
        if scene["bump"]:
            shape = nimble.dynamics.CapsuleShape(BUMP["radius"], 2 * BUMP["half"])  # along its z
            shapes.append((shape, [BUMP["x"], BUMP["z"], 0]))
        for shape, place in shapes:
            fixed = nimble.dynamics.Skeleton()
            joint, body = fixed.createWeldJointAndBodyNodePair()
            pose = nimble.math.Isometry3()
            pose.set_translation(place)
            joint.setTransformFromParentBodyNode(pose)
            body.createShapeNode(shape).createCollisionAspect()
            body.setFrictionCoeff(scene["friction"])
            world.addSkeleton(fixed)
        ball = nimble.dynamics.Skeleton()
        _, carrier = ball.createTranslationalJointAndBodyNodePair()
        carrier.setInertia(nimble.dynamics.Inertia(1e-6, [0, 0, 0], 1e-9 * np.eye(3)))
        _, body = ball.createBallJointAndBodyNodePair(carrier)
        body.setInertia(nimble.dynamics.Inertia(MASS, [0, 0, 0], 0.4 * MASS * RADIUS**2 * np.eye(3)))
        body.createShapeNode(nimble.dynamics.SphereShape(RADIUS)).createCollisionAspect()
        body.setFrictionCoeff(scene["friction"])
        world.addSkeleton(ball)
        return world

    def _run(self, h: float, q, v, direction=None):
        swap = lambda x: [x[0], x[2], -x[1]]  # noqa: E731
        world = self._world(h)
        world.setState(np.array([*swap(q), 0, 0, 0, *swap(v[:3]), *swap(v[3:])]))
        change = None
        if direction is not None:
            dq, dv = direction
            change = np.array([*swap(dq), 0, 0, 0, *swap(dv[:3]), *swap(dv[3:])])
        for _ in range(round(self.scene["duration"] / h)):
            if change is None:
                world.step()
            else:
                step = self.nimble.neural.forwardPass(world)
                change = step.getStateJacobian(world) @ change
        return world.getState()[0], None if change is None else change[0]

    def ends(self, h: float, q, v) -> np.ndarray:
        return np.array([self._run(h, a, b)[0] for a, b in zip(q, v, strict=True)])

    def slopes(self, h: float, q, v, dq, dv) -> tuple[np.ndarray, np.ndarray]:
        pairs = [self._run(h, *each[:2], each[2:]) for each in zip(q, v, dq, dv, strict=True)]
        return tuple(np.array(x) for x in zip(*pairs, strict=True))


ENGINES = (MuJoCo, MJX, StiffMJX, Newton, XPBD, Nimble)


def measure(kind, scene: dict) -> dict:
    """Of an engine by step length [ms]: ends, slopes, coarse differences, and small ones of its steps."""
    q, v, dq, dv = (np.array(scene[name], float) for name in ("q", "v", "dq", "dv"))
    engine, found = kind(scene), {}
    for h in scene["h"]:
        begun = time.process_time()
        ends, slopes = engine.slopes(h, q, v, dq, dv)
        sides = [engine.ends(h, q + s * scene["coarse"] * dq, v + s * scene["coarse"] * dv) for s in (1, -1)]
        coarse = (sides[0] - sides[1]) / (2 * scene["coarse"])
        sides = [engine.ends(h, q + s * kind.small * dq, v + s * kind.small * dv) for s in (1, -1)]
        step = (sides[0] - sides[1]) / (2 * kind.small)
        found[f"{1e3 * h:g}"] = {
            name: x.tolist()
            for name, x in zip(("end", "slope", "coarse", "step"), (ends, slopes, coarse, step), strict=True)
        }
        print(f"{kind.title}, {1e3 * h:g} ms: {time.process_time() - begun:.0f} s", file=sys.stderr, flush=True)
    return {"about": engine.about, "found": found}


def main() -> int:
    problem = json.load(sys.stdin)
    warnings.simplefilter("ignore")
    for kind in ENGINES:
        row = {"note": kind.note, "scenes": {}}
        for name, scene in problem["scenes"].items():
            try:
                row["scenes"][name] = measure(kind, scene)
            except ImportError as error:
                row = {"missing": f"not installed ({error})"}
                break
            except Exception as error:  # an engine that cannot do a scene leaves a line, and the others go on
                row["scenes"][name] = {"skipped": f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"}
        print(json.dumps({kind.title: row}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
