"""URLs in fsspec's order: caches and archives before the place."""

from pathlib import Path

import numpy as np
import pytest

import chunkwise as cw
from chunkwise.cli.main import main


@pytest.mark.parametrize(
    "url",
    [
        "simplecache::file://{path}/g.zarr",
        "filecache::file://{path}/g.zarr/",
        "blockcache::file://{path}/g.zip|zip:",
        "zip://::simplecache::file://{path}/g.zip",
        "simplecache::zip://::file://{path}/g.zip",
        "zip::file://{path}/g.zip",
    ],
)
def test_what_is_read(url: str, tmp_path: Path) -> None:
    """Caches are the kvstore `cache`, in memory, which sees changes."""
    cw.create_group(tmp_path / "g.zarr").create_array("a", np.arange(6), chunks=3)
    assert main(["zip", str(tmp_path / "g.zarr"), str(tmp_path / "g.zip"), "--quiet"]) == 0
    group = cw.open_group(url.format(path=tmp_path))
    array = group["a"]
    np.testing.assert_array_equal(array, np.arange(6))
    assert ("cache" in str(array.spec().to_json())) == ("cache" in url)
    if "zip" not in url:
        cw.open_array(tmp_path / "g.zarr/a", "r+")[0] = 7
        assert array[0].read().result() == 7


def test_the_spec_of_a_cache() -> None:
    spec = cw.KvStore.Spec("simplecache::s3://bucket/k/a").to_json()
    assert spec == {"driver": "cache", "base": {"driver": "s3", "bucket": "bucket"}, "path": "k/a"}
    for wrong in ("simplecache::", "simplecache::rel/path", "other::s3://bucket/k"):
        with pytest.raises(ValueError, match="unsupported URL scheme"):
            cw.KvStore.Spec(wrong)
