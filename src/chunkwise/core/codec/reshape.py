"""The ``reshape`` codec: the same elements in the same order, in another shape.

Specification
-------------
https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/reshape : each entry of ``shape`` is a
size, -1 for the rest (once), or a list of input dimensions to merge.

Names
-----
zarr3: ``reshape``.

Configuration
-------------
>>> Reshape.parse("zarr3", "reshape", {"shape": [[0, 1], -1, 3]}).to_json("zarr3")
{'shape': [[0, 1], -1, 3]}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any, ClassVar, Self

import numpy.typing as npt

from chunkwise.core.base.binding import JSON, Members, expect_int, parse_array
from chunkwise.core.codec.protocol import ArrayToArray, ChunkSpec
from chunkwise.errors import InvalidArgumentError, SpecError

__all__ = ["Reshape"]


def _parse_entry(value: JSON) -> int | tuple[int, ...]:
    if isinstance(value, list | tuple):
        return tuple(parse_array(value, lambda v: expect_int(v, 0, 31)))
    size = expect_int(value, -1)
    if size == 0:
        raise SpecError("Expected positive integer, -1 or array of dimensions, but received: 0")
    return size


def _parse_shape(value: JSON) -> tuple[int | tuple[int, ...], ...]:
    shape = tuple(parse_array(value, _parse_entry))
    if shape.count(-1) > 1:
        raise SpecError("Expected -1 at most once")
    dims = [d for entry in shape if isinstance(entry, tuple) for d in entry]
    if any(a >= b for a, b in pairwise(dims)):
        raise SpecError(f"Expected input dimensions in increasing order, but received: {dims}")
    return shape


@dataclass(frozen=True)
class Reshape(ArrayToArray):
    """Array to array: `shape` holds sizes, -1, or tuples of input dimensions."""

    shape: tuple[int | tuple[int, ...], ...]

    name: ClassVar[str] = "reshape"
    reshapes: ClassVar[bool] = True

    @classmethod
    def parse(cls, format: str, name: str, configuration: Mapping[str, Any]) -> Self:
        members = Members(configuration)
        shape = members.take("shape", _parse_shape)
        members.finish()
        return cls(shape)

    def to_json(self, format: str) -> dict[str, Any]:
        return {"shape": [list(entry) if isinstance(entry, tuple) else entry for entry in self.shape]}

    def bind(self, item: ChunkSpec) -> Self:
        self.output(item)
        return self

    def output(self, item: ChunkSpec) -> ChunkSpec:
        """Return the chunk in its encoded shape; raise if the sizes don't work out."""
        source, rank = item.shape, len(item.shape)
        sizes: list[int] = []
        for entry in self.shape:
            if isinstance(entry, tuple):
                if any(d >= rank for d in entry):
                    raise InvalidArgumentError(
                        f'"reshape" codec: input dimensions {list(entry)} are not all below the rank {rank}'
                    )
                sizes.append(prod(source[d] for d in entry))
            else:
                sizes.append(entry)
        if -1 in sizes:
            known = prod(size for size in sizes if size != -1)
            sizes[sizes.index(-1)] = prod(source) // known if known else 0
        if prod(sizes) != prod(source):
            raise InvalidArgumentError(
                f'"reshape" codec: a chunk of shape {list(source)} has {prod(source)} elements, '
                f"but the shape {sizes} has {prod(sizes)}"
            )
        for i, entry in enumerate(self.shape):
            if isinstance(entry, tuple) and entry:
                before, after = prod(source[: entry[0]]), prod(source[entry[-1] + 1 :])
                if prod(sizes[:i]) != before or prod(sizes[i + 1 :]) != after:
                    raise InvalidArgumentError(
                        f'"reshape" codec: dimension {i} of shape {sizes} does not lie where the '
                        f"input dimensions {list(entry)} of {list(source)} do"
                    )
        return item._replace(shape=tuple(sizes))

    def open_decoder(self, item: ChunkSpec) -> Callable[[npt.NDArray[Any]], npt.NDArray[Any]]:
        shape = item.shape
        return lambda array: array.reshape(shape)

    def open_encoder(self, item: ChunkSpec) -> Callable[[npt.NDArray[Any]], npt.NDArray[Any]]:
        shape = self.output(item).shape
        return lambda array: array.reshape(shape)
