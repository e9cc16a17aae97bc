"""Promises of a driver to several writers, as tests to inherit from."""

from __future__ import annotations

import multiprocessing
import os
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chunkwise as ts
from chunkwise.testing.driver_arrays import DriverArrays, Place

__all__ = ["SharedWrites"]


class SharedWrites(DriverArrays):
    """Threads, processes and transactions that change one array."""

    def test_threads_that_share_chunks(self, place: Place) -> None:
        """Handles of one array, in several threads, write into the same chunks and lose nothing."""
        url = place.new()
        self.create(place, url, (40, 8), (16, 16))

        def write(worker: int) -> None:
            store = self.reopen(place, url)
            for row in range(worker, 40, 4):
                store[row, row % 8].write(row + 100).result()
                store[row].write(row + 200).result()

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(write, range(4)))
        want = np.repeat(np.arange(200, 240)[:, None], 8, axis=1)
        np.testing.assert_array_equal(self.reopen(place, url).read().result(), want)

    def test_one_of_several_creators_wins(self, place: Place) -> None:
        """A creator beside others gets the array, or an error that there is one."""
        for open_too in (False, True):
            url = place.new()

            def create(size: int, url: str = url, open_too: bool = open_too) -> str:
                shape = (6,) if open_too else (size + 1,)
                spec = self.spec(url, metadata=dict(self.metadata))
                mode = ts.OpenMode(open=open_too, create=True)
                # A context of its own for each, so that nothing but the store decides.
                context = ts.Context(parent=place.context, json={"cache_pool": {}})
                try:
                    ts.open(spec, dtype="uint16", shape=shape, context=context, open_mode=mode).result()
                except ValueError as e:
                    assert "ALREADY_EXISTS" in str(e)
                    return "late"
                return str(shape)

            with ThreadPoolExecutor(6) as pool:
                told = list(pool.map(create, range(6)))
            won = [answer for answer in told if answer != "late"]
            assert len(won) == (6 if open_too else 1)
            assert str(self.reopen(place, url).shape) == won[0]

    def test_a_resize_among_writers(self, place: Place) -> None:
        """Resizing never loses concurrent writes to the remaining chunks."""
        url = place.new()
        self.create(place, url, (30, 8), (7, 5))

        def write(worker: int) -> None:
            store = self.reopen(place, url)
            for row in range(worker, 30, 3):
                store[row].write(row + 1).result()

        def resize() -> None:
            store = self.reopen(place, url)
            for size in (35, 70, 31, 44):
                store.resize(exclusive_max=[size, 8]).result()

        with ThreadPoolExecutor(4) as pool:
            jobs = [pool.submit(resize), *(pool.submit(write, worker) for worker in range(3))]
            for job in jobs:
                job.result()
        got = self.reopen(place, url).read().result()
        want = np.full((44, 8), self.fill_value or 0, np.uint16)
        want[:30] = np.arange(1, 31)[:, None]
        np.testing.assert_array_equal(got, want)

    def test_repeatable_reads(self, place: Place) -> None:
        """A transaction that has read a chunk fails if that was changed before the commit."""
        url = place.new()
        store = self.create(place, url, (6,), (6,))
        store[...] = 1
        for changed in (False, True):
            transaction = ts.Transaction(repeatable_read=True)
            inside = store.with_transaction(transaction)
            before = inside[0].read().result()
            if changed:
                store[1] = 9
            if not changed:
                assert inside[0].read().result() == before
                inside[2] = 5
                transaction.commit_sync()
                continue
            with pytest.raises(ValueError, match=r"ABORTED.*Generation mismatch"):
                inside[0].read().result()
            inside[2] = 6
            with pytest.raises(ValueError, match=r"ABORTED.*Generation mismatch"):
                transaction.commit_sync()
        assert store.read().result().tolist() == [1, 9, 5, 1, 1, 1]

    def test_processes_that_share_a_chunk(self, tmp_path: Path) -> None:
        """Four processes with fifty writes each into one chunk lose nothing."""
        place = Place(f"file://{tmp_path}/", ts.Context())
        url = place.new()
        store = self.create(place, url, (200,), (200,))
        spec = {**store.spec().to_json(), "context": {"file_io_sync": False}}
        meeting = tmp_path / "meeting"
        meeting.mkdir()
        done = [_processes().submit(_write_every_fourth, spec, first, meeting) for first in range(4)]
        assert len({pid.result() for pid in done}) == 4
        np.testing.assert_array_equal(store.read().result(), np.arange(200) + 1)


@cache
def _processes() -> ProcessPoolExecutor:
    """Return four processes that all suites of a test run share, since starting them takes long."""
    return ProcessPoolExecutor(4, multiprocessing.get_context("spawn"))


def _write_every_fourth(spec: dict[str, Any], first: int, meeting: Path) -> int:
    store = ts.open(spec).result()
    (meeting / str(first)).touch()
    end = time.monotonic() + 200
    while len(os.listdir(meeting)) < 4:  # none begins before all do, however busy the machine is
        assert time.monotonic() < end, "not all processes have begun"
        time.sleep(0.005)
    for i in range(first, 200, 4):
        store[i].write(i + 1).result()
    return os.getpid()
