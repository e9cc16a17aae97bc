"""The chunk key encodings of Zarr v3: ``default``, ``c/1/23/45``, and ``v2``, ``1.23.45``.

``v2`` is that of Zarr v2 and v1 arrays and of N5 too.

Specification
-------------
https://zarr-specs.readthedocs.io/en/latest/v3/chunk-key-encodings/default/, ``…/v2/``, "Description";
Zarr v2, "Chunks" and member ``dimension_separator``; N5, "File-system specification": ``/``.

Names
-----
zarr3: ``default``, ``v2``

Configuration
-------------
>>> default_keys({"separator": "."}).key((1, 23, 45))
'c.1.23.45'
>>> v2_keys({"separator": "/"}).key((1, 23, 45))
'1/23/45'
"""

from __future__ import annotations

from collections.abc import Mapping

from chunkwise.binding import JSON, Members, expect_one_of
from chunkwise.chunk_key.key_encoding import KeyEncoding

__all__ = ["default_keys", "v2_keys"]


def default_keys(configuration: Mapping[str, JSON]) -> KeyEncoding:
    """Read the configuration object, ``{"separator": "/" or "."}``; ``"/"`` if left out."""
    separator = _separator(configuration, ("/", "."))
    return KeyEncoding(f"c{separator}", separator, "c")


def v2_keys(configuration: Mapping[str, JSON]) -> KeyEncoding:
    """Read the configuration object, ``{"separator": "/" or "."}``; ``"."`` if left out."""
    return KeyEncoding("", _separator(configuration, (".", "/")), "0")


def _separator(configuration: Mapping[str, JSON], choices: tuple[str, str]) -> str:
    members = Members(configuration)
    separator: str = members.take("separator", lambda value: expect_one_of(value, choices), choices[0])
    members.finish()
    return separator
