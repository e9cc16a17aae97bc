"""The interface of chunked formats for code that opens, resizes and describes their arrays.

One object per format, without state: ``driver/n5/format.py``, ``driver/zarr2/format.py``, … All methods are
pure; other code reads and writes the keys and bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol, Self

from chunkwise.core.base.binding import JSON, Members, dump_bytes, parse_json
from chunkwise.core.driver.stored_array import StoredArray
from chunkwise.core.dtypes.data_type import DataType
from chunkwise.core.index_space import IndexDomain
from chunkwise.core.specs.schema import Schema

__all__ = ["Format", "Metadata"]


class Metadata(Protocol):
    """Parsed metadata of one array."""

    @property
    def document(self) -> dict[str, JSON]: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> DataType: ...
    @property
    def shared(self) -> tuple[object, ...]:
        """Objects that metadata with other shapes and attributes may share."""
        ...

    def with_shape_and_attributes(self, document: dict[str, JSON]) -> Self | None:
        """Return the metadata of a document with the same template key; None if it must be parsed."""
        ...

    def resized(self, shape: tuple[int, ...]) -> Self:
        """Return the metadata of the array with another shape."""
        ...


class Format(Protocol):
    """A chunked array format; each has its own classes of options, constraints and metadata.

    Methods with a body fit a usual format, with metadata in its own JSON document.
    """

    driver: ClassVar[str]
    """Driver id in specs."""

    consolidated_key: ClassVar[str] = ""
    """Key of a parent group's document that may have copies of arrays' documents; empty without one."""

    contained: ClassVar[bool] = False
    """True if arrays are in containers whose root has the version of the format."""

    def parse_options(self, members: Members) -> Any:
        """Take the format's own members out of a spec."""
        ...

    def options_to_json(self, options: Any) -> dict[str, JSON]: ...

    def parse_constraints(self, value: JSON) -> Any:
        """Read the ``metadata`` member; an empty object constrains nothing."""
        ...

    def constraints_to_json(self, constraints: Any) -> dict[str, JSON]:
        """Return the ``metadata`` member of a spec."""
        members: dict[str, JSON] = constraints.to_json()
        return members

    def inner_rank(self, constraints: Any, options: Any) -> int:
        """Return the number of trailing dimensions inside each element, which can't be resized."""
        return 0

    def constraint_schema(self, constraints: Any, options: Any, schema: Schema) -> Schema:
        """Return the schema of constraints and `schema` together, as far as known before opening."""
        ...

    def metadata_key(self, options: Any) -> str:
        """Return the key of the metadata document, relative to the array."""
        ...

    def parse_document(self, raw: bytes) -> JSON:
        """Read the stored bytes as JSON, as leniently as the format's other readers."""
        return parse_json(raw)

    def is_array(self, document: JSON) -> bool:
        """Return True if a document under the metadata key is an array's, not a group's."""
        return True

    def parse_metadata(self, document: JSON) -> Metadata: ...

    def template_key(self, document: JSON) -> JSON | None:
        """Return everything that determines the metadata except shape and attributes; None if unknown."""
        return None

    def without_attributes(self, metadata: Any) -> Any:
        """Return `metadata` with a document without attributes; shared objects stay."""
        return metadata

    def create(self, constraints: Any, options: Any, schema: Schema) -> Metadata:
        """Choose the metadata of a new array."""
        ...

    def adopt(self, metadata: Any, existing: Mapping[str, JSON]) -> Metadata | None:
        """Return `metadata` with the content of a non-array node; None if that can't become an array."""
        return None

    def check(self, metadata: Any, constraints: Any, options: Any, schema: Schema) -> None:
        """Raise if stored metadata doesn't satisfy constraints and schema."""
        ...

    def schema_of(self, metadata: Any, options: Any) -> Schema:
        """Return the schema of an existing array, its domain included."""
        ...

    def domain_of(self, metadata: Any, options: Any) -> IndexDomain:
        """Return the domain of an existing array, from its schema."""
        ...

    def metadata_to_json(self, metadata: Any) -> dict[str, JSON]:
        """Return the metadata in the form of a spec's ``metadata`` member."""
        ...

    def container_key(self, path: str) -> str | None:
        """Return the key of the document above the array that `check_container` needs, if any."""
        return None

    def check_container(self, document: JSON) -> None:
        """Raise if arrays at or below a group with that document can't be read."""
        return

    def companions(self, options: Any) -> dict[str, bytes]:
        """Return the further documents of a new array, by key."""
        return {}

    def same_but_resized(self, a: Any, b: Any) -> bool:
        """Return True if two documents differ only in extents and attributes."""
        ...

    def document_of(self, metadata: Any) -> dict[str, JSON]:
        """Return the metadata document as stored."""
        document: dict[str, JSON] = metadata.document
        return document

    def encode(self, metadata: Any) -> bytes:
        """Return the bytes of the metadata document."""
        return dump_bytes(self.document_of(metadata))

    def stored_array(self, metadata: Any, prefix: str, options: Any) -> StoredArray: ...
