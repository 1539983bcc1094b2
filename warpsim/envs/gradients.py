# SPDX-License-Identifier: Apache-2.0
"""A view whose arrays carry gradients, for smooth rewards: torch tensors through `ws.torch.step`.

Body poses and velocities come from forward kinematics in torch's operations. Quantities without a derivative here
(contact forces, sensors) are refused when the environment is made or, like a comparison or a diagnostic, give no
gradient. A non-finite world gives no gradient either (`isolation.py`).
"""

import contextlib

import numpy as np
import warp as wp

from warpsim.envs.rotations import conjugate, product, rotated
from warpsim.envs.view import View
from warpsim.model.model import JointType


class NoGradient(ValueError):
    """A term reads a quantity that has no gradient in an environment."""


def _refused(what: str, fix: str = "leave the term out") -> property:
    """A quantity of a view that raises `NoGradient`."""

    def refuse(view):
        raise NoGradient(
            f"{what} have no gradient in an environment; {fix}, with SHAC in `smooth`, or do without gradients: PPO, "
            "or no requires_grad"
        )

    return property(refuse)


class GradientView(View):
    """A `View` of tensors that record their history, back to the last `detach`.

    Where a step leaves a non-finite state, terms see the previous state, which carries no gradient.
    """

    differentiable = True

    def __init__(self, *arguments):
        self._seen: dict = {}
        super().__init__(*arguments)
        self.gradient_faults = self.arrays.made(np.zeros(self.worlds, np.int64))
        self.detach()

    @property
    def q(self):
        return self._seen.get("q", self._lasting["q"])

    @property
    def v(self):
        return self._seen.get("v", self._lasting["v"])

    def isolated(self, *tensors) -> tuple:
        from warpsim.envs.isolation import by_itself

        return by_itself(self.gradient_faults, self.arrays, *tensors)

    def step(self, control, substeps: int) -> None:
        """A step of the simulator, recorded for gradients; an ordinary step where torch has gradients off."""
        import torch

        from warpsim.differentiate import torch as recorded

        if not torch.is_grad_enabled():
            super().step(control, substeps)
            self.detach()
            return
        sim, state = self.sim, self.state
        control = control.to(self._lasting["q"].dtype)
        q, v, control = self.isolated(self._lasting["q"], self._lasting["v"], control)
        q, v = recorded.step(sim, q, v, control, substeps=substeps)
        for target, values in ((state.q, q), (state.v, v)):
            wp.to_torch(target, requires_grad=False).copy_(values.detach())
        wp.to_torch(state.time).add_(sim.dt)
        before = self.q, self.v
        self._lasting = dict(zip("qv", self.isolated(q, v), strict=True))
        if self.arrays.near and self.arrays.seen_finite(q, v):
            self._seen = {}
            return
        good = (torch.isfinite(q).all(-1) & torch.isfinite(v).all(-1))[:, None]
        if self.arrays.any(~good):
            pairs = zip("qv", before, strict=True)
            self._seen = {name: torch.where(good, self._lasting[name], old.detach()) for name, old in pairs}
        else:
            self._seen = {}

    def detach(self) -> None:
        """Cut the gradient history of all arrays."""
        self._lasting = {name: self.arrays.copied(self.arrays.of(getattr(self.state, name))) for name in "qv"}
        self._seen = {}
        self.q_before, self.v_before, self.action, self.last_action, self.control = (
            x.detach() for x in (self.q_before, self.v_before, self.action, self.last_action, self.control)
        )
        self.commands = {name: x.detach() for name, x in self.commands.items()}
        self.moved()

    def restarted(self, mask) -> None:
        """The worlds of the mask have been reset."""
        super().restarted(mask)
        where = self.xp.where
        fresh = {name: self.arrays.copied(self.arrays.of(getattr(self.state, name))) for name in "qv"}
        self._lasting = {name: where(mask[:, None], fresh[name], old) for name, old in self._lasting.items()}
        self._seen = {name: where(mask[:, None], fresh[name], old) for name, old in self._seen.items()}

    def write(self, **values) -> None:
        raise ValueError("events that write to q or v have no gradient; leave them out (events=())")

    @property
    def poses(self):
        return self._once("poses", lambda: body_poses(self, self.q))

    @property
    def velocities(self):
        return self._once("velocities", self._body_velocities)

    def pose(self, body: int):
        return self._once(("pose", body), lambda: body_poses(self, self.q, [body])[:, 0])

    def velocity(self, body: int):
        return self._once(("velocity", body), lambda: self._body_velocities([body])[:, 0])

    def _body_velocities(self, bodies=None):
        import torch

        rate = position_rate(self, self.q, self.v)
        poses, moving = torch.func.jvp(lambda q: body_poses(self, q, bodies), (self.q,), (rate,))
        turning = 2.0 * product(self.xp, moving[..., 3:], conjugate(self.xp, poses[..., 3:]))[..., 1:]
        return self.xp.concat([turning, moving[..., :3]], axis=-1)

    contact_force = contact_wrench = _refused("contact forces")
    about_centre = _refused("quantities about centers of mass")
    constraint_force = _refused("forces of constraints")
    sensors = _refused("sensors", "use a term of bodies such as sensing.imu")


class ProbeView(GradientView):
    """A view in which terms are called before anything compiles: random numbers are 0."""

    def _draw(self, kind, columns, *others):
        return self.arrays.made(np.zeros((self.worlds, columns), np.float32))


def check_terms(task, view: ProbeView) -> None:
    """Raise `ValueError` for a term of observations, rewards or terminations that reads what has no gradient."""
    own, mask = task.own(), view.arrays.made(np.ones(view.worlds, bool))
    for name, term in own.commands.items():
        with contextlib.suppress(Exception):  # the environment calls the term soon, and raises this then
            view.commands[name] = _called(term, view, None, mask)
    for table in ("observations", "critic_observations", "rewards", "terminations"):
        for name, term in getattr(own, table).items():
            try:
                _called(term[1] if isinstance(term, tuple) else term, view)
            except NoGradient as error:
                raise ValueError(f"{table}[{name!r}]: {error}") from None
            except Exception:  # as above
                continue


def _called(term, view, *arguments):
    if hasattr(term, "bind"):
        term.bind(view)
    return term(view, *arguments)


def body_poses(view, q, bodies=None):
    """Body poses `(worlds, nbody, 7)`, link by link as in `model/host_kinematics.py`, with each world's own joints.

    `bodies`: numbers of the bodies that are asked for, which cost the links between them and the ground; None: all.
    """
    m, xp, zero = view.model, view.xp, 0.0 * q[:, :1]
    links: list = []
    bodies = range(m.nbody) if bodies is None else bodies
    needed = {int(m.body_link[body]) for body in bodies}
    for link in reversed(range(m.nlink)):
        if link in needed:
            needed.add(int(m.link_parent[link]))
    mocap = {int(link): i for i, link in enumerate(m.mocap_links)}

    def constant(values):
        return zero + view.arrays.constant(np.asarray(values, view.sim.dtype))

    def compose(a, b):
        return xp.concat([a[:, :3] + rotated(xp, a[:, 3:], b[:, :3]), product(xp, a[:, 3:], b[:, 3:])], axis=-1)

    for link in range(m.nlink):
        if link not in needed:
            links.append(None)
            continue
        parent, kind = int(m.link_parent[link]), JointType(m.link_type[link])
        before = None if parent < 0 else links[parent]
        start, joint = int(m.link_q[link]), int(m.link_joint[link])
        if kind == JointType.FREE:
            links.append(xp.concat([q[:, start : start + 3], _unit(q[:, start + 3 : start + 7])], axis=-1))
            continue
        if link in mocap:  # no gradient flows to mocap poses here
            pose = view.arrays.copied(view.arrays.of(view.state.mocap))[:, mocap[link]]
            links.append(zero + xp.concat([pose[:, :3], _unit(pose[:, 3:])], axis=-1))
            continue
        own = constant(m.link_pose[link]) if kind == JointType.FIXED else zero + view.parameter("joint_pose")[:, joint]
        frame = own if before is None else compose(before, own)
        if kind == JointType.FIXED:
            links.append(frame)
            continue
        position, rotation = frame[:, :3], frame[:, 3:]
        axis, offset = zero + view.parameter("joint_axis")[:, joint], constant(-m.joint_anchor[joint])
        if kind == JointType.SLIDE:
            offset = offset + axis * (q[:, start : start + 1] - float(m.q0[start]))
        elif kind == JointType.HINGE:
            half = 0.5 * (q[:, start : start + 1] - float(m.q0[start]))
            rotation = product(xp, rotation, xp.concat([xp.cos(half), xp.sin(half) * axis], axis=-1))
        else:
            rotation = product(xp, rotation, _unit(q[:, start : start + 4]))
        links.append(xp.concat([position + rotated(xp, rotation, offset), rotation], axis=-1))
    return xp.stack([links[int(m.body_link[body])] for body in bodies], axis=1)


def position_rate(view, q, v):
    """Time derivative of q at velocity v `(worlds, nq)`; quaternions by ½ Q (0, ω), with ω in body axes."""
    m, xp, found = view.model, view.xp, {}
    for joint, kind in enumerate(m.joint_type):
        places, speeds = m.joint_coordinates(m.joint_names[joint])
        a, b = places.start, speeds.start
        if kind == JointType.FREE:
            found[a] = v[:, b : b + 3]
            a, b = a + 3, b + 3
        if kind in (JointType.FREE, JointType.BALL):
            turning = xp.concat([0.0 * v[:, :1], v[:, b : b + 3]], axis=-1)
            found[a] = 0.5 * product(xp, q[:, a : a + 4], turning)
        elif kind != JointType.FIXED:
            found[a] = v[:, b : b + 1]
    return xp.concat([found[a] for a in sorted(found)], axis=-1)


def _unit(quaternion):
    return quaternion / (quaternion * quaternion).sum(-1)[:, None] ** 0.5
