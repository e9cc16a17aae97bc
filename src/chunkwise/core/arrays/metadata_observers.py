"""After the write of a document: observers update consolidated metadata of groups; new nodes are checked.

Before that, the node's place was vacant and the nodes above were groups.  Other processes may have changed
that meanwhile.  Each of two that can't both be there writes first and looks then, so one of them sees the
other.

The observers are rows of the catalogue, since only a higher layer knows groups.  They are called only if a
group above the array has copies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

from chunkwise.core.arrays.protocol import WrapStore
from chunkwise.core.base import catalogue
from chunkwise.core.driver.chunked.flows import OpenRequest
from chunkwise.core.driver.chunked.spec import ChunkedSpec
from chunkwise.core.driver.tree_format import TreeFormat
from chunkwise.core.driver.tree_formats import TREE_FORMATS
from chunkwise.core.engine.concurrent_requests import is_slow, map_requests
from chunkwise.core.kvstore.adapter.cache import CacheStore
from chunkwise.core.kvstore.adapter.prefix import whole_store
from chunkwise.core.kvstore.places.lease import check_not_held, takes_turns
from chunkwise.core.kvstore.places.staging import APPEND, in_staging, is_staging, upwards
from chunkwise.core.kvstore.protocol import FewListable, KvStoreDriver, offers
from chunkwise.core.kvstore.value import read_bounded
from chunkwise.errors import AlreadyExistsError, ChunkwiseError, PermissionDeniedError, UnsupportedError

__all__ = [
    "HOLDERS",
    "NO_CHECKS",
    "Checks",
    "checks_above",
    "find_holders",
    "is_consolidated",
    "metadata_changed",
    "metadata_written",
    "place_check",
    "whole_path",
    "wrapped",
]

Checks: TypeAlias = Mapping[str, Callable[[bytes], None]]
"""Keys of documents, with a function that raises for what a document must not say."""

_DOCUMENTS = tuple(key for format in TREE_FORMATS.values() for key in format.documents)


def _check_holds_nothing(store: KvStoreDriver, path: str) -> None:
    """Raise AlreadyExistsError if anything is in a new array, HeldError if another owner clears its place."""
    try:
        found = store.few_children(path) if offers(store, FewListable) else store.list_children(path)
    except (UnsupportedError, PermissionDeniedError):
        found = None
    if takes_turns(store, path + APPEND) and (found is None or path + APPEND in found.keys):
        check_not_held(store, path + APPEND)
    for key in () if found is None else (*found.prefixes, *found.keys):
        name = key[len(path) :]
        # The array has documents, perhaps with lock files, and names that this library hides.
        if not (name.startswith((".chunkwise", *_DOCUMENTS)) or is_staging(name)):
            raise AlreadyExistsError(f"{store.describe(key)} was made by another process meanwhile")


def checks_above(store: KvStoreDriver, path: str, format: TreeFormat) -> Checks:
    """Return checks that raise AlreadyExistsError if a group above a node has become an array of a format."""
    groups = (group for group in upwards(path) if group != path)
    return {group + format.array_key: partial(_check_group, store, format, group) for group in groups}


def _check_group(store: KvStoreDriver, format: TreeFormat, group: str, raw: bytes) -> None:
    try:
        document = format.load(raw)
    except ChunkwiseError:
        return
    if not isinstance(document, dict) or (format.container_member and format.container_member in document):
        return
    if format.kind_of(format.array_key, format.usual_form(document))[0] == "array":
        raise AlreadyExistsError(
            f"{store.describe(group)} is an array, which another process has made meanwhile; nothing can be "
            "below it"
        )


HOLDERS = (("zarr2", ".zmetadata", b"metadata"), ("zarr3", "zarr.json", b"consolidated_metadata"))
"""Format and key of documents that may have copies, and a word that documents with copies contain."""


NO_CHECKS: Checks = {}


def metadata_written(
    spec: ChunkedSpec,
    request: OpenRequest,
    store: KvStoreDriver,
    wrap: WrapStore | None,
    *,
    is_new: bool = False,
) -> None:
    """Notify observers that an array's document was written, within the transaction of `wrap`.

    If it `is_new`, raise HeldError while another process is replacing or deleting the old node, and
    AlreadyExistsError for what others have made around it, or in one of a tree, since it was looked for.
    """
    whole, path = whole_path(store.base if isinstance(store, CacheStore) else store, request.path)
    looks: list[Callable[[], object]] = []
    if is_new and takes_turns(whole, path + APPEND):
        looks.append(partial(check_not_held, whole, path + APPEND))
    checks: Checks = NO_CHECKS
    if is_new and not in_staging(path):
        from chunkwise.core.driver.tree_formats import FORMATS, tree_format

        looks = [partial(_check_holds_nothing, whole, path)] if spec.in_tree else looks
        checks = checks_above(whole, path, tree_format(FORMATS[request.format.driver]))
    seen = None if wrap is None else wrapped(spec, whole, wrap)
    metadata_changed(whole, path, request.format.consolidated_key, seen, looks, checks)


def place_check(
    spec: ChunkedSpec, store: KvStoreDriver, path: str, wrap: WrapStore | None
) -> Callable[[], None]:
    """Return a check that raises AlreadyExistsError if a new array would lie inside another."""

    def check() -> None:
        whole, where = whole_path(store, path)
        seen = whole if wrap is None else wrapped(spec, whole, wrap)
        catalogue.hooks.find("check of a new place")(seen, where, spec.kvstore, unfinished=spec.in_tree)

    return check


def wrapped(spec: ChunkedSpec, store: KvStoreDriver, wrap: WrapStore) -> KvStoreDriver:
    """Return the store of an array as the transaction of `wrap` sees it."""
    return wrap(store, getattr(spec.kvstore, "atomic", True))


def metadata_changed(
    store: KvStoreDriver,
    path: str,
    copies: str,
    seen: KvStoreDriver | None = None,
    looks: Sequence[Callable[[], object]] = (),
    checks: Checks = NO_CHECKS,
) -> None:
    """Notify observers that documents of an array were created, changed or deleted."""
    # `copies` is the key of documents that may have copies, if any.  `store` is the largest part of the
    # storage, so that groups above the array are visible; `seen` is the same as seen by the transaction of
    # the change.  An error is raised if a copy can't be updated; the array itself is correct then.  `looks`
    # and `checks` are made in the same round of requests as the first ones here.
    _, *above = upwards(path)  # an array has no copies of other documents
    places = [(group + key, word) for group in above for _, key, word in HOLDERS if key == copies]
    if any(find_holders(store, places, looks, checks)):
        for name in catalogue.METADATA_OBSERVERS:
            catalogue.metadata_observers.find(name)(store if seen is None else seen, path)


def is_consolidated(store: KvStoreDriver, path: str) -> bool:
    """Return True if the group at `path`, or one above, has consolidated metadata."""
    return any(
        find_holders(store, [(group + key, word) for group in upwards(path) for _, key, word in HOLDERS])
    )


def find_holders(
    store: KvStoreDriver,
    places: Sequence[tuple[str, bytes]],
    looks: Sequence[Callable[[], object]] = (),
    checks: Checks = NO_CHECKS,
) -> Iterable[bool]:
    """Return for each key and word whether there is a readable document with it; see `metadata_changed`."""
    known = {key for key, _ in places}
    asks: list[Callable[[], object]] = [
        *looks,
        *(partial(_holds, store, key, b"", check) for key, check in checks.items() if key not in known),
    ]
    asks, n = [*asks, *(partial(_holds, store, *place, checks.get(place[0])) for place in places)], len(asks)
    if is_slow(store) or n:
        return map(bool, map_requests(store, lambda ask: ask(), asks)[n:])
    return (bool(ask()) for ask in asks)


def _holds(store: KvStoreDriver, key: str, word: bytes, check: Callable[[bytes], None] | None = None) -> bool:
    try:
        raw = read_bounded(store, key).value
    except PermissionDeniedError:
        return False  # copies that the caller may not read are not updated
    if raw is not None and check is not None:
        check(bytes(raw))
    return raw is not None and word != b"" and word in bytes(raw)


def whole_path(store: KvStoreDriver, path: str) -> tuple[KvStoreDriver, str]:
    """Return the largest store that contains `store`, and the prefix `path` there."""
    whole, above = whole_store(store)
    return whole, above + path
