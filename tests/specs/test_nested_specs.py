"""The JSON of every nesting of views and layers opens the same array again."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import chunkwise as cw

VALUES = np.arange(12, dtype="int16").reshape(3, 4)
PLACES = {
    "zarr": "memory://{n}/",
    "zarr3": "memory://{n}/",
    "n5": "memory://{n}/",
    "neuroglancer_precomputed": "memory://{n}/",
    "zarr3 in zip": "memory://{n}.zip|zip:",
    "zarr3 in ocdbt": "memory://{n}/|ocdbt:",
}
LAYERS: dict[str, Callable[[Any], Any]] = {
    "cast": lambda a: cw.cast(a, "float32"),
    "downsample": lambda a: cw.downsample(a, [2] + [1] * (a.rank - 1), "max"),
    "stack": lambda a: cw.stack([a, a]),
    "concat": lambda a: cw.concat([a, a], axis=0),
    "overlay": lambda a: cw.overlay([a, a]),
    "part": lambda a: a[a.domain[0].inclusive_min : a.domain[0].inclusive_min + 1],
    "index array": lambda a: a[[a.domain[0].inclusive_min] * 2],
    "transposed": lambda a: a.T,
    "translated": lambda a: a.translate_by[(5,) * a.rank],
    "labels": lambda a: a.label[tuple(f"d{i}" for i in range(a.rank))],
}


def _base(kind: str, n: int, context: cw.Context) -> cw.TensorStore:
    if kind == "array":
        return cw.array(VALUES, context=context)
    spec = {"driver": kind.split()[0], "kvstore": PLACES[kind].format(n=n)}
    if kind == "neuroglancer_precomputed":
        domain = cw.IndexDomain(shape=[3, 4, 1, 1])
        volume = cw.open(spec, create=True, dtype="int16", domain=domain, context=context).result()
        array = volume[:, :, 0, 0]
    else:
        units = None if kind == "zarr" else ["nm", None]
        array = cw.open(
            spec, create=True, dtype="int16", shape=[3, 4], dimension_units=units, context=context
        ).result()
    array[...] = VALUES
    return array


def _facts(array: cw.TensorStore, kind: str) -> list[Any]:
    schema = array.schema.to_json()
    if kind == "array":
        schema.pop("chunk_layout", None)  # that of its memory, which JSON doesn't keep
    return [
        array.dtype,
        array.domain,
        array.read().result().tolist(),
        array.readable,
        array.writable,
        schema,
        array.dimension_units,
    ]


def _forms(array: cw.TensorStore) -> Iterator[tuple[str, Any]]:
    yield "plain", array.spec().to_json()
    yield "with defaults", array.spec().to_json(include_defaults=True)
    yield "minimal", array.spec(minimal_spec=True).to_json()


def _check(kind: str, depth: int) -> None:
    context = cw.Context()
    for n, names in enumerate(itertools.product(LAYERS, repeat=depth)):
        array = _base(kind, n, context)
        for name in names:
            array = LAYERS[name](array)
        facts = _facts(array, kind)
        for form, spec in _forms(array):
            # JSON doesn't say that layers can't be written, as in TensorStore.
            again = cw.open(
                json.loads(json.dumps(spec)), read=True, write=array.writable, context=context
            ).result()
            assert _facts(again, kind) == facts, (kind, names, form)


@pytest.mark.parametrize("kind", ["array", "neuroglancer_precomputed"])
def test_two_layers(kind: str) -> None:
    _check(kind, 2)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["array", *PLACES])
def test_three_layers(kind: str) -> None:
    _check(kind, 3)
