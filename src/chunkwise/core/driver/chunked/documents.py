"""Metadata documents: the cache of those that this process has parsed; the form of the specification.

Parsing and checking a document is most of the work of opening an array, and depends only on its bytes; so do
the locations of chunks.  Arrays are opened again and again, and many have equal documents, such as those of a
pyramid or one camera.  Others usually differ only in shape and attributes, so results for one apply to the
next.  A few results are kept, but not large documents.

Cached objects must not be changed: documents passed on are copies.

One-dimensional ``shape`` as a number, and ``chunks`` in Zarr v2, are read as in zarr-python; so is a missing
``compressor``.  In Zarr v3, ``attributes``, ``dimension_names`` and ``storage_transformers`` may be null for
none.  All readers of documents get the usual form.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

from chunkwise.core.base.binding import JSON
from chunkwise.core.base.cached import json_key, put_bounded
from chunkwise.core.driver.chunked.format import Format, Metadata
from chunkwise.core.driver.stored_array import StoredArray
from chunkwise.core.index_space import IndexDomain

__all__ = ["cache_document", "cached_document", "cached_metadata", "layout_of", "usual_form"]

_MAX_NBYTES = 1 << 14


class Layout(NamedTuple):
    """The grid, chain and keys of an array, which determine the position of each element."""

    domain: IndexDomain
    stored: StoredArray


_documents: dict[tuple[str, bytes], tuple[Any, Metadata]] = {}
_templates: dict[tuple[str, bytes], Metadata] = {}
# by identity; the value contains the metadata, so that its identity is not reused
_layouts: dict[tuple[int, str, Hashable], tuple[Metadata, Layout]] = {}
_stored_arrays: dict[tuple[Hashable, ...], tuple[Metadata, StoredArray]] = {}


def cached_document(format: Format, raw: bytes) -> tuple[Any, Metadata] | None:
    """Return the document and metadata from an earlier parse of `raw`, or None."""
    return _documents.get((format.driver, raw))


def cache_document(format: Format, raw: bytes, document: JSON, metadata: Metadata) -> None:
    """Keep the result of parsing `raw`."""
    if len(raw) <= _MAX_NBYTES:
        put_bounded(_documents, (format.driver, raw), (document, metadata))


def cached_metadata(format: Format, document: JSON) -> Metadata:
    """Return the metadata in `document`, like ``format.parse_metadata``."""
    # A document that differs from an earlier one only in shape and attributes is not parsed again.
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
    return stored._replace(
        shape=metadata.shape + stored.shape[rank:],
        keys=stored.keys.under(path),
        document=metadata.document,
    )


_SIZES = ("shape", "chunks")
_OPTIONAL = ("attributes", "dimension_names", "storage_transformers")


def _sizes(value: JSON) -> JSON:
    items = value if isinstance(value, list) else [value] if type(value) in (int, float) else None
    if items is None:
        return value
    return [int(n) if isinstance(n, float) and n.is_integer() else n for n in items]


def usual_form(document: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return a document of Zarr v2 or v3 with its members in the usual form."""
    out = dict(document)
    version = out.get("zarr_format")
    if version in (2, 3):
        out["zarr_format"] = int(version)
        out.update({name: _sizes(out[name]) for name in _SIZES[: 4 - int(version)] if name in out})
    if version == 2 and "shape" in out:
        out.setdefault("compressor", None)  # zarr-python reads a missing one as none
        # netCDF-C 4.8.0 left the fill value out, or put it into a list
        fill, dtype = out.setdefault("fill_value", None), out.get("dtype")
        if isinstance(fill, list) and len(fill) == 1 and isinstance(dtype, str) and dtype != "|O":
            out["fill_value"] = fill[0]
    if version == 3:
        for name in _OPTIONAL:
            if name in out and out[name] is None:
                del out[name]
    return out
