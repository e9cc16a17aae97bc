"""``CodecNotation``: how each format writes codecs, as far as that isn't one codec's own matter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["CodecNotation", "notation_of"]


@dataclass(frozen=True)
class CodecNotation:
    """What the descriptions of codecs in the documents of one format have."""

    format: str
    """As `parse` and `to_json` of codecs call it."""
    name_member: str = "name"
    nests_options: bool = False
    """Whether options are in a member ``configuration``; else they are beside the name."""
    has_words: bool = False
    """Whether a choice is a word or left out; else it may be a number of the library, -1 for automatic."""
    ignores_unknown: bool = False
    """Whether readers ignore options that they don't know."""
    has_numcodecs_options: bool = False
    """Whether all codecs have the options that NumCodecs and GDAL write."""
    orders_bytes: bool = False
    """Whether filters are given elements in the byte order in which they are stored."""

    def is_of_numcodecs(self, name: str) -> bool:
        """Return True if a codec of this name may have all options that NumCodecs and GDAL write."""
        return self.has_numcodecs_options or name.startswith("numcodecs.")

    def described(self, name: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the description of a codec."""
        if self.nests_options:
            return {"name": name, "configuration": dict(options)}
        return {self.name_member: name, **options}


_NOTATIONS = (
    CodecNotation("zarr3", nests_options=True, has_words=True),
    CodecNotation("zarr2", name_member="id", has_numcodecs_options=True, orders_bytes=True),
    CodecNotation("n5", name_member="type", ignores_unknown=True),
)
_BY_FORMAT = {notation.format: notation for notation in _NOTATIONS}


def notation_of(format: str) -> CodecNotation:
    """Return how "zarr3", "zarr2" or "n5" write codecs."""
    return _BY_FORMAT[format]
