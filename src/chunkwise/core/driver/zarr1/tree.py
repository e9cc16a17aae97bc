"""Arrays of Zarr v1 in a tree; it has no groups.

Specification: Zarr v1, "Storage".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from chunkwise.core.base.binding import JSON
from chunkwise.core.codec.notation import CodecNotation, notation_of
from chunkwise.core.driver.tree_format import FormatName, TreeFormat
from chunkwise.core.driver.zarr1.document import from_zarr2, to_zarr2

__all__ = ["Zarr1Tree"]


class Zarr1Tree(TreeFormat):
    """``meta`` of an array, and its attributes in ``attrs``."""

    name: ClassVar[FormatName] = "zarr1"
    title: ClassVar[str] = "Zarr v1"
    driver: ClassVar[str] = "zarr1"
    array_key: ClassVar[str] = "meta"
    attributes_key: ClassVar[str] = "attrs"
    codecs: ClassVar[CodecNotation] = notation_of("zarr2")
    fill_value_is_marker: ClassVar[bool] = True
    documents: ClassVar[tuple[str, ...]] = ("meta", "attrs")

    def kind_of(self, key: str, document: Mapping[str, JSON]) -> tuple[Literal["array", "group"], str]:
        """Return "array"."""
        return "array", ""

    def compression(self, document: Mapping[str, JSON]) -> JSON:
        """Return the compressor in the form of Zarr v2."""
        return to_zarr2(document).get("compressor")

    def zarr2_members(self, document: Mapping[str, JSON], *, stored: bool = False) -> dict[str, JSON]:
        """Return the document as members of Zarr v2."""
        return to_zarr2(document, stored=stored)

    def of_zarr2_members(self, members: Mapping[str, JSON]) -> dict[str, JSON]:
        """Return the members of Zarr v1, whose chunk keys have one form."""
        return from_zarr2({name: value for name, value in members.items() if name != "dimension_separator"})

    def is_sure(self, document: Mapping[str, JSON], error: str) -> bool:
        """Return True if the document says so: other tools have files with that name."""
        return not error and document.get("zarr_format") == 1
