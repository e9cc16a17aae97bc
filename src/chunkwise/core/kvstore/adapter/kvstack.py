"""Several stores as one: each holds a range of the keys.

If ranges overlap, the later layer holds the keys.  A key is looked up only in the layer that holds it; a key
outside all layers is missing, and can't be written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import partial
from typing import Generic, NamedTuple, TypeVar

from chunkwise.core.base.binding import dump
from chunkwise.core.kvstore.key_range import KeyRange, decode_key, encode_key, prefix_end
from chunkwise.core.kvstore.protocol import (
    MISSING_GENERATION,
    Buffer,
    ByteRange,
    KvStoreDriver,
    Reader,
    Stamped,
    delete_where,
)
from chunkwise.core.kvstore.store_base import StoreBase
from chunkwise.core.kvstore.traits import StoreTraits, traits_of
from chunkwise.core.kvstore.value import read_ranges
from chunkwise.errors import InvalidArgumentError

__all__ = ["Layer", "StackStore", "disjoint"]

B = TypeVar("B")


class Layer(NamedTuple, Generic[B]):
    """The keys that one store holds."""

    keys: KeyRange
    strip: int  # number of bytes at the start of a key that are left out in the store
    base: B  # the store, or its description
    path: str = ""  # prefix for the rest of the key in the store

    def inner(self, key: str) -> str:
        """Return the name of `key` in the store."""
        return self.path + decode_key(encode_key(key)[self.strip :])

    def outer(self, key: str) -> str:
        """Return the name of a key of the store."""
        return decode_key(self.keys.inclusive_min[: self.strip]) + key[len(self.path) :]

    def below(self, keys: KeyRange) -> KeyRange | None:
        """Return the store's own range for `keys`; None if it is empty."""
        keys = keys.intersect(self.keys)
        if keys.empty:
            return None
        front = encode_key(self.path)
        if not self.strip:
            return keys.shifted(self.path)
        if len(keys.inclusive_min) < self.strip:
            keys = KeyRange(self.keys.inclusive_min, keys.exclusive_max)
        common = keys.inclusive_min[: self.strip]
        start = front + keys.inclusive_min[self.strip :]
        if keys.exclusive_max.startswith(common):
            return KeyRange(start, front + keys.exclusive_max[self.strip :])
        return KeyRange(start, prefix_end(front))


def disjoint(layers: Sequence[Layer[B]]) -> list[Layer[B]]:
    """Return layers in the order of their keys, without keys of later layers."""
    out: list[Layer[B]] = []
    for layer in layers:
        rest: list[Layer[B]] = []
        for other in out:
            low, high = other.keys.inclusive_min, other.keys.exclusive_max
            first, last = layer.keys.inclusive_min, layer.keys.exclusive_max
            before = KeyRange(low, min(filter(None, (high, first)), default=b"") if first else low)
            if first and not before.empty and before.exclusive_max:
                rest.append(other._replace(keys=before))
            if last and not (after := KeyRange(max(low, last), high)).empty:
                rest.append(other._replace(keys=after))
        if not layer.keys.empty:
            rest.append(layer)
        out = sorted(rest, key=lambda part: part.keys.inclusive_min)
    return out


class StackStore(StoreBase):
    """Stores that hold a range of the keys each; if ranges overlap, the later holds the keys."""

    def __init__(self, layers: Sequence[Layer[KvStoreDriver]]) -> None:
        self.layers = tuple(disjoint(layers))

    def __repr__(self) -> str:
        return f"StackStore({list(self.layers)!r})"

    @property
    def identity(self) -> Hashable:
        """The ranges and the identities of their stores."""
        return "kvstack", tuple((x.keys, x.strip, x.base.identity, x.path) for x in self.layers)

    @property
    def traits(self) -> StoreTraits:
        """The traits that hold for all layers, with the requests of the slowest."""
        layers = [traits_of(layer.base) for layer in self.layers]
        coalescing = {traits.coalescing for traits in layers}
        return StoreTraits(
            request_concurrency=_largest(traits.request_concurrency for traits in layers),
            write_concurrency=_largest(traits.write_concurrency for traits in layers),
            io_limit=min((t.io_limit for t in layers if t.io_limit is not None), default=None),
            coalescing=coalescing.pop() if len(coalescing) == 1 else None,
            suffix_ranges=all(traits.suffix_ranges for traits in layers),
            conditional_deletes=all(traits.conditional_deletes for traits in layers),
            conditional_writes=self._writes_conditionally,
            is_cached=self._is_cached,
            nodes_only=any(traits.nodes_only for traits in layers),
            own_generations=all(traits.own_generations for traits in layers),
        )

    def _writes_conditionally(self, key: str) -> bool:
        layer = self._layer(key)
        return layer is None or traits_of(layer.base).conditional_writes(layer.inner(key))

    def _is_cached(self, key: str, start: int = 0, stop: int | None = None) -> bool:
        layer = self._layer(key)
        if layer is None:
            return True  # missing for ever
        base = traits_of(layer.base).is_cached
        return base is not None and base(layer.inner(key), start, stop)

    def _layer(self, key: str) -> Layer[KvStoreDriver] | None:
        return next((layer for layer in self.layers if key in layer.keys), None)

    def _owner(self, key: str) -> Layer[KvStoreDriver]:
        layer = self._layer(key)
        if layer is None:
            raise InvalidArgumentError(f"Key not found in any layers: {dump(key)}")
        return layer

    def describe(self, key: str) -> str:
        """Name `key` like the store that holds it."""
        layer = self._layer(key)
        return dump(key) if layer is None else layer.base.describe(layer.inner(key))

    def read(
        self, key: str, *, byte_range: ByteRange | None = None, if_not_equal: bytes | None = None
    ) -> Stamped:
        """Read from the store that holds `key`; a key outside all layers is missing for ever."""
        layer = self._layer(key)
        if layer is None:
            return Stamped(None, MISSING_GENERATION, math.inf)
        return layer.base.read(layer.inner(key), byte_range=byte_range, if_not_equal=if_not_equal)

    def open_reader(self) -> Reader:
        """Return a reader that opens readers of the stores when needed."""
        readers: dict[int, Reader] = {}

        def read(key: str, start: int = 0, stop: int | None = None) -> Buffer | None:
            layer = self._layer(key)
            if layer is None:
                return None
            reader = readers.get(id(layer))
            if reader is None:
                reader = readers[id(layer)] = layer.base.open_reader()
            return reader(layer.inner(key), start, stop)

        return read

    def read_ranges(self, key: str, starts: Sequence[int], stops: Sequence[int]) -> list[Buffer] | None:
        """Return the bytes of each range of the value of `key`."""
        layer = self._layer(key)
        return None if layer is None else read_ranges(layer.base, layer.inner(key), starts, stops)

    def write(self, key: str, value: Buffer, *, if_equal: bytes | None = None) -> bytes | None:
        """Write to the store that holds `key`; raise InvalidArgumentError if there is none."""
        layer = self._owner(key)
        return layer.base.write(layer.inner(key), value, if_equal=if_equal)

    def delete(self, key: str, *, if_equal: bytes | None = None) -> bytes | None:
        """Delete from the store that holds `key`; raise InvalidArgumentError if there is none."""
        layer = self._owner(key)
        return layer.base.delete(layer.inner(key), if_equal=if_equal)

    def delete_range(self, start: str = "", stop: str = "") -> None:
        """Delete the keys in ``[start, stop)`` from the stores that hold them."""
        for layer, below in self._parts(start, stop):
            layer.base.delete_range(below.start, below.stop)

    def delete_where(self, start: str, stop: str, wanted: Callable[[str], bool]) -> None:
        """Delete the keys in ``[start, stop)`` that are `wanted` from the stores that hold them."""
        for layer, below in self._parts(start, stop):
            delete_where(layer.base, below.start, below.stop, partial(_is_wanted, wanted, layer))

    def list(self, start: str = "", stop: str = "") -> Iterator[str]:
        """Yield the keys in ``[start, stop)``, one store after the other."""
        for layer, below in self._parts(start, stop):
            yield from map(layer.outer, layer.base.list(below.start, below.stop))

    def _parts(self, start: str, stop: str) -> Iterator[tuple[Layer[KvStoreDriver], KeyRange]]:
        """Yield the layers with keys in ``[start, stop)``, and their own ranges."""
        for layer in self.layers:
            below = layer.below(KeyRange.between(start, stop))
            if below is not None and not below.empty:
                yield layer, below


def _is_wanted(wanted: Callable[[str], bool], layer: Layer[KvStoreDriver], key: str) -> bool:
    return wanted(layer.outer(key))


def _largest(numbers: Iterable[int | None]) -> int | None:
    return max((n for n in numbers if n is not None), default=None)
