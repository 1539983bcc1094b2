# SPDX-License-Identifier: Apache-2.0
"""Scenes with spatial tendons and actuators on sites: random trees wound with strings, an arm, a drone, a sucker."""

import mujoco
import numpy as np

SIDES = ("", "out", "in")  # a side site: none, outside the geom, inside


def _text(values) -> str:
    return " ".join(f"{x:.17g}" for x in np.atleast_1d(values))


def _marks(r, body: int, sites: list, geoms: list) -> str:
    """Three sites and two geoms to wrap on a body, each with a side site outside and one inside."""
    text = ""
    for k in range(3):
        sites.append(f"s{body}_{k}")
        text += f'<site name="{sites[-1]}" pos="{_text(r.uniform(-0.4, 0.4, 3))}"/>'
    for k in range(2):
        name, radius, where = f"g{body}_{k}", r.uniform(0.05, 0.2), r.uniform(-0.3, 0.3, 3)
        kind, size = ("cylinder", [radius, 0.3]) if r.random() < 0.5 else ("sphere", [radius])
        geoms.append(name)
        text += f'<geom name="{name}" type="{kind}" size="{_text(size)}" pos="{_text(where)}" quat="{_text(r.normal(size=4))}"'
        text += ' contype="0" conaffinity="0" density="300"/>'
        for side, distance in (("out", 1.5 * radius), ("in", 0.3 * radius)):
            direction = r.normal(size=3)
            at = where + distance * direction / np.linalg.norm(direction)
            text += f'<site name="{name}{side}" pos="{_text(at)}"/>'
    return text


def _path(r, sites: list, geoms: list) -> str:
    """One to three branches of two to four sites, with geoms between most of them."""
    text = f'<pulley divisor="{r.uniform(0.5, 3):.17g}"/>' if r.random() < 0.3 else ""
    for branch in range(r.integers(1, 4)):
        text += f'<pulley divisor="{r.uniform(0.5, 3):.17g}"/>' if branch else ""
        count = r.integers(2, 5)
        for i, site in enumerate(r.choice(len(sites), count, replace=False)):
            text += f'<site site="{sites[site]}"/>'
            if i < count - 1 and r.random() < 0.75:
                geom, side = geoms[r.integers(len(geoms))], SIDES[r.integers(3)]
                text += f'<geom geom="{geom}"' + (f' sidesite="{geom}{side}"/>' if side else "/>")
    return text


def wound_tree(seed: int, bodies: int = 6, tendons: int = 8, actuators: bool = False) -> mujoco.MjModel:
    """A random tree, every other one on a free joint, wound with spatial tendons; with `actuators` of every transmission."""
    r, sites, geoms = np.random.default_rng(seed), [], []
    tree, depth = _marks(r, -1, sites, geoms), 0
    for b in range(bodies):
        joint = f'<joint type="{("hinge", "slide", "ball")[r.integers(3)]}" axis="{_text(r.normal(size=3))}" pos="{_text(r.uniform(-0.1, 0.1, 3))}"/>'
        joint = "<freejoint/>" if b == 0 and seed % 2 else joint
        tree += f'<body pos="{_text(r.uniform(-0.3, 0.3, 3))}" quat="{_text(r.normal(size=4))}">{joint}{_marks(r, b, sites, geoms)}'
        depth += 1
        while depth and r.random() < 0.35:
            tree, depth = tree + "</body>", depth - 1
    tree += "</body>" * depth
    strings = "".join(
        f'<spatial name="t{t}" springlength="0.3 0.6" stiffness="30" damping="2">{_path(r, sites, geoms)}</spatial>'
        for t in range(tendons)
    )
    drives = _drives(r, sites) if actuators else ""
    return mujoco.MjModel.from_xml_string(
        f"<mujoco><worldbody>{tree}</worldbody><tendon>{strings}</tendon><actuator>{drives}</actuator></mujoco>"
    )


def _drives(r, sites: list) -> str:
    """Motors and servos on tendons, sites, pairs of sites and cranks."""

    def on(key: str = "site") -> str:
        return f'{key}="{sites[r.integers(len(sites))]}" '

    def gear() -> str:
        return f'gear="{_text(r.normal(size=6))}" '

    def crank() -> str:
        return on("cranksite") + on("slidersite") + f'cranklength="{r.uniform(0.2, 1.5):.4g}" gear="1.5" '

    text = "".join(f'<motor tendon="t{t}" gear="{r.normal():.4g}"/>' for t in range(3))
    text += '<position tendon="t3" kp="20" kv="3" gear="2"/><position tendon="t4" kp="20" kv="1" forcerange="-1 1"/>'
    text += "".join(f"<motor {on()}{gear()}/>" for _ in range(2))
    text += f'<position {on()}{on("refsite")}{gear()} kp="10" kv="1"/><motor {on()}{on("refsite")}{gear()}/>'
    text += f'<general {on()}{gear()} biastype="affine" biasprm="1 0 -2"/>'
    return text + f'<position {crank()} kp="5"/><motor {crank()}/>'


ARM = """<mujoco><option timestep="0.005"/><worldbody>
<site name="base" pos="0 .3 .1"/><site name="mid" pos=".2 .05 .1"/>
<body name="upper"><joint name="shoulder" axis="0 1 0"/><geom type="capsule" size=".04" fromto="0 0 0 .5 0 0"/>
<geom name="knob" type="sphere" size=".08" pos=".25 0 .12"/><site name="knob_side" pos=".25 0 .3"/>
<body name="lower" pos=".5 0 0"><joint name="elbow" axis="0 1 0.2"/><joint name="twist" axis="1 0 0"/>
<geom type="capsule" size=".04" fromto="0 0 0 .4 0 0"/>
<geom name="roll" type="cylinder" size=".06 .1" pos=".25 0 .1" euler="90 0 0"/><site name="roll_side" pos=".25 0 SIDE"/>
<site name="elbow_site" pos=".15 0 .15"/><site name="tip" pos=".4 .02 0.02"/></body></body></worldbody>
<default><geom contype="0" conaffinity="0"/></default>
<tendon><spatial name="rope" ROPE><site site="base"/><geom geom="knob" sidesite="knob_side"/><site site="elbow_site"/>
<geom geom="roll" sidesite="roll_side"/><site site="tip"/><pulley divisor="2"/><site site="mid"/><site site="tip"/></spatial>
<fixed name="pair"><joint joint="shoulder" coef=".1"/><joint joint="elbow" coef=".2"/></fixed></tendon>
EQUALITY<actuator>ACTUATOR</actuator></mujoco>"""
ROPES = {"spring": 'stiffness="40" damping="1" springlength="0.4"', "free": 'damping="0.2"'}
ROPES["limits"] = 'limited="true" range="0.2 1.0" frictionloss="0.3"'
COUPLING = '<equality><tendon tendon1="pair" tendon2="rope" polycoef="0 0.1 0 0 0" solref="-500 -20"/></equality>'
DRIVES = {
    "tendon motor": '<motor tendon="rope" gear="2"/>',
    "tendon servo": '<position tendon="rope" kp="50" kv="2"/>',
    "site motor": '<motor site="tip" gear="1 2 0 .1 0 .3"/>',
    "site servo": '<position site="tip" refsite="base" gear="1 0 .5 0 .2 0" kp="20" kv="1"/>',
    "crank": '<position cranksite="tip" slidersite="base" cranklength="1.2" kp="20"/>',
    "muscle": '<muscle tendon="rope" lengthrange="0.6 1.3" force="20"/>',
}


def roped_arm(
    drive: str = "tendon motor", rope: str = "spring", inside: bool = False, coupled: bool = False
) -> mujoco.MjModel:
    """Three hinges with a rope round a sphere and round (or through) a cylinder, a second branch of it at half its share."""
    text = ARM.replace("SIDE", ".1" if inside else ".3").replace("ROPE", ROPES[rope])
    text = text.replace("EQUALITY", COUPLING if coupled else "").replace("ACTUATOR", DRIVES[drive])
    return mujoco.MjModel.from_xml_string(text)


DRONE = """<mujoco><worldbody><body name="drone" pos="0 0 1"><freejoint/>
<inertial pos="0 0 0" mass="1.325" diaginertia="0.04 0.025 0.03"/><geom type="box" size=".1 .1 .02" contype="0" conaffinity="0"/>
<site name="r0" pos="-.14 -.18 .05"/><site name="r1" pos="-.14 .18 .05"/><site name="r2" pos=".14 .18 .08"/>
<site name="r3" pos=".14 -.18 .08"/></body></worldbody><default><motor ctrlrange="0 13"/></default>
<actuator><motor site="r0" gear="0 0 1 0 0 -.02"/><motor site="r1" gear="0 0 1 0 0 .02"/>
<motor site="r2" gear="0 0 1 0 0 -.02"/><motor site="r3" gear="0 0 1 0 0 .02"/></actuator></mujoco>"""


def drone() -> mujoco.MjModel:
    """Four rotors on a body of 1.325 kg, each a motor on a site: thrust, and torque about it."""
    return mujoco.MjModel.from_xml_string(DRONE)


SUCKER = """<mujoco><option timestep="0.005"/><worldbody>
<body name="cup" pos="0 0 1"><joint name="lift" type="slide" axis="0 0 1"/><geom type="box" size=".03 .04 .02" mass=".5"/></body>
<body name="weight" pos="0 0 .93"><freejoint/><geom type="box" size=".05 .05 .05" mass="1"/></body></worldbody>
<actuator><position joint="lift" kp="3000" kv="300"/><adhesion name="suck" body="cup" ctrlrange="0 1" gain="30"/></actuator></mujoco>"""


def sucker() -> mujoco.MjModel:
    """A cup on a lift, and a box of 1 kg under it: the second control sucks with up to 30 N."""
    return mujoco.MjModel.from_xml_string(SUCKER)
