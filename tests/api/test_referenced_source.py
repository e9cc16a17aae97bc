"""Writing an array that the caller promises not to change."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import chunkwise as ts


def create(chunk: list[int], *codecs: Any, url: str = "memory://a") -> ts.TensorStore:
    spec = {"driver": "zarr3", "kvstore": url, "metadata": {"codecs": ["bytes", *codecs]}}
    layout = ts.ChunkLayout(chunk_shape=chunk)
    return ts.open(spec, create=True, dtype="uint16", shape=[4, 4], chunk_layout=layout).result()


def source() -> np.ndarray[Any, Any]:
    return np.arange(1, 17, dtype=np.uint16).reshape(4, 4)


@pytest.mark.parametrize("chunk", [[4, 4], [2, 4], [1, 2], [3, 4]])
def test_memory_refers_to_raw_chunks_that_lie_in_the_source(chunk: list[int]) -> None:
    store, array = create(chunk), source()
    store.write(array, can_reference_source_data_indefinitely=True).result()
    copied = copy.deepcopy(store)
    kvstore = store.kvstore
    assert kvstore is not None and all(type(kvstore[key]) is bytes for key in kvstore.list().result())
    array[:3] += 100  # breaking the promise shows who refers to what
    in_one_piece = chunk[1] == 4 or chunk[0] == 1
    assert (store[0, 0].read().result() == 101) == in_one_piece
    np.testing.assert_array_equal(copied.read().result(), source())


@pytest.mark.parametrize("change", [np.transpose, np.flip, lambda a: np.broadcast_to(a[0], a.shape)])
@pytest.mark.parametrize("chunk", [[4, 4], [2, 2]])
def test_what_is_not_stored_as_it_lies_there_is_copied(change: Any, chunk: list[int]) -> None:
    store, array = create(chunk), source()
    store.write(change(array), can_reference_source_data_indefinitely=True).result()
    array[...] = 0
    np.testing.assert_array_equal(store.read().result(), change(source()))


@pytest.mark.parametrize("flag", [None, False])
def test_without_the_promise_nothing_is_referred_to(flag: bool | None) -> None:
    store, array = create([4, 4]), source()
    store.write(array, can_reference_source_data_indefinitely=flag).result()
    array[...] = 0
    np.testing.assert_array_equal(store.read().result(), source())


def test_encoded_chunks_and_files_hold_their_own(tmp_path: Any) -> None:
    for store in (create([4, 4], "gzip"), create([4, 4], url=f"file://{tmp_path}/")):
        array = source()
        store.write(array, can_reference_source_data_indefinitely=True).result()
        array[...] = 0
        np.testing.assert_array_equal(store.read().result(), source())


def test_the_caller_s_memory_is_never_written_to() -> None:
    store, array = create([4, 4]), source()
    store.write(array, can_reference_source_data_indefinitely=True).result()
    store[0, 0] = 50
    store.resize(exclusive_max=[2, 2]).result()
    np.testing.assert_array_equal(array, source())
    assert pickle.loads(pickle.dumps(store)).rank == 2
