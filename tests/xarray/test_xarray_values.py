"""What a stored type can't hold is refused, with the name, the value and the range; all else is exact.

The oracle is NumPy: a value that survives the way to the stored type and back is exact.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dask
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import chunkwise as cw
from chunkwise.errors import InvalidArgumentError
from chunkwise.xarray import write_dataset

FORMATS = ("zarr2", "zarr3", "n5")
VALUES: dict[str, list[Any]] = {
    "bool": [True],
    "i1": [-128],
    "u1": [255],
    "i2": [300, -1],
    "u2": [65535],
    "i4": [2**31 - 1],
    "i8": [2**53 + 1, 2**63 - 1, -(2**63)],
    "u8": [2**64 - 1, 2**53 + 1],
    "f4": [0.5, 1.0, np.inf, np.nan, 3e38],
    "f8": [0.1, 1.0, 1e300, np.nan, 2.0**63],
    "c16": [1e300 + 1j, 2.0],
}


def dataset(values: Any, lazy: bool = False, dim: str = "i") -> xr.Dataset:
    whole = xr.Dataset({"n": (dim, np.asarray(values))})
    return whole.chunk({dim: 2}) if lazy else whole


def read(path: Any, **options: Any) -> np.ndarray:
    found: np.ndarray = xr.open_dataset(path, engine="chunkwise", **options).load()["n"].values
    return found


def snapshot(path: Path) -> dict[str, bytes]:
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}


def is_exact(value: np.ndarray, stored: str) -> bool:
    with np.errstate(all="ignore"):
        if value.dtype.kind == "c" != np.dtype(stored).kind:
            return False
        cast = value.astype(stored)
        back = (cast if value.dtype.kind == "c" else cast.real).astype(value.dtype)
    missing = bool((value != value).all())
    return (
        missing
        if np.dtype(stored).kind in "fc" and missing
        else bool((back == value).all() and cast == value)
    )


@pytest.mark.filterwarnings("ignore:.* encountered in cast:RuntimeWarning")  # in tasks of dask
@pytest.mark.parametrize(
    ("stored", "lazy"),
    [
        *((stored, False) for stored in VALUES),
        *(pytest.param(s, True, marks=[] if s in ("i2", "f4") else pytest.mark.slow) for s in VALUES),
    ],
)
def test_numbers_are_stored_exactly_or_refused(stored: str, lazy: bool) -> None:
    """For each stored type, appended type and value; floating-point numbers are rounded, as NumPy does."""
    store = cw.KvStore.open("memory://").result()
    write_dataset(dataset(np.zeros(1, stored)), store, consolidated=False)
    n = 1
    for new, value in ((new, value) for new, values in VALUES.items() for value in values):
        given = np.array([value], new)
        try:
            with dask.config.set(scheduler="sync"):
                write_dataset(dataset(given, lazy), store, append_dim="i", consolidated=False)
        except InvalidArgumentError as e:
            assert '"n"' in str(e)
            assert len(read(store)) == n
            # A type can be refused as such: complex numbers, numbers as booleans, unknown values.
            by_type = new == "c16" or stored == "bool" or (lazy and new[0] == "f" and stored[0] in "iu")
            assert not is_exact(given, stored) or by_type, (new, value)
            continue
        n += 1
        with np.errstate(all="ignore"):
            expected = given.astype(stored)
        kinds = np.dtype(stored).kind + np.dtype(new).kind
        rounded = kinds in ("ff", "cf", "cc") and np.isfinite(expected) == np.isfinite(given)
        assert rounded or is_exact(given, stored), (new, value)
        np.testing.assert_array_equal(read(store)[-1:], expected)


@settings(
    max_examples=examples(25),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_packed_values_come_back_within_a_step(tmp_path: Path, data: st.DataObject) -> None:
    """Of first writes and of those that add; or an error says which value, and the file is as it was."""
    dtype = data.draw(st.sampled_from(["i1", "u1", "i2", "u2", "i4"]))
    scale = data.draw(st.sampled_from([0.5, 0.01, 10.0, -0.25]))
    fill = data.draw(st.sampled_from([None, 7, -9]))
    limits = np.iinfo(dtype)
    packing: dict[str, Any] = {"dtype": dtype, "scale_factor": scale, "add_offset": 2.0}
    if fill is not None and limits.min <= fill <= limits.max:
        packing["_FillValue"] = fill
    reach = 3 * limits.max * abs(scale)
    elements = st.one_of(st.floats(-reach, reach), st.just(float("nan")))
    values = data.draw(hnp.arrays("f8", 3, elements=elements))
    path = tmp_path / str(len(list(tmp_path.iterdir())))
    adds = data.draw(st.booleans())
    if adds:
        write_dataset(dataset([2.0]), path, encoding={"n": packing})
    before = snapshot(path)
    encoded = np.round((values - 2.0) / scale)
    missing = np.isnan(values)
    held = np.where(missing, "_FillValue" in packing, (encoded >= limits.min) & (encoded <= limits.max))
    held &= missing | (encoded != packing.get("_FillValue", np.inf))
    options: Any = {"append_dim": "i"} if adds else {"encoding": {"n": packing}}
    if held.all():
        write_dataset(dataset(values), path, **options)
        found = read(path)[1 if adds else 0 :]
        np.testing.assert_allclose(found, values, atol=abs(scale) * 0.51, rtol=1e-6)
    else:
        with pytest.raises(InvalidArgumentError, match=r'"n": .* can\'t be stored as'):
            write_dataset(dataset(values), path, **options)
        assert snapshot(path) == before


TEXTS: dict[str, tuple[Any, Any]] = {
    "longer text": (["foo", "bar"], ["foobar"]),
    "longer bytes": ([b"foo"], [b"foobar"]),
    "text into bytes": ([b"foo"], ["foo"]),
    "bytes into text": (["foo"], [b"foo"]),
    "objects that are longer": (np.array(["foo"]), np.array(["foobar"], object)),
    "bytes into objects": (np.array(["foo"], object), np.array([b"foo"], object)),
    "a zero at the end": ([b"foo"], np.array([b"fo\0"], object)),
    "numbers": (["foo"], [1]),
    "text into numbers": ([1], ["1"]),
}


@pytest.mark.each_once
@pytest.mark.parametrize("how", ["append", "region", "r+"])
@pytest.mark.parametrize("case", TEXTS)
def test_text_is_not_cut_off(tmp_path: Path, case: str, how: str) -> None:
    first, second = TEXTS[case]
    for format in FORMATS if isinstance(first[0], str) else FORMATS[:2]:
        path = tmp_path / format
        write_dataset(dataset(first[:1]), path, format=format)
        stored, before = read(path).dtype, snapshot(path)
        options: dict[str, Any] = {
            "append": {"append_dim": "i"},
            "region": {"region": {"i": slice(0, 1)}},
            "r+": {"mode": "r+"},
        }[how]
        if stored.kind == "O" and isinstance(second[0], str):  # of any length
            write_dataset(dataset(second), path, **options)
            assert read(path)[-1] == second[0]
            continue
        with pytest.raises(InvalidArgumentError, match='"n"'):
            write_dataset(dataset(second), path, **options)
        assert snapshot(path) == before


@pytest.mark.parametrize("format", FORMATS)
def test_texts_that_fit_are_added(tmp_path: Path, format: str) -> None:
    write_dataset(dataset(["foo", "bar"]), tmp_path / "a", format=format)
    for values in (["ba", ""], np.array(["é", "xyz"], object)):
        write_dataset(dataset(values), tmp_path / "a", append_dim="i")
    assert read(tmp_path / "a").tolist() == ["foo", "bar", "ba", "", "é", "xyz"]


OBJECTS: dict[str, list[Any]] = {
    "bytes": [b"a", b"", b"longer"],
    "zeros at the end": [b"a\0", b"\0"],
    "NumPy's bytes": [np.bytes_(b"a"), b"b"],
    "NumPy's text": [np.str_("a"), "é"],
}


@pytest.mark.each_once
@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("case", OBJECTS)
@pytest.mark.parametrize("format", FORMATS)
def test_objects_are_text_or_bytes_of_any_length(tmp_path: Path, format: str, case: str, lazy: bool) -> None:
    values = np.array(OBJECTS[case], object)
    if format == "n5" and isinstance(values[0], bytes):
        with pytest.raises(InvalidArgumentError, match="N5 has no data type"):
            write_dataset(dataset(values, lazy), tmp_path / "a", format=format)
        return
    write_dataset(dataset(values, lazy), tmp_path / "a", format=format)
    write_dataset(xr.open_dataset(tmp_path / "a", engine="chunkwise"), tmp_path / "b")  # what was read, too
    write_dataset(dataset(values, lazy) if lazy else dataset([values[0] * 9]), tmp_path / "b", append_dim="i")
    assert read(tmp_path / "a").tolist() == values.tolist()
    assert read(tmp_path / "b").tolist() == [*values, *(values if lazy else [values[0] * 9])]
    if format != "n5":
        theirs = xr.open_dataset(tmp_path / "a", engine="zarr", consolidated=False).load()["n"].values
        assert theirs.tolist() == values.tolist()


def test_text_that_is_too_long_is_told_what_holds_it(tmp_path: Path) -> None:
    write_dataset(dataset(["a"]), tmp_path / "a", format="zarr3")
    with pytest.raises(InvalidArgumentError) as raised:
        write_dataset(dataset(["long"]), tmp_path / "a", append_dim="i")
    assert "astype(object)" in "".join(raised.value.__notes__)
    write_dataset(dataset(np.array(["a"], object)), tmp_path / "a", mode="a")
    write_dataset(dataset(["long"]), tmp_path / "a", append_dim="i")
    assert read(tmp_path / "a").tolist() == ["a", "long"]


@pytest.mark.each_once
@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("format", FORMATS)
def test_encoded_data_is_stored_as_it_is(tmp_path: Path, format: str, lazy: bool) -> None:
    """Data of decode_cf=False has the attributes that say so; others than the stored ones are named."""
    path = tmp_path / "a"
    days = np.array(["2000-01-01", "2000-01-03"], "M8[ns]")
    first = xr.Dataset({"n": ("t", [1.5, np.nan])}, {"t": days})
    packing = {"dtype": "i2", "scale_factor": 0.5, "_FillValue": -9}
    write_dataset(
        first, path, format=format, encoding={"n": packing, "t": {"units": "days since 1999-01-01"}}
    )
    raw = xr.open_dataset(path, engine="chunkwise", decode_cf=False).load()
    raw["t"] = raw["t"] + 4
    raw["t"].attrs["units"] = "days since 1999-01-01"
    write_dataset(raw.chunk({"t": 1}) if lazy else raw, path, append_dim="t")
    np.testing.assert_array_equal(read(path), [1.5, np.nan, 1.5, np.nan])
    both = np.concatenate([days, days + np.timedelta64(4, "D")])
    np.testing.assert_array_equal(xr.open_dataset(path, engine="chunkwise")["t"].values, both)
    before = snapshot(path)
    for name, key, value in (
        ("n", "scale_factor", 0.25),
        ("n", "_FillValue", 3),
        ("t", "units", "hours since 1999-01-01"),
    ):
        other = raw.copy()
        other[name].attrs[key] = value
        with pytest.raises(InvalidArgumentError, match=rf'"{name}".*{"hours" if key == "units" else key}'):
            write_dataset(other, path, append_dim="t")
    assert snapshot(path) == before
    write_dataset(
        xr.Dataset({"n": ("t", [3, 5])}, {"t": both[2:] + np.timedelta64(9, "D")}), path, append_dim="t"
    )
    assert read(path)[-2:].tolist() == [3, 5]  # whole numbers that are not encoded


@pytest.mark.parametrize("units", ["seconds since 1970-01-01", "days since 2000-01-01"])
def test_times_beyond_the_stored_type_are_refused(tmp_path: Path, units: str) -> None:
    path = tmp_path / "a"
    write_dataset(
        dataset(np.array(["2000-01-02"], "M8[ns]")), path, encoding={"n": {"units": units, "dtype": "i4"}}
    )
    before = snapshot(path)
    late = np.array(["2100-01-01"], "M8[ns]") if "seconds" in units else np.array([10**7 * 365], "M8[D]")
    with pytest.raises(InvalidArgumentError, match='"n"'):
        write_dataset(dataset(late.astype("M8[s]")), path, append_dim="i")
    assert snapshot(path) == before


@pytest.mark.parametrize("what", ["Infinity", "-Infinity", "NaN", np.inf, np.float32(1.5), "0x7fc00000"])
def test_fill_values_in_an_encoding_are_stored(tmp_path: Path, what: Any) -> None:
    named = {"0x7fc00000": np.nan}.get(what, float(what) if what != "0x7fc00000" else np.nan)
    for number, asked in enumerate((False, True)):
        values = dataset(np.zeros(2, "f4"))
        values["n"].encoding = {"fill_value": what}
        write_dataset(
            values, tmp_path / f"{number}", **({"encoding": {"n": {"fill_value": what}}} if asked else {})
        )
        found = cw.open(tmp_path / f"{number}/n").result().fill_value
        np.testing.assert_array_equal(found, np.float32(named))


@pytest.mark.parametrize("bad", ["infinite", 1e300, 70000])
def test_fill_values_that_cannot_be_are_refused(tmp_path: Path, bad: Any) -> None:
    with pytest.raises(ValueError, match='"n"'):
        dtype = "f4" if bad != 70000 else "i2"
        write_dataset(dataset(np.zeros(2, dtype)), tmp_path / "a", encoding={"n": {"fill_value": bad}})
    with pytest.raises(ValueError, match="fill_value"):
        write_dataset(dataset([1.0]), tmp_path / "a", format="zarr2", encoding={"n": {"fill_value": 1.0}})
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_arrays_of_single_bytes_stay_what_they_are(tmp_path: Path, format: str) -> None:
    letters = np.array([[b"a", b"b"], [b"c", b""], [b"e", b"f"]], "S1")
    whole = xr.Dataset({"c": (("x", "y"), letters), "k": ("z", letters[0])})
    write_dataset(whole, tmp_path / "a", format=format)
    xr.testing.assert_identical(xr.open_dataset(tmp_path / "a", engine="chunkwise").load(), whole)
    write_dataset(whole.drop_vars("k"), tmp_path / "a", append_dim="x")
    assert xr.open_dataset(tmp_path / "a", engine="chunkwise")["c"].shape == (6, 2)
    joined = xr.open_dataset(tmp_path / "a", engine="chunkwise", concat_characters={"c": True, "k": False})
    assert joined["c"].values[:2].tolist() == [b"ab", b"c"]


def test_characters_of_netcdf_become_text(tmp_path: Path) -> None:
    text = xr.Dataset({"s": ("x", np.array(["ab", "cde"], object))})
    text.to_netcdf(tmp_path / "a.nc", engine="h5netcdf", encoding={"s": {"dtype": "S1"}})
    opened = xr.open_dataset(tmp_path / "a.nc", engine="h5netcdf")
    for source in (opened, xr.open_dataset(tmp_path / "a.nc", engine="chunkwise")):
        assert source["s"].values.tolist() == ["ab", "cde"]
        write_dataset(source, tmp_path / "a", mode="w")
        assert xr.open_dataset(tmp_path / "a", engine="chunkwise")["s"].values.tolist() == ["ab", "cde"]


MISSING = {
    "pandas": (pd.Series(["a", None], dtype="string"), "is text with 1 missing elements"),
    "NumPy": (
        np.array(["a", None], np.dtypes.StringDType(na_object=None)),
        "is text with 1 missing elements",
    ),
    "NaN": (
        np.array(["a", np.nan], np.dtypes.StringDType(na_object=np.nan)),
        "is text with 1 missing elements",
    ),
    "objects": (np.array(["a", np.float32("nan")], object), "is text with 1 missing elements"),
    "arrays": (np.array([None, np.arange(2)], object), "neither numbers nor text"),
}


@pytest.mark.parametrize("case", MISSING)
@pytest.mark.parametrize("format", ["zarr3", "n5"])
def test_missing_text_of_each_kind_is_named(tmp_path: Path, case: str, format: Any) -> None:
    values, message = MISSING[case]
    with pytest.raises(InvalidArgumentError, match=f'variable "v" .*{message}'):
        write_dataset(xr.Dataset({"v": ("x", values)}), tmp_path / "a", format=format)
    assert not (tmp_path / "a").exists()


def test_text_without_missing_elements_is_stored(tmp_path: Path) -> None:
    values = np.array(["a", "b"], np.dtypes.StringDType(na_object=None))
    write_dataset(xr.Dataset({"v": ("x", values)}), tmp_path / "a")
    assert xr.open_dataset(tmp_path / "a", engine="chunkwise").v.values.tolist() == ["a", "b"]
