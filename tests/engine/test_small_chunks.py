"""Small chunks are fetched, decoded and encoded some at a time; which one failed is told all the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chunkwise
from chunkwise.errors import ChunkwiseError, DataCorruptionError, NotFoundError

SHAPE = (4, 40, 640)
DATA = np.arange(np.prod(SHAPE), dtype=np.uint32).astype(np.uint16).reshape(SHAPE) % 1000


def _store(path: Path, **options: Any) -> chunkwise.TensorStore:
    return chunkwise.open(
        {
            "driver": "zarr3",
            "kvstore": {"driver": "file", "path": str(path)},
            "metadata": {"codecs": ["bytes", {"name": "gzip", "configuration": {"level": 1}}]},
            "context": {"file_io_sync": False},
            **options,
        },
        open=True,
        create=True,
        dtype="uint16",
        shape=SHAPE,
        chunk_layout=chunkwise.ChunkLayout(chunk_shape=[4, 8, 8]),
    ).result()


def test_what_is_written_is_read(tmp_path: Path) -> None:
    store = _store(tmp_path)
    holes = DATA.copy()
    holes[:, 8:16, 200:264] = 0
    holes[:, :8, :8] = 0
    store.write(holes).result()
    assert not (tmp_path / "c/0/1/25").exists() and (tmp_path / "c/0/1/24").exists()
    np.testing.assert_array_equal(store.read().result(), holes)
    np.testing.assert_array_equal(store[::-1, ::-1, ::-1].read().result(), holes[::-1, ::-1, ::-1])


@pytest.mark.parametrize("key", ["c/0/0/0", "c/0/2/5", "c/0/2/79", "c/0/4/79"])
def test_a_damaged_chunk_is_named(key: str, tmp_path: Path) -> None:
    store = _store(tmp_path)
    store.write(DATA).result()
    raw = (tmp_path / key).read_bytes()
    (tmp_path / key).write_bytes(raw[:-6])
    with pytest.raises(DataCorruptionError, match=f'{key}"'):
        store.read().result()


@pytest.mark.parametrize("key", ["c/0/0/0", "c/0/2/5", "c/0/4/79"])
def test_a_missing_chunk_is_named(key: str, tmp_path: Path) -> None:
    store = _store(tmp_path, fill_missing_data_reads=False)
    store.write(DATA + 1).result()
    (tmp_path / key).unlink()
    with pytest.raises(NotFoundError, match=f'{key}"'):
        store.read().result()


@pytest.mark.parametrize("key", ["c/0/0/1", "c/0/2/5", "c/0/4/79"])
def test_a_chunk_that_can_not_be_written_is_named(key: str, tmp_path: Path) -> None:
    store = _store(tmp_path)
    (tmp_path / key / "in the way").mkdir(parents=True)
    with pytest.raises(ChunkwiseError, match=f'{key}"'):
        store.write(DATA + 1).result()
