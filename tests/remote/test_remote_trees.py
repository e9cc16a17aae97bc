"""Trees on remote storage: how many requests they take, and what can't be known without a listing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import chunkwise as ts

VALUES = np.arange(12, dtype="i4").reshape(3, 4)


def make_tree(root: Path, zarr_format: Any, *, consolidated: bool) -> None:
    """Write a tree of ten arrays in groups with zarr-python."""
    group = zarr.create_group(str(root), zarr_format=zarr_format, attributes={"made": "here"})
    for i in range(10):
        array = group.create_array(f"g{i % 3}/a{i}", data=VALUES + i, chunks=(2, 2))
        array.attrs["number"] = i
    if consolidated:
        zarr.consolidate_metadata(str(root), zarr_format=zarr_format)


@pytest.fixture
def web(tmp_path: Path, run_server: Callable[..., str], proxy: Callable[[str], Any]) -> Any:
    return proxy(run_server("http_server.py", str(tmp_path)))


@pytest.mark.filterwarnings("ignore:Consolidated metadata")
@pytest.mark.parametrize(("zarr_format", "key"), [(3, "zarr.json"), (2, ".zmetadata")])
def test_consolidated_tree_is_one_request(web: Any, tmp_path: Path, zarr_format: int, key: str) -> None:
    """Opening takes one request of 20 ms; groups, arrays and attributes are known then."""
    make_tree(tmp_path / "t", zarr_format, consolidated=True)
    web.set(delay=0.02)
    tree = ts.open_group(f"{web.url}/t/", format=f"zarr{zarr_format}")
    assert web.log() == [f"GET /t/{key}"]
    paths = [path for path, _ in tree.walk()]
    assert len(paths) == 13 and paths[0] == "g0" and "g1/a7" in paths
    arrays = [tree[f"g{i % 3}/a{i}"] for i in range(10)]
    assert [array.attrs["number"] for array in arrays] == list(range(10)) and tree.attrs["made"] == "here"
    assert arrays[7].explain().requests.n_requests == 4
    assert len(web.log()) == 1
    np.testing.assert_array_equal(arrays[7].read().result(), VALUES + 7)
    assert len(web.log()) == 5


def test_tree_that_can_not_be_listed(web: Any, tmp_path: Path) -> None:
    """Without consolidated metadata nodes are found by their names, and listing says that it can't."""
    make_tree(tmp_path / "t", 3, consolidated=False)
    tree = ts.open_group(f"{web.url}/t/")
    np.testing.assert_array_equal(tree["g1/a7"].read().result(), VALUES + 7)
    assert "g1/none" not in tree
    with pytest.raises(NotImplementedError, match="does not support listing"):
        list(tree)


@pytest.mark.filterwarnings("ignore:Consolidated metadata")
def test_tree_in_a_bucket(moto: str, s3_bucket: Any, proxy: Callable[[str], Any], tmp_path: Path) -> None:
    """The same on S3, where it can be listed too; another process's consolidated tree is read back."""
    make_tree(tmp_path / "t", 3, consolidated=True)
    store = ts.KvStore.open({"driver": "s3", "bucket": s3_bucket.bucket, "endpoint": moto}).result()
    for path in (tmp_path / "t").rglob("*"):
        if path.is_file():
            store.write(str(path.relative_to(tmp_path)), path.read_bytes()).result()
    between = proxy(moto)
    place = {"driver": "s3", "bucket": s3_bucket.bucket, "endpoint": between.url, "path": "t/"}
    between.set(delay=0.02)
    tree = ts.open_group(place)
    assert len(list(tree.walk())) == 13
    assert between.log() == [f"GET /{s3_bucket.bucket}/t/zarr.json"]
    plain = ts.open_group(place, consolidated=False)
    assert [path for path, _ in plain.walk()] == [path for path, _ in tree.walk()]
