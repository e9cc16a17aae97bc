"""The keys that belong to a node by its format, and foreign keys among them.

======  ============================================================================================
node    its keys
======  ============================================================================================
all     metadata documents of any format, journals of copies, places for new data
group   and those of the nodes in it; of N5, directories that nothing is in
array   and chunks: keys as the encoding of the array makes them, also beyond its present shape
======  ============================================================================================

All other keys are foreign: they are neither deleted nor replaced.  Lock files are not keys.  Chunks whose
array has lost its document are recognized if nothing else is in the directory.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from typing import Any, TypeAlias

from chunkwise.core.base.binding import JSON, expect_object
from chunkwise.core.engine.concurrent_requests import is_slow, map_requests
from chunkwise.core.kvstore.key_range import KeyRange, encode_key
from chunkwise.core.kvstore.objects.read import e_tag_in, is_version
from chunkwise.core.kvstore.places.keys_below import delete_wanted_below, list_below
from chunkwise.core.kvstore.places.staging import COMPLETE, in_staging, is_staging
from chunkwise.core.kvstore.places.take_place import staging_paths
from chunkwise.core.kvstore.protocol import ByteRange, EntryListable, Stamped, WithLinks, offers
from chunkwise.core.kvstore.traits import traits_of
from chunkwise.core.trees.location import Location
from chunkwise.core.trees.look import node_above
from chunkwise.core.trees.node import DOCUMENTS, Node, find_documented, node_of
from chunkwise.errors import ChunkwiseError

__all__ = ["delete_own", "foreign_files", "foreign_keys", "is_made_here", "was_replaced"]

_IsChunk: TypeAlias = Callable[[str], bool]

# Document names of any node, including those that netCDF-C adds to Zarr v2.
_DOCUMENTS = frozenset(DOCUMENTS) - {"meta", "attrs"} | {".nczarray", ".nczgroup", ".nczattr", ".nczarr"}
_NODES = ("zarr.json", ".zarray", ".zgroup", "attributes.json", "meta")
_ARRAY = re.compile(r"c|c[./](?:[0-9]+[./])*[0-9]+|(?:[0-9]+[./])*[0-9]+")
"""Keys of chunks in any format, for arrays with unknown metadata."""
_OF_DESKTOPS = (".DS_Store", "Thumbs.db", "desktop.ini", ".directory")
_DIGITS = re.compile("[0-9]+")
_ORPHAN = re.compile(r"(?:\A|/)(?:c(?:(?:/[0-9]+)+|(?:\.[0-9]+)+)|[0-9]+(?:\.[0-9]+)+|[0-9]+(?:/[0-9]+)+)\Z")
_BEGUN = re.compile(rf"(?:\A|/)(?:{_ARRAY.pattern})\Z")


def foreign_keys(location: Location, known: Iterable[Node] = (), made: list[str] | None = None) -> list[str]:
    """Return the keys at and below a location that belong to no node there, in order.

    Documents of `known` nodes are not read again if the store lists the same ETags.  `made` gets the keys
    that only this library makes.
    """
    kv, path = location.store, location.path
    below = KeyRange.of_prefix(path)
    tags: dict[str, str | None]
    if offers(kv, EntryListable):
        tags = {entry.key[len(path) :]: entry.e_tag for entry in kv.list_entries(below.start, below.stop)}
    else:
        tags = {key[len(path) :]: None for key in kv.list(below.start, below.stop)}
    names = list(tags)
    if made is not None:
        made += (path + name for name in names if ".chunkwise" in name)
    documents = [
        (directory, last)
        for directory, last in map(_parts, names)
        if last in _NODES and not in_staging(directory)
    ]
    before = {(node.location.path + node.key)[len(path) :]: node.found for node in known}

    def read_one(at: tuple[str, str]) -> Stamped:
        name = "/".join(filter(None, at))
        found = before.get(name)
        if found is not None and is_version(tags[name], e_tag_in(found.generation)):
            return found
        return kv.read(path + name)

    read = map_requests(kv, read_one, documents)
    stored: dict[str, dict[str, Stamped]] = {}
    for (directory, last), found in zip(documents, read, strict=True):
        stored.setdefault(directory, {})[last] = found
    arrays = {directory: _chunks_of(location, directory, stored[directory]) for directory in sorted(stored)}
    # Keys stored by an unfinished copy count as chunks; in a tree, documents come last.
    for directory, last in map(_parts, names):
        if last.startswith(".chunkwise-copy"):
            is_chunk = arrays.get(directory)
            arrays[directory] = _begun_chunk if is_chunk is None else _either(is_chunk, _begun_chunk)
    if "" not in arrays and was_replaced(location):
        arrays[""] = _begun_chunk
    own = cache(partial(_nearest, arrays))
    foreign = [name for name in names if not _is_own(name, own)]
    orphans = _orphans(foreign)
    left = sorted((path + name for name in foreign if name not in orphans), key=encode_key)
    if not offers(kv, WithLinks):
        return left
    directories = {key[: key.rfind("/") + 1] for key in left}
    links = {link for prefix in directories for link in kv.linked_directories(prefix)}
    return [key for key in left if key not in links or find_documented(location.at(f"{key}/")) is None]


def foreign_files(names: Iterable[str]) -> list[str]:
    """Return those of the names of files in a group that belong to no node, in order."""
    return sorted(
        name
        for name in names
        if name not in _DOCUMENTS and name not in _OF_DESKTOPS and not is_made_here(name)
    )


def _orphans(names: list[str]) -> set[str]:
    """Return the keys of chunks whose array has lost its document, for example by an interrupted deletion."""
    # They must be alike, such as "c/0/1", "0.1" or "0/1", and alone in the directory.  A single number is not
    # enough.
    found: dict[str, dict[str, str]] = {}
    for name in names:
        chunk = _ORPHAN.search(name)
        if chunk is not None:
            found.setdefault(name[: chunk.start()], {})[name] = _DIGITS.sub("0", chunk[0])
    ordered = sorted(names)
    out: set[str] = set()
    for directory, alike in found.items():
        below = f"{directory}/" if directory else ""
        n = bisect(ordered, below[:-1] + "0") - bisect(ordered, below) if below else len(ordered)
        if n == len(alike) and len(set(alike.values())) == 1:
            out.update(alike)
    return out


def was_replaced(location: Location) -> bool:
    """Return True if a replacement here has deleted the old document, and is under way or was interrupted."""
    kv = location.store
    return any(
        kv.read(path + COMPLETE, byte_range=ByteRange(0, 0)).value is not None
        for path in staging_paths(kv, location.path)
    )


def delete_own(location: Location, keep: Iterable[str] | None = None, *, made: bytes = b"") -> None:
    """Delete what a writer that failed has made at a location, except `keep`, by default the foreign keys.

    Chunks of an array that another process has put above are left alone, and so is a node that another
    process has put there: its document is not of the generation `made`, if that is given.
    """
    kv, path = location.store, location.path

    def generation(key: str) -> bytes:
        return kv.read(key, byte_range=ByteRange(0, 0)).generation

    keys = list(list_below(kv, path))
    before = dict(zip(keys, map_requests(kv, generation, keys), strict=True))
    if made and _is_others(location, made):
        return
    kept = set(foreign_keys(location) if keep is None else keep)
    above = node_above(location)
    if above is not None and above.kind == "array" and above.found is not None:
        at, is_chunk = above.location, _chunks_of(above.location, "", {above.key: above.found})
        kept |= {key for key in keys if is_chunk(key[len(at.path) :])}
    own = {key for key in keys if key not in kept}
    if is_slow(kv):
        looked = list(own)
        now = map_requests(kv, generation, looked)
        own = {key for key, current in zip(looked, now, strict=True) if current == before[key]}
        delete_wanted_below(kv, path, own.__contains__)
    else:
        delete_wanted_below(kv, path, lambda key: key in own and generation(key) == before[key])


def _is_others(location: Location, made: bytes) -> bool:
    if not traits_of(location.store).own_generations:
        return False
    node = find_documented(location)
    return node is not None and node.found is not None and node.found.generation != made


def is_made_here(name: str) -> bool:
    """Return True if a component of a path is a name that only this library makes."""
    return name.startswith(".chunkwise") or is_staging(name)


def _parts(name: str) -> tuple[str, str]:
    directory, _, last = name.rpartition("/")
    return directory, last


def _nearest(arrays: Mapping[str, _IsChunk], directory: str) -> tuple[str, _IsChunk | None]:
    """Return the path of the nearest node with a document at or above a directory, and its chunk test."""
    while (is_chunk := arrays.get(directory)) is None and directory:
        directory = directory.rpartition("/")[0]
    return directory, is_chunk


def _is_own(name: str, nearest: Callable[[str], tuple[str, _IsChunk | None]]) -> bool:
    directory, last = _parts(name)
    if last in _DOCUMENTS or (".chunkwise" in name and any(map(is_made_here, name.split("/")))):
        return True
    node, is_chunk = nearest(directory)
    return is_chunk is not None and is_chunk(name[len(node) + 1 :] if node else name)


def _chunks_of(location: Location, directory: str, stored: Mapping[str, Stamped]) -> _IsChunk:
    """Return a test for a node's chunk keys, relative to it, from all of its documents."""
    here = location.child(directory) if directory else location
    tests: list[_IsChunk] = []
    for key in _NODES:
        found = stored.get(key)
        if found is None or found.value is None:
            continue
        node = node_of(here, key, found)
        if key == "meta":  # other tools have files with that name
            if not node.error and node.document.get("zarr_format") == 1:
                tests += [{"meta", "attrs"}.__contains__, _chunks_of_array(key, node.document)]
        elif node.error:
            tests.append(_any_chunk)
        elif node.kind == "array":
            tests.append(_chunks_of_array(key, node.document))
    return lambda name: any(test(name) for test in tests)


def _begun_chunk(name: str) -> bool:
    return _BEGUN.search(name) is not None


def _either(one: _IsChunk, other: _IsChunk) -> _IsChunk:
    return lambda name: one(name) or other(name)


def _any_chunk(name: str) -> bool:
    return _ARRAY.fullmatch(name) is not None


def _chunks_of_array(key: str, document: Mapping[str, JSON]) -> _IsChunk:
    try:
        if key == "attributes.json":
            return _numbers("", "/", len(document["dimensions"]), "0")
        rank = len(document["shape"])
        if key != "zarr.json":  # including a Zarr v2 array whose separator only the reader knows
            return _either(_numbers("", ".", rank, "0"), _numbers("", "/", rank, "0"))
        encoding: Any = document["chunk_key_encoding"]
        encoding = {"name": encoding} if isinstance(encoding, str) else expect_object(encoding)
        configuration = encoding.get("configuration") or {}
        if encoding.get("name") == "default":
            separator = configuration.get("separator", "/")
            return _numbers(f"c{separator}", separator, rank, "c")
        if encoding.get("name") == "v2":
            return _numbers("", configuration.get("separator", "."), rank, "0")
    except (KeyError, TypeError, ValueError, ChunkwiseError):
        pass
    return _any_chunk


def _numbers(prefix: str, separator: str, rank: int, scalar: str) -> _IsChunk:
    """Return a test for keys of `rank` numbers after a prefix."""
    if rank == 0:
        return scalar.__eq__
    number = "(?:0|[1-9][0-9]*)"
    one = re.compile(re.escape(prefix) + number + f"(?:{re.escape(separator)}{number}){{{rank - 1}}}")
    return lambda name: one.fullmatch(name) is not None
