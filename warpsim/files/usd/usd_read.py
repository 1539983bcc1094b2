# SPDX-License-Identifier: Apache-2.0
"""Convert USD Physics stages to a `Model`: rigid bodies, joints with limits and drives, shapes, masses, materials.

`usd-core` reads the stage; only files in the model's folder are opened (`warpsim.files.usd.usd_open`). Our own export
keeps data beyond the schema (`warpsim.files.usd.usd_extra`), so that a model reads back exactly as it was written.
`model.report` and docs/usd.md say what is used, mapped, ignored and refused.
"""

import collections
import dataclasses
import pathlib
import warnings

import numpy as np

from warpsim.base.checks import grouped
from warpsim.base.errors import ModelError, named
from warpsim.files.adjacent import exclude_neighbours
from warpsim.files.drives import INFINITE, drive_joints
from warpsim.files.kept_json import add_efforts, add_record
from warpsim.files.safe_files import left_out
from warpsim.files.usd import usd_extra
from warpsim.files.usd.usd_authored import Authored, applied, imply
from warpsim.files.usd.usd_bodies import add_start, damping, gravity_share, velocity
from warpsim.files.usd.usd_constraints import add_loop, restore_order
from warpsim.files.usd.usd_contact import soften
from warpsim.files.usd.usd_filters import Filters
from warpsim.files.usd.usd_geoms import Geoms
from warpsim.files.usd.usd_joint_values import Scales, Values, add_mimics, read_values
from warpsim.files.usd.usd_joints import APART, Joint, axis_in_body, joint_motion, read_joint, span
from warpsim.files.usd.usd_known import unknown_type
from warpsim.files.usd.usd_mass import MASS_NAMES, read_mass
from warpsim.files.usd.usd_mjc import SITE_KINDS, SITES, MujocoPrims
from warpsim.files.usd.usd_open import MAX_PRIMS, Units, open_stage, prototypes, usd_words
from warpsim.files.usd.usd_read_looks import Looks
from warpsim.files.usd.usd_report import counted, told
from warpsim.files.usd.usd_scene import Scene
from warpsim.files.usd.usd_shapes import Unsupported, decompose_transform, read_shape
from warpsim.model.builder import ModelBuilder
from warpsim.model.builder_names import free_name
from warpsim.model.elements import add_pairs
from warpsim.model.geometry import IDENTITY, compose, inverse, nearest_rotation, rotation_matrix
from warpsim.model.model import FrictionRule, Model, ReportLine
from warpsim.model.mujoco_options import MuJoCoOptions

TARGETS = "drive_targets"  # name of the keyframe with the drives' targets as controls
MAX_BODIES = 5000
ONE_FREEDOM = ("PhysicsRevoluteJoint", "PhysicsPrismaticJoint")


@dataclasses.dataclass
class Body:
    """A rigid body of the stage.

    `pose` is in the world; `stretch` is the scale of its prim's coordinates in the body's axes; `own` is what our
    export kept.
    """

    prim: object
    name: str
    pose: np.ndarray
    stretch: np.ndarray
    moves: bool
    shapes: list
    kept: dict


def load_usd(path, *, actuators=None, unsupported="error", packages=None, root=None, decompose=False) -> Model:
    """Load a USD stage. See `warpsim.load` for the arguments. Raises `ModelError` that names the file and the prim."""
    path = pathlib.Path(path)
    reader = None
    try:
        with named(path):
            reader = _Reader(open_stage(path, packages, root), path, decompose, packages, root)
            reader.read()
            b = reader.build()
            left_out(path, grouped(reader.refused, ": "), unsupported, stacklevel=4)
            if reader.warned:
                warnings.warn(f"{path}: {told(reader.warned)}. See model.report", stacklevel=4)
            if actuators is not None:
                drive_joints(b, actuators, [INFINITE] * len(b.joints))
            return b.build()
    except ModelError:
        raise
    except (ArithmeticError, LookupError, TypeError, AttributeError, ValueError, RuntimeError, MemoryError) as error:
        what = f"{type(error).__name__} {usd_words(error)}"  # pxr's errors are RuntimeErrors
        raise ModelError(f"{path}: an attribute or customData is not what it should be: {what}") from error
    finally:
        if reader is not None:
            # a stage that stays alive keeps its layers as they were read, which the next load would get
            vars(reader).clear()


class _Reader:
    """Reads a stage once, then builds the model."""

    def __init__(self, stage, path: pathlib.Path, decompose, packages=None, root=None):
        from pxr import UsdGeom

        self.stage, self.path, self.decompose = stage, path, decompose
        self.units = Units(stage)
        self.cache = UsdGeom.XformCache()
        self.bodies: dict[str, Body] = {}
        self.static: list = []
        self.joints: list[Joint] = []
        self.cameras: list[tuple] = []  # path of the body, name, pose in it, vertical angle of view
        self.roots: list[str] = []
        self.refused: list[tuple[str, str, str]] = []  # element, what is wrong with it, what to do
        self.warned: dict[str, list[str]] = collections.defaultdict(list)  # elements by the sentence about them
        self.shaped: set[str] = set()  # paths of colliders with a shape
        self.sites: list[tuple] = []  # path of the body, shape
        # joints of one freedom by path: (index in the builder, values, initial position)
        self.single: dict[str, tuple] = {}
        self.places: dict[str, dict[str, int]] = {kind: {} for kind in ("joint", "tendon", "site")}
        self.starts: dict[int, np.ndarray] = {}  # initial velocities by joint of the builder
        self.efforts: dict[int, tuple] = {}
        self.compensated: set[int] = set()  # joints whose effort limits include gravity compensation
        self.report: list[ReportLine] = []
        self.authored = Authored(self.warn, self.report)
        self.looks = Looks(path, packages, root, self.report)
        self.counts: collections.Counter = collections.Counter()
        self.names: dict[str, set[str]] = collections.defaultdict(set)
        root = stage.GetDefaultPrim() or stage.GetPseudoRoot()
        self.kept = usd_extra.read(root) if root else {}
        self.model_name = (root and root.GetCustomDataByKey("warpsim:model")) or path.stem
        self.timestep = (root and root.GetCustomDataByKey("warpsim:timestep")) or 0.01

    def world_of(self, prim) -> np.ndarray:
        return self.units.matrix(self.cache.GetLocalToWorldTransform(prim))

    def owner(self, prim) -> tuple[str | None, np.ndarray]:
        """Path and pose of the rigid body that a prim belongs to; None and the identity for the world."""
        while prim and not prim.IsPseudoRoot():
            body = self.bodies.get(str(prim.GetPath()))
            if body is not None:
                return str(prim.GetPath()), body.pose
            prim = prim.GetParent()
        return None, IDENTITY

    def refuse(self, element: str, what: str, fix: str) -> None:
        self.report.append(ReportLine(element, "refused", what))
        self.refused.append((element, what, fix))

    def warn(self, element: str, what: str, status: str = "ignored") -> None:
        """Report an element that is left out or changed, and add it to the one warning of the file."""
        self.report.append(ReportLine(element, status, what))
        self.warned[what].append(element)

    def unique(self, prim, kind: str) -> str:
        """A unique name: the element's own or the prim's name, or the path if that is taken."""
        name = prim.GetCustomDataByKey("warpsim:name") or prim.GetName()
        if name in self.names[kind] or (kind == "body" and name == "world"):
            name = str(prim.GetPath())
        name = free_name(name, self.names[kind])
        self.names[kind].add(name)
        return str(name)

    # Reading ---------------------------------------------------------------------------------------------------------

    def prims(self) -> list:
        """Every active prim, including those of instances.

        Prototypes of point instancers, and prims that references copy into the default prim, are left out.
        """
        from pxr import Usd, UsdGeom

        copied = prototypes(self.stage)
        found, walk = [], iter(Usd.PrimRange(self.stage.GetPseudoRoot(), Usd.TraverseInstanceProxies()))
        for prim in walk:
            if prim.IsA(UsdGeom.PointInstancer):
                if prim.GetCustomDataByKey(usd_extra.WORLDS) is not None:
                    raise ModelError(
                        f"{prim.GetPath()} shows several worlds of a trajectory, without their physics; write the "
                        "model by model.to_usd, or one world by trajectory.to_usd(..., worlds=[0])"
                    )
                self.warn(f"point instancer {prim.GetPath()}", "its copies are not read")
                walk.PruneChildren()
            elif prim.GetPath() in copied:
                self.warn(f"prim {prim.GetPath()}", "references copy it into the default prim, which it is not part of")
                walk.PruneChildren()
            else:
                found.append(prim)
            if len(found) > MAX_PRIMS:
                raise ModelError(f"more than {MAX_PRIMS} prims")
        return found

    def read(self) -> None:
        """Read the scene, bodies, shapes and joints."""
        from pxr import UsdGeom, UsdPhysics

        prims = self.all = self.prims()
        imply(self.stage, prims, self.warn)
        for prim in prims:
            if prim.HasAPI(UsdPhysics.RigidBodyAPI) and prim.IsA(UsdGeom.Xformable):
                self._body(prim)
            elif prim.HasAPI(UsdPhysics.RigidBodyAPI):
                self.warn(f"body {prim.GetPath()}", f"a {prim.GetTypeName() or 'prim without a type'} has no place")
        if len(self.bodies) > MAX_BODIES:
            raise ModelError(f"{len(self.bodies)} rigid bodies, more than {MAX_BODIES}")
        for prim in prims:
            if prim.HasAPI(UsdPhysics.ArticulationRootAPI):
                self._articulation(prim)
            if prim.IsA(UsdGeom.Gprim):
                self._geom(prim)
            elif prim.IsA(UsdGeom.Xformable) and any(schema in SITES for schema in applied(prim)):
                self._site(prim, *self._in_body(prim))
            if prim.IsA(UsdGeom.Camera) and not self.kept:
                self._camera(prim)
            if prim.IsA(UsdPhysics.Joint):
                name = self.unique(prim, "constraint" if "constraint" in usd_extra.read(prim) else "joint prim")
                joint = read_joint(prim, name, self.stage, self.owner, self.units, self.world_of, self.refuse)
                if joint is None:
                    self.report.append(ReportLine(f"joint {prim.GetPath()}", "ignored", "disabled or refused"))
                else:
                    self.joints.append(joint)
            elif unknown_type(prim) and str(prim.GetTypeName()).endswith("Joint"):
                self.refuse(f"joint {prim.GetPath()}", f"a {prim.GetTypeName()} is not simulated", "remove it")
                self.authored.passed(prim, *map(str, prim.GetAuthoredPropertyNames()))
            if prim.IsA(UsdPhysics.Scene):
                self.counts["Scene"] += 1
        self._empty_colliders(prims)
        scenes = [p for p in prims if p.IsA(UsdPhysics.Scene)]
        self.scene = Scene(scenes, self.authored, self.units, self.report, self.warn)
        self._tree()

    def _tree(self) -> None:
        """Span the kinematic trees, and refuse features of their joints that cannot be simulated."""
        for joint in self.joints:
            joint.stacks = self._stacks(joint)
        self.order, self.loops = span(list(self.bodies), self.joints, self.roots)
        heads = [(path, first) for path, first in self.order if first is not None]
        for path, joint, alone in [
            (path, j, not first.stacked) for path, first in heads for j in (first, *first.stacked)
        ]:
            if self.bodies[path].kept.get("joints"):
                continue
            self._joint_values(joint, alone)
            label = f"joint {joint.prim.GetPath()}"
            if joint.kind == "freedoms" and not joint.freedoms and joint.prim.GetTypeName() in ONE_FREEDOM:
                self.report.append(ReportLine(label, "mapped", "its lower limit is above its upper: it is locked"))
            if joint.cone is not None and not self._rotation_limit(joint):
                self.refuse(label, "cone limits of a spherical joint are not simulated", "remove them")
            for freedom in joint.freedoms:
                if freedom.drive is not None and freedom.drive.acceleration and not freedom.drive.idle:
                    fix = "use a drive of type force"
                    self.refuse(label, "acceleration drives, scaled by mass, are not simulated", fix)
                    freedom.drive = None

    def _stacks(self, joint: Joint) -> bool:
        """Whether a joint adds freedoms to those of its body, as MuJoCo's joints do, or if the articulation says so."""
        if joint.kind not in ("freedoms", "ball") or (joint.kind == "freedoms" and len(joint.freedoms) != 1):
            return False
        if "MjcJointAPI" in applied(joint.prim):
            return True
        for prim in (joint.prim, *(self.bodies[path].prim for path in joint.bodies if path is not None)):
            while prim and not prim.IsPseudoRoot():
                if self.authored.get(prim, "newton:jointsAddMobility", False):
                    return True
                prim = prim.GetParent()
        return False

    def _scales(self, hinge: bool) -> Scales:
        return Scales(hinge, self.units, self.scene.degrees)

    def _joint_values(self, joint: Joint, alone: bool) -> None:
        """Read armature, friction and further values of a joint of a tree; `alone`: its body has no other joint."""
        for freedom in joint.freedoms:
            freedom.values = read_values(self.authored, joint.prim, freedom.token, self._scales(freedom.hinge))
        moved = any(f.values.position for f in joint.freedoms)
        if moved and joint.kind != "free" and (joint.kind == "ball" or not alone):
            self.warn(f"joint {joint.prim.GetPath()}", "its position at the start is that of the stage")
        if joint.kind == "ball" and not joint.freedoms:
            joint.values = read_values(self.authored, joint.prim, "angular", self._scales(True))

    @staticmethod
    def _rotation_limit(joint: Joint) -> bool:
        """Whether the cone of a spherical joint is MuJoCo's limit of the whole rotation."""
        return "MjcJointAPI" in applied(joint.prim) and joint.cone[0] == joint.cone[1] > 0

    def _body(self, prim) -> None:
        from pxr import UsdPhysics

        api = UsdPhysics.RigidBodyAPI(prim)
        moves = api.GetRigidBodyEnabledAttr().Get() is not False and not api.GetKinematicEnabledAttr().Get()
        matrix = self.world_of(prim)
        pose, _ = decompose_transform(matrix, f"body {prim.GetPath()}")
        stretch = rotation_matrix(pose[3:]).T @ matrix[:3, :3]
        own = usd_extra.read(prim)
        if any(joint["type"] == "free" for joint in own.get("joints", [])):
            pose = usd_extra.exact_pose(pose, own.get("pose"))
        self.bodies[str(prim.GetPath())] = Body(prim, self.unique(prim, "body"), pose, stretch, moves, [], own)
        if not moves:
            why = "kinematic or disabled: fixed where it stands"
            self.report.append(ReportLine(f"body {prim.GetPath()}", "mapped", why))

    def _articulation(self, prim) -> None:
        """Add the first body of an articulation root, the prim itself or the first below it, to the roots of trees."""
        from pxr import UsdPhysics

        if prim.IsA(UsdPhysics.Joint):
            return
        start = str(prim.GetPath())
        below = [p for p in self.bodies if p == start or p.startswith(start + "/")]
        self.roots.extend(below[:1])

    def _camera(self, prim) -> None:
        """Read a camera of a foreign stage; our export keeps its cameras in customData."""
        from pxr import UsdGeom

        path, to_body = self._in_body(prim)
        camera = UsdGeom.Camera(prim)
        height, focal = (float(x.Get()) for x in (camera.GetVerticalApertureAttr(), camera.GetFocalLengthAttr()))
        if str(camera.GetProjectionAttr().Get()) != "perspective" or not (height > 0 and focal > 0):
            self.report.append(ReportLine(f"camera {prim.GetPath()}", "ignored", "it is not perspective"))
            return
        try:
            pose, _ = decompose_transform(to_body, f"camera {prim.GetPath()}")
        except ModelError as error:
            self.report.append(ReportLine(f"camera {prim.GetPath()}", "ignored", str(error)))
            return
        self.cameras.append((path, self.unique(prim, "camera"), pose, 2 * np.arctan(height / 2 / focal)))

    def _in_body(self, prim) -> tuple[str | None, np.ndarray]:
        """The body that a prim belongs to, and the prim's transform in that body."""
        path, pose = self.owner(prim)
        to_body = self.world_of(prim)
        if path is not None:
            turn = rotation_matrix(pose[3:]).T
            to_body[:3, 3] -= pose[:3]
            to_body[:3] = turn @ to_body[:3]
        return path, to_body

    def _geom(self, prim) -> None:
        from pxr import UsdPhysics

        if self.kept and prim.GetCustomDataByKey(usd_extra.DRAWS):
            self.counts["drawn"] += 1
            return
        path, to_body = self._in_body(prim)
        if any(schema in SITES for schema in applied(prim)) and not prim.HasAPI(UsdPhysics.CollisionAPI):
            self._site(prim, path, to_body)
            return
        body, collider, label = (
            None if path is None else self.bodies[path],
            self._collider(prim),
            f"geom {prim.GetPath()}",
        )
        frame = None
        if collider is not None and collider != prim:
            frame = self._in_body(collider)[1]
            self.authored.passed(prim, *MASS_NAMES)
        try:
            shape = read_shape(
                prim, to_body, self.units, self.unique(prim, "geom"), bool(self.kept), collider, frame, self.authored
            )
        except ModelError as error:
            if collider is None:
                self.warn(label, f"not drawn: {str(error).removeprefix(f'{label}: ')}")
            elif isinstance(error, Unsupported):
                self.refuse(label, error.what, error.fix)
            else:
                raise
            return
        if shape is None:
            tell = (
                self.warn
                if collider is not None
                else lambda *line: self.report.append(ReportLine(line[0], "ignored", line[1]))
            )
            tell(f"{prim.GetTypeName()} {prim.GetPath()}", "it is no solid shape")
            return
        (self.static if body is None else body.shapes).append(shape)

    def _site(self, prim, path, to_body) -> None:
        """Read a site: a frame that MuJoCo's or Newton's schemas mark on a prim."""
        label = f"site {prim.GetPath()}"
        pose, _ = decompose_transform(to_body, label, shear=True)
        try:
            shape = read_shape(prim, to_body, self.units, label, False)
        except ModelError as error:
            self.warn(label, f"it is a point: {error}")
            shape = None
        drawn = shape is not None and shape.kind in SITE_KINDS
        looks = {"type": shape.kind, "size": shape.size, "rgba": shape.rgba} if drawn else {}
        self.sites.append((path, str(prim.GetPath()), self.unique(prim, "site"), shape.pose if drawn else pose, looks))

    def _collider(self, prim):
        """The prim with PhysicsCollisionAPI of a gprim: itself, or one above it up to its body; None without one."""
        from pxr import UsdGeom, UsdPhysics

        first = prim
        while prim and not prim.IsPseudoRoot():
            if prim.HasAPI(UsdPhysics.CollisionAPI) and (prim == first or not prim.IsA(UsdGeom.Gprim)):
                self.shaped.add(str(prim.GetPath()))
                return prim
            if str(prim.GetPath()) in self.bodies:
                return None
            prim = prim.GetParent()
        return None

    def _empty_colliders(self, prims) -> None:
        """Report prims with PhysicsCollisionAPI above their shapes, and warn of those without shapes."""
        from pxr import UsdGeom, UsdPhysics

        for prim in prims:
            if not prim.HasAPI(UsdPhysics.CollisionAPI) or prim.IsA(UsdGeom.Gprim):
                continue
            label = f"collision of {prim.GetPath()}"
            if str(prim.GetPath()) in self.shaped:
                self.report.append(ReportLine(label, "mapped", f"of a {prim.GetTypeName()}: the shapes below it touch"))
            else:
                self.warn(label, f"a {prim.GetTypeName()} without a shape that touches; put it on gprims")

    # Building --------------------------------------------------------------------------------------------------------

    def build(self) -> ModelBuilder:
        """The builder with everything that was read."""
        gravity = usd_extra.exact(self.scene.gravity(), self.kept.get("gravity"))
        step = self.scene.timestep(float(self.timestep))
        b = ModelBuilder(str(self.model_name), gravity=gravity, timestep=step, **self.scene.medium())
        b.report = self.report
        b.mujoco = MuJoCoOptions(**self.kept.get("mujoco", {}))
        if "friction_rule" in self.kept:
            b.friction_rule = FrictionRule(self.kept["friction_rule"])
            b.filter_parent = bool(self.kept["filter_parent"])
        self.index: dict[str | None, int] = {None: -1}
        self.targets: dict[str, float] = {}
        for path, joint in self._file_order(self.order):
            self._add_body(b, path, joint)
        geoms = [(self.index[path], shape) for path, body in self.bodies.items() for shape in body.shapes]
        writer = Geoms(b, self)
        writer.add([(-1, shape) for shape in self.static] + geoms)
        self.touching, self.places["geom"], self.soft = writer.touching, writer.rounded, writer.soft
        if medium := self.kept.get("medium"):
            b.density, b.viscosity = (float(medium.get(key, 0.0)) for key in ("density", "viscosity"))
            b.wind = np.array(medium.get("wind", np.zeros(3)), float)
        for camera in self.kept.get("cameras", []):
            if int(camera["body"]) < len(b.bodies):
                b.add_camera(**camera)
        self._add_constraints(b)
        for pair in self.kept.get("excluded", []):
            b.exclude(*(int(x) for x in pair))
        if not self.kept:
            colliding = [self.index[path] for path, joint in self.order if joint is not None and joint.touches]
            exclude_neighbours(b, colliding)
        self._own_rest(b)
        self._foreign_rest(b)
        b.report[:0] = counted(self.counts, self.units, len(self.bodies))
        self.authored.unread(self.all, self._stands)
        return b

    def _stands(self, prim) -> bool:
        """Whether a prim of a foreign stage belongs to no body that moves."""
        path = self.owner(prim)[0]
        return not self.kept and (path is None or not self.bodies[path].moves)

    def _foreign_rest(self, b: ModelBuilder) -> None:
        """Add what schemas other than UsdPhysics say.

        These are mimic joints, MuJoCo's tendons and actuators, filters, flags, and initial velocities.
        """
        self.places["body"] = {path: k for path, k in self.index.items() if path is not None}
        scales = {str(j.prim.GetPath()): self._scales(j.freedoms[0].hinge) for j in self.joints if j.freedoms}
        joints = [joint.prim for joint in self.joints]
        add_mimics(b, self.authored, joints, self.single, scales.__getitem__, self.warn)
        mujoco = MujocoPrims(b, self.authored, self.places, self.scene, self.units, self.warn)
        mujoco.add(self.all)
        mujoco.efforts(self.efforts, self.compensated)
        roots = self._articulations()
        Filters(self.stage, b, self.authored, self.index, self.touching, roots, self.warn).add(self.all)
        soften(b, self.soft, self.warn)
        self.scene.turn_off(b)
        add_start(b, self.starts, self.targets, self.warn)

    def _articulations(self) -> dict[str, list[list[str]]]:
        """The trees of each articulation root, by its path: a list of the bodies of each tree."""
        from pxr import UsdPhysics

        tree: dict[str, str] = {}  # per body: the first body of its tree
        for path, joint in self.order:
            parent = None if joint is None else joint.bodies[0]
            tree[path] = path if parent is None else tree[parent]
        members = collections.defaultdict(list)
        for path, first in tree.items():
            members[first].append(path)
        found = {}
        for prim in self.all:
            if not prim.HasAPI(UsdPhysics.ArticulationRootAPI):
                continue
            start = str(prim.GetPath())
            ends = [p for j in self.joints if j.prim == prim for p in j.bodies if p is not None]
            below = ends or [p for p in tree if p == start or p.startswith(start + "/")]
            found[start] = [members[first] for first in dict.fromkeys(tree[p] for p in below)]
        return found

    def _file_order(self, order):
        """The bodies in the order that our export kept, if all have one and parents come first; else as spanned."""
        if not all("index" in self.bodies[path].kept for path, _ in order):
            return order
        kept = sorted(order, key=lambda item: int(self.bodies[item[0]].kept["index"]))
        seen = {None}
        for path, joint in kept:
            if joint is not None and joint.bodies[0] not in seen:
                return order
            seen.add(path)
        return kept

    def _add_body(self, b: ModelBuilder, path: str, joint: Joint | None) -> None:
        """Add a body with its mass and the joint from its parent."""
        body = self.bodies[path]
        parent = None if joint is None else joint.bodies[0]
        mass, com, inertia = read_mass(body.prim, body.shapes, self.units, body.kept, body.stretch)
        pose, q0 = body.pose, None
        if joint is not None:
            parent_pose = IDENTITY if parent is None else self.bodies[parent].pose
            if body.kept:
                pose = usd_extra.exact_pose(joint.pose(), body.kept.get("pose"))
            else:
                motion, q0, rest = joint_motion(joint, parent_pose, body.pose)
                still = joint.kind == "ball" or joint.stacked
                pose = joint.pose(IDENTITY if still else motion)
                q0 = [*q0, motion[3:]] if joint.kind == "ball" else q0
                if rest > APART:
                    why = f"its frames are {rest:.3g} apart (m or rad); the body starts where the joint says"
                    self.report.append(ReportLine(f"joint {joint.name!r}", "mapped", why))
        free = joint is None and body.moves
        if joint is not None and joint.kind == "free" and parent is None and not body.kept.get("joints"):
            free, pose = True, body.pose
        index = b.add_body(
            body.name,
            parent=self.index[parent],
            pose=pose,
            mass=mass,
            com=com,
            inertia=inertia,
            mocap=bool(body.kept.get("mocap", False)),
            gravcomp=float(body.kept.get("gravcomp", gravity_share(self.authored, body.prim))),
        )
        if "fluid_axes" in body.kept:
            b.bodies[index].axes = np.array(body.kept["fluid_axes"], float)
        self.index[path] = index
        if body.kept.get("joints") and self._add_own_joints(b, index, body, joint, pose):
            return
        slowed = (self.authored, body.prim, free, mass, com, inertia, self.report, self.warn)
        rates = damping(*slowed) if body.moves else 0.0
        speed = velocity(self.authored, body.prim, self._turn_of, self.units, body.pose, com) if body.moves else None
        if free:
            self.counts["free bodies"] += 1
            j = b.add_joint(index, "free", name=self._joint_name(b, f"{body.name}_free"), damping=rates)
            self.starts |= {} if speed is None else {j: speed}
        elif speed is not None:
            self.warn(f"velocity of {path}", "links start as their joints say; give them a PhysicsJointStateAPI")
        if free:
            pass
        elif joint is not None and body.moves:
            self._add_joint(b, index, joint, q0)
            for part in joint.stacked:
                self._add_joint(b, index, part, None)
        elif joint is not None and (joint.freedoms or joint.kind != "freedoms"):
            self.report.append(ReportLine(f"joint {joint.name!r}", "ignored", "its body is kinematic or disabled"))

    def _turn_of(self, prim) -> np.ndarray:
        """Axes (3, 3) of a prim in the world."""
        return nearest_rotation(self.world_of(prim)[:3, :3]) if prim and not prim.IsPseudoRoot() else self.units.up

    @staticmethod
    def _joint_name(b: ModelBuilder, name: str) -> str:
        return free_name(name, {j.name for j in b.joints})

    def _add_joint(self, b: ModelBuilder, index: int, joint: Joint, q0) -> None:
        """Add the joints that represent a foreign USD joint, and actuators for its drives."""
        anchor = joint.frames[1][:3]
        freedoms = list(joint.freedoms)
        single = len(freedoms) == 1 and joint.kind == "freedoms"
        for k, freedom in enumerate(freedoms):
            if joint.kind == "free" and freedom.hinge:
                continue
            name = self._joint_name(b, joint.name if single else f"{joint.name}_{k}")
            kind, values = "hinge" if freedom.hinge else "slide", freedom.values
            start = (q0[k] if q0 else 0.0) + values.offset
            j = b.add_joint(
                index,
                kind,
                name=name,
                axis=axis_in_body(joint, freedom),
                anchor=anchor,
                range=None if freedom.range is None else np.array(freedom.range) + values.offset,
                q0=[start],
                **values.options(),
            )
            self.counts[f"{kind} joints"] += 1
            if single:
                self.single[str(joint.prim.GetPath())] = (j, values, start)
                self.places["joint"][str(joint.prim.GetPath())] = j
            self._remember(j, values)
            if freedom.drive is not None:
                self._add_drive(b, name, freedom.drive, values.offset)
        if joint.kind in ("ball", "free"):
            turn = q0[-1] if joint.kind == "ball" and q0 else None
            name, options = self._joint_name(b, joint.name), joint.values.options() | {"reference": 0.0}
            limit = (0.0, joint.cone[0]) if joint.cone is not None and self._rotation_limit(joint) else None
            start = self._turned(joint, turn)
            j = b.add_joint(index, "ball", name=name, anchor=anchor, q0=start, range=limit, **options)
            self.places["joint"].setdefault(str(joint.prim.GetPath()), j)
            self.counts["ball joints"] += 1

    def _remember(self, j: int, values: Values) -> None:
        """Remember values of a joint that are used once the rest of the model is read."""
        if values.velocity:
            self.starts[j] = np.array([values.velocity])
        if values.efforts is not None:
            self.efforts[j] = values.efforts
            self.compensated |= {j} if values.gravity else set()

    @staticmethod
    def _turned(joint: Joint, turn):
        """A rotation in the joint frame, expressed in the body's axes."""
        if turn is None:
            return None
        frame = np.concatenate([np.zeros(3), joint.frames[1][3:]])
        return compose(compose(frame, np.concatenate([np.zeros(3), turn])), inverse(frame))[3:]

    def _add_drive(self, b: ModelBuilder, name: str, drive, offset: float) -> None:
        """Add a position or velocity actuator equivalent to a drive; positions count from `offset`."""
        if drive.stiffness == 0 and drive.damping == 0:
            self.report.append(
                ReportLine(f"drive of joint {name!r}", "ignored", "it has neither stiffness nor damping")
            )
            return
        limits = {"force_range": (-drive.max_force, drive.max_force)}
        if drive.stiffness > 0:
            b.add_actuator(name, "position", name=name, kp=drive.stiffness, kv=drive.damping, **limits)
            self.targets[name] = drive.position + offset
            if drive.velocity:
                why = "the target velocity beside a target position is not used"
                self.report.append(ReportLine(f"drive of joint {name!r}", "ignored", why))
        else:
            b.add_actuator(name, "velocity", name=name, kv=drive.damping, **limits)
            self.targets[name] = drive.velocity
        self.counts["drives"] += 1

    def _add_own_joints(self, b: ModelBuilder, index: int, body: Body, joint: Joint | None, pose) -> bool:
        """Add a body's joints as our export kept them; False if they disagree with the schema."""
        kept = body.kept["joints"]
        free = [k["type"] for k in kept] == ["free"]
        if free != (joint is None):
            return False
        single = joint is not None and len(joint.freedoms) == 1 and joint.kind == "freedoms" and len(kept) == 1
        if joint is not None and not single and len(kept) == 1 and kept[0]["type"] != "ball":
            return False
        for data in kept:
            arguments = {key: value for key, value in data.items() if key not in ("type", "q0", "reference")}
            arguments |= {"q0": np.array(data["q0"], float), "reference": np.array(data["reference"], float)}
            if free:
                arguments["q0"] = pose
            if single:
                freedom = joint.freedoms[0]
                if (data["type"] == "hinge") != freedom.hinge:
                    return False
                limits = None if freedom.range is None else np.array(freedom.range) + arguments["q0"][0]
                arguments["range"] = limits if limits is None else usd_extra.exact(limits, data["range"])
                arguments["axis"] = usd_extra.exact(axis_in_body(joint, freedom), data["axis"])
                arguments["anchor"] = usd_extra.exact(joint.frames[1][:3], data["anchor"])
                for key in ("stiffness", "damping"):
                    value = 0.0 if freedom.drive is None else getattr(freedom.drive, key)
                    arguments[key] = usd_extra.exact([value], data[key])
            b.add_joint(index, data["type"], **arguments)
            self.counts[f"{data['type']} joints"] += 1
        return True

    def _add_constraints(self, b: ModelBuilder) -> None:
        """Add the joints that close loops, sites, cameras, and the tendons and constraints that our export kept."""
        poses = {path: body.pose for path, body in self.bodies.items()} | {None: IDENTITY}
        for joint in self.loops:
            add_loop(b, joint, self.index, poses, self.refuse)
        for site in self.kept.get("sites", []):
            b.add_site(**site)
        for path, prim, name, pose, looks in self.sites:
            self.places["site"][prim] = b.add_site(name, body=self.index[path], pose=pose, **looks)
        self.counts["sites"] = len(self.sites)
        for path, name, pose, fovy in self.cameras:
            b.add_camera(name, body=self.index[path], pose=pose, fovy=fovy)
        self.counts["cameras"] = len(b.cameras)
        for tendon in self.kept.get("tendons", []):
            usd_extra.add_tendon(b, tendon)
        for record in self.kept.get("constraints", []):
            add_record(b, record)
        restore_order(b, self.kept, self.loops)
        self.counts["constraints"] = len(b.constraints)
        self.counts["tendons"] = len(b.tendons)

    def _own_rest(self, b: ModelBuilder) -> None:
        """Add the pairs, actuators, sensors and keyframes that our export kept, and a keyframe of drive targets."""
        add_pairs(b, self.kept.get("pairs", []))
        for actuator in self.kept.get("actuators", []):
            usd_extra.add_actuator(b, actuator)
        add_efforts(b, self.kept.get("effort_limits", []))
        for sensor in self.kept.get("sensors", []):
            usd_extra.add_sensor(b, sensor)
        self.counts["sensors"] = len(b.sensors)
        for name, frame in self.kept.get("keyframes", {}).items():
            b.add_keyframe(name, **frame)
        if any(self.targets.values()) and TARGETS not in b.keyframes:
            b.add_keyframe(TARGETS, control=[self.targets.get(a.name, 0.0) for a in b.actuators])
            b.report.append(ReportLine("drive targets", "mapped", f"controls of the keyframe {TARGETS!r}"))
