"""Second tries of slow tasks, and the fence behind which nothing is written."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import chunkwise as cw
from chunkwise.copying.fence import Fence, Guard
from chunkwise.copying.journal import Journal
from chunkwise.copying.tasks import Stage, run_tasks
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.core.kvstore.protocol import ByteRange, Stamped
from chunkwise.core.trees.location import locate
from chunkwise.errors import AbortedError, FailedPreconditionError


class Slow:
    """An executor of which one try of one task waits until it is let go."""

    def __init__(self, threads: ThreadPoolExecutor, slow: int) -> None:
        self.threads, self.slow, self.tries = threads, slow, 0
        self.go, self.ended = threading.Event(), threading.Event()

    def submit(self, start: int, stop: int) -> Future[str]:
        waits = False
        if start <= self.slow < stop:
            self.tries += 1
            waits = self.tries == 1
        return self.threads.submit(self._do, waits)

    def _do(self, waits: bool) -> str:
        if waits:
            self.go.wait(60)
            self.ended.set()
        return "slow" if waits else "fast"


@pytest.mark.parametrize("writes", [True, False])
def test_what_is_slow_is_tried_a_second_time(writes: bool) -> None:
    done: dict[int, str] = {}
    with ThreadPoolExecutor(3) as threads:
        executor = Slow(threads, 4)

        def note(start: int, stop: int, result: str) -> None:
            for number in range(start, stop):
                assert number not in done
                done[number] = result
            if writes and 4 in done:  # what is still under way is waited for
                executor.go.set()

        run_tasks([[Stage(executor.submit, [(0, 12)], note, writes=writes)]], n_workers=3, batch_seconds=0)
        assert executor.ended.is_set() == writes
        executor.go.set()
    assert sorted(done) == list(range(12)) and set(done.values()) == {"fast"}
    assert executor.tries == 2


def test_a_try_that_is_too_late_may_fail() -> None:
    done: list[int] = []
    late = threading.Event()
    tries: list[int] = []
    with ThreadPoolExecutor(2) as threads:

        def do(start: int, first: bool) -> None:
            if first:
                late.wait(60)
                raise AbortedError("another worker has done it")

        def submit(start: int, stop: int) -> Future[None]:
            tries.append(start)
            return threads.submit(do, start, start == 3 and tries.count(3) == 1)

        def note(start: int, stop: int, result: Any) -> None:
            done.extend(range(start, stop))
            if 3 in done:
                late.set()

        run_tasks([[Stage(submit, [(0, 6)], note)]], n_workers=2, batch_seconds=0)
    assert sorted(done) == list(range(6))


def test_a_worker_that_was_cut_off_writes_no_more(tmp_path: Path) -> None:
    location = locate(tmp_path)
    journal = Journal(location, {"a": 1}, [10])
    fence = Fence(location.store, journal.key, journal.owner)
    with pytest.raises(FailedPreconditionError, match="a worker doesn't see the destination"):
        fence.check_visible()
    journal.begin()
    fence.check_visible()
    journal.mark(2, 6)
    journal.restart()
    time.sleep(1.1)
    journal.mark(2, 6)
    fence.look(0, 2, 7)
    with pytest.raises(AbortedError, match="another worker has done tasks 3 to 5"):
        fence.look(0, 3, 5)
    fence.reading().look(0, 3, 5)
    other = Journal(location, {"a": 1}, [10], silence=0.1)
    other.resume()
    with pytest.raises(AbortedError, match="another process has taken over"):
        fence.look(0, 2, 7)
    other.delete()
    with pytest.raises(AbortedError, match="the work has ended"):
        fence.look(0, 2, 7)


@pytest.mark.parametrize("passing", [True, False])
@pytest.mark.parametrize("end", ["done", "taken over"])
def test_what_a_late_task_leaves(end: str, passing: bool, tmp_path: Path) -> None:
    location = locate(tmp_path / "b")
    journal = Journal(location, {}, 1)
    journal.begin()
    middle = cw.create_array(tmp_path / "middle.zarr", shape=(4,), dtype="u1", chunks=(2,))
    late = Guard(Fence(location.store, journal.key, journal.owner), 0, 0, 1)
    late.begin(0)
    late.guarded(middle, passing=passing)[:2].write(1).result()
    middle[2:].write(1).result()  # by another worker
    if end == "done":
        journal.delete()
    else:
        Journal(location, {}, 1, silence=0).resume()
    with pytest.raises(AbortedError):
        late.check()
    left = [path.name for path in (tmp_path / "middle.zarr").rglob("*") if path.is_file()]
    assert sorted(left) == ([] if end == "done" and passing else ["1", "zarr.json"])


class Counted(MemoryStore):
    """Notes the size of each value that is read."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def read(
        self, key: str, *, byte_range: ByteRange | None = None, if_not_equal: bytes | None = None
    ) -> Stamped:
        found = super().read(key, byte_range=byte_range, if_not_equal=if_not_equal)
        self.sizes.append(len(found.value or b""))
        return found


def test_a_look_at_a_journal_that_is_the_same_reads_no_value() -> None:
    store = Counted()
    journal = Journal(locate(store), {}, 4)
    journal.begin()
    fence = Fence(store, journal.key, journal.owner)
    store.sizes.clear()
    for _ in range(3):
        fence.look(0, 0, 4)
    assert store.sizes[0] > 0 and store.sizes[1:] == [0, 0]
    journal.restart()
    store.sizes.clear()
    for _ in range(3):
        fence.look(0, 0, 4)
    assert store.sizes[1:] == [0, 0]
