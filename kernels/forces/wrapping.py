# SPDX-License-Identifier: Apache-2.0
"""A taut string between two points around a circle: which way it goes, where it touches, and the length of its arc.

Everything is in the axes of the geom. The circle of a cylinder lies in its x-y plane, that of a sphere in the plane of
the two ends and its center. The plane has the normal n. The ends projected into it are a_0 and a_1, with l = ‖a‖; r is
the radius.

Around the outside, the string touches at t_0 = (r² a_0 + s r √(l_0² − r²) a_0 × n)/l_0², and at t_1 likewise with −s.
For s = 1 it runs clockwise about n, for s = −1 anticlockwise. Through the inside of a ring it touches at one point,
where it makes equal angles φ with the radius on both sides:

    f(φ) = asin(A sin φ) + asin(B sin φ) − 2 φ + G = 0,   A = r/l_0, B = r/l_1, G the angle between a_0 and a_1

`choose_wrap` decides which case applies and finds φ. `touch` is smooth for a given case. The decision, its tolerance
and the result without a solution are MuJoCo's.
"""

import warp as wp

from ..real import func, real, struct, vec2, vec3

NONE = wp.constant(0)
CLOCKWISE = wp.constant(1)
ANTICLOCKWISE = wp.constant(-1)
INSIDE = wp.constant(2)
BETWEEN_ENDS = wp.constant(3)  # inside, but f has no root: the string touches at the radius midway between the ends

LEAST = 1e-15  # [m, m²] lengths and areas below this count as 0
TOLERANCE = 1e-6  # of f [rad]
MOST_STEPS = wp.constant(20)
CROSSING = -1e-6  # [rad] a signed arc below this goes around the other way


@struct
class Wrap:
    """The chosen case, one of the constants above; for INSIDE also φ and f(φ)."""

    choice: int
    angle: real
    residual: real


@func
def unit(d: vec3) -> vec3:
    """d/‖d‖; x if d is 0."""
    n = wp.length(d)
    u = vec3(real(1.0), real(0.0), real(0.0))
    if n >= real(LEAST):
        u = d / n
    return u


@func
def across(p: vec3) -> vec3:
    """A unit vector perpendicular to p: p × b, where b is 0 along the largest component of p and 1 along the other
    two."""
    a = unit(p)
    b = vec3(real(0.0), real(1.0), real(1.0))
    if wp.abs(a[1]) > wp.abs(a[0]) and wp.abs(a[1]) > wp.abs(a[2]):
        b = vec3(real(1.0), real(0.0), real(1.0))
    if wp.abs(a[2]) > wp.abs(a[0]) and wp.abs(a[2]) > wp.abs(a[1]):
        b = vec3(real(1.0), real(1.0), real(0.0))
    return unit(wp.cross(a, b))


@func
def plane_normal(cylinder: int, p_0: vec3, p_1: vec3) -> vec3:
    """The normal n of the circle's plane."""
    n = vec3(real(0.0), real(0.0), real(1.0))
    if cylinder == 0:
        c = wp.cross(p_0, p_1)
        if wp.length(c) < real(LEAST):
            n = across(p_0)
        else:
            n = unit(c)
    return n


@func
def in_plane(p: vec3, e_0: vec3, e_1: vec3) -> vec2:
    return vec2(wp.dot(p, e_0), wp.dot(p, e_1))


@func
def area(a: vec2, b: vec2) -> real:
    """a × b."""
    return a[0] * b[1] - a[1] * b[0]


@func
def cross_each_other(a: vec2, a_end: vec2, b: vec2, b_end: vec2) -> bool:
    """Whether two line segments intersect; parallel ones do not."""
    u = a_end - a
    v = b_end - b
    det = area(u, v)
    meet = bool(False)
    if wp.abs(det) >= real(LEAST):
        s = area(b - a, v) / det
        t = area(b - a, u) / det
        meet = s >= real(0.0) and s <= real(1.0) and t >= real(0.0) and t <= real(1.0)
    return meet


@func
def tangent_point(d: vec2, r: real, s: real) -> vec2:
    """(r² d + s r √(l² − r²) d × n)/l²."""
    square = wp.dot(d, d)
    reach = s * r * wp.sqrt(square - r * r)
    return vec2(d[0] * r * r + reach * d[1], d[1] * r * r - reach * d[0]) / square


@func
def shortness(d_0: vec2, d_1: vec2, r: real, s: real) -> real:
    """Minus the squared distance of the two touching points for direction s; −10000 if the string crosses itself."""
    t_0 = tangent_point(d_0, r, s)
    t_1 = tangent_point(d_1, r, -s)
    found = -wp.dot(t_0 - t_1, t_0 - t_1)
    if cross_each_other(d_0, t_0, d_1, t_1):
        found = real(-10000.0)
    return found


@func
def choose_outside(d_0: vec2, d_1: vec2, side: vec2, sided: int, r: real) -> int:
    """NONE, CLOCKWISE or ANTICLOCKWISE.

    The string goes around the far side of the circle if `side` lies in the cone opposite both ends. Otherwise it takes
    the near side, if the circle is in its way.
    """
    choice = int(NONE)
    way = d_1 - d_0
    length = wp.dot(way, way)
    clear = wp.dot(d_0, d_0) < r * r or wp.dot(d_1, d_1) < r * r or r < real(LEAST) or length < real(LEAST)
    turn = area(d_0, d_1)
    far = sided == 1 and area(d_0, side) * turn < real(0.0) and area(side, d_1) * turn < real(0.0)
    if not clear:
        share = -wp.dot(way, d_0) / length
        nearest = d_0 + share * way
        at_end = share <= real(0.0) or share >= real(1.0)  # the end is the nearest point; it may lie on the circle
        if (at_end or wp.dot(nearest, nearest) > r * r) and not far:
            clear = True
    if not clear:
        s = real(-1.0)
        if sided == 1:
            if turn == real(0.0):  # the ends are opposite: take the half that contains `side`
                if area(d_0, side) < real(0.0):
                    s = real(1.0)
            elif (turn > real(0.0)) == far:
                s = real(1.0)
        elif shortness(d_0, d_1, r, real(1.0)) > shortness(d_0, d_1, r, real(-1.0)):
            s = real(1.0)
        choice = int(s)
        if cross_each_other(d_0, tangent_point(d_0, r, s), d_1, tangent_point(d_1, r, -s)):
            choice = int(NONE)
    return choice


@func
def inside_error(A: real, B: real, G: real, angle: real) -> real:
    """f(φ)."""
    s = wp.sin(angle)
    return wp.asin(A * s) + wp.asin(B * s) - real(2.0) * angle + G


@func
def inside_angle(A: real, B: real, G: real) -> real:
    """φ by Newton's method from π/2 in double precision; −1 if there is no solution."""
    a = wp.float64(A)
    b = wp.float64(B)
    g = wp.float64(G)
    tolerance = wp.float64(TOLERANCE)
    one = wp.float64(1.0)
    two = wp.float64(2.0)
    angle = wp.float64(0.5) * wp.float64(wp.pi)
    f = wp.asin(a) + wp.asin(b) - two * angle + g
    failed = f > wp.float64(0.0)
    steps = int(0)
    while not failed and steps < MOST_STEPS and wp.abs(f) > tolerance:
        s = wp.sin(angle)
        slope = a / wp.sqrt(one - a * a * s * s) + b / wp.sqrt(one - b * b * s * s)
        step = f / (slope * wp.cos(angle) - two)
        failed = not (step >= wp.float64(0.0))  # f is concave and decreases beyond its root
        if not failed:
            angle = angle - step
            s = wp.sin(angle)
            f = wp.asin(a * s) + wp.asin(b * s) - two * angle + g
            failed = f > tolerance
            steps += 1
    found = real(-1.0)
    if not failed and steps < MOST_STEPS:
        found = real(angle)
    return found


@func
def angle_between(d_0: vec3, d_1: vec3) -> real:
    return wp.atan2(wp.length(wp.cross(d_0, d_1)), wp.dot(d_0, d_1))


@func
def choose_inside(d_0: vec2, d_1: vec2, r: real) -> Wrap:
    """NONE, INSIDE or BETWEEN_ENDS."""
    found = Wrap()
    l_0 = wp.length(d_0)
    l_1 = wp.length(d_1)
    way = d_1 - d_0
    length = wp.dot(way, way)
    clear = l_0 <= r or l_1 <= r or wp.min(r, wp.min(l_0, l_1)) < real(LEAST)
    if not clear and length > real(LEAST):
        share = -wp.dot(way, d_0) / length
        if share > real(0.0) and share < real(1.0):
            clear = wp.length(d_0 + share * way) <= r
    cosine = real(1.0)
    if not clear:
        cosine = (l_0 * l_0 + l_1 * l_1 - length) / (real(2.0) * l_0 * l_1)
        clear = cosine < real(-1.0) + real(LEAST)
    if not clear:
        found.choice = int(BETWEEN_ENDS)
        if cosine <= real(1.0) - real(LEAST):
            G = angle_between(vec3(d_0[0], d_0[1], real(0.0)), vec3(d_1[0], d_1[1], real(0.0)))
            angle = inside_angle(r / l_0, r / l_1, G)
            if angle >= real(0.0):
                found.choice = int(INSIDE)
                found.angle = angle
                found.residual = inside_error(r / l_0, r / l_1, G, angle)
    return found


@func
def choose_wrap(cylinder: int, r: real, p_0: vec3, p_1: vec3, sided: int, side: vec3) -> Wrap:
    """How the string from p_0 to p_1 wraps. `sided` = 1: around the side of `side`, or inside if `side` is in the
    circle."""
    found = Wrap()
    if wp.length(p_0) >= real(LEAST) and wp.length(p_1) >= real(LEAST):
        n = plane_normal(cylinder, p_0, p_1)
        e_0 = vec3(real(1.0), real(0.0), real(0.0))
        if cylinder == 0:
            e_0 = unit(p_0)
        e_1 = unit(wp.cross(n, e_0))
        d_0 = in_plane(p_0, e_0, e_1)
        d_1 = in_plane(p_1, e_0, e_1)
        s = in_plane(side, e_0, e_1)
        if sided == 1 and wp.length(side) < r:
            found = choose_inside(d_0, d_1, r)
        else:
            found.choice = choose_outside(d_0, d_1, s, sided, r)
    return found


@func
def reach_to_tangent(a: vec3, r: real) -> real:
    """√(l² − r²)."""
    square = wp.dot(a, a) - r * r
    reach = real(0.0)
    if square > real(0.0):
        reach = wp.sqrt(square)
    return reach


@func
def tangent_in_space(a: vec3, n: vec3, r: real, s: real) -> vec3:
    """`tangent_point` of an end a in the plane."""
    return (r * r * a + s * r * reach_to_tangent(a, r) * wp.cross(a, n)) / wp.dot(a, a)


@func
def angle_turned(t_0: vec3, t_1: vec3, n: vec3, s: real) -> real:
    """The angle in [0, 2π] of the arc from t_0 to t_1 in direction s about n."""
    turned = wp.atan2(-s * wp.dot(wp.cross(t_0, t_1), n), wp.dot(t_0, t_1))
    if turned < real(CROSSING):
        turned = turned + real(2.0) * real(wp.pi)
    return turned


@func
def inside_point(a_0: vec3, a_1: vec3, n: vec3, r: real, wrap: Wrap) -> vec3:
    """The point where the string touches the ring. φ follows the ends by one Newton step from its stored value."""
    t = r * unit(a_0 + a_1)
    if wrap.choice == INSIDE:
        A = r / wp.length(a_0)
        B = r / wp.length(a_1)
        f = inside_error(A, B, angle_between(a_0, a_1), wrap.angle)
        s = wp.sin(wrap.angle)
        slope = A / wp.sqrt(real(1.0) - A * A * s * s) + B / wp.sqrt(real(1.0) - B * B * s * s)
        angle = wrap.angle - (f - wrap.residual) / (slope * wp.cos(wrap.angle) - real(2.0))
        if wp.dot(wp.cross(a_0, a_1), n) > real(0.0):
            t = r * turned_from(unit(a_0), n, angle - wp.asin(A * wp.sin(angle)))
        else:
            t = r * turned_from(unit(a_1), n, angle - wp.asin(B * wp.sin(angle)))
    return t


@func
def turned_from(start: vec3, n: vec3, angle: real) -> vec3:
    """A vector perpendicular to n, rotated about n."""
    return wp.cos(angle) * start + wp.sin(angle) * wp.cross(n, start)


@func
def touch(cylinder: int, r: real, p_0: vec3, p_1: vec3, wrap: Wrap):
    """(t_0, t_1, arc): the touching points of the string from p_0 to p_1, in the geom's axes, and the length between
    them.

    The case must not be NONE. On a cylinder the string climbs at a constant slope along its path.
    """
    n = plane_normal(cylinder, p_0, p_1)
    height = real(cylinder)
    a_0 = vec3(p_0[0], p_0[1], p_0[2] - height * p_0[2])
    a_1 = vec3(p_1[0], p_1[1], p_1[2] - height * p_1[2])
    t_0 = vec3()
    t_1 = vec3()
    arc = real(0.0)
    if wrap.choice == CLOCKWISE or wrap.choice == ANTICLOCKWISE:
        s = real(wrap.choice)
        t_0 = tangent_in_space(a_0, n, r, s)
        t_1 = tangent_in_space(a_1, n, r, -s)
        arc = r * angle_turned(t_0, t_1, n, s)
    else:
        t_0 = inside_point(a_0, a_1, n, r, wrap)
        t_1 = t_0
    climb = real(0.0)
    start = real(0.0)
    before = wp.length(a_0 - t_0)
    after = wp.length(a_1 - t_1)
    if cylinder == 1:
        start = p_0[2]
        climb = (p_1[2] - p_0[2]) / (before + arc + after)
    up = vec3(real(0.0), real(0.0), real(1.0))
    on_0 = t_0 + (start + climb * before) * up
    on_1 = t_1 + (start + climb * (before + arc)) * up
    return on_0, on_1, wp.length(vec2(arc, climb * arc))
