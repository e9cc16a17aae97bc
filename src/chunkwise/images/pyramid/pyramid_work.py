"""``PyramidWork``: the copy that writes a planned pyramid, whatever its levels are stored as."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from typing import ClassVar, NamedTuple

from chunkwise import TensorStore
from chunkwise.copying.planned_copy import PlannedCopy
from chunkwise.copying.tasks import Chain
from chunkwise.copying.work import TaskRunner
from chunkwise.errors import AbortedError
from chunkwise.images.pyramid.plan import PyramidPlan
from chunkwise.images.pyramid.preview import PyramidPreview, Reads, preview_levels

__all__ = ["Pyramid", "PyramidProgress", "PyramidWork"]


class WrittenLevels(tuple[TensorStore, ...]):
    """The arrays of a pyramid, shown by their shapes and data types."""

    __slots__ = ()

    def __repr__(self) -> str:
        shown = [f"TensorStore {level.shape} {level.dtype.name}" for level in self]
        return f"({', '.join(shown)}{',' * (len(shown) == 1)})"


class PyramidProgress(NamedTuple):
    """Progress of a pyramid.

    Attributes
    ----------
    level : int
        The one that is being written.
    n_levels : int
    nbytes_done, nbytes : int
        Bytes of all levels to write, plus those to compare.
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
        Path of the group.
    names : tuple of str
        Names of the arrays in it.
    levels : tuple of TensorStore
        The arrays, the one of full resolution first.
    factors : tuple of tuple of int
        Factors of each level relative to the first.
    left_out : tuple of str
        Metadata of the source that the convention can't hold.
    assumed : tuple of str
        Properties that the source lacks and are assumed, such as the names of its axes.
    """

    convention: str
    path: str
    names: tuple[str, ...]
    levels: tuple[TensorStore, ...]
    factors: tuple[tuple[int, ...], ...]
    left_out: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()

    def __repr__(self) -> str:
        shapes = ", ".join(
            f"{name}: {'x'.join(map(str, level.shape))}"
            for name, level in zip(self.names, self.levels, strict=True)
        )
        return f"<{self.convention} pyramid at {self.path}: {shapes}>"


class PyramidWork(PlannedCopy):
    """A copy whose larger arrays are levels, each made of the one before; see `begin` and `write`."""

    command: ClassVar[str] = "chunkwise pyramid --resume"
    convention: str
    level_names: tuple[str, ...]
    left_out: tuple[str, ...]
    _pyramid: PyramidPlan

    wanted: Callable[[], bool] = staticmethod(lambda: True)
    """Whether anyone waits for it still."""

    @abstractmethod
    def _check(self) -> None:
        """Raise AlreadyExistsError if something is in the way that can't be replaced."""

    @abstractmethod
    def _reads(self) -> tuple[list[TensorStore], list[Reads]]:
        """Return the arrays of all levels, and the reads of which they are made."""

    @abstractmethod
    def _open_levels(self) -> Iterable[TensorStore]:
        """Open the levels that have been written."""

    @property
    def nbytes_to_do(self) -> int:
        """Bytes to write, and to compare."""
        return self.nbytes * (2 if self._how.verify else 1)

    def preview(self) -> PyramidPreview:
        """Return a preview; write nothing, and raise what `begin` would raise."""
        if self._begun is None or not self._how.resume:
            self._check()
        levels, passes = preview_levels(self._pyramid, self.level_names, *self._reads())
        assumed = list(self._pyramid.assumed)
        return PyramidPreview(self.convention, self._at, levels, passes, list(self.left_out), assumed)

    def write(
        self, progress: Callable[[PyramidProgress], object], advance: Callable[[int], object]
    ) -> Pyramid:
        """Write the rest; raise AbortedError if it isn't wanted any more."""
        pyramid, done = self._pyramid, 0

        def told(path: str, nbytes: int) -> None:
            nonlocal done
            if nbytes:
                done += nbytes
                advance(nbytes)
                level, n = pyramid.names.index(path), len(pyramid.names)
                progress(PyramidProgress(level, n, done, self.nbytes_to_do))
            self._check_wanted()

        if self.plan.large:
            self.tell_start(partial(told, next(iter(self.plan.large)), self.nbytes_done))
        self.run(told, told)
        return Pyramid(
            self.convention,
            self._at,
            self.level_names,
            WrittenLevels(self._open_levels()),
            tuple(level.factors for level in pyramid.levels),
            self.left_out,
            pyramid.assumed,
        )

    @property
    def _at(self) -> str:
        """Location of the pyramid, for people."""
        return self._destination.location.text if self.archive is None else self.archive.location.text

    def _chains(self, runner: TaskRunner) -> Iterator[Chain]:
        yield chain.from_iterable(super()._chains(runner))  # each level is made of the one before

    def _tick(self) -> None:
        super()._tick()
        self._check_wanted()

    def _check_wanted(self) -> None:
        if not self.wanted():
            raise AbortedError("the pyramid isn't wanted any more")
