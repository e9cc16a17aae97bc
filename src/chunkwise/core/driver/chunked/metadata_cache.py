"""The cache of metadata documents that this process has parsed, and of what follows from them.

Parsing and checking a document is most of the work of opening an array, and a function of its bytes; so is
where the chunks lie.  Arrays are opened again and again, and many have the same document, as those of a
pyramid or of one camera do.  What differs between the others is mostly shape and attributes: then what was
found out for one holds for the next.  A little of this is kept, large documents are not.

Nobody may change what is kept here: whoever hands a document out, hands out a copy.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Any, NamedTuple

from chunkwise.core.base.binding import JSON
from chunkwise.core.base.cached import json_key, put_bounded
from chunkwise.core.driver.chunked.format import Format, Metadata
from chunkwise.core.driver.stored_array import StoredArray
from chunkwise.core.index_space import IndexDomain

__all__ = ["Layout", "cache_document", "cached_document", "cached_metadata", "layout_of"]

_MAX_NBYTES = 1 << 14


class Layout(NamedTuple):
    """The grid, chain and keys of an array, from which the position of each element follows."""

    domain: IndexDomain
    stored: StoredArray


_documents: dict[tuple[str, bytes], tuple[Any, Metadata]] = {}
_templates: dict[tuple[str, bytes], Metadata] = {}
# by identity; the metadata is in the value, so that the identity is not given to another
_layouts: dict[tuple[int, str, Hashable], tuple[Metadata, Layout]] = {}
_stored_arrays: dict[tuple[Hashable, ...], tuple[Metadata, StoredArray]] = {}


def cached_document(format: Format, raw: bytes) -> tuple[Any, Metadata] | None:
    """Return the document and the metadata that `raw` was parsed to before, None if it was not."""
    return _documents.get((format.driver, raw))


def cache_document(format: Format, raw: bytes, document: JSON, metadata: Metadata) -> None:
    """Keep what `raw` was parsed to."""
    if len(raw) <= _MAX_NBYTES:
        put_bounded(_documents, (format.driver, raw), (document, metadata))


def cached_metadata(format: Format, document: JSON) -> Metadata:
    """Return the metadata that `document` says, as ``format.parse_metadata`` does."""
    # A document that differs from an earlier one in shape and attributes alone is not parsed again.
    template = format.template_key(document)
    text = None if template is None else json_key(template, _MAX_NBYTES)
    if text is None:
        return format.parse_metadata(document)
    key = format.driver, text
    first = _templates.get(key)
    metadata = None if first is None else first.with_shape_and_attributes(document)
    if metadata is None:
        metadata = format.parse_metadata(document)
        put_bounded(_templates, key, format.without_attributes(metadata))
    return metadata


def layout_of(format: Format, metadata: Metadata, path: str, options: Any) -> Layout:
    """Return domain and chunks of an array."""
    key = id(metadata), path, options
    found = _layouts.get(key)
    if found is not None:
        return found[1]
    layout = Layout(format.domain_of(metadata, options), _stored(format, metadata, path, options))
    put_bounded(_layouts, key, (metadata, layout))
    return layout


def _stored(format: Format, metadata: Metadata, path: str, options: Any) -> StoredArray:
    rank = len(metadata.shape)
    key = format.driver, rank, options, *map(id, metadata.shared)
    found = _stored_arrays.get(key)
    if found is None:
        bare = format.without_attributes(metadata)
        found = bare, format.stored_array(bare, "", options)
        put_bounded(_stored_arrays, key, found)
    stored = found[1]
    return replace(
        stored,
        shape=metadata.shape + stored.shape[rank:],
        keys=stored.keys.under(path),
        document=metadata.document,
    )
