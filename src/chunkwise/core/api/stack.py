"""``overlay``, ``stack`` and ``concat``: several arrays as one."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from chunkwise.core.api.held import HeldArray, held_array
from chunkwise.core.api.open import is_place, other_images
from chunkwise.core.api.open import open as open_place
from chunkwise.core.api.tensorstore import TensorStore
from chunkwise.core.api.transaction import Transaction, check_transaction, wrap_of
from chunkwise.core.arrays.base_array import Base
from chunkwise.core.arrays.resources import pool_under
from chunkwise.core.arrays.stack import StackArray
from chunkwise.core.arrays.stack_layer import Layer, StackLayers
from chunkwise.core.base.arguments import as_flag, as_text, is_text
from chunkwise.core.base.binding import JSON
from chunkwise.core.base.public_names import options_of
from chunkwise.core.driver.stack import StackSpec, check_options
from chunkwise.core.driver.stack_layers import combine_layers, final_domain
from chunkwise.core.dtypes.as_array import as_array
from chunkwise.core.dtypes.data_type import DataType, DTypeLike
from chunkwise.core.engine.future import Future
from chunkwise.core.index_space import IndexDomain, IndexTransform, d, newaxis
from chunkwise.core.index_space.dim import find_dimension
from chunkwise.core.specs.context import Context, as_context
from chunkwise.core.specs.schema import Schema
from chunkwise.core.specs.spec import Spec
from chunkwise.core.specs.unit import Unit
from chunkwise.errors import ChunkwiseError, InvalidArgumentError, OutOfBoundsError, as_value_error, prefixed

__all__ = ["check_only_image", "concat", "overlay", "stack"]

AnyLayer: TypeAlias = "TensorStore | Spec"
LayerLike: TypeAlias = "TensorStore | Spec | str | os.PathLike[str] | Mapping[str, JSON] | HeldArray"


def overlay(
    layers: Iterable[LayerLike],
    *,
    read: bool | None = None,
    write: bool | None = None,
    context: Context | None = None,
    transaction: Transaction | None = None,
    rank: int | None = None,
    dtype: DTypeLike | None = None,
    domain: IndexDomain | None = None,
    shape: Iterable[int] | None = None,
    dimension_units: Iterable[Unit | str | float | tuple[float, str] | None] | None = None,
    schema: Schema | None = None,
    fill_value: npt.ArrayLike | None = None,
) -> TensorStore:
    """Return one array from several in the same index space; later ones hide earlier ones.

    Parameters
    ----------
    layers : iterable of TensorStore, Spec, str, path-like or JSON
        A Spec must have a domain; each read and write that needs it opens it.  A path, a URL or the JSON of a
        spec is opened now, as by `chunkwise.open`.
    read, write : bool, optional
        Requested access; by default everything that any layer allows.
    context : Context, optional
        Source of resources for specs.
    transaction : Transaction, optional
        Transaction of reads and writes; by default the layers' transaction.
    rank, dtype, domain, shape, dimension_units, schema
        Constraints on the stack; a domain extends or crops it.
    fill_value : array_like, optional
        Value of elements without a layer, which are an error by default.  TensorStore has no such option.

    Returns
    -------
    TensorStore
        Its domain is the hull of the layers' domains, unless a constraint says otherwise.

    Raises
    ------
    ValueError
        If layers don't agree in rank, data type, labels or transaction; the text names the layer.

    Examples
    --------
    >>> import chunkwise
    >>> bottom, top = chunkwise.array([1, 2, 3, 4]), chunkwise.array([7, 8])
    >>> chunkwise.overlay([bottom, top.translate_to[1]]).read().result()
    array([1, 7, 8, 4])
    """
    options: dict[str, Any] = {
        "rank": rank,
        "dtype": dtype,
        "domain": domain,
        "shape": shape,
        "dimension_units": dimension_units,
        "schema": schema,
    }
    return _overlay(_opened(layers, context), read, write, context, transaction, options, fill_value)


@options_of(overlay)
def stack(layers: Iterable[LayerLike], axis: int = 0, **options: Any) -> TensorStore:
    """Return one array from several, joined along a new dimension.

    Parameters
    ----------
    layers : iterable of TensorStore, Spec, str, path-like or JSON
        At least one.
    axis : int
        Position of the new dimension in the result; negative counts from the end.
    **options
        Those of `overlay`.

    Returns
    -------
    TensorStore
        It has one more dimension than the layers; the size of that is the number of layers.

    Raises
    ------
    ValueError
        If `axis` is out of range, or layers don't agree, as for `overlay`.

    Examples
    --------
    >>> import chunkwise
    >>> chunkwise.stack([chunkwise.array([1, 2]), chunkwise.array([3, 4])], axis=1).read().result()
    array([[1, 3],
           [2, 4]])
    """
    given = _some(_opened(layers, options.get("context")), "stack")
    rank = _domain(given[0]).rank + 1
    if not -rank <= axis < rank:
        raise InvalidArgumentError(f"Dimension index {axis} is outside valid range [{-rank}, {rank})")
    axis %= rank
    moved = [layer[d[axis][newaxis]][d[axis][i : i + 1]] for i, layer in enumerate(given)]
    return overlay(moved, **options)


@options_of(overlay)
def concat(layers: Iterable[LayerLike], axis: int | str, **options: Any) -> TensorStore:
    """Return one array from several, joined along an existing dimension.

    Parameters
    ----------
    layers : iterable of TensorStore, Spec, str, path-like or JSON
        At least one; the first keeps its position.
    axis : int or str
        The dimension, by number or label; a negative number counts from the end.
    **options
        Those of `overlay`.

    Returns
    -------
    TensorStore
        Its size along `axis` is the sum of the layers' sizes.

    Raises
    ------
    ValueError
        If there is no such dimension, or layers don't agree, as for `overlay`.

    Examples
    --------
    >>> import chunkwise
    >>> chunkwise.concat([chunkwise.array([1, 2]), chunkwise.array([3, 4])], axis=0).read().result()
    array([1, 2, 3, 4])
    """
    given = _some(_opened(layers, options.get("context")), "concat")
    domains = [_domain(layer) for layer in given]
    labels = [next(filter(None, same), "") for same in zip(*(one.labels for one in domains), strict=True)]
    dim = _dimension(axis, labels)
    at = domains[0].exclusive_max[dim]
    moved = [given[0]]
    for layer, own in zip(given[1:], domains[1:], strict=True):
        moved.append(layer[d[dim].translate_to[at]])
        at += own.exclusive_max[dim] - own.inclusive_min[dim]
    return overlay(moved, **options)


def _opened(layers: Iterable[LayerLike], context: Context | None) -> list[AnyLayer]:
    """Return the layers, opening those given as paths, URLs or JSON; raise TypeError for a single one."""
    if isinstance(layers, TensorStore | str | os.PathLike | Mapping):
        what = "array" if isinstance(layers, TensorStore) else "place"
        raise TypeError(f"layers: expected several layers, such as a list, but received one {what}")
    layers = list(layers)
    pending: list[Any] = [
        open_place(layer, context=context) if is_place(layer) else _as_array(layer) for layer in layers
    ]
    found: list[AnyLayer] = []
    for i, (layer, given) in enumerate(zip(pending, layers, strict=True)):
        with prefixed(f"Layer {i}", ChunkwiseError):
            found.append(layer.result() if isinstance(layer, Future) else layer)
            if isinstance(given, str | os.PathLike):
                check_only_image(layer.result(), os.fspath(given))
    return found


def check_only_image(store: TensorStore, place: str) -> None:
    """Raise InvalidArgumentError if an array is the first of several images in the file at `place`."""
    others = [] if "|" in place else other_images(store._array.spec().key_value_store)
    if others:
        raise InvalidArgumentError(
            f"{place} holds {len(others) + 1} images; name one of them: {place}|tiff-images:0, "
            f"{place}|tiff-images:{others[0]}/0{', …' if len(others) > 1 else ''}"
        )


def _as_array(layer: Any) -> Any:
    held = None if isinstance(layer, TensorStore | Spec) else held_array(layer)
    return layer if held is None else held


def _dimension(axis: int | str, labels: Sequence[str]) -> int:
    try:
        return find_dimension(as_text(axis, "axis") if is_text(axis) else axis, labels)
    except OutOfBoundsError as e:
        raise as_value_error(e) from None


def _domain(layer: AnyLayer) -> IndexDomain:
    domain = layer.domain
    assert domain is not None
    return domain


def _some(layers: list[AnyLayer], name: str) -> list[AnyLayer]:
    _check_types(layers)
    if not layers:
        raise InvalidArgumentError(f"At least one layer must be specified for {name}")
    _check_agreement(layers, None)
    return layers


def _check_agreement(layers: list[AnyLayer], dtype: DataType | None) -> None:
    """Raise unless all layers have a domain of the same rank and the same data type."""
    for i, layer in enumerate(layers):
        if layer.domain is None:
            raise InvalidArgumentError(f"Layer {i}: Domain must be specified")
        own = layer.dtype
        if own is not None and dtype is not None and own is not dtype:
            raise InvalidArgumentError(
                f"Layer {i}: Layer dtype of {own.name} does not match existing dtype of {dtype.name}"
            )
        if layer.rank != layers[0].rank:
            raise InvalidArgumentError(
                f"Layer {i}: Layer domain {layer.domain} of rank {layer.rank} "
                f"does not match layer 0 rank of {layers[0].rank}"
            )
        dtype = dtype or own


def _check_types(layers: Sequence[Any]) -> None:
    for layer in layers:
        if not isinstance(layer, TensorStore | Spec):
            raise TypeError(
                "a layer must be a TensorStore, an array, a Spec, a path or the JSON of a spec, "
                f"not {type(layer).__name__}"
            )


def _overlay(
    layers: list[AnyLayer],
    read: bool | None,
    write: bool | None,
    context: Context | None,
    transaction: Transaction | None,
    options: dict[str, Any],
    fill_value: npt.ArrayLike | None,
) -> TensorStore:
    _check_types(layers)
    check_transaction(transaction)
    read, write = as_flag(read, "read"), as_flag(write, "write")
    schema = check_options(Schema(**options))
    _check_agreement(layers, schema.dtype)
    if layers and schema.rank not in (None, layers[0].rank):
        raise InvalidArgumentError(
            f"Rank specified by rank ({layers[0].rank}) does not match "
            f"existing rank specified by schema ({schema.rank})"
        )
    common = combine_layers(((layer.dtype, layer.domain) for layer in layers), schema.dtype, schema.rank)
    domain = final_domain(schema.domain, common.domain)
    if schema.dtype is None:
        schema._set_dtype(common.dtype)
    if schema.rank is None:
        schema._set_rank(domain.rank)
    layers, shared = _in_transaction(layers, transaction)
    fill = None if fill_value is None else _fill_value(fill_value, common.dtype)
    unbound = StackSpec(schema=schema, layers=(), common=common, fill_value=fill)
    spec = unbound.bind(context := as_context(context))
    wrap = None if shared is None else wrap_of(shared)
    found: list[Layer] = []
    readable = writable = not layers
    for layer in layers:
        own = _domain(layer)
        if isinstance(layer, TensorStore):
            found.append(Layer(Base(layer._array, layer._transform), own))
            readable, writable = readable or layer.readable, writable or layer.writable
        else:
            found.append(Layer(Spec._of(layer._driver.bind(context), layer._transform), own))
            readable = writable = True
    if (read and not readable) or (write and not writable):
        raise InvalidArgumentError(f"{'Read' if read and not readable else 'Write'} mode not supported")
    array = StackArray(
        StackLayers(found, wrap),
        domain,
        spec,
        pool_under(spec),
        readable=readable and (read or not write),
        writable=writable and (write or not read),
    )
    return TensorStore._make(array, IndexTransform.identity(domain), shared)


def _fill_value(value: npt.ArrayLike, dtype: DataType) -> npt.NDArray[Any]:
    given, fill_value = np.asarray(value), as_array(value, dtype, 0)
    if given.dtype.kind in "biufc" and not np.array_equal(
        fill_value.astype(given.dtype), given, equal_nan=True
    ):
        raise InvalidArgumentError(f"fill_value: {value!r} is no {dtype.name}")
    return fill_value


def _in_transaction(
    layers: list[AnyLayer], transaction: Transaction | None
) -> tuple[list[AnyLayer], Transaction | None]:
    """Return layers in one transaction, and the transaction."""
    stores = [(i, layer) for i, layer in enumerate(layers) if isinstance(layer, TensorStore)]
    own = stores[0][1].transaction if stores else None
    for i, layer in stores:
        if layer.transaction is not own:
            raise InvalidArgumentError(f"Layer {i}: Transaction mismatch")
    if own is not None and transaction is not None and own is not transaction:
        raise InvalidArgumentError("Transaction mismatch")
    if own is not None or transaction is None:
        return layers, own
    bound = [
        layer.with_transaction(transaction) if isinstance(layer, TensorStore) else layer for layer in layers
    ]
    return bound, transaction
