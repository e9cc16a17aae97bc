"""Documents and objects that other programs wrote, or damage: read as they are, or named in an error."""

from __future__ import annotations

import copy
import json
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from examples import examples
from hdmf.build import DatasetBuilder, GroupBuilder, LinkBuilder, ReferenceBuilder
from hypothesis import given, settings
from hypothesis import strategies as st

import chunkwise
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.errors import ChunkwiseError, DataCorruptionError
from chunkwise.hdmf import RegionReference, ZarrIO, open_store
from chunkwise.hdmf.model.tree import COPIES, dump_copies, read_names

FORMATS = ("zarr2", "zarr3", "n5")
DOCUMENTS = (".zarray", ".zgroup", ".zattrs", "zarr.json", "attributes.json")
pytestmark = pytest.mark.filterwarnings("ignore:dataset .* has no:UserWarning")


def _root() -> GroupBuilder:
    own = {"f": np.float32(1.5), "u": np.array([1, 2], "u1"), "b": b"x"}
    record = {"rows": np.array([(1, "a")], [("a", "i4"), ("t", "O")])}
    data = DatasetBuilder("data", np.arange(6, dtype="i4").reshape(3, 2), attributes={**own, **record})
    group = GroupBuilder("g", attributes={"object_id": "g"}, datasets=[DatasetBuilder("words", ["a", "bc"])])
    group.set_link(LinkBuilder(data, "link"))
    part = RegionReference((slice(0, 2), slice(0, 1)), data)
    rows = [(1, "one", part, ReferenceBuilder(group)), (2, "two", part, ReferenceBuilder(data))]
    names = {"id": "int32", "label": "utf8", "part": "region", "whole": "object"}
    dtype = [{"name": name, "dtype": word} for name, word in names.items()]
    datasets = [
        data,
        DatasetBuilder("table", rows, dtype=dtype),
        DatasetBuilder("one", 3.5),
        DatasetBuilder("raw", [b"\xff", b"y"]),
        DatasetBuilder("flags", np.array([True, False])),
        DatasetBuilder("parts", [part, part], dtype="region"),
        DatasetBuilder("references", [ReferenceBuilder(group)], dtype="object"),
        DatasetBuilder("none", np.empty(0)),
        DatasetBuilder("numbers", np.array([(1, 2.5)], [("a", "i2"), ("b", "f8")])),
    ]
    attributes = {"object_id": "root", "part": part, "whole": ReferenceBuilder(group), "list": [1, 2]}
    return GroupBuilder("root", groups=[group], datasets=datasets, attributes=attributes)


@cache
def _stored(format: str) -> dict[str, bytes]:
    """Return keys and values of a store with something of each kind, without consolidated metadata."""
    store = chunkwise.KvStore.open("memory://").result()
    with ZarrIO(store, "w", format=format) as io:
        io.write_builder(_root())
    found = {key.decode(): bytes(store[key]) for key in store.list().result()}
    found.pop(".zmetadata", None)
    if "zarr.json" in found:
        root = json.loads(found["zarr.json"])
        del root["consolidated_metadata"]
        found["zarr.json"] = json.dumps(root).encode()
    return found


def _with(format: str, **documents: Any) -> chunkwise.KvStore:
    store = chunkwise.KvStore.open("memory://").result()
    for key, value in _stored(format).items():
        store[key] = value
    for key, document in documents.items():
        store[key] = json.dumps(document).encode()
    return store


def _places(document: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if at:
        yield at
    members: Any = document if isinstance(document, dict | list) else ()
    for name in members if isinstance(members, dict) else range(len(members)):
        yield from _places(members[name], (*at, name))


def _changed(document: Any, at: tuple[Any, ...], value: Any) -> Any:
    changed = copy.deepcopy(document)
    inner = changed
    for name in at[:-1]:
        inner = inner[name]
    if value is ...:
        del inner[at[-1]]
    else:
        inner[at[-1]] = value
    return changed


ODD = (..., None, 5, -1, 10**12, 2**70, 1.5, "x", ",", "..", [], [5], ["x"], [[1]], {}, {"a": 1})


def _read_all(store: Any) -> None:
    opened = open_store(store)
    for path in opened.walk():
        try:
            opened.attributes(path)
            if not opened.is_dataset(path):
                opened.links(path)
            elif opened.dataset(path).size < 10**6:
                opened.dataset(path).read()
        except ChunkwiseError as e:
            assert path in str(e)


@settings(max_examples=examples(300), deadline=None)
@given(st.data())
def test_a_damaged_document_is_an_error_that_names_the_object(data: Any) -> None:
    """Or it is read as another; no other exception leaves the library, whatever member is wrong."""
    format = data.draw(st.sampled_from(FORMATS))
    keys = [key for key in _stored(format) if key.rpartition("/")[2] in DOCUMENTS]
    key = data.draw(st.sampled_from(sorted(keys)))
    document = json.loads(_stored(format)[key])
    at = data.draw(st.sampled_from(list(_places(document))))
    store = _with(format, **{key: _changed(document, at, data.draw(st.sampled_from(ODD)))})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            _read_all(store)
        except ChunkwiseError as e:
            assert str(e)


DAMAGED: dict[str, tuple[str, str, Any, Any, str]] = {
    # dataset, document, member, value, error
    "reference": ("zarr2", ".zattrs", "whole", {"_REFERENCE": 5}, 'attribute "whole": .*found .5'),
    "region": (
        "zarr2",
        ".zattrs",
        "part",
        {"_REGION_REFERENCE": "/data"},
        'attribute "part".* has no region',
    ),
    "source": ("zarr3", "zarr.json", "whole", {"_REFERENCE": {"source": 5}}, 'member "source" .* 5, but exp'),
    "part": (
        "zarr3",
        "zarr.json",
        "part",
        {"_REFERENCE": {"region": 5}},
        'member "region" .* expected an obj',
    ),
}


@pytest.mark.parametrize(("format", "key", "name", "value", "error"), DAMAGED.values(), ids=DAMAGED)
def test_references_of_no_known_form_in_attributes(
    format: str, key: str, name: str, value: Any, error: str
) -> None:
    document = json.loads(_stored(format)[key])
    (document["attributes"] if key == "zarr.json" else document)[name] = value
    opened = open_store(_with(format, **{key: document}))
    with pytest.raises(DataCorruptionError, match=f'group "/".*{error}'):
        opened.attributes("/")
    assert opened.dataset("/one").read() == 3.5


N5_WORDS: list[tuple[dict[str, Any], str]] = [
    ({"_ENCODED": 5}, r'"_ENCODED", but received: 5'),
    ({"_ENCODED": {"version": 2}}, "encoding version 2 is not known, expected 1"),
    ({"_ENCODED": {"version": 1, "kind": "text5"}}, "unknown kind 'text5'"),
    ({"_ENCODED": {"version": 1, "kind": "text"}}, "Expected a shape"),
    ({"_ENCODED": {"version": 1, "kind": "compound", "fields": []}}, "at least one member"),
    ({"_EMPTY": {"shape": [0], "dtype": "int3"}}, 'unknown type name "int3"'),
    ({"_EMPTY": {"shape": [2], "dtype": "int32"}}, r"shape \(2,\) has no values"),
    ({"_ENCODED": {"version": 1, "kind": "text", "shape": [10**12]}}, "offsets of encoded values"),
]


@pytest.mark.parametrize(("marks", "error"), N5_WORDS)
def test_marks_of_n5_that_mean_nothing(marks: dict[str, Any], error: str) -> None:
    key = "g/words/attributes.json"
    document = json.loads(_stored("n5")[key])
    document["hdmf_attributes"] = marks
    dataset = open_store(_with("n5", **{key: document})).dataset("/g/words")
    with pytest.raises(ChunkwiseError, match=f'"/g/words".*{error}'):
        dataset.read()


def test_a_member_of_another_length_in_n5() -> None:
    key = "numbers/1/attributes.json"
    document = json.loads(_stored("n5")[key]) | {"dimensions": [3]}
    with pytest.raises(DataCorruptionError, match="/numbers/1 has 3 values of float64, but expected 1"):
        open_store(_with("n5", **{key: document})).dataset("/numbers").read()


def test_a_chunk_shape_far_beyond_the_array_takes_no_memory() -> None:
    for format, key, member in (
        ("zarr2", "one/.zarray", ("chunks", 0)),
        ("zarr3", "one/zarr.json", ("chunk_grid", "configuration", "chunk_shape", 0)),
    ):
        document = json.loads(_stored(format)[key])
        if document["shape"]:
            document = _changed(document, member, 10**12)
            dataset = open_store(_with(format, **{key: document})).dataset("/one")
            with pytest.raises(ChunkwiseError, match=r'"/one".*(does not fit into memory|bytes)'):
                dataset.read()


# -- types of attributes ------------------------------------------------------------------------------

ONE_ROW = {"members": [{"name": "a", "dtype": "int32"}], "shape": [1]}
# What is stored, the type beside it, and what is read: the stored value, unless it is one of the type.
TYPED: list[tuple[Any, Any, Any]] = [
    (5, "uint8", np.uint8(5)),
    (2.0, "uint8", np.uint8(2)),
    ([1, 2], "float32", np.array([1, 2], "f4")),
    ("NaN", "float32", np.float32("nan")),
    (["-Infinity", 1], "float64", np.array([-np.inf, 1])),
    ("text", "bytes", b"text"),
    (["a", 5], "bytes", [b"a", 5]),
    ([[7]], ONE_ROW, np.array([(7,)], [("a", "i4")])),
    ([], {**ONE_ROW, "shape": [0, 2]}, np.empty((0, 2), [("a", "i4")])),
    (1.5, "uint8", 1.5),
    (300, "uint8", 300),
    ([1, 2.5], "int16", [1, 2.5]),
    ("5", "uint8", "5"),
    ("12", "float64", "12"),
    (["1", 2], "float64", ["1", 2]),
    (1e300, "float32", 1e300),
    ([1, [2]], "uint8", [1, [2]]),
    ({"a": 1}, "uint8", {"a": 1}),
    (1, ",", 1),
    (1, "datetime64[s]", 1),
    (1, "utf8", 1),
    (1, 5, 1),
    (1, ["x"], 1),
    (1, {"shape": 5}, 1),
    ([[1.5]], ONE_ROW, [[1.5]]),
    ([[7], [8]], ONE_ROW, [[7], [8]]),
    ([[7]], {**ONE_ROW, "shape": [10**12]}, [[7]]),
    ([7], ONE_ROW, [7]),
    ([[7]], {**ONE_ROW, "members": "x"}, [[7]]),
]


@pytest.mark.parametrize(("stored", "word", "expected"), TYPED, ids=repr)
def test_an_attribute_that_is_not_of_its_type_is_read_as_it_is(stored: Any, word: Any, expected: Any) -> None:
    """Other programs change attributes, and leave the types beside them."""
    attributes = {"a": stored, "_ATTR_DTYPES": {"a": word}}
    found = open_store(_with("zarr2", **{"g/.zattrs": attributes})).attributes("/g")["a"]
    assert type(found) is type(expected)
    if isinstance(expected, np.ndarray | np.generic):
        assert found.dtype == expected.dtype and np.shape(found) == np.shape(expected)
        assert str(found.tolist()) == str(expected.tolist())
    else:
        assert found == expected


# -- objects of Zarr v2 -------------------------------------------------------------------------------

XY = [{"name": "x", "dtype": "int32"}, {"name": "y", "dtype": "utf8"}]
NO_TYPE = None
OBJECTS: list[tuple[list[Any], Any, Any, list[Any]]] = [
    # values, declared type, type that is read, values that are read
    (["a", 0, None], NO_TYPE, "str", ["a", "", ""]),
    ([0, None], NO_TYPE, "str", ["", ""]),
    ([1, 2], NO_TYPE, "int64", [1, 2]),
    ([0, 1, 2.5], NO_TYPE, "float64", [0.0, 1.0, 2.5]),
    ([True, False], NO_TYPE, "bool", [True, False]),
    ([True, 5], NO_TYPE, "int64", [1, 5]),
    ([True, 0], {}, "bool", [True, False]),
    (
        [[1, "a"], [2.5, "b"]],
        NO_TYPE,
        [{"name": "f0", "dtype": "float64"}, {"name": "f1", "dtype": "utf"}],
        [(1.0, "a"), (2.5, "b")],
    ),
    ([[1, "a"], 0], XY, [XY[0], {"name": "y", "dtype": "utf"}], [(1, "a"), (0, "")]),
    ([[2.0, "a"]], XY, [XY[0], {"name": "y", "dtype": "utf"}], [(2, "a")]),
]
WRONG_OBJECTS: list[tuple[list[Any], Any, str]] = [
    ([1, "5"], NO_TYPE, "no int64: text is not a number"),
    ([1, None], NO_TYPE, "no int64"),
    ([2**63], NO_TYPE, "no int64"),
    (["a", 5], NO_TYPE, "expected text, but found 5"),
    (["a", {"x": 1}], NO_TYPE, "expected text, but found {'x': 1}"),
    ([5], "object", "expected a reference, but found '5'"),
    ([[]], NO_TYPE, r"expected text, but found \[\]"),
    ([[1, 2], [3]], NO_TYPE, r"a row of 2 members, but found \[3\]"),
    ([[1.5, "a"]], XY, "expected int32, but found 1.5"),
    ([["1", "a"]], XY, "expected int32, but found '1'"),
    ([[2**40, "a"]], XY, "row 0: "),
    ([[1, "a"]], [*XY, {"name": "x", "dtype": "int8"}], r"not unique: \['x', 'y', 'x'\]"),
    ([[1, "a"]], [5], "a member with name and dtype, but received: 5"),
    ([[1, "a"]], [{"name": "x", "dtype": 5}], "a type name, but received: 5"),
    ([[1, "a"]], [{"name": "x", "dtype": "i4,i4"}], 'unknown type name "i4,i4"'),
]


def _objects(values: list[Any], word: Any) -> Any:
    document = {
        "zarr_format": 2,
        "shape": [len(values)],
        "chunks": [len(values)],
        "dtype": "|O",
        "compressor": None,
        "fill_value": 0,
        "filters": [{"id": "json2"}],
        "order": "C",
    }
    store = _with(
        "zarr2", **{"d/.zarray": document, "d/.zattrs": {} if word is None else {"zarr_dtype": word}}
    )
    store["d/0"] = json.dumps([*values, "|O", [len(values)]]).encode()
    return open_store(store).dataset("/d")


@pytest.mark.parametrize(("values", "word", "type_", "expected"), OBJECTS)
def test_objects_have_a_type_that_holds_all_of_them(
    values: list[Any], word: Any, type_: Any, expected: list[Any]
) -> None:
    dataset = _objects(values, word)
    assert (dataset.element.describe(), dataset.read().tolist()) == (type_, expected)
    assert dataset.read(slice(0, 1)).tolist() == expected[:1]


@pytest.mark.parametrize(("values", "word", "error"), WRONG_OBJECTS)
def test_objects_that_are_not_of_the_type_are_named(values: list[Any], word: Any, error: str) -> None:
    with pytest.raises(ChunkwiseError, match=f'dataset "/d": .*{error}'):
        _objects(values, word).read()


@pytest.mark.parametrize("word", [",", "O", "i4,i4", "(", "T", "S5", "nonsense", "float32", 5, {"a": 1}])
def test_a_name_that_is_not_the_stored_type_changes_nothing(word: Any) -> None:
    """The document of the array has the type of numbers."""
    for format, key in (
        ("zarr2", "flags/.zattrs"),
        ("zarr3", "flags/zarr.json"),
        ("n5", "flags/attributes.json"),
    ):
        document = json.loads(_stored(format)[key])
        inner = {"zarr2": "", "zarr3": "attributes", "n5": "hdmf_attributes"}[format]
        (document[inner] if inner else document)["zarr_dtype" if format == "zarr2" else "_DTYPE"] = word
        assert open_store(_with(format, **{key: document})).dataset("/flags").read().dtype.kind in "bu"


def test_bytes_of_variable_length_in_zarr_v2_need_no_declared_type() -> None:
    store = _with("zarr2", **{"raw/.zattrs": {}})
    assert json.loads(store["raw/.zarray"])["filters"][0]["id"] == "vlen-bytes"
    dataset = open_store(store).dataset("/raw")
    assert (dataset.element.name, dataset.read().tolist()) == ("bytes", [b"\xff", b"y"])


def test_a_deleted_dataset_is_named_by_an_append(tmp_path: Path) -> None:
    for format in FORMATS:
        with ZarrIO(tmp_path / format, "w", format=format) as io:
            io.write_builder(GroupBuilder("root", datasets=[DatasetBuilder("d", [1, 2])]))
        dataset = open_store(tmp_path / format).dataset("/d")
        assert dataset.read().tolist() == [1, 2]
        for file in (tmp_path / format / "d").iterdir():
            if file.name in DOCUMENTS:
                file.unlink()
        with pytest.raises(ChunkwiseError, match=f"there is no longer an array at .*/{format}/d/"):
            dataset.append([3])


def test_copies_are_of_small_values_and_have_a_limit_together() -> None:
    kv = MemoryStore()
    for i in range(129):
        kv.write(f"s/{i:03}", bytes(1 << 15))
    kv.write("s/large", bytes((1 << 15) + 1))
    kv.write("s/small", b"small")
    names = ["large", *(f"{i:03}" for i in range(129)), "none"]
    kv.write(f"s/{COPIES}", dump_copies(kv, "s/", [(name, kv.read("s/" + name)) for name in names]))
    proven = read_names(kv, "s/")
    assert proven is not None
    assert proven.keys == {*names[1:129], "none"}
