"""What reading an array or a view of one will ask of its storage, before it is read."""

from __future__ import annotations

from typing import Any, NamedTuple

from chunkwise.api.tensorstore import TensorStore
from chunkwise.errors import UnsupportedError
from chunkwise.execute.request_count import RequestCount, count_requests

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


def explain(view: TensorStore) -> Explanation:
    """Return what reading `view` will ask of its storage; asks nothing of it.

    Raises
    ------
    UnsupportedError
        If `view` is not of an array that lies in chunks in a kvstore.
    """
    array: Any = view._array
    stored, store = getattr(array, "stored", None), getattr(array, "store", None)
    if stored is None or store is None:
        raise UnsupportedError(
            "Requests can be told only of arrays that lie in chunks in a kvstore, not of "
            f'"{array.spec().driver}"'
        )
    transform = array.bounded(view._transform)
    size = 1
    for n in transform.input_shape:
        size *= n
    return Explanation(
        count_requests(stored, store, transform),
        size * stored.numpy_dtype.itemsize,
        store.describe(stored.keys.prefix),
    )
