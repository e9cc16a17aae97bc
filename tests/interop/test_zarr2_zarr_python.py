"""Zarr v2 against zarr-python, both ways, over random metadata."""

import json

import numcodecs
import numpy as np
import pytest
import zarr
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import chunkwise as ts
from chunkwise.cli.main import main
from chunkwise.errors import CodecError

SIMPLE = [
    *(
        "|b1",
        "|i1",
        "|u1",
        "<i2",
        ">i2",
        "<u2",
        ">u2",
        "<i4",
        ">i4",
        "<u4",
        ">u4",
        "<i8",
        ">i8",
        "<u8",
        ">u8",
    ),
    *("<f2", ">f2", "<f4", ">f4", "<f8", ">f8", "<c8", ">c8", "<c16", ">c16"),
    *("|S1", "|S5", "<U3", ">U3", "|V6"),
    *("<M8[ns]", ">M8[D]", "<M8[10ms]", "<M8[Y]", "<m8[s]", ">m8[us]", "<m8[25us]"),
]
STRUCTURED = [
    [("a", "<i4"), ("b", "|u1")],
    [("a", ">f4"), ("b", "|S3"), ("c", "<u2")],
    [("t", "<f8"), ("u", "<U2"), ("v", "|b1")],
]
COMPRESSORS = [
    None,
    numcodecs.Zlib(1),
    numcodecs.GZip(1),
    numcodecs.BZ2(1),
    numcodecs.LZMA(),
    numcodecs.LZMA(preset=1),
    numcodecs.LZ4(),
    numcodecs.Zstd(1),
    numcodecs.Zstd(3, checksum=True),
    numcodecs.Blosc("lz4", 5, 1),
    numcodecs.Blosc("zstd", 3, 2),
    numcodecs.Blosc("blosclz", 1, 0),
    numcodecs.Blosc("lz4hc", 9, -1, 64),
    numcodecs.Blosc("zlib", 1, 1),
]


def _filters(dtype):
    n, kind, text = dtype.itemsize, dtype.kind, dtype.str
    found = [None, None]
    if kind in "iu":
        found += [
            [numcodecs.Delta(text)],
            [numcodecs.Shuffle(n)],
            [numcodecs.Delta(text), numcodecs.CRC32()],
            [numcodecs.Adler32()],
            [numcodecs.Fletcher32()],
            [numcodecs.JenkinsLookup3()],
            [numcodecs.Base64()],
        ]
        if n < 8:
            found.append([numcodecs.AsType("<i8", text), numcodecs.Delta("<i8", "<i8")])
    if kind == "f" and n > 2:
        found += [
            [numcodecs.FixedScaleOffset(1, 10, text, "<i4")],
            [numcodecs.Quantize(2, text)],
            [numcodecs.Shuffle(n)],
        ]
        if dtype.isnative:
            found.append([numcodecs.BitRound(4)])
    if kind == "b":
        found.append([numcodecs.PackBits()])
    return found


def _fill_values(dtype):
    kind = dtype.kind
    if kind in "iu":
        return [None, 0, int(np.iinfo(dtype).max), int(np.iinfo(dtype).min)]
    if kind in "mM":
        native = dtype.newbyteorder("=")
        return [None, np.array("NaT", native)[()], np.array(5, "i8").view(native)[()]]
    return {
        "b": [None, True, False],
        "f": [None, 0.0, -0.0, 1.5, float("nan"), float("inf"), -float("inf")],
        "c": [None, complex(1, -2), complex(float("nan"), float("inf"))],
        "S": [None, b"", b"a"],
        "U": [None, "", "é"],
        "V": [None] if dtype.names is None else [np.zeros((), dtype)[()]],
    }[kind]


@st.composite
def _cases(draw):
    dtype = np.dtype(draw(st.one_of(st.sampled_from(SIMPLE), st.sampled_from(STRUCTURED))))
    filters = draw(st.sampled_from(_filters(dtype)))
    # zarr-python gives a scalar of another type for rank 0 and text
    rank = draw(st.integers(1 if dtype.kind in "SU" else 0, 3))
    return {
        "shape": tuple(draw(st.integers(0, 7)) for _ in range(rank)),
        "chunks": tuple(draw(st.integers(1, 5)) for _ in range(rank)),
        "dtype": dtype,
        "filters": filters,
        "compressors": draw(st.sampled_from(COMPRESSORS)),
        "fill_value": draw(st.sampled_from(_fill_values(dtype))),
        "order": draw(st.sampled_from("CF")),
        "chunk_key_encoding": {"name": "v2", "separator": draw(st.sampled_from("./"))},
    }


def _spec(path, **members):
    return {
        "driver": "zarr",
        "kvstore": {"driver": "file", "path": f"{path}/", "file_io_sync": False},
        **members,
    }


def _is_lossy(case):
    return bool(case["filters"]) and case["filters"][0].codec_id in (
        "fixedscaleoffset",
        "quantize",
        "bitround",
    )


def _check(case, seed, fresh, values_of, same_bits):
    rng = np.random.default_rng(seed)
    dtype, shape = case["dtype"], case["shape"]

    def random():
        return rng.random(shape).astype(dtype) * 100 if _is_lossy(case) else values_of(rng, dtype, shape)

    # they write, we read; of some arrays not all chunks are there
    theirs = fresh()
    zarr.create_array(theirs, zarr_format=2, **case)
    peer = zarr.open_array(theirs, mode="r+")
    part = tuple(slice(0, n // 2 + 1) for n in shape) if seed % 2 else ...
    peer[part] = random()[part]
    ours = ts.open(_spec(theirs)).result()
    same_bits(ours.read().result(), zarr.open_array(theirs, mode="r")[...])
    assert ours.read().result().dtype == dtype.newbyteorder("=")
    # we change a part of it, they read
    native = dtype.newbyteorder("=")
    inner = tuple(slice(n // 3, n - n // 4) for n in shape)
    values = random().astype(native)
    ours[(*inner, ...)] = values[(*inner, ...)]
    same_bits(ours.read().result(), zarr.open_array(theirs, mode="r")[...])
    # we overwrite all of it
    ours[...] = values
    same_bits(ours.read().result(), zarr.open_array(theirs, mode="r")[...])
    if not _is_lossy(case):
        same_bits(ours.read().result(), values)
    # we make an array like it, they read
    document = json.loads((theirs / ".zarray").read_text())
    mine = fresh()
    store = ts.open(_spec(mine, metadata=document), create=True).result()
    store[...] = values
    same_bits(zarr.open_array(mine, mode="r")[...], zarr.open_array(theirs, mode="r")[...].astype(native))
    stored = json.loads((mine / ".zarray").read_text())
    if dtype.kind == "S" and stored["fill_value"] is not None:  # they cut off zeros
        stored["fill_value"] = document["fill_value"]
    assert stored == document


BASE = settings(
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@settings(BASE, max_examples=examples(80))
@given(case=_cases(), seed=st.integers(0, 2**32))
def test_random_arrays(case, seed, fresh, values_of, same_bits):
    _check(case, seed, fresh, values_of, same_bits)


@pytest.mark.slow
@settings(BASE, max_examples=examples(1500))
@given(case=_cases(), seed=st.integers(0, 2**32))
def test_many_random_arrays(case, seed, fresh, values_of, same_bits):
    _check(case, seed, fresh, values_of, same_bits)


@pytest.mark.each_once
@pytest.mark.parametrize("dtype", [*SIMPLE, "<M8", ">m8"])
@pytest.mark.parametrize("order", "CF")
def test_every_type(dtype, order, fresh, values_of, same_bits):
    case = {
        "shape": (5, 4),
        "chunks": (2, 3),
        "dtype": np.dtype(dtype),
        "filters": None,
        "compressors": numcodecs.Zstd(1),
        "fill_value": None,
        "order": order,
    }
    _check(case, 1, fresh, values_of, same_bits)


@pytest.mark.parametrize("codec", ["vlen-utf8", "vlen-bytes"])
@pytest.mark.parametrize("compressor", [None, numcodecs.Zstd(1)])
def test_objects_of_variable_length(codec, compressor, fresh, same_bits):
    """Text and bytes of any length, through the codecs that zarr-python chooses for them."""
    theirs = fresh()
    dtype = "string" if codec == "vlen-utf8" else zarr.dtype.VariableLengthBytes()
    peer = zarr.create_array(
        theirs, shape=(5, 3), chunks=(2, 2), dtype=dtype, zarr_format=2, compressors=compressor
    )
    words = ["", "a", "日本語", "x" * 300, "é\U0001f600"]
    words = words if codec == "vlen-utf8" else [w.encode() for w in words]
    values = np.empty((5, 3), object)
    values[...] = [[w] * 3 for w in words]
    peer[:4] = values[:4]
    document = json.loads((theirs / ".zarray").read_text())
    assert document["filters"] == [{"id": codec}]
    store = ts.open(_spec(theirs)).result()
    assert store.dtype == (ts.ustring if codec == "vlen-utf8" else ts.string)
    assert store[:4].read().result().tolist() == values[:4].tolist()
    store[1:, 1] = values[::-1][1:, 1]
    values[1:, 1] = values[::-1][1:, 1].copy()
    values[4, [0, 2]] = words[0]
    assert zarr.open_array(theirs, mode="r")[...].tolist() == values.tolist()
    mine = fresh()
    copy = ts.open(_spec(mine), create=True, dtype=store.dtype, shape=(5, 3)).result()
    copy[...] = values
    assert zarr.open_array(mine, mode="r")[...].tolist() == values.tolist()


def _by_hand(path, filters, chunks, fill_value):
    """Write an array of objects, two to a chunk, as zarr-python 2 did; version 3 writes none of these."""
    path.mkdir(parents=True, exist_ok=True)
    document = {"zarr_format": 2, "shape": [2 * len(chunks)], "chunks": [2], "dtype": "|O", "order": "C"}
    document |= {"filters": filters, "compressor": None, "fill_value": fill_value}
    (path / ".zarray").write_text(json.dumps(document))
    for i, chunk in enumerate(chunks):
        if chunk is not None:
            (path / str(i)).write_bytes(chunk)
    return document


def _objects(*values):
    out = np.empty(len(values), object)
    for i, value in enumerate(values):
        out[i] = value
    return out


@pytest.mark.parametrize("dtype", ["<i4", ">u2", "<f8"])
@pytest.mark.parametrize("fill_value", [None, 0])
def test_ragged_arrays(dtype, fill_value, fresh, capsys):
    """Each element is an array of any length; NumCodecs is the peer."""
    codec = numcodecs.VLenArray(dtype)
    rows = _objects(np.array([1, 2], dtype), np.array([], dtype))
    theirs, mine = fresh(), fresh()
    document = _by_hand(theirs, [codec.get_config()], [codec.encode(rows), None], fill_value)
    store = ts.open(_spec(theirs)).result()
    assert store.dtype == ts.json
    found = store.read().result().tolist()
    assert [x.tolist() for x in found[:2]] == [[1, 2], []] and found[2:] == [fill_value] * 2
    assert found[0].dtype == np.dtype(dtype).newbyteorder("=")
    store[1:3] = _objects(np.array([7, 8], "u1"), [9])
    store[3] = []
    assert [x.tolist() for x in codec.decode((theirs / "0").read_bytes())] == [[1, 2], [7, 8]]
    assert [x.tolist() for x in codec.decode((theirs / "1").read_bytes())] == [[9], []]
    if dtype != "<f8":
        with pytest.raises(CodecError, match="has no equal of data type"):
            store[0] = [2**31]
        with pytest.raises(CodecError, match="has no equal of data type"):
            store[0] = [0.5]
    copy = ts.open(_spec(mine, metadata=document), create=True).result()
    copy[...] = store.read().result()
    assert main(["diff", str(theirs), str(mine)]) == 0
    assert main(["cp", "--verify", str(theirs), f"{mine}-copy.zarr"]) == 0
    assert main(["slice", "--json", str(mine)]) == 0
    out = capsys.readouterr().out
    assert json.loads(out[out.index("{") :])["values"] == [[1, 2], [7, 8], [9], []]
    copy[2] = [10]
    assert main(["diff", str(theirs), str(mine)]) == 1


def test_records_with_gaps(fresh, same_bits):
    """zarr-python 2 wrote the bytes between aligned fields as fields without a name, as NumPy does."""
    aligned = np.dtype([("a", "i1"), ("b", "<f8"), ("c", "<u2")], align=True)
    values = np.array([(1, 2.5, 3), (-4, 0.5, 6)], aligned)
    path = fresh()
    document = _by_hand(path, None, [values.tobytes()], None)
    document["dtype"] = [list(field) for field in aligned.descr]
    (path / ".zarray").write_text(json.dumps(document))
    ours = ts.open(_spec(path)).result()
    found, peer = ours.read().result(), zarr.open_array(path, mode="r+")
    same_bits(found, peer[...])
    assert all(np.array_equal(found[name], values[name]) for name in aligned.names)
    ours.resize(exclusive_max=[4]).result()[2:] = found[::-1]
    assert zarr.open_array(path)[2:]["b"].tolist() == [0.5, 2.5]
    assert json.loads((path / ".zarray").read_text())["dtype"] == document["dtype"]


def test_categorized_objects(fresh):
    codec = numcodecs.Categorize(["a", "é"], dtype=object)
    theirs = fresh()
    _by_hand(theirs, [codec.get_config()], [bytes(codec.encode(_objects("é", "other"))), None], "")
    store = ts.open(_spec(theirs)).result()
    assert store.dtype == ts.ustring and store.read().result().tolist() == ["é", "", "", ""]
    store[1:3] = ["a", "é"]
    assert codec.decode(np.frombuffer((theirs / "0").read_bytes(), "u1")).tolist() == ["é", "a"]
    assert codec.decode(np.frombuffer((theirs / "1").read_bytes(), "u1")).tolist() == ["é", ""]


def test_attributes_outlive_a_resize(fresh):
    theirs = fresh()
    peer = zarr.create_array(
        theirs, shape=(5,), chunks=(2,), dtype="i4", zarr_format=2, attributes={"a": [1]}
    )
    peer[:] = range(5)
    store = ts.open(_spec(theirs)).result().resize(exclusive_max=[9]).result()
    store[5:] = range(4)
    again = zarr.open_array(theirs, mode="r")
    assert again[:].tolist() == [0, 1, 2, 3, 4, 0, 1, 2, 3] and dict(again.attrs) == {"a": [1]}


def test_members_that_nobody_knows_are_kept(fresh):
    """TensorStore ignores them; they survive a resize."""
    theirs = fresh()
    zarr.create_array(theirs, shape=(5,), chunks=(2,), dtype="i4", zarr_format=2)
    path = theirs / ".zarray"
    path.write_text(json.dumps({**json.loads(path.read_text()), "extra": {"x": 1}}))
    store = ts.open(_spec(theirs)).result()
    assert "extra" not in store.spec().to_json()["metadata"]
    store.resize(exclusive_max=[7]).result()
    document = json.loads(path.read_text())
    assert document["extra"] == {"x": 1} and document["shape"] == [7]
