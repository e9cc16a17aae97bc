"""Segment identifiers in blocks, each with its own table: neuroglancer's ``compressed_segmentation``.

Specification
-------------
neuroglancer, "Compressed segmentation format".  A chunk ``(channel, z, y, x)`` begins with the position of
each channel, in words of 32 bits.  A channel begins with two words for each block: the position of its table
(24 bits) and the width of its indices (8 bits); the position of its indices.  Indices are packed from the
lowest bit, x fastest, with the strides of a whole block even if the block is cut off.

Names ----- Not written in any Zarr or N5 metadata: it is an ``encoding`` of
`chunkwise.core.driver.neuroglancer_precomputed`.

Configuration
-------------
>>> config = {"block_size": [8, 8, 8]}
>>> CompressedSegmentation.parse("precomputed", "compressed_segmentation", config).to_json("precomputed")
{'block_size': [8, 8, 8]}

Compatibility
-------------
Bytes are the same as TensorStore's: indices precede the table, and blocks with equal tables share one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from chunkwise.core.base.binding import Members, expect_int, parse_array
from chunkwise.core.codec.protocol import ArrayToBytes, Buffer, ChunkSpec, DecodeInto, Encode, byte_view
from chunkwise.errors import CodecError, DataCorruptionError, TooLargeError

__all__ = ["CompressedSegmentation"]

_WIDTHS = (0, 1, 2, 4, 8, 16, 32)
_LONGEST_TABLE = 1 << 24  # positions of tables have 24 bits

_Words = npt.NDArray[np.uint32]


class _Blocks(NamedTuple):
    """The division of ``(z, y, x)`` into blocks; all shapes are in that order."""

    shape: tuple[int, ...]
    size: tuple[int, ...]
    counts: tuple[int, ...]

    @classmethod
    def of(cls, shape: tuple[int, ...], block_size: tuple[int, ...]) -> _Blocks:
        size = block_size[::-1]
        return cls(shape, size, tuple(-(-n // s) for n, s in zip(shape, size, strict=True)))

    @property
    def padded(self) -> tuple[int, ...]:
        return tuple(n * s for n, s in zip(self.counts, self.size, strict=True))

    def rows(self, volume: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return a padded volume with one row for each block."""
        (nz, ny, nx), (bz, by, bx) = self.counts, self.size
        blocks = volume.reshape(nz, bz, ny, by, nx, bx).transpose(0, 2, 4, 1, 3, 5)
        return np.ascontiguousarray(blocks).reshape(nz * ny * nx, bz * by * bx)

    def volume(self, rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the volume from rows, without the padding."""
        padded = rows.reshape(*self.counts, *self.size).transpose(0, 3, 1, 4, 2, 5).reshape(self.padded)
        return padded[tuple(slice(0, n) for n in self.shape)]


@dataclass(frozen=True, slots=True)
class CompressedSegmentation(ArrayToBytes):
    """Array to bytes: chunks ``(channel, z, y, x)`` of ``uint32`` or ``uint64``."""

    block_size: tuple[int, int, int]  # in the order x, y, z

    name: ClassVar[str] = "compressed_segmentation"

    @classmethod
    def parse(cls, format: str, name: str, configuration: Mapping[str, Any]) -> Self:
        """Read the member ``block_size``."""
        members = Members(configuration)
        x, y, z = members.take(
            "block_size", lambda value: parse_array(value, lambda n: expect_int(n, 1, 2**31 - 1), 3)
        )
        members.finish()
        return cls((x, y, z))

    def to_json(self, format: str) -> dict[str, Any]:
        """Return the member ``block_size``."""
        return {"block_size": list(self.block_size)}

    def bind(self, item: ChunkSpec) -> Self:
        """Return the codec; raise for other types than ``uint32`` and ``uint64``."""
        if item.dtype not in (np.dtype("u4"), np.dtype("u8")):
            raise CodecError(
                f"compressed_segmentation encoding only supported for uint32 and uint64, not for {item.dtype}"
            )
        return self

    def _blocks(self, item: ChunkSpec) -> _Blocks:
        blocks = _Blocks.of(item.shape[1:], self.block_size)
        nbytes = prod(blocks.padded) * item.dtype.itemsize
        if nbytes > 64 * max(item.nbytes, 1 << 20):
            raise TooLargeError(
                f"compressed_segmentation_block_size of {list(self.block_size)} needs {nbytes} bytes "
                f"for a chunk of {item.nbytes}"
            )
        return blocks

    def most_encoded(self, item: ChunkSpec) -> int:
        """Return the size with a header, a table and 32 bits of each element in all blocks."""
        n_cells, n_blocks = prod(self._blocks(item).padded), prod(self._blocks(item).counts)
        return 4 * item.shape[0] * (1 + 2 * n_blocks + n_cells * (1 + item.dtype.itemsize // 4))

    def open_decoder(self, item: ChunkSpec) -> DecodeInto:
        """Return a decoder; it takes memory for the blocks of one channel at a time."""
        n_channels, blocks = item.shape[0], self._blocks(item)

        def decode(buffer: Buffer, out: npt.NDArray[Any]) -> None:
            view = byte_view(buffer)
            if len(view) % 4 or len(view) < 4 * n_channels:
                raise _corrupt(f"{len(view)} bytes for {n_channels} channels")
            words = np.frombuffer(view, "<u4")
            for channel in range(n_channels):
                start = int(words[channel])
                if not n_channels <= start <= len(words):
                    raise _corrupt(f"channel {channel} begins at word {start} of {len(words)}")
                rows = _decode_channel(words[start:], blocks, item.dtype)
                out[channel] = blocks.volume(rows)

        return decode

    def open_encoder(self, item: ChunkSpec) -> Encode:
        """Return an encoder."""
        n_channels, blocks = item.shape[0], self._blocks(item)
        pad = [(0, p - n) for p, n in zip(blocks.padded, blocks.shape, strict=True)]
        inside = blocks.rows(np.pad(np.ones(blocks.shape, bool), pad)) if any(n for _, n in pad) else None

        def encode(array: npt.NDArray[Any]) -> Buffer:
            positions = np.empty(n_channels, "<u4")
            parts: list[npt.NDArray[Any]] = [positions]
            start = n_channels
            for channel in range(n_channels):
                positions[channel] = start
                # Padding repeats the edge, so it adds no new value to the block.
                volume = array[channel]
                rows = blocks.rows(volume if inside is None else np.pad(volume, pad, mode="edge"))
                words = _encode_channel(rows, inside)
                parts.append(words)
                start += len(words)
            return np.concatenate(parts).tobytes()

        return encode


def _corrupt(what: str) -> DataCorruptionError:
    return DataCorruptionError(f"compressed_segmentation: {what}")


def _decode_channel(words: _Words, blocks: _Blocks, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return the values of each block, one row for each."""
    n_blocks, n_values = prod(blocks.counts), prod(blocks.size)
    if len(words) < 2 * n_blocks:
        raise _corrupt(f"{len(words)} words can't have the headers of {n_blocks} blocks")
    headers = words[: 2 * n_blocks].reshape(n_blocks, 2).astype(np.int64)
    widths, tables, starts = headers[:, 0] >> 24, headers[:, 0] & 0xFFFFFF, headers[:, 1]
    per_value = dtype.itemsize // 4
    rows = np.empty((n_blocks, n_values), dtype)
    for width in np.unique(widths).tolist():
        if width not in _WIDTHS:
            raise _corrupt(f"indices have {width} bits, expected one of {list(_WIDTHS)}")
        here = np.flatnonzero(widths == width)
        n_words = -(-n_values * width // 32)
        if n_words and int(starts[here].max()) + n_words > len(words):
            raise _corrupt(
                f"indices of a block end at word {int(starts[here].max()) + n_words} of {len(words)}"
            )
        if width:
            packed = words[starts[here][:, None] + np.arange(n_words)]
            shifts = np.arange(0, 32, width, dtype=np.uint32)
            mask = np.uint32((1 << width) - 1)
            index = ((packed[:, :, None] >> shifts) & mask).reshape(len(here), -1)[:, :n_values]
            at = tables[here][:, None] + index.astype(np.int64) * per_value
        else:
            at = tables[here][:, None]
        if int(at.max()) + per_value > len(words):
            # Elements beyond the chunk are not used, and may have any index.
            used = _used(blocks, at.shape, here)
            if int(at[used].max(initial=-1)) + per_value > len(words):
                raise _corrupt(f"a table ends beyond the {len(words)} words")
            at = np.where(used, at, 0)
        values = words[at].astype(dtype)
        if per_value == 2:
            values |= words[at + 1].astype(dtype) << dtype.type(32)
        rows[here] = values
    return rows


def _used(blocks: _Blocks, shape: tuple[int, ...], here: npt.NDArray[np.intp]) -> npt.NDArray[np.bool_]:
    pad = [(0, p - n) for p, n in zip(blocks.padded, blocks.shape, strict=True)]
    inside: npt.NDArray[np.bool_] = blocks.rows(np.pad(np.ones(blocks.shape, bool), pad))[here]
    return inside if shape == inside.shape else inside[:, :1]  # every block has at least one value


def _encode_channel(rows: npt.NDArray[Any], inside: npt.NDArray[np.bool_] | None) -> _Words:
    n_blocks, n_values = rows.shape
    order = np.argsort(rows, axis=1, kind="stable")
    ordered = np.take_along_axis(rows, order, axis=1)
    first = np.ones(rows.shape, bool)
    np.not_equal(ordered[:, 1:], ordered[:, :-1], out=first[:, 1:])
    index = np.empty(rows.shape, np.uint32)
    np.put_along_axis(index, order, np.cumsum(first, axis=1, dtype=np.uint32) - 1, axis=1)
    if inside is not None:
        index[~inside] = 0
    counts = first.sum(axis=1)
    widths = np.array(_WIDTHS)[np.searchsorted([1 << w for w in _WIDTHS], counts)]
    packed: dict[int, tuple[_Words, npt.NDArray[np.intp]]] = {}
    for width in np.unique(widths).tolist():
        here = np.flatnonzero(widths == width)
        per_word = 32 // width if width else 1
        n_words = -(-n_values * width // 32)
        padded = np.zeros((len(here), n_words * per_word), np.uint32)
        if width:
            padded[:, :n_values] = index[here]
        shifts = np.arange(per_word, dtype=np.uint32) * np.uint32(width)
        bits = padded.reshape(len(here), n_words, per_word) << shifts
        packed[width] = np.bitwise_or.reduce(bits, axis=2), np.cumsum(widths == width) - 1
    headers = np.empty((n_blocks, 2), np.uint32)
    known: dict[bytes, int] = {}
    parts: list[npt.NDArray[Any]] = [headers.reshape(-1)]
    end = 2 * n_blocks
    for block, width in enumerate(widths.tolist()):
        words, row = packed[width]
        indices = words[row[block]]
        table = ordered[block][first[block]].astype(rows.dtype.newbyteorder("<"), copy=False).view("<u4")
        raw = table.tobytes()
        start = end
        end += len(indices)
        parts.append(indices)
        at = known.get(raw)
        if at is None:
            at = known[raw] = end
            parts.append(table)
            end += len(table)
        if at >= _LONGEST_TABLE:
            raise TooLargeError("compressed_segmentation: a chunk has too many different values")
        headers[block] = at | width << 24, start
    return np.concatenate(parts).astype("<u4", copy=False)
