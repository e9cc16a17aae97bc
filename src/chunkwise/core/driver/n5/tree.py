"""Trees in N5.

Specification: N5 README, "File-system specification".
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar, Literal

from chunkwise.core.base.binding import JSON
from chunkwise.core.codec.notation import CodecNotation, notation_of
from chunkwise.core.driver.n5.document import ATTRIBUTES_KEY, is_dataset, load_document
from chunkwise.core.driver.tree_format import FormatName, TreeFormat
from chunkwise.errors import InvalidArgumentError

__all__ = ["DATASET_NAMES", "N5Tree"]

DATASET_NAMES = ("dimensions", "blockSize", "dataType", "compression", "compressionType", "codecs")
"""Members of ``attributes.json`` that describe how the blocks of an N5 dataset are stored."""


class N5Tree(TreeFormat):
    """One ``attributes.json`` for each node, whose members are the attributes; every directory is a group."""

    name: ClassVar[FormatName] = "n5"
    title: ClassVar[str] = "N5"
    driver: ClassVar[str] = "n5"
    suffix: ClassVar[str] = ".n5"
    array_key: ClassVar[str] = ATTRIBUTES_KEY
    group_key: ClassVar[str] = ATTRIBUTES_KEY
    documents: ClassVar[tuple[str, ...]] = (ATTRIBUTES_KEY,)
    container_member: ClassVar[str] = "n5"
    directories_are_groups: ClassVar[bool] = True
    keeps_null: ClassVar[bool] = False
    has_fill_value: ClassVar[bool] = False
    codecs: ClassVar[CodecNotation] = notation_of("n5")
    has_empty_arrays: ClassVar[bool] = False
    shape_member: ClassVar[str] = "dimensions"
    names_member: ClassVar[str] = "axes"
    dimension_attributes: ClassVar[tuple[str, ...]] = ("axes", "units", "resolution")
    successor: ClassVar[FormatName | None] = None
    has_bool: ClassVar[bool] = False
    has_fixed_text: ClassVar[bool] = False
    reversed_axes: ClassVar[bool] = True

    def load(self, raw: bytes | bytearray | memoryview) -> JSON:
        """Return the JSON value, as lenient as n5-java."""
        return load_document(raw)

    def kind_of(self, key: str, document: Mapping[str, JSON]) -> tuple[Literal["array", "group"], str]:
        """Return "array" for a document with the members of a dataset."""
        return ("array" if is_dataset(document) else "group"), ""

    def float_marker(self, value: float) -> JSON:
        """Return a number, or the name of a non-finite one."""
        return value if math.isfinite(value) else "NaN" if value != value else f"{'-' * (value < 0)}Infinity"

    def own_members(self, kind: str) -> tuple[str, ...]:
        """Return the version of a container, and the members of a dataset."""
        return (*DATASET_NAMES, "n5") if kind == "array" else ("n5",)

    def attributes_of(self, document: Mapping[str, JSON], kind: str) -> dict[str, JSON]:
        """Return all members except those of a dataset."""
        # As in other N5 software, "axes", "units", "resolution" and "n5" count as attributes.
        own = DATASET_NAMES if kind == "array" else ()
        return {name: value for name, value in document.items() if name not in own}

    def compression(self, document: Mapping[str, JSON]) -> JSON:
        """Return ``compression``, also from version 0."""
        return document.get("compression", {"type": document.get("compressionType", "raw")})

    def group_documents(self, attributes: Mapping[str, JSON]) -> dict[str, JSON]:
        """Return ``attributes.json``."""
        return {ATTRIBUTES_KEY: dict(attributes)}

    def check_group_attributes(self, attributes: Mapping[str, JSON]) -> None:
        """Raise for attributes of a container or a dataset."""
        if "n5" in attributes:
            raise InvalidArgumentError('"n5" is the version of the container, not an attribute')
        if is_dataset({**attributes}):
            raise InvalidArgumentError("these attributes would make a dataset of an N5 group")
