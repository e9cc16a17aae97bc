"""Trees in Zarr v2.

Specification: Zarr v2, "Groups", "Attributes", "Logical storage paths".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from chunkwise.core.base.binding import JSON, dump
from chunkwise.core.chunk_key import KeyEncoding, v2_keys
from chunkwise.core.codec.notation import CodecNotation, notation_of
from chunkwise.core.driver.chunked.documents import usual_form
from chunkwise.core.driver.tree_format import FormatName, TreeFormat
from chunkwise.errors import FailedPreconditionError

__all__ = ["Zarr2Tree"]


class Zarr2Tree(TreeFormat):
    """``.zarray`` or ``.zgroup``, attributes in ``.zattrs``, and perhaps copies in ``.zmetadata``."""

    name: ClassVar[FormatName] = "zarr2"
    title: ClassVar[str] = "Zarr v2"
    driver: ClassVar[str] = "zarr"
    array_key: ClassVar[str] = ".zarray"
    group_key: ClassVar[str] = ".zgroup"
    attributes_key: ClassVar[str] = ".zattrs"
    documents: ClassVar[tuple[str, ...]] = (".zarray", ".zgroup", ".zattrs", ".zmetadata")
    consolidated_key: ClassVar[str] = ".zmetadata"
    codecs: ClassVar[CodecNotation] = notation_of("zarr2")
    fill_value_is_marker: ClassVar[bool] = True
    fill_value_can_be_null: ClassVar[bool] = True
    separator_member: ClassVar[str] = "dimension_separator"
    ngff_version: ClassVar[str] = "0.4"
    link_attribute: ClassVar[str] = "zarr_link"

    def usual_form(self, document: Mapping[str, JSON]) -> Mapping[str, JSON]:
        """Return a document whose ``shape`` and ``chunks`` are lists."""
        return usual_form(document)

    def kind_of(self, key: str, document: Mapping[str, JSON]) -> tuple[Literal["array", "group"], str]:
        """Return the kind that the key implies."""
        if key == ".zarray":
            return "array", ""
        # NCZarr and others add members.
        if document.get("zarr_format") != 2:
            return "group", f'Expected "zarr_format" of 2, but received: {dump(dict(document))}'
        return "group", ""

    def compression(self, document: Mapping[str, JSON]) -> JSON:
        """Return ``compressor``."""
        return document.get("compressor")

    def zarr2_members(self, document: Mapping[str, JSON], *, stored: bool = False) -> dict[str, JSON]:
        """Return the document."""
        return dict(document)

    def key_forms(self, separator: str) -> list[tuple[str, KeyEncoding]]:
        """Return the form with ``dimension_separator``."""
        return [(f'"{self.separator_member}": "{separator}"', v2_keys({"separator": separator}))]

    def group_documents(self, attributes: Mapping[str, JSON]) -> dict[str, JSON]:
        """Return ``.zgroup``, and ``.zattrs`` if there are attributes."""
        own: dict[str, JSON] = {".zgroup": {"zarr_format": 2}}
        return {**own, ".zattrs": dict(attributes)} if attributes else own

    def check_group(self, document: Mapping[str, JSON], where: str) -> None:
        """Raise for other versions."""
        if document.get("zarr_format") != 2:
            received = dump(document.get("zarr_format"))
            raise FailedPreconditionError(f'{where}: Expected "zarr_format" of 2, but received: {received}')

    def reserved(self, name: str) -> str:
        """Names that begin with ``.z`` are reserved."""
        return 'Zarr v2 reserves names that begin with ".z"' if name.startswith(".z") else ""
