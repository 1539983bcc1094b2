# SPDX-License-Identifier: Apache-2.0
"""Pictures from others take no more memory than their heads announce, and their heads no more than a limit."""

import base64
import json
import struct
import zlib

import numpy as np
import pytest

import warpsim as ws
from warpsim.base.errors import ModelError
from warpsim.files.meshes import load_mesh
from warpsim.model.looks import Texture, encode_png
from warpsim.model.pictures import PNG, check_picture, jpeg_size, plain_png, png_chunk

CHECKER = np.random.default_rng(0).integers(0, 256, (8, 16, 3), np.uint8)
BOMB = zlib.compress(bytes(2**26), 9)  # 64 kB that stand for 64 MB


def png(width: int, height: int, stream: bytes, *more: tuple[bytes, bytes]) -> bytes:
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return PNG + b"".join(png_chunk(*part) for part in ((b"IHDR", head), *more, (b"IDAT", stream), (b"IEND", b"")))


def jpeg(width: int, height: int) -> bytes:
    return (
        b"\xff\xd8\xff\xe0\0\x10JFIF\0\1\1\0\0\1\0\1\0\0\xff\xc0\0\x11\x08"
        + struct.pack(">HH", height, width)
        + bytes(12)
    )


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (png(64, 64, BOMB), "64 x 64 pixels.*holds more"),
        (png(13_000, 13_000, b""), "13000 x 13000 pixels"),
        (png(2**31, 2**31, b""), "pixels"),
        (jpeg(13_000, 13_000), "13000 x 13000 pixels"),
    ],
)
def test_every_door_of_pictures_refuses_what_is_too_large(tmp_path, data, message):
    """A file, a texture of MJCF, a height field, and a model of a store or of text: refused by name, or left out with a line."""
    name = "t.png" if data.startswith(PNG) else "t.jpg"
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ModelError, match=message):
        Texture.read(tmp_path / name)
    with pytest.raises(ModelError, match=message):
        ws.VisualMaterial(Texture("t", data))
    if name == "t.jpg":
        assert jpeg_size(data) == (13_000, 13_000)
        return
    (tmp_path / "m.xml").write_text(
        '<mujoco><asset><texture name="t" type="2d" file="t.png" vflip="true"/><material name="m" texture="t"/></asset>'
        '<worldbody><geom size="1" material="m"/></worldbody></mujoco>'
    )
    model = ws.load(tmp_path / "m.xml")
    assert model.visual_materials == () and any("texture 't'" in line.feature for line in model.report)
    (tmp_path / "h.xml").write_text(
        '<mujoco><asset><hfield name="h" file="t.png" size="1 1 1 1"/></asset><worldbody><geom type="hfield" hfield="h"/></worldbody></mujoco>'
    )
    with pytest.raises(ModelError, match=r"t\.png"):
        ws.load(tmp_path / "h.xml")


def test_texts_in_a_picture_are_not_inflated(tmp_path):
    """Decoders inflate texts and profiles too: MuJoCo is given the chunks that are seen, and the pixels are the same."""
    more = [(b"zTXt", b"a\0\0" + BOMB), (b"iCCP", b"a\0\0" + BOMB), (b"iTXt", b"a\0\1\0\0\0" + BOMB)]
    whole = encode_png(CHECKER)
    with_texts = whole[:33] + b"".join(png_chunk(*part) for part in more) + whole[33:]
    assert plain_png(with_texts, "t") == plain_png(whole, "t") == whole
    (tmp_path / "t.png").write_bytes(with_texts)
    (tmp_path / "m.xml").write_text(
        '<mujoco><asset><texture name="t" type="2d" file="t.png" hflip="true"/><material name="m" texture="t"/></asset>'
        '<worldbody><geom size="1" material="m"/></worldbody></mujoco>'
    )
    assert ws.load(tmp_path / "m.xml").visual_materials[0].texture.data == encode_png(CHECKER[:, ::-1])


@pytest.mark.parametrize("interlaced", [0, 1])
@pytest.mark.parametrize(("kind", "depth"), [(0, 1), (0, 16), (2, 8), (3, 4), (4, 8), (6, 16)])
def test_pictures_of_every_kind_pass(kind, depth, interlaced):
    """Colour types, depths and interlacing have as many bytes as their heads announce."""
    width, height, channels = 13, 11, {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[kind]
    passes = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
    size = 0
    for x, y, dx, dy in passes if interlaced else [(0, 0, 1, 1)]:
        columns, rows = -(-(width - x) // dx), -(-(height - y) // dy)
        size += rows * (1 + -(-columns * channels * depth // 8)) if columns > 0 and rows > 0 else 0
    head = struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, interlaced)
    stream = zlib.compress(bytes(size))
    data = PNG + b"".join(png_chunk(*part) for part in ((b"IHDR", head), (b"IDAT", stream), (b"IEND", b"")))
    check_picture(data, "t")


@pytest.mark.parametrize("suffix", ["gltf", "glb"])
def test_pictures_in_a_gltf_are_not_decoded(tmp_path, monkeypatch, suffix):
    """Nothing here draws them, so nobody makes their pixels; the triangles are those without."""
    image = pytest.importorskip("PIL.Image")
    corners, faces = np.float32([[0, 0, 0], [1, 0, 0], [0, 1, 0]]), np.uint32([0, 1, 2])
    data = corners.tobytes() + faces.tobytes()
    uri = "data:application/octet-stream;base64," + base64.b64encode(data).decode()
    whole = {
        "asset": {"version": "2.0"},
        "scenes": [{"nodes": [0]}],
        "scene": 0,
        "nodes": [{"mesh": 0}],
        "meshes": [{"primitives": [{"attributes": {"POSITION": 0}, "indices": 1, "material": 0}]}],
        "accessors": [
            {"bufferView": 0, "componentType": 5126, "count": 3, "type": "VEC3"},
            {"bufferView": 1, "componentType": 5125, "count": 3, "type": "SCALAR"},
        ],
        "bufferViews": [
            {"buffer": 0, "byteOffset": 0, "byteLength": 36},
            {"buffer": 0, "byteOffset": 36, "byteLength": 12},
        ],
        "buffers": [{"byteLength": 48} | ({"uri": uri} if suffix == "gltf" else {})],
        "materials": [{"pbrMetallicRoughness": {"baseColorTexture": {"index": 0}}}],
        "textures": [{"source": 0}],
        "images": [{"uri": "data:image/png;base64," + base64.b64encode(png(12_000, 12_000, BOMB)).decode()}],
    }
    text = json.dumps(whole).encode()
    if suffix == "glb":
        text += b" " * (-len(text) % 4)
        chunks = struct.pack("<I", len(text)) + b"JSON" + text + struct.pack("<I", len(data)) + b"BIN\0" + data
        text = b"glTF" + struct.pack("<II", 2, 12 + len(chunks)) + chunks
    (tmp_path / f"m.{suffix}").write_bytes(text)

    def refuse(*arguments, **options):
        raise AssertionError("a picture was opened")

    monkeypatch.setattr(image, "open", refuse)
    vertices, found = load_mesh(tmp_path / f"m.{suffix}")
    assert np.array_equal(vertices[found[0]], corners)


def test_a_gltf_whose_parts_share_large_buffers_is_refused(tmp_path):
    """An accessor counts as often as a part of a mesh names it: each is made anew."""
    count = 30_000
    data = base64.b64encode(bytes(12 * count)).decode()
    part = {"attributes": {"POSITION": 0}, "indices": 1}
    whole = {
        "asset": {"version": "2.0"},
        "nodes": [{"mesh": 0}],
        "scenes": [{"nodes": [0]}],
        "meshes": [{"primitives": [part] * 1000}],
        "accessors": [
            {"bufferView": 0, "componentType": 5126, "count": count, "type": "VEC3"},
            {"bufferView": 0, "componentType": 5125, "count": 3 * count // 3, "type": "SCALAR"},
        ],
        "bufferViews": [{"buffer": 0, "byteLength": 12 * count}],
        "buffers": [{"byteLength": 12 * count, "uri": "data:application/octet-stream;base64," + data}],
    }
    (tmp_path / "m.gltf").write_text(json.dumps(whole))
    with pytest.raises(ModelError, match=r"m\.gltf: its meshes have 60000000 points and corners"):
        load_mesh(tmp_path / "m.gltf")
