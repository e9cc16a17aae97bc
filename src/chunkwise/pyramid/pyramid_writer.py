"""``PyramidWriter``: the levels of a pyramid that was planned, written into its group.

1. The group is made, with a journal of the levels that are done.
2. One level after the other is written in blocks, from the array of the level before, downsampled; or several
   from one read of a block, where the memory allows that (`chunkwise.pyramid.level_step`).
3. The group gets its attributes, by which viewers know a pyramid; until then it is none.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from chunkwise.api.copy import BLOCK_NBYTES
from chunkwise.api.tensorstore import TensorStore
from chunkwise.api.views import downsample
from chunkwise.binding import JSON
from chunkwise.errors import AbortedError, ChunkwiseError
from chunkwise.hierarchy.location import Location
from chunkwise.hierarchy.node import JOURNAL
from chunkwise.index_space import align
from chunkwise.plan.blocks import Blocks
from chunkwise.processors import memory_limit
from chunkwise.pyramid.group import PyramidGroup
from chunkwise.pyramid.kept import Kept
from chunkwise.pyramid.level_step import LevelStep, blocks_of_levels
from chunkwise.pyramid.level_writer import LevelWriter
from chunkwise.pyramid.plan import PyramidPlan
from chunkwise.spec.driver_spec import DriverSpec
from chunkwise.tools.executors import Workers
from chunkwise.tools.journal import Journal
from chunkwise.tools.journal_document import read_journal
from chunkwise.tools.new_array import open_array
from chunkwise.tools.work import Crew, Work

__all__ = ["Pyramid", "PyramidProgress", "PyramidWriter"]


class PyramidProgress(NamedTuple):
    """Progress of a pyramid.

    Attributes
    ----------
    level : int
        The one that is being written.
    n_levels : int
    nbytes_done, nbytes : int
        Of the elements of all levels that are to be written.
    """

    level: int
    n_levels: int
    nbytes_done: int
    nbytes: int


class Pyramid(NamedTuple):
    """A pyramid that has been written.

    Attributes
    ----------
    convention : str
    path : str
        Of the group.
    names : tuple of str
        Of the arrays in it.
    levels : tuple of TensorStore
        The arrays, the one of full resolution first.
    factors : tuple of tuple of int
        Of each level relative to the first.
    left_out : tuple of str
        What the metadata of the source say that the convention has no place for.
    """

    convention: str
    path: str
    names: tuple[str, ...]
    levels: tuple[TensorStore, ...]
    factors: tuple[tuple[int, ...], ...]
    left_out: tuple[str, ...] = ()

    def __repr__(self) -> str:
        shapes = ", ".join(
            f"{name}: {'x'.join(map(str, level.shape))}"
            for name, level in zip(self.names, self.levels, strict=True)
        )
        return f"<{self.convention} pyramid at {self.path}: {shapes}>"


class PyramidWriter:
    """Writes the levels of a plan, by `prepare` and `write`."""

    def __init__(
        self,
        plan: PyramidPlan,
        location: Location,
        *,
        labels: bool,
        name: str | None,
        first: str | None,
        kept: Kept,
        workers: Workers,
        memory: int | None,
        sync: bool,
        resume: bool,
        overwrite: bool,
        progress: Callable[[PyramidProgress], object] | None,
    ) -> None:
        self._resume, self._overwrite = resume, overwrite
        begun = read_journal(location) if resume else None
        # Levels are made beside what they replace, also when somebody goes on with them.
        self._replaces = overwrite or (begun is not None and begun["task"].get("replaces") is True)
        self._plan, self._location, self._first = plan, location, first
        self._labels = labels
        self._left_out = kept.left_out
        self._group = PyramidGroup(
            location,
            plan.convention,
            name or _plain_name(location),
            first=first,
            renamed=bool(name),
            kept=kept,
        )
        self._progress = progress
        self.advance: Callable[[int], object] = lambda nbytes: None  # of a display
        self._done = 0
        task = {
            "convention": plan.convention.name,
            "method": plan.method,
            "source": _stores(plan.source._array.spec()),
            "part": plan.source._transform.to_json(),
            "steps": [list(level.step) for level in plan.levels],
            "shape": list(plan.source.shape),
            "axes": [list(axis) for axis in plan.axes],
            **({"replaces": True} if self._replaces else {}),
        }
        self._workers = workers
        memory = memory or workers.memory or memory_limit() // 4
        self._block_nbytes = min(BLOCK_NBYTES, max(1, memory // (3 * workers.n_at_once)))
        self._writers = [
            LevelWriter(
                location.child(own),
                plan.convention.format,
                template,
                {**task, "level": number},
                sync=sync,
                replaces=self._replaces,
            )
            for number, (own, template) in enumerate(zip(plan.names, plan.templates, strict=True))
        ]
        self._journal = Journal(location, task, len(plan.levels), command="chunkwise pyramid --resume")
        self._start = 0 if first is None else 1
        self.nbytes = sum(writer.nbytes for writer in self._writers[self._start :])

    def prepare(self) -> None:
        """Make room for all levels, or find out how far they are."""
        location = self._location
        begun = location.store.read(location.path + JOURNAL).value is not None
        self._group.check()
        if begun and self._resume:
            self._journal.resume()
        else:
            for writer in self._writers[self._start :]:
                writer.check()
            for writer in self._writers[self._start :]:
                writer.clear()
            if begun and self._overwrite:
                location.store.delete(location.path + JOURNAL)
            self._group.create()
            self._journal.begin()

    def write(self, wanted: Callable[[], bool]) -> Pyramid | None:
        """Write the rest; return None if it isn't wanted any more."""
        try:
            pyramid = self._write(wanted)
        except BaseException:  # an interrupt too: what is done by then is not to be done again
            with suppress(ChunkwiseError):
                self._journal.save()
            raise
        if pyramid is None:
            self._journal.save()
        return pyramid

    def _write(self, wanted: Callable[[], bool]) -> Pyramid | None:
        plan = self._plan
        arrays: list[TensorStore] = []
        with Crew(self._workers) as crew:
            while (number := len(arrays)) < len(plan.levels):
                if number < self._start:
                    arrays.append(open_array(self._location.child(plan.names[number]), read=True))
                    continue
                if self._journal.is_done(number):
                    arrays.append(self._writers[number].open())
                    self._writers[number].forget()
                    self._advance(number, self._writers[number].nbytes)
                    continue
                source = plan.source
                if number:
                    step = plan.levels[number].step
                    source = downsample(self._before(arrays[-1]), step, plan.method)
                made = self._write_levels(crew, number, source, wanted)
                if not wanted():
                    return None
                arrays += made
        self._journal.write()  # or another process may have finished it
        arrays[self._start :] = [writer.commit() for writer in self._writers[self._start :]]
        if self._replaces:
            self._group.clear()
        self._group.finish(
            plan.axes,
            list(zip(plan.names, plan.levels, strict=True)),
            method=plan.method,
            labels=self._labels,
        )
        self._journal.delete()
        return Pyramid(
            plan.convention.name,
            self._location.text,
            plan.names,
            tuple(arrays),
            tuple(level.factors for level in plan.levels),
            self._left_out,
        )

    def _write_levels(
        self, crew: Crew, number: int, source: TensorStore, wanted: Callable[[], bool]
    ) -> list[TensorStore]:
        """Write a level, and those that are made with it; return them, or none if they aren't wanted."""
        writers = self._writers[number:]
        step = self._level_step(number, source)
        task = {"block shape": list(step.blocks.shape), "levels together": len(step.targets)}
        journal = writers[0].journal(task, step.blocks.n_blocks)
        work = Work("pyramid", [step], writers[0].fence(journal))
        self._advance(number, step.nbytes_of(journal.done()))

        def tick() -> None:
            journal.beat()
            self._journal.beat()
            if not wanted():
                raise AbortedError("the pyramid isn't wanted any more")

        def done(start: int, stop: int, nbytes: int) -> None:
            journal.mark(start, stop)
            self._advance(number, nbytes)
            if not wanted():
                work.stop.set()

        try:
            crew.run(work, 0, journal.missing(), done, tick)
            journal.write()  # late tasks do nothing any more
        except BaseException as e:
            with suppress(ChunkwiseError):
                journal.save()
            if isinstance(e, AbortedError) and not wanted():
                return []
            raise
        made = [writer.finish() for writer in writers[: len(step.targets)]]
        for at in range(number, number + len(made)):
            self._journal.mark(at)
        self._journal.write()
        journal.delete()
        return made

    def _level_step(self, number: int, source: TensorStore) -> LevelStep:
        """Return the steps of a level, as it was begun or as suits the workers."""
        plan, writers = self._plan, self._writers[number:]
        targets = [writer.target for writer in writers]
        steps = [level.step for level in plan.levels[number + 1 :]]
        source = source[align(source.domain, targets[0].domain)]
        begun = writers[0].begun()
        if begun is not None and {"block shape", "levels together"} <= begun.keys():
            n, shape = begun["levels together"], tuple(begun["block shape"])
            blocks = Blocks(targets[0].domain, tuple(targets[0].origin), shape)
        else:
            n, blocks = blocks_of_levels(
                source, targets, steps, self._block_nbytes, 2 * self._workers.n_workers
            )
        return LevelStep(source, targets[:n], steps[: n - 1], plan.method, blocks)

    def _before(self, array: TensorStore) -> TensorStore:
        """Return a level as the source of the next one."""
        names = tuple(axis.name for axis in self._plan.axes)
        return array.label[names] if names else array

    def _advance(self, level: int, nbytes: int) -> None:
        self._done += nbytes
        self.advance(nbytes)
        if nbytes and self._progress is not None:
            self._progress(PyramidProgress(level, len(self._writers), self._done, self.nbytes))


def _stores(spec: DriverSpec) -> JSON:
    """Return the arrays that a source is made of, as JSON; of arrays in memory only that they are."""
    store = spec.key_value_store
    if store is not None:
        # A store of another library is an object, of which a journal can hold no more than the kind.
        described = json.dumps(store.strip().to_json(), default=lambda one: type(one).__name__)
        return [spec.driver, json.loads(described)]
    return [spec.driver, *(_stores(part) for part in spec.parts() if isinstance(part, DriverSpec))]


def _plain_name(location: Location) -> str:
    name = location.name
    for suffix in (".zarr", ".n5", ".ome"):
        name = name.removesuffix(suffix)
    return name or "image"
