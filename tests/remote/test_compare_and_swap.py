"""Changes of parts of values on servers that lose answers, or tell other ETags than they compare.

They succeed, or are refused with the reason after a few requests; they are never repeated without end.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import chunkwise as ts
from chunkwise import errors
from chunkwise.core.kvstore.compare_and_swap import Losses, compare_and_swap
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.core.kvstore.objects.connection import learned
from chunkwise.core.kvstore.objects.object_store import ObjectStore
from chunkwise.core.kvstore.objects.s3 import S3Bucket
from chunkwise.core.kvstore.protocol import MISSING_GENERATION, MOST_LOST
from chunkwise.core.kvstore.request_limits import Limits, Retries, Slots

QUICK = Limits(Slots(), Retries(6, 0.005, 0.02))


@pytest.fixture
def store(s3: ObjectStore, between: Any) -> ObjectStore:
    """A bucket behind the proxy."""
    assert isinstance(s3.bucket, S3Bucket)
    return ObjectStore(replace(s3.bucket, endpoint=between.url), QUICK)


@pytest.fixture
def kvstore(store: ObjectStore, between: Any) -> dict[str, Any]:
    """The same as a spec."""
    assert isinstance(store.bucket, S3Bucket)
    retries = {"max_retries": 6, "initial_delay": "5ms", "max_delay": "20ms"}
    context = {"s3_request_retries": retries}
    return {"driver": "s3", "bucket": store.bucket.bucket, "endpoint": between.url, "context": context}


def _shards(kvstore: dict[str, Any]) -> Any:
    place = {"driver": "zarr3", "kvstore": {**kvstore, "path": "shards/"}}
    layout = ts.ChunkLayout(write_chunk_shape=[8], read_chunk_shape=[2])
    return ts.open(place, create=True, dtype=ts.int32, shape=[16], chunk_layout=layout).result()


def _chunks(kvstore: dict[str, Any]) -> Any:
    place = {"driver": "n5", "kvstore": {**kvstore, "path": "chunks/"}}
    layout = ts.ChunkLayout(chunk_shape=[8])
    return ts.open(place, create=True, dtype=ts.int32, shape=[16], chunk_layout=layout).result()


def _json(kvstore: dict[str, Any]) -> Any:
    place = {"driver": "json", "kvstore": {**kvstore, "path": "a.json"}, "json_pointer": "/x/y"}
    return ts.open(place).result()


ARRAYS = {"chunk": _chunks, "shard": _shards}


@pytest.mark.parametrize("kind", ARRAYS)
@pytest.mark.parametrize(
    ("tags", "why"),
    [
        ({"GET": "none", "HEAD": "none"}, "answers a read without an ETag"),
        ({"GET": "none"}, "answers a read without an ETag"),
        ({"GET": "other", "HEAD": "other"}, "refuses the ETag that it answers a read with"),
        ({"GET": "other"}, "ETags in answers to GET and HEAD differ"),
        ({"GET": "weak", "HEAD": "weak"}, "refuses the ETag that it answers a read with"),
    ],
    ids=str,
)
def test_etags_that_no_write_can_depend_on(
    kvstore: dict[str, Any], between: Any, kind: str, tags: dict[str, str], why: str
) -> None:
    """Such a server is found out by the trial: parts of chunks are refused, with the reason."""
    array = ARRAYS[kind](kvstore)
    array[:8].write(np.arange(8, dtype=np.int32)).result()
    between.set(tags=tags)
    _forget(kvstore)
    with pytest.raises(errors.UnsafeWriteError, match=rf"since the server.*{why}.*single_writer.*align them"):
        array[:3].write(7).result()
    array[8:].write(1).result()
    assert len(between.log()) < 40
    assert array.read().result().tolist() == [*range(8), *[1] * 8]


@pytest.mark.parametrize("tags", [{"PUT": "other"}, {"PUT": "weak"}], ids=str)
@pytest.mark.parametrize("kind", ARRAYS)
def test_etags_of_writes_are_not_needed(
    kvstore: dict[str, Any], between: Any, kind: str, tags: dict[str, str]
) -> None:
    """A server that tells another ETag, or none, after a write is asked for the one that reads tell."""
    array = ARRAYS[kind](kvstore)
    between.set(tags=tags)
    _forget(kvstore)
    for i in range(5):
        array[i].write(i + 1).result()
    assert array[:6].read().result().tolist() == [1, 2, 3, 4, 5, 0]
    kv = ts.KvStore.open(kvstore).result()
    first = kv.write("k", b"1").result()
    second = kv.write("k", b"2", if_equal=kv.read("k").result().stamp.generation).result()
    assert second.generation == kv.read("k").result().stamp.generation != first.generation


@pytest.mark.parametrize("how", ["other", "none"])
@pytest.mark.parametrize("kind", ARRAYS)
def test_etags_that_change_later(
    kvstore: dict[str, Any], between: Any, kind: str, how: str, caplog: Any
) -> None:
    """A server that passed the trial and tells other ETags since is not asked for ever."""
    array = ARRAYS[kind](kvstore)
    array[0].write(1).result()
    between.set(tags={"GET": how})
    with pytest.raises(errors.UnsafeWriteError, match=r"gave the same version 8 times.*align them"):
        array[1].write(2).result()
    assert len(between.log()) < 40
    between.set()
    assert array[:2].read().result().tolist() == [1, 0]


def _forget(kvstore: dict[str, Any]) -> None:
    """Have the server tried out again."""
    driver = ts.KvStore.open(kvstore).result()._driver
    while not isinstance(driver, ObjectStore):
        driver = driver.base
    learned(driver.bucket).conditional = None


@pytest.mark.each_once
@pytest.mark.parametrize("action", ["reset", "reset_after", "500", "503"])
@pytest.mark.parametrize("kind", [*ARRAYS, "json", "attributes", "ocdbt"])
def test_lost_answers_of_changes(kvstore: dict[str, Any], between: Any, kind: str, action: str) -> None:
    """Whether or not the server carried it out, the change is there, once."""
    fault = {"method": "PUT", "path": "/", "action": action, "times": 2}
    if kind in ARRAYS:
        array = ARRAYS[kind](kvstore)
        array[0].write(1).result()
        for i in range(1, 4):
            between.set(dict(fault))
            array[i].write(i + 1).result()
        assert array[:5].read().result().tolist() == [1, 2, 3, 4, 0]
    elif kind == "json":
        value = _json(kvstore)
        value.write(1).result()
        between.set(dict(fault))
        value.write({"z": 2}).result()
        assert _json(kvstore).read().result().item() == {"z": 2}
    elif kind == "ocdbt":
        kv = ts.KvStore.open({"driver": "ocdbt", "base": {**kvstore, "path": "db/"}}).result()
        kv.write("a", b"1").result()
        between.set(dict(fault))
        kv.write("b", b"2").result()
        again = ts.KvStore.open({"driver": "ocdbt", "base": {**kvstore, "path": "db/"}}).result()
        assert {key: again.read(key).result().value for key in again.list().result()} == {
            b"a": b"1",
            b"b": b"2",
        }
    else:
        group = ts.create_group({**kvstore, "path": "g/"}, format="zarr2", attributes={"n": 0})
        for _ in range(3):
            between.set(dict(fault))
            group.attrs.change(lambda attributes: {"n": attributes["n"] + 1})
        assert ts.open_group({**kvstore, "path": "g/"}).attrs["n"] == 3


class _Meddling(ObjectStore):
    """Another writer replaces what was written before a lost answer is looked for."""

    meddle: bytes | None = None

    def _stored(self, key: str, *expected: Any) -> Any:
        if self.meddle is not None:
            other, self.meddle = self.meddle, None
            ObjectStore(self.bucket, QUICK).write(key, other)
        return super()._stored(key, *expected)


@pytest.mark.parametrize("action", ["reset", "reset_after"])
def test_lost_answers_beside_another_writer(store: ObjectStore, between: Any, action: str) -> None:
    """Nobody knows then whether the write was carried out, which is an error; a new value is another's."""
    meddled = _Meddling(store.bucket, QUICK)
    first = meddled.write("k", b"1")
    meddled.conditional_writes("k")
    between.set({"method": "PUT", "path": "/k", "action": action})
    meddled.meddle = b"theirs"
    with pytest.raises(errors.LostAnswerError, match="another writer"):
        meddled.write("k", b"ours", if_equal=first)
    assert store.read("k").value == b"theirs"
    between.set({"method": "PUT", "path": "/n", "action": action})
    meddled.meddle = b"theirs"
    assert meddled.write("n", b"ours", if_equal=MISSING_GENERATION) is None
    assert store.read("n").value == b"theirs"


def test_changes_that_may_be_made_twice_go_on() -> None:
    """An error that says that a write may be done is an error for counters, and none for elements."""
    outcomes: list[Any] = [errors.LostAnswerError("lost"), b"generation", None]

    def attempt() -> bytes | None:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        found: bytes | None = outcome
        return found

    compare_and_swap(MemoryStore(), "k", attempt, idempotent=True)
    assert not outcomes
    outcomes += [errors.LostAnswerError("lost")]
    with pytest.raises(errors.LostAnswerError):
        compare_and_swap(MemoryStore(), "k", attempt)


def test_others_are_not_outwaited_for_ever(caplog: Any) -> None:
    """After a hundred losses it is an error; a line in the log comes before."""
    losses = Losses(lambda: "the value")
    with pytest.raises(
        errors.GenerationMismatchError, match=f"the value was changed by others {MOST_LOST} times"
    ):
        for i in range(MOST_LOST):
            losses.add(b"%d" % i)
    assert [record.getMessage() for record in caplog.records] == [
        "the value was changed by others 10 times meanwhile; going on"
    ]
