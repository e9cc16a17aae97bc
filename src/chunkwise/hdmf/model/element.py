"""Element types of HDMF datasets, the same in all storage formats."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

from chunkwise import DataType
from chunkwise.errors import DataCorruptionError, InvalidArgumentError

__all__ = [
    "BYTES_WORDS",
    "REFERENCE_WORDS",
    "REGION_WORDS",
    "TEXT_WORDS",
    "Element",
    "Kind",
    "Member",
    "bytes_",
    "compound",
    "element_of_word",
    "leaves_of",
    "number",
    "reference",
    "region",
    "text",
    "with_leaves",
]

TEXT_WORDS = frozenset({"str", "str_", "utf", "utf8", "utf-8", "text", "unicode", "string"})
BYTES_WORDS = frozenset({"bytes", "bytes_", "ascii", "isodatetime", "datetime"})
REFERENCE_WORDS = frozenset({"object", "object_reference", "ref", "reference"})
REGION_WORDS = frozenset({"region", "region_reference"})

_NUMBERS = ("bool", "int", "float", "complex", "datetime", "raw")
"""Kinds of data types whose elements are numbers here."""

Kind: TypeAlias = Literal["number", "text", "bytes", "reference", "region", "compound"]


@dataclass(frozen=True, slots=True)
class Member:
    """A named part of a compound element."""

    name: str
    element: Element


@dataclass(frozen=True, slots=True)
class Element:
    """Type of the elements of a dataset."""

    # Booleans, times and raw bytes are numbers.
    kind: Kind
    # Type of a number, in native byte order.
    dtype: np.dtype[Any] | None = None
    # Members of a compound.
    members: tuple[Member, ...] = ()
    # Type name as the store declares it, ``"int"`` for Python integers; empty if it does not.
    word: str = field(default="", compare=False)

    @property
    def memory_dtype(self) -> np.dtype[Any]:
        """The NumPy type of values in memory: objects for text, bytes and references."""
        if self.kind == "number":
            assert self.dtype is not None
            return self.dtype
        if self.kind == "compound":
            return np.dtype([(m.name, m.element.memory_dtype) for m in self.members])
        return np.dtype(object)

    @property
    def is_plain(self) -> bool:
        """True if every element has a fixed size: numbers, and compounds of numbers."""
        return self.kind == "number" or (
            self.kind == "compound" and all(m.element.is_plain for m in self.members)
        )

    @property
    def has_references(self) -> bool:
        """True if there are object or region references, in members too."""
        return self.kind in ("reference", "region") or any(m.element.has_references for m in self.members)

    @property
    def name(self) -> str:
        """Type name as ``zarr_dtype`` and ``_DTYPE`` have it: ``"float64"``, ``"str"``, ``"object"``."""
        if self.word:
            return self.word
        if self.kind == "number":
            return DataType(self.memory_dtype).name
        return {"text": "str", "bytes": "bytes", "reference": "object", "region": "region"}.get(
            self.kind, "compound"
        )

    def describe(self) -> Any:
        """Return the type as hdmf builders have it: a name, or a list of ``{"name", "dtype"}``."""
        if self.kind == "number":
            return self.memory_dtype.name
        if self.kind != "compound":
            return self.name
        return [{"name": m.name, "dtype": _member_word(m.element)} for m in self.members]


def _member_word(element: Element) -> Any:
    if element.kind == "compound":
        return element.describe()
    return {"text": "utf", "bytes": "ascii", "reference": "object", "region": "region"}.get(
        element.kind, element.memory_dtype.name
    )


def leaves_of(element: Element, above: str = "") -> Iterator[tuple[str, Element]]:
    """Yield the members of a compound that are not compounds: by name, or by JSON pointer if nested."""
    for m in element.members:
        if m.element.kind == "compound":
            yield from leaves_of(m.element, _pointer(above, m.name))
        else:
            yield _member_path(above, m.name), m.element


def _member_path(above: str, name: str) -> str:
    """Return the name of a member of a compound, or the JSON pointer to one in the compound `above`."""
    return name if not above and not name.startswith("/") else _pointer(above, name)


def _pointer(above: str, name: str) -> str:
    return f"{above}/{name.replace('~', '~0').replace('/', '~1')}"


def with_leaves(element: Element, leaves: Mapping[str, Element], above: str = "") -> Element:
    """Return a compound with other types of some members; see `leaves_of`."""
    members = []
    for m in element.members:
        other = leaves.get(_member_path(above, m.name), m.element)
        if m.element.kind == "compound":
            other = with_leaves(m.element, leaves, _pointer(above, m.name))
        members.append((m.name, other))
    return compound(members)


text = Element("text")
bytes_ = Element("bytes")
reference = Element("reference")
region = Element("region")


def number(dtype: Any, word: str = "") -> Element:
    """Return the element type of a NumPy type that is neither text, nor bytes, nor records."""
    dtype = np.dtype(dtype).newbyteorder("=")
    try:
        known = DataType(dtype).kind in _NUMBERS
    except InvalidArgumentError:
        known = False
    if not known:
        raise InvalidArgumentError(f"there is no way to store NumPy's type {dtype}")
    return Element("number", dtype, (), word)


def compound(members: list[tuple[str, Element]]) -> Element:
    """Return the element type of records with the given members."""
    if not members:
        raise InvalidArgumentError("a compound type needs at least one member")
    names = [name for name, _ in members]
    if len(set(names)) < len(names):
        raise InvalidArgumentError(f"names of members of a compound type are not unique: {names}")
    return Element("compound", None, tuple(Member(name, element) for name, element in members))


def element_of_word(word: Any, depth: int = 0) -> Element:
    """Return the type that a declared name, or list of members, means."""
    if isinstance(word, list) and depth < 16:
        members = []
        for member in word:
            if not isinstance(member, dict) or not isinstance(member.get("name"), str):
                raise DataCorruptionError(
                    f"Expected a member with name and dtype, but received: {member!r:.100}"
                )
            members.append((member["name"], element_of_word(member.get("dtype"), depth + 1)))
        return compound(members)
    if isinstance(word, dict):  # hdmf's own form of a reference
        word = word.get("reftype")
    if not isinstance(word, str):
        raise DataCorruptionError(f"Expected a type name, but received: {word!r:.100}")
    if word in REFERENCE_WORDS:
        return reference
    if word in REGION_WORDS:
        return region
    if word in TEXT_WORDS or word[:2] in ("<U", ">U", "|U"):
        return text
    if word in BYTES_WORDS or word[:2] in ("|S", "<S"):
        return bytes_
    name = {"int": "int64", "float": "float64", "uint": "uint32", "short": "int16"}.get(word, word)
    for parse in (np.dtype, lambda name: DataType(name).memory_dtype):
        # NumPy reads some names as programs for several types, and fails as a parser does.
        with suppress(TypeError, ValueError, SyntaxError):
            return number(parse(name), word)
    raise DataCorruptionError(f'unknown type name "{word[:100]}"')
