"""``ArrayCopy``: a copy of an array to another location, format, chunking or compression.

1. The template of the source becomes the metadata of the destination.
2. The passes are planned (`chunkwise.copying.copy_plan`).
3. The array is copied like one of a tree (`chunkwise.copying.planned_copy`).  A block that stores nothing
   needs no copy if the fill values are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from chunkwise.copying.array_options import check_named
from chunkwise.copying.copy_arrays import check_memory, intermediate_name, room_of
from chunkwise.copying.copy_job import planned_job
from chunkwise.copying.copy_options import CopyOptions
from chunkwise.copying.copy_place import CopyPlace
from chunkwise.copying.copy_plan import CopyPlan
from chunkwise.copying.copy_source import CopySource, stored_source
from chunkwise.copying.executors import Workers
from chunkwise.copying.journal_document import JournalDocument
from chunkwise.copying.new_array import open_array
from chunkwise.copying.planned_copy import PlannedCopy
from chunkwise.copying.small_arrays import SmallArrays
from chunkwise.copying.tree_plan import TreePlan
from chunkwise.core.api.tensorstore import TensorStore
from chunkwise.core.base.binding import JSON
from chunkwise.core.kvstore.key_range import KeyRange
from chunkwise.core.trees.change import delete_below
from chunkwise.core.trees.location import Location
from chunkwise.core.trees.tree import check_format
from chunkwise.errors import AlreadyExistsError, ChunkwiseError, InvalidArgumentError
from chunkwise.extension.trees import check_outside_arrays, check_place

__all__ = ["ArrayCopy"]

_SAME = "source and destination are the same array, or the destination holds the source"
_INSIDE = "the destination is, or holds, an array that the source is made of"


class ArrayCopy(PlannedCopy):
    """A copy of one array."""

    command = "chunkwise cp --resume"

    def __init__(
        self,
        source: Location | CopySource,
        destination: Location,
        format: str,
        fields: dict[str, Any],
        how: CopyOptions,
        *,
        workers: Workers | None = None,
        plan: CopyPlan | None = None,
        extent: tuple[float, float] | None = None,  # of the source; without it "scale" measures it
    ) -> None:
        self._format = check_format(format)
        self._source = source = stored_source(source) if isinstance(source, Location) else source
        found = CopyPlace.choose(destination, "array", self._format, overwrite=how.overwrite, go_on=how.go_on)
        # The copy may read what it replaces, which stays until the copy is complete.
        if source.uses(found.place, below=found.replacement is not None):
            raise InvalidArgumentError(_SAME if source.is_stored else _INSIDE)
        check_named(fields, fields.get("dimension_names", source.template.names), "the array")
        self._job = planned_job(source, found.place, format, fields, how, extent=extent)
        self.target, self.narrowing = self._job.target, self._job.narrowing
        self._given = plan
        self._before: frozenset[str] | None = None  # keys that are not of this copy
        super().__init__(found, how, workers)

    @property
    def passes(self) -> CopyPlan:
        """The passes over the array."""
        return self._job.plan

    def _make_plan(self, begun: JournalDocument | None) -> tuple[TreePlan, SmallArrays, dict[str, JSON]]:
        how, source, job, plan = self._how, self._source, self._job, self._given
        between = intermediate_name()
        if plan is None and begun is not None and begun["task"].get("source metadata") == source.digest:
            # A process that resumes may have other memory and processors.
            known = begun["task"].get("plan")
            if known is not None:
                plan = CopyPlan.from_json(known)
                check_memory(how.memory, plan.memory)
                between = intermediate_name(begun["task"].get("intermediate"))
        plan = plan or job.arrays.plan(room_of(self.workers, how.memory))
        job.follow(plan, summed=how.keep_fingerprint, intermediate=between)
        task = {
            "source": source.location,
            "source metadata": source.digest,
            "target": job.target_spec.spec,
            "plan": plan.to_json(),
            **({} if plan.intermediate is None else {"intermediate": between}),
            **({} if self.narrowing is None else {"cast": self.narrowing.rule}),
            **({"fingerprint": "kept"} if how.keep_fingerprint else {}),
        }
        notes = [("", note) for note in job.target_spec.notes]
        none = SmallArrays(self._top, self._top, self._format, (), how)
        return TreePlan(large={"": job}, notes=notes), none, task

    def _is_there(self) -> bool:
        return self._job.is_there()

    def _check_free(self) -> list[tuple[int, int]]:
        destination, overwrite = self._destination, self._how.overwrite
        if destination.replacement is not None and not overwrite:
            raise AlreadyExistsError(f"{self._top.text} holds another copy, which --overwrite deletes")
        check_outside_arrays(destination.location)
        check_place(self._top, "array", self._format, "overwrite" if overwrite else "new")
        if self.narrowing is not None and self._part is None:
            self._before = frozenset(self._keys())
        return []

    def _keys(self) -> Iterator[str]:
        path = self._top.path
        keys = KeyRange.of_prefix(path) if path else KeyRange()
        return self._top.store.list(keys.start, keys.stop)

    def _delete_own(self) -> bool:
        if self._session:
            with suppress(ChunkwiseError):
                delete_below(self._top)
            return True
        if self._before is None:
            return False
        self._destination.clear()
        if not self._before:
            delete_below(self._top)
            return True
        for key in self._keys():
            if key not in self._before:
                self._top.store.delete(key)
        return True

    def _surround_first(self) -> None:
        self._destination.create_parents(self._format)

    def _surround(self) -> None:
        """Do nothing: an array is all."""

    def _commit(self, confirm: Callable[[], None]) -> None:
        self._destination.commit(confirm)

    def _name_of(self, path: str) -> str:
        return ""  # the caller knows it

    def open(self) -> TensorStore:
        """Return the copy, newly opened."""
        return open_array(self._destination.location)
