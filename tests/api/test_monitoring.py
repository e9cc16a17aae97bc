"""Metrics, and the flags of verbose logging."""

from __future__ import annotations

import http.server
import logging
import threading
from collections.abc import Iterator

import pytest

import chunkwise

READS = "/tensorstore/cache/chunk_cache/reads"


def value(name: str) -> int:
    [metric] = chunkwise.experimental_collect_matching_metrics(name, include_zero_metrics=True)
    [value] = metric["values"]
    return value["value"]


def test_reads_and_writes_are_counted() -> None:
    store = chunkwise.open("memory://|zarr3", create=True, dtype="uint8", shape=[4]).result()
    reads, writes = value(READS), value("/tensorstore/cache/chunk_cache/writes")
    store[1:3] = 5
    for _ in range(3):
        store.read().result()
    assert value(READS) == reads + 3 == value(READS)
    assert value("/tensorstore/cache/chunk_cache/writes") == writes + 1
    assert f"{READS.strip('/').replace('/', '_')} {reads + 3}" in (
        chunkwise.experimental_collect_prometheus_format_metrics("/tensorstore/cache")
    )
    assert chunkwise.experimental_collect_matching_metrics("/nothing/") == []


class Gateway(http.server.BaseHTTPRequestHandler):
    got: list[tuple[str, str, bytes]] = []

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.got.append((self.command, self.path, body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def gateway() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Gateway)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_metrics_are_pushed(gateway: str) -> None:
    push = chunkwise.experimental_push_metrics_to_prometheus
    assert push(gateway, "a job", "me", READS).result(timeout=60) == 200
    command, path, body = Gateway.got[-1]
    assert (command, path) == ("PUT", "/metrics/job/a%20job/instance/me")
    assert body == b"".join(
        f"{line}\n".encode() for line in chunkwise.experimental_collect_prometheus_format_metrics(READS)
    )


def test_a_push_needs_a_job_and_a_url() -> None:
    with pytest.raises(ValueError, match="bad job"):
        chunkwise.experimental_push_metrics_to_prometheus("http://localhost")
    with pytest.raises(ValueError, match="no URL of HTTP"):
        chunkwise.experimental_push_metrics_to_prometheus("file:///etc", "job")


def test_verbose_logging_sets_levels() -> None:
    logger = logging.getLogger("chunkwise.some_part")
    try:
        chunkwise.parse_tensorstore_flags(["prog", "-v", "--tensorstore_verbose_logging=some_part=2", "x"])
        assert logger.level == logging.DEBUG
        chunkwise.experimental_update_verbose_logging("other", overwrite=True)
        assert logger.level == logging.NOTSET
        assert logging.getLogger("chunkwise.other").level == logging.DEBUG
        chunkwise.experimental_update_verbose_logging("other=-1")
        assert logging.getLogger("chunkwise.other").level == logging.NOTSET
    finally:
        chunkwise.experimental_update_verbose_logging("", overwrite=True)
    with pytest.raises(TypeError):
        chunkwise.parse_tensorstore_flags("prog")
