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
from chunkwise.errors import FailedPreconditionError
from chunkwise.hierarchy.location import locate
from chunkwise.hierarchy.node import require_node
from chunkwise.tools.verify import VerifyStep

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
    assert [str(Path("/", key)) for key, _ in report.bad] == sorted(map(str, bad))
    assert report.n_chunks == 44 * 14 and sum(seen) == report.nbytes
    assert report.notes == ["key neither chunk nor metadata: stray"]


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


@pytest.mark.parametrize("command", ["verify", "diff"])
def test_on(array: Path, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    from chunkwise.cli.main import main

    paths = [str(array)] * (2 if command == "diff" else 1)
    assert main([command, *paths, "--on", "processes:1"]) == 0
    assert main([command, *paths, "--on", "somewhere"]) == (2 if command == "diff" else 1)
    assert "expected threads:N, processes:N" in capsys.readouterr().err
