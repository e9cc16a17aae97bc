"""What reading an array or a view of one will ask of its storage, before it is read."""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

from chunkwise.array.protocol import OpenArray
from chunkwise.errors import UnsupportedError
from chunkwise.execute.request_count import RequestCount, count_requests
from chunkwise.index_space import IndexTransform

__all__ = ["Explanation", "explain"]


class Explanation(NamedTuple):
    """What reading a view takes.

    Attributes
    ----------
    requests : RequestCount
    n_result_bytes : int
        Size of the result.
    storage : str
        How the storage is called.
    """

    requests: RequestCount
    n_result_bytes: int
    storage: str

    def to_json(self) -> dict[str, Any]:
        """Return the numbers by name."""
        return {
            **self.requests._asdict(),
            "n_result_bytes": self.n_result_bytes,
            "storage": self.storage,
        }

    def __str__(self) -> str:
        count = self.requests
        if count.n_requests == count.n_requests_at_most:
            requests = f"{count.n_requests:,}"
        else:
            requests = (
                f"{count.n_requests:,} to {count.n_requests_at_most:,}, as the shards' indexes will tell"
            )
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
            ]
        )


def explain(array: OpenArray, transform: IndexTransform) -> Explanation:
    """Return what reading a view will ask of its storage; asks nothing of it.

    Parameters
    ----------
    array : OpenArray
        One that lies in chunks in a kvstore, or a view of it with another dtype.
    transform : IndexTransform
        Which part of it.

    Raises
    ------
    UnsupportedError
        If `array` does not lie in chunks in one kvstore.
    OutOfRangeError
        If the view leads out of the array.
    """
    n_bytes = prod(array.bounded(transform).input_shape) * array.numpy_dtype().itemsize
    source: Any = array
    while not hasattr(source, "stored") and hasattr(source, "base"):
        source, transform = source.base(transform)
    stored, store = getattr(source, "stored", None), getattr(source, "store", None)
    if stored is None or store is None:
        raise UnsupportedError(
            "Requests can be told only of arrays that lie in chunks in a kvstore, not of "
            f'"{source.spec().driver}"'
        )
    return Explanation(
        count_requests(stored, store, source.bounded(transform)),
        n_bytes,
        store.describe(stored.keys.prefix),
    )
