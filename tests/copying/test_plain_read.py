"""Chunks read the plain way: the same values, and nothing of what they are to check."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorstore

import chunkwise as cw
from chunkwise.copying.plain_read import read_plainly
from chunkwise.errors import DataCorruptionError, NotFoundError

DATA = np.random.default_rng(0).integers(0, 99, (30, 20, 7)).astype("u2")
SHARDS = {
    "name": "sharding_indexed",
    "configuration": {"chunk_shape": [4, 2, 7], "codecs": ["bytes", "zstd", "crc32c"]},
}
VIEWS: dict[str, Any] = {
    "whole": np.s_[:, :, :],
    "part": np.s_[3:17, 5:19, 2:],
    "strided": np.s_[4:25:3, ::-2],
    "plane": np.s_[2],
    "element": np.s_[9, 9, 3],
    "nothing": np.s_[5:5],
    "new": np.s_[None, ::3],
    "indices": np.s_[[3, 28, 0, 3], 2:9],
    "mask": np.s_[:, :, [True, False] * 3 + [True]],
    "points": np.s_[[3, 28], 2:9, [0, 6]],
}


def _create(path: Path, driver: str, **metadata: Any) -> Any:
    spec = {"driver": driver, "kvstore": f"file://{path}/", "metadata": metadata}
    layout = cw.ChunkLayout(write_chunk_shape=[8, 8, 7])
    return cw.open(spec, create=True, dtype="uint16", shape=DATA.shape, chunk_layout=layout).result()


@pytest.fixture(params=["zarr3", "zarr3 shards", "zarr2", "n5"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return where an array is whose last rows are not stored."""
    driver, *sharded = request.param.split()
    if sharded:
        array = _create(tmp_path, driver, codecs=[SHARDS])
    else:
        array = _create(tmp_path, driver)
    array[:24].write(DATA[:24]).result()
    return tmp_path


@pytest.mark.parametrize("view", list(VIEWS))
def test_values_are_those_of_a_peer(path: Path, view: str) -> None:
    documents = {"zarr.json": "zarr3", ".zarray": "zarr", "attributes.json": "n5"}
    (driver,) = (driver for name, driver in documents.items() if (path / name).exists())
    spec = {"driver": driver, "kvstore": f"file://{path}/"}
    peer = tensorstore.open(spec).result().read().result()
    array = cw.open(spec).result()
    np.testing.assert_array_equal(read_plainly(array[VIEWS[view]]), peer[VIEWS[view]])
    np.testing.assert_array_equal(read_plainly(array.T), peer.T)


def test_fields_and_missing_chunks(tmp_path: Path) -> None:
    records = np.arange(21, dtype="f4").reshape(7, 3)
    spec = {
        "driver": "zarr2",
        "kvstore": f"file://{tmp_path}/",
        "field": "b",
        "fill_missing_data_reads": False,
    }
    metadata = {"dtype": [["a", "<u2"], ["b", "<f4", [3]]], "shape": [7], "chunks": [3], "fill_value": None}
    spec = {**spec, "metadata": metadata, "fill_missing_data_reads": False}
    array = cw.open(spec, create=True).result()
    array.write(records).result()
    np.testing.assert_array_equal(read_plainly(array[2:, 1]), records[2:, 1])
    (tmp_path / "1").unlink()
    np.testing.assert_array_equal(read_plainly(array[:3]), records[:3])
    with pytest.raises(NotFoundError, match="missing"):
        read_plainly(array)


def test_damage_is_an_error_with_the_key(path: Path) -> None:
    chunk = max(p for p in path.rglob("*") if p.is_file() and p.suffix != ".json" and p.name != ".zarray")
    chunk.write_bytes(chunk.read_bytes()[:-3])
    with pytest.raises(DataCorruptionError, match=str(chunk.relative_to(path))):
        read_plainly(cw.open(f"file://{path}/").result())


def test_nothing_of_the_fast_readers_is_imported() -> None:
    package = Path(cw.__file__).parent
    found, left = set(), ["copying/plain_read"]
    while left:
        name = left.pop()
        found.add(name)
        text = (package / f"{name}.py").read_text()
        names = re.findall(r"from chunkwise\.((?:core\.engine|copying)\.\w+) import", text)
        left += {name.replace(".", "/") for name in names} - found
    assert found == {"copying/plain_read"}


@pytest.mark.parametrize("view", VIEWS)
def test_views_are_copied_compared_and_verified(
    path: Path, view: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    part = cw.open(str(path)).result()[VIEWS[view]]
    place = tmp_path_factory.mktemp("copies") / "copy"
    copy = cw.copy(part, place, verify=True).array
    np.testing.assert_array_equal(copy.read().result(), part.read().result())
    assert cw.diff(part, place, attributes=False) == [] == cw.diff(place, part, attributes=False)
    assert not any(report.bad for report in cw.verify(part))
    if part.size:
        copy[(0,) * copy.rank].write(copy[(0,) * copy.rank].read().result() + 1).result()
        assert len(cw.diff(part, place, attributes=False)) == 1
