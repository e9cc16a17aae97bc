"""Attributes: values, batches, paths, and changes by several processes at once."""

from __future__ import annotations

import enum
import json
import math
from datetime import datetime

import ml_dtypes
import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.trace_store import TraceStore

import chunkwise as cw
from chunkwise.core.kvstore.files.file_store import FileStore
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.core.trees.attributes import has_non_finite, to_json_value
from chunkwise.errors import FailedPreconditionError

DOCUMENTS = {"zarr3": "zarr.json", "zarr2": ".zattrs", "n5": "attributes.json"}


@pytest.fixture
def nodes(tmp_path, format):
    group = cw.create_group(tmp_path / "x", format=format)
    return [group, group.create_group("g"), group.create_array("a", data=[1, 2])]


def test_mapping(nodes, tmp_path, format):
    for node in nodes:
        attrs = node.attrs
        assert attrs == {} and not attrs and len(attrs) == 0
        attrs["b"] = 1
        attrs.update({"a": [1, {"c": None}], "d": "é"}, e=True)
        assert list(attrs) == ["b", "a", "d", "e"]
        assert attrs == {"b": 1, "a": [1, {"c": None}], "d": "é", "e": True}
        assert cw.open_group(tmp_path / "x")[node.path].attrs == attrs
        assert attrs.pop("b") == 1 and attrs.pop("b", 7) == 7 and "b" not in attrs
        with pytest.raises(KeyError, match="b"):
            attrs.pop("b")
        with pytest.raises(KeyError):
            del attrs["b"]
        assert attrs.setdefault("e", 5) is True and attrs.setdefault("f", 5) == 5
        assert attrs.popitem() == ("f", 5)
        attrs.asdict()["a"].append(1)
        assert attrs["a"] == [1, {"c": None}]
        attrs.put({"only": 1})
        assert attrs.asdict() == {"only": 1} and repr(attrs) == "Attributes({'only': 1})"
        attrs.clear()
        assert cw.open_group(tmp_path / "x")[node.path].attrs == {}
        with pytest.raises(KeyError):
            attrs.popitem()
        with pytest.raises(TypeError):
            hash(attrs)
    assert nodes[2].read().result().tolist() == [1, 2]


def test_what_is_read_is_what_was_opened(nodes):
    group = nodes[0]
    first, second = group.create_group("s").attrs, group["s"].attrs
    assert first == {} and second == {}
    first["a"] = 1
    assert "a" not in second and "a" in second.refresh()
    second["b"] = 2
    assert second == {"a": 1, "b": 2} and first == {"a": 1}


def test_a_batch_is_one_conditional_write(format):
    trace = TraceStore(MemoryStore())
    group = cw.create_group(trace, format=format)
    trace.requests.clear()
    group.attrs.update({f"m{i}": i for i in range(100)})
    assert [r.key for r in trace.requests if r.operation == "write"] == [DOCUMENTS[format]]
    assert all(r.operation in ("read", "write") for r in trace.requests)


def test_open_arrays_do_not_mind(nodes, format):
    array = nodes[2]
    other = cw.open({"driver": "auto", "kvstore": array.kvstore.spec().to_json()}, open=True).result()
    assert other.attrs == {}
    array.attrs["k"] = 1
    assert other.attrs == {} and other.attrs.refresh() == {"k": 1}
    other.resize(exclusive_max=[5]).result()
    array.attrs["l"] = 2
    again = cw.open(array.kvstore.url, open=True).result()
    assert again.shape == (5,) and again.attrs == {"k": 1, "l": 2}
    assert array.resolve().result().shape in ((2,), (5,))


VALUES = [
    (np.float32(0.5), 0.5),
    (np.int64(-3), -3),
    (np.uint64(2**64 - 1), 2**64 - 1),
    (np.bool_(True), True),
    (np.str_("x"), "x"),
    (np.array([[1, 2], [3, 4]], "i2"), [[1, 2], [3, 4]]),
    (np.array(7.5), 7.5),
    (np.array([], "f8"), []),
    (np.array(["a", "b"]), ["a", "b"]),
    (np.array([True, False]), [True, False]),
    (np.array([1, "x", None], object), [1, "x", None]),
    (ml_dtypes.bfloat16(1.5), 1.5),
    (np.array([1.5], ml_dtypes.bfloat16), [1.5]),
    (np.longdouble(0.25), 0.25),
    ((1, (2, 3)), [1, [2, 3]]),
    ({"a": {"b": np.int8(1)}}, {"a": {"b": 1}}),
    (np.ma.masked_array([1, 2], [False, False]), [1, 2]),
    (enum.IntEnum("E", "A B").B, 2),
    (10**30, 10**30),
]


@pytest.mark.each_once
@pytest.mark.parametrize("number", range(len(VALUES)))
def test_values_that_are_taken(nodes, number):
    value, stored = VALUES[number]
    nodes[1].attrs["x"] = value
    found = nodes[0]["g"].attrs["x"]
    assert found == stored and type(found) is type(stored)


def _loop():
    out = []
    out.append(out)
    return out


REFUSED = [
    (b"\xff", "bytes that are not text"),
    ("half \ud83d", "half a surrogate pair"),
    ({"\udc00": 1}, "half a surrogate pair"),
    (np.bytes_(b"\xff"), "bytes that are not text"),
    (1j, "complex; make it a list"),
    (np.array([1j]), "complex128"),
    ({1, 2}, "set; make it a list"),
    (datetime(2024, 1, 1), "datetime.datetime; make it text"),
    (np.datetime64("2024"), "datetime64"),
    (object(), "object"),
    ({"a": {"b": [0, b"\xff"]}}, r'at "a".b\[1\]: .*bytes that are not text'),
    ({1: 2}, "names, not 1"),
    (np.zeros(2, [("a", "i4")]), "void|V|a"),
    (np.ma.masked_array([1, 2], [True, False]), "masked"),
    (np.longdouble(1) / 3, "64-bit"),
    (_loop(), "nested"),
    (math.nan, "JSON has no NaN"),
    ([1, -math.inf], r"\[1\]: JSON has no -Infinity"),
    (np.array([[0, np.inf]]), r"\[0\]\[1\]: JSON has no Infinity"),
]


@pytest.mark.each_once
@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_values_that_are_refused(nodes, number):
    value, why = REFUSED[number]
    for node in nodes:
        with pytest.raises(ValueError, match=why) as e:
            node.attrs.update({"good": 1, "bad": value})
        assert 'attribute "bad"' in str(e.value)
        assert node.attrs.refresh() == {}, "nothing of the batch is written"
    with pytest.raises(ValueError, match="names"):
        nodes[0].attrs[3] = 1
    with pytest.raises(ValueError, match='attribute "bad"'):
        nodes[0].create_group("new", attributes={"bad": value})
    with pytest.raises(ValueError, match='attribute "bad"'):
        nodes[0].create_array("new", data=[1], attributes={"bad": value})
    assert "new" not in nodes[0]


@pytest.mark.parametrize(
    "rule, stored", [("string", ["NaN", "Infinity", "-Infinity", 1.5]), ("literal", None)]
)
def test_rules_for_what_is_not_finite(tmp_path, format, rule, stored):
    values = [math.nan, math.inf, -math.inf, 1.5]
    group = cw.create_group(tmp_path / "x", format=format, non_finite=rule, attributes={"r": values})
    group.create_group("g").attrs["x"] = np.array(values)
    group.create_array("a", data=[1]).attrs["x"] = values
    group.create_array("made with them", data=[1], attributes={"x": values})
    alone = cw.create_array(
        tmp_path / "alone", data=[1], format=format, non_finite=rule, attributes={"x": values}
    )
    again = cw.open_group(tmp_path / "x", "r+")
    nodes = (again["g"], again["a"], again["made with them"], alone)
    for found in (again.attrs["r"], *(node.attrs["x"] for node in nodes)):
        if stored is None:
            assert math.isnan(found[0]) and found[1:] == values[1:]
        else:
            assert found == stored
    # What is there already does not get in the way of other changes.
    again["g"].attrs["y"] = 1
    again["a"].attrs["y"] = 1
    assert again["g"].attrs["y"] == 1 and has_non_finite(again["g"].attrs["x"]) == (stored is None)
    with pytest.raises(ValueError, match="non_finite"):
        cw.open_group(tmp_path / "x", non_finite="maybe")


def test_members_that_are_no_attributes_of_n5(tmp_path):
    group = cw.create_group(tmp_path / "x.n5")
    array = group.create_array("a", data=[1, 2], attributes={"axes": ["x"]})
    for name in ("dimensions", "blockSize", "dataType", "compression", "compressionType", "n5"):
        assert name not in array.attrs
        with pytest.raises(ValueError, match=name):
            array.attrs[name] = 1
    assert array.attrs == {"axes": ["x"]}
    with pytest.raises(ValueError, match="version"):
        group.attrs["n5"] = "9.9.9"
    array.attrs.clear()
    group.attrs.put({"dimensions": [1]})
    assert json.loads((tmp_path / "x.n5" / "attributes.json").read_text()) == {
        "n5": "2.0.0",
        "dimensions": [1],
    }
    with pytest.raises(ValueError, match="make a dataset"):
        group.attrs.update(dataType="uint8", blockSize=[1], compression={"type": "raw"})
    assert cw.open_group(tmp_path / "x.n5")["a"].read().result().tolist() == [1, 2]


def test_paths(nodes, format):
    for node in nodes:
        attrs = node.attrs
        attrs["other"] = None
        attrs.set_path("a/b[3]/c", np.float64(1.5))
        assert attrs["a"] == {"b": [None, None, None, {"c": 1.5}]}
        assert attrs.get_path("/a/b[3]/c") == 1.5 and attrs.get_path("a/b[3]") == {"c": 1.5}
        assert attrs.get_path("a/x") is None and attrs.get_path("a/x", 3) == 3
        attrs.set_path(r"a\/b", [1, 2, 3])
        assert attrs["a/b"] == [1, 2, 3]
        attrs.remove_path(r"a\/b[1]")
        assert attrs["a/b"] == [1, 3]
        attrs.remove_path("a")
        assert "a" not in attrs and attrs["other"] is None and "other" in attrs
        with pytest.raises(KeyError):
            attrs.remove_path("a/b")
        for path in ("", "/", "[0]"):
            with pytest.raises(ValueError, match="name of an attribute"):
                attrs.set_path(path, {})
        with pytest.raises(ValueError, match="name of an attribute"):
            attrs.remove_path("/")
        attrs.set_path("m/n", {"x": None, "y": 1})
        assert attrs.get_path("m/n") == ({"y": 1} if format == "n5" else {"x": None, "y": 1})


def test_n5_uris(tmp_path):
    group = cw.create_group(tmp_path / "a b.n5", attributes={"top": 1})
    group.create_array("v/s0", data=[1, 2], attributes={"res": [4, {"nm": 1}]})
    base = f"{tmp_path}/a b.n5"
    for text in (base, f"n5:{base}", f"n5://{base}", f"n5://file://{tmp_path}/a%20b.n5"):
        assert cw.open_n5_uri(text).attrs == {"top": 1}
        assert cw.open_n5_uri(f"{text}?v/s0").read().result().tolist() == [1, 2]
        assert cw.open_n5_uri(f"{text}?v/../v/s0#res[1]/nm") == 1
        assert cw.open_n5_uri(f"{text}?/v/s0#/") == {"res": [4, {"nm": 1}]}
        assert cw.open_n5_uri(f"{text}#top") == 1
    cw.open_n5_uri(f"{base}?v/s0", "r+").attrs["n"] = 1
    assert cw.open_n5_uri(f"{base}?v/s0#n") == 1
    for text, error in (
        (f"{base}?nope", KeyError),
        (f"{base}#nope", KeyError),
        (f"{base}?v/../../x", ValueError),
        ("n5://?v", ValueError),
        (f"{base}.n5", FileNotFoundError),
    ):
        with pytest.raises(error):
            cw.open_n5_uri(text)
    with pytest.raises(ValueError, match="mode"):
        cw.open_n5_uri(base, "w")
    with pytest.raises(ValueError, match="open_n5_uri"):
        cw.open_group(f"n5://{base}")


def test_arrays_that_are_stored_nowhere():
    array = cw.array([1, 2])
    assert array.attrs == {} and array.name is None and array.path is None
    with pytest.raises(ValueError, match="no place"):
        array.attrs["a"] = 1


def test_attributes_of_what_is_gone(nodes):
    group = nodes[0]
    for path in ("g", "a"):
        attrs = group[path].attrs
        del group[path]
        with pytest.raises(FailedPreconditionError, match="deleted"):
            attrs["x"] = 1
        assert path not in group


def test_others_members_stay(tmp_path):
    group = cw.create_group(tmp_path / "x", attributes={"a": 1})
    store = FileStore(tmp_path / "x")
    document = {**json.loads(bytes(store.read("zarr.json").value)), "ours": {"must_understand": False}}
    store.write("zarr.json", json.dumps(document, indent=3).encode())
    group.attrs["b"] = 2
    text = bytes(store.read("zarr.json").value).decode()
    assert json.loads(text)["ours"] == {"must_understand": False} and '\n   "' in text


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=examples(50), deadline=None)
@given(value=json_values)
def test_json_goes_through_as_it_is(value):
    assert to_json_value(value, "x") == value
    assert json.dumps(to_json_value(value, "x")) == json.dumps(value)
