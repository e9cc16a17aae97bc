"""Appends of several writers at the same time: none is lost, and none is undone by another's failure."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import chunkwise
from chunkwise.xarray import write_dataset
from chunkwise.xarray.concurrent_append import UnevenError
from chunkwise.xarray.dataset_write import DatasetWrite

FORMATS = ("zarr2", "zarr3", "n5")


def days(first: int, n: int = 1) -> xr.Dataset:
    time = np.arange(first, first + n)
    values = np.broadcast_to(time[:, None] * 1.0, (n, 3))
    return xr.Dataset({"rain": (("time", "x"), values), "wind": (("time", "x"), -values)}, {"time": time})


APPEND = """
import sys
sys.path.insert(0, sys.argv[1])
from test_xarray_concurrent_append import days
from chunkwise.xarray import write_dataset
first = int(sys.argv[3])
for day in range(first, first + 5):
    write_dataset(days(day), sys.argv[2], append_dim="time")
"""


@pytest.mark.parametrize(
    "format", ["zarr3", *(pytest.param(f, marks=pytest.mark.slow) for f in ("zarr2", "n5"))]
)
def test_processes_append_at_the_same_time(tmp_path: Path, format: str) -> None:
    place = tmp_path / "a"
    write_dataset(days(0), place, format=format, encoding={"rain": {"chunks": (4, 3)}})
    arguments = [sys.executable, "-c", APPEND, str(Path(__file__).parent), str(place)]
    writers = [
        subprocess.Popen([*arguments, str(first)], stderr=subprocess.PIPE, text=True) for first in (1, 6, 11)
    ]
    for writer in writers:
        _, errors = writer.communicate(timeout=120)
        assert writer.returncode == 0, errors
    found = xr.open_dataset(place, engine="chunkwise").load().sortby("time")
    xr.testing.assert_equal(found, days(0, 16))


def _meanwhile(monkeypatch: pytest.MonkeyPatch, do: Any) -> None:
    """Call `do` once, when a write has been planned and nothing has grown yet."""
    begin = DatasetWrite.begin

    def begin_after(self: DatasetWrite) -> None:
        monkeypatch.setattr(DatasetWrite, "begin", begin)
        do()
        begin(self)

    monkeypatch.setattr(DatasetWrite, "begin", begin_after)


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


def test_a_write_that_fails_takes_back_its_own_room_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "a"
    write_dataset(days(0, 2), place)

    def fails(variable: Any, view: Any) -> None:
        monkeypatch.undo()
        write_dataset(days(7), place, append_dim="time")  # behind the room that was made
        raise OSError("no space left")

    monkeypatch.setattr("chunkwise.xarray.write._write_blocks", fails)
    with pytest.raises(OSError, match="no space"):
        write_dataset(days(8), place, append_dim="time")
    found = xr.open_dataset(place, engine="chunkwise").load()
    assert found.rain.values[:, 0].tolist()[-1] == 7
    assert found.sizes["time"] == 4


def test_variables_that_stay_of_different_lengths_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chunkwise.xarray.concurrent_append._PATIENCE", 0.1)
    write_dataset(days(0, 2), tmp_path / "a")
    chunkwise.open(tmp_path / "a/rain").result().resize(exclusive_max=[5, 3]).result()
    with pytest.raises(UnevenError, match="different lengths"):
        write_dataset(days(2), tmp_path / "a", append_dim="time")


def test_a_kept_fingerprint_is_no_attribute_of_a_dataset(tmp_path: Path) -> None:
    write_dataset(days(0, 4), tmp_path / "a")
    chunkwise.copy_tree(tmp_path / "a", tmp_path / "b", chunks={"time": 2}, keep_fingerprint=True)
    copied = xr.open_dataset(tmp_path / "b", engine="chunkwise")
    xr.testing.assert_identical(copied.load(), days(0, 4))
    write_dataset(copied.isel(time=[0, 1]), tmp_path / "c")  # of other elements
    assert all(not report.bad for report in chunkwise.verify(tmp_path / "c"))
    write_dataset(days(4), tmp_path / "b", append_dim="time")
    reasons = [bad.reason for report in chunkwise.verify(tmp_path / "b") for bad in report.bad]
    assert len(reasons) == 3
    assert all("written after that" in reason for reason in reasons)
