"""``explain``: the requests and strategies of a read of a view."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, NamedTuple

from chunkwise.core.arrays.protocol import OpenArray
from chunkwise.core.arrays.sources import array_sources, base_of
from chunkwise.core.base.html import panel, table
from chunkwise.core.engine.estimate import RequestEstimate, estimate_requests
from chunkwise.core.engine.strategy import ReadStrategy
from chunkwise.core.index_space import IndexTransform
from chunkwise.errors import UnsupportedError

__all__ = ["Explanation", "explain"]

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
