# SPDX-License-Identifier: Apache-2.0
"""Write layers beside their destination and move them there when they are whole: one file, or a folder of value clips.

A saved `.usdc` layer drops its time samples from memory, so memory does not grow with the number of frames. `.usda` is
text and stays in memory until the end.
"""

import contextlib
import os
import pathlib
import re

from warpsim.base.checks import short, whole
from warpsim.files.output import check_file, check_folder, replacing, target, usual_mode
from warpsim.files.usd.usd_textures import Images

SAVE_BYTES = 16 * 2**20  # bytes of time samples between two saves of the layer
SUFFIXES = (".usd", ".usdc", ".usda", ".usdz")
CLIPS = ("stage.usda", "topology.usdc", "manifest.usda")  # files in a folder of clips, beside clip_0000.usdc …
CLIP = re.compile(r"clip_\d{4,}\.usdc")
COPIED = ("upAxis", "metersPerUnit", "kilogramsPerUnit", "defaultPrim", "startTimeCode", "endTimeCode", "comment")
COPIED += ("timeCodesPerSecond", "framesPerSecond")  # metadata of a stage
ROOT = "/World"
ARGUMENTS = ":SDF_FORMAT_ARGS:"  # text after it in a path are arguments of the file format
TEXTURES = "textures"  # name of the folder of images beside clips


class Output:
    """Writes a layer and its time samples to `path`; on an error nothing is left behind.

    A failed write of OpenUSD, as on a full disk, becomes an `OSError` that names the file.
    """

    def __init__(self, path):
        self.path = check_file(path, SUFFIXES)
        check_readable(self.path)

    def __enter__(self):
        from pxr import Sdf

        self._stack = contextlib.ExitStack()
        with self._stack:  # the stack undoes everything if opening fails
            self._stack.enter_context(_told(self.path))
            self._done = self._stack.enter_context(replacing(self.path))
            self._mode = usual_mode(self._done.parent)
            self.partial = str(self._begin())
            self.layer = Sdf.Layer.CreateNew(self.partial)
            self.unsaved, self.images = 0, Images(self._images_folder())
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, kind, error, trace):
        if kind is not None:
            self._close()
            return self._stack.__exit__(kind, error, trace)
        with self._stack:
            self.save()
            self._close()
            self._finish()
        self._reload()
        return None

    def sample(self, attribute, value, frame: int, count: int) -> None:
        """Set an attribute's value, of `count` bytes, at a frame; save the layer after every `SAVE_BYTES`."""
        self.layer.SetTimeSample(attribute.GetPath(), float(frame), value)
        self.unsaved += count
        if self.unsaved >= SAVE_BYTES and not self.partial.endswith(".usda"):
            self.save()

    def begins(self, frame: int) -> bool:
        """Whether a file begins with this frame; every attribute then needs a value."""
        return frame == 0

    def ends(self, frame: int) -> bool:
        """Whether a file ends with this frame; every attribute then needs a value.

        Without one, USD would interpolate towards the value in the next file.
        """
        return False

    def save(self) -> None:
        """Save the samples so far."""
        _save(self.layer)
        self.unsaved = 0

    def _images_folder(self) -> str:
        return f"{self.path.stem}_textures"

    def _begin(self) -> pathlib.Path:
        suffix = ".usdc" if self.path.suffix == ".usdz" else self.path.suffix
        return self._done.with_name(f"layer{suffix}")

    def _close(self) -> None:
        self.layer = None

    def _finish(self) -> None:
        from pxr import Sdf, UsdUtils

        if self.path.suffix != ".usdz":
            self.images.write(target(self.path).parent)
            os.replace(self.partial, self._done)
        else:
            self.images.write(self._done.parent)
            if not UsdUtils.CreateNewUsdzPackage(Sdf.AssetPath(self.partial), str(self._done)):
                raise OSError("the usdz package could not be made; is the disk full?")
        os.chmod(self._done, self._mode)

    def _reload(self) -> None:
        _reload(self.path)


class ClipOutput(Output):
    """Writes a folder of value clips of at most `frames` frames each.

    `stage.usda` is the file to open; `topology.usdc` has all that does not move. Beside them are `manifest.usda` and
    the clips `clip_0000.usdc` …
    """

    def __init__(self, path, frames: int):
        self.frames = whole(frames, "frames_per_file", 1)
        self.path = check_folder(path)
        check_readable(self.path, "\\")
        if self.path.suffix in SUFFIXES:
            raise ValueError(f"{self.path}: frames_per_file writes a folder; give a name without {self.path.suffix}")
        if self.path.is_dir() and not all(_is_ours(file) for file in self.path.iterdir()):
            raise ValueError(f"{self.path} holds something else than a stage in clips; give another name, or remove it")

    def sample(self, attribute, value, frame: int, count: int) -> None:
        """Set an attribute's value, of `count` bytes, in the clip of the frame."""
        path = attribute.GetPath()
        if frame // self.frames != self._index:
            self._turn(frame // self.frames)
        if path not in self._declared[self._index]:
            self._declared[self._index].add(path)
            _declare(self._clip, attribute)
            if path not in self._moving:
                self._moving.add(path)
                _declare(self._manifest, attribute)
        self._clip.SetTimeSample(path, float(frame), value)
        self.unsaved += count
        if self.unsaved >= SAVE_BYTES:
            self.save()

    def begins(self, frame: int) -> bool:
        """Whether a clip begins with this frame; every attribute then needs a value."""
        return frame % self.frames == 0

    def ends(self, frame: int) -> bool:
        """Whether a clip ends with this frame; every attribute then needs a value.

        Without one, USD would interpolate towards the value in the next clip.
        """
        return (frame + 1) % self.frames == 0

    def save(self) -> None:
        """Save the samples so far."""
        for layer in (self.layer, self._clip):
            if layer is not None:
                _save(layer)
        self.unsaved = 0

    def _images_folder(self) -> str:
        return TEXTURES

    def _begin(self) -> pathlib.Path:
        from pxr import Sdf

        self._done.mkdir()
        os.chmod(self._done, _folder_mode(self._mode))
        self._index, self._clip, self._declared, self._moving = -1, None, {}, set()
        self._manifest = Sdf.Layer.CreateAnonymous("manifest.usda")
        return self._done / "topology.usdc"

    def _turn(self, index: int) -> None:
        """Continue in the clip with this index."""
        from pxr import Sdf

        self.save()
        name = str(self._done / f"clip_{index:04d}.usdc")
        known = index in self._declared
        self._declared.setdefault(index, set())
        self._index, self._clip = index, Sdf.Layer.FindOrOpen(name) if known else Sdf.Layer.CreateNew(name)

    def _close(self) -> None:
        self.layer = self._clip = None

    def _finish(self) -> None:
        from pxr import Sdf

        topology = Sdf.Layer.FindOrOpen(self.partial)
        stage = Sdf.Layer.CreateAnonymous("stage.usda")
        stage.subLayerPaths.append("./topology.usdc")
        for key in COPIED:
            if topology.pseudoRoot.HasInfo(key):
                stage.pseudoRoot.SetInfo(key, topology.pseudoRoot.GetInfo(key))
        if self._declared:
            if not self._manifest.Export(str(self._done / "manifest.usda")):
                raise OSError("the manifest could not be written")
            world = Sdf.CreatePrimInLayer(stage, ROOT)
            world.SetInfo("clips", self._clip_data(topology.pseudoRoot.GetInfo("endTimeCode")))
        if not stage.Export(str(self._done / "stage.usda")):
            raise OSError("the stage could not be written")
        for file in self._done.iterdir():
            os.chmod(file, self._mode)
        self.images.write(self._done, self._mode)

    def _clip_data(self, end: float) -> dict:
        """The clip metadata of `ROOT`; the times of the clips are those of the stage."""
        from pxr import Gf, Sdf, Vt

        count = len(self._declared)
        return {
            "default": {
                "assetPaths": Sdf.AssetPathArray([Sdf.AssetPath(f"./clip_{k:04d}.usdc") for k in range(count)]),
                "primPath": ROOT,
                "active": Vt.Vec2dArray([Gf.Vec2d(k * self.frames, k) for k in range(count)]),
                "times": Vt.Vec2dArray([Gf.Vec2d(0, 0), Gf.Vec2d(end, end)][: 2 if end > 0 else 1]),
                "manifestAssetPath": Sdf.AssetPath("./manifest.usda"),
            }
        }

    def _reload(self) -> None:
        for file in self.path.iterdir():
            if file.is_file():
                _reload(file)


def _is_ours(file: pathlib.Path) -> bool:
    """Whether a file belongs to a folder of clips."""
    return file.name in CLIPS or bool(CLIP.fullmatch(file.name)) or (file.name == TEXTURES and file.is_dir())


def check_readable(path: pathlib.Path, also: str = "") -> None:
    """Raise `ValueError` for a path that OpenUSD can write but not read.

    Such a path has control characters, format arguments, or one of the characters in `also`.
    """
    full = str(path.absolute())
    wrong = [c for c in full if ord(c) < 32 or 127 <= ord(c) < 160 or c in also]
    wrong += [ARGUMENTS] if ARGUMENTS in full else []
    if wrong:
        raise ValueError(f"{short(full)}: OpenUSD cannot read a path with {short(wrong[0])}; give another name")


def _declare(layer, attribute) -> None:
    """Declare an attribute in a layer, without a value."""
    from pxr import Sdf

    spec = Sdf.JustCreatePrimAttributeInLayer(
        layer, attribute.GetPath(), attribute.GetTypeName(), attribute.GetVariability(), attribute.IsCustom()
    )
    if not spec:
        raise OSError(f"{attribute.GetPath()} could not be declared")


def _folder_mode(mode: int) -> int:
    """Permissions of a folder whose files have `mode`."""
    return mode | ((mode & 0o444) >> 2)


def _save(layer) -> None:
    if not layer.Save():
        raise OSError("the layer could not be saved")


def _reload(path) -> None:
    """Read again what is in memory of a file that was replaced."""
    from pxr import Sdf

    stale = Sdf.Layer.Find(str(path))
    if stale:
        stale.Reload(force=True)


@contextlib.contextmanager
def _told(path):
    """Turn errors of USD into an `OSError` that names the path."""
    from pxr import Tf

    try:
        yield
    except Tf.ErrorException as error:
        found = re.findall(r" : '(.*?)'\s*$", str(error), flags=re.MULTILINE)
        why = "; ".join(dict.fromkeys(found)) or " ".join(str(error).split())
        raise OSError(f"{path} could not be written: {why}") from None
