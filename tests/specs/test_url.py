"""URLs mean what they mean to TensorStore, and the specs have the URLs that they have there."""

import os

import pytest
import tensorstore
from hypothesis import given
from hypothesis import strategies as st

import chunkwise
from chunkwise.core.specs.url import (
    is_url,
    kvstore_json_from_url,
    parse_url,
    quote_path,
    spec_json_from_path,
    spec_json_from_url,
)


def said(make, url):
    """Return what a URL means and its canonical form, or what is wrong with it."""
    try:
        spec = make(url)
        members = spec.to_json()
    except (ValueError, NotImplementedError) as e:
        return str(e).split(" [")[0].replace("position -1", "position 1")
    members.pop("transform", None)
    return members, spec.url


KVSTORES = (
    "memory:// memory://a%20b%20c memory://x|n5: memory://x|memory:// zip:x n5: memory://|foo: memory://| "
    "|memory:// memory://a%zz memory://%41 memory://%ff memory://é MEMORY://x memory://x|ZIP: foo:// foo "
    "/tmp/x memory: memory:x memory:/x memory:///x memory://x?y memory://x#y memory://x? memory://x# "
    "file://localhost/x file://host/x file:x file:// file:/// file:///x?y file:///x#y file:///x/../y "
    "file:///x%2e%2e/y file:///x//y file:///a/./b file:///a/.. file:///a/. file:///a/b/../ file:///.. "
    "file:///../x file:///a%2f..%2fb file:///a/./ file:///a// memory://x|zip:y?z memory://x|zip:y#z "
    "memory://x|zip://y memory://x|y|z memory://a|cast:int8 memory://%00 memory://a/../b memory://a%2fb "
    "memory://%C3%A9 memory://a%2 foo:x"
)


@pytest.mark.parametrize("url", [*KVSTORES.split(), "", " memory://x", "memory://a b"])
def test_kvstores(url):
    assert said(chunkwise.KvStore.Spec, url) == said(tensorstore.KvStore.Spec, url)


ARRAYS = (
    "memory://x memory://x| memory://x|n5 memory://x|n5: memory://x|n5:y memory://x|n5:y/ memory://x|n5:/y "
    "memory://x|n5://y memory://x/|n5:y/z memory://x|zarr: memory://x|zarr2: memory://x|zarr3:y "
    "memory://x|zarr2:y|zarr3: n5: cast:uint8 n5://x zarr3:x memory://x|n5:?a memory://x|n5:#a "
    "memory://x|auto: memory://x|auto memory://x|auto:y memory://x|n5:|zip: memory://x|n5:|memory:// "
    "memory://x|memory://y foo:// /tmp/x tmp/x memory:x file:///a%20b|n5: file://|n5 "
    "memory://x|cast:uint8|n5: memory://x|N5: memory://x|foo memory://x|n5:a%zz memory://x|n5:a%20b "
    "memory://x|n5:y|auto: memory://|n5: memory://|n5:y file:///a|n5:b zip: memory://x|n5:|cast:int8?x"
)


@pytest.mark.parametrize("url", [*ARRAYS.split(), ""])
def test_arrays(url):
    assert said(chunkwise.Spec, url) == said(tensorstore.Spec, url)


def test_adapters():
    below = {"driver": "n5", "kvstore": {"driver": "memory", "path": "x"}}
    assert spec_json_from_url("memory://x|n5:|cast:int8") == {
        "driver": "cast",
        "base": below,
        "dtype": "int8",
    }
    assert spec_json_from_url("memory://x|cast:int8")["base"]["driver"] == "auto"
    with pytest.raises(ValueError, match='component "cast:foo": Unsupported data type: "foo"'):
        spec_json_from_url("memory://x|n5:|cast:foo")
    zipped = {"driver": "zip", "base": {"driver": "memory", "path": "x"}, "path": "y"}
    assert kvstore_json_from_url("memory://x|zip:y") == zipped
    assert spec_json_from_url("memory://x|zip:y|n5:z") == {
        "driver": "n5",
        "kvstore": {**zipped, "path": "y/z"},
    }


def test_the_url_of_a_file_needs_no_authority(tmp_path):
    """RFC 8089 has both forms; TensorStore takes the longer one only."""
    assert chunkwise.KvStore.Spec("file:/a/b").url == "file:///a/b"
    assert chunkwise.Spec("file:/a|n5:b") == chunkwise.Spec("file:///a|n5:b")
    group = chunkwise.create_group(f"file:{tmp_path}/lab.zarr")
    assert chunkwise.open(
        f"file:{tmp_path}/lab.zarr/a|zarr3:", create=True, dtype="uint8", shape=[2]
    ).result()
    assert list(group) == ["a"] and (tmp_path / "lab.zarr" / "a" / "zarr.json").exists()


def test_the_root_directory_has_a_url():
    """TensorStore makes a relative path of it."""
    assert chunkwise.Spec("file:///|n5:").to_json() == {
        "driver": "n5",
        "kvstore": {"driver": "file", "path": "/"},
    }


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=20))
def test_paths_are_read_back(path):
    url = "memory://" + quote_path(path)
    assert url == tensorstore.KvStore.Spec({"driver": "memory", "path": path}).url
    assert kvstore_json_from_url(url).get("path", "") == path


def test_paths_that_are_not_text_have_no_url():
    store = chunkwise.KvStore.open({"driver": "memory", "path": "a\udcff"}).result()
    with pytest.raises(ValueError, match="Path is not valid UTF-8"):
        store.url
    with pytest.raises(ValueError, match="relative paths"):
        chunkwise.KvStore.Spec({"driver": "file", "path": "rel"}).url


def test_components():
    assert parse_url("memory://a|n5|cast:int8") == [
        ("memory://a", "memory", "//a"),
        ("n5:", "n5", ""),
        ("cast:int8", "cast", "int8"),
    ]
    assert is_url("memory://a") and not is_url("memory:a") and not is_url("/a://b") and not is_url("a/b")


def test_local_paths():
    auto = {"driver": "auto", "kvstore": {"driver": "file", "path": "/data/a b%20.zarr"}}
    assert spec_json_from_path("/data/a b%20.zarr") == auto
    assert spec_json_from_path("/data/x/|zarr3:y")["kvstore"]["path"] == "/data/x/y"
    assert spec_json_from_path("a/../b")["kvstore"]["path"] == os.path.join(os.getcwd(), "b")
    assert spec_json_from_path("~/x")["kvstore"]["path"] == os.path.expanduser("~/x")
    with pytest.raises(
        ValueError, match=r'Parsing spec from path: "/x\|foo:": unsupported URL scheme: "foo"'
    ):
        spec_json_from_path("/x|foo:")
    with pytest.raises(ValueError, match="path must be non-empty"):
        spec_json_from_path("|n5:")


@pytest.mark.parametrize("text", ["s3:bucket/x", "s3:/bucket/x", "file:data/x", "gs:x|zarr3:y", "memory:"])
def test_a_url_without_its_slashes_is_no_path(text, tmp_path, monkeypatch):
    """Else a tree would be written below a new directory ``s3:``."""
    monkeypatch.chdir(tmp_path)
    scheme = text.partition(":")[0]
    with pytest.raises(ValueError, match=f'expected "{scheme}://" at the beginning of a URL'):
        spec_json_from_path(text)
    assert spec_json_from_path("./" + text)["kvstore"]["path"].startswith(f"{tmp_path}/{scheme}:")


def test_what_there_is_may_have_any_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s3:").mkdir()
    (tmp_path / "s3:" / "x").mkdir()
    assert spec_json_from_path("s3:/x")["kvstore"]["path"] == f"{tmp_path}/s3:/x"
    assert spec_json_from_path("C:/x")["kvstore"]["path"].endswith("C:/x")
