"""An array keeps no mask, so no writer takes the numbers under one, wherever the mask comes from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import numpy.typing as npt
import pytest

import chunkwise as cw
from chunkwise.z5py import File

MASKED = np.ma.masked_array(np.arange(1, 7), mask=[False, True, False, False, False, False])


class _Variable:
    """What gives a masked array of its elements, as a variable of netCDF4 does."""

    shape, dtype, ndim = MASKED.shape, MASKED.dtype, 1

    def __getitem__(self, key: Any) -> npt.NDArray[Any]:
        return MASKED[key]

    def __array__(self, dtype: Any = None, copy: Any = None) -> npt.NDArray[Any]:
        return MASKED


SOURCES: dict[str, Callable[[], Any]] = {
    "numpy": lambda: MASKED,
    "blocks": lambda: da.from_array(MASKED, chunks=2),
    "one block": lambda: da.from_array(MASKED, chunks=6),
    "computed": lambda: da.ma.masked_equal(da.arange(1, 7, chunks=4), 2),
    "variable": _Variable,
}
WRITERS: dict[str, Callable[[Path, Any], object]] = {
    "create_array": lambda path, values: cw.create_array(path / "new", values),
    "group": lambda path, values: cw.open_group(path / "group", "a").__setitem__("new", values),
    "copy": lambda path, values: cw.copy(values, path / "new"),
    "array": lambda path, values: cw.array(values),
    "set": lambda path, values: cw.open_array(path / "old", mode="r+").__setitem__(..., values),
    "write": lambda path, values: cw.open_array(path / "old", mode="r+").write(values).result(),
    "append": lambda path, values: cw.open_array(path / "old", mode="r+").append(values),
    "z5py": lambda path, values: File(path / "old.n5", "a")["x"].__setitem__(slice(None), values),
    "z5py, new": lambda path, values: File(path / "old.n5", "a").create_dataset("new", data=values),
    "z5py, direct": lambda path, values: File(path / "old.n5", "a")["x"].write_direct(values),
}
OF_DASK: dict[str, Callable[[Path, Any], object]] = {
    "from_dask": lambda path, values: cw.from_dask(values, path / "new"),
    "from_dask in larger chunks": lambda path, values: cw.from_dask(values, path / "new", chunks=(6,)),
    "store": lambda path, values: cw.store(values, cw.open_array(path / "old", mode="r+")),
}


@pytest.mark.parametrize(
    ("writer", "source"),
    [(writer, source) for writer in WRITERS for source in SOURCES]
    + [(writer, source) for writer in OF_DASK for source in ("blocks", "one block", "computed")],
)
def test_no_writer_drops_a_mask(tmp_path: Path, writer: str, source: str) -> None:
    cw.create_array(tmp_path / "old", np.zeros(6, "int64"), chunks=(6,))
    File(tmp_path / "old.n5", "a").create_dataset("x", data=np.zeros(6, "int64"), chunks=(6,))
    with pytest.raises(ValueError, match="values are masked"):
        (WRITERS | OF_DASK)[writer](tmp_path, SOURCES[source]())
    assert cw.read(tmp_path / "old").tolist() == cw.read(tmp_path / "old.n5/x").tolist() == [0] * 6
    assert "new" not in File(tmp_path / "old.n5", "r")


@pytest.mark.parametrize("writer", [*WRITERS, *OF_DASK])
def test_a_mask_without_masked_values_is_nothing(tmp_path: Path, writer: str) -> None:
    cw.create_array(tmp_path / "old", np.zeros(6, "int64"), chunks=(6,))
    File(tmp_path / "old.n5", "a").create_dataset("x", data=np.zeros(6, "int64"), chunks=(6,))
    values = da.from_array(np.ma.masked_array(np.arange(6)), chunks=4)
    (WRITERS | OF_DASK)[writer](tmp_path, values)
