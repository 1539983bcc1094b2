# SPDX-License-Identifier: Apache-2.0
"""What becomes of every attribute of `mujoco.MjModel`: used, mapped, ignored or refused, and why."""

import fnmatch

from warpsim.files.mjcf.mjcf_report import IGNORED, MAPPED, REFUSED, USED

# (category, why, names): names or patterns of attributes of MjModel. A pattern stands only for a family that is treated
# as one.
FIELDS = (
    (
        USED,
        "sizes",
        "nq nv nu na nactuator nbody nmocap njnt ngeom npair nexclude nkey nmesh",
    ),
    (
        USED,
        "refused, or listed as ignored, when not zero",
        "neq ntendon nsensor nsite ncam nlight nflex nskin nhfield ntex nmat nnumeric ntext ntuple "
        "nplugin nuserdata nplastic nhistory flg_surfacevel flg_adhesion",
    ),
    (
        USED,
        "see OPTIONS, DISABLE_FLAGS and ENABLE_FLAGS",
        "opt",
    ),
    (
        USED,
        "names",
        "names name_*adr",
    ),
    (
        USED,
        "bodies",
        "body_parentid body_pos body_quat body_ipos body_iquat body_mass body_inertia",
    ),
    (
        USED,
        "joints",
        "qpos0 qpos_spring jnt_type jnt_qposadr jnt_dofadr jnt_bodyid jnt_limited jnt_pos jnt_axis jnt_stiffness "
        "jnt_range dof_frictionloss dof_armature dof_damping",
    ),
    (
        USED,
        "geoms",
        "geom_type geom_contype geom_conaffinity geom_condim geom_bodyid geom_dataid geom_priority geom_size "
        "geom_pos geom_quat geom_friction geom_margin geom_group geom_matid geom_rgba mat_rgba",
    ),
    (
        USED,
        "materials and images on geoms, for drawing",
        "tex_* mat_emission mat_metallic mat_reflectance mat_roughness mat_shininess mat_specular mat_tex* mesh_texcoord* "
        "mesh_facetexcoord",
    ),
    (
        USED,
        "mesh triangles, for drawing and contact",
        "mesh_vert mesh_vertadr mesh_vertnum mesh_face mesh_faceadr mesh_facenum",
    ),
    (
        USED,
        "contact filters and pairs",
        "exclude_signature pair_dim pair_geom1 pair_geom2 pair_friction pair_margin",
    ),
    (
        USED,
        "actuators",
        "actuator_trntype actuator_trnid actuator_gaintype actuator_gainprm actuator_biastype actuator_biasprm "
        "actuator_cranklength actuator_gear actuator_ctrllimited actuator_ctrlrange actuator_forcelimited actuator_forcerange "
        "actuator_ctrladr actuator_ctrlnum actuator_outadr actuator_outnum",
    ),
    (
        USED,
        "gravity compensation",
        "body_gravcomp jnt_actgravcomp ngravcomp flg_gravcomp",
    ),
    (
        USED,
        "activations of actuators, and muscles",
        "actuator_dyntype actuator_dynprm actuator_actadr actuator_actnum actuator_actlimited actuator_actrange "
        "actuator_actearly actuator_acc0 actuator_lengthrange key_act",
    ),
    (
        USED,
        "keyframes",
        "key_qpos key_qvel key_ctrl",
    ),
    (
        MAPPED,
        "contact stiffness and dissipation time, and MuJoCo's law, see docs/mjcf.md",
        "geom_solref geom_solimp body_invweight0",
    ),
    (
        MAPPED,
        "added to the joint's, times gear^2",
        "actuator_armature actuator_damping jnt_actuatorid",
    ),
    (
        MAPPED,
        "force_range of the one actuator that drives the joint, or a range of what several do together",
        "jnt_actfrclimited jnt_actfrcrange",
    ),
    (
        USED,
        "the pose of a mocap body is an input of every step",
        "body_mocapid key_mpos key_mquat",
    ),
    (
        MAPPED,
        "actuators of a disabled group give no force",
        "actuator_group",
    ),
    (
        USED,
        "equality constraints; those of flexes are refused",
        "eq_type eq_obj1id eq_obj2id eq_objtype eq_active0 eq_data",
    ),
    (
        MAPPED,
        "stiffness and dissipation time of constraints, see docs/mjcf.md",
        "eq_solref eq_solimp dof_invweight0 tendon_invweight0",
    ),
    (
        USED,
        "tendons, fixed and spatial",
        "tendon_type tendon_adr tendon_num wrap_* tendon_stiffness tendon_damping tendon_limited tendon_range "
        "tendon_lengthspring tendon_frictionloss",
    ),
    (
        MAPPED,
        "force_range of the tendon's one actuator, or a range of what several do together",
        "tendon_actfrclimited tendon_actfrcrange",
    ),
    (
        REFUSED,
        "flexible bodies",
        "flex_* flexedge_* nflex?* efm0_* efmC_perm nefm* nJfe",
    ),
    (
        REFUSED,
        "plugins",
        "plugin plugin_* body_plugin geom_plugin actuator_plugin npluginattr npluginstate",
    ),
    (
        REFUSED,
        "forces of bodies, joints and geoms, when not zero",
        "jnt_stiffnesspoly jnt_springyield jnt_plasticadr dof_dampingpoly geom_adhesion pair_adhesion key_plastic",
    ),
    (
        USED,
        "friction carries what touches the surface",
        "geom_surfacevel",
    ),
    (
        USED,
        "ws.MuJoCo() alone: adhesion actuators pull at contacts within it",
        "geom_gap",
    ),
    (
        USED,
        "fluid forces, when the medium has density or viscosity",
        "geom_fluid",
    ),
    (
        REFUSED,
        "a tendon with armature, nonlinear or plastic spring or damper",
        "tendon_stiffnesspoly tendon_dampingpoly tendon_armature tendon_springyield tendon_plasticadr",
    ),
    (
        REFUSED,
        "actuators with a delay or other transmission",
        "actuator_history actuator_historyadr actuator_delay actuator_dampingpoly",
    ),
    (
        IGNORED,
        "what a control stands for, of actuators with several",
        "actuator_ctrlspec",
    ),
    (
        USED,
        "ws.MuJoCo() alone; otherwise limits of tendons are near-rigid (beta 0.1) and dry friction stiff",
        "tendon_solref_lim tendon_solimp_lim tendon_solref_fri tendon_solimp_fri tendon_margin",
    ),
    (
        IGNORED,
        "how tendons are drawn and stored",
        "tendon_matid tendon_group tendon_treenum tendon_treeid tendon_width tendon_length0 tendon_user tendon_rgba "
        "tendon_actuatorid nwrap nJten ten_J_*",
    ),
    (
        USED,
        "ws.MuJoCo() alone; otherwise limits are near-rigid (beta 0.1) and dry friction stiff",
        "jnt_solref jnt_solimp jnt_margin dof_solref dof_solimp",
    ),
    (
        IGNORED,
        "contacts without a force are not listed, and bounds are made here",
        "pair_gap body_margin",
    ),
    (
        USED,
        "ws.MuJoCo() alone; otherwise the pair takes the material of its geoms",
        "pair_solref pair_solimp pair_solreffriction geom_solmix",
    ),
    (
        IGNORED,
        "no sleeping",
        "tree_sleep_policy",
    ),
    (
        IGNORED,
        "joint visibility group",
        "jnt_group",
    ),
    (
        IGNORED,
        "every keyframe starts at time 0",
        "key_time",
    ),
    (
        IGNORED,
        "precomputed by MuJoCo; computed here from the used fields",
        "body_rootid body_weldid body_jntnum body_jntadr body_dofnum body_dofadr body_treeid body_geomnum "
        "body_geomadr body_simple body_sameframe body_subtreemass body_contype body_conaffinity dof_bodyid "
        "dof_jntid dof_parentid dof_treeid dof_Madr dof_simplenum dof_M0 dof_length tree_bodyadr "
        "tree_bodynum tree_dofadr tree_dofnum geom_sameframe geom_aabb geom_rbound pair_signature "
        "actuator_length0 stat B_* D_* M_* mapM2D mapD2M mapM2M body_bvhadr body_bvhnum "
        "bvh_* oct_*",
    ),
    (
        IGNORED,
        "sizes of what is ignored, refused or precomputed",
        "nout ntree nM nB nC nD nJmom nbvh nbvhstatic nbvhdynamic noct nnames nnames_map names_map npaths nemax "
        "njmax nconmax npolygonmax nmeshdegmax nsensordata narena nbuffer nmesh?* nskin?* nhfielddata ntexdata "
        "nnumericdata ntextdata ntupledata nuser_*",
    ),
    (
        IGNORED,
        "visual",
        "vis cam_ipd cam_output cam_user cam_targetbodyid cam_poscom0 "
        "cam_pos0 cam_mat0 site_group site_sameframe site_user light_* skin_* geom_castshadow",
    ),
    (
        IGNORED,
        "other data of meshes: normals, hulls, as-loaded pose and scale",
        "mesh_normal* mesh_facenormal mesh_graph* mesh_poly* mesh_bvh* mesh_oct* "
        "mesh_extrema mesh_pathadr mesh_pos mesh_quat mesh_scale",
    ),
    (
        USED,
        "height fields",
        "hfield_*",
    ),
    (
        USED,
        "sites and cameras",
        "site_bodyid site_pos site_quat site_type site_size site_rgba site_matid site_dataid cam_bodyid cam_pos cam_quat "
        "cam_fovy cam_resolution cam_intrinsic cam_sensorsize cam_projection cam_mode",
    ),
    (
        USED,
        "sensors",
        "sensor_type sensor_objtype sensor_objid sensor_reftype sensor_refid sensor_intprm sensor_cutoff sensor_datatype sensor_dim "
        "sensor_adr sensor_needstage",
    ),
    (
        IGNORED,
        "sensors give what is there, at once",
        "sensor_noise sensor_delay sensor_history sensor_historyadr sensor_interval sensor_plugin sensor_user",
    ),
    (
        USED,
        "those called hydroelastic:GEOM are pressure fields, others are user data",
        "numeric_*",
    ),
    (
        USED,
        "the one called warpsim:data is what to_mjcf keeps, others are user data",
        "text_*",
    ),
    (
        IGNORED,
        "user data",
        "tuple_* body_user jnt_user geom_user actuator_user",
    ),
    (
        IGNORED,
        "paths and signature of the source",
        "paths signature",
    ),
    (
        IGNORED,
        "Python accessors, not data",
        "actuator body bind bind_scalar cam camera eq equality exclude geom hfield jnt joint key keyframe light "
        "mat material mesh numeric pair sensor site skin tendon tex texture tuple from_binary_path from_xml_path "
        "from_xml_string",
    ),
)


def classify(attribute: str) -> list[tuple[str, str]]:
    """The (category, why) of an attribute of `MjModel`; exactly one for every attribute we know."""
    return [
        (category, why)
        for category, why, names in FIELDS
        if any(fnmatch.fnmatchcase(attribute, name) for name in names.split())
    ]
