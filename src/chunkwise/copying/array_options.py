"""Options of new arrays: each is read by one function, which knows its name and the forms that people write.

1. `array_options` takes arguments, before anything is opened; `for_format` adds what a format says of them.
2. `for_array` fits them to one array, whose shape, data type and names of dimensions are known.

Whatever doesn't fit is an `OptionError` that names the option: never a reason to leave an array out.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from chunkwise.copying.array_template import ArrayTemplate
from chunkwise.copying.codec_option import CODEC_PARTS, codec_in, codec_of_parts, read_codec
from chunkwise.core.api.held import check_shape
from chunkwise.core.base.arguments import as_integer, as_items, check_flag
from chunkwise.core.base.binding import dump
from chunkwise.core.base.extras import is_of
from chunkwise.core.base.public_names import warn_caller
from chunkwise.core.driver.tree_formats import tree_format
from chunkwise.core.dtypes.data_type import DataType
from chunkwise.core.dtypes.fill_value import exact_fill
from chunkwise.core.specs.unit import Unit
from chunkwise.core.trees.attributes import is_text
from chunkwise.errors import ChunkwiseError, OptionError

__all__ = [
    "FORMER_NAMES",
    "OPTIONS",
    "OTHER_NAMES",
    "Sizes",
    "Units",
    "array_options",
    "auto_chunks",
    "check_divisible",
    "check_named",
    "data_type",
    "each_size",
    "for_array",
    "for_format",
    "is_of_dask",
    "option_of",
    "read_names",
    "read_shape",
    "read_sizes",
    "read_units",
    "shard_sizes",
    "units_of_dimensions",
]

Size: TypeAlias = int | str | None
Sizes: TypeAlias = int | str | Sequence[Size] | Mapping[str, Size]
"""Sizes of chunks or shards: one for all dimensions, one for each, by name, or "auto".

-1 and None are a whole dimension.
"""

Units: TypeAlias = tuple[Unit | None, ...] | dict[str, Unit | None]
"""Units of dimensions in their order, or by name."""

_Read: TypeAlias = int | str | tuple[int | str, ...] | dict[str, int | str]

_AUTO = "auto"
_TARGET_NBYTES = 1 << 20  # of a chunk
_LARGEST_NBYTES = 1 << 24
_SHARD_NBYTES = 1 << 26
_SIZES = (
    'a size for each dimension, one for all (-1: the whole dimension), sizes by dimension name, or "auto"'
)


def array_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of a new array in one form; raise OptionError for invalid ones.

    ``None`` stands for an option that isn't given, but for ``shards``, where it means that there are none.
    """
    out: dict[str, Any] = {}
    parts: dict[str, Any] = {}
    for name, value in given.items():
        if name in FORMER_NAMES:
            warn_caller(f"the option {name} is called {FORMER_NAMES[name]} now", DeprecationWarning)
            name = FORMER_NAMES[name]
        if name in CODEC_PARTS:
            parts[name] = value
            continue
        if name not in OPTIONS:
            raise OptionError(f"options: expected some of {', '.join(OPTIONS)}, not {name!r}")
        if name in out:
            raise OptionError(f"{name}: given twice, by its present name and the former one")
        if value is not None or name == "shards":
            out[name] = None if value is None else OPTIONS[name](value, name)
    if parts and "codec" in out:
        raise OptionError(f"{next(iter(parts))}: given twice, as codec too")
    if parts and (codec := codec_of_parts(parts)) is not None:
        out["codec"] = read_codec(codec)
    return out


def for_format(options: Mapping[str, Any], format: str) -> dict[str, Any]:
    """Return options as a format has them; raise OptionError for those that it has in no array."""
    out = dict(options)
    if not tree_format(format).has_shards:
        if out.get("shards") is not None:
            raise OptionError(f"shards: {format} has no shards; Zarr v3 (zarr3) has")
        if "chunks" in out:
            out["shards"] = None  # of a source, which its chunks need not divide
    if "codec" in out:
        out["codec"] = codec_in(out["codec"], format)
    return out


def for_array(options: Mapping[str, Any], template: ArrayTemplate) -> dict[str, Any]:
    """Return options as fields of a template; raise OptionError for those that the array can't have.

    Sizes by name are left out if the array has none of the names.
    """
    out, rank = dict(options), len(template.shape)
    if "dimension_names" in out:
        out["names"] = _for_rank("dimension_names", out.pop("dimension_names"), rank)
    names, dtype = out.get("names", template.names), out.get("dtype", template.dtype)
    if "dimension_units" in out:
        units = units_of_dimensions(out.pop("dimension_units"), names, template.units or [None] * rank)
        out["units"] = _for_rank("dimension_units", units, rank)
    if "fill_value" in out:
        out["fill_value"] = exact_fill(out["fill_value"], dtype)
    itemsize = max(1, dtype.memory_dtype.itemsize)
    chunks = template.chunks
    if "chunks" in out:
        others = template.chunks or (None if template.format else [_AUTO] * rank)
        wanted = _by_dimension("chunks", out["chunks"], names, rank, others)
        if wanted is None:
            del out["chunks"]
        else:
            outer = out.get("shards", template.shards)
            out["chunks"] = chunks = _chunks(template.shape, wanted, itemsize, outer)
    if out.get("shards") is not None:
        # New shards are as large as the chunks along the other dimensions.
        wanted = _by_dimension("shards", out["shards"], names, rank, template.shards or chunks)
        if wanted is None:
            del out["shards"]
        else:
            out["shards"] = _shards(template.shape, wanted, chunks, itemsize)
    shards = out.get("shards", template.shards)
    if shards is not None and chunks is not None and {"chunks", "shards"} & out.keys():
        check_divisible(shards, chunks)
    return out


def option_of(field: str) -> str:
    """Return the option that sets a field of a template."""
    return FORMER_NAMES.get(field, field)


def check_named(options: Mapping[str, Any], names: Iterable[str | None], where: str) -> None:
    """Raise OptionError if something is given for a name that isn't in `names`, those of `where`."""
    known = sorted({name for name in names if name})
    for option in ("chunks", "shards", "dimension_units", "units"):
        values = options.get(option)
        for name in values if isinstance(values, Mapping) else ():
            if name not in known:
                there = f"there are {', '.join(map(dump, known))}" if known else "none has a name"
                raise OptionError(f"{option}: {where} has no dimension {dump(name)}; {there}")


# -- the values of each option -------------------------------------------------------------------------


def read_shape(value: Any) -> tuple[int, ...]:
    """Return a shape, which may be given as one integer."""
    items = as_items(value) if as_integer(value) is None else [value]
    sizes = [n for n in map(as_integer, items or ()) if n is not None and n >= 0]
    if items is None or len(sizes) < len(items):
        raise OptionError(f"shape: expected an integer from 0 for each dimension, or one, not {value!r}")
    return tuple(sizes)


def read_sizes(value: Any, option: str) -> _Read:
    """Return sizes of chunks or shards without None; True stands for "auto", False for whole dimensions."""
    if isinstance(value, bool | np.bool_):
        return _AUTO if value else -1
    if isinstance(value, str) and value == _AUTO:
        return _AUTO
    if isinstance(value, Mapping):
        _checked_names(value, option)
        return {name: _size(size, option, f" for {name!r}", value) for name, size in value.items()}
    if as_integer(value) is not None:
        return _size(value, option, "", value)
    items = as_items(value)
    if items is None:
        raise OptionError(f"{option}: expected {_SIZES}, not {value!r}")
    return tuple(_size(size, option, f" for dimension {at}", value) for at, size in enumerate(items))


def _checked_names(value: Mapping[Any, Any], option: str) -> Iterable[str]:
    for name in value:
        if not isinstance(name, str) or not name:
            raise OptionError(f"{option}: expected names of dimensions, not {name!r}")
    return value


def _size(size: Any, option: str, where: str, whole: Any) -> int | str:
    if size is None or (isinstance(size, str) and size == _AUTO):
        return -1 if size is None else _AUTO
    number = as_integer(size)
    if number is None or (number < 1 and number != -1):
        shown = f"{size!r}" if whole is size else f"{size!r} in {whole!r}"
        raise OptionError(
            f"{option}: expected a size of at least 1{where}, or -1 for the whole dimension, not {shown}"
        )
    return number


def data_type(dtype: Any) -> DataType:
    """Return a data type, also for names that only NumPy has, such as ``"<u2"`` or ``"f4"``."""
    of_h5py = getattr(dtype, "metadata", None) or {}
    text = of_h5py.get("vlen")  # h5py.string_dtype()
    if text in (str, bytes):
        return DataType("ustring" if text is str else "string")
    if "vlen" in of_h5py:
        raise OptionError(
            "dtype: lists of different lengths have none: write them one after the other, and where each ends"
        )
    if "ref" in of_h5py:
        raise OptionError('dtype: references have none: "ustring" is for the names of what they refer to')
    try:
        return DataType(dtype)
    except (ValueError, TypeError) as unknown:
        try:
            return DataType(np.dtype(dtype))
        except ChunkwiseError as e:
            raise OptionError(f"dtype: {e.message}") from None
        except (TypeError, ValueError):
            raise OptionError(f"dtype: {unknown}") from None


def _flag(value: Any, option: str) -> bool:
    check_flag(value, option)
    return bool(value)


def read_names(value: Any, option: str) -> tuple[str | None, ...]:
    """Return names of dimensions, of which text has one in each letter."""
    items = list(value) if isinstance(value, str) else as_items(value)  # one letter each
    if items is None or not all(name is None or isinstance(name, str) for name in items):
        raise OptionError(f"{option}: expected a name, or None, for each dimension, not {value!r}")
    for name in items:
        if name is not None and not is_text(name):
            raise OptionError(f"{option}: {name!r} has half a surrogate pair, which UTF-8 can't hold")
    return tuple(None if name is None else str.__str__(name) for name in items)


def read_units(value: Any, option: str) -> Units:
    """Return units of dimensions, in their order or by name."""
    items = list(value.values()) if isinstance(value, Mapping) else as_items(value)
    if items is None:
        raise OptionError(
            f'{option}: expected a unit such as "4 nm", or None, for each dimension, or units by dimension '
            f"name, not {value!r}"
        )
    units = tuple(None if item is None else _unit(item, option) for item in items)
    if not isinstance(value, Mapping):
        return units
    return dict(zip(_checked_names(value, option), units, strict=True))


def units_of_dimensions(
    units: Units, names: Sequence[str | None], before: Sequence[Unit | None]
) -> tuple[Unit | None, ...]:
    """Return the unit of each dimension; by name, those that aren't named keep the one `before`."""
    if not isinstance(units, Mapping):
        return tuple(units)
    named = names or [None] * len(before)
    return tuple(units.get(name, unit) if name else unit for name, unit in zip(named, before, strict=True))


def _unit(value: Any, option: str) -> Unit:
    try:
        if isinstance(value, bytes):
            raise TypeError
        unit = value if isinstance(value, Unit) else Unit(tuple(value) if isinstance(value, list) else value)
    except (TypeError, ValueError):
        raise OptionError(
            f'{option}: expected a unit such as "4 nm", a number or None, not {value!r}'
        ) from None
    if not math.isfinite(unit.multiplier) or not is_text(unit.base_unit):
        raise OptionError(f"{option}: expected a finite number of a unit, not {value!r}")
    return unit


def _is_false(value: Any) -> bool:
    return isinstance(value, bool | np.bool_) and not value


OPTIONS: Mapping[str, Callable[[Any, str], Any]] = {
    "chunks": read_sizes,
    "shards": lambda value, option: None if _is_false(value) else read_sizes(value, option),
    "codec": lambda value, _: read_codec(value),
    "checksum": _flag,
    "fill_value": lambda value, _: value,  # its data type says what it may be
    "dtype": lambda value, _: data_type(value),
    "dimension_names": read_names,
    "dimension_units": read_units,
}
"""Options of new arrays, each with the function that reads it."""

FORMER_NAMES = {"names": "dimension_names", "units": "dimension_units"}

OTHER_NAMES = (*FORMER_NAMES, *CODEC_PARTS)
"""Other names of options."""


# -- sizes of one array -----------------------------------------------------------------------------


def _for_rank(option: str, values: Sequence[Any], rank: int) -> tuple[Any, ...]:
    if len(values) != rank:
        raise OptionError(f"{option}: {len(values)} values for an array of {rank} dimensions: {list(values)}")
    return tuple(values)


def _by_dimension(
    option: str, sizes: _Read, names: Sequence[str | None], rank: int, before: Sequence[int | str] | None
) -> list[int | str] | None:
    """Return one size for each dimension; None if none of them has one of the names."""
    if isinstance(sizes, str | int):
        return [sizes] * rank
    if not isinstance(sizes, Mapping):
        if len(sizes) != rank:
            raise OptionError(
                f"{option}: expected one size for each of {rank} dimensions, or sizes by dimension name, "
                f"not {list(sizes)}"
            )
        return list(sizes)
    if not any(name in sizes for name in names):
        return None
    wanted = [sizes.get(name) if name else None for name in names]
    if before is None and None in wanted:
        others = [dump(name) for name, size in zip(names, wanted, strict=True) if size is None]
        raise OptionError(
            f"{option}: sizes are needed for {', '.join(others)} too, where the array has no single one"
        )
    old = before or [0] * rank
    return [o if size is None else size for size, o in zip(wanted, old, strict=True)]


def each_size(option: str, sizes: Any, shape: Sequence[int], usual: Sequence[int]) -> tuple[int, ...]:
    """Return a size for each dimension of an array without names; "auto" stands for the `usual` one."""
    wanted = _unnamed(option, read_sizes(sizes, option), len(shape))
    return tuple(
        chosen if n == _AUTO else max(1, whole) if n == -1 else int(n)
        for n, whole, chosen in zip(wanted, shape, usual, strict=True)
    )


def shard_sizes(
    shards: Any, shape: Sequence[int], chunks: Sequence[int], itemsize: int
) -> tuple[int, ...] | None:
    """Return the shards of an array without names; None if there are none."""
    given = array_options({"shards": shards})["shards"]
    if given is None:
        return None
    out = _shards(shape, _unnamed("shards", given, len(shape)), chunks, itemsize)
    check_divisible(out, chunks)
    return out


def _unnamed(option: str, sizes: _Read, rank: int) -> list[int | str]:
    wanted = _by_dimension(option, sizes, (), rank, None)
    if wanted is None:
        raise OptionError(f"{option}: the dimensions have no names here; give one size for each of {rank}")
    return wanted


def check_divisible(shards: Sequence[int], chunks: Sequence[int]) -> None:
    """Raise OptionError unless shards are whole chunks."""
    if len(shards) != len(chunks) or any(map(operator.mod, shards, chunks)):
        raise OptionError(f"shards of {list(shards)} can't be divided into chunks of {list(chunks)}")


def _chunks(shape: Sequence[int], wanted: Sequence[int | str], itemsize: int, shards: Any) -> tuple[int, ...]:
    """Return sizes of chunks; those that are chosen divide the sizes of `shards` that are known."""
    fixed = {at: max(1, shape[at]) if n == -1 else n for at, n in enumerate(wanted) if isinstance(n, int)}
    each = list(shards) if isinstance(shards, tuple) else [shards] * len(shape)
    outer = {at: n for at, n in enumerate(each) if isinstance(n, int) and n > 0 and at < len(shape)}
    found = auto_chunks([outer.get(at, n) for at, n in enumerate(shape)], itemsize, fixed)
    return tuple(
        n if at in fixed or at not in outer else max(m for m in range(1, n + 1) if outer[at] % m == 0)
        for at, n in enumerate(found)
    )


def _shards(
    shape: Sequence[int], wanted: Sequence[int | str], chunks: Sequence[int] | None, itemsize: int
) -> tuple[int, ...]:
    if chunks is None:
        if not all(isinstance(n, int) and n > 0 for n in wanted):
            raise OptionError("shards: the array has no single chunk shape of which they could be multiples")
        return tuple(n for n in wanted if isinstance(n, int))
    whole = [-(-max(1, size) // chunk) * chunk for size, chunk in zip(shape, chunks, strict=True)]
    out = [whole[at] if n == -1 else n if isinstance(n, int) else chunks[at] for at, n in enumerate(wanted)]
    free = [at for at, n in enumerate(wanted) if n == _AUTO]
    while free and math.prod(out) * itemsize * 2 <= _SHARD_NBYTES:
        at = min(free, key=lambda d: out[d] / whole[d])
        if out[at] >= whole[at]:
            break
        out[at] = min(2 * out[at], whole[at])
    return tuple(out)


def auto_chunks(
    shape: Sequence[int], itemsize: int, fixed: Mapping[int, int] | None = None
) -> tuple[int, ...]:
    """Return chunks of about 1 MB, more for large arrays, of similar extent in all dimensions not `fixed`."""
    chunks, fixed = [max(n, 1) for n in shape], fixed or {}
    nbytes = math.prod(chunks) * itemsize
    # Arrays of terabytes get larger chunks, or there would be too many of them.
    target = min(_LARGEST_NBYTES, max(_TARGET_NBYTES, 1 << max(0, (nbytes >> 16).bit_length())))
    for at, n in fixed.items():
        chunks[at] = n
    free = [at for at in range(len(chunks)) if at not in fixed]
    while free and math.prod(chunks) * itemsize > target * 1.5:
        longest = max(free, key=lambda d: chunks[d])
        n = chunks[longest]
        if n == 1:
            break
        chunks[longest] = 1 << ((n - 1).bit_length() - 1)  # the next smaller power of two
    return tuple(chunks)


def is_of_dask(data: Any) -> bool:
    """Return True for an array of dask, which is computed in blocks; raise if its shape is not known."""
    if not is_of(data, "dask") or not hasattr(data, "store"):
        return False
    check_shape(data)
    return True
