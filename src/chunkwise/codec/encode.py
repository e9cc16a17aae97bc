"""Opened encoders: the codecs of a chain as one closure that takes an array of any strides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise.codec.bytes import Bytes
from chunkwise.codec.decode import Stages
from chunkwise.codec.protocol import Buffer, Encode

__all__ = ["open_compressor", "open_encoder"]


def open_compressor(stages: Stages) -> tuple[np.dtype[Any], Callable[[Buffer], Buffer] | None] | None:
    """Return what is left to do with chunks that lie in memory as the chain's bytes codec has them.

    Returns
    -------
    (numpy.dtype, callable or None) or None
        The type of the elements, unsigned integers, and a function from their bytes to the encoded
        chunk, None where those are the same.  None if there is no such layout.
    """
    serializer = stages.serializer
    if stages.filters or type(serializer) is not Bytes or stages.sizes[0] == 0:
        return None
    layout = serializer.layout(stages.items[-1])
    if not layout.same or layout.mask not in (1, 255) or layout.memory.kind != "u":
        return None
    if not stages.compressors:
        return layout.memory, None
    if len(stages.compressors) > 1:
        return None
    return layout.memory, stages.compressors[0].open_encoder()


def open_encoder(stages: Stages) -> Encode:
    """Return an encoder for `stages`; what it returns is valid until it is called again.

    Uncompressed chunks of a C-contiguous array are returned as a view of that array.
    """
    filters = [c.open_encoder(item) for c, item in zip(stages.filters, stages.items, strict=False)]
    serialize = stages.serializer.open_encoder(stages.items[-1])
    compress = [c.open_encoder() for c in stages.compressors]
    shape = stages.items[0].shape

    def encode(array: npt.NDArray[Any]) -> Buffer:
        assert array.shape == shape, f"chunk has shape {array.shape}, not {shape}"
        for apply in filters:
            array = apply(array)
        encoded = serialize(array)
        for step in compress:
            encoded = step(encoded)
        return encoded

    if filters or len(compress) > 1:
        return encode
    if not compress:
        return serialize
    only = compress[0]
    return lambda array: only(serialize(array))
