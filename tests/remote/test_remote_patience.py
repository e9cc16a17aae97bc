"""Time for which a server that fails, is silent or isn't there is waited for, and the messages."""

from __future__ import annotations

import logging
import re
import socket
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

import chunkwise as ts
from chunkwise import errors
from chunkwise.cli.main import main
from chunkwise.core.kvstore.objects.object_store import ObjectStore
from chunkwise.core.kvstore.objects.s3 import S3Bucket
from chunkwise.core.kvstore.request_limits import Limits, Retries, Slots

QUICK = {"max_retries": 3, "initial_delay": "20ms", "max_delay": "20ms"}


def stores(url: str, **retries: Any) -> list[dict[str, Any]]:
    """Return kvstores of each kind that can be told which server to ask."""
    s3 = {"driver": "s3", "bucket": "bucket", "endpoint": url, "aws_credentials": {"type": "anonymous"}}
    azure = {"driver": "azure", "container": "container", "account_name": "me", "endpoint": f"{url}/me"}
    kinds = {"s3": s3, "azure": azure, "http": {"driver": "http", "base_url": url}}
    if not retries:
        return list(kinds.values())
    return [{**spec, f"{kind}_request_retries": retries} for kind, spec in kinds.items()]


@pytest.fixture
def silent() -> Iterator[str]:
    """A server that takes connections and never says anything."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(100)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://nowhere.invalid"])
def test_a_server_that_is_not_there_is_soon_an_error(url: str, caplog: pytest.LogCaptureFixture) -> None:
    """With the 32 retries that are the default, which would take a quarter of an hour; all wait together."""
    caplog.set_level(logging.INFO, "chunkwise.retries")
    opened = [ts.KvStore.open(spec).result() for spec in stores(url)]
    requests = [store.read(f"read{number}") for number, store in enumerate(opened)]
    requests += [opened[0].list(), opened[0].write("sent in parts", bytes(1 << 25))]
    for request in requests:
        with pytest.raises(errors.UnavailableError, match=re.escape(url)):
            request.result()
    told = [record.getMessage() for record in caplog.records]
    for number in range(len(opened)):
        assert 0 < sum(f"read{number}" in line for line in told) < 5


def test_a_silent_server_is_given_the_request_timeout(silent: str) -> None:
    for spec in stores(silent, max_retries=0, request_timeout="200ms"):
        with pytest.raises(errors.DeadlineExceededError):
            ts.KvStore.open(spec).result().read("a").result()


def test_the_timeout_holds_for_a_server_that_has_answered(s3_bucket: S3Bucket, proxy: Any) -> None:
    """A value that was read before doesn't make a later request wait longer."""
    between = proxy(s3_bucket.endpoint)  # of its own: a request stays in it
    limits = Limits(Slots(), Retries(1, 0.02, 0.02, request_timeout=0.3))
    store = ObjectStore(replace(s3_bucket, endpoint=between.url), limits)
    store.write("k", b"v")
    assert store.read("k").value == b"v"
    between.set(delay=30)
    with pytest.raises(errors.DeadlineExceededError):
        store.read("k")


def test_a_timeout_is_a_span_of_time() -> None:
    for value in (10, "0s", "-1s", "inf", "soon"):
        with pytest.raises(errors.SpecError, match="request_timeout"):
            ts.Context({"s3_request_retries": {"request_timeout": value}})
    context = ts.Context({"http_request_retries": {"request_timeout": "1m"}})
    assert context["http_request_retries"].to_json() == {}
    context = ts.Context({"http_request_retries": {"request_timeout": "2m"}})
    assert context["http_request_retries"].to_json() == {"request_timeout": "2m"}
    assert "request_timeout" not in ts.Context()["s3_request_retries"].to_json(include_defaults=True)


def test_retries_are_told(s3_bucket: S3Bucket, between: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Each with the key, the cause and its number; the request that is answered in the end is right."""
    caplog.set_level(logging.INFO, "chunkwise.retries")
    store = ObjectStore(replace(s3_bucket, endpoint=between.url), Limits(Slots(), Retries(3, 0.02, 0.1)))
    store.write("k", b"v")
    between.set({"method": "GET", "path": "/k", "action": "503", "times": 2})
    assert store.read("k").value == b"v"
    told = caplog.records[-1].getMessage()
    assert f"{store.bucket.url('k')}: HTTP status 503; attempt 3 of 4" in told


def test_a_listing_goes_on_after_a_page_that_failed(s3: ObjectStore, between: Any) -> None:
    assert isinstance(s3.bucket, S3Bucket)
    keys = sorted(f"d/{i}" for i in range(1010))
    for key in keys:
        s3.write(key, b"")
    store = ObjectStore(replace(s3.bucket, endpoint=between.url), Limits(Slots(), Retries(3, 0.02, 0.1)))
    between.set({"method": "GET", "path": "continuation-token", "action": "500"})
    assert list(store.list()) == keys
    assert sum("list-type" in request for request in between.log()) == 3


def test_options_of_the_command_line(silent: str, capsys: pytest.CaptureFixture[str]) -> None:
    """They hold for the stores of one command, and retries are told on stderr."""
    status = main(["info", f"{silent}/a.zarr", "--retries", "1", "--request-timeout", "0.2"])
    err = capsys.readouterr().err
    assert status == 1 and "Read timed out" in err and "attempt 2 of 2" in err
    assert main(["info", "http://127.0.0.1:1/a.zarr", "--retries=0"]) == 1
    assert "attempt 2" not in capsys.readouterr().err
    assert ts.Context()["http_request_retries"].to_json() == {}
    for wrong in (["--retries", "-1"], ["--request-timeout", "soon"], ["--request-timeout", "0"]):
        assert main(["info", f"{silent}/a.zarr", *wrong]) == 2
        assert wrong[0] in capsys.readouterr().err
