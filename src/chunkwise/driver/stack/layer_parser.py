"""A parser of the layers of a stack, most of which differ only in path or elements, and transform."""

from __future__ import annotations

from operator import add, gt
from typing import Any

from chunkwise.binding import JSON
from chunkwise.cached import copied
from chunkwise.driver.array.spec import ArraySpec
from chunkwise.driver.based_spec import parse_base
from chunkwise.driver.stack.layer_kinds import elsewhere, is_movable
from chunkwise.dtypes.data_type import DataType
from chunkwise.dtypes.schema_value import array_from_json
from chunkwise.index_space import IndexDomain, IndexTransform
from chunkwise.index_space.interval import INF
from chunkwise.index_space.output_map import OutputIndexMap, single_map
from chunkwise.spec.spec import Spec
from chunkwise.spec.url import kvstore_json_from_url

__all__ = ["LayerParser"]


class LayerParser:
    """Parses layers one after the other; what several have in common is parsed once."""

    # A layer that is not like an earlier one is parsed by itself, and so is one with an error in it.  `dtype`
    # is that of all layers that don't give it.

    def __init__(self, dtype: DataType | None = None) -> None:
        self._dtype = dtype
        self._known: dict[object, Spec | None] = {}

    def parse(self, value: JSON) -> Spec:
        """Return the spec of a layer, or raise as `Spec` does."""
        found = self._of_known_kind(value) if isinstance(value, dict) else None
        return parse_base(value) if found is None else found

    def _of_known_kind(self, value: dict[str, Any]) -> Spec | None:
        if value.get("driver") == "array":
            return self._array(value)
        transform, kvstore = _quick_transform(value.get("transform")), value.get("kvstore")
        if isinstance(kvstore, str):
            try:
                kvstore = kvstore_json_from_url(kvstore)
            except (TypeError, ValueError):
                return None
        if transform is None or not isinstance(kvstore, dict) or not isinstance(kvstore.get("path"), str):
            return None
        others = [item for item in value.items() if item[0] not in ("transform", "kvstore")]
        store = [item for item in kvstore.items() if item[0] != "path"]
        kind = (transform.output_rank, transform.input_rank, repr(others), repr(store))  # 1 is not true
        if kind not in self._known:
            self._known[kind] = self._first(value)
        known = self._known[kind]
        if known is None:
            return None
        assert known._driver.kvstore is not None
        try:
            path = type(known._driver.kvstore).normal_path(kvstore["path"])
        except (TypeError, ValueError):
            return None
        if path and not path.endswith("/"):
            path += "/"
        return Spec._of(elsewhere(known._driver, path), transform)

    def _array(self, value: dict[str, Any]) -> Spec | None:
        """Return the spec of an array in memory."""
        transform = _quick_transform(value.get("transform"))
        if transform is None or "array" not in value:
            return None
        others = [item for item in value.items() if item[0] not in ("transform", "array")]
        kind = (transform.output_rank, transform.input_rank, repr(others))
        if kind not in self._known:
            try:
                self._known[kind] = parse_base(value)
            except (TypeError, ValueError):
                self._known[kind] = None
        known = self._known[kind]
        if known is None or not isinstance(known._driver, ArraySpec) or known._driver.dtype.kind == "json":
            return None
        try:
            array = array_from_json(value["array"], known._driver.dtype, known._driver.rank)
        except (TypeError, ValueError):
            return None
        return Spec._of(copied(known._driver, array=array), transform)

    def _first(self, value: dict[str, Any]) -> Spec | None:
        """Return the spec that others are like; None if this one is wrong or of another nature."""
        if "path" in value:
            return None
        try:
            spec = parse_base(value)
            if spec.dtype is None and self._dtype is not None:
                spec = spec.copy()
                spec.update(dtype=self._dtype)
        except (TypeError, ValueError):
            return None
        return spec if is_movable(spec._driver) else None


def _quick_transform(json: Any) -> IndexTransform | None:
    """Return a transform of explicit bounds and one stride for each output; None for any other."""
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
