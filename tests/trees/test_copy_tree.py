"""Trees copied by threads and processes, in all formats that have groups."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chunkwise as cw

VALUES = np.arange(60, dtype="u2").reshape(6, 10)


@pytest.mark.parametrize("source", ["zarr3", "zarr2", "n5"])
def test_of_all_formats(tmp_path: Path, source: Any) -> None:
    group = cw.create_group(tmp_path / "a", format=source, attributes={"x": 1})
    below = group.create_group("b/c", attributes={"y": [2]})
    below.create_array("d", data=VALUES, chunks=(4, 4))
    told: list[tuple[str, int]] = []
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as executor:
        for format in ("zarr3", "zarr2", "n5"):
            report = cw.copy_tree(
                tmp_path / "a",
                tmp_path / format,
                format=format,
                executor=executor,
                verify=True,
                codec="gzip:1",
                progress=lambda path, nbytes: told.append((path, nbytes)),
            )
            assert (report.n_groups, report.n_arrays, report.nbytes) == (3, 1, VALUES.nbytes)
            assert not list(cw.diff(tmp_path / "a", tmp_path / format))
    assert sum(nbytes for _, nbytes in told) == 3 * VALUES.nbytes and {path for path, _ in told} == {"b/c/d"}
    with pytest.raises(ValueError, match=r"is a group already .*overwrite=True"):
        cw.copy_tree(tmp_path / "a", tmp_path / "n5")
    with pytest.raises(ValueError, match="inside"):
        cw.copy_tree(tmp_path / "a", tmp_path / "a/b/e")


@pytest.mark.parametrize("format", ["zarr3", "zarr2", "n5"])
def test_an_open_array_of_zarr_v1_is_copied_as_any_other(format: str, tmp_path: Path) -> None:
    values = np.arange(12, dtype="u2").reshape(3, 4)
    source = cw.create_array(
        tmp_path / "v1", values, format="zarr1", chunks=2, codec="gzip:3", attributes={"q": 1}
    )
    group = cw.create_group(tmp_path / "g", format=format)
    group.copy(source, "a")
    group.copy(cw.open_array(tmp_path / "v1"), "b")
    for name in ("a", "b"):
        assert group[name].read().result().tolist() == values.tolist()
        assert group[name].attrs["q"] == 1 and group[name].chunks == (2, 2)
