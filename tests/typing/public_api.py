"""A program as a user writes it, with the types that a checker must see; mypy reads it, nothing runs it."""

from __future__ import annotations

from typing import Any, assert_type

import dask.array as da
import numpy as np
import numpy.typing as npt
import xarray as xr
from dask.delayed import Delayed

import chunkwise as ts

context = ts.Context({"cache_pool": {"total_bytes_limit": 1_000_000}})
opening = ts.open(
    {"driver": "zarr3", "kvstore": "memory://volume/"},
    create=True,
    open=True,
    dtype=ts.uint16,
    shape=[100, 200],
    chunk_layout=ts.ChunkLayout(chunk_shape=[10, 20]),
    dimension_units=["4 nm", None],
    fill_value=7,
    recheck_cached="open",
    context=context,
)
assert_type(opening, ts.Future[ts.TensorStore])
store = opening.result()
assert_type(store, ts.TensorStore)
assert_type(ts.open("memory://a|n5:").result(timeout=3.0), ts.TensorStore)

assert_type(store.rank, int)
assert_type(store.domain, ts.IndexDomain)
assert_type(store.shape, tuple[int, ...])
assert_type(store.origin, tuple[int, ...])
assert_type(store.size, int)
assert_type(store.dtype, ts.DataType)
assert_type(store.mode, str)
assert_type(store.readable, bool)
assert_type(store.schema, ts.Schema)
assert_type(store.chunk_layout, ts.ChunkLayout)
assert_type(store.codec, ts.CodecSpec | None)
assert_type(store.fill_value, npt.NDArray[Any] | None)
assert_type(store.dimension_units, tuple[ts.Unit | None, ...])
assert_type(store.kvstore, ts.KvStore | None)
assert_type(store.base, ts.TensorStore | None)
assert_type(store.transaction, ts.Transaction | None)
assert_type(store.url, str)
assert_type(store.spec(retain_context=True), ts.Spec)

assert_type(store[3:10, ::2], ts.TensorStore)
assert_type(store[ts.d["x"].translate_to[0]], ts.TensorStore)
assert_type(store.oindex[[1, 2], :], ts.TensorStore)
assert_type(store.vindex[np.array([1, 2])], ts.TensorStore)
assert_type(store.T, ts.TensorStore)
assert_type(store.label["x", "y"], ts.TensorStore)
assert_type(store.translate_by[5], ts.TensorStore)
assert_type(store.domain[0], ts.Dim)

with ts.Batch() as batch:
    reading = store[0].read(order="F", batch=batch)
assert_type(reading, ts.Future[npt.NDArray[Any]])
assert_type(reading.result(), npt.NDArray[Any])
assert_type(reading.done(), bool)
assert_type(reading.exception(), BaseException | None)

writing = store[0].write(np.zeros(200, np.uint16))
assert_type(writing, ts.WriteFutures)
assert_type(writing.copy, ts.Future[None])
store[1] = 5
store.oindex[[1, 2]] = [[1], [2]]

assert_type(store.resize(exclusive_max=[None, 300]), ts.Future[ts.TensorStore])
assert_type(store.resolve(fix_resizable_bounds=True).result(), ts.TensorStore)
statistics = store.storage_statistics(query_not_stored=True).result()
assert_type(statistics, ts.TensorStore.StorageStatistics)
assert_type(statistics.not_stored, bool | None)

with ts.Transaction(atomic=True) as transaction:
    assert_type(transaction, ts.Transaction)
    inside = store.with_transaction(transaction)
    inside[0] = 1
assert_type(transaction.commit_async(), ts.Future[None])

kvstore = ts.KvStore.open("memory://a/", context=context).result()
assert_type(kvstore, ts.KvStore)
assert_type(kvstore["key"], bytes)
assert_type(kvstore.read("key").result(), ts.KvStore.ReadResult)
assert_type(kvstore.list(ts.KvStore.KeyRange("a", "b")).result(), list[bytes])
assert_type(kvstore / "b", ts.KvStore)

spec = ts.Spec({"driver": "n5", "kvstore": "memory://"})
spec.update(dtype="uint8", shape=[3, 4])
assert_type(spec.rank, int | None)
assert_type(spec.domain, ts.IndexDomain | None)
assert_type(spec[1], ts.Spec)
assert_type(spec.open_mode, ts.OpenMode)
assert_type(spec.to_json(), dict[str, Any])


async def awaited() -> npt.NDArray[Any]:
    opened = await ts.open("memory://a|n5:")
    assert_type(opened, ts.TensorStore)
    await opened.write(3)
    return await opened.read()


def recheck(option: ts.RecheckCacheOption, method: ts.DownsampleMethod) -> ts.Spec:
    spec = ts.Spec("memory://a|n5:")
    spec.update(recheck_cached=option, rank=3, create=True, kvstore=ts.KvStore.Spec("memory://b/"))
    return ts.downsample(spec, [2, 2, 2], method)


def select(dims: ts.DimSelectionLike, terms: ts.NumpyIndexingSpec, dtype: ts.DTypeLike) -> ts.TensorStore:
    return store[ts.d[dims].label["x"]][terms].astype(dtype)


def part(view: ts.Indexable, value: ts.FutureLike[int]) -> ts.Future[int]:
    assert view[0] is not view
    return ts.Future(value)


part(store, 3)
part(ts.IndexTransform(input_rank=2), ts.Future(5))
assert_type(ts.d[0], ts.DimSelection)
assert_type(store.spec().open_mode, ts.OpenMode)
assert_type(writing.copy, ts.Future[None])
assert_type(ts.KvStore.TimestampedStorageGeneration().time, float)
assert_type(ts.KvStore.ReadResult().value, bytes)
assert_type(ts.experimental_collect_prometheus_format_metrics(), list[str])


def lazily(array: ts.TensorStore, dataset: xr.Dataset) -> da.Array:
    """Dask and xarray: what comes back has a type, by what was asked for."""
    lazy: da.Array = ts.to_dask(array)
    ts.store(lazy + 1, array)
    later: Delayed = ts.store(lazy + 1, array, compute=False)
    both: tuple[da.Array, ...] = ts.store([lazy, lazy], [array, array], return_stored=True)
    made: ts.TensorStore = ts.from_dask(both[0], "memory://|zarr3")
    pair: tuple[ts.TensorStore, Delayed] = ts.from_dask(lazy, "memory://|zarr3", compute=False)
    assert pair[0] != made
    ts.xarray.write_dataset(dataset, "a.zarr")
    later = ts.xarray.write_dataset(dataset, "a.zarr", compute=False)
    assert later
    return lazy


group = ts.open_group("memory://tree/", "a")
assert_type(group.array("x"), ts.TensorStore)
assert_type(group.group("g"), ts.Group)
group.array("x")[0] = 5
assert_type(ts.migrate("tree.zarr"), ts.Migration)
