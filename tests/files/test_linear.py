# SPDX-License-Identifier: Apache-2.0
"""Reading takes time in proportion to a file, whatever is in it; what a library behind reads in quadratic time is counted first."""

import json
import re
import time

import mujoco
import numpy as np
import pytest

from warpsim.base.errors import ModelError
from warpsim.files.load import load
from warpsim.files.meshes import load_mesh
from warpsim.files.safe_files import parse_xml
from warpsim.files.usd.usd_open import _bare, _levels

SECONDS = 1.0  # 0.1 s on an idle machine; searches from every place to the end take 5 to 60 s
N = 30_000


def timed(function, *arguments, seconds=SECONDS):
    """The call's result or error. The fastest of three counts: an import or a collection of a large heap may fall into one."""
    times = []
    while not times or (times[-1] >= seconds and len(times) < 3):
        start = time.process_time()
        try:
            result = function(*arguments)
        except ModelError as error:
            result = str(error)
        times.append(time.process_time() - start)
    assert min(times) < seconds, times
    return result


@pytest.mark.parametrize(
    "text",
    [
        "<mujoco>" + "<!--" * N,
        "<mujoco>" + "<![CDATA[" * N,
        "<mujoco>" + "<!-- -- -->" * N,
        "<a " + "b='" * N,
        "<a b=" + " " * N,
        "\n" * N,
    ],
    ids=["comments", "CDATA", "closed comments", "quotes", "spaces", "lines"],
)
def test_xml(text):
    assert "cannot be parsed" in timed(parse_xml, text.encode(), "x.xml")


@pytest.mark.parametrize("word", ["/* ", '"""a ', "'''a ", "@@@a ", '\\"', "\\'", '\\"""', "@", "<", "</a>", '"a\\"'])
def test_usd_text(word):
    timed(_bare, b"(" * 300 + word.encode() * N)
    timed(_levels, word.encode() * N)


OLD_TOKENS = re.compile(
    rb'''"""(?:\\.|[^\\])*?"""|\'\'\'(?:\\.|[^\\])*?\'\'\'|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^'\\\n])*\''''
    rb"""|@@@.*?@@@|@[^@\n]*@|\#[^\n]*|//[^\n]*|/\*.*?\*/""",
    re.DOTALL,
)


def test_usd_text_without_its_strings():
    """The same text is left as by one regular expression for all tokens, which takes quadratic time."""
    rng = np.random.default_rng(0)
    for letters in (b'"\\\na', b"'\\\n\"a", b'@\n/*#"', b"\"'@#/*\n\\<>ab("):
        for _ in range(3000):
            text = bytes(rng.choice(list(letters), rng.integers(0, 20)).tolist())
            assert _bare(text) == OLD_TOKENS.sub(b"", text)


def gltf(nodes, scene=(0,)):
    return json.dumps(
        {
            "asset": {"version": "2.0"},
            "scene": 0,
            "scenes": [{"nodes": list(scene)}],
            "nodes": nodes,
            "meshes": [{"primitives": [{"attributes": {"POSITION": 0}}]}],
            "accessors": [{"bufferView": 0, "componentType": 5126, "count": 3, "type": "VEC3"}],
            "bufferViews": [{"buffer": 0, "byteLength": 36}],
            "buffers": [
                {
                    "byteLength": 36,
                    "uri": "data:application/octet-stream;base64,AAAAAAAAAAAAAAAAAACAPwAAAAAAAAAAAAAAAAAAgD8AAAAA",
                }
            ],
        }
    )


CHAIN = [{"children": [k + 1], "mesh": 0} for k in range(2999)] + [{"mesh": 0}]
FAN = [{"children": [k + 1]} for k in range(200)] + [{"children": list(range(201, 5000))}] + [{"mesh": 0}] * 4799
TRIANGLE = "facet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1 0 0\nvertex 0 1 0\nendloop\nendfacet\n"
COLLADA = '<COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema" version="1.4.1"><asset/>{}</COLLADA>'
NESTED = (
    "<geometry>" * 100
    + "<mesh>"
    + "<triangles>" * 100
    + "<p/>" * 1000
    + "</triangles>" * 100
    + "</mesh>"
    + "</geometry>" * 100
)
MESHES = {
    "a chain of nodes": ("m.gltf", gltf(CHAIN), "nested more than 256 deep"),
    "many meshes under a chain": ("m.gltf", gltf(FAN), "ways to its meshes, more than 500000"),
    "a node of two parents": (
        "m.gltf",
        gltf([{"children": [1, 1]}, {"mesh": 0}]),
        "node 1 hangs on node 0 and on node 0",
    ),
    "many solids": ("m.stl", ("solid a\n" + TRIANGLE + "endsolid\n") * 8000, "8000 solids, more than 2000"),
    "unread elements": ("m.dae", COLLADA.format("<a/>" * N + "<library_images/>" * N), "cannot|no triangles|not a DAE"),
    "geometry in geometry": (
        "m.dae",
        COLLADA.format(f"<library_geometries>{NESTED}</library_geometries>"),
        "no triangles|not a DAE",
    ),
}


@pytest.mark.parametrize("name", MESHES)
def test_meshes(tmp_path, name):
    file, text, words = MESHES[name]
    (tmp_path / file).write_text(text)
    assert re.search(words, timed(load_mesh, tmp_path / file, seconds=2 * SECONDS))


@pytest.mark.parametrize(
    "text",
    [
        "<asset>" + "<material/>" * N + '<skin file="x.skn"/>' * N + "</asset>",
        "<worldbody>" + "<frame/>" * N + "</worldbody>",
    ]
    + ["<worldbody>" + "<light/>" * N + "</worldbody>", "<default>" + '<default class="c"/>' * N + "</default>"],
    ids=["skins", "frames", "lights", "classes"],
)
def test_mjcf_elements(tmp_path, text):
    (tmp_path / "m.xml").write_text(f"<mujoco>{text}</mujoco>")
    result = timed(load, tmp_path / "m.xml", seconds=3 * SECONDS)
    assert "skin" in text or "more than the limit of 20000" in result


def prism(sides: int) -> str:
    """An OBJ of a prism of radius and height 1, its two ends as one face each."""
    angle = 2 * np.pi * np.arange(sides) / sides
    points = [(np.cos(a), np.sin(a), z) for z in (0, 1) for a in angle]
    faces = [range(sides, 0, -1), range(sides + 1, 2 * sides + 1)]
    faces += [(k + 1, (k + 1) % sides + 1, sides + (k + 1) % sides + 1, sides + k + 1) for k in range(sides)]
    lines = ["v {:.9f} {:.9f} {}".format(*p) for p in points] + ["f " + " ".join(map(str, f)) for f in faces]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("sides", [100, 101, 1499])
def test_faces_of_an_obj_with_many_sides(tmp_path, sides):
    """The mass of a prism of a regular polygon is its area's, n/2 sin(2π/n); MuJoCo leaves ends of more than 100 corners out."""
    (tmp_path / "m.obj").write_text(prism(sides))
    (tmp_path / "m.xml").write_text(
        '<mujoco><asset><mesh name="m" file="m.obj"/></asset><worldbody><body><geom type="mesh" mesh="m" density="1"/></body></worldbody></mujoco>'
    )
    model = load(tmp_path / "m.xml")
    np.testing.assert_allclose(model.body_mass, sides / 2 * np.sin(2 * np.pi / sides), rtol=1e-6)
    assert any("100 corners" in line.detail for line in model.report) == (sides > 100)
    spec = mujoco.MjSpec.from_file(str(tmp_path / "m.xml"))
    np.testing.assert_array_equal(load(spec).body_mass, model.body_mass)


ARCS = ("references", "payload", "inherits", "specializes")


@pytest.mark.parametrize("arc", ARCS)
def test_chains_of_usd_prims(tmp_path, arc):
    """USD takes the cube of the length of a chain of prims: 2 s for 240."""
    path, count = tmp_path / "chain.usda", 240
    chains = "".join(f'class "{n}{k}" (prepend {arc} = </{n}{k + 1}>) {{\n}}\n' for n in "ab" for k in range(count))
    ends = "".join(f'class "{n}{count}" {{\n}}\n' for n in "ab")
    path.write_text(f"#usda 1.0\n{chains}{ends}")
    assert "over more than" in timed(load, path)


@pytest.mark.parametrize("where", ["here", "in a class", "in a variant"])
def test_applied_schemas_of_usd(tmp_path, where):
    """USD takes the square of the number of schemas on one prim."""
    path = tmp_path / "schemas.usda"
    words = ", ".join(f'"PhysicsDriveAPI:a{k}"' for k in range(3000))
    head, api, own = "", f"prepend apiSchemas = [{words}]", ""
    if where == "in a class":
        head, api = f'class "c" ({api}) {{\n}}\n', "prepend inherits = </c>"
    elif where == "in a variant":
        own = f'variantSet "s" = {{\n"x" ({api}) {{\n}}\n}}\n'
        api = 'prepend variantSets = "s"\nvariants = {\nstring s = "x"\n}'
    path.write_text(f'#usda 1.0\n{head}def Sphere "a" (\n{api}\n) {{\n{own}}}\n')
    assert "more than 256 applied schemas" in timed(load, path)


def test_chains_over_sublayers(tmp_path):
    """Prims that refer to each other from sublayer to sublayer: two references each are 2^24 prims, which USD would make."""
    part, path = tmp_path / "part.usda", tmp_path / "scene.usda"
    layers = ["", ""]
    for k in range(24):
        below = "".join(f'def Xform "{n}" (prepend references = </c{k + 1}>) {{\n}}\n' for n in "ab")
        layers[k % 2] += f'class "c{k}" {{\n{below}}}\n'
    part.write_text("#usda 1.0\n" + layers[1])
    path.write_text("#usda 1.0\n(\nsubLayers = [@./part.usda@]\n)\n" + layers[0])
    assert "more than 1000000 prims" in timed(load, path)
