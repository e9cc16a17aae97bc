"""N5 against z5py, both ways.  z5py indexes arrays with the axes the other way round."""

import json

import numpy as np
import pytest
import z5py

import chunkwise as ts

DTYPES = [*("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"), "float32", "float64"]
COMPRESSIONS = ["raw", "gzip", "bzip2", "xz", "lz4", "blosc", "zstd"]


def _spec(path, **members):
    return {
        "driver": "n5",
        "kvstore": {"driver": "file", "path": f"{path}/", "file_io_sync": False},
        **members,
    }


@pytest.mark.each_once
@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_reading_what_z5py_wrote_and_changing_it(dtype, compression, fresh, values_of, same_bits):
    rng = np.random.default_rng(5)
    path = fresh()
    values = values_of(rng, dtype, (5, 7, 6))
    dataset = z5py.File(str(path), mode="w").create_dataset(
        "a", shape=(5, 7, 6), chunks=(2, 4, 3), dtype=dtype, compression=compression
    )
    dataset[:] = values
    dataset.attrs["unit"] = {"a": [1, "é"]}
    store = ts.open(_spec(path / "a")).result()
    same_bits(store.T.read().result(), values)
    if compression == "lz4":  # of which z5py reads only a form of its own
        return
    changed = values_of(rng, dtype, (3, 3, 5))
    store.T[1:4, 2:5, 1:] = changed
    values[1:4, 2:5, 1:] = changed
    again = z5py.File(str(path), mode="r")["a"]
    same_bits(again[:], values)
    # growing leaves cropped blocks inside the array, which z5py misreads: it is to be a zero
    grown = store.resize(exclusive_max=[5, 9, 5]).result()
    assert z5py.File(str(path), mode="r")["a"].attrs["unit"] == {"a": [1, "é"]}
    want = np.zeros((5, 9, 5), dtype)
    want[:, :7] = values[:, :, :5]
    same_bits(grown.T.read().result(), want)
    grown.resize(exclusive_max=[3, 7, 2]).result()
    again = z5py.File(str(path), mode="r")["a"]
    assert again.shape == (2, 7, 3)
    same_bits(again[:], values[:2, :, :3])


@pytest.mark.each_once
@pytest.mark.parametrize("compression", [c for c in COMPRESSIONS if c != "lz4"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_z5py_reads_what_we_wrote(dtype, compression, fresh, values_of, same_bits):
    path = fresh()
    options = {"cname": "lz4", "clevel": 5, "shuffle": 1} if compression == "blosc" else {}
    metadata = {
        "dimensions": [6, 7, 5],
        "blockSize": [3, 4, 2],
        "dataType": dtype,
        "compression": {"type": compression, **options},
    }
    values = values_of(np.random.default_rng(6), dtype, (6, 7, 5))
    store = ts.open(_spec(path / "a", metadata=metadata), create=True).result()
    (path / "attributes.json").write_text(json.dumps({"n5": "2.0.0"}))
    store[:5] = values[:5]
    values[5] = 0
    same_bits(z5py.File(str(path), mode="r")["a"][:], values.T)


@pytest.mark.parametrize(
    "stored", [{"axes": ["x", "y", "z"]}, {"units": ["nm"]}, {"resolution": [4, 4, 40]}, {"units": "nm"}]
)
def test_axes_and_units_of_another_rank_are_attributes(tmp_path, stored):
    """N5 gives these names no meaning, so z5py opens the dataset too."""
    values = np.arange(15, dtype="int16").reshape(5, 3)
    z5py.File(str(tmp_path / "a.n5"), mode="w").create_dataset(
        "d", data=values.T, chunks=(2, 3)
    ).attrs.update(stored)
    store = ts.open({"driver": "n5", "kvstore": f"file://{tmp_path}/a.n5/d/"}).result()
    np.testing.assert_array_equal(store, values)
    assert store.domain.labels == ("", "") and store.dimension_units == (None, None)
    assert dict(store.attrs) == stored
    store.resize(exclusive_max=[4, 3]).result()
    (name, value), *_ = stored.items()
    assert z5py.File(str(tmp_path / "a.n5"), mode="r")["d"].attrs[name] == value
    with pytest.raises(ValueError, match=name):
        ts.open({"driver": "n5", "kvstore": f"file://{tmp_path}/a.n5/d/", "metadata": stored}).result()
