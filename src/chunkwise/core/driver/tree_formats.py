"""The formats of trees, by name and by the driver of their arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from chunkwise.core.base.binding import JSON
from chunkwise.core.driver.n5.tree import N5Tree
from chunkwise.core.driver.tree_format import FormatName, TreeFormat
from chunkwise.core.driver.zarr1.tree import Zarr1Tree
from chunkwise.core.driver.zarr2.tree import Zarr2Tree
from chunkwise.core.driver.zarr3.tree import Zarr3Tree

__all__ = ["DRIVERS", "FORMATS", "TREE_FORMATS", "tree_format"]

TREE_FORMATS: dict[FormatName, TreeFormat] = {
    format.name: format for format in (Zarr3Tree(), Zarr2Tree(), N5Tree(), Zarr1Tree())
}
"""The formats, in the order in which their documents are tried."""

FORMATS: dict[str, FormatName] = {format.driver: format.name for format in TREE_FORMATS.values()}
"""Format of each driver of arrays that are nodes."""

DRIVERS: dict[str, str] = {format: driver for driver, format in FORMATS.items()}
"""Name of the driver of each format."""


def tree_format(name: str | None) -> TreeFormat:
    """Return the record of a format; None means a directory without any format."""
    return _DIRECTORY if name is None else TREE_FORMATS[name]  # type: ignore[index]


class _Directory(TreeFormat):
    """A directory without any document."""

    title: ClassVar[str] = "directory"
    driver: ClassVar[str] = ""
    array_key: ClassVar[str] = ""
    documents: ClassVar[tuple[str, ...]] = ()

    def kind_of(self, key: str, document: Mapping[str, JSON]) -> tuple[Literal["array", "group"], str]:
        """Return "group"."""
        return "group", ""


_DIRECTORY = _Directory()
