"""The journal of unfinished work, with a clock that the test moves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from failing_store import FailingStore, place_in

from chunkwise.copying import journal as journal_module
from chunkwise.copying.copy_passes import PartJournals
from chunkwise.copying.journal import Journal, Part, may_live
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.core.kvstore.places.lease import HeldError, end_turn, take_turn
from chunkwise.core.kvstore.this_process import process_name
from chunkwise.core.kvstore.traits import traits_of
from chunkwise.core.trees.location import Location, locate
from chunkwise.core.trees.node import JOURNAL
from chunkwise.errors import AbortedError, AlreadyExistsError, FailedPreconditionError


class Clock:
    """Time that passes only in `sleep`, where others may act."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []
        self.acts: list[Callable[[], object]] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        if self.acts:
            self.acts.pop(0)()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(journal_module, "time", clock)
    return clock


@pytest.fixture
def place() -> Location:
    return locate(MemoryStore())


class LookingFirst(MemoryStore):
    """A store that looks at the generation before a deletion, as object stores do."""

    traits = traits_of(MemoryStore())._replace(conditional_deletes=False)


def written(place: Location, key: str = JOURNAL) -> Any:
    value = place.store.read(key).value
    return None if value is None else json.loads(bytes(value))


def journal(place: Location, n_tasks: Any = (10, 5), **options: Any) -> Journal:
    return Journal(place, {"a": 1}, n_tasks, **options)


def test_marks_are_written_once_in_a_second(place: Location, clock: Clock) -> None:
    own = journal(place)
    own.begin()
    own.mark(0, fingerprint=3)
    assert written(place)["done"] == [[], []]
    clock.now += 0.999
    own.mark(1, 4, fingerprint=2**64 - 1)
    own.mark(2, 5, 1, 2**64 - 2)
    assert written(place)["done"] == [[], []]
    clock.now += 0.001
    own.mark(4, at=1, fingerprint=7)
    assert written(place)["done"] == [[[0, 4]], [[2, 5]]]
    assert written(place)["fingerprints"] == [f"{2:016x}", f"{5:016x}"]
    assert written(place)["owner"] == own.owner and written(place)["tasks"] == [10, 5]
    assert [own.fingerprint(at) for at in range(2)] == [2, 5]
    assert own.is_done(3) and not own.is_done(4) and own.is_done(4, 1) and not own.is_done(0, 1)
    own.mark(9)
    assert written(place)["done"][0] == [[0, 4]]
    own.write()
    assert written(place)["done"][0] == [[0, 4], [9, 10]] and written(place)["owner"] == own.owner
    own.save()
    assert written(place)["owner"] is None


def test_who_waits_for_others_gives_signs_of_life(place: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the end, and after a write that failed."""
    writes, write = threading.Semaphore(0), Journal.write

    def counted(self: Journal) -> None:
        write(self)
        writes.release()
        raise AbortedError("the store was away")

    own = journal(place)
    own.begin()
    generation = place.store.read(JOURNAL).generation
    monkeypatch.setattr(Journal, "write", counted)
    monkeypatch.setattr(journal_module, "_SECONDS", 0.001)
    with ThreadPoolExecutor(1) as pool:
        monkeypatch.setattr(journal_module, "start_thread", pool.submit)
        with own.beating():
            assert all(writes.acquire(timeout=60) for _ in range(3))
        assert pool.submit(lambda: "the thread is free again").result(60)
    assert place.store.read(JOURNAL).generation != generation and written(place)["owner"] == own.owner


def test_a_beat_is_written_after_five_seconds_without_a_write(place: Location, clock: Clock) -> None:
    own = journal(place)
    own.begin()
    generation = place.store.read(JOURNAL).generation
    clock.now += 4.999
    own.beat()
    assert place.store.read(JOURNAL).generation == generation
    clock.now += 0.001
    own.beat()
    assert place.store.read(JOURNAL).generation != generation
    generation = place.store.read(JOURNAL).generation
    own.beat()
    assert place.store.read(JOURNAL).generation == generation


@pytest.mark.parametrize("owned", [False, True])
def test_work_is_begun_once(owned: bool, place: Location) -> None:
    first = journal(place)
    first.begin(owned=owned)
    assert written(place)["owner"] == (first.owner if owned else None)
    with pytest.raises(AlreadyExistsError, match="begun and not finished"):
        journal(place).begin()


def test_work_begins_when_others_have_ended_theirs() -> None:
    """Who replaces or deletes a node in steps; meanwhile no journal is there."""
    place = place_in(FailingStore(MemoryStore(), lambda: None, 0, plain=True), "x/")
    own, key = journal(place), place.path + JOURNAL
    with ThreadPoolExecutor(1) as other:
        turn = other.submit(take_turn, place.store, place.path, "a test").result()
        with pytest.raises(HeldError):
            own.begin()
        assert written(place, key) is None
        other.submit(end_turn, turn).result()
    own.begin()
    assert written(place, key)["owner"] == own.owner


def test_some_passes_are_restarted(place: Location) -> None:
    own = journal(place)
    own.begin()
    own.mark(0, 4, 0, 7)
    own.mark(0, 2, 1, 9)
    own.restart([1])
    assert written(place)["done"] == [[[0, 4]], []]
    assert (own.fingerprint(0), own.fingerprint(1)) == (7, 0) and written(place)["owner"] == own.owner
    own.mark(0, 2, 1, 9)
    own.restart()
    assert written(place)["done"] == [[], []] and own.missing(1) == [(0, 5)]


def test_what_is_left_of_a_part(place: Location) -> None:
    own = journal(place, part=Part(2, 3))
    assert own.missing() == [(3, 6)] and own.missing(1) == [(1, 3)]
    own.leave_out([[[0, 4]], [[2, 3]]])
    assert own.missing() == [(4, 6)] and own.missing(1) == [(1, 2)]
    own.mark(5)
    assert own.missing() == [(4, 5)] and own.done() == [(5, 6)] and own.done(1) == []


def test_other_work_is_not_resumed(place: Location) -> None:
    journal(place).begin(owned=False)
    with pytest.raises(FailedPreconditionError, match=r"tasks are \[10, 5\], not \[10, 6\]"):
        journal(place, (10, 6)).resume()
    with pytest.raises(FailedPreconditionError, match="can't be resumed"):
        Journal(place, {"a": 2}, (10, 5)).resume()
    assert written(place)["owner"] is None


@pytest.mark.parametrize("store", [MemoryStore, LookingFirst])
def test_an_owner_is_dead_after_silence(store: Any, clock: Clock) -> None:
    place = locate(store())
    first = journal(place)
    first.begin()
    second = journal(place)
    second.resume()
    assert clock.now == 1020 and set(clock.slept) == {0.5}
    assert written(place)["owner"] == second.owner
    for act in (first.write, first.save, first.beat, first.restart, first.delete, first.write):
        clock.now += 60
        with pytest.raises(AbortedError, match="another process has taken over"):
            act()
    second.write()
    third = journal(place, silence=0.2)
    third.resume()
    assert clock.slept[-1] == 0.2
    third.delete()
    assert written(place) is None


def test_an_owner_that_writes_is_at_work(place: Location, clock: Clock) -> None:
    first = journal(place)
    first.begin()
    clock.acts = [lambda: None, first.write]
    with pytest.raises(FailedPreconditionError, match=f"process {os.getpid()} on .* is at work on it"):
        journal(place).resume()
    assert len(clock.slept) == 2 and written(place)["owner"] == first.owner
    first.write()


def test_an_owner_that_stops_is_not_waited_for(place: Location, clock: Clock) -> None:
    first = journal(place)
    first.begin()
    first.mark(1, 3, 1, 255)
    clock.acts = [first.save]
    second = journal(place)
    second.resume()
    assert clock.slept == [0.5] and second.done(1) == [(1, 3)] and second.fingerprint(1) == 255


def test_the_work_may_end_while_it_is_waited_for(place: Location, clock: Clock) -> None:
    first = journal(place)
    first.begin()
    clock.acts = [first.delete]
    with pytest.raises(AbortedError, match="ended the work"):
        journal(place).resume()
    assert written(place) is None


def test_two_take_over_at_once(place: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of them has it, and the other names it."""
    journal(place).begin(owned=False)
    first, second = journal(place), journal(place)
    check_idle = second.check_idle

    def checked() -> Any:
        document = check_idle()
        first.resume()
        return document

    monkeypatch.setattr(second, "check_idle", checked)
    with pytest.raises(FailedPreconditionError, match="is at work on it"):
        second.resume()
    assert written(place)["owner"] == first.owner


def test_a_write_that_was_reported_as_failed(place: Location) -> None:
    """The store has kept it: the process finds its own write, and goes on."""
    own = journal(place)
    own.begin()
    place.store.write(JOURNAL, own._text(own.owner))
    own.mark(0, 10)
    own.save()
    assert written(place)["done"][0] == [[0, 10]] and written(place)["owner"] is None
    for owner in (own.owner, None):
        place.store.write(JOURNAL, own._text(owner))
        own.delete()
        assert written(place) is None
        own.delete()


def test_processes_that_may_live(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another machine's always, those of this one while they run."""
    host = process_name().host
    with subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE) as process:
        pid = process.pid
        assert may_live(f"{host}:{pid}:x") and may_live(f"{host}:{pid}:x")
    assert process.returncode != -1  # asking has sent it no signal
    assert not may_live(f"{host}:{pid}:x") and not may_live(f"{host}:{os.getpid()}:x")
    for owner in (f"{host}x:{pid}:x", f"{host}:{'9' * 30}:x", f"{host}:x:{pid}", f"{host}:²:x"):
        assert may_live(owner)

    def refused(pid: int, signal: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "kill", refused)
    assert may_live(f"{host}:{pid}:x")


def parts_of(place: Location, n: int = 3) -> tuple[Journal, PartJournals]:
    task = {"number of parts": n}
    return Journal(place, task, (9, 3)), PartJournals(place, task, (9, 3), n)


def test_what_parts_have_left(place: Location) -> None:
    whole, parts = parts_of(place)
    assert parts.n_missing() == [0, 0]  # there is no copy, or another process has made it
    whole.begin(owned=False)
    assert parts.n_missing() == [9, 3]
    own = parts.begin(Part(2, 3), whole)
    assert own.missing() == [(3, 6)]
    own.mark(3, 5)
    own.mark(1, at=1)
    own.save()
    assert parts.n_missing() == [7, 2] and [part for part, _ in parts.read()] == [Part(2, 3)]
    again = parts.begin(Part(2, 3), whole)
    assert again.missing() == [(5, 6)]
    assert parts_of(place, 2)[1].n_missing() == [9, 3]  # those of another number of parts don't count
    other = PartJournals(place, {}, (9, 4), 3)
    assert other.n_missing() == [0, 0]
    with pytest.raises(FailedPreconditionError, match="journal of another copy"):
        list(other.read())


def test_tasks_that_are_merged_are_not_done_again(place: Location) -> None:
    """A part whose journal was merged, and deleted, begins with what the whole knows."""
    whole, parts = parts_of(place)
    whole.begin()
    whole.mark(3, 5)
    whole.save()
    own = parts.begin(Part(2, 3), whole)
    assert own.missing() == [(5, 6)] and own.done() == []


def test_parts_are_restarted_but_for_those_at_work(place: Location, clock: Clock) -> None:
    whole, parts = parts_of(place)
    whole.begin(owned=False)
    journals = [parts.begin(Part(number, 3), whole) for number in (1, 2, 3)]
    for own in journals:
        own.mark(*own.missing()[0], 0, 1)
        own.mark(*own.missing(1)[0], 1, 1)
        own.write()
    journals[0].save()
    clock.acts = [journals[2].write]  # of the third; the second is this process's own
    parts.restart([1], Part(2, 3))
    done = {part.number: document["done"] for part, document in parts.read()}
    assert done == {1: [[[0, 3]], []], 2: [[[3, 6]], [[1, 2]]], 3: [[[6, 9]], [[2, 3]]]}
    owners = {part.number: document["owner"] for part, document in parts.read()}
    assert owners == {1: None, 2: journals[1].owner, 3: journals[2].owner}


def test_parts_at_work_are_not_joined(place: Location, clock: Clock) -> None:
    """Nothing is merged, and neither the whole nor another part is left with an owner."""
    whole, parts = parts_of(place, 2)
    whole.begin(owned=False)
    first, second = (parts.begin(Part(number, 2), whole) for number in (1, 2))
    first.mark(0, 4, 0, 5)
    first.save()
    second.mark(4, 6, 0, 6)
    whole.resume()
    clock.acts = [second.write]
    with pytest.raises(FailedPreconditionError, match="at work"):
        parts.join(whole)
    assert written(place)["owner"] is None and written(place)["done"] == [[], []]
    assert [document["owner"] for _, document in parts.read()] == [None, second.owner]
    second.mark(6, 9, 0, 7)
    second.mark(1, 3, 1, 8)
    second.save()
    whole.resume()
    parts.join(whole)
    assert whole.done() == [(0, 9)] and whole.done(1) == [(1, 3)]
    assert (whole.fingerprint(), whole.fingerprint(1)) == (18, 8)
    assert written(place)["done"] == [[[0, 9]], [[1, 3]]] and not list(parts.read())
