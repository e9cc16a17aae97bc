"""A new store is on disk before anybody can open it, and its disk is waited for once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hdmf.build import DatasetBuilder, GroupBuilder

import chunkwise
from chunkwise.hdmf import ZarrIO

FORMATS = ("zarr2", "zarr3", "n5")
ROOTS = {"zarr2": ".zgroup", "zarr3": "zarr.json", "n5": "attributes.json"}


def _content() -> GroupBuilder:
    inner = GroupBuilder(
        "inner",
        datasets=[
            DatasetBuilder("numbers", np.arange(1, 100.0)),
            DatasetBuilder("words", ["a", "b"], dtype="utf8"),
            DatasetBuilder("large", np.ones((1 << 10, 1 << 10), "f8")),
            DatasetBuilder("zero", 0.0),
        ],
    )
    return GroupBuilder("root", groups=[inner], attributes={"a": 1})


@pytest.mark.skipif(os.name != "posix", reason="it follows inodes")
@pytest.mark.parametrize("format", FORMATS)
def test_all_is_on_disk_before_the_root(format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: dict[int, int] = {}
    rename, fsync = os.rename, os.fsync
    root = tmp_path / "s"
    missing: list[list[str]] = []

    def watched_fsync(fd: int) -> None:
        status = os.fstat(fd)
        fsync(fd)
        synced[status.st_ino] = status.st_mtime_ns

    def watched_rename(source: Any, target: Any) -> None:
        if Path(os.fsdecode(target)) == root / ROOTS[format]:
            found = [root, *root.rglob("*")]
            missing.append(
                [
                    str(path)
                    for path in found
                    if not path.name.endswith("__lock")
                    and synced.get(path.stat().st_ino, -1) < path.stat().st_mtime_ns
                    and path != root  # it has just got the root's own lock file
                ]
            )
        rename(source, target)

    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(os, "rename", watched_rename)
    with ZarrIO(str(root), "w", format=format) as io:
        io.write_builder(_content())
    assert missing
    assert missing[0] == []
    with ZarrIO(str(root)) as io:
        assert io.read_builder().groups["inner"].datasets["numbers"].data[-1] == 99.0


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
def test_files_of_a_new_store_are_not_waited_for_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[bool] = []  # True for files that have their name already
    fsync = os.fsync

    def watched(fd: int) -> None:
        waited.append("__lock" not in os.readlink(f"/proc/self/fd/{fd}"))
        fsync(fd)

    groups = [GroupBuilder(f"g{i}", attributes={"a": i}) for i in range(50)]
    monkeypatch.setattr(os, "fsync", watched)
    with ZarrIO(str(tmp_path / "s"), "w") as io:
        io.write_builder(GroupBuilder("root", groups=groups))
    # The marks of an unfinished store, the copies, and the root.
    assert waited.count(False) <= 4
    assert waited.count(True) >= 50


@pytest.mark.parametrize("format", FORMATS)
def test_each_document_is_written_once(format: str) -> None:
    kv = chunkwise.KvStore.open("memory://").result()
    counts: dict[str, int] = {}
    io = ZarrIO(kv, "w", format=format)
    base: Any = io.store.location.store
    write = base.write

    def counted(key: str, value: Any, **options: Any) -> Any:
        counts[key] = counts.get(key, 0) + 1
        return write(key, value, **options)

    base.write = counted
    io.write_builder(_content())
    io.close()
    documents = {key: n for key, n in counts.items() if "inner" in key}
    assert documents
    assert set(documents.values()) == {1}
