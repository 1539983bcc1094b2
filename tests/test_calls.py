# SPDX-License-Identifier: Apache-2.0
"""Every public call refuses what it cannot mean, in one short line that names the argument, its value and what would do.

Tables of (call, words of the message). `ModelError` is for models and files, `ValueError` for arguments; anything else that
comes out (a `KeyError`, a `TypeError`, silence) is a failure.
"""

import dataclasses
import types

import numpy as np
import pytest
import warp as wp

import warpsim as ws
from scenes.bodies import arm, body_on_plane
from warpsim.files.store.place import StoreError
from warpsim.show.render import Camera, render_image
from warpsim.tools.cli import main

NAN, INF = float("nan"), float("inf")
LONGEST = 700  # characters of a message


def refused(call, words, error) -> None:
    """`call()` raises `error` itself or `ModelError`, in one line that holds every word."""
    with pytest.raises(ValueError) as caught:
        call()
    assert type(caught.value) in (error, ws.ModelError, StoreError), type(caught.value)
    message = str(caught.value)
    assert "\n" not in message and len(message) <= LONGEST, message
    for word in words.split("|"):
        assert word in message, f"{word!r} is not in: {message}"


# Models in code ----------------------------------------------------------------------------------------------------------


def geom(**options):
    return lambda b: b.add_geom("sphere", [0.1], body="ball", name="g", **options)


def joint(**options):
    return lambda b: b.add_joint("upper", name="j", **options)


def actuator(*args, **options):
    return lambda b: b.add_actuator("elbow", *args, name="a", **options)


def attribute(**values):
    return lambda b: [setattr(b, name, value) for name, value in values.items()]


TRIANGLE, CORNERS = [[0, 1, 2]], np.eye(3)

BUILDER = {
    "name": (lambda b: ws.ModelBuilder(3), "name|3"),
    "gravity text": (lambda b: ws.ModelBuilder(gravity=["0", "0", "1"]), "gravity|numbers"),
    "gravity nan later": (attribute(gravity=[0, NAN, 0]), "gravity|nan|finite"),
    "gravity as a number later": (attribute(gravity=-9.81), "gravity|(3,)"),
    "timestep text": (lambda b: ws.ModelBuilder(timestep="0.01"), "timestep|'0.01'"),
    "timestep negative": (lambda b: ws.ModelBuilder(timestep=-1), "timestep|-1|positive"),
    "timestep later": (attribute(timestep="fast"), "timestep|'fast'"),
    "friction_rule": (attribute(friction_rule=99), "friction_rule|99|HARMONIC"),
    "friction_rule text": (attribute(friction_rule="harmonic"), "friction_rule|'harmonic'|HARMONIC"),
    "filter_parent": (attribute(filter_parent="no"), "filter_parent|'no'|True or False"),
    "body name": (lambda b: b.add_body(3.5), "body's name|3.5"),
    "parent true": (lambda b: b.add_body("x", parent=True), "body|True"),
    "parent float": (lambda b: b.add_body("x", parent=-1.0), "body|-1.0"),
    "parent array": (lambda b: b.add_body("x", parent=[0, 1]), "body|[0, 1]"),
    "mass text": (lambda b: b.add_body("x", mass="1.0"), "'x'|mass|'1.0'"),
    "mass true": (lambda b: b.add_body("x", mass=True), "'x'|mass|True"),
    "mass infinite": (lambda b: b.add_body("x", mass=INF), "'x'|mass|inf"),
    "com text": (lambda b: b.add_body("x", mass=1, com=["0", "0", "1"]), "'x'|com"),
    "inertia text": (lambda b: b.add_body("x", mass=1, inertia="round"), "'x'|inertia|'round'"),
    "pose text": (lambda b: b.add_body("x", pose="up"), "'x'|pose|'up'"),
    "pose of two": (lambda b: b.add_body("x", pose=[0, 0]), "'x'|pose|(2,)|(7,)"),
    "joint type": (joint(type=3), "'j'|3|hinge"),
    "joint body true": (lambda b: b.add_joint(True), "body|True"),
    "joint range text": (joint(range=("0", "1")), "'j'|range"),
    "joint range infinite": (joint(range=(0, INF)), "'j'|range|finite"),
    "joint stiffness text": (joint(stiffness="1"), "'j'|stiffness|'1'"),
    "joint reference nan": (joint(reference=NAN), "'j'|reference"),
    "joint q0": (joint(q0=[1, 0, 0, 0]), "'j'|q0|(4,)|(1,)"),
    "geom type": (lambda b: b.add_geom(2, [0.1], name="g"), "'g'|2|sphere"),
    "zero size": (lambda b: b.add_geom("sphere", [0.0], name="g"), "'g'|size|0.0|positive"),
    "complex mass": (lambda b: b.add_body("c", mass=2 + 5j), "'c'|mass|(2+5j)"),
    "complex size": (lambda b: b.add_geom("sphere", np.array([0.1j]), name="g"), "'g'|size|0.1j"),
    "zero box side": (lambda b: b.add_geom("box", [1, 0, 1], name="g"), "'g'|size|positive"),
    "size text": (lambda b: b.add_geom("sphere", "0.1", name="g"), "'g'|size|'0.1'"),
    "two sizes of a sphere": (lambda b: b.add_geom("sphere", [0.1, 0.2], name="g"), "'g'|size|sphere|1 values"),
    "contype": (geom(contype=1.5), "'g'|contype|1.5|whole"),
    "conaffinity": (geom(conaffinity="1"), "'g'|conaffinity|'1'|whole"),
    "condim float": (geom(condim=3.0), "'g'|condim|3.0|whole"),
    "condim true": (geom(condim=True), "'g'|condim|True"),
    "priority": (geom(priority=0.5), "'g'|priority|0.5|whole"),
    "restitution": (geom(restitution=5), "'g'|restitution|5|0 to 1"),
    "restitution nan": (geom(restitution=NAN), "'g'|restitution|nan"),
    "friction text": (geom(friction="1"), "'g'|friction|'1'"),
    "friction infinite": (geom(friction=INF), "'g'|friction|inf"),
    "stiffness text": (geom(stiffness="soft"), "'g'|stiffness|'soft'"),
    "stiffness of two": (geom(stiffness=[1, 2]), "'g'|stiffness|[1, 2]"),
    "dissipation infinite": (geom(dissipation_time=INF), "'g'|dissipation_time|inf"),
    "density": (geom(density=-1), "'g'|density|-1"),
    "visible": (geom(visible="no"), "'g'|visible|'no'"),
    "colour text": (geom(rgba="red"), "'g'|rgba|'red'"),
    "hertz": (geom(hertz_modulus="1"), "'g'|hertz_modulus|'1'"),
    "mesh of half a face": (lambda b: b.add_geom("mesh", name="g", mesh=(CORNERS, [[0, 1, 1.5]])), "'g'|mesh|faces"),
    "mesh in the plane": (lambda b: b.add_geom("mesh", name="g", mesh=(np.zeros((3, 2)), TRIANGLE)), "'g'|(n, 3)"),
    "mesh without faces": (lambda b: b.add_geom("mesh", name="g", mesh=CORNERS), "'g'|mesh|pair"),
    "height field": (lambda b: b.add_geom("hfield", name="g", hfield=5), "'g'|hfield|5|pair"),
    "rows": (lambda b: b.add_foundation("upper", rows="ten", modulus=1, thickness=1), "rows|'ten'|whole"),
    "half a row": (lambda b: b.add_foundation("upper", rows=2.5, modulus=1, thickness=1), "rows|2.5|whole"),
    "endless rows": (lambda b: b.add_foundation("upper", rows=INF, modulus=1, thickness=1), "rows|inf|whole"),
    "modulus": (lambda b: b.add_foundation("upper", modulus="1", thickness=1), "modulus|'1'|positive"),
    "face": (lambda b: b.add_foundation("upper", 5, modulus=1, thickness=1), "face|5|+x"),
    "tendon of a list": (lambda b: b.add_tendon(["elbow"], name="t"), "'t'|joints|dict"),
    "tendon text": (lambda b: b.add_tendon({"elbow": "1"}, name="t"), "'t'|'elbow'|'1'"),
    "tendon reference": (lambda b: b.add_tendon({"elbow": 1}, reference=[1, 2, 3], name="t"), "'t'|reference"),
    "constraint kind": (lambda b: b.add_constraint(3.5, "upper", name="c"), "'c'|3.5|weld"),
    "constraint active": (lambda b: b.add_constraint("weld", "upper", active="no", name="c"), "'c'|active|'no'"),
    "constraint stiffness": (lambda b: b.add_constraint("weld", "upper", stiffness="1", name="c"), "'c'|stiffness|'1'"),
    "three stiffnesses": (lambda b: b.add_constraint("weld", "upper", stiffness=[1, 2, 3], name="c"), "'c'|stiffness"),
    "coefficients": (lambda b: b.add_constraint("joint", "elbow", coefficients="1", name="c"), "'c'|coefficients|'1'"),
    "no coefficients": (lambda b: b.add_constraint("joint", "elbow", coefficients=[], name="c"), "'c'|coefficients"),
    "length text": (lambda b: b.add_constraint("distance", "upper", length="1", name="c"), "'c'|length|'1'"),
    "three lengths": (lambda b: b.add_constraint("distance", "upper", length=(1, 2, 3), name="c"), "'c'|length"),
    "actuator kind": (actuator(3), "'a'|3|effort"),
    "kp text": (actuator("position", kp="100"), "'a'|kp|'100'"),
    "kp nan": (actuator("position", kp=NAN), "'a'|kp|nan"),
    "kp of an effort": (actuator("effort", kp=100.0), "'a'|kp|effort"),
    "kp of a velocity": (actuator("velocity", kp=100.0, kv=1), "'a'|kp|velocity"),
    "gain of a position": (actuator("position", kp=1, gain=[1, 0, 0]), "'a'|gain|position"),
    "gain text": (actuator("affine", gain="1", bias=[0] * 3), "'a'|gain|'1'"),
    "gears": (actuator(gear=[1, 2]), "'a'|gear|1 finite"),
    "gear text": (actuator(gear="1"), "'a'|gear|'1'"),
    "control range": (actuator(control_range=(INF, INF)), "'a'|control_range"),
    "control range text": (actuator(control_range="wide"), "'a'|control_range|'wide'"),
    "pair": (lambda b: b.add_pair("bone", "floor", "1"), "'bone'|friction|'1'"),
    "keyframe text": (lambda b: b.add_keyframe("home", q="up"), "'home'|q|'up'"),
    "keyframe name": (lambda b: b.add_keyframe(3), "keyframe's name|3"),
    "model of a builder": (lambda b: b.add_model(arm()), "add_model|ModelBuilder|Model"),
    "prefix": (lambda b: b.add_model(arm().build(), prefix=3), "add_model|3|text"),
}


@pytest.mark.parametrize("case", BUILDER)
def test_builder(case):
    """What `ModelBuilder` cannot mean is a `ModelError`, when it is added or at the latest when the model is built."""
    call, words = BUILDER[case]
    b = arm()
    refused(lambda: (call(b), b.build()), words, ws.ModelError)


def test_builder_takes_what_numpy_gives():
    """NumPy's whole numbers, truth values and scalars are as good as Python's."""
    b = arm()
    b.friction_rule, b.filter_parent = np.int32(0), np.bool_(False)
    masks = {key: np.int64(3) for key in ("contype", "conaffinity", "condim", "priority")}
    b.add_geom("sphere", np.float32(0.1), body=np.int64(0), visible=np.True_, friction=np.float32(0.5), **masks)
    b.add_geom("sphere", [0.1, 0.1, 0.1])  # as MJCF has it
    b.add_actuator("elbow", gear=np.array([2.0, 0, 0, 0, 0, 0]))
    model = b.build()
    assert model.friction_rule == 0 and model.filter_parent is False and model.geom_contype[-2] == 3


# Files -------------------------------------------------------------------------------------------------------------------

LOAD = {
    "actuators": (dict(actuators="torque"), "actuators|'torque'|effort"),
    "unsupported": (dict(unsupported="ignore"), "unsupported|'ignore'|report"),
    "base": (dict(base="loose"), "base|'loose'|free"),
    "merge_fixed": (dict(merge_fixed="no"), "merge_fixed|'no'|True or False"),
    "visuals": (dict(visuals="no"), "visuals|'no'|True or False"),
    "decompose": (dict(decompose="yes"), "decompose|'yes'"),
    "packages": (dict(packages="/tmp"), "packages|'/tmp'|dict"),
    "visuals of MJCF": (dict(visuals=False), "visuals|URDF"),
    "base of MJCF": (dict(base="free"), "base|URDF"),
}


@pytest.mark.parametrize("case", LOAD)
def test_load(case, tmp_path):
    """Options of `load` that do not exist, and those that a file of this kind would not hear of."""
    options, words = LOAD[case]
    file = tmp_path / "a.xml"
    file.write_text("<mujoco/>")
    refused(lambda: ws.load(file, **options), words, ws.ModelError)


ACTUATORS = """<mujoco><worldbody>{bodies}</worldbody><actuator>{actuators}</actuator></mujoco>"""


def test_a_message_has_one_line_per_kind_of_element(tmp_path):
    """Three hundred actuators of the user's own dynamics and three hundred rolling pairs that are refused are two sentences, not six hundred."""
    n = 300
    body = '<body name="b{0}" pos="0 0 {0}"><joint name="joint{0}"/><geom size=".1"/></body>'
    bodies = "".join(body.format(k) for k in range(n))
    actuators = "".join(f'<general name="own{k}" joint="joint{k}" dyntype="user" actdim="1"/>' for k in range(n))
    file = tmp_path / "m.xml"
    file.write_text(ACTUATORS.format(bodies=bodies, actuators=actuators))
    refused(lambda: ws.load(file), "own0|own5|more", ws.ModelError)
    with pytest.warns(UserWarning, match="own0") as caught:
        model = ws.load(file, unsupported="report")
    assert len(str(caught[0].message)) <= LONGEST
    assert sum(line.status == "refused" for line in model.report) >= n  # the report still has them all


def test_messages_stay_short_in_large_models():
    """An unknown name among a thousand lists a few of them and counts the rest."""
    b = ws.ModelBuilder()
    for k in range(1000):
        b.add_body(f"a body with a rather long name, number {k}")
    refused(lambda: b.add_body("x", parent="hand"), "no body 'hand'|1000|more", ws.ModelError)
    model = b.build()
    refused(lambda: model.body("hand"), "no body named 'hand'|more", ValueError)


# Solvers and integrators -------------------------------------------------------------------------------------------------

OPTIONS = {
    "SAP": (
        ws.SAP,
        {
            "tolerance": ["1e-6", 0.0, 1.0, NAN, True],
            "beta": ["1", 0.0, -1.0, NAN, INF, None],
            "sigma": ["1", 0.0, NAN, True],
            "line_search": ["none", 3, None],
            "linear_solver": ["lu", 3],
            "max_iterations": ["10", 0, 1.5, INF, True],
            "approximation": ["concave", 3],
            "supported_load": ["no", 1],
        },
    ),
    "Compliant": (
        ws.Compliant,
        {
            "tolerance": ["1e-6", 2.0],
            "stiffness": ["stiff", 0.0, INF],
            "tangential_damping": ["1", -1.0, NAN],
            "jdot": ["no", 0],
            "max_iterations": ["10", 0, INF],
        },
    ),
    "LCP": (
        ws.LCP,
        {
            "tolerance": ["1e-6", -1.0],
            "error_reduction": ["0.5", 1.5, NAN],
            "restitution_threshold": ["1", -1.0, INF],
            "warm_start": ["no", 1],
            "saddle_escape": ["no", 2],
        },
    ),
    "NoContact": (ws.NoContact, {"limits": [None, "SAP", 3]}),
    "SymplecticEuler": (ws.SymplecticEuler, {"implicit_stiffness": ["no", 1, None]}),
    "ExplicitEuler": (ws.ExplicitEuler, {"implicit_stiffness": ["yes"]}),
    "ImplicitEuler": (ws.ImplicitEuler, {"tolerance": ["1e-6", 0.0, NAN], "max_evaluations": ["10", 1, 2.5, True]}),
    "Midpoint": (ws.Midpoint, {"tolerance": ["1e-6", 1.0], "max_evaluations": [INF]}),
    "Variational": (
        ws.Variational,
        {
            "tolerance": ["1e-6", 0.0],
            "guess": ["random", 3],
            "root_finder": ["bisection", None],
            "max_iterations": ["10", 0, INF],
            "passes": ["2", 0, 1.5],
        },
    ),
}
OPTION_CASES = [(kind, name, value) for kind, (_, table) in OPTIONS.items() for name in table for value in table[name]]


@pytest.mark.parametrize("kind, name, value", OPTION_CASES)
def test_options(kind, name, value):
    """Every option of every solver and integrator: texts for numbers, wrong signs, NaN, infinities, unknown names."""
    refused(lambda: OPTIONS[kind][0](**{name: value}), f"{kind}: |{name} |{value!r}".replace("|True", "|"), ValueError)


def test_every_option_is_in_the_table():
    """No option of a solver or integrator is left out of the table above."""
    for kind, (cls, table) in OPTIONS.items():
        assert {field.name for field in dataclasses.fields(cls)} == set(table), kind


def test_smoothing_takes_a_number():
    for amount in ("1", -1.0, NAN, INF):
        refused(lambda amount=amount: ws.SAP().smoothed(amount), f"smoothing|{amount!r}", ValueError)


def problem(**changes):
    given = dict(A=np.eye(3), J=np.eye(3), v_star=[0, 0, -1], mu=[0.5], phi=[0.0], dt=0.01) | changes
    return ws.ContactProblem(**given)


R = np.ones((1, 3))
FUNCTIONS = {
    "A text": (lambda: problem(A="eye"), "ContactProblem|A|'eye'"),
    "J text": (lambda: problem(J="eye"), "ContactProblem|J|'eye'"),
    "mu text": (lambda: problem(mu=["0.5"]), "ContactProblem|mu"),
    "mu negative": (lambda: problem(mu=[-0.5]), "ContactProblem|mu|-0.5"),
    "dt text": (lambda: problem(dt="0.01"), "ContactProblem|dt|'0.01'"),
    "dt negative": (lambda: problem(dt=-1), "ContactProblem|dt|-1"),
    "stiffness text": (lambda: problem(stiffness="soft"), "ContactProblem|stiffness|'soft'"),
    "half a contact": (lambda: problem(contacts=[0.5]), "ContactProblem|contacts|0.5|whole"),
    "too many contacts": (lambda: problem(contacts=[2]), "ContactProblem|contacts|2"),
    "R and stiffness": (lambda: problem(phi=None, dt=None, R=R, v_hat=R, stiffness=1.0), "R and v_hat|stiffness"),
    "R and dt": (lambda: problem(phi=None, R=R, v_hat=R), "R and v_hat|dt"),
    "no problem": (lambda: ws.solve_contact(np.eye(3)), "solve_contact|ndarray|ContactProblem"),
    "dtype": (lambda: ws.solve_contact(problem(), dtype=np.float64), "solve_contact|dtype|float64"),
    "solver": (lambda: ws.solve_contact(problem(), solver=ws.LCP()), "solve_contact|LCP|SAP"),
    "solver class": (lambda: ws.solve_contact(problem(), solver=ws.SAP), "solve_contact|SAP(...)"),
    "lcp A": (lambda: ws.solve_lcp("A", [1], [1], [-1]), "solve_lcp|A|'A'"),
    "lcp b": (lambda: ws.solve_lcp([[1]], ["1"], [1], [-1]), "solve_lcp|b"),
    "lcp tolerance": (lambda: ws.solve_lcp([[1]], [1], [1], [-1], tolerance="1e-9"), "solve_lcp|tolerance|'1e-9'"),
    "lcp classes": (lambda: ws.solve_lcp([[1]], [1], [1], [-1], classes=[0.5]), "solve_lcp|classes|0.5"),
    "lcp classes beyond": (lambda: ws.solve_lcp([[1]], [1], [1], [-1], classes=[9]), "solve_lcp|classes|9"),
    "lcp rows": (lambda: ws.solve_lcp([[1]], [1], [1], [-1], rows=[1.5]), "solve_lcp|rows|1.5|whole"),
    "lcp dtype": (lambda: ws.solve_lcp([[1]], [1], [1], [-1], dtype=64), "solve_lcp|dtype|64"),
    "qp H": (lambda: ws.solve_cone_qp("H", [1]), "solve_cone_qp|H|'H'"),
    "qp cones": (lambda: ws.solve_cone_qp([[1]], [1], cones=["halfline"]), "solve_cone_qp|cones[0]|pair"),
    "qp size text": (lambda: ws.solve_cone_qp([[1]], [1], cones=[("free", "1")]), "solve_cone_qp|cones[0]|'1'"),
    "qp half": (lambda: ws.solve_cone_qp([[1]], [1], cones=[("free", 0.5)]), "solve_cone_qp|cones[0]|0.5"),
    "qp mu": (lambda: ws.solve_cone_qp(np.eye(3), [1] * 3, cones=[("friction", "1")]), "cones[0]|'1'"),
    "qp kind": (lambda: ws.solve_cone_qp([[1]], [1], cones=[("round", 1)]), "cones[0]|'round'"),
    "qp iterations": (lambda: ws.solve_cone_qp([[1]], [1], max_iterations="9"), "max_iterations|'9'"),
    "qp endless": (lambda: ws.solve_cone_qp([[1]], [1], max_iterations=INF), "max_iterations|inf"),
}


@pytest.mark.parametrize("case", FUNCTIONS)
def test_functions(case):
    """The solvers as functions: arrays of texts, halves where whole numbers belong, data that would be ignored."""
    call, words = FUNCTIONS[case]
    refused(call, words, ValueError)


# Simulator ---------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model():
    return arm().build()


@pytest.fixture(scope="module")
def s(model, device):
    """A simulator of three worlds, one with gradients of two worlds, and a trajectory."""
    sim = ws.Simulator(model, worlds=3, device=device)
    grad = ws.Simulator(model, worlds=2, device=device, dtype="float64", requires_grad=True)
    state = sim.state()
    return types.SimpleNamespace(sim=sim, grad=grad, state=state, trajectory=sim.rollout(state, steps=2))


CONSTRUCT = {
    "requires_grad": (dict(requires_grad="no"), "requires_grad|'no'|True or False"),
    "requires_grad 1": (dict(requires_grad=1), "requires_grad|1|True or False"),
    "worlds true": (dict(worlds=True), "worlds|True|whole"),
    "max_contacts true": (dict(max_contacts=True), "max_contacts|True|whole"),
    "max_contacts text": (dict(max_contacts="8"), "max_contacts|'8'|whole"),
    "dt text": (dict(dt="0.01"), "dt|'0.01'|positive"),
    "dt true": (dict(dt=True), "dt|True"),
    "dt complex": (dict(dt=0.01 + 1j), "dt|(0.01+1j)|positive"),
    "dt too long for its dtype": (dict(dt=10**30), "dt|1e+30|float32"),
    "dt too short for its dtype": (dict(dt=1e-30), "dt|1e-30|float32"),
    "dtype": (dict(dtype=np.float32), "dtype|float32"),
    "dtype list": (dict(dtype=["float32"]), "dtype|float32"),
    "device": (dict(device=3.5), "device|3.5|cpu"),
    "solver": (dict(solver=ws.SymplecticEuler()), "solver|SymplecticEuler|ws.SAP"),
    "integrator": (dict(integrator=ws.SAP()), "integrator|SAP|ws.SymplecticEuler"),
}


@pytest.mark.parametrize("case", CONSTRUCT)
def test_simulator(model, case):
    """What the constructor cannot mean."""
    options, words = CONSTRUCT[case]
    refused(lambda: ws.Simulator(model, **options), words, ValueError)


def controls(*shape):
    return np.zeros(shape)


CALLS = {
    # states
    "q text": (lambda s: s.sim.state(q=["0"] * 8), "q|numbers"),
    "zero quaternion": (lambda s: s.sim.state(q=np.zeros(8)), "q|quaternion|'root'|[1, 0, 0, 0]"),
    "zero quaternion in reset": (lambda s: s.sim.reset(s.state, [0], q=np.zeros(8)), "q|quaternion|'root'"),
    "keyframe number": (lambda s: s.sim.state(keyframe=0), "keyframe|0"),
    "keyframe list": (lambda s: s.sim.state(keyframe=["a"]), "keyframe|['a']"),
    "keyframe in reset": (lambda s: s.sim.reset(s.state, [0], keyframe="up"), "keyframe|'up'|it has"),
    "reset worlds text": (lambda s: s.sim.reset(s.state, "all"), "worlds|all"),
    "reset parameters": (lambda s: s.sim.reset(s.state, [0], parameters="no"), "parameters|'no'|True or False"),
    "assign": (lambda s: s.state.clone().assign(s.grad.state()), "other|another simulator"),
    "assign of an array": (lambda s: s.state.clone().assign(np.zeros(3)), "other|ndarray"),
    # steps
    "substeps inf": (lambda s: s.sim.step(s.state, substeps=INF), "substeps|inf|whole"),
    "substeps true": (lambda s: s.sim.step(s.state, substeps=True), "substeps|True"),
    "control text": (lambda s: s.sim.step(s.state, [["0"]] * 3), "control|numbers"),
    "control of width 0": (lambda s: s.sim.step(s.state, controls(3, 0)), "control|(3, 0)|(3, 1)"),
    "capture": (lambda s: s.sim.capture("step"), "function|'step'"),
    "steps inf": (lambda s: s.sim.rollout(s.state, steps=INF), "steps|inf|whole"),
    "steps nan": (lambda s: s.sim.rollout(s.state, steps=NAN), "steps|nan|whole"),
    "steps true": (lambda s: s.sim.rollout(s.state, steps=True), "steps|True|whole"),
    "steps negative": (lambda s: s.sim.rollout(s.state, steps=-1), "steps|-1|at least 1"),
    "steps beside controls": (lambda s: s.sim.rollout(s.state, controls(2, 3, 1), steps="2"), "steps|'2'|whole"),
    "controls of width 0": (lambda s: s.sim.rollout(s.state, controls(2, 3, 0)), "controls|(2, 3, 0)|(2, 3, 1)"),
    "controls text": (lambda s: s.sim.rollout(s.state, "left"), "controls|'left'"),
    "controls number": (lambda s: s.sim.rollout(s.state, 1.0, steps=2), "controls|(2, 3, 1)"),
    "rollout substeps": (lambda s: s.sim.rollout(s.state, steps=2, substeps="2"), "substeps|'2'|whole"),
    "every": (lambda s: s.sim.rollout(s.state, steps=2, every=INF), "every|inf|whole"),
    "progress": (lambda s: s.sim.rollout(s.state, steps=2, progress="no"), "progress|'no'"),
    "checkpoint_every": (lambda s: s.sim.rollout(s.state, steps=2, checkpoint_every=0), "checkpoint_every|0"),
    "gradient_norms": (lambda s: s.sim.rollout(s.state, steps=2, gradient_norms="no"), "gradient_norms|'no'"),
    # Jacobians
    "linearize parameters": (lambda s: s.sim.linearize(s.state, parameters=3), "parameters|3"),
    "linearize parameter": (lambda s: s.sim.linearize(s.state, parameters=["mass"]), "'mass'|body_mass"),
    "force_jacobian": (lambda s: s.sim.linearize(s.state, force_jacobian="no"), "force_jacobian|'no'"),
    "linearize out": (lambda s: s.sim.linearize(s.state, out=s.state), "out|State|Linearization"),
    "no direction": (lambda s: s.sim.jvp(s.state), "no direction|dstate|parameters"),
    "jvp parameters": (lambda s: s.sim.jvp(s.state, parameters="body_mass"), "parameters|'body_mass'|dict"),
    "jvp dstate": (lambda s: s.sim.jvp(s.state, dstate=[1.0]), "dstate|(1,)|(3, 14)"),
    "jvp out": (lambda s: s.sim.jvp(s.state, dcontrol=controls(3, 1), out=3), "out|int"),
    # queries
    "body true": (lambda s: s.sim.jacobian(s.sim.model.q0, True), "body|True|whole"),
    "body float": (lambda s: s.sim.jacobian(s.sim.model.q0, 0.5), "body|0.5|whole"),
    "point nan": (lambda s: s.sim.jacobian(s.sim.model.q0, 0, [0, NAN, 0]), "point|nan|finite"),
    "point text": (lambda s: s.sim.jacobian(s.sim.model.q0, 0, "tip"), "point|'tip'"),
    "force of": (lambda s: s.sim.contact_force(of=3), "of|3|body"),
    "ray back": (lambda s: ray(s, max_distance=-1), "max_distance|-1|positive"),
    "ray nan": (lambda s: ray(s, max_distance=NAN), "max_distance|nan"),
    "ray text": (lambda s: ray(s, max_distance="far"), "max_distance|'far'"),
    "ray origin": (lambda s: s.sim.ray_cast(s.state, "here", [[0, 0, 1]]), "origin|'here'"),
    "ray geom": (lambda s: ray(s, geoms=[0.5]), "geoms|0.5|whole"),
    "ray geom name": (lambda s: ray(s, geoms="wall"), "no geom named 'wall'|floor"),
    "ray ignore": (lambda s: ray(s, ignore=[9]), "ignore|1"),
    "ray ignore name": (lambda s: ray(s, ignore="hand"), "ignore|'hand'|upper"),
    "warm start": (lambda s: s.sim.warm_start_hits, "warm_start_hits|LCP"),
    # the model
    "no name": (lambda s: s.sim.model.body(3), "no body named 3|upper"),
    "joint coordinates": (lambda s: s.sim.model.joint_coordinates("knee"), "'knee'|elbow"),
    "displace": (lambda s: s.sim.model.displace(np.zeros(3), np.zeros(7)), "q|(3,)|8"),
    "displace text": (lambda s: s.sim.model.displace(s.sim.model.q0, "far"), "delta|'far'"),
    "difference": (lambda s: s.sim.model.difference(s.sim.model.q0, np.zeros(7)), "end|(7,)|8"),
    # parameters
    "parameter number": (lambda s: s.sim.parameters[3], "no parameter 3|body_mass"),
    "mass text": (lambda s: set_parameter(s, "body_mass", ["1", "1"]), "body_mass|numbers"),
    "zero size": (lambda s: set_parameter(s, "geom_size", np.zeros((2, 3))), "geom_size|positive"),
    "half active": (lambda s: set_parameter(s, "body_active", [0.5, 1]), "body_active|0.5|on (1) or off (0)"),
    "infinite dissipation": (lambda s: set_parameter(s, "geom_dissipation_time", [INF, 0]), "dissipation_time|inf"),
    # gradients
    "check of a plain simulator": (lambda s: ws.check_gradients(s.sim), "requires_grad=True"),
    "check of nothing": (lambda s: ws.check_gradients(None), "requires_grad=True"),
    "horizons": (lambda s: ws.check_gradients(s.grad, horizons=(0,)), "horizons|0|at least 1"),
    "horizons text": (lambda s: ws.check_gradients(s.grad, horizons="10"), "horizons|whole"),
    "no horizons": (lambda s: ws.check_gradients(s.grad, horizons=()), "horizons|empty"),
    "variables": (lambda s: ws.check_gradients(s.grad, variables=("x",)), "variables|'x'|controls"),
    "no variables": (lambda s: ws.check_gradients(s.grad, variables=()), "variables|parameters|nothing"),
    "check parameters": (lambda s: ws.check_gradients(s.grad, parameters=("mass",)), "parameters|'mass'|body_mass"),
    "entries": (lambda s: ws.check_gradients(s.grad, entries=0), "entries|0"),
    "step_sizes": (lambda s: ws.check_gradients(s.grad, step_sizes=(0.0,)), "step_sizes|0.0|positive"),
    "no step_sizes": (lambda s: ws.check_gradients(s.grad, step_sizes=()), "step_sizes|empty"),
    "check tolerance": (lambda s: ws.check_gradients(s.grad, tolerance="1e-5"), "tolerance|'1e-5'"),
    "seed": (lambda s: ws.check_gradients(s.grad, seed=-1), "seed|-1"),
    "check state": (lambda s: ws.check_gradients(s.grad, s.state), "state|(3, 8)|(2, 8)"),
    "check controls": (lambda s: ws.check_gradients(s.grad, controls="left"), "controls|'left'"),
    "objective": (lambda s: objective(s.sim), "requires_grad=True"),
    "objective loss": (lambda s: objective(s.grad, loss=3), "loss|3"),
    "objective variables": (lambda s: objective(s.grad, variables={}), "variables|empty"),
    "objective list": (lambda s: objective(s.grad, variables=["v"]), "variables|['v']|dict"),
    "objective text": (lambda s: objective(s.grad, variables={"v": "fast"}), "variables['v']|'fast'"),
    "objective steps": (lambda s: objective(s.grad, steps=0), "steps|0"),
    "objective steps inf": (lambda s: objective(s.grad, steps=INF), "steps|inf"),
    "objective scale": (lambda s: objective(s.grad, scale={"v": 0.0}), "scale['v']|0.0|positive"),
    "objective bounds": (lambda s: objective(s.grad, bounds={"v": (1, -1)}), "bounds['v']|(1, -1)|lower"),
    "objective bound": (lambda s: objective(s.grad, bounds={"v": 1}), "bounds['v']|1|(low, high)"),
    "objective framework": (lambda s: objective(s.grad, framework="tf"), "framework|'tf'|torch"),
    # trajectories
    "trajectory of no model": (lambda s: remade(s, model="arm"), "model|str|Model"),
    "trajectory of a list": (lambda s: remade(s, q=[[[0]]]), "q|list"),
    "rows of what": (lambda s: s.trajectory.rows("speed", [0]), "name|'speed'|energy"),
    "rows beyond": (lambda s: s.trajectory.rows("q", [3]), "rows|3|0 to 2"),
    "rows float": (lambda s: s.trajectory.rows("q", [0.5]), "rows|0.5"),
    "chunks beyond": (lambda s: list(s.trajectory.pose_chunks(rows=[7])), "rows|7|0 to 2"),
    "poses of worlds": (lambda s: s.trajectory.poses(worlds=[3]), "worlds|3|0 to 2"),
    "poses of a half": (lambda s: s.trajectory.poses(worlds=0.5), "worlds|0.5"),
    "save nowhere": (lambda s: s.trajectory.save("/no/such/folder/a.zarr"), "/no/such/folder"),
    "load nothing": (lambda s: ws.Trajectory.load("/no/such/store"), "/no/such/store"),
    "load model": (lambda s: ws.Trajectory.load("a", model="ant"), "model|str|Model"),
    "fps": (lambda s: s.trajectory.to_html("a.html", fps="fast"), "fps|'fast'|positive"),
    "fps 0": (lambda s: s.trajectory.to_usd("a.usda", fps=0), "fps|0|positive"),
    "spacing": (lambda s: s.trajectory.to_html("a.html", spacing=-1), "spacing|-1|positive"),
    "spacing text": (lambda s: s.trajectory.to_usd("a.usda", spacing="wide"), "spacing|'wide'|positive"),
    "usd suffix": (lambda s: s.trajectory.to_usd("a.txt"), "a.txt|.usd"),
    "plot tolerance": (lambda s: s.trajectory.plot(tolerance="1e-4"), "tolerance|'1e-4'|positive"),
    "frame": (lambda s: s.trajectory.render("a.png", frame=9), "frame|9|0 to 2"),
    "half a frame": (lambda s: s.trajectory.render("a.png", frame=0.5), "frame|0.5|whole"),
    "render spacing": (lambda s: s.trajectory.render("a.png", spacing=NAN), "spacing|nan|positive"),
    "render width": (lambda s: s.trajectory.render("a.png", width=0.5), "width|0.5|whole"),
    "render camera": (lambda s: render_image(s.sim.model, s.sim.model.q0, "front"), "camera|'front'|Camera"),
    "camera": (lambda s: Camera((0, 0), (0, 0, 0)), "Camera: eye|[0.0, 0.0]|3 finite"),
    "camera angle": (lambda s: Camera((1, 0, 0), (0, 0, 0), 200.0), "Camera: fov|200.0|180"),
    "frames of a plain rollout": (lambda s: s.trajectory.gradient_norms, "gradient_norms=True"),
}


def ray(s, **options):
    return s.sim.ray_cast(s.state, [[0, 0, 5]], [[0, 0, -1]], **options)


def set_parameter(s, name, value):
    s.sim.parameters[name] = value


def objective(sim, **changes):
    return ws.Objective(**(dict(sim=sim, loss=lambda t: t.q, variables={"v": np.zeros(7)}, steps=2) | changes))


def remade(s, **changes):
    t = s.trajectory
    return ws.Trajectory(**(dict(model=t.model, q=t.q, v=t.v, time=t.time) | changes))


@pytest.mark.parametrize("case", CALLS)
def test_calls(s, case, tmp_path, monkeypatch):
    """What the methods of simulators, states, models, parameters and trajectories cannot mean."""
    monkeypatch.chdir(tmp_path)
    call, words = CALLS[case]
    refused(lambda: call(s), words, ValueError)
    assert not list(tmp_path.iterdir())  # nothing half written


def test_restitution_of_a_world_is_from_0_to_1(model, device):
    """`parameters["geom_restitution"]` takes what `add_geom` takes."""
    sim = ws.Simulator(model, solver=ws.LCP(), device=device)

    def write(value):
        sim.parameters["geom_restitution"] = np.full(2, value)

    refused(lambda: write(5.0), "geom_restitution|5.0|at most 1", ValueError)
    write(1.0)


def test_rays_and_height_fields(device):
    """Rays meet height fields; one geom may be named without a list; a body's rays name a body that is there."""
    b = ws.ModelBuilder()
    b.add_geom("hfield", name="hills", hfield=([1, 1, 1, 1], np.zeros((2, 2))))
    b.add_geom("box", [1, 1, 1], name="box", pose=[0, 0, 5])
    sim = ws.Simulator(b.build(), device=device)
    ray = (sim.state(), [[0.1, 0, 9]], [[0, 0, -1]])
    assert sim.ray_cast(*ray, geoms=["hills"]).distance.numpy()[0, 0] == pytest.approx(9.0, rel=1e-6)
    assert sim.ray_cast(*ray, geoms="box").distance.numpy()[0, 0] == pytest.approx(3.0, rel=1e-6)
    assert sim.ray_cast(*ray, ignore="world").distance.numpy()[0, 0] == -1.0
    refused(lambda: sim.ray_cast(*ray, body="head"), "'head'", ValueError)
    refused(lambda: sim.ray_sensor(*ray[1:], body=0), "body is 0", ValueError)


SIMULATORS = {
    "SAP": dict(solver=ws.SAP()),
    "LCP": dict(solver=ws.LCP()),
    "more contacts": dict(solver=ws.LCP(), max_contacts=7),
    "variational": dict(integrator=ws.Variational()),
}


@pytest.mark.parametrize("source", SIMULATORS)
@pytest.mark.parametrize("target", SIMULATORS)
def test_states_of_other_solvers(device, source, target):
    """A state holds what its solver and integrator remember: another simulator's is refused, with what differs."""
    model = body_on_plane("sphere", [0.1])
    state = ws.Simulator(model, device=device, **SIMULATORS[source]).state()
    sim = ws.Simulator(model, device=device, **SIMULATORS[target])
    if source == target:
        sim.step(state)
    else:
        refused(lambda: sim.step(state), "state|memory|sim.state(q, v)", ValueError)


# Adapters ----------------------------------------------------------------------------------------------------------------


def test_torch_adapter(s):
    """Steps and rows of a closed loop in torch are whole numbers of at least 1."""
    torch = pytest.importorskip("torch")
    q, v = (wp.to_torch(x, requires_grad=False) for x in (s.grad.state().q, s.grad.state().v))

    def policy(q, v):
        return torch.zeros((2, 1), dtype=q.dtype)

    refused(lambda: ws.torch.rollout(s.grad, q, v, policy, steps=2, every=0), "every|0|at least 1", ValueError)
    refused(lambda: ws.torch.rollout(s.grad, q, v, policy, steps=1.5), "steps|1.5|whole", ValueError)
    refused(lambda: ws.torch.rollout(s.grad, q, v, steps=INF), "steps|inf|whole", ValueError)
    refused(lambda: ws.torch.rollout(s.grad, q, v, 3.0, steps=1), "controls|3.0", ValueError)


# Command line ------------------------------------------------------------------------------------------------------------

COMMANDS = [
    ("run BALL --worlds 0", "worlds is 0"),
    ("run BALL --steps -1", "steps is -1"),
    ("run BALL --substeps 0", "substeps is 0"),
    ("run BALL --every 0", "every is 0"),
    ("run BALL --seed -1", "seed is -1"),
    ("run BALL --noise -1", "noise is -1.0"),
    ("run BALL --noise nan", "noise is nan"),
    ("run BALL --dt inf", "dt is inf"),
    ("view BALL --port 99999", "port is 99999"),
    ("view BALL --worlds 0 --out a.html", "BALL"),
    ("bench --worlds nonsense", "worlds is 'nonsense'"),
    ("bench --worlds 1,,2", "worlds is '1,,2'"),
    ("bench --worlds 0", "worlds is '0'"),
    ("bench --repeats 0", "repeats is 0"),
    ("bench --world-steps 0", "world_steps is 0"),
    ("bench --settle nan", "settle is nan"),
    ("bench --models nobody --engines warpsim --no-cold-start", "nobody"),
    ("demo --worlds 0", "worlds is 0"),
    ("demo --steps 0", "steps is 0"),
]
BALL = """<mujoco model="ball"><worldbody><geom type="plane" size="5 5 .1"/>
<body pos="0 0 1"><freejoint/><geom type="sphere" size=".1"/></body></worldbody></mujoco>"""


@pytest.mark.parametrize("line, words", COMMANDS)
def test_commands(line, words, tmp_path, monkeypatch, capsys):
    """Flags of the command: one line that names the flag and its value, exit code 2, nothing written."""
    (tmp_path / "BALL.xml").write_text(BALL)
    monkeypatch.chdir(tmp_path)
    code = main(line.replace("BALL", "BALL.xml").split())
    errors = [x for x in capsys.readouterr().err.splitlines() if x.startswith("warpsim: ")]
    assert code == 2 and len(errors) == 1 and words in errors[0], errors
    assert [x.name for x in tmp_path.iterdir()] == ["BALL.xml"]
