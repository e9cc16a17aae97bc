"""Flows driven over a blocking store."""

from __future__ import annotations

from typing import Any, TypeVar

from chunkwise.driver.flow import Delete, DeletePrefix, Flow, Get, ListChildren, Put
from chunkwise.kvstore.key_range import KeyRange
from chunkwise.kvstore.protocol import KvStoreDriver

__all__ = ["run"]

T = TypeVar("T")


def run(flow: Flow[T], store: KvStoreDriver) -> T:
    """Carry out the requests of `flow` one after the other and return its result."""
    # A failure of the store is thrown into the flow, so that it can add what it was doing.
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
                case Get(key, None):
                    answer = store.read(key)
                case Get(key, if_not_equal):
                    answer = store.read(key, if_not_equal=if_not_equal)
                case Put(key, value, if_equal):
                    answer = store.write(key, value, if_equal=if_equal)
                case Delete(key):
                    answer = store.delete(key)
                case DeletePrefix(prefix):
                    keys = KeyRange.of_prefix(prefix)
                    store.delete_range(keys.start, keys.stop)
                case ListChildren(prefix):
                    answer = store.list_children(prefix)
        except Exception as e:
            error = e
