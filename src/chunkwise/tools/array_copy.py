"""``ArrayCopy``: a copy of an array with another location, format, chunking or compression.

A half-made copy never looks whole: the metadata document, without which there is no array, is written
last.  Until then there are chunks and a journal (:mod:`chunkwise.tools.journal`), with which an
interrupted copy can be resumed.

1. The template of the source becomes the metadata of the destination.
2. The journal is written, or read if the copy is resumed.
3. Blocks of whole chunks are copied, several at a time; the journal follows.  A block of which nothing is
   stored needs no copy, if the fill values are the same.
4. If asked for, every element is read again, the plain way, and compared, bit for bit.
5. Attributes and groups above are written, then the metadata; then the journal is deleted.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import takewhile
from typing import Any, TypeVar

from chunkwise.api.copy import BLOCK_NBYTES, BlockCopy
from chunkwise.api.open import open as open_spec
from chunkwise.api.tensorstore import TensorStore
from chunkwise.dtypes.conversion import converter
from chunkwise.dtypes.convert_number import Convert
from chunkwise.dtypes.fill_value import same_fill
from chunkwise.engine.blockwise import work_through
from chunkwise.engine.future import Future
from chunkwise.errors import ChunkwiseError, DataCorruptionError, InvalidArgumentError, prefix
from chunkwise.hierarchy.attributes import write_first_attributes
from chunkwise.hierarchy.consolidated import update_consolidated
from chunkwise.hierarchy.location import Location
from chunkwise.hierarchy.new_location import check_free, check_outside_arrays, clear, create_parents
from chunkwise.hierarchy.node import JOURNAL
from chunkwise.index_space import IndexDomain
from chunkwise.kvstore.key_range import KeyRange
from chunkwise.spec.context import Context
from chunkwise.tools.array_template import ArrayTemplate
from chunkwise.tools.copy_check import compare, read_plainly
from chunkwise.tools.copy_source import CopySource, stored_source
from chunkwise.tools.journal import Journal
from chunkwise.tools.narrowing import Cast, MisfitError, narrowing
from chunkwise.tools.new_array import open_array
from chunkwise.tools.target import Target, target_spec

__all__ = ["ArrayCopy"]

T = TypeVar("T")

_N_BLOCKS = 64
_SMALLEST_NBYTES = 4 << 20

_SAME = "source and destination are the same array, or the destination holds the source"
_INSIDE = "the destination is, or holds, an array that the source is made of"

_Numbered = tuple[int, IndexDomain]


class ArrayCopy:
    """A copy of one array, made by :meth:`run`, :meth:`verify` and :meth:`finish`."""

    def __init__(
        self,
        source: Location | CopySource,
        destination: Location,
        format: str,
        options: dict[str, Any],
        *,
        resume: bool = False,
        overwrite: bool = False,
        block_nbytes: int | None = None,
        sync: bool = True,  # without, a power failure can leave a copy that looks whole but isn't
        cast: Cast = "error",
        extent: tuple[float, float] | None = None,  # of the source, which else "scale" measures
    ) -> None:
        self._stop = threading.Event()
        self._location = destination
        self._format = format
        if isinstance(source, Location):
            source = stored_source(source)
        self.source = source.store
        if source.uses(destination, below=overwrite):
            raise InvalidArgumentError(_SAME if source.is_stored else _INSIDE)
        dtype = options.get("dtype")
        self.narrowing = None if dtype is None else narrowing(self.source, dtype, cast, extent)
        template = _with_options(source.template, options, self.narrowing)
        plan: Target = target_spec(template, format, list(options))
        self.notes = plan.notes
        self._attributes = plan.attributes
        kvstore = destination.kvstore()
        if not sync:  # one that is bound already would not look at the context
            kept = {kind: value for kind, value in kvstore.resources.items() if kind != "file_io_sync"}
            kvstore = replace(kvstore, resources=kept)
        self._spec = {**plan.spec, "kvstore": kvstore}
        context = {} if sync else {"file_io_sync": False}
        unstored = {**self._spec, "open": True, "assume_metadata": True}
        self.target = open_spec(unstored, context=Context(context)).result()
        if block_nbytes is None:
            whole = self.target.size * self.target.dtype.memory_dtype.itemsize
            block_nbytes = min(max(whole // _N_BLOCKS, _SMALLEST_NBYTES), BLOCK_NBYTES)
        self._blocks = BlockCopy(self.target, self.source, block_nbytes=block_nbytes, convert=self.narrowing)
        self._same_fill = source.is_stored and _have_same_fill(self._blocks)
        task = {
            "source": source.location,
            "source metadata": source.digest,
            "target": plan.spec,
            "block shape": list(self._blocks.blocks.shape),
            **({} if self.narrowing is None else {"cast": self.narrowing.rule}),
        }
        self._journal = Journal(destination, task, self._blocks.blocks.n_blocks)
        self.nbytes = self._blocks.nbytes(self.target.domain)
        self.nbytes_done = 0
        self.complete = False  # True if an equal copy is there already, and `resume`
        self._before: frozenset[str] | None = None  # keys that are not of this copy
        self._begin(resume, overwrite)

    def _begin(self, resume: bool, overwrite: bool) -> None:
        location = self._location
        unfinished = location.kv.read(location.path + JOURNAL).value is not None
        if overwrite:
            clear(location)
        elif unfinished and resume:
            self._journal.resume()
            self.nbytes_done = sum(
                self._blocks.nbytes(block)
                for number, block in self._numbered()
                if self._journal.is_done(number)
            )
            return
        elif resume and self._is_there():
            self.complete = True
            self.nbytes_done = self.nbytes
            return
        if not unfinished or overwrite:
            check_outside_arrays(location)
            check_free(location, self._format)
        if self.narrowing is not None and not unfinished:
            self._before = frozenset(self._keys())
        self._journal.begin()

    def _keys(self) -> Iterator[str]:
        path = self._location.path
        keys = KeyRange.of_prefix(path) if path else KeyRange()
        return self._location.kv.list(keys.start, keys.stop)

    def _is_there(self) -> bool:
        try:
            open_spec({**self._spec, "open": True}).result()
        except (ChunkwiseError, ValueError):
            return False
        return True

    def _numbered(self) -> Iterator[_Numbered]:
        return enumerate(self._blocks.blocks.domains())

    def run(self, advance: Callable[[int], None] = lambda nbytes: None) -> Future[None]:
        """Copy the blocks that are left; `advance` gets the bytes of each, from several threads."""

        def work(item: _Numbered) -> None:
            number, block = item
            if not (self._same_fill and _is_missing(self._blocks.source[block])):
                try:
                    self._blocks.copy(block)
                except MisfitError as e:
                    where = f"{list(block.inclusive_min)} to {list(block.exclusive_max)}"
                    raise prefix(e, f"Between {where}") from None
            self._journal.mark(number)
            advance(self._blocks.nbytes(block))

        if self.narrowing is not None:
            self.narrowing.n_changed = 0
        left = (item for item in self._numbered() if not self._journal.is_done(item[0]))
        return work_through(self._until_stopped(left), work)

    def _until_stopped(self, items: Iterator[T]) -> Iterator[T]:
        return takewhile(lambda _: not self._stop.is_set(), items)

    def interrupt(self, working: Future[None]) -> None:
        """Stop the future of :meth:`run` or :meth:`verify` after the blocks under way; write the journal."""
        self._stop.set()
        # A copy with values that don't fit can be resumed with another rule only, so nothing of it is kept.
        if isinstance(working.exception(), MisfitError) and self._before is not None:
            for key in self._keys():
                if key not in self._before:
                    self._location.kv.delete(key)
            return
        with suppress(ChunkwiseError):  # such as a full disk, which is why we are here
            self._journal.save()

    def verify(self, advance: Callable[[int], None] = lambda nbytes: None) -> Future[None]:
        """Read source and copy and compare every element; the error names the first one that differs."""

        def work(block: IndexDomain) -> None:
            if self._same_fill and all(map(_is_missing, (self._blocks.source[block], self.target[block]))):
                advance(self._blocks.nbytes(block))
                return
            try:
                wanted = self._blocks.convert(read_plainly(self._blocks.source[block]))
                compare(wanted, read_plainly(self.target[block]), block)
            except DataCorruptionError:
                self._journal.restart()
                raise
            advance(self._blocks.nbytes(block))

        return work_through(self._until_stopped(self._blocks.blocks.domains()), work)

    def finish(self) -> TensorStore:
        """Make the copy an array; return it as it is opened anew."""
        location = self._location
        if not self.complete:
            create_parents(location, self._format)
            write_first_attributes(location, self._format, self._attributes)
            open_spec({**self._spec, "open": True, "create": True}).result()
            self._journal.delete()
            update_consolidated(location.kv, location.path)
        return open_array(location)


def _have_same_fill(copy: BlockCopy) -> bool:
    """Return True if a chunk that is missing in the source can be missing in the target."""
    found, wanted = copy.source.fill_value, copy.target.fill_value
    zero, other = copy.source.dtype.zero(), copy.target.dtype.zero()
    return same_fill(copy.convert(zero if found is None else found), other if wanted is None else wanted)


def _is_missing(view: TensorStore) -> bool:
    """Return True if no chunk of a view is stored, so that all of it reads as the fill value."""
    return bool(view.storage_statistics(query_not_stored=True).result().not_stored)


def _with_options(template: ArrayTemplate, options: dict[str, Any], convert: Convert | None) -> ArrayTemplate:
    if "dtype" in options and template.fill_value is not None and "fill_value" not in options:
        convert = convert or converter(template.dtype, options["dtype"])
        try:
            options = {**options, "fill_value": convert(template.fill_value)}
        except MisfitError as e:
            raise prefix(e, "The fill value can't be kept, give another one") from None
    return template.replaced(options)
