"""The JSON of every nesting of views and layers opens the same array again."""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.api.transaction_model import seeds_of_today

import chunkwise as cw

VALUES = np.arange(12, dtype="int16").reshape(3, 4)
MEMORY = {
    "array": lambda context: cw.array(VALUES, context=context),
    "labels": lambda context: cw.array(VALUES, context=context).label["x", "y"],
    "half": lambda context: cw.array(VALUES.astype("float16"), context=context),
}
STORED = {
    "zarr": "memory://{n}/",
    "zarr1": "memory://{n}/",
    "zarr3": "memory://{n}/",
    "n5": "memory://{n}/",
    "neuroglancer_precomputed": "memory://{n}/",
    "zarr3 in zip": "memory://{n}.zip|zip:",
    "zarr3 in ocdbt": "memory://{n}/|ocdbt:",
}
LAYERS: dict[str, Callable[[Any], Any]] = {
    "cast": lambda a: cw.cast(a, "json" if a.dtype == cw.float32 else "float32"),
    "downsample": lambda a: (
        cw.downsample(a, [1] * (a.rank - 1) + [2], "mean")
        if a.dtype == cw.float32
        else cw.downsample(a, [2] + [1] * (a.rank - 1), "max")
    ),
    "stack": lambda a: cw.stack([a, a]),
    "concat": lambda a: cw.concat([a, a], axis=0),
    "overlay": lambda a: cw.overlay([a, a]),
    "part": lambda a: a[a.domain[0].inclusive_min : a.domain[0].inclusive_min + 1],
    "index array": lambda a: a[[a.domain[0].inclusive_min] * 2],
    "strides": lambda a: a[::-2],
    "transposed": lambda a: a.T,
    "translated": lambda a: a.translate_by[(5,) * a.rank],
    "labels": lambda a: a.label[tuple(f"d{i}" for i in range(a.rank))],
}
KINDS = [*MEMORY, *STORED, "png", "json"]


def _base(kind: str, n: int, context: cw.Context) -> cw.TensorStore:
    if kind in MEMORY:
        return MEMORY[kind](context)
    if kind in ("png", "json"):
        picture = io.BytesIO()
        Image.fromarray(VALUES.astype("uint8")).save(picture, "png")
        value = picture.getvalue() if kind == "png" else b'{"a": 3}'
        cw.KvStore.open(f"memory://{n}.{kind}", context=context).result().write("", value).result()
        more = {"json_pointer": "/a"} if kind == "json" else {}
        return cw.open({"driver": kind, "kvstore": f"memory://{n}.{kind}", **more}, context=context).result()
    spec = {"driver": kind.split()[0], "kvstore": STORED[kind].format(n=n)}
    if kind == "neuroglancer_precomputed":
        domain = cw.IndexDomain(shape=[3, 4, 1, 1])
        volume = cw.open(spec, create=True, dtype="int16", domain=domain, context=context).result()
        array = volume[:, :, 0, 0]
    else:
        units = None if kind in ("zarr", "zarr1") else ["nm", None]
        array = cw.open(
            spec, create=True, dtype="int16", shape=[3, 4], dimension_units=units, context=context
        ).result()
    array[...] = VALUES
    return array


def _facts(array: cw.TensorStore, kind: str) -> list[Any]:
    schema = array.schema.to_json()
    if kind in MEMORY:
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


def _nested(kind: str, n: int, names: Iterable[str], context: cw.Context) -> cw.TensorStore | None:
    """Return layers over an array; None of a type, or of rank 0, that a layer can't be of."""
    array = _base(kind, n, context)
    for name in names:
        try:
            array = LAYERS[name](array)
        except (ValueError, IndexError):
            return None
    return array


def _check(kind: str, nestings: Iterable[tuple[str, ...]]) -> int:
    """Return how many nestings there are."""
    context, n_made = cw.Context(), 0
    for n, names in enumerate(nestings):
        array = _nested(kind, n, names, context)
        if array is None:
            continue
        n_made += 1
        facts = _facts(array, kind)
        forms = {
            "plain": array.spec(),
            "with defaults": array.spec(),
            "minimal": array.spec(minimal_spec=True),
        }
        for form, spec in forms.items():
            told = json.loads(json.dumps(spec.to_json(include_defaults=form == "with defaults")))
            # JSON doesn't say that layers can't be written, as in TensorStore.
            again = cw.open(told, read=True, write=array.writable, context=context).result()
            assert _facts(again, kind) == facts, (kind, names, form)
            read_back = cw.Spec(told)
            assert cw.Spec(read_back.to_json()) == read_back, (kind, names, form)
    return n_made


@pytest.mark.parametrize("kind", KINDS)
def test_some_nestings(kind: str) -> None:
    """Every pair over memory, and nestings of three that change from day to day over each array."""
    (seed,) = seeds_of_today(1, 3)
    print(f"seed {seed}")
    pairs = list(itertools.product(LAYERS, repeat=2))
    triples = Random(seed).sample(list(itertools.product(LAYERS, repeat=3)), 12)
    assert _check(kind, [*pairs, *triples] if kind == "array" else triples) or kind == "json"


@pytest.mark.slow
@pytest.mark.parametrize("first", LAYERS)
@pytest.mark.parametrize("kind", KINDS)
def test_three_layers(kind: str, first: str) -> None:
    n = _check(kind, itertools.product([first], LAYERS, LAYERS))
    assert n > (80 if kind != "json" else -1)
