"""Metadata documents that this process has parsed, and what follows from them.

Parsing and checking a document is most of the work of opening an array, and a function of its bytes; so is
where the chunks lie.  Arrays are opened again and again, and many have the same document, as those of a
pyramid or of one camera do.  What differs between the others is mostly shape and attributes: then what was
found out for one holds for the next.  A little of this is kept, large documents are not.

Nobody may change what is kept here: whoever hands a document out, hands out a copy.
"""

from __future__ import annotations

import marshal
from collections.abc import Hashable
from dataclasses import replace
from typing import Any, NamedTuple

from chunkwise.driver.chunked.format import Format, Metadata
from chunkwise.driver.stored_array import StoredArray
from chunkwise.index_space import IndexDomain

__all__ = ["Layout", "known_document", "layout_of", "parse_known", "remember_document"]

_MAX_ENTRIES = 128
_MAX_NBYTES = 1 << 14
_TYPES_ONLY = 2  # format of marshal without references, so that equal values give equal bytes


class Layout(NamedTuple):
    """The grid, chain and keys of an array, from which the position of each element follows."""

    domain: IndexDomain
    stored: StoredArray


_documents: dict[tuple[str, bytes], tuple[Any, Metadata]] = {}
_kinds: dict[tuple[str, bytes], Metadata] = {}
# by identity; the metadata is in the value, so that the identity is not given to another
_layouts: dict[tuple[int, str, Hashable], tuple[Metadata, Layout]] = {}
_frames: dict[tuple[Hashable, ...], tuple[Metadata, StoredArray]] = {}


def known_document(format: Format, raw: bytes) -> tuple[Any, Metadata] | None:
    """Return the document and the metadata that `raw` was parsed to before, None if it was not."""
    return _documents.get((format.driver, raw))


def remember_document(format: Format, raw: bytes, document: Any, metadata: Metadata) -> None:
    """Keep what `raw` was parsed to."""
    if len(raw) <= _MAX_NBYTES:
        _keep(_documents, (format.driver, raw), (document, metadata))


def parse_known(format: Format, document: Any) -> Metadata:
    """Return the metadata that `document` says, as ``format.parse_metadata`` does."""
    # A document that differs from an earlier one in shape and attributes alone is not parsed again.
    frame = format.frame_of(document)
    kind = None if frame is None else _key(frame)
    if frame is None or kind is None:
        return format.parse_metadata(document)
    place = (format.driver, kind)
    first = _kinds.get(place)
    metadata = None if first is None else format.alike(first, document)
    if metadata is None:
        metadata = format.parse_metadata(document)
        _keep(_kinds, place, format.without_attributes(metadata))
    return metadata


def layout_of(format: Format, metadata: Metadata, path: str, options: Any) -> Layout:
    """Return domain and chunks of an array."""
    place = (id(metadata), path, options)
    found = _layouts.get(place)
    if found is not None:
        return found[1]
    layout = Layout(format.domain_of(metadata, options), _stored(format, metadata, path, options))
    _keep(_layouts, place, (metadata, layout))
    return layout


def _stored(format: Format, metadata: Metadata, path: str, options: Any) -> StoredArray:
    rank = len(metadata.shape)
    place = (format.driver, rank, options, *map(id, metadata.frame))
    found = _frames.get(place)
    if found is None:
        bare = format.without_attributes(metadata)
        found = bare, format.stored_array(bare, "", options)
        _keep(_frames, place, found)
    stored = found[1]
    return replace(
        stored,
        shape=metadata.shape + stored.shape[rank:],
        keys=stored.keys.under(path),
        document=metadata.document,
    )


def _key(frame: Any) -> bytes | None:
    try:
        key = marshal.dumps(frame, _TYPES_ONLY)
    except ValueError:  # something that is no JSON, or nested too deeply
        return None
    return key if len(key) <= _MAX_NBYTES else None


def _keep(table: dict[Any, Any], place: Any, value: Any) -> None:
    if len(table) >= _MAX_ENTRIES:
        table.clear()
    table[place] = value
