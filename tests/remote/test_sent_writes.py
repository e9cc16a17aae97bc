"""Whole chunks are sent to S3 while the next ones are encoded: nothing is lost, refused or left under way."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import chunkwise as ts
from chunkwise import errors
from chunkwise.kvstore.object_sender import ObjectSender
from chunkwise.kvstore.object_store import ObjectStore
from chunkwise.kvstore.request_limits import Limits, Pace, RequestSlots, Retries
from chunkwise.kvstore.s3 import S3Bucket
from chunkwise.kvstore.s3_direct import DirectAccess

QUICK = Limits(RequestSlots(), Retries(3, 0.02, 0.1))
DATA = np.random.default_rng(0).integers(1, 200, (64, 128)).astype("u2")
N_CHUNKS = 128


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool]]:
    """The keys that are sent, each with whether it was stored or deleted so."""
    seen: list[tuple[str, bool]] = []
    send = DirectAccess.send

    def counted(self: DirectAccess, key: str, value: Any, done: Callable[[bool], None]) -> None:
        def ended(stored: bool) -> None:
            seen.append((key, stored))
            done(stored)

        send(self, key, value, ended)

    monkeypatch.setattr(DirectAccess, "send", counted)
    return seen


def _open(s3: ObjectStore, url: str, codecs: Any = ("bytes",), **options: Any) -> ts.TensorStore:
    assert isinstance(s3.bucket, S3Bucket)
    kvstore = {
        "driver": "s3",
        "bucket": s3.bucket.bucket,
        "endpoint": url,
        "path": "a/",
        "s3_request_retries": {"max_retries": 8, "initial_delay": "5ms", "max_delay": "20ms"},
    }
    return ts.open(
        {
            "driver": "zarr3",
            "kvstore": kvstore,
            "metadata": {"codecs": list(codecs)},
            "context": {"data_copy_concurrency": {"limit": 2}},
            **options,
        },
        open=True,
        create=True,
        dtype="uint16",
        shape=DATA.shape,
        chunk_layout=ts.ChunkLayout(chunk_shape=[8, 8]),
    ).result()


@pytest.mark.parametrize("codec", [None, {"name": "zstd", "configuration": {"level": 1}}])
@pytest.mark.parametrize("order", ["chunks", "reversed", "transposed"])
def test_whole_chunks_are_sent(
    s3: ObjectStore, between: Any, sent: list[tuple[str, bool]], codec: Any, order: str
) -> None:
    """Each chunk takes one request; those with nothing but the fill value are deleted."""
    array = _open(s3, between.url, ["bytes", *([codec] if codec else [])])
    array.write(DATA).result()
    data = DATA.copy()
    data[:8, :64] = 0
    between.set()
    view = {"chunks": np.s_[:, :], "reversed": np.s_[::-1, ::-1]}.get(order)
    if view is None:
        array.T.write(data.T).result()
    else:
        array[view].write(data[view]).result()
    log = between.log()
    assert sorted({line.split()[0] for line in log}) == ["DELETE", "PUT"]
    assert len(log) == N_CHUNKS and sum(line.startswith("DELETE") for line in log) == 8
    assert len(sent) == 2 * N_CHUNKS and all(stored for _, stored in sent)
    np.testing.assert_array_equal(array.read().result(), data)
    assert len(list(s3.list("a/c/", "a/c0"))) == N_CHUNKS - 8


def test_parts_of_chunks_are_not(s3: ObjectStore, between: Any, sent: list[tuple[str, bool]]) -> None:
    """Chunks that are changed, few chunks, and chunks in a transaction are written one by one."""
    array = _open(s3, between.url)
    array[1:, :].write(DATA[1:]).result()
    array[:8, :24].write(DATA[:8, :24]).result()
    transaction = ts.Transaction()
    array.with_transaction(transaction).write(DATA).result()
    assert not sent
    transaction.commit_sync()
    np.testing.assert_array_equal(array.read().result(), DATA)


def test_failures_that_pass(s3: ObjectStore, between: Any, sent: list[tuple[str, bool]]) -> None:
    """What goes wrong with a request is made good by the store, with its retries."""
    array = _open(s3, between.url)
    actions = ["reset", "reset_after", "truncate", "500", "503", "429", "etag", "slow"]
    between.set(*[{"method": "PUT", "path": "/a/c", "action": a, "times": 3} for a in actions])
    data = DATA.copy()
    array.write(data).result()
    assert {stored for _, stored in sent} == {True, False}
    between.set()
    np.testing.assert_array_equal(array.read().result(), data)
    data[:32] = 0
    between.set(*[{"method": "DELETE", "path": "/a/c", "action": a, "times": 2} for a in actions[:5]])
    array.write(data).result()
    between.set()
    np.testing.assert_array_equal(array.read().result(), data)
    assert len(list(s3.list("a/c/", "a/c0"))) == N_CHUNKS // 2


@pytest.mark.parametrize("key", ["/a/c/3/1", "/a/c"])
def test_lasting_failures_name_the_chunk(s3: ObjectStore, between: Any, key: str) -> None:
    """The failure of one chunk, or of all, is the failure of the write, and says which chunk and why."""
    array = _open(s3, between.url)
    array.write(DATA).result()
    between.set({"method": "PUT", "path": key, "action": "403", "times": 10**6})
    with pytest.raises(errors.PermissionDeniedError, match=rf"Error writing .*{key}") as caught:
        array.write(DATA[::-1]).result()
    assert "while writing chunk {" in "".join(caught.value.__notes__)
    n = len(between.log())
    assert n < N_CHUNKS + 20 if key == "/a/c/3/1" else n < 100  # nobody goes on for long
    between.set()
    array.write(DATA).result()
    np.testing.assert_array_equal(array.read().result(), DATA)


def test_nothing_is_under_way_after_a_failure(
    s3: ObjectStore, between: Any, sent: list[tuple[str, bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write that fails in the middle waits for what it has sent: that could overwrite what comes next."""
    array = _open(s3, between.url)
    between.set(delay=0.3)
    begun: list[str] = []
    write = ObjectSender.write

    def failing(self: ObjectSender, key: str, value: Any) -> bool:
        begun.append(key)
        if len(begun) > 20:
            raise errors.StorageError("enough")
        return write(self, key, value)

    monkeypatch.setattr(ObjectSender, "write", failing)
    with pytest.raises(errors.StorageError, match=r"Error writing .*enough"):
        array.write(DATA).result()
    assert len(sent) == 20 and all(stored for _, stored in sent)


def test_requests_keep_to_the_limits(s3: ObjectStore, between: Any, sent: list[tuple[str, bool]]) -> None:
    """No more are under way than there are slots, all of these are used, and each waits for its turn."""
    s3.write("k", b"1")
    assert isinstance(s3.bucket, S3Bucket)
    waits: list[str] = []

    class Counted(Pace):
        def wait(self) -> None:
            waits.append("write")

    limits = Limits(RequestSlots(5), QUICK.retries, write_pace=Counted(None))
    store = ObjectStore(replace(s3.bucket, endpoint=between.url), limits)
    store.read("k")
    between.set(delay=0.05)
    sender = store.open_sender()
    assert sender is not None
    values = {f"v{i}": bytes([i]) * (1000 + 37 * i) for i in range(40)}
    threads = [
        threading.Thread(target=lambda part=part: [sender.write(k, values[k]) for k in part])
        for part in (list(values)[:20], list(values)[20:])
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sender.wait()
    assert len(sent) == len(waits) == 40 and max(between.flight()) == 5 and not sender.take_refused()
    between.set()
    assert {key: bytes(store.read(key).value or b"") for key in values} == values


def test_what_is_refused_is_kept_for_the_store(s3: ObjectStore, between: Any) -> None:
    """After some refusals in a row nothing more is sent, so that memory does not fill with values."""
    s3.write("k", b"1")
    assert isinstance(s3.bucket, S3Bucket)
    store = ObjectStore(replace(s3.bucket, endpoint=between.url), QUICK)
    store.read("k")
    between.set({"method": "PUT", "action": "500", "times": 10**6})
    sender = store.open_sender()
    assert sender is not None
    begun = 0
    while sender.write(f"v{begun}", b"x" * begun):
        begun += 1
        time.sleep(0.01)
        assert begun < 100
    sender.wait()
    assert 8 <= begun < 40
    assert sorted((key, bytes(value or b"")) for key, value in sender.take_refused()) == sorted(
        (f"v{i}", b"x" * i) for i in range(begun)
    )
    with pytest.raises(errors.InvalidArgumentError, match="Invalid key"):
        sender.write("a//b", b"")
    assert not sender.write("large", bytes((1 << 24) + 1))


def test_without_retries_nothing_is_sent(s3: ObjectStore, between: Any) -> None:
    """A request that is made without obstore is the first of several attempts."""
    s3.write("k", b"1")
    assert isinstance(s3.bucket, S3Bucket)
    store = ObjectStore(replace(s3.bucket, endpoint=between.url), Limits(RequestSlots(), Retries(0)))
    store.read("k")
    assert store.open_sender() is None
    # nor before the way in is known
    unknown = ObjectStore(S3Bucket("never-asked-for", endpoint=between.url), QUICK)
    assert unknown.open_sender() is None
