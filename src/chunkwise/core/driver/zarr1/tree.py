"""Arrays of Zarr v1 in a tree; it has no groups.

Specification: Zarr v1, "Storage".

Conversion of the ``meta`` of a Zarr v1 array to members of Zarr v2 and back.

Both formats store chunks in the same way; v1 has no filters and no separator, and describes its compressor by
``compression`` and ``compression_opts``.

Specification: Zarr v1, "Metadata".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from chunkwise.core.base.binding import JSON, MISSING, dump, expect_int, expect_object, expect_string
from chunkwise.core.base.catalogue import codecs
from chunkwise.core.codec.notation import CodecNotation, notation_of
from chunkwise.core.driver.tree_format import FormatName, TreeFormat
from chunkwise.errors import InvalidArgumentError, SpecError, prefixed

__all__ = ["Zarr1Tree", "from_zarr2", "to_zarr2"]


NO_COMPRESSION = (None, "none", "")
NOT_OF_V1 = ("filters", "dimension_separator", "compressor")


def to_zarr2(document: JSON, *, stored: bool = False) -> dict[str, JSON]:
    """Return a v1 document, or a part of one, as v2 members."""
    out = dict(expect_object(document))
    if "zarr_format" in out:
        with prefixed('Error parsing object member "zarr_format"', SpecError):
            expect_int(out["zarr_format"], 1, 1)
        out["zarr_format"] = 2
    for name in NOT_OF_V1:
        if out.pop(name, MISSING) is not MISSING and not stored:
            raise SpecError(f"Object includes extra members: {dump(name)} is not a member of Zarr v1")
    if stored and "compression" not in out:
        raise SpecError('Error parsing object member "compression": Expected string, but member is missing')
    if "compression" in out or "compression_opts" in out:
        name = out.pop("compression", None)
        out["compressor"] = _compressor(name, out.pop("compression_opts", None))
    return out


def _compressor(name: JSON, options: JSON) -> dict[str, JSON] | None:
    if name in NO_COMPRESSION:
        return None
    with prefixed('Error parsing object member "compression"'):
        name = expect_string(name)
        level = codecs.find(name, "zarr2").level_member
    if options is None:
        return {"id": name}
    if isinstance(options, Mapping):
        return {"id": name, **options}
    if level is not None and isinstance(options, int | float):
        return {"id": name, level: options}
    raise SpecError(
        f'Error parsing object member "compression_opts": Expected options of {dump(name)}, '
        f"but received: {dump(options)}"
    )


def from_zarr2(document: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return v2 members as a v1 document."""
    out = dict(document)
    if out.get("filters"):
        raise InvalidArgumentError(f"Zarr v1 has no filters, but {dump(out['filters'])} are needed")
    if out.get("dimension_separator", ".") != ".":
        raise InvalidArgumentError('Zarr v1 has no dimension separator other than "."')
    out.pop("filters", None)
    out.pop("dimension_separator", None)
    if "zarr_format" in out:
        out["zarr_format"] = 1
    if "compressor" in out:
        compressor = dict(out.pop("compressor") or {"id": "none"})
        name = compressor.pop("id")
        out["compression"] = name
        if name == "blosc" and compressor.get("blocksize") == 0:
            del compressor["blocksize"]  # newer than Zarr v1, and 0 is the default
        level = None if name == "none" else codecs.find(name, "zarr2").level_member
        if not compressor:
            out["compression_opts"] = None
        elif level is not None and set(compressor) == {level}:
            out["compression_opts"] = compressor[level]
        else:
            out["compression_opts"] = compressor
    return out


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
