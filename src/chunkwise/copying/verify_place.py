"""Verification of a place: a tree or an array by its stored chunks, anything else by reading it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from typing import Any

from chunkwise.copying.executors import Workers, workers_of
from chunkwise.copying.part import Part, parse_part
from chunkwise.copying.progress import check_progress, shown_progress
from chunkwise.copying.resolve import Place, ResolvedPlace, resolve
from chunkwise.copying.verify import NodeReport, verify_nodes
from chunkwise.copying.verify_view import verify_view
from chunkwise.core.trees.location import located

__all__ = ["reports_of", "verify"]


def verify(
    place: Place,
    *,
    executor: Executor | None = None,
    progress: Callable[[int], object] | bool = False,
    part: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> list[NodeReport]:
    """Read and decode every stored chunk of an array, or of all arrays of a tree.

    Chunks are read one by one and decoded codec by codec, with other code than normal reads.

    Parameters
    ----------
    place : str, path-like, Spec, KvStore, KvStore.Spec, TensorStore or JSON
        Anything that `chunkwise.open` or `chunkwise.open_group` takes.  A view, a picture or a volume is
        verified by reading it.
    executor : concurrent.futures.Executor, optional
        Does the work, as for `chunkwise.copy`.  By default threads of this process.
    progress : callable or bool
        Called in the calling thread with the stored bytes that are done; True shows a bar on stderr.
    part : str, optional
        ``"I/N"``: check one of N shares of the keys.  A kept fingerprint covers all elements, so a part
        doesn't compare it; a note says so.
    storage_options : mapping, optional
        As for `open_group`.

    Returns
    -------
    list of NodeReport
        One for each node, groups before their members; with `part`, for the nodes that it has worked on.

    Raises
    ------
    NotFoundError
        If there is no array or group.
    InvalidArgumentError
        If `part` is invalid.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import chunkwise
    >>> path = tempfile.mkdtemp() + "/a.zarr"
    >>> _ = chunkwise.create_array(path, np.arange(6), chunks=[3], checksum=True)
    >>> with open(path + "/c/1", "r+b") as chunk:
    ...     _ = chunk.write(b"bad")
    >>> (report,) = chunkwise.verify(path)
    >>> report.n_chunks, [bad.key.endswith("c/1") for bad in report.bad]
    (2, [True])
    """
    check_progress(progress)
    own = None if part is None else parse_part(part)
    (place,) = located(storage_options, place)
    found = resolve(place)
    with shown_progress(progress, "verifying", None) as told:
        return list(reports_of(found, workers_of(executor), told, own))


def reports_of(
    found: ResolvedPlace,
    workers: Workers | None,
    progress: Callable[[int], object],
    part: Part | None,
) -> Iterator[NodeReport]:
    """Yield a report on an array, or on a node and each below; keys are relative to that."""
    if found.array is not None:
        yield verify_view(found.array, workers, progress, part)
        return
    root = found.as_node(damaged=True)
    n = len(root.location.path)
    for report in verify_nodes(root, workers, progress, part):
        report.bad = [bad._replace(key=bad.key[n:]) for bad in report.bad]
        yield report
