"""``create_array`` and ``read``: an array by its place alone, as other libraries read and write it."""

import json
import math

import numpy as np
import pytest
import tensorstore as ts
import z5py
import zarr
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import chunkwise as cw
from chunkwise.errors import AlreadyExistsError, FailedPreconditionError, NotFoundError

VALUES = np.arange(7 * 5, dtype="u2").reshape(7, 5)
TYPES = st.sampled_from(["u1", "i2", "u4", "i8", "f4", "f8"])


def read_by_peer(path, format):
    driver = {"zarr3": "zarr3", "zarr2": "zarr", "n5": "n5"}[format]
    return (
        ts.open({"driver": driver, "kvstore": {"driver": "file", "path": str(path)}}).result().read().result()
    )


@pytest.mark.parametrize("format", ["zarr3", "zarr2", "n5"])
@settings(max_examples=examples(25), deadline=None)
@given(values=npst.arrays(TYPES, npst.array_shapes(max_dims=3, max_side=5)), data=st.data())
def test_what_is_made_is_read(format, values, data, tmp_path_factory):
    chunks = data.draw(st.none() | st.tuples(*(st.integers(1, 4) for _ in values.shape)))
    path = tmp_path_factory.mktemp("x") / "a"
    options = {} if chunks is None else {"chunks": chunks}
    store = cw.create_array(path, data=values, format=format, **options)
    assert (store.shape, store.dtype.numpy_dtype) == (values.shape, values.dtype)
    if chunks is not None:
        assert store.chunk_layout.write_chunk.shape == chunks
    np.testing.assert_array_equal(cw.read(path), values)
    np.testing.assert_array_equal(read_by_peer(path, format), values)


@pytest.mark.parametrize(
    ("name", "document"),
    [
        ("a", "zarr.json"),
        ("a.zarr", "zarr.json"),
        ("a.n5", "attributes.json"),
        ("c.n5/g/a", "attributes.json"),
    ],
)
def test_the_place_says_the_format(tmp_path, name, document):
    cw.create_array(tmp_path / name, VALUES)
    assert (tmp_path / name / document).exists()
    np.testing.assert_array_equal(cw.read(tmp_path / name), VALUES)


def test_in_groups_that_are_there(tmp_path):
    for format in ("zarr3", "zarr2", "n5"):
        group = cw.create_group(tmp_path / format, format=format)
        cw.create_array(tmp_path / format / "g/a", VALUES, attributes={"k": 1})
        np.testing.assert_array_equal(group["g/a"].read().result(), VALUES)
        assert group["g/a"].attrs["k"] == 1 and group["g"].format == format
    assert zarr.open_group(str(tmp_path / "zarr2"), mode="r")["g/a"].shape == (7, 5)
    assert z5py.File(str(tmp_path / "n5"), "r")["g/a"].shape == (5, 7)


def test_a_container_of_text_says_so(tmp_path):
    cw.create_array(tmp_path / "a.n5", ["x", "yz"], dtype="ustring")
    assert json.loads((tmp_path / "a.n5/attributes.json").read_text())["n5"] == "4.0.0"
    assert cw.read(tmp_path / "a.n5").tolist() == ["x", "yz"]


def test_nothing_is_replaced_unasked(tmp_path):
    cw.create_array(tmp_path / "a.zarr", VALUES)
    cw.create_group(tmp_path / "g.zarr").create_array("x", VALUES)
    for place in ("a.zarr", "g.zarr", "a.zarr/inside", "g.zarr/x/inside"):
        with pytest.raises(AlreadyExistsError):
            cw.create_array(tmp_path / place, [1])
    with pytest.raises(FailedPreconditionError, match="group"):
        cw.create_array(tmp_path / "g.zarr", [1], overwrite=True)
    with pytest.raises(ValueError, match="codec"):
        cw.create_array(tmp_path / "a.zarr", [1], overwrite=True, codec="zip")
    np.testing.assert_array_equal(cw.read(tmp_path / "a.zarr"), VALUES)
    cw.create_array(tmp_path / "a.zarr", [1], overwrite=True, format="zarr2")
    assert cw.read(tmp_path / "a.zarr").tolist() == [1]
    assert not (tmp_path / "a.zarr/zarr.json").exists()
    with pytest.raises(NotFoundError):
        cw.read(tmp_path / "nothing")
    with pytest.raises(ValueError, match="is a group"):
        cw.read(tmp_path / "g.zarr")
    with pytest.raises(ValueError, match="metadata document"):
        cw.create_array(tmp_path / "zarr.json", [1])
    with pytest.raises(TypeError, match="colour"):
        cw.create_array(tmp_path / "b", [1], colour="red")


def test_any_kvstore():
    context = cw.Context()
    place = {"driver": "memory", "path": "deep/er.zarr/"}
    store = cw.create_array(place, VALUES, context=context, shards=(8, 6), chunks=(4, 3), codec="gzip:1")
    assert store.chunk_layout.read_chunk.shape == (4, 3)
    np.testing.assert_array_equal(cw.read(place, context=context), VALUES)
    np.testing.assert_array_equal(store[2:4].read().result(), VALUES[2:4])


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("int32", math.nan),
        ("int32", 1.5),
        ("uint8", 300),
        ("uint8", np.int64(300)),
        ("uint8", -1),
        ("int32", "abc"),
        ("float32", 1e300),
        ("float32", 1j),
        ("bool", 2),
        ("bool", "false"),
        ("complex64", "x"),
        ("float32", [1, 2]),
        ("int4", 20),
        ("uint2", 1.5),
        ("bfloat16", 1e300),
        ("float8_e4m3fn", 1000),
        ("float8_e4m3fn", math.inf),
    ],
)
def test_a_fill_value_that_the_type_cannot_hold_is_refused(tmp_path, format, dtype, value):
    with pytest.raises(ValueError, match=r"^fill_value: "):
        cw.create_array(tmp_path / "a", shape=(2,), dtype=dtype, fill_value=value, format=format)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("float32", 0.1),
        ("float32", math.inf),
        ("float32", "NaN"),
        ("bool", 1),
        ("int64", 2.0**53),
        ("uint64", 2**64 - 1),
        ("complex64", 1 + 2j),
    ],
)
def test_a_fill_value_is_what_the_type_holds(tmp_path, dtype, value):
    array = cw.create_array(tmp_path / "a", shape=(2,), dtype=dtype, fill_value=value)
    expected = np.array([float(value) if isinstance(value, str) else value] * 2, dtype)
    np.testing.assert_array_equal(array.read().result(), expected)
