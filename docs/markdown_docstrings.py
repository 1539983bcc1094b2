# SPDX-License-Identifier: Apache-2.0
"""Sphinx extension: docstrings of this package, which are plain text with Markdown's `code`, as reStructuredText.

Prose stays prose, `- ` begins an item of a list, an indented block is a program or a formula, and a block of
`name   meaning` lines is a list of definitions. A title underlined with hyphens begins a section of NumPy's style. The
sections of ENTRIES list `name : type` lines, each with an indented meaning; the others hold prose and programs.
`docs/page.md` in prose is a link. Nothing else of reStructuredText is read in docstrings: its characters are escaped.
"""

import inspect
import re
import textwrap

LISTED = 6  # members from which on a class has a table of them
SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}$", re.M)
ENTRIES = ("Parameters", "Returns", "Raises", "Warns", "Attributes")
ENTRY = re.compile(r"^(\S.*?) {2,}(\S.*)$")


def inline(text: str) -> str:
    """One or more lines of prose; `x` becomes a literal."""
    parts = re.split(r"(?<!`)(`[^`]+`)(?!`)", text)
    for i, part in enumerate(parts):
        if i % 2:
            before = parts[i - 1][-1:] if parts[i - 1] else ""
            after = parts[i + 1][:1]
            parts[i] = ("\\ " if before.isalnum() else "") + f"`{part}`" + ("\\ " if after.isalnum() else "")
        else:
            escaped = re.sub(r"([\\*|`]|_(?=\W|$)|^(?:=+|-{3,})$)", r"\\\1", part, flags=re.M)
            parts[i] = re.sub(r"\bdocs/(\w+)\.md\b", r":doc:`\1 </docs/\1>`", escaped)
    return "".join(parts)


def definitions(lines: list[str]) -> list[tuple[str, str]] | None:
    """Names and meanings of a block of `name   meaning` lines, or None where it is something else."""
    entries: list[tuple[str, str]] = []
    for line in lines:
        match = ENTRY.match(line)
        if match:
            entries.append((match[1], match[2]))
        elif entries and line.startswith("    "):
            entries[-1] = (entries[-1][0], f"{entries[-1][1]} {line.strip()}")
        else:
            return None
    return entries


def block(lines: list[str]) -> list[str]:
    """One block between blank lines."""
    if lines[0].startswith(">>>"):
        return lines
    if lines[0].startswith((" ", "\t")):
        return ["::", "", *(f"    {line}" for line in lines)]
    entries = definitions(lines)
    if entries is not None:
        return [
            text for name, meaning in entries for text in (f"``{name.replace('`', '')}``", f"    {inline(meaning)}")
        ]
    out: list[str] = []
    for line in inline("\n".join(lines)).split("\n"):
        starts = line.startswith("- ")
        if starts and out and not out[-1].startswith(("- ", "  ")):
            out.append("")
        if not starts and line.startswith("  ") and not any(text.startswith("- ") for text in out):
            line = line.strip()  # a hanging indent is no quotation
        out.append(line)
    return out


def blocks(text: str) -> list[str]:
    """Prose, programs and lists, with a blank line after each."""
    groups = [group.split("\n") for group in re.split(r"\n\s*\n", text.strip("\n")) if group.strip()]
    return [line for lines in groups for line in (*block(lines), "")]


def listed(text: str) -> list[str]:
    """The `name : type` lines of a section, each with its meaning: prose, lists, programs."""
    out: list[str] = []
    for entry in re.split(r"^(?=\S)", text.strip("\n"), flags=re.M)[1:]:
        head, _, meaning = entry.partition("\n")
        name, _, kind = head.partition(" : ")
        out.append(f"``{name}``" + (f" : {inline(kind)}" if kind else ""))
        meaning = blocks(textwrap.dedent(meaning))
        out += [f"    {line}" if line else "" for line in meaning] or ["    ..", ""]
    return [*out, ""]


def converted(text: str) -> list[str]:
    """reStructuredText of a docstring."""
    first, *sections = SECTION.split(text)
    out = blocks(first)
    for title, body in zip(sections[::2], sections[1::2], strict=True):
        out += [f".. rubric:: {title}", "", *(listed(body) if title in ENTRIES else blocks(body))]
    return out


def summary(name: str, cls: type, inherited: bool) -> list[str]:
    """A table of the methods and properties of a class, each with the first sentence of its docstring."""
    rows = []
    for member, found in inspect.getmembers(cls):
        text = inspect.getdoc(found) if callable(found) or isinstance(found, property) else None
        if text and not member.startswith("_") and (inherited or member in vars(cls)):
            kind = "attr" if isinstance(found, property) else "meth"
            first = " ".join(text.split("\n\n")[0].split())
            rows += [f"    * - :py:{kind}:`~{name}.{member}`", f"      - {inline(first)}"]
    if len(rows) < 2 * LISTED:
        return []
    return [".. rubric:: Methods and properties", "", ".. list-table::", "    :widths: 30 70", "", *rows, ""]


def process(app, what, name, obj, options, lines) -> None:
    """Sphinx's hook: replace the lines of a docstring in place; large classes get a table of their members."""
    lines[:] = converted("\n".join(lines))
    if what == "class" and isinstance(obj, type):
        first = next((k for k, line in enumerate(lines) if line.startswith(".. rubric::")), len(lines))
        lines[first:first] = summary(name, obj, "inherited-members" in options)


def short_types(app, what, name, obj, options, signature, returns):
    """Sphinx's hook: names of types as `help()` shows them."""
    return tuple(text and re.sub(r"TypeAliasForwardRef\('(\w+)'\)", r"\1", text) for text in (signature, returns))


def setup(app) -> dict:
    """Register with Sphinx."""
    app.connect("autodoc-process-docstring", process)
    app.connect("autodoc-process-signature", short_types)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
