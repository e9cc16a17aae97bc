"""Appends of several writers at the same time: none is lost, and none is undone by another's failure."""

from __future__ import annotations

import threading
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pytest
import xarray as xr
from appending import check_rows, rows_of, run_writers
from failing_store import FailingStore, contents, place_in

import chunkwise
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.core.kvstore.places.staging import APPEND
from chunkwise.core.trees.append import appending, excluding
from chunkwise.errors import StorageError
from chunkwise.xarray import write_dataset

FORMATS = ("zarr2", "zarr3", "n5")


def days(first: int, n: int = 1) -> xr.Dataset:
    time = np.arange(first, first + n)
    values = np.broadcast_to(time[:, None] * 1.0, (n, 3))
    return xr.Dataset({"rain": (("time", "x"), values), "wind": (("time", "x"), -values)}, {"time": time})


def _meanwhile(monkeypatch: pytest.MonkeyPatch, do: Any, takes: Any = appending) -> None:
    """Call `do` once, when a write has been planned and nothing is taken yet."""

    def take(what: Any, **options: Any) -> Any:
        monkeypatch.undo()
        do()
        return takes(what, **options)

    monkeypatch.setattr(f"chunkwise.xarray.write.{takes.__name__}", take)


@pytest.mark.parametrize("format", FORMATS)
def test_what_another_writer_appends_meanwhile_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str
) -> None:
    place = tmp_path / "a"
    write_dataset(days(0, 2), place, format=format)
    _meanwhile(monkeypatch, lambda: write_dataset(days(7), place, append_dim="time"))
    write_dataset(days(8, 2), place, append_dim="time")
    found = xr.open_dataset(place, engine="chunkwise").load()
    assert found.time.values.tolist() == [0, 1, 7, 8, 9]
    assert found.wind.values[:, 0].tolist() == [0, -1, -7, -8, -9]


def test_a_variable_that_another_writer_adds_meanwhile_grows_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "a"
    write_dataset(days(0, 2)[["rain"]], place)
    _meanwhile(monkeypatch, lambda: write_dataset(days(0, 2)[["wind"]], place, mode="a"), excluding)
    write_dataset(days(2), place, append_dim="time")
    xr.testing.assert_equal(xr.open_dataset(place, engine="chunkwise").load(), days(0, 3))


def test_a_write_that_fails_leaves_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "a"
    write_dataset(days(0, 2), place)
    others: list[threading.Thread] = []

    def fails(variable: Any, view: Any) -> None:
        monkeypatch.undo()
        view.write(np.asarray(variable)).result()
        other = threading.Thread(target=lambda: write_dataset(days(7), place, append_dim="time"))
        other.start()
        others.append(other)
        assert xr.open_dataset(place, engine="chunkwise").sizes["time"] == 2
        raise OSError("no space left")

    monkeypatch.setattr("chunkwise.xarray.write._write_blocks", fails)
    with pytest.raises(OSError, match="no space"):
        write_dataset(days(8), place, append_dim="time")
    others[0].join(60)
    found = xr.open_dataset(place, engine="chunkwise").load()
    assert found.rain.values[:, 0].tolist() == [0, 1, 7]
    assert found.sizes["time"] == 3


def test_variables_of_different_lengths_are_an_error(tmp_path: Path) -> None:
    write_dataset(days(0, 2), tmp_path / "a")
    chunkwise.open(tmp_path / "a/rain").result().resize(exclusive_max=[5, 3]).result()
    with pytest.raises(chunkwise.errors.InvalidArgumentError, match="different lengths"):
        write_dataset(days(2), tmp_path / "a", append_dim="time")


@pytest.mark.parametrize("scheduler", ["threads", pytest.param("processes", marks=pytest.mark.slow)])
def test_dask_computes_new_rows(tmp_path: Path, scheduler: str) -> None:
    write_dataset(days(0, 2), tmp_path / "a", encoding={"rain": {"chunks": (4, 3)}})
    with dask.config.set(scheduler=scheduler):
        write_dataset(days(2, 9).chunk(time=2), tmp_path / "a", append_dim="time")
    xr.testing.assert_equal(xr.open_dataset(tmp_path / "a", engine="chunkwise").load(), days(0, 11))


def test_a_delayed_append_has_its_place_at_once(tmp_path: Path) -> None:
    write_dataset(days(0, 2), tmp_path / "a")
    delayed = write_dataset(days(2, 2).chunk(time=1), tmp_path / "a", append_dim="time", compute=False)
    write_dataset(days(4), tmp_path / "a", append_dim="time")
    assert delayed is not None
    delayed.compute()
    xr.testing.assert_equal(xr.open_dataset(tmp_path / "a", engine="chunkwise").load(), days(0, 5))


@pytest.mark.parametrize(
    ("format", "step"),
    [("zarr3", 6), *(pytest.param(format, 1, marks=pytest.mark.slow) for format in FORMATS)],
)
def test_a_process_that_ends_at_any_request_leaves_variables_even(format: str, step: int) -> None:
    """With chunkwise, and with consolidated metadata, all rows of a call are there, or none."""
    start = MemoryStore()
    write_dataset(days(0, 2), place_in(start, "a/"), format=format)
    held = contents(start)

    def fail() -> None:
        raise StorageError("no more")

    def again() -> MemoryStore:
        store = MemoryStore()
        for key, value in held.items():
            store.write(key, value)
        return store

    def seen(store: Any) -> list[int]:
        groups = [chunkwise.open_group(place_in(store, "a/"), consolidated=c) for c in (None, False)]
        lengths = []
        for group in groups:
            found = xr.open_dataset(group, engine="chunkwise").load()
            xr.testing.assert_equal(found, days(0, found.sizes["time"]))
            lengths.append(found.sizes["time"])
        return lengths

    counted = FailingStore(again(), lambda: None, 0)
    write_dataset(days(2, 3), place_in(counted, "a/"), append_dim="time")
    outcomes = set()
    for at in range(1, counted.n_calls + 1, step):
        store = again()
        with suppress(StorageError):
            failing = FailingStore(store, fail, at, always=True)
            write_dataset(days(2, 3), place_in(failing, "a/"), append_dim="time")
        assert set(seen(store)) <= {2, 5}, at
        length = xr.open_dataset(place_in(store, "a/"), engine="chunkwise").sizes["time"]
        outcomes.add(length)
        # What was complete and not yet seen, is seen from now on.
        write_dataset(days(90), place_in(store, "a/"), append_dim="time")
        found = xr.open_dataset(place_in(store, "a/"), engine="chunkwise").load()
        n = found.sizes["time"] - 1
        assert n in (length, 5), at
        xr.testing.assert_equal(found, xr.concat([days(0, n), days(90)], "time"))
        assert not [key for key in contents(store) if APPEND in key], at
    assert outcomes == {2, 5}


LARGE = {"n_writers": 8, "n_appends": 200, "n_kills": 40}


@pytest.mark.parametrize(
    ("format", "size"),
    [
        ("zarr3", {"n_writers": 2, "n_appends": 4, "n_kills": 1}),
        *(pytest.param(format, LARGE, marks=pytest.mark.slow, id=f"{format}-large") for format in FORMATS),
    ],
)
def test_processes_that_append_and_are_killed(tmp_path: Path, format: str, size: dict[str, int]) -> None:
    place = tmp_path / "a"
    rows = rows_of(1000, 0)
    values = np.repeat(rows[:, None], 3, axis=1)
    write_dataset(
        xr.Dataset({"a": ("t", rows), "b": (("t", "x"), values)}, {"t": rows}),
        place,
        format=format,
        encoding={"a": {"chunks": (3,)}, "b": {"chunks": (4, 2)}},
    )

    def look(**options: Any) -> xr.Dataset:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = xr.open_dataset(place, **{"engine": "chunkwise", **options}).load()
        check_rows(found.a.values, set())
        assert (found.b.values == found.a.values[:, None]).all()
        assert (found.t.values == found.a.values).all()
        return found

    def meanwhile() -> None:
        look()
        if format != "n5":
            look(engine="zarr", consolidated=True)

    acknowledged = run_writers("dataset", str(place), tmp_path, meanwhile=meanwhile, **size)
    check_rows(look().a.values, acknowledged)


def test_a_kept_fingerprint_is_no_attribute_of_a_dataset(tmp_path: Path) -> None:
    write_dataset(days(0, 4), tmp_path / "a")
    chunkwise.copy_tree(tmp_path / "a", tmp_path / "b", chunks={"time": 2}, keep_fingerprint=True)
    copied = xr.open_dataset(tmp_path / "b", engine="chunkwise")
    xr.testing.assert_identical(copied.load(), days(0, 4))
    write_dataset(copied.isel(time=[0, 1]), tmp_path / "c")  # of other elements
    bad = [report.bad for report in chunkwise.verify(tmp_path / "c") if report.kind == "array"]
    assert bad and not any(bad)
    write_dataset(days(4), tmp_path / "b", append_dim="time")
    reasons = [bad.reason for report in chunkwise.verify(tmp_path / "b") for bad in report.bad]
    assert len(reasons) == 3
    assert all("written after that" in reason for reason in reasons)


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
@pytest.mark.parametrize("store", ["files", "group in files", "memory", "zip"])
def test_the_first_append_makes_the_dataset(tmp_path: Path, store: str, format: str) -> None:
    place: Any
    if store == "memory":
        place = place_in(MemoryStore(), "a/")
    elif store == "zip":
        place = f"{tmp_path / 'a.zip'}|zip:"
    else:
        place = tmp_path / "a"
        if store == "group in files":
            chunkwise.create_group(place, format=format)
            place = place / "b"
    for row in range(3):
        write_dataset(days(row), place, append_dim="time", format=format)
    xr.testing.assert_equal(xr.open_dataset(place, engine="chunkwise").load(), days(0, 3))
