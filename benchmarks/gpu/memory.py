# SPDX-License-Identifier: Apache-2.0
"""The memory of an emulated warp, and what its accesses cost.

Global memory is this process's own: arrays of a CPU simulation at their addresses, within the ranges that a launch is given.
Local and shared memory, and generic addresses of them, are windows far above. Requests of the lanes are counted in lines of
128 and sectors of 32 bytes, and looked up in an L1 cache (least recently used out first); a first touch comes from HBM,
the rest from L2.
"""

import collections

import numpy as np

L1_LATENCY, L2_LATENCY, HBM_LATENCY, SHARED_LATENCY = 34, 260, 600, 29  # cycles, H200 (docs/gpu_checks.md)
SECTOR, SECTORS_OF_LINE = 32, 4
LANES = 32
LOCAL_WINDOW, SHARED_WINDOW = 1 << 60, 1 << 61
DYNAMIC_SHARED = 64 * 1024
_LOWEST = 4096  # no address is below


class OutOfBounds(RuntimeError):
    """An access outside the arrays that a launch was given."""


class _Everything:
    """The address space of the process as an array of one type, from `_LOWEST`."""

    def __init__(self, dtype: np.dtype):
        count = (1 << 47) // dtype.itemsize - _LOWEST
        self.__array_interface__ = {"data": (_LOWEST, False), "shape": (count,), "typestr": dtype.str, "version": 3}


_PROCESS: dict[np.dtype, np.ndarray] = {}


def process_memory(dtype: np.dtype) -> np.ndarray:
    """All memory of the process as entries of `dtype`, the first at address 4096. Addresses that are not mapped crash."""
    if dtype not in _PROCESS:
        _PROCESS[dtype] = np.asarray(_Everything(dtype))
    return _PROCESS[dtype]


def joined_ranges(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """(start, end) of ranges (start, size), those that overlap joined, in order; one that holds nothing where there are none."""
    joined = []
    for start, size in sorted(ranges):
        if joined and start < joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], start + size)
        else:
            joined.append((start, start + size))
    return joined or [(_LOWEST, _LOWEST)]


class Memory:
    """Spaces of one warp. `ranges`: (address, bytes) of the arrays it may touch; `l1_bytes`: its share of the cache."""

    def __init__(self, ranges: list[tuple[int, int]], l1_bytes: int, local_bytes: int, shared_bytes: int):
        joined = joined_ranges(ranges)
        self.starts, self.ends = (np.array(column, np.int64) for column in zip(*joined, strict=True))
        self.l1_sectors = l1_bytes // SECTOR
        # Filled as uninitialised memory may be: with NaN, or −1.
        self.local = np.full((LANES, -(-max(local_bytes, 16) // 16) * 16), 255, np.uint8)
        self.shared = np.full(-(-max(shared_bytes, 16) // 16) * 16, 255, np.uint8)
        self.counts = collections.Counter()
        self.cache: collections.OrderedDict[int, None] = collections.OrderedDict()
        self.touched: set[int] = set()
        self.written: set[int] = set()
        self.order = LaneOrder()

    def space_of(self, addresses: np.ndarray) -> str:
        """The space that generic addresses lie in; those of a request must agree."""
        high = addresses >> 60
        if (high != high[0]).any():
            raise NotImplementedError("lanes of one request in different spaces")
        return {0: "global", 1: "local", 2: "shared"}[int(high[0])]

    def load(self, space: str, addresses: np.ndarray, lanes: np.ndarray, dtype: np.dtype) -> np.ndarray:
        """Entries of `dtype` at the addresses of `lanes`."""
        table, index = self._entries(space, addresses, lanes, dtype)
        return table[index]

    def store(self, space: str, addresses: np.ndarray, lanes: np.ndarray, values: np.ndarray) -> None:
        """Write entries; of lanes with one address the last one wins, and the others are counted unless they write the same."""
        table, index = self._entries(space, addresses, lanes, values.dtype)
        table[index] = values
        if space != "local" and (table[index] != values).any():
            same = (table[index] == values) | ((values != values) & (table[index] != table[index]))
            self.counts["conflicts"] += int((~same).sum())

    def _entries(self, space: str, addresses, lanes, dtype):
        if (addresses % dtype.itemsize).any():
            raise OutOfBounds(f"misaligned access of {dtype} in {space} memory: {addresses.tolist()}")
        if space == "global":
            return process_memory(dtype), (addresses - _LOWEST) // dtype.itemsize
        if space == "local":
            return self.local.view(dtype), (lanes, (addresses & ~LOCAL_WINDOW) // dtype.itemsize)
        return self.shared.view(dtype), (addresses & ~SHARED_WINDOW) // dtype.itemsize

    def access(
        self, space: str, addresses: np.ndarray, lanes: np.ndarray, size: int, store: bool, atomic: bool = False
    ) -> tuple[int, int]:
        """Count a request of `size` bytes per lane; its latency [cycles] and how many lines it takes."""
        if space == "local":
            self.counts["local"] += 1
            return L1_LATENCY, max(1, len(set(addresses.tolist())) * size // 4)
        if space in ("shared", "global") and not atomic:
            self.order.note(addresses, lanes, size, store)
        if space == "shared":
            self.counts["shared"] += 1
            return SHARED_LATENCY, 1
        self._check(addresses, size, store)
        first = (addresses >> 5).tolist()
        sectors = set(first)
        if size > 4:
            sectors.update((addresses + (size - 1) >> 5).tolist())
        lines = len({s // SECTORS_OF_LINE for s in sectors})
        counts = self.counts
        counts["stores" if store else "loads"] += 1
        counts["lines"] += lines
        counts["sectors"] += len(sectors)
        counts["useful_bytes"] += len(first) * size
        if store:
            self.written |= sectors
        return self._latency(sectors, store), lines

    def _latency(self, sectors: set[int], store: bool) -> int:
        latency, cache = L1_LATENCY, self.cache
        for sector in sectors:
            if sector in cache:
                cache.move_to_end(sector)
                continue
            if not store:
                known = sector in self.touched
                self.counts["l2_sectors" if known else "hbm_sectors"] += 1
                latency = max(latency, L2_LATENCY if known else HBM_LATENCY)
            cache[sector] = None
            if len(cache) > self.l1_sectors:
                cache.popitem(last=False)
            self.touched.add(sector)
        return latency

    def _check(self, addresses: np.ndarray, size: int, store: bool) -> None:
        at = np.searchsorted(self.starts, addresses, side="right") - 1
        bad = (at < 0) | (addresses + size > self.ends[at])
        if bad.any():
            what = "store" if store else "load"
            lanes = np.flatnonzero(bad).tolist()
            raise OutOfBounds(
                f"{what} of {size} bytes outside every array of the launch, at {[hex(x) for x in addresses[bad].tolist()]} "
                f"(requesting lanes {lanes})"
            )


class LaneOrder:
    """Finds lanes that hand numbers to each other through memory without `bar.warp.sync` in between: on a GPU that is a race.

    Atomics are left out, and lanes that all write one number. Shuffles and votes order registers, not memory.
    """

    def __init__(self):
        self.hazards = 0
        self.first = ""  # the first hazard, in words
        self.address = 0
        self.writers: dict[int, int] = {}  # lanes, as bits, by word of 4 bytes
        self.readers: dict[int, int] = {}

    def barrier(self, lanes: np.ndarray) -> None:
        """Everything that these have done is before everything that they do."""
        others = sum(1 << int(lane) for lane in np.flatnonzero(~lanes))
        for seen in (self.writers, self.readers):
            left = {word: those & others for word, those in seen.items() if those & others} if others else {}
            seen.clear()
            seen.update(left)

    def note(self, addresses: np.ndarray, lanes: np.ndarray, size: int, store: bool) -> None:
        """A request of the lanes; of accesses below 4 bytes no notice is taken."""
        words: dict[int, int] = {}
        for address, lane in zip((addresses >> 2).tolist(), lanes.tolist(), strict=True):
            for word in range(address, address + size // 4):
                words[word] = words.get(word, 0) | 1 << lane
        for word, asking in words.items():
            wrote, read = self.writers.get(word, 0), self.readers.get(word, 0)
            if not store:
                self.readers[word] = read | asking
                if wrote and asking & ~wrote:
                    self._found(word, "read", asking, "written", wrote)
                continue
            self.writers[word] = wrote | asking
            if read and (read | asking).bit_count() > 1:
                self._found(word, "written", asking, "read", read)
            elif wrote and wrote != asking and (wrote | asking).bit_count() > 1:
                self._found(word, "written", asking, "written", wrote)

    def _found(self, word: int, now: str, asking: int, before: str, others: int) -> None:
        self.hazards += 1
        if not self.first:
            self.address = word << 2
            self.first = f"{now} by lanes {_lanes(asking)}, {before} before by lanes {_lanes(others)} without a barrier"


def _lanes(bits: int) -> list[int]:
    return [lane for lane in range(LANES) if bits >> lane & 1]
