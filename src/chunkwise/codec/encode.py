"""Opened encoders: the codecs of a chain as one closure that takes an array of any strides."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from chunkwise.codec.decode import Stages
from chunkwise.codec.protocol import Buffer, Encode

__all__ = ["open_encoder"]


def open_encoder(stages: Stages) -> Encode:
    """Return an encoder for `stages`; what it returns is valid until it is called again."""
    # Uncompressed chunks of a C-contiguous array are returned as a view of that array.
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
