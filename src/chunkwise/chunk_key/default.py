"""The ``default`` chunk key encoding of Zarr v3: ``c/1/23/45``.

Specification
-------------
https://zarr-specs.readthedocs.io/en/latest/v3/chunk-key-encodings/default/, "Description"

Names
-----
zarr3: ``default``

Configuration
-------------
>>> default_keys({"separator": "."}).key((1, 23, 45))
'c.1.23.45'
"""

from __future__ import annotations

from collections.abc import Mapping

from chunkwise.binding import JSON, Members, expect_one_of
from chunkwise.chunk_key.key_encoding import KeyEncoding

__all__ = ["default_keys"]


def default_keys(configuration: Mapping[str, JSON]) -> KeyEncoding:
    """Read the configuration object, ``{"separator": "/" or "."}``; ``"/"`` if left out."""
    members = Members(configuration)
    separator = members.take("separator", lambda value: expect_one_of(value, ("/", ".")), "/")
    members.finish()
    return KeyEncoding(f"c{separator}", separator, "c")
