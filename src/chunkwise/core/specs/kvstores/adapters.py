"""The kvstores ``cache``, ``kvstack`` and ``zip``, over other kvstores."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple, Self

from chunkwise.core.base.binding import (
    JSON,
    Members,
    dump,
    expect_int,
    expect_object,
    expect_one_of,
    expect_string,
    parse_array,
)
from chunkwise.core.kvstore.adapter.kvstack import Layer, StackStore, disjoint
from chunkwise.core.kvstore.adapter.prefix import PrefixStore
from chunkwise.core.kvstore.adapter.read_through import DiskEntries, Entries, MemoryEntries, ReadThroughStore
from chunkwise.core.kvstore.adapter.zip import ZipStore
from chunkwise.core.kvstore.adapter.zip_write import Compression, default_compression
from chunkwise.core.kvstore.key_range import KeyRange, decode_key, prefix_end
from chunkwise.core.kvstore.protocol import KvStoreDriver
from chunkwise.core.specs.context import Context
from chunkwise.core.specs.kvstore_spec import KvStoreSpec, member
from chunkwise.core.specs.kvstores.adapter import AdapterKvStoreSpec, OneBaseKvStoreSpec, expect_kvstore
from chunkwise.core.specs.resource_kind import format_duration, parse_duration
from chunkwise.core.specs.url import quote_path
from chunkwise.errors import SpecError

__all__ = ["CacheKvStoreSpec", "KvStackSpec", "ZipKvStoreSpec"]


_LIMIT = 1 << 30  # bytes, if the spec has no limit


def _expect_age(value: JSON) -> float:
    seconds = parse_duration(value)
    if seconds < 0:
        raise SpecError(f"Expected a non-negative duration, but received: {value}")
    return seconds


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CacheKvStoreSpec(OneBaseKvStoreSpec):
    """``{"driver": "cache", "base": "s3://b/a/", "directory": "~/.cache/a", "max_age": "1h"}``."""

    driver: ClassVar[str] = "cache"

    # empty for a cache in memory, with the store's lifetime
    directory: str = member("directory", expect_string, "", shown="with defaults")
    total_bytes_limit: int = member(
        "total_bytes_limit", lambda v: expect_int(v, 1), _LIMIT, shown="with defaults"
    )
    # seconds for which a value counts as current
    max_age: float = member("max_age", _expect_age, 0.0, shown="with defaults", to_json=format_duration)

    def open_driver(self) -> tuple[KvStoreDriver, str]:
        """Return a cache of the store below; the path stays a prefix of keys."""
        driver, path = self.below.open_driver()
        base = PrefixStore(driver, path) if path else driver
        entries: Entries
        if self.directory:
            # The address of an object in memory may be another one's later.
            namespace = repr(base.identity) if self.below.outlives_process else os.urandom(16).hex()
            entries = DiskEntries(self.directory, self.total_bytes_limit, namespace)
        else:
            entries = MemoryEntries(self.total_bytes_limit)
        return ReadThroughStore(base, entries, max_age=self.max_age), self.path


class _LayerSpec(NamedTuple):
    base: KvStoreSpec
    keys: KeyRange
    strip: int

    def members(self) -> dict[str, Any]:
        """Return the members besides ``base``: the shortest ones that specify the keys."""
        low, high = self.keys.inclusive_min, self.keys.exclusive_max
        if self.keys.unbounded:
            out: dict[str, Any] = {}
        elif high == low + b"\0":
            out = {"exact": decode_key(low)}
        elif low and high == prefix_end(low):
            out = {"prefix": decode_key(low)}
        else:
            out = {"inclusive_min": decode_key(low)} if low else {}
            if high:
                out["exclusive_max"] = decode_key(high)
        is_usual = self.strip == _common(self.keys) == _taken_off(self.keys)
        return out if is_usual else {**out, "strip_prefix": self.strip}


def _parse_layer(value: JSON) -> _LayerSpec:
    members = Members(expect_object(value))
    base = members.take("base", expect_kvstore, example="memory://a/")
    prefix = members.take("prefix", expect_string, None)
    exact = members.take("exact", expect_string, None)
    low = members.take("inclusive_min", expect_string, None)
    high = members.take("exclusive_max", expect_string, None)
    strip = members.take("strip_prefix", lambda v: expect_int(v, 0), None)
    members.finish()
    bound = "inclusive_min" if low is not None else "exclusive_max"
    if sum(v is not None for v in (prefix, exact, low if low is not None else high)) > 1:
        name = bound if low is not None or high is not None else "inclusive_min"
        raise SpecError(f'At most one of "prefix", "exact", "{name}" members is allowed')
    if prefix is not None:
        keys, what = KeyRange.of_prefix(prefix), f"prefix {dump(prefix)}"
    elif exact is not None:
        keys, what = KeyRange.of_key(exact), f"exact {dump(exact)}"
    else:
        keys = KeyRange.between(low or "", high or "")
        what = f"range [{dump(low or '')}, {dump(high or '')})"
        if keys.exclusive_max and keys.inclusive_min > keys.exclusive_max:
            raise SpecError("Invalid inclusive_min/exclusive_max in range")
    common = _common(keys)
    if strip is not None and strip > common:
        raise SpecError(f"Invalid strip_prefix of {strip} for {what}")
    if strip is None and (n := _taken_off(keys)) != common:
        raise SpecError(
            f"Expected strip_prefix for {what}, such as {common}: without it, TensorStore takes {n} bytes "
            "off keys that differ in them, and stores several keys as one"
        )
    return _LayerSpec(base, keys, common if strip is None else strip)


def _common(keys: KeyRange) -> int:
    """Return the length of the prefix that all keys of a range share."""
    n = len(keys.inclusive_min)
    while n and not (b"" < keys.exclusive_max <= prefix_end(keys.inclusive_min[:n])):
        n -= 1
    return n


def _taken_off(keys: KeyRange) -> int:
    """Return the length of what TensorStore takes off, though not all keys of a range may begin with it."""
    low, high = keys.inclusive_min, keys.exclusive_max
    shortest, n = min(len(low), len(high)), 0
    while n < shortest and low[n] == high[n]:
        n += 1
    if n + 1 == shortest and low[n] + 1 == high[n]:
        n += 1
        while low[n : n + 1] == b"\xff":
            n += 1
    return n if high else _common(keys)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class KvStackSpec(AdapterKvStoreSpec):
    """``{"driver": "kvstack", "layers": [{"base": "file:///a/", "prefix": "a/"}, …]}``."""

    driver: ClassVar[str] = "kvstack"

    layers: tuple[_LayerSpec, ...]  # later ones have precedence

    @classmethod
    def parse_members(cls, members: Members) -> dict[str, Any]:
        """Take ``layers``."""
        return {
            "layers": tuple(
                members.take(
                    "layers", lambda v: parse_array(v, _parse_layer), example=[{"base": "memory://a/"}]
                )
            )
        }

    def inner(self) -> tuple[KvStoreSpec, ...]:
        """Return the specs of the layers."""
        return tuple(layer.base for layer in self.layers)

    def with_inner(self, inner: tuple[KvStoreSpec, ...]) -> Self:
        """Return the spec with other stores, for the same keys."""
        pairs = zip(self.layers, inner, strict=True)
        return replace(self, layers=tuple(layer._replace(base=base) for layer, base in pairs))

    def inner_members(self, inner: list[dict[str, Any]]) -> dict[str, Any]:
        """Return ``layers``."""
        pairs = zip(self.layers, inner, strict=True)
        return {"layers": [dict(sorted({"base": base, **layer.members()}.items())) for layer, base in pairs]}

    def bind_inner(self, context: Context) -> Self:
        """Return the spec with live resources, and the keys that each layer actually has."""
        bound = super().bind_inner(context)
        parts = disjoint([Layer(x.keys, x.strip, x.base) for x in bound.layers])
        return replace(bound, layers=tuple(_LayerSpec(part.base, part.keys, part.strip) for part in parts))

    def open_driver(self) -> tuple[KvStoreDriver, str]:
        """Return the stack; the path stays a prefix of keys."""
        layers = []
        for layer in self.layers:
            driver, path = layer.base.open_driver()
            layers.append(Layer(layer.keys, layer.strip, driver, path))
        return StackStore(layers), self.path


_COMPRESSIONS = ("store", "deflate", "zstd", "xz")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ZipKvStoreSpec(OneBaseKvStoreSpec):
    """``{"driver": "zip", "base": "file:///a.zip", "path": "b/"}``, ``file:///a.zip|zip:b/``."""

    driver: ClassVar[str] = "zip"
    resource_kinds: ClassVar[tuple[str, ...]] = ("cache_pool", "data_copy_concurrency")

    # of new values; by default deflate, and none in OME-Zarr's archives
    compression: Compression | None = member(
        "compression", partial(expect_one_of, choices=_COMPRESSIONS), None, shown="if set"
    )

    def own_members(self, include_defaults: bool) -> dict[str, Any]:
        """Return the driver's own members; the default of `compression` is that of the archive's name."""
        usual = default_compression(self.below.path)
        is_shown = include_defaults or self.compression not in (None, usual)
        return {"compression": self.compression or usual} if is_shown else {}

    def open_driver(self) -> tuple[KvStoreDriver, str]:
        """Return the store of the archive; the path stays a prefix of keys."""
        driver, key = self.below.open_driver()
        slots = self.live("data_copy_concurrency").slots
        return ZipStore(driver, key, compression=self.compression, slots=slots), self.path

    def to_url(self) -> str:
        """Return ``base|zip:path``."""
        return f"{self.below.to_url()}|zip:{quote_path(self.path)}"
