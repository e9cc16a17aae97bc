"""Arrays of objects in Zarr v2: ``json2`` and ``msgpack2``, one list each, and ``pickle``, which is refused.

Decoding a pickle runs any code that its author put in.  Others can write chunks in storage, so pickles are
neither read nor written; the error says how to convert such an array.

Specification
-------------
https://numcodecs.readthedocs.io/en/stable/other/json.html and ``msgpacks.html``: the (nested) list of
values, to which the data type and the shape of the chunk are appended.

Names
-----
zarr2: ``json2``, ``msgpack2``, ``pickle``.

Configuration
-------------
The options of Python's `json`, with the defaults of NumCodecs.

>>> Json2.parse("zarr2", "json2", {}).to_json("zarr2")["sort_keys"]
True
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
import numpy.typing as npt

from chunkwise.core.base.binding import (
    JSON,
    Members,
    dump,
    expect_array,
    expect_bool,
    expect_int,
    expect_string,
)
from chunkwise.core.base.extras import needs
from chunkwise.core.codec.protocol import ArrayToBytes, Buffer, ChunkSpec, DecodeInto, Encode
from chunkwise.errors import CodecError, DataCorruptionError, SpecError, UnsupportedError

__all__ = ["Json2", "MsgPack2", "Pickle"]


def _decode_items(name: str, items: JSON, item: ChunkSpec, out: npt.NDArray[Any]) -> None:
    """Fill `out` from ``[*values, dtype, shape]``."""
    if not isinstance(items, list) or len(items) < 2 or not isinstance(items[-1], list):
        raise DataCorruptionError(f'"{name}" codec: chunk is not a list that ends in a data type and a shape')
    values, shape = items[:-2], items[-1]
    size = 1
    for n in item.shape:
        size *= n
    # Writers that flatten the chunk first store the shape (size,).
    if shape == list(item.shape):
        depth = len(shape)
    elif shape == [size]:
        depth = 1
    else:
        raise DataCorruptionError(f'"{name}" codec: chunk has shape {shape}, but expected {list(item.shape)}')
    for _ in range(depth - 1):
        if not all(isinstance(v, list) for v in values):
            raise DataCorruptionError(f'"{name}" codec: chunk is not nested as deep as its shape {shape}')
        values = [v for part in values for v in part]
    if len(values) != size:
        raise DataCorruptionError(f'"{name}" codec: chunk holds {len(values)} values, but expected {size}')
    flat = np.empty(size, object)
    for i, value in enumerate(values):
        flat[i] = value
    flat = flat.reshape(item.shape)
    try:
        np.copyto(out, flat, casting="unsafe")
    except (TypeError, ValueError, OverflowError) as e:
        raise DataCorruptionError(f'"{name}" codec: {e}') from e
    if out.dtype.kind in "biuU" and np.any(out.astype(object) != flat):
        raise DataCorruptionError(f'"{name}" codec: chunk holds a value that {out.dtype} can\'t')


def _encode_items(array: npt.NDArray[Any]) -> list[Any]:
    values = array.tolist() if array.ndim else [array.item()]
    return [*values, "|O" if array.dtype.hasobject else array.dtype.str, list(array.shape)]


def _parse_separators(value: JSON) -> tuple[str, str] | None:
    if value is None:
        return None
    first, second = (expect_string(v) for v in expect_array(value, 2))
    return first, second


def _parse_indent(value: JSON) -> int | None:
    return None if value is None else expect_int(value, 0, 100)


def _parse_encoding(value: JSON) -> str:
    text = expect_string(value)
    try:
        "".encode(text)
    except (LookupError, ValueError):
        raise SpecError(f"Expected text encoding, but received: {dump(text)}") from None
    return text


def _options(
    codec: type[Any], configuration: Mapping[str, Any], parsers: Mapping[str, Callable[[Any], Any]]
) -> dict[str, Any]:
    """Return the fields of `codec`, each by its parser, flags by default."""
    members = Members(configuration)
    found = {f.name: members.take(f.name, parsers.get(f.name, expect_bool), f.default) for f in fields(codec)}
    members.finish()
    return found


@dataclass(frozen=True)
class Json2(ArrayToBytes):
    """Array to bytes: JSON; the options are those of `json`."""

    encoding: str = "utf-8"
    skipkeys: bool = False
    ensure_ascii: bool = True
    check_circular: bool = True
    allow_nan: bool = True
    sort_keys: bool = True
    indent: int | None = None
    separators: tuple[str, str] | None = (",", ":")
    strict: bool = True

    name: ClassVar[str] = "json2"
    object_dtype: ClassVar[str] = "json"
    # The nested list is in the order of the indices, whatever the ``order`` of the array.
    keeps_logical_order: ClassVar[bool] = True

    @classmethod
    def parse(cls, format: str, name: str, configuration: Mapping[str, Any]) -> Self:
        parsers = {"encoding": _parse_encoding, "indent": _parse_indent, "separators": _parse_separators}
        return cls(**_options(cls, configuration, parsers))

    def to_json(self, format: str) -> dict[str, Any]:
        return {**asdict(self), "separators": None if self.separators is None else list(self.separators)}

    def open_decoder(self, item: ChunkSpec) -> DecodeInto:
        def decode(encoded: Buffer, out: npt.NDArray[Any]) -> None:
            try:
                items = json.loads(bytes(encoded).decode(self.encoding), strict=self.strict)
            except (ValueError, RecursionError) as e:
                raise DataCorruptionError(f'"json2" codec: {e}') from e
            _decode_items("json2", items, item, out)

        return decode

    def open_encoder(self, item: ChunkSpec) -> Encode:
        options = {key: value for key, value in vars(self).items() if key not in ("encoding", "strict")}

        def encode(array: npt.NDArray[Any]) -> Buffer:
            try:
                return json.dumps(_encode_items(array), **options).encode(self.encoding)
            except (TypeError, ValueError, RecursionError) as e:
                raise CodecError(f'"json2" codec: {e}') from e

        return encode


def _msgpack() -> Any:
    try:
        import msgpack  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError:
        raise UnsupportedError(needs('"msgpack2" codec', "msgpack")) from None
    return msgpack


@dataclass(frozen=True)
class MsgPack2(ArrayToBytes):
    """Array to bytes: MessagePack; needs the package ``msgpack``."""

    use_single_float: bool = False
    use_bin_type: bool = True
    raw: bool = False

    name: ClassVar[str] = "msgpack2"
    object_dtype: ClassVar[str] = "json"
    keeps_logical_order: ClassVar[bool] = True

    @classmethod
    def parse(cls, format: str, name: str, configuration: Mapping[str, Any]) -> Self:
        return cls(**_options(cls, configuration, {}))

    def to_json(self, format: str) -> dict[str, Any]:
        return asdict(self)

    def bind(self, item: ChunkSpec) -> Self:
        _msgpack()
        return self

    def open_decoder(self, item: ChunkSpec) -> DecodeInto:
        unpack: Callable[..., Any] = _msgpack().unpackb

        def decode(encoded: Buffer, out: npt.NDArray[Any]) -> None:
            try:
                items = unpack(bytes(encoded), raw=self.raw, strict_map_key=False)
            except (TypeError, ValueError) as e:  # a TypeError for keys without a hash; some have no text
                raise DataCorruptionError(f'"msgpack2" codec: {str(e) or type(e).__name__}') from e
            _decode_items("msgpack2", items, item, out)

        return decode

    def open_encoder(self, item: ChunkSpec) -> Encode:
        pack: Callable[..., bytes] = _msgpack().packb

        def encode(array: npt.NDArray[Any]) -> Buffer:
            try:
                return pack(
                    _encode_items(array),
                    use_bin_type=self.use_bin_type,
                    use_single_float=self.use_single_float,
                )
            except (TypeError, ValueError, OverflowError) as e:
                raise CodecError(f'"msgpack2" codec: {e}') from e

        return encode


class Pickle(ArrayToBytes):
    """Array to bytes, never parsed: decoding would execute stored code."""

    name: ClassVar[str] = "pickle"
    object_dtype: ClassVar[str] = "json"

    @classmethod
    def parse(cls, format: str, name: str, configuration: Mapping[str, Any]) -> NoReturn:
        raise UnsupportedError(
            '"pickle" codec is refused: decoding it would run code from the stored chunks. '
            'Convert the array to "vlen-utf8", "vlen-bytes" or "json2" with a program that trusts it.'
        )
