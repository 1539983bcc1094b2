# SPDX-License-Identifier: Apache-2.0
"""Names used by MuJoCo, Isaac Lab, Newton, Drake and others: errors that say what warpsim calls them.

`OtherNames` makes a base class with an attribute for each such name. Reading or assigning it raises `AttributeError` (a
Python object would silently accept a new attribute). `explained` extends the `TypeError` for an unknown keyword.
Neither costs time if names are right.
"""

import difflib
import functools
import inspect
import re
import types
import typing
from collections.abc import Callable
from typing import TYPE_CHECKING

from warpsim.base.checks import listed

Method = typing.TypeVar("Method", bound=Callable[..., typing.Any])

UNKNOWN = re.compile(r"([\w.<>]+)\(\) got an unexpected keyword argument '(\w+)'$")
TOO_MANY = re.compile(r"([\w.<>]+)\(\) takes .*positional arguments? but .* (?:was|were) given$")


def _table(text: str) -> dict[str, str]:
    """Parse lines of the form `name name: what to write`."""
    found = {}
    for line in text.strip().splitlines():
        names, here = line.split(": ", 1)
        found |= dict.fromkeys(names.split(), here.strip())
    return found


# The keyword is followed by the names that functions of warpsim use; the answer is the one that the function has.
KEYWORDS = _table("""
num_envs n_envs nenv num_worlds n_worlds nworld world_count batch_size num_environments nbatch: worlds
timestep time_step sim_dt physics_dt step_size delta_t h: dt
ctrl action actions act_targets u control_input joint_target: control, controls
control: controls
controls: control
nstep nsteps n_steps num_steps step_count num_frames horizon T: steps, substeps
nsubstep nsubsteps n_substeps num_substeps sim_substeps frame_skip decimation sub_steps: substeps
qfrc_applied qfrc joint_f torque torques generalized_forces effort efforts: tau
xfrc_applied body_f external_force external_forces wrenches forces: wrench
qpos joint_q joint_pos joint_positions positions dof_pos: q
qvel qd joint_qd joint_vel joint_velocities velocities dof_vel: v
qacc joint_qdd: a
act activations: activation
mocap_pos mocap_quat mocap_poses: mocap
key key_name keyframe_name key_id: keyframe
backend sim_device platform: device
precision float_type: dtype
nconmax naconmax njmax max_contact rigid_contact_max max_contact_count: max_contacts
initial_state state_0 state_in data: state
state_1 state_out: out
env_ids env_idx world_ids mask reset_mask: worlds
mj_model mjm mjcf urdf robot xml: model, source
filename file path model_path xml_path asset_path asset_file urdf_path usd_path: source, path
fix_base_link fixed_base floating useFixedBase floating_base free_base: base
package_dirs package_dir package_map mesh_dir meshdir: packages
collapse_fixed_joints merge_fixed_joints fuse_fixed_joints: merge_fixed
contact_solver solver_type: solver
num_threads nthread nthreads n_threads: threads
differentiable grad: requires_grad
body_name link link_name site: body
""")

REMOVED = _table("""
bounce_correction: ws.Simulator(..., time_of_impact=True), the default with restitution, has the gradients of the motion
""")
STEPS = ("nstep", "nsteps", "n_steps", "num_steps", "steps", "step_count", "decimation", "frame_skip")
_STATE = _table("""
qpos joint_q joint_pos dof_pos positions: q
qvel joint_qd joint_vel dof_vel velocities qd: v
act: activation
ctrl control action actions: an argument of a step: sim.step(state, control)
qfrc_applied joint_f torque: an argument of a step: sim.step(state, control, tau=...)
xfrc_applied body_f: an argument of a step: sim.step(state, control, wrench=...)
xpos xquat xmat xipos body_q body_pos body_poses link_pos root_pos_w root_quat_w root_state_w body_pos_w body_quat_w: \
sim.kinematics(state.q)
cvel body_qd body_vel root_lin_vel_w root_ang_vel_w root_lin_vel_b root_ang_vel_b body_lin_vel_w body_ang_vel_w: \
sim.body_velocity(state)
qacc joint_qdd: sim.acceleration(state), of ws.Simulator(..., reactions=True)
sensordata sensors: sim.sensors(state)
contact contacts ncon: sim.contacts(state)
energy: sim.energy(state)
mocap_pos mocap_quat: mocap
flags: memory["flags"]
num_envs num_worlds n_envs nworld world_count batch_size: worlds
actuator_force qfrc_actuator: sim.sensors(state) of sensors actuatorfrc, jointactuatorfrc
qfrc_bias: sim.inverse_dynamics(state.q, state.v, a)
efc_force contact_force: sim.contact_force()
subtree_com: sim.about_centre(state)
model m: sim.model
GetPositions get_positions: q
GetVelocities get_velocities: v
copy detach: clone()
qM: sim.mass_matrix(state.q)
site_xpos geom_xpos: sim.kinematics(state.q), and the element's pose in its body
""")
_SIMULATOR = _table("""
num_envs num_worlds n_envs nworld world_count batch_size: worlds
timestep physics_dt sim_dt time_step: dt
opt option options: dt, solver and integrator; gravity is sim.parameters["gravity"]
data d qpos qvel ctrl act time state_0: the state is an argument and a result: state = sim.state(); state = \
sim.step(state, control); state.q, state.v
joint_q joint_qd joint_pos joint_vel dof_pos dof_vel: state.q and state.v of state = sim.state()
control qfrc_applied joint_f xfrc_applied body_f: an argument of a step: sim.step(state, control, tau=..., wrench=...)
mocap_pos mocap_quat: sim.step(state, mocap=poses), state.mocap
reset_idx reset_world reset_data: sim.reset(state, worlds)
set_state get_state: sim.state(q, v) makes a state, which has its arrays
forward fk eval_fk xpos xquat xmat xipos site_xpos geom_xpos body_q root_pos_w root_quat_w body_pos_w body_quat_w \
get_pos: sim.kinematics(state.q)
cvel body_qd root_lin_vel_w root_ang_vel_w root_lin_vel_b root_ang_vel_b: sim.body_velocity(state)
update stepSimulation AdvanceTo mj_step: state = sim.step(state, control)
simulate run roll_out step_n: sim.rollout(state, controls, steps=100)
qM crb full_M: sim.mass_matrix(state.q)
actuator_force qfrc_actuator: sim.sensors(state) of sensors actuatorfrc, jointactuatorfrc
efc_force: sim.contact_force()
subtree_com: sim.about_centre(state)
qfrc_bias rne: sim.inverse_dynamics(state.q, state.v, a)
qacc: sim.acceleration(state), of ws.Simulator(..., reactions=True)
sensordata sensor: sim.sensors(state)
jac jac_body jac_site: sim.jacobian(state.q, body, point)
ncon contact get_contacts collide: sim.contacts(state), sim.last_contacts
ray raycast cast_rays: sim.ray_cast(state, origin, direction)
gravity: sim.parameters["gravity"]
geom_friction body_mass body_inertia body_com joint_damping joint_armature joint_friction joint_stiffness \
actuator_gain actuator_bias dof_damping dof_armature body_ipos actuator_gainprm: an entry of sim.parameters, as \
sim.parameters["geom_friction"]
scene env robot: sim.model, and state = sim.state()
nq nv nu na nbody ngeom njnt njoint nsite num_dof num_bodies num_joints body_count joint_count shape_count \
joint_dof_count: sim.model.nq, nv, nu, ...
render viewer view launch_viewer launch_passive: ws.Viewer(sim), or trajectory.to_html(path)
save_usd export_usd to_usd write_usd save_html to_html save: trajectory = sim.rollout(...); trajectory.to_usd(path), \
to_html(path), save(path)
mjm mj_model m: sim.model
close: nothing to close
""")
_MODEL = _table("""
num_envs num_worlds nworld world_count: worlds of ws.Simulator(model, worlds=64)
ctrl control: an argument of a step: sim.step(state, control)
xpos xquat xmat body_q root_pos_w body_pos_w: sim.kinematics(state.q)
body_qd: sim.body_velocity(state)
step update: state = sim.step(state, control)
sensordata: sim.sensors(state)
contacts collide: sim.contacts(state)
njnt joint_count num_joints: njoint
body_count num_bodies nlinks: nbody
shape_count num_shapes: ngeom
joint_dof_count num_dof num_dofs dof_count ndof: nv
joint_coord_count: nq
neq: nconstraint
ncam: ncamera
nkey: keyframes, a dict by name
opt: timestep and gravity
qpos0 qpos_home default_joint_pos: q0
qpos qvel joint_qd: state.q and state.v of state = sim.state()
key_qpos key_qvel key_ctrl: keyframes[name].q, .v, .control
jnt_range joint_limits dof_limits joint_limit_lower joint_limit_upper soft_joint_pos_limits: joint_range
joint_key joint_label: joint_names
body_key body_label body_name: body_names
shape_key shape_label: geom_names
shape_body: geom_body
shape_transform: geom_pose
joint_parent: body_parent
joint_qd_start joint_q_start: joint_v and joint_q
actuator_forcelimit joint_effort_limit: force_range, joint_effort_range
time_step: timestep
jnt_type: joint_type
jnt_axis: joint_axis
jnt_pos: joint_anchor
jnt_qposadr jnt_dofadr: joint_q, joint_v; joint_coordinates(name) gives the slices
jnt_stiffness: joint_stiffness
dof_damping: joint_damping
dof_armature joint_armature_values: joint_armature
dof_frictionloss: joint_friction
jnt_bodyid: joint_body
dof_names: joint_names
link_names: body_names
body_parentid: body_parent
body_ipos: body_com
body_iquat: body_axes; body_inertia is in the body's frame
geom_pos geom_quat: geom_pose
geom_bodyid: geom_body
site_pos site_quat: site_pose
cam_pos cam_quat: camera_pose
actuator_ctrlrange: control_range
actuator_forcerange: force_range
actuator_gainprm joint_target_ke: actuator_gain
actuator_biasprm joint_target_kd: actuator_bias
name2id mj_name2id id2name: body(name), joint(name), ... give indices; body_names, joint_names, ... the names
state data make_data: ws.Simulator(model).state()
save_usd export_usd write_usd: to_usd(path)
save_xml to_xml save_mjcf save_last_xml: to_mjcf(path)
from_xml_path from_xml from_urdf from_usd from_mjcf load from_file: ws.load(path)
from_xml_string: ws.load(mujoco.MjModel.from_xml_string(text))
copy: the model itself, which nobody can change; ws.ModelBuilder().add_model(model) begins another
""")
_TRAJECTORY = _table("""
qpos joint_q joint_pos: q
qvel joint_qd joint_vel: v
act: activation
ctrl controls actions: kept by you; a rollout does not record controls
states state: q, v, time, activation; trajectory.final is the last State
times t: time
num_envs num_worlds nworld world_count batch_size: worlds
num_steps nstep n_steps: steps
num_frames nframes: frames
timestep dt: duration / steps
contacts ncon energy flags iterations momentum_error lag_error: diagnostics["..."], as diagnostics["flags"]
xpos xquat xmat body_q body_pos root_pos_w root_quat_w body_pos_w: sim.kinematics(q) of a row
sensordata sensors: sim.sensors(state) at each step of a loop
save_usd export_usd write_usd: to_usd(path)
save_html export_html show view animate: to_html(path)
save_video write_video to_gif to_mp4: to_video(path), which writes MP4
save_npz to_npz to_zarr save_zarr: save(path)
numpy to_numpy: rows("q", range(trajectory.frames)), or q.numpy()
""")
_DIAGNOSTICS = _table("""
niter solver_niter solver_iterations num_iterations: iterations
ncon nacon nefc contact contact_count: contacts
warning warnings errors status: flags
residual error solver_error: momentum_error
num_envs num_worlds nworld worlds: an entry of each array per world
""")
_CONTACTS = _table("""
ncon nacon contact_count: count
dist distance depth penetration: phi, the signed distance minus the margin of the pair
pos position: point
geom geom1 geom2: geoms
normal: frame[..., 2], from A into B
force forces efc_force: impulse over sim.dt, in the contact frame
""")
_ENV = _table("""
n_envs nenvs nenv num_worlds worlds nworld world_count batch_size: num_envs
qpos joint_q joint_pos dof_pos: state.q
qvel joint_qd joint_vel dof_vel: state.v
ctrl actions: the argument of env.step(actions); view.control is what the last became
scene data robot mj_data physics: state, and env.sim
model mj_model: sim.model
xpos xquat body_q root_pos_w root_quat_w body_pos_w: sim.kinematics(env.state.q)
obs_space single_obs_space: observation_space, single_observation_space
act_space: action_space
dt step_dt control_dt: view.dt
timestep physics_dt sim_dt frame_skip decimation: task.timestep, task.decimation
max_episode_length episode_length: task.episode
episode_length_buf episode_lengths: view.steps
reward_manager observation_manager termination_manager event_manager command_manager action_manager: task.rewards, \
task.observations, ...
cfg config: task
reset_idx reset_done: env.reset(options={"reset_mask": mask})
device: sim.device
""")
_VIEW = _table("""
qpos joint_q joint_pos dof_pos joint_positions: q
qvel joint_qd joint_vel dof_vel joint_velocities qd: v
ctrl: control
actions: action
prev_action previous_action last_actions prev_actions: last_action
xpos xquat xmat body_q body_pos root_pos_w root_quat_w body_pos_w body_quat_w: poses
cvel body_qd root_lin_vel_w root_ang_vel_w root_lin_vel_b root_ang_vel_b body_lin_vel_w: velocities
sensordata sensor: sensors
contact_forces cfrc: contact_force
cfrc_ext: contact_wrench, about_centre
num_envs num_worlds n_envs nworld world_count batch_size: worlds
timestep step_dt: dt
episode_length_buf episode_steps step_count progress_buf: steps
time: steps * s.dt
env scene data: the view itself: s.q, s.v, s.sim, s.state
np torch jnp: xp
""")
_BUILDER = _table("""
add_link add_rigid_body add_articulation: add_body
add_shape add_shape_box add_shape_sphere add_shape_capsule add_shape_plane add_shape_mesh add_shape_cylinder \
add_ground_plane add_collider: add_geom
add_joint_revolute add_joint_prismatic add_joint_free add_joint_ball add_joint_fixed add_hinge add_slide \
add_freejoint: add_joint
add_motor add_position add_servo: add_actuator
add_equality add_equality_constraint add_weld add_connect: add_constraint
add_mjcf add_urdf add_usd parse_urdf parse_mjcf parse_usd add_builder add_world attach: add_model(ws.load(path))
finalize Finalize compile make spec to_model: build()
qpos qvel ctrl: state.q, state.v and the argument of sim.step(state, control)
num_envs worlds: worlds of ws.Simulator(model, worlds=64)
""")
_MODULE = _table("""
MjModel MjSpec from_xml_path from_xml_string load_model load_mjcf load_urdf load_usd load_xml put_model add_mjcf \
parse_urdf parse_mjcf parse_usd: ws.load(path)
MjData make_data put_data Data: state = ws.Simulator(model).state()
mj_step step simulate Sim World Scene Simulation create_sim PhysicsEngine: sim = ws.Simulator(model, worlds=64); state \
= sim.step(state, control)
mj_forward eval_fk forward_kinematics: sim.kinematics(state.q)
make_env make make_vec VectorEnv Env ManagerBasedRLEnv: ws.envs.VectorEnv(task, worlds)
viewer launch_passive: ws.Viewer(sim)
SolverMuJoCo: ws.MuJoCo(), as solver= of ws.Simulator
SolverFeatherstone SolverXPBD Solver: ws.SAP(), ws.LCP(), ws.Compliant() or ws.MuJoCo(), as solver= of ws.Simulator
rollout: sim.rollout(state, controls)
""")
ATTRIBUTES = {"State": _STATE, "Simulator": _SIMULATOR, "Model": _MODEL, "Trajectory": _TRAJECTORY} | {
    "Diagnostics": _DIAGNOSTICS, "VectorEnv": _ENV, "View": _VIEW, "ModelBuilder": _BUILDER,
    "ContactList": _CONTACTS,
}  # fmt: skip


class _OtherName:
    """An attribute that has another name in warpsim."""

    def __init__(self, owner: str, name: str, here: str):
        self.text = f"{owner} has no {name!r}; here it is {here}"

    def __get__(self, instance, owner=None):
        raise AttributeError(self.text)

    def __set__(self, instance, value):
        raise AttributeError(self.text)


def other_names(owner: str, table: dict[str, str] | None = None) -> type:
    """A base class for `owner`. Its attributes with the names in `table` raise an error that says what to write."""
    table = ATTRIBUTES[owner] if table is None else table
    found = {name: _OtherName(owner, name, here) for name, here in table.items()}

    def listing(self) -> list[str]:
        return [name for name in object.__dir__(self) if name not in found]

    return type(f"NamesOf{owner}", (), {**found, "__dir__": listing, "__slots__": ()})


if TYPE_CHECKING:

    class NamesOfState: ...

    class NamesOfSimulator: ...

    class NamesOfModel: ...

    class NamesOfTrajectory: ...

    class NamesOfDiagnostics: ...

    class NamesOfVectorEnv: ...

    class NamesOfView: ...

    class NamesOfModelBuilder: ...

    class NamesOfContactList: ...

else:
    NamesOfState, NamesOfSimulator, NamesOfModel, NamesOfTrajectory = map(other_names, list(ATTRIBUTES)[:4])
    NamesOfDiagnostics, NamesOfVectorEnv, NamesOfView, NamesOfModelBuilder = map(other_names, list(ATTRIBUTES)[4:8])
    NamesOfContactList = other_names("ContactList")


def module_hint(name: str) -> str:
    """What to write in place of a name that the module does not have; "" if unknown."""
    return f"; here it is {_MODULE[name]}" if name in _MODULE else ""


def explained(error: TypeError, function: Callable) -> TypeError:
    """The `TypeError` of a call of `function`. For an unknown keyword or too many positional arguments its text says
    what to write."""
    text = str(error)
    unknown, many = UNKNOWN.search(text), TOO_MANY.search(text)
    if (unknown or many or [None, None])[1] != function.__qualname__:
        return error
    parameters = inspect.signature(function).parameters.values()
    names = [p.name for p in parameters if p.kind is not p.VAR_KEYWORD and p.name != "self"]
    if unknown is None:
        by_name = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
        return TypeError(f"{text}; give by name: {listed(by_name, 20)}") if by_name else error
    given = unknown[2]
    if function.__name__ == "step" and given in STEPS:
        return TypeError(
            f"{text}; n steps of dt are sim.rollout(state, controls, steps=n), and substeps=n divides one step"
        )
    if given in REMOVED:
        return TypeError(f"{text}; it was removed: {REMOVED[given]}")
    here = [name for name in KEYWORDS.get(given, "").split(", ") if name in names]
    near = difflib.get_close_matches(given, names, 1)
    hint = (
        f"here it is {here[0]}=" if here else f"did you mean {near[0]}=?" if near else f"it takes {listed(names, 20)}"
    )
    return TypeError(f"{text}; {hint}")


def reraise(error: TypeError, function: Callable) -> typing.NoReturn:
    """Raise the error, extended by `explained`."""
    found = explained(error, function)
    if found is error:
        raise error
    raise found from None


def answers(function: Method) -> Method:
    """Decorate a function: its `TypeError` for an unknown keyword says what to write."""

    @functools.wraps(function)
    def call(*arguments, **named):
        try:
            return function(*arguments, **named)
        except TypeError as error:
            reraise(error, function)

    return typing.cast(Method, call)


def own_names(whole: type, *parts: type) -> None:
    """Make error messages name the methods of the bases `parts` after the class `whole`."""
    for name, method in ((name, method) for part in parts for name, method in vars(part).items()):
        function = method.fget if isinstance(method, property) else method
        while isinstance(function, types.FunctionType):
            function.__qualname__ = f"{whole.__name__}.{name}"
            function = getattr(function, "__wrapped__", None)
