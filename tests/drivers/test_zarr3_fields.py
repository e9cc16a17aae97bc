"""One field of a Zarr v3 record, or the bytes of any element, as an array of its own."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tensorstore
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

import chunkwise as ts
from chunkwise.testing.driver_arrays import selections

FIELDS = [["x", "uint8"], ["y", "int32"], ["z", "float64"]]
DTYPE = np.dtype([("x", "u1"), ("y", "<i4"), ("z", "<f8")])
BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
SHARDS = {
    "name": "sharding_indexed",
    "configuration": {
        "chunk_shape": [2, 3],
        "codecs": [BYTES, {"name": "gzip", "configuration": {"level": 1}}],
        "index_codecs": [BYTES, {"name": "crc32c"}],
    },
}
CHAINS = {
    "bytes": [BYTES],
    "zstd F": [
        {"name": "transpose", "configuration": {"order": [1, 0]}},
        BYTES,
        {"name": "zstd", "configuration": {"level": 1, "checksum": False}},
    ],
    "shards": [SHARDS],
}
SHAPE = (7, 5)


def _document(codecs, **members):
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(SHAPE),
        "data_type": {"name": "structured", "configuration": {"fields": FIELDS}},
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 3]}},
        "chunk_key_encoding": {"name": "default"},
        "fill_value": "AwcAAAAAAAAAAADwPw==",
        "codecs": codecs,
        **members,
    }


def _put(path, document):
    path.mkdir(exist_ok=True)
    (path / "zarr.json").write_text(json.dumps(document))
    return {"driver": "zarr3", "kvstore": f"file://{path}/"}


FILL = np.frombuffer(b"\x03\x07\0\0\0" + np.float64(1).tobytes(), DTYPE)[0]


@pytest.mark.parametrize("chain", list(CHAINS))
def test_fields(chain, tmp_path):
    """Writing one field leaves the others as they are; TensorStore sees the same."""
    spec = _put(tmp_path, _document(CHAINS[chain]))
    model = np.full(SHAPE, FILL, DTYPE)
    for name in ("y", "z", "x"):
        field = ts.open({**spec, "field": name}).result()
        assert field.dtype == DTYPE[name].name and field.fill_value == FILL[name]
        np.testing.assert_array_equal(field.read().result(), model[name])
        values = (np.arange(12).reshape(3, 4) * 5 + len(name)).astype(DTYPE[name])
        field[2:5, 1:] = values
        model[name][2:5, 1:] = values
        for other in ("x", "y", "z"):
            np.testing.assert_array_equal(
                ts.open({**spec, "field": other}).result().read().result(), model[other]
            )
    whole = ts.open(spec).result().read().result()
    assert whole.tobytes() == model.tobytes()
    field = ts.open({**spec, "field": "y"}).result()
    again = ts.open(ts.Spec(field.spec().to_json())).result()
    assert again.domain == field.domain and again.spec().to_json()["field"] == "y"
    peer_spec = {**spec, "field": "y"}
    try:
        peer = tensorstore.open(peer_spec).result()
    except ValueError:
        assert chain == "shards"  # TensorStore has no records in shards
        return
    np.testing.assert_array_equal(peer.read().result(), model["y"])
    peer[0, 0] = 99
    assert field[0, 0].read().result() == 99
    assert field.schema.rank == 2 and field.chunk_layout.write_chunk.shape == (4, 3)


@settings(max_examples=examples(20), deadline=None, derandomize=True, database=None)
@given(data=st.data())
def test_any_selection(data):
    """Random writes of random fields agree with a NumPy array of records."""
    context = ts.Context()
    spec = {"driver": "zarr3", "kvstore": "memory://a/", "metadata": _document(CHAINS["zstd F"])}
    ts.open(spec, create=True, context=context).result()
    model = np.full(SHAPE, FILL, DTYPE)
    for step in range(4):
        name = data.draw(st.sampled_from(["x", "y", "z"]))
        field = ts.open({**spec, "field": name}, context=context).result()
        selection = data.draw(selections(SHAPE))
        numbers = np.arange(model.size).reshape(SHAPE)
        chosen = np.asarray(selection.of_array(numbers))
        values = (np.arange(chosen.size) + step * 7).astype(DTYPE[name]).reshape(chosen.shape)
        selection.of_store(field).write(values).result()
        model[name].reshape(-1)[chosen.reshape(-1)] = values.reshape(-1)
        got = ts.open({**spec, "field": name}, context=context).result().read().result()
        np.testing.assert_array_equal(got, model[name])


@pytest.mark.parametrize("chain", list(CHAINS))
@pytest.mark.parametrize("endian", ["little", "big"])
def test_open_as_void(chain, endian, tmp_path):
    """The bytes that are stored, in the byte order in which they are."""
    codecs = json.loads(
        json.dumps(CHAINS[chain]).replace(
            '"configuration": {"endian": "little"}', f'"configuration": {{"endian": "{endian}"}}'
        )
    )
    if chain == "shards":
        codecs[0]["configuration"]["index_codecs"] = [BYTES, {"name": "crc32c"}]
    for number, data_type, fill in (("plain", "uint16", 258), ("record", None, None)):
        members = {} if data_type is None else {"data_type": data_type, "fill_value": fill}
        spec = _put(tmp_path / number, _document(codecs, **members))
        whole = ts.open(spec).result()
        void = ts.open({**spec, "open_as_void": True}).result()
        stored = whole.dtype.numpy_dtype.newbyteorder(">" if endian == "big" else "<")
        assert void.dtype.name == "byte" and void.shape == (*SHAPE, stored.itemsize)
        assert void.read().result().tobytes() == whole.read().result().astype(stored).tobytes()
        values = np.zeros(SHAPE, whole.dtype.numpy_dtype)
        values.reshape(-1).view("u1")[:] = np.arange(values.nbytes) % 100
        whole.write(values).result()
        assert void.read().result().tobytes() == values.astype(stored).tobytes()
        void[1, 2, 0] = b"\x55"
        raw = values.astype(stored)
        raw.view("u1").reshape(*SHAPE, -1)[1, 2, 0] = 0x55
        assert whole.read().result().astype(stored).tobytes() == raw.tobytes()
        assert void.domain.implicit_upper_bounds == (True, True, False)


def test_created_and_resized(tmp_path):
    metadata = {
        "data_type": {"name": "structured", "configuration": {"fields": FIELDS}},
        "fill_value": "AwcAAAAAAAAAAADwPw==",
    }
    spec = {"driver": "zarr3", "kvstore": f"file://{tmp_path}/", "metadata": metadata, "field": "z"}
    store = ts.open(spec, create=True, shape=[4, 4], dimension_units=["4nm", None]).result()
    assert store.dtype.name == "float64" and store.dimension_units == (ts.Unit("4nm"), None)
    with pytest.raises(ValueError, match=r"resize_tied_bounds"):
        store.resize(exclusive_max=[5, 5]).result()
    store = store.resize(exclusive_max=[5, 5], resize_tied_bounds=True).result()
    assert ts.open(str(tmp_path)).result().shape == (5, 5)
    with pytest.raises(ValueError, match="dtype"):
        ts.open({**spec, "dtype": "int8"}).result()


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"field": "q"}, "not one of"),
        ({"field": "x", "open_as_void": True}, "mutually exclusive"),
        ({"field": 5}, "field"),
    ],
    ids=str,
)
def test_what_is_refused(members, message, tmp_path):
    spec = _put(tmp_path, _document([BYTES]))
    with pytest.raises(ValueError, match=message):
        ts.open({**spec, **members}).result()
    plain = _put(tmp_path / "p", _document([BYTES], data_type="uint8", fill_value=0))
    with pytest.raises(ValueError, match="does not have named fields"):
        ts.open({**plain, "field": "x"}).result()
    text = _put(tmp_path / "t", _document(["vlen-utf8"], data_type="string", fill_value=""))
    with pytest.raises(NotImplementedError, match="fixed size"):
        ts.open({**text, "open_as_void": True}).result()
    bits = _put(tmp_path / "b", _document(["packbits"], data_type="bool", fill_value=False))
    with pytest.raises(NotImplementedError, match="packbits"):
        ts.open({**bits, "open_as_void": True}).result()
