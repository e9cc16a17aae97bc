"""Creation of an array in a group: choosing its metadata, and writing everything in a safe order.

Defaults are chunks of about a megabyte; ``zstd:3`` in Zarr v3; Blosc in Zarr v2, long the default of
zarr-python; ``gzip`` in N5, which every N5 reader has.  The metadata document is written last, so nothing
looks like an array before it is one.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise.copying.array_template import ArrayTemplate, data_type
from chunkwise.copying.compressor import parse_compressor
from chunkwise.copying.new_array import NewArray
from chunkwise.copying.target import target_spec
from chunkwise.core.api.open import open as open_spec
from chunkwise.core.api.tensorstore import TensorStore
from chunkwise.core.driver.tree_formats import tree_format
from chunkwise.core.dtypes.as_array import as_array
from chunkwise.core.dtypes.data_type import DataType, DTypeLike
from chunkwise.core.specs.codec_spec import CodecSpec
from chunkwise.core.specs.schema import Schema
from chunkwise.core.specs.unit import Unit
from chunkwise.core.trees.attribute_value import NonFinite, attributes_to_json
from chunkwise.core.trees.location import Location
from chunkwise.core.trees.new_location import check_free, check_replaceable
from chunkwise.core.trees.replacement import replacing
from chunkwise.errors import InvalidArgumentError

__all__ = ["SCHEMA_OPTIONS", "auto_chunks", "new_array"]

SCHEMA_OPTIONS = ("rank", "domain", "chunk_layout", "schema", "context")
"""Options that `Group.create_array` passes on to `chunkwise.open`."""

_CODEC_MEMBERS = ("codecs", "compressor", "compression")
_TARGET_NBYTES = 1 << 20
_LARGEST_NBYTES = 1 << 24


def auto_chunks(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Return chunks of about 1 MB, more for large arrays, of similar extent in all dimensions."""
    if not shape:
        return ()
    nbytes = math.prod(max(n, 1) for n in shape) * itemsize
    # Arrays of terabytes get larger chunks, or there would be too many of them.
    target = min(_LARGEST_NBYTES, max(_TARGET_NBYTES, 1 << max(0, (nbytes >> 16).bit_length())))
    chunks = [max(n, 1) for n in shape]
    while math.prod(chunks) * itemsize > target * 1.5 and max(chunks) > 1:
        longest = max(range(len(chunks)), key=lambda d: chunks[d])
        n = chunks[longest]
        chunks[longest] = 1 << ((n - 1).bit_length() - 1)  # the next smaller power of two
    return tuple(chunks)


def new_array(
    location: Location,
    *,
    format: str,
    shape: Sequence[int] | None,
    dtype: DTypeLike | None,
    data: Any,
    chunks: Sequence[int] | str | None,
    shards: Sequence[int] | None,
    codec: Any,
    checksum: bool,
    fill_value: npt.ArrayLike | None,
    dimension_names: Sequence[str | None] | None,
    dimension_units: Sequence[Any] | None,
    attributes: Mapping[str, Any],
    metadata: Mapping[str, Any],
    schema_options: Mapping[str, Any],
    non_finite: NonFinite,
    overwrite: bool,
    look: Callable[[], None],
    make_parents: Callable[[bool], list[Location]],
) -> TensorStore:
    """Make an array at `location`; see `Group.create_array` for most parameters."""
    # `look` raises, before anything is changed, if there can't be an array here.  `make_parents` is told
    # whether it is an array of text; it makes the groups above and returns them.
    unknown = [name for name in schema_options if name not in SCHEMA_OPTIONS]
    if unknown:
        raise TypeError(f"create_array got an unexpected argument {unknown[0]!r}")
    template, rules = _template(shape, dtype, data, schema_options), tree_format(format)
    given: dict[str, Any] = {}
    if shards is not None:
        given["shards"] = tuple(shards)
    if isinstance(chunks, str) and chunks != "auto":
        raise InvalidArgumentError(f'chunks: expected sizes or "auto", not {chunks!r}')
    if chunks is not None and not isinstance(chunks, str):
        given["chunks"] = tuple(int(n) for n in chunks)
    schema = schema_options.get("schema")
    layout_given = schema_options.get("chunk_layout") is not None or (
        schema is not None and "chunk_layout" in schema.to_json()
    )
    if "chunks" not in given and not layout_given and "chunk_grid" not in metadata:
        outer = given.get("shards") or template.shape
        given["chunks"] = _auto(outer, template.dtype, exact="shards" in given)
    options = {name: value for name, value in schema_options.items() if value is not None}
    schema_codec = codec if isinstance(codec, CodecSpec) else None if schema is None else schema.codec
    if isinstance(codec, CodecSpec):
        options["codec"] = codec
    if rules.codecs.is_chain and "codecs" in metadata:
        given["codec"] = metadata["codecs"]
    elif codec is not None and not isinstance(codec, CodecSpec):
        given["codec"] = parse_compressor(codec) if isinstance(codec, str) else codec
    elif rules.codecs.is_chain and schema_codec is not None:
        given["codec"] = schema_codec.to_json().get("codecs", [])
    elif rules.codecs.new_compressor and schema_codec is None and "compression" not in metadata:
        given["codec"] = parse_compressor(rules.codecs.new_compressor)
    if checksum:
        if schema_codec is not None or any(name in metadata for name in _CODEC_MEMBERS):
            raise InvalidArgumentError(
                "checksum: the codecs are given by `metadata`, `schema` or a CodecSpec, which can say it"
            )
        given["checksum"] = True
    if fill_value is not None:
        given["fill_value"] = _fill_value(fill_value, template.dtype)
    if dimension_names is not None:
        given["names"] = tuple(dimension_names)
    if dimension_units is not None:
        given["units"] = tuple(None if unit is None else Unit(unit) for unit in dimension_units)
    for name in ("names", "units", "chunks", "shards"):
        if name in given and len(given[name]) != len(template.shape):
            raise InvalidArgumentError(
                f"{name}: {len(given[name])} values for an array of {len(template.shape)} dimensions"
            )
    values = attributes_to_json(attributes, non_finite)
    if rules.attributes_are_members:  # which the array is made with, and null is kept when asked for
        own_members = [n for n in values if n in rules.dimension_attributes or values[n] is None]
        metadata = {**{n: values.pop(n) for n in own_members}, **metadata}
    target = target_spec(template.replaced({**given, "attributes": values}), format, list(given))
    left_out = [note for note in target.notes if note.startswith("attribute ")]
    if left_out:
        raise InvalidArgumentError("; ".join(left_out))
    own = {**target.spec["metadata"], **metadata}
    spec: dict[str, Any] = {**target.spec, "metadata": own, "kvstore": location.kvstore()}
    is_null = rules.fill_value_can_be_null and fill_value is None
    if is_null and "fill_value" not in metadata and "filters" not in own:
        own["fill_value"] = None  # xarray treats any other value as missing
    if rules.codecs.is_chain:
        own["codecs"] = target.spec["metadata"][
            "codecs"
        ]  # the codecs of `metadata`, in shards if there are any
        if layout_given and "codecs" not in metadata:
            # The layout says whether there are shards around the codecs, and in which order elements lie.
            layout = {"read_chunk": {"shape": given["chunks"]}} if "chunks" in given else {}
            codec_spec = {"driver": "zarr3", "codecs": own.pop("codecs")}
            spec["schema"] = {"codec": codec_spec, "chunk_layout": layout}
    elif schema_codec is not None and "codec" not in given:
        for name in ("compressor", "compression"):
            own.pop(name, None)
    # Nothing may remain of an array that can't be made.
    open_spec({**spec, "open": True, "assume_metadata": True}, **options).result()
    look()
    text = template.dtype.name == "ustring"
    new = NewArray(format, spec, target.attributes, options, data)
    if not overwrite:
        check_free(location, format)
        return new.write_to(location, partial(make_parents, text))
    # Also where nothing is yet: somebody else may be making it at the same time.
    check_replaceable(location, format)
    with replacing(location) as staging:
        new.write_to(staging)
        make_parents(text)
    whole = {"driver": spec["driver"], "kvstore": spec["kvstore"], "open": True}
    return open_spec(whole, context=options.get("context")).result()


def _fill_value(value: npt.ArrayLike, dtype: DataType) -> npt.NDArray[Any]:
    """Return a fill value as an array without dimensions; raise unless the data type can hold it."""
    try:
        out = as_array(value, dtype).reshape(())
    except (ValueError, OverflowError, TypeError) as e:
        raise InvalidArgumentError(f"fill_value: {value!r} is no value of {dtype.name}: {e}") from None
    asked, kinds = np.asarray(value), "iufcb"
    if (asked.dtype.kind in kinds and not _holds(asked.item(), out[()], dtype)) or (
        dtype.kind == "bool" and asked.dtype.kind not in kinds  # for NumPy any text is true
    ):
        raise InvalidArgumentError(f"fill_value: {dtype.name} can't hold {value!r}")
    return out


def _holds(asked: complex, stored: Any, dtype: DataType) -> bool:
    """Return True if a number has kept its value, or for floating point, has been rounded."""
    if dtype.kind in ("bool", "int"):
        return int(stored) == asked
    if dtype.kind not in ("float", "complex"):
        return True
    found = complex(stored) if dtype.kind == "complex" else complex(float(stored))
    return cmath.isfinite(found) == cmath.isfinite(asked) and cmath.isnan(found) == cmath.isnan(asked)


def _auto(outer: Sequence[int], dtype: DataType, *, exact: bool) -> tuple[int, ...]:
    itemsize = max(1, dtype.memory_dtype.itemsize)
    if not exact:
        return auto_chunks(outer, itemsize)
    chunks = auto_chunks(outer, itemsize)
    # Inner chunks have to divide the shard.
    return tuple(
        max(n for n in range(1, chunk + 1) if size % n == 0)
        for size, chunk in zip(outer, chunks, strict=True)
    )


def _template(
    shape: Sequence[int] | None, dtype: DTypeLike | None, data: Any, schema_options: Mapping[str, Any]
) -> ArrayTemplate:
    """Return the template with nothing but shape and data type."""
    schema: Schema | None = schema_options.get("schema")
    domain = schema_options.get("domain")
    if domain is None and schema is not None:
        domain = schema.domain
    if shape is None and domain is not None:
        shape = domain.shape
    if dtype is None and schema is not None:
        dtype = schema.dtype
    if data is not None and not isinstance(data, TensorStore):
        data = np.asarray(data)
    if data is not None:
        shape = data.shape if shape is None else shape
        dtype = data.dtype if dtype is None else dtype
    if shape is None:
        raise InvalidArgumentError("an array needs a shape, or data")
    if dtype is None:
        raise InvalidArgumentError("an array needs a dtype, or data")
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    return ArrayTemplate(shape=tuple(int(n) for n in sizes), dtype=data_type(dtype))
