"""Fields of a structured type, or the bytes of any, in the chunks of a Zarr v2 array."""

from __future__ import annotations

from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from chunkwise.codec.chain import prepare_chain
from chunkwise.codec.protocol import ChunkSpec, PreparedChain
from chunkwise.codec.zarr2 import parse_zarr2_codecs
from chunkwise.driver.chunked.record import Part
from chunkwise.driver.stored_array import RecordPart
from chunkwise.driver.zarr2.metadata import Zarr2Metadata

__all__ = ["fill_of_part", "record_chain", "record_part"]


class _Stored(Protocol):
    """Anything with the data type of stored elements."""

    @property
    def stored_dtype(self) -> np.dtype[Any] | None: ...


def fill_of_part(fill: npt.NDArray[Any] | None, stored: _Stored, part: Part) -> npt.NDArray[Any] | None:
    """Return the fill value of a part, of its inner shape, from that of the record; None if there is none."""
    if fill is None:
        return None
    if part.name is not None:
        return np.asarray(fill[part.name])
    return np.frombuffer(_raw(stored, fill).tobytes(), "V1")


def record_part(metadata: Zarr2Metadata, part: Part) -> RecordPart:
    """Return how the executor finds a part in decoded chunks of records."""
    fill = metadata.missing_value()
    if part.name is None:
        return RecordPart(_raw(metadata, fill), part.shape, lambda a: a[..., None].view("V1"))
    return RecordPart(fill, part.shape, lambda a: a[part.name])


def record_chain(metadata: Zarr2Metadata, part: Part) -> PreparedChain:
    """Return the codec chain that gives chunks of the records that a part is taken from."""
    if part.name is not None:
        fill = metadata.missing_value()
        return prepare_chain(metadata.codecs, ChunkSpec(metadata.chunks, fill.dtype, fill))
    fill = _raw(metadata, metadata.missing_value())
    document, item = metadata.document, ChunkSpec(metadata.chunks, fill.dtype, fill)
    compressor, filters = document["compressor"], document.get("filters")
    order: Literal["C", "F"] = "F" if metadata.order == "F" else "C"
    return prepare_chain(parse_zarr2_codecs(compressor, filters, fill.dtype, order, item), item)


def _raw(stored: _Stored, value: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return an element as the bytes that are stored for it."""
    raw = value.astype(stored.stored_dtype or value.dtype).tobytes()
    return np.frombuffer(raw, f"V{len(raw)}").reshape(())
