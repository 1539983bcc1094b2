# SPDX-License-Identifier: Apache-2.0
"""Open a USD stage that reads nothing outside the model's folder; its units and axes.

USD composes a stage of layers: sublayers, references, payloads, value clips. Every layer is checked before the stage is
composed, and refused if it names a file outside the folder. USD's reader of binary files can crash on a damaged file
(measured: 1 in some hundred files with flipped bits). So files that are binary layers, or name layers, are first read
to the end in a child process, which takes half a second. USD's reader of text recurses, so the depth of brackets and
the levels of paths are counted first.
"""

import collections
import os
import pathlib
import re
import signal
import subprocess
import zipfile

import numpy as np

from warpsim.base.checks import short
from warpsim.base.errors import ModelError
from warpsim.files.child_python import run_python
from warpsim.files.limits import MAX_USD_BYTES, MAX_USDA_DEPTH
from warpsim.files.safe_files import Folders, missing
from warpsim.model.geometry import rotation_matrix

TEXT = b"#usda"
OPENED = re.compile(rb"""\"{3}|'{3}|["']|@@@|@|\#|//|/\*""")
CLOSED = {  # strings, file names and comments: brackets in them do not count
    b'"""': re.compile(rb"""[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*+""", re.DOTALL),
    b"'''": re.compile(rb"""[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*+""", re.DOTALL),
    b'"': re.compile(rb'[^"\\\n]*(?:\\.[^"\\\n]*)*+', re.DOTALL),
    b"'": re.compile(rb"[^'\\\n]*(?:\\.[^'\\\n]*)*+", re.DOTALL),
    b"@@@": re.compile(rb"[^@]*(?:@(?!@@)[^@]*)*+"),
    b"@": re.compile(rb"[^@\n]*"),
    b"/*": re.compile(rb"[^*]*(?:\*(?!/)[^*]*)*+"),
    b"#": re.compile(rb"[^\n]*"),
    b"//": re.compile(rb"[^\n]*"),
}
PATHS = re.compile(rb"<[^>]*>")
BRACKETS = np.zeros(256, np.int64)
BRACKETS[list(b"([{")], BRACKETS[list(b")]}")] = 1, -1
DEPTH_BLOCK = 2**22
MAX_LAYERS = 200
PROBE_SECONDS = 300.0
MAX_PRIMS = 200_000
MAX_COMPOSED = 1_000_000  # prims, if each variant and each reference counts
MAX_SCHEMAS = 256  # applied to one prim: USD's time grows with the square of their number
# references, payloads, inherits, specializes from prim to prim: USD's time grows with the cube of their number
MAX_CHAIN = 32
FLIP_UP = {"Z": (1.0, 0.0, 0.0, 0.0), "Y": (np.sqrt(0.5), np.sqrt(0.5), 0.0, 0.0)}  # rotation to z up


def open_stage(path: pathlib.Path, packages=None, root=None):
    """Open a stage. Raises `ModelError` for a file that is broken, too large, or reads outside the model's folder."""
    _check_file(path)
    _check_depth(str(path))
    if not _plain_text(path):
        _survive(path, packages, root)
    return _open(path, packages, root)


def _plain_text(path: pathlib.Path) -> bool:
    """Whether a file is a text layer that names no file and is not deep, however its quotes are read."""
    data = path.read_bytes()
    return data.startswith(TEXT) and b"@" not in data and max(_depth(data), _levels(data)) <= MAX_USDA_DEPTH


def _check_depth(name: str) -> None:
    """Raise `ModelError` if text in a layer's file or in a .usdz is nested too deep, or has too deep a path."""
    for inner, data in _texts(name):
        where = f"{name}[{inner}]" if inner else name
        for count, what in ((_depth, "nested"), (_levels, "a path in < >")):
            depth = count(_bare(data)) if count(data) > MAX_USDA_DEPTH else 0
            if depth > MAX_USDA_DEPTH:
                raise ModelError(f"{where}: {what} {depth} levels deep, more than the limit of {MAX_USDA_DEPTH}")


def _texts(name: str):
    """(name inside, content) of the text layers in a file; the name is "" unless the file is a package."""
    with open(name, "rb") as file:
        start = file.read(len(TEXT))
        if start == TEXT:
            yield "", start + file.read(MAX_USD_BYTES)
            return
    if start[:2] == b"PK":
        try:
            with zipfile.ZipFile(name) as archive:
                for info in archive.infolist():
                    if info.compress_type == zipfile.ZIP_STORED and info.file_size <= MAX_USD_BYTES:
                        data = archive.read(info)
                        if data.startswith(TEXT):
                            yield info.filename, data
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, ValueError):
            return  # USD reports the error


def _depth(data: bytes) -> int:
    """The largest number of brackets that any stretch of a text opens and does not close."""
    level = lowest = deepest = 0
    for start in range(0, len(data), DEPTH_BLOCK):
        levels = level + np.cumsum(BRACKETS[np.frombuffer(data, np.uint8, min(DEPTH_BLOCK, len(data) - start), start)])
        lows = np.minimum(np.minimum.accumulate(levels), lowest)
        deepest = max(deepest, int((levels - lows).max()))
        level, lowest = int(levels[-1]), int(lows[-1])
    return deepest


def _levels(data: bytes) -> int:
    """The largest number of levels of a path between < and > in a text; prims, targets and variants count."""
    # the search ends at the last >, so that each < finds its > without a search to the end of the text
    paths = PATHS.finditer(data, 0, data.rfind(b">") + 1)
    return max((sum(map(found.group().count, (b"/", b"[", b"{"))) for found in paths), default=0)


def _bare(data: bytes) -> bytes:
    """A text without its strings, file names and comments, in time proportional to its size.

    An opening that is never closed stays as text. If a search found no closing, an opening before its end is not
    searched again: that search would end at the same place.
    """
    parts, at, copied, ended = [], 0, 0, dict.fromkeys(CLOSED, 0)
    while found := OPENED.search(data, at):
        at = found.start() + 1
        for opening in dict.fromkeys((found.group(), found.group()[:1])):
            start = found.start() + len(opening)
            if opening not in CLOSED or start <= ended[opening]:
                continue
            end = CLOSED[opening].match(data, start).end()
            closing = {b"/*": b"*/", b"#": b"", b"//": b""}.get(opening, opening)
            if data.startswith(closing, end):
                at = end + len(closing)
                parts.append(data[copied : found.start()])
                copied = at
                break
            ended[opening] = end
    return b"".join([*parts, data[copied:]])


def _survive(path: pathlib.Path, packages, root) -> None:
    """Raise `ModelError` if a child process that reads a stage (`probe`) crashes or takes too long."""
    folders = [os.fspath(folder) for folder in dict(packages or {}).values()]
    code = "import sys; from warpsim.files.usd.usd_open import probe; probe(*sys.argv[1:])"
    try:
        ended = run_python(code, str(path), "" if root is None else os.fspath(root), *folders, seconds=PROBE_SECONDS)
    except subprocess.TimeoutExpired:
        raise ModelError(f"{path}: USD reads it for more than {PROBE_SECONDS} s") from None
    if ended < 0:
        raise ModelError(f"{path}: damaged: USD's reader crashes on it (signal {-ended})")


def probe(path: str, root: str, *folders: str) -> None:
    """Read metadata, attributes and targets of relations of all prims of a stage, at the default time.

    Errors are ignored: `open_stage` meets them again in the calling process. Samples at other times are not read.

    A crash must end the process at once, so crash handlers are reset: one that prints stacks may wait forever if memory
    is damaged.
    """
    from pxr import Usd

    for fatal in ("SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT"):
        if hasattr(signal, fatal):
            signal.signal(getattr(signal, fatal), signal.SIG_DFL)
    try:
        stage = _open(pathlib.Path(path), dict(enumerate(folders)), root or None)
        for prim in Usd.PrimRange(stage.GetPseudoRoot(), Usd.TraverseInstanceProxies()):
            for read in (prim.GetCustomData, prim.GetAllMetadata, *(p.Get for p in prim.GetAttributes())):
                _quietly(read)
            for relation in prim.GetRelationships():
                _quietly(relation.GetTargets)
    except Exception:
        return


def _quietly(read) -> None:
    try:
        read()
    except Exception:
        return


def _open(path: pathlib.Path, packages=None, root=None):
    """Open a stage in this process."""
    try:
        from pxr import Sdf, Tf, Usd
    except ImportError:
        raise ModelError(f"{path}: reading USD needs usd-core: pip install usd-core") from None
    folders, name = Folders(path, packages, root), str(path.absolute())
    try:
        _check_layers(Sdf, path, folders)
        _Population(Sdf, path).check(Sdf.Layer.FindOrOpen(name))
        stage = Usd.Stage.Open(Sdf.Layer.FindOrOpen(name), Usd.Stage.LoadAll)
    except Tf.ErrorException as error:
        raise ModelError(f"{path}: USD cannot open it: {usd_words(error)}") from None
    if stage is None:
        raise ModelError(f"{path}: USD cannot open it")
    broken = [" ".join(str(error).split()) for error in stage.GetCompositionErrors()]
    if broken:
        more = f", and {len(broken) - 1} more" if len(broken) > 1 else ""
        raise ModelError(
            f"{path}: references or layers that lead nowhere: {broken[0][:300]}{more}; mend or remove them"
        )
    return stage


def usd_words(error: Exception) -> str:
    """The message of a USD exception, without the place in USD's source."""
    try:
        said = [str(e.commentary) for e in error.args if hasattr(e, "commentary")]
    except UnicodeDecodeError:
        return "text that is not UTF-8"  # USD quotes the text as it is
    words = re.sub(
        r"parse error matching \S*pxrInternal.*", "text that cannot be parsed", "; ".join(said or [str(error)])
    )
    return " ".join(words.split())[:300]


def _check_file(path: pathlib.Path) -> None:
    try:
        size = path.stat().st_size if path.is_file() else None
    except (OSError, ValueError) as error:
        raise ModelError(f"{path}: cannot be read: {error}") from None
    if size is None:
        raise ModelError(f"{path}: {missing(path)}")
    if not 0 < size <= MAX_USD_BYTES:
        raise ModelError(f"{path}: {size} bytes; a USD file has 1 to {MAX_USD_BYTES}")


def _check_layers(Sdf, path: pathlib.Path, folders: Folders) -> None:
    """Check every layer that the stage would be composed of."""
    waiting, seen = [str(path.absolute())], set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        if len(seen) > MAX_LAYERS:
            raise ModelError(f"{path}: made of more than {MAX_LAYERS} layers")
        outer = name if os.path.isfile(name) else name.split("[", 1)[0]
        if os.path.isfile(outer):
            _check_depth(outer)
        layer = Sdf.Layer.FindOrOpen(name)
        if layer is None:
            raise ModelError(f"{path}: USD cannot read the layer {short(name)}")
        if not layer.dirty:
            layer.Reload()  # another holder may keep the layer as it was before its file changed
        if _has_clips(layer):
            raise ModelError(f"{path}: layer {short(name)} has value clips, which are not read; flatten the stage")
        for asset in layer.GetCompositionAssetDependencies():
            if not asset:
                continue  # a prim of the same layer
            if asset.startswith("`"):
                raise ModelError(
                    f"{path}: layer {name} names a layer by the expression {asset[:60]}; flatten the stage"
                )
            absolute = _checked(layer.ComputeAbsolutePath(asset), name, path, folders, asset)
            waiting.append(absolute)


def _checked(absolute: str, name: str, path: pathlib.Path, folders: Folders, asset: str) -> str:
    """The identifier by which USD will open a layer that layer `name` names. Raises `ModelError` if it may not be read.

    An identifier that is still relative would be looked up in USD's search path, which starts in the working directory.
    """
    outer = absolute.split("[", 1)[0]
    if os.path.isabs(outer) and outer == name.split("[", 1)[0]:
        return absolute  # inside the same package
    what = f"{path}: layer {short(name)} names {short(asset)}"
    if not os.path.isabs(outer) or ":SDF_FORMAT_ARGS:" in absolute:
        raise ModelError(
            f"{what}: no such file beside that layer, and none is looked for elsewhere; give its path from that layer, "
            "./… or ../…"
        )
    if str(folders.find(outer)) != os.path.realpath(outer):
        raise ModelError(f"{what}: a name that leads to different files, no such file is read; rename it")
    return absolute


class _Population:
    """Upper bound of the number of prims in a stage: references nested n deep, two at each level, are 2^n prims.

    Counts every arc (references, payloads, inherits, specializes, variants) as if all were composed.
    """

    LISTS = ("referenceList", "payloadList", "inheritPathList", "specializesList")

    def __init__(self, Sdf, path):
        self.Sdf, self.path = Sdf, path
        self.sizes: dict[tuple[str, str], int] = {}
        self.stacks: dict[str, list] = {}
        # schemas applied to each prim, with those of the prims it refers to
        self.schemas: collections.Counter = collections.Counter()
        self.chains: collections.Counter = collections.Counter()  # the longest chain of references from each prim

    def check(self, layer) -> None:
        try:
            total = self.size(layer, self.Sdf.Path.absoluteRootPath)
        except RecursionError:
            raise ModelError(f"{self.path}: prims nested too deep") from None
        if total > MAX_COMPOSED:
            raise ModelError(f"{self.path}: its references stand for more than {MAX_COMPOSED} prims")

    def stack(self, layer) -> list:
        """A layer and all its sublayers."""
        if layer.identifier not in self.stacks:
            found, waiting = {}, [layer]
            while waiting:
                this = waiting.pop()
                if this is not None and this.identifier not in found:
                    found[this.identifier] = this
                    names = map(this.ComputeAbsolutePath, this.subLayerPaths)
                    waiting += [self.Sdf.Layer.FindOrOpen(name) for name in names]
            self.stacks[layer.identifier] = list(found.values())
        return self.stacks[layer.identifier]

    def size(self, layer, path, specs=None) -> int:
        """Number of prims that a path in a layer and its sublayers expands to; `specs` are its opinions there."""
        key = (layer.identifier, str(path))
        if key in self.sizes:
            return self.sizes[key]
        if specs is None:
            specs = [found for each in self.stack(layer) if (found := each.GetPrimAtPath(path))]
        self.sizes[key] = 0  # ends a cycle, which USD reports
        total, inside = int(bool(specs)), collections.defaultdict(list)
        for spec in specs:
            for child in spec.nameChildren:
                inside[child.path].append(child)
            if path == self.Sdf.Path.absoluteRootPath:
                continue
            self._apply(key, _applied(spec))
            for name in self.LISTS:
                for item in getattr(spec, name).ApplyEditsToList([]):
                    total += self.target(key, layer, spec.layer, item)
            for group in spec.variantSets:
                those = [variant.primSpec.path for variant in group.variants]
                total += sum(self.size(layer, place) for place in those)
                self._join(key, [(layer.identifier, str(place)) for place in those], 0)
        total += sum(self.size(layer, place, those) for place, those in inside.items())
        self.sizes[key] = total
        return total

    def _apply(self, key, count: int) -> None:
        self.schemas[key] += count
        if self.schemas[key] > MAX_SCHEMAS:
            raise ModelError(f"{self.path}: {short(key[1])} has more than {MAX_SCHEMAS} applied schemas")

    def _join(self, key, others, arcs: int) -> None:
        """Record that a prim is composed of one of `others`, over `arcs` arcs."""
        self._apply(key, max((self.schemas[other] for other in others), default=0))
        self.chains[key] = max((self.chains[key], *(self.chains[other] + arcs for other in others)))
        if self.chains[key] > MAX_CHAIN:
            raise ModelError(
                f"{self.path}: {short(key[1])} refers to a prim that refers to another, over more than {MAX_CHAIN} "
                "prims; flatten the stage"
            )

    def target(self, key, layer, author, item) -> int:
        """Number of prims that the target of an arc expands to; the sublayer `author` of `layer` names the target."""
        place = item
        if not isinstance(item, self.Sdf.Path):
            if item.assetPath:
                layer = self.Sdf.Layer.FindOrOpen(author.ComputeAbsolutePath(item.assetPath))
            place = item.primPath
            if not place and layer and layer.defaultPrim:
                place = self.Sdf.Path.absoluteRootPath.AppendPath(layer.defaultPrim)
        if not layer or not place:
            return 0
        total = self.size(layer, place)
        self._join(key, [(layer.identifier, str(place))], 1)
        return total


def _applied(spec) -> int:
    """Number of schemas that a prim's own opinion applies."""
    if not spec.HasInfo("apiSchemas"):
        return 0
    lists = spec.GetInfo("apiSchemas")
    return sum(map(len, (lists.explicitItems, lists.prependedItems, lists.appendedItems, lists.addedItems)))


def _has_clips(layer) -> bool:
    found = []

    def look(place):
        spec = layer.GetObjectAtPath(place)
        if spec is not None and hasattr(spec, "HasInfo") and (spec.HasInfo("clips") or spec.HasInfo("clipSets")):
            found.append(place)

    layer.Traverse("/", look)
    return bool(found)


class Units:
    """Conversion from a stage's units and up axis to metres, kilograms and z up."""

    def __init__(self, stage):
        from pxr import UsdGeom, UsdPhysics

        self.length = float(UsdGeom.GetStageMetersPerUnit(stage))
        self.mass = float(UsdPhysics.GetStageKilogramsPerUnit(stage))
        for name, value in (("metersPerUnit", self.length), ("kilogramsPerUnit", self.mass)):
            if not (np.isfinite(value) and 1e-9 <= value <= 1e9):
                raise ModelError(f"{name} is {value:g}; it must be a positive number")
        self.up_axis = str(UsdGeom.GetStageUpAxis(stage))
        self.up = rotation_matrix(FLIP_UP.get(self.up_axis, FLIP_UP["Z"]))

    def matrix(self, transform) -> np.ndarray:
        """A USD transform to the world as a 4x4 matrix that acts on columns, in metres and with z up."""
        m = np.array(transform, float).T
        if not np.isfinite(m).all():
            raise ModelError("a transform is not finite")
        result = np.eye(4)
        result[:3, :3] = self.up @ m[:3, :3]
        result[:3, 3] = self.up @ m[:3, 3] * self.length
        return result


def prototypes(stage) -> set:
    """Paths outside the default prim that references of this stage copy into it."""
    default = stage.GetDefaultPrim()
    found, layers = set(), set(stage.GetLayerStack())
    for prim in stage.Traverse() if default else ():
        if prim.HasAuthoredReferences() and prim.GetPath().HasPrefix(default.GetPath()):
            for spec in prim.GetPrimStack():
                if spec.layer in layers:
                    found |= {x.primPath for x in spec.referenceList.GetAppliedItems() if not x.assetPath}
    own = default.GetPath() if default else None
    return {path for path in found if path.IsAbsolutePath() and not path.HasPrefix(own) and not own.HasPrefix(path)}
