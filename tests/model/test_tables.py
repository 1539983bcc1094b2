# SPDX-License-Identifier: Apache-2.0
"""Tables of a model from a file of arrays: every one has its shape and number type, every index is in range, and trees are trees."""

import dataclasses
import types

import numpy as np
import pytest

import warpsim as ws
from scenes.trajectories import small
from warpsim.base.errors import ModelError
from warpsim.model.model import HField, Mesh, Model
from warpsim.model.tables import check_tables

RICH = """<mujoco><asset><hfield name="h" nrow="3" ncol="3" size="1 1 1 1" elevation="0 0 0 0 1 0 0 0 0"/>
<mesh name="m" vertex="0 0 0 1 0 0 0 1 0 0 0 1"/></asset><worldbody><geom type="hfield" hfield="h"/>
<body name="a" pos="0 0 2"><joint name="x" type="slide"/><joint name="y"/><geom type="mesh" mesh="m"/><site name="s"/>
  <body name="b" pos="0 0 1"><joint name="ball" type="ball"/><geom size=".1"/><site name="t" pos="0 0 .5"/><camera name="c"/></body>
  <body name="fixed"><geom size=".1"/><body name="leaf"><joint name="z"/><geom size=".1"/></body></body></body>
<body name="m" mocap="true"/><body name="free"><freejoint name="free"/><geom size=".1"/></body></worldbody>
<tendon><fixed name="f"><joint joint="x" coef="1"/></fixed><spatial name="p"><site site="s"/><site site="t"/></spatial></tendon>
<equality><joint joint1="x" joint2="y"/><weld body1="a" body2="free"/><tendon tendon1="f"/></equality>
<actuator><motor joint="y" name="one"/><motor tendon="f"/><general joint="x" dyntype="filter" dynprm=".1"/></actuator>
<sensor><jointpos joint="y"/><framepos objtype="body" objname="a"/></sensor>
<contact><exclude body1="a" body2="b"/></contact><keyframe><key name="k" qpos="1 0 1 0 0 0 0 0 0 0 1 0 0 0"/></keyframe></mujoco>"""


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    path = tmp_path_factory.mktemp("m") / "rich.xml"
    path.write_text(RICH)
    return ws.load(path), small()[1]


def arrays(model) -> list[str]:
    return [field.name for field in dataclasses.fields(Model) if isinstance(getattr(model, field.name), np.ndarray)]


def test_models_are_well_formed(models):
    """What is loaded and built passes, also one without anything."""
    for model in (*models, ws.ModelBuilder("empty").build()):
        check_tables(model)


@pytest.mark.parametrize("rows", [0, 1])
def test_a_simulator_refuses_a_table_that_was_replaced_by_another_shape(rows, models):
    """Kernels would read outside the array."""
    model = models[0]
    for name in ("geom_friction", "geom_solimp", "geom_surfacevel", "geom_margin", "link_pose"):
        with pytest.raises(ModelError, match=f"{name} has {rows} rows"):
            ws.Simulator(dataclasses.replace(model, **{name: getattr(model, name)[:rows]}), 1, device="cpu")


def test_every_table_has_its_shape_and_number_type(models):
    """One row less or more, one column more, an axis more, or numbers of another type: refused by the table's name."""
    model = models[0]
    for name in arrays(model):
        value = getattr(model, name)
        other = np.zeros(value.shape, complex if value.dtype.kind == "f" else float)
        wrong = [value[None], other, value.astype("U5"), value.tolist()]
        wrong += [np.concatenate([value, value[:1]])] if len(value) and name != "excluded" else []
        wrong += [np.concatenate([value, value[..., :1]], axis=-1)] if value.ndim > 1 and value.size else []
        for array in wrong:
            with pytest.raises((ModelError, TypeError, IndexError, ValueError, AttributeError)) as caught:
                check_tables(dataclasses.replace(model, **{name: array}))
            if caught.type is ModelError and array.__class__ is np.ndarray and array.dtype.kind == "c":
                assert name in str(caught.value)


def test_every_index_is_in_range(models):
    """Far below and far above, in the first and the last row of every table of indices or kinds."""
    free = ("geom_contype", "geom_conaffinity", "geom_priority", "actuator_group")
    for model in models:
        for name in arrays(model):
            value = getattr(model, name)
            if value.dtype.kind != "i" or not value.size or name in free:
                continue
            for at in (0, -1):
                for number in (-7,) if name == "camera_resolution" else (-7, 10**6, 2**31 - 1):
                    broken = value.copy()
                    broken.reshape(-1)[at] = number
                    with pytest.raises(ModelError):
                        check_tables(dataclasses.replace(model, **{name: broken}))


def test_trees_are_trees(models):
    """Whatever table of trees, links, joints, bodies or degrees of freedom is changed, even to an index in range, it follows from the links no more."""
    names = ("body_parent", "body_link", "joint_body", "joint_link", "joint_q", "joint_v", "joint_type")
    names += ("link_parent", "link_joint", "link_body", "link_q", "link_v", "link_tree", "link_type")
    names += ("tree_link", "tree_v", "tree_reference", "dof_parent", "dof_link")
    for model in models:
        for name in names:
            value = getattr(model, name)
            for k in range(len(value)):
                for number in {k, 0, 1, -1, len(value) - 1} - {int(value[k])}:
                    broken = value.copy()
                    broken[k] = number
                    with pytest.raises(ModelError, match=r"link|joint|body|dof|tree"):
                        check_tables(dataclasses.replace(model, **{name: broken}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: {"name": 3}, "name"),
        (lambda m: {"timestep": "x"}, "timestep"),
        (lambda m: {"timestep": float("nan")}, "timestep"),
        (lambda m: {"timestep": 0.0}, "timestep"),
        (lambda m: {"fluid_density": float("inf")}, "fluid_density"),
        (lambda m: {"filter_parent": 1}, "filter_parent"),
        (lambda m: {"friction_rule": 99}, "friction_rule"),
        (lambda m: {"point_pairs": 10**9}, "point_pairs"),
        (lambda m: {"body_names": (1, *m.body_names[1:])}, "body_names"),
        (lambda m: {"report": (("a", "b"),)}, "report"),
        (lambda m: {"q0": np.full(m.nq, np.nan)}, "q0"),
        (lambda m: {"meshes": (m.meshes[0]._replace(vertices=np.zeros((4, 2))),)}, "vertices of mesh"),
        (lambda m: {"meshes": (Mesh("m", np.full((4, 3), np.inf), m.meshes[0].faces),)}, "not finite"),
        (lambda m: {"meshes": (m.meshes[0]._replace(faces=m.meshes[0].faces.astype(float)),)}, "faces of mesh"),
        (lambda m: {"hfields": (HField("h", np.ones(3), np.zeros((3, 3))),)}, "size of height field"),
        (lambda m: {"hfields": (HField("h", np.ones(4), np.zeros(9)),)}, "data of height field"),
        (
            lambda m: {"keyframes": types.MappingProxyType({"k": m.keyframes["k"]._replace(q=np.zeros(3))})},
            "q of keyframe",
        ),
        (lambda m: {"geom_mesh": np.full(m.ngeom, -1, np.int32)}, "geom_mesh"),
        (lambda m: {"pair_geom": m.pair_geom[:, ::-1].copy()}, "pair_geom"),
        (lambda m: {"pair_geom": np.repeat(m.pair_geom[:, :1], 2, axis=1)}, "pair_geom"),
        (lambda m: {"constraint_joint": np.where(m.constraint_joint >= 0, 2, -1).astype(np.int32)}, "constraint_joint"),
        (lambda m: {"actuator_joint": np.full(m.nu, -1, np.int32)}, "acts on 0 things"),
        (
            lambda m: {"sensor_size": np.array([10**9, 3], np.int32), "sensor_adr": np.array([0, 10**9], np.int32)},
            "1000000000 numbers",
        ),
    ],
)
def test_what_else_no_model_has(models, change, message):
    """Values without arrays, meshes and height fields, and indices that are in range of another element only."""
    with pytest.raises(ModelError, match=message):
        check_tables(dataclasses.replace(models[0], **change(models[0])))
