"""Fingerprints kept as an attribute: whatever becomes of an array's chunks is found without the source."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chunkwise as cw

SHAPE = (30, 21)
VALUES = np.random.default_rng(0).integers(0, 4096, SHAPE, "u2")

LAYOUTS = {
    "zarr3": {"format": "zarr3", "chunks": (8, 8), "codec": "zstd:1"},
    "shards": {"format": "zarr3", "chunks": (4, 4), "shards": (16, 16)},
    "zarr2": {"format": "zarr2", "chunks": (8, 8), "codec": "none"},
    "n5": {"format": "n5", "chunks": (8, 8)},
}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Return a big-endian array, half of which is not stored."""
    array = cw.create_array(
        tmp_path / "a.zarr", shape=SHAPE, dtype="u2", chunks=(10, 7), format="zarr2", codec="none"
    )
    array[:17].write(VALUES[:17]).result()
    return tmp_path / "a.zarr"


def objects(path: Path) -> list[Path]:
    """Return the files with chunks."""
    names = ("zarr.json", ".zarray", ".zattrs", "attributes.json")
    return sorted(f for f in path.rglob("*") if f.is_file() and f.name not in names)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_damage_is_found_without_the_source(source: Path, tmp_path: Path, layout: str) -> None:
    copy = tmp_path / ("b.n5" if layout == "n5" else "b.zarr")
    cw.copy(source, copy, keep_fingerprint=True, **LAYOUTS[layout])
    (report,) = cw.verify(copy)
    assert report.fingerprint is True and not report.bad
    wanted = cw.open(str(copy)).result().read().result()
    r = random.Random(1)
    for kind in ("flip", "swap", "missing") * 4:
        one, other = r.sample(objects(copy), 2)
        kept = {path: path.read_bytes() for path in (one, other)}
        if kept[one] == kept[other]:
            continue
        if kind == "flip":
            data = bytearray(kept[one])
            data[r.randrange(len(data))] ^= 1 << r.randrange(8)
            one.write_bytes(data)
        elif kind == "swap":
            one.write_bytes(kept[other])
            other.write_bytes(kept[one])
        else:
            one.unlink()
        try:
            same = np.array_equal(cw.open(str(copy)).result().read().result(), wanted)
        except ValueError:
            same = False
        (report,) = cw.verify(copy)
        assert bool(report.bad) == (not same), (kind, one)
        for path, data in kept.items():
            path.write_bytes(data)
    (report,) = cw.verify(copy)
    assert not report.bad


def test_workers_add_theirs(source: Path, tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as executor:
        cw.copy(source, tmp_path / "b.zarr", chunks=(3, 3), keep_fingerprint=True, executor=executor)
        (report,) = cw.verify(tmp_path / "b.zarr", executor=executor)
    assert report.fingerprint is True


def test_it_is_that_of_the_copy(source: Path, tmp_path: Path) -> None:
    """Neither does a copy take that of its source, nor do two differ by it."""
    cw.copy(source, tmp_path / "b.zarr", keep_fingerprint=True, dtype="f4")
    (report,) = cw.verify(tmp_path / "b.zarr")
    assert report.fingerprint is True
    array = cw.copy(tmp_path / "b.zarr", tmp_path / "c.zarr").array
    texts = [f.read_bytes() for f in (tmp_path / "c.zarr").iterdir() if f.is_file()]
    assert texts and not any(b"chunkwise_fingerprint" in text for text in texts)
    assert not list(cw.diff(tmp_path / "b.zarr", tmp_path / "c.zarr"))
    (report,) = cw.verify(tmp_path / "c.zarr")
    assert report.fingerprint is None and array.shape == SHAPE


@pytest.mark.parametrize("dtype", ["string", "json", "bool", "complex64"])
def test_other_types(tmp_path: Path, dtype: Any) -> None:
    values = np.arange(12)
    if dtype == "string":
        values = np.array([b"%d" % i for i in values], object)
    elif dtype == "json":
        values = np.array([{"i": int(i)} for i in values], object)
    format = "zarr2" if dtype == "json" else "zarr3"
    array = cw.create_array(tmp_path / "a.zarr", shape=(20,), dtype=dtype, chunks=(5,), format=format)
    array[:12].write(values if dtype in ("string", "json") else values.astype(dtype)).result()
    cw.copy(tmp_path / "a.zarr", tmp_path / "b.zarr", chunks=(4,), keep_fingerprint=True)
    (report,) = cw.verify(tmp_path / "b.zarr")
    assert report.fingerprint is True
    objects(tmp_path / "b.zarr")[0].unlink()
    (report,) = cw.verify(tmp_path / "b.zarr")
    assert report.fingerprint is False


def test_an_unfinished_copy_that_keeps_none(source: Path, tmp_path: Path) -> None:
    def stop(nbytes: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cw.copy(source, tmp_path / "b.zarr", progress=stop)
    with pytest.raises(ValueError, match="its fingerprint is another one"):
        cw.copy(source, tmp_path / "b.zarr", resume=True, keep_fingerprint=True)


OTHER_TYPES = ["ustring", "json", "float64", "uint8", "bool", "complex64", "M8[s]"]
TEXT = ["S1", "S3", "S8", "S17", "U1", "U4", "U9", "V5"]
REFUSED = {"n5": ["json", "bool", "complex64", "M8[s]", *TEXT], "zarr3": ["json"]}


@pytest.mark.each_once
@pytest.mark.parametrize("format", ["zarr3", "zarr2", "n5"])
@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 2), (0, 4), (2, 1, 3)])
@pytest.mark.parametrize("dtype", OTHER_TYPES + TEXT)
def test_each_shape_and_type(format: str, shape: tuple[int, ...], dtype: str, tmp_path: Path) -> None:
    """A copy that keeps its fingerprint is verified by it, or the format can't hold the type."""
    values: Any = np.zeros(shape, {"ustring": object, "json": object}.get(dtype, dtype))
    if dtype == "ustring":
        values[...] = "word"
    elif dtype == "json":
        values[...] = 5
    elif dtype in TEXT:  # of each length that the type can have
        texts = [(b"abcdefghijklmnopq" * 2)[i % 17 :][: i % (int(dtype[1:]) + 1)] for i in range(values.size)]
        values[...] = np.array(texts, f"S{dtype[1:]}").astype(dtype).reshape(shape)
    else:
        values[...] = np.ones((), "i1").astype(values.dtype)
    of = {"dtype": dtype} if values.dtype == object else {}
    cw.create_array(tmp_path / "a.zarr", values, format="zarr2" if dtype == "json" else "zarr3", **of)
    if dtype in REFUSED.get(format, ()):
        with pytest.raises((ValueError, NotImplementedError), match=r"[Dd]ata type"):
            cw.copy(tmp_path / "a.zarr", tmp_path / f"b.{format}", format=format, keep_fingerprint=True)
        assert not (tmp_path / f"b.{format}").exists()
        return
    cw.copy(tmp_path / "a.zarr", tmp_path / f"b.{format}", format=format, keep_fingerprint=True)
    (report,) = cw.verify(tmp_path / f"b.{format}")
    assert not report.bad
    assert report.fingerprint is True


@pytest.mark.parametrize("dtype", ["int2", "int4"])
@pytest.mark.parametrize("written", [0, 3, 7])
@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_small_integers_are_compared_by_the_bits_that_they_have(
    tmp_path: Path, dtype: str, written: int, format: str
) -> None:
    """The other bits of a negative fill value are those of its sign, those of a stored element are 0."""
    values = np.array([1, -2, -1, -2, -2, 0, -2])
    array = cw.create_array(tmp_path / "a", shape=[7], dtype=dtype, fill_value=-2, chunks=1)
    array[:written].write(values[:written].tolist()).result()
    for chunks in (1, 3):
        target = tmp_path / f"b{chunks}"
        options = {"format": format, "chunks": chunks, "verify": True, "keep_fingerprint": True}
        copy = cw.copy(tmp_path / "a", target, **options).array
        assert copy.read().result().tolist() == array.read().result().tolist()
        (report,) = cw.verify(target)
        assert report.fingerprint and not report.bad
        assert cw.diff(tmp_path / "a", target, attributes=False) == []
