"""Codec chains: read from metadata documents, written to them, and prepared for one chunk shape.

How a chain is decoded is chosen when a decoder is opened (`chunkwise.core.codec.decode`), not for each
chunk.

Specification
-------------
Zarr v3 core, "Codecs": any number of array to array codecs, exactly one array to bytes codec, any
number of bytes to bytes codecs; encoding applies them in that order.  Every format is translated into
such a chain.

Zarr v3 core, "codecs" and "Extension definition": an object with ``name``, ``configuration`` and
``must_understand``, or the bare name if there is no configuration.  Zarr v2: an object with the options and
an ``id``.  N5: an object with the options and a ``type``.

Compatibility
-------------
An unknown codec is an error even with ``must_understand: false``: chunks can't be decoded without it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from chunkwise.core.base import catalogue
from chunkwise.core.base.binding import (
    JSON,
    Members,
    dump,
    expect_bool,
    expect_object,
    expect_string,
    parse_array,
)
from chunkwise.core.base.cached import cached_property
from chunkwise.core.base.limits import SizeBound, text_bound
from chunkwise.core.codec.decode import (
    Stages,
    bound_of,
    chunks_in_memory,
    is_raw,
    open_batch_decoder,
    open_decoder,
    open_raw_view,
)
from chunkwise.core.codec.notation import notation_of
from chunkwise.core.codec.protocol import (
    ArrayToArray,
    ArrayToBytes,
    BatchDecoder,
    Buffer,
    BytesToBytes,
    ChunkSpec,
    Codec,
    DecodeInto,
    Encode,
)
from chunkwise.errors import (
    ChunkwiseError,
    InvalidArgumentError,
    SpecError,
    TooLargeError,
    UnknownExtensionError,
    prefix,
    prefixed,
)

__all__ = [
    "Chain",
    "codec_name",
    "codec_to_json",
    "codecs_to_json",
    "find_codec",
    "parse_chain",
    "parse_codec",
    "parse_codecs",
    "prepare_chain",
]


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


@dataclass(frozen=True)
class Chain:
    """A `chunkwise.core.codec.protocol.PreparedChain`."""

    stages: Stages  # the bound codecs by kind, and the chunk that each receives
    encoded_nbytes: int | None  # size of every encoded chunk in bytes, or None if it depends on the content

    @property
    def item(self) -> ChunkSpec:
        """Description of decoded chunks."""
        return self.stages.items[0]

    @property
    def codecs(self) -> tuple[Codec, ...]:
        """The bound codecs, in the order of encoding."""
        return (*self.stages.filters, self.stages.serializer, *self.stages.compressors)

    def open_decoder(self) -> DecodeInto:
        """Return a decoder for one worker at a time."""
        return open_decoder(self.stages)

    def open_encoder(self) -> Encode:
        """Return an encoder for one worker at a time."""
        return _open_encoder(self.stages)

    @cached_property
    def bound(self) -> SizeBound | None:
        """The largest size of an encoded chunk, and of what its compressors decode to; None without one."""
        return bound_of(self.stages)

    @cached_property
    def decode_rate(self) -> float:
        """Nanoseconds for each decoded byte, on one thread and without the interpreter lock."""
        return sum(codec.decode_rate for codec in self.codecs)

    @cached_property
    def encode_rate(self) -> float:
        """Nanoseconds for each byte to encode, on one thread and without the interpreter lock."""
        return sum(codec.encode_rate for codec in self.codecs)

    @cached_property
    def is_raw(self) -> bool:
        """True if an encoded chunk is just its elements as in memory, in C order."""
        return is_raw(self.stages)

    @cached_property
    def chunks_in_memory(self) -> int:
        """Most memory for reading part of a chunk, in chunk sizes, including the stored value."""
        return chunks_in_memory(self.stages)

    @cached_property
    def decodes_batches(self) -> bool:
        """True if one call decodes several chunks."""
        return self.open_batch_decoder() is not None

    def open_batch_decoder(self) -> BatchDecoder | None:
        """Return a decoder of several chunks to C-contiguous memory; None if each takes its own call."""
        return open_batch_decoder(self.stages)

    def open_view(self) -> Callable[[Buffer], npt.NDArray[Any]] | None:
        """Return a function that returns a chunk as an array over its bytes; None if codecs prevent it."""
        return open_raw_view(self.stages)


def _split_chain(codecs: Sequence[Codec]) -> tuple[list[Any], Any, list[Any]]:
    """Return the array to array codecs, the array to bytes codec and the bytes to bytes codecs."""
    n = 0
    while n < len(codecs) and codecs[n].kind == "array->array":
        n += 1
    if n == len(codecs) or codecs[n].kind != "array->bytes":
        raise InvalidArgumentError("array -> bytes codec must be specified")
    for codec in codecs[n + 1 :]:
        if codec.kind != "bytes->bytes":
            raise InvalidArgumentError(
                f"Expected bytes -> bytes codec, but received: {dump(codec_to_json(codec))}"
            )
    return list(codecs[:n]), codecs[n], list(codecs[n + 1 :])


def parse_chain(value: JSON) -> tuple[Codec, ...]:
    """Read a JSON array of Zarr v3 codecs that form a chain."""
    codecs = tuple(parse_codecs(value))
    _split_chain(codecs)
    return codecs


def _bind(codec: Any, item: ChunkSpec) -> Any:
    try:
        return codec.bind(item)
    except ChunkwiseError as e:
        try:
            described = dump(codec_to_json(codec))
        except ChunkwiseError:
            described = codec.name
        raise prefix(e, f"Error resolving codec spec through codec {described}") from None


def prepare_chain(codecs: Sequence[Codec], item: ChunkSpec) -> Chain:
    """Bind `codecs`, in the order of encoding, to chunks described by `item`."""
    filters, serializer, compressors = _split_chain(codecs)
    items = [item]
    bound_filters: list[ArrayToArray] = []
    for codec in filters:
        bound = _bind(codec, items[-1])
        bound_filters.append(bound)
        items.append(bound.output(items[-1]))
    bound_serializer: ArrayToBytes = _bind(serializer, items[-1])
    bound_compressors: list[BytesToBytes] = [_bind(codec, items[-1]) for codec in compressors]
    sizes: list[int | None] = [bound_serializer.encoded_nbytes(items[-1])]
    for compressor in bound_compressors:
        size = sizes[-1]
        sizes.append(None if size is None else compressor.encoded_nbytes(size))
    stages = Stages(
        tuple(bound_filters), bound_serializer, tuple(bound_compressors), tuple(items), tuple(sizes)
    )
    return Chain(stages, sizes[-1])


def _open_encoder(stages: Stages) -> Encode:
    """Return an encoder for `stages`; its result is valid until its next call."""
    # Uncompressed chunks of a C-contiguous array are returned as a view of that array.
    filters = [c.open_encoder(item) for c, item in zip(stages.filters, stages.items, strict=False)]
    serialize = stages.serializer.open_encoder(stages.items[-1])
    compress = [c.open_encoder() for c in stages.compressors]
    shape = stages.items[0].shape

    def encode(array: npt.NDArray[Any]) -> Buffer:
        assert array.shape == shape, f"chunk has shape {array.shape}, not {shape}"
        for apply in filters:
            array = apply(array)
        encoded = serialize(array)
        for step in compress:
            encoded = step(encoded)
        return encoded

    def encode_any(array: npt.NDArray[Any]) -> Buffer:
        for apply in filters:
            array = apply(array)
        stored = serialized = serialize(array)
        for step in compress:
            stored = step(stored)
        if len(serialized) > text_bound(len(stored), array.size).nbytes:
            raise TooLargeError(
                f"a chunk of {len(serialized)} bytes that compresses to {len(stored)} would not be read "
                "again: make chunks smaller"
            )
        return stored

    if compress and stages.sizes[0] is None and bound_of(stages) is None:
        return encode_any
    if filters or len(compress) > 1:
        return encode
    if not compress:
        return serialize
    only = compress[0]
    return lambda array: only(serialize(array))
