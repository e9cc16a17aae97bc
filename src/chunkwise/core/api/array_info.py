"""What a view is, as a table of its properties, and what a read of it does: requests and strategies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, NamedTuple

from chunkwise.core.api.array_view import ArrayView
from chunkwise.core.arrays.base_array import array_sources, base_of
from chunkwise.core.arrays.chunked import ChunkedArray
from chunkwise.core.arrays.protocol import OpenArray
from chunkwise.core.base.html import chunk_drawing, codec_words, panel, table
from chunkwise.core.engine.estimate import RequestEstimate, estimate_requests
from chunkwise.core.engine.strategy import ReadStrategy
from chunkwise.core.index_space import IndexTransform
from chunkwise.core.kvstore.files.file_store import FileStore
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.core.kvstore.value import open_size
from chunkwise.core.plan.plan import plan_read
from chunkwise.core.specs.unit import unit_text
from chunkwise.errors import UnsupportedError

__all__ = ["ArrayInfo", "Explanation", "array_html", "array_info", "explain"]

_MOST_LISTED = 1000  # most chunks whose stored size is looked up for display


class ArrayInfo(dict[str, Any]):
    """Properties of an array by name; its text is a table."""

    def __repr__(self) -> str:
        return "\n".join(f"{name:<10} {_text(value)}" for name, value in self.items())

    __str__ = __repr__


def array_info(view: ArrayView) -> ArrayInfo:
    """Return the properties of an array or a view of one; nothing is read."""
    spec = view._array.spec()
    out = ArrayInfo(driver=spec.driver)
    if spec.kvstore is not None:
        out["url"] = view.url
    out |= {"shape": view.shape, "dtype": view.dtype.name, "chunks": view.chunks}
    write = view.chunk_layout.write_chunk.shape
    if write is not None and tuple(write) != view.chunks:
        out["shards"] = tuple(write)
    if view.codec is not None:
        out["codec"] = view.codec.to_json()
    fill_value = view.fill_value
    if fill_value is not None:
        out["fill_value"] = fill_value[()]
    if any(view.domain.labels):
        out["labels"] = view.domain.labels
    if any(unit is not None for unit in view.dimension_units):
        out["units"] = tuple(None if unit is None else str(unit) for unit in view.dimension_units)
    return ArrayInfo({**out, "nbytes": view.nbytes})


def array_html(view: ArrayView) -> str:
    """Return HTML of an array for notebooks: its properties, and a drawing of its chunks."""
    info = array_info(view)
    if "units" in info:
        info["units"] = tuple(unit and unit_text(unit) for unit in info["units"])
    if view.codec is not None:
        info["codec"] = codec_words(view.codec.to_json())
    rows: list[tuple[str, object]] = [(name, _text(value)) for name, value in info.items()]
    rows[-1] = ("size", f"{_size(view.nbytes)} in memory")
    chunks = view.chunks
    is_finite = all(dim.finite for dim in view.domain)
    met = _met(view) if is_finite and view.domain != view._array.domain else None
    if met is not None:
        rows.append(("number", f"{met[0]:,} chunks are met"))
        if met[2] is not None:
            rows.append(("stored", f"{_size(met[2])} under the {met[1]:,} keys of these"))
    elif chunks is not None and is_finite:
        n = prod(-(-size // chunk) if chunk else 0 for size, chunk in zip(view.shape, chunks, strict=True))
        rows.append(("number", f"{n:,} chunks"))
        if n <= _MOST_LISTED and _is_near(view) and view.domain == view._array.domain:
            stored = view.nbytes_stored()
            ratio = f", 1:{view.nbytes / stored:.3g}" if stored else ""
            rows.append(("stored", f"{_size(stored)}{ratio}"))
    title = "TensorStore" if view.path in (None, "") else f"TensorStore {view.name}"
    drawing = ""
    if is_finite:
        drawing = chunk_drawing(view.shape, chunks, info.get("shards"), view.domain.labels)
    return panel(title, table(rows), drawing)


def _size(nbytes: int) -> str:
    """Return a number of bytes with three digits and the unit that fits."""
    size = float(nbytes)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if size < 999.5:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:,.0f} PB"


def _met(view: ArrayView) -> tuple[int, int, int | None] | None:
    """Return the numbers of chunks and keys that a view meets, and the keys' stored size if storage is near.

    None for arrays without their own chunks.
    """
    array = view._array
    if not isinstance(array, ChunkedArray):
        return None
    transform, stored = array.in_grid(array.bounded(view._transform)), array.stored
    told = estimate_requests(stored, array.store, transform)
    if told.n_objects > _MOST_LISTED or not _is_near(view):
        return told.n_chunks, told.n_objects, None
    keys = plan_read(transform, stored.grid).keys(stored.keys)
    return told.n_chunks, told.n_objects, sum(map(open_size(array.store), keys))


def _is_near(view: ArrayView) -> bool:
    """Return True if listing the stored keys costs next to nothing."""
    node = view._find_node().node
    return node is not None and isinstance(node.location.store, FileStore | MemoryStore)


def _text(value: Any) -> str:
    return f"{value:,}" if type(value) is int else str(value)


_SUMMED = tuple(name for name in RequestEstimate._fields if name not in ("n_stored_bytes", "concurrency"))


class Explanation(NamedTuple):
    """Requests and strategies of a read.

    Attributes
    ----------
    requests : RequestEstimate
    n_result_bytes : int
        Size of the result.
    storage : str
        Name of the storage.
    strategies : tuple of ReadStrategy
        Strategies of the arrays that are read, each once.
    """

    requests: RequestEstimate
    n_result_bytes: int
    storage: str
    strategies: tuple[ReadStrategy, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the numbers by name."""
        return {
            **self.requests._asdict(),
            "n_result_bytes": self.n_result_bytes,
            "storage": self.storage,
            "strategies": [strategy._asdict() for strategy in self.strategies],
        }

    def __repr__(self) -> str:
        count = self.requests
        return (
            f"<Explanation of a read: {count.n_chunks:,} chunks, {self._requests} requests, "
            f"{count.n_decoded_bytes:,} bytes decoded, {self.n_result_bytes:,} bytes of result, from "
            f"{self.storage}>"
        )

    @property
    def _requests(self) -> str:
        count = self.requests
        if count.n_requests == count.n_requests_at_most:
            return f"{count.n_requests:,}"
        return f"{count.n_requests:,} to {count.n_requests_at_most:,}"

    def __str__(self) -> str:
        count, requests = self.requests, self._requests
        if count.n_requests != count.n_requests_at_most:
            requests += ", as the shards' indexes will tell"
        chunks = f"{count.n_chunks:,}"
        if count.n_shards:
            chunks += f" in {count.n_shards:,} shards, of which {count.n_indexes_known:,} indexes are known"
        if count.n_cache_hits:
            chunks += f"; {count.n_cache_hits:,} of {count.n_objects:,} keys are in a cache"
        size = "unknown before they are read" if count.n_stored_bytes is None else f"{count.n_stored_bytes:,}"
        at_once = "no limit" if count.concurrency is None else f"{count.concurrency:,}"
        return "\n".join(
            [
                f"storage          {self.storage}",
                f"chunks           {chunks}",
                f"requests         {requests}",
                f"at the same time {at_once}",
                f"stored bytes     {size}",
                f"decoded bytes    {count.n_decoded_bytes:,}",
                f"result bytes     {self.n_result_bytes:,}",
                *(f"strategy         {strategy}" for strategy in self.strategies),
            ]
        )

    def _repr_html_(self) -> str:
        rows = [(line[:17].strip(), line[17:]) for line in str(self).splitlines()]
        return panel("Explanation of a read", table(rows))


def explain(array: OpenArray, transform: IndexTransform) -> Explanation:
    """Return the requests for reading a view; for a stack, those of all layers that it meets."""
    n_bytes = prod(array.bounded(transform).input_shape) * array.numpy_dtype().itemsize
    counts: list[RequestEstimate] = []
    storages: dict[str, None] = {}
    strategies: dict[ReadStrategy, None] = {}
    for source, request in _chunked_sources(array, transform):
        if not hasattr(source, "stored"):
            count, where = source.estimate(request)
            counts.append(count)
            storages[where] = None
            continue
        stored, store = source.stored, source.store
        bounded = source.bounded(request)
        counts.append(estimate_requests(stored, store, source.in_grid(bounded)))
        strategy = source.explain_read(bounded)
        if strategy is not None:
            strategies[strategy] = None
        note = getattr(store, "note", None)
        why = "" if note is None else note(stored.keys.prefix)
        storages[store.describe(stored.keys.prefix) + (f", {why}" if why else "")] = None
    first, n_others = next(iter(storages), "memory"), max(0, len(storages) - 1)
    return Explanation(
        counts[0] if len(counts) == 1 else _total(counts),
        n_bytes,
        f"{first} and {n_others:,} more" if n_others else first,
        tuple(strategies),
    )


def _chunked_sources(array: OpenArray, transform: IndexTransform) -> Iterator[tuple[Any, IndexTransform]]:
    """Yield the chunked arrays and pictures below a view, with the request to each; memory needs none."""
    from chunkwise.core.arrays.memory_array import MemoryArray  # few programs have stacks

    alone, _ = base_of(array, transform)
    for source, request in array_sources(array, transform):
        if hasattr(source, "stored") or hasattr(source, "estimate"):
            yield source, request
        elif source is alone or not isinstance(source, MemoryArray):
            raise UnsupportedError(
                "Requests can be estimated only for arrays in a kvstore, and for stacks of such, "
                f'not for "{source.spec().driver}"'
            )


def _total(counts: Sequence[RequestEstimate]) -> RequestEstimate:
    """Return the sum; layers of a stack share the limit on concurrent requests."""
    known = [count.n_stored_bytes for count in counts if count.n_stored_bytes is not None]
    limits = [count.concurrency for count in counts if count.concurrency is not None]
    sums = {name: sum(getattr(count, name) for count in counts) for name in _SUMMED}
    return RequestEstimate(
        **sums,
        n_stored_bytes=sum(known) if len(known) == len(counts) else None,
        concurrency=max(limits, default=None),
    )
