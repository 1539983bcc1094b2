# SPDX-License-Identifier: Apache-2.0
"""An interpreter of PTX: one warp of 32 lanes, its results and what they cost.

Lanes that have parted run one group after the other, the one at the lowest block first, so that they come together where their
paths do. At `shfl.sync`, `vote.sync` and `bar.warp.sync` the lanes that the instruction names wait for each other, and a warp
none of whose groups can go on is an error.

Two clocks bracket the time of a warp that has a scheduler to itself. `in_order` issues as the PTX stands and stalls where
a value is first used; `flow` takes the best order within every basic block. PTX is not machine code: expect ± 30 %.
"""

import collections
import dataclasses

import numpy as np

from benchmarks.gpu import arithmetic, ptx
from benchmarks.gpu.data_instructions import DATA
from benchmarks.gpu.lane_instructions import TOGETHER
from benchmarks.gpu.memory import DYNAMIC_SHARED, LANES, LOCAL_WINDOW, Memory

BRANCH = 12  # cycles
NOTHING = ("pragma", "membar", "fence", "nanosleep", "prefetch", "prefetchu", "discard", "griddepcontrol")
CALL_BYTES = 4096  # of an argument or a result of a call
INSTRUCTIONS = 20_000_000  # a warp that issues more is thought to hang


class Deadlock(RuntimeError):
    """Lanes wait for others that do not come."""


@dataclasses.dataclass(slots=True)
class Operation:
    """An instruction made ready: `run()` returns (latency, lines) if it asks memory; registers by their index."""

    run: object
    sources: list[int]
    written: list[int]
    latency: float
    slots: int
    kind: str


@dataclasses.dataclass
class Block:
    """Operations, then a branch: `target` where `guard` is true (or without one), the next block elsewhere; −1 ends a lane."""

    operations: list[Operation]
    slots: int
    guard: np.ndarray | None
    guard_index: int
    negated: bool
    target: int
    following: int
    meeting: object  # returns the lanes that wait for each other, or None
    call: object  # what a call or the return from one does


@dataclasses.dataclass(frozen=True)
class Cost:
    """What a warp did. `slots`: issue slots, an instruction that is a sequence on the machine counted as that many."""

    slots: int
    lane_slots: int  # the same, times the lanes that took part
    flow: float  # cycles
    in_order: float
    memory: collections.Counter  # `Memory.counts`
    written_sectors: int
    kinds: collections.Counter  # slots by kind of instruction
    hazard: str  # of lanes that met in memory without a barrier, see `memory.LaneOrder`; "" if none
    hazard_address: int


class Program:
    """An entry of a PTX module, ready to run warp by warp.

    `run` may be called again; registers and memory start anew. Raises `NotImplementedError` for PTX that it does not know.
    """

    def __init__(self, text: str, entry: str):
        self.entry = ptx.function(text, entry)
        self.text = text
        self.mask = np.zeros(LANES, bool)
        self.lane = np.arange(LANES, dtype=np.uint32)
        self.pc = np.full(LANES, -1)
        self.parameters = np.zeros(max(-(-self.entry.parameter_bytes // 16) * 16, 16), np.uint8)
        self.memory: Memory | None = None
        self.indices: dict[str, int] = {}
        self.registers: list[np.ndarray] = []
        self.local_bytes = self.shared_bytes = 0
        self.module_data: list[tuple[np.ndarray, bytes]] = []
        self.scope = self.entry
        self.special = {f"%{name}": np.zeros(LANES, np.uint32) for name in _special_names()}
        self._addresses: dict[str, int] = {}
        self._functions: dict[str, ptx.Function] = {}
        self._first: dict[str, int] = {}
        self._slots: dict[str, np.ndarray] = {}
        self._returns: dict[str, np.ndarray] = {}
        self._declare(ptx.variables(text[: text.index(".entry")]), "")
        self.source: list[tuple[ptx.Function, int, int]] = []
        self._append(self.entry)
        self.blocks: list[Block | None] = [None] * len(self.source)
        self._special()

    # names ------------------------------------------------------------------------------------------------------------

    def _special(self) -> None:
        lane = self.lane
        self.special["%laneid"][:] = lane
        for name, bits in (
            ("eq", 1 << lane.astype(np.uint64)),
            ("lt", (1 << lane.astype(np.uint64)) - 1),
            ("le", (2 << lane.astype(np.uint64)) - 1),
        ):
            self.special[f"%lanemask_{name}"][:] = bits
        self.special["%lanemask_gt"][:] = ~self.special["%lanemask_le"]
        self.special["%lanemask_ge"][:] = ~self.special["%lanemask_lt"]

    def _declare(self, variables: dict[str, ptx.Variable], scope: str) -> None:
        """Give variables their places."""
        for name, variable in variables.items():
            if variable.space == "local":
                address = self.local_bytes = -(-self.local_bytes // 16) * 16
                self.local_bytes += variable.size
            elif variable.space == "shared":
                address = self.shared_bytes = -(-self.shared_bytes // 16) * 16
                self.shared_bytes += variable.size or DYNAMIC_SHARED
            else:
                data = np.zeros(variable.size + 16, np.uint8)
                offset = -data.ctypes.data % 16
                self.module_data.append((data[offset : offset + variable.size], variable.data))
                address = data.ctypes.data + offset
            self._addresses[scope + name] = address

    def _append(self, function: ptx.Function) -> int:
        """Add the blocks of a function; the number of the first."""
        first = len(self.source)
        self._declare(function.variables, f"{function.name}:")
        self.source += [(function, k, first) for k in range(len(function.blocks))]
        for name in [i.operands[1] for block in function.blocks for i in block if i.opcode[0] == "call"]:
            if name not in self._functions:
                called = self._functions[name] = ptx.function(self.text, name)
                self._returns[name] = np.full(LANES, -1)
                self._first[name] = self._append(called)
                # A parameter whose address is taken lives in local memory.
                self._declare(
                    {x: ptx.Variable("local", n, 16, b"") for x, (_, n) in called.parameters.items()}, f"{name}:"
                )
        return first

    def index(self, name: str) -> int:
        """Number of a register of the function that is being made ready."""
        key = f"{self.scope.name}:{name}"
        if key not in self.indices:
            self.indices[key] = len(self.registers)
            self.registers.append(np.zeros(LANES, ptx.register_type(name)))
        return self.indices[key]

    def read(self, word: str, dtype: np.dtype) -> np.ndarray:
        """An operand as 32 lanes of `dtype`: a register, a special one, a number or the address of a variable."""
        if word in self.special:
            special = self.special[word]
            return special.view(dtype) if dtype.itemsize == 4 else _Widened(special, dtype)
        if word.startswith("%"):
            register = self.registers[self.index(word)]
            return _low(register, dtype)
        for key in (f"{self.scope.name}:{word}", word):
            if key in self._addresses:
                return _low(np.full(LANES, self._addresses[key], np.uint64), dtype)
        if word in ("WARP_SZ", "true", "false"):
            return np.full(LANES, {"WARP_SZ": LANES, "true": 1, "false": 0}[word], dtype)
        if dtype.kind == "b":
            return np.full(LANES, int(word, 0) != 0)
        return np.full(LANES, ptx.literal(word, dtype), dtype)

    def written(self, word: str, dtype: np.dtype) -> np.ndarray:
        """A register to write values of `dtype` to; a larger one takes them extended."""
        register = self.registers[self.index(word)]
        if register.dtype.itemsize == dtype.itemsize:
            return register.view(dtype)
        if register.dtype.itemsize < dtype.itemsize:
            return _low(register, dtype)
        return register.view(f"{'i' if dtype.kind == 'i' else 'u'}{register.dtype.itemsize}")

    def slot(self, function: str, name: str) -> np.ndarray:
        """Bytes (lanes, …) of an argument or a result of a call."""
        return self._slots.setdefault(f"{function}:{name}", np.zeros((LANES, CALL_BYTES), np.uint8))

    # making blocks ready ------------------------------------------------------------------------------------------------

    def _ready(self, number: int) -> Block:
        """Make a block ready: each instruction a function on the arrays of its registers."""
        self.scope, k, first = self.source[number]
        operations, meeting, block = [], None, self.scope.blocks[k]
        following = number + 1 if k + 1 < len(self.scope.blocks) else -1
        made = Block(operations, 0, None, -1, False, following, following, None, None)
        for instruction in block:
            name = instruction.opcode[0]
            if name in ("bra", "ret", "exit", "trap", "call"):
                self._leave(made, instruction, first)
                break
            if name in NOTHING:
                continue
            operation = self._operation(instruction)
            operations.append(operation)
            made.slots += operation.slots
            if name in TOGETHER:
                meeting = meeting or TOGETHER[name].members(instruction, self)
        made.meeting = meeting
        return made

    def _operation(self, instruction: ptx.Instruction) -> Operation:
        name = instruction.opcode[0]
        if name in TOGETHER:
            built = TOGETHER[name].build(instruction, self)
        elif name in DATA:
            built = DATA[name](instruction, self)
        else:
            built = arithmetic.build(instruction, self)
        if built is None:
            raise NotImplementedError(f"PTX instruction {instruction.text!r} in {self.scope.name}")
        run, latency, slots = built
        names = [self._names(x) for x in instruction.operands]
        has_result = name not in ("st", "red", "bar", "barrier")
        written = names[0] if has_result and names else []
        sources = [x for group in (names[1:] if has_result else names) for x in group]
        if instruction.guard:
            run, sources = self._guarded(run, instruction), [*sources, self.index(instruction.guard), *written]
        return Operation(run, sources, written, latency, slots, kind_of(instruction))

    def _names(self, operand) -> list[int]:
        words = operand if isinstance(operand, tuple) else operand.strip("[]").replace("|", "+").split("+")
        return [self.index(x) for x in words if x.startswith("%") and x not in self.special]

    def _guarded(self, run, instruction: ptx.Instruction):
        """The instruction for those lanes only whose predicate says so."""
        guard, mask = self.registers[self.index(instruction.guard)], self.mask

        def guarded():
            active = mask.copy()
            mask[:] = active & (guard != instruction.negated)
            try:
                return run() if mask.any() else None
            finally:
                mask[:] = active

        return guarded

    def _leave(self, block: Block, i: ptx.Instruction, first: int) -> None:
        """The branch, return or call that a block ends with."""
        block.slots += 1
        if i.guard:
            block.guard, block.guard_index = self.registers[self.index(i.guard)], self.index(i.guard)
            block.negated = i.negated
        if i.opcode[0] == "bra":
            block.target = first + self.scope.labels[i.operands[0]]
        elif i.opcode[0] == "call":
            block.target, block.call = self._call(i, block.following)
        else:
            block.target = -1
            if i.opcode[0] == "trap":
                block.call = _trap
            elif self.scope is not self.entry and i.opcode[0] == "ret":
                block.call = self._return(self.scope.name)

    def _call(self, i: ptx.Instruction, following: int):
        """First block of the function that is called, and what hands over its arguments."""
        results, name, arguments = i.operands
        function, first = self._functions[name], self._first[name]
        caller, pairs = self.scope.name, list(zip(arguments, function.parameters, strict=True))
        back = list(zip(results, function.results, strict=True))

        def call(mask: np.ndarray) -> None:
            for given, taken in pairs:
                self.slot(name, taken)[mask] = self.slot(caller, given)[mask]
                place, size = self._addresses[f"{name}:{taken}"], function.parameters[taken][1]
                self.memory.local[mask, place : place + size] = self.slot(name, taken)[mask, :size]
            for given, taken in back:
                self._slots[f"{caller}:{given}"] = self.slot(name, taken)
            self._returns[name][mask] = following

        return first, call

    def _return(self, name: str):
        def back(mask: np.ndarray) -> None:
            self.pc[mask] = self._returns[name][mask]

        return back

    # running ----------------------------------------------------------------------------------------------------------

    def run(
        self, parameters: bytes, ranges: list[tuple[int, int]], *, block: int, grid: int, first: int, l1_bytes: int
    ) -> Cost:
        """Run the warp of threads `first` to `first` + 31 of a launch of `grid` blocks of `block` threads.

        `parameters` as CUDA gets them; `ranges`: (address, bytes) of the arrays. Raises `memory.OutOfBounds` and `Deadlock`.
        """
        self.parameters[: len(parameters)] = np.frombuffer(parameters, np.uint8)
        shared = self.shared_bytes + DYNAMIC_SHARED
        ranges = ranges + [(data.ctypes.data, data.size) for data, _ in self.module_data if data.size]
        self.memory = Memory(ranges, l1_bytes, self.local_bytes, shared)
        for data, initial in self.module_data:
            data[:] = np.frombuffer(initial, np.uint8)
        for register in self.registers:
            register[:] = 0
        cta, thread = divmod(first, block)
        sizes = {
            "tid.x": self.lane + thread,
            "ctaid.x": cta,
            "ntid.x": block,
            "nctaid.x": grid,
            "warpid": thread // LANES,
        }
        for name, value in (sizes | {f"{x}.{d}": 1 for x in ("ntid", "nctaid") for d in "yz"}).items():
            self.special[f"%{name}"][:] = value
        self.pc[:] = np.where(self.lane + thread < block, 0, -1)
        with np.errstate(all="ignore"):
            return self._loop()

    def _loop(self) -> Cost:
        clocks = _Clocks()
        slots = lane_slots = 0
        kinds: collections.Counter = collections.Counter()
        visits: collections.Counter = collections.Counter()
        while (self.pc >= 0).any():
            number = self._next()
            block, lanes = self.blocks[number], int(self.mask.sum())
            clocks.run(block)
            slots, lane_slots = slots + block.slots, lane_slots + block.slots * lanes
            visits[number] += 1
            self._branch(block, clocks)
            if slots > INSTRUCTIONS:
                raise Deadlock(f"{self.entry.name} has issued {slots} instructions and goes on")
        for number, count in visits.items():
            block = self.blocks[number]
            for operation in block.operations:
                kinds[operation.kind] += operation.slots * count
            kinds["branch"] += count * (block.slots - sum(x.slots for x in block.operations))
        memory = self.memory
        order = memory.order
        return Cost(
            slots, lane_slots, *clocks.end(), memory.counts, len(memory.written), kinds, order.first, order.address
        )

    def _next(self) -> int:
        """Number of the lowest block whose lanes may run it; `mask` says which do."""
        for number in np.unique(self.pc[self.pc >= 0]).tolist():
            np.equal(self.pc, number, out=self.mask)
            if self.blocks[number] is None:
                self.blocks[number] = self._ready(number)
            meeting = self.blocks[number].meeting
            if meeting is None or not (meeting() & (self.pc >= 0) & ~self.mask).any():
                return number
        where = {self.source[n][0].blocks[self.source[n][1]][0].text for n in set(self.pc.tolist()) if n >= 0}
        raise Deadlock(f"{self.entry.name}: lanes wait for each other at {' and at '.join(sorted(where))}")

    def _branch(self, block: Block, clocks: "_Clocks") -> None:
        mask = self.mask
        clocks.branch(block)
        if block.guard is None:
            self.pc[mask] = block.target
            taken = mask
        else:
            taken = mask & (block.guard != block.negated)
            self.pc[mask] = block.following
            self.pc[taken] = block.target
        if block.call is not None and taken.any():
            block.call(taken)


class _Clocks:
    """The two clocks of a warp, and when each register is ready by them."""

    def __init__(self):
        self.flow = self.in_order = 0.0
        self.flow_ready: dict[int, float] = collections.defaultdict(float)
        self.order_ready: dict[int, float] = collections.defaultdict(float)
        self.memory_free = 0.0

    def run(self, block: Block) -> None:
        """Run the operations of a block."""
        begin, clock, flow, order = self.flow, self.in_order, self.flow_ready, self.order_ready
        for operation in block.operations:
            asked = operation.run()
            start = max([begin, *[flow[k] for k in operation.sources]])
            ready = max([clock + operation.slots, *[order[k] for k in operation.sources]])
            latency = operation.latency
            if operation.slots:
                clock = ready
            if isinstance(asked, tuple):
                latency, lines = asked
                clock = ready = max(clock, self.memory_free)
                self.memory_free = clock + lines
                latency += lines
            for k in operation.written:
                flow[k], order[k] = start + latency, ready + latency
        self.flow, self.in_order = begin + block.slots, clock

    def branch(self, block: Block) -> None:
        """What leaving a block costs."""
        if block.guard is None:
            if block.target != block.following or block.call:
                self.flow, self.in_order = self.flow + BRANCH / 2, self.in_order + 1 + BRANCH / 2
            return
        self.flow = max(self.flow, self.flow_ready[block.guard_index]) + BRANCH
        self.in_order = max(self.in_order + 1, self.order_ready[block.guard_index]) + BRANCH

    def end(self) -> tuple[float, float]:
        """Both clocks when everything is ready."""
        return (
            max(self.flow, *self.flow_ready.values(), 0.0),
            max(self.in_order, *self.order_ready.values(), 0.0),
        )


class _Widened:
    """A special register read as another size: NumPy takes its present numbers."""

    def __init__(self, source: np.ndarray, dtype: np.dtype):
        self.source, self.dtype = source, dtype

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        return self.source.astype(dtype or self.dtype)


def _low(register: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The low bytes of a register as `dtype`, in place; one that is smaller stands for itself."""
    if register.dtype.itemsize <= dtype.itemsize:
        return register.view(dtype) if register.dtype.itemsize == dtype.itemsize else register
    return register.view(dtype).reshape(LANES, -1)[:, 0]


def _special_names() -> list[str]:
    axes = [f"{x}.{d}" for x in ("tid", "ntid", "ctaid", "nctaid") for d in "xyz"]
    return [
        *axes,
        "laneid",
        "warpid",
        *(f"lanemask_{x}" for x in ("eq", "lt", "le", "gt", "ge")),
        "clock",
        "globaltimer_lo",
    ]


def _trap(mask: np.ndarray) -> None:
    raise RuntimeError(f"trap reached by lanes {np.flatnonzero(mask).tolist()}")


def kind_of(i: ptx.Instruction) -> str:
    """What an instruction is for, for the mix of a kernel."""
    name, last = i.opcode[0], i.opcode[-1]
    if name in ("ld", "st", "atom", "red"):
        return f"{name}.{'global' if 'global' in i.opcode else i.opcode[1]}"
    if name in TOGETHER:
        return "lanes"
    if name == "setp":
        return "compare"
    if last in ("f32", "f64"):
        return "real arithmetic" if name in ("fma", "mul", "add", "sub", "div", "sqrt", "rcp") else "other real"
    return "integer, 64 bits" if "64" in last else "integer"


__all__ = ["LOCAL_WINDOW", "Cost", "Deadlock", "Program"]
