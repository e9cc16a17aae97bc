"""The codecs ``reshape`` and ``transpose``: the same elements in another shape, or in another order.

Specification
-------------
https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/reshape : each entry of ``shape`` is a
size, -1 for the rest (once), or a list of input dimensions to merge.

https://zarr-specs.readthedocs.io/en/latest/v3/codecs/transpose/ : dimension ``i`` of the encoded array
is dimension ``order[i]`` of the decoded one.

Names
-----
zarr3: ``reshape``, ``transpose``.  ``order: "F"`` of Zarr v2 becomes a ``transpose``.

Configuration
-------------
>>> Reshape.parse("zarr3", "reshape", {"shape": [[0, 1], -1, 3]}).to_json("zarr3")
{'shape': [[0, 1], -1, 3]}
>>> Transpose.parse("zarr3", "transpose", {"order": [2, 0, 1]}).to_json("zarr3")
{'order': [2, 0, 1]}

Compatibility ------------- The older constants ``"C"`` and ``"F"`` of ``transpose`` are read; once bound,
they are written as the explicit list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt

from chunkwise.core.base.binding import JSON, MISSING, Members, dump, expect_int, parse_array
from chunkwise.core.codec.protocol import ArrayToArray, ChunkSpec
from chunkwise.errors import InvalidArgumentError, SpecError, braced

__all__ = ["Reshape", "Transpose"]


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
            sizes[sizes.index(-1)] = prod(source) // known
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


def _parse_order(value: JSON) -> tuple[int, ...] | Literal["C", "F"]:
    if value in ("C", "F"):
        return value  # type: ignore[no-any-return]
    received = "member is missing" if value is MISSING else f"received: {dump(value)}"
    try:
        order = tuple(parse_array(value, lambda v: expect_int(v, 0, 31)))
        if sorted(order) != list(range(len(order))):
            raise SpecError(f"{braced(order)} is not a valid permutation")
    except InvalidArgumentError as e:
        raise SpecError(f'No matching value binder: {e}; Expected one of "C", "F", but {received}') from None
    return order


@dataclass(frozen=True)
class Transpose(ArrayToArray):
    """Array to array: a permutation of the dimensions."""

    # For each dimension of the encoded array, the dimension of the decoded one.
    order: tuple[int, ...] | Literal["C", "F"]

    name: ClassVar[str] = "transpose"
    decode_rate = encode_rate = 0.3

    @classmethod
    def parse(cls, format: str, name: str, configuration: Mapping[str, Any]) -> Self:
        members = Members(configuration)
        order = members.take("order", _parse_order)
        members.finish()
        return cls(order)

    def to_json(self, format: str) -> dict[str, Any]:
        return {"order": self.order if isinstance(self.order, str) else list(self.order)}

    def bind(self, item: ChunkSpec) -> Self:
        rank = len(item.shape)
        if self.order == "C":
            return replace(self, order=tuple(range(rank)))
        if self.order == "F":
            return replace(self, order=tuple(reversed(range(rank))))
        if len(self.order) != rank:
            order = braced(self.order)
            raise InvalidArgumentError(
                f"{order} is not a valid dimension permutation for a rank {rank} array"
            )
        return self

    def axes(self) -> tuple[int, ...]:
        """Return the permutation of a bound codec, as passed to `numpy.transpose` to encode."""
        assert not isinstance(self.order, str)
        return self.order

    def output(self, item: ChunkSpec) -> ChunkSpec:
        return item._replace(shape=tuple(item.shape[i] for i in self.axes()))

    def open_decoder(self, item: ChunkSpec) -> Callable[[npt.NDArray[Any]], npt.NDArray[Any]]:
        inverse = tuple(int(i) for i in np.argsort(self.axes()))
        return lambda array: array.transpose(inverse)

    def open_encoder(self, item: ChunkSpec) -> Callable[[npt.NDArray[Any]], npt.NDArray[Any]]:
        axes = self.axes()
        return lambda array: array.transpose(axes)
