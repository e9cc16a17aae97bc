"""Names that public classes and functions have; weak references to objects that users hold."""

from __future__ import annotations

import inspect
import pickle
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chunkwise as ts


def public_classes() -> dict[str, type]:
    found: dict[str, type] = {}

    def find(owner: Any, path: str) -> None:
        for name, value in vars(owner).items():
            if isinstance(value, type) and not name.startswith("_") and value not in found.values():
                found[path + name] = value
                find(value, f"{path}{name}.")

    for name in ts.__all__:
        value = getattr(ts, name)
        if isinstance(value, type) and value not in found.values():
            found[name] = value
            find(value, f"{name}.")
    return found


@pytest.mark.parametrize("path", sorted(public_classes()))
def test_a_public_class_says_where_users_find_it(path: str) -> None:
    kind = public_classes()[path]
    assert (kind.__module__, kind.__qualname__) == ("chunkwise", path)
    assert pickle.loads(pickle.dumps(kind)) is kind


def test_public_functions_say_where_users_find_them() -> None:
    functions = [f for name in ts.__all__ if inspect.isfunction(f := getattr(ts, name))]
    assert ts.open in functions
    assert {f.__module__ for f in functions} == {"chunkwise"}


def test_everything_can_be_referred_to_weakly() -> None:
    context = ts.Context({})
    spec = {"driver": "n5", "kvstore": "memory://a"}
    store = ts.open(spec, create=True, dtype=ts.uint8, shape=[8], context=context).result()
    promise, future = ts.Promise[int].new()
    layout, transform, kvstore = store.chunk_layout, ts.IndexTransform(2), store.kvstore
    assert kvstore is not None
    values: list[Any] = [store, store.spec(), store.schema, layout, layout.read_chunk, store.codec, kvstore]
    values += [kvstore.spec(), ts.KvStore.KeyRange("a"), kvstore.read("x").result(), store.domain, ts.Dim(3)]
    values += [ts.KvStore.TimestampedStorageGeneration(), transform, transform.output, transform.output[0]]
    values += [ts.d, ts.d[0], ts.d[0].label["a"], ts.Unit("nm"), ts.OpenMode(), ts.uint8, future, promise]
    values += [context, context.spec, context["cache_pool"], ts.Transaction(), ts.Batch(), store.write(3)]
    values += [
        store.storage_statistics().result(),
        ts.virtual_chunked(print, dtype="uint8", shape=[4]).spec(),
    ]
    assert [value for value in values if weakref.ref(value)() is not value] == []


def test_what_calls_give_back_is_shown_in_a_line(tmp_path: Path) -> None:
    """As a report of a copy is: no spec of an array is in it, and no table of numbers."""
    array = ts.create_array(tmp_path / "a.zarr", np.zeros((64, 96), "u2"), chunks=(32, 32))
    made = ts.downsample_pyramid(array, tmp_path / "p.zarr", levels=2).result()
    copied = ts.copy(tmp_path / "a.zarr", tmp_path / "b.zarr")
    for found in (made, made.levels, array.explain(), array[0].explain(), copied, copied.plan):
        assert len(repr(found)) < 300 and "\n" not in repr(found)
    shapes = ((64, 96), (32, 48), (16, 24))
    assert repr(made.levels) == f"({', '.join(f'TensorStore {shape} uint16' for shape in shapes)})"
    assert repr(array[0].explain()).startswith("<Explanation of a read: 3 chunks, 3 requests, 6,144 bytes")
