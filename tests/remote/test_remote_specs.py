"""Specs and URLs of remote kvstores and adapters, as TensorStore has them."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import tensorstore

import chunkwise as ts
from chunkwise import errors

S3 = {"driver": "s3", "bucket": "bkt"}
SAME: list[Any] = [
    S3,
    {
        **S3,
        "path": "a/b",
        "aws_region": "us-east-1",
        "endpoint": "http://localhost:9000",
        "requester_pays": True,
        "host_header": "h",
        "aws_credentials": {"type": "anonymous"},
    },
    {**S3, "s3_request_concurrency": {"limit": 3}, "s3_request_retries": {"max_retries": 3}},
    {**S3, "path": "a//b"},
    {**S3, "experimental_s3_rate_limiter": {"read_rate": 5}},
    {"driver": "s3", "endpoint": "http://x"},
    {**S3, "foo": 1},
    {**S3, "host_header": "q"},
    *(
        {"driver": "s3", "bucket": name}
        for name in ("", "B_", "ab", "a..b", "192.168.1.1", "xn--abc", "a.b-c")
    ),
    *(
        {"driver": "s3", "bucket": name}
        for name in ("abc-s3alias", "a" * 63, "a" * 64, "a-.b", "-abc", "abc-")
    ),
    "s3://bkt/a/b",
    "s3://bkt",
    "s3://bkt/",
    "s3://bkt/a%20b",
    "s3://B/",
    "s3://",
    "s3://bkt/a?x=1",
    "s3://bkt/a#x",
    {"driver": "gcs", "bucket": "bkt", "path": "x"},
    {"driver": "gcs", "bucket": "abc", "gcs_user_project": {"project_id": "p"}},
    {"driver": "gcs"},
    *({"driver": "gcs", "bucket": name} for name in ("a", "a_b.c", "-bc", "goog", "a..b")),
    "gs://bkt/a",
    "gs://bkt",
    "gs://Bkt/a",
    "gs://",
    "gcs://bkt/a",
    {"driver": "http", "base_url": "http://example.com/a/b"},
    {"driver": "http", "base_url": "http://example.com?q=1", "path": "/a"},
    {"driver": "http", "base_url": "http://example.com/x?q=1", "path": "a"},
    {"driver": "http", "base_url": "ftp://x"},
    {"driver": "http", "base_url": "http://x#f"},
    {"driver": "http"},
    {"driver": "http", "base_url": "http://x", "headers": ["Accept: b"]},
    {"driver": "http", "base_url": "http://x", "headers": ["ab"]},
    {"driver": "http", "base_url": "http://x", "headers": "x"},
    {"driver": "http", "base_url": "http://x", "path": "a?b"},
    "http://example.com/a/b?q=1",
    "https://example.com",
    "http://example.com/",
    "http://example.com/a%20b",
    "http://example.com/a#f",
    "http://example.com:80/a",
    "memory://a.zip|zip:b/c",
    "file:///a.zip|zip:",
    "memory://a.zip|zip",
    {"driver": "zip", "base": "memory://a.zip", "path": "x"},
    {"driver": "zip"},
    {"driver": "zip", "base": {"driver": "memory", "path": "q"}, "cache_pool": "cache_pool#x", "path": "/a"},
    {"driver": "zip", "base": "memory://a", "compression": "stored"},
    {"driver": "kvstack", "layers": [{"base": "memory://"}]},
    {
        "driver": "kvstack",
        "layers": [
            {"base": "memory://", "prefix": "a/"},
            {"base": {"driver": "memory", "path": "z"}, "exact": "b"},
        ],
    },
    {"driver": "kvstack", "layers": []},
    {"driver": "kvstack"},
    *(
        {"driver": "kvstack", "layers": [{"base": "memory://", **keys}], "path": "p"}
        for keys in (
            {"prefix": "a", "exact": "b"},
            {"prefix": "a", "strip_prefix": 3},
            {"prefix": "a", "strip_prefix": 0},
            {"inclusive_min": "a", "exclusive_max": "c"},
            {"inclusive_min": "a", "exclusive_max": "c", "strip_prefix": 1},
            {"inclusive_min": "b", "exclusive_max": "a"},
            {"inclusive_min": "c", "exclusive_max": "ccc"},
            {"exclusive_max": "a", "exact": "b"},
            {"exact": "abc", "strip_prefix": 1},
            {"prefix": ""},
            {"foo": 1},
        )
    ),
    {"driver": "kvstack", "layers": [{"prefix": "a"}]},
]


def outcomes(module: Any, spec: Any) -> list[str]:
    """Return text, URL and JSON of a spec, or what is raised instead."""
    out = []
    try:
        parsed = module.KvStore.Spec(spec)
    except ValueError as e:
        return [f"ValueError: {e}"]
    for what in (
        lambda: repr(parsed),
        lambda: parsed.url,
        lambda: parsed.to_json(include_defaults=True),
        lambda: (parsed / "x").to_json(),
        lambda: parsed.base,
    ):
        try:
            out.append(str(what()))
        except NotImplementedError as e:
            out.append(f"NotImplementedError: {e}")
    return out


@pytest.mark.parametrize("spec", SAME, ids=str)
def test_specs_are_tensorstores(spec: Any) -> None:
    """Text, URL, JSON with defaults, children, base and errors are the same."""
    assert outcomes(ts, spec) == outcomes(tensorstore, spec)


@pytest.mark.parametrize(
    ("url", "json"),
    [
        ("az://abc/x/y", {"driver": "azure", "container": "abc", "path": "x/y"}),
        (
            "abfs://abc@me.dfs.core.windows.net/x",
            {"driver": "azure", "container": "abc", "account_name": "me", "path": "x"},
        ),
        ("abfss://abc@me/x", {"driver": "azure", "container": "abc", "account_name": "me", "path": "x"}),
    ],
)
def test_azure_urls(url: str, json: dict[str, Any]) -> None:
    """URLs of Azure mean specs, which have URLs that mean the same."""
    spec = ts.KvStore.Spec(url)
    assert spec.to_json() == json
    assert ts.KvStore.Spec(spec.url).to_json() == json


@pytest.mark.parametrize("url", ["az://A/x", "az://a--b/x", "abfs://abc@me.example.com/x", "az://abc/x?y=1"])
def test_wrong_azure_urls(url: str) -> None:
    """A container that can't be, or another host, is an error with the URL."""
    with pytest.raises(ValueError, match="Parsing spec from url"):
        ts.KvStore.Spec(url)


OPENED: list[Any] = [
    {"driver": "s3", "bucket": "bkt"},
    {"driver": "s3", "bucket": "bkt", "aws_credentials": {"type": "anonymous"}, "path": "x"},
    {"driver": "http", "base_url": "http://127.0.0.1:1", "http_request_retries": {"max_retries": 1}},
    {"driver": "gcs", "bucket": "bkt"},
    {"driver": "zip", "base": "memory://a.zip"},
    {
        "driver": "kvstack",
        "layers": [
            {"base": "memory://x/"},
            {"base": "memory://q/", "prefix": "b"},
            {"base": {"driver": "memory", "path": "z"}, "exact": "e"},
        ],
        "path": "p",
    },
    {
        "driver": "kvstack",
        "layers": [
            {"base": "memory://x/", "inclusive_min": "a", "exclusive_max": "d"},
            {"base": "memory://q/", "prefix": "b"},
            {"base": {"driver": "memory", "path": "z"}, "exact": "ccc"},
        ],
    },
]


@pytest.mark.parametrize("spec", OPENED, ids=str)
def test_open_stores_are_shown_as_tensorstores(spec: Any) -> None:
    """The text of an open store, with its context, is the same; so is the spec that keeps the context."""
    ours, theirs = (m.KvStore.open(spec).result() for m in (ts, tensorstore))
    assert repr(ours) == repr(theirs)
    assert repr(ours.spec(retain_context=True)) == repr(theirs.spec(retain_context=True))
    assert repr(ours.spec()) == repr(theirs.spec())


def test_stack_as_tensorstore() -> None:
    """Keys of a stack go where TensorStore puts them."""
    spec = OPENED[-1]
    found = []
    for module in (ts, tensorstore):
        context = module.Context()
        stack = module.KvStore.open(spec, context=context).result()
        below = module.KvStore.open("memory://", context=context).result()
        for key in ("ba", "ccc", "c", "az", "b"):
            stack[key] = b"v" + key.encode()
        with pytest.raises(ValueError, match='Key not found in any layers: "other"'):
            stack["other"] = b""
        outside = stack.read("other").result()
        rows = [
            sorted(below.list().result()),
            sorted(stack.list().result()),
            (outside.state, outside.stamp.time),
        ]
        keys = module.KvStore.KeyRange("b", "ccd")
        rows += [sorted(stack.list(keys).result()), stack["ccc"]]
        stack.delete_range(keys).result()
        rows.append(sorted(below.list().result()))
        found.append(rows)
    assert found[0] == found[1]


def test_tensorstore_reads_our_bucket(s3_bucket: Any) -> None:
    """What is written to a bucket here TensorStore reads there, and the reverse; generations agree."""
    spec = {
        "driver": "zarr3",
        "kvstore": {
            "driver": "s3",
            "bucket": s3_bucket.bucket,
            "endpoint": s3_bucket.endpoint,
            "aws_region": "us-east-1",
            "path": "a/",
        },
    }
    ours = ts.open(spec, create=True, dtype=ts.int32, shape=[6, 6]).result()
    ours[...].write(7).result()
    theirs = tensorstore.open(spec).result()
    assert (theirs.read().result() == 7).all()
    theirs[2:4, 2:4].write(9).result()
    assert ours[2:4, 2:4].read().result().sum() == 36
    generations = {
        module.KvStore.open(spec["kvstore"]).result().read("zarr.json").result().stamp.generation
        for module in (ts, tensorstore)
    }
    assert len(generations) == 1


@pytest.mark.parametrize("kind", ["single", "numbered"])
def test_databases_in_a_bucket(s3_bucket: Any, kind: str) -> None:
    """Commits of several writers at once are all there, and TensorStore reads them."""
    base = {"driver": "s3", "bucket": s3_bucket.bucket, "endpoint": s3_bucket.endpoint, "path": f"db-{kind}/"}
    base["aws_region"] = "us-east-1"
    spec = {"driver": "ocdbt", "base": base, "config": {"manifest_kind": kind}}
    stores = [ts.KvStore.open(spec, context=ts.Context()).result() for _ in range(3)]
    futures = [stores[i % 3].write(f"k{i}", b"%d" % i * 200) for i in range(30)]
    for future in futures:
        future.result()
    theirs = tensorstore.KvStore.open(spec).result()
    assert {key.decode(): theirs[key] for key in theirs.list().result()} == {
        f"k{i}": b"%d" % i * 200 for i in range(30)
    }
    array = ts.open({"driver": "zarr3", "kvstore": spec}, create=True, dtype=ts.uint8, shape=[9, 9]).result()
    array[3:5] = 7
    assert tensorstore.open({"driver": "zarr3", "kvstore": spec}).result().read().result().sum() == 7 * 18


def test_tensorstore_reads_our_archive(tmp_path: Any) -> None:
    """An archive that was written member by member is read by TensorStore and zipfile."""
    import zipfile

    url = f"file://{tmp_path}/x.zip|zip:a/"
    ours = ts.open({"driver": "zarr3", "kvstore": url}, create=True, dtype=ts.int32, shape=[6, 6]).result()
    ours[...].write(7).result()
    ours[2:4, 2:4].write(9).result()
    theirs = tensorstore.open({"driver": "zarr3", "kvstore": url}).result()
    assert theirs.read().result().sum() == 7 * 36 + 8
    assert zipfile.ZipFile(tmp_path / "x.zip").testzip() is None


WORDS = ("", "a", "b", "aa", "ab", "ac", "abc", "abd", "bb", "ac0", "ba/", "b/", "a\x7f", "a\0")


def test_a_range_in_a_kvstack_holds_each_key_where_tensorstore_puts_it_or_is_refused() -> None:
    """Without ``strip_prefix`` TensorStore takes the same bytes off all keys, even where they differ."""
    refused = 0
    for low, high in itertools.product(WORDS, WORDS):
        keys = {name: word for name, word in (("inclusive_min", low), ("exclusive_max", high)) if word}
        if high and low >= high:
            continue
        found: list[dict[bytes, bytes] | None] = []
        for module in (tensorstore, ts):
            context = module.Context()
            spec = {"driver": "kvstack", "layers": [{"base": "memory://x/", **keys}]}
            try:
                store = module.KvStore.open(spec, context=context).result()
            except errors.InvalidArgumentError as e:
                assert "Expected strip_prefix for range" in str(e)
                found.append(None)
                continue
            for word in WORDS:
                if low <= word and (not high or word < high):
                    store[word] = word
            base = module.KvStore.open("memory://", context=context).result()
            found.append({key: base[key] for key in base.list().result()})
        if found[1] is None:
            refused += 1
            layer = {"base": {"driver": "memory", "path": "x/"}, **keys, "strip_prefix": 0}
            explicit = {"driver": "kvstack", "layers": [layer]}
            assert ts.KvStore.Spec(explicit).to_json() == explicit
        else:
            assert found[0] == found[1], keys
    assert refused > 3
