"""Results of `downsample_pyramid`: the pyramid, and its progress."""

from __future__ import annotations

from typing import NamedTuple

from chunkwise import TensorStore

__all__ = ["Pyramid", "PyramidProgress", "WrittenLevels"]


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
        Of the group.
    names : tuple of str
        Of the arrays in it.
    levels : tuple of TensorStore
        The arrays, the one of full resolution first.
    factors : tuple of tuple of int
        Of each level relative to the first.
    left_out : tuple of str
        Metadata of the source that the convention can't hold.
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
