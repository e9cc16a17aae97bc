"""``data_copy_concurrency``: how many chunks are decoded and encoded at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import chunkwise as cw
from chunkwise.core.base.catalogue import codecs
from chunkwise.core.codec.bytes import Bytes
from chunkwise.core.codec.crc32c import Crc32c
from chunkwise.core.engine.pool import Pool
from chunkwise.core.engine.read import read_into
from chunkwise.core.engine.write import write_from
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.core.kvstore.request_limits import Slots
from chunkwise.core.kvstore.traits import DEFAULT_TRAITS

SHAPE, CHUNKS = (64, 8), (2, 8)


class Gauge:
    """The largest number of calls under way at the same time."""

    def __init__(self, seconds: float = 0.002) -> None:
        self.lock = threading.Lock()
        self.now = self.most = 0
        self.seconds = seconds

    def __enter__(self) -> None:
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        time.sleep(self.seconds)

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.now -= 1


def gauged(gauge: Gauge, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        with gauge:
            return function(*arguments)

    return call


@dataclass(frozen=True)
class Gauged(Crc32c):
    """A codec that is slow, and counts how many work at the same time."""

    name: ClassVar[str] = "gauged"
    gauge: ClassVar[Gauge] = Gauge()

    def open_decoder(self, *arguments: Any) -> Any:
        return gauged(Gauged.gauge, super().open_decoder(*arguments))

    def open_encoder(self, *arguments: Any) -> Any:
        return gauged(Gauged.gauge, super().open_encoder(*arguments))

    def open_decoder_into(self, *arguments: Any) -> Any:
        return None


class Remote(MemoryStore):
    """Claims to answer slowly, so that many requests are kept under way; counts those."""

    traits = DEFAULT_TRAITS._replace(request_concurrency=16)

    def __init__(self) -> None:
        super().__init__()
        self.gauge = Gauge()

    def open_reader(self) -> Any:
        return gauged(self.gauge, super().open_reader())

    def write(self, *arguments: Any, **options: Any) -> Any:
        with self.gauge:
            return super().write(*arguments, **options)


@pytest.mark.parametrize("limit", [1, 3])
@pytest.mark.parametrize("inner", [None, (1, 8)])
def test_codecs_keep_to_the_limit_and_requests_do_not(
    limit: int, inner: Any, stored_array: Any, request_of: Any
) -> None:
    array = stored_array(SHAPE, CHUNKS, np.float64, codecs=(Bytes(), Gauged()), inner=inner)
    store, pool, data = Remote(), Pool(limit, slots=Slots(limit)), np.random.default_rng(0).random(SHAPE)
    for act in (
        lambda: write_from(array, store, request_of(SHAPE), data, pool=pool),
        lambda: read_into(array, store, request_of(SHAPE), np.empty(SHAPE), pool=pool),
    ):
        Gauged.gauge, store.gauge = Gauge(), Gauge(0.03)
        futures = [act(), act()]  # two at a time have one limit
        for future in futures:
            future.result(60)
        assert 1 <= Gauged.gauge.most <= limit
        assert store.gauge.most > limit
    np.testing.assert_array_equal(futures[0].result(), data)


@pytest.mark.parametrize("limit", [1, 2])
def test_functions_of_virtual_chunks_keep_to_the_limit(limit: int) -> None:
    gauge = Gauge()

    def fill(domain: object, chunk: np.ndarray, params: object) -> None:
        with gauge:
            chunk[...] = 1

    array = cw.virtual_chunked(
        fill,
        dtype=np.uint8,
        shape=[40],
        chunk_layout=cw.ChunkLayout(read_chunk_shape=[1]),
        context=cw.Context({"data_copy_concurrency": {"limit": limit}}),
    )
    assert array.read().result().sum() == 40
    assert 1 <= gauge.most <= limit


def test_a_stack_of_a_limit_reads_no_more_layers_at_a_time() -> None:
    gauge = Gauge()

    def fill(domain: object, chunk: np.ndarray, params: object) -> None:
        with gauge:
            chunk[...] = 1

    context = cw.Context({"data_copy_concurrency": {"limit": 2}})
    layers = [
        cw.virtual_chunked(
            fill,
            dtype=np.uint8,
            domain=cw.IndexDomain(inclusive_min=[4 * i], shape=[4]),
            chunk_layout=cw.ChunkLayout(read_chunk_shape=[1]),
            context=context,
        )
        for i in range(10)
    ]
    assert cw.overlay(layers, context=context).read().result().sum() == 40
    assert 1 <= gauge.most <= 2


@pytest.mark.parametrize("limit", [1, "shared"])
def test_a_number_in_a_kvstore_holds_for_arrays_in_it(limit: Any, tmp_path: Path) -> None:
    codecs.register("gauged", Gauged)
    data = np.random.default_rng(0).random(SHAPE)
    chunks = {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": CHUNKS}}}
    cw.open(
        {"driver": "zarr3", "kvstore": f"file://{tmp_path}/", "metadata": chunks | {"codecs": ["gauged"]}},
        create=True,
        dtype="float64",
        shape=SHAPE,
    ).result()[...] = data
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(tmp_path)))
    threading.Thread(target=server.serve_forever).start()
    try:
        kvstore = {"driver": "http", "base_url": f"http://127.0.0.1:{server.server_port}/"}
        kvstore["data_copy_concurrency"] = {"limit": limit}
        store = cw.open({"driver": "zarr3", "kvstore": kvstore}).result()
        Gauged.gauge = Gauge(0.02)
        np.testing.assert_array_equal(store.read().result(), data)
    finally:
        server.shutdown()
        server.server_close()
    assert (Gauged.gauge.most == 1) is (limit == 1)


def test_members_of_archives_are_decompressed_under_the_limit() -> None:
    context = cw.Context({"data_copy_concurrency": {"limit": 1}})
    archive = cw.KvStore.open({"driver": "zip", "base": "memory://a.zip"}, context=context).result()
    archive["a"] = b"x" * 1000
    slots = context["data_copy_concurrency"].value.slots
    with ThreadPoolExecutor() as threads:
        held, release = threading.Event(), threading.Event()
        threads.submit(slots.call, lambda: held.set() or release.wait(30))
        held.wait(30)
        value = threads.submit(lambda: archive.read("a").result().value)
        try:
            with pytest.raises(TimeoutError):
                value.result(timeout=0.2)
            assert list(archive.list().result()) == [b"a"]
        finally:
            release.set()
        assert value.result(30) == b"x" * 1000


def test_a_limit_may_be_any_number() -> None:
    assert Slots(2**64 - 1).call(len, "abc") == 3


def test_who_waits_for_whom() -> None:
    """Jobs of a limit share it, except in the thread that calls; others have one if they mostly wait."""
    shared = Slots(2)
    limited, free = Pool(2, slots=shared), Pool(2)
    assert [limited.codec_limit(n) for n in (0, 1, 2, 9)] == [None, shared, shared, shared]
    assert [free.codec_limit(n) is None for n in (0, 1, 2, 3, 4, 9)] == [True] * 4 + [False] * 2
    assert free.codec_limit(4) is not free.codec_limit(4)
