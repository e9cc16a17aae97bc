"""The stream that tasks of several chains form."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from chunkwise.copying.tasks import LostWorkersError, Stage, run_tasks
from chunkwise.errors import AbortedError, DataCorruptionError, prefix


class Held:
    """An executor whose tasks of the stages in `slow` are done only when nothing else is to be done."""

    def __init__(self, slow: set[str]) -> None:
        self.slow, self.log = slow, []  # type: tuple[set[str], list[tuple[str, int]]]
        self.held: list[Future[None]] = []

    def submit(self, name: str, start: int, stop: int) -> Future[None]:
        future: Future[None] = Future()
        self.log += [(name, number) for number in range(start, stop)]
        if name in self.slow:
            self.held.append(future)
        else:
            future.set_result(None)
        return future

    def release(self) -> None:
        for future in self.held:
            future.set_result(None)
        self.held.clear()

    def chain(self, name: str, *sizes: int) -> Iterator[Stage]:
        for at, n in enumerate(sizes):
            own = f"{name}{at}"
            self.log.append((f"begins {own}", 0))
            yield Stage(lambda a, b, own=own: self.submit(own, a, b), [(0, n)], lambda a, b, r: None)
        self.log.append((f"ends {name}", 0))


def test_a_chain_that_waits_does_not_keep_the_others() -> None:
    held = Held({"a0"})
    chains = [held.chain("a", 1, 2), held.chain("b", 3, 1), held.chain("c", 0, 2), held.chain("d")]
    run_tasks(chains, n_workers=2, batch_seconds=0, tick=lambda: held.release() if held_alone(held) else None)
    names = [name for name, _ in held.log]
    assert max(names.index("ends b"), names.index("ends c")) < names.index("begins a1")
    assert sorted(at for at in held.log if at[0] == "b0") == [("b0", 0), ("b0", 1), ("b0", 2)]
    assert (
        names.count("a1") == names.count("c1") == 2
        and "c0" not in names
        and "ends d" in names
        and "ends a" in names
    )


def held_alone(held: Held) -> bool:
    return any(name == "ends c" for name, _ in held.log)


def test_a_failure_says_whose_it_is() -> None:
    def submit(start: int, stop: int) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_exception(DataCorruptionError("bad"))
        return future

    stage = Stage(submit, [(0, 3)], lambda a, b, r: None, failed=lambda e: prefix(e, "x"))
    with pytest.raises(DataCorruptionError, match="x: bad"):
        run_tasks([[stage]], n_workers=1)


def test_what_ends_all_workers_has_a_name() -> None:
    class FutureCancelledError(Exception):  # as Dask has it
        pass

    def submit(start: int, stop: int) -> Future[Any]:
        future: Future[Any] = Future()
        if start <= 2 < stop:
            future.set_exception(FutureCancelledError())
        else:
            future.set_result(None)
        return future

    done: list[int] = []
    stage = Stage(submit, [(0, 5)], lambda a, b, r: done.extend(range(a, b)), name="array {}".format)
    other = Stage(submit, [(3, 9)], lambda a, b, r: done.extend(range(a, b)))
    with pytest.raises(LostWorkersError, match="array 2 has ended 3 workers"):
        run_tasks([[stage], [other]], n_workers=1)
    assert sorted(done) == [0, 1, 3, 3, 4, 4, 5, 6, 7, 8]


def test_an_error_between_stages_lets_what_is_under_way_end() -> None:
    futures: list[Future[Any]] = []

    with ThreadPoolExecutor(1) as threads:

        def submit(start: int, stop: int) -> Future[Any]:
            futures.append(threads.submit(time.sleep, 0.05))
            return futures[-1]

        def failing() -> Iterator[Stage]:
            yield Stage(submit, [(0, 1)], lambda a, b, r: None)
            raise AbortedError("no further")

        other = Stage(submit, [(0, 3)], lambda a, b, r: None)
        with pytest.raises(AbortedError, match="no further"):
            run_tasks([failing(), [other]], n_workers=2, batch_seconds=0)
        assert len(futures) == 4 and all(future.done() for future in futures)


def test_nothing_is_under_way_when_the_first_of_several_errors_is_raised() -> None:
    ended: list[int] = []

    def work(start: int) -> None:
        time.sleep(0.01 * start)
        ended.append(start)

    def done(start: int, stop: int, result: object) -> None:
        raise RuntimeError(f"first of {start}")

    with ThreadPoolExecutor(4) as executor:
        stage = Stage(lambda a, b: executor.submit(work, a), [(0, 40)], done)
        with pytest.raises(RuntimeError, match="first of 0"):
            run_tasks([[stage]], n_workers=4, batch_seconds=0)
        n_ended = len(ended)
        time.sleep(0.1)
        assert len(ended) == n_ended
