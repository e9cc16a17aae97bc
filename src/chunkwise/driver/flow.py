"""Storage logic without storage: a flow yields requests and is sent the answers.

Opening, creating and resizing take several round trips whose order matters.  Written as a generator
that touches no store, that order is told once; a runner of a few lines (``engine/flow.py``) drives
it over a blocking store, another over an asynchronous one, a test over a dict.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple, TypeAlias, TypeVar

__all__ = ["Delete", "DeletePrefix", "Flow", "Get", "ListChildren", "Put", "Request"]

T = TypeVar("T")


class Get(NamedTuple):
    """Read a key; the answer is a :class:`~chunkwise.kvstore.protocol.Stamped`."""

    # With `if_not_equal`, a value of that generation is not sent again.

    key: str
    if_not_equal: bytes | None = None


class Put(NamedTuple):
    """Write a key, on condition if `if_equal` is given; the answer is the new generation, or None."""

    key: str
    value: bytes
    if_equal: bytes | None = None


class Delete(NamedTuple):
    """Delete one key."""

    key: str


class DeletePrefix(NamedTuple):
    """Delete all keys that start with `prefix`."""

    prefix: str


class ListChildren(NamedTuple):
    """List one level below `prefix`; the answer is a :class:`~chunkwise.kvstore.protocol.Children`."""

    prefix: str


Request: TypeAlias = Get | Put | Delete | DeletePrefix | ListChildren
Flow: TypeAlias = Generator[Request, Any, T]
