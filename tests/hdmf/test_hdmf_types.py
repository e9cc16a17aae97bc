"""Types of schemas have the sizes of the table in the storage specification, in every format."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import ml_dtypes  # noqa: F401 - so that NumPy knows the names of its types
import numpy as np
import numpy.typing as npt
import pytest
from examples import examples
from hdmf.build import DatasetBuilder, GroupBuilder
from hdmf.common import DynamicTable, VectorData
from hdmf.data_utils import DataChunkIterator
from hdmf.spec import DtypeSpec
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st
from nwb_content import new_file

from chunkwise.errors import InvalidArgumentError
from chunkwise.hdmf import NWBZarrIO, ZarrIO, open_store
from chunkwise.hdmf.model.attributes import dump_attributes
from chunkwise.hdmf.model.declaration import declare
from chunkwise.hdmf.model.element import number, reference, text
from chunkwise.hdmf.model.tree import HdmfNode
from chunkwise.hdmf.model.values import guess_element, widened

FORMATS = ("zarr2", "zarr3", "n5")
SIZES = {
    "float": "float32",
    "float32": "float32",
    "double": "float64",
    "float64": "float64",
    "long": "int64",
    "int64": "int64",
    "int": "int32",
    "int32": "int32",
    "short": "int16",
    "int16": "int16",
    "int8": "int8",
    "uint": "uint32",
    "uint32": "uint32",
    "uint16": "uint16",
    "uint8": "uint8",
    "bool": "bool",
}


def stored_word(path: Path, format: str) -> Any:
    """Return what the documents of dataset ``d`` call its type."""
    if format == "zarr2":
        return json.loads((path / "d" / ".zattrs").read_text())["zarr_dtype"]
    if format == "zarr3":
        return json.loads((path / "d" / "zarr.json").read_text())["attributes"]["_DTYPE"]
    return json.loads((path / "d" / "attributes.json").read_text())["hdmf_attributes"]["_DTYPE"]


@pytest.mark.each_once
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("word", SIZES)
def test_a_word_of_a_schema_has_the_size_of_the_table(tmp_path: Path, word: str, format: str) -> None:
    expected = np.dtype(SIZES[word])
    for i, data in enumerate(([1, 0], [1.0, 0.0], np.array([1.0, 0.0]), 1, DataChunkIterator([1, 0]))):
        path = tmp_path / str(i)
        with ZarrIO(path, mode="w", format=format) as io:
            io.write_builder(GroupBuilder("root", datasets=[DatasetBuilder("d", data, dtype=word)]))
        dataset = open_store(path).dataset("/d")
        assert dataset.element.dtype == expected
        assert dataset.read().tolist() == (1 if dataset.scalar else [1, 0])
        if not (format == "zarr2" and dataset.scalar):
            assert stored_word(path, format) == SIZES[word]


@pytest.mark.each_once
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("word", SIZES)
def test_a_word_in_a_compound_has_the_size_of_the_table(tmp_path: Path, word: str, format: str) -> None:
    members = [DtypeSpec("a", "d", word), DtypeSpec("b", "d", "text")]
    builder = DatasetBuilder("d", [(1, "x"), (0, "y")], dtype=members)
    with ZarrIO(tmp_path, mode="w", format=format, force_overwrite=True) as io:
        io.write_builder(GroupBuilder("root", datasets=[builder]))
    dataset = open_store(tmp_path).dataset("/d")
    assert dataset.element.members[0].element.dtype == np.dtype(SIZES[word])
    assert dataset.read()["a"].tolist() == [1, 0]


@pytest.mark.each_once
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("value", [[2**40, 1], [0.1, 1e300], 2**40, 0.1])
def test_a_type_that_no_schema_gave_is_that_of_the_values(tmp_path: Path, value: Any, format: str) -> None:
    """Such are stored as "int" and "float"; neither a copy nor a builder of what was read loses digits."""
    for given in (None, "numeric"):
        with ZarrIO(tmp_path / "a", mode="w", format=format) as io:
            io.write_builder(GroupBuilder("root", datasets=[DatasetBuilder("d", value, dtype=given)]))
        with ZarrIO(tmp_path / "a") as source:
            with ZarrIO(tmp_path / "b", mode="w", format=format) as io:
                io.export(source)
            read = source.read_builder().datasets["d"]
            again = DatasetBuilder("d", np.asarray(read.data), dtype=read.dtype)
            with ZarrIO(tmp_path / "c", mode="w", format=format) as io:
                io.write_builder(GroupBuilder("root", datasets=[again]))
        for name in "abc":
            assert open_store(tmp_path / name).dataset("/d").read().tolist() == value


@pytest.mark.parametrize("format", ["zarr2", "zarr3", "n5"])
def test_bytes_that_are_no_text_are_kept(format: str, tmp_path: Path) -> None:
    raw = [b"plain", b"\xff\xfe\x00\x80", b""]
    root = GroupBuilder(
        "root",
        datasets=[
            DatasetBuilder("many", raw, dtype="ascii"),
            DatasetBuilder("one", raw[1], dtype="ascii"),
            DatasetBuilder("array", np.array(raw, "S6")),
        ],
    )
    with ZarrIO(tmp_path / "a", "w", format=format) as io:
        io.write_builder(root)
    with ZarrIO(tmp_path / "a", "r+") as io:
        found = {name: builder.data for name, builder in io.read_builder().datasets.items()}
        assert list(found["many"][:]) == raw and found["one"] == raw[1]
        assert list(found["array"][:]) == np.array(raw, "S6").tolist()
        found["many"].append(b"\x81")
        assert found["many"][3] == b"\x81"
    with ZarrIO(tmp_path / "a") as source, ZarrIO(tmp_path / "b", "w", format="zarr3") as io:
        io.export(source)
    assert open_store(tmp_path / "b").dataset("/many").read().tolist() == [*raw, b"\x81"]


@pytest.mark.parametrize("format", ["zarr2", "n5"])
def test_bytes_that_are_no_text_in_compounds(format: str, tmp_path: Path) -> None:
    dtype = [{"name": "n", "dtype": "int32"}, {"name": "raw", "dtype": "ascii"}]
    rows = DatasetBuilder("rows", [(1, b"\xff"), (2, b"a")], dtype=dtype)
    with ZarrIO(tmp_path / "a", "w", format=format) as io:
        io.write_builder(GroupBuilder("root", datasets=[rows]))
    assert open_store(tmp_path / "a").dataset("/rows").read()["raw"].tolist() == [b"\xff", b"a"]


def test_bytes_that_are_no_text_are_told_where_text_is_expected(tmp_path: Path) -> None:
    root = GroupBuilder("root", datasets=[DatasetBuilder("words", [b"\xff"], dtype="utf8")])
    with ZarrIO(tmp_path / "a", "w") as io, pytest.raises(InvalidArgumentError, match=r"words.* not UTF-8"):
        io.write_builder(root)


# What hdmf takes for a dataset whose schema names no type, such as a column.
NATIVE = [
    np.array([3, "NaT"], "m8[ms]"),
    np.array(["2020-01-02T03:04:05.000000006", "NaT"], "M8[ns]"),
    np.array(["2020-01-02"], ">M8[D]"),
    np.array([7, -1], "m8"),
    np.array([1.5, -2], "bfloat16"),
    np.array([1.5, np.inf], "f2"),
    np.array([True, False]),
    np.array([b"ab", b"\x00\x01"], "V2"),
]


@pytest.mark.each_once
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("values", NATIVE, ids=lambda values: str(values.dtype))
def test_columns_of_all_native_types(tmp_path: Path, values: npt.NDArray[Any], format: str) -> None:
    whole = np.append(values, values[:1]).astype(values.dtype.newbyteorder("="))
    nwb = new_file()
    given = {"array": values, "list": list(values), "pieces": DataChunkIterator(values, buffer_size=1)}
    columns = [VectorData(name=name, description="d", data=data) for name, data in given.items()]
    nwb.add_scratch(DynamicTable(name="t", description="d", columns=columns))
    with NWBZarrIO(tmp_path / "a", "w", format=format) as io:
        io.write(nwb)
    with NWBZarrIO(tmp_path / "a", "r+") as io:
        io.read().scratch["t"].add_row(dict.fromkeys(given, values[0]))
    other = FORMATS[FORMATS.index(format) - 1]
    with NWBZarrIO(tmp_path / "a") as source, NWBZarrIO(tmp_path / "b", "w", format=other) as io:
        io.export(source)
    for path in ("a", "b"):
        with NWBZarrIO(tmp_path / path) as io:
            table = io.read().scratch["t"]
            for name in given:
                found = table[name].data[:]
                assert found.dtype == whole.dtype and found.tobytes() == whole.tobytes(), (path, name)


@pytest.mark.parametrize("format", FORMATS)
def test_a_type_that_no_format_has_is_named(tmp_path: Path, format: str) -> None:
    wide = DatasetBuilder("wide", np.array([1], np.longdouble))
    with (
        ZarrIO(tmp_path / "a", "w", format=format) as io,
        pytest.raises(InvalidArgumentError, match=r"/wide: .*no way to store .*float128"),
    ):
        io.write_builder(GroupBuilder("root", datasets=[wide]))


MIXED: list[tuple[list[Any], str]] = [
    ([1, 2.5], "float64"),
    ([True, 2], "int64"),
    ([[1, 2], [3, 4.5]], "float64"),
    ([np.int8(1), np.int64(300)], "int64"),
    ([np.uint8(1), -1], "int64"),
    ([np.float64(0.1), np.float32(1)], "float64"),
    ([np.float16(1), 1e9], "float64"),
    ([np.timedelta64(1, "s"), np.timedelta64(1500, "ms")], "timedelta64[ms]"),
]


@pytest.mark.each_once
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(("values", "dtype"), MIXED, ids=repr)
def test_a_list_of_several_types_keeps_its_values(
    tmp_path: Path, values: list[Any], dtype: str, format: str
) -> None:
    nwb = new_file()
    nwb.add_scratch(
        DynamicTable(name="t", description="d", columns=[VectorData(name="c", description="d", data=values)])
    )
    with NWBZarrIO(tmp_path / "a", "w", format=format) as io:
        io.write(nwb)
    stored = open_store(tmp_path / "a").dataset("/scratch/t/c")
    assert stored.element.dtype == np.dtype(dtype)
    assert np.array_equal(stored.read(), np.array(values, dtype))


@pytest.mark.parametrize("codec", ["json2", "pickle"])
@pytest.mark.parametrize("shape", [[], [0], [3]])
@pytest.mark.parametrize(
    ("word", "element"),
    [("utf8", text), ("str", text), ("object", reference), (None, None), ("scalar", None), ("float", None)],
)
def test_objects_of_zarr_v2_are_what_is_declared(
    codec: str, shape: list[int], word: str | None, element: Any
) -> None:
    """The values tell the rest, except that one value in JSON without a type is a cached specification."""
    document = {"dtype": "|O", "shape": shape, "filters": [{"id": codec}]}
    found = declare(HdmfNode("/d", True, document, {} if word is None else {"zarr_dtype": word}), "zarr2")
    is_scalar = word == "scalar" or shape == []
    assert found.scalar == is_scalar
    assert found.element == (text if codec == "json2" and is_scalar and element is None else element)


NUMBERS = ["?", "i1", "u1", "i4", "u8", "f4", "f8"]


@settings(max_examples=examples(200), deadline=None)
@drawn(st.sampled_from(NUMBERS), st.lists(st.sampled_from(NUMBERS), min_size=1, max_size=3))
def test_a_type_is_only_made_wider(declared: str, dtypes: list[str]) -> None:
    """A list whose values all fit the declared type has that, even if they fit a narrower one."""
    data = [np.dtype(dtype).type(1) for dtype in dtypes]
    found = widened(number(declared), data)
    if all(np.can_cast(dtype, declared) for dtype in dtypes):
        assert found == number(declared)
    assert found.dtype in (declared, np.result_type(*dtypes))


NO_NUMBERS = [["a", 1], [1, None], [1, b"a"], [1, [2]], ["a"], [1, datetime.date(2020, 1, 1)]]


@pytest.mark.parametrize("data", NO_NUMBERS, ids=repr)
def test_values_that_are_no_numbers_widen_nothing(data: list[Any]) -> None:
    assert widened(number("i4"), data) == number("i4")


@pytest.mark.parametrize("values", [[1, 2**63 + 1], [2.5], [300], [float("nan")]], ids=repr)
def test_what_does_not_fit_the_declared_type_is_refused(tmp_path: Path, values: list[Any]) -> None:
    builder = DatasetBuilder("d", values, dtype="int64" if values[0] == 1 else "int8")
    with ZarrIO(tmp_path / "a", "w") as io, pytest.raises(InvalidArgumentError, match=r"/d: .*does not fit"):
        io.write_builder(GroupBuilder("root", datasets=[builder]))


AB = np.dtype([("a", "i4"), ("b", "O")])
IN_AB = np.dtype([("n", "i4"), ("in", AB)])
# Values of a dataset, others that it can't take, and the error.
REFUSED: list[tuple[Any, Any, str]] = [
    (np.array([1.5]), np.array([1 + 2j]), r"\(1\+2j\) does not fit float64"),
    (np.array([1]), np.array([1 + 2j]), r"\(1\+2j\) does not fit int64"),
    (np.array([1.5], "f4"), np.array([1e300]), r"1e\+300 does not fit float32"),
    (np.array([1.5]), np.array(["1.5"]), "text is not a number"),
    (np.array([1], "M8[D]"), np.array([1], "M8[s]"), r"1970-01-01T00:00:01 does not fit datetime64\[D\]"),
    (np.array([1], "m8[ns]"), np.array([2**62], "m8[s]"), r"does not fit timedelta64\[ns\]"),
    (["text"], [5], "Expected str, but received: 5"),
    (["text"], [b"\xff"], "bytes that are not UTF-8"),
    ([b"bytes"], [5], "Expected bytes, but received: 5"),
    (np.array([(1, "x")], AB), ["ab"], "a row of 2 members, but received: 'ab'"),
    (np.array([(1, "x")], AB), [5], "a row of 2 members, but received: 5"),
    (np.array([(1, "x")], AB), [(1,)], r"a row of 2 members, but received: \(1,\)"),
    (np.array([(1, "x")], AB), [(2**40, "x")], "does not fit int32"),
    (np.array([(1, "x")], AB), np.array([(1, 5)], AB), "Expected str, but received: 5"),
    (np.array([(1, "x")], AB), np.array([(1,)], [("a", "i4")]), "members a, but expected a, b"),
    (
        np.array([(1, "x")], AB),
        np.array([(1, "x")], [("b", "i4"), ("c", "O")]),
        "members b, c, but expected a, b",
    ),
    (np.array([(1, (2, "x"))], IN_AB), [(1, (2,))], r"a row of 2 members, but received: \(2,\)"),
]


@pytest.mark.each_once
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(("values", "others", "error"), REFUSED, ids=lambda value: str(value)[:40])
def test_rows_that_would_not_be_kept_are_refused(
    tmp_path: Path, format: str, values: Any, others: Any, error: str
) -> None:
    with ZarrIO(tmp_path, "w", format=format, force_overwrite=True) as io:
        io.write_builder(GroupBuilder("root", datasets=[DatasetBuilder("d", values)]))
    files = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    dataset = open_store(tmp_path).dataset("/d")
    for change in (lambda: dataset.append(others), lambda: dataset.write(slice(0, 1), others)):
        with pytest.raises(InvalidArgumentError, match=error):
            change()
        assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == files


KEPT: list[tuple[Any, Any, list[Any]]] = [
    (np.array([1.5]), np.array([2 + 0j]), [1.5, 2.0]),
    (np.array([1]), np.array([2.0]), [1, 2]),
    (np.array([1], "m8[s]"), np.array([2000], "m8[ms]"), np.array([1, 2], "m8[s]").tolist()),
    (["text"], [None], ["text", ""]),
    (["text"], [b"bytes"], ["text", "bytes"]),
    (["text"], [datetime.date(2026, 1, 2)], ["text", "2026-01-02"]),
    ([b"bytes"], [None], [b"bytes", b""]),
    ([b"bytes"], ["text"], [b"bytes", b"text"]),
    ([b"bytes"], [datetime.date(2026, 1, 2)], [b"bytes", b"2026-01-02"]),
    (np.array([(1, "x")], AB), [[2, "y"]], [(1, "x"), (2, "y")]),
    (np.array([(1, "x")], AB), np.array([("y", 2)], [("b", "U1"), ("a", "i8")]), [(1, "x"), (2, "y")]),
    (np.array([(1, "x")], AB), np.array([(2, "y")], "i8,U1"), [(1, "x"), (2, "y")]),
    (np.array([(1, (2, "x"))], IN_AB), [(2, np.array((3, "y"), AB))], [(1, (2, "x")), (2, (3, "y"))]),
]


@pytest.mark.each_once
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(("values", "more", "expected"), KEPT, ids=lambda value: str(value)[:40])
def test_rows_of_other_types_are_kept_if_they_fit(
    tmp_path: Path, format: str, values: Any, more: Any, expected: list[Any]
) -> None:
    with ZarrIO(tmp_path, "w", format=format, force_overwrite=True) as io:
        io.write_builder(GroupBuilder("root", datasets=[DatasetBuilder("d", values)]))
    dataset = open_store(tmp_path).dataset("/d")
    dataset.append(more)
    for opened in (dataset, open_store(tmp_path, consolidated=False).dataset("/d")):
        assert opened.read().tolist() == expected


@pytest.mark.parametrize("format", FORMATS)
def test_attributes_that_are_no_numbers_in_json(tmp_path: Path, format: str) -> None:
    attributes = {
        "nan": float("nan"),
        "list": [1.0, float("inf")],
        "small": np.float32("-inf"),
        "array": np.array([np.nan, 1], "f4"),
        "record": np.array((1, np.nan), [("x", "i4"), ("y", "f4")]),
        "text": "NaN",
    }
    data = DatasetBuilder("d", [1, 2], attributes=attributes)
    with ZarrIO(tmp_path / "a", "w", format=format) as io:
        io.write_builder(GroupBuilder("root", attributes=attributes, datasets=[data]))
    for path in ("/", "/d"):
        found = open_store(tmp_path / "a").attributes(path)
        for name, value in attributes.items():
            assert str(np.asarray(found[name]).tolist()) == str(np.asarray(value).tolist())
        assert (found["small"].dtype, found["array"].dtype) == (np.float32, np.float32)
    for key in ("attributes.json", "zarr.json"):  # readers of arrays refuse what JSON does not have
        for file in (tmp_path / "a").rglob(key):
            json.loads(file.read_text(), parse_constant=lambda word: pytest.fail(word))


PLAIN = [
    (b"bytes", "bytes"),
    ({3}, [3]),
    ((1, ("a", b"b")), [1, ["a", "b"]]),
    ({1: (2, b"c")}, {"1": [2, "c"]}),
    (datetime.date(2026, 11, 29), "2026-11-29"),
    (datetime.datetime(2026, 11, 29, 8, 30, tzinfo=datetime.UTC), "2026-11-29T08:30:00+00:00"),
    (np.int64(7), 7),
    (np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
    (np.array("a", object), "a"),
    (np.array([True, False]), [True, False]),
]


@pytest.mark.parametrize(("value", "stored"), PLAIN, ids=repr)
def test_the_json_of_attributes(value: Any, stored: Any) -> None:
    found = dump_attributes({"a": value, "none": None}, lambda _: None, keep_types=False)
    assert found == {"a": stored} and type(found["a"]) is type(stored)


@pytest.mark.parametrize(
    "value", [object(), [object()], 1j, np.array([1j]), np.datetime64("2026-11-29"), b"\xff"]
)
def test_attributes_that_have_no_json_are_named(value: Any) -> None:
    with pytest.raises(
        TypeError, match=r'attribute "a" (of type .* has no JSON|is bytes that are not UTF-8)'
    ):
        dump_attributes({"a": value}, lambda _: None, keep_types=False)


@pytest.mark.parametrize(
    "value", [{"a": float("nan")}, [1.0, "x", float("inf")], [[1.0], [2.0, float("nan")]]], ids=repr
)
@pytest.mark.parametrize("format", ["zarr3", "n5"])
def test_what_could_not_be_told_from_text_is_refused(tmp_path: Path, format: str, value: Any) -> None:
    with (
        ZarrIO(tmp_path / "a", "w", format=format) as io,
        pytest.raises(InvalidArgumentError, match=r'"odd": JSON has no NaN'),
    ):
        io.write_builder(GroupBuilder("root", attributes={"odd": value}))


@pytest.mark.parametrize("format", ["zarr3", "zarr2"])
def test_the_bare_words_of_other_programs_are_read(tmp_path: Path, format: str) -> None:
    with ZarrIO(tmp_path / "a", "w", format=format) as io:
        io.write_builder(GroupBuilder("root", attributes={"odd": 12345.5}))
    for file in (tmp_path / "a").rglob("*"):
        if file.is_file():
            file.write_bytes(file.read_bytes().replace(b"12345.5", b"-Infinity"))
    assert open_store(tmp_path / "a").attributes("/")["odd"] == -np.inf


@pytest.mark.parametrize("form", ["alone", "scalar", "list", "row", "array", "table", "array in a list"])
@pytest.mark.parametrize(("value", "kind"), [("x", "text"), (b"x", "bytes"), (3, "number"), (1.5, "number")])
def test_the_type_of_values_is_that_of_the_first(value: Any, kind: str, form: str) -> None:
    """However they are held: an array of objects without dimensions, too."""
    scalar = np.array(value, object)
    held = {
        "alone": value,
        "scalar": scalar,
        "list": [value, value],
        "row": [[value], [value]],
        "array": np.array([value], object),
        "table": np.array([[value, value]], object),
        "array in a list": [scalar],
    }[form]
    assert guess_element(held).kind == kind


@pytest.mark.parametrize("format", FORMATS)
def test_a_value_in_an_array_of_objects_without_dimensions(tmp_path: Path, format: str) -> None:
    root = GroupBuilder("root", datasets=[DatasetBuilder("d", np.array("word", object))])
    with ZarrIO(tmp_path / "a", mode="w", format=format) as io:
        io.write_builder(root)
    with ZarrIO(tmp_path / "a") as io:
        assert io.read_builder().datasets["d"].data == "word"


NO_DATASETS: list[tuple[Any, Any, str]] = [
    (None, None, "it has no data"),
    (None, "int32", "it has no data"),
    ([1], "nonsense", 'unknown type name "nonsense"'),
    ([1], [{"name": "x"}], "a member with name and dtype, but received: {'name': 'x'}"),
    ([[1], [1, 2]], None, "Expected values of int: "),
    ([], None, "could not determine type"),
    ({"a": 1}, None, "no HDMF type for dict"),
    ({1, 2}, None, "no HDMF type for set"),
    (lambda: (i for i in range(3)), None, "no HDMF type for generator"),
    (np.array([1, 2.5], object), None, "2.5 does not fit int64"),
    (np.array([1, "a"], object), None, "text is not a number"),
    (np.array(["a", 1], object), None, "Expected str, but received: 1"),
    (np.zeros(2, [("a", "i4", (2,))]), None, "no way to store NumPy's type"),
    (np.zeros(2, np.longdouble), None, "no way to store NumPy's type"),
    (lambda: DataChunkIterator(iter([]), dtype=np.dtype("i4")), None, "no items, and no shape"),
    (lambda: DataChunkIterator(iter([1, 300])), "int8", "300 does not fit int8"),
    (lambda: DataChunkIterator(iter([1j])), "float64", "1j does not fit float64"),
]


@pytest.mark.each_once
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    ("data", "dtype", "error"),
    NO_DATASETS,
    ids=[f"{at} {error[:30]}" for at, (_, _, error) in enumerate(NO_DATASETS)],
)
def test_what_makes_no_dataset_is_named_and_leaves_no_store(
    tmp_path: Path, data: Any, dtype: Any, error: str, format: str
) -> None:
    dataset = DatasetBuilder("d", data() if callable(data) else data, dtype=dtype)
    with (
        pytest.raises(ValueError, match=f"dataset /d: .*{error}"),
        ZarrIO(tmp_path / "a", "w", format=format) as io,
    ):
        io.write_builder(GroupBuilder("root", datasets=[dataset]))
    with pytest.raises(FileNotFoundError):
        open_store(tmp_path / "a")
