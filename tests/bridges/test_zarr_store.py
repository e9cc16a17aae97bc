"""``chunkwise.zarr.Store``: zarr-python's own contract of stores, and what is built on zarr-python."""

from __future__ import annotations

import asyncio
import pickle
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray
import zarr
from zarr.abc.store import OffsetByteRequest, RangeByteRequest, SuffixByteRequest
from zarr.core.buffer import cpu, default_buffer_prototype
from zarr.core.sync import sync
from zarr_store_contract import ZarrStoreContract

import chunkwise as ts
from chunkwise.zarr import Store

VALUES = np.arange(64, dtype="int32").reshape(8, 8)


class TestStoreOfFiles(ZarrStoreContract):
    @pytest.fixture
    def kv(self, tmp_path: Path) -> ts.KvStore:
        return ts.KvStore.open(f"file://{tmp_path}/a/").result()


class TestStoreInMemory(ZarrStoreContract):
    @pytest.fixture
    def kv(self, tmp_path: Path) -> ts.KvStore:
        return ts.KvStore.open("memory://a/").result()


class TestStoreOfAnArchive(ZarrStoreContract):
    @pytest.fixture
    def kv(self, tmp_path: Path) -> ts.KvStore:
        return ts.KvStore.open(f"file://{tmp_path}/a.zip|zip:").result()


class TestStoreOfACache(ZarrStoreContract):
    @pytest.fixture
    def kv(self, tmp_path: Path) -> ts.KvStore:
        return ts.KvStore.open({"driver": "cache", "base": f"file://{tmp_path}/a/"}).result()

    def test_store_repr(self, store: Store) -> None:
        assert "/a/" in str(store)
        assert str(store) in repr(store)


def test_parts_of_values(tmp_path: Path) -> None:
    """What exceeds a value is left out, as zarr-python's own stores do."""
    ours, theirs = Store(tmp_path), zarr.storage.LocalStore(tmp_path)
    prototype = default_buffer_prototype()
    sync(ours.set("k", cpu.Buffer.from_bytes(b"0123")))
    for part in [
        RangeByteRequest(1, 3), RangeByteRequest(1, 9), RangeByteRequest(2, 2), RangeByteRequest(7, 9),
        OffsetByteRequest(1), OffsetByteRequest(4), OffsetByteRequest(9),
        SuffixByteRequest(2), SuffixByteRequest(9),
    ]:  # fmt: skip
        expected = sync(theirs.get("k", prototype, part)).to_bytes()
        assert sync(ours.get("k", prototype, part)).to_bytes() == expected, part
        assert sync(ours.get("missing", prototype, part)) is None
    assert sync(ours.get("k", prototype, SuffixByteRequest(0))).to_bytes() == b""


def test_one_of_many_writes_a_new_key(tmp_path: Path) -> None:
    """`set_if_not_exists` leaves no gap between the look and the write."""
    store = Store(tmp_path)

    async def race() -> None:
        values = [cpu.Buffer.from_bytes(b"%d" % i) for i in range(50)]
        seen = []

        async def one(value: Any) -> None:
            await store.set_if_not_exists("k", value)
            seen.append((await store.get("k", default_buffer_prototype())).to_bytes())

        await asyncio.gather(*map(one, values))
        assert len(set(seen)) == 1

    asyncio.run(race())


def test_the_event_loop_goes_on_while_a_store_is_slow(tmp_path: Path) -> None:
    """What a store waits for is waited for in another thread."""
    waiting, go_on = threading.Event(), threading.Event()

    class Slow:
        def __init__(self, store: Any) -> None:
            self.store = store

        def __getattr__(self, name: str) -> Any:
            if name in ("write_all", "modify") or name.startswith("__"):
                raise AttributeError(name)
            return getattr(self.store, name)

        def read(self, key: str, **options: Any) -> Any:
            waiting.set()
            assert go_on.wait(30)
            return self.store.read(key, **options)

    memory = ts.KvStore.open("memory://").result()
    memory["k"] = b"v"
    store = Store(Slow(memory._driver))

    async def read() -> bytes:
        task = asyncio.ensure_future(store.get("k", default_buffer_prototype()))
        while not waiting.is_set():
            await asyncio.sleep(0.001)
        go_on.set()
        return (await task).to_bytes()

    assert asyncio.run(read()) == b"v"


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("kvstore", ["memory://a/", "file://{}/a/", "file://{}/a.zip|zip:"])
def test_arrays_and_groups_of_zarr_python(kvstore: str, zarr_format: Any, tmp_path: Path) -> None:
    """Both libraries write and read one tree."""
    store = Store(kvstore.format(tmp_path))
    group = zarr.create_group(store, zarr_format=zarr_format, attributes={"title": "t"})
    group.create_array("x/y", data=VALUES, chunks=(4, 4))[1:3, 1] = -1
    assert sorted(group.array_keys()) == [] and sorted(group.group_keys()) == ["x"]
    expected = VALUES.copy()
    expected[1:3, 1] = -1
    ours = ts.open_group(store, "r+")
    np.testing.assert_array_equal(ours["x/y"].read().result(), expected)
    ours["x/y"][5, 5] = expected[5, 5] = 7
    np.testing.assert_array_equal(zarr.open_group(store, mode="r")["x/y"][...], expected)
    assert ours.attrs["title"] == "t"
    zarr.consolidate_metadata(store)
    assert zarr.open_consolidated(store, mode="r").attrs["title"] == "t"


def test_a_read_only_store(tmp_path: Path) -> None:
    """Neither library writes to it."""
    store = Store(tmp_path)
    zarr.create_array(store, data=VALUES)
    reader = store.with_read_only(True)
    assert reader != store
    with pytest.raises(ValueError, match="read-only mode"):
        zarr.open_array(reader, mode="r")[0] = 1
    with pytest.raises(ts.errors.UnsupportedError, match="the store is read-only"):
        ts.open(reader).result()[...] = 1
    np.testing.assert_array_equal(ts.open(reader).result().read().result(), VALUES)
    assert repr(reader).endswith("read_only=True)")


def test_xarray_and_dask_on_a_store(tmp_path: Path) -> None:
    """Datasets are written and read through it, also by tasks that unpickle it in other processes."""
    import dask

    store = Store(f"file://{tmp_path}/d.zarr/")
    written = xarray.Dataset({"v": (("y", "x"), VALUES)}, attrs={"a": 1})
    written.chunk({"y": 4}).to_zarr(store, zarr_format=3)
    xarray.testing.assert_identical(xarray.open_zarr(store).load(), written)
    xarray.testing.assert_identical(xarray.open_dataset(store, engine="chunkwise").load(), written)
    lazy = xarray.open_zarr(store, chunks={})
    with dask.config.set(scheduler="processes", num_workers=1):
        assert int(lazy.v.sum().compute()) == int(VALUES.sum())


def test_pickles(tmp_path: Path) -> None:
    """A store of files is one in any process, one in memory only in its own."""
    store = Store(tmp_path, read_only=True)
    assert pickle.loads(pickle.dumps(store)) == store
    memory = Store("memory://")
    sync(memory.set("k", cpu.Buffer.from_bytes(b"v")))
    copy = pickle.loads(pickle.dumps(memory))
    assert copy == memory
    assert sync(copy.get("k", default_buffer_prototype())).to_bytes() == b"v"
    (tmp_path / "p").write_bytes(pickle.dumps(memory))
    program = f"import pickle; s = pickle.load(open({str(tmp_path / 'p')!r}, 'rb')); s.get_sync('k')"
    other = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert other.returncode and "is in the memory of process" in other.stderr


def test_without_zarr_the_error_says_what_to_install() -> None:
    program = "import sys; sys.modules['zarr'] = None; import chunkwise.zarr"
    other = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert 'chunkwise.zarr needs zarr: pip install "chunkwise[zarr]"' in other.stderr


def test_a_value_that_is_no_buffer_is_told(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="a value must be a Buffer of zarr-python, got bytes"):
        sync(Store(tmp_path).set("k", b"v"))
