"""The limits of this process: its processors, its memory, and the largest value that is worth reading now.

Whoever asks for a value knows how large it can be: a chunk from its codecs, a metadata document by a limit.
The bound is valid for everything that this thread does until it is released, so that stores and codecs take
no argument for it.  Without one, a value may be as large as the memory available to this process.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from typing import NamedTuple

from chunkwise.errors import ChunkwiseError, DataCorruptionError, StorageError, TooLargeError

__all__ = [
    "DOCUMENT",
    "SizeBound",
    "as_document",
    "bounded",
    "chunk_bound",
    "held",
    "hold",
    "largest_value",
    "memory_limit",
    "n_dask_threads",
    "n_processors",
    "release",
    "text_bound",
    "too_large",
]

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


class SizeBound(NamedTuple):
    """The largest size of a value, in bytes, and what to say of a larger one."""

    nbytes: int
    what: str
    error: type[ChunkwiseError]


DOCUMENT = SizeBound(1 << 26, "a metadata document may have", StorageError)
"""See docs/remote.md; consolidated metadata of a hundred thousand arrays is within it."""

_SLACK = 1 << 16  # what headers, checksums and bytes behind a chunk take
_memory = cache(memory_limit)
_now: ContextVar[SizeBound | None] = ContextVar("largest value", default=None)
hold, release, held = _now.set, _now.reset, _now.get
# An interrupt must not leave a bound to all later reads: ``[before] = map(hold, [bound])`` directly before
# ``try`` can't be interrupted halfway.


def chunk_bound(nbytes: int | None) -> SizeBound | None:
    """Return the bound for a chunk whose codecs store `nbytes` bytes at most; None if that is unknown."""
    if nbytes is None:
        return None
    return SizeBound(2 * nbytes + _SLACK, "a chunk of this array may have", DataCorruptionError)


def text_bound(stored: int, n_elements: int = 0) -> SizeBound:
    """Return the bound for a decoded chunk of elements of any length, of which `stored` bytes were read."""
    most = max(DOCUMENT.nbytes, 100 * stored, 1024 * n_elements)
    return SizeBound(most, f"a chunk of {stored} stored bytes may have", DataCorruptionError)


@contextmanager
def bounded(bound: SizeBound | None) -> Iterator[None]:
    """Let values have at most the size `bound` while the context lasts."""
    [before] = map(hold, (bound,))
    try:
        yield
    finally:
        release(before)


def as_document(raw: bytes) -> bytes:
    """Return the text of a document; raise TooLargeError for one that would not be read again."""
    if len(raw) > DOCUMENT.nbytes:
        raise TooLargeError(f"it would have {len(raw)} bytes, and {DOCUMENT.what} {DOCUMENT.nbytes}")
    return raw


def largest_value(*, is_part: bool = False) -> int:
    """Return the largest size, in bytes, of a value, or of a part with a given end, that may be read now."""
    bound = None if is_part else _now.get()
    return _memory() if bound is None else bound.nbytes


def too_large(text: str, *, is_part: bool = False) -> ChunkwiseError:
    """Return the error for a value that is larger; `text` says whose it is, and its size."""
    bound = None if is_part else _now.get()
    if bound is None:
        return StorageError(f"{text}, and this process has memory for {_memory()}")
    return bound.error(f"{text}, and {bound.what} {bound.nbytes}")
