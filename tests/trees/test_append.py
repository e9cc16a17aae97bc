"""``append``: each row once, in a place of its own, whatever else happens; all arrays together, or none."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from appending import check_rows, run_writers
from failing_store import FailingStore, contents, place_in

import chunkwise as cw
from chunkwise.copying.new_array import open_array
from chunkwise.core.api.append import Room
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.core.kvstore.places import lease
from chunkwise.core.kvstore.places.staging import APPEND
from chunkwise.core.trees.append import appending
from chunkwise.errors import (
    AbortedError,
    FailedPreconditionError,
    InvalidArgumentError,
    StorageError,
    UnsafeWriteError,
    UnsupportedError,
)

KINDS: dict[str, dict[str, Any]] = {
    "zarr2": {"format": "zarr2", "chunks": (4, 2)},
    "zarr3": {"format": "zarr3", "chunks": (4, 2)},
    "shards": {"format": "zarr3", "chunks": (2, 3), "shards": (6, 3)},
    "n5": {"format": "n5", "chunks": (4, 2)},
}


def make(place: Any, kind: str, n_rows: int = 1) -> cw.TensorStore:
    return cw.create_array(place, np.zeros((n_rows, 3), "i8"), **KINDS[kind])


def memory() -> Any:
    return place_in(MemoryStore(), "a/")


def column(place: Any) -> np.ndarray:
    found = cw.read(place)
    assert (found == found[:, :1]).all(), "a row is half written"
    return found[:, 0]


# -- one process -----------------------------------------------------------------------------------------


@pytest.mark.each_once
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_rows_and_columns(tmp_path: Path, kind: str, axis: int) -> None:
    array = make(tmp_path / "a", kind, 3)
    expected = np.zeros((3, 3), "i8")
    for n in (1, 5, 0, 4, 13):
        rows = np.random.default_rng(n).integers(1, 99, (n, 3) if axis == 0 else (3, n))
        expected = np.append(expected, rows, axis)
        assert array.append(rows, axis) == expected.shape == array.shape
        np.testing.assert_array_equal(array, expected)
        np.testing.assert_array_equal(cw.read(tmp_path / "a"), expected)
    assert not [name for name in contents_of(tmp_path) if "chunkwise" in name]


def contents_of(path: Path) -> list[str]:
    return [str(file) for file in path.rglob("*") if file.is_file()]


def test_what_can_be_appended() -> None:
    array = cw.create_array(memory(), [[1, 2]], dtype="i4")
    other = cw.create_array(memory(), [[3, 4], [5, 6]], dtype="i4")
    assert array.append(other) == (3, 2)
    assert array.append([[7], [8], [9]], axis=1) == (3, 3)
    assert array.T.append(np.full((3, 1), 4, "i1"), axis=1) == (3, 4)
    assert array.read().result().tolist() == [[1, 2, 7], [3, 4, 8], [5, 6, 9], [4, 4, 4]]
    moved = array.resolve().result().translate_to[10, 20]
    assert moved.append(np.zeros((1, 3), "i4")) == (5, 3)
    assert moved.origin == (10, 20)
    text = cw.create_array(memory(), ["a"], dtype="ustring")
    assert text.append(["bc", "d"]) == (3,) and text.read().result().tolist() == ["a", "bc", "d"]


REFUSED: dict[str, tuple[Callable[[cw.TensorStore], object], type[Exception], str]] = {
    "another width": (lambda a: a.append(np.zeros((1, 4), "i8")), InvalidArgumentError, "other sizes"),
    "another rank": (lambda a: a.append(np.zeros(3, "i8")), InvalidArgumentError, "other sizes"),
    "no such axis": (lambda a: a.append(np.zeros((1, 3), "i8"), axis=2), InvalidArgumentError, "axis 2"),
    "another type": (lambda a: a.append(np.full((1, 3), 1.5)), TypeError, "float64"),
    "a part": (lambda a: a[:2].append(np.zeros((1, 3), "i8")), ValueError, "bound"),
    "backwards": (lambda a: a[::-1].append(np.zeros((1, 3), "i8")), ValueError, "bound"),
    "a transaction": (
        lambda a: a.with_transaction(cw.Transaction()).append(np.zeros((1, 3), "i8")),
        UnsupportedError,
        "transaction",
    ),
    "converted": (lambda a: a.astype("f8").append(np.zeros((1, 3))), UnsupportedError, "append"),
    "computed": (
        lambda a: cw.stack([a, a]).append(np.zeros((1, 3, 3), "i8")),
        UnsupportedError,
        "append|Resize",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_changes_nothing(tmp_path: Path, case: str) -> None:
    array = make(tmp_path / "a", "zarr3", 3)
    before = {name: Path(name).read_bytes() for name in contents_of(tmp_path)}
    append, error, message = REFUSED[case]
    with pytest.raises(error, match=message):
        append(array)
    assert {name: Path(name).read_bytes() for name in contents_of(tmp_path)} == before


def test_a_store_without_conditional_writes_is_refused(tmp_path: Path) -> None:
    import fsspec

    place: dict[str, Any] = {
        "driver": "object",
        "object": fsspec.filesystem("memory"),
        "path": "append-unsafe/",
    }
    cw.create_array(place, np.zeros((1, 3), "i8"))
    with pytest.raises(UnsafeWriteError, match="single_writer"):
        cw.open_array(place, "r+").append(np.ones((1, 3), "i8"))
    assert cw.open_array({**place, "single_writer": True}, "r+").append(np.ones((1, 3), "i8")) == (2, 3)


def test_the_calling_thread_does_not_wait_for_itself() -> None:
    array = cw.create_array(memory(), [1])
    with (
        appending([Room(array, 0, 1).growing]),
        pytest.raises(FailedPreconditionError, match="calling thread"),
    ):
        array.append([2])
    assert array.append([3]) == (2,)


# -- failures --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind", ["shards", "n5", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("zarr2", "zarr3"))]
)
def test_a_process_that_ends_at_any_request_leaves_all_rows_or_none(kind: str) -> None:
    start = MemoryStore()
    make(place_in(start, "a/"), kind, 5)
    held = contents(start)

    def fail() -> None:
        raise StorageError("no more")

    def again() -> MemoryStore:
        store = MemoryStore()
        for key, value in held.items():
            store.write(key, value)
        return store

    counted = FailingStore(again(), lambda: None, 0)
    open_array(place_in(counted, "a/")).append(np.full((9, 3), 7))
    n_opening = FailingStore(again(), lambda: None, 0)
    open_array(place_in(n_opening, "a/"))
    outcomes = set()
    for at in range(n_opening.n_calls + 1, counted.n_calls + 1):
        store = again()
        failing = FailingStore(store, fail, at, always=True)
        with suppress(StorageError):
            open_array(place_in(failing, "a/")).append(np.full((9, 3), 7))
        found = column(place_in(store, "a/")).tolist()
        assert found in ([0] * 5, [0] * 5 + [7] * 9), at
        array = open_array(place_in(store, "a/"))
        array.append(np.full((1, 3), 8))
        found = column(place_in(store, "a/")).tolist()
        assert found in ([0] * 5 + [8], [0] * 5 + [7] * 9 + [8]), at
        outcomes.add(len(found))
        # Nothing of cleared rows comes back, and nothing is left.
        array.resize(exclusive_max=[40, 3]).result()
        assert column(place_in(store, "a/")).tolist() == found + [0] * (40 - len(found)), at
        assert not [key for key in contents(store) if APPEND in key], at
    assert outcomes == {6, 15}


def test_a_writer_that_was_given_up_writes_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    make(place_in(store, "a/"), "zarr3", 2)
    array = open_array(place_in(store, "a/"))
    room = Room(array, 0, 7)
    with pytest.raises(AbortedError, match="taken over"), appending([room.growing]) as append:
        view = room.open(append)
        view[:8].write(np.full((6, 3), 5)).result()
        lease._here.clear()  # it looks like one of a process that has ended
        assert open_array(place_in(store, "a/")).append(np.full((1, 3), 6)) == (3, 3)
        with pytest.raises(AbortedError):
            view[8:].write(np.full((1, 3), 5)).result()
        append.commit()
    open_array(place_in(store, "a/")).resize(exclusive_max=[12, 3]).result()
    assert column(place_in(store, "a/")).tolist() == [0, 0, 6, *[0] * 9]


def test_an_owner_that_is_silent_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "_SILENCE", 0.2)
    place = memory()
    array = cw.create_array(place, [1])
    with pytest.raises(AbortedError), appending([Room(array, 0, 1).growing]) as append:
        thread = threading.Thread(target=lambda: open_array(place).append([2]))
        thread.start()
        thread.join(30)
        assert cw.read(place).tolist() == [1, 2]
        append.commit()
    assert cw.read(place).tolist() == [1, 2]


def test_an_owner_that_gives_signs_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "_SILENCE", 0.5)
    monkeypatch.setattr(lease, "_BEAT", 0.05)
    place = memory()
    array = cw.create_array(place, [1])
    done = threading.Event()
    with appending([Room(array, 0, 1).growing]) as append:

        def other() -> None:
            open_array(place).append([3])
            done.set()

        thread = threading.Thread(target=other)
        thread.start()
        assert not done.wait(1.2)
        Room(array, 0, 1).open(append).write([2]).result()
        append.commit()
    thread.join(30)
    assert cw.read(place).tolist() == [1, 2, 3]


def test_a_resize_of_others_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    place = memory()
    array = cw.create_array(place, np.zeros((3, 2), "i8"), chunks=(2, 2))
    open_room = Room.open

    def resized(self: Room, append: Any) -> Any:
        monkeypatch.setattr(Room, "open", open_room)
        view = open_room(self, append)
        larger = open_array(place).resize(exclusive_max=[5, 2]).result()
        larger[3:] = [[4, 4], [5, 5]]
        return view

    monkeypatch.setattr(Room, "open", resized)
    assert array.append(np.full((2, 2), 9)) == (7, 2)
    assert column(place).tolist() == [0, 0, 0, 4, 5, 9, 9]


def test_views_of_new_rows_go_to_other_processes(tmp_path: Path) -> None:
    array = make(tmp_path / "a", "n5", 2)
    room = Room(array, 0, 3)
    with appending([room.growing]) as append:
        sent: cw.TensorStore = pickle.loads(pickle.dumps(room.open(append)))
        sent.write(np.full((3, 3), 4)).result()
        assert column(tmp_path / "a").tolist() == [0, 0]
        append.commit()
        with pytest.raises(AbortedError):
            sent.write(np.full((3, 3), 5)).result()
    assert column(tmp_path / "a").tolist() == [0, 0, 4, 4, 4]


@pytest.mark.parametrize("text", [b"", bytes(300)])
@pytest.mark.parametrize("at", ["a", "b"])
def test_a_document_that_a_loss_of_power_has_left_without_its_text_is_nobodys(
    tmp_path: Path, at: str, text: bytes
) -> None:
    for name in ("a", "b"):
        make(tmp_path / name, "zarr3")
    (tmp_path / at / APPEND).write_bytes(text)
    rooms = [Room(cw.open_array(tmp_path / name, "r+"), 0, 1) for name in ("a", "b")]
    with appending([room.growing for room in rooms]):
        pass
    cw.open_array(tmp_path / at, "r+").append(np.ones((1, 3), "i8"))
    assert not (tmp_path / at / APPEND).exists()


# -- processes -------------------------------------------------------------------------------------------

SMALL = {"n_writers": 3, "n_appends": 6, "n_kills": 1}
LARGE = {"n_writers": 8, "n_appends": 200, "n_kills": 40}


@pytest.mark.parametrize(
    ("kind", "size"),
    [
        ("shards", SMALL),
        *(pytest.param(kind, LARGE, marks=pytest.mark.slow, id=f"{kind}-large") for kind in KINDS),
    ],
)
def test_processes_that_append_and_are_killed(tmp_path: Path, kind: str, size: dict[str, int]) -> None:
    make(tmp_path / "a", kind)
    known = 0

    def look() -> None:
        nonlocal known
        found = column(tmp_path / "a")
        check_rows(found, set(), 1)
        assert len(found) >= known
        known = len(found)

    acknowledged = run_writers("array", str(tmp_path / "a"), tmp_path, meanwhile=look, **size)
    check_rows(column(tmp_path / "a"), acknowledged, 1)
