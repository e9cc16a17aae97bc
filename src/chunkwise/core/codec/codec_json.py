"""Codec lists as metadata documents write them, to and from codec records.

Specification
-------------
Zarr v3 core, "codecs" and "Extension definition": an object with ``name``, ``configuration`` and
``must_understand``, or the bare name if there is no configuration.  Zarr v2: an object with the options and
an ``id``.  N5: an object with the options and a ``type``.

Compatibility
-------------
An unknown codec is an error even with ``must_understand: false``: chunks can't be decoded without it.
"""

from __future__ import annotations

from collections.abc import Sequence

from chunkwise.core.base import catalogue
from chunkwise.core.base.binding import JSON, Members, expect_bool, expect_object, expect_string, parse_array
from chunkwise.core.codec.notation import notation_of
from chunkwise.core.codec.protocol import Codec
from chunkwise.errors import SpecError, UnknownExtensionError, prefixed

__all__ = ["codec_name", "codec_to_json", "codecs_to_json", "find_codec", "parse_codec", "parse_codecs"]


def parse_codec(value: JSON, format: str = "zarr3") -> Codec:
    """Read one codec as `format` ("zarr3", "zarr2" or "n5") writes it."""
    notation = notation_of(format)
    if not notation.is_chain:
        members = Members(value)
        name = members.take(notation.name_member, expect_string)
        return find_codec(name, format, notation.name_member).parse(format, name, members.rest())
    if isinstance(value, str):
        value = {"name": value}
    members = Members(value)
    name = members.take("name", expect_string)
    members.take("must_understand", expect_bool, True)
    configuration = members.take("configuration", expect_object, {})
    members.finish()
    cls = find_codec(name, format, "name")
    with prefixed('Error parsing object member "configuration"'):
        return cls.parse(format, name, configuration)


def find_codec(name: str, format: str, member: str = "name") -> type[Codec]:
    """Return the class that is registered for a name; errors name the member that holds it."""
    with prefixed(f'Error parsing object member "{member}"', UnknownExtensionError):
        found = catalogue.codecs.find(name, format)
    if not (isinstance(found, type) and issubclass(found, Codec)):
        raise SpecError(
            f'codec "{name}" is registered as {found!r}, but expected a subclass of ArrayToArray, '
            "ArrayToBytes or BytesToBytes of chunkwise.core.codec.protocol"
        )
    return found


def parse_codecs(value: JSON, format: str = "zarr3") -> list[Codec]:
    """Read a JSON array of codecs; an error names the position."""
    return parse_array(value, lambda v: parse_codec(v, format))


def codec_name(codec: Codec, format: str = "zarr3") -> str:
    """Return the name under which `format` writes a codec; it may read others."""
    entry = catalogue.CODECS.get(codec.name)
    names = entry.names.get(format, ()) if entry is not None else (codec.name,)
    if not names:
        raise SpecError(f'codec "{codec.name}" can\'t be written in format {format}')
    return names[0]


def codec_to_json(codec: Codec, format: str = "zarr3") -> dict[str, JSON]:
    """Return one codec as `format` writes it."""
    # An empty ``configuration`` is left out, except for codecs named ``numcodecs.…``, for which zarr-python
    # demands one.
    notation, name, configuration = notation_of(format), codec_name(codec, format), codec.to_json(format)
    if notation.is_chain and not configuration and not name.startswith("numcodecs."):
        return {"name": name}
    return notation.described(name, configuration)


def codecs_to_json(codecs: Sequence[Codec], format: str = "zarr3") -> list[dict[str, JSON]]:
    """Return codecs as `format` writes them."""
    return [codec_to_json(codec, format) for codec in codecs]
