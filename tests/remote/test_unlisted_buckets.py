"""Buckets that may not be listed, where a missing key is refused: usual for public data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chunkwise as ts
from chunkwise import errors
from chunkwise.cli.main import main
from chunkwise.core.kvstore.objects.object_store import ObjectStore
from chunkwise.core.kvstore.objects.s3 import S3Bucket

DATA = np.arange(16, dtype=np.uint16).reshape(4, 4)
MISSING = {"driver": "s3", "denied_is_missing": True}


@pytest.fixture(params=["zarr3", "zarr2", "n5"])
def place(request: Any, s3: ObjectStore, between: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """A group with an array that has all its chunks, and one that has half of them."""
    assert isinstance(s3.bucket, S3Bucket)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", between.url)
    place = f"s3://{s3.bucket.bucket}/g"
    group = ts.create_group(place, format=request.param, attributes={"title": "t"})
    group.create_array("x", DATA, chunks=(2, 2), attributes={"note": "m"})
    array = group.create_array("half", shape=(4, 4), chunks=(2, 2), dtype="uint16")
    array[:2].write(DATA[:2]).result()
    between.set(hide_missing=True)
    return place


READERS: dict[str, Callable[[str], Any]] = {
    "open": lambda place: ts.open(f"{place}/x").result().read().result(),
    "open_array": lambda place: ts.open_array(f"{place}/x").read().result(),
    "read": lambda place: ts.read(f"{place}/x"),
    "open_group": lambda place: ts.open_group(place)["x"].read().result(),
}


@pytest.mark.parametrize("reader", READERS)
def test_what_is_there_is_read(place: str, reader: str) -> None:
    np.testing.assert_array_equal(READERS[reader](place), DATA)


def test_commands(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", f"{place}/x"]) == 0
    assert main(["verify", f"{place}/x"]) == 0
    assert main(["verify", f"{place}/half"]) == 1
    assert main(["info", f"{place}/none"]) == 1
    assert "may not be listed" in capsys.readouterr().err


def test_a_missing_chunk(place: str) -> None:
    """It is an error, unless the spec says what a refusal means."""
    bucket, _, path = place.removeprefix("s3://").partition("/")
    with pytest.raises(errors.PermissionDeniedError, match="may not be listed"):
        ts.open(f"{place}/half").result().read().result()
    spec = {**MISSING, "bucket": bucket, "path": f"{path}/half/"}
    array = ts.open({"driver": "auto", "kvstore": spec}).result()
    np.testing.assert_array_equal(array.read().result(), [*DATA[:2], [0] * 4, [0] * 4])
    assert array.kvstore is not None and array.kvstore.spec().to_json()["denied_is_missing"] is True
    with pytest.raises(errors.FailedPreconditionError):
        ts.open({"driver": "auto", "kvstore": {**spec, "path": f"{path}/none/"}}).result()


def test_a_web_server(tmp_path: Path) -> None:
    from test_servers_as_they_are import served

    ts.create_array(tmp_path / "a", DATA, chunks=(2, 2))
    (tmp_path / "a/c/1/1").unlink()

    def change(handler: Any, wanted: str, body: bytes | None) -> bool:
        if body is None:
            handler.send(403, b"")
        return body is None

    with served(tmp_path, change) as url:
        with pytest.raises(errors.PermissionDeniedError):
            ts.open(f"{url}/a|zarr3:").result().read().result()
        spec = {"driver": "http", "base_url": f"{url}/a/", "denied_is_missing": True}
        found = ts.open({"driver": "zarr3", "kvstore": spec}).result().read().result()
        assert found[2:, 2:].tolist() == [[0, 0], [0, 0]] and found[:2].tolist() == DATA[:2].tolist()
