"""``attributes.json`` as text: forgiving when read, canonical when written.

Specification: N5 README, "File-system specification", items 1 to 4.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from chunkwise.binding import JSON, dump_bytes
from chunkwise.errors import SpecError

__all__ = ["ATTRIBUTES_KEY", "dump_document", "is_dataset", "is_marker", "load_document"]

ATTRIBUTES_KEY = "attributes.json"
"""Key, below the path of a group or dataset, of its only metadata document."""


def load_document(raw: bytes | bytearray | memoryview) -> JSON:
    """Return the JSON value of an ``attributes.json``."""
    # As n5-java does, this accepts a UTF-8 byte order mark, ``NaN`` and infinities, and takes an empty
    # file and ``null``, which is what is left when all attributes are removed, for a group without
    # attributes.
    text = bytes(raw)
    if not text.strip():
        return {}
    try:
        value: JSON = json.loads(text.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        raise SpecError("Invalid JSON") from None
    return {} if value is None else value


def dump_document(document: Mapping[str, JSON]) -> bytes:
    """Return the text to be stored for `document`: compact, members sorted, UTF-8."""
    return dump_bytes(document)


def is_dataset(document: Any) -> bool:
    """Return True if the JSON of an ``attributes.json`` is that of a dataset, by n5-java's rule."""
    # A dataset has ``dimensions``, ``blockSize``, ``dataType`` and one of ``compression``,
    # ``compressionType`` (version 0) and ``codecs``; whether they make sense is another question.
    return (
        isinstance(document, Mapping)
        and all(name in document for name in ("dimensions", "blockSize", "dataType"))
        and any(name in document for name in ("compression", "compressionType", "codecs"))
    )


def is_marker(document: Any) -> bool:
    """Return True if an ``attributes.json`` has nothing but the version of a container."""
    return isinstance(document, Mapping) and document.keys() <= {"n5"}
