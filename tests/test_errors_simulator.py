# SPDX-License-Identifier: Apache-2.0
"""Bad input to `Simulator`: one clear error each, that names the element, the value and the fix (api.md, reliability)."""

import re

import numpy as np
import pytest
import warp as wp

import warpsim as ws
from scenes.bodies import body_on_plane

NAN, INF = float("nan"), float("inf")
WORLDS = 3
ERRORS = (ValueError, ws.ModelError)


def arm() -> ws.ModelBuilder:
    """Two bodies with hinges 'shoulder' and 'elbow', one motor, a sphere over a floor, a keyframe 'home'."""
    b = ws.ModelBuilder("arm")
    b.add_geom("plane", name="floor")
    b.add_body("upper", mass=1.0, inertia=[0.1] * 3, pose=[0, 0, 2])
    b.add_joint("upper", "hinge", name="shoulder", axis=[0, 1, 0])
    b.add_body("lower", parent="upper", mass=1.0, inertia=[0.1] * 3, pose=[0, 0, -0.5])
    b.add_joint("lower", "hinge", name="elbow", axis=[0, 1, 0])
    b.add_geom("sphere", [0.1], body="lower", name="hand")
    b.add_actuator("elbow", name="motor")
    b.add_keyframe("home", q=[0.1, 0.2])
    return b


@pytest.fixture(scope="module")
def sim(device):
    return ws.Simulator(arm().build(), worlds=WORLDS, device=device)


@pytest.fixture(scope="module")
def model():
    return arm().build()


def assert_refused(action, words) -> None:
    """`action` raises one of our errors, with every word (a regular expression) in its message."""
    with pytest.raises(ERRORS) as caught:
        action()
    for word in words:
        assert re.search(word, str(caught.value)), f"{word!r} is not in: {caught.value}"


CONSTRUCT = {  # how: the words that the error must contain
    "no worlds": (dict(worlds=0), ["worlds", "0", "at least 1"]),
    "negative worlds": (dict(worlds=-4), ["worlds", "-4", "at least 1"]),
    "half a world": (dict(worlds=2.5), ["worlds", "2.5", "whole"]),
    "float worlds": (dict(worlds=4.0), ["worlds", "4.0", "whole"]),
    "worlds as text": (dict(worlds="many"), ["worlds", "many", "whole"]),
    "dt zero": (dict(dt=0.0), ["dt", "0", "positive"]),
    "dt negative": (dict(dt=-0.01), ["dt", "-0.01", "positive"]),
    "dt nan": (dict(dt=NAN), ["dt", "nan", "finite"]),
    "dt infinite": (dict(dt=INF), ["dt", "inf", "finite"]),
    "dt as text": (dict(dt="fast"), ["dt", "fast"]),
    "dtype": (dict(dtype="float16"), ["dtype", "float16", "float32", "float64"]),
    "device": (dict(device="cuda:99"), ["device", "cuda:99", "cpu"]),
    "device of no kind": (dict(device="tpu"), ["device", "tpu", "cpu"]),
    "solver as text": (dict(solver="sap"), ["solver", "sap", r"ws\.SAP"]),
    "solver class": (dict(solver=ws.SAP), ["solver", r"ws\.SAP"]),
    "integrator as text": (dict(integrator="euler"), ["integrator", "euler", r"ws\.SymplecticEuler"]),
    "integrator class": (dict(integrator=ws.Midpoint), ["integrator", "Midpoint", r"ws\.Midpoint\(\)"]),
    "max_contacts zero": (dict(max_contacts=0), ["max_contacts", "0"]),
    "max_contacts float": (dict(max_contacts=3.5), ["max_contacts", "3.5"]),
}


@pytest.mark.parametrize("case", CONSTRUCT)
def test_constructor(model, case):
    """Each wrong argument of `Simulator` is refused by name, with its value and what would do."""
    options, words = CONSTRUCT[case]
    assert_refused(lambda: ws.Simulator(model, **options), words)


@pytest.mark.parametrize("thing", ["ant.xml", None, 3])
def test_a_model_is_needed(thing):
    assert_refused(lambda: ws.Simulator(thing), ["model", type(thing).__name__, r"ws\.load"])


STATE = {
    "nan in q": (dict(q=[0.0, NAN]), ["q", "nan", "finite"]),
    "inf in v": (dict(v=[INF, 0.0]), ["v", "inf", "finite"]),
    "nan in one world": (dict(q=[[0, 0], [0, 0], [NAN, 0]]), ["q", r"\(2, 0\)", "finite"]),
    "q too long": (dict(q=np.zeros(3)), ["q", r"\(3,\)", r"\(2,\)"]),
    "v of other worlds": (dict(v=np.zeros((4, 2))), ["v", r"\(4, 2\)", r"\(3, 2\)"]),
    "q as text": (dict(q="home"), ["q"]),
    "unknown keyframe": (dict(keyframe="away"), ["keyframe", "away", "arm", "home"]),
}


@pytest.mark.parametrize("case", STATE)
def test_state(sim, case):
    """NaN, wrong shapes and unknown keyframes in `sim.state()`."""
    options, words = STATE[case]
    assert_refused(lambda: sim.state(**options), words)


def wrong_dtype(shape, device):
    return wp.zeros(shape, dtype=wp.float64, device=device)


STEP = {
    "control of other worlds": (lambda d: dict(control=np.zeros((4, 1))), ["control", r"\(4, 1\)", r"\(3, 1\)"]),
    "control too wide": (lambda d: dict(control=np.zeros((3, 2))), ["control", r"\(3, 2\)", r"\(3, 1\)"]),
    "control of one world": (lambda d: dict(control=np.zeros(1)), ["control", r"\(1,\)", r"\(3, 1\)"]),
    "control as a number": (lambda d: dict(control=1.0), ["control", r"\(3, 1\)"]),
    "control as text": (lambda d: dict(control="left"), ["control"]),
    "device control of another dtype": (
        lambda d: dict(control=wrong_dtype((3, 1), d)),
        ["control", "float64", "float32"],
    ),
    "device control of another shape": (
        lambda d: dict(control=wp.zeros((1, 3), dtype=wp.float32, device=d)),
        ["control", r"\(1, 3\)", r"\(3, 1\)"],
    ),
    "tau per actuator": (lambda d: dict(tau=np.zeros((3, 1))), ["tau", r"\(3, 1\)", r"\(3, 2\)"]),
    "tau of another dtype": (lambda d: dict(tau=wrong_dtype((3, 2), d)), ["tau", "float64", "float32"]),
    "wrench per link": (lambda d: dict(wrench=np.zeros((3, 3, 6))), ["wrench", r"\(3, 3, 6\)", r"\(3, 2, 6\)"]),
    "wrench of forces alone": (lambda d: dict(wrench=np.zeros((3, 2, 3))), ["wrench", r"\(3, 2, 3\)", r"\(3, 2, 6\)"]),
    "no substeps": (lambda d: dict(substeps=0), ["substeps", "0", "at least 1"]),
    "half a substep": (lambda d: dict(substeps=1.5), ["substeps", "1.5", "whole"]),
}


@pytest.mark.parametrize("case", STEP)
def test_step(sim, device, case):
    """Wrong shapes and dtypes of control, tau and wrench; a refused step leaves the simulator as it was."""
    options, words = STEP[case]
    state = sim.state(v=[1.0, 2.0])
    expected = sim.step(state).q.numpy()
    assert_refused(lambda: sim.step(state, **options(device)), words)
    np.testing.assert_array_equal(sim.step(state).q.numpy(), expected)


def test_step_on_another_device(sim):
    """A control on another device than the simulator's is refused, not copied."""
    others = [d for d in wp.get_devices() if d != sim.device]
    if not others:
        pytest.skip("needs two devices")
    control = wp.zeros((WORLDS, 1), dtype=wp.float32, device=others[0])
    assert_refused(lambda: sim.step(sim.state(), control), ["control", str(others[0]), str(sim.device)])


def other_states(model, device):
    return {
        "of other worlds": (
            ws.Simulator(model, worlds=2, device=device).state(),
            ["state.q", r"\(2, 2\)", r"\(3, 2\)"],
        ),
        "of another dtype": (
            ws.Simulator(model, worlds=3, dtype="float64", device=device).state(),
            ["state.q", "float64", "float32"],
        ),
        "of another model": (
            ws.Simulator(body_on_plane("sphere", [0.1]), worlds=3, device=device).state(),
            ["state.q", r"\(3, 7\)", r"\(3, 2\)"],
        ),
        "no state": (np.zeros((3, 2)), ["state", "ndarray", r"sim\.state\(\)"]),
    }


@pytest.mark.parametrize("kind", ["of other worlds", "of another dtype", "of another model", "no state"])
@pytest.mark.parametrize("where", ["step", "out", "rollout", "reset", "energy", "contacts"])
def test_wrong_state(sim, model, device, kind, where):
    """A state of another simulator is refused wherever one is taken, and as `out` before anything is written."""
    state, words = other_states(model, device)[kind]
    calls = {
        "step": lambda: sim.step(state),
        "out": lambda: sim.step(sim.state(), out=state),
        "rollout": lambda: sim.rollout(state, steps=1),
        "reset": lambda: sim.reset(state, [0]),
        "energy": lambda: sim.energy(state),
        "contacts": lambda: sim.contacts(state),
    }
    if where == "out":
        words = ["out", *words[1:]]
    assert_refused(calls[where], words)


ROLLOUT = {
    "no steps": (lambda: dict(), ["steps"]),
    "no steps for a policy": (lambda: dict(controls=lambda state: None), ["steps"]),
    "zero steps": (lambda: dict(steps=0), ["steps", "0", "at least 1"]),
    "half a step": (lambda: dict(steps=2.5), ["steps", "2.5", "whole"]),
    "steps as text": (lambda: dict(steps="ten"), ["steps", "ten"]),
    "steps that disagree": (
        lambda: dict(controls=np.zeros((4, 3, 1)), steps=5),
        ["controls", r"\(4, 3, 1\)", r"\(5, 3, 1\)"],
    ),
    "controls of other worlds": (
        lambda: dict(controls=np.zeros((4, 2, 1))),
        ["controls", r"\(4, 2, 1\)", r"\(4, 3, 1\)"],
    ),
    "controls of one step": (lambda: dict(controls=np.zeros((3, 1))), ["controls", r"\(3, 1\)"]),
    "empty controls": (lambda: dict(controls=np.zeros((0, 3, 1))), ["steps|controls", "0"]),
    "policy of another shape": (lambda: dict(controls=lambda s: np.zeros((3, 2)), steps=2), [r"\(3, 2\)", r"\(3, 1\)"]),
    "every zero": (lambda: dict(steps=2, every=0), ["every", "0"]),
    "every float": (lambda: dict(steps=2, every=1.5), ["every", "1.5"]),
    "no substeps": (lambda: dict(steps=2, substeps=0), ["substeps", "0"]),
}


@pytest.mark.parametrize("case", ROLLOUT)
def test_rollout(sim, case):
    """Steps and controls that disagree, or are of the wrong shape, are refused before the first step."""
    options, words = ROLLOUT[case]
    assert_refused(lambda: sim.rollout(sim.state(), **options()), words)


PARAMETERS = {
    "unknown name": ("body_weight", 1.0, ["body_weight", "body_mass"]),
    "negative mass": ("body_mass", [[1.0, -2.0]] * 3, ["body_mass", "-2", r"\(0, 1\)", "at least 0"]),
    "nan mass": ("body_mass", [[1.0, 1.0], [1.0, 1.0], [NAN, 1.0]], ["body_mass", "nan", r"\(2, 0\)", "finite"]),
    "infinite com": ("body_com", [[0, 0, INF], [0, 0, 0]], ["body_com", "inf", "finite"]),
    "mass of other worlds": ("body_mass", np.ones((4, 2)), ["body_mass", r"\(4, 2\)", r"\(3, 2\)"]),
    "mass of other bodies": ("body_mass", np.ones(3), ["body_mass", r"\(3,\)", r"\(2,\)"]),
    "mass as a number": ("body_mass", 2.0, ["body_mass", r"\(2,\)"]),
    "mass as text": ("body_mass", "heavy", ["body_mass"]),
    "indefinite inertia": ("body_inertia", [np.diag([1.0, 1.0, -1.0]), np.eye(3)], ["body_inertia", "definite"]),
    "asymmetric inertia": ("body_inertia", [np.eye(3) + np.eye(3, k=1), np.eye(3)], ["body_inertia", "symmetric"]),
    "negative friction": ("geom_friction", [-0.1, 1.0], ["geom_friction", "-0.1"]),
    "zero stiffness": ("geom_stiffness", [0.0, 1.0], ["geom_stiffness", "0"]),
    "negative damping": ("joint_damping", [-1.0, 0.0], ["joint_damping", "-1"]),
    "negative armature": ("joint_armature", [0.0, -1.0], ["joint_armature", "-1"]),
    "reversed range": ("joint_range", [[1.0, -1.0], [0.0, 0.0]], ["joint_range", "low"]),
    "zero axis": ("joint_axis", [[0, 0, 0], [0, 1, 0]], ["joint_axis"]),
    "zero quaternion": ("joint_pose", [[0] * 7, [0, 0, 0, 1, 0, 0, 0]], ["joint_pose", "quaternion"]),
    "nan gravity": ("gravity", [0, NAN, 0], ["gravity", "nan", "finite"]),
    "gravity as a number": ("gravity", -9.81, ["gravity", r"\(3,\)"]),
    "restitution with SAP": ("geom_restitution", [0.5, 0.5], ["restitution", "SAP"]),
}


@pytest.mark.parametrize("case", PARAMETERS)
def test_parameters(sim, case):
    """Host writes to `sim.parameters` are checked as the model's own values are; a refused write changes nothing."""
    name, values, words = PARAMETERS[case]
    without_array = case in ("unknown name", "restitution with SAP")
    before = None if without_array else sim.parameters[name].numpy().copy()

    def write():
        sim.parameters[name] = values

    assert_refused(write, words)
    if before is not None:
        np.testing.assert_array_equal(sim.parameters[name].numpy(), before)


def test_reading_an_unknown_parameter(sim):
    assert_refused(lambda: sim.parameters["mass"], ["mass", "body_mass", "gravity"])


RESET = {
    "index too large": (dict(worlds=[3]), ["worlds", "3"]),
    "index too small": (dict(worlds=[-4]), ["worlds", "-4"]),
    "float index": (dict(worlds=[0.5]), ["worlds"]),
    "mask of other worlds": (dict(worlds=[True, False]), ["mask", r"\(2,\)", r"\(3,\)"]),
    "nan": (dict(worlds=[0], q=[NAN, 0.0]), ["q", "nan"]),
    "rows of other worlds": (dict(worlds=[0, 1], q=np.zeros((3, 2))), ["q", r"\(3, 2\)", r"\(2, 2\)"]),
}


@pytest.mark.parametrize("case", RESET)
def test_reset(sim, case):
    """Wrong worlds or values in `reset`; the state is left as it was."""
    options, words = RESET[case]
    state = sim.state(q=[0.3, 0.4])
    assert_refused(lambda: sim.reset(state, **options), words)
    np.testing.assert_array_equal(state.q.numpy(), np.tile([0.3, 0.4], (3, 1)).astype("float32"))


QUERIES = {
    "kinematics shape": (lambda s: s.kinematics(np.zeros(5)), ["q", r"\(5,\)", r"\(2,\)"]),
    "mass matrix nan": (lambda s: s.mass_matrix([0.0, NAN]), ["q", "nan"]),
    "inverse dynamics": (lambda s: s.inverse_dynamics([0, 0], [0, 0], np.zeros((3, 3))), ["a", r"\(3, 3\)"]),
    "forward dynamics": (lambda s: s.forward_dynamics([0, 0], [0, 0], [0.0]), ["tau", r"\(1,\)"]),
    "device array": (lambda s: s.mass_matrix(wp.zeros((3, 2), dtype=wp.float64)), ["q", "float64"]),
    "unknown body": (lambda s: s.jacobian([0, 0], "hand"), ["body", "hand", "upper", "lower"]),
    "body index": (lambda s: s.jacobian([0, 0], 2), ["body", "2"]),
    "point": (lambda s: s.jacobian([0, 0], 1, [0, 0]), ["point", r"\(2,\)"]),
    "force of": (lambda s: s.contact_force(of="joint"), ["joint", "body", "geom"]),
}


@pytest.mark.parametrize("case", QUERIES)
def test_queries(sim, case):
    """Wrong shapes, dtypes, bodies and points in the queries."""
    call, words = QUERIES[case]
    assert_refused(lambda: call(sim), words)


# What the contact solver cannot do ---------------------------------------------------------------------------------------


def test_restitution_is_refused_by_sap(device):
    """SAP models no restitution over a whole step: the geom, its value and the way out are named; NoContact does not mind."""
    b = arm()
    b.add_geom("sphere", [0.1], body="upper", name="rubber", restitution=0.5)
    model = b.build()
    words = ["'rubber'", "restitution", r"0\.5", "SAP", "dissipation_time"]
    assert_refused(lambda: ws.Simulator(model, device=device, time_of_impact=False), words)
    sim = ws.Simulator(model, solver=ws.NoContact(), device=device)
    assert np.isfinite(sim.step(sim.state()).q.numpy()).all()


TETRAHEDRON = (
    [[0, 0, 0], [0.1, 0, 0], [0, 0.1, 0], [0, 0, 0.1]],
    [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]],
)


@pytest.mark.parametrize("kind, size", [("cylinder", [0.1, 0.2]), ("ellipsoid", [0.1, 0.2, 0.3]), ("mesh", ())])
def test_a_shape_has_contact_or_is_refused_by_name(device, kind, size):
    """Never silence: a shape that may touch the floor either rests on it, or is refused with its name and three ways out.
    With `ws.NoContact()`, and where the masks let it touch nothing, every shape simulates."""

    def scene(**masks):
        b = ws.ModelBuilder("tools")
        b.add_geom("plane", name="floor")
        b.add_body("tool", pose=[0, 0, 0.31], mass=1.0, inertia=[0.01] * 3)
        b.add_joint("tool", "free")
        mesh = TETRAHEDRON if kind == "mesh" else None
        b.add_geom(kind, size, body="tool", name="hammer", mesh=mesh, density=0.0, **masks)
        return b.build()

    try:
        sim = ws.Simulator(scene(), dt=0.01, device=device)
    except ERRORS:
        words = ["'hammer'", kind, r"ws\.NoContact", "contype", "box"]
        assert_refused(lambda: ws.Simulator(scene(), device=device), words)
    else:
        trajectory = sim.rollout(sim.state(), steps=100)
        assert trajectory.q.numpy()[-1, 0, 2] > -0.01
        assert trajectory.diagnostics["contacts"].numpy()[-1, 0] > 0
    for sim in (
        ws.Simulator(scene(), solver=ws.NoContact(), dt=0.01, device=device),
        ws.Simulator(scene(contype=0, conaffinity=0), dt=0.01, device=device),
    ):
        assert sim.rollout(sim.state(), steps=100).q.numpy()[-1, 0, 2] < -4.0


@pytest.mark.parametrize(
    "option, value", [("tolerance", -1.0), ("sigma", 0.0), ("line_search", "none"), ("max_iterations", 0)]
)
def test_solver_options(option, value):
    assert_refused(lambda: ws.SAP(**{option: value}), [option, re.escape(str(value))])
