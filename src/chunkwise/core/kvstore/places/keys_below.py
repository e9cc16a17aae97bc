"""Keys below a prefix: listed, copied and deleted so that no node is ever seen without its data."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from chunkwise.core.kvstore.atomic import Directories
from chunkwise.core.kvstore.key_range import KeyRange, encode_key
from chunkwise.core.kvstore.places.replaced_places import note_replaced
from chunkwise.core.kvstore.places.staging import (
    APPEND,
    COMPLETE,
    STAGED,
    in_staging,
    is_staging,
)
from chunkwise.core.kvstore.protocol import MISSING_GENERATION, Buffer, KvStoreDriver, delete_where, offers
from chunkwise.core.kvstore.traits import traits_of
from chunkwise.errors import AlreadyExistsError, FailedPreconditionError

__all__ = [
    "OURS",
    "copy_below",
    "delete_all_below",
    "delete_documents",
    "delete_wanted_below",
    "in_safe_order",
    "is_document",
    "is_staged",
    "list_below",
    "names_below",
    "old_ranges",
    "ranges_but",
    "value_at",
    "write_value",
]

OURS = ".chunkwise"  # how keys and staging places of our own begin


def list_below(store: KvStoreDriver, path: str) -> Iterator[str]:
    below = KeyRange.of_prefix(path)
    return store.list(below.start, below.stop)


def names_below(store: KvStoreDriver, staging: str) -> list[str]:
    marks = (staging + COMPLETE, staging + STAGED)
    return sorted(key[len(staging) :] for key in list_below(store, staging) if key not in marks)


def value_at(store: KvStoreDriver, key: str) -> Buffer:
    value = store.read(key).value
    if value is None:
        raise FailedPreconditionError(f"{store.describe(key)} was deleted by another process")
    return value


def is_staged(key: str, path: str) -> bool:
    """Return True if a key is in a staging place in `path`, of this writer or another."""
    return is_staging(key[len(path) :].partition("/")[0])


def is_document(name: str, documents: Collection[str]) -> bool:
    return name.rpartition("/")[2] in documents


def _rank(name: str, documents: Collection[str]) -> int:
    """Return the position of a document among those of a node: attributes and copies come first."""
    return 0 if name.rpartition("/")[2] in (".zattrs", "attrs", ".zmetadata") else 1


def in_safe_order(
    store: KvStoreDriver, names: Sequence[str], documents: Collection[str]
) -> tuple[Sequence[str], Sequence[str]]:
    """Return the names to write first and last: last the documents that make a node of the rest."""
    rest = [name for name in names if not is_document(name, documents)]
    found = [name for name in names if is_document(name, documents)]
    found.sort(key=lambda name: (-name.count("/"), _rank(name, documents), name))  # the deepest first
    return (found[::-1], rest) if traits_of(store).nodes_only else (rest, found)


def delete_all_below(store: KvStoreDriver, path: str) -> None:
    """Delete all keys that begin with `path`, a prefix, and the directory."""
    try:
        if path and offers(store, Directories):
            store.delete_directory(path[:-1])
        else:
            below = KeyRange.of_prefix(path)
            store.delete_range(below.start, below.stop)
    finally:
        note_replaced(store, path)


def delete_wanted_below(store: KvStoreDriver, path: str, wanted: Callable[[str], bool]) -> None:
    """Delete the `wanted` keys that begin with `path`, a prefix, and the directory if it is empty then."""
    try:
        if path and offers(store, Directories):
            store.delete_directory(path[:-1], wanted)
        else:
            below = KeyRange.of_prefix(path)
            delete_where(store, below.start, below.stop, wanted)
    finally:
        note_replaced(store, path)


def ranges_but(
    store: KvStoreDriver, path: str, keep: Sequence[str], without: Iterable[str] = ()
) -> list[KeyRange]:
    """Return ranges of all keys below `path` except `keep` and those of prefixes."""
    around = _between(KeyRange.of_prefix(path), map(KeyRange.of_prefix, without))
    parts = (part for keys in _ranges_but(store, path, keep) for part in map(keys.intersect, around))
    return [part for part in parts if not part.empty]


def _ranges_but(store: KvStoreDriver, path: str, keep: Sequence[str]) -> list[KeyRange]:
    """Return ranges of all keys below `path` except `keep`."""
    below = KeyRange.of_prefix(path)
    if not keep:
        return [below]
    kept = set(keep)
    out: list[KeyRange] = []
    start, found = below.inclusive_min, False
    # Ranges as large as possible, not single keys, so that lock files and emptied directories are removed
    # too.
    for key in sorted({*list_below(store, path), *kept}, key=encode_key):
        if key not in kept:
            found = True
            continue
        if found:
            out.append(KeyRange(start, encode_key(key)))
        start, found = encode_key(key) + b"\0", False
    if found:
        out.append(KeyRange(start, below.exclusive_max))
    return out


def old_ranges(store: KvStoreDriver, path: str, before: Iterable[str], keep: Sequence[str]) -> list[KeyRange]:
    """Return ranges of all keys below `path`, of which `before` were listed, except `keep`.

    Places there where others write new data are not in them.
    """
    own = [
        KeyRange.of_key(key)
        for key in before
        if key.startswith(path + OURS) and key not in keep and not is_staged(key, path)
    ]
    return [*own, *ranges_but(store, path, keep, [path + OURS])]


def _between(keys: KeyRange, without: Iterable[KeyRange]) -> list[KeyRange]:
    """Return the parts of a range that others leave."""
    out, start = [], keys.inclusive_min
    for gap in sorted(without, key=lambda gap: gap.inclusive_min):
        out.append(KeyRange(start, gap.inclusive_min))
        start = gap.exclusive_max
    out.append(KeyRange(start, keys.exclusive_max))
    return [part for part in out if not part.empty]


def write_value(store: KvStoreDriver, target: str, value: Buffer, *, new: bool) -> bytes:
    """Write a value; if it is to be new and the store has conditional writes, unless there is one.

    Returns its generation.
    """
    if not new or not traits_of(store).conditional_writes(target):
        return store.write(target, value) or MISSING_GENERATION
    generation = store.write(target, value, if_equal=MISSING_GENERATION)
    if generation is None:
        raise AlreadyExistsError(f"{store.describe(target)} was made by another process meanwhile")
    return generation


def copy_below(
    store: KvStoreDriver,
    source: str,
    path: str,
    documents: Collection[str],
    *,
    to: KvStoreDriver,
    new: bool = True,
) -> None:
    """Copy all keys below `source`, but others' work, to below `path` of a store; if `new`, it is vacant."""
    mine = [n for n in names_below(store, source) if not in_staging(n) and n.rpartition("/")[2] != APPEND]
    for names in in_safe_order(to, mine, documents):
        for name in names:
            value = store.read(source + name).value
            if value is not None:
                write_value(to, path + name, value, new=new)


def delete_documents(store: KvStoreDriver, staging: str, documents: Collection[str]) -> None:
    """Delete the documents; the rest is useless without them, but may take long to delete."""
    for name in documents:
        store.delete(staging + name)
