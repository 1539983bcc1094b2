# SPDX-License-Identifier: Apache-2.0
"""The decompressors of stores: Zarr's Blosc and Zstandard, which here write exactly the bytes of a chunk, or raise.

Zarr's own write as many bytes as the header of the compressed bytes says, which may be 2 GB from a file of a kilobyte.
"""

import asyncio
import math

import numpy as np
from zarr.codecs import BloscCodec, ZstdCodec
from zarr.registry import register_codec

from warpsim.base.errors import StoreError
from warpsim.files.limits import STORE_GROWTH, STORE_ROOM
from warpsim.files.store.metadata import LEAST, OURS

LZ4 = 1  # the compressor's code in Blosc's header
MAGIC = bytes.fromhex("28b52ffd")  # the first bytes of Zstandard


class _Exact:
    """Decodes into memory of a chunk's size. Raises `StoreError` if the compressed bytes cannot hold so much."""

    room = LEAST

    async def _decode_single(self, chunk_bytes, chunk_spec):
        return await asyncio.to_thread(self._decode_sync, chunk_bytes, chunk_spec)

    def _decode_sync(self, chunk_bytes, chunk_spec):
        data = chunk_bytes.to_bytes()
        size = math.prod(chunk_spec.shape) * chunk_spec.dtype.to_native_dtype().itemsize
        if size > self.room + STORE_GROWTH * len(data):
            raise StoreError(f"a chunk of {size} bytes is {len(data)} bytes in its file, which cannot stand for it")
        self.check(data, size)
        out = np.zeros(size, np.uint8)
        self.codec().decode(data, out)
        return chunk_spec.prototype.buffer.from_array_like(out)

    @classmethod
    def from_dict(cls, data):
        return super().from_dict(data | {"name": data["name"].removeprefix(OURS)})


class Blosc(_Exact, BloscCodec):
    """The decompressor of Blosc, only for LZ4."""

    def codec(self):
        return self._blosc_codec

    def check(self, data: bytes, size: int) -> None:
        """Raise `StoreError` unless the header gives exactly these sizes and the compressor LZ4."""
        head = np.frombuffer(data[4:16], "<u4") if len(data) >= 16 else np.zeros(3, np.uint32)
        if (head[0], head[2]) != (size, len(data)) or head[1] > max(size, 1) or data[2] >> 5 != LZ4:
            raise StoreError(f"a chunk of {size} bytes does not begin as one that Blosc made with LZ4")


class Zstd(_Exact, ZstdCodec):
    """The decompressor of Zstandard."""

    room = STORE_ROOM

    def codec(self):
        return self._zstd_codec

    def check(self, data: bytes, size: int) -> None:
        """Raise `StoreError` unless the frame header gives this size; the decoder enforces it."""
        kind = data[4] if len(data) > 5 and data[:4] == MAGIC else 0
        alone = kind >> 5 & 1  # single segment: the header then has no byte for the window size
        width = (alone, 2, 4, 8)[kind >> 6]
        told = int.from_bytes(data[6 - alone : 6 - alone + width], "little") + (256 if width == 2 else 0)
        if not width or kind & 3 or told != size:
            raise StoreError(f"a chunk of {size} bytes does not begin as one that Zstandard made")


for kind in (Blosc, Zstd):
    register_codec(OURS + kind.__name__.lower(), kind)
