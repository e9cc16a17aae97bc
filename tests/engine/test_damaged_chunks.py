"""Damaged chunks are replaced by a write of all their elements in the array, and by no other write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chunkwise as cw

SHAPE = (5, 6)
DATA = np.arange(1, 31, dtype="int32").reshape(SHAPE)
# the chunk of the array that is damaged, by its key, and its elements in the array
CHUNK = (slice(4, 5), slice(4, 6))


def _create(kind: str, root: Path) -> cw.TensorStore:
    driver = "zarr3" if "shard" in kind else kind
    options: dict[str, Any] = {"chunk_layout": cw.ChunkLayout(chunk_shape=[4, 4])}
    if driver != kind:
        layout = cw.ChunkLayout(read_chunk_shape=[2, 2], write_chunk_shape=[4, 4])
        codecs = [{"name": "bytes"}, {"name": "gzip", "configuration": {"level": 1}}]
        sharding = {"chunk_shape": [2, 2], "codecs": codecs}
        spec = {"driver": "zarr3", "codecs": [{"name": "sharding_indexed", "configuration": sharding}]}
        options = {"chunk_layout": layout, "codec": cw.CodecSpec(spec)}
    array = cw.open(
        {"driver": driver, "kvstore": f"file://{root}/a/"}, create=True, dtype="int32", shape=SHAPE, **options
    ).result()
    array[...] = DATA
    return array


KEYS = {"zarr": "1.1", "zarr1": "1.1", "n5": "1/1"}
KINDS = ["zarr", "zarr1", "n5", "zarr3", "inner chunk of a shard", "index of a shard"]


def _damage(kind: str, root: Path) -> None:
    path = root / "a" / KEYS.get(kind, "c/1/1")
    raw = bytearray(path.read_bytes())
    if kind == "inner chunk of a shard":
        raw[:4] = b"\xff" * 4
        raw[4:8] = b"\xff" * 4
    elif kind == "index of a shard":
        raw[-1] ^= 255
    else:
        del raw[len(raw) // 2 :]
    path.write_bytes(raw)


WRITES = {
    "box": lambda a: a[4:, 4:],
    "more": lambda a: a[2:, :],
    "indices": lambda a: a.oindex[[4, 3], [5, 4, 0]],
    "points": lambda a: a.vindex[[4, 4, 0], [5, 4, 0]],
    "reversed": lambda a: a[::-1, ::-1],
    "transposed": lambda a: a.T[3:, 3:],
    "cast": lambda a: cw.cast(a, "int64")[4:, 4:],
}
PARTS = {
    "one": lambda a: a[4, 4],
    "points": lambda a: a.vindex[[4, 0], [5, 0]],
    "strides": lambda a: a[::4, ::5],
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("inside", [False, True], ids=["at once", "transaction"])
def test_all_elements_replace_it(kind: str, write: str, inside: bool, tmp_path: Path) -> None:
    array = _create(kind, tmp_path)
    _damage(kind, tmp_path)
    with pytest.raises(ValueError):
        array[CHUNK].read().result()
    transaction = cw.Transaction()
    WRITES[write](array.with_transaction(transaction) if inside else array).write(7).result()
    if inside:
        transaction.commit_sync()
    expected = DATA.copy()
    where = cw.array(np.zeros(SHAPE, "int32"))
    WRITES[write](where).write(1).result()
    expected[where.read().result() == 1] = 7
    np.testing.assert_array_equal(array.read().result(), expected)


@pytest.mark.parametrize("kind", ["zarr", "zarr3"])
def test_a_chunk_that_is_too_large_is_replaced_too(kind: str, tmp_path: Path) -> None:
    """It isn't even read."""
    array = _create(kind, tmp_path)
    path = tmp_path / "a" / KEYS.get(kind, "c/1/1")
    path.write_bytes(path.read_bytes() * 100_000)
    for part in (array, PARTS["one"](array)):
        with pytest.raises(ValueError, match="a chunk of this array may have"):
            (part.read() if part is array else part.write(7)).result()
    array[CHUNK].write(7).result()
    expected = DATA.copy()
    expected[CHUNK] = 7
    np.testing.assert_array_equal(array.read().result(), expected)
    assert path.stat().st_size < 1000


def test_a_field_of_all_elements_does_not_replace_it(tmp_path: Path) -> None:
    """The other fields would be lost."""
    metadata = {"dtype": [["x", "<i4"], ["y", "<i2"]], "shape": [4], "chunks": [4]}
    spec = {"driver": "zarr", "kvstore": f"file://{tmp_path}/", "field": "x", "metadata": metadata}
    array = cw.open(spec, create=True).result()
    array.write(5).result()
    path = tmp_path / "0"
    path.write_bytes(damaged := path.read_bytes()[:-3])
    with pytest.raises(ValueError, match="to replace it, write all of its elements, or delete it first"):
        array.write(7).result()
    assert path.read_bytes() == damaged


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("part", PARTS)
def test_a_part_does_not(kind: str, part: str, tmp_path: Path) -> None:
    array = _create(kind, tmp_path)
    _damage(kind, tmp_path)
    before = {path: path.read_bytes() for path in (tmp_path / "a").rglob("*") if path.is_file()}
    with pytest.raises(
        ValueError, match="to replace it, write all of its elements, or delete it first"
    ) as found:
        PARTS[part](array).write(7).result()
    assert f"/{KEYS.get(kind, 'c/1/1')}" in str(found.value)
    path = tmp_path / "a" / KEYS.get(kind, "c/1/1")
    assert path.read_bytes() == before[path]
    path.unlink()
    PARTS[part](array).write(7).result()
    assert 7 in array[CHUNK].read().result()
