"""``downsample_pyramid``: an image at several resolutions, each made of the one before.

1. The levels are planned: axes, factors, arrays (`chunkwise.pyramid.plan`).
2. The group is made, with a journal of the levels that are done.
3. One level after the other is written in blocks, from the array of the level before, downsampled; or several
   from one read of a block, where the memory allows that (`chunkwise.pyramid.level_step`).
4. The group gets its attributes, by which viewers know a pyramid; until then it is none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

from chunkwise.api.copy import BLOCK_NBYTES
from chunkwise.api.downsample import downsample
from chunkwise.api.tensorstore import TensorStore
from chunkwise.arguments import as_nbytes
from chunkwise.engine.blockwise import n_block_threads
from chunkwise.engine.future import Future, Promise
from chunkwise.errors import AbortedError, ChunkwiseError, InvalidArgumentError
from chunkwise.hierarchy.location import Location, LocationLike, locate
from chunkwise.hierarchy.node import JOURNAL, require_node
from chunkwise.index_space import align
from chunkwise.plan.blocks import Blocks
from chunkwise.processors import memory_limit
from chunkwise.pyramid.convention import find_convention
from chunkwise.pyramid.group import PyramidGroup
from chunkwise.pyramid.level_step import LevelStep, blocks_of_levels
from chunkwise.pyramid.level_writer import LevelWriter
from chunkwise.pyramid.plan import PyramidOptions, PyramidPlan, plan_pyramid
from chunkwise.spec.driver_spec import DriverSpec
from chunkwise.spec.unit import Unit
from chunkwise.thread import start_thread
from chunkwise.tools.executors import Workers, threads_here, workers_of
from chunkwise.tools.journal import Journal
from chunkwise.tools.new_array import open_array
from chunkwise.tools.work import Crew, Work

__all__ = ["Pyramid", "PyramidProgress", "downsample_pyramid"]

DEFAULT_MEMORY = 256 << 20


class PyramidProgress(NamedTuple):
    """How far a pyramid is.

    Attributes
    ----------
    level : int
        The one that is being written.
    n_levels : int
    nbytes_done, nbytes : int
        Of the elements of all levels that are to be written.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import chunkwise
    >>> path = tempfile.mkdtemp() + "/image.ome.zarr"
    >>> scan = chunkwise.array(np.zeros((64, 64), "u1"))
    >>> written = chunkwise.downsample_pyramid(scan, path, axes=["y", "x"], levels=1)
    >>> pyramid = written.result()
    >>> image = chunkwise.open_multiscale(path)
    >>> [level.shape for level in image.levels]
    [(64, 64), (32, 32)]
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

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import chunkwise
    >>> path = tempfile.mkdtemp() + "/image.ome.zarr"
    >>> scan = chunkwise.array(np.zeros((64, 64), "u1"))
    >>> written = chunkwise.downsample_pyramid(scan, path, axes=["y", "x"], levels=1)
    >>> pyramid = written.result()
    >>> image = chunkwise.open_multiscale(path)
    >>> [level.shape for level in image.levels]
    [(64, 64), (32, 32)]
    """

    convention: str
    path: str
    names: tuple[str, ...]
    levels: tuple[TensorStore, ...]
    factors: tuple[tuple[int, ...], ...]

    def __repr__(self) -> str:
        shapes = ", ".join(
            f"{name}: {'x'.join(map(str, level.shape))}"
            for name, level in zip(self.names, self.levels, strict=True)
        )
        return f"<{self.convention} pyramid at {self.path}: {shapes}>"


def downsample_pyramid(
    array: TensorStore | LocationLike,
    destination: LocationLike | None = None,
    *,
    convention: str | None = None,
    method: str | None = None,
    labels: bool = False,
    factors: Sequence[int] | Sequence[Sequence[int]] | None = None,
    levels: int | None = None,
    axes: Sequence[str] | None = None,
    units: Sequence[Unit | str | None] | None = None,
    chunks: Sequence[int] | None = None,
    shards: Sequence[int] | None = None,
    codec: Any = None,
    name: str | None = None,
    executor: Executor | Workers | None = None,
    memory: int | str | None = None,
    sync: bool = True,
    resume: bool = False,
    overwrite: bool = False,
    progress: Callable[[PyramidProgress], object] | None = None,
) -> Future[Pyramid]:
    """Write a multiscale pyramid of an image.

    Every level is made of the one before, which is read once; where the memory allows it several levels are
    made from one read.  Blocks of whole chunks are under way
    at a time, so memory doesn't grow with the image.  What was begun and not finished is no pyramid: the
    attributes of the group, by which viewers know one, are written last.

    Parameters
    ----------
    array : TensorStore or LocationLike
        The image: an open array, which may be a stack or another virtual one, or where one is stored.
    destination : LocationLike, optional
        The group that is to hold all levels.  By default `array`, which then must be a place, is the first
        level itself, and the others are written beside it: ``s0`` gets ``s1``, ``s2``, …
    convention : {"ome-ngff-0.5", "ome-ngff-0.4", "n5-viewer", "cosem"}, optional
        By default n5-viewer below ``*.n5`` and OME-NGFF 0.5 elsewhere, or what goes with the format of
        `array` if there is no `destination`.  OME-NGFF 0.5 is Zarr v3, 0.4 is Zarr v2, the others are N5.
    method : {"mean", "min", "max", "median", "mode", "stride"}, optional
        See `chunkwise.downsample`; by default the mean, of `labels` the mode.
    labels : bool
        Whether elements are labels, which must not be mixed.  OME-NGFF then has ``image-label`` metadata, and
        in a group called ``labels`` the pyramid is listed.
    factors : sequence of int, or of sequence of int, optional
        For each axis of the result, or that for each level.  By default 2 along axes of space, but not where
        voxels are at least twice as large as elsewhere.
    levels : int, optional
        How many there are to be beside full resolution; by default until one has no more elements
        than a chunk.
    axes : sequence of str, optional
        Names of the dimensions of `array`; by default its labels, or else x, y, z, c, t, from the dimension
        on whose elements lie next to each other.  Names ``t`` and ``time`` mean time, ``c`` and
        ``channel`` channels, others space.  The dimensions are put into the order of the convention: t, c,
        z, y, x in Zarr and x, y, z, c, t in N5.
    units : sequence of (Unit or str or None), optional
        Sizes of a voxel, by dimension of `array`, such as ``"4 nm"``; by default its dimension units.
    chunks, shards : sequence of int, optional
        For each axis of the result; by default the chunks of `array`, or else 64³, and no shards.
    codec : str or JSON, optional
        As on the command line, ``"zstd:3"``, or in the words of the format.  By default gzip in N5 and
        Zstandard in Zarr.
    name : str, optional
        Of the image; by default that of the group.
    executor : concurrent.futures.Executor, optional
        Who makes the blocks, as for `chunkwise.copy`.  By default threads of this process.
    memory : int or str, optional
        Bytes that a worker process may use, such as ``"2GB"``; one chunk for each task at least.  By default
        268 MB in this process, elsewhere a quarter of what a worker may have.
    sync : bool
        Whether each chunk is on the disk before it counts as written.
    resume : bool
        Go on with an unfinished pyramid, if there is one.
    overwrite : bool
        Delete arrays that are in the place of levels first.
    progress : callable, optional
        Called with a `PyramidProgress` after each block, one at a time; of levels that are made together
        `level` is the first.

    Returns
    -------
    Future of Pyramid
        If it is cancelled, no block is begun any more.

    Raises
    ------
    ValueError
        At once if the options don't fit the image or the convention, or there is something in the way.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import chunkwise
    >>> image = chunkwise.array(np.arange(64 * 96, dtype="uint16").reshape(64, 96))
    >>> path = tempfile.mkdtemp() + "/image.zarr"
    >>> made = chunkwise.downsample_pyramid(image, path, units=["1 um"] * 2, levels=2).result()
    >>> [level.shape for level in made.levels]
    [(64, 96), (32, 48), (16, 24)]
    """
    options = PyramidOptions(
        method=method or ("mode" if labels else "mean"),
        labels=labels,
        factors=factors,
        levels=levels,
        axes=axes,
        units=None if units is None else [Unit(u) if isinstance(u, str) else u for u in units],
        chunks=chunks,
        shards=shards,
        codec=codec,
    )
    if resume and overwrite:
        raise InvalidArgumentError(
            "resume goes on with an unfinished pyramid, overwrite starts again: choose one"
        )
    store, group, first, format = _places(array, destination)
    plan = plan_pyramid(store, find_convention(convention, format), options, first_name=first)
    if first is not None and plan.convention.format != format:
        raise InvalidArgumentError(
            f"convention {plan.convention.name} is {plan.convention.format}, but the array is {format}; "
            "give a destination to have it copied"
        )
    if executor is None:
        workers = replace(threads_here(n_block_threads()), memory=DEFAULT_MEMORY)
    else:
        workers = workers_of(executor)
    memory = as_nbytes(memory) if isinstance(memory, str) else memory
    writer = _PyramidWriter(
        plan,
        group,
        labels=labels,
        name=name,
        first=first,
        workers=workers,
        memory=memory,
        sync=sync,
        progress=progress,
    )
    writer.prepare(resume=resume, overwrite=overwrite)
    promise, future = Promise[Pyramid].new()

    def work() -> None:
        try:
            made = writer.write(lambda: not promise.done())
            if made is not None:
                promise.set_result(made)
        except BaseException as e:
            promise.set_exception(e)

    if not start_thread(work):
        work()
    return future


def _places(
    array: TensorStore | LocationLike, destination: LocationLike | None
) -> tuple[TensorStore, Location, str | None, str]:
    """Return array, group, name of the array if it is the first level, and the format that is wanted."""
    if isinstance(array, TensorStore):
        if destination is None:
            raise InvalidArgumentError("an open array needs a destination for its pyramid")
        store = array
    else:
        place = locate(array)
        store = open_array(place, read=True)
        if destination is None:
            group = place.parent
            if group is None:
                raise InvalidArgumentError(f"{place.text} is in no group; give a destination for its pyramid")
            return store, group, place.name, str(require_node(place).format)
    group = locate(destination)
    inside_n5 = any(part.endswith(".n5") for part in group.path.split("/"))
    return store, group, None, "n5" if inside_n5 else "zarr3"


class _PyramidWriter:
    def __init__(
        self,
        plan: PyramidPlan,
        location: Location,
        *,
        labels: bool,
        name: str | None,
        first: str | None,
        workers: Workers,
        memory: int | None,
        sync: bool,
        progress: Callable[[PyramidProgress], object] | None,
    ) -> None:
        self._plan, self._location, self._first = plan, location, first
        self._labels = labels
        self._group = PyramidGroup(location, plan.convention, name or _plain_name(location))
        self._progress = progress
        self._done = 0
        task = {
            "convention": plan.convention.name,
            "method": plan.method,
            "source": _stores(plan.source._array.spec()),
            "part": plan.source._transform.to_json(),
            "steps": [list(level.step) for level in plan.levels],
            "shape": list(plan.source.shape),
            "axes": [list(axis) for axis in plan.axes],
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
            )
            for number, (own, template) in enumerate(zip(plan.names, plan.templates, strict=True))
        ]
        self._journal = Journal(location, task, len(plan.levels), command="chunkwise pyramid --resume")
        self._start = 0 if first is None else 1
        self._nbytes = sum(writer.nbytes for writer in self._writers[self._start :])

    def prepare(self, *, resume: bool, overwrite: bool) -> None:
        """Make room for all levels, or find out how far they are."""
        location = self._location
        begun = location.store.read(location.path + JOURNAL).value is not None
        self._group.check()
        if begun and resume:
            self._journal.resume()
        else:
            if overwrite:
                self._journal.delete()
                self._group.clear()
            for writer in self._writers[self._start :]:
                writer.prepare(overwrite=overwrite)
            self._group.create()
            self._journal.begin()

    def write(self, wanted: Callable[[], bool]) -> Pyramid | None:
        """Write what isn't written yet; None if it isn't wanted any more."""
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
                if number < self._start or self._journal.is_done(number):
                    arrays.append(open_array(self._location.child(plan.names[number]), read=True))
                    if number >= self._start:
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
        """Return how a level is made, as it was begun or as suits the workers."""
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
        if nbytes and self._progress is not None:
            self._progress(PyramidProgress(level, len(self._writers), self._done, self._nbytes))


def _stores(spec: DriverSpec) -> Any:
    """Return which arrays a source is made of, as JSON; of arrays in memory only that they are."""
    store = spec.key_value_store
    if store is not None:
        return [spec.driver, store.strip().to_json()]
    return [spec.driver, *(_stores(part) for part in spec.parts() if isinstance(part, DriverSpec))]


def _plain_name(location: Location) -> str:
    name = location.name
    for suffix in (".zarr", ".n5", ".ome"):
        name = name.removesuffix(suffix)
    return name or "image"
