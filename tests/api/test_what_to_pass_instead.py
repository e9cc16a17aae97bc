"""Errors of places and types that other libraries take: they say what to give here."""

from __future__ import annotations

import datetime
import decimal
import json
import math
import operator
import re
from pathlib import Path
from typing import Any

import dask.array
import h5py
import numpy as np
import pandas
import pytest
import tifffile
import xarray
import zarr

import chunkwise as ts
from chunkwise.cli.main import main
from chunkwise.xarray import write_dataset

OBJECTS = [["x", "yy"], [b"\1\0", b""]]


@pytest.mark.parametrize("values", OBJECTS)
def test_objects_that_are_all_text_or_bytes_have_its_type(tmp_path: Path, values: list[Any]) -> None:
    """As pandas gives them."""
    array = pandas.Series(values, dtype=object).to_numpy()
    made = ts.create_array(tmp_path / "a", array)
    assert made.dtype == (ts.ustring if isinstance(values[0], str) else ts.string)
    assert made.read().result().tolist() == values


@pytest.mark.parametrize("dtype", ["str", "U0", np.dtype("U"), "O"])
def test_text_without_a_size_needs_its_type(tmp_path: Path, dtype: Any) -> None:
    with pytest.raises(ValueError, match=re.escape('give the dtype: "ustring" for text')):
        ts.create_array(tmp_path / "a", shape=(2,), dtype=dtype)


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
@pytest.mark.parametrize(("dtype", "sized"), [("S", "S5"), (np.dtype("S"), "S5"), ("S0", "S5"), ("V", "V5")])
def test_bytes_without_a_size_name_what_has_one(tmp_path: Path, dtype: Any, sized: str, format: str) -> None:
    with pytest.raises(NotImplementedError, match=f'"{sized}" has elements of 5 bytes, "string" of any'):
        ts.create_array(tmp_path / "a", shape=(2,), dtype=dtype, format=format)
    assert ts.create_array(tmp_path / "a", shape=(2,), dtype=sized, format=format).dtype.name == sized


@pytest.mark.parametrize("missing", [None, math.nan, pandas.NA, pandas.NaT])
@pytest.mark.parametrize("dtype", ["U5", "S5", "ustring", "string"])
def test_missing_values_are_no_text(tmp_path: Path, dtype: str, missing: Any) -> None:
    """NumPy makes "nan" and "None" of them."""
    one = "x" if dtype in ("U5", "ustring") else b"x"
    array = ts.create_array(tmp_path / "a", [one, one], dtype=dtype)
    with pytest.raises((TypeError, ValueError)):
        array[...] = missing
    for values in ([one, missing], (missing, one), [[one, missing]]):
        with pytest.raises((TypeError, ValueError)):
            array[...] = values
        with pytest.raises((TypeError, ValueError)):
            ts.create_array(tmp_path / "b", values, dtype=dtype, shape=(1, 2))
    with pytest.raises(ValueError, match=re.escape('write pandas.Series(values).fillna("")')):
        ts.array(["x", math.nan])
    assert array.read().result().tolist() == [one, one]
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("datetime64[s]", pandas.Timestamp("2020-01-02T03:04:05")),
        ("timedelta64[ms]", pandas.Timedelta("1.5s")),
    ],
)
def test_single_times_of_pandas_are_values(tmp_path: Path, dtype: str, value: Any) -> None:
    array = ts.create_array(tmp_path / "a", shape=(3,), dtype=dtype)
    array[1] = value
    array[2:] = [value]
    assert array[1:].read().result().tolist() == np.array([value, value], dtype).tolist()
    numbers = ts.create_array(tmp_path / "b", shape=(3,), dtype="int64")
    for other in (value, pandas.NA, pandas.Period("2020", "D")):
        with pytest.raises(TypeError, match=type(other).__name__):
            numbers[0] = other


UTC = datetime.UTC
DAY = datetime.date(2020, 1, 1)
NOON = datetime.datetime(2020, 1, 1, 12)
OF_OBJECTS: list[tuple[list[Any], str, Any]] = [
    (["x", None, math.nan], 'write pandas.Series(values).fillna("")', ["x", "", ""]),
    ([1, 2], 'write numpy.asarray(values, "int64")', [1, 2]),
    ([True, False], 'write numpy.asarray(values, "bool")', [True, False]),
    ([1, None], 'write numpy.asarray(values, "float64")', [1, math.nan]),
    ([decimal.Decimal("1.5"), 2], 'write numpy.asarray(values, "float64")', [1.5, 2]),
    ([DAY, None], "write pandas.DatetimeIndex(values)", [DAY, None]),
    ([NOON], "write pandas.DatetimeIndex(values)", [NOON]),
    ([NOON.replace(tzinfo=UTC), None], "write pandas.DatetimeIndex(values).tz_convert(None)", [NOON, None]),
    ([NOON - NOON, None], "write pandas.TimedeltaIndex(values)", [NOON - NOON, None]),
    ([[1], {"a": "x"}, 1, "x"], 'give the dtype "json", which format="zarr2" has', None),
    (["x", b"y"], 'give the dtype: "ustring" for text, "string" for bytes', None),
    ([pandas.Period("2020", "D")], "no data type holds them: write numbers, or their text", None),
]
"""Objects, what the error says, and the values after that."""


@pytest.mark.parametrize(("values", "instead", "stored"), OF_OBJECTS)
def test_other_objects_need_a_form(tmp_path: Path, values: list[Any], instead: str, stored: Any) -> None:
    """As pandas and NumPy give them, in new arrays and in writes."""
    objects = pandas.Series(values, dtype=object)
    for given in (objects, objects.to_numpy()):
        with pytest.raises(ValueError, match=re.escape(instead)):
            ts.create_array(tmp_path / "a", given)
    with pytest.raises(TypeError) as caught:
        ts.array(np.zeros(len(values)))[:] = objects
    assert instead in caught.value.__notes__[0]
    assert not (tmp_path / "a").exists()
    if instead.startswith("write "):
        scope = {"values": objects.to_numpy(), "pandas": pandas, "numpy": np}
        made = ts.create_array(tmp_path / "a", eval(instead[6:], scope)).read().result()
        assert made.tolist() == pandas.Series(stored).to_numpy(made.dtype).tolist() or "float" in instead
    elif stored is None and "json" in instead:
        made = ts.create_array(tmp_path / "a", objects.to_numpy(), dtype="json", format="zarr2")
        assert made.read().result().tolist() == values


@pytest.mark.parametrize("dtype", ["Int64", "UInt8", "boolean", "Float64"])
def test_missing_numbers_of_pandas_are_refused(tmp_path: Path, dtype: str) -> None:
    """NumPy would make them floats; those without missing ones, and floats, are stored."""
    array = ts.create_array(tmp_path / "there", shape=(2,), dtype="float64")
    values = pandas.Series([1, None], dtype=dtype)
    for given in (values, values.array, pandas.Index(values), pandas.DataFrame({"a": values})):
        for write in (lambda x: ts.create_array(tmp_path / "a", x), lambda x: array.__setitem__(..., x)):
            with pytest.raises(ValueError, match=r"1 of 2 values of \w+ are missing.*values\.fillna\(0\)"):
                write(given)
    assert (
        ts.create_array(tmp_path / "a", values.fillna(values[0])).dtype.name == values.dtype.numpy_dtype.name
    )
    made = ts.create_array(tmp_path / "b", values.astype("float64")).read().result()
    assert made[0] == 1 and math.isnan(made[1])


@pytest.mark.parametrize("categories", [["a", "b"], [1, 2]])
def test_categories(tmp_path: Path, categories: list[Any]) -> None:
    """Their values are stored if none is missing."""
    values = pandas.Series([*categories, categories[0]], dtype="category")
    made = ts.create_array(tmp_path / "a", values).read().result()
    assert made.tolist() == values.tolist() and made.dtype == np.asarray(categories, made.dtype).dtype
    values[0] = None
    for given in (values, values.array):
        with pytest.raises(ValueError, match=r"1 of 3 values of category are missing.*values\.cat\.codes"):
            ts.create_array(tmp_path / "b", given)
    assert ts.create_array(tmp_path / "b", values.cat.codes).read().result().tolist() == [-1, 1, 0]


RAGGED = [[1], [2, 3]]


@pytest.mark.parametrize("values", [RAGGED, [np.array(x) for x in RAGGED], tuple(map(tuple, RAGGED))])
def test_lists_of_different_lengths(tmp_path: Path, values: Any) -> None:
    array = ts.create_array(tmp_path / "there", shape=(2,), dtype="float64")
    for write in (
        lambda: ts.create_array(tmp_path / "a", values),
        lambda: ts.create_array(tmp_path / "a", values, dtype="i4"),
        lambda: ts.array(values),
        lambda: ts.array(values, "i4"),
        lambda: operator.setitem(array, ..., values),
        lambda: array.write(values).result(),
        lambda: operator.setitem(ts.open_group(tmp_path / "g", "a"), "a", values),
    ):
        with pytest.raises(ValueError, match=r"different lengths.*numpy\.concatenate") as caught:
            write()
    words = caught.value.__notes__[0].partition("or write ")[2].replace(" and the end of each", "")
    whole, ends = eval(f"({words})", {"numpy": np, "values": values})
    assert whole.tolist() == [1, 2, 3] and ends.tolist() == [1, 3]
    assert not (tmp_path / "a").exists()


def test_what_h5py_holds(tmp_path: Path) -> None:
    """A group has no elements, NumPy would write its names; references and empty things have no form."""
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["g/a"], file["empty"] = np.arange(3), h5py.Empty("f4")
        file["references"] = np.array([file["g"].ref], h5py.ref_dtype)
    with h5py.File(tmp_path / "x.h5") as file:
        group = ts.open_group(tmp_path / "o.zarr", "w")
        for value, instead in (
            (file["g"], r"group\[name\] = value\[name\]"),
            (zarr.group({}), r"group\[name\] = value\[name\]"),
            ({"a": [1]}, r"group\[name\] = value\[name\]"),
            (xarray.Dataset({"a": ("x", [1])}), r"group\[name\] = value\[name\]"),
            (h5py.Empty("f4"), "shape=0"),
            (file["empty"], "shape=0"),
            (file["g"].ref, r"file\[reference\]\.name"),
            (file["references"], r"file\[reference\]\.name"),
        ):
            for write in (
                lambda value=value: operator.setitem(group, "x", value),
                lambda value=value: group.create_dataset("x", data=value),
                lambda value=value: ts.create_array(tmp_path / "a.zarr", value),
            ):
                with pytest.raises((ValueError, TypeError), match=instead):
                    write()
        for dtype, instead in ((h5py.ref_dtype, "references"), (h5py.vlen_dtype("i4"), "different lengths")):
            with pytest.raises(ValueError, match=f"dtype: .*{instead}"):
                group.create_dataset("x", (3,), dtype=dtype)
        for value, instead in ((h5py.Empty("f"), "None for h5py.Empty"), (file["g"].ref, "name of what")):
            with pytest.raises(ValueError, match=f'"k".*{instead}'):
                group.attrs["k"] = value
        for n, source in enumerate((file["g"], file["g/a"], zarr.open_group(tmp_path / "z.zarr", mode="w"))):
            with pytest.raises(TypeError, match=r"did you mean chunkwise\.open_(group|array)\(") as caught:
                group.copy(source, str(n))
            code = str(caught.value).partition("did you mean ")[2].removesuffix("?")
            group.copy(eval(code, {"chunkwise": ts, "x": source}), str(n))
    assert sorted(group) == ["0", "1", "2"] and not (tmp_path / "a.zarr").exists()


def test_a_frame_of_several_types(tmp_path: Path) -> None:
    frame = pandas.DataFrame({"a": [1, 2], "s": ["x", "y"]})
    with pytest.raises(ValueError, match=r"group\[name\] = frame\[name\]"):
        ts.create_array(tmp_path / "a", frame)
    numbers = frame[["a"]].assign(b=[0.5, 1])
    assert ts.create_array(tmp_path / "a", numbers).read().result()[1].tolist() == [2, 1]


def test_text_is_not_bytes(tmp_path: Path) -> None:
    """The dtype "string" is TensorStore's, of bytes."""
    with pytest.raises(TypeError, match='the dtype of text is "ustring"'):
        ts.create_array(tmp_path / "a", np.array(["x"]), dtype="string")


@pytest.mark.parametrize("call", [ts.open_group, lambda place: ts.create_array(place, np.arange(3))])
def test_a_dict_is_a_spec(call: Any) -> None:
    """One without a driver is none; where data is to be in memory has a URL."""
    with pytest.raises(ValueError, match="memory://"):
        call({"a": 1})


def test_an_empty_dict_is_a_store() -> None:
    """As one with values is, for whatever takes places; a spec lacks a driver."""
    store: Any = {}
    ts.create_array(store, np.arange(3))
    assert "zarr.json" in store and ts.read(store).tolist() == [0, 1, 2]
    group: Any = {}
    with ts.open_group(group, "w") as g:
        g["a"] = np.arange(2)
    assert zarr.open_group(zarr.storage.MemoryStore(_buffers(group)))["a"][1] == 1
    with pytest.raises(ValueError, match='"driver"'):
        ts.open({}).result()


def _buffers(store: dict[str, Any]) -> dict[str, Any]:
    return {key: zarr.core.buffer.cpu.Buffer.from_bytes(bytes(value)) for key, value in store.items()}


@pytest.mark.parametrize("call", [ts.open, ts.open_group, lambda place: ts.copy(place, "x")])
def test_an_array_of_zarr_python_is_no_place(tmp_path: Path, call: Any) -> None:
    """Its store is, with its path."""
    group: Any = zarr.open_group(str(tmp_path / "z"), mode="w")
    array: Any = group.create_array("a", data=np.arange(3))
    for value in (group, array):
        with pytest.raises(TypeError, match=r"give its place, ") as caught:
            call(value)
        place = eval(str(caught.value).partition("give its place, ")[2], {"x": value})
        assert ts.open_array(place).shape == (3,) if value is array else list(ts.open_group(place)) == ["a"]


def test_a_multi_index_is_named(tmp_path: Path) -> None:
    """With what makes variables of it; nothing is written."""
    index = pandas.MultiIndex.from_tuples([(1, 2), (3, 4)], names=["p", "q"])
    coordinates = xarray.Coordinates.from_pandas_multiindex(index, "i")
    dataset = xarray.Dataset({"v": ("i", [1, 2])}, coords=coordinates)
    with pytest.raises(ValueError, match=r'"(i|p|q)" is of a MultiIndex.*reset_index'):
        write_dataset(dataset, tmp_path / "a")
    assert not (tmp_path / "a").exists()
    write_dataset(dataset.reset_index("i"), tmp_path / "a")


def test_files_with_specs_and_pictures(tmp_path: Path) -> None:
    """A spec in a file is opened, as it is now; for other files and pictures an error says what to do."""
    (tmp_path / "pictures").mkdir()
    for i in range(2):
        ts.create_array(tmp_path / str(i), np.full(3, i))
        tifffile.imwrite(tmp_path / f"pictures/{i}.tif", np.zeros((4, 5), "u2"))
        spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{tmp_path}/{i}/"}}
        (tmp_path / "s.json").write_text(json.dumps(spec))
        for place in (tmp_path / "s.json", str(tmp_path / "s.json"), f"file://{tmp_path}/s.json"):
            np.testing.assert_array_equal(ts.open(place).result().read().result(), [i] * 3)
    array = {"zarr_format": 2, "shape": [2], "chunks": [2], "dtype": "<i4", "order": "C", "fill_value": 0}
    references = {
        ".zgroup": '{"zarr_format": 2}',
        "a/.zarray": json.dumps(array | {"compressor": None, "filters": None}),
    }
    for text, message in (
        ("{", "Invalid JSON"),
        ("[]", '"driver"'),
        (json.dumps({"version": 1, "refs": references}), r"s\.json\|reference:a"),
    ):
        (tmp_path / "s.json").write_text(text)
        opening = ts.open(tmp_path / "s.json")
        with pytest.raises(ValueError, match=message):
            opening.result()
    context = ts.Context()
    kvstore = ts.KvStore.open("memory://", context=context).result()
    kvstore["s.json"], kvstore["d"] = json.dumps(spec).encode(), b'{"a.json": 5}'
    assert ts.open("memory://s.json", context=context).result().shape == (3,)
    assert ts.open("memory://d|json:/a.json", context=context).result().read().result() == 5
    with pytest.raises(ValueError, match="open_multiscale opens pictures as a stack"):
        ts.open(tmp_path / "pictures").result()
    assert ts.open_multiscale(tmp_path / "pictures").levels[0].shape == (2, 4, 5)


def _dataset(place: Path, **options: Any) -> None:
    write_dataset(xarray.Dataset({"a": ("x", [1])}), place, **options)


def _command(place: Path, **options: Any) -> None:
    if main(["create", str(place), "--shape=3", "--dtype=uint8", *[f"--{name}" for name in options]]):
        raise ValueError("\n")


WRITERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "create_array": (lambda place, **o: ts.create_array(place, [1], **o), {"overwrite": True}),
    "Group.create_array": (
        lambda place, **o: ts.open_group(place.parent, "a").create_array(place.name, [1], **o),
        {"overwrite": True},
    ),
    "Group.create_group": (
        lambda place, **o: ts.open_group(place.parent, "a").create_group(place.name, **o),
        {"overwrite": True},
    ),
    "create_group": (lambda place, **o: ts.create_group(place, **o), {"overwrite": True}),
    "open_group": (lambda place, **o: ts.open_group(place, **{"mode": "w-", **o}), {"mode": "w"}),
    "copy": (lambda place, **o: ts.copy(ts.array([1]), place, **o), {"overwrite": True}),
    "from_dask": (lambda place, **o: ts.from_dask(dask.array.ones(3), place, **o), {"delete_existing": True}),
    "write_dataset": (_dataset, {"mode": "w"}),
    "chunkwise create": (_command, {"overwrite": True}),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_what_replaces_a_thing_is_named_as_the_writer_has_it(
    writer: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write, options = WRITERS[writer]
    place = tmp_path / "g.zarr" / "a.zarr"
    write(place)
    before = {file: file.read_bytes() for file in place.rglob("*") if file.is_file()}
    with pytest.raises(ValueError) as caught:
        write(place)
    assert before == {file: file.read_bytes() for file in place.rglob("*") if file.is_file()}
    ((name, value),) = options.items()
    said = f"--{name}" if "chunkwise" in writer else f'{name}="{value}"' if value != 1 else f"{name}={value}"
    assert said in f"{caught.value}{capsys.readouterr().err}"
    write(place, **options)
