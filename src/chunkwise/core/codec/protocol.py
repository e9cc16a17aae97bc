"""Codecs at each of their four stages.

description   JSON in a metadata document; ``parse`` reads it, ``to_json`` writes it
bound         a frozen record that knows the data type it will see; made at open by ``bind``
prepared a `PreparedChain`: the whole chain for one chunk shape; once per array and level
opened        a decoder or encoder: plain closures that own contexts and scratch; one per worker

The three kinds of codecs are those of the Zarr v3 core specification, "Codecs"; other formats are translated
into them on opening.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from chunkwise.core.base.binding import Members, expect_int
from chunkwise.core.base.limits import SizeBound, hold, release
from chunkwise.core.codec.notation import notation_of
from chunkwise.errors import DataCorruptionError

__all__ = [
    "ArrayToArray",
    "ArrayToBytes",
    "BatchDecoder",
    "Buffer",
    "BytesToBytes",
    "ChunkSpec",
    "Codec",
    "Compressor",
    "DecodeInto",
    "Encode",
    "PreparedChain",
    "byte_view",
    "compressors_have_checksum",
    "open_decoders",
    "size_error",
]

Buffer: TypeAlias = bytes | bytearray | memoryview
"""Any object with one contiguous run of bytes.  An argument is only valid during the call."""

DecodeInto: TypeAlias = Callable[[Buffer, np.ndarray], None]
"""Fill the given array (shape and dtype of the chunk, any strides, writable) from encoded bytes."""

Encode: TypeAlias = Callable[[np.ndarray], Buffer]
"""Return the encoded bytes of an array that has the chunk's shape and dtype, with any strides."""


class BatchDecoder(NamedTuple):
    """Decoder of several chunks in one call, for one worker.

    Attributes
    ----------
    takes : callable
        ``takes(address, nbytes)`` is true if the encoded chunk at this address is known to decode to the
        common size, whatever surrounds it in memory.
    decode : callable
        ``decode(encoded, out)`` fills a writable view of bytes from concatenated chunks that ``takes``
        accepted; returns False if one of them is corrupt.
    """

    takes: Callable[[int, int], bool]
    decode: Callable[[Buffer, memoryview], bool]


class ChunkSpec(NamedTuple):
    """Shape, data type and fill value of one chunk, as a codec sees it.

    Attributes
    ----------
    shape : tuple of int
        In elements.
    dtype : numpy.dtype
        In native byte order; ``object`` for variable-length values.
    fill_value : ndarray
        Of shape ``()`` and `dtype`.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fill_value: npt.NDArray[Any]

    @property
    def nbytes(self) -> int:
        """Size of the chunk in memory, in bytes."""
        n = self.dtype.itemsize
        for size in self.shape:
            n *= size
        return n


class Codec(ABC):
    """Base of the three kinds.  Codecs are frozen dataclasses, equal if their configurations are."""

    __slots__ = ()

    kind: ClassVar[str]
    """``"array->array"``, ``"array->bytes"`` or ``"bytes->bytes"``."""

    name: ClassVar[str]
    """Name of the codec, which is the key of its row in the catalogue."""

    object_dtype: ClassVar[str | None] = None
    """Data type of Zarr v2's ``|O`` with this codec as the first filter; None if it can't be that."""

    short_option: ClassVar[str | None] = None
    """For a plug-in, the member that the text ``name:3`` sets; None if the codec has no short form."""

    always_checked: ClassVar[bool] = False
    """True if each encoded value has a checksum of its content, which decoding verifies."""

    @classmethod
    @abstractmethod
    def parse(cls, format: str, name: str, configuration: Mapping[str, Any]) -> Self:
        """Read the configuration members as `format` ("zarr3", "zarr2" or "n5") writes them under `name`.

        Missing members get their defaults, or stay ``None`` until `bind` settles them.

        Raises
        ------
        SpecError
            For a member that is unknown, malformed or out of range.
        """

    @abstractmethod
    def to_json(self, format: str) -> dict[str, Any]:
        """Return the configuration members for `format`, without the name; exact inverse of `parse`."""

    def bind(self, item: ChunkSpec) -> Self:
        """Return this codec with all open options settled for `item`; raise if it can't encode `item`.

        Only ``shape`` rank, ``dtype`` and ``fill_value`` of `item` may matter here, not its extents.
        """
        return self

    @property
    def decode_rate(self) -> float:
        """Nanoseconds for each decoded byte, on one thread and without the interpreter lock."""
        return 1.35

    @property
    def encode_rate(self) -> float:
        """Nanoseconds for each byte to encode, on one thread and without the interpreter lock."""
        return 7.0

    @property
    def writes_checksum(self) -> bool:
        """True if encoded values have a checksum of their content."""
        return self.always_checked

    def has_checksum(self, encoded: memoryview) -> bool:
        """Return True if `encoded` has a checksum of its content, whichever program wrote it."""
        return self.always_checked


class ArrayToArray(Codec):
    """Turns a chunk into another array: transpose, delta, cast."""

    __slots__ = ()

    kind: ClassVar[str] = "array->array"

    reshapes: ClassVar[bool] = False
    """True if the encoded array's dimensions differ from the chunk's."""

    def next_stored(self, stored: np.dtype[Any]) -> np.dtype[Any]:
        """Return the stored type after encoding in Zarr v2, for elements with the stored type `stored`.

        Raises
        ------
        InvalidArgumentError
            If the configuration names another byte order.
        """
        return stored

    @abstractmethod
    def output(self, item: ChunkSpec) -> ChunkSpec:
        """Return the description of a chunk `item` after encoding."""

    @abstractmethod
    def open_decoder(self, item: ChunkSpec) -> Callable[[np.ndarray], np.ndarray]:
        """Return a function that decodes to an array like `item`."""

    @abstractmethod
    def open_encoder(self, item: ChunkSpec) -> Callable[[np.ndarray], np.ndarray]:
        """Return a function that encodes an array like `item`."""


class ArrayToBytes(Codec):
    """Turns an array into bytes: bytes, vlen-utf8, sharding_indexed, n5_block."""

    __slots__ = ()

    kind: ClassVar[str] = "array->bytes"

    keeps_logical_order: ClassVar[bool] = False
    """True if elements are encoded in C order whatever Zarr v2's ``order`` says."""

    def encoded_nbytes(self, item: ChunkSpec) -> int | None:
        """Return the size in bytes after encoding `item`, or None if it depends on the content."""
        return None

    def most_encoded(self, item: ChunkSpec) -> int | None:
        """Return the largest size in bytes of an encoded `item`, whoever wrote it; None if there is none."""
        return self.encoded_nbytes(item)

    @abstractmethod
    def open_decoder(self, item: ChunkSpec) -> DecodeInto:
        """Return a function that decodes to an array like `item`."""

    @abstractmethod
    def open_encoder(self, item: ChunkSpec) -> Encode:
        """Return a function that encodes an array like `item`."""


class BytesToBytes(Codec):
    """Turns bytes into bytes: compressors and checksums."""

    __slots__ = ()

    kind: ClassVar[str] = "bytes->bytes"

    level_member: ClassVar[str | None] = None
    """Member that a bare number in Zarr v1's ``compression_opts`` sets; None if that is not allowed."""

    n5_defaults: ClassVar[Mapping[str, Any] | None] = None
    """All members of the type in N5, with their defaults; None if there may be others."""

    n5_required: ClassVar[Mapping[str, str]] = {}
    """Those members that a spec must have, with the expected values."""

    def encoded_nbytes(self, decoded_nbytes: int) -> int | None:
        """Return the size in bytes after encoding `decoded_nbytes`, or None if it depends on the content."""
        return None

    @abstractmethod
    def open_decoder(self, decoded_nbytes: int | None) -> Callable[[Buffer], Buffer]:
        """Return a function that decodes to exactly `decoded_nbytes` bytes, or to any number if None.

        The function raises `chunkwise.errors.DataCorruptionError` for anything else, and never allocates more
        than was promised: sizes in headers are checked first.
        """

    def open_decoder_into(self, decoded_nbytes: int) -> Callable[[Buffer, memoryview], None] | None:
        """Like `open_decoder`, but the function fills a writable view of that size; None if it can't."""
        return None

    def open_batch_decoder(self, decoded_nbytes: int) -> BatchDecoder | None:
        """Return a decoder of several chunks in one call; None if each takes its own call."""
        return None

    @abstractmethod
    def open_encoder(self) -> Callable[[Buffer], Buffer]:
        """Return a function that encodes any buffer."""


@dataclass(frozen=True)
class Compressor(BytesToBytes):
    """A compressor whose one option is a whole number for its encoder, with the default in the class."""

    level: int = 1

    member: ClassVar[str] = "level"
    bounds: ClassVar[tuple[int, int]]

    @classmethod
    def parse(cls, format: str, name: str, configuration: Mapping[str, Any]) -> Self:
        members = Members(configuration)
        level = members.take(cls.member, lambda value: expect_int(value, *cls.bounds), cls.level)
        if not notation_of(format).ignores_unknown:  # `n5_parts` checks documents to write
            members.finish()
        return cls(level)

    def to_json(self, format: str) -> dict[str, Any]:
        return {self.member: self.level}


def open_decoders(
    codecs: Sequence[BytesToBytes], sizes: Sequence[int | None], bound: Callable[[int], SizeBound]
) -> list[Callable[[Buffer], Buffer]]:
    """Return decoders to `sizes`, the last first, or one for all codecs if a size is None.

    That one decodes to no more than the `bound`, which may depend on the number of encoded bytes.
    """
    opened = [codec.open_decoder(size) for codec, size in zip(codecs, sizes, strict=False)][::-1]
    if None not in sizes[: len(codecs)]:
        return opened

    def decode(encoded: Buffer) -> Buffer:
        [before] = map(hold, (bound(len(encoded)),))
        try:
            for step in opened:
                encoded = step(encoded)
        finally:
            release(before)
        return encoded

    return [decode]


def compressors_have_checksum(compressors: Sequence[BytesToBytes], encoded: memoryview) -> bool:
    """Return True if a compressor has stored a checksum; only the bytes of the last one are visible."""
    return any(codec.always_checked for codec in compressors) or (
        bool(compressors) and compressors[-1].has_checksum(encoded)
    )


class PreparedChain(Protocol):
    """A codec chain for one chunk shape; immutable and shared by workers.

    Attributes
    ----------
    item : ChunkSpec
        Description of decoded chunks.
    codecs : tuple of Codec
        The bound codecs, in the order of encoding.
    encoded_nbytes : int or None
        Size of every encoded chunk in bytes, or None if it depends on the content.
    bound : SizeBound or None
        The largest size of an encoded chunk; None if there is none.
    is_raw : bool
        True if an encoded chunk is just its elements as in memory, in C order, and any bytes of that size are
        a valid chunk.
    decode_rate, encode_rate : float
        Nanoseconds for each decoded byte, on one thread, without the interpreter lock.
    chunks_in_memory : int
        Most memory for reading part of a chunk, in chunk sizes, including the stored value.
    decodes_batches : bool
        True if one call decodes several chunks.
    """

    @property
    def item(self) -> ChunkSpec: ...
    @property
    def is_raw(self) -> bool: ...
    @property
    def codecs(self) -> tuple[Codec, ...]: ...
    @property
    def encoded_nbytes(self) -> int | None: ...
    @property
    def bound(self) -> SizeBound | None: ...
    @property
    def decode_rate(self) -> float: ...
    @property
    def encode_rate(self) -> float: ...
    @property
    def chunks_in_memory(self) -> int: ...
    @property
    def decodes_batches(self) -> bool: ...
    def open_decoder(self) -> DecodeInto:
        """Return a decoder for one worker at a time."""
        ...

    def open_encoder(self) -> Encode:
        """Return an encoder for one worker at a time."""
        ...

    def open_batch_decoder(self) -> BatchDecoder | None:
        """Return a decoder of several chunks to C-contiguous memory; None if each takes its own call."""
        ...

    def open_view(self) -> Callable[[Buffer], npt.NDArray[Any]] | None:
        """Return a function that returns a chunk as an array over its bytes; None if codecs prevent it."""
        ...


def size_error(codec: str, got: int | str, expected: int) -> DataCorruptionError:
    """Return the error for a chunk that decodes to `got` bytes instead of the `expected` ones."""
    return DataCorruptionError(
        f'"{codec}" codec: chunk decodes to {got} bytes, but expected {expected} bytes'
    )


def byte_view(buffer: Buffer) -> memoryview:
    """Return `buffer` as a one-dimensional view of unsigned bytes, so that ``len`` is its size in bytes."""
    view = memoryview(buffer)
    return view if view.ndim == 1 and view.format == "B" else view.cast("B")
