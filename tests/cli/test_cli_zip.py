"""``chunkwise zip``: archives that zarr-python and TensorStore read, there whole or not at all."""

from __future__ import annotations

import errno
import os
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorstore
import zarr
from cli_arrays import Run, make, read
from tests.fault_store import Fault, FaultStore

import chunkwise as cw
from chunkwise.core.kvstore.adapter.zip_write import export_archive
from chunkwise.core.kvstore.files.file_store import FileStore
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.errors import (
    AbortedError,
    AlreadyExistsError,
    DeadlineExceededError,
    InvalidArgumentError,
    StorageError,
)

VALUES = np.random.default_rng(3).integers(0, 1000, (30, 20)).astype("u2")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A group of zarr-python's with two arrays."""
    root = zarr.create_group(str(tmp_path / "tree"), attributes={"made": "here"})
    root.create_array("a", data=VALUES, chunks=(10, 10))
    root.create_array("g/b", data=VALUES[0], chunks=(7,))
    return tmp_path / "tree"


def test_zarr_python_reads_it(run: Run, tree: Path, tmp_path: Path) -> None:
    """Members are stored, in order and dated alike; the whole tree is there for zarr-python."""
    archive = tmp_path / "tree.zip"
    done = run("zip", tree, archive)
    assert (done.status, done.out) == (0, "") and "members" in done.err
    with zipfile.ZipFile(archive) as members:
        assert members.testzip() is None
        names = members.namelist()
        assert names == sorted(names) and "a/c/0/0" in names and "zarr.json" in names
        assert all(info.compress_type == zipfile.ZIP_STORED for info in members.infolist())
    store = zarr.storage.ZipStore(archive, mode="r")
    root: Any = zarr.open_group(store, mode="r")
    assert root.attrs["made"] == "here"
    np.testing.assert_array_equal(root["a"][...], VALUES)
    np.testing.assert_array_equal(root["g/b"][...], VALUES[0])
    store.close()
    again = run("zip", tree, tmp_path / "again.zip", "--json")
    assert (tmp_path / "again.zip").read_bytes() == archive.read_bytes()
    assert again.json["n_members"] == len(names) and again.json["nbytes"] == archive.stat().st_size


def test_tensorstore_and_we_read_it(run: Run, tree: Path, tmp_path: Path) -> None:
    assert run("zip", tree, tmp_path / "x.zip").status == 0
    for library in (tensorstore, cw):
        kvstore = {"driver": "zip", "base": f"file://{tmp_path}/x.zip", "path": "a/"}
        array = library.open({"driver": "zarr3", "kvstore": kvstore}).result()
        np.testing.assert_array_equal(array.read().result(), VALUES)
    assert run("info", f"file://{tmp_path}/x.zip|zip:a/").status == 0


@pytest.mark.parametrize("format", ["zarr2", "n5"])
def test_other_formats_and_parts(run: Run, tmp_path: Path, format: str) -> None:
    """An array alone is an archive too, also from a URL to a URL."""
    make(tmp_path / "a", format, VALUES, (8, 8))
    assert run("zip", f"file://{tmp_path}/a/", f"file://{tmp_path}/new/x.zip").status == 0
    found = cw.open(f"file://{tmp_path}/new/x.zip|zip:|{format}:").result()
    np.testing.assert_array_equal(found.read().result(), VALUES)
    assert os.listdir(tmp_path / "new") == ["x.zip"]


def test_what_is_there_stays(run: Run, tree: Path, tmp_path: Path) -> None:
    """A file is replaced only if asked for; a failure leaves it, and nothing else."""
    archive = tmp_path / "x.zip"
    archive.write_text("mine")
    done = run("zip", tree, archive)
    assert done.status == 1 and "exists already" in done.err and archive.read_text() == "mine"
    assert run("zip", tree, archive, "--overwrite").status == 0 and zipfile.is_zipfile(archive)
    assert sorted(os.listdir(tmp_path)) == ["tree", "x.zip"]


def test_refused(run: Run, tree: Path, tmp_path: Path) -> None:
    """Places that can't be: nothing there, inside the source, a directory; and damaged sources."""
    for source, archive, message in (
        (tmp_path / "none", tmp_path / "x.zip", "none"),
        (tree, tree / "x.zip", "which is inside it"),
        (tree, f"{tmp_path}/x/", "names a directory"),
    ):
        done = run("zip", source, archive)
        assert done.status in (1, 2) and message in done.err
    (tree / "a" / "zarr.json").write_text("{")
    done = run("zip", tree, tmp_path / "x.zip")
    assert done.status == 1 and "a can't be archived" in done.err
    assert os.listdir(tmp_path) == ["tree"]


@pytest.mark.parametrize("name", ["../evil", "a/../../evil", "/evil", "a//b", "nul\0"])
def test_names_that_lead_out_are_refused(tmp_path: Path, name: str) -> None:
    """A store may have such keys; an archive of it would be a trap for who unpacks it."""
    source = MemoryStore()
    source.write("a", b"1")
    source.write(name, b"2")
    with pytest.raises(InvalidArgumentError, match="Invalid ZIP member name"):
        export_archive(source, FileStore(tmp_path), "x.zip")
    assert os.listdir(tmp_path) == []


def test_failures_leave_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A source that fails, a key that goes, a full disk, and another who is faster."""
    source, target = MemoryStore(), FileStore(tmp_path)
    for i in range(10):
        source.write(f"k{i}", bytes(1000))
    with pytest.raises(ValueError, match="Fault on schedule"):
        export_archive(FaultStore(source, Fault(skip=5)), target, "x.zip")
    with pytest.raises(AbortedError, match="was deleted while"):
        export_archive(FaultStore(source, Fault("miss", skip=5)), target, "x.zip")
    assert os.listdir(tmp_path) == []

    def full(fd: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(StorageError, match="the disk is full"):
            export_archive(source, target, "x.zip")
    assert os.listdir(tmp_path) == []

    def faster(nbytes: int) -> None:
        (tmp_path / "x.zip").write_text("theirs")

    with pytest.raises(AlreadyExistsError):
        export_archive(source, target, "x.zip", progress=faster)
    assert os.listdir(tmp_path) == ["x.zip"] and (tmp_path / "x.zip").read_text() == "theirs"


def test_an_archive_waits_for_other_writers(tmp_path: Path) -> None:
    """The key is locked while its archive is written: what others derive from the old value fails."""
    source, target = MemoryStore(), FileStore(tmp_path)
    source.write("k", b"v")
    old = target.write("x.zip", b"old")

    def change(nbytes: int) -> None:
        other = FileStore(tmp_path, acquire_timeout=0.05)
        with ThreadPoolExecutor(1) as pool, pytest.raises(DeadlineExceededError):
            pool.submit(other.write, "x.zip", b"theirs", if_equal=old).result()

    export_archive(source, target, "x.zip", overwrite=True, progress=change)
    assert target.write("x.zip", b"theirs", if_equal=old) is None
    assert os.listdir(tmp_path) == ["x.zip"]
    with zipfile.ZipFile(tmp_path / "x.zip") as members:
        assert members.read("k") == b"v"


def test_into_other_stores() -> None:
    """Where there are no files the archive is one value, written on condition that there was none."""
    source, target = MemoryStore(), MemoryStore()
    for i in range(5):
        source.write(f"k{i}", bytes([i]) * 1000)
    done = export_archive(source, target, "x.zip", compression="zstd")
    value = target.read("x.zip").value
    assert value is not None and (done.n_members, done.nbytes) == (5, len(value)) and done.nbytes < 2000
    with pytest.raises(AlreadyExistsError):
        export_archive(source, target, "x.zip")
    assert export_archive(source, target, "x.zip", overwrite=True).nbytes > 5000


def test_the_archive_of_a_copy_is_the_copy(run: Run, tmp_path: Path) -> None:
    make(tmp_path / "a", "zarr3", VALUES, (10, 10))
    assert run("zip", tmp_path / "a", tmp_path / "a.zip").status == 0
    assert run("cp", f"file://{tmp_path}/a.zip|zip:", tmp_path / "b").status == 0
    np.testing.assert_array_equal(read(tmp_path / "b"), VALUES)
