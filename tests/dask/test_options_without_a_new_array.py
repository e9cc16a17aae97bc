"""No option of a new array is ignored where none is made, or where TensorStore's own are taken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dask.array as da
import numcodecs
import numpy as np
import pytest
import zarr.codecs

import chunkwise as cw

FORMS: dict[str, list[Any]] = {
    "chunks": [4, (4, 4), -1, True, "auto", {"y": 4}],
    "shards": [8, (8, 8), "auto", False, None],
    "codec": ["zstd:5", "none", numcodecs.Blosc(), zarr.codecs.ZstdCodec(), {"name": "gzip"}, 5],
    "compressor": [numcodecs.Blosc(), None],
    "compressors": [zarr.codecs.GzipCodec(), None, []],
    "filters": [[numcodecs.Delta("u2")]],
    "checksum": [True, False],
    "dimension_names": ["yx", ["y", None]],
    "attributes": [{"k": 1}],
}
ROWS = [(option, form) for option, forms in FORMS.items() for form in forms]
VALUES = np.arange(256, dtype="u2").reshape(16, 16)


@pytest.mark.parametrize(
    ("option", "form"),
    [*ROWS, ("dtype", "f4"), ("fill_value", 0), ("dimension_units", ["4 nm", None]), ("overwrite", True)],
)
@pytest.mark.parametrize("compute", [True, False])
def test_a_target_that_is_there_takes_none(option: str, form: Any, compute: bool, tmp_path: Path) -> None:
    target = cw.create_array(tmp_path / "a", shape=(16, 16), dtype="u2", chunks=8)
    with pytest.raises(TypeError, match=rf"'{option}'; did you mean chunkwise\.from_dask\("):
        cw.store(da.from_array(VALUES), target, compute=compute, **{option: form})
    assert not target.read().result().any()


@pytest.mark.parametrize(("option", "form"), [row for row in ROWS if row[0] != "codec"])
def test_open_names_what_takes_them(option: str, form: Any, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=rf"'{option}'; did you mean chunkwise\.create_array\(path"):
        cw.open(tmp_path / "a", create=True, shape=(16, 16), dtype="u2", **{option: form})
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("form", FORMS["codec"])
def test_open_takes_codecs_of_tensorstore(form: Any, tmp_path: Path) -> None:
    spec = {"driver": "zarr3", "kvstore": f"file://{tmp_path}/a/"}
    with pytest.raises(TypeError, match="Invalid codec") as refused:
        cw.open(spec, create=True, shape=(16, 16), dtype="u2", codec=form)
    assert "expected CodecSpec" in (note := refused.value.__notes__[0]) and "create_array" in note


@pytest.mark.parametrize("units", [{"y": "4 nm", "x": "1 nm"}, {"4 nm", "1 nm"}, "nm"])
def test_open_takes_units_in_the_order_of_dimensions(units: Any, tmp_path: Path) -> None:
    """Names of dimensions were taken for units."""
    with pytest.raises(TypeError, match="Invalid dimension_units") as refused:
        spec = {"driver": "zarr3", "kvstore": f"file://{tmp_path}/a/"}
        cw.open(spec, create=True, shape=(16, 16), dtype="u2", dimension_units=units)
    assert refused.value.__notes__ == ["dimension_units: expected one for each dimension, in their order"]
    with pytest.raises(TypeError, match="Invalid dimension_units"):
        cw.overlay([cw.array([[1, 2]])], dimension_units=units)
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("value", [float("nan"), "x"])
def test_open_names_a_fill_value_that_does_not_fit(value: Any, tmp_path: Path) -> None:
    spec = {"driver": "zarr3", "kvstore": f"file://{tmp_path}/a/"}
    with pytest.raises(ValueError, match=r"convert|invalid literal") as refused:
        cw.open(spec, create=True, shape=(16, 16), dtype="u2", fill_value=value)
    assert refused.value.__notes__ == [f"fill_value: {value!r} is not a value of uint16"]


def test_a_write_to_what_is_open_for_reading_says_how_to_open_it(tmp_path: Path) -> None:
    cw.create_array(tmp_path / "a", VALUES)
    array = cw.open_array(tmp_path / "a")
    for write in (
        lambda: array.write(1).result(),
        lambda: array.__setitem__(0, 1),
        lambda: array.append(VALUES),
        lambda: array.resize(exclusive_max=[20, 16]).result(),
        lambda: cw.store(da.from_array(VALUES), array),
        lambda: array.write(cw.array(VALUES)).result(),
    ):
        with pytest.raises(ValueError, match="does not support writing") as refused:
            write()
        assert 'open_array(path, "r+")' in str(refused.value.__notes__)


@pytest.mark.parametrize("dtype", ["f4", np.float32, "<f4", cw.float32, np.dtype("f4")])
def test_from_dask_takes_a_data_type(dtype: Any, tmp_path: Path) -> None:
    made = cw.from_dask(da.from_array(VALUES, chunks=8), tmp_path / "a", dtype=dtype)
    assert made.dtype == cw.float32
    np.testing.assert_array_equal(made.read().result(), VALUES)


def test_from_dask_leaves_nothing_where_values_do_not_fit(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="Cannot cast"):
        cw.from_dask(da.from_array(VALUES, chunks=8), tmp_path / "a", dtype="u1")
    assert not (tmp_path / "a").exists()
