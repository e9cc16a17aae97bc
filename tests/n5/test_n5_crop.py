"""End blocks written cropped, as n5-java and z5py write them: smaller, and read by everybody."""

from __future__ import annotations

import struct

import numpy as np
import pytest
import tensorstore
import z5py

import chunkwise as ts

COMPRESSIONS = ["raw", "gzip", "lz4", "zstd"]


def _spec(path, **members):
    return {"driver": "n5", "kvstore": f"file://{path}/", **members}


def _dims(path):
    return struct.unpack(">II", path.read_bytes()[4:12])


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_cropped_blocks(compression, tmp_path):
    metadata = {
        "compression": {"type": compression},
        "blockSize": [4, 3],
        "dimensions": [10, 7],
        "dataType": "int32",
    }
    ts.create_container(tmp_path / "c.n5")
    spec = _spec(tmp_path / "c.n5/x", metadata=metadata, crop_end_blocks=True)
    store = ts.open(spec, create=True).result()
    values = np.arange(1, 71, dtype=np.int32).reshape(10, 7)
    store[...] = values
    sizes = {cell: _dims(tmp_path / f"c.n5/x/{cell[0]}/{cell[1]}") for cell in np.ndindex(3, 3)}
    assert sizes == {(i, j): (4 if i < 2 else 2, 3 if j < 2 else 1) for i, j in np.ndindex(3, 3)}
    np.testing.assert_array_equal(ts.open(_spec(tmp_path / "c.n5/x")).result().read().result(), values)
    if compression != "lz4":
        np.testing.assert_array_equal(
            tensorstore.open(_spec(tmp_path / "c.n5/x")).result().read().result(), values
        )
    if compression in ("raw", "gzip"):
        with z5py.File(str(tmp_path / "c.n5"), mode="r", use_zarr_format=False) as root:
            np.testing.assert_array_equal(root["x"][...], values.T)
    assert store.spec().to_json()["crop_end_blocks"] is True
    padded = ts.open(_spec(tmp_path / "c.n5/x")).result()
    padded[9, 6] = -1
    assert _dims(tmp_path / "c.n5/x/2/2") == (4, 3)
    store[9, 6] = -2
    assert _dims(tmp_path / "c.n5/x/2/2") == (2, 1)


def test_what_a_writer_with_a_larger_shape_stored_is_kept(tmp_path):
    """A handle that does not know of a resize cuts nothing off that isn't zero."""
    spec = _spec(tmp_path, metadata={"blockSize": [8]}, crop_end_blocks=True)
    old = ts.open(spec, create=True, dtype="float32", shape=[3]).result()
    new = ts.open(spec).result().resize(exclusive_max=[6]).result()
    new[5] = -0.0  # zero, but not to the bit
    old[1] = 2
    got = ts.open(spec).result().read().result()
    assert got.tolist() == [0, 2, 0, 0, 0, 0] and np.signbit(got[5])
    new[5] = 0.0
    old[1] = 3
    assert ts.open(spec).result().read().result().tolist() == [0, 3, 0, 0, 0, 0]
    assert struct.unpack(">I", (tmp_path / "0").read_bytes()[4:8]) == (3,)


def test_text(tmp_path):
    spec = _spec(tmp_path, metadata={"blockSize": [4]}, crop_end_blocks=True)
    store = ts.open(spec, create=True, dtype="ustring", shape=[6]).result()
    store[...] = np.array(list("abcdef"), object)
    assert ts.open(_spec(tmp_path)).result().read().result().tolist() == list("abcdef")
    assert struct.unpack(">I", (tmp_path / "1").read_bytes()[4:8]) == (2,)
