"""A store that records its requests, to count them and see their order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from chunkwise.core.kvstore.protocol import Buffer, ByteRange, Children, KvStoreDriver, Reader, Stamped
from chunkwise.core.kvstore.store_base import SameKeysStore
from chunkwise.core.kvstore.value import read_ranges

__all__ = ["Request", "TraceStore"]


class Request(NamedTuple):
    """A request."""

    # ``read``, ``read_ranges``, ``write``, ``delete``, ``delete_range``, ``list``, ``list_children``.
    operation: str
    key: str  # the start of a range of keys, the prefix of ``list_children``
    start: int = 0  # start of the byte range
    stop: int | str | None = None  # end of the byte range, None for the value's end; or of the keys
    n_bytes: int = 0  # size of the value written or received; 0 without one


class TraceStore(SameKeysStore):
    """A store that records all requests that it answered."""

    def __init__(self, base: KvStoreDriver) -> None:
        super().__init__(base)
        self.requests: list[Request] = []  # requests answered without an error, in order; may be cleared

    def __repr__(self) -> str:
        return f"TraceStore({self.base!r})"

    def count(self, operation: str) -> int:
        """Return the number of requests of the kind `operation`."""
        return sum(r.operation == operation for r in self.requests)

    def read(
        self, key: str, *, byte_range: ByteRange | None = None, if_not_equal: bytes | None = None
    ) -> Stamped:
        """Read from the base; recorded as ``read``."""
        found = self.base.read(key, byte_range=byte_range, if_not_equal=if_not_equal)
        self.requests.append(Request("read", key, *(byte_range or ByteRange()), _size(found.value)))
        return found

    def open_reader(self) -> Reader:
        """Return a reader of the base; each of its calls is recorded as ``read``."""
        base, record = self.base.open_reader(), self.requests.append

        def read(key: str, start: int = 0, stop: int | None = None) -> Buffer | None:
            value = base(key, start, stop)
            record(Request("read", key, start, stop, _size(value)))
            return value

        return read

    def read_ranges(self, key: str, starts: Sequence[int], stops: Sequence[int]) -> list[Buffer] | None:
        """Read from the base; recorded as one ``read_ranges`` from the first byte to the last."""
        parts = read_ranges(self.base, key, starts, stops)
        span = (min(starts), max(stops)) if starts else (0, 0)
        self.requests.append(Request("read_ranges", key, *span, sum(map(_size, parts or ()))))
        return parts

    def write(self, key: str, value: Buffer, *, if_equal: bytes | None = None) -> bytes | None:
        """Write to the base; recorded even if the condition failed."""
        generation = self.base.write(key, value, if_equal=if_equal)
        self.requests.append(Request("write", key, n_bytes=_size(value)))
        return generation

    def delete(self, key: str, *, if_equal: bytes | None = None) -> bytes | None:
        """Delete from the base; recorded even if the condition failed."""
        generation = self.base.delete(key, if_equal=if_equal)
        self.requests.append(Request("delete", key))
        return generation

    def delete_range(self, start: str = "", stop: str = "") -> None:
        """Delete from the base."""
        self.base.delete_range(start, stop)
        self.requests.append(Request("delete_range", start, stop=stop))

    def list(self, start: str = "", stop: str = "") -> Iterator[str]:
        """List the base; recorded when the listing begins."""
        self.requests.append(Request("list", start, stop=stop))
        return self.base.list(start, stop)

    def list_children(self, prefix: str) -> Children:
        """List one level of the base."""
        children = self.base.list_children(prefix)
        self.requests.append(Request("list_children", prefix))
        return children


def _size(value: Buffer | None) -> int:
    return 0 if value is None else memoryview(value).nbytes
