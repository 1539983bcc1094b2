# SPDX-License-Identifier: Apache-2.0
"""`Trajectory.to_video`: an MP4 in real time, drawn by the ray caster of pictures and encoded by PyAV.

Frames are drawn on all cores, a few at a time. One ant at 640 x 360 takes about a tenth of a second of processor time
per frame.
"""

import concurrent.futures
import fractions
import warnings

import numpy as np

from warpsim.base.checks import flag, number, positive, short, whole
from warpsim.base.extras import import_or_explain
from warpsim.device.cores import usable_cores
from warpsim.files.output import check_file, replacing
from warpsim.files.scene import fit_view, frame_rows, grid_origins, horizontal_planes, roomy_spacing, shown_spheres
from warpsim.model.host_kinematics import body_poses
from warpsim.show.render import Camera, quick_image, solids_of
from warpsim.state.trajectory import warn_undrawn, world_indices

SUFFIXES = (".mp4",)
WORLDS = 9  # most worlds drawn unless others are chosen
LARGEST = 8192  # pixels of a side
QUALITY = "20"  # CRF of x264; 23 is its default, smaller is better
LOOKED_AT = 60  # most frames by which the camera is placed
SMOOTH = 0.3  # [s] standard deviation of the camera's path about that of the robots


def check_video(path):
    """`path` as the name of a video that can be written here. Raises `ValueError`, or `ImportError` without PyAV."""
    path = check_file(path, SUFFIXES)
    import_or_explain("av", "video")
    return path


def write_video(
    trajectory,
    path,
    worlds=None,
    fps: float = 30.0,
    width: int = 640,
    height: int = 360,
    *,
    camera: Camera | None = None,
    follow: bool = True,
    spacing: float | None = None,
    progress=None,
) -> None:
    """Write an MP4 (H.264) of a trajectory in real time; options are those of `Trajectory.to_video`."""
    path = check_video(path)
    for name, value in (("width", width), ("height", height)):
        if whole(value, name, 16) % 2 or value > LARGEST:
            raise ValueError(f"{name} is {value}; H.264 needs an even number, here of at most {LARGEST}")
    if camera is not None and not isinstance(camera, Camera):
        raise ValueError(f"camera is {short(camera)}; give a Camera(eye, target)")
    number(fps, "fps", "give a rate [1/s] from 1 to 240", lambda x: 1.0 <= x <= 240.0)
    follow = flag(follow, "follow")
    options = {"camera": camera, "follow": follow, "spacing": spacing}
    draw, frames, rate = drawn_frames(trajectory, worlds, fps, width, height, **options)
    with replacing(path) as new:
        _encode(draw, frames, rate, width, height, new, progress)


def drawn_frames(
    trajectory, worlds, fps: float, width: int, height: int, *, camera=None, follow: bool = True, spacing=None
):
    """A function that draws frame k as `(height, width, 3)` uint8, the number of frames, and frames per second."""
    model = trajectory.model
    chosen = world_indices(min(WORLDS, trajectory.worlds) if worlds is None else worlds, trajectory.worlds)
    rows, rate = frame_rows(trajectory.clock(), fps)
    q = _finite(trajectory.rows("q", rows)[:, chosen], model.q0)
    mocap = None if trajectory.mocap is None else trajectory.rows("mocap", rows)[:, chosen]
    spacing = roomy_spacing(model, q[-1], _row(mocap, -1)) if spacing is None else positive(spacing, "spacing", "m")
    warn_undrawn(trajectory, 4)
    origins = grid_origins(len(chosen), spacing)
    cameras = _cameras(model, q, mocap, origins, camera, follow, width / height, rate)
    return _drawing(model, q, mocap, origins, cameras, width, height), len(rows), rate


def _row(mocap, k: int):
    """Poses of the mocap bodies at frame k, if there are any."""
    return None if mocap is None else mocap[k]


def _finite(q, q0) -> np.ndarray:
    """Positions in which a world that is not finite stays where it was last."""
    q, bad = np.array(q, float), ~np.isfinite(q).all(axis=2)
    for k in np.flatnonzero(bad.any(axis=1)):
        q[k, bad[k]] = q[k - 1, bad[k]] if k else q0
    if bad.any():
        warnings.warn(
            f"{int(bad.any(axis=0).sum())} worlds are not finite in some of the {len(q)} frames; they are drawn where "
            "they were last",
            stacklevel=5,
        )
    return q


def _cameras(model, q, mocap, origins, camera, follow: bool, aspect: float, rate: float) -> list[Camera]:
    """A camera for each frame. One that follows keeps its direction and distance, and moves with the worlds' mean."""
    frames = len(q)
    path = np.zeros((frames, 3))
    if follow and model.nbody:
        places = [body_poses(model, q[k], _row(mocap, k))[..., :2].mean((0, 1)) for k in range(frames)]
        path[:, :2] = _smoothed(np.array(places), SMOOTH * rate)
    if camera is not None:
        moved = path - path[0]
        return [Camera(tuple(camera.eye + d), tuple(camera.target + d), camera.fov) for d in moved]
    centers, radii = [], []
    for k in np.unique(np.linspace(0, frames - 1, min(frames, LOOKED_AT)).astype(int)):
        found = shown_spheres(model, body_poses(model, q[k], _row(mocap, k)), origins)
        centers.append(found[0] - path[k])
        radii.append(found[1])
    centers, radii = np.concatenate(centers), np.concatenate(radii)
    away = np.linalg.norm(centers - np.median(centers, axis=0), axis=1)
    near = away <= 1.5 * np.percentile(away, 95)  # what flies away does not make everything small
    eye, target = fit_view(centers[near], radii[near], aspect, 30.0)
    return [Camera(tuple(eye + d), tuple(target + d), 30.0) for d in path]


def _smoothed(path: np.ndarray, deviation: float) -> np.ndarray:
    """A path `(frames, 2)` smoothed by a Gaussian of this deviation in frames; uniform motion stays as it is."""
    reach = int(3 * deviation) + 1
    weights = np.exp(-0.5 * (np.arange(-reach, reach + 1) / max(deviation, 1e-9)) ** 2)
    padded = np.pad(path, ((reach, reach), (0, 0)), mode="reflect", reflect_type="odd")
    return np.stack([np.convolve(x, weights / weights.sum(), mode="valid") for x in padded.T], axis=-1)


def _drawing(model, q, mocap, origins, cameras, width: int, height: int):
    """A function that draws frame k. What is fixed to the world is placed once."""
    fixed = np.flatnonzero(model.geom_body < 0)
    moving = np.setdiff1d(np.arange(model.ngeom), fixed)
    still = solids_of(model, q[0], _row(mocap, 0), origins, without=moving)
    floors = horizontal_planes(model)
    floor = float(model.geom_pose[floors, 2].max()) if len(floors) else None

    def draw(k: int) -> np.ndarray:
        moved = solids_of(model, q[k], _row(mocap, k), origins, without=fixed)
        return quick_image([*still, *moved], floor, cameras[k], width, height)

    return draw


def _encode(draw, frames: int, rate: float, width: int, height: int, path, progress) -> None:
    """Draw and encode all frames; each chunk of them is drawn on all cores.

    `progress(k, frames)`, if there is one, is called at the start and after each chunk.
    """
    import av

    cores, progress = usable_cores(), (lambda k, frames: None) if progress is None else progress
    progress(0, frames)
    with av.open(str(path), "w", format="mp4", options={"movflags": "+faststart"}) as container:
        options = {"crf": QUALITY, "preset": "medium", "threads": str(cores)}
        stream = container.add_stream("libx264", rate=fractions.Fraction(rate).limit_denominator(1001), options=options)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        with concurrent.futures.ThreadPoolExecutor(cores) as pool:
            for first in range(0, frames, cores):
                for image in pool.map(draw, range(first, min(first + cores, frames))):
                    container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
                progress(min(first + cores, frames), frames)
        container.mux(stream.encode())
