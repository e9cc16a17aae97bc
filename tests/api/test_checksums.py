"""Arrays that are covered by checksums: damage of a single bit is an error, whatever the format."""

from __future__ import annotations

from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import chunkwise as cw
from chunkwise.cli.main import main
from chunkwise.errors import ChunkwiseError, DataCorruptionError, InvalidArgumentError

DATA = np.random.default_rng(5).integers(0, 1 << 16, (8, 8)).astype("u2")
DOCUMENTS = ("zarr.json", ".zarray", ".zattrs", "attributes.json", "meta", "attrs")
COVERED = {
    "zarr3": {"checksum": True},
    "zarr3 none": {"codec": "none", "checksum": True},
    "zarr3 blosc": {"codec": "blosc:lz4", "checksum": True},
    "zarr3 gzip": {"codec": "gzip:1", "checksum": True},
    "zarr3 crc32c": {"codec": "zstd:1+crc32c"},
    "zarr3 json": {"codec": [{"name": "zstd", "configuration": {"level": 1}}], "checksum": True},
    "zarr3 shards": {"shards": (8, 8), "chunks": (4, 4), "checksum": True},
    "zarr2": {"checksum": True},
    "zarr2 gzip": {"codec": "gzip", "checksum": True},
    "zarr2 xz": {"codec": "xz", "checksum": True},
    "zarr1": {"checksum": True},
    "zarr1 zlib": {"codec": "zlib", "checksum": True},
    "n5": {"checksum": True},
    "n5 lz4": {"codec": "lz4", "checksum": True},
    "n5 xz": {"codec": "xz", "checksum": True},
}
NOT = {
    "zarr2 none": "none",
    "zarr2 blosc": "blosc",
    "zarr2 lz4": "lz4",
    "zarr1 blosc": "blosc",
    "n5 none": "none",
    "n5 blosc": "blosc",
    "n5 zstd": "zstd",
}


def _group(format: str, tmp_path: Path) -> Any:
    name = "tree.n5" if format == "n5" else "tree"
    return cw.create_group(tmp_path / name, format="zarr2" if format == "zarr1" else format)


def _files(root: Path) -> list[Path]:
    return sorted(p for p in root.rglob("*") if p.is_file() and p.name not in (*DOCUMENTS, ".zgroup"))


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def _run(*arguments: object) -> Done:
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        status = main([str(argument) for argument in arguments])
    return Done(status, out.getvalue(), err.getvalue())


@pytest.mark.parametrize("case", list(COVERED))
def test_every_changed_bit_is_noticed(case: str, tmp_path: Path) -> None:
    group = _group(case.split()[0], tmp_path)
    array = group.create_array("a", DATA, **{"chunks": (8, 8), **COVERED[case]}, format=case.split()[0])
    np.testing.assert_array_equal(array.read().result(), DATA)
    (path,) = _files(tmp_path)
    raw = path.read_bytes()
    for at in range(0, 8 * len(raw), 97):
        changed = bytearray(raw)
        changed[at // 8] ^= 1 << at % 8
        path.write_bytes(changed)
        try:
            found = array.read().result()
        except ChunkwiseError:
            continue
        np.testing.assert_array_equal(found, DATA, err_msg=f"bit {at}")
    path.write_bytes(raw[: len(raw) // 2])
    with pytest.raises(DataCorruptionError):
        array.read().result()


@pytest.mark.parametrize("case", list(NOT))
def test_where_there_is_no_place_for_one(case: str, tmp_path: Path) -> None:
    group = _group(case.split()[0], tmp_path)
    with pytest.raises(InvalidArgumentError, match="no place for one"):
        group.create_array("a", DATA, codec=NOT[case], checksum=True, format=case.split()[0])
    assert "a" not in group


@pytest.mark.parametrize("format", ["zarr2", "zarr1", "n5"])
def test_crc32c_is_of_zarr_v3(format: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="only Zarr v3 has crc32c"):
        _group(format, tmp_path).create_array("a", DATA, codec="zstd+crc32c", format=format)


def test_what_contradicts(tmp_path: Path) -> None:
    group = _group("zarr3", tmp_path)
    codecs = [{"name": "bytes", "configuration": {"endian": "little"}}]
    with pytest.raises(InvalidArgumentError, match="checksum"):
        group.create_array("a", DATA, metadata={"codecs": codecs}, checksum=True)
    with pytest.raises(InvalidArgumentError, match=r'codec "zstd\+md5"'):
        group.create_array("a", DATA, codec="zstd+md5")
    assert "a" not in group


@pytest.mark.parametrize("case", ["zarr3", "zarr2", "n5"])
def test_verify_says_what_it_checked(case: str, tmp_path: Path) -> None:
    group = _group(case, tmp_path)
    group.create_array("with", DATA, chunks=(4, 4), checksum=True)
    done = _run("verify", group.location.text)
    assert done.returncode == 0 and "all good" in done.stdout and "no checksum" not in done.stdout
    group.create_array("without", DATA, chunks=(4, 4), codec="blosc")
    done = _run("verify", group.location.text)
    assert done.returncode == 0 and "all good" not in done.stdout
    assert "without: 4 chunks" in done.stdout and "decodes; no checksum covers the values" in done.stdout
    assert "all decode; no checksum covers the values of 4 chunks" in done.stdout


def test_zstd_is_looked_at_not_believed(tmp_path: Path) -> None:
    group = _group("zarr2", tmp_path)
    group.create_array("a", DATA, codec="zstd", chunks=(8, 8))
    plain = group["a"].read().result()
    (path,) = _files(tmp_path)
    bare = path.read_bytes()
    group.create_array("b", DATA, codec="zstd", chunks=(8, 8), checksum=True)
    (other,) = [p for p in _files(tmp_path) if p != path]
    assert other.read_bytes() != bare
    other.write_bytes(bare)
    np.testing.assert_array_equal(group["b"].read().result(), plain)
    done = _run("verify", group.location.text)
    assert "no checksum covers the values\n" in done.stdout and "all good" not in done.stdout


@pytest.mark.parametrize(("format", "suffix"), [("zarr3", ".zarr"), ("zarr2", ""), ("n5", ".n5")])
def test_cp_and_create(format: str, suffix: str, tmp_path: Path) -> None:
    group = _group("zarr3", tmp_path / "source")
    group.create_array("a", DATA, chunks=(4, 4), codec="gzip" if format == "n5" else "zstd")
    source, copy = tmp_path / "source/tree/a", tmp_path / f"copy{suffix}"
    done = _run("cp", "--checksum", "--verify", "--format", format, source, copy)
    assert done.returncode == 0, done.stderr
    assert "all good" in _run("verify", copy).stdout
    options = ("--shape", "8,8", "--dtype", "uint16", "--checksum", "--format", format)
    assert _run("create", tmp_path / f"new{suffix}", *options).returncode == 0
    store = cw.open(f"file://{tmp_path}/new{suffix}/").result()
    store.write(DATA).result()
    assert "all good" in _run("verify", tmp_path / f"new{suffix}").stdout
    done = _run("cp", "--checksum", "--codec", "none", "--format", "zarr2", source, tmp_path / "no")
    assert done.returncode != 0 and "no place for one" in done.stderr
