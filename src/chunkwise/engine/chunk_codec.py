"""Decoders, encoders and scratch memory of one worker; the test for chunks of nothing but the fill value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise.cached import cached_property
from chunkwise.codec.chain import prepare_chain
from chunkwise.codec.protocol import DecodeInto, Encode, PreparedChain
from chunkwise.driver.stored_array import StoredField
from chunkwise.errors import TooLargeError

__all__ = ["Coder", "chain_for", "open_coders", "open_fill_test"]


class Coder:
    """Decoder, encoder and scratch memory for chunks of one shape, each made when it is first used."""

    # `order` is that of the plan, as storage dimensions.  `field` is what the plan selects of each element.

    def __init__(
        self, chain: PreparedChain, order: tuple[int, ...], field: StoredField | None = None
    ) -> None:
        self._chain = chain
        self._order = order
        self._field = field

    def again(self) -> Coder:
        """Return a coder for the same chunks, for another worker."""
        return Coder(self._chain, self._order, self._field)

    @cached_property
    def decode(self) -> DecodeInto:
        """Opened decoder of the chain."""
        return self._chain.open_decoder()

    @cached_property
    def encode(self) -> Encode:
        """Opened encoder of the chain."""
        return self._chain.open_encoder()

    @cached_property
    def scratch(self) -> npt.NDArray[Any]:
        """Memory for one decoded chunk."""
        item = self._chain.item
        try:
            return np.empty(item.shape, item.dtype)
        except (MemoryError, ValueError) as e:  # NumPy has limits of its own
            raise TooLargeError(
                f"a chunk of shape {list(item.shape)} and {item.nbytes} bytes does not fit into memory"
            ) from e

    @cached_property
    def ordered(self) -> npt.NDArray[Any]:
        """`scratch`, or the field of it, with its axes in the order of the plan."""
        chunk = self.scratch if self._field is None else self._field.select(self.scratch)
        return chunk.transpose(self._order)


def chain_for(chain: PreparedChain, shape: tuple[int, ...]) -> PreparedChain:
    """Return `chain` for chunks of another shape, as a rectilinear grid has them."""
    if shape == chain.item.shape:
        return chain
    return prepare_chain(chain.codecs, chain.item._replace(shape=shape))


def open_coders(
    chain: PreparedChain, order: tuple[int, ...], field: StoredField | None = None
) -> Callable[[tuple[int, ...]], Coder]:
    """Return a function that gives one worker's coder for a chunk shape, inner dimensions included."""
    opened: dict[tuple[int, ...], Coder] = {}
    n_inner = 0 if field is None else len(field.shape)

    def coder(shape: tuple[int, ...]) -> Coder:
        found = opened.get(shape)
        if found is None:
            found = opened[shape] = Coder(chain_for(chain, shape[: len(shape) - n_inner]), order, field)
        return found

    return coder


def open_fill_test(fill_value: npt.NDArray[Any]) -> Callable[[npt.NDArray[Any]], bool]:
    """Return a function that returns True for arrays in which every element is `fill_value`."""
    # The arrays have its dtype and any shape but no extent of 0.
    dtype = fill_value.dtype
    if dtype.hasobject:
        wanted = fill_value.item()
        return lambda array: all(type(x) is type(wanted) and x == wanted for x in array.flat)
    if dtype.itemsize in (1, 2, 4, 8) and dtype.names is None:
        bits = np.dtype(f"u{dtype.itemsize}")
        number = fill_value.view(bits)[()]

        def equal(array: npt.NDArray[Any]) -> bool:
            array = array.view(bits)
            # most chunks that have data have some at a corner
            if array[(0,) * array.ndim] != number or array[(-1,) * array.ndim] != number:
                return False
            return bool((array == number).all())

        return equal
    pattern = np.frombuffer(fill_value.tobytes(), np.uint8)

    def equal_bytes(array: npt.NDArray[Any]) -> bool:
        raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        return bool((raw.reshape(-1, len(pattern)) == pattern).all())

    return equal_bytes
