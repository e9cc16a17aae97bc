"""Verification and comparison by threads and processes: all keys once, listed in ranges."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chunkwise as cw
from chunkwise.copying.verify_step import VerifyStep
from chunkwise.core.trees.location import locate
from chunkwise.core.trees.node import require_node
from chunkwise.errors import FailedPreconditionError

VALUES = np.random.default_rng(2).integers(0, 1 << 16, (130, 70), "u2")


@pytest.fixture(scope="module")
def processes() -> Iterator[Executor]:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as executor:
        yield executor


@pytest.fixture(params=["zarr3", "zarr2", "n5"])
def array(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    cw.create_array(tmp_path / "a", VALUES, chunks=(3, 5), format=request.param, codec="gzip:1")
    return tmp_path / "a"


def chunks(path: Path) -> list[Path]:
    return sorted(p for p in path.rglob("*") if p.is_file() and p.name[0].isdigit())


@pytest.mark.each_once
@pytest.mark.parametrize("kind", ["here", "threads", "processes"])
def test_every_damaged_chunk_is_found(array: Path, kind: str, processes: Executor) -> None:
    with ThreadPoolExecutor(3) as threads:
        executor = {"here": None, "threads": threads, "processes": processes}[kind]
        (report,) = cw.verify(array, executor=executor)
        assert (report.n_chunks, report.bad, report.notes) == (44 * 14, [], [])
        bad = np.random.default_rng(0).choice(chunks(array), 40, replace=False)
        for path in bad:
            path.write_bytes(path.read_bytes()[:-3])
        (array / "stray").write_bytes(b"")
        seen: list[int] = []
        (report,) = cw.verify(array, executor=executor, progress=seen.append)
    assert [str(array / key) for key, _ in report.bad] == sorted(map(str, bad))
    assert report.n_chunks == 44 * 14 and sum(seen) == report.nbytes
    assert report.notes == ["key neither chunk nor metadata: stray"]


@pytest.mark.parametrize("n", [2, 12])
def test_parts_find_together_what_one_run_finds(tmp_path: Path, n: int) -> None:
    tree = cw.create_group(tmp_path / "t.zarr")
    for number in range(7):  # of one task each
        tree.create_array(f"small{number}", VALUES[:4, :4], chunks=(2, 2))
    tree.create_array("large", VALUES, chunks=(3, 5))
    for path in (tmp_path / "t.zarr/large/c/7/3", tmp_path / "t.zarr/small2/c/0/1"):
        path.write_bytes(path.read_bytes()[:-1])
    (tmp_path / "t.zarr/large/stray").write_bytes(b"")
    (tmp_path / "t.zarr/small5/zarr.json").write_bytes(b"{}")
    whole = list(cw.verify(tmp_path / "t.zarr"))
    parts = [list(cw.verify(tmp_path / "t.zarr", part=f"{number}/{n}")) for number in range(1, n + 1)]
    assert max(map(len, parts)) < len(whole), "small arrays are shared out"
    found = [report for reports in parts for report in reports]
    assert {report.name for report in found} == {report.name for report in whole}
    for report in whole:
        own = [other for other in found if other.name == report.name]
        assert sorted(bad for other in own for bad in other.bad) == report.bad
        assert sum(other.n_chunks for other in own) == report.n_chunks
        assert [note for other in own for note in other.notes] == report.notes


def test_a_part_of_an_array_with_a_fingerprint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from chunkwise.cli.main import main

    cw.create_array(tmp_path / "a.zarr", VALUES, chunks=(3, 5))
    cw.copy(tmp_path / "a.zarr", tmp_path / "b.zarr", keep_fingerprint=True)
    chunks(tmp_path / "b.zarr")[0].unlink()
    for number in (1, 2):
        assert main(["verify", str(tmp_path / "b.zarr"), "--part", f"{number}/2"]) == 0
        out = capsys.readouterr().out
        assert "of all parts, so it wasn't compared" in out and "no checksum covers the values" in out
    assert main(["verify", str(tmp_path / "b.zarr")]) == 1
    assert main(["verify", str(tmp_path / "b.zarr"), "--part", "3/2"]) == 1
    assert "expected I/N" in capsys.readouterr().err


def test_ranges_of_keys_are_all_keys(array: Path) -> None:
    step = VerifyStep(require_node(locate(array)))
    kv = step.node.location.store
    listed = [key for keys in step.ranges for key in kv.list(keys.start, keys.stop)]
    whole = step.node.location.path
    assert len(step.ranges) > 5
    assert sorted(listed) == sorted(key for key in kv.list(whole, whole[:-1] + "0"))


def test_differences_are_the_same_by_processes(array: Path, tmp_path: Path, processes: Executor) -> None:
    changed = VALUES.copy()
    changed[100, 60] ^= 1
    changed[100, 61] ^= 1
    cw.create_array(tmp_path / "b.zarr", changed, chunks=(40, 40))
    for executor in (None, processes):
        (found,) = cw.diff(array, tmp_path / "b.zarr", attributes=False, executor=executor)
        assert found.what == "values" and found.detail == "(2 of 9,100 differ; the first at [100, 60])"
        assert (found.left, found.right) == (VALUES[100, 60], changed[100, 60])
    assert not list(cw.diff(array, array, executor=processes))


def test_what_workers_do_not_see(array: Path, processes: Executor) -> None:
    spec = {"driver": "zarr3", "kvstore": "memory://"}
    source: Any = cw.open(spec, create=True, dtype="u1", shape=[8]).result()
    with pytest.raises(FailedPreconditionError, match="in the memory of process"):
        list(cw.verify(source.kvstore, executor=processes))


@pytest.mark.each_once
@pytest.mark.parametrize("command", ["verify", "diff"])
def test_on(array: Path, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    from chunkwise.cli.main import main

    paths = [str(array)] * (2 if command == "diff" else 1)
    assert main([command, *paths, "--on", "processes:1"]) == 0
    assert main([command, *paths, "--on", "somewhere"]) == (2 if command == "diff" else 1)
    assert "expected threads:N, processes:N" in capsys.readouterr().err
