"""Text without UTF-8: an error of this library in every entry that takes a path, a URL, a key or a name."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import chunkwise as ts
from chunkwise.errors import ChunkwiseError

LONE = ["\ud800", "a\udfffb", "\ud83d/x"]
ARRAY: dict[str, Any] = {"shape": [2], "dtype": "int32"}
ONCE = {"http_request_retries": {"max_retries": 0}, "s3_request_retries": {"max_retries": 0}}
S3 = {"driver": "s3", "bucket": "bucket", "endpoint": "http://127.0.0.1:1"}
S3["aws_credentials"] = {"type": "anonymous"}  # type: ignore[assignment]


def _kv(spec: Any) -> ts.KvStore:
    return ts.KvStore.open(spec, context=ts.Context(ONCE)).result()


def _commit(store: ts.KvStore, key: str) -> None:
    transaction = ts.Transaction()
    store.with_transaction(transaction)[key] = b""
    transaction.commit_sync()


KEYS: dict[str, Callable[[Any, str], object]] = {
    "read": lambda kv, text: kv.read(text).result(),
    "write": lambda kv, text: kv.write(text, b"").result(),
    "get": lambda kv, text: kv[text],
    "set": lambda kv, text: kv.__setitem__(text, b""),
    "delete": lambda kv, text: kv.__delitem__(text),
    "in": lambda kv, text: text in kv,
    "below": lambda kv, text: (kv / text)["x"],
    "list from": lambda kv, text: kv.list(ts.KvStore.KeyRange(text, "")).result(),
    "list to": lambda kv, text: kv.list(ts.KvStore.KeyRange("a", text)).result(),
    "delete_range": lambda kv, text: kv.delete_range(ts.KvStore.KeyRange(text, "")).result(),
    "commit": _commit,
}
PLACES: dict[str, Callable[[str, str], object]] = {
    "URL": lambda d, text: _kv(f"file://{d}/{text}/")["x"],
    "memory URL": lambda d, text: _kv(f"memory://{text}/")["x"],
    "path": lambda d, text: _kv({"driver": "file", "path": f"{d}/{text}/"})["x"],
    "spec": lambda d, text: ts.KvStore.Spec({"driver": "file", "path": f"{d}/{text}"}).url,
    "zip": lambda d, text: _kv(f"file://{d}/z.zip|zip:{text}")["x"],
    "ocdbt": lambda d, text: _kv(f"file://{d}/o/|ocdbt:{text}")["x"],
    "cache": lambda d, text: _kv({"driver": "cache", "base": "memory://", "directory": f"{d}/{text}"}),
    "http": lambda d, text: _kv(f"http://127.0.0.1:1/{text}")["x"],
    "http user": lambda d, text: _kv(f"http://{text}@127.0.0.1:1/")["x"],
    "http header": lambda d, text: _kv(
        {"driver": "http", "base_url": "http://127.0.0.1:1", "headers": [f"Accept: {text}"]}
    )["x"],
    "s3": lambda d, text: _kv({**S3, "path": text})["x"],
    "s3 bucket": lambda d, text: _kv(f"s3://{text}/")["x"],
    "s3 region": lambda d, text: _kv({**S3, "aws_region": text})["x"],
    "gcs": lambda d, text: _kv(f"gs://bucket/{text}").url,
    "open": lambda d, text: ts.open(
        {"driver": "zarr3", "kvstore": f"file://{d}/{text}/"}, create=True, **ARRAY
    ).result(),
    "open path": lambda d, text: ts.open(
        {"driver": "zarr3", "kvstore": f"file://{d}/", "path": text}, create=True, **ARRAY
    ).result(),
    "open text": lambda d, text: ts.open(f"{d}/{text}").result(),
    "pipeline": lambda d, text: ts.open(f"file://{d}/a/|zarr3:{text}").result(),
    "driver": lambda d, text: ts.open({"driver": text}).result(),
    "group": lambda d, text: ts.open_group(f"{d}/{text}", mode="w"),
    "group read": lambda d, text: ts.open_group(f"{d}/{text}", mode="r"),
    "group path": lambda d, text: ts.open_group(Path(d) / text, mode="a"),
    "array": lambda d, text: ts.create_array(f"{d}/{text}", **ARRAY),
}
CHILDREN: dict[str, Callable[[Any, str], object]] = {
    "create_group": lambda group, text: group.create_group(text),
    "require_group": lambda group, text: group.require_group(text),
    "create_array": lambda group, text: group.create_array(text, **ARRAY),
    "item": lambda group, text: group[text],
    "delete": lambda group, text: group.__delitem__(text),
    "move from": lambda group, text: group.move(text, "x"),
    "move to": lambda group, text: group.move("there", text),
    "link": lambda group, text: group.create_link(text, "there"),
    "link target": lambda group, text: group.create_link("link", text),
    "link source": lambda group, text: group.create_link("link", "x", source=text),
}


def _check(act: Callable[[], object]) -> None:
    with pytest.raises((ChunkwiseError, KeyError)) as caught:  # there is no such child
        act()
    assert not isinstance(caught.value, UnicodeError)


@pytest.mark.each_once
@pytest.mark.parametrize("text", LONE)
@pytest.mark.parametrize("entry", KEYS)
@pytest.mark.parametrize("place", ["file", "memory", "zip", "ocdbt", "http", "s3"])
def test_keys(tmp_path: Path, place: str, entry: str, text: str) -> None:
    stores = {
        "file": f"file://{tmp_path}/",
        "memory": "memory://",
        "zip": f"file://{tmp_path}/a.zip|zip:",
        "ocdbt": f"file://{tmp_path}/o/|ocdbt:",
        "http": "http://127.0.0.1:1/",
        "s3": S3,
    }
    _check(lambda: KEYS[entry](_kv(stores[place]), text))


@pytest.mark.each_once
@pytest.mark.parametrize("text", LONE)
@pytest.mark.parametrize("entry", PLACES)
def test_places(tmp_path: Path, entry: str, text: str) -> None:
    _check(lambda: PLACES[entry](str(tmp_path), text))


@pytest.mark.each_once
@pytest.mark.parametrize("text", LONE)
@pytest.mark.parametrize("format", ["zarr3", "zarr2", "n5"])
@pytest.mark.parametrize("place", ["file", "memory"])
def test_children(tmp_path: Path, place: str, format: Any, text: str) -> None:
    where = str(tmp_path / "g") if place == "file" else _kv("memory://g/")
    group = ts.open_group(where, mode="w", format=format)
    group.create_group("there")
    for act in CHILDREN.values():
        _check(lambda act=act: act(group, text))  # type: ignore[misc]
    for act in (lambda: text in group, lambda: group.get(text)):  # which may be without an error
        with suppress(ChunkwiseError):
            assert not act()
    assert list(group) == ["there"]
