"""``storage_options``: what fsspec's users write, in the words of specs, or an error that says what to do."""

from __future__ import annotations

import re
from typing import Any

import dask.array
import pytest
import xarray

import chunkwise
from chunkwise.core.specs.storage_options import with_storage_options
from chunkwise.errors import InvalidArgumentError

MEMBERS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("s3://bucket/a.zarr", {"anon": True}, {"aws_credentials": {"type": "anonymous"}}),
    ("s3://bucket/a.zarr", {"endpoint_url": "http://h:9"}, {"endpoint": "http://h:9"}),
    (
        "s3://bucket/a.zarr",
        {"client_kwargs": {"endpoint_url": "http://h:9", "region_name": "eu-west-3"}},
        {"endpoint": "http://h:9", "aws_region": "eu-west-3"},
    ),
    ("s3://bucket/a.zarr", {"profile": "lab"}, {"aws_credentials": {"type": "profile", "profile": "lab"}}),
    ("s3://bucket/a.zarr", {"requester_pays": True}, {"requester_pays": True}),
    ("az://container/a.zarr", {"account_name": "lab", "anon": True}, {"account_name": "lab"}),
    ("https://h/a.zarr", {"headers": {"X-A": "b"}}, {"headers": ["X-A: b"]}),
]


@pytest.mark.parametrize(("url", "options", "members"), MEMBERS)
def test_members(url: str, options: dict[str, Any], members: dict[str, Any]) -> None:
    found = with_storage_options(url, options)["kvstore"]
    assert {**found, **members} == found
    chunkwise.KvStore.Spec(found)  # all of it is known


def test_archives_have_them_in_their_store() -> None:
    found = with_storage_options("s3://bucket/a.zip|zip:b/", {"anon": True})
    kvstore = found.get("kvstore", found)
    assert kvstore["driver"] == "zip" and kvstore["base"]["aws_credentials"] == {"type": "anonymous"}


@pytest.mark.parametrize("nothing", [None, {}, {"anon": False}, {"client_kwargs": {}}])
def test_nothing_is_needed(nothing: Any) -> None:
    assert with_storage_options("s3://bucket/a.zarr", nothing) == "s3://bucket/a.zarr"
    for url, how in (("gs://bucket/a", {"token": "anon"}), ("https://h/a", {"anon": True})):
        assert with_storage_options(url, how) == url  # nothing else asks for credentials unless it is told


ENTRIES: dict[str, Any] = {
    "open": lambda place, **o: chunkwise.open(place, **o).result(),
    "open_group": lambda place, **o: chunkwise.open_group(place, **o),
    "create_group": lambda place, **o: chunkwise.create_group(place, **o),
    "create_array": lambda place, **o: chunkwise.create_array(place, [1], **o),
    "open_array": lambda place, **o: chunkwise.open_array(place, **o),
    "read": lambda place, **o: chunkwise.read(place, **o),
    "copy": lambda place, **o: chunkwise.copy(place, "/local/b", **o),
    "copy to": lambda place, **o: chunkwise.copy("/local/b", place, **o),
    "plan_copy": lambda place, **o: chunkwise.plan_copy(place, "/local/b", **o),
    "copy_tree": lambda place, **o: chunkwise.copy_tree(place, "/local/b", **o),
    "diff": lambda place, **o: chunkwise.diff(place, "/local/b", **o),
    "verify": lambda place, **o: chunkwise.verify(place, **o),
    "from_dask": lambda place, **o: chunkwise.from_dask(dask.array.zeros(3), place, **o),
    "open_dataset": lambda place, **o: xarray.open_dataset(place, engine="chunkwise", **o),
    "write_dataset": lambda place, **o: chunkwise.xarray.write_dataset(xarray.Dataset(), place, **o),
}
REFUSED: list[tuple[str, Any, str]] = [
    ("s3://bucket/a", {"key": "k", "secret": "s"}, '"key" is a secret.*AWS_ACCESS_KEY_ID'),
    ("s3://bucket/a", {"token": "t"}, '"token" is a secret'),
    ("gs://bucket/a", {"token": "/key.json"}, '"token" is a secret.*GOOGLE_APPLICATION_CREDENTIALS'),
    ("az://container/a", {"account_key": "k"}, '"account_key" is a secret.*AZURE_STORAGE_ACCOUNT_KEY'),
    ("s3://bucket/a", {"endpoint": "http://h"}, '"endpoint" is not known for s3.*endpoint_url'),
    ("/local/a", {"anon": True}, r"storage_options \\['anon'\\]: they go with a URL, not with /local/[ab]"),
    ("s3://bucket/a", ["anon"], "storage_options: expected a dict, not list"),
]


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize(("place", "options", "text"), REFUSED, ids=lambda value: str(value)[:40])
def test_what_has_no_meaning_is_refused(entry: str, place: str, options: Any, text: str) -> None:
    """By every entry, before anything is asked."""
    with pytest.raises(InvalidArgumentError, match=text.replace("\\\\", "\\")):
        ENTRIES[entry](place, storage_options=options)


@pytest.mark.parametrize(
    ("url", "note"),
    [
        ("s3a://bucket/x", "did you mean s3?"),
        ("gcs://bucket/x", "did you mean gs?"),
        ("hdfs://h/x", "fsspec.get_mapper(URL)"),
        ("s3://bucket/a#b", "%23"),
        ("https://h/a.zarr#mode=bytes", "|zarr3:"),
        ("file:///a#b", "%23"),
    ],
)
@pytest.mark.parametrize("entry", ["open", "open_group"])
def test_urls_of_others_say_what_to_write(entry: str, url: str, note: str) -> None:
    with pytest.raises(InvalidArgumentError) as e:
        ENTRIES[entry](url)
    assert re.search(re.escape(note), "\n".join(e.value.__notes__))


@pytest.mark.parametrize("url", ["s3://bucket/a", "simplecache::s3://bucket/a", "zip::s3://bucket/a.zip"])
def test_options_by_protocol(url: str) -> None:
    """As fsspec takes those of a chain; options of other parts, and mixtures, are refused."""
    plain, named = (
        with_storage_options(url, options) for options in ({"anon": True}, {"s3": {"anon": True}})
    )
    assert plain == named != url
    for options, words in (
        ({"gs": {"token": "anon"}}, '"gs" is not part of the URL; .*s3'),
        ({"s3": {"anon": True}, "anon": True}, '"anon" is not part of the URL'),
        ({"s3": {"key": "k"}}, '"key" is a secret'),
        ({"s3": {"use_ssl": False}}, '"use_ssl" is not known for s3'),
        ({"use_ssl": False}, '"use_ssl" is not known for s3'),
    ):
        with pytest.raises(InvalidArgumentError, match=words):
            with_storage_options(url, options)
    if "simplecache" in url:
        with pytest.raises(InvalidArgumentError, match="simplecache takes none; give those of s3 only"):
            with_storage_options(url, {"simplecache": {"cache_storage": "/tmp/x"}})
