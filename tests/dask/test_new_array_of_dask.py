"""``create_array`` of a dask array: block by block, with chunks as large as its blocks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import numpy.typing as npt
import pytest

import chunkwise as cw


@pytest.mark.each_once
@pytest.mark.parametrize("format", ["zarr3", "zarr2", "n5"])
@pytest.mark.parametrize("chunks", ["auto", (3, 4), -1])
def test_a_dask_array_is_written_block_by_block(
    tmp_path: Path, format: str, chunks: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = np.arange(96.0).reshape(8, 12)
    source = da.from_array(values, chunks=(2, 5))

    def whole(*_: Any, **__: Any) -> None:
        raise AssertionError("the whole is computed at once")

    monkeypatch.setattr(da.Array, "__array__", whole)
    array = cw.create_group(tmp_path / "g", format=format).create_array("a", source, chunks=chunks)
    assert np.array_equal(array.read().result(), values)
    assert array.chunks == {"auto": (2, 5), -1: (8, 12)}.get(chunks, chunks)


def test_a_block_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def block(part: npt.NDArray[Any]) -> npt.NDArray[Any]:
        raise ZeroDivisionError

    source = da.zeros((4, 4), chunks=2).map_blocks(block, dtype="f8")
    with pytest.raises(ZeroDivisionError):
        cw.create_array(tmp_path / "a", source)
    assert not list(tmp_path.iterdir())


def test_an_array_of_objects_that_are_text_or_bytes_has_their_type(tmp_path: Path) -> None:
    for name, values in (("text", ["a", "é"]), ("bytes", [b"a", b"bc"])):
        array = cw.create_array(tmp_path / name, np.array(values, object))
        assert array.dtype == {"text": cw.ustring, "bytes": cw.string}[name]
        assert array.read().result().tolist() == values
    with pytest.raises(ValueError, match="dtype"):
        cw.create_array(tmp_path / "mixed", np.array(["a", None], object))


def test_numpy_and_dask_take_data_types(tmp_path: Path) -> None:
    array = cw.create_array(tmp_path / "a", np.arange(6, dtype=">i2"), chunks=[2])
    assert np.dtype(array.dtype) == np.dtype("i2") == np.zeros(1, array.dtype).dtype
    assert int(da.from_array(array, chunks=2).sum().compute()) == 15
    assert int(cw.to_dask(tmp_path / "a").sum().compute()) == 15


@pytest.mark.parametrize("driver", ["zarr3", "zarr", "zarr1", "n5"])
@pytest.mark.parametrize("option", ["domain", "schema"])
def test_labels_of_a_domain_are_kept(tmp_path: Path, driver: str, option: str) -> None:
    """Where the format has no place for them, they are in the attribute of xarray."""
    domain = cw.IndexDomain(labels=["t", ""], shape=[4, 3])
    given: Any = {option: domain if option == "domain" else cw.Schema(domain=domain)}
    spec = {"driver": driver, "kvstore": {"driver": "file", "path": f"{tmp_path / 'a'}/"}}
    cw.from_dask(da.zeros((4, 3), chunks=2), spec, **given)
    array = cw.open_array(tmp_path / "a")
    known = array.attrs.get("_ARRAY_DIMENSIONS") or list(array.domain.labels)
    assert [name or "" for name in known] == ["t", ""]
