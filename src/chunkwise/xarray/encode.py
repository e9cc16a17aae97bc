"""Encoding of variables: first by xarray, then in a format's terms; values that a type can't hold are
refused.

Attributes of a variable as each format has them.

In N5 some names are members of the dataset's metadata.  CF's ``units`` is text, while that of N5 is a list
with the unit of each dimension, and other software refuses a dataset with anything else.  So attributes with
such names, and null attributes, which N5 software treats as missing, are stored as members of an object in
the attribute ``xarray``.

Attributes whose names begin with ``_nc`` are NCZarr's own (``_nczarr_attr``, ``_NCProperties``); datasets
don't show them, as in xarray's own engine.  The same goes for a kept fingerprint: it belongs to the elements
of one array, and would be wrong for values computed from them.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from chunkwise.copying.array_template import FINGERPRINT
from chunkwise.copying.codec_option import CODEC_PARTS
from chunkwise.errors import InvalidArgumentError, OptionError, prefix
from chunkwise.extension.inside import DATASET_MEMBERS, is_missing, load
from chunkwise.extension.trees import FILL_VALUE, NonFinite, marker_to_json, to_json_value, tree_format
from chunkwise.xarray.encoding_check import EncodingCheck

__all__ = [
    "LAYOUT",
    "PACKING",
    "Encoded",
    "check_storable",
    "encode_by_cf",
    "encode_variable",
    "hide_attributes",
    "in_memory",
    "restore_attributes",
    "with_check",
    "without_fingerprint",
    "without_nczarr",
]


_MEMBER = "xarray"
_TAKEN = (*DATASET_MEMBERS, "compressionType", "codecs", "n5", _MEMBER)


def without_nczarr(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes without those that NCZarr keeps for itself, such as ``_nczarr_array``."""
    return {name: value for name, value in attributes.items() if not name.lower().startswith("_nc")}


def without_fingerprint(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes without the fingerprint that a copy keeps."""
    return {name: value for name, value in attributes.items() if name != FINGERPRINT}


def hide_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes that N5 can hold: the others move into the attribute ``xarray``."""
    hidden = {name: value for name, value in attributes.items() if name in _TAKEN or value is None}
    shown = {name: value for name, value in attributes.items() if name not in hidden}
    return {**shown, _MEMBER: hidden} if hidden else shown


def restore_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes that `hide_attributes` was given; leave others unchanged."""
    hidden = attributes.get(_MEMBER)
    if not isinstance(hidden, Mapping) or not all(name in _TAKEN or v is None for name, v in hidden.items()):
        return dict(attributes)
    return {**{name: value for name, value in attributes.items() if name != _MEMBER}, **hidden}


ARRAY_LAYOUT = ("chunks", "shards", "codec", "checksum", *CODEC_PARTS)
"""Members of an encoding that are options of new arrays."""

LAYOUT = (*ARRAY_LAYOUT, "fill_value")
"""Members of an encoding that set how an array is stored; xarray handles those of CF."""

PACKING = ("scale_factor", "add_offset")
"""Members of an encoding that change the stored numbers."""

_CODED = (*PACKING, "dtype", "units", "calendar", FILL_VALUE, "missing_value", "_Unsigned")

# Members that xarray and its engines leave in an encoding, without use here.
_CODEC = 'instead of a compressor and filters write "codec": "zstd:5", "gzip:4" or "blosc:lz4:5:shuffle"'
_INSTEAD = {
    **dict.fromkeys(
        ("compression", "zlib", "complevel", "shuffle", "szip", "zstd", "blosc", "compression_opts"), _CODEC
    ),
    **dict.fromkeys(("chunksizes", "contiguous"), 'instead of "chunksizes" write "chunks"'),
}
"""Replacements for the members of zarr-python and netCDF4."""

_LEFT_OVER = ("dtype", "preferred_chunks", "source", "original_shape", "coordinates", "grid_mapping")


class Encoded(NamedTuple):
    """A variable in its stored form."""

    variable: Any  # with elements in their stored type, lazy if they were
    dtype: Any  # of the array; "ustring" for text of any length, "string" for bytes
    fill_value: Any  # marks missing values
    attributes: dict[str, Any]  # as JSON, without "_FillValue"
    layout: dict[str, Any]  # members of LAYOUT that were asked for, or that the variable came with

    @property
    def element_type(self) -> np.dtype[Any]:
        """The NumPy type of the elements."""
        return np.dtype(object) if isinstance(self.dtype, str) else np.dtype(self.dtype)

    def attributes_in(self, format: str) -> dict[str, Any]:
        """Return the attributes with the mark of missing values, in a format's form."""
        attributes = dict(self.attributes)
        if self.fill_value is not None and not tree_format(format).fill_value_is_marker:
            attributes[FILL_VALUE] = marker_to_json(self.fill_value, self.element_type, format)
        return attributes if tree_format(format).keeps_null else hide_attributes(attributes)


def check_storable(name: str, variable: Any) -> None:
    """Raise InvalidArgumentError for a variable of a MultiIndex, or of a data type of pandas' own."""
    dtype = variable.dtype
    if not isinstance(dtype, np.dtype) and dtype.name not in ("string", "str"):
        raise InvalidArgumentError(
            f'variable "{name}" is of pandas\' data type {dtype}, which has no stored form; convert it with '
            "astype() to one of NumPy's"
        )
    # A former level of an index has the same kind of data.
    is_index = type(variable).__name__ == "IndexVariable"
    if is_index and type(variable._data).__name__ == "PandasMultiIndexingAdapter":
        raise InvalidArgumentError(
            f'variable "{name}" is of a MultiIndex, which has no stored form; dataset.reset_index(...) makes '
            "variables of its levels"
        )


def encode_variable(
    xr: Any,
    name: str,
    variable: Any,
    format: str,
    *,
    encoding: Mapping[str, Any] | None = None,
    non_finite: NonFinite = "literal",
) -> Encoded:
    """Encode a variable by the CF conventions; `encoding` replaces its own."""
    variable = in_memory(variable.copy(deep=False), variable.encoding if encoding is None else encoding)
    if encoding is not None:
        variable.encoding = dict(encoding)
    try:
        np.dtype((encoding or {}).get("dtype"))
    except TypeError as e:  # xarray's own error doesn't name it
        raise OptionError(f'encoding of "{name}": dtype: {e}') from None
    layout = {key: variable.encoding.pop(key) for key in LAYOUT if key in variable.encoding}
    if variable.dtype == bool and tree_format(format).has_bool:
        variable.encoding.setdefault("dtype", "bool")
    encoded = encode_by_cf(xr, name, variable)
    if encoding is not None:
        # xarray leaves a member of CF that is None, such as `_FillValue`: there is to be none.
        none = [key for key in _CODED if encoded.encoding.get(key, 0) is None]
        unknown = [key for key in encoded.encoding if key not in (*_LEFT_OVER, *none)]
        if unknown:
            advice = dict.fromkeys(f"; {_INSTEAD[key]}" for key in unknown if key in _INSTEAD)
            raise InvalidArgumentError(
                f'encoding of "{name}": unknown member {", ".join(map(repr, unknown))}; those of CF and '
                f"{', '.join(LAYOUT)} are known{''.join(advice)}"
            )
    check = EncodingCheck(name, dict(encoded.attrs), "", is_added=False)
    encoded, dtype = _typed(name, encoded, format)
    encoded = with_check(variable, encoded, check)
    attributes = dict(encoded.attrs)
    fill_value = attributes.pop(FILL_VALUE, None)
    for key, value in attributes.items():
        attributes[key] = to_json_value(value, f'attribute "{key}" of variable "{name}"', non_finite)
    return Encoded(encoded, dtype, fill_value, attributes, layout)


def in_memory(variable: Any, encoding: Mapping[str, Any]) -> Any:
    """Read a lazy variable without dask if it will be encoded; return others unchanged."""
    # xarray reads it anyway, and its values are compared with the encoded ones.
    if variable.chunks is None and (variable.dtype.kind not in "iub" or set(encoding) & set(_CODED)):
        return variable.load()
    return variable


def encode_by_cf(xr: Any, name: str, variable: Any) -> Any:
    """Return a variable that xarray has encoded."""
    if variable.dtype.kind in "biu" and set(PACKING) & set(variable.encoding):
        encoding, variable = variable.encoding, variable.astype("f8")  # xarray divides in place
        variable.encoding = encoding
    if variable.dtype.kind == "O" and not isinstance(variable.dtype, np.dtype):  # of pandas; xarray 2025.6
        variable = variable.copy(deep=False, data=np.asarray(variable.data, object))
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):  # lost values are refused afterwards
            warnings.filterwarnings("ignore", "saving variable .* with floating point data as an integer")
            return xr.conventions.encode_cf_variable(variable, name=name)
    except OverflowError as e:  # of times, and of a `_FillValue`
        raise InvalidArgumentError(f'variable "{name}": {e}') from None
    except Exception as e:
        if variable.dtype.kind in "mM":  # beyond all calendars, for one
            raise InvalidArgumentError(f'variable "{name}" has times that can\'t be encoded: {e}') from None
        raise prefix(e, f'Error encoding variable "{name}"') from None


def with_check(given: Any, encoded: Any, check: EncodingCheck) -> Any:
    """Return an encoded variable whose values are checked: now, or by dask with each block."""
    if encoded._data is given._data:
        return encoded
    if given.chunks is None:
        check(given.values, encoded.values)
        return encoded
    checked = load("dask.array", "write_dataset").map_blocks(
        check,
        given.data,
        encoded.data,
        dtype=encoded.dtype,
        meta=np.empty((0,) * encoded.ndim, encoded.dtype),
    )
    return encoded.copy(deep=False, data=checked)


def _typed(name: str, variable: Any, format: str) -> tuple[Any, Any]:
    """Return the variable with storable elements, and their type."""
    dtype = variable.dtype
    if dtype.kind == "T" or (dtype.kind == "U" and not tree_format(format).has_fixed_text):
        variable = variable.astype(object)
        if not hasattr(dtype, "na_object"):
            return variable, "ustring"
    elif dtype.kind != "O":
        return variable, dtype.newbyteorder("=")
    mark = (dtype.metadata or {}).get("element_type") or _kind_of_objects(variable)
    if mark is str:
        return variable, "ustring"
    if mark is bytes:
        return variable, "string"
    missing = _n_missing_text(variable)
    if missing:
        raise InvalidArgumentError(
            f'variable "{name}" is text with {missing} missing elements, None or NaN, which no format can '
            f'hold: fill them first, as by dataset["{name}"].fillna("")'
        )
    raise InvalidArgumentError(f'variable "{name}" has elements that are neither numbers nor text')


def _n_missing_text(variable: Any) -> int:
    """Return the number of missing elements in a variable of text; 0 for any other."""
    values: npt.NDArray[Any] = np.asarray(variable.data)
    others = [value for value in values.flat if not isinstance(value, str)]
    return len(others) if all(map(is_missing, others)) else 0


def _kind_of_objects(variable: Any) -> type | None:
    values: npt.NDArray[Any] = np.asarray(variable.data)
    return next((kind for kind in (str, bytes) if all(isinstance(v, kind) for v in values.flat)), None)
