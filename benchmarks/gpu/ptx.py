# SPDX-License-Identifier: Apache-2.0
"""Reads PTX: entries and functions as basic blocks of instructions, and variables with their initial bytes.

Only what compilers write is read: one statement a line, labels on lines of their own. Blocks end at branches and calls, and begin at
labels and at instructions for which lanes of a warp wait for each other.
"""

import dataclasses
import re

import numpy as np

TYPES = {
    **{f"u{8 * n}": np.dtype(f"u{n}") for n in (1, 2, 4, 8)},
    **{f"b{8 * n}": np.dtype(f"u{n}") for n in (1, 2, 4, 8)},
    **{f"s{8 * n}": np.dtype(f"i{n}") for n in (1, 2, 4, 8)},
    "f32": np.dtype("f4"),
    "f64": np.dtype("f8"),
    "pred": np.dtype("?"),
}
FUNCTION = re.compile(r"\.(?:entry|func)\s*(?:\(([^;{)]*)\)\s*)?([\w$]+)\s*\(([^;{)]*)\)([^;{]*)\{\s*\n")
PARAMETER = re.compile(r"\.param\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+(?:\.ptr[^,]*?\s)?([\w$]+)(?:\[(\d+)\])?\s*$")
VARIABLE = re.compile(
    r"^\s*(?:\.\w+\s+)*?\.(global|const|shared|local)\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+([\w$]+)(?:\[(\d*)\])?(?:\s*=\s*(.*?))?;",
    re.MULTILINE,
)
CLASS = {"r": "u32", "rd": "u64", "f": "f32", "fd": "f64", "p": "pred", "rs": "u16"}
# Lanes of a warp wait for each other here.
MEETING = re.compile(r"(?:bar\.warp|shfl\.sync|vote\.sync|redux\.sync|match\.\w+\.sync|bar\.sync|barrier)")


@dataclasses.dataclass(frozen=True)
class Instruction:
    """`@guard opcode operands`; the opcode split at its dots, vectors of operands as tuples."""

    opcode: tuple[str, ...]
    operands: tuple
    guard: str | None = None  # the register of a predicate
    negated: bool = False
    text: str = ""

    @property
    def dtypes(self) -> list[np.dtype]:
        """The types that the opcode names, in order."""
        return [TYPES[part] for part in self.opcode if part in TYPES]


@dataclasses.dataclass(frozen=True)
class Variable:
    """A variable of the module or of a function: its space, size and initial bytes."""

    space: str
    size: int
    align: int
    data: bytes


@dataclasses.dataclass
class Function:
    """An entry or a function: where its parameters stand, its blocks, the block of each label, its own variables."""

    name: str
    parameters: dict[str, tuple[int, int]]  # offset and size in bytes
    results: dict[str, tuple[int, int]]
    blocks: list[list[Instruction]]
    labels: dict[str, int]
    variables: dict[str, Variable]
    block_size: int | None  # what .reqntid or .maxntid says

    @property
    def parameter_bytes(self) -> int:
        """Size of all parameters."""
        return max((offset + size for offset, size in self.parameters.values()), default=0)


def entries(text: str) -> list[str]:
    """Names of the kernels of a module."""
    return re.findall(r"\.entry\s+([\w$]+)", text)


def variables(text: str) -> dict[str, Variable]:
    """Variables of the module or function that `text` is, by name."""
    found = {}
    for space, align, kind, name, count, initial in VARIABLE.findall(text):
        size = TYPES[kind].itemsize * int(count or 1)
        found[name] = Variable(space, size, int(align or TYPES[kind].itemsize), _bytes(initial, TYPES[kind], size))
    return found


def function(text: str, name: str) -> Function:
    """An entry or a function of a module by name. Raises `KeyError` if there is none with a body."""
    for head in FUNCTION.finditer(text):
        if head.group(2) == name:
            end = text.index("\n}", head.end())
            return _function(head, text[head.end() : end])
    raise KeyError(f"no entry or function {name} with a body in this PTX; entries: {', '.join(entries(text))}")


def parse_instruction(text: str) -> Instruction:
    """One statement without its semicolon."""
    guard, negated, rest = None, False, text
    if found := re.match(r"@(!?)(%\w+)\s+(.*)", text, re.DOTALL):
        negated, guard, rest = bool(found[1]), found[2], found[3]
    opcode, _, operands = rest.partition(" ")
    if opcode.startswith("call"):
        return Instruction(tuple(opcode.split(".")), _call(operands), guard, negated, text)
    return Instruction(tuple(opcode.split(".")), tuple(_operands(operands)), guard, negated, text)


def _function(head: re.Match, body: str) -> Function:
    results, name, parameters, directives = head.groups()
    size = re.search(r"\.(?:reqntid|maxntid)\s+(\d+)", directives)
    blocks, labels = _blocks(body)
    return Function(
        name,
        _layout(parameters),
        _layout(results or ""),
        blocks,
        labels,
        variables(body),
        int(size[1]) if size else None,
    )


def _layout(text: str) -> dict[str, tuple[int, int]]:
    layout, offset = {}, 0
    for line in filter(None, (part.strip() for part in text.split(","))):
        align, kind, name, count = PARAMETER.search(line).groups()
        size = TYPES[kind].itemsize * int(count or 1)
        align = int(align or TYPES[kind].itemsize)
        offset = -(-offset // align) * align
        layout[name] = offset, size
        offset += size
    return layout


def _blocks(body: str) -> tuple[list[list[Instruction]], dict[str, int]]:
    blocks, labels = [[]], {}
    for statement in _statements(body):
        if statement.endswith(":"):
            if blocks[-1]:
                blocks.append([])
            labels[statement[:-1]] = len(blocks) - 1
            continue
        instruction = parse_instruction(statement)
        if MEETING.match(".".join(instruction.opcode)) and blocks[-1]:
            blocks.append([])
        blocks[-1].append(instruction)
        if instruction.opcode[0] in ("bra", "ret", "exit", "call", "trap"):
            blocks.append([])
    if not blocks[-1]:
        blocks[-1].append(parse_instruction("ret"))
    return blocks, labels


def _statements(body: str):
    """Instructions without their semicolons, and labels with their colons."""
    pending = ""
    for line in body.splitlines():
        line = line.partition("//")[0].strip()
        if not pending and re.fullmatch(r"[$\w]+:", line):
            yield line
            continue
        pending = f"{pending} {line}".strip()
        while ";" in pending:
            statement, _, pending = pending.partition(";")
            statement, pending = (
                statement.strip("{} \t") if _is_scope(statement) else statement.strip(),
                pending.strip(),
            )
            if statement and not statement.startswith("."):
                yield " ".join(statement.split())
        if pending in ("{", "}", "}}") or pending.startswith(".loc"):
            pending = ""


def _is_scope(statement: str) -> bool:
    """Whether a statement begins with the brace of a scope."""
    return statement.lstrip().startswith(("{", "}"))


def _operands(text: str) -> list:
    parts = re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,\s{}\[\]]+(?:\|[^,\s]+)?", text)
    return [tuple(x.strip() for x in part[1:-1].split(",")) if part[0] == "{" else part for part in parts]


def _call(text: str) -> tuple:
    """Names of the result, of the function and of the arguments of a call."""
    found = re.match(r"(?:\(([^)]*)\)\s*,\s*)?([\w$%]+)\s*(?:,\s*\(([^)]*)\))?", text)
    names = [tuple(x.strip() for x in (found[k] or "").split(",") if x.strip()) for k in (1, 3)]
    return names[0], found[2], names[1]


def _bytes(initial: str, dtype: np.dtype, size: int) -> bytes:
    data = np.zeros(size // dtype.itemsize, dtype)
    for k, word in enumerate(initial.strip("{} ").split(",") if initial else ()):
        data[k] = literal(word.strip(), dtype)
    return data.tobytes()


def literal(word: str, dtype: np.dtype) -> np.generic:
    """The number that a literal stands for, as `dtype`. Raises `ValueError` if it is none."""
    if found := re.fullmatch(r"0([fFdD])([0-9a-fA-F]+)", word):
        return np.frombuffer(bytes.fromhex(found[2])[::-1], "<f4" if found[1] in "fF" else "<f8")[0].astype(dtype)
    value = int(word.rstrip("U"), 0)
    if dtype.kind in "ui":
        return np.array(value & (1 << 8 * dtype.itemsize) - 1, f"u{dtype.itemsize}").view(dtype)[()]
    return dtype.type(value)


def register_type(name: str) -> np.dtype:
    """Type of a register by its name, such as %rd7."""
    found = re.match(r"%([a-z]+)\d+$", name)
    return TYPES[CLASS.get(found[1], "u64") if found else "u64"]
