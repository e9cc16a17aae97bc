"""Boxes of many arrays, each in a few chunks: read one after the other by one worker.

An array of a stack is often one chunk, and there are thousands of them.  What is the same for all, the
reader and the decoder with its memory, is opened once for each codec chain; nothing is planned.  Where the
boxes of many arrays of one kind lie in chunks is found out for all together.  What is not so simple is left
to :func:`chunkwise.engine.read.read_into`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from chunkwise.cached import cached_property
from chunkwise.codec.decode import open_decompressor
from chunkwise.codec.protocol import DecodeInto, PreparedChain
from chunkwise.codec.rows import copy_rows
from chunkwise.driver.stored_array import StoredArray
from chunkwise.errors import NotFoundError
from chunkwise.engine.failure import describe, failed, missing_chunk
from chunkwise.engine.listed_boxes import ListedBoxes
from chunkwise.engine.result_memory import pages_of
from chunkwise.engine.run_read import RunReader
from chunkwise.kvstore.protocol import Readable, Reader

__all__ = ["BoxReader", "is_simple"]

Array = npt.NDArray[Any]
FetchInto: TypeAlias = Callable[[str, memoryview], "int | None"]

# What is decoded at once, in bytes, and how many chunks a box may have.
_LARGEST = 1 << 22
_MOST_CHUNKS = 16


def is_simple(array: StoredArray) -> bool:
    """Whether boxes of `array` can be read here: no shards, no parts of records, one shape of chunks."""
    return (
        array.shard is None
        and array.part is None
        and array.grid.chunk_shape is not None
        and array.chain.item.nbytes <= _LARGEST
    )


class _Coder:
    """What chunks of one chain are read with.

    Parameters
    ----------
    chain : PreparedChain
        Referred to, so that its identity is not given to another.
    fetch, fetch_into : callable
        As for :class:`~chunkwise.engine.run_read.RunReader`.

    Attributes
    ----------
    shape : tuple of int
        Of a chunk.
    runs : RunReader or None
        Reads whole chunks, if their decoded bytes are their elements.
    """

    def __init__(self, chain: PreparedChain, fetch: Reader, fetch_into: FetchInto | None) -> None:
        item = self._item = chain.item
        self._chain = chain
        self.shape = item.shape
        stages = getattr(chain, "stages", None)
        packed = None if stages is None else open_decompressor(stages)
        self._as_stored = packed is not None and packed.fill is None and packed.stored == item.dtype
        self.runs: RunReader | None = None
        if packed is not None and packed.stored == item.dtype and item.shape:
            self.runs = RunReader(item.shape, packed, fetch, fetch_into)

    @cached_property
    def decode(self) -> DecodeInto:
        """A decoder of one chunk."""
        return self._chain.open_decoder()

    @cached_property
    def scratch(self) -> Array:
        """Memory for a chunk."""
        # As in single_chunk.py, chunks with the first dimension fastest are not turned around.
        turned = self._chain.codecs[0].name in ("n5_block", "transpose")
        return np.empty(self.shape, self._item.dtype, "F" if turned else "C")

    @cached_property
    def raw(self) -> memoryview | None:
        """The bytes of `scratch`, if it takes the chunk as it is stored."""
        return self.scratch.reshape(-1).view(np.uint8).data if self._as_stored else None


class BoxReader:
    """Reads boxes of arrays in one store, for one worker.

    Parameters
    ----------
    kv : Readable
    """

    def __init__(self, kv: Readable) -> None:
        self._kv = kv
        self.fetch = kv.open_reader()
        open_into = getattr(type(kv), "open_into_reader", None)  # not that of a store behind an adapter
        self._fetch_into = None if open_into is None else open_into(kv)
        self._coders: dict[int, _Coder] = {}

    def read(
        self, array: StoredArray, prefix: str, first: Sequence[int], out: Array, *, fill_missing: bool
    ) -> bool:
        """Fill `out` with the box that begins at `first`; return False if it has too many chunks.

        Parameters
        ----------
        array : StoredArray
            One that :func:`is_simple`.
        prefix : str
            What the keys of the array come below.
        first : sequence of int
            Inside the array, as the whole box is.
        out : ndarray
            With an axis for each dimension of the array.
        fill_missing : bool
            Whether a missing chunk reads as the fill value.
        """
        coder = self._coders.get(id(array.chain)) or self._open(array.chain)
        cell, inside, n_chunks = [], [], 1
        for start, size, n in zip(first, coder.shape, out.shape, strict=True):
            number = start // size
            start -= number * size
            cell.append(number)
            inside.append(slice(start, start + n))
            if start + n > size:
                n_chunks *= -(-(start + n) // size)
        if n_chunks == 1:
            self._chunk(coder, array, prefix, cell, (*inside, ...), out, fill_missing)
            return True
        if n_chunks > _MOST_CHUNKS:
            return False
        along = [_pieces(*piece) for piece in zip(cell, inside, coder.shape, strict=True)]
        for chunk in product(*along):
            numbers, parts, places = zip(*chunk, strict=True)
            self._chunk(coder, array, prefix, numbers, parts, out[places], fill_missing)
        return True

    def read_many(
        self, listed: ListedBoxes, numbers: Sequence[int], out: Array, unwanted: Sequence[object]
    ) -> list[int]:
        """Read boxes to their places; return which have too many chunks.

        Parameters
        ----------
        listed : ListedBoxes
            Of arrays as for :meth:`read`.
        numbers : sequence of int
            Which of them, ascending.
        out : ndarray
        unwanted : sequence
            True as soon as nothing more is to be read.
        """
        array, prefixes, first, start, stop, fill_missing = listed.boxes
        coder = self._coders.get(id(array.chain)) or self._open(array.chain)
        pages = pages_of(out)
        if pages is not None and numbers:
            pages.prepare(out[listed.hull(numbers)])
        others = numbers
        in_place = out.flags.c_contiguous and coder.shape[1:] == out.shape[1:]
        if coder.runs is not None and not in_place:
            whole = listed.whole
            chunks = [i for i in numbers if whole[i]]
            others = [i for i in numbers if not whole[i]]

            def read_other(i: int, place: Array) -> None:
                self._chunk(coder, array, prefixes[i], listed.cells[i], (...,), place, fill_missing)

            coder.runs.read(listed, chunks, out, read_other, unwanted)
        left: list[int] = []
        for i in others:
            if unwanted:
                break
            box: Any = map(slice, start[i].tolist(), stop[i].tolist())
            at = first[i].tolist()
            if not self.read(array, prefixes[i], at, out[(*box, ...)], fill_missing=fill_missing):
                left.append(i)
        return left

    def _chunk(
        self,
        coder: _Coder,
        array: StoredArray,
        prefix: str,
        cell: Sequence[int],
        inside: tuple[Any, ...],
        out: Array,
        fill_missing: bool,
    ) -> None:
        key = prefix + array.keys.key(cell)
        raw = coder.raw
        try:
            if raw is not None and self._fetch_into is not None:
                scratch = coder.scratch
                whole = out.shape == coder.shape
                if whole and out.flags.c_contiguous and out.dtype == scratch.dtype:
                    if self._fetch_into(key, out.reshape(-1).view(np.uint8).data) == len(raw):
                        return
                elif self._fetch_into(key, raw) == len(raw):
                    copy_rows(out, scratch if whole else scratch[inside])
                    return
            encoded = self.fetch(key)
            if encoded is None:
                if not fill_missing:
                    raise missing_chunk(tuple(cell), describe(self._kv, key))
                out[...] = array.fill_value
            elif out.shape == coder.shape:
                coder.decode(encoded, out)
            else:
                coder.decode(encoded, coder.scratch)
                copy_rows(out, coder.scratch[inside])
        except NotFoundError:
            raise
        except Exception as e:
            below = replace(array, keys=array.keys.under(prefix))
            raise failed(e, "reading", self._kv, below, key) from e.__cause__

    def _open(self, chain: PreparedChain) -> _Coder:
        coder = self._coders[id(chain)] = _Coder(chain, self.fetch, self._fetch_into)
        return coder


def _pieces(number: int, part: slice, size: int) -> list[tuple[int, slice, slice]]:
    """Return chunk, part of it, and place of that in the box, for each chunk along one dimension."""
    return [
        (
            number + n,
            slice(max(part.start - n * size, 0), min(part.stop - n * size, size)),
            slice(max(n * size - part.start, 0), min((n + 1) * size, part.stop) - part.start),
        )
        for n in range(-(-part.stop // size))
    ]
