"""What `downsample_pyramid` gives back: the pyramid, and how far it is until then."""

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
        Of the elements of all levels that are to be written, and again of those that are to be compared.
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
