"""Fields of an array of records, by name: ``array["flux"]``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from chunkwise.core.arrays.base_array import Base, open_base
from chunkwise.core.base.binding import dump
from chunkwise.core.driver.chunked.record import FieldOptions
from chunkwise.core.index_space import IndexTransform, OutputIndexMap
from chunkwise.core.specs.open_mode import OpenMode
from chunkwise.core.specs.schema import Schema
from chunkwise.core.specs.spec import Spec
from chunkwise.errors import OutOfBoundsError, UnsupportedError

if TYPE_CHECKING:
    from chunkwise.core.arrays.protocol import OpenArray, WrapStore

__all__ = ["open_field"]


def open_field(
    array: OpenArray, transform: IndexTransform, name: str, wrap: WrapStore | None
) -> tuple[OpenArray, IndexTransform]:
    """Open a field of the records that a view has, with the view's transform.

    The field's own dimensions follow those of the view.
    """
    names = array.numpy_dtype().names or ()
    if name not in names:
        raise OutOfBoundsError(f"{dump(name)} is not a field: the fields are {dump(list(names))}")
    driver: Any = array.spec()
    options = getattr(driver, "options", None)
    if not isinstance(options, FieldOptions):
        raise UnsupportedError(
            f'the "{driver.driver}" driver opens whole records: array.read().result()[{dump(name)}]'
        )
    of_field = replace(
        driver, options=replace(options, field=name), mode=OpenMode(open=True), schema=Schema()
    )
    base = open_base(Spec._of(of_field, None), readable=array.readable, writable=array.writable, wrap=wrap)
    return base.array, _with_inner(transform, base)


def _with_inner(transform: IndexTransform, field: Base) -> IndexTransform:
    """Return `transform` with the dimensions of the field's elements behind its own."""
    inner = list(field.array.domain)[transform.output_rank :]
    if not inner:
        return transform
    rank, added = transform.input_rank, (None,) * len(inner)
    output = [m if m.index_array is None else _with_axes(m, added) for m in transform.output]
    output += [OutputIndexMap(input_dimension=rank + i) for i in range(len(inner))]
    return IndexTransform(domain=[*transform.domain, *inner], output=output)


def _with_axes(m: OutputIndexMap, added: tuple[None, ...]) -> OutputIndexMap:
    array: Any = m.index_array
    values: dict[str, Any] = {"offset": m.offset, "stride": m.stride, "index_range": m.index_range}
    return OutputIndexMap(index_array=array[(..., *added)], **values)
