"""Specs and URLs of OCDBT databases: the same as TensorStore's, and what is refused."""

from __future__ import annotations

import re
from typing import Any

import pytest
import tensorstore

import chunkwise as ts

BASE = {"driver": "ocdbt", "base": "file:///db"}
URLS = (
    "ocdbt: ocdbt ocdbt:a ocdbt:a/b/ ocdbt:@v3 ocdbt:@v3/ ocdbt:@v3/a ocdbt:@v03/a ocdbt:a/@v1/b ocdbt:a@v1/ "
    "ocdbt:%40v3/a ocdbt:/@v1/a ocdbt:@v1/@v2/ ocdbt:@v18446744073709551615/ ocdbt:@2020-01-01T00:00:00Z/a "
    "ocdbt:@2020-01-01T00:00:00.10Z/a ocdbt:@2020-01-01T00:00:00.123456789Z ocdbt:a?x ocdbt:a#x ocdbt:@v0/a "
    "ocdbt:@v18446744073709551616/ ocdbt:@v1%2Fb ocdbt:@v-1/ ocdbt:@v/"
)
SPECS: list[dict[str, Any]] = [
    {},
    *(
        {"config": config}
        for config in (
            {},
            {"uuid": "00112233445566778899AABBCCDDEEFF"},
            {"uuid": "x"},
            {"uuid": "00112233-4455-6677-8899-aabbccddeeff"},
            {"manifest_kind": "numbered"},
            {"manifest_kind": "single"},
            {"manifest_kind": "x"},
            {"max_inline_value_bytes": 0},
            {"max_inline_value_bytes": 1 << 20},
            {"max_inline_value_bytes": (1 << 20) + 1},
            {"max_inline_value_bytes": -1},
            {"max_decoded_node_bytes": 1},
            {"version_tree_arity_log2": 16},
            {"version_tree_arity_log2": 17},
            {"version_tree_arity_log2": 0},
            {"compression": None},
            {"compression": {"id": "zstd"}},
            {"compression": {"id": "zstd", "level": 0}},
            {"compression": {"id": "zstd", "level": -131072}},
            {"foo": 1},
            {"compression": {"id": "zstd", "level": 22}, "uuid": "0" * 32, "max_decoded_node_bytes": 1 << 31},
        )
    ),
    {"assume_config": True},
    {"assume_config": True, "config": {"max_inline_value_bytes": 1}},
    {"assume_config": 1},
    {"value_data_prefix": "x/", "btree_node_data_prefix": "b", "version_tree_node_data_prefix": "v/v"},
    {"value_data_prefix": ""},
    {"target_data_file_size": 0},
    {"target_data_file_size": 1 << 40},
    {"experimental_read_coalescing_threshold_bytes": 1, "experimental_read_coalescing_merged_bytes": 0},
    {"experimental_read_coalescing_interval": "1500us"},
    {"experimental_read_coalescing_interval": 1},
    {"version": 3},
    {"version": 0},
    {"version": 1.5},
    {"version": "2020-01-01T00:00:00Z"},
    {"version": "2020-01-01T00:00:00.5Z", "path": "@v1/a"},
    {"manifest": "file:///manifests"},
    {"manifest": {}},
    {"data_file_prefixes": "x"},
    {"cache_pool": {"total_bytes_limit": 5}, "data_copy_concurrency": "data_copy_concurrency#a"},
]


def outcomes(module: Any, spec: Any) -> list[str]:
    """Return text, URL and JSON of a spec, or what is raised instead."""
    out = []
    try:
        parsed = module.KvStore.Spec(spec)
    except ValueError as e:
        return [f"ValueError: {e}"]
    defaults = parsed.to_json(include_defaults=True)
    defaults.pop("coordinator", None)  # which there is none of here
    for what in (
        lambda: repr(parsed),
        lambda: parsed.url,
        lambda: defaults,
        lambda: (parsed / "x").to_json(),
        lambda: parsed.base,
    ):
        try:
            out.append(str(what()))
        except (NotImplementedError, ValueError) as e:
            out.append(f"{e}")
    return out


@pytest.mark.parametrize("url", URLS.split())
def test_urls(url: str) -> None:
    url = f"file:///db/|{url}"
    assert outcomes(ts, url) == outcomes(tensorstore, url)
    if not outcomes(ts, url)[0].startswith("ValueError"):
        spec = ts.KvStore.Spec(url)
        assert ts.KvStore.Spec(spec.url) == spec == ts.KvStore.Spec(spec.to_json())


@pytest.mark.parametrize("members", SPECS, ids=str)
def test_specs(members: dict[str, Any]) -> None:
    assert outcomes(ts, {**BASE, **members}) == outcomes(tensorstore, {**BASE, **members})


@pytest.mark.parametrize(
    "version",
    [
        "2020-01-01",
        "2020-01-01T00:00:00",
        "2020-13-01T00:00:00Z",
        "1960-01-01T00:00:00Z",
        "2300-01-01T00:00:00Z",
    ],
)
def test_times_that_are_none(version: str) -> None:
    for module in (ts, tensorstore):
        with pytest.raises(ValueError, match=r'"version": (Invalid OCDBT commit time|Cannot represent)'):
            module.KvStore.Spec({**BASE, "version": version})
    with pytest.raises(ValueError, match=re.escape(f'Invalid OCDBT version: "{version}"')):
        ts.KvStore.Spec(f"memory://|ocdbt:@{version}/")


def test_the_coordinator_is_refused() -> None:
    """By name, in the spec and in the context; that there is none can be said."""
    message = "the coordinator of OCDBT is not supported: each process commits for itself"
    for value in ({"address": "localhost:1"}, {"lease_duration": "1s"}):
        with pytest.raises(NotImplementedError, match=message):
            ts.KvStore.Spec({**BASE, "coordinator": value})
    with pytest.raises(NotImplementedError, match=message):
        ts.KvStore.Spec({**BASE, "coordinator": "ocdbt_coordinator#a"})
    with pytest.raises(
        NotImplementedError, match='resource "ocdbt_coordinator" is not supported: each process'
    ):
        ts.Context({"ocdbt_coordinator": {"address": "localhost:1"}})
    assert ts.KvStore.Spec({**BASE, "coordinator": {}}) == ts.KvStore.Spec(BASE)


def test_open_kvstores() -> None:
    context = ts.Context(
        {"cache_pool": {"total_bytes_limit": 1 << 30}, "data_copy_concurrency": {"limit": 1}}
    )
    spec = {"driver": "ocdbt", "base": "memory://db/", "manifest": "memory://m/", "path": "a/"}
    kv = ts.KvStore.open(spec, context=context).result()
    kv["k"] = bytes(1000)
    assert kv["k"] == bytes(1000) and kv.list().result() == [b"k"]
    below = ts.KvStore.open("memory://", context=context).result()
    assert {key[:2] for key in below.list().result()} == {b"db", b"m/"}
    assert kv.base is not None and kv.base.path == "db/"
    assert kv.spec().to_json()["manifest"] == {"driver": "memory", "path": "m/"}
    assert ts.KvStore.open(kv.spec(retain_context=True)).result()["k"] == bytes(1000)
