"""The ``compression`` object of an N5 dataset: which compressor, and how it encodes.

In a spec, every member is checked, as in TensorStore.  In a stored document, only ``type`` and members needed
for decoding matter: other writers leave out members, add their own or use other ranges, which n5-java
ignores.  Unusable encoder settings get n5-java's defaults.

Specification: N5 README, "File-system specification", item 4; n5-blosc and n5-zstandard for their types.
"""

from __future__ import annotations

from chunkwise.core.base import catalogue
from chunkwise.core.base.binding import JSON, Members, check_known, dump, expect_object, expect_string
from chunkwise.core.codec.codec_json import find_codec
from chunkwise.core.codec.protocol import BytesToBytes
from chunkwise.errors import InvalidArgumentError, SpecError

__all__ = ["compression_to_json", "parse_compression", "read_compression"]


def parse_compression(value: JSON) -> tuple[dict[str, JSON], tuple[BytesToBytes, ...]]:
    """Read a ``compression`` object, checking every member."""
    members = Members(value)
    type = members.take("type", expect_string)
    given = members.rest()
    if type == "raw":
        check_known(given, {})
        return {"type": "raw"}, ()
    cls = _find(type)
    if cls.n5_defaults is not None:
        check_known(given, cls.n5_defaults)
        for name, expected in cls.n5_required.items():
            if name not in given:
                raise SpecError(
                    f'Error parsing object member "{name}": Expected {expected}, but member is missing'
                )
        given = {**cls.n5_defaults, **given}
    codec = cls.parse("n5", type, given)
    return {"type": type, **codec.to_json("n5")}, (codec,)


def read_compression(value: JSON) -> tuple[dict[str, JSON], tuple[BytesToBytes, ...]]:
    """Read the ``compression`` object of a stored document, ignoring errors irrelevant to decoding."""
    # Returns and raises like `parse_compression`, but for the documented types only ``type`` can be wrong.
    stored = expect_object(value)
    type = Members(stored).take("type", expect_string)
    if type == "raw":
        return {"type": "raw"}, ()
    defaults = _find(type).n5_defaults
    if defaults is None:
        return parse_compression(stored)
    canonical, compression = parse_compression({"type": type, **defaults})
    for name in defaults:
        if name in stored:
            try:
                canonical, compression = parse_compression({**canonical, name: stored[name]})
            except InvalidArgumentError:
                continue
    return canonical, compression


def compression_to_json(compression: tuple[BytesToBytes, ...]) -> dict[str, JSON]:
    """Return the ``compression`` object; inverse of `parse_compression`."""
    if not compression:
        return {"type": "raw"}
    if len(compression) > 1:
        raise SpecError(f"N5 blocks have at most one compression, not {len(compression)}")
    (codec,) = compression
    entry = catalogue.CODECS.get(codec.name)
    names = entry.names.get("n5", ()) if entry is not None else ()
    return {"type": names[0] if names else codec.name, **codec.to_json("n5")}


def _find(name: str) -> type[BytesToBytes]:
    found = find_codec(name, "n5", "type")
    if not issubclass(found, BytesToBytes):
        raise SpecError(f'Error parsing object member "type": {dump(name)} does not compress bytes')
    return found
