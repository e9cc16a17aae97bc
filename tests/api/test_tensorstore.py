"""Handles of arrays as Python objects, and the threads that work for them."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chunkwise as ts


def create(kvstore: Any = "memory://", context: ts.Context | None = None, **options: Any) -> ts.TensorStore:
    defaults: dict[str, Any] = {"dtype": "uint16", "shape": [10, 20]}
    spec = {"driver": "zarr3", "kvstore": kvstore}
    return ts.open(spec, create=True, context=context, **{**defaults, **options}).result()


def test_a_handle_dies_with_its_last_reference() -> None:
    store = create()
    reference = weakref.ref(store)
    del store
    assert reference() is None


def test_a_cycle_through_a_handle_is_collected() -> None:
    class Owner:
        store: ts.TensorStore
        self: Owner

    owner = Owner()
    owner.store, owner.self = create(), owner
    reference = weakref.ref(owner.store)
    del owner
    gc.collect()
    assert reference() is None


def test_a_deep_copy_of_what_is_in_memory_is_independent_and_has_the_data() -> None:
    store, array = create(), ts.array(np.arange(4))
    store[1, 2] = 5
    copied = copy.deepcopy({"store": store, "same": store[1], "array": array, "kvstore": store.kvstore})
    store[1, 2], array[1] = 6, 7
    assert copied["store"][1, 2].read().result() == copied["same"][2].read().result() == 5
    assert copied["array"].read().result().tolist() == [0, 1, 2, 3]
    copied["store"][1, 2] = 8
    assert copied["same"][2].read().result() == 8  # of one deep copy, what shared data shares them
    assert len(copied["kvstore"].list().result()) == len(store.kvstore.list().result()) > 1
    assert store[1, 2].read().result() == 6


def test_a_deep_copy_of_what_is_in_files_is_the_same_array(tmp_path: Path) -> None:
    store = create(f"file://{tmp_path}/")
    copied = copy.deepcopy(store)
    copied[1, 2] = 5
    assert store[1, 2].read().result() == 5


def test_a_pickled_handle_reads_the_file_and_keeps_its_view(tmp_path: Path) -> None:
    store = create(f"file://{tmp_path}/")
    store[...] = np.arange(200, dtype=np.uint16).reshape(10, 20)
    view = store[2:5, ::2]
    again = pickle.loads(pickle.dumps(view))
    assert again.domain == view.domain
    np.testing.assert_array_equal(again.read().result(), view.read().result())


def test_unpickling_asks_nothing_of_the_storage(tmp_path: Path) -> None:
    store = create(f"file://{tmp_path}/")
    pickled = pickle.dumps(store)
    (tmp_path / "zarr.json").unlink()
    assert pickle.loads(pickled).domain == store.domain


def test_the_mode_survives_pickling(tmp_path: Path) -> None:
    create(f"file://{tmp_path}/")
    store = ts.open(f"file://{tmp_path}/|zarr3:", read=True).result()
    assert pickle.loads(pickle.dumps(store)).mode == "r"


@pytest.mark.parametrize(
    ("driver", "name"), [("n5", "attributes.json"), ("zarr", ".zarray"), ("zarr3", "zarr.json")]
)
def test_a_missing_array_is_named_by_its_file(tmp_path: Path, driver: str, name: str) -> None:
    with pytest.raises(ValueError) as caught:
        ts.open({"driver": driver, "kvstore": f"file://{tmp_path}/"}).result()
    assert str(caught.value) == (
        f'NOT_FOUND: Error opening "{driver}" driver: '
        f'Metadata at local file "{tmp_path}/{name}" does not exist'
    )


def test_numpy_reads_a_handle() -> None:
    store = create()
    store[1] = 3
    assert np.asarray(store).sum() == 60
    assert np.array(store, dtype="float32", copy=True).dtype == np.float32


def test_the_source_may_change_when_its_copy_is_done() -> None:
    store = create()
    source = np.ones((10, 20), np.uint16)
    writing = store.write(source)
    writing.copy.result()
    source[...] = 7
    writing.commit.result()
    assert store.read().result().sum() == 200


@pytest.mark.parametrize(
    ("where", "limited"),
    [
        ("memory", "data_copy_concurrency"),
        ("file", "data_copy_concurrency"),
        ("file", "file_io_concurrency"),
    ],
)
def test_the_limit_of_a_context_is_how_many_threads_work(tmp_path: Path, limited: str, where: str) -> None:
    context = ts.Context({limited: {"limit": 1}})
    layout = ts.ChunkLayout(chunk_shape=[64, 256])
    kvstore = f"file://{tmp_path}/" if where == "file" else "memory://"
    store = create(kvstore, context, shape=[2048, 512], chunk_layout=layout, dtype="uint32")
    values = np.random.default_rng(0).integers(0, 100, (2048, 512), np.uint32)
    workers: set[int] = set()
    profile = threading.getprofile()
    threading.setprofile(lambda *_: workers.add(threading.get_ident()))
    try:
        store.write(values).result()
        np.testing.assert_array_equal(store.read().result(), values)
    finally:
        threading.setprofile(profile)
    assert len(workers) <= 1


def test_a_shrunken_array_loses_its_chunks_at_the_commit() -> None:
    store = create(shape=[16, 16], chunk_layout=ts.ChunkLayout(chunk_shape=[8, 8]))
    store[...] = 1
    kv = store.kvstore
    assert kv is not None
    with ts.Transaction() as transaction:
        smaller = store.with_transaction(transaction).resize(exclusive_max=[8, 8]).result()
        assert smaller.shape == (8, 8)
        assert len(kv.list().result()) == 5
    assert sorted(kv.list().result()) == [b"c/0/0", b"zarr.json"]


@pytest.mark.parametrize("sharded", [False, True])
def test_changes_of_others_to_the_same_chunk_are_merged_at_the_commit(sharded: bool) -> None:
    layout = ts.ChunkLayout(write_chunk_shape=[16, 16], read_chunk_shape=[4, 4] if sharded else [16, 16])
    store = create(shape=[16, 16], chunk_layout=layout)
    source = np.full((3, 3), 5, np.uint16)
    with ts.Transaction() as transaction:
        inside = store.with_transaction(transaction)
        inside[1:4, 1:4] = source
        source[...] = 99
        inside[2, 2] = 6
        store[0, 0] = 7
        store[2, 3] = 8
        assert inside[2, 1:4].read().result().tolist() == [5, 6, 5]
        assert store[2, 1:4].read().result().tolist() == [0, 0, 8]
    expected = np.zeros((16, 16), np.uint16)
    expected[1:4, 1:4], expected[2, 2], expected[0, 0] = 5, 6, 7
    np.testing.assert_array_equal(store.read().result(), expected)
