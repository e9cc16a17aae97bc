"""Metadata that handles of one array share: when it is asked for again, and what is sent then."""

from __future__ import annotations

import json
import time

import pytest

import chunkwise as ts
from chunkwise.core.arrays.open_chunked import open_auto  # noqa: F401 - the layer is loaded before requests are counted
from chunkwise.core.kvstore.memory import MemoryStore

SPEC = {"driver": "zarr3", "kvstore": "memory://a/"}


@pytest.fixture
def reads(monkeypatch):
    """Every read of a metadata document, with the generation that was known."""
    seen = []
    read = MemoryStore.read

    def counted(self, key, *, byte_range=None, if_not_equal=None):
        found = read(self, key, byte_range=byte_range, if_not_equal=if_not_equal)
        if key == "a/zarr.json":
            seen.append((if_not_equal, found.value is not None))
        return found

    monkeypatch.setattr(MemoryStore, "read", counted)
    return seen


def _context(nbytes=0):
    return ts.Context({"cache_pool": {"total_bytes_limit": nbytes}})


def _create(context, shape=(4,)):
    return ts.open(SPEC, create=True, dtype="uint8", shape=shape, context=context).result()


def _behind(store, shape):
    """Change the shape as another program would."""
    kv = store.kvstore
    document = json.loads(kv["zarr.json"])
    kv["zarr.json"] = json.dumps({**document, "shape": shape}).encode()


def test_handles_share_what_one_of_them_finds():
    context = _context()
    a = _create(context)
    b = ts.open(SPEC, context=context).result()
    b.resize(exclusive_max=[9]).result()
    assert a.resolve().result().shape == (9,)
    _behind(a, [5])
    assert a.resolve().result().shape == (9,)  # "open": nobody has looked since
    c = ts.open(SPEC, context=context).result()
    assert (c.shape, a.resolve().result().shape, b.resolve().result().shape) == ((5,), (5,), (5,))


def test_contexts_share_nothing(tmp_path):
    spec = {"driver": "n5", "kvstore": f"file://{tmp_path}/"}
    a = ts.open(spec, create=True, dtype="uint8", shape=[4]).result()
    b = ts.open(spec).result()
    b.resize(exclusive_max=[9]).result()
    assert a.resolve().result().shape == (4,)
    assert ts.open(spec).result().shape == (9,)


@pytest.mark.parametrize(
    ("bound", "sent"),
    [(True, [True]), ("open", [True]), (False, []), (0.0, []), ("future", [True])],
    ids=["true", "open", "false", "past", "future"],
)
def test_what_an_open_asks_for(bound, sent, reads):
    """An entry that is recent enough is used unasked; else it is asked for with its generation."""
    context = _context()
    a = _create(context)
    reads.clear()
    bound = time.time() + 1000 if bound == "future" else bound
    b = ts.open(SPEC, recheck_cached_metadata=bound, context=context).result()
    assert [known is not None for known, _ in reads] == sent
    assert not any(full for _, full in reads)
    assert b.domain == a.domain


def test_what_an_operation_asks_for(reads):
    context = _context()
    _create(context)
    bounds: tuple = (True, "open", False)
    always, once, never = (
        ts.open(SPEC, recheck_cached_metadata=bound, context=context).result() for bound in bounds
    )
    since = ts.open(SPEC, recheck_cached_metadata=time.time() + 1000, context=context).result()
    for store, n in ((always, 2), (once, 0), (never, 0), (since, 2)):
        reads.clear()
        store.read().result()
        store[0].write(1).result()
        assert len(reads) == n
        assert not any(full for _, full in reads)
    _behind(always, [6])
    assert always.read().result().shape == (6,)  # implicit bounds are those of now
    assert always.resolve().result().shape == (6,)
    assert never.resolve().result().shape == (6,)  # the entry is shared


def test_a_pool_with_room_keeps_documents(reads):
    """Also when no handle is left; with a bound that allows it the store is not asked at all."""
    context = _context(100_000)
    del_me = _create(context)
    del del_me
    reads.clear()
    assert ts.open(SPEC, recheck_cached_metadata=False, context=context).result().shape == (4,)
    assert reads == []
    assert ts.open(SPEC, context=context).result().shape == (4,)
    assert len(reads) == 1 and reads[0][0] is not None and not reads[0][1]


def test_a_pool_without_room_forgets(reads):
    context = _context()
    _create(context)
    reads.clear()
    assert ts.open(SPEC, recheck_cached_metadata=False, context=context).result().shape == (4,)
    assert reads == [(None, True)]


def test_another_array_at_the_same_place():
    """Handles of the one that was there don't take it for theirs."""
    context = _context(100_000)
    a = _create(context)
    a[...] = 5
    old = ts.open(SPEC, recheck_cached_data=False, context=context).result()
    old.read().result()
    b = ts.open(
        SPEC, create=True, delete_existing=True, dtype="uint8", shape=[4], fill_value=3, context=context
    ).result()
    assert b.read().result().tolist() == [3] * 4
    with pytest.raises(ValueError, match="incompatible with existing metadata"):
        old.read().result()
    with pytest.raises(ValueError, match="incompatible with existing metadata"):
        a[...] = 6
    assert b.read().result().tolist() == [3] * 4


def test_assumed_metadata_does_not_displace_what_is_known():
    context = _context()
    a = _create(context)
    spec = a.spec().to_json()
    a.resize(exclusive_max=[7]).result()
    cached = ts.open(spec, open=True, assume_cached_metadata=True, context=context).result()
    assert cached.resolve().result().shape == (7,)
    assumed = ts.open(spec, open=True, assume_metadata=True, context=context).result()
    assert assumed.resolve().result().shape == (4,)
    other = {**spec, "dtype": "uint16", "metadata": {"shape": [2], "data_type": "uint16"}}
    alone = ts.open(other, open=True, assume_cached_metadata=True, context=context).result()
    assert (alone.dtype.name, a.dtype.name, a.resolve().result().shape) == ("uint16", "uint8", (7,))


def test_a_document_that_is_gone(reads):
    context = _context(100_000)
    a = _create(context)
    del a.kvstore["zarr.json"]
    with pytest.raises(ValueError, match="NOT_FOUND"):
        ts.open(SPEC, context=context).result()
    checked = ts.open(SPEC, recheck_cached_metadata=False, context=context).result()
    assert checked.shape == (4,)  # what is known is believed, as asked for
