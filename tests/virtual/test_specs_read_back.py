"""The JSON of the spec of an open array opens the same array: for every driver, in every nesting of three."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.api.transaction_model import seeds_of_today

import chunkwise as cw

DATA = np.arange(24, dtype="uint8").reshape(4, 6, 1)


def _chunked(driver: str) -> Callable[[cw.Context, Path], cw.TensorStore]:
    def make(context: cw.Context, root: Path) -> cw.TensorStore:
        # explicit bounds, so that a slice beyond them is refused at once
        store = cw.open(
            {"driver": driver, "kvstore": f"file://{root}/{driver}/"},
            create=True,
            dtype="uint8",
            domain=cw.IndexDomain(shape=DATA.shape, labels=["x", "y", ""] if driver != "zarr" else None),
            context=context,
        ).result()
        store[...] = DATA
        return store.mark_bounds_implicit[False]

    return make


def _picture(context: cw.Context, root: Path) -> cw.TensorStore:
    out = io.BytesIO()
    Image.fromarray(DATA[:, :, 0]).save(out, "png")
    (root / "a.png").write_bytes(out.getvalue())
    return cw.open({"driver": "png", "kvstore": f"file://{root}/a.png"}, context=context).result()


def _document(context: cw.Context, root: Path) -> cw.TensorStore:
    (root / "a.json").write_text('{"a": 3}')
    return cw.open({"driver": "json", "kvstore": f"file://{root}/a.json", "json_pointer": "/a"}).result()


def _precomputed(context: cw.Context, root: Path) -> cw.TensorStore:
    store = cw.open(
        {
            "driver": "neuroglancer_precomputed",
            "kvstore": f"file://{root}/volume/",
            "multiscale_metadata": {"type": "image", "num_channels": 1, "data_type": "uint8"},
            "scale_metadata": {
                "size": [4, 6, 1],
                "encoding": "raw",
                "chunk_size": [4, 4, 1],
                "resolution": [1, 1, 1],
            },
        },
        create=True,
        context=context,
    ).result()
    store[..., 0] = DATA
    return store[..., 0]


BASES: dict[str, Callable[[cw.Context, Path], cw.TensorStore]] = {
    "array": lambda context, root: cw.array(DATA),
    "labels": lambda context, root: cw.array(DATA).label["x", "y", "z"],
    "half": lambda context, root: cw.array(DATA.astype("float16")),
    "zarr3": _chunked("zarr3"),
    "zarr": _chunked("zarr"),
    "zarr1": _chunked("zarr1"),
    "n5": _chunked("n5"),
    "png": _picture,
    "json": _document,
    "precomputed": _precomputed,
}
LAYERS: dict[str, Callable[[cw.TensorStore], cw.TensorStore]] = {
    "cast": lambda a: cw.cast(a, "json" if a.dtype == cw.float64 else "float64"),
    "downsample": lambda a: cw.downsample(a, [2] + [1] * (a.rank - 1), "max"),
    "mean": lambda a: cw.downsample(a, [1] * (a.rank - 1) + [2], "mean"),
    "stack": lambda a: cw.stack([a, a]),
    "concat": lambda a: cw.concat([a, a], axis=0),
    "overlay": lambda a: cw.overlay([a]),
    "view": lambda a: a[a.domain.inclusive_min[0] + 1 :],
    "stride": lambda a: a[::-2],
}


def _same(expected: cw.TensorStore, json_of: Any, context: cw.Context) -> None:
    found = cw.open(json.loads(json.dumps(json_of)), context=context).result()
    assert (found.domain, found.dtype) == (expected.domain, expected.dtype)
    np.testing.assert_array_equal(found.read().result(), expected.read().result())
    again = cw.Spec(json_of).to_json()
    assert cw.Spec(again).to_json() == again
    assert cw.Spec(again) == cw.Spec(json_of)


def _check(base: str, names: tuple[str, ...], store: cw.TensorStore, context: cw.Context) -> bool:
    for name in names:
        try:
            store = LAYERS[name](store)
        except (ValueError, IndexError):  # of rank 0, or of a type that can't be converted or reduced
            return False
    try:
        json_of = store.spec().to_json()
        expected = store
        _same(expected, json_of, context)
        _same(expected, store.spec(minimal_spec=True).to_json(), context)
    except Exception as e:
        e.add_note(f"{base}: {names}")
        raise
    return True


@pytest.mark.parametrize("base", BASES)
def test_some_layers(base: str, tmp_path: Path) -> None:
    context = cw.Context()
    store = BASES[base](context, tmp_path)
    seed = seeds_of_today(1, 3)[0]
    print(f"seed {seed}")
    choose = Random(seed)
    for repeat in (0, 1, 2, 3):
        for names in choose.sample(list(product(LAYERS, repeat=repeat)), min(3, len(LAYERS) ** repeat)):
            _check(base, names, store, context)


@pytest.mark.slow
@pytest.mark.parametrize("base", BASES)
def test_three_layers(base: str, tmp_path: Path) -> None:
    context = cw.Context()
    store = BASES[base](context, tmp_path)
    n = sum(_check(base, names, store, context) for names in product(LAYERS, repeat=3))
    assert n >= (4 if base == "json" else 200)
