"""``PyramidWriter``: writes the levels of a planned pyramid into its group.

1. The group is made, with a journal of the levels that are done.
2. One level after the other is written in blocks, from the array of the level before, downsampled; or several
   from one read of a block, where the memory allows that (`chunkwise.images.pyramid.level_step`).
3. If wanted, every level is read again and compared with the level before, downsampled.
4. The group gets its attributes, by which viewers recognise a pyramid.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress

from chunkwise import TensorStore, downsample
from chunkwise.copying.arrival import check_reachable
from chunkwise.copying.copy_work import CopyStep, StepResult
from chunkwise.copying.destination import begun_at, unfinished
from chunkwise.copying.executors import Workers
from chunkwise.copying.journal import Journal
from chunkwise.copying.journal_document import read_journal
from chunkwise.copying.new_array import open_array
from chunkwise.copying.work import TaskRunner, Work
from chunkwise.errors import AbortedError, ChunkwiseError, DataCorruptionError, prefix
from chunkwise.extension import JSON
from chunkwise.extension.inside import (
    BLOCK_NBYTES,
    Blocks,
    DriverSpec,
    align,
    divide,
    item_nbytes,
    memory_limit,
)
from chunkwise.extension.trees import JOURNAL, Location
from chunkwise.images.pyramid.group import PyramidGroup
from chunkwise.images.pyramid.kept import Kept
from chunkwise.images.pyramid.level_step import LevelStep, blocks_of_levels
from chunkwise.images.pyramid.level_writer import LevelWriter
from chunkwise.images.pyramid.plan import PyramidPlan
from chunkwise.images.pyramid.preview import PyramidPreview, preview_levels
from chunkwise.images.pyramid.pyramid import Pyramid, PyramidProgress, WrittenLevels

__all__ = ["PyramidWriter"]


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
        verify: bool,
        progress: Callable[[PyramidProgress], object] | None,
    ) -> None:
        self._resume, self._overwrite, self._verified = resume, overwrite, verify
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
        task["levels"] = {
            name: writer.target_json for name, writer in zip(plan.names, self._writers, strict=True)
        }
        self._journal = Journal(location, task, len(plan.levels), command="chunkwise pyramid --resume")
        self._start = 0 if first is None else 1
        self.nbytes = sum(writer.nbytes for writer in self._writers[self._start :]) * (2 if verify else 1)

    def preview(self) -> PyramidPreview:
        """Return a preview; write nothing, and raise what `prepare` would raise."""
        self._check()
        plan, steps = self._plan, []
        at = self._start
        while at < len(plan.levels):
            before = self._writers[at - 1].target if at > self._start else None
            if at and before is None:
                before = open_array(self._location.child(plan.names[0]), read=True)
            steps.append((at, self._level_step(at, self._source_of(at, before))))
            at += len(steps[-1][1].targets)
        templates = [writer.target for writer in self._writers]
        return preview_levels(plan, self._location.text, templates, steps, self._left_out)

    def prepare(self) -> None:
        """Make room for all levels, or find out how far they are."""
        location = self._location
        if self._check():
            self._journal.resume()
            return
        check_reachable(self._workers, [location], [self._plan.source])
        for writer in self._writers[self._start :]:
            writer.clear()
        if self._overwrite:
            location.store.delete(location.path + JOURNAL)
        with self._group.created():
            self._journal.begin()

    def _check(self) -> bool:
        """Raise for what is in the way; return whether an unfinished pyramid is to be gone on with."""
        location = self._location
        self._journal.check_store()
        self._group.check()
        if self._resume and location.store.read(location.path + JOURNAL).value is not None:
            return True
        if not self._overwrite and begun_at(location) is not None:
            raise unfinished(location)
        for writer in self._writers[self._start :]:
            writer.check()
        return False

    def write(self, wanted: Callable[[], bool]) -> Pyramid | None:
        """Write the rest; return None if it was cancelled."""
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
        with TaskRunner(self._workers) as runner:
            while (number := len(arrays)) < len(plan.levels):
                if number < self._start:
                    arrays.append(open_array(self._location.child(plan.names[number]), read=True))
                    continue
                if self._journal.is_done(number):
                    arrays.append(self._writers[number].open())
                    self._writers[number].forget()
                    self._advance(number, self._writers[number].nbytes)
                    continue
                source = self._source_of(number, arrays[-1] if arrays else None)
                made = self._write_levels(runner, number, source, wanted)
                if not wanted():
                    return None
                arrays += made
            if self._verified and not self._verify(runner, arrays, wanted):
                return None
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
            WrittenLevels(arrays),
            tuple(level.factors for level in plan.levels),
            self._left_out,
        )

    def _write_levels(
        self, runner: TaskRunner, number: int, source: TensorStore, wanted: Callable[[], bool]
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
            runner.run(work, 0, journal.missing(), done, tick)
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

    def _verify(self, runner: TaskRunner, arrays: list[TensorStore], wanted: Callable[[], bool]) -> bool:
        """Compare each level with the one before, downsampled; return False if it isn't wanted any more."""
        steps = []
        for number in range(self._start, len(arrays)):
            source, target = self._source_of(number, arrays[number - 1] if number else None), arrays[number]
            source = source[align(source.domain, target.domain)]
            blocks = divide(target, source, self._block_nbytes)
            steps.append(CopyStep(source, target, blocks, "compare", None, item_nbytes(target), None, False))
        work = Work("compare", steps)
        for at, step in enumerate(steps):
            number = self._start + at

            def done(start: int, stop: int, result: StepResult, number: int = number) -> None:
                self._advance(number, result.nbytes)
                if not wanted():
                    work.stop.set()

            try:
                runner.run(work, at, [(0, step.blocks.n_blocks)], done, self._journal.beat)
            except DataCorruptionError as e:
                self._journal.restart()  # the levels below were made of it
                raise prefix(e, f"Level {self._plan.names[number]}") from None
            except AbortedError:
                if not wanted():
                    return False
                raise
        return wanted()

    def _source_of(self, number: int, before: TensorStore | None) -> TensorStore:
        """Return what a level is to hold, given the level before it."""
        if not number:
            return self._plan.source
        assert before is not None
        return downsample(self._before(before), self._plan.levels[number].step, self._plan.method)

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
        # A store of another library is an object; a journal can hold no more of it than its kind.
        described = json.dumps(store.strip().to_json(), default=lambda one: type(one).__name__)
        return [spec.driver, json.loads(described)]
    return [spec.driver, *(_stores(part) for part in spec.parts() if isinstance(part, DriverSpec))]


def _plain_name(location: Location) -> str:
    name = location.name
    for suffix in (".zarr", ".n5", ".ome"):
        name = name.removesuffix(suffix)
    return name or "image"
