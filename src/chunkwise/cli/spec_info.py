"""``chunkwise info`` of a file with the spec of an array: the parts of a stack or another view."""

from __future__ import annotations

from collections import Counter
from typing import Any

from chunkwise.api.tensorstore import TensorStore
from chunkwise.arrays.stack import StackArray
from chunkwise.cli.command import print_json
from chunkwise.cli.quantities import format_shape, plural
from chunkwise.tools.spec_file import open_source
from chunkwise.tools.stack_report import report_stack

__all__ = ["show_spec"]


def show_spec(path: str, spec: dict[str, Any], *, json: bool) -> None:
    """Print what the array is; of a stack also how its layers lie, of which none is opened."""
    store = open_source(path)
    stacked = isinstance(store._array, StackArray)
    layers = spec["layers"] if stacked else []
    drivers = Counter(_driver(layer) for layer in layers)
    report = report_stack(store) if stacked else None
    if json:
        out: dict[str, Any] = {
            "path": path,
            "kind": "array",
            "driver": spec["driver"],
            "dtype": store.dtype.name,
            "domain": store.domain.to_json(),
            "shape": list(store.shape),
            "dimension_units": [None if unit is None else str(unit) for unit in store.dimension_units],
        }
        if report is not None:
            out.update(drivers=dict(drivers), **report.to_json())
        print_json(out)
        return
    kinds = ", ".join(f"{n} {name}" for name, n in drivers.most_common())
    what = f"stack of {plural(len(layers), 'layer')} ({kinds})" if stacked else f"view ({spec['driver']})"
    rows = [("format", what), ("shape", format_shape(store.shape)), ("data type", store.dtype.name)]
    if any(store.origin):
        rows.append(("origin", ", ".join(map(str, store.origin))))
    rows += _dimensions(store)
    if report is not None:
        if store.fill_value is not None:
            rows.append(("fill value", str(store.fill_value)))
        rows.append(("gaps", plural(report.n_missing, "element") if report.n_missing else "none"))
        overlapping = f"{plural(report.n_overlaps, 'pair')} of layers, {report.n_hidden:,} hidden"
        rows.append(("overlaps", overlapping if report.n_overlaps else "none"))
    for label, value in rows:
        print(f"{label:<12} {value}")


def _dimensions(store: TensorStore) -> list[tuple[str, str]]:
    rows = []
    if any(store.domain.labels):
        rows.append(("dimensions", ", ".join(label or "-" for label in store.domain.labels)))
    if any(unit is not None for unit in store.dimension_units):
        units = ("-" if unit is None else str(unit) for unit in store.dimension_units)
        rows.append(("units", ", ".join(units)))
    return rows


def _driver(layer: Any) -> str:
    if isinstance(layer, str):
        return layer.rpartition("|")[2].partition(":")[0]
    while isinstance(layer.get("base"), dict):
        layer = layer["base"]
    return str(layer.get("driver"))
