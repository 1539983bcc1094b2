# SPDX-License-Identifier: Apache-2.0
"""Damaged robot files: load, step, and watch for crashes, hangs and reads outside the file's folder.

    python -m benchmarks.mutants --count 10000 --out benchmarks/results

Robots of the gymnasium package as MJCF, trees of links as URDF, our own exports as USD, each mutated by a seeded generator: numbers scaled, negated,
made absurd; attributes and elements dropped, doubled, swapped, renamed; paths pointed outside; bytes overwritten; ends cut off. What loads makes ten
steps with two worlds. Workers are processes: one that ends, or takes more than ten seconds of processor time for a file (compiling kernels not
counted), is a finding, and so are exceptions other than `ModelError` and `ValueError`, messages that do not name the file, and canaries outside that
were read (their times of access tell, and Python's audit hook). Exit code 1 where there is one.
"""

import argparse
import collections
import json
import os
import pathlib
import random
import re
import select
import subprocess
import sys
import tempfile
import time

import gymnasium
import warp as wp

import warpsim as ws
from warpsim.tools.bench import machine

SECONDS, SILENCE = 10.0, 180.0  # of processor time for one file; of wall time until an answer
STEPS, WORLDS = 10, 2
ABSURD = ("nan", "inf", "-inf", "1e308", "1e30", "-1", "0", "1e-300", "2147483648", "x", "", "9" * 400)
OUTSIDE = (
    "../canary.stl",
    "../canary.xml",
    "../../canary.obj",
    "/etc/passwd",
    "..\\canary.stl",
    "file:///etc/passwd",
    "package://../canary.stl",
)
NUMBER = re.compile(r"(?<![\w.#])-?\d+\.?\d*(?:[eE][-+]?\d+)?(?![\w.])")
STL = (
    "solid c\nfacet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1 0 0\nvertex 0 1 1\nendloop\nendfacet\nendsolid c\n"
)

# mutants ---------------------------------------------------------------------------------------------------------------


def scaled(text: str, rng: random.Random) -> str:
    """One number by a factor near 1, or negated."""
    return _number(text, rng, lambda x: f"{float(x) * rng.choice((0.5, 0.8, 0.9, 1.1, 1.25, 2.0, -1.0)):.6g}")


def jittered(text: str, rng: random.Random) -> str:
    return _number(text, rng, lambda x: f"{float(x) + rng.gauss(0.0, 0.05):.6g}")


def absurd(text: str, rng: random.Random) -> str:
    return _number(text, rng, lambda x: rng.choice(ABSURD))


def _number(text: str, rng: random.Random, change) -> str:
    found = list(NUMBER.finditer(text))
    if not found:
        return text
    at = rng.choice(found)
    return text[: at.start()] + change(at.group()) + text[at.end() :]


def attribute_dropped(text: str, rng: random.Random) -> str:
    found = list(re.finditer(r'\s[\w:]+="[^"]*"', text)) or list(re.finditer(r"\n[^\n{}()]*= [^\n{}]*", text))
    if not found:
        return text
    at = rng.choice(found)
    return text[: at.start()] + text[at.end() :]


def attributes_swapped(text: str, rng: random.Random) -> str:
    """The values of two attributes of one name, or of any two."""
    found = list(re.finditer(r'([\w:]+)="([^"]*)"', text))
    if len(found) < 2:
        return text
    a = rng.choice(found)
    alike = [x for x in found if x.group(1) == a.group(1) and x.start() != a.start()]
    b = rng.choice(alike if alike and rng.random() < 0.8 else found)
    a, b = sorted((a, b), key=lambda x: x.start())
    if a.start() == b.start():
        return text
    return text[: a.start(2)] + b.group(2) + text[a.end(2) : b.start(2)] + a.group(2) + text[b.end(2) :]


def element(text: str, rng: random.Random) -> str:
    """A line of its own (an element, mostly) dropped, doubled, or moved."""
    lines = text.split("\n")
    i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
    kind = rng.random()
    if kind < 0.4:
        del lines[i]
    elif kind < 0.7:
        lines.insert(i, lines[i])
    else:
        lines.insert(j, lines.pop(i))
    return "\n".join(lines)


def renamed(text: str, rng: random.Random) -> str:
    found = list(re.finditer(r'(?:name|joint|body|class|link|mesh|parent|child)\w*="([^"]*)"', text)) or list(
        re.finditer(r'"(\w+)"', text)
    )
    if not found:
        return text
    at = rng.choice(found)
    name = rng.choice(("", "a", "ü", "x" * 300, "../a", "a b", "0", at.group(1)[::-1], "world", 'a/b"'))
    return text[: at.start(1)] + name + text[at.end(1) :]


def pointed_outside(text: str, rng: random.Random) -> str:
    """A mesh, an include or a layer that lies outside."""
    path = rng.choice(OUTSIDE)
    if "#usda" in text:
        return text.replace("def ", f'def "out" (references = @{path}@) {{}}\ndef ', 1)
    if "<robot" in text:
        mesh = f'<link name="out"><visual><geometry><mesh filename="{path}"/></geometry></visual></link>'
        return text.replace("<link", mesh + "<link", 1)
    if rng.random() < 0.5:
        return text.replace("<worldbody>", f'<include file="{path}"/><worldbody>', 1)
    return text.replace(
        "<worldbody>", f'<asset><mesh name="out" file="{path}"/></asset><worldbody><geom type="mesh" mesh="out"/>', 1
    )


def overwritten(text: str, rng: random.Random) -> str:
    letters = list(text)
    for _ in range(rng.randint(1, 5)):
        letters[rng.randrange(len(letters))] = chr(rng.randrange(1, 256))
    return "".join(letters)


def cut(text: str, rng: random.Random) -> str:
    return text[: rng.randrange(len(text))]


# How often each, gentle ones first; a file has one to three of them.
KINDS = {
    scaled: 30,
    jittered: 25,
    attribute_dropped: 12,
    attributes_swapped: 10,
    element: 12,
    absurd: 8,
    renamed: 5,
    pointed_outside: 4,
    overwritten: 3,
    cut: 1,
}


def mutant(text: str, rng: random.Random) -> tuple[str, list[str]]:
    chosen = rng.choices(list(KINDS), list(KINDS.values()), k=rng.choice((1, 1, 2, 3)))
    for kind in chosen:
        text = kind(text, rng) or " "
    return text, [kind.__name__ for kind in chosen]


# what they are made of -------------------------------------------------------------------------------------------------


def urdf(rng: random.Random) -> str:
    """A tree of links with every kind of joint and shape."""
    shapes = (
        '<box size="0.1 0.2 0.3"/>',
        '<sphere radius="0.1"/>',
        '<cylinder radius="0.05" length="0.3"/>',
        '<mesh filename="part.stl" scale="0.1 0.1 0.1"/>',
    )
    lines = ['<?xml version="1.0"?>', '<robot name="tree">']
    count = rng.randint(2, 7)
    for k in range(count):
        shape = rng.choice(shapes)
        lines += [
            f'<link name="l{k}">',
            f'<inertial><origin xyz="0 0 {0.1 * k:g}" rpy="0 0.1 0"/><mass value="{1 + k}"/>',
        ]
        lines += [f'<inertia ixx="{0.1 + 0.01 * k:g}" ixy="0" ixz="0.001" iyy="0.1" iyz="0" izz="0.12"/></inertial>']
        lines += [f'<visual><geometry>{shape}</geometry><material name="m"><color rgba="1 0 0 1"/></material></visual>']
        lines += [f'<collision><origin xyz="0 0 0.05" rpy="0 0 0"/><geometry>{shape}</geometry></collision>', "</link>"]
    for k in range(1, count):
        kind = rng.choice(("revolute", "continuous", "prismatic", "fixed", "floating", "planar"))
        lines += [
            f'<joint name="j{k}" type="{kind}">',
            f'<parent link="l{rng.randrange(k)}"/>',
            f'<child link="l{k}"/>',
        ]
        lines += [
            f'<origin xyz="0.2 0 {0.1 * k:g}" rpy="0.3 0 0"/>',
            '<axis xyz="0 1 0"/>',
            '<limit lower="-1" upper="1.5" effort="10" velocity="3"/>',
        ]
        lines += ['<dynamics damping="0.1" friction="0.05"/>', "</joint>"]
    return "\n".join([*lines, "</robot>"])


def sources(folder: pathlib.Path, rng: random.Random) -> dict[str, list[str]]:
    """Whole files by suffix."""
    found = {"xml": [], "urdf": [urdf(rng) for _ in range(12)], "usda": []}
    assets = pathlib.Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets"
    found["xml"] = [path.read_text() for path in sorted(assets.glob("*.xml"))]
    for name in ws.robots.names():
        sim = ws.Simulator(ws.load(ws.robots.path(name)), 1, device="cpu")
        sim.rollout(sim.state(), steps=1).to_usd(folder / "whole.usda")
        found["usda"].append((folder / "whole.usda").read_text())
    (folder / "whole.usda").unlink()
    return found


# workers ---------------------------------------------------------------------------------------------------------------


def worker(folder: pathlib.Path) -> None:
    """Load and step the files whose names come on standard input; an answer for each, as JSON on standard output."""
    import warnings

    warnings.simplefilter("ignore")
    answers, opened, compiled = os.fdopen(os.dup(1), "w"), [], [0.0]
    os.dup2(2, 1)
    inside = (
        folder,
        *(
            pathlib.Path(p).resolve()
            for p in (
                sys.prefix,
                sys.base_prefix,
                os.environ.get("WARP_CACHE_PATH", pathlib.Path.home() / ".cache"),
                pathlib.Path(ws.__file__).parents[1],
                "/proc",
                "/sys",
                "/usr",
                "/dev",
                "/lib",
            )
        ),
    )
    roots = (*(str(p) for p in inside), f"{tempfile.gettempdir()}/warpsim-")

    def audit(event, arguments):
        if event == "open" and isinstance(arguments[0], (str, bytes)):
            path = os.path.realpath(os.fsdecode(arguments[0]))
            if not path.startswith(roots):
                opened.append(path)

    load_module = wp._src.context.Module.load

    def load(*arguments, **options):
        start = time.process_time()
        try:
            return load_module(*arguments, **options)
        finally:
            compiled[0] += time.process_time() - start

    wp._src.context.Module.load = load
    sys.addaudithook(audit)
    for line in sys.stdin:
        path = pathlib.Path(line.rstrip("\n"))
        start, found = time.process_time(), {"outcome": "stepped", "flags": 0}
        compiled[0] = 0.0
        opened.clear()
        try:
            model = ws.load(path, unsupported="report")
            found["outcome"] = "loaded"
            sim = ws.Simulator(model, WORLDS, device="cpu", threads=1)
            state = sim.state()
            for _ in range(STEPS):
                state = sim.step(state)
            found |= {"outcome": "stepped", "flags": int(state.memory["flags"].numpy().max())}
        except ValueError as error:  # a ModelError is one
            message = str(error)
            found |= {
                "outcome": "refused" if found["outcome"] == "stepped" else "loaded, refused",
                "message": message[:300],
            }
            found["named"] = path.name in message or found["outcome"] != "refused"
            found["long"] = len(message) > 4000
        except Exception as error:
            found |= {"outcome": "exception", "message": f"{type(error).__name__}: {error}"[:400]}
        found |= {"seconds": time.process_time() - start - compiled[0], "compiling": compiled[0], "opened": opened[:3]}
        answers.write(json.dumps(found) + "\n")
        answers.flush()


class Worker:
    """A process that answers for one file after the other, replaced when it ends."""

    def __init__(self, folder: pathlib.Path):
        self.folder, self.process = folder, None

    def ask(self, path: pathlib.Path) -> dict:
        if self.process is None or self.process.poll() is not None:
            command = [sys.executable, "-m", "benchmarks.mutants", "--worker", str(self.folder)]
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
            self.process = subprocess.Popen(command, text=True, **pipes)
        self.process.stdin.write(f"{path}\n")
        self.process.stdin.flush()
        ready, _, _ = select.select([self.process.stdout], [], [], SILENCE)
        line = self.process.stdout.readline() if ready else ""
        if line:
            found = json.loads(line)
            return found | ({"outcome": "hang"} if found["seconds"] > SECONDS else {})
        self.process.kill()
        code = self.process.wait()
        return {
            "outcome": "crash" if ready else "hang",
            "message": f"exit code {code}",
            "seconds": SILENCE,
            "opened": [],
        }

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=pathlib.Path, help="where findings are kept")
    parser.add_argument("--worker", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=pathlib.Path)
    a = parser.parse_args()
    if a.worker:
        worker(a.worker)
        return 0
    rng, begun, findings = random.Random(a.seed), time.perf_counter(), []
    outside = pathlib.Path(tempfile.mkdtemp()).resolve()
    folder = outside / "more" / "robots"
    folder.mkdir(parents=True)
    (folder / "part.stl").write_text(STL)
    canaries = [outside / "more" / f"canary.{s}" for s in ("stl", "xml", "obj")] + [
        outside / f"canary.{s}" for s in ("stl", "xml", "obj")
    ]
    for canary in canaries:
        canary.write_text(
            STL
            if canary.suffix == ".stl"
            else "<mujoco/>"
            if canary.suffix == ".xml"
            else "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 2 3\nf 1 2 4\nf 1 3 4\nf 2 3 4\n"
        )
        os.utime(canary, (1e9, canary.stat().st_mtime))  # older than the file: the next read is noted
    given, counts, helper, slowest = (
        sources(folder, rng),
        collections.defaultdict(collections.Counter),
        Worker(folder),
        0.0,
    )
    for number in range(a.count):
        suffix = rng.choices(("xml", "urdf", "usda"), (6, 3, 1))[0]
        text, kinds = mutant(rng.choice(given[suffix]), rng)
        path = folder / f"mutant{number}.{suffix}"
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
        found = helper.ask(path)
        read = [str(c) for c in canaries if c.stat().st_atime > 1e9 + 1]
        for canary in read:
            os.utime(canary, (1e9, os.stat(canary).st_mtime))
        counts[suffix][found["outcome"]] += 1
        slowest = max(slowest, found["seconds"])
        wrong = (
            found["outcome"] in ("crash", "hang", "exception")
            or read
            or found["opened"]
            or not found.get("named", True)
            or found.get("long")
        )
        if wrong:
            findings.append({"number": number, "suffix": suffix, "kinds": kinds, "read": read} | found)
            print(findings[-1], flush=True)
            if a.keep:
                a.keep.mkdir(exist_ok=True)
                (a.keep / path.name).write_bytes(path.read_bytes())
        path.unlink()
        if number % 500 == 499:
            print(
                number + 1, {s: dict(c) for s, c in counts.items()}, f"{time.perf_counter() - begun:.0f} s", flush=True
            )
    helper.close()
    result = {
        "machine": machine(wp.get_device("cpu")),
        "seed": a.seed,
        "counts": {s: dict(c) for s, c in counts.items()},
        "slowest": slowest,
        "findings": findings,
    }
    result["seconds"] = time.perf_counter() - begun
    print(markdown(result))
    if a.out:
        (a.out / "mutants.json").write_text(json.dumps(result, indent=1) + "\n")
        (a.out / "mutants.md").write_text(markdown(result))
    return 1 if findings else 0


def markdown(result: dict) -> str:
    outcomes = ("stepped", "refused", "loaded, refused", "exception", "crash", "hang")
    lines = [
        "# Damaged robot files",
        "",
        "| format | files | " + " | ".join(outcomes) + " |",
        "|---" * (len(outcomes) + 2) + "|",
    ]
    for suffix, found in result["counts"].items():
        total = sum(found.values())
        lines.append(f"| {suffix} | {total:,} | " + " | ".join(f"{found.get(o, 0):,}" for o in outcomes) + " |")
    xml = result["counts"].get("xml", {})
    share = 100 * xml.get("stepped", 0) / max(1, sum(xml.values()))
    read = sum(bool(f["read"] or f["opened"]) for f in result["findings"])
    lines += [
        "",
        f"{share:.0f} % of the MJCF mutants load and step; reads outside: {read}; other findings: {len(result['findings']) - read}; slowest {result['slowest']:.1f} s of processor time.",
    ]
    m = result["machine"]
    return "\n".join([*lines, f"Seed {result['seed']}. {m['date']}, {m['processor']}, {m['cores']} cores", ""])


if __name__ == "__main__":
    sys.exit(main())
