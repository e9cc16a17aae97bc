"""Metadata documents that this process has parsed, and what follows from them.

Parsing and checking a document is most of the work of opening an array, and a function of its bytes; so is
where the chunks lie.  Arrays are opened again and again, and many have the same document, as those of a
pyramid or of one camera do.  A few documents are kept, large ones are not.

Nobody may change what is kept here: whoever hands a document out, hands out a copy.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

from chunkwise.driver.chunked.format import Format, Metadata
from chunkwise.driver.stored_array import StoredArray
from chunkwise.index_space import IndexDomain

__all__ = ["Layout", "known_document", "layout_of", "remember_document"]

_MAX_ENTRIES = 128
_MAX_NBYTES = 1 << 14


class Layout(NamedTuple):
    """Where the elements of an array are."""

    domain: IndexDomain
    stored: StoredArray


_documents: dict[tuple[str, bytes], tuple[Any, Metadata]] = {}
# by identity; the metadata is in the value, so that the identity is not given to another
_layouts: dict[tuple[int, str, Hashable], tuple[Metadata, Layout]] = {}


def known_document(format: Format, raw: bytes) -> tuple[Any, Metadata] | None:
    """Return the document and the metadata that `raw` was parsed to before, None if it was not."""
    return _documents.get((format.driver, raw))


def remember_document(format: Format, raw: bytes, document: Any, metadata: Metadata) -> None:
    """Keep what `raw` was parsed to."""
    if len(raw) <= _MAX_NBYTES:
        if len(_documents) >= _MAX_ENTRIES:
            _documents.clear()
        _documents[format.driver, raw] = (document, metadata)


def layout_of(format: Format, metadata: Metadata, path: str, options: Any) -> Layout:
    """Return domain and chunks of an array.

    Parameters
    ----------
    format : Format
    metadata : Metadata
        Of `format`.
    path : str
        Prefix of the array's keys.
    options : object
        As the format parsed them.
    """
    place = (id(metadata), path, options)
    found = _layouts.get(place)
    if found is not None:
        return found[1]
    layout = Layout(format.domain_of(metadata, options), format.stored_array(metadata, path, options))
    if len(_layouts) >= _MAX_ENTRIES:
        _layouts.clear()
    _layouts[place] = (metadata, layout)
    return layout
