# SPDX-License-Identifier: Apache-2.0
"""How large a file may be, and what it may stand for: every limit of the importers against files that are bombs.

A short file can stand for gigabytes (`nuserdata`, `replicate`, a height field by its sizes alone), and the C parsers behind
the importers (MuJoCo, USD) make all of it before they answer. Everything is therefore counted before they see the file. A
limit lies well above what can be simulated and well below what takes a minute or gigabytes to load.
"""

MAX_XML_BYTES = 64 * 2**20
MAX_XML_ELEMENTS = 1_000_000  # in one file, as written
MAX_XML_DEPTH = 256  # the parsers behind recurse
MAX_XML_ATTRIBUTES = 256  # of one element: MuJoCo's time grows with their square (100 000: 69 s)
MAX_FILES = 5000  # that one model names; robots have tens to hundreds of meshes
MAX_INCLUDES = 500
MAX_NESTED_MODELS = 20  # sub-models attached in sub-models
MAX_MESH_BYTES = 256 * 2**20
MAX_FLEX_BYTES = 4 * 2**20  # of a file of a flex: every one of its points becomes a body
MAX_TOTAL_BYTES = 2 * 2**30  # of all files of one model

# Of an MJCF file with includes, replicates, attachments, composites and flexes written out:
MAX_ELEMENTS = 100_000
MAX_SOLIDS = 20_000  # bodies and geoms, joints, sites, frames, cameras, lights and defaults: MuJoCo's compile time grows with their square (20 000 geoms: 2.4 s)
MAX_LEVELS = 1000  # of nesting: the compiler recurses
MAX_POINTS = 4000  # of one composite or flex (8000 points of a flex: 54 s)
MAX_GRID = 2**24  # values of one height field (4096 x 4096); 1e8 take gigabytes
MAX_PIXELS = 2**26  # of a camera, which a sensor may read
MAX_MESH_PARTS = 1_000_000  # vertices of a mesh that MuJoCo generates
MAX_ARENA = 2**36  # bytes of MuJoCo's arena, allocated but not touched by compiling

# (element, attribute): the largest value; "*" is any element. Memory of the compiled model grows with each.
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
MAX_USDA_DEPTH = (
    256  # braces, brackets and parentheses open at once: USD's reader of text recurses, 20 000 end the process
)

# Of the process of load(..., isolate=True), beyond what it needs to start:
ISOLATED_BYTES = 8 * 2**30
ISOLATED_SECONDS = 120.0  # of processor time

# Of a store:
MAX_STORE_JSON = 64 * 2**20  # of a group's `zarr.json`; of `sources`, which hold arrays of policies, 16 times as much
MAX_STORE_CHUNK = 2**31  # bytes of a chunk as numbers, which is Blosc's own limit
MAX_STORE_CHUNKS = 2**20  # of a shard
STORE_GROWTH = 256  # numbers may take this many times the bytes that stand for them: LZ4 gets no further
STORE_ROOM = 256 * 2**20  # and this much more in all: Zstandard, of version 1, makes zeros 32,000 times smaller
