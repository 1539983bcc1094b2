# SPDX-License-Identifier: Apache-2.0
"""Tables of the properties and schemas of simulated prims: which are read, which are ignored, which change the motion.

A table also says on which prims a property is read. Names are regular expressions. A name in no table is unknown: it
gets a line of the report, and a warning if it is in a namespace of physics.
"""

import functools
import re

import numpy as np

PHYSICS_SCHEMAS = re.compile(r"(Physics|Physx|Newton|Mjc|OmniPhysics|TensorPhysics|Isaac)")
PHYSICS_NAMES = re.compile(
    r"(physics|physx\w*|newton|mjc|omniphysics|state|drive|limit|isaac\w*|warpsim:hydroelastic):"
)
UNKNOWN = "unknown here, not read"
BODY, COLLIDER, MATERIAL, MESHES, PAIRS = (
    f"prims with Physics{name}API" for name in ("RigidBody", "Collision", "Material", "MeshCollision", "FilteredPairs")
)
SCENE, JOINT, GROUP, HINGES, BALLS = "scenes", "joints", "collision groups", "hinges and slides", "ball joints"
DISTANCES, DRAWN, MASSES = "distance joints", "shapes", "bodies and colliders with PhysicsMassAPI"


def kinds_of(prim, schemas) -> set[str]:
    """The kinds of a prim, in the terms of `needs`; drives and limits with their axis, such as "drive:rotX"."""
    from pxr import UsdGeom, UsdPhysics

    found = {
        kind
        for kind, schema in (
            (BODY, "PhysicsRigidBodyAPI"),
            (COLLIDER, "PhysicsCollisionAPI"),
            (MATERIAL, "PhysicsMaterialAPI"),
            (MASSES, "PhysicsMassAPI"),
            (MESHES, "PhysicsMeshCollisionAPI"),
            (PAIRS, "PhysicsFilteredPairsAPI"),
        )
        if schema in schemas
    }
    if not {BODY, COLLIDER} & found:
        found.discard(MASSES)
    for kind, type_ in ((SCENE, UsdPhysics.Scene), (JOINT, UsdPhysics.Joint), (GROUP, UsdPhysics.CollisionGroup)):
        found |= {kind} if prim.IsA(type_) else set()
    name = str(prim.GetTypeName())
    tokens = {"PhysicsRevoluteJoint": ("angular",), "PhysicsPrismaticJoint": ("linear",)}.get(name, ())
    found |= {HINGES} if tokens else {BALLS} if name == "PhysicsSphericalJoint" else set()
    found |= {DISTANCES} if name == "PhysicsDistanceJoint" else set()
    generic = (
        tuple(f"{motion}{axis}" for motion in ("trans", "rot") for axis in "XYZ") if name == "PhysicsJoint" else ()
    )
    for token in (*tokens, *generic):
        found |= {f"drive:{token}"} if f"PhysicsDriveAPI:{token}" in schemas else set()
    for token in generic:
        found |= {f"limit:{token}"} if f"PhysicsLimitAPI:{token}" in schemas else set()
    return found | ({DRAWN} if prim.IsA(UsdGeom.Xformable) else set())


AXIS = "physics:axis"  # on other joints it has no meaning
# types that are read although this USD may have no schema for them
TYPES = ("MjcActuator", "MjcTendon", "NewtonActuator")

# (names, kinds of prims on which they are read)
READ = (
    (r"physics:(rigidBodyEnabled|kinematicEnabled)", {BODY}),
    (r"physics:(mass|centerOfMass|diagonalInertia|principalAxes)|newton:inertia", {MASSES}),
    (r"physics:density", {MASSES, MATERIAL}),
    (r"physics:collisionEnabled", {COLLIDER, JOINT}),
    (r"physics:approximation", {MESHES}),
    (r"physics:filteredPairs", {PAIRS}),
    (r"physics:(dynamicFriction|staticFriction|restitution)", {MATERIAL}),
    (r"physics:(body0|body1|localPos0|localPos1|localRot0|localRot1|jointEnabled|excludeFromArticulation)", {JOINT}),
    (r"physics:(lowerLimit|upperLimit)", {HINGES}),
    (AXIS, {HINGES, BALLS}),
    (r"physics:coneAngle[01]Limit", {BALLS}),
    (r"physics:(minDistance|maxDistance)", {DISTANCES}),
    (r"physics:(gravityDirection|gravityMagnitude)", {SCENE}),
    (r"physics:(filteredGroups|invertFilteredGroups|mergeGroup)|collection:colliders:.*", {GROUP}),
    (r"warpsim:hydroelastic:\w+", {COLLIDER}),
    (
        r"xformOp:.*|xformOpOrder|material:binding.*|visibility|purpose|primvars:displayColor|primvars:displayOpacity",
        {DRAWN},
    ),
    (r"radius|height|size|axis|width|length|points|faceVertexCounts|faceVertexIndices|orientation", {DRAWN}),
)
PER_AXIS = re.compile(
    r"(drive|limit):(\w+):physics:(type|stiffness|damping|maxForce|targetPosition|targetVelocity|low|high)"
)


def missing(name: str, needs: set[str]) -> str:
    """Why a property is not read on a prim of another kind."""
    axis = PER_AXIS.fullmatch(name)
    if axis:
        return f"it counts with Physics{axis[1].capitalize()}API:{axis[2]}, on a joint with that axis, alone"
    return f"it is read of {' and '.join(sorted(needs))} alone"


# Values with which an ignored property changes nothing ---------------------------------------------------------


def _number(value) -> bool:
    return isinstance(value, (int, float))


def _any(value) -> bool:
    return True


def _zero(value) -> bool:
    try:
        return value is None or not np.any(np.array(value, float))
    except (TypeError, ValueError):
        return False


def _limitless(value) -> bool:
    return _number(value) and abs(value) >= 1e30


def _default(value) -> bool:
    """-inf or 0: the engine's own default."""
    return _zero(value) or (_number(value) and value <= 0) or value == -np.inf


def _true(value) -> bool:
    return bool(value)


def _of(*words):
    return lambda value: str(value) in words


def _near(*numbers):
    return lambda value: value is not None and len(value) == len(numbers) and np.allclose(value, numbers)


SOLVER = "a setting of another engine's solver"
LIMIT = "limits are near-rigid, without springs"
HULL = "a mesh touches as its convex hull; see decompose and max_hull_vertices"
SPEED = "velocities are not limited"
SOLID = "masses are those of solids"
LOOKS = "how it is drawn"
KEPT = "kept by another program, without meaning for the motion"

# (names, test for values with which nothing is lost, why it is ignored, whether another value changes the motion)
IGNORED = (
    (r"physics:break(Force|Torque)", _limitless, "joints do not break", True),
    (r"physics:startsAsleep", _zero, "bodies do not sleep", True),
    (r"physics:simulationOwner", _any, "all of a stage is one scene", False),
    (r"physxLimit:\w+:stiffness|newton:(\w+:)?limitStiffness", _default, LIMIT, True),
    (r"physxLimit:\w+:damping|newton:(\w+:)?limitDamping|newton:limit_.*", _any, LIMIT, False),
    (r"physxLimit:\w+:restitution", _zero, "limits do not bounce", True),
    (r"physxLimit:\w+:(bounceThreshold|contactDistance)", _any, SOLVER, False),
    (r"physxJoint:maxJointVelocity|physxJointAxis:\w+:maxJointVelocity|newton:velocityLimit", _limitless, SPEED, True),
    (r"physxRigidBody:max(Linear|Angular)Velocity|physxArticulation:max\w*Velocity", _limitless, SPEED, True),
    (
        r"physxJoint:jointFriction",
        _zero,
        "friction as a share of the joint's load is not simulated; give newton:friction [force or torque]",
        True,
    ),
    (r"physxJointAxis:\w+:staticFrictionEffort", _any, "dry friction is that of dynamicFrictionEffort", False),
    (r"physxJoint:enableProjection|physxJoint:.*Threshold", _any, SOLVER, False),
    (r"physxRigidBody:enableGyroscopicForces|physxRigidBody:solveContact", _true, "they always act", True),
    (r"physxRigidBody:locked(Pos|Rot)Axis", _zero, "locked axes of a body are not simulated; use a joint", True),
    (r"physxRigidBody:maxContactImpulse", _limitless, "contact forces are not limited", True),
    (
        r"physxRigidBody:(maxDepenetrationVelocity|sleepThreshold|stabilizationThreshold|solver\w+|enable\w*CCD|"
        r"retainAccelerations|contactSlopCoefficient|cfmScale)",
        _any,
        SOLVER,
        False,
    ),
    (r"physxArticulation:articulationEnabled", _any, "joints are exact either way", False),
    (r"physxArticulation:(solver\w+|sleepThreshold|stabilizationThreshold)", _any, SOLVER, False),
    (r"physxScene:invertCollisionGroupFilter", _zero, "collision groups are not inverted as a whole", True),
    (r"physxScene:.*", _any, SOLVER, False),
    (
        r"physxCollision:contactOffset|newton:contactGap|mjc:gap",
        _any,
        "contacts that bear nothing are not listed",
        False,
    ),
    (
        r"physxCollision:(min)?[tT]orsionalPatchRadius",
        _zero,
        "friction patches are not simulated; give newton:torsionalFriction",
        True,
    ),
    (
        r"physxMaterial:(friction|restitution|damping)CombineMode",
        _any,
        "pairs of geoms are combined by our own rule",
        True,
    ),
    (r"physxMaterial:improvePatchFriction|newton:contactFrictionGain", _any, SOLVER, False),
    (r"physxMaterial:compliantContactAccelerationSpring", _zero, "contact stiffness is that of a force", True),
    (r"newton:contactAdhesion", _default, "adhesion is not simulated", True),
    (r"newton:contact_k[edfa]", _any, "give newton:contactStiffness on the material", True),
    (
        r"newton:maxHullVertices|mjc:maxhullvert|physxConvex(Hull|Decomposition)Collision:.*|physxSDFMeshCollision:.*|"
        r"newton:sdf\w+|physxTriangleMesh\w*:.*|physxSphereFillCollision:.*|physxCookedData:.*",
        _any,
        HULL,
        False,
    ),
    (r"newton:hydroelasticEnabled", _zero, "pressure fields are those of warpsim:hydroelastic:modulus", True),
    (r"newton:hydroelasticStiffness", _any, "pressure fields are those of warpsim:hydroelastic:modulus", False),
    (r"newton:massModel", _of("solid"), SOLID, True),
    (r"mjc:shellinertia", _zero, SOLID, True),
    (r"mjc:inertia", _of("legacy", "convex", "exact"), SOLID, True),
    (r"newton:shellThickness", _any, SOLID, False),
    (
        r"mjc:(solref|solimp)(limit|friction)|mjc:margin",  # margin is read on colliders
        _any,
        "limits are near-rigid and dry friction stiff, with ws.MuJoCo() as by its defaults",
        False,
    ),
    (r"mjc:solref", _near(0.02, 1), "constraints are near-rigid", True),
    (r"mjc:solimp", _near(0.9, 0.95, 0.001, 0.5, 2), "constraints are near-rigid", True),
    (r"mjc:solmix|mjc:group", _any, "as of MJCF", False),
    (r"mjc:springdamper", _zero, "give mjc:stiffness and mjc:damping", True),
    (r"mjc:torqueScale", _any, "a weld holds angles as well as places", False),
    (r"mjc:option:magnetic", _any, "there are no magnetometers in USD", False),
    (r"mjc:option:.*", _any, SOLVER, False),
    (r"mjc:flag:override", _zero, "give the values on the colliders", True),
    (r"mjc:flag:.*", _any, SOLVER, False),
    (r"mjc:compiler:(balanceInertia|boundInertia|boundMass)", _zero, "masses are as they are given", True),
    (r"mjc:compiler:setTotalMass", _default, "masses are as they are given", True),
    (r"mjc:compiler:inertiaFromGeom", _any, "masses are by the rules of UsdPhysics", False),
    (r"mjc:compiler:.*", _any, "a setting of MuJoCo's compiler", False),
    (r"newton:maxSolverIterations|newton:(xpbd|kamino|vbd|mpm):.*", _any, SOLVER, False),
    (r"physics:(engine|tensor:.*|newton:articulation_index|localSpaceVelocities)|isaac\w*:.*", _any, KEPT, False),
    (r"state:\w+:physics:appliedForce", _any, "a result, not a given", False),
    (r"physxContactReport:.*", _any, KEPT, False),
    (r"physxMimicJoint:\w+:(naturalFrequency|dampingRatio)", _default, "the coupling is near-rigid", True),
    (r"physxMimicJoint:\w+:referenceJointAxis", _any, "the follower's joint has one freedom", False),
    (
        r"(newton|mjc):(armature|damping|friction|frictionloss|stiffness|springref|ref|mimic\w+|coef\d)|"
        r"physxJoint:armature|physxJointAxis:.*|state:.*|newton:\w+:(position|velocity)|physxRigidBody:\w+|"
        r"physics:(velocity|angularVelocity)|(newton|mjc):(torsional|rolling)[fF]riction|"
        r"(newton:contact|physxMaterial:compliantContact)(Stiffness|Damping)|newton:contactMargin|"
        r"mjc:(margin|condim|priority|gravcomp|actuatorfrc.*|actuatorgravcomp)|physxCollision:restOffset|"
        r"newton:selfCollisionEnabled|physxArticulation:enabledSelfCollisions|"
        r"newton:(gravityEnabled|timeStepsPerSecond)",
        _zero,
        "not read of such a prim",
        True,
    ),
    (
        r"primvars:.*|material:binding.*|extent|extentsHint|normals|velocities|accelerations|doubleSided|"
        r"subdivisionScheme|interpolateBoundary|faceVaryingLinearInterpolation|triangleSubdivisionRule|"
        r"(corner|crease|hole)\w+|proxyPrim|inputs:.*|outputs:.*|info:.*|model:.*|semantic:.*|semantics:.*|omni:.*|"
        r"ui:.*|userProperties:.*|warpsim:.*|collection:.*",
        _any,
        LOOKS,
        False,
    ),
)

# Applied schemas: (names, why not read, whether that changes the motion). The reason is None for schemas that are read,
# or whose attributes say everything.
SCHEMAS = (
    (
        r"Physics(RigidBody|Mass|Collision|MeshCollision|Material|FilteredPairs|ArticulationRoot)API|"
        r"Physics(Drive|Limit|JointState):\w+|Physics(Drive|Limit|JointState)API:\w+",
        None,
        False,
    ),
    (
        r"Physx(RigidBody|Articulation|Scene|Collision|Material|Joint)API|Physx(Limit|JointAxis|MimicJoint)API:\w+|"
        r"Physx(ConvexHull|ConvexDecomposition|TriangleMesh|TriangleMeshSimplification|SDFMesh|"
        r"SphereFill)\w*CollisionAPI",
        None,
        False,
    ),
    (
        r"Newton(Scene|ArticulationRoot|Joint|Mass|Collision|MeshCollision|SDFCollision|Site|Material|Mimic|PDControl|"
        r"MaxEffortClamping)API",
        None,
        False,
    ),
    (r"Newton(Xpbd|Kamino|Vbd|MPM)SceneAPI", None, False),
    (
        r"Mjc(Scene|Site|Imageable|Collision|MeshCollision|Joint|Material)API|MjcEquality(Connect|Weld|Joint)?API",
        None,
        False,
    ),
    (r"PhysxContactReportAPI|PhysxCookedDataAPI:?\w*|TensorPhysics\w+|Isaac\w+", KEPT, False),
)


def _finder(table):
    """A function that finds the row of a name in a table; None if no row matches."""
    names = re.compile("|".join(f"(?P<row{k}>{row[0]})" for k, row in enumerate(table)))

    @functools.lru_cache(4096)
    def find(name: str):
        found = names.fullmatch(name)
        return None if found is None else table[int(str(found.lastgroup)[3:])]

    return find


ignored, _read, _schema = _finder(IGNORED), _finder(READ), _finder(SCHEMAS)


def needs(name: str) -> set[str] | None:
    """The kinds of prims on which a property is read; None for a property that is not read."""
    axis = PER_AXIS.fullmatch(name)
    if axis:
        return {f"{axis[1]}:{axis[2]}"}
    row = _read(name)
    return None if row is None else row[1]


def schema(name: str) -> tuple[str, bool] | None:
    """(Why an applied schema is not read, whether that changes the motion); None if it is read, or not of physics."""
    if not PHYSICS_SCHEMAS.match(name):
        return None
    _, why, warns = _schema(name) or (name, "an unknown schema, not simulated", True)
    return None if why is None else (why, warns)


def unknown_type(prim) -> bool:
    """Whether a prim has a physics type without a schema here."""
    name = str(prim.GetTypeName())
    return bool(PHYSICS_SCHEMAS.match(name)) and name not in TYPES and not prim.GetPrimTypeInfo().GetSchemaType()
