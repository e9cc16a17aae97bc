"""Specs of the driver ``stack``: arrays laid over each other in one index space, later ones on top.

Configuration
-------------
>>> from chunkwise.core.specs.spec import Spec
>>> bottom = {"driver": "array", "array": [1, 2, 3], "dtype": "int32"}
>>> moved = {
...     "input_inclusive_min": [2],
...     "input_exclusive_max": [5],
...     "output": [{"input_dimension": 0, "offset": -2}],
... }
>>> Spec({"driver": "stack", "layers": [bottom, {**bottom, "transform": moved}]}).domain
{ [0, 5) }

Reading indices without a layer is an error.  With the member ``fill_value``, which TensorStore lacks, they
read as that value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy.typing as npt

from chunkwise.core.base.binding import JSON, MISSING, Members, parse_array
from chunkwise.core.driver.stack_layers import (
    Common,
    LayerParser,
    combine_layers,
    common_units,
    final_domain,
    for_each_kind,
)
from chunkwise.core.dtypes.data_type import DataType
from chunkwise.core.dtypes.fill_value import fill_value_from_json, fill_value_to_json
from chunkwise.core.index_space import IndexDomain, IndexTransform
from chunkwise.core.specs.context import Context
from chunkwise.core.specs.driver_spec import DriverSpec, SpecMembers
from chunkwise.core.specs.kvstore_spec import KvStoreSpec
from chunkwise.core.specs.open_mode import OpenMode, Recheck
from chunkwise.core.specs.resource_members import take_resources
from chunkwise.core.specs.schema import Schema
from chunkwise.core.specs.spec import Spec
from chunkwise.errors import ChunkwiseError, InvalidArgumentError, SpecError

__all__ = ["StackSpec", "check_options", "parse_stack"]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class StackSpec(DriverSpec):
    """``{"driver": "stack", "layers": […]}``."""

    driver: ClassVar[str] = "stack"
    resource_kinds: ClassVar[tuple[str, ...]] = ("data_copy_concurrency",)

    layers: tuple[Spec, ...]  # later ones on top
    common: Common  # their common schema, kept because there may be ten thousand layers
    # value of indices without a layer; None if these are an error, as in TensorStore
    fill_value: npt.NDArray[Any] | None = None

    @property
    def rank(self) -> int | None:
        """Number of dimensions."""
        return self.domain.rank

    @property
    def dtype(self) -> DataType | None:
        """Data type of all layers."""
        return self.common.dtype

    @property
    def domain(self) -> IndexDomain:
        """Hull of the layers' domains, unless the schema has bounds."""
        return final_domain(self.schema.domain, self.common.domain)

    def own_members(self, include_defaults: bool) -> dict[str, JSON]:
        """Return the fill value, if there is one."""
        if self.fill_value is None:
            return {}
        return {"fill_value": fill_value_to_json(self.fill_value, self.common.dtype)}

    def part_members(self, include_defaults: bool, names: Mapping[int, str]) -> dict[str, JSON]:
        """Return the layers."""
        return {"layers": [layer._named_json(include_defaults, names) for layer in self.layers]}

    def effective_schema(self) -> Schema:
        """Return type, domain and units."""
        domain = self.domain
        out = Schema(dtype=self.common.dtype, domain=domain)
        units = common_units((layer.schema for layer in self.layers), domain.rank)
        own = self.schema.dimension_units
        out.update(
            dimension_units=units if own is None else [a or b for a, b in zip(own, units, strict=True)]
        )
        return out

    def with_schema(self, schema: Schema) -> Self:
        """Return the spec with further constraints; raise if a stack can't have them."""
        own = self.schema.merged(schema)
        return replace(self, schema=check_options(own), common=combined(self.layers, own))

    @property
    def open_mode(self) -> OpenMode:
        """Open mode of the layers, if all have the same."""
        modes = [layer.open_mode for layer in self.layers]
        return modes[0] if modes and all(mode == modes[0] for mode in modes) else OpenMode()

    def with_open_mode(self, mode: OpenMode) -> Self:
        """Return the spec with another open mode for all layers."""
        return self._mapped(lambda driver: driver.with_open_mode(mode))

    def with_recheck(self, **bounds: Recheck) -> Self:
        """Return the spec with other staleness bounds for all layers."""
        return self._mapped(lambda driver: driver.with_recheck(**bounds)) if bounds else self

    def with_kvstore(self, kvstore: KvStoreSpec) -> Self:
        """Fail: layers have their own kvstores."""
        raise InvalidArgumentError('"kvstore" not supported by "stack" driver')

    def minimal(self) -> Self:
        """Return the spec with minimal specs of the layers, whose units it keeps, as in TensorStore."""
        out = self._mapped(lambda driver: driver.minimal())
        units = self.effective_schema().dimension_units
        return out if units is None else out.with_schema(Schema(dimension_units=units))

    def _mapped(self, change: Callable[[DriverSpec], DriverSpec]) -> Self:
        return self.with_parts(tuple(change(layer._driver) for layer in self.layers))

    def bind_inner(self, context: Context) -> Self:
        """Return the spec with live resources of the layers."""
        drivers = tuple(layer._driver for layer in self.layers)
        return self.with_parts(for_each_kind(drivers, lambda driver: driver.bind(context)))

    def shown(self) -> Self:
        """Return the unbound spec; as in TensorStore, layers don't show their resources."""
        return self._mapped(lambda driver: driver.strip()).unbound()

    def parts(self) -> tuple[DriverSpec | KvStoreSpec, ...]:
        """Return the driver specs of the layers."""
        return tuple(layer._driver for layer in self.layers)

    def with_parts(self, parts: tuple[DriverSpec | KvStoreSpec, ...]) -> Self:
        """Return the spec with other driver specs for the layers, with the same domains and type."""
        drivers = [part for part in parts if isinstance(part, DriverSpec)]
        layers = zip(self.layers, drivers, strict=True)
        return replace(self, layers=tuple(Spec._of(driver, layer._transform) for layer, driver in layers))


def check_options(schema: Schema) -> Schema:
    """Return `schema` without soft constraints on chunks; raise for constraints that a stack can't have."""
    if schema.codec is not None:
        raise InvalidArgumentError('codec option not supported by "stack" driver')
    if schema.fill_value is not None:
        raise InvalidArgumentError('fill value option not supported by "stack" driver')
    layout = schema.chunk_layout
    grids = (layout.write_chunk, layout.read_chunk, layout.codec_chunk)
    hard = [layout.inner_order, layout.grid_origin, *(grid.shape for grid in grids)]
    if any(any(x is not None for x in value) for value in hard if value is not None):
        raise InvalidArgumentError('chunk layout option not supported by "stack" driver')
    out = Schema(dtype=schema.dtype, rank=schema.rank)
    if schema.domain is not None:
        out.update(domain=schema.domain)
    units = schema.dimension_units
    if units is not None and any(u is not None for u in units):
        out.update(dimension_units=units)
    return out


def combined(layers: tuple[Spec, ...], schema: Schema) -> Common:
    """Return the schema on which layers and `schema` agree."""
    return combine_layers(((layer.dtype, layer.domain) for layer in layers), schema.dtype, schema.rank)


def parse_stack(members: Members, common: SpecMembers) -> StackSpec:
    """Take the members of a spec of this driver."""
    resources = take_resources(members, StackSpec.resource_kinds)

    def take_layers(value: JSON) -> tuple[Spec, ...]:
        if value is MISSING:
            raise SpecError("Expected array, but member is missing")
        return tuple(parse_array(value, LayerParser(common.schema.dtype).parse))

    layers = tuple(
        map(_bounded, members.take("layers", take_layers, example=["file:///data/a.zarr/|zarr3:"]))
    )
    schema = check_options(common.schema)
    agreed = combined(layers, schema)
    spec = StackSpec(
        schema=schema,
        context=common.context,
        resources=resources,
        fill_value=members.take("fill_value", lambda v: _scalar(v, agreed.dtype), None),
        layers=tuple(_typed(layer, agreed.dtype) for layer in layers),
        common=agreed,
    )
    schema._set_dtype(agreed.dtype)
    schema._set_rank(spec.domain.rank)
    return spec


def _bounded(layer: Spec) -> Spec:
    """Return a layer with open bounds of its transform replaced by known bounds of its driver."""
    # TensorStore considers them infinite, and then can't read the whole stack.
    domain = layer.domain
    if domain is None or layer._transform is None:
        return layer
    if not (any(domain.implicit_lower_bounds) or any(domain.implicit_upper_bounds)):
        return layer
    own = layer._driver.domain
    if own is None or all(dim.finite for dim in domain):
        return layer
    try:
        return Spec._of(layer._driver, IndexTransform.identity(own).compose(layer._transform))
    except ChunkwiseError:  # it extends beyond the layer; reading will report that
        return layer


def _scalar(value: JSON, dtype: DataType) -> npt.NDArray[Any]:
    fill_value = fill_value_from_json(value, dtype, 0 if dtype.kind == "json" else None)
    if fill_value.ndim:
        raise SpecError(f"Expected one element of type {dtype.name}, but received an array")
    return fill_value


def _typed(layer: Spec, dtype: DataType) -> Spec:
    if layer.dtype is None:
        layer = layer.copy()
        layer.update(dtype=dtype)
    return layer
