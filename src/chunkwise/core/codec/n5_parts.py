"""The parts of an N5 block: its header, and its payload, which passes through the compressors of the dataset.

The header precedes the payload, big-endian and never compressed:

========  =====  ==================================================
mode      value  layout
========  =====  ==================================================
default   0      ``u16 mode, u16 rank, u32 dims[rank]``
varlength 1      ``u16 mode, u16 rank, u32 dims[rank], u32 count``
object    2      ``u16 mode, u32 count``: no rank, no dims
========  =====  ==================================================

The size of the decoded payload comes from this header, which is not trusted: the caller,
`chunkwise.core.codec.n5_block`, limits what a decoder may allocate.

The ``compression`` object of a dataset names the compressor and its options.  In a spec, every member is
checked, as in TensorStore.  In a stored document, only ``type`` and members needed for decoding matter: other
writers leave out members, add their own or use other ranges, which n5-java ignores.  Unusable encoder
settings get n5-java's defaults.

Specification: N5 README, "File-system specification", items 4 and 9.  The README lists mode 2 with
dimensions, but n5-java reads and writes the short form.  n5-blosc and n5-zstandard for their types.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

from chunkwise.core.base import catalogue
from chunkwise.core.base.binding import JSON, Members, check_known, dump, expect_object, expect_string
from chunkwise.core.base.limits import chunk_bound, text_bound
from chunkwise.core.codec.chain import find_codec
from chunkwise.core.codec.protocol import (
    ArrayToBytes,
    Buffer,
    BytesToBytes,
    ChunkSpec,
    byte_view,
    compressors_have_checksum,
    open_decoders,
)
from chunkwise.errors import CodecError, DataCorruptionError, InvalidArgumentError, SpecError

__all__ = [
    "DEFAULT",
    "OBJECT",
    "VARLENGTH",
    "CompressedBlock",
    "N5Header",
    "check_payload_size",
    "compression_to_json",
    "open_compress",
    "open_decompress",
    "open_decompress_into",
    "parse_compression",
    "parse_header",
    "read_compression",
    "write_header",
]

DEFAULT = 0
VARLENGTH = 1
OBJECT = 2

_U32_MAX = 2**32 - 1


class N5Header(NamedTuple):
    """Header of one block."""

    mode: int  # 0, 1 or 2
    dims: tuple[int, ...]  # size of the block in elements, first dimension fastest; empty in mode 2
    # Number of elements before compression; None in mode 0, for the product of `dims`.
    element_count: int | None
    nbytes: int  # size of the header itself

    @property
    def n_elements(self) -> int:
        """Number of elements in the decoded payload."""
        if self.element_count is not None:
            return self.element_count
        n = 1
        for size in self.dims:
            n *= size
        return n


def parse_header(block: Buffer) -> N5Header:
    """Read the header at the start of `block`."""
    view = byte_view(block)
    if len(view) < 4:
        raise DataCorruptionError(f"Expected N5 header of at least 4 bytes, but chunk has size {len(view)}")
    mode, rank = struct.unpack_from(">HH", view)
    if mode == OBJECT:
        if len(view) < 6:
            raise DataCorruptionError(f"Expected header of length 6, but chunk has size {len(view)}")
        return N5Header(OBJECT, (), struct.unpack_from(">I", view, 2)[0], 6)
    if mode not in (DEFAULT, VARLENGTH):
        raise DataCorruptionError(f"Unexpected N5 chunk mode: {mode}")
    nbytes = 4 + 4 * rank + (4 if mode == VARLENGTH else 0)
    if len(view) < nbytes:
        raise DataCorruptionError(f"Expected header of length {nbytes}, but chunk has size {len(view)}")
    dims = struct.unpack_from(f">{rank}I", view, 4)
    count = struct.unpack_from(">I", view, nbytes - 4)[0] if mode == VARLENGTH else None
    return N5Header(mode, dims, count, nbytes)


def write_header(mode: int, dims: Sequence[int] = (), element_count: int | None = None) -> bytes:
    """Return the bytes of a header."""
    if len(dims) > 2**16 - 1 or any(not 0 <= size <= _U32_MAX for size in dims):
        raise CodecError(f"N5 block dimensions {list(dims)} do not fit 32-bit header fields")
    if mode != DEFAULT and (element_count is None or not 0 <= element_count <= _U32_MAX):
        raise CodecError(f"N5 block element count {element_count} does not fit a 32-bit header field")
    if mode == OBJECT:
        return struct.pack(">HI", OBJECT, element_count)
    header = struct.pack(f">HH{len(dims)}I", mode, len(dims), *dims)
    return header + struct.pack(">I", element_count) if mode == VARLENGTH else header


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
    (codec,) = compression
    entry = catalogue.CODECS.get(codec.name)
    names = entry.names.get("n5", ()) if entry is not None else ()
    return {"type": names[0] if names else codec.name, **codec.to_json("n5")}


def _find(name: str) -> type[BytesToBytes]:
    found = find_codec(name, "n5", "type")
    if not issubclass(found, BytesToBytes):
        raise SpecError(f'Error parsing object member "type": {dump(name)} does not compress bytes')
    return found


def check_payload_size(got: int, want: int) -> None:
    """Raise DataCorruptionError unless the size `got` of a decoded payload is `want`."""
    if got < want:
        raise DataCorruptionError(
            f"Not enough data: N5 block payload has {got} bytes, but its header promises {want}"
        )
    if got > want:
        raise DataCorruptionError(
            f"End of data expected; remaining length: {got - want} after N5 block payload of {want} bytes"
        )


def open_decompress(
    compression: tuple[BytesToBytes, ...], nbytes: int | None
) -> Callable[[memoryview], Buffer]:
    """Return a function that decodes payloads of `nbytes` bytes each, or of any size if None."""
    sizes = [nbytes]
    for codec in compression:
        size = sizes[-1]
        sizes.append(None if size is None else codec.encoded_nbytes(size))
    bound = chunk_bound(nbytes)
    steps = open_decoders(compression, sizes, lambda stored: bound or text_bound(stored))

    def decompress(payload: memoryview) -> Buffer:
        data: Buffer = payload
        for step in steps:
            data = step(data)
        if nbytes is not None and len(data) != nbytes:
            check_payload_size(len(data), nbytes)
        return data

    return decompress


def open_decompress_into(
    compression: tuple[BytesToBytes, ...], nbytes: int
) -> Callable[[Buffer, memoryview], None] | None:
    """Return a function that decodes a payload into memory of exactly `nbytes` bytes, or None."""
    return compression[0].open_decoder_into(nbytes) if len(compression) == 1 and nbytes else None


def open_compress(compression: tuple[BytesToBytes, ...]) -> Callable[[Buffer], Buffer]:
    """Return a function that encodes payloads, by one compressor at most."""
    return compression[0].open_encoder() if compression else lambda payload: payload


@dataclass(frozen=True, slots=True)
class CompressedBlock(ArrayToBytes):
    """Array to bytes: N5 blocks, whose size varies even if raw, since other writers crop them."""

    # Compressors of the payload, in the order of encoding; empty for raw blocks.
    compression: tuple[BytesToBytes, ...] = ()

    @property
    def decode_rate(self) -> float:
        """Rate of the compressors."""
        return sum(codec.decode_rate for codec in self.compression)

    @property
    def encode_rate(self) -> float:
        """Rate of the compressors."""
        return sum(codec.encode_rate for codec in self.compression)

    def has_checksum(self, encoded: memoryview) -> bool:
        """Return True if the payload, after the header, has a checksum."""
        return compressors_have_checksum(self.compression, encoded[parse_header(encoded).nbytes :])

    @classmethod
    def parse(cls, format: str, name: str, configuration: Mapping[str, Any]) -> Self:
        """Read ``{"compression": {"type": ...}}``."""
        members = Members(configuration)
        _, compression = members.take("compression", parse_compression)
        members.finish()
        return cls(compression)

    def to_json(self, format: str) -> dict[str, Any]:
        """Return ``{"compression": {"type": ...}}``."""
        return {"compression": compression_to_json(self.compression)}

    def bind_compression(self, item: ChunkSpec) -> Self:
        """Return the codec with its compressors bound."""
        return replace(self, compression=tuple(codec.bind(item) for codec in self.compression))
