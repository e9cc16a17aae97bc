"""Copies of one array by threads, processes and executors of others: bounded, resumed, verified."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorstore

import chunkwise as cw
from chunkwise.copying.array_options import array_options
from chunkwise.copying.copy import ArrayCopy
from chunkwise.copying.copy_options import CopyOptions
from chunkwise.copying.copy_source import stored_source
from chunkwise.copying.executors import processes_here, workers_of
from chunkwise.copying.journal import Journal
from chunkwise.copying.tasks import LostWorkersError, Stage, run_tasks
from chunkwise.core.trees.location import locate
from chunkwise.core.trees.node import JOURNAL
from chunkwise.errors import DataCorruptionError, FailedPreconditionError, InvalidArgumentError

SHAPE = (48, 40, 36)
VALUES = np.random.default_rng(0).integers(0, 1 << 16, SHAPE, "u2")
MEMORY = 40_000  # so little that planes to columns takes two passes


@pytest.fixture
def planes(tmp_path: Path) -> str:
    path = str(tmp_path / "planes.zarr")
    cw.create_array(path, VALUES, chunks=(1, 40, 36), codec="zstd:1")
    return path


def columns(planes: str, target: Any, **options: Any) -> cw.ArrayCopyReport:
    options = {"chunks": (48, 4, 4), "memory": MEMORY, "sync": False, **options}
    return cw.copy(planes, target, **options)


def read_by_tensorstore(path: Any, driver: str = "zarr3") -> Any:
    spec = {"driver": driver, "kvstore": {"driver": "file", "path": str(path)}}
    return tensorstore.open(spec).result().read().result()


@pytest.mark.each_once
@pytest.mark.parametrize("format", ["zarr3", "zarr2", "n5"])
@pytest.mark.parametrize("verify", [False, True])
def test_planes_to_columns_in_two_passes(planes: str, tmp_path: Path, format: str, verify: bool) -> None:
    seen: list[int] = []
    report = columns(planes, tmp_path / "b", format=format, verify=verify, progress=seen.append)
    assert len(report.plan.passes) == 2 and max(report.plan.reads) <= 1.5
    driver = {"zarr2": "zarr"}.get(format, format)
    assert np.array_equal(read_by_tensorstore(tmp_path / "b", driver), VALUES)
    assert report.nbytes == report.nbytes_copied == VALUES.nbytes and report.verified == verify
    assert sum(seen) == VALUES.nbytes
    assert not list((tmp_path / "b").glob(".chunkwise*"))


def test_missing_chunks_stay_missing_through_two_passes(tmp_path: Path) -> None:
    source = cw.create_array(
        tmp_path / "a.zarr", shape=SHAPE, dtype="f4", chunks=(1, 40, 36), fill_value=np.nan
    )
    source[3:6, 30:, 30:] = 1.5
    report = columns(str(tmp_path / "a.zarr"), tmp_path / "b.zarr", memory=2 * MEMORY, verify=True)
    assert len(report.plan.passes) == 2
    expected = source.read().result()
    assert np.array_equal(read_by_tensorstore(tmp_path / "b.zarr"), expected, equal_nan=True)
    assert len(list((tmp_path / "b.zarr").glob("c/*/*/*"))) < 10


def test_other_types_are_converted_in_the_first_pass(planes: str, tmp_path: Path) -> None:
    report = columns(planes, tmp_path / "b.zarr", dtype="u1", cast="clamp", verify=True)
    assert len(report.plan.passes) == 2
    assert np.array_equal(read_by_tensorstore(tmp_path / "b.zarr"), np.minimum(VALUES, 255).astype("u1"))
    assert f"{int((VALUES > 255).sum()):,} values" in report.notes[-1]


@pytest.mark.each_once
@pytest.mark.parametrize("format", ["zarr3", "zarr2", "n5"])
@pytest.mark.parametrize("others", [False, True])
def test_nothing_is_left_of_a_copy_with_values_that_do_not_fit(
    planes: str, tmp_path: Path, format: str, others: bool
) -> None:
    target = tmp_path / "b"
    if others:
        target.mkdir()
        (target / "mine.txt").write_text("mine")
    with pytest.raises(ValueError, match="don't fit uint8"):
        cw.copy(planes, target, format=format, dtype="u1", overwrite=others)
    left = [str(path.relative_to(target)) for path in target.rglob("*") if not path.name.endswith("__lock")]
    assert target.exists() == others and left == ["mine.txt"] * others


def test_a_part_whose_chunks_begin_elsewhere(planes: str, tmp_path: Path, run_cp: Any) -> None:
    options = ["--chunk", "43,4,4", "--memory", str(MEMORY), "--region", "5:,1:,:", "--verify"]
    assert run_cp(planes, tmp_path / "b.zarr", *options) == 0
    assert np.array_equal(read_by_tensorstore(tmp_path / "b.zarr"), VALUES[5:, 1:])


@pytest.fixture
def run_cp() -> Any:
    from chunkwise.cli.main import main

    return lambda *arguments: main(["cp", *map(str, arguments), "--quiet", "--no-sync"])


@pytest.mark.parametrize("verify", [False, True])
def test_how_long_the_comparison_took_is_known(planes: str, tmp_path: Path, verify: bool) -> None:
    """It is a part of the time that the copy took."""
    options = CopyOptions(verify=verify, sync=False)
    source, target = stored_source(locate(planes)), locate(tmp_path / "b.zarr")
    started = time.monotonic()
    copy = ArrayCopy(source, target, "zarr3", array_options({}), options)
    copy.begin()
    copy.run()
    assert (copy.seconds_compared > 0) == verify
    assert copy.seconds_compared < time.monotonic() - started


@pytest.mark.parametrize("kind", ["threads", "processes", "eager"])
def test_any_executor(planes: str, tmp_path: Path, kind: str) -> None:
    class Eager(Executor):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            future: Future[Any] = Future()
            future.set_result(fn(*args, **kwargs))
            return future

    executors: dict[str, Any] = {
        "threads": lambda: ThreadPoolExecutor(3),
        "processes": lambda: ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")),
        "eager": Eager,
    }
    with executors[kind]() as executor:
        report = columns(planes, tmp_path / "b.zarr", executor=executor, verify=True)
    assert len(report.plan.passes) == 2
    assert np.array_equal(read_by_tensorstore(tmp_path / "b.zarr"), VALUES)


def test_memory_is_refused_by_other_processes(tmp_path: Path) -> None:
    spec = {"driver": "zarr3", "kvstore": "memory://"}
    source = cw.open(spec, create=True, dtype="u1", shape=[8]).result()
    with (
        ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as executor,
        pytest.raises(FailedPreconditionError, match="in the memory of process"),
    ):
        cw.copy(source.kvstore, tmp_path / "b.zarr", executor=executor)
    assert cw.copy(source.kvstore, tmp_path / "c.zarr").nbytes == 8


def test_a_plan_is_a_value(planes: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"chunks": (48, 4, 4), "memory": MEMORY}
    plan = cw.plan_copy(planes, tmp_path / "b.zarr", **options)
    assert not (tmp_path / "b.zarr").exists()
    again = cw.CopyPlan.from_json(json.loads(json.dumps(plan.to_json())))
    assert again == plan
    assert columns(planes, tmp_path / "b.zarr", plan=again, memory=None).plan == plan
    cw.create_array(tmp_path / "other.zarr", np.zeros((3, 3), "u2"))
    with pytest.raises(InvalidArgumentError, match="plan is for an array of shape"):
        cw.copy(tmp_path / "other.zarr", tmp_path / "d.zarr", plan=plan)


def test_a_chunk_that_does_not_fit_is_named(planes: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"a block of \[48, 4, 4\] elements"):
        columns(planes, tmp_path / "b.zarr", memory="1kB")
    assert not (tmp_path / "b.zarr").exists()


def half_done(planes: str, target: Path, in_pass: int) -> None:
    """Leave a copy of which one task of a pass is done."""

    class Done(Exception):
        pass

    seen: list[int] = []

    def stop(nbytes: int) -> None:
        journal = json.loads((target / JOURNAL).read_text())
        seen.append(nbytes)
        if sum(seen) > in_pass * VALUES.nbytes / 2 and journal:
            raise Done

    with pytest.raises(Done):
        columns(planes, target, progress=stop)


@pytest.mark.parametrize("in_pass", [0, 1])
def test_resumed_on_another_executor(planes: str, tmp_path: Path, in_pass: int) -> None:
    target = tmp_path / "b.zarr"
    half_done(planes, target, in_pass)
    with pytest.raises(ValueError, match=r"NOT_FOUND|FAILED_PRECONDITION"):
        cw.open(str(target)).result()
    with ThreadPoolExecutor(1) as executor:
        report = columns(planes, target, executor=executor, memory=None, resume=True, verify=True)
    assert 0 < report.nbytes_copied < VALUES.nbytes
    assert np.array_equal(read_by_tensorstore(target), VALUES)
    assert not list(target.glob(".chunkwise*"))


@pytest.mark.each_once
@pytest.mark.parametrize("damage", ["missing", "another", "empty", "short", "zeros", "garbage"])
@pytest.mark.parametrize("everywhere", [False, True])
def test_an_intermediate_that_is_damaged_is_made_again(
    planes: str, tmp_path: Path, damage: str, everywhere: bool
) -> None:
    """As after a loss of power: the next call makes it again."""
    target = tmp_path / "b.zarr"
    half_done(planes, target, 1)
    shards = sorted(target.glob(".chunkwise-intermediate-*/c/*/*/*"))
    for shard in shards if everywhere else shards[-1:]:
        text = shard.read_bytes()
        if damage == "missing":
            shard.unlink()
        elif damage == "another":
            shard.write_bytes(shards[0].read_bytes() if shard != shards[0] else shards[-1].read_bytes())
        else:
            changed = {"empty": b"", "short": text[: len(text) // 2], "zeros": bytes(len(text))}
            shard.write_bytes(changed.get(damage, bytes(255 - byte for byte in text)))
    assert columns(planes, target, resume=True, verify=True).nbytes_copied == VALUES.nbytes
    assert np.array_equal(read_by_tensorstore(target), VALUES)


def test_a_copy_that_is_not_the_source_is_found(planes: str, tmp_path: Path) -> None:
    columns(planes, tmp_path / "b.zarr")
    cw.open(str(tmp_path / "b.zarr")).result()[3, 4, 5] = VALUES[3, 4, 5] ^ 1
    with pytest.raises(DataCorruptionError, match="the copy differs from the source"):
        columns(planes, tmp_path / "b.zarr", resume=True, verify=True)
    assert not (tmp_path / "b.zarr" / JOURNAL).exists()


def test_a_copy_that_is_there_is_verified_by_others(planes: str, tmp_path: Path) -> None:
    columns(planes, tmp_path / "b.zarr")
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as executor:
        report = columns(planes, tmp_path / "b.zarr", resume=True, verify=True, executor=executor)
    assert report.verified and report.nbytes_copied == 0
    assert not (tmp_path / "b.zarr" / JOURNAL).exists()


def test_a_lost_worker_is_not_a_failed_task() -> None:
    done: list[tuple[int, int]] = []
    losses: list[int] = []
    workers = processes_here(2)
    with workers.open() as opened:
        executors = [opened.executor]

        def submit(start: int, stop: int) -> Any:
            if start <= 3 < stop and not losses:
                losses.append(start)
                return executors[-1].submit(os._exit, 1)
            return executors[-1].submit(len, range(start, stop))

        def renew() -> None:
            assert opened.renew is not None
            executors.append(opened.renew())

        stage = Stage(submit, [(0, 20)], lambda a, b, n: done.append((a, b)))
        run_tasks([[stage]], n_workers=2, renew=renew)
    assert len(executors) == 2
    assert sorted(n for a, b in done for n in range(a, b)) == list(range(20))


def test_a_task_that_ends_every_worker_is_named() -> None:
    done: list[int] = []
    workers = processes_here(1)
    with workers.open() as opened:
        executors = [opened.executor]

        def submit(start: int, stop: int) -> Any:
            if start <= 5 < stop:
                return executors[-1].submit(os._exit, 1)
            return executors[-1].submit(len, range(start, stop))

        def renew() -> None:
            assert opened.renew is not None
            executors.append(opened.renew())

        stage = Stage(submit, [(0, 9)], lambda a, b, n: done.extend(range(a, b)))
        with pytest.raises(LostWorkersError, match="task 5 has ended"):
            run_tasks([[stage]], n_workers=1, renew=renew)
    assert 5 not in done and len(set(done)) == len(done)


def test_an_executor_of_others_that_breaks_leaves_a_copy_to_be_resumed(planes: str, tmp_path: Path) -> None:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as executor:
        pid = executor.submit(os.getpid).result()

        def kill(nbytes: int) -> None:
            os.kill(pid, signal.SIGKILL)

        with pytest.raises(ValueError, match="executor is broken"):
            columns(planes, tmp_path / "b.zarr", executor=executor, progress=kill)
    report = columns(planes, tmp_path / "b.zarr", resume=True, verify=True)
    assert report.nbytes_copied < VALUES.nbytes
    assert np.array_equal(read_by_tensorstore(tmp_path / "b.zarr"), VALUES)


@pytest.mark.parametrize("order", [1, -1])
def test_results_may_come_in_any_order(order: int) -> None:
    held: list[tuple[Future[int], int]] = []
    done: list[int] = []

    def submit(start: int, stop: int) -> Any:
        future: Future[int] = Future()
        held.append((future, stop - start))
        if len(held) == 4 or stop == 30:
            for waiting, n in held[::order]:
                waiting.set_result(n)
            held.clear()
        return future

    stage = Stage(submit, [(0, 9), (20, 30)], lambda a, b, n: done.extend(range(a, b)))
    run_tasks([[stage]], n_workers=2)
    assert sorted(done) == [*range(9), *range(20, 30)]


def journal_at(path: Path, **options: Any) -> Journal:
    from chunkwise.core.trees.location import locate

    return Journal(locate(path), {"a": 1}, [10, 5], **options)


def test_two_drivers_do_not_work_on_the_same_copy(tmp_path: Path) -> None:
    first = journal_at(tmp_path)
    first.begin()
    first.mark(0, 4, 0, 7)
    second = journal_at(tmp_path, silence=5.0)
    with ThreadPoolExecutor(1) as threads:
        taking = threads.submit(second.resume)
        time.sleep(1.5)
        first.mark(4)
        with pytest.raises(FailedPreconditionError, match=f"process {os.getpid()} on .* is at work on it"):
            taking.result()


def test_who_is_silent_loses_the_journal(tmp_path: Path) -> None:
    first = journal_at(tmp_path)
    first.begin()
    first.mark(0, 4, 0, 7)
    first.restart()
    first.mark(2, 4, 1, 5)
    first.save()
    second = journal_at(tmp_path)
    second.resume()  # at once: the first has said that nobody is at work
    assert second.missing(1) == [(0, 2), (4, 5)] and second.fingerprint(1) == 5
    third = journal_at(tmp_path, silence=0.2)
    third.resume()
    with pytest.raises(ValueError, match="another process has taken over"):
        second.restart()


def test_workers_are_counted() -> None:
    with ThreadPoolExecutor(3) as executor:
        workers = workers_of(executor)
        assert (workers.n_workers, workers.n_at_once) == (3, 3)
