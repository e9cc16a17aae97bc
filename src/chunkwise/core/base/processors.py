"""The processors and the memory of this process: affinity, limits of control groups, Dask's threads."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from functools import cache

__all__ = ["memory_limit", "n_dask_threads", "n_processors"]

_CGROUPS = "/sys/fs/cgroup"


def n_processors() -> int:
    """Return the number of threads that can run at the same time; in a Dask worker, its number of threads."""
    n = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(n, _quota() or n, n_dask_threads() or n))


def n_dask_threads() -> int:
    """Return the number of threads of the Dask workers in this process, 0 without workers."""
    module = sys.modules.get("distributed.worker")
    workers = list(getattr(getattr(module, "Worker", None), "_instances", ()))
    return sum(int(worker.state.nthreads) for worker in workers if hasattr(worker, "state"))


@cache
def _quota() -> int | None:
    """Return how many processors the control groups allow, rounded up; None without a limit."""
    found = []
    for folder in _groups():
        text = _text(f"{folder}/cpu.max").split()
        if len(text) != 2:
            text = [_text(f"{folder}/cpu.cfs_quota_us"), _text(f"{folder}/cpu.cfs_period_us")]
        with suppress(ValueError, ZeroDivisionError):
            quota, period = int(text[0]), int(text[1])
            if quota > 0:
                found.append(-(-quota // period))
    return min(found, default=None)


def memory_limit() -> int:
    """Return how many bytes this process may use: the least of machine, control groups and `ulimit`."""
    found = [1 << 62]
    with suppress(ImportError):  # Windows lacks it
        import resource

        for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA):
            limit, _ = resource.getrlimit(kind)
            if limit != resource.RLIM_INFINITY:
                found.append(limit)
    with suppress(ValueError, OSError, AttributeError):
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for folder in _groups():
        for name in ("memory.max", "memory.limit_in_bytes"):
            with suppress(ValueError):
                found.append(int(_text(f"{folder}/{name}")))
    return min(found) if min(found) < 1 << 60 else 4 << 30


@cache
def _groups() -> list[str]:
    """Return the folders of the control groups that this process is in, and of those around them."""
    out = {_CGROUPS, f"{_CGROUPS}/cpu", f"{_CGROUPS}/memory"}
    for line in _text("/proc/self/cgroup").splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        for top in (_CGROUPS, *(f"{_CGROUPS}/{name}" for name in controllers.split(",") if name)):
            folder = f"{top}/{path.strip('/')}"
            while len(folder) > len(top) + 1:
                out.add(folder)
                folder = os.path.dirname(folder)
    return sorted(out)


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except (OSError, ValueError):
        return ""
