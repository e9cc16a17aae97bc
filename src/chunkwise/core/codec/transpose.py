"""The ``transpose`` codec: permutes the dimensions of a chunk.

Specification
-------------
https://zarr-specs.readthedocs.io/en/latest/v3/codecs/transpose/ : dimension ``i`` of the encoded array
is dimension ``order[i]`` of the decoded one.

Names
-----
zarr3: ``transpose``.  ``order: "F"`` of Zarr v2 becomes this codec.

Configuration
-------------
>>> Transpose.parse("zarr3", "transpose", {"order": [2, 0, 1]}).to_json("zarr3")
{'order': [2, 0, 1]}

Compatibility
-------------
The older constants ``"C"`` and ``"F"`` are read; once bound, they are written as the explicit list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt

from chunkwise.core.base.binding import JSON, MISSING, Members, dump, expect_int, parse_array
from chunkwise.core.codec.protocol import ArrayToArray, ChunkSpec
from chunkwise.errors import InvalidArgumentError, SpecError, braced

__all__ = ["Transpose"]


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
