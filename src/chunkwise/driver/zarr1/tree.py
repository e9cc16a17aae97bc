"""How Zarr v1 keeps arrays in a tree; it has no groups.

Specification: Zarr v1, "Storage".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from chunkwise.binding import JSON
from chunkwise.driver.tree_format import FormatName, TreeFormat

__all__ = ["Zarr1Tree"]


class Zarr1Tree(TreeFormat):
    """``meta`` of an array, and its attributes in ``attrs``."""

    name: ClassVar[FormatName] = "zarr1"
    title: ClassVar[str] = "Zarr v1"
    driver: ClassVar[str] = "zarr1"
    array_key: ClassVar[str] = "meta"
    attributes_key: ClassVar[str] = "attrs"
    fill_value_is_marker: ClassVar[bool] = True
    documents: ClassVar[tuple[str, ...]] = ("meta", "attrs")

    def kind_of(self, key: str, document: Mapping[str, JSON]) -> tuple[Literal["array", "group"], str]:
        """Return that it is an array."""
        return "array", ""

    def is_sure(self, document: Mapping[str, JSON], error: str) -> bool:
        """Return True if it says so: other tools have files of that name."""
        return not error and document.get("zarr_format") == 1
