# SPDX-License-Identifier: Apache-2.0
"""Number of threads of a step: the cores that this process may use."""

import os
import pathlib
import sys

from warpsim.base.checks import whole

WORLDS_PER_THREAD = 32  # with fewer worlds, waking a thread costs more than it saves


def step_threads(threads: int | None, device, worlds: int) -> int:
    """Check the simulator's `threads`; None: the default."""
    if threads is None:
        return 1 if device.is_cuda else default_threads(worlds)
    threads = whole(threads, "threads", 1)
    if threads > 1 and device.is_cuda:
        raise ValueError(
            f"threads is {threads} on {device}; threads divide the worlds of a CPU, leave it out or give 1"
        )
    return min(threads, worlds)


def default_threads(worlds: int) -> int:
    """Default threads on the CPU: one per 32 worlds, up to the cores; 1 in workers of a pool that fills the cores."""
    if "PYTEST_XDIST_WORKER" in os.environ or _in_ray_worker():
        return 1
    return max(1, min(usable_cores(), worlds // WORLDS_PER_THREAD))


def usable_cores() -> int:
    """The smallest of `allowed_cores` and OMP_NUM_THREADS."""
    return min(allowed_cores(), _omp_limit() or sys.maxsize)


def allowed_cores() -> int:
    """The smaller of the cores by affinity and the limit of the control group."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(affinity, _group_limit() or affinity)


def _omp_limit() -> int | None:
    """OMP_NUM_THREADS, the first number of a list; None if it is unset or not a number."""
    first = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return int(first) if first.isdecimal() and int(first) > 0 else None


def _group_limit(root: pathlib.Path = pathlib.Path("/")) -> int | None:
    """Smallest number of whole cores that the control group and its parents allow; None without a limit. Linux only."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return None
    limits = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        top = root / "sys/fs/cgroup" / ("cpu" if controllers else "")
        own = top / path.lstrip("/")
        limits += [limit for place in (own, *own.parents) if place.is_relative_to(top) for limit in _quota(place)]
    return min(limits) if limits else None


def _quota(group: pathlib.Path) -> list[int]:
    """Limit of one control group in whole cores, if it has one."""
    try:
        if (group / "cpu.max").exists():
            quota, period = (group / "cpu.max").read_text().split()
        else:
            quota, period = ((group / f"cpu.cfs_{name}_us").read_text().strip() for name in ("quota", "period"))
        return [max(1, int(quota) // int(period))] if quota not in ("max", "-1") else []
    except (OSError, ValueError):
        return []


def _in_ray_worker() -> bool:
    """Whether this process is a worker of Ray."""
    ray = sys.modules.get("ray")
    worker = getattr(getattr(ray, "_private", None), "worker", None)
    mode = getattr(getattr(worker, "global_worker", None), "mode", None)
    return mode is not None and mode == getattr(worker, "WORKER_MODE", None)
