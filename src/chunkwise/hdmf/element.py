"""What the elements of an HDMF dataset are, whatever the storage format."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

from chunkwise.errors import InvalidArgumentError

__all__ = ["Element", "Kind", "Member", "bytes_", "compound", "number", "reference", "region", "text"]

Kind: TypeAlias = Literal["number", "text", "bytes", "reference", "region", "compound"]


@dataclass(frozen=True, slots=True)
class Member:
    """A named part of a compound element."""

    name: str
    element: Element


@dataclass(frozen=True, slots=True)
class Element:
    """Type of the elements of a dataset.

    Attributes
    ----------
    kind : {"number", "text", "bytes", "reference", "region", "compound"}
        Booleans are numbers.
    dtype : numpy.dtype or None
        Of a number, in native byte order.
    members : tuple of Member
        Of a compound.
    word : str
        Type name as the store declares it, ``"int"`` for Python integers; empty if it does not.
    """

    kind: Kind
    dtype: np.dtype[Any] | None = None
    members: tuple[Member, ...] = ()
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
        """Whether every element has a fixed size: numbers, and compounds of numbers."""
        return self.kind == "number" or (
            self.kind == "compound" and all(m.element.is_plain for m in self.members)
        )

    @property
    def has_references(self) -> bool:
        """Whether there are object or region references, in members too."""
        return self.kind in ("reference", "region") or any(m.element.has_references for m in self.members)

    @property
    def name(self) -> str:
        """Type name as ``zarr_dtype`` and ``_DTYPE`` have it: ``"float64"``, ``"str"``, ``"object"``."""
        if self.word:
            return self.word
        if self.kind == "number":
            return self.memory_dtype.name
        return {"text": "str", "bytes": "bytes", "reference": "object", "region": "region"}.get(
            self.kind, "compound"
        )

    def describe(self) -> Any:
        """Return the type as hdmf builders have it: a name, or a list of ``{"name", "dtype"}``."""
        if self.kind != "compound":
            return self.name
        return [{"name": m.name, "dtype": _member_word(m.element)} for m in self.members]


def _member_word(element: Element) -> Any:
    if element.kind == "compound":
        return element.describe()
    return {"text": "utf", "bytes": "ascii", "reference": "object", "region": "region"}.get(
        element.kind, element.memory_dtype.name
    )


text = Element("text")
bytes_ = Element("bytes")
reference = Element("reference")
region = Element("region")


def number(dtype: Any, word: str = "") -> Element:
    """Return the element type of a NumPy number or bool type."""
    dtype = np.dtype(dtype).newbyteorder("=")
    if dtype.kind not in "biufc" or dtype.itemsize == 0:
        raise InvalidArgumentError(f"Expected a number or bool type, but received: {dtype}")
    return Element("number", dtype, (), word)


def compound(members: list[tuple[str, Element]]) -> Element:
    """Return the element type of records with the given members."""
    if not members:
        raise InvalidArgumentError("a compound type needs at least one member")
    names = [name for name, _ in members]
    if len(set(names)) < len(names):
        raise InvalidArgumentError(f"names of members of a compound type are not unique: {names}")
    return Element("compound", None, tuple(Member(name, element) for name, element in members))
