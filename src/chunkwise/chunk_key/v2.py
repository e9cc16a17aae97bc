"""The ``v2`` chunk key encoding of Zarr v3, which is that of Zarr v2 and v1 arrays and of N5: ``1.23.45``.

Specification
-------------
https://zarr-specs.readthedocs.io/en/latest/v3/chunk-key-encodings/v2/, "Description"; Zarr v2,
"Chunks" and member ``dimension_separator``; N5, "File-system specification": separator ``/``.

Names
-----
zarr3: ``v2``

Configuration
-------------
>>> v2_keys({"separator": "/"}).key((1, 23, 45))
'1/23/45'
"""

from __future__ import annotations

from collections.abc import Mapping

from chunkwise.binding import JSON, Members, expect_one_of
from chunkwise.chunk_key.key_encoding import KeyEncoding

__all__ = ["v2_keys"]


def v2_keys(configuration: Mapping[str, JSON]) -> KeyEncoding:
    """Read the configuration object, ``{"separator": "/" or "."}``; ``"."`` if left out."""
    members = Members(configuration)
    separator = members.take("separator", lambda value: expect_one_of(value, (".", "/")), ".")
    members.finish()
    return KeyEncoding("", separator, "0")
