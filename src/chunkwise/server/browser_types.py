"""Arrays in the data types that a format, or a browser, has."""

from __future__ import annotations

from collections.abc import Collection

from chunkwise.api.tensorstore import TensorStore
from chunkwise.api.views import cast
from chunkwise.driver.n5.members import ITEM_NBYTES
from chunkwise.errors import UnsupportedError

__all__ = ["for_browsers", "for_n5"]

_BROWSER_TYPES = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "float32")

_WIDER = {"bool": "uint8", "uint2": "uint8", "uint4": "uint8", "int2": "int8", "int4": "int8"}


def for_browsers(view: TensorStore) -> TensorStore:
    """Return the array in a data type that neuroglancer has; raise UnsupportedError if there is none.

    Floats become ``float32``, and ``int64`` becomes ``uint64``, of which negative numbers are the
    largest.
    """
    return _converted(view, _BROWSER_TYPES, "neuroglancer", {**_WIDER, "int64": "uint64"})


def for_n5(view: TensorStore) -> TensorStore:
    """Return the array in a data type that N5 has; raise UnsupportedError if there is none."""
    return _converted(view, (*ITEM_NBYTES, "ustring"), "N5", _WIDER)


def _converted(view: TensorStore, known: Collection[str], who: str, stand_ins: dict[str, str]) -> TensorStore:
    name = view.dtype.name
    if name in known:
        return view
    target = "float32" if name.startswith(("float", "bfloat")) else stand_ins.get(name)
    if target is None:
        fields = view.dtype.memory_dtype.names
        hint = f": serve a field, .fields/{fields[0]}" if fields else ""
        raise UnsupportedError(f'{who} has no data type for elements of type "{name}"{hint}')
    return cast(view, target)
