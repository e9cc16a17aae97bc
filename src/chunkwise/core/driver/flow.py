"""Storage logic without storage: a flow yields requests and receives the answers.

Opening, creating and resizing take several round trips whose order matters.  A generator that touches no
store defines that order once; `run` runs it on a store, tests on a dict.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias, TypeVar

from chunkwise.core.base.limits import as_document
from chunkwise.core.kvstore.protocol import KvStoreDriver, Stamped
from chunkwise.core.kvstore.value import read_bounded
from chunkwise.errors import PermissionDeniedError

__all__ = ["Delete", "Flow", "Get", "GetAll", "ListChildren", "Put", "ReplacePrefix", "Request", "run"]

T = TypeVar("T")


class Get(NamedTuple):
    """Read a key; the answer is a `chunkwise.core.kvstore.protocol.Stamped`."""

    # With `if_not_equal`, a value with that generation is not sent again.

    key: str
    if_not_equal: bytes | None = None


class GetAll(NamedTuple):
    """Read several keys, in any order; the answer is a list of `chunkwise.core.kvstore.protocol.Stamped`."""

    keys: tuple[str, ...]
    # A refused read (403) is answered with its error, in place of a value.
    denied: bool = False


class Put(NamedTuple):
    """Write a key, conditionally with `if_equal`; the answer is the new generation, or None."""

    key: str
    value: bytes
    if_equal: bytes | None = None


class Delete(NamedTuple):
    """Delete one key."""

    key: str


class ReplacePrefix(NamedTuple):
    """Replace all keys that start with `prefix` by others, in one step if the store can.

    As in `chunkwise.core.kvstore.places.take_place`, the old keys exist until the new ones are stored.  The
    answer has the generations of the keys, as far as they are known.
    """

    prefix: str
    values: Mapping[str, bytes]  # by name after the prefix
    settle: Callable[[], None]  # raises if they can't stay there


class ListChildren(NamedTuple):
    """List one level below `prefix`; the answer is a `chunkwise.core.kvstore.protocol.Children`."""

    prefix: str


ReadAll: TypeAlias = "Callable[[KvStoreDriver, Callable[[str], Stamped], Sequence[str]], list[Stamped]]"


def _one_by_one(store: KvStoreDriver, read: Callable[[str], Stamped], keys: Sequence[str]) -> list[Stamped]:
    return [read(key) for key in keys]


def _read_or_refusal(store: KvStoreDriver, key: str) -> Any:
    try:
        return read_bounded(store, key)
    except PermissionDeniedError as e:
        return e


Request: TypeAlias = Get | GetAll | Put | Delete | ReplacePrefix | ListChildren
Flow: TypeAlias = Generator[Request, Any, T]


def run(flow: Flow[T], store: KvStoreDriver, read_all: ReadAll = _one_by_one) -> T:
    """Carry out the requests of `flow` one after the other and return its result."""
    # `read_all` may request several keys at the same time.  A failure of the store is thrown into the flow,
    # so that the flow can add its operation.
    answer: Any = None
    error: Exception | None = None
    while True:
        try:
            request = flow.throw(error) if error is not None else flow.send(answer)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]
        answer = error = None
        try:
            match request:
                case Get(key, if_not_equal):
                    answer = read_bounded(store, key, if_not_equal=if_not_equal)
                case GetAll(keys, denied):
                    answer = read_all(
                        store, partial(_read_or_refusal if denied else read_bounded, store), keys
                    )
                case Put(key, value, if_equal):
                    answer = store.write(key, as_document(value), if_equal=if_equal)
                case Delete(key):
                    answer = store.delete(key)
                case ReplacePrefix(prefix, values, settle):
                    from chunkwise.core.kvstore.places.take_place import replace_below

                    documents = {name: as_document(value) for name, value in values.items()}
                    answer = replace_below(store, prefix, documents, settle)
                case ListChildren(prefix):
                    answer = store.list_children(prefix)
        except Exception as e:
            error = e
