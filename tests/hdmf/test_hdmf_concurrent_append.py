"""Processes that append to one dataset of an HDMF store, or through z5py, some of which are killed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from appending import check_rows, run_writers
from hdmf.build import DatasetBuilder, GroupBuilder

import chunkwise.z5py
from chunkwise.hdmf import ZarrIO, open_store

SMALL = {"n_writers": 2, "n_appends": 4, "n_kills": 1}
LARGE = {"n_writers": 8, "n_appends": 40, "n_kills": 12}
FORMATS = ("zarr3", "zarr2", "n5")

FIRST: dict[str, Any] = {
    "nwb": DatasetBuilder("d", np.ones((1, 3), "i8"), maxshape=(None, 3)),
    "nwb text": DatasetBuilder("d", ["1"], maxshape=(None,)),
    "nwb table": DatasetBuilder("d", np.array([(1, "1")], [("n", "i8"), ("s", object)]), maxshape=(None,)),
}


def column(place: Path, kind: str) -> npt.NDArray[np.int64]:
    """Return the number of each row, which has to be the same in all columns."""
    if kind == "z5py":
        values = np.asarray(chunkwise.z5py.File(place.parent)[place.name][...])
    else:
        values = np.asarray(open_store(place, consolidated=False).dataset("/d").read())
    if kind == "nwb text":
        return values.astype("i8")
    if kind == "nwb table":
        numbers = values["n"].astype("i8")
        assert numbers.tolist() == [int(text) for text in values["s"]]
        return numbers
    assert (values == values[:, :1]).all()
    return values[:, 0].astype("i8")


def make(place: Path, kind: str, format: str) -> None:
    """Make a dataset with one row."""
    if kind == "z5py":
        file = chunkwise.z5py.File(place.parent, "a", use_zarr_format=format != "n5")
        file.create_dataset(place.name, data=np.ones((1, 3), "i8"), chunks=(4, 3))
        return
    with ZarrIO(place, "w", format=format) as io:
        io.write_builder(GroupBuilder("root", datasets=[FIRST[kind]]))


CASES = [
    *((kind, format) for kind in FIRST for format in FORMATS),
    *(("z5py", format) for format in ("zarr2", "n5")),
]
SMALL_CASES = [("nwb text", "n5")]


@pytest.mark.parametrize(
    ("kind", "format", "size"),
    [
        *((*case, SMALL) for case in SMALL_CASES),
        *(pytest.param(*case, LARGE, marks=pytest.mark.slow) for case in CASES),
    ],
)
def test_processes_that_append_and_are_killed(
    tmp_path: Path, kind: str, format: str, size: dict[str, int]
) -> None:
    place = tmp_path / ("tree.n5" if format == "n5" else "tree.zarr") / "a"
    place.parent.mkdir()
    make(place, kind, format)
    acknowledged = run_writers(kind, str(place), tmp_path, **size)
    check_rows(column(place, kind), acknowledged, 1)
