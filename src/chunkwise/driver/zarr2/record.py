"""Fields of a structured type, or the bytes of any, in the chunks of a Zarr v2 array."""

from __future__ import annotations

from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from chunkwise.codec.chain import prepare_chain
from chunkwise.codec.protocol import ChunkSpec, PreparedChain
from chunkwise.codec.zarr2 import parse_zarr2_codecs
from chunkwise.driver.chunked.record import Field
from chunkwise.driver.stored_array import StoredField
from chunkwise.driver.zarr2.metadata import Zarr2Metadata

__all__ = ["fill_of_field", "record_chain", "record_field"]


class _Stored(Protocol):
    """Anything with the data type of stored elements."""

    @property
    def stored_dtype(self) -> np.dtype[Any] | None: ...


def fill_of_field(fill: npt.NDArray[Any] | None, stored: _Stored, field: Field) -> npt.NDArray[Any] | None:
    """Return the fill value of a field, of its inner shape, from that of the record, if there is one."""
    if fill is None:
        return None
    if field.name is not None:
        return np.asarray(fill[field.name])
    return np.frombuffer(_raw(stored, fill).tobytes(), "V1")


def record_field(metadata: Zarr2Metadata, field: Field) -> StoredField:
    """Return the place of a field in decoded chunks of records."""
    fill = metadata.missing_value()
    if field.name is None:
        return StoredField(_raw(metadata, fill), field.shape, lambda a: a[..., None].view("V1"))
    return StoredField(fill, field.shape, lambda a: a[field.name])


def record_chain(metadata: Zarr2Metadata, field: Field) -> PreparedChain:
    """Return the codec chain that gives chunks of the records that a field is taken from."""
    if field.name is not None:
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
