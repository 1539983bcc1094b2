# SPDX-License-Identifier: Apache-2.0
"""Limits of the importers: how large a file may be, and how much it may expand to.

A short file can expand to gigabytes (`nuserdata`, `replicate`, a height field by its sizes alone). The C parsers behind
the importers (MuJoCo, USD) build all of it before they return. The importers therefore count everything before those
parsers see the file. Each limit lies well above what can be simulated, and well below what takes a minute or gigabytes
to load.
"""

MAX_XML_BYTES = 64 * 2**20
MAX_XML_ELEMENTS = 1_000_000  # in one file, as written
MAX_XML_DEPTH = 256  # the parsers behind the importers recurse
MAX_XML_ATTRIBUTES = 256  # of one element: MuJoCo's time grows with the square of their number (100 000: 69 s)
MAX_FILES = 5000  # named by one model; robots have tens to hundreds of meshes
MAX_INCLUDES = 500
MAX_NESTED_MODELS = 20  # sub-models attached in sub-models
MAX_MESH_BYTES = 256 * 2**20
MAX_FLEX_BYTES = 4 * 2**20  # of the file of a flex: each of its points becomes a body
MAX_TOTAL_BYTES = 2 * 2**30  # of all files of one model

# Of an MJCF file after includes, replicates, attachments, composites and flexes are expanded:
MAX_ELEMENTS = 100_000
# bodies, geoms, joints, sites, frames, cameras, lights and defaults; MuJoCo's compile time grows with the square of
# their number (20 000 geoms: 2.4 s)
MAX_SOLIDS = 20_000
MAX_LEVELS = 1000  # of nesting: the compiler recurses
MAX_POINTS = 4000  # of one composite or flex (8000 points of a flex: 54 s)
MAX_GRID = 2**24  # values of one height field (4096 x 4096); 1e8 take gigabytes
MAX_PIXELS = 2**26  # of a camera, whose picture a sensor may read
MAX_MESH_PARTS = 1_000_000  # vertices of a mesh that MuJoCo generates
MAX_ARENA = 2**36  # bytes of MuJoCo's arena, allocated but not touched by compiling

# (element, attribute): the largest value; "*" is any element. Memory of the compiled model grows with each value.
MAX_VALUES = {
    ("size", "nuserdata"): 10_000_000,
    ("size", "nkey"): 10_000,
    ("size", "njmax"): 10_000_000,
    ("size", "nconmax"): 10_000_000,
    ("size", "nstack"): 2**33,
    **{("size", f"nuser_{kind}"): 1000 for kind in "actuator body cam geom jnt sensor site tendon".split()},
    ("numeric", "size"): 10_000_000,
    ("user", "dim"): 1_000_000,
    ("contact", "num"): 10_000,
    ("*", "nsample"): 100_000,
}

# Of USD:
MAX_USD_BYTES = 512 * 2**20
# Braces, brackets and parentheses open at once. USD's reader of text recurses; 20 000 levels end the process.
MAX_USDA_DEPTH = 256

# Of the process of load(..., isolate=True), beyond what it uses at its start:
ISOLATED_BYTES = 8 * 2**30
ISOLATED_SECONDS = 120.0  # of processor time

# Of a store:
MAX_STORE_JSON = 64 * 2**20  # of a group's `zarr.json`; 16 times as much for `sources`, which hold arrays of policies
MAX_STORE_CHUNK = 2**31  # bytes of a decompressed chunk, which is Blosc's own limit
MAX_STORE_CHUNKS = 2**20  # in one shard
STORE_GROWTH = 256  # decompressed bytes per byte in the file: LZ4 compresses no further
STORE_ROOM = 256 * 2**20  # and this many bytes more in all: Zstandard, of version 1, makes zeros 32,000 times smaller

MAX_ONNX_BYTES = 256 * 2**20  # of a network; policies and actuator networks have kilobytes to megabytes
