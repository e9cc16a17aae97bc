"""What has many chunks is written to an archive once, also to one in another archive."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.array
import numpy as np
import pytest

import chunkwise as cw
from chunkwise.core.kvstore.adapter.zip import ZipStore
from chunkwise.dask import from_dask

VALUES = np.arange(32 * 32, dtype="uint16").reshape(32, 32)

MAKERS: dict[str, Callable[[str, str], object]] = {
    "create_array": lambda place, format: cw.create_array(place, VALUES, chunks=8, format=format),
    "overwrite": lambda place, format: cw.create_array(
        place, VALUES, chunks=8, format=format, overwrite=True
    ),
    "copy": lambda place, format: cw.copy(cw.array(VALUES), place, chunks=8, format=format),
    "from_dask": lambda place, format: from_dask(
        dask.array.from_array(VALUES, chunks=8), f"{place}|{format}:", scheduler="sync"
    ),
}


@pytest.fixture
def n_writes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    count, change = [0], ZipStore._change

    def counted(store: ZipStore, *arguments: Any) -> Any:
        count[0] += 1
        return change(store, *arguments)

    monkeypatch.setattr(ZipStore, "_change", counted)
    return count


@pytest.mark.each_once
@pytest.mark.parametrize("format", ["zarr3", "zarr2", "n5"])
@pytest.mark.parametrize("maker", MAKERS)
def test_an_array_is_written_once(tmp_path: Path, n_writes: list[int], maker: str, format: str) -> None:
    for n, archive in enumerate(("a.zip|zip:", "b.zip|zip:v", "c.zip|zip:d.zip|zip:w")):
        place = f"file://{tmp_path}/{archive}"
        MAKERS[maker](place, format)
        assert n_writes[0] <= (2, 4, 8)[n], (archive, n_writes[0])
        n_writes[0] = 0
        np.testing.assert_array_equal(cw.open(f"{place}|{format}:").result(), VALUES)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.zip", "b.zip", "c.zip"]


def test_what_fails_leaves_the_archive(tmp_path: Path) -> None:
    group = cw.create_group(f"{tmp_path}/a.zip|zip:")
    group.create_array("old", VALUES)
    before = (tmp_path / "a.zip").read_bytes()

    def fail(block: Any) -> Any:
        raise RuntimeError("no")

    broken = dask.array.from_array(VALUES, chunks=8).map_blocks(fail, dtype="uint16")
    for make in (
        lambda: from_dask(broken, f"{tmp_path}/a.zip|zip:new|zarr3:", scheduler="sync"),
        lambda: cw.create_array(f"{tmp_path}/a.zip|zip:old", broken, overwrite=True),
    ):
        with pytest.raises(RuntimeError):
            make()
        assert [path.name for path in tmp_path.iterdir()] == ["a.zip"]
        assert (tmp_path / "a.zip").read_bytes() == before


def test_consolidated_metadata_have_what_was_made(tmp_path: Path) -> None:
    place = f"{tmp_path}/a.zip|zip:"
    cw.create_group(place).consolidate()
    for maker in MAKERS:
        MAKERS[maker](f"file://{place}{maker}", "zarr3")
    assert sorted(cw.open_group(place, consolidated=True)) == sorted(MAKERS)
