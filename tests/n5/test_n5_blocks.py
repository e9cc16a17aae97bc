"""Blocks of any length as arrays of values: numbers, strings, objects and label multisets."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import z5py
from doc_examples import run_examples

import chunkwise
from chunkwise.core.base import limits
from chunkwise.errors import ChunkwiseError, TooLargeError
from chunkwise.n5 import blocks, label_multisets
from chunkwise.n5.label_multisets import create_n5_blocks, open_label_multisets, open_n5_blocks

COMPRESSIONS = [{"type": "raw"}, {"type": "gzip"}, {"type": "lz4"}, {"type": "zstd"}]


@pytest.mark.parametrize("module", [blocks, label_multisets], ids=lambda m: m.__name__)
def test_examples(module):
    result = run_examples(module)
    assert result.attempted and not result.failed


@pytest.mark.parametrize("compression", COMPRESSIONS, ids=lambda c: c["type"])
@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint64", "float32"])
def test_numbers(dtype, compression, tmp_path):
    place = f"{tmp_path}/x.n5/ids"
    made = create_n5_blocks(
        place, dimensions=[10, 7], block_size=[4, 4], data_type=dtype, compression=compression
    )
    assert (made.shape, made.kind, made.region((2, 1))) == ((3, 2), "numbers", (2, 3))
    values = {(0, 0): 16, (2, 1): 6, (1, 0): 40, (0, 1): 0, (2, 0): 1}  # as many as the region, more, none
    for cell, n in values.items():
        made[cell] = np.arange(n, dtype=dtype)
    again = open_n5_blocks(place)
    assert list(again) == sorted(values)
    for cell, n in values.items():
        np.testing.assert_array_equal(again[cell], np.arange(n, dtype=dtype))
        assert again[cell].dtype == dtype
        assert again.block(cell).mode == (0 if cell in ((0, 0), (2, 1)) else 1)
    assert again[1, 1] is None and (1, 1) not in again and (0, 1) in again
    read = again.read((slice(1, None), slice(None)))
    assert read.shape == (2, 2) and read[0, 1] is None and len(read[0, 0]) == 40
    del again[1, 0]
    assert again[1, 0] is None


def test_the_container_is_marked_and_the_dataset_one(tmp_path):
    create_n5_blocks(
        tmp_path / "x.n5/a/b", dimensions=[4], block_size=[2], data_type="int8", attributes={"k": 1}
    )
    assert json.loads((tmp_path / "x.n5/attributes.json").read_text()) == {"n5": "2.0.0"}
    document = json.loads((tmp_path / "x.n5/a/b/attributes.json").read_text())
    assert document["k"] == 1 and document["dataType"] == "int8"
    create_n5_blocks(tmp_path / "t.n5/a", dimensions=[4], block_size=[2], data_type="string")
    assert json.loads((tmp_path / "t.n5/attributes.json").read_text()) == {"n5": "4.0.0"}
    with pytest.raises(FileExistsError):
        create_n5_blocks(tmp_path / "x.n5/a/b", dimensions=[4], block_size=[2], data_type="int8")


@pytest.mark.parametrize("dtype", ["uint8", "uint64", "int32"])
def test_z5py_reads_and_writes_the_same_blocks(dtype, tmp_path):
    root = z5py.File(str(tmp_path / "x.n5"), mode="a", use_zarr_format=False)
    theirs = root.create_dataset("ids", shape=(8, 6), chunks=(4, 3), dtype=dtype, compression="gzip")
    theirs.write_chunk((0, 1), np.array([5, 6, 7], dtype), True)
    mine = open_n5_blocks(tmp_path / "x.n5/ids")
    assert mine.shape == (2, 2)  # z5py counts dimensions the other way round
    assert mine[1, 0].tolist() == [5, 6, 7]
    mine[0, 1] = np.array([9, 8], dtype)
    assert theirs.read_chunk((1, 0)).tolist() == [9, 8]


def test_strings_and_objects(tmp_path):
    texts = create_n5_blocks(tmp_path / "t", dimensions=[3, 5], block_size=[2, 4], data_type="string")
    value = np.array([["a", ""], ["é" * 50, "x"]], object).T.copy()
    with pytest.raises(ValueError, match=r"shape \(2, 4\)"):
        texts[0, 0] = value
    value = np.array([["a", "", "é" * 50, "x"], ["", "", "b", ""]], object)
    texts[0, 0] = value
    assert (open_n5_blocks(tmp_path / "t")[0, 0] == value).all()
    objects = create_n5_blocks(tmp_path / "o", dimensions=[3], block_size=[2], data_type="object")
    objects[1] = b"\xac\xed\0\5"
    assert (tmp_path / "o/1").read_bytes()[:6] == b"\0\2\0\0\0\4"
    assert open_n5_blocks(tmp_path / "o")[1] == b"\xac\xed\0\5"
    assert open_n5_blocks(tmp_path / "o").update(1, lambda old: old + b"!") == b"\xac\xed\0\5!"
    assert objects.update(1, lambda old: None) is None and objects[1] is None


MULTISETS = {"dimensions": [5, 4], "block_size": [3, 2], "data_type": "uint8"}


def _multisets(tmp_path):
    return create_n5_blocks(
        tmp_path / "m", **MULTISETS, attributes={"isLabelMultiset": True, "maxNumEntries": -1}
    )


def test_label_multisets_by_block(tmp_path):
    made = _multisets(tmp_path)
    value = np.empty((2, 2), object)
    value[...] = [[((1, 2),), ((1, 2), (2**64 - 1, 9))], [(), ((3, 1),)]]
    made[1, 1] = value
    got = open_n5_blocks(tmp_path / "m")[1, 1]
    assert got.tolist() == value.tolist()
    assert open_n5_blocks(tmp_path / "m", kind="numbers")[1, 1].dtype == np.uint8


def test_label_multisets_as_an_array(tmp_path):
    """Any selection is read and written; the model is a NumPy array of objects."""
    _multisets(tmp_path)
    store = open_label_multisets(tmp_path / "m")
    assert store.dtype.name == "json" and store.shape == (5, 4)
    model = np.empty((5, 4), object)
    for at in np.ndindex(model.shape):
        model[at] = [[0, 1]]
    rng = np.random.default_rng(0)
    for _ in range(30):
        a, b = sorted(rng.integers(0, 6, 2).tolist())
        c, d = sorted(rng.integers(0, 5, 2).tolist())
        step = int(rng.integers(1, 3))
        source = np.empty(model[a:b:step, c:d].shape, object)
        for at in np.ndindex(source.shape):
            source[at] = [[int(rng.integers(0, 50)), int(n)] for n in range(1, rng.integers(1, 5))]
        store[a:b:step, c:d].write(source).result()
        model[a:b:step, c:d] = source
        assert open_label_multisets(tmp_path / "m").read().result().tolist() == model.tolist()
    assert store[4, 3].read().result()[()] == model[4, 3]


def test_writers_of_one_block_lose_nothing(tmp_path):
    _multisets(tmp_path)
    made = create_n5_blocks(tmp_path / "n", dimensions=[4], block_size=[4], data_type="uint32")

    def label(i):
        open_label_multisets(tmp_path / "m")[i % 3, i // 3] = [[i, 1]]
        made.update(0, lambda old: [i] if old is None else [*old, i])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(label, range(6)))
    got = open_label_multisets(tmp_path / "m")[:3, :2].read().result()
    assert [got[i % 3, i // 3] for i in range(6)] == [[[i, 1]] for i in range(6)]
    assert sorted(made[0].tolist()) == list(range(6))


LONG = {
    "strings": ("string", np.full((100, 200), "x" * 200, object)),
    "one string": ("string", np.array([["x" * 6_000_000]], object)),
    "numbers": ("uint64", np.zeros(1_000_000, "u8")),
    "object": ("object", bytes(6_000_000)),
}


@pytest.mark.parametrize("kind", LONG)
@pytest.mark.parametrize("type", ["raw", "gzip", "lz4", "zstd", "bzip2", "xz"])
def test_what_compresses_to_almost_nothing_is_read_again(kind, type, tmp_path):
    data_type, value = LONG[kind]
    size = list(value.shape) if data_type == "string" else [10, 10]
    made = create_n5_blocks(
        tmp_path / "b", dimensions=size, block_size=size, data_type=data_type, compression={"type": type}
    )
    made[0, 0] = value
    np.testing.assert_array_equal(made[0, 0], value)
    if data_type == "string":
        np.testing.assert_array_equal(chunkwise.open(f"{tmp_path}/b").result().read().result(), value)


@pytest.mark.parametrize("kind", ["one string", "numbers", "object"])
def test_what_would_not_be_read_again_is_not_written(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "DOCUMENT", limits.DOCUMENT._replace(nbytes=1 << 20))
    data_type, value = LONG[kind]
    size = list(value.shape) if data_type == "string" else [10, 10]
    made = create_n5_blocks(
        tmp_path / "b", dimensions=size, block_size=size, data_type=data_type, compression={"type": "bzip2"}
    )
    with pytest.raises(TooLargeError, match="would not be read again: make blocks smaller"):
        made[0, 0] = value
    if data_type == "string":
        with pytest.raises(TooLargeError, match="would not be read again: make blocks smaller"):
            chunkwise.open(f"{tmp_path}/b").result().write(value).result()
    assert made[0, 0] is None


def test_hostile_blocks(tmp_path):
    """Each is an error that names the key, at once and without much memory."""
    numbers = create_n5_blocks(tmp_path / "n", dimensions=[4], block_size=[4], data_type="uint64")
    strings = create_n5_blocks(tmp_path / "s", dimensions=[4], block_size=[4], data_type="string")
    multisets = create_n5_blocks(
        tmp_path / "m",
        dimensions=[4],
        block_size=[4],
        data_type="uint8",
        attributes={"isLabelMultiset": True},
    )
    objects = create_n5_blocks(tmp_path / "o", dimensions=[4], block_size=[4], data_type="object")
    rng = np.random.default_rng(1)
    head = b"\0\1\0\1\0\0\0\4"
    for stored in (numbers, strings, multisets, objects):
        path = tmp_path / stored._location.name / "0"
        for raw in [
            b"",
            b"\0\1",
            head,
            head + b"\xff" * 4,
            head + b"\xff\xff\xff\xff" + b"x" * 40,
            b"\0\2\xff\xff\xff\xff",
        ] + [head + b"\0\0\0\x20" + rng.bytes(32) for _ in range(20)]:
            path.write_bytes(raw)
            with pytest.raises(ChunkwiseError, match="0"):
                stored[0]


def test_what_is_refused(tmp_path):
    made = create_n5_blocks(tmp_path / "n", dimensions=[4, 4], block_size=[2, 3], data_type="uint8")
    for cell in ((2, 0), (0,), (-1, 0), 0):
        with pytest.raises(IndexError, match="no block"):
            made[cell]
    for value, message in (
        ([256], "don't fit|can't be stored"),
        ([1.5], "can't be stored"),
        ([[1]], "1-D"),
        ("x", "1-D"),
    ):
        with pytest.raises(ValueError, match=message):
            made[0, 0] = value
    assert made[0, 0] is None
    with pytest.raises(FileNotFoundError):
        open_n5_blocks(tmp_path / "nothing")
    (tmp_path / "g").mkdir()
    (tmp_path / "g/attributes.json").write_text('{"n5": "2.0.0"}')
    with pytest.raises(ValueError, match="group"):
        open_n5_blocks(tmp_path / "g")
    with pytest.raises(ValueError, match="can't hold label_multiset"):
        open_n5_blocks(create_and_close(tmp_path, "uint16"), kind="label_multiset")
    with pytest.raises(ValueError, match="kind: expected one of"):
        open_n5_blocks(tmp_path / "n", kind="words")
    (tmp_path / "new.n5").mkdir()
    (tmp_path / "new.n5/attributes.json").write_text('{"n5": "5.0.0"}')
    with pytest.raises(NotImplementedError, match="Incompatible"):
        create_n5_blocks(tmp_path / "new.n5/a", dimensions=[4], block_size=[2], data_type="uint8")


def create_and_close(root, dtype):
    create_n5_blocks(root / dtype, dimensions=[4], block_size=[2], data_type=dtype)
    return root / dtype
