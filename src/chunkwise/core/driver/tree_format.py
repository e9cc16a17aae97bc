"""``TreeFormat``: how a format stores trees, in one record for each format.

A record says which documents a node has and what they contain, where attributes and links are, what a
directory without a document is, and what arrays of the format can have.  It reads nothing itself: it tells
other code what to read, so that they need not compare names of formats.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Literal, TypeAlias

from chunkwise.core.base.binding import JSON, load_json
from chunkwise.core.chunk_key import KeyEncoding
from chunkwise.core.codec.notation import CodecNotation

__all__ = ["FormatName", "TreeFormat"]

FormatName: TypeAlias = Literal["zarr3", "zarr2", "zarr1", "n5"]


class TreeFormat(ABC):
    """Properties of a format's arrays and groups as nodes of a tree."""

    name: ClassVar[FormatName]
    title: ClassVar[str]
    """Name for users: ``Zarr v2``."""
    driver: ClassVar[str]
    """Driver of its arrays."""
    suffix: ClassVar[str] = ".zarr"
    """File extension of roots."""

    array_key: ClassVar[str]
    """Key, relative to an array, of its metadata document."""
    group_key: ClassVar[str] = ""
    """Key of the document of a group; empty if the format has no groups."""
    attributes_key: ClassVar[str] = ""
    """Key of the document with attributes; empty if that is the node's own."""
    attributes_member: ClassVar[str] = ""
    """Member of the node's own document with attributes; empty if they are members themselves."""
    documents: ClassVar[tuple[str, ...]]
    """All metadata keys, relative to a node."""
    consolidated_key: ClassVar[str] = ""
    """Key of a group's document with copies of other documents; empty if the format has none."""
    consolidated_member: ClassVar[str] = ""
    """Member of the group's own document with the copies; empty if these have a separate document."""
    link_attribute: ClassVar[str] = "_LINKS"
    """Attribute of a group with its links."""

    container_member: ClassVar[str] = ""
    """Member of the document at the root of a container; empty if the format has no containers."""

    directories_are_groups: ClassVar[bool] = False
    """Whether a directory without a document is a group, which can get attributes."""
    keeps_null: ClassVar[bool] = True
    """Whether an attribute can be null; otherwise the format's software considers it missing."""
    codecs: ClassVar[CodecNotation]
    """How documents of arrays describe codecs."""
    has_shards: ClassVar[bool] = False
    has_empty_arrays: ClassVar[bool] = True
    has_fill_value: ClassVar[bool] = True
    fill_value_is_marker: ClassVar[bool] = False
    """Whether xarray uses the fill value for missing data, and not only an attribute."""
    fill_value_can_be_null: ClassVar[bool] = False
    """Whether an array can have no fill value, so that no value means missing data."""
    shape_member: ClassVar[str] = "shape"
    separator_member: ClassVar[str] = ""
    """Member of an array's document with the separator in chunk keys; empty without one."""
    names_member: ClassVar[str] = ""
    """Member of an array's document that names its dimensions; empty if only attributes can."""
    has_null_names: ClassVar[bool] = False
    """Whether null means no name there, and empty text is a name."""
    dimension_attributes: ClassVar[tuple[str, ...]] = ()
    """Attributes of arrays that the driver understands: names of dimensions, and units."""
    has_bool: ClassVar[bool] = True
    has_fixed_text: ClassVar[bool] = True
    reversed_axes: ClassVar[bool] = False
    """Whether documents list dimensions, and chunks store elements, in reverse order."""
    ngff_version: ClassVar[str] = ""
    """Version of OME-NGFF with images in groups of this format, or empty."""
    successor: ClassVar[FormatName | None] = "zarr3"
    """Format whose documents can describe the same chunks, perhaps itself, or None."""

    @property
    def attributes_are_members(self) -> bool:
        """True if attributes are members of a node's own document, beside others."""
        return not (self.attributes_key or self.attributes_member)

    @property
    def fill_value_is_plain(self) -> bool:
        """True if arrays have a fill value that doesn't mean missing data."""
        return self.has_fill_value and not self.fill_value_is_marker

    @property
    def has_containers(self) -> bool:
        """True if nodes are in a container, whose root has the version of the format."""
        return bool(self.container_member)

    @property
    def node_keys(self) -> tuple[str, ...]:
        """Keys of the documents that make a node, in the order in which they are tried."""
        return tuple(dict.fromkeys(filter(None, (self.array_key, self.group_key))))

    def load(self, raw: bytes | bytearray | memoryview) -> JSON:
        """Return the JSON value of a document; raise if it has none."""
        return load_json(raw)

    def usual_form(self, document: Mapping[str, JSON]) -> Mapping[str, JSON]:
        """Return a document in the form of the specification."""
        return document

    @abstractmethod
    def kind_of(self, key: str, document: Mapping[str, JSON]) -> tuple[Literal["array", "group"], str]:
        """Return the kind of node that a document under a key describes, and its error, if any."""

    def is_sure(self, document: Mapping[str, JSON], error: str) -> bool:
        """Return True if a document certainly belongs to the format, even if it is invalid."""
        return True

    def float_marker(self, value: float) -> JSON:
        """Return a number in the form of an attribute that marks missing values."""
        return value

    def own_members(self, kind: str) -> tuple[str, ...]:
        """Return the members of a document with attributes that aren't attributes, and can't be set."""
        return ()

    def attributes_of(self, document: Mapping[str, JSON], kind: str) -> dict[str, JSON]:
        """Return the attributes in the document of a node; empty if they have their own document."""
        return {}

    def group_documents(self, attributes: Mapping[str, JSON]) -> dict[str, JSON]:
        """Return the documents of a group by key, first the one that makes it a group."""
        raise NotImplementedError(f"{self.title} has no groups")

    def check_group_attributes(self, attributes: Mapping[str, JSON]) -> None:  # noqa: B027
        """Raise InvalidArgumentError if these attributes would make a group something else."""

    def check_group(self, document: Mapping[str, JSON], where: str) -> None:  # noqa: B027
        """Raise if a group has an unknown member that must be understood; `where` begins the message."""

    def compression(self, document: Mapping[str, JSON]) -> JSON:
        """Return the description of an array's compressor; if codecs are a chain, of its own ones."""
        raise NotImplementedError(f"{self.title} has no arrays")

    def zarr2_members(self, document: Mapping[str, JSON], *, stored: bool = False) -> dict[str, JSON]:
        """Return the document of an array, complete if `stored`, as members of Zarr v2."""
        return {}

    def of_zarr2_members(self, members: Mapping[str, JSON]) -> dict[str, JSON]:
        """Return the metadata of an array whose chunks are stored as in Zarr v2."""
        return dict(members)

    def key_forms(self, separator: str) -> list[tuple[str, KeyEncoding]]:
        """Return the possible forms of chunk keys, with the members of the document for each."""
        return []

    def reserved(self, name: str) -> str:
        """Return why a name is not allowed for new nodes; empty if it is."""
        return ""

    def lists(self, name: str) -> bool:
        """Return True if a directory with this name in a group can be a node."""
        return True
