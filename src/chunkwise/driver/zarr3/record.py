"""Elements as the bytes that chunks of a Zarr v3 array store, and chunks of which single fields are read."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise.codec.chain import Chain, parse_codecs, prepare_chain
from chunkwise.codec.protocol import ChunkSpec
from chunkwise.driver.chunked.record import Field
from chunkwise.driver.zarr3.codec_constraints import split_chain
from chunkwise.errors import UnsupportedError

__all__ = ["raw_element", "record_chain"]

_RAW = ("bytes", "sharding_indexed")


def _byte_order(chain: list[dict[str, Any]]) -> str:
    """Return "<" or ">": how a codec chain, given as JSON, stores what has several bytes."""
    codec = split_chain(chain).array_to_bytes
    if codec is None:
        return "<"
    options = codec.get("configuration", {})
    if codec["name"] == "sharding_indexed":
        return _byte_order(options.get("codecs", []))
    return ">" if options.get("endian") == "big" else "<"


def raw_element(chain: list[dict[str, Any]], fill: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return an element as the bytes that are stored for it."""
    order: Any = _byte_order(chain)
    stored = fill.dtype
    if stored.names is not None and stored.fields is not None:
        stored = np.dtype([(name, stored.fields[name][0].newbyteorder(order)) for name in stored.names])
    elif stored.isbuiltin != 2:
        stored = stored.newbyteorder(order)
    raw = fill.astype(stored).tobytes()
    return np.frombuffer(raw, f"V{len(raw)}").reshape(())


def record_chain(chain: list[dict[str, Any]], item: ChunkSpec, field: Field) -> Chain:
    """Return the codec chain that gives chunks of the elements that a field is taken from."""
    if field.name is None:
        _check_raw(chain)
        raw = raw_element(chain, item.fill_value)
        item = ChunkSpec(item.shape, raw.dtype, raw)
    return prepare_chain(parse_codecs(chain), item)


def _check_raw(chain: list[dict[str, Any]]) -> None:
    split = split_chain(chain)
    for codec in [*split.array_to_array, *([] if split.array_to_bytes is None else [split.array_to_bytes])]:
        if codec["name"] not in (*_RAW, "transpose"):
            raise UnsupportedError(
                f'"open_as_void" needs elements that codec "{codec["name"]}" does not keep'
            )
    if split.array_to_bytes is not None and split.array_to_bytes["name"] == "sharding_indexed":
        _check_raw(split.array_to_bytes.get("configuration", {}).get("codecs", []))
