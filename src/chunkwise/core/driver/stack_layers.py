"""A parser of the layers of a stack, which usually differ only in path or elements, and in transform.

Layers share a rank and a data type; the stack has the hull of their domains, and their units.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import add, ge, gt
from typing import NamedTuple

from chunkwise.core.base.binding import JSON
from chunkwise.core.base.cached import copied
from chunkwise.core.driver.adapters import parse_base
from chunkwise.core.driver.chunked.spec import elsewhere, is_movable
from chunkwise.core.driver.in_memory import ArraySpec
from chunkwise.core.dtypes.data_type import DataType
from chunkwise.core.dtypes.fill_value import array_from_json
from chunkwise.core.index_space import IndexDomain, IndexTransform, inf
from chunkwise.core.index_space.interval import INF
from chunkwise.core.index_space.output_map import OutputIndexMap, single_map
from chunkwise.core.specs.driver_spec import DriverSpec
from chunkwise.core.specs.kvstore_spec import KvStoreSpec
from chunkwise.core.specs.schema import Schema
from chunkwise.core.specs.spec import Spec
from chunkwise.core.specs.unit import DimensionUnits
from chunkwise.core.specs.url import kvstore_json_from_url
from chunkwise.errors import ChunkwiseError, InvalidArgumentError, prefixed

__all__ = [
    "Common",
    "LayerParser",
    "combine_layers",
    "common_units",
    "final_domain",
    "for_each_kind",
    "kind_of",
]


class Common(NamedTuple):
    """The properties that the layers share."""

    dtype: DataType
    domain: IndexDomain | None  # hull of the non-empty domains; None without layers


def combine_layers(
    layers: Iterable[tuple[DataType | None, IndexDomain | None]],
    dtype: DataType | None,
    rank: int | None,
) -> Common:
    """Return the common data type and domain of layers; raise with the number of a layer that differs."""
    lower: list[int] = []
    upper: list[int] = []
    labels: tuple[str, ...] = ()
    hull: IndexDomain | None = None
    empty = True
    for i, (own_type, domain) in enumerate(layers):
        with prefixed(f"Layer {i}", ChunkwiseError):
            if domain is not None:
                if rank is not None and domain.rank != rank:
                    raise InvalidArgumentError(
                        f"Rank of {domain.rank} does not match existing rank of {rank}"
                    )
                rank = domain.rank
            if own_type is not None:
                if dtype is not None and own_type is not dtype:
                    raise InvalidArgumentError(
                        f"Specified dtype ({own_type.name}) does not match existing value ({dtype.name})"
                    )
                dtype = own_type
            if domain is None:
                raise InvalidArgumentError("Domain must be specified")
            # A shortcut for the common case of many layers without labels.
            if empty or domain._labels != labels or any(map(ge, domain._lo, domain._hi)):
                hull = domain if hull is None else _box(lower, upper, labels).hull(domain)
                lower, upper = list(hull.inclusive_min), list(hull.exclusive_max)
                labels = hull.labels
                hull = _box(lower, upper, labels)
                empty = 0 in hull.shape
                continue
            lower = list(map(min, lower, domain._lo))
            upper = list(map(max, upper, domain._hi))
    if dtype is None:
        raise InvalidArgumentError("dtype must be specified")
    return Common(dtype, None if hull is None else _box(lower, upper, labels))


def _box(lower: Sequence[int], upper: Sequence[int], labels: Sequence[str]) -> IndexDomain:
    n = len(lower)
    return IndexDomain(
        inclusive_min=lower,
        exclusive_max=upper,
        labels=labels,
        implicit_lower_bounds=[False] * n,
        implicit_upper_bounds=[False] * n,
    )


def final_domain(domain: IndexDomain | None, hull: IndexDomain | None) -> IndexDomain:
    """Return the domain of a stack, with explicit bounds."""
    # If a bound of `domain`, from a schema, is implicit and infinite, the layers' `hull` has the bound.
    if domain is None and hull is None:
        raise InvalidArgumentError("A stack without layers requires a domain")
    if domain is None or hull is None:
        only = hull if domain is None else domain
        assert only is not None
        return _box(only.inclusive_min, only.exclusive_max, only.labels)
    if domain.rank != hull.rank:
        raise InvalidArgumentError(f"Rank of {hull.rank} does not match existing rank of {domain.rank}")
    lower, upper, labels = [], [], []
    for own, other in zip(domain, hull, strict=True):
        free = own.inclusive_min == -inf and own.implicit_lower
        lower.append(other.inclusive_min if free else own.inclusive_min)
        free = own.exclusive_max == inf + 1 and own.implicit_upper
        upper.append(other.exclusive_max if free else own.exclusive_max)
        if own.label and other.label and own.label != other.label:
            raise InvalidArgumentError(
                f"Cannot constrain index domain {domain} with index domain {hull}: labels do not match"
            )
        labels.append(own.label or other.label)
    return _box(lower, [max(a, b) for a, b in zip(lower, upper, strict=True)], labels)


def common_units(schemas: Iterable[Schema], rank: int) -> DimensionUnits:
    """Return the unit of each dimension on which all schemas with a unit agree, or None."""
    found: list[set[object]] = [set() for _ in range(rank)]
    units: list[object] = [None] * rank
    for schema in schemas:
        for d, unit in enumerate(schema.dimension_units or ()):
            if unit is not None:
                found[d].add((unit.multiplier, unit.base_unit))
                units[d] = unit
    return tuple(u if len(f) == 1 else None for u, f in zip(units, found, strict=True))  # type: ignore[misc]


def for_each_kind(
    drivers: tuple[DriverSpec, ...], change: Callable[[DriverSpec], DriverSpec]
) -> tuple[DriverSpec, ...]:
    """Return the result of `change` for each spec, calling it once for specs of one kind."""
    # Its result must not depend on the path of a movable spec, or the elements of an array.
    known: dict[object, DriverSpec] = {}
    out = []
    for driver in drivers:
        if isinstance(driver, ArraySpec):
            kind = _fields(driver, "array")
            changed = known.get(kind)
            if changed is None:
                known[kind] = changed = change(driver)
            out.append(copied(changed, array=driver.array))
            continue
        kvstore = driver.kvstore
        if kvstore is None or not is_movable(driver):
            out.append(change(driver))
            continue
        kind = kind_of(driver, kvstore)
        changed = known.get(kind)
        if changed is None:
            known[kind] = changed = change(driver)
        if changed.kvstore is None:
            out.append(change(driver))
        else:
            out.append(elsewhere(changed, kvstore.path))
    return tuple(out)


def kind_of(driver: DriverSpec, kvstore: KvStoreSpec) -> tuple[object, ...]:
    """Return a key that is equal for movable specs that differ only in the path of their kvstores."""
    # The key consists of identities, and is meaningless once the specs are gone.
    return _fields(driver, "kvstore"), _fields(kvstore, "path")


def _fields(record: DriverSpec | KvStoreSpec, own: str) -> tuple[object, ...]:
    fields = record.__dict__.copy()
    fields.pop(own, None)
    return (type(record), *map(id, fields.values()))


class LayerParser:
    """Parses layers one after the other; common parts are parsed once."""

    # A layer unlike earlier ones, or with an error, is parsed separately.  `dtype` applies to all layers
    # without one.

    def __init__(self, dtype: DataType | None = None) -> None:
        self._dtype = dtype
        self._drivers: dict[object, DriverSpec] = {}

    def parse(self, value: JSON) -> Spec:
        """Return the spec of a layer, or raise like `Spec`."""
        try:
            found = self._like_another(value) if isinstance(value, dict) else None
        except (TypeError, ValueError):  # parsed separately, it raises its error
            found = None
        return parse_base(value) if found is None else found

    def _like_another(self, value: dict[str, JSON]) -> Spec | None:
        transform, kvstore = _quick_transform(value.get("transform")), value.get("kvstore")
        if transform is None:
            return None
        if value.get("driver") == "array":
            if "array" not in value:
                return None
            known = self._known_kind(value, transform, "array", [])
            if not isinstance(known, ArraySpec) or known.dtype.kind == "json":
                return None
            array = array_from_json(value["array"], known.dtype, known.rank)
            return Spec._of(copied(known, array=array), transform)
        if isinstance(kvstore, str):
            kvstore = kvstore_json_from_url(kvstore)
        if "path" in value or not isinstance(kvstore, dict) or not isinstance(kvstore.get("path"), str):
            return None
        store = [item for item in kvstore.items() if item[0] != "path"]
        known = self._known_kind(value, transform, "kvstore", store)
        if not is_movable(known):
            return None
        assert known.kvstore is not None
        path = type(known.kvstore).normal_path(kvstore["path"])
        return Spec._of(elsewhere(known, path + "/" if path and not path.endswith("/") else path), transform)

    def _known_kind(
        self, value: dict[str, JSON], transform: IndexTransform, own: str, store: list[JSON]
    ) -> DriverSpec:
        """Return the driver of the first layer that differs only in its transform and the member `own`."""
        others = [item for item in value.items() if item[0] not in ("transform", own)]
        kind = (transform.output_rank, transform.input_rank, repr(others), repr(store))  # 1 is not true
        known = self._drivers.get(kind)
        if known is None:
            spec = parse_base(value)
            if spec.dtype is None and self._dtype is not None:
                spec = spec.copy()
                spec.update(dtype=self._dtype)
            known = self._drivers[kind] = spec._driver
        return known


def _quick_transform(json: JSON) -> IndexTransform | None:
    """Return a transform with explicit bounds and one stride for each output; None for others."""
    if not isinstance(json, dict) or len(json) != 2 + ("output" in json):
        return None
    lower = json.get("input_inclusive_min")
    identity = [{"input_dimension": i} for i in range(len(lower))] if isinstance(lower, list) else None
    output = json.get("output", identity)
    member = "input_shape" if "input_shape" in json else "input_exclusive_max"
    upper = json.get(member)
    if not (isinstance(lower, list) and isinstance(upper, list) and isinstance(output, list)):
        return None
    rank = len(lower)
    numbers = [*lower, *upper]
    if len(upper) != rank or rank > 32 or len(output) > 32:
        return None
    maps: list[OutputIndexMap] = []
    for item in output:
        if not isinstance(item, dict) or "input_dimension" not in item:
            return None
        dim, offset, stride = item["input_dimension"], item.get("offset", 0), item.get("stride", 1)
        n_known = 1 + ("offset" in item) + ("stride" in item)
        numbers += (dim, offset, stride)
        if type(dim) is not int or len(item) != n_known or not stride or not 0 <= dim < rank:
            return None
        maps.append(single_map(offset, stride, dim))
    if set(map(type, numbers)) - {int} or (numbers and not (min(numbers) > -INF and max(numbers) < INF)):
        return None
    if member == "input_shape":
        upper = list(map(add, lower, upper))
    if any(map(gt, lower, upper)) or any(b >= INF for b in upper):
        return None
    explicit = (False,) * rank
    domain = IndexDomain._make(tuple(lower), tuple(upper), explicit, explicit, ("",) * rank)
    return IndexTransform._make(domain, tuple(maps))
