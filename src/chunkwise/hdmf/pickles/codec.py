"""The ``pickle`` filter of HDMF stores as a codec that runs no pickle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

import numpy as np
import numpy.typing as npt

from chunkwise.codec.protocol import ArrayToBytes, Buffer, ChunkSpec, DecodeInto, Encode
from chunkwise.errors import CodecError, UnsupportedError
from chunkwise.hdmf.pickles.values import decode_pickled_array, encode_pickled_array

__all__ = ["SafePickle"]


@dataclass(frozen=True)
class SafePickle(ArrayToBytes):
    """Array to bytes: references, and records with references or text; no pickle is executed."""

    record: np.dtype[Any] | None = None

    name: ClassVar[str] = "pickle"
    keeps_logical_order: ClassVar[bool] = True

    @classmethod
    def parse(cls, format: str, name: str, configuration: Mapping[str, Any]) -> NoReturn:
        raise UnsupportedError("the safe pickle codec is not made from metadata")

    def to_json(self, format: str) -> dict[str, Any]:
        return {"protocol": 4}

    def open_decoder(self, item: ChunkSpec) -> DecodeInto:
        members = None if self.record is None else self.record.names

        def decode(encoded: Buffer, out: npt.NDArray[Any]) -> None:
            elements = decode_pickled_array(bytes(encoded), item.shape, members)
            flat = np.empty(len(elements), object)
            for i, element in enumerate(elements):
                flat[i] = element
            out[...] = flat.reshape(item.shape)

        return decode

    def open_encoder(self, item: ChunkSpec) -> Encode:
        record = self.record
        # Chunks at the edge are filled up with the fill value, the number 0.
        missing: Any = {"source": ".", "path": "/"} if record is None else _zeros(record)

        def encode(array: npt.NDArray[Any]) -> Buffer:
            elements = [missing if e in (None, 0) else e for e in array.flat]
            expected = Mapping if record is None else list | tuple
            if not all(isinstance(e, expected) for e in elements):
                raise CodecError('"pickle" codec writes object references and records only')
            return encode_pickled_array(elements, item.shape, record)

        return encode


def _zeros(record: np.dtype[Any]) -> tuple[Any, ...]:
    assert record.fields is not None and record.names is not None
    members = (record.fields[name][0] for name in record.names)
    return tuple(0 if m.names is None else _zeros(m) for m in members)
