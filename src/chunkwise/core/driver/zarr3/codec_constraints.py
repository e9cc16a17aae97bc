"""Zarr v3 codec chains as JSON constraints: read, merged, and completed into codecs.

In a spec, a chain may be partial: an entry may be a bare name or lack options, and the array -> bytes codec
may be missing.  A chain is kept as a list of ``{"name": …, "configuration": …}`` objects, so that it is
printed as it was given.

Specification: Zarr v3 core, "Codecs" and "Extension definition"; merging as in TensorStore.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeGuard, cast

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
from chunkwise.core.base.catalogue import codecs as codec_registry
from chunkwise.core.codec.chain import codec_name, codec_to_json, parse_codec, prepare_chain
from chunkwise.core.codec.protocol import ArrayToArray, ChunkSpec, Codec
from chunkwise.errors import FailedPreconditionError, SpecError, braced, prefixed

if TYPE_CHECKING:
    from chunkwise.core.codec.sharding import ShardingIndexed

__all__ = [
    "SHARDING",
    "ResolvedChain",
    "SplitChain",
    "as_written",
    "check_byte_order",
    "check_stored",
    "is_sharding",
    "merge_chains",
    "parse_chain",
    "resolve_chain",
    "sharding_levels",
    "split_chain",
]

SHARDING = "sharding_indexed"
INDEX_CODECS: list[JSON] = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]


class SplitChain(NamedTuple):
    """A chain by kind; `array_to_bytes` is None if the constraint leaves it open."""

    array_to_array: list[dict[str, JSON]]
    array_to_bytes: dict[str, JSON] | None
    bytes_to_bytes: list[dict[str, JSON]]


def parse_chain(value: JSON) -> list[dict[str, JSON]]:
    """Read a list of codecs; check each, as far as it is given, and the order of their kinds."""
    chain = parse_array(value, _parse_entry)
    stage = 0
    for entry in chain:
        kind = _kind(entry)
        if kind < stage or (kind == 1 and stage == 1):
            raise SpecError(f"Expected bytes -> bytes codec, but received: {dump(entry)}")
        stage = max(kind, stage)
        if kind == 1:
            stage = 2
    return chain


def check_stored(chain: Sequence[dict[str, JSON]]) -> None:
    """Raise SpecError if the parsed chain of a stored array leaves open how chunks are encoded."""
    codec = split_chain(chain).array_to_bytes
    if codec is None:
        raise SpecError("array -> bytes codec must be specified")
    if codec["name"] != SHARDING:
        return
    options = codec.get("configuration", {})
    for name in ("chunk_shape", "codecs", "index_codecs"):
        if name not in options:
            raise SpecError(f"{SHARDING}: member {dump(name)} is missing")
        if name != "chunk_shape":
            with prefixed(f"{SHARDING}: {dump(name)}", SpecError):
                check_stored(options[name])


def _parse_entry(value: JSON) -> dict[str, JSON]:
    if isinstance(value, str):
        value = {"name": value}
    members = Members(value)
    name = members.take("name", expect_string)
    configuration = members.take("configuration", lambda v: dict(expect_object(v)), None)
    members.take("must_understand", lambda v: expect_one_of(v, (True, False)), True)
    members.finish()
    with prefixed('Error parsing object member "name"'):
        codec = codec_registry.find(name, "zarr3")
    with prefixed('Error parsing object member "configuration"'):
        if name == SHARDING:
            configuration = _parse_sharding(configuration or {})
        else:
            codec.parse("zarr3", name, configuration or {})
    return {"name": name, "configuration": configuration} if configuration else {"name": name}


def _parse_sharding(configuration: Mapping[str, JSON]) -> dict[str, JSON]:
    members = Members(configuration)
    out: dict[str, JSON] = {}
    shape = members.take("chunk_shape", lambda v: parse_array(v, lambda n: expect_int(n, 1)), None)
    if shape is not None:
        out["chunk_shape"] = shape
    for name in ("codecs", "index_codecs"):
        chain = members.take(name, parse_chain, None)
        if chain is not None:
            out[name] = chain
    location = members.take("index_location", lambda v: expect_one_of(v, ("start", "end")), None)
    if location is not None:
        out["index_location"] = location
    members.finish()
    return out


def _kind(entry: Mapping[str, JSON]) -> int:
    kind: str = codec_registry.find(entry["name"], "zarr3").kind
    return ("array->array", "array->bytes", "bytes->bytes").index(kind)


def split_chain(chain: Sequence[dict[str, JSON]]) -> SplitChain:
    """Divide a parsed chain by kind."""
    by_kind: tuple[list[dict[str, JSON]], ...] = ([], [], [])
    for entry in chain:
        by_kind[_kind(entry)].append(entry)
    return SplitChain(by_kind[0], by_kind[1][0] if by_kind[1] else None, by_kind[2])


def sharding_levels(chain: Sequence[dict[str, JSON]]) -> int:
    """Count the nested ``sharding_indexed`` codecs at the head of a chain."""
    levels = 0
    while (a2b := split_chain(chain).array_to_bytes) is not None and a2b["name"] == SHARDING:
        levels += 1
        chain = a2b.get("configuration", {}).get("codecs", [])
    return levels


def merge_chains(a: list[dict[str, JSON]], b: list[dict[str, JSON]]) -> list[dict[str, JSON]]:
    """Return the chain that satisfies both constraints."""
    # If one has more levels of shards than the other, the shallower one constrains the inner chunks.
    split_a, split_b = split_chain(a), split_chain(b)
    levels_a, levels_b = sharding_levels(a), sharding_levels(b)
    if levels_a > levels_b and _only_shards(split_a):
        return _merge_into_shard(split_a, b)
    if levels_b > levels_a and _only_shards(split_b):
        return _merge_into_shard(split_b, a)
    out = _merge_views(split_a.array_to_array, split_b.array_to_array)
    if split_a.array_to_bytes is None or split_b.array_to_bytes is None:
        a2b = split_a.array_to_bytes or split_b.array_to_bytes
    else:
        a2b = _merge_entry(split_a.array_to_bytes, split_b.array_to_bytes)
    if a2b is not None:
        out.append(a2b)
    out += _merge_lists(split_a.bytes_to_bytes, split_b.bytes_to_bytes, "bytes -> bytes")
    return out


def _only_shards(chain: SplitChain) -> bool:
    return not chain.array_to_array and not chain.bytes_to_bytes


def _merge_views(a: list[dict[str, JSON]], b: list[dict[str, JSON]]) -> list[dict[str, JSON]]:
    """Merge array -> array codecs; an extra transposition at the end comes from an inner order."""
    n = min(len(a), len(b))
    more = [*a[n:], *b[n:]]
    if len(more) == 1 and more[0]["name"] == "transpose":
        return [*_merge_lists(a[:n], b[:n], "array -> array"), *more]
    return _merge_lists(a, b, "array -> array")


def _merge_into_shard(outer: SplitChain, inner: list[dict[str, JSON]]) -> list[dict[str, JSON]]:
    assert outer.array_to_bytes is not None
    configuration = dict(outer.array_to_bytes.get("configuration", {}))
    own = configuration.get("codecs")
    configuration["codecs"] = inner if own is None else merge_chains(own, inner)
    return [{"name": SHARDING, "configuration": configuration}]


def _merge_lists(a: list[dict[str, JSON]], b: list[dict[str, JSON]], kind: str) -> list[dict[str, JSON]]:
    if len(a) != len(b):
        raise FailedPreconditionError(
            f"Cannot merge zarr codec constraints {dump(a)} and {dump(b)}: "
            f"Mismatch in number of {kind} codecs ({len(a)} vs {len(b)})"
        )
    return [_merge_entry(x, y) for x, y in zip(a, b, strict=True)]


def _merge_entry(a: dict[str, JSON], b: dict[str, JSON]) -> dict[str, JSON]:
    text = f"Cannot merge zarr codec constraints {dump(a)} and {dump(b)}"
    if a["name"] != b["name"]:
        raise FailedPreconditionError(text)
    config_a, config_b = a.get("configuration", {}), b.get("configuration", {})
    merged = {**config_a, **config_b}
    for name in config_a.keys() & config_b.keys():
        if name in ("codecs", "index_codecs"):
            merged[name] = merge_chains(config_a[name], config_b[name])
        elif _normal(name, config_a[name], config_b[name]) != _normal(name, config_b[name], config_a[name]):
            raise FailedPreconditionError(
                f'{text}: Incompatible "{name}": {dump(config_a[name])} vs {dump(config_b[name])}'
            )
    return {"name": a["name"], "configuration": merged} if merged else {"name": a["name"]}


def _normal(option: str, value: JSON, other: JSON) -> JSON:
    """Replace a transpose order "C" or "F" by the permutation; `other` has the rank."""
    if option == "order" and isinstance(value, str) and isinstance(other, list):
        rank = len(other)
        return list(range(rank)) if value == "C" else list(range(rank))[::-1]
    return value


class ResolvedChain(NamedTuple):
    """A chain with nothing left open, as bound codecs and as JSON."""

    # The JSON keeps the given names: ``numcodecs.zstd`` is not written as ``zstd``.

    codecs: tuple[Codec, ...]
    json: list[dict[str, JSON]]


def resolve_chain(chain: Sequence[dict[str, JSON]], item: ChunkSpec, array_to_bytes: str) -> ResolvedChain:
    """Complete a constraint to codecs bound to `item`, with all defaults settled."""
    split = split_chain(chain)
    a2b = split.array_to_bytes or {"name": array_to_bytes}
    if a2b["name"] == SHARDING:
        seen = item
        for entry in split.array_to_array:
            seen = cast(ArrayToArray, parse_codec(entry).bind(seen)).output(seen)
        a2b = _complete_sharding(a2b, seen, array_to_bytes)
    entries = [*split.array_to_array, a2b, *split.bytes_to_bytes]
    codecs = prepare_chain([parse_codec(entry) for entry in entries], item).codecs
    return ResolvedChain(codecs, _all_as_named(entries, codecs))


def check_byte_order(stored: Sequence[dict[str, JSON]], resolved: Sequence[dict[str, JSON]]) -> None:
    """Raise if a stored ``bytes`` codec lacks a byte order that it needs."""
    # Constraints may leave it open, and zarr-python did so in arrays of type ``structured``.
    entry, settled = split_chain(stored).array_to_bytes, split_chain(resolved).array_to_bytes
    if entry is None or settled is None:
        return
    own, full = entry.get("configuration", {}), settled.get("configuration", {})
    if entry["name"] in ("bytes", "endian") and "endian" in full and "endian" not in own:
        raise SpecError('"bytes" codec requires that "endian" is specified for this data type')
    for name in ("codecs", "index_codecs"):
        if entry["name"] == SHARDING and name in own:
            check_byte_order(own[name], full[name])


def as_written(chain: Sequence[dict[str, JSON]]) -> list[dict[str, JSON]]:
    """Return a resolved chain for a document: zstd's ``checksum`` is left out if false."""
    out = []
    for entry in chain:
        options = dict(entry.get("configuration", {}))
        if entry["name"] == "zstd" and options.get("checksum") is False:
            del options["checksum"]
        for name in ("codecs", "index_codecs"):
            if name in options:
                options[name] = as_written(options[name])
        out.append({**entry, "configuration": options} if "configuration" in entry else entry)
    return out


def _all_as_named(entries: Sequence[dict[str, JSON]], codecs: Sequence[Codec]) -> list[dict[str, JSON]]:
    return [_as_named(entry, codec) for entry, codec in zip(entries, codecs, strict=True)]


def is_sharding(codec: Codec) -> TypeGuard[ShardingIndexed]:
    """Return True if a codec makes shards; loads that codec only if there is one."""
    if codec.name != SHARDING:
        return False
    from chunkwise.core.codec.sharding import ShardingIndexed

    return isinstance(codec, ShardingIndexed)


def _as_named(entry: dict[str, JSON], codec: Codec) -> dict[str, JSON]:
    """Return the JSON of a bound codec under the requested name."""
    if is_sharding(codec):
        configuration = dict(entry["configuration"])
        configuration["index_codecs"] = _all_as_named(configuration["index_codecs"], codec.index_codecs)
        return {"name": SHARDING, "configuration": configuration}
    if entry["name"] != codec_name(codec):  # an alias may have its own options, so they stay unchanged
        return {"name": entry["name"], "configuration": entry.get("configuration", {})}
    return codec_to_json(codec)


def _complete_sharding(entry: Mapping[str, JSON], item: ChunkSpec, array_to_bytes: str) -> dict[str, JSON]:
    configuration = dict(entry.get("configuration", {}))
    shape = tuple(configuration.get("chunk_shape", item.shape))
    if len(shape) != len(item.shape) or any(n % s for n, s in zip(item.shape, shape, strict=True)):
        raise SpecError(
            f"sharding_indexed sub-chunk shape of {braced(shape)} does not evenly divide "
            f"chunk shape of {braced(item.shape)}"
        )
    inner = resolve_chain(configuration.get("codecs", []), item._replace(shape=shape), array_to_bytes)
    configuration["chunk_shape"] = list(shape)
    configuration["codecs"] = inner.json
    configuration.setdefault("index_codecs", INDEX_CODECS)
    configuration.setdefault("index_location", "end")
    return {"name": SHARDING, "configuration": configuration}
