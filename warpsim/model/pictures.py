# SPDX-License-Identifier: Apache-2.0
"""Headers of image files, and a check that an image is not larger than its header announces.

A decoder of a PNG expands its whole stream and its texts. A file of 1 MB may announce 64 x 64 pixels and hold a
gigabyte.
"""

import functools
import struct
import zlib
from collections.abc import Iterator

from warpsim.base.errors import ModelError

PNG, JPEG = b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"
MOST_PIXELS = 2**26  # 8192 x 8192
CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}  # of a PNG, by color type
SHOWN = (b"IHDR", b"PLTE", b"tRNS", b"sRGB", b"gAMA", b"IDAT", b"IEND")  # the chunks that affect the picture
PIECE = 2**20  # bytes inflated at a time


def png_size(data: bytes) -> tuple[int, int]:
    """(width, height) in the header of a PNG file; (0, 0) where it is none."""
    if not data.startswith(PNG) or len(data) < 24:
        return 0, 0
    width, height = struct.unpack(">II", data[16:24])
    return width, height


def jpeg_size(data: bytes) -> tuple[int, int]:
    """(width, height) in the header of a JPEG file; (0, 0) where it has none."""
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        kind, size = data[at + 1], int.from_bytes(data[at + 2 : at + 4], "big")
        if 0xC0 <= kind <= 0xCF and kind not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return width, height
        at += 1 if kind == 0xFF else 2 + max(size, 2)
    return 0, 0


@functools.lru_cache(maxsize=16)  # a texture is checked each time that a material takes it
def _fault(data: bytes) -> str:
    """What is too large about a picture; "" where nothing is."""
    width, height = png_size(data) if data.startswith(PNG) else jpeg_size(data)
    if width * height > MOST_PIXELS:
        return f"{width} x {height} pixels, more than the limit of {MOST_PIXELS}; make it smaller"
    if not data.startswith(PNG):
        return ""
    depth, kind = (*data[24:26], 8, 6)[:2]
    bits = min(depth, 16) * CHANNELS.get(kind, 4)
    most = -(-width * bits // 8) * height + 4 * height + 16  # with one filter byte for each row of each pass
    stream, made = zlib.decompressobj(), 0
    try:
        for key, body in _chunks(data):
            while key == b"IDAT" and body and made <= most:
                made += len(stream.decompress(body, PIECE))
                body = stream.unconsumed_tail
    except zlib.error:
        return ""  # the decoder reports it
    if made > most:
        return f"it says {width} x {height} pixels, which are {most} bytes, and holds more"
    return ""


def check_picture(data: bytes, label: str) -> None:
    """Raise `ModelError` for a PNG or JPEG with too many pixels, or with more bytes than its header announces."""
    fault = _fault(data)
    if fault:
        raise ModelError(f"{label}: {fault}")


def plain_png(data: bytes, label: str) -> bytes:
    """A PNG that passes `check_picture`, without its texts and profiles, which decoders also inflate."""
    check_picture(data, label)
    if not data.startswith(PNG):
        return data
    parts = [(key, body) for key, body in _chunks(data) if key in SHOWN]
    return PNG + b"".join(png_chunk(key, body) for key, body in parts)


def png_chunk(key: bytes, body: bytes) -> bytes:
    """A chunk of a PNG file."""
    return struct.pack(">I", len(body)) + key + body + struct.pack(">I", zlib.crc32(key + body))


def _chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Name and content of each complete chunk, up to the end of the picture."""
    at = len(PNG)
    while at + 12 <= len(data):
        size, key = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 8]
        if at + 12 + size > len(data):
            return
        yield key, data[at + 8 : at + 8 + size]
        at += 12 + size
        if key == b"IEND":
            return
