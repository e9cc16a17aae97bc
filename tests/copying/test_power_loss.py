"""What a loss of power leaves: states of the disk in the middle of a piece of work."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chunkwise as cw
from chunkwise.errors import AlreadyExistsError, ChunkwiseError

VALUES = np.arange(1, 4097, dtype="u2").reshape(64, 64)
OLD = np.full((8, 8), 7, "u2")
CALLS = ("rename", "replace", "link", "unlink", "mkdir", "rmdir")
"""Calls that change directories."""


class Losses:
    """States of a folder in the middle of some work, in which files whose data was not synced are empty.

    A state is taken before each call that changes directories, and before each that waits for the disk.
    """

    def __init__(self, folder: Path, states: Path) -> None:
        self._folder, self._states = folder, states
        self._synced: dict[int, tuple[int, int]] = {}
        for file in filter(Path.is_file, folder.rglob("*")):
            found = file.stat()
            self._synced[found.st_ino] = found.st_size, found.st_mtime_ns
        self._lock = threading.Lock()
        self.found: list[Path] = []

    @contextmanager
    def recorded(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """Record while the block runs."""
        with monkeypatch.context() as patch:
            for name in ("fsync", "fdatasync"):
                patch.setattr(os, name, self._noting(getattr(os, name)))
            for name in CALLS:
                patch.setattr(os, name, self._after_a_state(getattr(os, name)))
            yield
        self._take()

    def _noting(self, sync: Callable[[int], None]) -> Callable[[int], None]:
        def noted(file: int) -> None:
            self._take()
            sync(file)
            found = os.fstat(file)
            self._synced[found.st_ino] = found.st_size, found.st_mtime_ns

        return noted

    def _after_a_state(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def after(path: Any, *arguments: Any, **options: Any) -> Any:
            if str(self._folder) in os.fsdecode(path):
                self._take()
            return call(path, *arguments, **options)

        return after

    def _take(self) -> None:
        with self._lock:
            self._take_alone()

    def _take_alone(self) -> None:
        state = self._states / str(len(self.found))
        for path in sorted(self._folder.rglob("*")):
            to = state / path.relative_to(self._folder)
            try:
                found = path.stat()
                if path.is_dir():
                    _mkdir(to)
                    continue
                _mkdir(to.parent)
                is_synced = self._synced.get(found.st_ino) == (found.st_size, found.st_mtime_ns)
                to.write_bytes(path.read_bytes() if is_synced else b"")
            except FileNotFoundError:  # another thread is at work
                continue
        _mkdir(state)
        self.found.append(state)


def _mkdir(path: Path, make: Callable[..., None] = os.mkdir) -> None:
    """Make directories, without the call that is recorded."""
    if not path.exists():
        _mkdir(path.parent)
        make(path)


def create(at: Path) -> None:
    """Make an array with its data in a new place."""
    cw.create_array(at / "group.zarr/new", VALUES, chunks=(16, 64), format="zarr3")


def replace(at: Path) -> None:
    """Make an array in the place of another."""
    cw.create_array(at / "group.zarr/old", VALUES, chunks=(16, 64), overwrite=True)


def copy(at: Path, **options: Any) -> None:
    """Copy an array in one pass."""
    cw.copy(at / "source.zarr", at / "group.zarr/new", chunks=(32, 32), **options)


def copy_in_two_passes(at: Path, **options: Any) -> None:
    """Copy an array in two passes, with an intermediate array."""
    cw.copy(at / "source.zarr", at / "group.zarr/new", chunks=(64, 2), memory=16_000, **options)


def copy_over(at: Path, **options: Any) -> None:
    """Copy an array to the place of another."""
    overwrite = {} if options else {"overwrite": True}
    cw.copy(at / "source.zarr", at / "group.zarr/old", chunks=(32, 32), **overwrite, **options)


WORK: dict[str, tuple[Callable[..., None], str]] = {
    "create": (create, "new"),
    "replace": (replace, "old"),
    "copy": (copy, "new"),
    "copy in two passes": (copy_in_two_passes, "new"),
    "copy over": (copy_over, "old"),
}


@pytest.mark.parametrize(
    "work", ["create", *(pytest.param(name, marks=pytest.mark.slow) for name in WORK if name != "create")]
)
def test_what_is_there_is_whole(work: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    do, name = WORK[work]
    folder = tmp_path / "folder"
    cw.create_array(folder / "source.zarr", VALUES, chunks=(8, 64))
    cw.create_group(folder / "group.zarr").create_array("old", OLD)
    losses = Losses(folder, tmp_path / "states")
    with losses.recorded(monkeypatch):
        do(folder)
    shutil.rmtree(folder)
    outcomes = set()
    for number, state in enumerate(losses.found):
        os.rename(state, folder)  # where the journal says that the source is
        outcome = _look(folder / "group.zarr" / name, name)
        outcomes.add(outcome)
        if do is create and outcome == "nothing":
            for left in (folder / "group.zarr").glob(".new.chunkwise-new-*"):  # of a process that has ended
                left.rename(left.with_name(_of_no_process(left.name)))
            do(folder)
            assert _look(folder / "group.zarr" / name, name) == "new"
            assert not list((folder / "group.zarr").glob(".*chunkwise*")), number
        if do.__name__.startswith("copy"):
            try:
                do(folder, resume=True)
            except AlreadyExistsError:  # the copy had not begun
                assert do is copy_over and outcome == "old"
                do(folder)
            assert np.array_equal(cw.read(folder / "group.zarr" / name), VALUES), number
        shutil.rmtree(folder)
    assert outcomes == {"old" if name == "old" else "nothing", "new"}


def _of_no_process(name: str) -> str:
    """Return the name of a staging place as if another process, which has ended, had made it."""
    stem, machine, pid, number = name.rsplit("-", 3)
    return "-".join((stem, machine, str(int(pid) + (1 << 22)), number))


def _look(place: Path, name: str) -> str:
    """Return what is at a place, whose data must be whole."""
    try:
        found = cw.read(place)
    except ChunkwiseError:
        assert name == "new" and not (place / "zarr.json").exists()
        return "nothing"
    assert not any(report.bad for report in cw.verify(place))
    if found.shape == OLD.shape:
        assert np.array_equal(found, OLD) and name == "old"
        return "old"
    assert np.array_equal(found, VALUES)
    return "new"
