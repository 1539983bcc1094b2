# SPDX-License-Identifier: Apache-2.0
"""Why files of the corpus miss a bar, found by looking: (words of the file's path, cause), by stage. The first that fits counts."""

TANGLED = (
    "an arm that is folded through itself at its start: dozens of contacts, centimetres deep, that no joint can undo"
)
GIMBAL = "cause: three hinges without armature carry an object; in gimbal lock its mass matrix is singular. MuJoCo warns and resets it"
HULLS = "pairs of hulls of 64 vertices that overlap all the time, 2 to 3 µs each in the narrow phase"

CAUSES: dict[str, tuple[tuple[str, str], ...]] = {
    "load": (),
    "smooth": (),
    "sensors": (),
    "calm": (
        ("hand/myohand_pen", GIMBAL),
        ("hand/myohand_sar", GIMBAL),
        (
            "hand/myohand_baoding",
            "a ball of 22 mm falls past the hand at 5.2 m/s, more than half its radius in a step, onto what lies below",
        ),
        (
            "myoarm_bionic_bimanual",
            "fingers of the prosthesis, 2 mm thin, fall on the table faster than half of that in a step",
        ),
        ("myoarm_tabletennis", "the paddle, thin, is thrown off the table at 14 m/s"),
        ("body/myobody", "a body that falls over: 253 J where 252 J are allowed, MuJoCo 222 J"),
        ("kinova/jaco_arm", TANGLED),
        ("robots/jaco/", TANGLED),
        (
            "objects/plug",
            "starts 38 mm in the ground on a soft contact, leaves it at 2 m/s and falls back, by more than half of its thin geoms in a step",
        ),
        (
            "humanoid_CMU_V2020",
            "hips that start 8 cm inside a root that is fixed, on contacts of a given stiffness, which have no limit of their recovery; in MuJoCo too joints reach 170 rad/s within three steps",
        ),
        (
            "mjcf/test_assets/robot_arm",
            "an arm of light links falls at 277 J, faster than its step resolves (MuJoCo: 2,870 J)",
        ),
        (
            "mujoco/testing/assets/arm",
            "starts 190 mm deep in the margin of its ground, 100 mm, on contacts of a given stiffness: 1.12 J where 0.88 J are allowed",
        ),
        (
            "drosophila_fused",
            "starts with its links in each other; 2 of 4,000 steps of a world are not converged",
        ),
    ),
    "speed": (
        ("kinova/jaco_arm", TANGLED),
        ("hand/myohand_pen", GIMBAL),
        ("drosophila_fused", "132 joints whose links start in each other: 30 iterations of the contact solver a step"),
        ("robotiq_gripper_140", HULLS),
        ("robots/ur5e", HULLS),
        (
            "objects/faucet",
            "18 pairs of cylinders and boxes that are near each other, a µs each; MuJoCo takes 5 µs for all of the step",
        ),
    ),
}


def cause(stage: str, file: str) -> str | None:
    """The cause on record, or None."""
    return next((why for words, why in CAUSES[stage] if words in file), None)
