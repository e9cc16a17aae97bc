"""Creation of the array of an encoded variable: planned completely, then made, perhaps beside an old one."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import accumulate
from typing import Any

import numpy as np

from chunkwise import DataType, TensorStore
from chunkwise import open as open_spec
from chunkwise.copying.array_options import array_options, check_named, for_array, for_format
from chunkwise.copying.array_template import NAMES, ArrayTemplate
from chunkwise.copying.codec_option import Compressor, parse_compressor
from chunkwise.copying.made_array import generation_of
from chunkwise.copying.new_array import Target, create_array, open_array, target_spec
from chunkwise.errors import ChunkwiseError, InvalidArgumentError, OptionError, prefixed
from chunkwise.extension.inside import as_integer, as_items, hooks, parse_fill_value_zarr3
from chunkwise.extension.trees import (
    Location,
    Node,
    Replacement,
    delete_own,
    tree_format,
    update_consolidated,
)
from chunkwise.xarray.encode import ARRAY_LAYOUT, Encoded

__all__ = ["NewVariable", "plan_variable"]


class NewVariable:
    """An array that is made; nothing is changed before `view`."""

    def __init__(self, name: str, variable: Any, target: Target, *, is_replaced: bool) -> None:
        self.name = name
        self.variable = variable
        self.is_replaced = is_replaced
        self._target = target
        self._replacement: Replacement | None = None
        self._made: tuple[Location, bytes] | None = None  # with the generation of its document

    def view(self, at: Location, group: Node | None) -> TensorStore:
        """Make the array in a group, beside the one that it replaces."""
        location = at.child(self.name)
        if self.is_replaced:
            self._replacement = Replacement.begin(location)
            location = self._replacement.staging
        array = create_array(location.alone(), self._target, group=group)
        if not self.is_replaced:
            self._made = location, generation_of(array)
        return array if _is_apart(self.variable, array) else open_array(location)

    def commit(self) -> None:
        """Replace the old array."""
        if self._replacement is not None:
            self._replacement.commit()
            self._replacement = None

    def reopen(self, group: Location) -> TensorStore:
        """Return the array where it is now."""
        return open_array(group.child(self.name))

    def undo(self, gone: Location | None) -> None:
        """Delete what was made, unless it has already replaced the old array.

        Others have deleted the group `gone`, so that nothing may stay in it.
        """
        with suppress(ChunkwiseError):  # the store may have failed for good
            if self._replacement is not None:
                self._replacement.discard()
                return
            made = self._made
            if made is None and gone is not None:
                made = gone.child(self.name), b""
            if made is not None:
                location, generation = made
                delete_own(location, made=generation)
                update_consolidated(location.store, location.path)


def _is_apart(variable: Any, array: TensorStore) -> bool:
    """Return True if no two blocks of a variable meet in one chunk of an array."""
    sizes = array.chunk_layout.write_chunk.shape
    if variable.chunks is None:
        return True
    return sizes is not None and all(
        size and not any(end % size for end in accumulate(blocks[:-1]))
        for blocks, size in zip(variable.chunks, sizes, strict=True)
    )


def plan_variable(location: Location, name: str, encoded: Encoded, format: str, *, asked: bool) -> Target:
    """Return the plan of a variable's array; a layout that was not `asked` for is dropped if it doesn't
    fit."""
    with prefixed(f'Error creating variable "{name}"', Exception):
        variable = encoded.variable
        dtype = DataType(encoded.dtype)
        names, rules = tuple(str(dim) for dim in variable.dims), tree_format(format)
        attributes = {**hooks.find("label mark")(variable._data), **encoded.attributes_in(format)}
        if not rules.names_member:
            attributes[NAMES] = list(names)
        template = ArrayTemplate(shape=tuple(variable.shape), dtype=dtype, names=names)
        given = _asked(encoded, template, format) if asked else {}
        chunks, shards = _chunks(encoded, format, given, asked=asked)
        template = replace(
            template,
            chunks=chunks,
            shards=shards,
            codec=given.get("codec") if asked else _own_codec(encoded.layout.get("codec")),
            checksum=given.get("checksum", False),
            fill_value=_fill_value(encoded, dtype, format, asked=asked),
            names=names if rules.names_member else (),
            attributes=attributes,
        )
        own = ["attributes"] if rules.attributes_member else []  # NaN and infinities stay as they are
        target = target_spec(template, format, [*given, *own])
        for note in target.notes:
            warnings.warn(f'variable "{name}": {note}', stacklevel=5)
        if rules.fill_value_can_be_null and encoded.fill_value is None:
            # Any other fill value would mark missing values.
            target = replace(target, spec={**target.spec, "metadata": _with_null(target.spec["metadata"])})
        # Everything that can't be stored is refused here, before any change.
        open_spec(
            {**target.spec, "kvstore": location.kvstore(), "open": True, "assume_metadata": True}
        ).result()
        return target


def _with_null(metadata: dict[str, Any]) -> dict[str, Any]:
    return {**metadata, "fill_value": None}


def _fill_value(encoded: Encoded, dtype: DataType, format: str, *, asked: bool) -> Any:
    """Return the value of elements that are not stored."""
    element = encoded.element_type
    value, is_plain = encoded.layout.get("fill_value"), tree_format(format).fill_value_is_plain
    if value is not None and not is_plain:
        if asked:
            raise InvalidArgumentError(
                f'encoding "fill_value": {format} has none beside "_FillValue"; Zarr v3 (zarr3) has'
            )
        value = None  # that of Zarr v3, which it had where it came from
    if not tree_format(format).has_fill_value:
        return None
    if (
        isinstance(value, str) and element.kind not in "OUS"
    ):  # as JSON has it: "NaN", "Infinity", "0x7fc00000"
        try:
            return parse_fill_value_zarr3(value, dtype)
        except InvalidArgumentError as e:
            raise OptionError(f"fill_value: {e.message}") from None
    if value is not None:
        if not asked and not np.can_cast(np.asarray(value).dtype, element, "same_kind"):
            value = None  # that of another type, which it had where it came from
        else:
            try:
                return _exactly(value, element)
            except (TypeError, ValueError) as e:
                why = (
                    e.message
                    if isinstance(e, ChunkwiseError)
                    else f"{value!r} is not a value of {element}: {e}"
                )
                raise OptionError(f"fill_value: {why}") from None
    if encoded.fill_value is not None:
        return _exactly(encoded.fill_value, element)
    if element.kind in "fc" and is_plain:
        return np.asarray(np.nan if element.kind == "f" else 0, element)
    return None


def _exactly(value: Any, element: np.dtype[Any]) -> Any:
    """Return a fill value in the type of the elements, rounded if that is one of floating-point numbers."""
    with np.errstate(all="ignore"):
        given = np.asarray(value)
        typed = given.astype(element) if given.dtype != element else given
    if given.dtype.kind in "biufc" and element.kind in "biu" and not (typed == given).all():
        limits = "" if element.kind == "b" else f", {np.iinfo(element).min} to {np.iinfo(element).max}"
        raise InvalidArgumentError(f"fill value {value} is not of type {element}{limits}")
    if given.dtype.kind in "biuf" and element.kind == "f" and np.isfinite(given) != np.isfinite(typed):
        raise InvalidArgumentError(f"the fill value {value} is beyond {element}, {np.finfo(element).max}")
    if element.kind in "US" and typed.tolist() != given.tolist():
        raise InvalidArgumentError(f"the fill value {value!r} is longer than {element}")
    return typed.reshape(())


def _asked(encoded: Encoded, template: ArrayTemplate, format: str) -> dict[str, Any]:
    """Return the fields of a template that an encoding asks for."""
    options = {name: encoded.layout[name] for name in ARRAY_LAYOUT if name in encoded.layout}
    given = array_options(options)
    check_named(given, template.names, "the variable")
    if given.get("shards") is not None:
        given.setdefault("chunks", "auto")  # which divide them
    return for_array(for_format(given, format), template)


def _chunks(
    encoded: Encoded, format: str, given: dict[str, Any], *, asked: bool
) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None]:
    """Return chunks and shards: those asked for, dask's, those of the source, or None."""
    variable = encoded.variable
    if asked:
        chunks, shards = given.get("chunks"), given.get("shards")
        if chunks is not None or variable.chunks is None:
            return chunks, shards
        return tuple(max(1, *along) for along in variable.chunks), None
    chunks, shards = (_own_sizes(encoded.layout.get(name), variable.ndim) for name in ("chunks", "shards"))
    if not tree_format(format).has_shards:
        shards = None
    if variable.chunks is None or (chunks is not None and _aligned(variable.chunks, shards or chunks)):
        return chunks, shards
    return tuple(max(1, *along) for along in variable.chunks), None


def _own_sizes(value: Any, rank: int) -> tuple[int, ...] | None:
    """Return sizes that a variable came with; None for those of an array of other dimensions."""
    items = as_items(value) or ()
    sizes = tuple(n for n in map(as_integer, items) if n is not None and n > 0)
    return sizes if items and len(sizes) == len(items) == rank else None


def _aligned(blocks: Sequence[Sequence[int]], chunks: Sequence[int]) -> bool:
    return all(n % size == 0 for along, size in zip(blocks, chunks, strict=True) for n in along[:-1])


def _own_codec(value: Any) -> Any:
    """Return the compressor that a variable came with, if it is one of any format."""
    if isinstance(value, str):
        return parse_compressor(value)
    return value if isinstance(value, Compressor) else None
