"""``TreeFormat``: how a format keeps trees, in one record for each format.

A record says which documents a node has and what they hold, where attributes and links lie, what a
directory without a document is, and what arrays of the format can have.  It reads nothing: it tells others
what to read, so that they need not compare names of formats.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Literal, TypeAlias

from chunkwise.core.base.binding import JSON, load_json
from chunkwise.core.chunk_key.key_encoding import KeyEncoding
from chunkwise.core.codec.notation import CodecNotation

__all__ = ["FormatName", "TreeFormat"]

FormatName: TypeAlias = Literal["zarr3", "zarr2", "zarr1", "n5"]


class TreeFormat(ABC):
    """What is particular to arrays and groups of one format as nodes of a tree."""

    name: ClassVar[FormatName]
    title: ClassVar[str]
    """As users call it: ``Zarr v2``."""
    driver: ClassVar[str]
    """Driver of its arrays."""
    suffix: ClassVar[str] = ".zarr"
    """Of the names of roots."""

    array_key: ClassVar[str]
    """Key, relative to an array, of its metadata document."""
    group_key: ClassVar[str] = ""
    """Key of the document of a group; empty if the format has no groups."""
    attributes_key: ClassVar[str] = ""
    """Key of the document that attributes are in; empty where that is the node's own."""
    attributes_member: ClassVar[str] = ""
    """Member of the node's own document that attributes are in; empty where they are members themselves."""
    documents: ClassVar[tuple[str, ...]]
    """All keys, relative to a node, that are metadata."""
    consolidated_key: ClassVar[str] = ""
    """Key of the document of a group that copies of others' are in; empty if the format has none."""
    consolidated_member: ClassVar[str] = ""
    """Member of the group's own document that the copies are in; empty where they are in one of their own."""
    link_attribute: ClassVar[str] = "_LINKS"
    """Attribute of a group that its links are in."""

    container_member: ClassVar[str] = ""
    """Member of the document at the root of a container; empty if the format has no containers."""

    directories_are_groups: ClassVar[bool] = False
    """Whether a directory without a document is a group, which can get attributes."""
    keeps_null: ClassVar[bool] = True
    """Whether an attribute can be null; else software of the format takes it for missing."""
    codecs: ClassVar[CodecNotation]
    """How documents of arrays describe codecs."""
    has_shards: ClassVar[bool] = False
    has_empty_arrays: ClassVar[bool] = True
    has_fill_value: ClassVar[bool] = True
    fill_value_is_marker: ClassVar[bool] = False
    """Whether xarray takes the fill value for that of missing data, and not an attribute alone."""
    fill_value_can_be_null: ClassVar[bool] = False
    """Whether an array can be without one, so that no value stands for missing data."""
    shape_member: ClassVar[str] = "shape"
    separator_member: ClassVar[str] = ""
    """Member of an array's document that is the separator in keys of chunks; empty if there is no such."""
    names_member: ClassVar[str] = ""
    """Member of an array's document that names its dimensions; empty where only attributes can."""
    has_null_names: ClassVar[bool] = False
    """Whether null stands for no name in it, and empty text is a name."""
    dimension_attributes: ClassVar[tuple[str, ...]] = ()
    """Attributes of arrays that the driver understands: names of dimensions, and units."""
    has_bool: ClassVar[bool] = True
    has_fixed_text: ClassVar[bool] = True
    reversed_axes: ClassVar[bool] = False
    """Whether documents list dimensions, and chunks store elements, with the last one first."""
    ngff_version: ClassVar[str] = ""
    """Version of OME-NGFF whose images are in groups of the format; empty if there is none."""
    successor: ClassVar[FormatName | None] = "zarr3"
    """Format whose documents can describe the same chunks, itself perhaps; None if there is none."""

    @property
    def attributes_are_members(self) -> bool:
        """True if attributes are members of a node's own document beside others."""
        return not (self.attributes_key or self.attributes_member)

    @property
    def fill_value_is_plain(self) -> bool:
        """True if arrays have a fill value that doesn't stand for missing data."""
        return self.has_fill_value and not self.fill_value_is_marker

    @property
    def has_containers(self) -> bool:
        """True if nodes lie in a container, whose root says the version of the format."""
        return bool(self.container_member)

    @property
    def node_keys(self) -> tuple[str, ...]:
        """Keys of the documents that make a node, in the order in which they are looked for."""
        return tuple(dict.fromkeys(filter(None, (self.array_key, self.group_key))))

    def load(self, raw: bytes | bytearray | memoryview) -> JSON:
        """Return the JSON value of a document; raise if it has none."""
        return load_json(raw)

    def usual_form(self, document: Mapping[str, JSON]) -> Mapping[str, JSON]:
        """Return a document in the form that the specification has."""
        return document

    @abstractmethod
    def kind_of(self, key: str, document: Mapping[str, JSON]) -> tuple[Literal["array", "group"], str]:
        """Return what a document, stored under a key, describes, and what is wrong with it, if anything."""

    def is_sure(self, document: Mapping[str, JSON], error: str) -> bool:
        """Return True if a document is the format's own, whatever is wrong with it."""
        return True

    def float_marker(self, value: float) -> JSON:
        """Return a number as it is in an attribute that says what stands for a missing value."""
        return value

    def own_members(self, kind: str) -> tuple[str, ...]:
        """Return the members of a document with attributes that are none, and can't be set as such."""
        return ()

    def attributes_of(self, document: Mapping[str, JSON], kind: str) -> dict[str, JSON]:
        """Return the attributes in the document of a node; none where they lie beside it."""
        return {}

    def group_documents(self, attributes: Mapping[str, JSON]) -> dict[str, JSON]:
        """Return the documents of a group by key; that which makes it a group comes first."""
        raise NotImplementedError(f"{self.title} has no groups")

    def check_group_attributes(self, attributes: Mapping[str, JSON]) -> None:  # noqa: B027
        """Raise InvalidArgumentError if a group with these attributes would be something else."""

    def check_group(self, document: Mapping[str, JSON], where: str) -> None:  # noqa: B027
        """Raise if a group has a member that must be understood and isn't; `where` begins the message."""

    def compression(self, document: Mapping[str, JSON]) -> JSON:
        """Return the description of an array's compressor; where codecs are a chain, those of its own."""
        raise NotImplementedError(f"{self.title} has no arrays")

    def zarr2_members(self, document: Mapping[str, JSON], *, stored: bool = False) -> dict[str, JSON]:
        """Return the document of an array, which must be whole if `stored`, in members of Zarr v2."""
        return {}

    def of_zarr2_members(self, members: Mapping[str, JSON]) -> dict[str, JSON]:
        """Return the metadata of an array whose chunks are stored as by Zarr v2."""
        return dict(members)

    def key_forms(self, separator: str) -> list[tuple[str, KeyEncoding]]:
        """Return the forms that keys of chunks can have, with what the document says for each."""
        return []

    def reserved(self, name: str) -> str:
        """Return why no new node can have a name; empty if one can."""
        return ""

    def lists(self, name: str) -> bool:
        """Return True if a directory of this name in a group can be a node."""
        return True
