"""The ``pickle`` filter of HDMF stores as a codec that runs no pickle."""

# Memo references make a value that is short to store and long to walk, so visits are counted
# against the size of the pickle, and nesting is limited.

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt

from chunkwise.core.codec.protocol import ChunkSpec, DecodeInto, Encode
from chunkwise.errors import CodecError, UnsupportedError
from chunkwise.extension import ArrayToBytes, Buffer
from chunkwise.hdmf.pickles.safe_pickle import (
    ArrayStub,
    DtypeStub,
    ReferenceStub,
    ScalarStub,
    UnsafePickleError,
    parse_pickle,
)

__all__ = ["SafePickle", "decode_pickled_array", "encode_pickled_array"]

_MAX_NESTING = 32
_MAX_ELEMENTS = 1 << 24
_TEXT = re.compile(r"[<>|=]?([biufSV])([0-9]{1,9})")

_Put: TypeAlias = Callable[[bytes], None]


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


# -- reading -----------------------------------------------------------------------------------------


def decode_pickled_array(data: bytes, shape: tuple[int, ...], members: tuple[str, ...] | None) -> list[Any]:
    """Return the elements of a pickled object array, in C order."""
    value, n_opcodes = parse_pickle(data)
    if not isinstance(value, ArrayStub) or value.state is None:
        raise UnsafePickleError("refused pickle: it is not an array")
    stored_shape, dtype, fortran, elements = value.state
    if not isinstance(elements, list):
        raise UnsafePickleError("refused pickle: its array does not hold objects")
    n = math.prod(stored_shape)
    if n != len(elements) or n > _MAX_ELEMENTS:
        raise UnsafePickleError(
            f"refused pickle: {len(elements)} elements for an array of shape {stored_shape}"
        )
    wanted = math.prod(shape)
    if n != wanted:
        raise UnsafePickleError(f"refused pickle: {n} elements, but expected {wanted} for shape {shape}")
    _check_dtype(dtype, members)
    if fortran and len(stored_shape) > 1:
        order = np.arange(n).reshape(stored_shape, order="F").reshape(-1)
        elements = [elements[i] for i in order.tolist()]
    return _Plain(4 * n_opcodes + 1000).convert(elements)


def _check_dtype(stub: DtypeStub, members: tuple[str, ...] | None) -> None:
    if members is None:
        if stub.text not in ("O8", "O4", "O", "|O"):
            raise UnsafePickleError(
                f"refused pickle: its array has data type {stub.text}, but expected objects"
            )
        return
    names = stub.state[3] if stub.state is not None else None
    if not isinstance(names, tuple) or names != members:
        raise UnsafePickleError(f"refused pickle: its records have members {names}, but expected {members}")


class _Plain:
    """Conversion with a budget of visited values."""

    def __init__(self, budget: int) -> None:
        self.budget = budget

    def convert(self, elements: Iterable[Any]) -> list[Any]:
        return [self.one(element, 0) for element in elements]

    def one(self, value: Any, depth: int) -> Any:
        self.budget -= 1
        if self.budget < 0 or depth > _MAX_NESTING:
            raise UnsafePickleError("refused pickle: its values are nested or repeated too often")
        if value is None or type(value) in (str, bytes, int, float, bool):
            return value
        if isinstance(value, list | tuple):
            return [self.one(item, depth + 1) for item in value]
        if isinstance(value, ReferenceStub):
            value = value.items
        if isinstance(value, dict):
            return {key: self.one(item, depth + 1) for key, item in value.items()}
        if isinstance(value, ScalarStub):
            return _scalar(value)
        raise UnsafePickleError(f"refused pickle: an element is a {type(value).__name__}")


def _scalar(stub: ScalarStub) -> Any:
    dtype = _plain_dtype(stub.dtype, 0)
    if dtype.itemsize != len(stub.raw) or dtype.itemsize == 0:
        raise UnsafePickleError(f"refused pickle: a scalar of {dtype} has {len(stub.raw)} bytes")
    return _listed(np.frombuffer(stub.raw, dtype)[0].item())


def _listed(value: Any) -> Any:
    return [_listed(item) for item in value] if isinstance(value, tuple) else value


def _plain_dtype(stub: Any, depth: int) -> np.dtype[Any]:
    """Return the type of a scalar: numbers, byte strings and records of them, nothing with pointers."""
    match = _TEXT.fullmatch(stub.text) if isinstance(stub, DtypeStub) and depth < 8 else None
    if match is None or int(match[2]) > 1 << 20:
        raise UnsafePickleError("refused pickle: a scalar is neither a number nor a record of numbers")
    kind, size = match[1], int(match[2])
    state = stub.state or (3, "<", None, None, None, -1, -1, 0)
    try:
        if kind != "V":
            order = state[1] if state[1] in ("<", ">") else "<"
            return np.dtype(f"{order}{kind}{size}")
        names, fields = state[3], state[4]
        if not isinstance(names, tuple) or not isinstance(fields, dict) or len(names) > 1000:
            raise TypeError("members are missing")
        offsets = [fields[name][1] for name in names]
        formats = [_plain_dtype(fields[name][0], depth + 1) for name in names]
        if not all(type(n) is int and n >= 0 for n in offsets):
            raise TypeError("an offset is no integer")
        return np.dtype({"names": list(names), "formats": formats, "offsets": offsets, "itemsize": size})
    except (TypeError, ValueError, KeyError, IndexError) as e:
        raise UnsafePickleError(f"refused pickle: data type of a scalar: {e}") from None


# -- writing -----------------------------------------------------------------------------------------


def encode_pickled_array(
    elements: Iterable[Any], shape: tuple[int, ...], record: np.dtype[Any] | None = None
) -> bytes:
    """Return the pickle (protocol 4) of an array with objects, as hdmf-zarr 0.13 reads it."""
    out = [b"\x80\x04"]
    put = out.append
    _global(put, "numpy.core.multiarray", "_reconstruct")
    _global(put, "numpy", "ndarray")
    put(b"K\x00\x85C\x01b\x87R")  # (ndarray, (0,), b"b"), reduced
    put(b"(K\x01")  # state: version, shape, type, whether in Fortran order, elements
    _value(put, shape)
    _value(put, np.dtype("O") if record is None else record)
    put(b"\x89](")
    for element in elements:
        _value(put, element)
    put(b"etb.")
    return b"".join(out)


def _value(put: _Put, value: Any) -> None:
    if value is None:
        put(b"N")
    elif isinstance(value, bool):
        put(b"\x88" if value else b"\x89")
    elif isinstance(value, int):
        _int(put, value)
    elif isinstance(value, float):
        put(b"G" + struct.pack(">d", value))
    elif isinstance(value, str):
        _text(put, value)
    elif isinstance(value, bytes):
        put(b"B" + len(value).to_bytes(4, "little") + value)
    elif isinstance(value, list | tuple):
        put(b"(")
        for item in value:
            _value(put, item)
        put(b"t")
    elif isinstance(value, np.dtype):
        _dtype(put, value)
    else:
        _global(put, "hdmf_zarr.utils", "ZarrReference")
        put(b")\x81(")
        _items(put, value)
        put(b"u")


def _items(put: _Put, items: Mapping[str, Any]) -> None:
    for key, value in items.items():
        _text(put, key)
        _value(put, value)


def _dtype(put: _Put, dtype: np.dtype[Any]) -> None:
    _global(put, "numpy", "dtype")
    reduced: Any = dtype.__reduce__()
    _, arguments, state = reduced
    _value(put, arguments)
    put(b"R(")
    for part in state:
        if isinstance(part, Mapping):  # the members: their types and offsets
            put(b"}(")
            _items(put, part)
            put(b"u")
        else:
            _value(put, part)
    put(b"tb")


def _text(put: _Put, value: str) -> None:
    raw = value.encode("utf-8", "surrogatepass")
    put(b"X" + len(raw).to_bytes(4, "little") + raw)


def _global(put: _Put, module: str, name: str) -> None:
    _text(put, module)
    _text(put, name)
    put(b"\x93")


def _int(put: _Put, value: int) -> None:
    if -1 << 31 <= value < 1 << 31:
        put(b"J" + value.to_bytes(4, "little", signed=True))
    else:
        put(b"\x8a\x09" + value.to_bytes(9, "little", signed=True))
