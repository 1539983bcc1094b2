"""Why files of the corpus miss a bar, found by looking: (words of the file's path, cause), by stage. The first that fits counts."""

TANGLED = (
    "an arm that is folded through itself at its start: dozens of contacts, centimetres deep, that no joint can undo"
)
GIMBAL = "an object on three hinges without armature that turns through gimbal lock, where its mass matrix is singular: MuJoCo warns and resets it"
HULLS = "pairs of hulls of 64 vertices that overlap all the time, 2 to 3 µs each in the narrow phase"
MARGIN = "contact margins, which are ignored: in MuJoCo bodies rest that much above what they lie on"

CAUSES: dict[str, tuple[tuple[str, str], ...]] = {
    "load": (),
    "smooth": (),
    "sensors": (),
    "calm": (
        ("brax/test_data/capsule", MARGIN),
        ("brax/test_data/colour_objects", MARGIN),
        ("kitchen", MARGIN),
        ("kinova/jaco_arm", TANGLED),
        ("robots/jaco/", TANGLED),
        ("fourier_", "fingers that start in each other, and part in another way than in MuJoCo"),
        (
            "objects/plug",
            "starts 38 mm in the ground on a soft contact and leaves it at 2 m/s, more than its thin geoms' half per step",
        ),
        (
            "i2rt_yam",
            "bumps of 0.6 mm on the fingers start in each other and part by 0.4 mm, more than half of them, in a step",
        ),
        (
            "humanoid_CMU_V2020",
            "servos that start far from their targets: MuJoCo's joints reach 170 rad/s within three steps too",
        ),
        (
            "mjcf/test_assets/robot_arm",
            "an arm of light links falls at 277 J, faster than its step resolves (MuJoCo: 2,870 J)",
        ),
        (
            "drosophila_fused",
            "starts with its links in each other, in millimetres and milligrams; 2 of 1,000 steps are not converged",
        ),
    ),
    "speed": (
        ("fourier_", "fingers that start in each other: 40 iterations of the contact solver a step"),
        ("kinova/jaco_arm", TANGLED),
        ("hand/myohand_pen", GIMBAL),
        ("drosophila_fused", "132 joints whose links start in each other: 30 iterations of the contact solver a step"),
        ("robotiq_gripper_140", HULLS),
        ("robots/ur5e", HULLS),
        (
            "objects/faucet",
            "18 pairs of cylinders and boxes of one body in each other, for which MuJoCo has functions of their own; 5 µs a step there",
        ),
    ),
}


def cause(stage: str, file: str) -> str | None:
    """The cause on record, or None."""
    return next((why for words, why in CAUSES[stage] if words in file), None)
